// SPDX-License-Identifier: GPL-2.0
/* What queues hold. See counts.h. */
#include <stdlib.h>

#include "redis/store.h"
#include "work/counts.h"

/**
 * struct counting - a census that is being taken
 */
struct counting {
	size_t left;
	census_fn *fn;
	void *arg;
	struct census *census;
};

/**
 * struct counting_lane - one answer
 */
struct counting_lane {
	struct counting *counting;
	size_t index;
};

static void add(struct counts *sum, const struct counts *c)
{
	for (unsigned int i = 0; i < TASK_STATES; i++)
		sum->state[i] += c->state[i];
	for (unsigned int i = 0; i < FORECASTS; i++)
		sum->within[i] += c->within[i];
	if (c->oldest_due_ms < sum->oldest_due_ms)
		sum->oldest_due_ms = c->oldest_due_ms;
	sum->paused |= c->paused;
}

static void done(struct counting *c)
{
	if (--c->left)
		return;
	c->fn(c->arg, c->census);
	free(c->census);
	free(c);
}

static void counted(void *arg, enum store_result result, const redisReply *reply)
{
	struct counting_lane *cl = arg;
	struct counting *c = cl->counting;
	struct census_queue *cq = &c->census->queue[cl->index];
	struct counts lane = { 0 };

	if (result != STORE_OK) {
		c->census->result = result;
		cq->missing++;
	} else if (look_counts_answer(reply, &lane)) {
		add(&cq->counts, &lane);
	}
	free(cl);
	done(c);
}

static void count(struct daemon *d, struct counting *c, struct queue *q)
{
	size_t index = c->census->queues++;
	struct census_queue *cq = &c->census->queue[index];

	cq->queue = q;
	cq->counts.oldest_due_ms = NEVER_MS;
	for (unsigned int i = 0; i < q->settings.lanes; i++) {
		struct counting_lane *cl = malloc(sizeof(*cl));
		struct args a = { 0 };

		if (!cl)
			abort();
		cl->counting = c;
		cl->index = index;
		c->left++;
		look_counts_args(&a);
		store_script(d->store, SCRIPT_LOOK, q->name, i, &a, counted, cl);
	}
}

static void all_counted(void *arg, enum store_result result, const redisReply *reply)
{
	(void)result;
	(void)reply;
	done(arg);
}

void census_take(struct daemon *d, struct queue *only, census_fn *fn, void *arg)
{
	size_t queues = only ? 1 : HASH_COUNT(d->queues);
	struct counting *c = calloc(1, sizeof(*c));
	struct args a = { 0 };
	struct queue *q;

	if (!c)
		abort();
	c->census = calloc(1, sizeof(*c->census) + queues * sizeof(c->census->queue[0]));
	if (!c->census)
		abort();
	c->fn = fn;
	c->arg = arg;
	c->left = 1;
	if (only)
		count(d, c, only);
	else
		for (q = d->queues; q; q = q->hh.next)
			count(d, c, q);
	/* Also without queues, the answer comes later. */
	args_text(&a, "PING");
	store_command(d->store, NULL, &a, all_counted, c);
}
