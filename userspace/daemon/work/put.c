// SPDX-License-Identifier: GPL-2.0
/*
 * Stores tasks in batches: all puts of one turn of the loop share a script for each lane.
 *
 * If a put replaces a task that another daemon holds, it recalls the task. The answer waits for
 * the verdict, because only the holder knows if the old attempt has begun.
 */
#include <stdlib.h>
#include <string.h>

#include "ground/loop.h"
#include "redis/script.h"
#include "redis/store.h"
#include "work/lane.h"
#include "work/put.h"
#include "work/queues.h"
#include "work/recall.h"

/**
 * struct put - a task that is to be stored
 * @lane: its lane
 * @spec: the task
 * @fn: of the caller
 * @arg: for @fn
 * @result: the answer so far, while a recall is asked for
 * @next: in the list of the lane
 * @prev: in the list of the lane
 */
struct put {
	struct lane *lane;
	struct task_spec spec;
	put_fn *fn;
	void *arg;
	struct put_result result;
	struct put *next;
	struct put *prev;
};

/**
 * struct puts - a batch on its way
 */
struct puts {
	struct lane *lane;
	unsigned int count;
	struct put *put[BATCH_MAX];
};

static void count(struct put *p)
{
	uint64_t *puts = p->lane->queue->daemon->metrics.puts;
	const char *result = p->result.result;

	if (!result)
		puts[p->result.status == 409 ? PUT_EXISTS : p->result.status == 429 ?
		     PUT_FULL : PUT_FAILED]++;
	else
		puts[result[0] == 'c' ? PUT_CREATED : result[0] == 'r' ? PUT_REPLACED :
		     result[0] == 'u' ? PUT_UPDATED : PUT_KEPT]++;
}

static void finish(struct put *p)
{
	count(p);
	p->fn(p->arg, &p->result);
	free(p->spec.body);
	free(p);
}

static void fail(struct put *p, enum store_result result)
{
	p->result.status = 503;
	switch (result) {
	case STORE_FULL:
		p->result.error = "store_full";
		break;
	case STORE_UNKNOWN:
		p->result.error = "fate_unknown";
		break;
	default:
		p->result.error = "store_down";
	}
	finish(p);
}

static void recalled(void *arg, enum recall_verdict verdict)
{
	struct put *p = arg;

	if (verdict != RECALL_YES)
		p->result.was = "leased";
	else
		p->result.state = TASK_SCHEDULED;
	finish(p);
}

static void succeed(struct put *p, const struct put_answer *a, uint64_t now_ms)
{
	struct put_result *r = &p->result;

	r->due_ms = a->due_ms;
	r->version = a->version;
	r->state = a->state;
	switch (a->result) {
	case SCRIPT_CREATED:
		r->status = 201;
		r->result = "created";
		break;
	case SCRIPT_REPLACED:
		r->status = 200;
		r->result = "replaced";
		break;
	case SCRIPT_UPDATED:
		r->status = 200;
		r->result = "updated";
		break;
	case SCRIPT_KEPT:
		r->status = 200;
		r->result = "kept";
		break;
	case SCRIPT_EXISTS:
		r->status = 409;
		r->error = "exists";
		break;
	case SCRIPT_GONE:
		/* Either the queue is gone, or its removal has begun and may not be completed. */
		r->status = 503;
		r->error = "busy";
		queue_load(p->lane->queue->daemon, p->lane->queue->name, NULL, NULL);
		break;
	case SCRIPT_NEWER:
		r->status = 409;
		r->error = "newer";
		break;
	case SCRIPT_LANE_FULL:
		r->status = 429;
		r->error = "queue_full";
		break;
	}
	if (r->status == 201 || a->result == SCRIPT_REPLACED)
		lane_wake(p->lane, a->due_ms);
	if (a->was_leased && a->was_due_ms > now_ms) {
		/*
		 * A daemon has the old body. If the task was updated, that daemon gives it back as
		 * it is.
		 */
		enum recall_verb verb = a->result == SCRIPT_UPDATED ? RECALL_MOVE : RECALL_DROP;

		recall_ask(p->lane, p->spec.id, a->holder, a->token, verb, a->was_due_ms, recalled,
			   p);
		return;
	}
	if (a->was_leased)
		r->was = "leased";
	finish(p);
}

static void answered(void *arg, enum store_result result, const redisReply *reply)
{
	struct puts *b = arg;

	for (unsigned int i = 0; i < b->count; i++) {
		struct put_answer a;

		if (result != STORE_OK)
			fail(b->put[i], result);
		else if (!put_answer(reply, i, &b->put[i]->spec, &a))
			fail(b->put[i], STORE_UNKNOWN);
		else
			succeed(b->put[i], &a, script_now_ms(reply));
	}
	free(b);
}

static void send_batch(struct lane *l)
{
	struct queue *q = l->queue;
	struct daemon *d = q->daemon;
	struct puts *b = calloc(1, sizeof(*b));
	struct args a = { .confirm = true };
	struct put *p, *next;

	if (!b)
		abort();
	b->lane = l;
	put_args_begin(&a, q->settings.lane_max ? q->settings.lane_max : d->config.lane_max);
	DL_FOREACH_SAFE(l->puts, p, next) {
		if (b->count == BATCH_MAX ||
		    (b->count && a.text_len + p->spec.body_len > BATCH_BYTES))
			break;
		DL_DELETE(l->puts, p);
		put_args_add(&a, &p->spec);
		b->put[b->count++] = p;
	}
	store_script(d->store, SCRIPT_PUT, q->name, l->index, &a, answered, b);
}

void put_flush_all(void *arg)
{
	struct daemon *d = arg;
	struct lane *l;

	while ((l = d->puts)) {
		d->puts = l->next_put;
		l->has_puts = false;
		while (l->puts)
			send_batch(l);
	}
}

void put_task(struct queue *q, struct task_spec *spec, put_fn *fn, void *arg)
{
	struct put *p = calloc(1, sizeof(*p));
	struct lane *l = queue_lane(q, spec->id);
	struct daemon *d = q->daemon;

	if (!p)
		abort();
	p->lane = l;
	p->spec = *spec;
	spec->body = NULL;
	p->fn = fn;
	p->arg = arg;
	DL_APPEND(l->puts, p);
	loop_again(d->loop);
	if (l->has_puts)
		return;
	l->has_puts = true;
	l->next_put = d->puts;
	d->puts = l;
}
