// SPDX-License-Identifier: GPL-2.0
/*
 * Measures one operation of all backends.
 *
 * All backends are open at the same time, with the same number of armed timers,
 * and take turns: the repetitions are the outer loop, so that disturbances by other
 * programs affect all backends. The order of the backends is random in each repetition.
 * Before it is measured, a backend performs operations for a while, twice through its
 * timers if that does not take too long. This fills the caches with the backend's own
 * data, and not with that of its predecessor, which may have used the same table. We
 * measure the CPU time of the operations, and wall time for throughput. The order of
 * the timers is computed in advance, so that reading it costs the same for all backends.
 *
 * Nothing is subtracted. The cost includes a read of eight bytes of that order for
 * each operation, and two reads of the thread's clock for each section.
 *
 * Two threads run on two processors, and are measured in wall time. If another program
 * has used one of these processors, the repetition is done again.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sched.h>

#include "bench.h"

/* The deadlines are an hour away, so that nothing expires meanwhile. */
#define TIMEOUT		(3600 * NSEC_PER_SEC)
/* The first deadlines lie within this time. */
#define SPAN		(5 * NSEC_PER_SEC)
/*
 * How long a repetition of an operation should take. With two threads, which are disturbed more
 * easily, cheap operations are repeated for longer.
 */
#define TARGET		(4 * NSEC_PER_MSEC)
#define TARGET_TWO	(4 * TARGET)
/* An operation is cheap if it takes fewer nanoseconds than this. */
#define CHEAP_NS	50
/* The time of the warm-up relative to TARGET, and its maximum. */
#define WARM_UP		2U
#define WARM_UP_MAX	(12 * TARGET)
/*
 * The warm-up includes at least one round through all timers if that takes no longer than this,
 * which is enough for 100,000 timers in the kernel. Two threads are compared with backends in
 * user space.
 */
#define WARM_UP_ROUND	(400 * NSEC_PER_MSEC)
#define WARM_UP_ROUND_TWO	(50 * NSEC_PER_MSEC)
/* The minimum length of the order, so that the caches cannot hold it. */
#define MIN_ORDER	(1U << 16)
#define MAX_OPS		(1U << 24)
#define MAX_THREADS	2U
/* How often a disturbed repetition is started. The last one counts even if it was disturbed. */
#define MAX_TRIES	8U

enum sequence { SEQUENTIAL, RANDOM, HOT };

static const char *const sequence_name[] = { "sequential", "random", "hot" };

/**
 * struct place - the state of one thread
 * @order: handles in the order in which the thread uses them, again and again
 * @len: length of @order
 * @timers: number of different timers in @order
 * @pos: index of the next handle
 * @when: the next deadline
 * @nr: number of operations in a repetition
 * @warm_up: number of operations before it
 * @cpu: CPU time of the operations
 * @wall: wall time of the operations
 * @start: when they started
 * @end: when they ended
 */
struct place {
	uint64_t *order;
	size_t len;
	uint32_t timers;
	size_t pos;
	uint64_t when;
	uint64_t nr;
	uint64_t warm_up;
	uint64_t cpu;
	uint64_t wall;
	uint64_t start;
	uint64_t end;
};

/**
 * struct rival - a backend that is compared with others
 * @bench: its timers
 * @place: the state of its threads
 * @ns: CPU time of an operation, for each repetition
 * @rate: million operations per second, for each repetition
 * @gain: @rate relative to that of one thread alone, for each repetition
 * @crowded: number of repetitions in which a thread had to wait for a processor
 * @op: the operation that is measured
 * @undo: the operation that reverts @op, and is not measured; NULL if none is needed
 */
struct rival {
	struct bench *bench;
	struct place place[MAX_THREADS];
	double *ns;
	double *rate;
	double *gain;
	unsigned int crowded;
	void (*op)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
	void (*undo)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
};

struct op {
	const char *name;
	size_t offset;
	size_t undo;
	enum sequence first;
	enum sequence last;
};

#define OP(name)	offsetof(struct bench_backend, name)
#define NONE		SIZE_MAX

static const struct op ops[] = {
	{ "move", OP(move), NONE, SEQUENTIAL, RANDOM },
	{ "cancel", OP(cancel), OP(arm), SEQUENTIAL, RANDOM },
	/* This one comes before those that leave slots known to the wheel. */
	{ "brief", OP(brief), NONE, HOT, HOT },
	{ "pair", OP(pair), NONE, HOT, HOT },
	{ "again", OP(again), NONE, RANDOM, RANDOM },
	{ "turnover", OP(turnover), NONE, RANDOM, RANDOM },
	{ "replace", OP(replace), NONE, RANDOM, RANDOM },
};

static BENCH_PROTO((*find_op(const struct bench_backend *kind, size_t offset)))
{
	BENCH_PROTO((*op)) = NULL;

	if (offset != NONE)
		memcpy(&op, (const char *)kind + offset, sizeof(op));
	return op;
}

/* True if the thread had a processor for at least nine tenths of the time. */
static bool had_processor(const struct place *place)
{
	return 10 * place->cpu >= 9 * place->wall;
}

static uint32_t reach_of(struct bench *b)
{
	return b->kind->reach ? b->kind->reach(b) : b->usable;
}

/*
 * Performs @nr operations, in sections, so that an operation is undone before its timer comes
 * again.
 */
static void run(struct rival *r, struct place *place, uint64_t nr)
{
	const struct bench_backend *kind = r->bench->kind;
	uint64_t cpu = 0, wall = 0, cpu_start, wall_start;
	const uint64_t *handle;
	size_t part;

	place->start = bench_now();
	for (; nr; nr -= part) {
		part = place->len - place->pos < nr ? place->len - place->pos : nr;
		handle = place->order + place->pos;
		wall_start = bench_now();
		cpu_start = bench_cpu(r->bench);
		if (kind->begin)
			kind->begin(r->bench);
		r->op(r->bench, handle, part, place->when);
		cpu += bench_cpu(r->bench) - cpu_start;
		wall += bench_now() - wall_start;
		place->when += part * BENCH_STEP;
		if (r->undo) {
			r->undo(r->bench, handle, part, place->when);
			place->when += part * BENCH_STEP;
		}
		place->pos = (place->pos + part) % place->len;
	}
	place->end = bench_now();
	place->cpu = cpu;
	place->wall = wall;
}

/*
 * Computes the order of one thread's timers, the first of which is @first. In random order, any
 * timer may be the next, so in a round some come twice and a third not at all. If each came once
 * per round, the next one would always be the one that is due first, which is the worst case for
 * a heap. A timer that an operation disarms must not come twice before it is armed again, though.
 */
static void draw_order(struct rival *r, struct place *place, enum sequence seq,
		       unsigned int thread, uint32_t first, uint32_t nr)
{
	uint32_t *shuffled = NULL;
	size_t len = nr, i;

	if (seq == RANDOM && r->undo) {
		shuffled = bench_alloc(nr, sizeof(*shuffled));
		for (i = 0; i < nr; i++)
			shuffled[i] = i;
		bench_shuffle(shuffled, nr);
	}
	if (!r->undo && len < MIN_ORDER)
		len = (MIN_ORDER + nr - 1) / nr * nr;
	place->order = bench_alloc(len, sizeof(*place->order));
	place->len = len;
	place->timers = seq == HOT ? 1 : nr;
	place->pos = 0;
	for (i = 0; i < len; i++) {
		uint32_t index = first + i % nr;

		if (shuffled)
			index = first + shuffled[i];
		else if (seq == RANDOM)
			index = first + bench_random() % nr;
		else if (seq == HOT)
			index = r->bench->n + thread * (BENCH_SPARE / MAX_THREADS);
		place->order[i] = r->bench->handle[index];
	}
	free(shuffled);
}

/*
 * Plans a warm-up of two rounds through all timers if there is time for that, or of one. If no
 * timer comes twice in a round, less than a round would not warm up any timer that is measured
 * afterwards. A longer measurement needs no longer warm-up.
 */
static void plan_warm_up(const struct rival *r, struct place *place, unsigned int threads,
			 uint64_t ns, uint64_t nr)
{
	uint64_t longest = threads > 1 ? WARM_UP_ROUND_TWO : WARM_UP_ROUND;
	double each = (double)(ns ? ns : 1) / nr;
	uint64_t most = WARM_UP_MAX / each, least = WARM_UP * TARGET / each;

	if (place->timers * each <= longest && most < place->timers)
		most = place->timers;
	place->warm_up = WARM_UP * place->timers;
	if (place->warm_up > most)
		place->warm_up = most;
	if (place->warm_up < least)
		place->warm_up = least;
	if (place->warm_up < r->bench->least)
		place->warm_up = r->bench->least;
}

/* Finds out how many operations take TARGET. This warms up the caches as well. */
static void calibrate(struct rival *r, struct place *place, unsigned int threads)
{
	uint64_t nr = r->bench->least > 64 ? r->bench->least : 64, target = TARGET;

	for (;;) {
		run(r, place, nr);
		if (place->cpu >= target / 8 || nr >= MAX_OPS)
			break;
		nr *= 4;
	}
	if (threads > 1 && place->cpu < CHEAP_NS * nr)
		target = TARGET_TWO;
	place->nr = nr * target / (place->cpu ? place->cpu : 1) + 1;
	if (place->nr > MAX_OPS)
		place->nr = MAX_OPS;
	if (place->nr < nr && place->cpu < target)
		place->nr = nr;
	if (place->nr < r->bench->least)
		place->nr = r->bench->least;
	plan_warm_up(r, place, threads, place->cpu, nr);
}

/**
 * struct runner - a thread that measures at the same time as another one
 * @rival: the backend
 * @thread: number of the thread
 * @barrier: counts the threads that are ready to start
 */
struct runner {
	struct rival *rival;
	unsigned int thread;
	unsigned int *barrier;
};

/* Gives the calling thread a processor that the others do not have. */
static void pin(unsigned int thread)
{
	cpu_set_t allowed, mine;
	unsigned int cpu;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	thread %= CPU_COUNT(&allowed);
	for (cpu = 0; !CPU_ISSET(cpu, &allowed) || thread--; cpu++)
		;
	CPU_ZERO(&mine);
	CPU_SET(cpu, &mine);
	/* If this is not permitted, run without it. */
	sched_setaffinity(0, sizeof(mine), &mine);
}

static void *run_beside(void *arg)
{
	struct runner *runner = arg;
	struct place *place = &runner->rival->place[runner->thread];

	pin(runner->thread);
	__atomic_fetch_add(runner->barrier, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(runner->barrier, __ATOMIC_SEQ_CST) < MAX_THREADS)
		sched_yield();
	run(runner->rival, place, place->nr);
	return NULL;
}

/* Returns million operations per second. */
static double rate_of(const struct place *place)
{
	return 1e3 * place->nr / (place->wall ? place->wall : 1);
}

/* True if two threads ran at the same time for at least half of the longer one's time. */
static bool have_met(const struct place *a, const struct place *b)
{
	uint64_t start = a->start > b->start ? a->start : b->start;
	uint64_t end = a->end < b->end ? a->end : b->end;
	uint64_t longer = a->end - a->start;

	if (longer < b->end - b->start)
		longer = b->end - b->start;
	return end > start && 2 * (end - start) >= longer;
}

/* Runs both threads at once. Returns true if neither had to wait for a processor. */
static bool run_both(struct rival *r, unsigned int threads)
{
	struct runner runners[MAX_THREADS];
	pthread_t id[MAX_THREADS];
	unsigned int barrier = 0, i;
	bool alone = true, locked = r->bench->lock;

	for (i = 0; i < threads; i++) {
		runners[i] = (struct runner) { r, i, &barrier };
		if (pthread_create(&id[i], NULL, run_beside, &runners[i]))
			bench_die("pthread_create");
	}
	for (i = 0; i < threads; i++)
		pthread_join(id[i], NULL);
	/*
	 * A thread that waits for a mutex does not use its processor either, so that is no
	 * disturbance.
	 */
	for (i = 0; i < threads; i++)
		alone &= (locked || had_processor(&r->place[i])) &&
			 have_met(&r->place[0], &r->place[i]);
	return alone;
}

static void repeat(struct rival *r, unsigned int threads, unsigned int rep)
{
	uint64_t cpu = 0, nr = 0, whole[MAX_THREADS];
	double rate = 0, alone;
	unsigned int tries, i;

	run(r, &r->place[0], r->place[0].warm_up);
	/* The gain of several threads is relative to this one. */
	for (tries = 1; ; tries++) {
		run(r, &r->place[0], r->place[0].nr);
		if (threads == 1 || had_processor(&r->place[0]) || tries == MAX_TRIES)
			break;
	}
	alone = rate_of(&r->place[0]);
	/*
	 * Warm up the caches of all threads with a round, or with a quarter of the repetition if
	 * that is more.
	 */
	for (i = 0; i < threads; i++) {
		whole[i] = r->place[i].nr;
		if (r->place[i].timers < whole[i])
			r->place[i].nr = r->place[i].timers;
		if (r->place[i].nr < whole[i] / 4)
			r->place[i].nr = whole[i] / 4;
	}
	if (threads > 1)
		run_both(r, threads);
	for (i = 0; i < threads; i++)
		r->place[i].nr = whole[i];
	for (tries = 1; threads > 1 && !run_both(r, threads); tries++) {
		if (tries == MAX_TRIES) {
			r->crowded++;
			break;
		}
	}
	for (i = 0; i < threads; i++) {
		const struct place *place = &r->place[i];

		cpu += place->cpu;
		nr += place->nr;
		rate += rate_of(place);
	}
	r->ns[rep] = (double)cpu / nr;
	r->rate[rep] = rate;
	r->gain[rep] = rate / alone;
}

static void put_rows(const struct rival *r, const struct op *op, enum sequence seq,
		     unsigned int threads, unsigned int reps)
{
	struct bench_row row = {
		.op = op->name,
		.backend = r->bench->kind->name,
		.n = r->bench->n,
		.threads = threads,
		.pattern = sequence_name[seq],
		.unit = "ns",
		.checked = r->bench->failed ? "no" : bench_checked(r->bench->kind),
	};
	char name[32];

	bench_row(&row, r->ns, reps);
	if (threads == 1)
		return;
	if (r->crowded)
		bench_note("%s: %s, %s: in %u of %u repetitions a thread had to wait for a processor",
			   row.backend, row.op, row.pattern, r->crowded, reps);
	row.op = name;
	snprintf(name, sizeof(name), "rate_%s", op->name);
	row.unit = "Mop/s";
	bench_row(&row, r->rate, reps);
	snprintf(name, sizeof(name), "gain_%s", op->name);
	row.unit = "x";
	bench_row(&row, r->gain, reps);
}

/* Measures one operation in one order, for all backends that have it. */
static void measure_op(struct rival *rivals, unsigned int nr, const struct op *op,
		       enum sequence seq, unsigned int threads, unsigned int reps)
{
	uint32_t turns[bench_nr_backends];
	unsigned int i, t, rep;

	for (i = 0; i < nr; i++) {
		struct rival *r = &rivals[i];
		uint32_t share = reach_of(r->bench) / threads;

		r->op = find_op(r->bench->kind, op->offset);
		r->undo = find_op(r->bench->kind, op->undo);
		r->crowded = 0;
		if (!r->op)
			continue;
		for (t = 0; t < threads; t++) {
			draw_order(r, &r->place[t], seq, t, t * share, share);
			calibrate(r, &r->place[t], threads);
			/* All threads perform the same number of operations. */
			r->place[t].nr = r->place[0].nr;
		}
	}
	for (i = 0; i < nr; i++)
		turns[i] = i;
	for (rep = 0; rep < reps; rep++) {
		bench_shuffle(turns, nr);
		for (i = 0; i < nr; i++) {
			if (rivals[turns[i]].op)
				repeat(&rivals[turns[i]], threads, rep);
		}
	}
	for (i = 0; i < nr; i++) {
		if (!rivals[i].op)
			continue;
		put_rows(&rivals[i], op, seq, threads, reps);
		for (t = 0; t < threads; t++)
			free(rivals[i].place[t].order);
	}
}

/* Creates the timers of a backend and arms them for random times within SPAN. */
static bool open_rival(struct rival *r, const struct bench_backend *kind, uint32_t n,
		       unsigned int threads, unsigned int reps)
{
	uint64_t base;
	unsigned int t;
	uint32_t i;

	r->bench = bench_open(kind, n, 0, 0);
	if (!r->bench && bench_fit(kind, n) < n) {
		n = bench_fit(kind, n);
		r->bench = bench_open(kind, n, 0, 0);
	}
	if (!r->bench) {
		bench_note("%s: cannot hold %u timers here", kind->name, n);
		return false;
	}
	r->bench->threads = threads;
	if (reach_of(r->bench) < r->bench->n)
		bench_note("%s: of %u timers, %u can be operated on here", kind->name, n,
			   reach_of(r->bench));
	base = bench_now() + TIMEOUT;
	if (kind->begin)
		kind->begin(r->bench);
	for (i = 0; i < r->bench->usable; i++)
		kind->arm(r->bench, &r->bench->handle[i], 1, base + bench_random() % SPAN);
	if (kind->settle)
		kind->settle(r->bench);
	for (t = 0; t < MAX_THREADS; t++)
		r->place[t].when = base + SPAN;
	r->ns = bench_alloc(reps, sizeof(*r->ns));
	r->rate = bench_alloc(reps, sizeof(*r->rate));
	r->gain = bench_alloc(reps, sizeof(*r->gain));
	return true;
}

static void close_rival(struct rival *r)
{
	bench_close(r->bench);
	free(r->ns);
	free(r->rate);
	free(r->gain);
}

/*
 * Measures all operations with @n timers. With @few, one thread only measures the library and the
 * backends that show how the cost of memory grows, and two threads leave out turnover.
 */
void bench_measure(uint32_t n, unsigned int threads, unsigned int reps, bool few)
{
	struct rival rivals[bench_nr_backends];
	unsigned int nr = 0, i;
	enum sequence seq;
	cpu_set_t allowed;
	bool pinned = threads == 1 && !sched_getaffinity(0, sizeof(allowed), &allowed);

	/* Pin this thread, so that rivals in other programs run on the same processor. */
	if (pinned)
		pin(1);
	memset(rivals, 0, sizeof(rivals));
	for (i = 0; i < bench_nr_backends; i++) {
		const struct bench_backend *kind = bench_backends[i];

		if (!bench_wanted(kind))
			continue;
		if (kind->threads < threads) {
			bench_note("%s: only works with one thread", kind->name);
			continue;
		}
		if (kind->together && threads == 1)
			continue;
		if (few && threads == 1 && kind != &bench_exchange && kind != &bench_libtwheel &&
		    kind != &bench_called && kind != &bench_least)
			continue;
		if (n > kind->max_n) {
			bench_note("%s: no more than %u timers: %s", kind->name, kind->max_n,
				   kind->why);
			continue;
		}
		nr += open_rival(&rivals[nr], kind, n, threads, reps);
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (few && threads > 1 && ops[i].offset == OP(turnover))
			continue;
		for (seq = ops[i].first; seq <= ops[i].last; seq++)
			measure_op(rivals, nr, &ops[i], seq, threads, reps);
	}
	for (i = 0; i < nr; i++)
		close_rival(&rivals[i]);
	if (pinned)
		sched_setaffinity(0, sizeof(allowed), &allowed);
}
