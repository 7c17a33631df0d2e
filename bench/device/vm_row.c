// SPDX-License-Identifier: GPL-2.0
/* The rows of vm_bench, the choice of backends, and the CPU time of all processors. */
#include <string.h>
#include <unistd.h>

#include "vm_bench.h"

/* The only backend to measure; NULL for all. */
const char *vm_only;

/* Backends that do not work here, because this kernel may not support them. */
static const char *left_out[16];
static unsigned int nr_left_out;

void vm_leave_out(const char *backend)
{
	if (nr_left_out == ARRAY_SIZE(left_out))
		bench_stop("more than %zu backends do not work here", ARRAY_SIZE(left_out));
	left_out[nr_left_out++] = backend;
}

bool vm_wanted(const char *backend)
{
	unsigned int i;

	for (i = 0; i < nr_left_out; i++)
		if (!strcmp(backend, left_out[i]))
			return false;
	return !vm_only || !strcmp(backend, vm_only);
}

void vm_rows(const char *op, const char *backend, uint32_t n, const char *pattern,
	     const char *unit, double *values, unsigned int reps)
{
	struct bench_row row = {
		.op = op,
		.backend = backend,
		.n = n,
		.threads = 1,
		.pattern = pattern,
		.unit = unit,
		.checked = "yes",
	};

	if (vm_wanted(backend))
		bench_row(&row, values, reps);
}

/* Returns the idle time of all processors. */
static double idle_seconds(void)
{
	FILE *file = fopen("/proc/uptime", "re");
	double idle;

	if (!file || fscanf(file, "%*f %lf", &idle) != 1)
		bench_die("/proc/uptime");
	fclose(file);
	return idle;
}

/* Returns the idle time during which a thread waited for a disk or in io_uring. */
static double disk_seconds(void)
{
	FILE *file = fopen("/proc/stat", "re");
	double disk;

	if (!file || fscanf(file, "cpu %*u %*u %*u %*u %lf", &disk) != 1)
		bench_die("/proc/stat");
	fclose(file);
	return disk / sysconf(_SC_CLK_TCK);
}

/*
 * Returns the time in ns during which processors were not idle. With NO_HZ the kernel measures idle
 * time exactly, but reports it in steps of 10 ms, so this waits for the next step.
 */
uint64_t vm_all_cpu(void)
{
	/* Read this only once, because it takes longer. */
	double disk = disk_seconds(), before = idle_seconds(), idle;
	unsigned int tries = 0;

	do {
		bench_sleep_until(bench_now() + 250 * NSEC_PER_USEC);
		idle = idle_seconds();
	} while (idle == before && ++tries < 400);
	return bench_now() * sysconf(_SC_NPROCESSORS_ONLN) - (idle + disk) * NSEC_PER_SEC;
}
