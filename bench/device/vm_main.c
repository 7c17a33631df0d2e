// SPDX-License-Identifier: GPL-2.0
/*
 * vm_bench [-r REPS] [-b BACKEND] [-w WHERE] [-c NS] [WHAT...]: measures what /dev/twheel costs,
 * end to end, and what the kernel's other timers cost. Prints rows, as bench does. The usage lists
 * the words for WHAT; check only checks that everything can be measured here, which each run does
 * first, except with native and host.
 *
 * It needs the module, except with host. The first column of a row says where it ran, because on an
 * emulated processor only ratios mean something, not times.
 *
 * native is for user-mode Linux, where NS is the cost of a system call on its host, which host
 * measures.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "vm_bench.h"

/* The number of timerfds at the same time, for expirations and for connections. */
#define TIMERFDS	100000U

/* The backends that are checked before anything is measured. */
static const struct bench_backend *const checked[] = {
	&vm_twheel, &vm_batch, &vm_kick, &bench_libtwheel,
	&bench_timerfd, &bench_posix, &bench_io_uring, &bench_libev, &bench_heap,
	&bench_heap_mutex,
};

/* True for our own backends. If one of them does not work, nothing is measured. */
static bool is_ours(const struct bench_backend *kind)
{
	return kind == &vm_twheel || kind == &vm_batch || kind == &vm_kick ||
	       kind == &bench_libtwheel;
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
	double call_ns = 0;
	bool usage = false;
	int opt;

	bench_where = emulated() ? "vm(emulated)" : "here";
	while ((opt = getopt(argc, argv, "b:c:r:w:")) != -1) {
		switch (opt) {
		case 'b':
			vm_only = optarg;
			break;
		case 'c':
			call_ns = atof(optarg);
			break;
		case 'r':
			reps = atoi(optarg);
			break;
		case 'w':
			bench_where = optarg;
			break;
		default:
			usage = true;
		}
	}
	if (usage || reps < 1 || reps > 25) {
		fputs("usage: vm_bench [-r REPS] [-b BACKEND] [-c NS] [-w WHERE]\n"
		      "                [check|create|expire|heartbeat|memory|idle|storm|native|host]...\n",
		      stderr);
		return 2;
	}
	/* Each timerfd takes a descriptor. */
	setrlimit(RLIMIT_NOFILE, &many);
	setenv("TWHEEL_BACKEND", "kernel", 1);
	if (optind < argc && !strcmp(argv[optind], "native")) {
		bench_row_header();
		vm_native(reps, call_ns);
		return 0;
	}
	if (optind < argc && !strcmp(argv[optind], "host")) {
		bench_row_header();
		vm_host(reps);
		return 0;
	}
	if (vm_wanted(bench_timerfd.name) && bench_fit(&bench_timerfd, TIMERFDS) < TIMERFDS) {
		fprintf(stderr, "vm_bench: %u timerfds need as many descriptors: run as root, or raise the hard limit (ulimit -Hn)\n",
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
		fprintf(stderr, "vm_bench: %s failed its check: %s\n", checked[i]->name,
			verdict);
		if (is_ours(checked[i]))
			return 1;
		vm_leave_out(checked[i]->name);
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
