/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _TWHEEL_BENCH_H
#define _TWHEEL_BENCH_H

#include <linux/time64.h>

/*
 * User-mode Linux is a process and has a C library. The time that the process
 * has had the CPU is what counts: others may run on the machine meanwhile.
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
