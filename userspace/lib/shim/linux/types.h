/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The headers here have what twheel.c, twheel_word.c, twheel_timers.c and the suites of
 * kunit/ need of the kernel's headers. So these files compile unchanged in user space.
 */
#ifndef _SHIM_LINUX_TYPES_H
#define _SHIM_LINUX_TYPES_H

#include_next <linux/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef __u64 u64;
typedef __s64 s64;
typedef __u32 u32;
typedef __s32 s32;
typedef __u8 u8;

#define noinline	__attribute__((__noinline__))

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

#endif /* _SHIM_LINUX_TYPES_H */
