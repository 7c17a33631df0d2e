// SPDX-License-Identifier: GPL-2.0
/* Clocks, random numbers, memory and limits. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "bench.h"

/* Prints a message and exits. */
void bench_stop(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

void bench_die(const char *what)
{
	bench_stop("bench: %s: %s", what, strerror(errno));
}

static uint64_t read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

uint64_t bench_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t bench_thread_cpu(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t bench_process_cpu(void)
{
	return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec) { .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };
}

void bench_sleep_until(uint64_t until)
{
	struct timespec ts = to_timespec(until);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* xorshift64*, which yields the same numbers in each run. */
uint64_t bench_random(void)
{
	static __thread uint64_t x = 0x9e3779b97f4a7c15ULL;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	return x * 0x2545f4914f6cdd1dULL;
}

void bench_shuffle(uint32_t *order, uint32_t nr)
{
	uint32_t i, j, other;

	for (i = nr; i > 1; i--) {
		j = bench_random() % i;
		other = order[j];
		order[j] = order[i - 1];
		order[i - 1] = other;
	}
}

void *bench_alloc(size_t nr, size_t size)
{
	void *p = calloc(nr, size);

	if (!p)
		bench_die("memory");
	return p;
}

/* Raises a limit of this process as far as possible. Returns the new limit. */
uint64_t bench_raise_limit(int resource, uint64_t wanted)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit))
		bench_die("getrlimit");
	if (limit.rlim_cur < wanted) {
		rlim_t most = limit.rlim_max;

		limit.rlim_cur = wanted;
		if (limit.rlim_max < wanted)
			limit.rlim_max = wanted;
		if (setrlimit(resource, &limit)) {
			limit.rlim_cur = most;
			limit.rlim_max = most;
			setrlimit(resource, &limit);
		}
	}
	return limit.rlim_cur;
}

void bench_alarm_open(struct bench_alarm *alarm)
{
	alarm->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (alarm->fd < 0)
		bench_die("timerfd_create");
	alarm->set = UINT64_MAX;
}

/* Sleeps until the clock has reached @next or @until, whichever is first. */
void bench_alarm_wait(struct bench_alarm *alarm, uint64_t next, uint64_t until)
{
	struct pollfd pollfd = { .fd = alarm->fd, .events = POLLIN };
	uint64_t now, ticks;
	struct timespec ts;

	if (next != alarm->set) {
		struct itimerspec its = {};

		if (next != UINT64_MAX)
			its.it_value = to_timespec(next ? next : 1);
		if (timerfd_settime(alarm->fd, TFD_TIMER_ABSTIME, &its, NULL))
			bench_die("timerfd_settime");
		alarm->set = next;
	}
	now = bench_now();
	ts = to_timespec(until > now ? until - now : 0);
	if (ppoll(&pollfd, 1, &ts, NULL) > 0 &&
	    read(alarm->fd, &ticks, sizeof(ticks)) == sizeof(ticks))
		alarm->set = UINT64_MAX;
}
