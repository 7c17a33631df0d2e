// SPDX-License-Identifier: GPL-2.0
/*
 * Workers that wait for tasks of a pull queue.
 *
 * A task for a worker stays held until the answer has been sent. From then on, its lease belongs to
 * the worker. If the answer cannot be sent, the task is released.
 */
#include <stdlib.h>
#include <string.h>

#include "work/waiter.h"

/* A worker that does not want to wait gets the tasks that one round of takes finds. */
#define ROUND_MAX	(2 * NSEC_PER_SEC)

/**
 * struct waiter - a worker that waits
 * @queue: its queue
 * @fn: called with the answer
 * @arg: for @fn
 * @limit: tasks that it wants
 * @lease_ms: lease that it wants
 * @once: it does not wait for tasks that come later
 * @offered: tasks for it
 * @nr: how many
 * @timer: the end of the wait
 * @prev: in queue.waiters
 * @next: in queue.waiters
 */
struct waiter {
	struct queue *queue;
	waiter_fn *fn;
	void *arg;
	unsigned int limit;
	uint64_t lease_ms;
	bool once;
	struct held **offered;
	unsigned int nr;
	struct alarm timer;
	struct waiter *prev;
	struct waiter *next;
};

unsigned int waiter_tasks(const struct waiter *w)
{
	return w->nr;
}

void waiter_sent(struct waiter *w, bool sent)
{
	struct daemon *d = w->queue->daemon;

	for (unsigned int i = 0; i < w->nr; i++) {
		struct held *h = w->offered[i];

		d->running--;
		w->queue->offered--;
		h->state = HELD_WAITS;
		if (sent)
			held_free(h);
		else
			held_release(h, RELEASE_DUE);
	}
	free(w->offered);
	free(w);
}

static char *tasks_text(const struct waiter *w, size_t *len)
{
	size_t room = sizeof("{\"tasks\":[]}");
	char *text, *end;

	for (unsigned int i = 0; i < w->nr; i++)
		room += reserved_room(&w->offered[i]->body) + 1;
	text = malloc(room);
	if (!text)
		abort();
	end = stpcpy(text, "{\"tasks\":[");
	for (unsigned int i = 0; i < w->nr; i++) {
		const struct held *h = w->offered[i];
		const struct run run = {
			.queue = w->queue->name,
			.id = h->id,
			.version = h->version,
			.first_due_ms = h->first_due_ms,
			.attempt = h->attempt,
		};

		if (i)
			*end++ = ',';
		end = reserved_text(end, &run, h->key.holder, h->key.token, &h->body);
	}
	end = stpcpy(end, "]}");
	*len = end - text;
	return text;
}

void waiter_end(struct waiter *w)
{
	size_t len;
	char *text = tasks_text(w, &len);

	DL_DELETE(w->queue->waiters, w);
	alarm_disarm(w->queue->daemon->alarms, &w->timer);
	w->fn(w->arg, text, len);
}

static void time_is_up(struct alarm *a, uint64_t now)
{
	(void)now;
	waiter_end(container_of(a, struct waiter, timer));
}

unsigned int waiter_room(const struct queue *q, bool early, uint64_t *lease_ms)
{
	unsigned int used = q->asked + (early ? q->held - q->offered : 0), room = 0;
	struct waiter *w;

	*lease_ms = 0;
	DL_FOREACH(q->waiters, w) {
		if (!*lease_ms)
			*lease_ms = w->lease_ms;
		if (w->lease_ms == *lease_ms)
			room += w->limit - w->nr;
	}
	return room > used ? room - used : 0;
}

bool waiter_offer(struct queue *q, struct held *h)
{
	struct waiter *w, *found = NULL;

	/* Do not promise the worker a longer lease than the task has. */
	DL_FOREACH(q->waiters, w) {
		if (w->nr < w->limit && w->lease_ms <= h->lease_ms) {
			found = w;
			break;
		}
	}
	if (!found)
		return false;
	found->offered[found->nr++] = h;
	h->state = HELD_OFFERED;
	q->offered++;
	q->daemon->running++;
	return true;
}

bool waiter_hurries(const struct queue *q)
{
	struct waiter *w;

	DL_FOREACH(q->waiters, w) {
		if (w->once && !w->nr)
			return true;
	}
	return false;
}

/* Takes are still on their way. */
static bool asks(const struct queue *q)
{
	for (unsigned int i = 0; i < q->settings.lanes; i++) {
		if (q->lane[i].taking)
			return true;
	}
	return false;
}

static bool round_is_over(const struct queue *q)
{
	for (unsigned int i = 0; i < q->settings.lanes; i++) {
		if (q->lane[i].starved)
			return false;
	}
	return true;
}

void waiter_settle(struct queue *q)
{
	bool asking, over, wait;
	struct waiter *w, *next;

	if (!q->waiters)
		return;
	asking = asks(q);
	over = !asking && round_is_over(q);
	/* Wait for a take that is on its way, because without a worker its tasks could not run. */
	wait = asking && !queue_ahead_ms(q);
	DL_FOREACH_SAFE(q->waiters, w, next) {
		if (w->nr == w->limit || (w->nr && !wait) || (w->once && over))
			waiter_end(w);
	}
}

void waiter_settle_later(struct queue *q)
{
	struct daemon *d = q->daemon;

	if (q->settles || !q->waiters)
		return;
	q->settles = true;
	q->next_settle = d->settles;
	d->settles = q;
}

void waiter_settle_all(void *arg)
{
	struct daemon *d = arg;
	struct queue *q;

	while ((q = d->settles)) {
		d->settles = q->next_settle;
		q->settles = false;
		waiter_settle(q);
	}
}

void waiter_end_queue(struct queue *q)
{
	while (q->waiters)
		waiter_end(q->waiters);
}

void waiter_end_all(struct daemon *d)
{
	struct queue *q, *next;

	HASH_ITER(hh, d->queues, q, next)
		waiter_end_queue(q);
}

struct waiter *waiter_add(struct queue *q, const struct reserve *want, waiter_fn *fn, void *arg)
{
	struct alarms *alarms = q->daemon->alarms;
	struct waiter *w = calloc(1, sizeof(*w));

	if (!w)
		abort();
	w->offered = calloc(want->limit, sizeof(*w->offered));
	if (!w->offered)
		abort();
	w->queue = q;
	w->fn = fn;
	w->arg = arg;
	w->limit = want->limit;
	w->lease_ms = want->lease_ms;
	w->once = !want->wait_ms;
	w->timer.fn = time_is_up;
	DL_APPEND(q->waiters, w);
	alarm_arm(alarms, &w->timer, alarms_now(alarms) +
		  (w->once ? ROUND_MAX : want->wait_ms * NSEC_PER_MSEC));
	return w;
}
