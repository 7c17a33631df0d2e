// SPDX-License-Identifier: GPL-2.0
/*
 * Connections that send heartbeats, some of which fall silent.
 *
 * The connections form groups. In each STEP, the next group sends its heartbeats, in an order that
 * is unrelated to the order in memory. A few of each group fall silent, one in each round. Exactly
 * these must be dropped within the time of the run, and none too early. Time may be compressed:
 * then the heartbeat interval, the timeout, the slack and the tick of the wheel are all divided by
 * the same factor, so that the work per heartbeat stays the same.
 */
#include <stdlib.h>
#include <string.h>

#include "heartbeat.h"

#define BEAT		(5 * NSEC_PER_SEC)
#define TIMEOUT		(30 * NSEC_PER_SEC)
#define SLACK		NSEC_PER_SEC
/* With this tick, a bucket of the second level covers half of the slack. */
#define TICK		(10 * NSEC_PER_MSEC)
/* The run lasts for two timeouts. */
#define ROUNDS		12U
/* Silent connections of each group. The last of them is due a timeout after its last heartbeat. */
#define SILENT		5U
/* How long to wait for drops at the end, in tenths of a second. */
#define DROP_WAITS	300U
/* Maximum number of connections with a timerfd each. */
#define MAX_TIMERFDS	100000U
/* The interval of the generator, which is not compressed. */
#define STEP		(10 * NSEC_PER_MSEC)

/**
 * struct crowd - all connections
 * @h: the workload
 * @b: their timers; NULL to measure the generator alone
 * @handle: the handles of their timers, group after group
 * @index: the indices of the timers in the same order
 * @due: by index: when a silent connection must be dropped; 0 for others
 * @came: by index: true if it has been dropped
 * @groups: number of groups, and so of steps in a round
 * @start: when the first step begins
 * @wrong: number of drops that were wrong
 */
struct crowd {
	struct heartbeat *h;
	struct bench *b;
	uint64_t *handle;
	uint32_t *index;
	uint64_t *due;
	bool *came;
	uint32_t groups;
	uint64_t start;
	uint32_t wrong;
};

static void hear(struct bench *b, uint32_t index)
{
	struct crowd *c = b->heard;
	uint64_t due = index < b->n ? __atomic_load_n(&c->due[index], __ATOMIC_RELAXED) : 0;
	uint64_t now = bench_now();

	if (!due || now < due || c->came[index]) {
		c->wrong++;
		return;
	}
	c->came[index] = true;
	c->h->dropped++;
	if (c->h->late_ns < now - due)
		c->h->late_ns = now - due;
}

/* Returns the first connection of a thread in a group. That of the next thread is the end. */
static uint32_t first_of(const struct crowd *c, uint32_t group, unsigned int thread)
{
	uint64_t whole = c->h->n, first = whole * group / c->groups;
	uint64_t nr = whole * (group + 1) / c->groups - first;

	return first + nr * thread / c->h->threads;
}

/*
 * Sends the heartbeats of this thread's connections in a group. The last connections of thread 0
 * fall silent, one in each round. Returns the number of heartbeats.
 */
static uint32_t beat(struct crowd *c, unsigned int thread, uint32_t group, uint32_t round,
		     uint64_t when)
{
	uint32_t first = first_of(c, group, thread);
	uint32_t nr = first_of(c, group, thread + 1) - first;
	uint32_t i;

	if (!thread) {
		nr -= round < SILENT ? round : SILENT;
		/* Note when those are due that fall silent after this round or later. */
		for (i = round; i < SILENT; i++) {
			uint32_t at = first_of(c, group, 1) - 1 - i;

			__atomic_store_n(&c->due[c->index[at]],
					 when + (at - first) * BENCH_STEP, __ATOMIC_RELAXED);
		}
	}
	if (c->b) {
		if (c->b->kind->begin)
			c->b->kind->begin(c->b);
		c->b->kind->move(c->b, c->handle + first, nr, when);
	}
	return nr;
}

static void wait_until(struct crowd *c, unsigned int thread, uint64_t until)
{
	if (!thread && c->b)
		c->b->kind->deliver(c->b, until);
	else
		bench_sleep_until(until);
}

struct talker {
	struct crowd *crowd;
	unsigned int thread;
	pthread_t id;
	uint64_t beats;
	uint64_t behind;
};

static void *talk(void *arg)
{
	struct talker *talker = arg;
	struct crowd *c = talker->crowd;
	uint64_t timeout = TIMEOUT / c->h->compress;
	uint32_t round, group;
	uint64_t next = c->start;

	for (round = 0; round < ROUNDS; round++) {
		for (group = 0; group < c->groups; group++, next += STEP) {
			uint64_t now;

			wait_until(c, talker->thread, next);
			now = bench_now();
			if (now > next && talker->behind < now - next)
				talker->behind = now - next;
			talker->beats += beat(c, talker->thread, group, round, now + timeout);
		}
	}
	wait_until(c, talker->thread, next);
	return NULL;
}

/* Arms all timers as if each connection had sent its heartbeat a round ago. */
static void arm_all(struct crowd *c)
{
	uint64_t timeout = TIMEOUT / c->h->compress, beat_ns = BEAT / c->h->compress;
	struct bench *b = c->b;
	uint32_t group, i;

	c->start = bench_now() + NSEC_PER_MSEC;
	/* Arming them takes a while. */
	if (b)
		c->start += c->h->n * NSEC_PER_USEC / 5;
	for (group = 0; b && group < c->groups; group++) {
		uint64_t when = c->start + timeout - beat_ns + group * STEP;

		for (i = first_of(c, group, 0); i < first_of(c, group + 1, 0); i++) {
			bench_begin(b);
			b->kind->arm(b, &c->handle[i], 1, when);
		}
	}
	/* If it took even longer, the first round starts late. */
	if (c->start < bench_now())
		c->start = bench_now();
}

/*
 * Assigns timers to connections. The connections of a thread have adjacent timers, as if the thread
 * had created them, and send heartbeats in an order that is unrelated to it.
 */
static void shuffle_crowd(struct crowd *c)
{
	uint32_t *order = bench_alloc(c->h->n, sizeof(*order));
	uint32_t nr = 0, begin, group, i;
	unsigned int thread;

	for (thread = 0; thread < c->h->threads; thread++) {
		begin = nr;
		for (group = 0; group < c->groups; group++) {
			uint32_t end = first_of(c, group, thread + 1);

			for (i = first_of(c, group, thread); i < end; i++)
				c->index[i] = nr++;
		}
		for (i = begin; i < nr; i++)
			order[i] = i;
		bench_shuffle(order + begin, nr - begin);
	}
	for (i = 0; i < c->h->n; i++)
		c->index[i] = order[c->index[i]];
	free(order);
}

static void open_crowd(struct crowd *c)
{
	uint32_t n = c->h->n, i;

	c->handle = bench_alloc(n, sizeof(*c->handle));
	c->index = bench_alloc(n, sizeof(*c->index));
	c->due = bench_alloc(n, sizeof(*c->due));
	c->came = bench_alloc(n, sizeof(*c->came));
	shuffle_crowd(c);
	for (i = 0; c->b && i < n; i++)
		c->handle[i] = c->b->handle[c->index[i]];
}

static void close_crowd(struct crowd *c)
{
	free(c->handle);
	free(c->index);
	free(c->due);
	free(c->came);
	if (c->b)
		bench_close(c->b);
}

/* Returns 0, or -1 if this machine cannot hold the timers. */
int heartbeat_run(struct heartbeat *h)
{
	struct talker talkers[BENCH_THREADS] = {};
	struct crowd c = { .h = h, .groups = BEAT / h->compress / STEP };
	unsigned int i;

	h->beats = 0;
	h->dropped = 0;
	h->late_ns = 0;
	h->behind_ns = 0;
	h->bad = NULL;
	if (h->kind) {
		c.b = bench_open(h->kind, h->n, SLACK / h->compress, TICK / h->compress);
		if (!c.b)
			return -1;
		c.b->threads = h->threads;
		c.b->sink = hear;
		c.b->heard = &c;
	}
	open_crowd(&c);
	arm_all(&c);
	wait_until(&c, 0, c.start);

	h->cpu_ns = h->cpu();
	for (i = 0; i < h->threads; i++) {
		talkers[i].crowd = &c;
		talkers[i].thread = i;
		if (i && pthread_create(&talkers[i].id, NULL, talk, &talkers[i]))
			bench_die("pthread_create");
	}
	talk(&talkers[0]);
	for (i = 1; i < h->threads; i++)
		pthread_join(talkers[i].id, NULL);
	h->cpu_ns = h->cpu() - h->cpu_ns;
	/* Connections that fell silent in a late round are due later. */
	for (i = 0; c.b && i < DROP_WAITS && h->dropped < c.groups * SILENT; i++)
		c.b->kind->deliver(c.b, bench_now() + 100 * NSEC_PER_MSEC);

	for (i = 0; i < h->threads; i++) {
		h->beats += talkers[i].beats;
		if (h->behind_ns < talkers[i].behind)
			h->behind_ns = talkers[i].behind;
	}
	if (c.b && c.b->failed)
		h->bad = "operations were refused";
	else if (c.wrong)
		h->bad = "connections were dropped that were not silent for so long";
	else if (c.b && h->dropped != c.groups * SILENT)
		h->bad = "silent connections were not dropped";
	else if (h->late_ns > (SLACK + TICK) / h->compress + h->behind_ns + NSEC_PER_SEC)
		h->bad = "silent connections were dropped more than a second too late";
	close_crowd(&c);
	return 0;
}

/*
 * Returns the factor of compression. It leaves some idle time even with a timerfd per connection,
 * and with four threads and a mutex. It is a power of two, because the tick of a wheel is one:
 * otherwise the tick would be compressed by another factor than the times, and timeouts would be
 * on other levels of the wheel than in real time.
 */
unsigned int heartbeat_compress(uint32_t n, unsigned int threads)
{
	return n > 100000 && threads > 1 ? 8 : 16;
}

static const struct {
	const struct bench_backend *kind;
	unsigned int threads;
	/* Use as many connections as there can be timerfds. */
	bool fewer;
	/* Unless all are asked for, the maximum number of connections. */
	uint32_t most;
} runs[] = {
	{ NULL, 1, false, UINT32_MAX },
	{ &bench_libtwheel, 1, false, UINT32_MAX },
	{ &bench_heap, 1, false, UINT32_MAX },
	{ &bench_wheel, 1, false, 100000 },
	{ &bench_lazy, 1, false, UINT32_MAX },
	{ &bench_libev, 1, false, 100000 },
	{ NULL, 4, false, UINT32_MAX },
	{ &bench_libtwheel, 4, false, UINT32_MAX },
	{ &bench_heap_mutex, 4, false, UINT32_MAX },
	{ NULL, 1, true, UINT32_MAX },
	{ &bench_timerfd, 1, true, UINT32_MAX },
};

struct result {
	uint32_t n;
	unsigned int reps;
	double *ns;
};

/* Returns true if nothing went wrong. */
static bool run_once(struct heartbeat *h, double *ns)
{
	const char *name = h->kind ? h->kind->name : "none";

	if (heartbeat_run(h)) {
		bench_note("%s: cannot hold %u timers here", name, h->n);
		return false;
	}
	*ns = (double)h->cpu_ns / h->beats;
	if (h->bad)
		bench_note("%s, %u connections: %s", name, h->n, h->bad);
	if (h->bad || h->behind_ns > SLACK / h->compress)
		bench_note("%s, %u connections: the generator was %llu us behind", name, h->n,
			   (unsigned long long)h->behind_ns / 1000);
	return !h->bad;
}

static void put_row(unsigned int run, const struct result *r)
{
	char pattern[32];
	struct bench_row row = {
		.op = "heartbeat",
		.backend = runs[run].kind ? runs[run].kind->name : "none",
		.n = r->n,
		.threads = runs[run].threads,
		.pattern = pattern,
		.unit = "ns",
		.checked = "yes",
	};

	snprintf(pattern, sizeof(pattern), "paced/%u", heartbeat_compress(r->n, row.threads));
	bench_row(&row, r->ns, r->reps);
}

/*
 * Returns the number of repetitions: more with several threads, unless that takes too long, because
 * the cost of a mutex depends on how often they contend for it, which varies most between runs.
 */
static unsigned int reps_of(unsigned int run, uint32_t n, unsigned int reps)
{
	return runs[run].threads > 1 && n <= 100000 ? 2 * reps - 1 : reps;
}

/*
 * Measures all backends with @n connections, or only some with @few, and the generator alone as the
 * backend "none".
 */
void bench_heartbeat(uint32_t n, uint32_t before, unsigned int reps, bool few)
{
	unsigned int i, rep;
	struct result results[ARRAY_SIZE(runs)] = {};
	uint32_t fewer = bench_fit(&bench_timerfd, n);

	/* A processor is too slow for more, at this compression. */
	if (fewer > MAX_TIMERFDS)
		fewer = MAX_TIMERFDS;
	if (fewer <= before)
		fewer = 0;
	for (i = 0; i < ARRAY_SIZE(runs); i++) {
		results[i].reps = reps_of(i, n, reps);
		results[i].ns = bench_alloc(results[i].reps, sizeof(*results[i].ns));
		if (runs[i].kind && !bench_wanted(runs[i].kind))
			continue;
		if (few && n > runs[i].most)
			continue;
		/* The generator has already been measured with this number. */
		if (runs[i].fewer && !runs[i].kind && fewer == n)
			continue;
		results[i].n = runs[i].fewer ? fewer : n;
	}
	for (rep = 0; rep < 2 * reps; rep++) {
		for (i = 0; i < ARRAY_SIZE(runs); i++) {
			struct heartbeat h = {
				.kind = runs[i].kind,
				.n = results[i].n,
				.threads = runs[i].threads,
				.compress = heartbeat_compress(results[i].n, runs[i].threads),
				.cpu = bench_process_cpu,
			};

			if (rep >= results[i].reps)
				continue;
			if (h.n && !run_once(&h, &results[i].ns[rep]))
				results[i].n = 0;
		}
	}
	for (i = 0; i < ARRAY_SIZE(runs); i++) {
		if (results[i].n)
			put_row(i, &results[i]);
		free(results[i].ns);
	}
}
