// SPDX-License-Identifier: GPL-2.0
/*
 * Reports and renewals, in batches.
 *
 * A report waits up to 5 ms for company. A report of this daemon is repeated until Redis
 * answers: if the first one was done, the second one is stale, and that is as good.
 */
#include <stdlib.h>

#include "ground/log.h"
#include "redis/script.h"
#include "work/work.h"

#define COMPANY		(5 * NSEC_PER_MSEC)

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

static void finish(struct daemon *d, struct outcome *r, enum report_answer answer)
{
	struct metrics *m = &d->metrics;

	if (answer == REPORT_STALE && !r->repeated)
		m->stale++;
	if (answer == REPORT_DEAD)
		m->dead[r->verdict == VERDICT_RETRY ? DEAD_ATTEMPTS : DEAD_VERDICT]++;
	d->reports--;
	if (r->done)
		r->done(r->arg, answer);
	free(r);
}

/* There is no answer: again, or never. */
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
	/* If Redis is away, its return sends them sooner. */
	alarm_arm_before(d->alarms, &l->flush, alarms_now(d->alarms) + NSEC_PER_SEC);
}

static void answered(void *arg, enum store_result result, const redisReply *reply)
{
	struct batch *b = arg;

	for (unsigned int i = 0; i < b->count; i++) {
		enum report_answer answer;

		if (result == STORE_OK && ack_answer(reply, i, &answer))
			finish(b->lane->queue->daemon, b->report[i], answer);
		else
			repeat(b->lane, b->report[i], result);
	}
	free(b);
}

/* Sends the reports of one holder, as many as a batch has. */
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
		ack_args_add(&a, r);
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
	/* All lanes flush at the same moments: Redis then has one read and one write for them. */
	next = (alarms_now(d->alarms) / COMPANY + 1) * COMPANY;
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

/* ---- Renewal ---- */

/**
 * struct renewal - leases that are being renewed
 */
struct renewal {
	struct lane *lane;
	uint64_t holder;
	uint64_t lease_ms;
	unsigned int count;
	uint64_t token[BATCH_MAX];
};

static void renewed_one(struct renewal *r, uint64_t token, enum renewed answer, uint64_t now_ms)
{
	struct held *h = held_find(r->lane, r->holder, token);

	if (!h)
		return;
	switch (answer) {
	case RENEW_HELD:
		h->lease_end_ms = now_ms + r->lease_ms;
		break;
	case RENEW_CANCELED:
		h->lease_end_ms = now_ms + r->lease_ms;
		h->last = true;
		if (held_withdraw(h))
			held_release(h, 0);
		break;
	case RENEW_STALE:
		/* A request that runs goes on. Its report will be stale. */
		if (held_withdraw(h))
			held_free(h);
		break;
	}
}

static void renewed(void *arg, enum store_result result, const redisReply *reply)
{
	struct renewal *r = arg;
	enum renewed answer;

	for (unsigned int i = 0; result == STORE_OK && i < r->count; i++) {
		if (renew_answer(reply, i, &answer))
			renewed_one(r, r->token[i], answer, script_now_ms(reply));
	}
	free(r);
}

static bool wants_renewal(const struct held *h, uint64_t now_ms)
{
	if (h->state == HELD_WAITS || h->state == HELD_OFFERED)
		return false;
	return h->lease_end_ms < now_ms + h->lease_ms * 2 / 3;
}

void report_renew(struct lane *l)
{
	struct daemon *d = l->queue->daemon;
	uint64_t now_ms = lane_now_ms(l);
	struct renewal *r = NULL;
	struct args a = { 0 };
	struct held *h, *next;

	HASH_ITER(hh, l->held, h, next) {
		if (!lane_up(l) || !wants_renewal(h, now_ms))
			continue;
		if (r && (r->count == BATCH_MAX || r->holder != h->key.holder ||
			  r->lease_ms != h->lease_ms)) {
			store_script(d->store, SCRIPT_RENEW, l->queue->name, l->index, &a,
				     renewed, r);
			r = NULL;
		}
		if (!r) {
			r = calloc(1, sizeof(*r));
			if (!r)
				abort();
			r->lane = l;
			r->holder = h->key.holder;
			r->lease_ms = h->lease_ms;
			renew_args_begin(&a, r->holder, r->lease_ms);
		}
		r->token[r->count++] = h->key.token;
		renew_args_add(&a, h->id, h->key.token);
	}
	if (r)
		store_script(d->store, SCRIPT_RENEW, l->queue->name, l->index, &a, renewed, r);
	if (l->held)
		alarm_arm(d->alarms, &l->renew, alarms_now(d->alarms) +
			  d->config.lease_ms * NSEC_PER_MSEC / 6);
}
