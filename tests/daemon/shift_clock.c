// SPDX-License-Identifier: GPL-2.0
/*
 * For LD_PRELOAD: shifts a process' wall clock by SHIFT_CLOCK seconds, and makes its timerfds
 * late by the same. libfaketime would do both too.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static long shift(void)
{
	const char *text = getenv("SHIFT_CLOCK");

	return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int ret = syscall(SYS_clock_gettime, clock, ts);

	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		ts->tv_sec += shift();
	return ret;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (out)
		*out = ts.tv_sec;
	return ts.tv_sec;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old)
{
	struct itimerspec late = *value;

	if (late.it_value.tv_sec || late.it_value.tv_nsec)
		late.it_value.tv_sec += labs(shift());
	return syscall(SYS_timerfd_settime, fd, flags, &late, old);
}
