// SPDX-License-Identifier: GPL-2.0
/* libuv: a binary heap. Delays are in milliseconds, relative to the cached time of the loop. */
#include <stdlib.h>
#include <uv.h>

#include "bench.h"

/**
 * struct loop - a loop and its timers
 * @loop: the loop of libuv
 * @timers: the timers
 * @stop: a timer that ends bench_backend.deliver()
 * @now: a time that is not later than the cached time of the loop
 */
struct loop {
	uv_loop_t loop;
	uv_timer_t *timers;
	uv_timer_t stop;
	uint64_t now;
};

static void expired(uv_timer_t *timer)
{
	struct bench *b = timer->loop->data;
	struct loop *l = b->state;

	bench_deliver(b, timer - l->timers);
}

static void stopped(uv_timer_t *timer)
{
	uv_stop(timer->loop);
}

static int libuv_open(struct bench *b)
{
	struct loop *l = bench_alloc(1, sizeof(*l));
	uint32_t i;

	l->timers = bench_alloc(b->n + BENCH_SPARE, sizeof(*l->timers));
	if (uv_loop_init(&l->loop))
		bench_die("uv_loop_init");
	l->loop.data = b;
	for (i = 0; i < b->n + BENCH_SPARE; i++) {
		uv_timer_init(&l->loop, &l->timers[i]);
		b->handle[i] = (uintptr_t)&l->timers[i];
	}
	uv_timer_init(&l->loop, &l->stop);
	b->state = l;
	return 0;
}

static void libuv_close(struct bench *b)
{
	struct loop *l = b->state;
	uint32_t i;

	for (i = 0; i < b->n + BENCH_SPARE; i++)
		uv_close((uv_handle_t *)&l->timers[i], NULL);
	uv_close((uv_handle_t *)&l->stop, NULL);
	uv_run(&l->loop, UV_RUN_DEFAULT);
	uv_loop_close(&l->loop);
	free(l->timers);
	free(l);
}

static void libuv_begin(struct bench *b)
{
	struct loop *l = b->state;

	l->now = bench_now();
	uv_update_time(&l->loop);
}

static inline int libuv_arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct loop *l = it;
	uint64_t msec = (when - l->now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;

	return uv_timer_start((uv_timer_t *)(uintptr_t)handle, expired, msec, 0);
}

static inline int libuv_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	(void)it;
	(void)when;
	return uv_timer_stop((uv_timer_t *)(uintptr_t)handle);
}

BENCH_LOOPS(libuv, b->state, libuv_arm_one, libuv_arm_one, libuv_cancel_one)

static void libuv_deliver(struct bench *b, uint64_t until)
{
	struct loop *l = b->state;

	libuv_begin(b);
	if (until <= l->now)
		return;
	uv_timer_start(&l->stop, stopped, (until - l->now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC, 0);
	uv_run(&l->loop, UV_RUN_DEFAULT);
}

BENCH_BACKEND(libuv, "libuv", libuv, libuv,
	      .max_n = 10000000, .threads = 1, .open = libuv_open, .begin = libuv_begin);

BENCH_BACKEND(libuv_mutex, "libuv+mutex", libuv, libuv,
	      .max_n = 10000000, .threads = 2, .locked = true, .together = true, .open = libuv_open,
	      .begin = libuv_begin);
