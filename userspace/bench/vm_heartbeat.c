// SPDX-License-Identifier: GPL-2.0
/*
 * The heartbeats of heartbeat.c, over /dev/twheel and with all CPU time counted.
 */
#include <stdlib.h>

#include "heartbeat.h"
#include "vm_bench.h"

#define CONNECTIONS	100000U
#define MAX_REPS	25U

static const struct {
	const struct bench_backend *kind;
	unsigned int threads;
} runs[] = {
	{ NULL, 1 },
	{ &bench_libtwheel, 1 },
	{ &bench_heap, 1 },
	{ &bench_timerfd, 1 },
	{ NULL, 4 },
	{ &bench_libtwheel, 4 },
	{ &bench_heap_mutex, 4 },
};

static const char *name_of(unsigned int run)
{
	return runs[run].kind ? runs[run].kind->name : "none";
}

static double beat(unsigned int run, unsigned int compress)
{
	struct heartbeat h = {
		.kind = runs[run].kind,
		.n = CONNECTIONS,
		.threads = runs[run].threads,
		.compress = compress,
		.cpu = vm_all_cpu,
	};

	if (heartbeat_run(&h))
		bench_die(name_of(run));
	if (h.bad) {
		fprintf(stderr, "%s: %s\n", name_of(run), h.bad);
		exit(1);
	}
	return (double)h.cpu_ns / h.beats;
}

void vm_heartbeat(unsigned int reps)
{
	unsigned int compress = heartbeat_compress(CONNECTIONS), run, rep;
	double ns[ARRAY_SIZE(runs)][MAX_REPS];
	struct bench_row row = {
		.op = "heartbeat",
		.n = CONNECTIONS,
		.unit = "ns",
		.checked = "yes",
	};
	char pattern[32];

	snprintf(pattern, sizeof(pattern), "paced/%u", compress);
	row.pattern = pattern;
	for (rep = 0; rep < reps; rep++)
		for (run = 0; run < ARRAY_SIZE(runs); run++)
			if (vm_wanted(name_of(run)))
				ns[run][rep] = beat(run, compress);
	for (run = 0; run < ARRAY_SIZE(runs); run++) {
		if (!vm_wanted(name_of(run)))
			continue;
		row.backend = name_of(run);
		row.threads = runs[run].threads;
		bench_row(&row, ns[run], reps);
	}
}
