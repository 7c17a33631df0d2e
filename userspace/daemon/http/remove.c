// SPDX-License-Identifier: GPL-2.0
/*
 * Routes that remove queues, and many tasks. See api.h.
 *
 * A queue is removed in steps, so that no accepted task is lost and none begins that is removed:
 *
 *   purge=true	pause	no daemon holds a task of it any more
 *		purge	its tasks are removed, lane by lane
 *   close	each lane, if it is empty: it refuses puts from now on
 *   HDEL	the queue itself. All daemons look at it again, and forget it
 *
 * If a lane is not empty, those that were closed are opened again. A request that ends in the
 * middle can be repeated.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/api.h"
#include "http/pause.h"
#include "redis/script.h"
#include "redis/store.h"
#include "text/purge.h"
#include "work/counts.h"
#include "work/queues.h"
#include "work/schedule.h"

/* How often a queue is purged, because tasks may be added in the meantime. */
#define PURGES	5

/**
 * struct purging - tasks that are being removed, batch by batch
 * @request: the request
 * @queue: its queue
 * @want: which tasks
 * @state: those of this state are being removed
 * @all: when these are removed, those of all other states follow
 * @lane: the lane that is being purged
 * @after: the place in the lane
 * @removed: so far
 * @gone: the client has left
 * @done: called at the end
 */
struct purging {
	struct request *request;
	struct queue *queue;
	struct purge want;
	enum task_state state;
	bool all;
	unsigned int lane;
	struct place after;
	uint64_t removed;
	bool gone;
	void (*done)(struct purging *p, enum store_result result);
};

/**
 * struct removing - a queue that is being removed
 * @purging: its tasks
 * @purge: the tasks have to be removed, too
 * @times: how often they were removed
 * @left: lanes without an answer
 * @tasks: number of tasks that the lanes have
 * @result: of the lanes so far
 */
struct removing {
	struct purging purging;
	bool purge;
	unsigned int times;
	unsigned int left;
	uint64_t tasks;
	enum store_result result;
};

/* ---- Purge ---- */

static void purge_batch(struct purging *p);

/* Return: false if there is none. */
static bool next_lane(struct purging *p)
{
	p->after.id[0] = '\0';
	if (++p->lane < p->queue->settings.lanes)
		return true;
	p->lane = 0;
	return p->all && ++p->state < TASK_STATES;
}

static void purged(void *arg, enum store_result result, const redisReply *reply)
{
	struct purging *p = arg;
	unsigned int looked, removed;
	struct place last = p->after;

	if (result == STORE_OK && !purge_answer(reply, &looked, &last, &removed))
		result = STORE_REFUSED;
	if (result != STORE_OK) {
		p->done(p, p->removed ? STORE_UNKNOWN : result);
		return;
	}
	p->removed += removed;
	p->after = last;
	/* If the client has left, nobody needs an answer. */
	if (p->gone || (looked < BATCH_MAX && !next_lane(p)))
		p->done(p, STORE_OK);
	else
		purge_batch(p);
}

static void purge_batch(struct purging *p)
{
	struct args a = { .confirm = true };

	purge_args(&a, p->state, BATCH_MAX, p->want.before_ms, p->want.prefix, &p->after);
	store_script(p->request->daemon->store, SCRIPT_REMOVE, p->queue->name, p->lane, &a, purged,
		     p);
}

static void left(struct request *r)
{
	((struct purging *)r->arg)->gone = true;
}

static void purge_ends(struct purging *p, enum store_result result)
{
	census_again(p->queue);
	if (result == STORE_OK)
		request_answer(p->request, 200, json_pack("{s:I}", "removed",
							  (json_int_t)p->removed));
	else
		request_store_error(p->request, result);
	free(p);
}

void route_queue_purge(struct request *r, struct queue *q)
{
	struct purging *p = calloc(1, sizeof(*p));
	struct api_error err;

	if (!p)
		abort();
	if (purge_parse(r->body ? r->body : "", r->len, &p->want, &err)) {
		request_fail(r, &err);
		free(p);
		return;
	}
	p->request = r;
	p->queue = q;
	p->state = p->want.state;
	p->done = purge_ends;
	r->arg = p;
	r->gone = left;
	request_watch(r);
	purge_batch(p);
}

/* ---- Remove ---- */

static void fail(struct removing *m, enum store_result result)
{
	request_store_error(m->purging.request, result);
	free(m);
}

static void not_empty(struct removing *m)
{
	request_error(m->purging.request, 409, "not_empty", "queue", m->purge ?
		      "the queue is paused, but tasks kept coming, or a newer twheeld stored some" :
		      "the queue has tasks, which are only removed with purge=true");
	free(m);
}

/* Sends close or open to all lanes. */
static void to_lanes(struct removing *m, enum lane_verb verb, store_fn *fn)
{
	struct queue *q = m->purging.queue;

	m->left = q->settings.lanes;
	m->tasks = 0;
	m->result = STORE_OK;
	for (unsigned int i = 0; i < q->settings.lanes; i++) {
		struct args a = { .confirm = true };

		lane_args(&a, verb);
		store_script(q->daemon->store, SCRIPT_REMOVE, q->name, i, &a, fn, m);
	}
}

static void removed(void *arg, enum store_result result, const redisReply *reply)
{
	struct removing *m = arg;
	struct request *r = m->purging.request;
	char text[100];

	(void)reply;
	if (result != STORE_OK) {
		fail(m, result);
		return;
	}
	snprintf(text, sizeof(text), "queue %s", m->purging.queue->name);
	work_publish(r->daemon, "changed", text);
	if (!m->purging.queue->removed)
		queue_forget(m->purging.queue);
	request_answer(r, 200, json_pack("{s:s,s:I}", "queue", r->queue, "removed",
					 (json_int_t)m->purging.removed));
	free(m);
}

static void remove_record(struct removing *m)
{
	struct store *store = m->purging.request->daemon->store;
	struct args a = { .confirm = true };
	char key[160];

	args_text(&a, "HDEL");
	args_text(&a, store_key(store, key, "queues"));
	args_text(&a, m->purging.queue->name);
	store_command(store, key, &a, removed, m);
}

static void purge_queue(struct removing *m);

static void opened(void *arg, enum store_result result, const redisReply *reply)
{
	struct removing *m = arg;

	(void)reply;
	if (result != STORE_OK)
		m->result = result;
	if (--m->left)
		return;
	if (m->result != STORE_OK)
		fail(m, m->result);
	else if (m->purge && m->times < PURGES && !m->purging.gone)
		purge_queue(m);
	else
		not_empty(m);
}

static void closed(void *arg, enum store_result result, const redisReply *reply)
{
	struct removing *m = arg;
	uint64_t tasks;

	if (result == STORE_OK && lane_answer(reply, &tasks))
		m->tasks += tasks;
	else
		m->result = result == STORE_OK ? STORE_REFUSED : result;
	if (--m->left)
		return;
	if (m->result == STORE_OK && !m->tasks)
		remove_record(m);
	else
		to_lanes(m, LANE_OPEN, opened);
}

static void queue_is_purged(struct purging *p, enum store_result result)
{
	struct removing *m = (struct removing *)p;

	if (result == STORE_OK)
		to_lanes(m, LANE_CLOSE, closed);
	else
		fail(m, result);
}

static void purge_queue(struct removing *m)
{
	m->times++;
	m->purging.all = true;
	m->purging.state = 0;
	m->purging.lane = 0;
	m->purging.after.id[0] = '\0';
	m->purging.done = queue_is_purged;
	purge_batch(&m->purging);
}

static void is_paused(void *arg, enum store_result result)
{
	struct removing *m = arg;

	if (result == STORE_OK)
		purge_queue(m);
	else
		fail(m, result);
}

static void counted(void *arg, const struct counted *q)
{
	struct removing *m = arg;
	uint64_t tasks = 0;

	for (unsigned int i = 0; i < TASK_STATES; i++)
		tasks += q->counts.state[i];
	if (q->result != STORE_OK)
		fail(m, q->result);
	else if (tasks)
		not_empty(m);
	else
		to_lanes(m, LANE_CLOSE, closed);
}

struct purge_read {
	bool purge;
	struct api_error err;
};

static bool read_purge(void *arg, const char *name, const char *value)
{
	struct purge_read *read = arg;

	if (strcmp(name, "purge"))
		return !api_error_set(&read->err, 400, "invalid", name, "unknown parameter");
	if (value && strcmp(value, "true") && strcmp(value, "false"))
		return !api_error_set(&read->err, 400, "invalid", name, "must be true or false");
	read->purge = !value || !strcmp(value, "true");
	return true;
}

void route_queue_remove(struct request *r, struct queue *q)
{
	struct purge_read read = { .purge = false };
	struct removing *m;

	request_each_query(r, read_purge, &read);
	if (read.err.status) {
		request_fail(r, &read.err);
		return;
	}
	/*
	 * Do not remove schedules together with the queue, because a definition is worth more than
	 * tasks.
	 */
	if (schedule_known(r->daemon, q->name)) {
		request_error(r, 409, "not_empty", "queue",
			      "the queue has schedules: remove them first");
		return;
	}
	m = calloc(1, sizeof(*m));
	if (!m)
		abort();
	m->purging.request = r;
	m->purging.queue = q;
	m->purging.want.before_ms = NEVER_MS;
	m->purge = read.purge;
	if (!m->purge) {
		queue_count(q, counted, m);
		return;
	}
	r->arg = &m->purging;
	r->gone = left;
	request_watch(r);
	pause_queue(q, is_paused, m);
}
