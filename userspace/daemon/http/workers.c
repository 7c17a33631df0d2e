// SPDX-License-Identifier: GPL-2.0
/* Routes of workers: reserve, and their reports. See api.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/random.h"
#include "http/api.h"
#include "redis/script.h"
#include "redis/store.h"
#include "text/pull.h"
#include "work/report.h"
#include "work/reserve.h"
#include "work/task.h"
#include "work/waiter.h"

static bool is_pull(struct request *r, const struct queue *q)
{
	if (q->settings.mode == QUEUE_PULL)
		return true;
	request_error(r, 400, "invalid", "queue", "this is a push queue, which workers cannot use");
	return false;
}

/* Another daemon can serve this worker. */
static void refuse(struct request *r)
{
	r->retry_after = 1;
	request_error(r, 503, "stopping", NULL, "this daemon is stopping: ask another one");
}

static void reserved(void *arg, char *text, size_t len)
{
	struct request *r = arg;

	r->gone = NULL;
	if (!r->daemon->leaving || waiter_tasks(r->arg)) {
		request_json(r, 200, text, len);
		return;
	}
	free(text);
	refuse(r);
}

static void gone(struct request *r)
{
	waiter_end(r->arg);
}

static void finished(struct request *r, bool sent)
{
	waiter_sent(r->arg, sent);
}

void route_reserve(struct request *r, struct queue *q)
{
	struct reserve want;
	struct api_error err;

	if (!is_pull(r, q))
		return;
	if (r->daemon->leaving) {
		refuse(r);
		return;
	}
	if (reserve_parse(r->body ? r->body : "", r->len, &want, &err)) {
		request_fail(r, &err);
		return;
	}
	r->arg = waiter_add(q, &want, reserved, r);
	r->gone = gone;
	r->finished = finished;
	request_watch(r);
	reserve_tasks(q, r->arg, !want.wait_ms);
}

/**
 * struct reporting - a request with reports
 * @request: the request
 * @queue: its queue
 * @report: what it says
 * @kind: which route
 * @answer: one for each item
 * @left: items without an answer
 */
struct reporting {
	struct request *request;
	struct queue *queue;
	struct report report;
	enum report_kind kind;
	enum report_answer *answer;
	size_t left;
};

/**
 * struct reporting_one - one of its items
 */
struct reporting_one {
	struct reporting *reporting;
	size_t index;
};

/* Answers a request. A single item determines the status; of several, each has its own. */
static void answer_reporting(struct reporting *p)
{
	static const char *const names[] = {
		[REPORT_APPLIED] = "applied",
		[REPORT_STALE] = "stale",
		[REPORT_DEAD] = "dead",
	};
	size_t down = 0, unknown = 0;
	json_t *list = json_array();

	for (size_t i = 0; i < p->report.count; i++) {
		down += p->answer[i] == REPORT_DOWN;
		unknown += p->answer[i] == REPORT_UNKNOWN;
	}
	for (size_t i = 0; !down && !unknown && i < p->report.count; i++)
		json_array_append_new(list, json_pack("{s:s,s:s}", "id", p->report.item[i].id,
						      "result", names[p->answer[i]]));
	if (down || unknown) {
		json_decref(list);
		/* Lanes on other nodes may have accepted their reports. */
		request_store_error(p->request, down == p->report.count ? STORE_DOWN :
				    STORE_UNKNOWN);
	} else if (p->report.count == 1 && p->answer[0] == REPORT_STALE) {
		json_decref(list);
		request_error(p->request, 410, "stale", "token", "the lease of this token has ended");
	} else {
		request_answer(p->request, 200, json_pack("{s:o}", "tasks", list));
	}
	report_free(&p->report);
	free(p->answer);
	free(p);
}

static void reported(void *arg, enum report_answer answer)
{
	struct reporting_one *one = arg;
	struct reporting *p = one->reporting;

	p->answer[one->index] = answer;
	free(one);
	if (!--p->left)
		answer_reporting(p);
}

static void extended(void *arg, enum store_result result, const redisReply *reply)
{
	enum renewed renewed;

	if (result != STORE_OK || !renew_answer(reply, 0, &renewed))
		reported(arg, result == STORE_UNKNOWN ? REPORT_UNKNOWN : REPORT_DOWN);
	else
		reported(arg, renewed == RENEW_STALE ? REPORT_STALE : renewed == RENEW_CANCELED ?
			 REPORT_DEAD : REPORT_APPLIED);
}

static void extend(struct queue *q, const struct report_item *item, struct reporting_one *one)
{
	struct args a = { 0 };

	renew_args_begin(&a, item->holder, item->lease_ms);
	renew_args_add(&a, item->id, item->token);
	store_script(q->daemon->store, SCRIPT_RENEW, q->name, queue_lane(q, item->id)->index, &a,
		     extended, one);
}

static void send_report(struct queue *q, const struct report_item *item, enum report_kind kind,
			uint64_t backoff_ms, struct reporting_one *one)
{
	struct outcome r = {
		.holder = item->holder,
		.token = item->token,
		.done = reported,
		.arg = one,
	};

	snprintf(r.id, sizeof(r.id), "%s", item->id);
	snprintf(r.note, sizeof(r.note), "%s", item->error);
	switch (kind) {
	case REPORT_ACK:
		r.verdict = VERDICT_OK;
		break;
	case REPORT_NACK:
		r.verdict = item->dead ? VERDICT_DEAD : VERDICT_RETRY;
		r.delay_ms = item->has_delay ? item->delay_ms : backoff_ms;
		break;
	default:
		r.verdict = VERDICT_RELEASE;
		r.delay_ms = item->has_delay ? item->delay_ms : RELEASE_DUE;
	}
	q->attempts[r.verdict]++;
	report_send(queue_lane(q, item->id), &r);
}

/* Gets the body of a task, which contains its retry settings. A report does not have them. */
static void looked(void *arg, enum store_result result, const redisReply *reply)
{
	struct reporting_one *one = arg;
	struct reporting *p = one->reporting;
	struct retry retry = p->queue->settings.retry;
	char id[TASK_ID_MAX + 1];
	struct task_view view;
	struct task_body body;
	unsigned int attempt = 1;

	if (result != STORE_OK) {
		reported(one, REPORT_DOWN);
		return;
	}
	if (look_answer_items(reply) && look_answer_item(reply, 0, id, &view)) {
		attempt = view.attempts + 1;
		if (view.body && body_decode(view.body, view.body_len, &body))
			retry = body.retry;
	}
	send_report(p->queue, &p->report.item[one->index], REPORT_NACK,
		    task_backoff_ms(&retry, attempt, random_u64()), one);
}

static void look_first(struct queue *q, const struct report_item *item, struct reporting_one *one)
{
	struct args a = { 0 };

	look_get_args(&a, item->id);
	store_script(q->daemon->store, SCRIPT_LOOK, q->name, queue_lane(q, item->id)->index, &a,
		     looked, one);
}

static void report_on(struct request *r, struct queue *q, enum report_kind kind)
{
	struct report report;
	struct reporting *p;
	struct api_error err;

	if (!is_pull(r, q))
		return;
	if (report_parse(r->body ? r->body : "", r->len, kind, &report, &err)) {
		request_fail(r, &err);
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		abort();
	p->answer = calloc(report.count, sizeof(*p->answer));
	if (!p->answer)
		abort();
	p->request = r;
	p->queue = q;
	p->report = report;
	p->kind = kind;
	p->left = report.count;
	for (size_t i = 0; i < report.count; i++) {
		struct reporting_one *one = malloc(sizeof(*one));

		if (!one)
			abort();
		one->reporting = p;
		one->index = i;
		if (kind == REPORT_EXTEND)
			extend(q, &report.item[i], one);
		else if (kind == REPORT_NACK && !report.item[i].dead && !report.item[i].has_delay)
			look_first(q, &report.item[i], one);
		else
			send_report(q, &report.item[i], kind, 0, one);
	}
}

void route_ack(struct request *r, struct queue *q)
{
	report_on(r, q, REPORT_ACK);
}

void route_nack(struct request *r, struct queue *q)
{
	report_on(r, q, REPORT_NACK);
}

void route_extend(struct request *r, struct queue *q)
{
	report_on(r, q, REPORT_EXTEND);
}

void route_release(struct request *r, struct queue *q)
{
	report_on(r, q, REPORT_RELEASE);
}
