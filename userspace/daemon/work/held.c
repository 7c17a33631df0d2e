// SPDX-License-Identifier: GPL-2.0
/* Tasks that this daemon has taken. See held.h. */
#include <stdio.h>
#include <stdlib.h>

#include "callback/callback.h"
#include "work/held.h"
#include "work/host.h"
#include "work/report.h"

static struct daemon *daemon_of(const struct held *h)
{
	return h->lane->queue->daemon;
}

void held_drop_address(struct held *h)
{
	if (!h->address)
		return;
	if (h->probes_address)
		h->address->probe = false;
	h->probes_address = false;
	host_put(h->address);
	h->address = NULL;
}

void held_unlist(struct held *h)
{
	struct daemon *d = daemon_of(h);

	if (h->state == HELD_READY) {
		fair_remove(&d->ready, &h->turn);
	} else if (h->state == HELD_HOST) {
		fair_remove(&h->host->waiting, &h->turn);
		if (!h->host->waiting.count)
			alarm_clear(d->alarms, &h->host->timer);
		host_put(h->host);
	} else if (h->state == HELD_RUNS) {
		h->lane->queue->running--;
		h->host->running--;
		if (h->probe)
			h->host->probe = false;
		h->probe = false;
		held_drop_address(h);
		host_put(h->host);
	} else if (h->state == HELD_IDLE) {
		DL_DELETE2(h->lane->queue->idle, h, rprev, rnext);
	}
	h->state = HELD_WAITS;
}

void held_free(struct held *h)
{
	struct daemon *d = daemon_of(h);

	alarm_disarm(d->alarms, &h->due);
	held_unlist(h);
	HASH_DEL(h->lane->held, h);
	h->lane->queue->held--;
	d->held--;
	d->held_bytes -= h->data_len;
	free(h->data);
	free(h);
}

struct held *held_find(struct lane *l, uint64_t holder, uint64_t token)
{
	struct lease_key key = { holder, token };
	struct held *h;

	HASH_FIND(hh, l->held, &key, sizeof(key), h);
	return h;
}

/* ---- Ends ---- */

void held_report_answer(struct held *h, enum verdict v, uint64_t delay_ms, const char *note,
			int status)
{
	struct outcome r = {
		.lane = h->lane,
		.holder = h->key.holder,
		.token = h->key.token,
		.verdict = v,
		.delay_ms = delay_ms,
		.persist = true,
		.status = status,
	};

	snprintf(r.id, sizeof(r.id), "%s", h->id);
	snprintf(r.note, sizeof(r.note), "%s", note);
	if (h->host)
		snprintf(r.host, sizeof(r.host), "%.*s", (int)sizeof(r.host) - 1, h->host->key);
	if (v == VERDICT_RETRY && h->attempt == 1)
		report_log(&r, "failed for the first time");
	report_send(h->lane, &r);
}

void held_report(struct held *h, enum verdict v, uint64_t delay_ms, const char *note)
{
	held_report_answer(h, v, delay_ms, note, 0);
}

void held_release(struct held *h, uint64_t delay_ms)
{
	held_report(h, VERDICT_RELEASE, delay_ms, "");
	held_free(h);
}

void held_bury(struct held *h, const char *note)
{
	held_report(h, VERDICT_DEAD, 0, note);
	held_free(h);
}

bool held_withdraw(struct held *h)
{
	if (h->state == HELD_RUNS || h->state == HELD_OFFERED)
		return false;
	alarm_disarm(daemon_of(h)->alarms, &h->due);
	held_unlist(h);
	return true;
}

void held_release_lane(struct lane *l)
{
	struct held *h, *next;

	HASH_ITER(hh, l->held, h, next) {
		if (held_withdraw(h))
			held_release(h, RELEASE_DUE);
	}
	report_flush(l);
}

/* ---- All of them ---- */

/* A queue of weight 1 may use this many times as many places as are free. */
#define SHARE	3U

/*
 * Returns how many of @free places a queue may take that already uses @own. If there are other
 * queues, a queue always leaves some places free for them: it may take x more so that own + x <=
 * SHARE * weight * (free - x).
 */
static unsigned int share(const struct queue *q, unsigned int free, unsigned int own)
{
	uint64_t times = SHARE * q->settings.weight, most = times * free;

	if (!free || HASH_COUNT(q->daemon->queues) == 1)
		return free;
	return most + times > own ? (most + times - own) / (times + 1) : 0;
}

static unsigned int slots(const struct queue *q)
{
	const struct daemon *d = q->daemon;
	unsigned int used = callbacks_running(d->callbacks), most = d->config.callback_concurrency;

	return used < most ? share(q, most - used, q->running) : 0;
}

bool held_may_start(const struct queue *q)
{
	return slots(q);
}

unsigned int held_room(const struct queue *q, bool is_due)
{
	const struct daemon *d = q->daemon;
	const struct config *c = &d->config;
	unsigned int room, ready, due;

	if (d->stopping || d->held + d->asked >= c->hold_max || d->held_bytes >= c->hold_bytes)
		return 0;
	room = share(q, c->hold_max - d->held - d->asked, q->held);
	if (!is_due)
		return room;
	/* Tasks that wait for a busy host do not count, because they take no slots. */
	ready = fair_count(&d->ready, q);
	due = slots(q);
	due = due > ready ? due - ready : 0;
	return room < due ? room : due;
}

void held_each(struct daemon *d, void (*fn)(struct held *h))
{
	struct queue *q, *qnext;
	struct held *h, *next;

	HASH_ITER(hh, d->queues, q, qnext) {
		for (unsigned int i = 0; i < q->settings.lanes; i++) {
			HASH_ITER(hh, q->lane[i].held, h, next)
				fn(h);
		}
	}
}
