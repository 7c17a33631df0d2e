/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef _SHIM_LINUX_MINMAX_H
#define _SHIM_LINUX_MINMAX_H

#include <assert.h>

/* Like the kernel's, these refuse to compare operands of different types. */
#define __shim_pick(x, op, y, _x, _y) ({				\
	__auto_type _x = (x);						\
	__auto_type _y = (y);						\
									\
	static_assert(__builtin_types_compatible_p(typeof(_x), typeof(_y)), \
		      "operands of different types");			\
	_x op _y ? _x : _y; })

#define min(x, y)	__shim_pick(x, <, y, _min_x, _min_y)
#define max(x, y)	__shim_pick(x, >, y, _max_x, _max_y)
#define min_t(type, x, y)	min((type)(x), (type)(y))

#endif /* _SHIM_LINUX_MINMAX_H */
