// SPDX-License-Identifier: GPL-2.0
/* Clocks, by their names. */
#include <time.h>

#include "clock.h"

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

__u64 monotonic_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}
