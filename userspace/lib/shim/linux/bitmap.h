/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef _SHIM_LINUX_BITMAP_H
#define _SHIM_LINUX_BITMAP_H

#include <string.h>

#include <linux/bitops.h>

static inline bool bitmap_empty(const unsigned long *map, unsigned int size)
{
	return find_next_bit(map, size, 0) == size;
}

/* Sets the bits of whole words. */
static inline void bitmap_fill(unsigned long *map, unsigned int size)
{
	memset(map, 0xff, BITS_TO_LONGS(size) * sizeof(*map));
}

#endif /* _SHIM_LINUX_BITMAP_H */
