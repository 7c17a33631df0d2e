/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef _SHIM_LINUX_MM_TYPES_H
#define _SHIM_LINUX_MM_TYPES_H

/* Only in declarations of what is not used here. */
struct page;
#define pgoff_t		unsigned long

#endif /* _SHIM_LINUX_MM_TYPES_H */
