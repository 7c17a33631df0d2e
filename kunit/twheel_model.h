/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compares twheel.c with a sorted array.
 *
 * The array holds every queued timer, sorted by the tick at which it must expire.
 * wheel_expire() must always return one of the first tick, and NULL only if that tick is not
 * due. wheel_next() must not be later than that tick.
 *
 * The including file provides FUZZ_CHECK(), which ends the run if its condition is false, and
 * the number fuzz_operations.
 */
#ifndef _TWHEEL_MODEL_H
#define _TWHEEL_MODEL_H

#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "twheel_feed.h"

#define MODEL_AMPLE	(~0U)

/**
 * struct model_entry - a timer in the array
 * @tick: when it must expire
 * @timer: its index, which makes the order total
 */
struct model_entry {
	u64 tick;
	u64 timer;
};

struct model_timer {
	struct wheel_node node;
	u64 deadline;
	u64 tick;
	bool queued;
};

/**
 * struct model - a wheel, the array, and their common state
 * @f: the decisions
 * @w: the wheel
 * @now: the time
 * @told: the wheel has been told @now
 * @wandered: the clock has been set back since the wheel was made
 * @adds: the number of nodes queued since then
 * @timer: the timers
 * @timers: the number of timers
 * @array: the queued timers, sorted
 * @nr: the number of queued timers
 * @expired: the number of timers that have expired so far
 */
struct model {
	struct feed *f;
	struct wheel w;
	u64 now;
	bool told;
	bool wandered;
	u64 adds;
	struct model_timer *timer;
	unsigned int timers;
	struct model_entry *array;
	unsigned int nr;
	u64 expired;
};

/* Returns the place of @t in the array, or where it would be. */
static unsigned int place(const struct model *r, const struct model_timer *t)
{
	u64 timer = t - r->timer;
	unsigned int from = 0;
	unsigned int to = r->nr;

	while (from < to) {
		unsigned int i = (from + to) / 2;
		const struct model_entry *q = &r->array[i];

		if (q->tick < t->tick || (q->tick == t->tick && q->timer < timer))
			from = i + 1;
		else
			to = i;
	}
	return from;
}

static void array_insert(struct model *r, struct model_timer *t)
{
	unsigned int i = place(r, t);

	memmove(&r->array[i + 1], &r->array[i], (r->nr - i) * sizeof(*r->array));
	r->array[i] = (struct model_entry){ .tick = t->tick, .timer = t - r->timer };
	r->nr++;
	t->queued = true;
}

static void array_remove(struct model *r, struct model_timer *t)
{
	unsigned int i = place(r, t);

	r->nr--;
	memmove(&r->array[i], &r->array[i + 1], (r->nr - i) * sizeof(*r->array));
	t->queued = false;
}

/* Returns when the first timer of the array is due. */
static u64 array_next(const struct model *r)
{
	return r->nr ? contract_start(&r->w.shape, r->array[0].tick) : WHEEL_NEVER;
}

static struct model_timer *any_timer(struct model *r)
{
	return &r->timer[feed_below(r->f, r->timers)];
}

static void add(struct model *r, struct model_timer *t)
{
	const struct wheel_shape *shape = &r->w.shape;
	unsigned int kind = feed_byte(r->f);
	u64 distance = feed_distance(r->f, shape->shift);
	u64 slack = kind & 1 ? feed_distance(r->f, shape->shift) : 0;
	bool behind, added;

	/* A distance that passes the end of time may end anywhere. */
	if (kind & 2)
		t->deadline = r->now + distance;
	else
		t->deadline = kind & 0x1c ? feed_after(r->now, distance) :
					    feed_before(r->now, distance);
	t->tick = contract_tick(shape, t->deadline, slack);
	if (kind & 0x20) {
		wheel_set_time(&r->w, r->now);
		r->told = true;
	}
	/* A wheel that has something to do does not advance. */
	behind = !r->told || wheel_next(&r->w) <= r->now;
	added = wheel_add(&r->w, &t->node, 0, t->deadline, slack);
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

static void del(struct model *r, struct model_timer *t)
{
	wheel_del(&r->w, &t->node);
	array_remove(r, t);
}

/* Expires due timers, as far as @budget allows. */
static void expire(struct model *r, unsigned int budget)
{
	const struct wheel_shape *shape = &r->w.shape;
	u64 cascaded = r->w.cascaded;
	unsigned int left = budget;
	struct wheel_node *node;
	u64 expired = 0;

	r->told = false;
	while ((node = wheel_expire(&r->w, r->now, &left))) {
		struct model_timer *t = hlist_entry(&node->link, struct model_timer, node.link);
		unsigned int kind = feed_byte(r->f);

		FUZZ_CHECK(t->queued, ==, true);
		FUZZ_CHECK(t->deadline, <=, r->now);
		FUZZ_CHECK(t->tick, ==, r->array[0].tick);
		FUZZ_CHECK(t->tick, <=, r->now >> shape->shift);
		array_remove(r, t);
		expired++;
		fuzz_operations++;
		/* The caller may arm an expired timer again, and cancel another. */
		if (!(kind & 3))
			add(r, t);
		if (!(kind & 0xc)) {
			t = any_timer(r);
			if (t->queued)
				del(r, t);
		}
	}
	r->expired += expired;
	cascaded = r->w.cascaded - cascaded;
	FUZZ_CHECK(budget - left, ==, expired + cascaded);
	if (!left)
		return;
	r->told = true;
	FUZZ_CHECK(array_next(r), >, r->now);
	FUZZ_CHECK(wheel_next(&r->w), >, r->now);
}

static void advance(struct model *r)
{
	unsigned int kind = feed_byte(r->f);
	u64 now = r->now;

	switch (kind & 3) {
	case 0:
		now = feed_after(now, feed_distance(r->f, r->w.shape.shift));
		break;
	case 1:
		/* The last moment at which nothing may expire. */
		now = max(now, array_next(r) - 1);
		break;
	case 2:
		now = max(now, array_next(r));
		break;
	case 3:
		/* Like the owner of a wheel does it. */
		now = max(now, wheel_next(&r->w));
		break;
	}
	r->now = min(now, WHEEL_NEVER - 1);
	expire(r, kind & 0x30 ? MODEL_AMPLE : (kind >> 6) + 1);
}

static void set_back(struct model *r)
{
	r->now = feed_before(r->now, feed_distance(r->f, r->w.shape.shift));
	r->wandered = true;
	if (feed_below(r->f, 2)) {
		wheel_set_time(&r->w, r->now);
		r->told = true;
	} else {
		expire(r, feed_below(r->f, 2) ? MODEL_AMPLE : 1);
	}
}

static void operate(struct model *r)
{
	unsigned int op = feed_byte(r->f) & 15;
	struct model_timer *t;

	switch (op) {
	case 14:
		/* Rarely, because it discards what is known about the clock. */
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

/* Checks that an empty wheel is at rest after at most two looks, whatever it contained. */
static void empty(struct model *r)
{
	const struct wheel_shape *shape = &r->w.shape;
	unsigned int looks;

	while (r->nr)
		del(r, &r->timer[r->array[feed_below(r->f, min(r->nr, 65536U))].timer]);
	for (looks = 0; wheel_next(&r->w) != WHEEL_NEVER; looks++) {
		FUZZ_CHECK(looks, <, 2);
		r->now = max(r->now, wheel_next(&r->w));
		expire(r, MODEL_AMPLE);
	}
	/* If no level goes round, a node moves down at most once per level. */
	if (!r->wandered && shape->levels == wheel_max_levels(shape->shift, shape->slot_bits))
		FUZZ_CHECK(r->w.cascaded, <=, r->adds * (shape->levels - 1));
}

/*
 * Does up to @operations on a wheel of @shape in @mem, which is zeroed, and which an empty
 * wheel leaves as it was. @r has its feed, its timers, and an array for as many.
 */
static void model_run(struct model *r, const struct wheel_shape *shape, void *mem, u64 operations)
{
	u64 i;

	r->now = feed_start(r->f, shape->shift);
	r->told = true;
	r->wandered = false;
	r->adds = 0;
	memset(&r->w, 0, sizeof(r->w));
	wheel_init(&r->w, shape, mem, r->now, NULL, NULL);
	for (i = 0; i < operations && !feed_over(r->f); i++) {
		operate(r);
		fuzz_operations++;
	}
	empty(r);
}

#endif /* _TWHEEL_MODEL_H */
