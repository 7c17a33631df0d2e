/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What twheel_slots.c needs of the kernel's header of this name, beyond what
 * ../../include has for twheel.c, and ../../../lib/include for twheel_timers.c.
 * The same holds for all headers here. Memory comes from memory.c.
 */
#ifndef _SHIM_LINUX_GFP_H
#define _SHIM_LINUX_GFP_H

#include <stddef.h>

#define GFP_KERNEL_ACCOUNT	0
#define __GFP_RETRY_MAYFAIL	0
#define __GFP_NOWARN		0

#define PAGE_SHIFT		12
#define PAGE_SIZE		(1UL << PAGE_SHIFT)
#define PAGE_ALIGN(size)	(((size) + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1))

/* How many allocations there are now. */
extern unsigned long memory_used;
/* How many will succeed before one fails; ~0: all. */
extern unsigned long memory_left;

unsigned long get_zeroed_page(int gfp);
void free_page(unsigned long page);

#endif /* _SHIM_LINUX_GFP_H */
