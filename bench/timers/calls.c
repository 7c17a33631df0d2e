// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the system calls that timers of libtwheel cost.
 *
 *   paced      requests with a short timeout that start and end at a fixed rate
 *   requests   as many requests as possible with a longer timeout, 1,000 of them in flight
 *   random     timers with deadlines in random order; the wheel must be told at once of each
 *              that is the earliest so far
 *   heartbeat  timers that are moved to a later time, in random order
 *
 * In the last three rows, the calls are divided by the turns that the wheel makes by itself plus
 * the deadlines that were the earliest so far. A thread waits for the wheel and reads it, which
 * turns an in-process wheel.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libtwheel.h"
#include "bench.h"

static uint64_t calls_of(struct twheel *wheel)
{
	struct twheel_usage usage = { .size = sizeof(usage) };

	if (twheel_usage(wheel, &usage))
		bench_die("twheel_usage");
	return usage.kicks + usage.refills + usage.withdrawn;
}

/*
 * REQUESTS start in each ms and end in the next one, before their deadline, and the loop sleeps in
 * between. The timeout is short, so that the count includes calls for the looks of the wheel.
 */
#define CALLS_MSEC	1000U
#define CALLS_TIMEOUT	(200 * NSEC_PER_MSEC)
#define REQUESTS	50U
/*
 * If the machine stands still for longer than the timeout, requests expire, and the test is
 * repeated.
 */
#define CALLS_TRIES	5U

static void hear_late(struct bench *b, uint32_t index)
{
	(void)index;
	*(bool *)b->heard = true;
}

static struct bench *open_bench(uint32_t n, bool *late)
{
	struct bench *b = bench_must_open(&bench_libtwheel, n, 0, 0);

	b->sink = hear_late;
	b->heard = late;
	return b;
}

/*
 * Sets @bad if an operation failed, and @late if a timeout expired, so that the result means
 * nothing.
 */
static double paced_once(bool *bad, bool *late)
{
	struct bench *b = open_bench(2 * REQUESTS, late);
	struct twheel *wheel = bench_wheel_of(b);
	uint64_t ids[REQUESTS], before, calls, when;
	unsigned int msec, i;

	before = calls_of(wheel);
	when = bench_now();
	for (msec = 0; msec < CALLS_MSEC; msec++) {
		for (i = 0; i < REQUESTS; i++) {
			if (msec && twheel_del(wheel, ids[i]) != 1)
				*bad = true;
			if (twheel_add(wheel, bench_now() + CALLS_TIMEOUT, i, &ids[i]))
				*bad = true;
		}
		when += NSEC_PER_MSEC;
		b->kind->deliver(b, when);
		/* After a long standstill, continue from now, because requests may have expired. */
		if (bench_now() > when + CALLS_TIMEOUT / 2)
			when = bench_now();
	}
	calls = calls_of(wheel) - before;
	bench_close(b);
	return 1000.0 * calls / (CALLS_MSEC * REQUESTS);
}

/* By turns of the wheel */

#define CALLS_THREADS	2U
/* The requests in flight of a thread. */
#define IN_FLIGHT	1000U
/* Longer than a machine stands still, and short enough for the wheel to turn. */
#define REQUEST_TIMEOUT	(500 * NSEC_PER_MSEC)
/* Other timers never expire, even on a slow machine. */
#define LATER		(3600 * NSEC_PER_SEC)

enum work { WORK_REQUESTS, WORK_RANDOM, WORK_HEARTBEAT };

static const struct work_kind {
	const char *pattern;
	enum work work;
	uint32_t n;
	unsigned int threads;
} works[] = {
	{ "requests", WORK_REQUESTS, 1000000, 1 },
	{ "requests", WORK_REQUESTS, 1000000, 2 },
	{ "random", WORK_RANDOM, 1000000, 1 },
	{ "random", WORK_RANDOM, 1000000, 2 },
	{ "heartbeat", WORK_HEARTBEAT, 100000, 1 },
	{ "heartbeat", WORK_HEARTBEAT, 100000, 2 },
};

/**
 * struct worker - a thread that arms timers
 * @wheel: the wheel
 * @work: the kind of work
 * @nr: number of timers
 * @random: state of this thread's random numbers
 * @records: number of deadlines that were the earliest of this thread so far
 * @bad: an operation was refused, or a timer expired
 */
struct worker {
	struct twheel *wheel;
	enum work work;
	uint32_t nr;
	uint64_t random;
	uint64_t records;
	bool bad;
};

static uint64_t draw(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

static void do_requests(struct worker *w)
{
	uint64_t *ids = bench_alloc(IN_FLIGHT, sizeof(*ids));
	uint32_t i, in_flight = w->nr < IN_FLIGHT ? w->nr : IN_FLIGHT;

	/* Deadlines only grow. */
	w->records = 1;
	for (i = 0; i < w->nr; i++) {
		if (i >= in_flight && twheel_del(w->wheel, ids[i % in_flight]) != 1)
			w->bad = true;
		if (twheel_add(w->wheel, bench_now() + REQUEST_TIMEOUT, i, &ids[i % in_flight]))
			w->bad = true;
	}
	for (i = 0; i < in_flight; i++)
		if (twheel_del(w->wheel, ids[i]) < 0)
			w->bad = true;
	free(ids);
}

static void do_random(struct worker *w)
{
	uint64_t *ids = bench_alloc(w->nr, sizeof(*ids));
	uint64_t base = bench_now() + LATER, least = UINT64_MAX;
	uint32_t i;

	for (i = 0; i < w->nr; i++) {
		uint64_t when = base + draw(w) % LATER;

		if (when < least) {
			least = when;
			w->records++;
		}
		if (twheel_add(w->wheel, when, i, &ids[i]))
			w->bad = true;
	}
	for (i = 0; i < w->nr; i++)
		if (twheel_del(w->wheel, ids[i]) != 1)
			w->bad = true;
	free(ids);
}

/* Sends ten heartbeats per timer, in random order. */
static void do_heartbeats(struct worker *w)
{
	uint64_t *ids = bench_alloc(w->nr, sizeof(*ids));
	uint32_t i;

	w->records = 1;
	for (i = 0; i < w->nr; i++)
		if (twheel_add(w->wheel, bench_now() + LATER, i, &ids[i]))
			w->bad = true;
	for (i = 0; i < 10 * w->nr; i++)
		if (twheel_set(w->wheel, ids[draw(w) % w->nr], bench_now() + LATER) != 1)
			w->bad = true;
	for (i = 0; i < w->nr; i++)
		if (twheel_del(w->wheel, ids[i]) != 1)
			w->bad = true;
	free(ids);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	switch (w->work) {
	case WORK_REQUESTS:
		do_requests(w);
		break;
	case WORK_RANDOM:
		do_random(w);
		break;
	case WORK_HEARTBEAT:
		do_heartbeats(w);
		break;
	}
	return NULL;
}

/* A thread that waits for the wheel as an event loop does, until @stop is set. */
struct loop {
	struct twheel *wheel;
	bool stop;
	uint64_t events;
};

static void *wait_and_read(void *arg)
{
	struct loop *loop = arg;
	struct twheel_event events[64];
	int nr;

	while (!__atomic_load_n(&loop->stop, __ATOMIC_ACQUIRE)) {
		twheel_wait(loop->wheel, -1);
		while ((nr = twheel_read(loop->wheel, events, ARRAY_SIZE(events))) > 0)
			loop->events += nr;
	}
	return NULL;
}

/*
 * Returns the turns that the wheel has made by itself. The in-process wheel counts kicks as
 * turns.
 */
static uint64_t turns_of(struct twheel *wheel)
{
	struct twheel_usage usage = { .size = sizeof(usage) };
	struct twheel_stats stats;

	if (twheel_stats(wheel, &stats) || twheel_usage(wheel, &usage))
		bench_die("twheel_stats");
	if (strcmp(twheel_backend(wheel), "inprocess"))
		return stats.wakeups;
	return stats.wakeups - (usage.kicks < stats.wakeups ? usage.kicks : stats.wakeups);
}

/*
 * Creates the slots of all timers in flight first. The library asks for them 64 at a time, once per
 * program, so these calls do not belong to the operations.
 */
static void make_slots(struct twheel *wheel, uint32_t nr)
{
	uint64_t *ids = bench_alloc(nr, sizeof(*ids));
	uint32_t i;

	for (i = 0; i < nr; i++)
		if (twheel_add(wheel, bench_now() + 2 * LATER, i, &ids[i]))
			bench_die("twheel_add");
	for (i = 0; i < nr; i++)
		twheel_del(wheel, ids[i]);
	free(ids);
}

static double turns_once(const struct work_kind *kind, uint32_t n, bool *bad)
{
	uint32_t flight = kind->work == WORK_REQUESTS && n > kind->threads * IN_FLIGHT ?
			  kind->threads * IN_FLIGHT : n, room = flight + 2048;
	struct twheel_options options = { .size = sizeof(options), .max_timers = room };
	struct worker workers[CALLS_THREADS] = {};
	pthread_t threads[CALLS_THREADS], reader;
	uint64_t turns, calls, records = 0;
	struct loop loop = {};
	unsigned int i;

	if (!getenv("TWHEEL_BACKEND"))
		options.flags = TWHEEL_OPEN_INPROCESS;
	if (twheel_open(&loop.wheel, &options))
		bench_die("twheel_open");
	make_slots(loop.wheel, flight + 1024);
	if (twheel_wake(loop.wheel) || pthread_create(&reader, NULL, wait_and_read, &loop))
		bench_die("calls");
	calls = calls_of(loop.wheel);
	turns = turns_of(loop.wheel);
	for (i = 0; i < kind->threads; i++) {
		workers[i] = (struct worker) {
			.wheel = loop.wheel,
			.work = kind->work,
			.nr = n / kind->threads,
			.random = bench_random() | 1,
		};
		if (pthread_create(&threads[i], NULL, work, &workers[i]))
			bench_die("pthread_create");
	}
	for (i = 0; i < kind->threads; i++) {
		pthread_join(threads[i], NULL);
		records += workers[i].records;
		*bad |= workers[i].bad;
	}
	calls = calls_of(loop.wheel) - calls;
	turns = turns_of(loop.wheel) - turns;
	__atomic_store_n(&loop.stop, true, __ATOMIC_RELEASE);
	twheel_wake(loop.wheel);
	pthread_join(reader, NULL);
	*bad |= loop.events;
	twheel_close(loop.wheel);
	return (double)calls / (turns + records);
}

static void row(const char *pattern, uint32_t n, unsigned int threads, const char *unit, bool bad,
		double *values, unsigned int reps)
{
	struct bench_row row = {
		.op = "calls",
		.backend = bench_libtwheel.name,
		.n = n,
		.threads = threads,
		.pattern = pattern,
		.unit = unit,
		.checked = bad ? "no" : "yes",
	};

	bench_row(&row, values, reps);
}

/* @most: maximum number of timers. */
void bench_calls(unsigned int reps, uint32_t most)
{
	bool bad = false, late;
	unsigned int i, k, tries;
	double calls[reps];

	if (!bench_wanted(&bench_libtwheel))
		return;
	for (i = 0; i < reps; i++) {
		for (tries = 1; ; tries++) {
			bool once = false;

			late = false;
			calls[i] = paced_once(&once, &late);
			if (late && tries < CALLS_TRIES)
				continue;
			bad |= once;
			break;
		}
	}
	row("paced", REQUESTS, 1, "per_1000_pairs", bad, calls, reps);
	for (k = 0; k < ARRAY_SIZE(works); k++) {
		uint32_t n = works[k].n < most ? works[k].n : most;

		bad = false;
		for (i = 0; i < reps; i++)
			calls[i] = turns_once(&works[k], n, &bad);
		row(works[k].pattern, n, works[k].threads, "per_turn", bad, calls, reps);
	}
}
