/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef _SHIM_LINUX_BITOPS_H
#define _SHIM_LINUX_BITOPS_H

#include <linux/types.h>

#define BIT_ULL(nr)		(1ULL << (nr))
#define BITS_PER_LONG		(8 * sizeof(long))
#define BITS_TO_LONGS(nr)	(((nr) + BITS_PER_LONG - 1) / BITS_PER_LONG)

/* Position of the last bit set, from 0 on; @x is not 0. */
static inline unsigned int __fls(unsigned long x)
{
	return BITS_PER_LONG - 1 - __builtin_clzl(x);
}

/* The same from 1 on; 0 if there is none. */
static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

/* Position of the first bit set, from 0 on; @x is not 0. */
static inline unsigned int __ffs64(u64 x)
{
	return __builtin_ctzll(x);
}

static inline void __set_bit(unsigned int nr, unsigned long *map)
{
	map[nr / BITS_PER_LONG] |= 1UL << nr % BITS_PER_LONG;
}

static inline void __clear_bit(unsigned int nr, unsigned long *map)
{
	map[nr / BITS_PER_LONG] &= ~(1UL << nr % BITS_PER_LONG);
}

static inline bool test_bit(unsigned int nr, const unsigned long *map)
{
	return map[nr / BITS_PER_LONG] >> nr % BITS_PER_LONG & 1;
}

/* Atomic. */
static inline void set_bit(unsigned int nr, unsigned long *map)
{
	__atomic_fetch_or(&map[nr / BITS_PER_LONG], 1UL << nr % BITS_PER_LONG, __ATOMIC_SEQ_CST);
}

/* The first bit set from @from on, or @size if there is none below it. */
static inline unsigned long find_next_bit(const unsigned long *map, unsigned long size,
					  unsigned long from)
{
	unsigned long nr = from / BITS_PER_LONG;
	unsigned long word;

	if (from >= size)
		return size;

	word = map[nr] & ~0UL << from % BITS_PER_LONG;
	while (!word) {
		if (++nr >= BITS_TO_LONGS(size))
			return size;
		word = map[nr];
	}
	nr = nr * BITS_PER_LONG + __builtin_ctzl(word);
	return nr < size ? nr : size;
}

#endif /* _SHIM_LINUX_BITOPS_H */
