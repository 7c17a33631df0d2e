// SPDX-License-Identifier: GPL-2.0
/* Routes that pause and resume a queue. See api.h. */
#include <stdio.h>
#include <stdlib.h>

#include "ground/alarm.h"
#include "http/api.h"
#include "http/pause.h"
#include "redis/script.h"
#include "redis/store.h"
#include "work/counts.h"
#include "work/queues.h"

/**
 * struct pausing - a queue that is being paused or resumed
 * @request: the request, or NULL
 * @done: called at the end instead
 * @arg: for @done
 * @queue: the queue
 * @pause: or resume
 * @asked: how often the lanes were asked
 * @left: lanes without an answer
 * @changed: lanes that did it
 * @result: of the lanes so far
 * @sum: of the lanes
 * @timer: asks again while daemons hold tasks
 */
struct pausing {
	struct request *request;
	pause_fn *done;
	void *arg;
	struct queue *queue;
	bool pause;
	unsigned int asked;
	unsigned int left;
	unsigned int changed;
	enum store_result result;
	struct pause_answer sum;
	struct alarm timer;
};

#define PAUSE_ASKS	10
#define PAUSE_INTERVAL	(20 * NSEC_PER_MSEC)

static void ask_pause(struct pausing *p);

static void ask_again(struct alarm *a, uint64_t now)
{
	(void)now;
	ask_pause(container_of(a, struct pausing, timer));
}

/*
 * Releases the tasks that daemons hold. They must not begin, even if another daemon has not heard
 * of the pause yet.
 */
static void release_held(struct pausing *p)
{
	char text[100];

	snprintf(text, sizeof(text), "pause %s", p->queue->name);
	work_publish(p->queue->daemon, "changed", text);
	queue_release(p->queue);
}

static void answer_pausing(struct pausing *p)
{
	struct daemon *d = p->queue->daemon;
	struct request *r = p->request;

	if (p->pause && p->asked == 1 && (p->changed || p->result == STORE_UNKNOWN))
		release_held(p);
	if (p->pause && p->result == STORE_OK && p->sum.held && p->asked < PAUSE_ASKS) {
		alarm_arm(d->alarms, &p->timer, alarms_now(d->alarms) + PAUSE_INTERVAL);
		return;
	}
	/* Some lanes have done it, and others have not. */
	if (p->result != STORE_OK && p->changed)
		p->result = STORE_UNKNOWN;
	if (!r) {
		p->done(p->arg, p->result);
	} else if (p->result != STORE_OK) {
		request_store_error(r, p->result);
	} else if (!p->pause) {
		request_answer(r, 200, json_pack("{s:s,s:b}", "queue", p->queue->name,
						 "paused", 0));
	} else {
		request_answer(r, 200, json_pack("{s:s,s:b,s:I,s:b}", "queue", p->queue->name,
						 "paused", 1, "leased",
						 (json_int_t)(p->sum.begun + p->sum.held),
						 "settled", !p->sum.held));
	}
	census_again(p->queue);
	alarm_disarm(d->alarms, &p->timer);
	free(p);
}

static void paused(void *arg, enum store_result result, const redisReply *reply)
{
	struct pausing *p = arg;
	struct pause_answer a;

	if (result == STORE_OK && pause_answer(reply, &a)) {
		p->changed++;
		p->sum.begun += a.begun;
		p->sum.held += a.held;
	} else {
		p->result = result == STORE_OK ? STORE_REFUSED : result;
	}
	if (!--p->left)
		answer_pausing(p);
}

static void ask_pause(struct pausing *p)
{
	struct queue *q = p->queue;

	p->asked++;
	p->sum = (struct pause_answer){ 0 };
	p->left = q->settings.lanes;
	for (unsigned int i = 0; i < q->settings.lanes; i++) {
		/*
		 * Repeat the request to each lane, because a failover may have undone it. The
		 * first request waits for the replicas, and later ones only count.
		 */
		struct args a = { .confirm = p->asked == 1 };

		pause_args(&a, p->pause);
		store_script(q->daemon->store, SCRIPT_PAUSE, q->name, i, &a, paused, p);
	}
}

static void set_pause(struct request *r, struct queue *q, bool pause, pause_fn *done, void *arg)
{
	struct pausing *p = calloc(1, sizeof(*p));

	if (!p)
		abort();
	p->request = r;
	p->done = done;
	p->arg = arg;
	p->queue = q;
	p->pause = pause;
	p->timer.fn = ask_again;
	ask_pause(p);
}

void pause_queue(struct queue *q, pause_fn *done, void *arg)
{
	set_pause(NULL, q, true, done, arg);
}

void route_queue_pause(struct request *r, struct queue *q)
{
	set_pause(r, q, true, NULL, NULL);
}

void route_queue_resume(struct request *r, struct queue *q)
{
	set_pause(r, q, false, NULL, NULL);
}
