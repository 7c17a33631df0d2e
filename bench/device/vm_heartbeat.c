// SPDX-License-Identifier: GPL-2.0
/*
 * Measures the heartbeats of heartbeat.c with /dev/twheel, including all CPU time.
 */
#include <stdlib.h>

#include "heartbeat.h"
#include "vm_bench.h"

#define CONNECTIONS	100000U
/* The number for io_uring, which searches a list of all timeouts for each heartbeat. */
#define FEW		2000U
#define MAX_REPS	25U

static const struct {
	const struct bench_backend *kind;
	uint32_t n;
	unsigned int threads;
} runs[] = {
	{ NULL, CONNECTIONS, 1 },
	{ &bench_libtwheel, CONNECTIONS, 1 },
	{ &bench_heap, CONNECTIONS, 1 },
	{ &bench_libev, CONNECTIONS, 1 },
	{ &bench_timerfd, CONNECTIONS, 1 },
	{ NULL, CONNECTIONS, 4 },
	{ &bench_libtwheel, CONNECTIONS, 4 },
	{ &bench_heap_mutex, CONNECTIONS, 4 },
	{ NULL, FEW, 1 },
	{ &bench_libtwheel, FEW, 1 },
	{ &bench_io_uring, FEW, 1 },
};

static const char *name_of(unsigned int run)
{
	return runs[run].kind ? runs[run].kind->name : "none";
}

/* Returns the cost of a heartbeat in ns, or 0 if it could not be measured. */
static double beat(unsigned int run)
{
	struct heartbeat h = {
		.kind = runs[run].kind,
		.n = runs[run].n,
		.threads = runs[run].threads,
		.compress = heartbeat_compress(runs[run].n, runs[run].threads),
		.cpu = vm_all_cpu,
	};

	if (heartbeat_run(&h))
		bench_die(name_of(run));
	if (h.bad) {
		bench_note("%s, %u connections: %s", name_of(run), h.n, h.bad);
		if (h.kind == &bench_libtwheel)
			exit(1);
		return 0;
	}
	return (double)h.cpu_ns / h.beats;
}

void vm_heartbeat(unsigned int reps)
{
	unsigned int run, rep;
	double ns[ARRAY_SIZE(runs)][MAX_REPS];
	bool bad[ARRAY_SIZE(runs)] = {};
	struct bench_row row = {
		.op = "heartbeat",
		.unit = "ns",
		.checked = "yes",
	};
	char pattern[32];

	row.pattern = pattern;
	for (rep = 0; rep < reps; rep++)
		for (run = 0; run < ARRAY_SIZE(runs); run++)
			if (vm_wanted(name_of(run)) && !bad[run]) {
				ns[run][rep] = beat(run);
				bad[run] = !ns[run][rep];
			}
	for (run = 0; run < ARRAY_SIZE(runs); run++) {
		if (!vm_wanted(name_of(run)) || bad[run])
			continue;
		row.backend = name_of(run);
		row.n = runs[run].n;
		row.threads = runs[run].threads;
		snprintf(pattern, sizeof(pattern), "paced/%u",
			 heartbeat_compress(row.n, row.threads));
		bench_row(&row, ns[run], reps);
	}
}
