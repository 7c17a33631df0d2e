/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * The data from which a page of metrics is written. twheel_metrics() gets it from a wheel of this
 * process. twheelctl, which is linked with the static library, reads it from /proc/PID/fdinfo of
 * all processes, and writes one page for all their wheels.
 */
#ifndef LIBTWHEEL_METRICS_H
#define LIBTWHEEL_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include <libtwheel/twheel.h>

/* Which statistics a sample contains, beyond those that fdinfo of every version contains. */
#define SAMPLE_MOVED	(1U << 0)
#define SAMPLE_LATENESS	(1U << 1)
#define SAMPLE_SUM	(1U << 2)
#define SAMPLE_WORST	(1U << 3)
/* All other members of struct twheel_stats. */
#define SAMPLE_STATS	(1U << 4)

/**
 * struct twheel__sample - the statistics of a wheel at one moment
 * @backend: "kernel" or "inprocess"
 * @labels: additional labels such as name="value",name="value", or ""
 * @stats: the counters
 * @known: SAMPLE_ flags, for the members of @stats that are valid
 * @max_timers: maximum number of timers
 * @next_in_ns: time until the wheel turns next, or ~0 if it has nothing to do
 */
struct twheel__sample {
	const char *backend;
	const char *labels;
	struct twheel_stats stats;
	unsigned int known;
	uint32_t max_timers;
	uint64_t next_in_ns;
};

void twheel__write_metrics(FILE *file, const struct twheel__sample *samples, unsigned int n);

#endif /* LIBTWHEEL_METRICS_H */
