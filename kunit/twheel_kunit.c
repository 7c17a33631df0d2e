// SPDX-License-Identifier: GPL-2.0
/* When each deadline expires, row by row. */
#include <linux/module.h>

#include "twheel_kunit.h"

struct size_row {
	const char *name;
	struct wheel_shape shape;
	unsigned int max_levels;
	u64 horizon;
};

static const struct size_row sizes[] = {
	{ "64 buckets span 64 bits of 2^19 ns in 8 levels", { 19, 6, 8 }, 8, WHEEL_NEVER },
	{ "7 levels of them are not enough", { 19, 6, 7 }, 8, 1ULL << 61 },
	{ "one level of them spans 2^25 ns", { 19, 6, 1 }, 8, 1ULL << 25 },
	{ "64 buckets span 64 bits of 1 ns in 11 levels", { 0, 6, 11 }, 11, WHEEL_NEVER },
	{ "16 buckets span 64 bits of 1 ns in 16 levels", { 0, 4, 16 }, 16, WHEEL_NEVER },
	{ "15 levels of them span 2^60 ns", { 0, 4, 15 }, 16, 1ULL << 60 },
	{ "65536 buckets span 64 bits of 1 ns in 4 levels", { 0, 16, 4 }, 4, WHEEL_NEVER },
	{ "3 levels of 65536 buckets of 2^15 ns span 2^63 ns", { 15, 16, 3 }, 4, 1ULL << 63 },
	{ "512 buckets of 2^20 ns span 2^29 ns", { 20, 9, 1 }, 5, 1ULL << 29 },
	{ "ticks of 2^63 ns need one level", { 63, 4, 1 }, 1, WHEEL_NEVER },
};

ROWS(size, sizes);

static void size_test(struct kunit *test)
{
	const struct size_row *row = test->param_value;
	unsigned int buckets = row->shape.levels << row->shape.slot_bits;

	KUNIT_EXPECT_EQ(test, wheel_max_levels(row->shape.shift, row->shape.slot_bits),
			row->max_levels);
	KUNIT_EXPECT_EQ(test, wheel_horizon(&row->shape), row->horizon);
	/* A list and a bit for each bucket, a list for each level, and the rings. */
	KUNIT_EXPECT_EQ(test, wheel_bytes(&row->shape),
			(buckets + row->shape.levels) * sizeof(struct hlist_head) +
			BITS_TO_LONGS(buckets) * sizeof(long) +
			WHEEL_RINGS * sizeof(struct wheel_ring));
}

struct edge_row {
	const char *name;
	struct wheel_shape shape;
	unsigned int order;
};

static const struct edge_row edges[] = {
	{ "64 buckets: level 0 to 1, about 2^6 ticks", { 19, 6, 0 }, 6 },
	{ "64 buckets: level 1 to 2, about 2^12 ticks", { 19, 6, 0 }, 12 },
	{ "64 buckets: level 2 to 3, about 2^18 ticks", { 19, 6, 0 }, 18 },
	{ "64 buckets: level 3 to 4, about 2^24 ticks", { 19, 6, 0 }, 24 },
	{ "64 buckets: level 4 to 5, about 2^30 ticks", { 19, 6, 0 }, 30 },
	{ "64 buckets: level 5 to 6, about 2^36 ticks", { 19, 6, 0 }, 36 },
	{ "64 buckets: level 6 to 7, about 2^42 ticks", { 19, 6, 0 }, 42 },
	{ "64 buckets, 3 levels: level 1 to 2, about 2^12 ticks", { 19, 6, 3 }, 12 },
	{ "64 buckets, 3 levels: round 1 to 2, about 2^18 ticks", { 19, 6, 3 }, 18 },
	{ "64 buckets, 3 levels: far rounds, about 2^24 ticks", { 19, 6, 3 }, 24 },
	{ "512 buckets, one level: round 1 to 2, about 2^9 ticks", { 20, 9, 1 }, 9 },
	{ "512 buckets, one level: far rounds, about 2^18 ticks", { 20, 9, 1 }, 18 },
	{ "512 buckets, one level: far rounds, about 2^27 ticks", { 20, 9, 1 }, 27 },
	{ "64 buckets, one level: round 1 to 2, about 2^6 ticks", { 30, 6, 1 }, 6 },
	{ "64 buckets, one level: far rounds, about 2^12 ticks", { 30, 6, 1 }, 12 },
	{ "64 buckets, one level: far rounds, about 2^30 ticks", { 30, 6, 1 }, 30 },
	{ "16 buckets: level 0 to 1, about 2^4 ns", { 0, 4, 0 }, 4 },
	{ "16 buckets: level 1 to 2, about 2^8 ns", { 0, 4, 0 }, 8 },
	{ "16 buckets: level 2 to 3, about 2^12 ns", { 0, 4, 0 }, 12 },
	{ "16 buckets: level 3 to 4, about 2^16 ns", { 0, 4, 0 }, 16 },
	{ "16 buckets: level 4 to 5, about 2^20 ns", { 0, 4, 0 }, 20 },
	{ "16 buckets: level 5 to 6, about 2^24 ns", { 0, 4, 0 }, 24 },
	{ "16 buckets: level 6 to 7, about 2^28 ns", { 0, 4, 0 }, 28 },
	{ "16 buckets: level 7 to 8, about 2^32 ns", { 0, 4, 0 }, 32 },
	{ "16 buckets: level 8 to 9, about 2^36 ns", { 0, 4, 0 }, 36 },
	{ "16 buckets: level 9 to 10, about 2^40 ns", { 0, 4, 0 }, 40 },
	{ "16 buckets: level 10 to 11, about 2^44 ns", { 0, 4, 0 }, 44 },
	{ "16 buckets: level 11 to 12, about 2^48 ns", { 0, 4, 0 }, 48 },
	{ "16 buckets: level 12 to 13, about 2^52 ns", { 0, 4, 0 }, 52 },
	{ "16 buckets: level 13 to 14, about 2^56 ns", { 0, 4, 0 }, 56 },
	{ "16 buckets: level 14 to 15, about 2^60 ns", { 0, 4, 0 }, 60 },
	{ "65536 buckets: level 0 to 1, about 2^16 ticks", { 16, 16, 0 }, 16 },
	{ "65536 buckets: level 1 to 2, about 2^32 ticks", { 16, 16, 0 }, 32 },
	{ "32 buckets, 2 levels: level 0 to 1, about 2^5 ticks", { 10, 5, 2 }, 5 },
	{ "32 buckets, 2 levels: round 1 to 2, about 2^10 ticks", { 10, 5, 2 }, 10 },
	{ "ticks of 2^63 ns: the only tick but 0", { 63, 4, 0 }, 0 },
};

ROWS(edge, edges);

/*
 * G1, G2: Deadlines at the edge of a level, a tick before and a tick after it, from borders
 * and from other times.
 */
static void edge_test(struct kunit *test)
{
	const struct edge_row *row = test->param_value;
	struct wheel *w = twheel_kunit_make(test, row->shape, 0);
	struct timer *timer = make_timers(test, 1);
	u64 edge = 1ULL << row->order;
	const u64 starts[] = {
		0, 1, 5, 1ULL << row->shape.slot_bits >> 1, edge - 1, edge, edge + 1,
		0x12345678 & (2 * edge - 1),
	};
	unsigned int i, phase;
	int delta;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		for (phase = 0; phase < 2; phase++) {
			for (delta = -1; delta <= 1; delta++) {
				u64 tick = starts[i] + edge + delta;
				u64 now = tick_start(w, starts[i]);
				u64 at = tick_start(w, tick);

				if (tick <= starts[i] || at >> row->shape.shift != tick)
					continue;
				/* The first ns of the present tick, or its last. */
				if (phase)
					now = tick_start(w, starts[i] + 1) - 1;
				restart(w, now);
				KUNIT_EXPECT_TRUE(test, add_at(w, timer, tick));
				KUNIT_EXPECT_EQ(test, wheel_next(w),
						tick_start(w, first_look(w, starts[i], tick)));
				KUNIT_ASSERT_EQ_MSG(test, fires_at(test, w, &timer->node, now), at,
						    "from tick %llu to %llu", starts[i], tick);
			}
		}
	}
}

struct far_row {
	const char *name;
	struct wheel_shape shape;
	u64 now;
	u64 deadline;
	u64 slack;
	u64 fires;
};

static const struct far_row fars[] = {
	{ "the default reaches 2^62 ns", { 19, 6, 0 },
	  0, 1ULL << 62, 0, 1ULL << 62 },
	{ "the default reaches 2^63 ns from off every border", { 19, 6, 0 },
	  0x123456789abcdef, 1ULL << 63, 0, 1ULL << 63 },
	{ "the default rounds 2^63 + 1 up", { 19, 6, 0 },
	  5, (1ULL << 63) + 1, 0, (1ULL << 63) + (1ULL << 19) },
	{ "the default reaches the last tick there is", { 19, 6, 0 },
	  1, -1ULL << 19, 0, -1ULL << 19 },
	{ "the default rounds what is after the last tick to never", { 19, 6, 0 },
	  1, (-1ULL << 19) + 1, 0, WHEEL_NEVER },
	{ "the default takes the last ns there is for never", { 19, 6, 0 },
	  1, U64_MAX - 1, 0, WHEEL_NEVER },
	{ "the default never reaches never", { 19, 6, 0 },
	  1, U64_MAX, 0, WHEEL_NEVER },
	{ "the default never reaches never, slack or not", { 19, 6, 0 },
	  1, U64_MAX, U64_MAX, WHEEL_NEVER },
	{ "512 buckets go round to 2^62 ns without a look between", { 20, 9, 1 },
	  77ULL << 20, 1ULL << 62, 0, 1ULL << 62 },
	{ "512 buckets go round to the last tick there is", { 20, 9, 1 },
	  77ULL << 20, -1ULL << 20, 0, -1ULL << 20 },
	{ "512 buckets never reach never", { 20, 9, 1 },
	  77ULL << 20, U64_MAX, 0, WHEEL_NEVER },
	{ "3 levels go round to the last tick there is", { 19, 6, 3 },
	  77ULL << 20, -1ULL << 19, 0, -1ULL << 19 },
	{ "ticks of 1 ns reach the last ns there is", { 0, 4, 0 },
	  0, U64_MAX - 1, 0, U64_MAX - 1 },
	{ "ticks of 1 ns reach the last ns there is in one level", { 0, 4, 1 },
	  0, U64_MAX - 1, 0, U64_MAX - 1 },
	{ "ticks of 1 ns never reach never", { 0, 4, 0 },
	  0, U64_MAX, 0, WHEEL_NEVER },
	{ "ticks of 1 ns never reach never in one level", { 0, 4, 1 },
	  0, U64_MAX, 0, WHEEL_NEVER },
	{ "ticks of 1 ns never reach never, slack or not", { 0, 4, 0 },
	  0, U64_MAX, U64_MAX, WHEEL_NEVER },
	{ "slack waits for the last border there is", { 0, 4, 0 },
	  0, (-1ULL << 4) - 1, 16, -1ULL << 4 },
	{ "slack takes the last border there is itself", { 0, 4, 0 },
	  0, -1ULL << 4, 16, -1ULL << 4 },
	{ "slack has no border to wait for behind the last one", { 0, 4, 0 },
	  0, (-1ULL << 4) + 1, 16, (-1ULL << 4) + 1 },
	{ "slack without end has no border to wait for either", { 0, 4, 0 },
	  0, U64_MAX - 1, U64_MAX, U64_MAX - 1 },
	{ "slack may end behind the end of time", { 19, 6, 0 },
	  0, -1ULL << 19, U64_MAX, WHEEL_NEVER },
	{ "ticks of 2^63 ns round 1 up to the only one", { 63, 4, 0 },
	  0, 1, 0, 1ULL << 63 },
	{ "ticks of 2^63 ns have none after it", { 63, 4, 0 },
	  0, (1ULL << 63) + 1, 0, WHEEL_NEVER },
};

ROWS(far, fars);

static void far_test(struct kunit *test)
{
	const struct far_row *row = test->param_value;
	struct wheel *w = twheel_kunit_make(test, row->shape, row->now);
	struct timer *timer = make_timers(test, 1);

	KUNIT_EXPECT_TRUE(test, wheel_add(w, &timer->node, 0, row->deadline, row->slack));
	KUNIT_EXPECT_EQ(test, fires_at(test, w, &timer->node, row->now), row->fires);
	if (row->fires != WHEEL_NEVER)
		return;
	/* Nothing expires the timer, and it can still be removed. */
	KUNIT_EXPECT_EQ(test, expire_all(test, w, WHEEL_NEVER - 1), 0U);
	wheel_del(w, &timer->node);
	KUNIT_EXPECT_EQ(test, expire_all(test, w, WHEEL_NEVER - 1), 0U);
	KUNIT_EXPECT_EQ(test, wheel_next(w), WHEEL_NEVER);
}

struct counter_row {
	const char *name;
	struct wheel_shape shape;
	u64 start;
};

static const struct counter_row counters[] = {
	{ "2^32 ticks of 2^19 ns", { 19, 6, 0 }, (1ULL << 32) - 10 },
	{ "2^32 ticks of 2^20 ns, 512 buckets", { 20, 9, 1 }, (1ULL << 32) - 10 },
	{ "2^32 ticks of 2^30 ns, 64 buckets", { 30, 6, 1 }, (1ULL << 32) - 10 },
	{ "2^32 ticks of 1 ns", { 0, 4, 0 }, (1ULL << 32) - 10 },
	{ "2^31 ticks of 1 ns", { 0, 6, 0 }, (1ULL << 31) - 10 },
	{ "2^63 ticks of 1 ns", { 0, 6, 0 }, (1ULL << 63) - 10 },
	{ "2^63 ticks of 1 ns, one level", { 0, 6, 1 }, (1ULL << 63) - 10 },
	{ "the end of time, ticks of 2^19 ns", { 19, 6, 0 }, (1ULL << 45) - 10 },
	{ "the end of time, ticks of 2^20 ns, 512 buckets", { 20, 9, 1 }, (1ULL << 44) - 10 },
	{ "the end of time, ticks of 1 ns", { 0, 4, 0 }, -10ULL },
	{ "the end of time, ticks of 1 ns, one level", { 0, 4, 1 }, -10ULL },
	{ "the end of time, ticks of 1 ns, 65536 buckets", { 0, 16, 2 }, -10ULL },
};

ROWS(counter, counters);

/*
 * One timer for each tick on both sides of a counter's end. At the end of time, a timer never
 * expires.
 */
static void counter_test(struct kunit *test)
{
	const struct counter_row *row = test->param_value;
	u64 last = (U64_MAX - 1) >> row->shape.shift;
	u64 now = row->start << row->shape.shift;
	struct wheel *w = twheel_kunit_make(test, row->shape, now);
	unsigned int nr = min_t(u64, last - row->start, 40);
	struct timer *timers = make_timers(test, nr + 1);
	struct wheel_node *node;
	unsigned int i;

	for (i = nr; i--; )
		KUNIT_EXPECT_TRUE(test, add_at(w, &timers[i], row->start + 1 + i));
	KUNIT_EXPECT_TRUE(test, wheel_add(w, &timers[nr].node, 0, WHEEL_NEVER, 0));

	for (i = 0; i < nr; i++) {
		node = turn(test, w, &now, 3);
		KUNIT_ASSERT_PTR_EQ_MSG(test, node, &timers[i].node, "timer %u", i);
		KUNIT_EXPECT_EQ(test, now, tick_start(w, timers[i].tick));
	}
	KUNIT_EXPECT_PTR_EQ(test, turn(test, w, &now, 2 * w->shape.levels), NULL);
}

struct past_row {
	const char *name;
	u64 now;
	u64 deadline;
	/* 0: not queued */
	u64 fires;
};

/* Ticks of 16 ns. */
static const struct past_row pasts[] = {
	{ "0 is past from the beginning", 0, 0, 0 },
	{ "0 is past later", 1000, 0, 0 },
	{ "1 ns after the beginning is at the first tick", 0, 1, 16 },
	{ "a tick ago is past", 320, 304, 0 },
	{ "1 ns ago is past at the start of a tick", 320, 319, 0 },
	{ "now is past at the start of a tick", 320, 320, 0 },
	{ "now is past within the tick that starts with it", 335, 320, 0 },
	{ "now is rounded up within a tick", 325, 325, 336 },
	{ "1 ns ago is rounded up within a tick", 325, 324, 336 },
	{ "1 ns from now is rounded up at the start of a tick", 320, 321, 336 },
	{ "1 ns from now is the next tick at the end of one", 335, 336, 336 },
	{ "the next tick is not past", 320, 336, 336 },
};

ROWS(past, pasts);

static void past_test(struct kunit *test)
{
	const struct past_row *row = test->param_value;
	struct wheel_shape shape = { .shift = 4, .slot_bits = 6 };
	struct wheel *w = twheel_kunit_make(test, shape, 0);
	struct timer *timer = make_timers(test, 1);
	unsigned int slack;

	/* The result is the same with and without slack. */
	for (slack = 0; slack <= 16; slack += 16) {
		restart(w, 0);
		wheel_set_time(w, row->now);
		timer->node.tick = 4711;
		KUNIT_EXPECT_EQ(test, wheel_add(w, &timer->node, 0, row->deadline, slack),
				row->fires != 0);
		if (row->fires) {
			KUNIT_EXPECT_EQ(test, fires_at(test, w, &timer->node, row->now),
					row->fires);
			continue;
		}
		KUNIT_EXPECT_EQ(test, timer->node.tick, 4711ULL);
		KUNIT_EXPECT_EQ(test, wheel_next(w), WHEEL_NEVER);
		KUNIT_EXPECT_EQ(test, expire_all(test, w, WHEEL_NEVER - 1), 0U);
	}
}

struct slack_row {
	const char *name;
	struct wheel_shape shape;
	u64 slack;
	/* There is a border every this many ticks. */
	u64 width;
};

static const struct slack_row slacks[] = {
	{ "none: its own tick", { 19, 6, 0 }, 0, 1 },
	{ "1 ns less than a tick: its own tick", { 19, 6, 0 }, (1 << 19) - 1, 1 },
	{ "a tick: its own tick", { 19, 6, 0 }, 1 << 19, 1 },
	{ "2 ticks: its own tick", { 19, 6, 0 }, 2 << 19, 1 },
	{ "1 ns less than 64 ticks: its own tick", { 19, 6, 0 }, (64ULL << 19) - 1, 1 },
	{ "64 ticks: a bucket of level 1", { 19, 6, 0 }, 64ULL << 19, 64 },
	{ "65 ticks: a bucket of level 1", { 19, 6, 0 }, 65ULL << 19, 64 },
	{ "1 ns less than 4096 ticks: a bucket of level 1", { 19, 6, 0 }, (1ULL << 31) - 1, 64 },
	{ "4096 ticks: a bucket of level 2", { 19, 6, 0 }, 1ULL << 31, 4096 },
	{ "2^42 ticks: a bucket of level 7", { 19, 6, 0 }, 1ULL << 61, 1ULL << 42 },
	{ "without end: a bucket of level 7", { 19, 6, 0 }, U64_MAX, 1ULL << 42 },
	{ "without end in one level: its own tick", { 20, 9, 1 }, U64_MAX, 1 },
	{ "without end in 3 levels: a bucket of level 2", { 19, 6, 3 }, U64_MAX, 4096 },
	{ "15 of 1 ns: its own tick", { 0, 4, 0 }, 15, 1 },
	{ "16 of 1 ns: a bucket of level 1", { 0, 4, 0 }, 16, 16 },
	{ "255 of 1 ns: a bucket of level 1", { 0, 4, 0 }, 255, 16 },
	{ "256 of 1 ns: a bucket of level 2", { 0, 4, 0 }, 256, 256 },
	{ "65535 of 2^16 ns: its own tick", { 16, 16, 0 }, 65535ULL << 16, 1 },
	{ "65536 of 2^16 ns: a bucket of level 1", { 16, 16, 0 }, 1ULL << 32, 65536 },
};

ROWS(slack, slacks);

/* The timer expires at the first border at the deadline or after it, at every distance. */
static void slack_test(struct kunit *test)
{
	const struct slack_row *row = test->param_value;
	struct wheel *w = twheel_kunit_make(test, row->shape, 0);
	struct timer *timer = make_timers(test, 1);
	const u64 start = 12345;
	const u64 delays[] = {
		1, 2, row->width - 1, row->width, row->width + 1, 2 * row->width,
		3 * row->width - (start & (row->width - 1)), 4 * row->width + 3,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(delays); i++) {
		u64 tick = start + delays[i];
		u64 border = (tick + row->width - 1) & ~(row->width - 1);
		u64 now = tick_start(w, start);
		u64 deadline = tick_start(w, tick);
		u64 at;

		if (!delays[i])
			continue;
		restart(w, now);
		/* Not on a tick, so that the wheel has to round first. */
		KUNIT_EXPECT_TRUE(test, wheel_add(w, &timer->node, 0,
						  deadline - (1ULL << row->shape.shift >> 1),
						  row->slack));
		KUNIT_EXPECT_EQ(test, wheel_next(w), tick_start(w, border));
		at = fires_at(test, w, &timer->node, now);
		KUNIT_ASSERT_EQ_MSG(test, at, tick_start(w, border), "delay of %llu ticks",
				    delays[i]);
		KUNIT_EXPECT_LE(test, at - deadline, row->slack);
		KUNIT_EXPECT_EQ(test, w->cascaded, 0ULL);
	}
}

/* Beyond the reach of its level, the timer moves down to that level and no further. */
static void slack_far_test(struct kunit *test)
{
	struct wheel_shape shape = { .slot_bits = 6 };
	struct wheel *w = twheel_kunit_make(test, shape, 77);
	struct timer *timer = make_timers(test, 1);

	/* The timer is added to level 3, but buckets of 64 ns are in level 1. */
	KUNIT_EXPECT_TRUE(test, wheel_add(w, &timer->node, 0, 1000000, 64));
	KUNIT_EXPECT_EQ(test, fires_at(test, w, &timer->node, 77), 1000000ULL);
	KUNIT_EXPECT_EQ(test, w->cascaded, 2ULL);

	restart(w, 77);
	KUNIT_EXPECT_TRUE(test, wheel_add(w, &timer->node, 0, 1000001, 64));
	KUNIT_EXPECT_EQ(test, fires_at(test, w, &timer->node, 77), 1000064ULL);
	KUNIT_EXPECT_LE(test, w->cascaded, 2ULL);
}

/* Timers with slack share wake-ups. */
static void slack_shared_test(struct kunit *test)
{
	struct wheel_shape shape = { .shift = 19, .slot_bits = 6 };
	struct wheel *w = twheel_kunit_make(test, shape, 0);
	struct timer *timers = make_timers(test, 64);
	unsigned int i;
	u64 now = 0;

	for (i = 0; i < 64; i++) {
		timers[i].tick = i + 1;
		KUNIT_EXPECT_TRUE(test, wheel_add(w, &timers[i].node, 0,
						  tick_start(w, timers[i].tick),
						  tick_start(w, 64)));
	}
	KUNIT_ASSERT_NOT_NULL(test, turn(test, w, &now, 1));
	KUNIT_EXPECT_EQ(test, now, tick_start(w, 64));
	KUNIT_EXPECT_EQ(test, expire_all(test, w, now), 63U);
	KUNIT_EXPECT_EQ(test, w->cascaded, 0ULL);
}

/* Right after each timer is added, the wheel requests a turn for the first bucket. */
static void next_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	const u64 start = 4711;
	struct wheel *w = twheel_kunit_make(test, row->shape, start << row->shape.shift);
	struct timer *timers = make_timers(test, SCATTERED);
	u64 now = start << row->shape.shift;
	u64 first = WHEEL_NEVER;
	u64 next = WHEEL_NEVER;
	u32 state = 2;
	unsigned int i;

	expect_idle(test, w, now);
	for (i = 0; i < SCATTERED; i++) {
		u64 tick = start + 1 + (scattered(&state) >> (4 + i % 20) << i % 10);

		KUNIT_EXPECT_TRUE(test, add_at(w, &timers[i], tick));
		first = min(first, tick_start(w, tick));
		next = min(next, tick_start(w, first_look(w, start, tick)));
		KUNIT_EXPECT_EQ(test, wheel_next(w), next);
	}

	/* Later it never requests a turn after the first of them needs it. */
	for (i = 0; i < SCATTERED; i++) {
		struct wheel_node *node = turn(test, w, &now, UNLIMITED);

		KUNIT_ASSERT_NOT_NULL(test, node);
		KUNIT_ASSERT_EQ(test, now, tick_start(w, timer_of(node)->tick));
		if (!i)
			KUNIT_EXPECT_EQ(test, now, first);
	}
	expect_idle(test, w, now);
}

static struct kunit_case twheel_cases[] = {
	KUNIT_CASE_PARAM(size_test, size_gen_params),
	KUNIT_CASE_PARAM(edge_test, edge_gen_params),
	KUNIT_CASE_PARAM(far_test, far_gen_params),
	KUNIT_CASE_PARAM(counter_test, counter_gen_params),
	KUNIT_CASE_PARAM(past_test, past_gen_params),
	KUNIT_CASE_PARAM(slack_test, slack_gen_params),
	KUNIT_CASE(slack_far_test),
	KUNIT_CASE(slack_shared_test),
	KUNIT_CASE_PARAM(next_test, shape_gen_params),
	{}
};

static struct kunit_suite twheel_suite = {
	.name = "twheel",
	.test_cases = twheel_cases,
};

kunit_test_suite(twheel_suite);

MODULE_DESCRIPTION("KUnit suites of the timing wheel");
MODULE_LICENSE("GPL");
