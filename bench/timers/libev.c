// SPDX-License-Identifier: GPL-2.0
/* libev: a heap with four children per node. Delays are relative to the cached time of the loop. */
#include <ev.h>
#include <stdlib.h>

#include "bench.h"

/**
 * struct loop - a loop and its timers
 * @loop: the loop of libev
 * @timers: the timers
 * @stop: a timer that ends bench_backend.deliver()
 * @now: a time that is not later than the cached time of the loop
 */
struct loop {
	struct ev_loop *loop;
	ev_timer *timers;
	ev_timer stop;
	uint64_t now;
};

static void expired(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct bench *b = ev_userdata(loop);
	struct loop *l = b->state;

	(void)revents;
	/* ev_timer_again() has made it a periodic timer. */
	ev_timer_stop(loop, timer);
	bench_deliver(b, timer - l->timers);
}

static void stopped(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void)timer;
	(void)revents;
	ev_break(loop, EVBREAK_ONE);
}

static int libev_open(struct bench *b)
{
	struct loop *l = bench_alloc(1, sizeof(*l));
	uint32_t i;

	l->timers = bench_alloc(b->n + BENCH_SPARE, sizeof(*l->timers));
	l->loop = ev_loop_new(EVFLAG_AUTO);
	if (!l->loop)
		bench_die("ev_loop_new");
	ev_set_userdata(l->loop, b);
	for (i = 0; i < b->n + BENCH_SPARE; i++) {
		ev_timer_init(&l->timers[i], expired, 0, 0);
		b->handle[i] = (uintptr_t)&l->timers[i];
	}
	ev_timer_init(&l->stop, stopped, 0, 0);
	b->state = l;
	return 0;
}

static void libev_close(struct bench *b)
{
	struct loop *l = b->state;

	ev_loop_destroy(l->loop);
	free(l->timers);
	free(l);
}

static void libev_begin(struct bench *b)
{
	struct loop *l = b->state;

	l->now = bench_now();
	ev_now_update(l->loop);
}

static inline int libev_arm_one(void *it, uint64_t handle, uint64_t when)
{
	ev_timer *timer = (ev_timer *)(uintptr_t)handle;
	struct loop *l = it;

	timer->repeat = (when - l->now) / 1e9;
	ev_timer_again(l->loop, timer);
	return 0;
}

static inline int libev_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	struct loop *l = it;

	(void)when;
	ev_timer_stop(l->loop, (ev_timer *)(uintptr_t)handle);
	return 0;
}

BENCH_LOOPS(libev, b->state, libev_arm_one, libev_arm_one, libev_cancel_one)

static void libev_deliver(struct bench *b, uint64_t until)
{
	struct loop *l = b->state;

	libev_begin(b);
	if (until <= l->now)
		return;
	ev_timer_set(&l->stop, (until - l->now) / 1e9, 0);
	ev_timer_start(l->loop, &l->stop);
	ev_run(l->loop, 0);
}

BENCH_BACKEND(libev, "libev", libev, libev,
	      .max_n = 10000000, .threads = 1, .open = libev_open, .begin = libev_begin);

BENCH_BACKEND(libev_mutex, "libev+mutex", libev, libev,
	      .max_n = 10000000, .threads = 2, .locked = true, .open = libev_open,
	      .begin = libev_begin, .again = libev_turnover);
