/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef _SHIM_LINUX_OVERFLOW_H
#define _SHIM_LINUX_OVERFLOW_H

#define check_add_overflow(a, b, sum)	__builtin_add_overflow(a, b, sum)

#endif /* _SHIM_LINUX_OVERFLOW_H */
