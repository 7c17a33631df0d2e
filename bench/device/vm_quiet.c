// SPDX-License-Identifier: GPL-2.0
/*
 * Measures how a wheel affects others: an idle wheel with a million timers, and a wheel whose
 * million timers are due at the same instant, beside the timers of another wheel.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vm_bench.h"

#define MILLION		1000000U
#define MAX_REPS	25U
/* How long an idle wheel is measured. */
#define WATCH		(10 * NSEC_PER_SEC)
/* The timers of a bystander, one per millisecond. */
#define BYSTANDERS	2000U
/*
 * How long each of them is armed before it is due, so that a softirq can expire all that are
 * armed.
 */
#define AHEAD		(200 * NSEC_PER_MSEC)
/* How long the machine rests before a measurement. */
#define SETTLE		(5 * NSEC_PER_SEC)
/* How long to wait for expirations. */
#define EXPIRE_TIMEOUT	(30 * NSEC_PER_SEC)

/*
 * Creates a million timers with additional @flags, due at @when or, with @spread, within an hour
 * after that.
 */
static int make_million(struct twheel_op **made, uint64_t when, bool spread, uint32_t flags)
{
	struct twheel_op *ops = bench_alloc(MILLION, sizeof(*ops));
	int fd = vm_wheel(MILLION, 0);
	uint32_t i;

	for (i = 0; i < MILLION; i++)
		ops[i] = (struct twheel_op) {
			.opcode = TWHEEL_OP_REGISTER,
			.timer.flags = TWHEEL_ABSTIME | flags,
			.timer.deadline_ns = when + (spread ? bench_random() % VM_FAR : 0),
			.timer.user_data = i,
		};
	vm_do(fd, ops, MILLION);
	*made = ops;
	return fd;
}

/* Returns the CPU time of all processors in ms while the wheel is idle. */
static double watch(void)
{
	uint64_t cpu = vm_all_cpu();

	bench_sleep_until(bench_now() + WATCH);
	return (vm_all_cpu() - cpu) / 1e6;
}

static void hear_nothing(struct bench *b, uint32_t index)
{
	bench_stop("%s: timer %u has expired, an hour early", b->kind->name, index);
}

/* Measures another backend, in a loop that waits for its earliest timer. */
static void idle_rival(const struct bench_backend *kind, uint32_t n, unsigned int reps)
{
	double ms[MAX_REPS];
	unsigned int rep;
	struct bench *b;
	uint64_t cpu;

	if (!vm_wanted(kind->name))
		return;
	n = bench_fit(kind, n);
	b = bench_must_open(kind, n, 0, 0);
	b->sink = hear_nothing;
	bench_begin(b);
	kind->arm(b, b->handle, n, bench_now() + VM_FAR);
	/* The first turn of the loop still has work from arming them. */
	kind->deliver(b, bench_now() + NSEC_PER_MSEC);
	for (rep = 0; rep < reps; rep++) {
		cpu = vm_all_cpu();
		kind->deliver(b, bench_now() + WATCH);
		ms[rep] = (vm_all_cpu() - cpu) / 1e6;
	}
	bench_close(b);
	vm_rows("idle_cpu", kind->name, n, "10s", "ms", ms, reps);
}

/*
 * Measures an idle machine with a million timers and without, in turns, because other work of the
 * machine can disturb either.
 */
void vm_idle(unsigned int reps)
{
	double none[MAX_REPS], busy[MAX_REPS], wakeups = 0;
	struct twheel_stats before, after;
	struct twheel_op *ops;
	unsigned int rep;
	int fd;

	for (rep = 0; rep < reps; rep++) {
		none[rep] = watch();
		fd = make_million(&ops, bench_now() + VM_FAR, true, 0);
		before = vm_stats(fd);
		busy[rep] = watch();
		after = vm_stats(fd);
		if (after.armed != MILLION)
			bench_stop("some of a million idle timers are no longer armed");
		wakeups += after.wakeups - before.wakeups;
		close(fd);
		free(ops);
	}
	vm_rows("idle_cpu", "none", 0, "10s", "ms", none, reps);
	vm_rows("idle_cpu", "twheel", MILLION, "10s", "ms", busy, reps);
	/* This is the sum of all repetitions. */
	vm_rows("idle_wakeups", "twheel", MILLION, "10s", "1", &wakeups, 1);
	idle_rival(&bench_libtwheel, MILLION, reps);
	idle_rival(&bench_heap, MILLION, reps);
	idle_rival(&bench_libev, MILLION, reps);
	idle_rival(&bench_timerfd, 100000, reps);
	idle_rival(&bench_posix, 100000, reps);
	idle_rival(&bench_io_uring, 10000, reps);
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/**
 * struct bystander - a wheel with a timer each millisecond
 * @fd: the wheel
 * @when: when the first timer is due
 * @ahead: how long before its deadline each timer is armed
 * @armed: number of timers armed so far
 */
struct bystander {
	int fd;
	uint64_t when;
	uint64_t ahead;
	uint32_t armed;
};

/* Arms the timers that are due within @b->ahead. Returns false if that was too late. */
static bool feed(struct bystander *b)
{
	static struct twheel_op ops[BYSTANDERS];
	uint64_t until = bench_now() + b->ahead;
	uint32_t n = 0;
	uint64_t due;

	while (b->armed + n < BYSTANDERS &&
	       (due = b->when + (b->armed + n) * NSEC_PER_MSEC) < until)
		ops[n++] = (struct twheel_op) {
			.opcode = TWHEEL_OP_REGISTER,
			.timer.flags = TWHEEL_ABSTIME,
			.timer.deadline_ns = due,
		};
	if (!n)
		return true;
	vm_do(b->fd, ops, n);
	b->armed += n;
	return bench_now() < ops[0].timer.deadline_ns;
}

/*
 * Runs a bystander from @when on. Returns its worst lateness in us, or 0 if it could not arm its
 * timers in time.
 */
static double bystand(uint64_t when, uint64_t ahead)
{
	struct bystander b = {
		.fd = vm_wheel(BYSTANDERS, 0),
		.when = when,
		.ahead = ahead,
	};
	struct twheel_stats stats;
	bool in_time;

	if (when > bench_now() + ahead)
		bench_sleep_until(when - ahead);
	while ((in_time = feed(&b)) && (stats = vm_stats(b.fd)).expired < BYSTANDERS)
		bench_sleep_until(bench_now() + 20 * NSEC_PER_MSEC);
	close(b.fd);
	return in_time ? stats.worst_lateness_ns / 1000.0 : 0;
}

/* When the last of the million timers had been read. */
static uint64_t all_read;

/* Reads @fd until each of the million timers has expired, once. */
static void *read_million(void *arg)
{
	uint8_t *seen = bench_alloc(MILLION, 1);
	struct twheel_event events[256];
	int fd = *(int *)arg;
	uint32_t left = MILLION;
	ssize_t got, i;

	while (left) {
		got = read(fd, events, sizeof(events)) / (ssize_t)sizeof(*events);
		if (got <= 0)
			bench_sleep_until(bench_now() + NSEC_PER_MSEC);
		for (i = 0; i < got; i++) {
			if (seen[events[i].user_data]++)
				bench_stop("an event has come twice");
			left--;
		}
	}
	all_read = bench_now();
	free(seen);
	return NULL;
}

/**
 * struct crowd - many timers of a rival that are due at once
 * @kind: the rival
 * @n: number of timers
 * @when: when they are due
 * @armed: when the last of them was armed
 * @left: number of timers that have not expired
 * @seen: which timers have expired
 */
struct crowd {
	const struct bench_backend *kind;
	uint32_t n;
	uint64_t when;
	uint64_t armed;
	uint32_t left;
	uint8_t *seen;
};

static void count_down(struct bench *b, uint32_t index)
{
	struct crowd *crowd = b->heard;

	if (crowd->seen[index]++)
		bench_stop("%s: timer %u has come twice", b->kind->name, index);
	crowd->left--;
}

static struct bench *make_crowd(struct crowd *crowd)
{
	struct bench *b = bench_must_open(crowd->kind, crowd->n, 0, 0);
	uint32_t i;

	bench_begin(b);
	for (i = 0; i < crowd->n; i++)
		crowd->kind->arm(b, &b->handle[i], 1, crowd->when);
	crowd->armed = bench_now();
	b->sink = count_down;
	b->heard = crowd;
	crowd->left = crowd->n;
	return b;
}

static void *run_crowd(void *arg)
{
	struct crowd *crowd = arg;
	struct bench *b;

	/* Arm them on the processor of the bystander, as the million timers of a wheel are. */
	run_on(0);
	b = make_crowd(crowd);
	run_on(1);
	while (crowd->left && bench_now() < crowd->when + EXPIRE_TIMEOUT)
		crowd->kind->deliver(b, bench_now() + NSEC_PER_MSEC);
	all_read = bench_now();
	if (b->failed)
		crowd->left++;
	bench_close(b);
	return NULL;
}

/* Measures how many timers of another backend on one instant affect a wheel. */
static void storm_rival(const struct bench_backend *kind, uint32_t n, unsigned int reps)
{
	struct crowd crowd = { .kind = kind, .n = bench_fit(kind, n) };
	double worst[MAX_REPS], took[MAX_REPS];
	unsigned int rep;
	pthread_t thread;
	uint64_t start;

	if (!vm_wanted(kind->name))
		return;
	crowd.seen = bench_alloc(crowd.n, 1);
	run_on(0);
	for (rep = 0; rep < reps; rep++) {
		/* Arm them once to find out how long that takes. */
		start = bench_now();
		crowd.when = start + VM_FAR;
		bench_close(make_crowd(&crowd));
		start = bench_now() - start;
		bench_sleep_until(bench_now() + SETTLE);
		memset(crowd.seen, 0, crowd.n);
		crowd.when = bench_now() + 2 * start + 500 * NSEC_PER_MSEC;
		if (pthread_create(&thread, NULL, run_crowd, &crowd))
			bench_die("pthread_create");
		worst[rep] = bystand(crowd.when - 100 * NSEC_PER_MSEC, AHEAD);
		pthread_join(thread, NULL);
		took[rep] = (all_read - crowd.when) / 1e6;
		if (crowd.armed > crowd.when || crowd.left || !worst[rep]) {
			bench_note("%s: this machine is too slow for %u at once, or some were lost",
				   kind->name, crowd.n);
			free(crowd.seen);
			return;
		}
	}
	free(crowd.seen);
	vm_rows("storm_worst", kind->name, crowd.n, "bystander", "us", worst, reps);
	vm_rows("storm_took", kind->name, crowd.n, "read", "ms", took, reps);
}

static double in_time(double worst)
{
	if (!worst)
		bench_stop("this machine is too slow for a timer each millisecond");
	return worst;
}

/*
 * Lets a million timers expire at one instant. Returns the worst lateness of a bystander in us,
 * and in
 * @took the time in ms until all were read.
 */
static double storm(uint32_t flags, uint64_t ahead, double *took)
{
	struct twheel_op *ops;
	pthread_t reader;
	uint64_t when;
	double worst;
	uint32_t i;
	int fd;

	/* The kernel processes freed memory once a second, so wait until that is done. */
	bench_sleep_until(bench_now() + SETTLE);
	/* Create all timers first: moving them takes no longer than that. */
	when = bench_now();
	fd = make_million(&ops, when + VM_FAR, false, flags);
	when = 2 * bench_now() - when + 500 * NSEC_PER_MSEC;
	for (i = 0; i < MILLION; i++) {
		ops[i].opcode = TWHEEL_OP_REARM;
		ops[i].timer.deadline_ns = when;
		ops[i].timer.flags = TWHEEL_ABSTIME | flags;
	}
	vm_do(fd, ops, MILLION);
	if (vm_stats(fd).armed != MILLION)
		bench_stop("this machine is too slow for a million at once");
	run_on(1);
	if (pthread_create(&reader, NULL, read_million, &fd))
		bench_die("pthread_create");
	run_on(0);
	worst = in_time(bystand(when - 100 * NSEC_PER_MSEC, ahead));
	pthread_join(reader, NULL);
	*took = (all_read - when) / 1e6;
	close(fd);
	free(ops);
	return worst;
}

/*
 * Measures a million timers that outlive their event, as those of connections do, and a million
 * that end with it. The bystander arms its timers shortly before they are due. In a third
 * measurement (dense), it arms all of them at once, so that they share coarse buckets. If a
 * bucket that moves down has more timers than a softirq may process, they wait for the worker,
 * which competes with other threads.
 */
static void storm_ours(unsigned int reps)
{
	double usual[MAX_REPS], worst[MAX_REPS], once[MAX_REPS], dense[MAX_REPS], ratio;
	double took[MAX_REPS], once_took[MAX_REPS], ignored;
	unsigned int rep;

	for (rep = 0; rep < reps; rep++) {
		run_on(0);
		bench_sleep_until(bench_now() + SETTLE);
		usual[rep] = in_time(bystand(bench_now() + AHEAD, AHEAD));
		worst[rep] = storm(TWHEEL_KEEP, AHEAD, &took[rep]);
		once[rep] = storm(0, AHEAD, &once_took[rep]);
		dense[rep] = storm(TWHEEL_KEEP, VM_FAR, &ignored);
	}
	vm_rows("storm_usual", "twheel", BYSTANDERS, "bystander", "us", usual, reps);
	vm_rows("storm_worst", "twheel", MILLION, "bystander", "us", worst, reps);
	vm_rows("storm_worst", "twheel", MILLION, "bystander,once", "us", once, reps);
	vm_rows("storm_worst", "twheel", MILLION, "bystander,dense", "us", dense, reps);
	vm_rows("storm_took", "twheel", MILLION, "read", "ms", took, reps);
	vm_rows("storm_took", "twheel", MILLION, "read,once", "ms", once_took, reps);
	/*
	 * The values are sorted now. The ratio is the worst of all, relative to the usual
	 * lateness.
	 */
	ratio = worst[reps - 1] > once[reps - 1] ? worst[reps - 1] : once[reps - 1];
	ratio /= usual[reps / 2];
	vm_rows("storm_ratio", "twheel", MILLION, "bystander", "x", &ratio, 1);
	ratio = dense[reps - 1] / usual[reps / 2];
	vm_rows("storm_ratio", "twheel", MILLION, "bystander,dense", "x", &ratio, 1);
}

void vm_storm(unsigned int reps)
{
	if (vm_wanted("twheel"))
		storm_ours(reps);
	reps = reps < 3 ? reps : 3;
	storm_rival(&bench_heap, MILLION, reps);
	storm_rival(&bench_libev, MILLION, reps);
	storm_rival(&bench_timerfd, 100000, reps);
	storm_rival(&bench_io_uring, 10000, reps);
}
