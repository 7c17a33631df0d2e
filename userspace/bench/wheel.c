// SPDX-License-Identifier: GPL-2.0
/*
 * Wheels of one's own: twheel.c, called directly, on one timerfd.
 *
 * The eager one moves a timer when it is told to. The lazy one stores the new
 * deadline, if that is later, and moves the timer when the wheel gets to it: what
 * the deadline table does, without anybody to share it with.
 */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <linux/limits.h>

#include "twheel.h"
#include "bench.h"

/* A tick of 0.5 ms, as that of libtwheel if nothing else is asked for. */
#define SHIFT		19
#define SLOT_BITS	6

/**
 * struct timer - one timer
 * @node: its place in the wheel
 * @deadline: when it is due; 0 if it is not armed
 * @queued: for when it is in the wheel; 0 if it is not
 * @index: who it is
 */
struct timer {
	struct twheel_node node;
	uint64_t deadline;
	uint64_t queued;
	uint32_t index;
};

struct wheel {
	struct twheel wheel;
	struct bench_alarm alarm;
	uint64_t slack;
	void *mem;
	struct timer *timers;
};

static int wheel_open(struct bench *b)
{
	struct wheel *w = bench_alloc(1, sizeof(*w));
	struct twheel_shape shape = {
		.shift = b->tick ? 63 - __builtin_clzll(b->tick) : SHIFT,
		.slot_bits = SLOT_BITS,
	};
	uint32_t i;

	shape.levels = twheel_max_levels(shape.shift, shape.slot_bits);
	w->mem = bench_alloc(1, twheel_bytes(&shape));
	w->timers = bench_alloc(b->n + BENCH_SPARE, sizeof(*w->timers));
	twheel_init(&w->wheel, &shape, w->mem, bench_now());
	w->slack = b->slack;
	bench_alarm_open(&w->alarm);
	for (i = 0; i < b->n + BENCH_SPARE; i++) {
		w->timers[i].index = i;
		b->handle[i] = (uintptr_t)&w->timers[i];
	}
	b->state = w;
	return 0;
}

static void wheel_close(struct bench *b)
{
	struct wheel *w = b->state;

	close(w->alarm.fd);
	free(w->timers);
	free(w->mem);
	free(w);
}

static inline struct timer *timer_of(uint64_t handle)
{
	return (struct timer *)(uintptr_t)handle;
}

/* What is due already is due at the next tick. */
static inline void queue(struct wheel *w, struct timer *timer, uint64_t when)
{
	timer->queued = when;
	while (!twheel_add(&w->wheel, &timer->node, when, w->slack))
		when += 1ULL << w->wheel.shape.shift;
}

static inline void unqueue(struct wheel *w, struct timer *timer)
{
	twheel_del(&w->wheel, &timer->node);
	timer->queued = 0;
}

/*
 * Takes what is due now from the wheel, and says when to come again. The mutex
 * is not held while the program handles an expiration.
 */
static uint64_t turn(struct bench *b)
{
	struct wheel *w = b->state;
	unsigned int budget = UINT_MAX;
	uint64_t now = bench_now(), next;
	struct twheel_node *node;

	if (b->lock)
		pthread_mutex_lock(b->lock);
	for (;;) {
		struct timer *timer;

		node = twheel_expire(&w->wheel, now, &budget);
		if (!node)
			break;
		timer = container_of(node, struct timer, node);
		timer->queued = 0;
		/* The lazy one was told of another time meanwhile, or of none. */
		if (timer->deadline > now) {
			queue(w, timer, timer->deadline);
		} else if (timer->deadline) {
			timer->deadline = 0;
			if (b->lock)
				pthread_mutex_unlock(b->lock);
			bench_deliver(b, timer->index);
			if (b->lock)
				pthread_mutex_lock(b->lock);
		}
	}
	next = twheel_next(&w->wheel);
	if (b->lock)
		pthread_mutex_unlock(b->lock);
	return next;
}

static void wheel_deliver(struct bench *b, uint64_t until)
{
	struct wheel *w = b->state;

	do
		bench_alarm_wait(&w->alarm, turn(b), until);
	while (bench_now() < until);
}

/* Eager */

static inline int eager_arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct timer *timer = timer_of(handle);

	timer->deadline = when;
	queue(it, timer, when);
	return 0;
}

static inline int eager_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	struct timer *timer = timer_of(handle);

	(void)when;
	if (!timer->queued)
		return -1;
	timer->deadline = 0;
	unqueue(it, timer);
	return 0;
}

static inline int eager_move_one(void *it, uint64_t handle, uint64_t when)
{
	struct timer *timer = timer_of(handle);

	if (timer->queued)
		unqueue(it, timer);
	timer->deadline = when;
	queue(it, timer, when);
	return 0;
}

BENCH_LOOPS(eager, b->state, eager_arm_one, eager_move_one, eager_cancel_one)

const struct bench_backend bench_wheel = {
	.name = "wheel",
	.max_n = 10000000,
	.threads = 1,
	.open = wheel_open,
	BENCH_OPS(eager),
	.deliver = wheel_deliver,
	.close = wheel_close,
};

const struct bench_backend bench_wheel_mutex = {
	.name = "wheel+mutex",
	.max_n = 10000000,
	.threads = BENCH_SPARE,
	.locked = true,
	.open = wheel_open,
	BENCH_OPS(eager),
	.deliver = wheel_deliver,
	.close = wheel_close,
};

/* Lazy */

static inline int lazy_arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct timer *timer = timer_of(handle);

	timer->deadline = when;
	if (timer->queued && timer->queued <= when)
		return 0;
	if (timer->queued)
		unqueue(it, timer);
	queue(it, timer, when);
	return 0;
}

static inline int lazy_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	struct timer *timer = timer_of(handle);

	(void)it;
	(void)when;
	if (!timer->deadline)
		return -1;
	timer->deadline = 0;
	return 0;
}

BENCH_LOOPS(lazy, b->state, lazy_arm_one, lazy_arm_one, lazy_cancel_one)

const struct bench_backend bench_lazy = {
	.name = "lazy",
	.max_n = 10000000,
	.threads = 1,
	.open = wheel_open,
	BENCH_OPS(lazy),
	.deliver = wheel_deliver,
	.close = wheel_close,
};
