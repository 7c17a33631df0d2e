// SPDX-License-Identifier: GPL-2.0
/*
 * Reports, in batches. A report waits up to 5 ms for others.
 *
 * A report of this daemon is repeated until Redis answers. If the first one was applied, the
 * second one is stale, which does no harm.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ground/log.h"
#include "ground/loop.h"
#include "redis/script.h"
#include "redis/store.h"
#include "work/report.h"

#define BATCH_DELAY		(5 * NSEC_PER_MSEC)

/**
 * struct batch - reports that are on their way
 * @lane: their lane
 * @count: how many
 * @report: in the order of the script's answer
 */
struct batch {
	struct lane *lane;
	unsigned int count;
	struct outcome *report[BATCH_MAX];
};

void report_log(const struct outcome *r, const char *what)
{
	const char *why = r->note[0] ? r->note : "no answer";
	char status[24];

	if (r->status) {
		snprintf(status, sizeof(status), "status %d", r->status);
		why = status;
	}
	if (r->host[0])
		log_often(LOG_WARNING, "queue %s: task %s %s: %s, %s", r->lane->queue->name, r->id,
			  what, r->host, why);
	else
		log_often(LOG_WARNING, "queue %s: task %s %s", r->lane->queue->name, r->id, what);
}

static void finish(struct daemon *d, struct outcome *r, enum report_answer answer)
{
	struct metrics *m = &d->metrics;

	if (answer == REPORT_STALE && !r->repeated)
		m->stale++;
	if (answer == REPORT_DEAD) {
		m->dead[r->verdict == VERDICT_RETRY ? DEAD_ATTEMPTS : DEAD_VERDICT]++;
		report_log(r, r->verdict == VERDICT_RETRY ?
			   "is dead because all its attempts failed" :
			   r->lane->queue->settings.mode == QUEUE_PULL ?
			   "is dead because a worker said so" : "is dead");
	}
	d->reports--;
	if (r->lane->queue->settings.concurrency) {
		r->lane->queue->freed = true;
		d->freed = true;
		loop_again(d->loop);
	}
	if (r->done)
		r->done(r->arg, answer);
	free(r);
}

/* There is no answer: repeats the report, or gives it up. */
static void repeat(struct lane *l, struct outcome *r, enum store_result result)
{
	struct daemon *d = l->queue->daemon;

	if (!r->persist) {
		finish(d, r, result == STORE_UNKNOWN ? REPORT_UNKNOWN : REPORT_DOWN);
		return;
	}
	r->repeated = result == STORE_UNKNOWN || r->repeated;
	DL_APPEND(l->reports, r);
	l->nr_reports++;
	/* If Redis is away, they are sent earlier, when it is back. */
	alarm_arm_before(d->alarms, &l->flush, alarms_now(d->alarms) + NSEC_PER_SEC);
}

static void answered(void *arg, enum store_result result, const redisReply *reply)
{
	struct batch *b = arg;

	for (unsigned int i = 0; i < b->count; i++) {
		static const enum report_answer answers[] = {
			[ACK_APPLIED] = REPORT_APPLIED,
			[ACK_STALE] = REPORT_STALE,
			[ACK_DEAD] = REPORT_DEAD,
		};
		enum acked acked;

		if (result == STORE_OK && ack_answer(reply, i, &acked))
			finish(b->lane->queue->daemon, b->report[i], answers[acked]);
		else
			repeat(b->lane, b->report[i], result);
	}
	free(b);
}

static void add(struct args *a, const struct outcome *r)
{
	const struct ack ack = {
		.id = r->id,
		.token = r->token,
		.verdict = r->verdict,
		.delay_ms = r->delay_ms,
		.at_ms = r->at_ms,
		.note = r->note,
	};

	ack_args_add(a, &ack);
}

/* Sends the reports of one holder, up to the size of a batch. */
static void send_batch(struct lane *l)
{
	struct batch *b = calloc(1, sizeof(*b));
	uint64_t holder = l->reports->holder;
	struct outcome *r, *next;
	struct args a = { 0 };

	if (!b)
		abort();
	b->lane = l;
	ack_args_begin(&a, holder);
	DL_FOREACH_SAFE(l->reports, r, next) {
		if (b->count == BATCH_MAX)
			break;
		if (r->holder != holder)
			continue;
		DL_DELETE(l->reports, r);
		l->nr_reports--;
		b->report[b->count++] = r;
		a.confirm |= r->confirm;
		add(&a, r);
	}
	store_script(l->queue->daemon->store, SCRIPT_ACK, l->queue->name, l->index, &a,
		     answered, b);
}

void report_flush(struct lane *l)
{
	unsigned int count = l->nr_reports;

	alarm_clear(l->queue->daemon->alarms, &l->flush);
	while (l->reports && count) {
		unsigned int before = l->nr_reports;

		send_batch(l);
		count -= before - l->nr_reports;
	}
}

void report_flush_all(struct daemon *d)
{
	struct queue *q, *next;

	HASH_ITER(hh, d->queues, q, next) {
		for (unsigned int i = 0; i < q->settings.lanes; i++)
			report_flush(&q->lane[i]);
	}
}

void report_send(struct lane *l, const struct outcome *from)
{
	struct daemon *d = l->queue->daemon;
	struct outcome *r = malloc(sizeof(*r));
	uint64_t next;

	if (!r)
		abort();
	*r = *from;
	r->lane = l;
	DL_APPEND(l->reports, r);
	l->nr_reports++;
	d->reports++;
	/*
	 * All lanes send their reports at the same moments, so that Redis has one read and one
	 * write for them.
	 */
	next = (alarms_now(d->alarms) / BATCH_DELAY + 1) * BATCH_DELAY;
	if (l->nr_reports >= BATCH_MAX && lane_up(l))
		report_flush(l);
	else
		alarm_arm_before(d->alarms, &l->flush, next);
}

void report_free_all(struct lane *l)
{
	while (l->reports) {
		struct outcome *r = l->reports;

		DL_DELETE(l->reports, r);
		finish(l->queue->daemon, r, REPORT_DOWN);
	}
	l->nr_reports = 0;
}
