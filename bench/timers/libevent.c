// SPDX-License-Identifier: GPL-2.0
/*
 * libevent: a binary heap. During a callback, libevent uses a cached time, so the operations are
 * called from one.
 */
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>

#include "bench.h"

struct timer {
	struct event event;
	struct bench *owner;
};

/**
 * struct loop - a loop and its timers
 * @base: the loop of libevent
 * @timers: the timers
 * @call: an event that is activated to call @todo from its callback
 * @stop: a timer that ends bench_backend.deliver()
 * @now: a time that is not later than the cached time of the loop
 * @todo: the operation to call, with the next three members as its arguments
 */
struct loop {
	struct event_base *base;
	struct timer *timers;
	struct event call;
	struct event stop;
	uint64_t now;
	void (*todo)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
	const uint64_t *handle;
	size_t nr;
	uint64_t when;
};

static struct timeval to_timeval(uint64_t ns)
{
	return (struct timeval) {
		.tv_sec = ns / NSEC_PER_SEC,
		.tv_usec = ns % NSEC_PER_SEC / NSEC_PER_USEC,
	};
}

static void called(evutil_socket_t fd, short what, void *arg)
{
	struct bench *b = arg;
	struct loop *l = b->state;

	(void)fd;
	(void)what;
	l->now = bench_now();
	event_base_update_cache_time(l->base);
	l->todo(b, l->handle, l->nr, l->when);
}

static void stopped(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(arg);
}

static void expired(evutil_socket_t fd, short what, void *arg)
{
	struct timer *timer = arg;
	struct loop *l = timer->owner->state;

	(void)fd;
	(void)what;
	bench_deliver(timer->owner, timer - l->timers);
}

static int libevent_open(struct bench *b)
{
	struct loop *l = bench_alloc(1, sizeof(*l));
	uint32_t i;

	l->timers = bench_alloc(b->n + BENCH_SPARE, sizeof(*l->timers));
	l->base = event_base_new();
	if (!l->base)
		bench_die("event_base_new");
	for (i = 0; i < b->n + BENCH_SPARE; i++) {
		l->timers[i].owner = b;
		event_assign(&l->timers[i].event, l->base, -1, 0, expired, &l->timers[i]);
		b->handle[i] = (uintptr_t)&l->timers[i];
	}
	event_assign(&l->call, l->base, -1, 0, called, b);
	event_assign(&l->stop, l->base, -1, 0, stopped, l->base);
	b->state = l;
	return 0;
}

static void libevent_close(struct bench *b)
{
	struct loop *l = b->state;
	uint32_t i;

	for (i = 0; i < b->n + BENCH_SPARE; i++)
		event_del(&l->timers[i].event);
	event_base_free(l->base);
	free(l->timers);
	free(l);
}

static inline int arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct timer *timer = (struct timer *)(uintptr_t)handle;
	struct loop *l = it;
	/* Round up to whole microseconds, so that the timer is not early. */
	struct timeval tv = to_timeval(when - l->now + NSEC_PER_USEC - 1);

	return event_add(&timer->event, &tv);
}

static inline int cancel_one(void *it, uint64_t handle, uint64_t when)
{
	struct timer *timer = (struct timer *)(uintptr_t)handle;

	(void)it;
	(void)when;
	return event_del(&timer->event);
}

BENCH_LOOPS(inner, b->state, arm_one, arm_one, cancel_one)

static void call(struct bench *b, BENCH_PROTO((*todo)), const uint64_t *handle, size_t nr,
		 uint64_t when)
{
	struct loop *l = b->state;

	l->todo = todo;
	l->handle = handle;
	l->nr = nr;
	l->when = when;
	event_active(&l->call, EV_TIMEOUT, 0);
	event_base_loop(l->base, EVLOOP_NONBLOCK);
}

#define CALLED(op)							\
static void libevent_##op(struct bench *b, const uint64_t *handle,	\
			 size_t nr, uint64_t when)			\
{									\
	call(b, inner_##op, handle, nr, when);				\
}

CALLED(arm)
CALLED(move)
CALLED(cancel)
CALLED(pair)
CALLED(turnover)

static void libevent_deliver(struct bench *b, uint64_t until)
{
	struct loop *l = b->state;
	uint64_t now = bench_now();
	struct timeval tv;

	if (until <= now)
		return;
	tv = to_timeval(until - now);
	event_add(&l->stop, &tv);
	event_base_loop(l->base, 0);
}

BENCH_BACKEND(libevent, "libevent", libevent, libevent,
	      .max_n = 10000000, .threads = 1, .open = libevent_open);

static void libevent_begin(struct bench *b)
{
	struct loop *l = b->state;

	l->now = bench_now();
}

/* Two threads call the operations from outside of callbacks, where there is no cached time. */
BENCH_BACKEND(libevent_mutex, "libevent+mutex", inner, libevent,
	      .max_n = 10000000, .threads = 2, .locked = true, .together = true,
	      .open = libevent_open, .begin = libevent_begin);
