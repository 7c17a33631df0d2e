/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef _SHIM_LINUX_BUILD_BUG_H
#define _SHIM_LINUX_BUILD_BUG_H

#include <assert.h>
#include <stdlib.h>

#undef static_assert
#define static_assert(expr, ...)	_Static_assert(expr, #expr)

/* What cannot happen, or the wheel is not a wheel any more. */
#define WARN_ON_ONCE(condition)	do {	\
	if (condition)			\
		abort();		\
} while (0)

#endif /* _SHIM_LINUX_BUILD_BUG_H */
