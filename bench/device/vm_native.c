// SPDX-License-Identifier: GPL-2.0
/*
 * Measures what /dev/twheel costs in native code, in user-mode Linux, whose kernel is a program.
 *
 * System calls are expensive there, because another process handles them. So most operations are
 * measured in large batches. For single calls, the result is their time minus that of as many calls
 * that do nothing, plus the time of such calls on the host, which the caller knows. The cost of an
 * expiration is the additional time of twice as many at the same instant. The clock is wall time,
 * because there is one processor and nothing else runs on it.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "vm_bench.h"

#define MAX_REPS	25U
/* Number of operations in a batch. */
#define BATCH		4096U
/* Number of timers that are armed meanwhile. */
#define STANDING	1000U
/* Number of timers that are moved and read, in the rows with many timers. */
#define MANY		100000U
/* For single calls: the turns of a repetition, and the pairs of a turn. */
#define TURNS		401U
#define PAIRS		20U
/* The number of calls of a repetition on the host. */
#define HOST_CALLS	40000U
/* The time for arming all timers before they expire. */
#define LEAD		(400 * NSEC_PER_MSEC)

/* A command that does not exist. */
#define NO_COMMAND	_IO('?', 255)

static struct twheel_op ops[BATCH];
static uint64_t ids[2 * MANY];

/* Performs a batch and returns its time in ns. */
static uint64_t batch(int fd, unsigned int nr)
{
	struct twheel_batch all = { .ops = (uintptr_t)ops, .count = nr };
	uint64_t start = bench_now(), end;
	unsigned int i;
	int ret;

	ret = ioctl(fd, TWHEEL_IOC_BATCH, &all);
	end = bench_now();
	if (ret != (int)nr)
		bench_die("TWHEEL_IOC_BATCH");
	for (i = 0; i < nr; i++) {
		errno = -ops[i].result;
		if (errno)
			bench_die("operation of a batch");
	}
	return end - start;
}

static uint64_t make(int fd, uint64_t *made, unsigned int nr, uint64_t when)
{
	uint64_t ns = 0;
	unsigned int first, part, i;

	for (first = 0; first < nr; first += part) {
		part = nr - first < BATCH ? nr - first : BATCH;
		for (i = 0; i < part; i++)
			ops[i] = (struct twheel_op) {
				.opcode = TWHEEL_OP_REGISTER,
				.timer.deadline_ns = when,
				.timer.flags = TWHEEL_ABSTIME,
				.timer.user_data = first + i,
			};
		ns += batch(fd, part);
		for (i = 0; i < part; i++)
			made[first + i] = ops[i].timer.id;
	}
	return ns;
}

/* Performs @opcode on @nr timers, chosen at random from the first @of, or in order if that is 0. */
static uint64_t each(int fd, uint32_t opcode, unsigned int nr, unsigned int of, uint64_t when)
{
	unsigned int first, part, i;
	uint64_t ns = 0;

	for (first = 0; first < nr; first += part) {
		part = nr - first < BATCH ? nr - first : BATCH;
		for (i = 0; i < part; i++)
			ops[i] = (struct twheel_op) {
				.opcode = opcode,
				.timer.id = ids[of ? bench_random() % of : first + i],
				.timer.deadline_ns = when + bench_random() % VM_FAR,
				.timer.flags = TWHEEL_ABSTIME,
			};
		ns += batch(fd, part);
	}
	return ns;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * Returns by how many ns registering and canceling a timer exceeds two calls that do nothing. This
 * is the median of many short turns, because the difference is small and the host disturbs some.
 */
static double pairs(int fd)
{
	uint64_t when = bench_now() + VM_FAR, start, verbs, calls;
	double excess[TURNS];
	unsigned int turn, i;

	for (turn = 0; turn < TURNS; turn++) {
		start = bench_now();
		for (i = 0; i < PAIRS; i++) {
			struct twheel_timer timer = {
				.deadline_ns = when + i,
				.flags = TWHEEL_ABSTIME,
			};

			if (ioctl(fd, TWHEEL_IOC_REGISTER, &timer) ||
			    ioctl(fd, TWHEEL_IOC_CANCEL, &timer))
				bench_die("TWHEEL_IOC_REGISTER");
		}
		verbs = bench_now() - start;
		start = bench_now();
		for (i = 0; i < 2 * PAIRS; i++)
			if (!ioctl(fd, NO_COMMAND, 0) || errno != ENOTTY)
				bench_die("ioctl");
		calls = bench_now() - start;
		excess[turn] = ((double)verbs - calls) / PAIRS;
	}
	qsort(excess, TURNS, sizeof(*excess), compare);
	return excess[TURNS / 2];
}

/* Reads @nr events as soon as they arrive. */
static void read_all(int fd, unsigned int nr)
{
	static struct twheel_event events[BATCH];
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	while (nr) {
		ssize_t bytes;

		poll(&pollfd, 1, -1);
		bytes = read(fd, events, sizeof(events));
		if (bytes < 0 && errno != EAGAIN)
			bench_die("read");
		if (bytes > 0)
			nr -= bytes / sizeof(events[0]);
	}
}

/* Returns the time in ns from the deadline of @nr timers until all events have been read. */
static double expire(unsigned int nr)
{
	int fd = vm_wheel(2 * MANY, 0);
	uint64_t due = bench_now() + LEAD, ns;

	make(fd, ids, nr, due);
	if (bench_now() >= due)
		bench_stop("vm_bench: arming %u timers took too long", nr);
	read_all(fd, nr);
	ns = bench_now() - due;
	close(fd);
	return ns;
}

/* Returns the time in ns for reading one of @nr events that are already there. */
static double read_events(unsigned int nr)
{
	int fd = vm_wheel(2 * MANY, 0);
	uint64_t start;

	make(fd, ids, nr, 1);
	while (vm_stats(fd).unread < nr)
		bench_sleep_until(bench_now() + NSEC_PER_MSEC);
	start = bench_now();
	read_all(fd, nr);
	start = bench_now() - start;
	close(fd);
	return (double)start / nr;
}

enum {
	CREATE, CREATE_BATCH, REGISTER, CANCEL, REARM, REARM_MANY, GET, GET_MANY, READ, EXPIRE,
	ROWS
};

static const struct {
	const char *op;
	const char *backend;
	uint32_t n;
	const char *pattern;
} rows[] = {
	[CREATE] = { "create", "twheel", STANDING, "pair" },
	[CREATE_BATCH] = { "create", "twheel-batch", STANDING, "pair" },
	[REGISTER] = { "register", "twheel-batch", STANDING, "sequential" },
	[CANCEL] = { "cancel", "twheel-batch", STANDING, "sequential" },
	[REARM] = { "rearm", "twheel-batch", STANDING, "random" },
	[REARM_MANY] = { "rearm", "twheel-batch", MANY, "random" },
	[GET] = { "get", "twheel-batch", STANDING, "random" },
	[GET_MANY] = { "get", "twheel-batch", MANY, "random" },
	[READ] = { "read", "twheel", MANY, "sequential" },
	[EXPIRE] = { "expire", "twheel", MANY, "slope" },
};

static void repeat(double ns[ROWS], double call_ns)
{
	uint64_t when = bench_now() + 2 * VM_FAR, made, ended;
	int fd = vm_wheel(2 * MANY, 0);

	make(fd, ids, STANDING, when);
	ns[CREATE] = pairs(fd) + 2 * call_ns;
	ns[REARM] = (double)each(fd, TWHEEL_OP_REARM, MANY, STANDING, when) / MANY;
	ns[GET] = (double)each(fd, TWHEEL_OP_GET, MANY, STANDING, when) / MANY;
	made = make(fd, ids, BATCH, when);
	ended = each(fd, TWHEEL_OP_CANCEL, BATCH, 0, 0);
	/* Do it again, because the first time includes the allocation of memory. */
	made = make(fd, ids, BATCH, when);
	ended = each(fd, TWHEEL_OP_CANCEL, BATCH, 0, 0);
	ns[REGISTER] = (double)made / BATCH;
	ns[CANCEL] = (double)ended / BATCH;
	ns[CREATE_BATCH] = ns[REGISTER] + ns[CANCEL];
	make(fd, ids, MANY, when);
	ns[REARM_MANY] = (double)each(fd, TWHEEL_OP_REARM, 2 * MANY, MANY, when) / (2 * MANY);
	ns[GET_MANY] = (double)each(fd, TWHEEL_OP_GET, 2 * MANY, MANY, when) / (2 * MANY);
	close(fd);
	ns[READ] = read_events(MANY);
	ns[EXPIRE] = (expire(2 * MANY) - expire(MANY)) / MANY;
}

/* @call_ns: the time of a system call that does nothing, on the host. */
void vm_native(unsigned int reps, double call_ns)
{
	double values[ROWS][MAX_REPS], ns[ROWS];
	unsigned int rep, i;

	/* The first one warms up the caches. */
	repeat(ns, call_ns);
	for (rep = 0; rep < reps; rep++) {
		repeat(ns, call_ns);
		for (i = 0; i < ROWS; i++)
			values[i][rep] = ns[i];
	}
	for (i = 0; i < ROWS; i++)
		vm_rows(rows[i].op, rows[i].backend, rows[i].n, rows[i].pattern, "ns", values[i],
			reps);
}

/* Measures on the host, for comparison, a call that does nothing, and timerfds. */
void vm_host(unsigned int reps)
{
	double values[MAX_REPS];
	unsigned int rep, i;
	int fds[2];

	if (pipe(fds))
		bench_die("pipe");
	for (rep = 0; rep < reps; rep++) {
		uint64_t start = bench_thread_cpu();

		for (i = 0; i < HOST_CALLS; i++)
			if (!ioctl(fds[0], NO_COMMAND, 0) || errno != ENOTTY)
				bench_die("ioctl");
		values[rep] = (double)(bench_thread_cpu() - start) / HOST_CALLS;
	}
	close(fds[0]);
	close(fds[1]);
	vm_rows("ioctl", "none", 1, "call", "ns", values, reps);
	vm_only = bench_timerfd.name;
	vm_create(reps);
}
