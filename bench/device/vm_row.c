// SPDX-License-Identifier: GPL-2.0
/* Rows of vm_bench: of which backends, and the CPU time of all processors. */
#include <string.h>
#include <unistd.h>

#include "vm_bench.h"

/* The only one that is asked for, or NULL. */
const char *vm_only;

/* Those that cannot work here, as the kernel may not have them. */
static const char *left_out[16];
static unsigned int nr_left_out;

void vm_leave_out(const char *backend)
{
	if (nr_left_out == ARRAY_SIZE(left_out))
		bench_stop("more than %zu backends cannot work here", ARRAY_SIZE(left_out));
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

/* Of all processors, with nothing to wait for. */
static double idle_seconds(void)
{
	FILE *file = fopen("/proc/uptime", "re");
	double idle;

	if (!file || fscanf(file, "%*f %lf", &idle) != 1)
		bench_die("/proc/uptime");
	fclose(file);
	return idle;
}

/* While somebody waited for a disk; or in io_uring, which counts as that. */
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
 * The time that all processors have not been idle. The kernel counts idleness
 * exactly where the tick stops for it (NO_HZ), but shows it in steps of 10 ms.
 * So this waits for the next step.
 */
uint64_t vm_all_cpu(void)
{
	/* Once: it costs more to read. */
	double disk = disk_seconds(), before = idle_seconds(), idle;
	unsigned int tries = 0;

	do {
		bench_sleep_until(bench_now() + 250 * NSEC_PER_USEC);
		idle = idle_seconds();
	} while (idle == before && ++tries < 400);
	return bench_now() * sysconf(_SC_NPROCESSORS_ONLN) - (idle + disk) * NSEC_PER_SEC;
}
