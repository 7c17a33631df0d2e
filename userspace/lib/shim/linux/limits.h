/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef _SHIM_LINUX_LIMITS_H
#define _SHIM_LINUX_LIMITS_H

/* The C library's <limits.h> comes here as well, for PATH_MAX. */
#include_next <linux/limits.h>

#define U32_MAX		(~0U)
#define U64_MAX		(~0ULL)
#define S64_MAX		((long long)(U64_MAX >> 1))

#endif /* _SHIM_LINUX_LIMITS_H */
