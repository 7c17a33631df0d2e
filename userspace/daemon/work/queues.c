// SPDX-License-Identifier: GPL-2.0
/* The queues that `tw:queues` contains. See queues.h. */
#include <stdlib.h>
#include <string.h>

#include "ground/log.h"
#include "redis/script.h"
#include "redis/store.h"
#include "text/json.h"
#include "text/spec.h"
#include "work/counts.h"
#include "work/held.h"
#include "work/lane.h"
#include "work/queues.h"
#include "work/task.h"
#include "work/waiter.h"

static unsigned int rank(struct lane *l)
{
	struct daemon *d = l->queue->daemon;
	const char *names[d->members + 1];

	for (size_t i = 0; i < d->members; i++)
		names[i] = d->member[i].name;
	return task_rank(d->name, names, d->members, l->queue->name, l->index);
}

void queue_rank_all(struct daemon *d)
{
	struct queue *q, *next;

	HASH_ITER(hh, d->queues, q, next) {
		for (unsigned int i = 0; i < q->settings.lanes; i++) {
			struct lane *l = &q->lane[i];
			unsigned int now = rank(l);

			if (l->rank == now)
				continue;
			l->rank = now;
			lane_look(l);
		}
	}
}

static void queue_free(struct queue *q)
{
	for (unsigned int i = 0; i < q->settings.lanes; i++) {
		if (q->lane[i].queue)
			lane_free(&q->lane[i]);
	}
	free(q->lane);
	free(q->stored);
	free(q->shown);
	free(q);
}

static struct queue *queue_new(struct daemon *d, const char *name,
			       const struct queue_settings *settings)
{
	struct queue *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->daemon = d;
	q->settings = *settings;
	strcpy(q->name, name);
	q->lane = calloc(settings->lanes, sizeof(*q->lane));
	if (!q->lane) {
		free(q);
		return NULL;
	}
	for (unsigned int i = 0; i < settings->lanes; i++) {
		if (lane_init(&q->lane[i], q, i)) {
			log_often(LOG_ERR,
				  "queue %s is not served by this daemon: no memory for its timers",
				  name);
			queue_free(q);
			return NULL;
		}
		q->lane[i].rank = rank(&q->lane[i]);
	}
	return q;
}

static void keep_stored(struct queue *q, const char *text)
{
	free(q->stored);
	q->stored = strdup(text);
	if (!q->stored)
		abort();
}

/* ---- Removed ---- */

void queue_forget(struct queue *q)
{
	struct daemon *d = q->daemon;

	log_line(LOG_NOTICE, "queue %s: it was removed", q->name);
	census_skip(q);
	HASH_DEL(d->queues, q);
	d->lanes -= q->settings.lanes;
	q->removed = true;
	q->removed_in = commands_period();
	LL_PREPEND2(d->removed, q, next_removed);
	for (unsigned int i = 0; i < q->settings.lanes; i++)
		lane_stop(&q->lane[i]);
	waiter_end_queue(q);
	queue_release(q);
}

static bool is_at_rest(const struct queue *q)
{
	if (q->requests || q->held || q->waiters || q->settles)
		return false;
	for (unsigned int i = 0; i < q->settings.lanes; i++) {
		const struct lane *l = &q->lane[i];

		if (l->held || l->reports || l->puts || l->has_puts || l->taking || l->recovering)
			return false;
	}
	return true;
}

void queue_free_removed(struct daemon *d)
{
	struct queue *q, *next;

	commands_next_period();
	LL_FOREACH_SAFE2(d->removed, q, next, next_removed) {
		/* What is not at rest may send commands, until this is called again. */
		if (!is_at_rest(q))
			q->removed_in = commands_period();
		if (commands_period() < q->removed_in + 2)
			continue;
		LL_DELETE2(d->removed, q, next_removed);
		queue_free(q);
	}
}

/* ---- Settings ---- */

struct queue *queue_apply(struct daemon *d, const char *name,
			  const struct queue_settings *settings, const char *text)
{
	struct queue *q = queue_find(d, name);

	/* It was removed and made again before this daemon looked, so forget the old one. */
	if (q && (q->settings.lanes != settings->lanes || q->settings.mode != settings->mode)) {
		queue_forget(q);
		q = NULL;
	}
	if (q) {
		q->settings = *settings;
		free(q->shown);
		q->shown = NULL;
		keep_stored(q, text);
		return q;
	}
	q = queue_new(d, name, settings);
	if (!q)
		return NULL;
	keep_stored(q, text);
	HASH_ADD_STR(d->queues, name, q);
	d->lanes += settings->lanes;
	for (unsigned int i = 0; i < settings->lanes; i++)
		lane_look(&q->lane[i]);
	return q;
}

/*
 * A queue that is known goes on with the settings that it has.
 *
 * Return: false if the settings cannot be read.
 */
static bool load(struct daemon *d, const char *name, const char *text, size_t len,
		 struct queue **q)
{
	struct queue_settings settings;

	if (queue_name_valid(name) && queue_settings_load(text, len, &settings)) {
		*q = queue_apply(d, name, &settings, text);
		return true;
	}
	d->metrics.newer++;
	log_often(LOG_WARNING, "queue %.64s: its settings cannot be read: perhaps a newer twheeld "
		  "stored them", name);
	return false;
}

/* ---- From Redis ---- */

/**
 * struct loading - a queue that is asked for
 */
struct loading {
	struct daemon *daemon;
	char name[QUEUE_NAME_MAX + 1];
	queue_fn *fn;
	void *arg;
};

static struct loading *loading_new(struct daemon *d, const char *name)
{
	struct loading *ld = calloc(1, sizeof(*ld));

	if (!ld)
		abort();
	ld->daemon = d;
	strcpy(ld->name, name);
	return ld;
}

/*
 * Restores a queue that Redis has lost by a restart or a failover. This daemon accepts tasks for
 * it, but a daemon that starts later would not know it.
 */
static void give_back(struct queue *q)
{
	struct daemon *d = q->daemon;
	struct args a = { 0 };
	char key[160];

	log_often(LOG_WARNING, "queue %s is missing in Redis, perhaps after a failover: "
		  "storing its settings again", q->name);
	args_text(&a, "HSETNX");
	args_text(&a, store_key(d->store, key, "queues"));
	args_text(&a, q->name);
	args_text(&a, q->stored);
	store_command(d->store, key, &a, NULL, NULL);
}

static void asked_removed(void *arg, enum store_result result, const redisReply *reply)
{
	struct loading *ld = arg;
	struct queue *q = queue_find(ld->daemon, ld->name);
	uint64_t gone;

	if (result == STORE_OK && !lane_answer(reply, &gone))
		result = STORE_REFUSED;
	if (q && result == STORE_OK) {
		if (gone)
			queue_forget(q);
		else
			give_back(q);
	}
	if (ld->fn)
		ld->fn(ld->arg, NULL, result, false);
	free(ld);
}

/* Asks the first lane if the queue, which is missing in Redis, was removed or lost. */
static void ask_removed(struct loading *ld)
{
	struct args a = { 0 };

	lane_args(&a, LANE_ASK);
	store_script(ld->daemon->store, SCRIPT_REMOVE, ld->name, 0, &a, asked_removed, ld);
}

static void loaded(void *arg, enum store_result result, const redisReply *reply)
{
	struct loading *ld = arg;
	struct queue *q = NULL;
	bool newer = false;

	if (result == STORE_OK && reply->type == REDIS_REPLY_STRING) {
		newer = !load(ld->daemon, ld->name, reply->str, reply->len, &q);
	} else if (result == STORE_OK && queue_find(ld->daemon, ld->name)) {
		ask_removed(ld);
		return;
	}
	if (ld->fn)
		ld->fn(ld->arg, q, result, newer);
	free(ld);
}

void queue_load(struct daemon *d, const char *name, queue_fn *fn, void *arg)
{
	struct loading *ld = loading_new(d, name);
	struct args a = { 0 };
	char key[160];

	ld->fn = fn;
	ld->arg = arg;
	args_text(&a, "HGET");
	args_text(&a, store_key(d->store, key, "queues"));
	args_text(&a, name);
	store_command(d->store, key, &a, loaded, ld);
}

static void loaded_all(void *arg, enum store_result result, const redisReply *reply)
{
	struct daemon *d = arg;
	struct queue *q;
	bool readable;

	if (result != STORE_OK || reply->type != REDIS_REPLY_ARRAY)
		return;
	for (q = d->queues; q; q = q->hh.next)
		q->listed = false;
	d->newer = 0;
	for (size_t i = 0; i + 1 < reply->elements; i += 2) {
		const redisReply *name = reply->element[i], *text = reply->element[i + 1];

		if (name->type != REDIS_REPLY_STRING || text->type != REDIS_REPLY_STRING)
			continue;
		readable = load(d, name->str, text->str, text->len, &q);
		q = queue_find(d, name->str);
		if (q)
			q->listed = true;
		else if (!readable)
			d->newer++;
	}
	for (q = d->queues; q; q = q->hh.next) {
		if (!q->listed)
			ask_removed(loading_new(d, q->name));
	}
}

void queue_load_all(struct daemon *d)
{
	struct args a = { 0 };
	char key[160];

	args_text(&a, "HGETALL");
	args_text(&a, store_key(d->store, key, "queues"));
	store_command(d->store, key, &a, loaded_all, d);
}

void queue_release(struct queue *q)
{
	for (unsigned int i = 0; i < q->settings.lanes; i++)
		held_release_lane(&q->lane[i]);
}

void queue_free_all(struct daemon *d)
{
	struct queue *q, *next;

	HASH_ITER(hh, d->queues, q, next) {
		HASH_DEL(d->queues, q);
		queue_free(q);
	}
	LL_FOREACH_SAFE2(d->removed, q, next, next_removed)
		queue_free(q);
}
