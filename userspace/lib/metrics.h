/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * What a page of metrics is written from. twheel_metrics() asks a wheel of this process.
 * twheelctl, which is linked with the static library, reads /proc/PID/fdinfo of all
 * processes and writes one page for all their wheels.
 */
#ifndef LIBTWHEEL_METRICS_H
#define LIBTWHEEL_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include <libtwheel/twheel.h>

/* Which members of the statistics a sample has, beyond those that fdinfo always had. */
#define SAMPLE_MOVED	(1U << 0)
#define SAMPLE_LATENESS	(1U << 1)
#define SAMPLE_SUM	(1U << 2)
#define SAMPLE_WORST	(1U << 3)
/* All the rest. */
#define SAMPLE_STATS	(1U << 4)

/**
 * struct twheel__sample - one wheel at one moment
 * @backend: "kernel" or "inprocess"
 * @labels: more labels, as name="value" with commas between, or ""
 * @stats: what it has done
 * @known: SAMPLE_
 * @max_timers: how many timers there may be
 * @next_in_ns: how long until it turns; ~0: it has nothing to do
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
