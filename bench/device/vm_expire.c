// SPDX-License-Identifier: GPL-2.0
/*
 * Measures the total cost of expirations, including interrupts, softirqs and workers, which no
 * thread is charged for: the time of all processors minus their idle time. It also measures how
 * late a program is that waits for its timers.
 */
#include <stdlib.h>
#include <string.h>

#include "vm_bench.h"

#define MAX_REPS	25U
/* Expirations come within this time. */
#define SPAN		NSEC_PER_SEC
/* The number of timers for the cost, and for the lateness. */
#define MANY		100000U
#define SOME		10000U
#define EXPIRE_TIMEOUT	(30 * NSEC_PER_SEC)

static const struct bench_backend *const kinds[] = {
	&vm_twheel, &bench_libtwheel, &bench_timerfd, &bench_io_uring, &bench_libev, &bench_heap,
};

#define KINDS	ARRAY_SIZE(kinds)

static const struct bench_quantile quantiles[] = {
	{ "late_p50", 5000 },
	{ "late_p99", 9900 },
	{ "late_p999", 9990 },
	{ "late_max", 10000 },
};

#define QUANTILES	ARRAY_SIZE(quantiles)

/**
 * struct account - expected and delivered expirations
 * @due: the deadline of each timer
 * @late: the lateness of each timer
 * @times: how often each timer was delivered
 * @nr: number of deliveries
 * @clocked: read the clock for each delivery, which would add to the cost
 */
struct account {
	uint64_t *due;
	uint64_t *late;
	uint8_t *times;
	uint32_t nr;
	bool clocked;
};

static void hear(struct bench *b, uint32_t index)
{
	struct account *a = b->heard;

	a->times[index]++;
	a->nr++;
	if (a->clocked)
		a->late[index] = bench_now() - a->due[index];
}

static void close_account(struct account *a, struct bench *b)
{
	bench_close(b);
	free(a->due);
	free(a->late);
	free(a->times);
}

/*
 * Lets @n timers expire at random times within a second. Some backends take long to arm them; if
 * the first timer was due by then, this starts again with more time. @tick is the resolution of a
 * wheel, or 0 for the default. Returns the CPU time of each in us, and stores quantiles of their
 * lateness.
 */
static double expire(const struct bench_backend *kind, uint32_t n, uint64_t tick, bool clocked,
		     double late[QUANTILES])
{
	uint64_t lead = 100 * NSEC_PER_MSEC + n * 5 * NSEC_PER_USEC;
	uint64_t start, cpu, until;
	struct account a = { .clocked = clocked };
	struct bench *b;
	uint32_t i;
	bool bad = false;
	double cost;

	for (;;) {
		b = bench_must_open(kind, n, 0, tick);
		a.due = bench_alloc(n + BENCH_SPARE, sizeof(*a.due));
		a.late = bench_alloc(n + BENCH_SPARE, sizeof(*a.late));
		a.times = bench_alloc(n + BENCH_SPARE, sizeof(*a.times));
		a.nr = 0;
		b->heard = &a;
		b->sink = hear;
		start = bench_arm_within(b, a.due, SPAN, lead);
		if (start)
			break;
		lead *= 2;
		close_account(&a, b);
	}
	/* Work that is left from arming the timers does not belong to their expiration. */
	if (kind->settle)
		kind->settle(b);
	cpu = vm_all_cpu();
	kind->deliver(b, start + SPAN + 20 * NSEC_PER_MSEC);
	until = bench_now() + EXPIRE_TIMEOUT;
	while (a.nr < n && bench_now() < until)
		kind->deliver(b, bench_now() + 20 * NSEC_PER_MSEC);
	cost = (vm_all_cpu() - cpu) / 1000.0 / n;
	for (i = 0; i < n; i++) {
		bad |= a.times[i] != 1;
		/* A negative lateness means that the timer was early. */
		bad |= (int64_t)a.late[i] < 0;
	}
	if (bad || b->failed)
		bench_stop("%s: of %u timers %u came", kind->name, n, a.nr);
	bench_quantiles(a.late, n, quantiles, QUANTILES, late);
	close_account(&a, b);
	return cost;
}

static bool is_wheel(const struct bench_backend *kind)
{
	return kind == &vm_twheel || kind == &bench_libtwheel;
}

void vm_expire(unsigned int reps)
{
	double cost[KINDS][MAX_REPS], coarse[KINDS][MAX_REPS];
	double late[KINDS][QUANTILES][MAX_REPS], lateness[QUANTILES];
	unsigned int rep, k, q;

	for (rep = 0; rep < reps; rep++)
		for (k = 0; k < KINDS; k++) {
			if (!vm_wanted(kinds[k]->name))
				continue;
			expire(kinds[k], SOME, 0, true, lateness);
			for (q = 0; q < QUANTILES; q++)
				late[k][q][rep] = lateness[q];
			cost[k][rep] = expire(kinds[k], MANY, 0, false, lateness);
			if (is_wheel(kinds[k]))
				coarse[k][rep] = expire(kinds[k], MANY, BENCH_COARSE, false,
							lateness);
		}
	for (k = 0; k < KINDS; k++)
		vm_rows("expire", kinds[k]->name, MANY, "random", "us", cost[k], reps);
	for (k = 0; k < KINDS; k++)
		if (is_wheel(kinds[k]))
			vm_rows("expire", kinds[k]->name, MANY, "random,1ms", "us", coarse[k],
				reps);
	for (q = 0; q < QUANTILES; q++)
		for (k = 0; k < KINDS; k++)
			vm_rows(quantiles[q].op, kinds[k]->name, SOME, "random", "us",
				late[k][q], reps);
}
