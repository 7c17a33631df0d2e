// SPDX-License-Identifier: GPL-2.0
/* Counts the tasks of queues. See counts.h. */
#include <stdlib.h>

#include "redis/store.h"
#include "work/counts.h"

/* How long a census is valid. */
#define CENSUS_VALID	NSEC_PER_SEC
/*
 * How many lanes a part of the census asks, and the time between two parts if all lanes have
 * answered.
 */
#define PART_LANES	16
#define PART_INTERVAL	(2 * NSEC_PER_MSEC)
/* The time between two parts if a node of Redis has not answered. */
#define PART_WAIT	(20 * NSEC_PER_MSEC)

/**
 * struct asker - somebody who waits for the census
 */
struct asker {
	census_fn *fn;
	void *arg;
	struct asker *next;
};

/**
 * struct census - of all queues
 * @daemon: whose
 * @askers: those who wait for it
 * @runs: it is being taken
 * @newer: only queues that are new or were changed are counted
 * @queue: the next one, or NULL
 * @lane: the next one of it
 * @asked: lanes without an answer
 * @part_at: when the last part was asked for
 * @ended: when it was taken last; 0: never
 * @timer: for the next part
 */
struct census {
	struct daemon *daemon;
	struct asker *askers;
	bool runs;
	bool newer;
	struct queue *queue;
	unsigned int lane;
	unsigned int asked;
	uint64_t part_at;
	uint64_t ended;
	struct alarm timer;
};

static void begin(struct counted *c, unsigned int lanes)
{
	*c = (struct counted){ .counts.oldest_due_ms = NEVER_MS, .left = lanes };
}

/* Returns true if this was the last lane. */
static bool add(struct counted *sum, enum store_result result, const redisReply *reply)
{
	struct counts c = { 0 };

	if (result != STORE_OK || !look_counts_answer(reply, &c)) {
		sum->result = result;
		sum->missing++;
		return !--sum->left;
	}
	for (unsigned int i = 0; i < TASK_STATES; i++)
		sum->counts.state[i] += c.state[i];
	for (unsigned int i = 0; i < FORECASTS; i++)
		sum->counts.within[i] += c.within[i];
	if (c.oldest_due_ms < sum->counts.oldest_due_ms)
		sum->counts.oldest_due_ms = c.oldest_due_ms;
	sum->counts.paused |= c.paused;
	return !--sum->left;
}

static void ask(struct queue *q, unsigned int lane, store_fn *fn, void *arg)
{
	struct args a = { 0 };

	look_counts_args(&a);
	store_script(q->daemon->store, SCRIPT_LOOK, q->name, lane, &a, fn, arg);
}

/* ---- One queue ---- */

/**
 * struct counting - of one queue
 */
struct counting {
	count_fn *fn;
	void *arg;
	struct counted counted;
};

static void counted_one(void *arg, enum store_result result, const redisReply *reply)
{
	struct counting *c = arg;

	if (!add(&c->counted, result, reply))
		return;
	c->fn(c->arg, &c->counted);
	free(c);
}

void queue_count(struct queue *q, count_fn *fn, void *arg)
{
	struct counting *c = malloc(sizeof(*c));

	if (!c)
		abort();
	c->fn = fn;
	c->arg = arg;
	begin(&c->counted, q->settings.lanes);
	for (unsigned int i = 0; i < q->settings.lanes; i++)
		ask(q, i, counted_one, c);
}

/* ---- All of them ---- */

static void answer_all(struct census *s)
{
	struct asker *a;

	s->runs = false;
	while ((a = s->askers)) {
		s->askers = a->next;
		a->fn(a->arg);
		free(a);
	}
}

static void counted(void *arg, enum store_result result, const redisReply *reply);

/* Goes on to the next queue that has to be counted. */
static void next_queue(struct census *s, struct queue *q)
{
	while (q && s->newer && q->counted.known && !q->recount)
		q = q->hh.next;
	s->queue = q;
	s->lane = 0;
}

static void ask_part(struct census *s)
{
	struct alarms *alarms = s->daemon->alarms;

	s->part_at = alarms_now(alarms);
	for (unsigned int n = 0; n < PART_LANES && s->queue; n++) {
		struct queue *q = s->queue;

		if (!s->lane) {
			begin(&q->counting, q->settings.lanes);
			q->recount = false;
		}
		s->asked++;
		ask(q, s->lane, counted, q);
		if (++s->lane == q->settings.lanes)
			next_queue(s, q->hh.next);
	}
	if (s->queue)
		alarm_arm(alarms, &s->timer, s->part_at + PART_WAIT);
}

/* Called when all lanes that were asked have answered. */
static void end_part(struct census *s)
{
	struct alarms *alarms = s->daemon->alarms;

	if (!s->queue && !s->newer) {
		/* Count again what users have changed in the meantime. */
		s->ended = alarms_now(alarms);
		s->newer = true;
		next_queue(s, s->daemon->queues);
	}
	if (s->queue)
		alarm_arm(alarms, &s->timer, s->part_at + PART_INTERVAL);
	else
		answer_all(s);
}

static void counted(void *arg, enum store_result result, const redisReply *reply)
{
	struct queue *q = arg;
	struct census *s = q->daemon->census;

	if (add(&q->counting, result, reply)) {
		q->counted = q->counting;
		q->counted.known = true;
	}
	if (--s->asked || !s->runs)
		return;
	end_part(s);
}

static void time_for_part(struct alarm *a, uint64_t now)
{
	(void)now;
	ask_part(container_of(a, struct census, timer));
}

/* Called if the last census is still valid. */
static void is_good(void *arg, enum store_result result, const redisReply *reply)
{
	struct census *s = arg;

	(void)result;
	(void)reply;
	if (!s->runs)
		answer_all(s);
}

static void start(struct census *s)
{
	struct daemon *d = s->daemon;

	s->newer = s->ended && alarms_now(d->alarms) < s->ended + CENSUS_VALID;
	next_queue(s, d->queues);
	if (s->queue) {
		s->runs = true;
		ask_part(s);
	}
}

void census_ask(struct daemon *d, census_fn *fn, void *arg)
{
	struct asker *asker = malloc(sizeof(*asker));
	struct census *s = d->census;
	struct args a = { 0 };

	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			abort();
		s->daemon = d;
		s->timer.fn = time_for_part;
		d->census = s;
	}
	if (!asker)
		abort();
	asker->fn = fn;
	asker->arg = arg;
	LL_PREPEND(s->askers, asker);
	if (!s->runs)
		start(s);
	if (s->runs)
		return;
	/* Answer later even if there is nothing to count. */
	args_text(&a, "PING");
	store_command(d->store, NULL, &a, is_good, s);
}

void census_again(struct queue *q)
{
	q->recount = true;
}

void census_skip(struct queue *q)
{
	struct census *s = q->daemon->census;

	if (!s || s->queue != q)
		return;
	next_queue(s, q->hh.next);
	if (s->runs && !s->asked)
		end_part(s);
}

void census_end(struct daemon *d)
{
	struct census *s = d->census;

	if (!s)
		return;
	alarm_disarm(d->alarms, &s->timer);
	answer_all(s);
	d->census = NULL;
	free(s);
}
