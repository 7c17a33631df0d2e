// SPDX-License-Identifier: GPL-2.0
/*
 * Recall: cancel, move and replace of tasks that a daemon holds.
 *
 *   asker   `tw:recall`	holder queue/lane id token verb time asker
 *   holder  `tw:verdict`	asker verdict
 *
 * The asker is the name of its daemon, ":", and a number. The verdict is "yes" or
 * "running". The asker must not judge by the record of the task: a record that is gone
 * may mean "done".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work/held.h"
#include "work/recall.h"
#include "work/report.h"

#define VERDICT_TIMEOUT	(250 * NSEC_PER_MSEC)
#define TEXT_LEN	512

static const char *const verb_names[] = { "cancel", "move", "run", "drop" };
#define VERBS	(sizeof(verb_names) / sizeof(verb_names[0]))

/**
 * struct recall - one without a verdict
 * @daemon: the asker
 * @number: of it
 * @fn: of the caller
 * @arg: for @fn
 * @timer: ends the wait for the verdict
 * @hh: in daemon.recalls
 */
struct recall {
	struct daemon *daemon;
	uint64_t number;
	recall_fn *fn;
	void *arg;
	struct alarm timer;
	UT_hash_handle hh;
};

/**
 * struct order - what a holder was asked for
 * @daemon: the holder
 * @asker: who asked, as in the message
 */
struct order {
	struct daemon *daemon;
	char asker[64];
};

static void finish(struct recall *r, enum recall_verdict verdict)
{
	r->daemon->metrics.recalls[verdict]++;
	HASH_DEL(r->daemon->recalls, r);
	alarm_disarm(r->daemon->alarms, &r->timer);
	r->fn(r->arg, verdict);
	free(r);
}

static void silent(struct alarm *a, uint64_t now)
{
	(void)now;
	finish(container_of(a, struct recall, timer), RECALL_SILENT);
}

void recall_verdict(struct daemon *d, const char *text, size_t len)
{
	char name[MEMBER_LEN], verdict[16], line[TEXT_LEN];
	struct recall *r;
	uint64_t number;

	if (len >= sizeof(line))
		return;
	memcpy(line, text, len);
	line[len] = '\0';
	if (sscanf(line, "%16[0-9a-f]:%" SCNu64 " %15s", name, &number, verdict) != 3 ||
	    strcmp(name, d->name))
		return;
	HASH_FIND(hh, d->recalls, &number, sizeof(number), r);
	if (r)
		finish(r, strcmp(verdict, "yes") ? RECALL_RUNS : RECALL_YES);
}

/* ---- The holder ---- */

static void say(struct daemon *d, const char *asker, bool yes)
{
	char text[TEXT_LEN];

	snprintf(text, sizeof(text), "%s %s", asker, yes ? "yes" : "running");
	/* The asker is in this daemon, so it needs no message. */
	if (!strncmp(asker, d->name, strlen(d->name)))
		recall_verdict(d, text, strlen(text));
	else
		work_publish(d, "verdict", text);
}

static void released(void *arg, enum report_answer answer)
{
	struct order *o = arg;

	say(o->daemon, o->asker, answer == REPORT_APPLIED || answer == REPORT_DEAD);
	free(o);
}

/* Gives @h back in the way that @verb requires. The verdict waits until Redis has stored that. */
static void give_back(struct held *h, enum recall_verb verb, uint64_t time_ms, const char *asker)
{
	struct lane *l = h->lane;
	struct outcome r = {
		.holder = h->key.holder,
		.token = h->key.token,
		.verdict = VERDICT_RELEASE,
		.delay_ms = verb == RECALL_RUN ? 0 : RELEASE_DUE,
		.at_ms = verb == RECALL_MOVE ? time_ms : 0,
		.persist = true,
		.confirm = true,
		.done = released,
	};
	struct order *o = calloc(1, sizeof(*o));

	if (!o)
		abort();
	o->daemon = l->queue->daemon;
	snprintf(o->asker, sizeof(o->asker), "%s", asker);
	r.arg = o;
	snprintf(r.id, sizeof(r.id), "%s", h->id);
	held_free(h);
	report_send(l, &r);
	report_flush(l);
}

static void handle_recall(struct lane *l, uint64_t holder, uint64_t token, enum recall_verb verb,
			  uint64_t time_ms, const char *asker)
{
	struct held *h = held_find(l, holder, token);

	if (!h || !held_withdraw(h)) {
		say(l->queue->daemon, asker, false);
		return;
	}
	if (verb == RECALL_DROP) {
		/* The record already belongs to another task. */
		held_free(h);
		say(l->queue->daemon, asker, true);
		return;
	}
	give_back(h, verb, time_ms, asker);
}

void recall_message(struct daemon *d, const char *text, size_t len)
{
	char queue[QUEUE_NAME_MAX + 1], id[TASK_ID_MAX + 1], verb[16], asker[64], line[TEXT_LEN];
	uint64_t holder, token, time_ms;
	unsigned int index;
	struct queue *q;

	if (len >= sizeof(line))
		return;
	memcpy(line, text, len);
	line[len] = '\0';
	if (sscanf(line, "%" SCNx64 " %64[A-Za-z0-9_-]/%u %128s %" SCNu64 " %15s %" SCNu64 " %63s",
		   &holder, queue, &index, id, &token, verb, &time_ms, asker) != 8)
		return;
	q = queue_find(d, queue);
	if (!q || index >= q->settings.lanes)
		return;
	/* This daemon does not hold the task, and its holder will answer. */
	if (holder != d->holder && !held_find(&q->lane[index], holder, token))
		return;
	for (unsigned int i = 0; i < VERBS; i++) {
		if (!strcmp(verb, verb_names[i]))
			handle_recall(&q->lane[index], holder, token, i, time_ms, asker);
	}
}

/* ---- The asker ---- */

void recall_ask(struct lane *l, const char *id, uint64_t holder, uint64_t token,
		enum recall_verb verb, uint64_t time_ms, recall_fn *fn, void *arg)
{
	struct daemon *d = l->queue->daemon;
	struct recall *r = calloc(1, sizeof(*r));
	char text[TEXT_LEN], asker[64];

	if (!r)
		abort();
	r->daemon = d;
	r->number = ++d->recall_number;
	r->fn = fn;
	r->arg = arg;
	r->timer.fn = silent;
	HASH_ADD(hh, d->recalls, number, sizeof(r->number), r);
	alarm_arm(d->alarms, &r->timer, alarms_now(d->alarms) + VERDICT_TIMEOUT);
	snprintf(asker, sizeof(asker), "%s:%" PRIu64, d->name, r->number);
	if (holder == d->holder || held_find(l, holder, token)) {
		handle_recall(l, holder, token, verb, time_ms, asker);
		return;
	}
	snprintf(text, sizeof(text), "%016" PRIx64 " %s/%u %s %" PRIu64 " %s %" PRIu64 " %s",
		 holder, l->queue->name, l->index, id, token, verb_names[verb], time_ms, asker);
	work_publish(d, "recall", text);
}
