// SPDX-License-Identifier: GPL-2.0
/*
 * vm_bench [-r REPS] [-b BACKEND] [WHAT...]: what /dev/twheel costs, end to end, and what the
 * kernel's other timers do. Rows go to stdout, as from bench. WHAT is what the usage says;
 * check is whether all can be measured here, which the others begin with.
 *
 * It needs the module, and says on each row where it ran: on an emulated
 * processor ratios mean something, and times do not.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "vm_bench.h"

/* So many at a time, as expirations and as connections. */
#define TIMERFDS	100000U

/* Whether all that was asked for is checked is seen first. */
static const struct bench_backend *const checked[] = {
	&vm_twheel, &vm_batch, &vm_kick, &bench_libtwheel,
	&bench_timerfd, &bench_posix, &bench_io_uring, &bench_libev, &bench_heap,
	&bench_heap_mutex,
};

/* The only one that is asked for, or NULL. */
static const char *only;

/* Of @checked, those that cannot work here, as the kernel may not have them. */
static bool useless[ARRAY_SIZE(checked)];

bool vm_wanted(const char *backend)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(checked); i++)
		if (useless[i] && !strcmp(backend, checked[i]->name))
			return false;
	return !only || !strcmp(backend, only);
}

/* Whether there is nothing to measure without it. */
static bool is_ours(const struct bench_backend *kind)
{
	return kind == &vm_twheel || kind == &vm_batch || kind == &vm_kick ||
	       kind == &bench_libtwheel;
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

static bool emulated(void)
{
	FILE *file = fopen("/proc/cmdline", "re");
	char line[4096] = "";

	if (file) {
		if (!fgets(line, sizeof(line), file))
			line[0] = '\0';
		fclose(file);
	}
	return strstr(line, "twheel.emulated=1");
}

static bool wanted(int argc, char **argv, const char *what)
{
	int i;

	for (i = optind; i < argc; i++)
		if (!strcmp(argv[i], what))
			return true;
	return optind >= argc;
}

int main(int argc, char **argv)
{
	struct rlimit many = { 1 << 20, 1 << 20 };
	unsigned int reps = 5, i;
	int opt;

	while ((opt = getopt(argc, argv, "b:r:")) == 'b' || opt == 'r') {
		if (opt == 'b')
			only = optarg;
		else
			reps = atoi(optarg);
	}
	if (opt != -1 || reps < 1 || reps > 25) {
		fputs("usage: vm_bench [-r REPS] [-b BACKEND] [check|create|expire|heartbeat|memory|idle|storm]...\n",
		      stderr);
		return 2;
	}
	/* A descriptor for each timerfd. */
	setrlimit(RLIMIT_NOFILE, &many);
	setenv("TWHEEL_BACKEND", "kernel", 1);
	bench_where = emulated() ? "vm(emulated)" : "here";
	if (vm_wanted(bench_timerfd.name) && bench_fit(&bench_timerfd, TIMERFDS) < TIMERFDS) {
		fprintf(stderr, "vm_bench: %u timerfds take as many descriptors: be root, or have the hard limit raised (ulimit -Hn)\n",
			TIMERFDS);
		return 1;
	}
	bench_row_header();

	for (i = 0; i < ARRAY_SIZE(checked); i++) {
		const char *verdict;

		if (!vm_wanted(checked[i]->name))
			continue;
		verdict = bench_check(checked[i]);
		if (!strcmp(verdict, "yes"))
			continue;
		fprintf(stderr, "vm_bench: %s does not do the work: %s\n", checked[i]->name,
			verdict);
		if (is_ours(checked[i]))
			return 1;
		useless[i] = true;
	}
	if (wanted(argc, argv, "create"))
		vm_create(reps);
	if (wanted(argc, argv, "expire"))
		vm_expire(reps < 3 ? reps : 3);
	if (wanted(argc, argv, "heartbeat"))
		vm_heartbeat(reps < 3 ? reps : 3);
	if (wanted(argc, argv, "memory"))
		vm_memory();
	if (wanted(argc, argv, "idle"))
		vm_idle(reps);
	if (wanted(argc, argv, "storm"))
		vm_storm(reps);
	return 0;
}
