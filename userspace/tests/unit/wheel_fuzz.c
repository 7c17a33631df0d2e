// SPDX-License-Identifier: GPL-2.0
/*
 * twheel.c against a sorted array: G1, G2, G6, G7.
 *
 * In the array is what is queued, by the tick at which it must expire. So what
 * the wheel gives must always be of the first tick there; when it says that
 * nothing is due the first must not be; and its next moment must not be later
 * than that of the first.
 */
#include <string.h>

#include <linux/list.h>
#include <linux/minmax.h>

#include "fuzz.h"

#define AMPLE	(~0U)

/**
 * struct queued - what the array has of a timer
 * @tick: when it must expire
 * @timer: which it is; makes the order total
 */
struct queued {
	u64 tick;
	u64 timer;
};

struct timer {
	struct wheel_node node;
	u64 deadline;
	u64 tick;
	bool queued;
};

/**
 * struct run - a wheel, the array, and what is known of the two
 * @f: the decisions
 * @w: the wheel
 * @now: the time
 * @told: the wheel knows that it is @now
 * @wandered: the clock has been set back since the wheel was made
 * @adds: nodes queued since then
 * @timer: the timers
 * @timers: how many
 * @array: those that are queued, sorted
 * @nr: how many
 */
struct run {
	struct feed *f;
	struct wheel w;
	u64 now;
	bool told;
	bool wandered;
	u64 adds;
	struct timer *timer;
	unsigned int timers;
	struct queued *array;
	unsigned int nr;
};

/* Where @t is in the array, or would be. */
static unsigned int place(const struct run *r, const struct timer *t)
{
	u64 timer = t - r->timer;
	unsigned int from = 0;
	unsigned int to = r->nr;

	while (from < to) {
		unsigned int i = (from + to) / 2;
		const struct queued *q = &r->array[i];

		if (q->tick < t->tick || (q->tick == t->tick && q->timer < timer))
			from = i + 1;
		else
			to = i;
	}
	return from;
}

static void array_insert(struct run *r, struct timer *t)
{
	unsigned int i = place(r, t);

	memmove(&r->array[i + 1], &r->array[i], (r->nr - i) * sizeof(*r->array));
	r->array[i] = (struct queued){ .tick = t->tick, .timer = t - r->timer };
	r->nr++;
	t->queued = true;
}

static void array_remove(struct run *r, struct timer *t)
{
	unsigned int i = place(r, t);

	r->nr--;
	memmove(&r->array[i], &r->array[i + 1], (r->nr - i) * sizeof(*r->array));
	t->queued = false;
}

/* When the first in the array is due. */
static u64 array_next(const struct run *r)
{
	return r->nr ? tick_start(&r->w.shape, r->array[0].tick) : WHEEL_NEVER;
}

static struct timer *any_timer(struct run *r)
{
	return &r->timer[feed_below(r->f, r->timers)];
}

static void add(struct run *r, struct timer *t)
{
	const struct wheel_shape *shape = &r->w.shape;
	unsigned int kind = feed_byte(r->f);
	u64 distance = feed_distance(r->f, shape->shift);
	u64 slack = kind & 1 ? feed_distance(r->f, shape->shift) : 0;
	bool behind, added;

	/* Past the end of time a distance ends anywhere. */
	if (kind & 2)
		t->deadline = r->now + distance;
	else
		t->deadline = kind & 0x1c ? time_after(r->now, distance) :
					    time_before(r->now, distance);
	t->tick = contract_tick(shape, t->deadline, slack);
	if (kind & 0x20) {
		wheel_set_time(&r->w, r->now);
		r->told = true;
	}
	/* A wheel that has something to do stays where it is. */
	behind = !r->told || wheel_next(&r->w) <= r->now;
	added = wheel_add(&r->w, &t->node, t->deadline, slack);
	if (!behind)
		FUZZ_CHECK(added, ==, contract_tick(shape, t->deadline, 0) >
				      r->now >> shape->shift);
	if (added) {
		array_insert(r, t);
		r->adds++;
	} else {
		FUZZ_CHECK(t->deadline, <=, r->now);
	}
}

static void del(struct run *r, struct timer *t)
{
	wheel_del(&r->w, &t->node);
	array_remove(r, t);
}

/* Expires what is due, as far as @budget goes. */
static void expire(struct run *r, unsigned int budget)
{
	const struct wheel_shape *shape = &r->w.shape;
	u64 cascaded = r->w.cascaded;
	unsigned int left = budget;
	struct wheel_node *node;
	u64 expired = 0;

	r->told = false;
	while ((node = wheel_expire(&r->w, r->now, &left))) {
		struct timer *t = hlist_entry(&node->link, struct timer, node.link);
		unsigned int kind = feed_byte(r->f);

		FUZZ_CHECK(t->queued, ==, true);
		FUZZ_CHECK(t->deadline, <=, r->now);
		FUZZ_CHECK(t->tick, ==, r->array[0].tick);
		FUZZ_CHECK(t->tick, <=, r->now >> shape->shift);
		array_remove(r, t);
		expired++;
		fuzz_operations++;
		/* Whoever gets one may arm it again, and cancel another. */
		if (!(kind & 3))
			add(r, t);
		if (!(kind & 0xc)) {
			t = any_timer(r);
			if (t->queued)
				del(r, t);
		}
	}
	cascaded = r->w.cascaded - cascaded;
	FUZZ_CHECK(budget - left, ==, expired + cascaded);
	if (!left)
		return;
	r->told = true;
	FUZZ_CHECK(array_next(r), >, r->now);
	FUZZ_CHECK(wheel_next(&r->w), >, r->now);
}

static void advance(struct run *r)
{
	unsigned int kind = feed_byte(r->f);
	u64 now = r->now;

	switch (kind & 3) {
	case 0:
		now = time_after(now, feed_distance(r->f, r->w.shape.shift));
		break;
	case 1:
		/* The last moment at which nothing may come. */
		now = max(now, array_next(r) - 1);
		break;
	case 2:
		now = max(now, array_next(r));
		break;
	case 3:
		/* As the owner of a wheel does it. */
		now = max(now, wheel_next(&r->w));
		break;
	}
	r->now = min(now, WHEEL_NEVER - 1);
	expire(r, kind & 0x30 ? AMPLE : (kind >> 6) + 1);
}

static void set_back(struct run *r)
{
	r->now = time_before(r->now, feed_distance(r->f, r->w.shape.shift));
	r->wandered = true;
	if (feed_below(r->f, 2)) {
		wheel_set_time(&r->w, r->now);
		r->told = true;
	} else {
		expire(r, feed_below(r->f, 2) ? AMPLE : 1);
	}
}

static void operate(struct run *r)
{
	unsigned int op = feed_byte(r->f) & 15;
	struct timer *t;

	switch (op) {
	case 14:
		/* Rare, as what was learned of the clock is lost. */
		if (!feed_below(r->f, 4))
			set_back(r);
		break;
	case 10 ... 13:
		advance(r);
		break;
	case 15:
		expire(r, feed_below(r->f, 4));
		break;
	default:
		t = any_timer(r);
		if (t->queued)
			del(r, t);
		if (op < 8)
			add(r, t);
		break;
	}
	FUZZ_CHECK(wheel_next(&r->w), <=, array_next(r));
}

/* Whatever was in it, a wheel that is empty is so after two looks at most. */
static void empty(struct run *r)
{
	const struct wheel_shape *shape = &r->w.shape;
	unsigned int looks;

	while (r->nr)
		del(r, &r->timer[r->array[feed_below(r->f, min(r->nr, 65536U))].timer]);
	for (looks = 0; wheel_next(&r->w) != WHEEL_NEVER; looks++) {
		FUZZ_CHECK(looks, <, 2);
		r->now = max(r->now, wheel_next(&r->w));
		expire(r, AMPLE);
	}
	/* Where no level goes round, a node moves down at most once a level. */
	if (!r->wandered && shape->levels == wheel_max_levels(shape->shift, shape->slot_bits))
		FUZZ_CHECK(r->w.cascaded, <=, r->adds * (shape->levels - 1));
}

void wheel_fuzz(struct feed *f, unsigned int timers, u64 operations)
{
	struct run r = { .f = f, .timers = timers, .told = true };
	struct wheel_shape shape = feed_shape(f);
	void *mem = fuzz_zalloc(wheel_bytes(&shape));
	u64 i;

	r.timer = fuzz_zalloc(timers * sizeof(*r.timer));
	r.array = fuzz_zalloc(timers * sizeof(*r.array));
	r.now = feed_start(f, shape.shift);
	wheel_init(&r.w, &shape, mem, r.now);
	for (i = 0; i < operations && !feed_over(f); i++) {
		operate(&r);
		fuzz_operations++;
	}
	empty(&r);
	free(r.array);
	free(r.timer);
	free(mem);
}
