/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef _SHIM_LINUX_NOSPEC_H
#define _SHIM_LINUX_NOSPEC_H

/* A process need not hide its memory from itself. */
#define array_index_nospec(index, size)	(index)

#endif /* _SHIM_LINUX_NOSPEC_H */
