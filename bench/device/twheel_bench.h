/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _TWHEEL_BENCH_H
#define _TWHEEL_BENCH_H

#include <linux/time64.h>

/*
 * User-mode Linux is a process with a C library. We measure the CPU time of that process, which
 * does not include other programs on the machine.
 */
int clock_gettime(int clock_id, struct timespec64 *ts);

#define HOST_PROCESS_CPUTIME	2

static inline u64 cpu_ns(void)
{
	struct timespec64 ts;

	clock_gettime(HOST_PROCESS_CPUTIME, &ts);
	return timespec64_to_ns(&ts);
}

#endif /* _TWHEEL_BENCH_H */
