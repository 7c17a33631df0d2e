// SPDX-License-Identifier: GPL-2.0
/*
 * Private wheels, which call twheel.c directly and use one timerfd.
 *
 * The eager wheel moves a timer at once. The lazy wheel stores a later deadline in the timer, and
 * moves it only when the wheel comes to it, like the deadline table but without sharing it.
 */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <linux/limits.h>

#include "twheel.h"
#include "bench.h"

/* The tick is 0.5 ms, which is the default of libtwheel. */
#define SHIFT		19
#define SLOT_BITS	6

/**
 * struct timer - one timer
 * @node: its place in the wheel
 * @deadline: its deadline in the eager wheel; 0 if it is not armed
 */
struct timer {
	struct wheel_node node;
	uint64_t deadline;
};

/**
 * struct moment - the part of a timer that most operations of the lazy wheel access
 * @deadline: its deadline; 0 if it is not armed
 * @queued: the deadline with which it is in the wheel; 0 if it is not in the wheel
 */
struct moment {
	uint64_t deadline;
	uint64_t queued;
};

struct own_wheel {
	struct wheel wheel;
	struct bench_alarm alarm;
	uint64_t slack;
	void *mem;
	struct timer *timers;
	/* NULL in the eager wheel. */
	struct moment *moments;
};

static bool lazy_expired(struct own_wheel *w, struct moment *moment, uint64_t now);

static int wheel_open(struct bench *b)
{
	struct own_wheel *w = bench_alloc(1, sizeof(*w));
	struct wheel_shape shape = {
		.shift = b->tick ? 63 - __builtin_clzll(b->tick) : SHIFT,
		.slot_bits = SLOT_BITS,
	};
	uint32_t i;

	shape.levels = wheel_max_levels(shape.shift, shape.slot_bits);
	w->mem = bench_alloc(1, wheel_bytes(&shape));
	w->timers = bench_alloc(b->n + BENCH_SPARE, sizeof(*w->timers));
	wheel_init(&w->wheel, &shape, w->mem, bench_now(), NULL, NULL);
	w->slack = b->slack;
	bench_alarm_open(&w->alarm);
	for (i = 0; i < b->n + BENCH_SPARE; i++)
		b->handle[i] = (uintptr_t)&w->timers[i];
	b->state = w;
	return 0;
}

static void wheel_close(struct bench *b)
{
	struct own_wheel *w = b->state;

	close(w->alarm.fd);
	free(w->timers);
	free(w->moments);
	free(w->mem);
	free(w);
}

static inline struct timer *timer_of(uint64_t handle)
{
	return (struct timer *)(uintptr_t)handle;
}

/* A timer that is already due expires at the next tick. */
static inline void queue(struct own_wheel *w, struct wheel_node *node, uint64_t when)
{
	while (!wheel_add(&w->wheel, node, 0, when, w->slack))
		when += 1ULL << w->wheel.shape.shift;
}

/*
 * Delivers the timers that are due, and returns when the wheel must be turned next. The mutex is
 * not held while the program handles an expiration.
 */
static uint64_t turn(struct bench *b)
{
	struct own_wheel *w = b->state;
	unsigned int budget = UINT_MAX;
	uint64_t now = bench_now(), next;
	struct wheel_node *node;

	bench_lock(b);
	while ((node = wheel_expire(&w->wheel, now, &budget))) {
		struct timer *timer = container_of(node, struct timer, node);
		uint32_t index = timer - w->timers;

		timer->deadline = 0;
		if (w->moments && !lazy_expired(w, &w->moments[index], now))
			continue;
		bench_unlock(b);
		bench_deliver(b, index);
		bench_lock(b);
	}
	next = wheel_next(&w->wheel);
	bench_unlock(b);
	return next;
}

static void wheel_deliver(struct bench *b, uint64_t until)
{
	struct own_wheel *w = b->state;

	do
		bench_alarm_wait(&w->alarm, turn(b), until);
	while (bench_now() < until);
}

/* Eager */

static inline int eager_arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct timer *timer = timer_of(handle);

	timer->deadline = when;
	queue(it, &timer->node, when);
	return 0;
}

static inline int eager_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	struct timer *timer = timer_of(handle);
	struct own_wheel *w = it;

	(void)when;
	if (!timer->deadline)
		return -1;
	timer->deadline = 0;
	wheel_del(&w->wheel, &timer->node);
	return 0;
}

static inline int eager_move_one(void *it, uint64_t handle, uint64_t when)
{
	struct timer *timer = timer_of(handle);
	struct own_wheel *w = it;

	if (timer->deadline)
		wheel_del(&w->wheel, &timer->node);
	timer->deadline = when;
	queue(w, &timer->node, when);
	return 0;
}

BENCH_LOOPS(eager, b->state, eager_arm_one, eager_move_one, eager_cancel_one)

BENCH_BACKEND(wheel, "wheel", eager, wheel,
	      .max_n = 10000000, .threads = 1, .open = wheel_open);

BENCH_BACKEND(wheel_mutex, "wheel+mutex", eager, wheel,
	      .max_n = 10000000, .threads = BENCH_THREADS, .locked = true, .open = wheel_open,
	      .again = eager_turnover);

/* Lazy */

static inline struct wheel_node *node_of(const struct own_wheel *w, const struct moment *moment)
{
	return &w->timers[moment - w->moments].node;
}

static inline void queue_lazily(struct own_wheel *w, struct moment *moment)
{
	moment->queued = moment->deadline;
	queue(w, node_of(w, moment), moment->queued);
}

static inline int lazy_arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct moment *moment = (struct moment *)(uintptr_t)handle;
	struct own_wheel *w = it;

	moment->deadline = when;
	if (moment->queued && moment->queued <= when)
		return 0;
	if (moment->queued)
		wheel_del(&w->wheel, node_of(w, moment));
	queue_lazily(w, moment);
	return 0;
}

static inline int lazy_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	struct moment *moment = (struct moment *)(uintptr_t)handle;

	(void)it;
	(void)when;
	if (!moment->deadline)
		return -1;
	moment->deadline = 0;
	return 0;
}

/* True if the timer has expired. Its deadline may have changed since it was queued. */
static bool lazy_expired(struct own_wheel *w, struct moment *moment, uint64_t now)
{
	bool expired = moment->deadline && moment->deadline <= now;

	moment->queued = 0;
	if (expired)
		moment->deadline = 0;
	else if (moment->deadline)
		queue_lazily(w, moment);
	return expired;
}

static int lazy_open(struct bench *b)
{
	struct own_wheel *w;
	uint32_t i;

	if (wheel_open(b))
		return -1;
	w = b->state;
	w->moments = bench_alloc(b->n + BENCH_SPARE, sizeof(*w->moments));
	for (i = 0; i < b->n + BENCH_SPARE; i++)
		b->handle[i] = (uintptr_t)&w->moments[i];
	return 0;
}

BENCH_LOOPS(lazy, b->state, lazy_arm_one, lazy_arm_one, lazy_cancel_one)

BENCH_BACKEND(lazy, "lazy", lazy, wheel,
	      .max_n = 10000000, .threads = 1, .open = lazy_open);

BENCH_BACKEND(lazy_mutex, "lazy+mutex", lazy, wheel,
	      .max_n = 10000000, .threads = 2, .locked = true, .together = true, .open = lazy_open);
