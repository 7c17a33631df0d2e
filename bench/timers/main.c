// SPDX-License-Identifier: GPL-2.0
/*
 * bench: measures what timers of many kinds cost, side by side.
 *
 * It prints rows, which bench/timers/judge compares with the targets. See --help.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "heartbeat.h"

static const char help[] =
	"Usage: bench [--full] [--only=BACKEND,...] [--part=PART,...] [--where=WORD]\n"
	"             [--reps=N] [--n=N,...]\n"
	"Measures what timers of many kinds cost, side by side. Prints rows, whose\n"
	"columns are separated by tabs.\n"
	"\n"
	"  --full        use more numbers of timers, and more repetitions\n"
	"  --only=...    only measure these backends; a wrong name lists them\n"
	"  --part=...    only run ops, threads, calls, expire, heartbeat, server or turn\n"
	"  --where=WORD  the text for the first column (default: native, or here if\n"
	"                TWHEEL_BACKEND=kernel is in the environment)\n"
	"  --reps=N      repeat each operation N times\n"
	"  --n=N,...     use these numbers of timers, where they can be chosen\n";

static void usage(const char *why, const char *what)
{
	fprintf(stderr, "bench: %s: %s\n%s", why, what, help);
	exit(2);
}

#define MAX_NS	8

struct numbers {
	uint32_t n[MAX_NS];
	unsigned int nr;
};

static unsigned long parse_number(const char *text, char **end, unsigned long max)
{
	unsigned long value;

	errno = 0;
	value = strtoul(text, end, 10);
	if (*text < '0' || *text > '9' || errno || !value || value > max)
		usage("not a possible number", text);
	return value;
}

static struct numbers parse_numbers(const char *text)
{
	struct numbers numbers = {};
	char *end;

	for (;; text = end + 1) {
		if (numbers.nr == MAX_NS)
			usage("too many", text);
		numbers.n[numbers.nr++] = parse_number(text, &end, 10000000);
		if (!*end)
			return numbers;
		if (*end != ',')
			usage("not a possible number", text);
	}
}

static void check_names(const char *list)
{
	char *copy = strdup(list), *name, *rest = copy;
	unsigned int i;

	while ((name = strsep(&rest, ","))) {
		for (i = 0; i < bench_nr_backends; i++) {
			if (!strcmp(bench_backends[i]->name, name))
				break;
		}
		if (i < bench_nr_backends)
			continue;
		fprintf(stderr, "bench: there is no backend %s, only", name);
		for (i = 0; i < bench_nr_backends; i++)
			fprintf(stderr, " %s", bench_backends[i]->name);
		fputc('\n', stderr);
		exit(2);
	}
	free(copy);
}

/* The memory that ten million timers in each of the backends take at the same time. */
#define ALL_GIB	14U

/* Returns the maximum number of timers in each backend for the memory of this machine. */
static uint32_t room_for_all(void)
{
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);

	return bytes >> 30 >= ALL_GIB ? UINT32_MAX : 1000000;
}

static const char all_parts[] = "ops,threads,calls,expire,heartbeat,server,turn";

static void check_parts(const char *list)
{
	char *copy = strdup(list), *name, *rest = copy;

	while ((name = strsep(&rest, ",")))
		if (!bench_is_listed(all_parts, name))
			usage("no such part", name);
	free(copy);
}

static void *do_nothing(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/*
 * Starts a second thread, because the C library locks a mutex without an atomic instruction if
 * there is only one. Programs that need the mutex have several.
 */
static void be_threaded(void)
{
	sigset_t all, before;
	pthread_t thread;

	/* The new thread must not receive signals that another thread waits for. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, NULL, do_nothing, NULL))
		bench_die("pthread_create");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "full", no_argument, NULL, 'f' },
		{ "only", required_argument, NULL, 'o' },
		{ "part", required_argument, NULL, 'p' },
		{ "where", required_argument, NULL, 'w' },
		{ "reps", required_argument, NULL, 'r' },
		{ "n", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	struct numbers one = { { 1000, 100000, 1000000 }, 3 };
	struct numbers two = { { 10000, 1000000 }, 2 };
	struct numbers expire = { { 10000, 100000 }, 2 };
	struct numbers turn = { { 100000, 1000000 }, 2 };
	struct numbers beats = { { 100000, 1000000 }, 2 };
	unsigned int reps = 5, two_reps = 4, slow_reps = 3, i;
	const char *part = all_parts;
	const char *backend = getenv("TWHEEL_BACKEND");
	bool full = false, chosen = false, few;
	uint32_t room;
	char *end;
	int opt;

	if (backend && !strcmp(backend, "kernel"))
		bench_where = "here";
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'f':
			full = true;
			break;
		case 'o':
			check_names(optarg);
			bench_only = optarg;
			break;
		case 'p':
			check_parts(optarg);
			part = optarg;
			break;
		case 'w':
			bench_where = optarg;
			break;
		case 'r':
			reps = parse_number(optarg, &end, 1000);
			two_reps = reps;
			slow_reps = reps;
			break;
		case 'n':
			one = parse_numbers(optarg);
			two = one;
			expire = one;
			beats = one;
			turn = one;
			chosen = true;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fputs(help, stderr);
			return 2;
		}
	}
	if (optind < argc)
		usage("unknown argument", argv[optind]);
	if (full && !chosen) {
		one = (struct numbers) { { 1000, 10000, 100000, 1000000, 10000000 }, 5 };
		two = (struct numbers) { { 1000, 10000, 100000, 1000000, 10000000 }, 5 };
		expire = (struct numbers) { { 10000, 100000, 1000000 }, 3 };
		reps = 11;
		two_reps = 11;
		slow_reps = 5;
	}

	few = !full && !chosen;
	room = room_for_all();
	bench_row_header();
	if (full && !chosen && bench_is_listed(part, "ops") && room < one.n[one.nr - 1])
		bench_note("with more than %u timers, only a few backends: all of them need %u GiB of memory",
			   room, ALL_GIB);
	be_threaded();
	/* Check all backends before measuring, because one that does not work is left out. */
	for (i = 0; i < bench_nr_backends; i++)
		bench_wanted(bench_backends[i]);
	for (i = 0; bench_is_listed(part, "ops") && i < one.nr; i++)
		bench_measure(one.n[i], 1, reps, !chosen && one.n[i] > room);
	/*
	 * Some backends with ten million timers show how the cost grows when the caches are too
	 * small.
	 */
	if (bench_is_listed(part, "ops") && few)
		bench_measure(10000000, 1, reps, true);
	for (i = 0; bench_is_listed(part, "threads") && i < two.nr; i++)
		bench_measure(two.n[i], 2, two_reps, few);
	if (bench_is_listed(part, "calls"))
		bench_calls(slow_reps, chosen ? one.n[one.nr - 1] : UINT32_MAX);
	if (bench_is_listed(part, "calls"))
		bench_futex(slow_reps, two.n[0]);
	for (i = 0; bench_is_listed(part, "expire") && i < expire.nr; i++)
		bench_expire(expire.n[i], i ? expire.n[i - 1] : 0,
			     expire.n[i] > 100000 ? slow_reps : reps);
	for (i = 0; bench_is_listed(part, "heartbeat") && i < beats.nr; i++)
		bench_heartbeat(beats.n[i], i ? beats.n[i - 1] : 0, slow_reps, few);
	if (bench_is_listed(part, "server"))
		bench_server(reps);
	for (i = 0; bench_is_listed(part, "turn") && i < turn.nr; i++)
		bench_turn(turn.n[i], reps);
	return 0;
}
