// SPDX-License-Identifier: GPL-2.0
/* Clocks, by their names. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "error.h"

const char *clock_name(unsigned int clock)
{
	switch (clock) {
	case CLOCK_MONOTONIC:
		return "monotonic";
	case CLOCK_BOOTTIME:
		return "boottime";
	case CLOCK_REALTIME:
		return "realtime";
	case CLOCK_TAI:
		return "tai";
	}
	return "unknown";
}

static __u64 clock_now(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts))
		die(STATUS_FAILURE, "cannot read the clock %s: %s", clock_name(clock),
		    strerror(errno));
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

__u64 monotonic_now(void)
{
	return clock_now(CLOCK_MONOTONIC);
}

__u64 realtime_now(void)
{
	return clock_now(CLOCK_REALTIME);
}
