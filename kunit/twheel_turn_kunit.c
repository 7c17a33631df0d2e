// SPDX-License-Identifier: GPL-2.0
/* What may happen to timers and to the clock while the wheel turns. */
#include <linux/module.h>
#include <linux/string.h>

#include "twheel_kunit.h"

/*
 * A timer moves from each distance to each other one, with another timer left in its former
 * bucket.
 */
static void move_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	u64 size = 1ULL << row->shape.slot_bits;
	const u64 start = 0x2345;
	const u64 delays[] = {
		1, 2, size - 1, size, size + 1, 2 * size, size * size - 1, size * size,
		size * size + 1, 1ULL << 33,
	};
	u64 now = start << row->shape.shift;
	struct wheel *w = twheel_kunit_make(test, row->shape, now);
	struct timer *timers = make_timers(test, 2);
	unsigned int from, to;

	for (from = 0; from < ARRAY_SIZE(delays); from++) {
		for (to = 0; to < ARRAY_SIZE(delays); to++) {
			u64 first = min(delays[from], delays[to]);
			u64 last = max(delays[from], delays[to]);
			struct wheel_node *node;

			now = tick_start(w, start);
			restart(w, now);
			KUNIT_EXPECT_TRUE(test, add_at(w, &timers[0], start + delays[from]));
			KUNIT_EXPECT_TRUE(test, add_at(w, &timers[1], start + delays[from]));
			wheel_del(w, &timers[0].node);
			KUNIT_EXPECT_TRUE(test, add_at(w, &timers[0], start + delays[to]));

			node = turn(test, w, &now, 4 * w->shape.levels);
			KUNIT_ASSERT_NOT_NULL(test, node);
			KUNIT_EXPECT_EQ(test, now, tick_start(w, start + first));
			KUNIT_EXPECT_EQ(test, timer_of(node)->tick, start + first);

			node = turn(test, w, &now, 4 * w->shape.levels);
			KUNIT_ASSERT_NOT_NULL(test, node);
			KUNIT_EXPECT_EQ(test, now, tick_start(w, start + last));
			KUNIT_EXPECT_EQ(test, timer_of(node)->tick, start + last);
			expect_idle(test, w, now);
		}
	}
}

/* The heartbeat: a timer is always moved before it is due, until the moves stop. */
static void heartbeat_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	struct wheel *w = twheel_kunit_make(test, row->shape, 0);
	struct timer *timer = make_timers(test, 1);
	u64 tick = 0;
	u64 now;

	KUNIT_EXPECT_TRUE(test, add_at(w, timer, 1000));
	while (tick < 100000) {
		tick += 997;
		KUNIT_ASSERT_EQ(test, expire_all(test, w, tick_start(w, tick)), 0U);
		wheel_del(w, &timer->node);
		wheel_set_time(w, tick_start(w, tick));
		KUNIT_EXPECT_TRUE(test, add_at(w, timer, tick + 1000));
	}
	now = tick_start(w, tick);
	KUNIT_EXPECT_PTR_EQ(test, turn(test, w, &now, w->shape.levels + 2), &timer->node);
	KUNIT_EXPECT_EQ(test, now, tick_start(w, tick + 1000));
}

/*
 * For operations while a bucket is visited: this many timers are due at tick 69, so they start
 * in bucket 1 of level 1
 *
 *     tick 64:  level 1  [8 timers] -> level 0    budgets 1 to 8 end here
 *     tick 69:  level 0  [8 timers] -> out        budgets 9 to 16 end here
 */
#define VISITED		8U
#define VISITED_TICK	69ULL

static struct wheel *begin_visit(struct kunit *test, struct timer *timers, unsigned int budget)
{
	struct wheel_shape shape = { .shift = 19, .slot_bits = 6 };
	struct wheel *w = twheel_kunit_make(test, shape, 0);
	struct wheel_node *node;
	unsigned int i;

	for (i = 0; i < VISITED; i++) {
		timers[i].fired = 0;
		KUNIT_EXPECT_TRUE(test, add_at(w, &timers[i], VISITED_TICK));
	}
	while ((node = wheel_expire(w, tick_start(w, VISITED_TICK), &budget)))
		timer_of(node)->fired++;
	KUNIT_EXPECT_EQ(test, budget, 0U);
	return w;
}

struct visit_row {
	const char *name;
	unsigned int mask;
};

static const struct visit_row visits[] = {
	{ "none of 8 timers", 0 },
	{ "the one that was added first", 0x01 },
	{ "the one that was added last", 0x80 },
	{ "one in the middle", 0x10 },
	{ "every other one", 0x55 },
	{ "all but the first", 0xfe },
	{ "all but the last", 0x7f },
	{ "all", 0xff },
};

ROWS(visit, visits);

/* Timers that are deleted when the budget is used up do not expire, and all others do. */
static void visit_del_test(struct kunit *test)
{
	const struct visit_row *row = test->param_value;
	struct timer *timers = make_timers(test, VISITED);
	unsigned int budget, i;

	for (budget = 0; budget <= 2 * VISITED; budget++) {
		struct wheel *w = begin_visit(test, timers, budget);
		unsigned int before = 0;

		for (i = 0; i < VISITED; i++) {
			if (row->mask >> i & 1 && !timers[i].fired) {
				wheel_del(w, &timers[i].node);
				before |= 1U << i;
			}
		}
		expire_all(test, w, tick_start(w, VISITED_TICK));
		for (i = 0; i < VISITED; i++)
			KUNIT_EXPECT_EQ_MSG(test, timers[i].fired, before >> i & 1 ? 0U : 1U,
					    "timer %u, budget %u", i, budget);
		KUNIT_EXPECT_EQ(test, wheel_next(w), WHEEL_NEVER);
	}
}

/* Timers that are added when the budget is used up expire at their own ticks. */
static void visit_add_test(struct kunit *test)
{
	const u64 delays[] = { 1, 59, 63, 64, 65, 4096 - 5, 4096, 1ULL << 30 };
	struct timer *timers = make_timers(test, VISITED);
	struct timer *added = make_timers(test, ARRAY_SIZE(delays));
	u64 now;
	unsigned int budget, i;

	for (budget = 0; budget <= 2 * VISITED; budget++) {
		struct wheel *w = begin_visit(test, timers, budget);

		now = tick_start(w, VISITED_TICK);
		for (i = 0; i < ARRAY_SIZE(delays); i++)
			KUNIT_EXPECT_TRUE(test, add_at(w, &added[i], VISITED_TICK + delays[i]));

		expire_all(test, w, now);
		for (i = 0; i < VISITED; i++)
			KUNIT_EXPECT_EQ(test, timers[i].fired, 1U);
		for (i = 0; i < ARRAY_SIZE(delays); i++) {
			struct wheel_node *node = turn(test, w, &now, 2 * w->shape.levels);

			KUNIT_ASSERT_PTR_EQ_MSG(test, node, &added[i].node,
						"timer %u, budget %u", i, budget);
			KUNIT_EXPECT_EQ(test, now, tick_start(w, VISITED_TICK + delays[i]));
		}
		expect_idle(test, w, now);
	}
}

/* Timers that are due at the tick of the visit itself expire at once, wherever they were added. */
static void visit_add_due_test(struct kunit *test)
{
	struct timer *timers = make_timers(test, VISITED);
	struct timer *added = make_timers(test, 1);
	unsigned int budget;

	for (budget = 0; budget <= 2 * VISITED; budget++) {
		struct wheel *w = begin_visit(test, timers, budget);
		/* Until the last timer has moved down, the wheel is behind. */
		bool behind = budget < VISITED;
		unsigned int left = behind ? VISITED : 2 * VISITED - budget;

		KUNIT_EXPECT_TRUE(test, wheel_next(w) <= tick_start(w, VISITED_TICK) ||
				  budget == 2 * VISITED);
		KUNIT_EXPECT_EQ_MSG(test, add_at(w, added, VISITED_TICK), behind,
				    "budget %u", budget);
		KUNIT_EXPECT_EQ_MSG(test, expire_all(test, w, tick_start(w, VISITED_TICK)),
				    left + behind, "budget %u", budget);
	}
}

/* An expired node may be added again, even to the same bucket. */
static void rearm_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	struct wheel *w = twheel_kunit_make(test, row->shape, 0);
	u64 size = 1ULL << row->shape.slot_bits;
	struct timer *timers = make_timers(test, VISITED);
	struct wheel_node *node;
	unsigned int i, round;

	for (i = 0; i < VISITED; i++)
		KUNIT_EXPECT_TRUE(test, add_at(w, &timers[i], size));
	for (round = 1; round <= 100; round++) {
		unsigned int budget = UNLIMITED;

		while ((node = wheel_expire(w, tick_start(w, round * size), &budget))) {
			struct timer *timer = timer_of(node);

			KUNIT_ASSERT_EQ(test, ++timer->fired, round);
			KUNIT_ASSERT_TRUE(test, add_at(w, timer, (round + 1) * size));
		}
		for (i = 0; i < VISITED; i++)
			KUNIT_ASSERT_EQ(test, timers[i].fired, round);
	}
}

/* Scatters timers over about 2^14 ticks, some of them on the same tick. */
static void scatter(struct kunit *test, struct wheel *w, struct timer *timers)
{
	unsigned int i;
	u32 state = 1;

	for (i = 0; i < SCATTERED; i++) {
		u64 tick = w->clk + 1 + (scattered(&state) & ((1U << (i % 15)) - 1));

		KUNIT_EXPECT_TRUE(test, add_at(w, &timers[i], tick));
	}
}

/* G6: Timers expire in the order of their ticks, in whatever order they were added. */
static void order_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	u64 now = 4711ULL << row->shape.shift;
	struct wheel *w = twheel_kunit_make(test, row->shape, now);
	struct timer *timers = make_timers(test, SCATTERED);
	unsigned int budget = UNLIMITED;
	struct wheel_node *node;
	unsigned int nr = 0;
	u64 tick = 0;

	scatter(test, w, timers);
	now += tick_start(w, 1 << 15);
	while ((node = wheel_expire(w, now, &budget))) {
		KUNIT_EXPECT_LE(test, tick, timer_of(node)->tick);
		tick = timer_of(node)->tick;
		nr++;
	}
	KUNIT_EXPECT_EQ(test, nr, SCATTERED);
	KUNIT_EXPECT_EQ(test, wheel_next(w), WHEEL_NEVER);
}

/* G8: However often it has to stop, the wheel loses no timer and keeps the order. */
static void budget_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	u64 now = 4711ULL << row->shape.shift;
	struct wheel *whole = twheel_kunit_make(test, row->shape, now);
	struct timer *wanted = make_timers(test, SCATTERED);
	struct timer *timers = make_timers(test, SCATTERED);
	unsigned int budget;

	for (budget = 1; budget <= 16; budget *= 2) {
		struct wheel *w = twheel_kunit_make(test, row->shape, now);
		u64 end = now + tick_start(w, 1 << 15);
		unsigned int whole_left = UNLIMITED;
		unsigned int left = 0;
		unsigned int touched = 0;
		unsigned int nr = 0;

		restart(whole, now);
		scatter(test, whole, wanted);
		scatter(test, w, timers);
		for (;;) {
			struct wheel_node *node = wheel_expire(w, end, &left);
			struct wheel_node *other;

			if (node) {
				other = wheel_expire(whole, end, &whole_left);
				KUNIT_ASSERT_NOT_NULL(test, other);
				KUNIT_ASSERT_EQ(test, timer_of(node) - timers,
						timer_of(other) - wanted);
				nr++;
			} else if (wheel_next(w) <= end) {
				KUNIT_ASSERT_EQ(test, left, 0U);
				left = budget;
				touched += budget;
			} else {
				break;
			}
		}

		KUNIT_EXPECT_EQ(test, nr, SCATTERED);
		KUNIT_EXPECT_EQ(test, touched - left, nr + w->cascaded);
		KUNIT_EXPECT_PTR_EQ(test, wheel_expire(whole, end, &whole_left), NULL);
		KUNIT_EXPECT_EQ(test, w->cascaded, whole->cascaded);
	}
}

/* How a wheel advances from one time to the next; 0 means by wheel_next(). */
static const u64 steps[] = { 0, 1, 37, 64, 5000 };

/* In one jump, from look to look, or in steps: the same timers expire in the same order. */
static void jump_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	u64 start = 4711ULL << row->shape.shift;
	struct timer *wanted = make_timers(test, SCATTERED);
	struct timer *timers = make_timers(test, SCATTERED);
	struct wheel *jumping = twheel_kunit_make(test, row->shape, start);
	struct wheel *stepping = twheel_kunit_make(test, row->shape, start);
	u64 end = start + tick_start(jumping, 1 << 15);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		unsigned int budget = UNLIMITED;
		unsigned int nr = 0;
		u64 now = start;

		restart(jumping, start);
		restart(stepping, start);
		scatter(test, jumping, wanted);
		scatter(test, stepping, timers);
		while (now < end) {
			struct wheel_node *node, *other;

			now = steps[i] ? now + tick_start(stepping, steps[i]) :
			      wheel_next(stepping);
			now = min(now, end);
			while ((node = wheel_expire(stepping, now, &budget))) {
				other = wheel_expire(jumping, end, &budget);
				KUNIT_ASSERT_NOT_NULL(test, other);
				KUNIT_ASSERT_EQ(test, timer_of(node) - timers,
						timer_of(other) - wanted);
				KUNIT_ASSERT_EQ(test, timer_of(node)->tick, timer_of(other)->tick);
				nr++;
			}
		}
		KUNIT_EXPECT_EQ(test, nr, SCATTERED);
		KUNIT_EXPECT_EQ(test, jumping->cascaded, stepping->cascaded);
	}
}

/* 2^40 ticks at once: the cost depends on the timers, not on the ticks. */
static void huge_jump_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	const u64 start = 12345;
	const unsigned int nr = 41;
	struct wheel *w = twheel_kunit_make(test, row->shape, start << row->shape.shift);
	struct timer *timers = make_timers(test, nr);
	u64 end = tick_start(w, start + (1ULL << 40));
	unsigned int budget, i;

	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_TRUE(test, add_at(w, &timers[i], start + (1ULL << i)));

	/*
	 * A visit for each level, and if the top level goes round, two turns with all others
	 * in them for each timer that leaves.
	 */
	budget = nr * w->shape.levels;
	if (wheel_horizon(&w->shape) != WHEEL_NEVER)
		budget += 2 * nr * nr;
	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_PTR_EQ_MSG(test, wheel_expire(w, end, &budget), &timers[i].node,
					"timer %u, budget left %u", i, budget);
	expect_idle(test, w, end);
}

/*
 * In a wheel that started off a border, a timer that is one turn away is put into the present
 * bucket:
 *
 *     37 = 0 * 64 + 37:           [0]  1  2 ... 63      level 1
 *     37 + 64 * 64, in bucket 64:  ^
 *
 * Its turn is the next one, and the wheel does not look at it during this one.
 */
static void present_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	const u64 start = 37;
	u64 now = start << row->shape.shift;
	struct wheel *w = twheel_kunit_make(test, row->shape, now);
	unsigned int nr = min(1U << row->shape.slot_bits, 50U);
	struct timer *timers = make_timers(test, nr + 1);
	u64 turn = 1ULL << min(w->shape.levels, 2U) * row->shape.slot_bits;
	unsigned int i;

	KUNIT_EXPECT_TRUE(test, add_at(w, &timers[nr], start + turn));
	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_TRUE(test, add_at(w, &timers[i], start + 1 + i));
	for (i = 1; i <= nr; i++)
		KUNIT_EXPECT_EQ(test, expire_all(test, w, tick_start(w, start + i)),
				i == turn ? 2U : 1U);
	KUNIT_EXPECT_EQ(test, w->cascaded, 0ULL);

	now = tick_start(w, start + turn);
	KUNIT_EXPECT_EQ(test, expire_all(test, w, now - 1), 0U);
	expire_all(test, w, now);
	KUNIT_EXPECT_EQ(test, timers[nr].fired, 1U);
	KUNIT_EXPECT_EQ(test, w->cascaded, w->shape.levels > 1 ? 1ULL : 0ULL);
}

/*
 * One level of 16 buckets, which are visited at these ticks:
 *
 *     tick    20  22  24  36  38  40  52 ... 1000
 *     bucket   4   6   8   4   6   8   4        8
 *
 * When the first timer expires, at 20, the wheel does not know that 1000 is next.
 */
static void round_test(struct kunit *test)
{
	const u64 ticks[] = { 20, 1000, 3014, 5012 };
	struct wheel_shape shape = { .slot_bits = 4, .levels = 1 };
	struct wheel *w = twheel_kunit_make(test, shape, 0);
	struct timer *timers = make_timers(test, ARRAY_SIZE(ticks));
	unsigned int i;
	u64 now = 0;

	for (i = 0; i < ARRAY_SIZE(ticks); i++)
		KUNIT_EXPECT_TRUE(test, add_at(w, &timers[i], ticks[i]));
	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		KUNIT_EXPECT_PTR_EQ(test, turn(test, w, &now, 8), &timers[i].node);
		KUNIT_EXPECT_EQ(test, now, ticks[i]);
	}
	expect_idle(test, w, now);
}

/* G7: If all timers are deleted, one look, which touches no timer, brings the wheel to rest. */
static void idle_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	u64 now = 4711ULL << row->shape.shift;
	struct wheel *w = twheel_kunit_make(test, row->shape, now);
	struct timer *timers = make_timers(test, SCATTERED);
	unsigned int i;

	scatter(test, w, timers);
	for (i = 0; i < SCATTERED; i++)
		wheel_del(w, &timers[i].node);
	KUNIT_EXPECT_PTR_EQ(test, turn(test, w, &now, 1), NULL);
	KUNIT_EXPECT_EQ(test, wheel_next(w), WHEEL_NEVER);
	KUNIT_EXPECT_EQ(test, w->cascaded, 0ULL);

	/* The wheel can be used again. */
	KUNIT_EXPECT_EQ(test, expire_all(test, w, now + tick_start(w, 1 << 20)), 0U);
	now += tick_start(w, 1 << 20);
	KUNIT_EXPECT_TRUE(test, wheel_add(w, &timers->node, 0, now + 1, 0));
	KUNIT_EXPECT_EQ(test, fires_at(test, w, &timers->node, now), now + tick_start(w, 1));
}

/* Only the last timer to leave a bucket empties the bucket. */
static void share_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	struct wheel *w = twheel_kunit_make(test, row->shape, 0);
	struct timer *timers = make_timers(test, 3);
	unsigned int i, j;

	for (i = 0; i < 3; i++) {
		for (j = 0; j < 3; j++) {
			unsigned int last = 3 - i - j;

			if (i == j)
				continue;
			restart(w, 0);
			KUNIT_EXPECT_TRUE(test, add_at(w, &timers[0], 1000));
			KUNIT_EXPECT_TRUE(test, add_at(w, &timers[1], 1000));
			KUNIT_EXPECT_TRUE(test, add_at(w, &timers[2], 1000));
			wheel_del(w, &timers[i].node);
			wheel_del(w, &timers[j].node);
			KUNIT_EXPECT_EQ_MSG(test, fires_at(test, w, &timers[last].node, 0),
					    tick_start(w, 1000), "%u and %u deleted", i, j);
		}
	}
}

/* wheel_set_time() moves the base of new distances, and never skips a timer. */
static void set_time_test(struct kunit *test)
{
	struct wheel_shape shape = { .shift = 19, .slot_bits = 6 };
	struct wheel *w = twheel_kunit_make(test, shape, 0);
	struct timer *timers = make_timers(test, 4);
	u64 now;

	/* Nothing is due: a timer of the next tick goes to level 0, not far away. */
	wheel_set_time(w, tick_start(w, 1000000));
	KUNIT_EXPECT_TRUE(test, add_at(w, &timers[0], 1000064));
	KUNIT_EXPECT_EQ(test, wheel_next(w), tick_start(w, 1000064));
	KUNIT_EXPECT_FALSE(test, add_at(w, &timers[1], 1000000));

	/* Up to the tick before the one that is due. */
	wheel_set_time(w, tick_start(w, 1000063));
	KUNIT_EXPECT_FALSE(test, add_at(w, &timers[1], 1000063));

	/* Something is due, and has to be done first, whatever time was set. */
	wheel_set_time(w, tick_start(w, 1000064));
	KUNIT_EXPECT_TRUE(test, add_at(w, &timers[1], 1000064));
	now = tick_start(w, 2000010);
	wheel_set_time(w, now);
	KUNIT_EXPECT_TRUE(test, add_at(w, &timers[2], 1000065));
	KUNIT_EXPECT_TRUE(test, add_at(w, &timers[3], 2000040));
	KUNIT_EXPECT_EQ(test, expire_all(test, w, now), 3U);
	KUNIT_EXPECT_EQ(test, timers[3].fired, 0U);

	/* wheel_expire() sets the time too: the last visit was at 2000000. */
	KUNIT_EXPECT_FALSE(test, add_at(w, &timers[1], 2000005));
	KUNIT_EXPECT_EQ(test, fires_at(test, w, &timers[3].node, now), tick_start(w, 2000040));
}

/* The number of ticks by which a clock is set back. */
static const u64 setbacks[] = { 1, 40, 63, 64, 65, 1000, 4096, 123456, 1000000 };

/* Timers that were armed before and after a setback expire when they are due again. */
static void setback_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	const u64 late = 1000000;
	const u64 delays[] = { 1, 50, 64, 100, 5000, 1ULL << 20 };
	const unsigned int nr = ARRAY_SIZE(delays);
	struct wheel *w = twheel_kunit_make(test, row->shape, 0);
	struct timer *before = make_timers(test, nr);
	struct timer *after = make_timers(test, nr);
	unsigned int i, j, told;

	for (i = 0; i < ARRAY_SIZE(setbacks); i++) {
		for (told = 0; told < 2; told++) {
			u64 early = late - setbacks[i];
			u64 now = tick_start(w, early);
			u64 last = early;

			restart(w, tick_start(w, late));
			for (j = 0; j < nr; j++)
				KUNIT_EXPECT_TRUE(test, add_at(w, &before[j], late + delays[j]));
			if (told)
				wheel_set_time(w, now);
			else
				KUNIT_EXPECT_EQ(test, expire_all(test, w, now), 0U);
			for (j = 0; j < nr; j++)
				KUNIT_EXPECT_TRUE(test, add_at(w, &after[j], early + delays[j]));

			for (j = 0; j < 2 * nr; j++) {
				struct wheel_node *node = turn(test, w, &now, UNLIMITED);
				struct timer *timer;

				KUNIT_ASSERT_NOT_NULL(test, node);
				timer = timer_of(node);
				KUNIT_ASSERT_EQ_MSG(test, now, tick_start(w, timer->tick),
						    "%llu ticks back", setbacks[i]);
				KUNIT_ASSERT_LE(test, last, timer->tick);
				last = timer->tick;
			}
			expect_idle(test, w, now);
		}
	}
}

/* The clock is set back while a bucket is visited: the timers that are left wait for it. */
static void visit_setback_test(struct kunit *test)
{
	struct timer *timers = make_timers(test, VISITED);
	unsigned int budget, ticks, i;

	for (budget = 0; budget <= 2 * VISITED; budget++) {
		for (ticks = 1; ticks <= VISITED_TICK; ticks++) {
			struct wheel *w = begin_visit(test, timers, budget);
			unsigned int gone = budget > VISITED ? budget - VISITED : 0;
			u64 now = tick_start(w, VISITED_TICK - ticks);

			if (ticks & 1)
				wheel_set_time(w, now);
			KUNIT_ASSERT_EQ_MSG(test, expire_all(test, w, now), 0U,
					    "budget %u, %u ticks back", budget, ticks);
			for (i = gone; i < VISITED; i++) {
				KUNIT_ASSERT_NOT_NULL(test, turn(test, w, &now, 8));
				KUNIT_ASSERT_EQ_MSG(test, now, tick_start(w, VISITED_TICK),
						    "budget %u, %u ticks back", budget, ticks);
			}
			expect_idle(test, w, now);
		}
	}
}

#define FETCHED		100U

/* When each number was prefetched last, how often any was, and how often as due. */
static unsigned int fetched_at[FETCHED];
static unsigned int fetches, fetches_due, fetch_step;

static void note_fetch(const void *nodes, u32 number, bool due)
{
	fetches++;
	fetches_due += due;
	fetched_at[number] = fetch_step;
}

struct fetch_row {
	const char *name;
	unsigned int nr;
	unsigned int deleted;
};

/* The cases in which the prefetched timers of a bucket are fewer, or start again. */
static const struct fetch_row fetch_rows[] = {
	{ "one timer", 1, 0 },
	{ "one less than are fetched ahead", WHEEL_AHEAD - 1, 0 },
	{ "as many as are fetched ahead", WHEEL_AHEAD, 0 },
	{ "one more", WHEEL_AHEAD + 1, 0 },
	{ "twice as many", 2 * WHEEL_AHEAD, 0 },
	{ "100 timers", FETCHED, 0 },
	{ "100 after 8 that were deleted", FETCHED, WHEEL_AHEAD },
	{ "100 after all were deleted", FETCHED, FETCHED },
};

ROWS(fetch, fetch_rows);

/*
 * A visit prefetches each timer eight timers before it reaches it, or at its start, both when
 * it moves timers down and when they expire. Only the latter are prefetched as due.
 */
static void fetch_test(struct kunit *test)
{
	const struct fetch_row *row = test->param_value;
	struct wheel_shape shape = { .shift = 19, .slot_bits = 6 };
	struct wheel *w = twheel_kunit_make(test, shape, 0);
	struct timer *timers = make_timers(test, FETCHED);
	u64 now = tick_start(w, VISITED_TICK);
	unsigned int budget = UNLIMITED, i;

	w->fetch = note_fetch;
	for (i = 0; i < FETCHED; i++)
		timers[i].node.number = i;
	for (i = 0; i < row->deleted; i++)
		KUNIT_EXPECT_TRUE(test, add_at(w, &timers[i], VISITED_TICK));
	for (i = 0; i < row->deleted; i++)
		wheel_del(w, &timers[i].node);
	for (i = 0; i < row->nr; i++)
		KUNIT_EXPECT_TRUE(test, add_at(w, &timers[i], VISITED_TICK));

	memset(fetched_at, 0, sizeof(fetched_at));
	fetches = 0;
	fetches_due = 0;
	fetch_step = 1;
	KUNIT_EXPECT_PTR_EQ(test, wheel_expire(w, tick_start(w, 64), &budget), NULL);
	for (i = 0; i < row->nr; i++)
		KUNIT_EXPECT_TRUE(test, fetched_at[i]);
	KUNIT_EXPECT_EQ(test, fetches, row->nr + WHEEL_AHEAD);
	KUNIT_EXPECT_EQ(test, fetches_due, 0U);

	memset(fetched_at, 0, sizeof(fetched_at));
	fetches = 0;
	for (i = 0; i < row->nr; i++) {
		struct wheel_node *node;

		budget = UNLIMITED;
		fetch_step = i + 1;
		node = wheel_expire(w, now, &budget);
		KUNIT_ASSERT_NOT_NULL(test, node);
		KUNIT_EXPECT_TRUE(test, fetched_at[node->number]);
		KUNIT_EXPECT_LE(test, fetched_at[node->number] + min(i, WHEEL_AHEAD), fetch_step);
	}
	KUNIT_EXPECT_EQ(test, fetches, row->nr + WHEEL_AHEAD);
	KUNIT_EXPECT_EQ(test, fetches_due, fetches);
	expect_idle(test, w, now);

	/* Timers beyond the budget are not prefetched. */
	restart(w, 0);
	w->fetch = note_fetch;
	for (i = 0; i < row->nr; i++)
		KUNIT_EXPECT_TRUE(test, add_at(w, &timers[i], VISITED_TICK));
	fetches = 0;
	budget = WHEEL_AHEAD - 1;
	while (wheel_expire(w, now, &budget))
		;
	KUNIT_EXPECT_EQ(test, fetches, 0U);
}

static struct kunit_case twheel_turn_cases[] = {
	KUNIT_CASE_PARAM(move_test, shape_gen_params),
	KUNIT_CASE_PARAM(heartbeat_test, shape_gen_params),
	KUNIT_CASE_PARAM(visit_del_test, visit_gen_params),
	KUNIT_CASE(visit_add_test),
	KUNIT_CASE(visit_add_due_test),
	KUNIT_CASE_PARAM(rearm_test, shape_gen_params),
	KUNIT_CASE_PARAM(order_test, shape_gen_params),
	KUNIT_CASE_PARAM(budget_test, shape_gen_params),
	KUNIT_CASE_PARAM(jump_test, shape_gen_params),
	KUNIT_CASE_PARAM(huge_jump_test, shape_gen_params),
	KUNIT_CASE_PARAM(present_test, shape_gen_params),
	KUNIT_CASE(round_test),
	KUNIT_CASE_PARAM(idle_test, shape_gen_params),
	KUNIT_CASE_PARAM(share_test, shape_gen_params),
	KUNIT_CASE(set_time_test),
	KUNIT_CASE_PARAM(setback_test, shape_gen_params),
	KUNIT_CASE(visit_setback_test),
	KUNIT_CASE_PARAM(fetch_test, fetch_gen_params),
	{}
};

static struct kunit_suite twheel_turn_suite = {
	.name = "twheel_turn",
	.test_cases = twheel_turn_cases,
};

kunit_test_suite(twheel_turn_suite);
