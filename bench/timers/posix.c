// SPDX-License-Identifier: GPL-2.0
/* A POSIX timer for each timer. One signalfd receives all their signals. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "bench.h"

#define EVENTS	256
/* The part of the limit that is left to other programs. */
#define RESERVE	1024U

struct posix {
	int fd;
	uint32_t nr;
	timer_t *timer;
};

static void posix_close(struct bench *b)
{
	struct signalfd_siginfo info[EVENTS];
	struct posix *p = b->state;
	uint32_t i;

	for (i = 0; i < p->nr; i++)
		timer_delete(p->timer[i]);
	/* Remaining signals count against the limit, and the next bench would receive them. */
	while (read(p->fd, info, sizeof(info)) > 0)
		;
	close(p->fd);
	free(p->timer);
	free(p);
}

/* The kernel reserves a pending signal for each timer, and limits these per user. */
static uint32_t posix_limit(void)
{
	uint64_t most = bench_raise_limit(RLIMIT_SIGPENDING, bench_posix.max_n + RESERVE);

	return most > RESERVE ? most - RESERVE : 0;
}

static int posix_open(struct bench *b)
{
	struct posix *p;
	sigset_t set;

	if (b->n > posix_limit())
		return -1;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	p = bench_alloc(1, sizeof(*p));
	p->timer = bench_alloc(b->n + BENCH_SPARE, sizeof(*p->timer));
	p->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	b->state = p;
	for (; p->nr < b->n + BENCH_SPARE; p->nr++) {
		struct sigevent sev = {
			.sigev_notify = SIGEV_SIGNAL,
			.sigev_signo = SIGRTMIN,
			.sigev_value.sival_int = p->nr,
		};

		if (timer_create(CLOCK_MONOTONIC, &sev, &p->timer[p->nr])) {
			posix_close(b);
			return -1;
		}
		b->handle[p->nr] = (uintptr_t)p->timer[p->nr];
	}
	return 0;
}

static inline int posix_arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct itimerspec its = { .it_value = BENCH_TIME(when) };

	(void)it;
	return timer_settime((timer_t)(uintptr_t)handle, TIMER_ABSTIME, &its, NULL);
}

static inline int posix_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	(void)when;
	return posix_arm_one(it, handle, 0);
}

BENCH_LOOPS(posix, b->state, posix_arm_one, posix_arm_one, posix_cancel_one)

static void posix_deliver(struct bench *b, uint64_t until)
{
	struct posix *p = b->state;
	struct pollfd pollfd = { .fd = p->fd, .events = POLLIN };
	static struct signalfd_siginfo info[EVENTS];
	uint64_t now;
	ssize_t i, nr;

	while ((now = bench_now()) < until) {
		struct timespec ts = BENCH_TIME(until - now);

		if (ppoll(&pollfd, 1, &ts, NULL) <= 0)
			continue;
		nr = read(p->fd, info, sizeof(info)) / (ssize_t)sizeof(info[0]);
		for (i = 0; i < nr; i++)
			bench_deliver(b, info[i].ssi_int);
	}
}

BENCH_BACKEND(posix, "posix", posix, posix,
	      .max_n = 100000, .threads = 2, .why = "they are found by a hash of fixed size",
	      .limit = posix_limit, .open = posix_open);
