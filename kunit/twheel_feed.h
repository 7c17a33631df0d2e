/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random decisions for the models of the wheel, and how they choose times. The feed is either
 * the input of a fuzzer, or the output of a random number generator.
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

/* Returns a byte, or zero at the end of the feed. */
static inline unsigned int feed_byte(struct feed *f)
{
	if (f->random)
		return feed_random(f) >> 56;
	return f->at == f->end ? 0 : *f->at++;
}

/* Returns a number below @end, which is at most 65536. */
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
 * Returns a distance in ns: a few ticks, a power of two or one ns beside it (where ticks and
 * levels have their borders), or any number, usually below 2^(@shift + 40).
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

/* Adds without passing the end of time; "now" is before the last moment. */
static inline u64 feed_after(u64 time, u64 distance)
{
	return distance < WHEEL_NEVER - 1 - time ? time + distance : WHEEL_NEVER - 1;
}

static inline u64 feed_before(u64 time, u64 distance)
{
	return distance < time ? time - distance : 0;
}

/* Returns a time at which a wheel may start: 0, near a counter's end, or any other. */
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

/* Returns any shape. Large ones are rare, because they take long to make. */
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
 * The contract of wheel_add(): returns the tick at which a deadline expires. That is the first
 * tick that starts at the deadline or later. With slack it is the first border after that of
 * the coarsest level whose buckets are not wider than the slack, unless time ends before.
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

/* Returns when @tick starts. */
static inline u64 contract_start(const struct wheel_shape *shape, u64 tick)
{
	return tick > U64_MAX >> shape->shift ? WHEEL_NEVER : tick << shape->shift;
}

#endif /* _TWHEEL_FEED_H */
