/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is random, of the models of the wheel: where their decisions come from, and how they
 * pick times. The feed is the input of a fuzzer, or the numbers of a generator.
 */
#ifndef _TWHEEL_FEED_H
#define _TWHEEL_FEED_H

#include <linux/limits.h>
#include <linux/types.h>

#include "twheel.h"

/**
 * struct feed - decisions
 * @at: the next byte
 * @end: behind the last
 * @random: state of the generator that is used instead of bytes, or 0
 */
struct feed {
	const unsigned char *at;
	const unsigned char *end;
	u64 random;
};

static inline bool feed_over(const struct feed *f)
{
	return !f->random && f->at == f->end;
}

static inline u64 feed_random(struct feed *f)
{
	f->random ^= f->random << 13;
	f->random ^= f->random >> 7;
	f->random ^= f->random << 17;
	return f->random;
}

/* A byte; zeroes when the feed is over. */
static inline unsigned int feed_byte(struct feed *f)
{
	if (f->random)
		return feed_random(f) >> 56;
	return f->at == f->end ? 0 : *f->at++;
}

/* A number below @end, which is at most 65536. */
static inline unsigned int feed_below(struct feed *f, unsigned int end)
{
	unsigned int value = feed_byte(f);

	if (end > 256)
		value = value << 8 | feed_byte(f);
	return value % end;
}

static inline u64 feed_u64(struct feed *f)
{
	u64 value = 0;
	unsigned int i;

	if (f->random)
		return feed_random(f);
	for (i = 0; i < 8; i++)
		value = value << 8 | feed_byte(f);
	return value;
}

/*
 * A distance in ns: a few ticks, a power of two or one ns beside it (there the
 * borders of ticks and levels are), or anything; mostly below 2^(@shift + 40).
 */
static inline u64 feed_distance(struct feed *f, unsigned int shift)
{
	unsigned int kind = feed_byte(f);
	unsigned int order = kind & 63;

	if (order > shift + 40 && feed_byte(f))
		order = shift + (order & 31);
	order = order > 63 ? 63 : order;
	switch (kind >> 6) {
	case 0:
		return (u64)(kind & 63) << shift;
	case 1:
		return (1ULL << order) - 1 + feed_below(f, 3);
	case 2:
		return ((1ULL << order) - 1 + feed_below(f, 3)) * (1 + feed_below(f, 3));
	default:
		return feed_u64(f) >> (63 - order);
	}
}

/* Times stop at their ends; "now" is before the last. */
static inline u64 feed_after(u64 time, u64 distance)
{
	return distance < WHEEL_NEVER - 1 - time ? time + distance : WHEEL_NEVER - 1;
}

static inline u64 feed_before(u64 time, u64 distance)
{
	return distance < time ? time - distance : 0;
}

/* Any time at which a wheel may start: 0, near a counter's end, or any. */
static inline u64 feed_start(struct feed *f, unsigned int shift)
{
	switch (feed_below(f, 4)) {
	case 0:
		return feed_after(0, feed_distance(f, shift));
	case 1:
		return ((1ULL << 32) - 10) << (shift < 31 ? shift : 31);
	case 2:
		return feed_before(WHEEL_NEVER - 1, feed_distance(f, shift));
	default:
		return feed_u64(f) >> 1;
	}
}

/* Any shape; large ones are rare, as they take long to make. */
static inline struct wheel_shape feed_shape(struct feed *f)
{
	unsigned int most;
	struct wheel_shape shape = {
		.shift = feed_below(f, 64),
		.slot_bits = WHEEL_MIN_SLOT_BITS + feed_below(f, 4),
	};

	if (!feed_below(f, 64))
		shape.slot_bits = WHEEL_MAX_SLOT_BITS - feed_below(f, 9);
	most = wheel_max_levels(shape.shift, shape.slot_bits);
	shape.levels = feed_below(f, 2) ? most : 1 + feed_below(f, most);
	return shape;
}

/*
 * The contract of wheel_add(): the tick at which a deadline expires. The first
 * that begins at the deadline or after; or the first border after that of the
 * coarsest level whose buckets are not wider than the slack, unless time ends
 * before.
 */
static inline u64 contract_tick(const struct wheel_shape *shape, u64 deadline, u64 slack)
{
	u64 tick_ns = 1ULL << shape->shift;
	u64 tick = deadline / tick_ns + !!(deadline % tick_ns);
	u64 width = 1;
	unsigned int level;

	for (level = 1; level < shape->levels; level++) {
		if (slack / tick_ns / width >> shape->slot_bits == 0)
			break;
		width <<= shape->slot_bits;
	}
	if (tick % width && U64_MAX - tick >= width - tick % width)
		tick += width - tick % width;
	return tick;
}

/* When @tick begins. */
static inline u64 contract_start(const struct wheel_shape *shape, u64 tick)
{
	return tick > U64_MAX >> shape->shift ? WHEEL_NEVER : tick << shape->shift;
}

#endif /* _TWHEEL_FEED_H */
