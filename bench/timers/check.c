// SPDX-License-Identifier: GPL-2.0
/*
 * Checks that a backend works before it is measured, and measures what its expirations cost.
 *
 * Both account for every delivery: each timer must be delivered exactly once, and not before its
 * deadline. The rows of a backend that delivers some timers early say so.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/*
 * The number of timers of the check, when they are due, and how long it waits after the last one.
 */
#define CHECK_TIMERS	1000U
#define CHECK_FROM	(100 * NSEC_PER_MSEC)
#define CHECK_SPAN	(60 * NSEC_PER_MSEC)
#define CHECK_GRACE	(60 * NSEC_PER_MSEC)
/* By how much a backend may be early that uses a cached time. */
#define CHECK_EARLY	(10 * NSEC_PER_MSEC)
/* If the machine stands still for longer than CHECK_FROM, the check fails and is repeated. */
#define CHECK_TRIES	3U

/* Expirations come within this time. */
#define EXPIRE_SPAN	NSEC_PER_SEC
/* The time for arming all of them before that. It is doubled until it is long enough. */
#define EXPIRE_LEAD	(200 * NSEC_PER_MSEC)
/* How long to wait for late expirations. */
#define EXPIRE_GRACE	(100 * NSEC_PER_MSEC)
#define EXPIRE_TIMEOUT	(20 * NSEC_PER_SEC)

/**
 * struct heard - a delivered expiration
 * @when: the time of the delivery
 * @index: the timer
 */
struct heard {
	uint64_t when;
	uint32_t index;
};

/**
 * struct account - expected and delivered expirations
 * @due: the deadline of each timer; 0 if it must not expire
 * @late: the lateness of each timer; UINT64_MAX if it was not delivered
 * @heard: the deliveries in order. They are compared with @due afterwards, because that costs as
 *	much as an expiration in some backends
 * @room: the size of @heard
 * @nr: number of deliveries
 * @early: number of deliveries before their deadline
 * @wrong: number of deliveries that were unexpected, repeated or much too early
 */
struct account {
	uint64_t *due;
	uint64_t *late;
	struct heard *heard;
	uint32_t room;
	uint32_t nr;
	uint32_t early;
	uint32_t wrong;
};

static void open_account(struct account *a, struct bench *b)
{
	*a = (struct account) {
		.due = bench_alloc(b->n + BENCH_SPARE, sizeof(*a->due)),
		.late = bench_alloc(b->n + BENCH_SPARE, sizeof(*a->late)),
		.heard = bench_alloc(b->n + BENCH_SPARE, sizeof(*a->heard)),
		.room = b->n + BENCH_SPARE,
	};
	memset(a->late, 0xff, (b->n + BENCH_SPARE) * sizeof(*a->late));
	memset(a->heard, 0xff, (b->n + BENCH_SPARE) * sizeof(*a->heard));
	b->heard = a;
}

static void close_account(struct account *a)
{
	free(a->due);
	free(a->late);
	free(a->heard);
}

static void hear(struct bench *b, uint32_t index)
{
	struct account *a = b->heard;

	if (a->nr < a->room)
		a->heard[a->nr++] = (struct heard) { b->came ? b->came : bench_now(), index };
	else
		a->wrong++;
}

/* Compares the deliveries with the deadlines. */
static void settle_account(struct account *a)
{
	uint32_t nr = a->nr, i;

	a->nr = 0;
	for (i = 0; i < nr; i++) {
		uint32_t index = a->heard[i].index;
		uint64_t when = a->heard[i].when;

		if (index >= a->room || !a->due[index] || a->late[index] != UINT64_MAX) {
			a->wrong++;
			continue;
		}
		a->nr++;
		a->wrong += when + CHECK_EARLY < a->due[index];
		a->early += when < a->due[index];
		a->late[index] = when < a->due[index] ? 0 : when - a->due[index];
	}
}

/* Applies an operation to one timer. */
static void one(struct bench *b, BENCH_PROTO((*op)), uint32_t index, uint64_t when)
{
	bench_begin(b);
	op(b, &b->handle[index], 1, when);
}

/*
 * Leaves a third of the timers armed, moves a third, some of them to an earlier time, and disarms a
 * third. Some of those that are left are disarmed and armed again. The spare timers are armed and
 * disarmed at once. Returns "yes", "early" or "no".
 */
static const char *check_once(const struct bench_backend *kind)
{
	uint32_t n = CHECK_TIMERS, expected = 0, i;
	const char *verdict = "yes";
	struct bench *b;
	uint64_t start;
	struct account a;

	errno = 0;
	b = bench_open(kind, n, 0, 0);
	if (!b) {
		bench_note("%s: %s", kind->name, errno ? strerror(errno) : "cannot be opened");
		return "no";
	}
	open_account(&a, b);
	b->sink = hear;
	start = bench_now() + CHECK_FROM;
	for (i = 0; i < n; i++) {
		a.due[i] = start + bench_random() % CHECK_SPAN;
		one(b, kind->arm, i, a.due[i]);
	}
	for (i = 0; i < n; i++) {
		if (i % 3 == 1) {
			a.due[i] = start + bench_random() % CHECK_SPAN;
			one(b, kind->move, i, a.due[i]);
		} else if (i % 3 == 2 && kind->cancel) {
			a.due[i] = 0;
			one(b, kind->cancel, i, 0);
		} else if (i % 3 == 0 && i % 2 && kind->turnover) {
			a.due[i] = start + bench_random() % CHECK_SPAN;
			one(b, kind->turnover, i, a.due[i]);
		}
		expected += !!a.due[i];
	}
	for (i = 0; i < n; i++) {
		BENCH_PROTO((*pair)) = i % 2 && kind->brief ? kind->brief : kind->pair;

		if (pair)
			one(b, pair, n + i % BENCH_SPARE, start + bench_random() % CHECK_SPAN);
	}
	kind->deliver(b, start + CHECK_SPAN + CHECK_GRACE);
	/* The machine may have stood still. */
	for (i = 0; i < 100 && a.nr < expected; i++)
		kind->deliver(b, bench_now() + CHECK_GRACE);
	settle_account(&a);
	if (a.nr != expected || a.wrong || b->failed)
		verdict = "no";
	else if (a.early)
		verdict = "early";
	if (strcmp(verdict, "yes"))
		bench_note("%s: of %u due %u came, %u of them early; %u wrong, %llu refused",
			   kind->name, expected, a.nr, a.early, a.wrong,
			   (unsigned long long)b->failed);
	close_account(&a);
	bench_close(b);
	return verdict;
}

const char *bench_check(const struct bench_backend *kind)
{
	const char *verdict;
	unsigned int i;

	for (i = 0; i < CHECK_TRIES; i++) {
		verdict = check_once(kind);
		if (strcmp(verdict, "no"))
			break;
	}
	return verdict;
}

/* The result of the check for each backend; NULL if it has not been checked yet. */
static const char **verdicts;

const char *bench_checked(const struct bench_backend *kind)
{
	unsigned int i;

	if (!verdicts)
		verdicts = bench_alloc(bench_nr_backends, sizeof(*verdicts));
	for (i = 0; bench_backends[i] != kind; i++)
		;
	if (!verdicts[i])
		verdicts[i] = bench_check(kind);
	return verdicts[i];
}

/* A backend that does not work is not measured. */
bool bench_wanted(const struct bench_backend *kind)
{
	if (bench_only && !bench_is_listed(bench_only, kind->name))
		return false;
	return strcmp(bench_checked(kind), "no");
}

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* Sorts @nr latenesses, and stores these quantiles in us. */
void bench_quantiles(uint64_t *late, uint32_t nr, const struct bench_quantile *q,
		     unsigned int quantiles, double *us)
{
	unsigned int i;

	qsort(late, nr, sizeof(*late), compare);
	for (i = 0; i < quantiles; i++) {
		uint32_t at = (uint64_t)nr * q[i].of_10000 / 10000;

		us[i] = late[at < nr ? at : nr - 1] / 1000.0;
	}
}

static const struct bench_quantile quantiles[] = {
	{ "late_p50", 5000 },
	{ "late_p99", 9900 },
	{ "late_max", 10000 },
};

#define QUANTILES	ARRAY_SIZE(quantiles)

/*
 * Arms all timers of @b for random times within @span, which begins @lead from now. Returns the
 * beginning, or 0 if arming took longer than @lead, so that some timers may be late.
 */
uint64_t bench_arm_within(struct bench *b, uint64_t *due, uint64_t span, uint64_t lead)
{
	const struct bench_backend *kind = b->kind;
	uint64_t start = bench_now() + lead;
	uint32_t i;

	for (i = 0; i < b->n; i++)
		due[i] = start + bench_random() % span;
	bench_begin(b);
	for (i = 0; i < b->n; i++)
		kind->arm(b, &b->handle[i], 1, due[i]);
	return bench_now() < start ? start : 0;
}

/* Does the same, and then moves each timer by @span, in another order. */
static uint64_t arm_and_move(struct bench *b, uint64_t *due, uint64_t span, uint64_t lead)
{
	uint64_t start = bench_arm_within(b, due, span, lead);
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		/* This prime is larger than any number of timers, so each timer is moved once. */
		uint32_t k = i * 10000019ULL % b->n;

		due[k] += span;
		b->kind->move(b, &b->handle[k], 1, due[k]);
	}
	return bench_now() < start ? start + span : 0;
}

/*
 * Measures the expirations of @n timers, in such a time that @of timers would expire within a
 * second. With @silent, everything is measured: arming, moving once, expiring, reading and
 * deleting. @tick is the resolution of a wheel, or 0 for the default. Returns true if all timers
 * were delivered once and no operation was refused.
 */
static bool expire_once(const struct bench_backend *kind, uint32_t n, uint32_t of, uint64_t tick,
			bool silent, double *cost, double late[QUANTILES], bool *early)
{
	uint64_t span = EXPIRE_SPAN * n / of;
	uint64_t start = 0, lead, cpu, until;
	struct bench *b = NULL;
	struct account a;
	bool fine;

	for (lead = EXPIRE_LEAD; !start; lead *= 2) {
		if (b) {
			close_account(&a);
			bench_close(b);
		}
		b = bench_open(kind, n, 0, tick);
		if (!b) {
			bench_note("%s: cannot hold %u timers here", kind->name, n);
			return false;
		}
		open_account(&a, b);
		b->sink = hear;
		cpu = bench_process_cpu();
		start = (silent ? arm_and_move : bench_arm_within)(b, a.due, span, lead);
	}
	/* Work that is left from arming the timers does not belong to their expiration. */
	if (!silent) {
		if (kind->settle)
			kind->settle(b);
		cpu = bench_process_cpu();
	}
	kind->deliver(b, start + span + EXPIRE_GRACE);
	until = bench_now() + EXPIRE_TIMEOUT;
	while (a.nr < n && bench_now() < until)
		kind->deliver(b, bench_now() + EXPIRE_GRACE);
	if (silent && kind->end)
		kind->end(b, b->handle, n, 0);
	*cost = (bench_process_cpu() - cpu) / 1000.0 / n;
	settle_account(&a);
	fine = a.nr == n && !a.wrong && !b->failed;
	if (!fine)
		bench_note("%s: of %u due %u came, %u wrong, %llu refused", kind->name, n, a.nr,
			   a.wrong, (unsigned long long)b->failed);
	*early |= a.early;
	bench_quantiles(a.late, n, quantiles, QUANTILES, late);
	close_account(&a);
	bench_close(b);
	return fine;
}

/*
 * True if expirations of this backend are measured. Bare words do not expire, and one thread is
 * used.
 */
static bool expires(const struct bench_backend *kind)
{
	return kind != &bench_store && kind != &bench_exchange && kind != &bench_called &&
	       kind != &bench_least && kind != &bench_table && kind != &bench_rearm &&
	       !kind->locked &&
	       /* These deliver timers only for the check. */
	       kind != &bench_tokio && kind != &bench_go && bench_wanted(kind);
}

/**
 * struct expiry - the expirations of one backend
 * @kind: the backend
 * @tick: the resolution of a wheel; 0 for the default
 * @n: number of timers; 0 if the backend is not measured
 * @early: some timers were delivered early
 * @cost: CPU time of an expiration in us, for each repetition
 * @late: quantiles of the lateness in us, for each repetition
 */
struct expiry {
	const struct bench_backend *kind;
	uint64_t tick;
	uint32_t n;
	bool early;
	double *cost;
	double *late[QUANTILES];
};

/* Uses as many timers as the backend can hold, if that is more than it was measured with before. */
static void open_expiry(struct expiry *e, const struct bench_backend *kind, uint64_t tick,
			uint32_t n, uint32_t before, unsigned int reps)
{
	unsigned int q;

	*e = (struct expiry) { .kind = kind, .tick = tick };
	if (!expires(kind))
		return;
	e->n = bench_fit(kind, n);
	if (e->n <= before)
		e->n = 0;
	else if (e->n < n)
		bench_note("%s: no more than %u timers here", kind->name, e->n);
	e->cost = bench_alloc(reps, sizeof(*e->cost));
	for (q = 0; q < QUANTILES; q++)
		e->late[q] = bench_alloc(reps, sizeof(*e->late[q]));
}

static void close_expiry(struct expiry *e, bool silent, unsigned int reps)
{
	struct bench_row row = {
		.op = silent ? "silent_own" : "expire_own",
		.backend = e->kind->name,
		.n = e->n,
		.threads = 1,
		.pattern = e->tick ? "random,1ms" : "random",
		.unit = "us",
		.checked = e->early ? "early" : "yes",
	};
	unsigned int q;

	if (e->n)
		bench_row(&row, e->cost, reps);
	for (q = 0; q < QUANTILES; q++) {
		row.op = quantiles[q].op;
		if (e->n && !silent)
			bench_row(&row, e->late[q], reps);
		free(e->late[q]);
	}
	free(e->cost);
}

/* Measures all backends, and libtwheel a second time with the resolution of libev. */
static void measure_expiry(uint32_t n, uint32_t before, bool silent, unsigned int reps)
{
	struct expiry expiries[bench_nr_backends + 1];
	unsigned int k, q, rep;

	for (k = 0; k < bench_nr_backends; k++)
		open_expiry(&expiries[k], bench_backends[k], 0, n, before, reps);
	open_expiry(&expiries[k], &bench_libtwheel, BENCH_COARSE, n, before, reps);
	for (rep = 0; rep < reps; rep++) {
		for (k = 0; k <= bench_nr_backends; k++) {
			struct expiry *e = &expiries[k];
			double late[QUANTILES];

			if (!e->n)
				continue;
			if (!expire_once(e->kind, e->n, n, e->tick, silent, &e->cost[rep], late,
					 &e->early))
				e->n = 0;
			for (q = 0; q < QUANTILES; q++)
				e->late[q][rep] = late[q];
		}
	}
	for (k = 0; k <= bench_nr_backends; k++)
		close_expiry(&expiries[k], silent, reps);
}

/*
 * Measures @n timers that expire at random times within a second, or as many as a backend can
 * hold within a part of it. The backends take turns, @reps times. For a million timers, this also
 * measures connections that fall silent.
 */
void bench_expire(uint32_t n, uint32_t before, unsigned int reps)
{
	measure_expiry(n, before, false, reps);
	if (n >= 1000000)
		measure_expiry(n, before, true, reps);
}
