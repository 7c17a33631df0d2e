/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SHIM_LINUX_MM_H
#define _SHIM_LINUX_MM_H

#include <linux/gfp.h>
#include <linux/bitops.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mm_types.h>

/* A page is known by its address. */
#define virt_to_page(address)	((struct page *)(void *)(address))

#define cond_resched()		do { } while (0)

#define DIV_ROUND_UP(n, size)	(((n) + (size) - 1) / (size))
#define round_down(n, size)	((n) & ~((size) - 1))

#define swap(a, b)	do {		\
	typeof(a) _a = (a);		\
					\
	(a) = (b);			\
	(b) = _a;			\
} while (0)

#endif /* _SHIM_LINUX_MM_H */
