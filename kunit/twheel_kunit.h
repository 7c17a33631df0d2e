/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the suites of the wheel share.
 *
 * They turn a wheel like its owner does, from one wheel_next() to the next, and check before
 * each turn that nothing expires early. Times are in ns, and ticks in ticks.
 */
#ifndef _TWHEEL_KUNIT_H
#define _TWHEEL_KUNIT_H

#include <kunit/test.h>
#include <linux/bitops.h>
#include <linux/limits.h>
#include <linux/minmax.h>

#include "twheel.h"
#include "twheel_rows.h"

/*
 * Makes a wheel that lives as long as the test. If there are no @levels, it has as many as are
 * useful.
 */
static inline struct wheel *twheel_kunit_make(struct kunit *test, struct wheel_shape shape,
					      u64 now)
{
	struct wheel *w;
	void *mem;

	if (!shape.levels)
		shape.levels = wheel_max_levels(shape.shift, shape.slot_bits);

	w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, w);
	mem = kunit_kzalloc(test, wheel_bytes(&shape), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, mem);

	wheel_init(w, &shape, mem, now, NULL, NULL);
	return w;
}

/* A budget that no call here can use up. */
#define UNLIMITED	U32_MAX

/* The number of timers where it does not matter. */
#define SCATTERED	100U

struct timer {
	struct wheel_node node;
	u64 tick;
	unsigned int fired;
};

struct shape_row {
	const char *name;
	struct wheel_shape shape;
};

static const struct shape_row shapes[] = {
	{ "64 buckets, all levels, ticks of 2^19 ns", { 19, 6, 0 } },
	{ "512 buckets, one level, as in Netty", { 20, 9, 1 } },
	{ "64 buckets, one level, as in Workerman", { 20, 6, 1 } },
	{ "64 buckets, 3 levels", { 19, 6, 3 } },
	{ "16 buckets, all levels, ticks of 1 ns", { 0, 4, 0 } },
	{ "16 buckets, one level, ticks of 1 ns", { 0, 4, 1 } },
	{ "32 buckets, 2 levels", { 10, 5, 2 } },
	{ "65536 buckets, all levels, ticks of 2^16 ns", { 16, 16, 0 } },
};

ROWS(shape, shapes);

/* Starts again with a wheel that is empty, whose memory is therefore zeroed. */
static inline void restart(struct wheel *w, u64 now)
{
	struct wheel_shape shape = w->shape;

	wheel_init(w, &shape, w->occupied, now, NULL, NULL);
}

static inline struct timer *make_timers(struct kunit *test, unsigned int nr)
{
	struct timer *timers = kunit_kzalloc(test, nr * sizeof(*timers), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, timers);
	return timers;
}

static inline struct timer *timer_of(struct wheel_node *node)
{
	return hlist_entry(node, struct timer, node);
}

static inline u64 tick_start(const struct wheel *w, u64 tick)
{
	return tick << w->shape.shift;
}

static inline bool add_at(struct wheel *w, struct timer *timer, u64 tick)
{
	timer->tick = tick;
	return wheel_add(w, &timer->node, timer->node.number, tick_start(w, tick), 0);
}

/* Returns the same sequence of numbers in each run, which is longer than hand-written ones. */
static inline u32 scattered(u32 *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* Returns where the timer of @tick is looked at first, from the contract alone. */
static inline u64 first_look(const struct wheel *w, u64 clk, u64 tick)
{
	unsigned int bits = w->shape.slot_bits;
	unsigned int level = 0;

	while (level + 1 < w->shape.levels && tick - clk > 1ULL << (level + 1) * bits)
		level++;
	return tick >> level * bits << level * bits;
}

/* Takes off everything that is due at @now, without a budget, and returns how many. */
static inline unsigned int expire_all(struct kunit *test, struct wheel *w, u64 now)
{
	unsigned int budget = UNLIMITED;
	struct wheel_node *node;
	unsigned int nr = 0;

	while ((node = wheel_expire(w, now, &budget))) {
		KUNIT_EXPECT_LE(test, tick_start(w, timer_of(node)->tick), now);
		timer_of(node)->fired++;
		nr++;
	}
	KUNIT_EXPECT_TRUE(test, wheel_next(w) > now);
	return nr;
}

/* Expects @w to be empty, and to request no turn. */
static inline void expect_idle(struct kunit *test, struct wheel *w, u64 now)
{
	/* The end of a visit is noticed only by the call that finds no other timer. */
	KUNIT_EXPECT_EQ(test, expire_all(test, w, now), 0U);
	KUNIT_EXPECT_EQ(test, wheel_next(w), WHEEL_NEVER);
}

/*
 * Turns @w until a node expires. Returns it and moves *@now to that time, or returns NULL if
 * none will ever expire.
 */
static inline struct wheel_node *turn(struct kunit *test, struct wheel *w, u64 *now,
				      unsigned int max_looks)
{
	struct wheel_node *node;
	unsigned int budget = UNLIMITED;
	unsigned int looks;

	for (looks = 0; looks < max_looks; looks++) {
		u64 next = wheel_next(w);

		if (next == WHEEL_NEVER)
			return NULL;
		if (next > *now) {
			node = wheel_expire(w, next - 1, &budget);
			KUNIT_EXPECT_PTR_EQ_MSG(test, node, NULL, "early at %llu", next - 1);
			*now = next;
		}
		node = wheel_expire(w, *now, &budget);
		if (node)
			return node;
	}
	KUNIT_EXPECT_EQ_MSG(test, wheel_next(w), WHEEL_NEVER, "%u looks at %llu for nothing",
			    looks, *now);
	return NULL;
}

/* Turns @w, which contains only @node, and returns when that expired. */
static inline u64 fires_at(struct kunit *test, struct wheel *w, struct wheel_node *node, u64 now)
{
	/* One look for each level, and an empty one where @node was before. */
	struct wheel_node *out = turn(test, w, &now, w->shape.levels + 1);

	if (!out)
		return WHEEL_NEVER;
	KUNIT_EXPECT_PTR_EQ(test, out, node);
	expect_idle(test, w, now);
	return now;
}

#endif /* _TWHEEL_KUNIT_H */
