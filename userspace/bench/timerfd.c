// SPDX-License-Identifier: GPL-2.0
/*
 * A timerfd each, in one epoll set.
 *
 * Where a process may not have so many descriptors, threads with tables of their
 * own hold the rest. These are in the kernel's queue like the others, but only
 * the first can be operated on.
 */
#define _GNU_SOURCE
#include <linux/close_range.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "bench.h"

#define EVENTS	256

/* Of the descriptors, for others. */
#define RESERVE	1024U

/**
 * struct holder - a thread with a table of descriptors of its own
 * @thread: it
 * @nr: how many timerfds it holds
 * @crew: all holders
 */
struct holder {
	pthread_t thread;
	uint32_t nr;
	struct crew *crew;
};

/**
 * struct crew - those who hold what is beyond this process's limit
 * @lock: protects what follows
 * @changed: one of these has
 * @holder: the threads
 * @nr: how many
 * @ready: how many have armed what they hold
 * @failed: one of them could not
 * @leave: they shall end
 */
struct crew {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct holder *holder;
	unsigned int nr;
	unsigned int ready;
	bool failed;
	bool leave;
};

struct timerfds {
	int loop;
	int *fd;
	uint32_t nr;
	struct crew crew;
};

/* A descriptor each, of those that a process may have. */
static uint32_t timerfd_limit(void)
{
	uint64_t most = bench_raise_limit(RLIMIT_NOFILE, bench_timerfd.max_n + RESERVE);

	return most > RESERVE + BENCH_SPARE ? most - RESERVE - BENCH_SPARE : 0;
}

static int make_timerfd(void)
{
	return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
}

/* Armed for anywhen within this, an hour from now: nobody waits for them. */
#define HOLD_FROM	(3600 * NSEC_PER_SEC)
#define HOLD_SPAN	(5 * NSEC_PER_SEC)

static bool hold_some(uint32_t nr)
{
	uint64_t base = bench_now() + HOLD_FROM;
	uint32_t i;

	/* A table of our own, and nothing of the others' in it. */
	if (close_range(3, ~0U, CLOSE_RANGE_UNSHARE))
		return false;
	for (i = 0; i < nr; i++) {
		uint64_t when = base + bench_random() % HOLD_SPAN;
		struct itimerspec its = {
			.it_value.tv_sec = when / NSEC_PER_SEC,
			.it_value.tv_nsec = when % NSEC_PER_SEC,
		};
		int fd = make_timerfd();

		if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME, &its, NULL))
			return false;
	}
	return true;
}

static void *hold(void *arg)
{
	struct holder *holder = arg;
	struct crew *crew = holder->crew;
	bool held = hold_some(holder->nr);

	pthread_mutex_lock(&crew->lock);
	crew->ready++;
	crew->failed |= !held;
	pthread_cond_broadcast(&crew->changed);
	while (!crew->leave)
		pthread_cond_wait(&crew->changed, &crew->lock);
	pthread_mutex_unlock(&crew->lock);
	/* Its table ends with the thread. */
	return NULL;
}

/* The timerfds that are beyond the limit are armed all the same, in the one queue. */
static bool hire(struct crew *crew, uint32_t nr, uint32_t limit)
{
	bool fine;

	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->changed, NULL);
	crew->holder = bench_alloc(nr / limit + 1, sizeof(*crew->holder));
	while (nr) {
		struct holder *holder = &crew->holder[crew->nr++];

		holder->crew = crew;
		holder->nr = nr < limit ? nr : limit;
		nr -= holder->nr;
		if (pthread_create(&holder->thread, NULL, hold, holder))
			bench_die("pthread_create");
	}
	pthread_mutex_lock(&crew->lock);
	while (crew->ready < crew->nr)
		pthread_cond_wait(&crew->changed, &crew->lock);
	fine = !crew->failed;
	pthread_mutex_unlock(&crew->lock);
	return fine;
}

static void dismiss(struct crew *crew)
{
	unsigned int i;

	pthread_mutex_lock(&crew->lock);
	crew->leave = true;
	pthread_cond_broadcast(&crew->changed);
	pthread_mutex_unlock(&crew->lock);
	for (i = 0; i < crew->nr; i++)
		pthread_join(crew->holder[i].thread, NULL);
	free(crew->holder);
}

static void timerfd_close(struct bench *b)
{
	struct timerfds *t = b->state;
	uint32_t i;

	dismiss(&t->crew);
	for (i = 0; i < t->nr; i++)
		close(t->fd[i]);
	close(t->loop);
	free(t->fd);
	free(t);
}

static int timerfd_open(struct bench *b)
{
	uint32_t limit = timerfd_limit(), i;
	struct timerfds *t;

	if (!limit)
		return -1;
	if (b->usable > limit)
		b->usable = limit;
	t = bench_alloc(1, sizeof(*t));
	t->fd = bench_alloc(b->usable + BENCH_SPARE, sizeof(*t->fd));
	t->loop = epoll_create1(EPOLL_CLOEXEC);
	b->state = t;
	if (!hire(&t->crew, b->n - b->usable, limit)) {
		timerfd_close(b);
		return -1;
	}
	for (i = 0; i < b->usable + BENCH_SPARE; i++) {
		uint32_t index = i < b->usable ? i : b->n + i - b->usable;
		struct epoll_event ev = { .events = EPOLLIN, .data.u64 = (uint64_t)index << 32 };
		int fd = make_timerfd();

		ev.data.u64 |= (uint32_t)fd;
		if (fd < 0 || epoll_ctl(t->loop, EPOLL_CTL_ADD, fd, &ev)) {
			if (fd >= 0)
				close(fd);
			timerfd_close(b);
			return -1;
		}
		t->fd[t->nr++] = fd;
		b->handle[index] = fd;
	}
	return 0;
}

static inline int timerfd_arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct itimerspec its = {
		.it_value.tv_sec = when / NSEC_PER_SEC,
		.it_value.tv_nsec = when % NSEC_PER_SEC,
	};

	(void)it;
	return timerfd_settime(handle, TFD_TIMER_ABSTIME, &its, NULL);
}

static inline int timerfd_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	(void)when;
	return timerfd_arm_one(it, handle, 0);
}

BENCH_LOOPS(timerfd, b->state, timerfd_arm_one, timerfd_arm_one, timerfd_cancel_one)

static void timerfd_deliver(struct bench *b, uint64_t until)
{
	struct timerfds *t = b->state;
	struct epoll_event events[EVENTS];
	uint64_t now, ticks;
	int i, nr;

	while ((now = bench_now()) < until) {
		struct timespec ts = {
			.tv_sec = (until - now) / NSEC_PER_SEC,
			.tv_nsec = (until - now) % NSEC_PER_SEC,
		};

		nr = epoll_pwait2(t->loop, events, EVENTS, &ts, NULL);
		for (i = 0; i < nr; i++) {
			int fd = (uint32_t)events[i].data.u64;

			if (read(fd, &ticks, sizeof(ticks)) == sizeof(ticks))
				bench_deliver(b, events[i].data.u64 >> 32);
		}
	}
}

const struct bench_backend bench_timerfd = {
	.name = "timerfd",
	.max_n = 1000000,
	.why = "a descriptor each, of which a process has no more than fs.nr_open",
	.limit = timerfd_limit,
	.threads = BENCH_SPARE,
	.open = timerfd_open,
	BENCH_OPS(timerfd),
	.deliver = timerfd_deliver,
	.close = timerfd_close,
};
