/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the wheel core needs of the kernel's header of this name, so that it
 * compiles unchanged in user space. The same holds for all headers here.
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

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

#endif /* _SHIM_LINUX_TYPES_H */
