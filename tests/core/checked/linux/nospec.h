/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SHIM_LINUX_CHECKED_NOSPEC_H
#define _SHIM_LINUX_CHECKED_NOSPEC_H

#include <linux/build_bug.h>

/* The caller has checked the bound, and this checks it again. */
#define array_index_nospec(index, size)	({	\
	WARN_ON_ONCE((index) >= (size));	\
	(index); })

#endif /* _SHIM_LINUX_CHECKED_NOSPEC_H */
