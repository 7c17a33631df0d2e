// SPDX-License-Identifier: GPL-2.0
/* Routes of queues, and /metrics. See api.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/alarm.h"
#include "http/access.h"
#include "http/api.h"
#include "http/metrics.h"
#include "redis/script.h"
#include "redis/store.h"
#include "text/query.h"
#include "text/spec.h"
#include "work/counts.h"
#include "work/host.h"
#include "work/queues.h"

#define REPLAY_MAX	10000
#define REPLAY_DEFAULT	1000
/* The script "look" lists at most this many. */
#define LOOK_MAX	1000
#define HOSTS_SHOWN	20

/* ---- Show ---- */

/*
 * Writes a queue as JSON. It is written as text, because building the objects of a library for a
 * thousand queues took 22 ms, during which no task could begin.
 */
static void write_queue(FILE *f, struct queue *q, const struct counted *counted)
{
	const struct counts *c = &counted->counts;
	static const char *const within[FORECASTS] = { "60s", "60m", "24h" };

	if (!q->shown)
		q->shown = json_text(queue_settings_to_json(&q->settings), NULL);
	if (!q->shown)
		abort();
	/* Insert the counts before the last brace of the settings. */
	fprintf(f, "%.*s,\"queue\":\"%s\",\"paused\":%s", (int)strlen(q->shown) - 1, q->shown,
		q->name, c->paused ? "true" : "false");
	for (unsigned int i = 0; i < TASK_STATES; i++)
		fprintf(f, ",\"%s\":%" PRIu64, task_state_name(i), c->state[i]);
	if (c->oldest_due_ms != NEVER_MS)
		fprintf(f, ",\"oldest_due\":%" PRIu64, c->oldest_due_ms);
	fputs(",\"forecast\":", f);
	for (unsigned int i = 0; i < FORECASTS; i++)
		fprintf(f, "%c\"%s\":%" PRIu64, i ? ',' : '{', within[i], c->within[i]);
	fputc('}', f);
	if (counted->missing)
		fprintf(f, ",\"missing_lanes\":%u", counted->missing);
	fputc('}', f);
}

/* True if at least one lane was counted. */
static bool has_counts(const struct queue *q, const struct counted *counted)
{
	return counted->missing < q->settings.lanes;
}

/* Returns STORE_OK, or why no lane of any queue could be counted. */
static enum store_result nothing_counted(const struct daemon *d)
{
	enum store_result result = STORE_OK;

	for (const struct queue *q = d->queues; q; q = q->hh.next) {
		if (!q->counted.known)
			continue;
		if (has_counts(q, &q->counted))
			return STORE_OK;
		result = q->counted.result;
	}
	return result;
}

/* Returns some of the hosts that back off on this daemon. */
static json_t *hosts_to_json(const struct daemon *d)
{
	json_t *list = json_array();

	for (const struct host *h = d->hosts; h && json_array_size(list) < HOSTS_SHOWN;
	     h = h->hh.next) {
		json_int_t until = work_now_ms(d) + host_backoff_left_ms(h);

		if (!h->failures)
			continue;
		json_array_append_new(list, json_pack("{s:s,s:I,s:I}", "host", h->key, "failures",
						      (json_int_t)h->failures, "until", until));
	}
	return list;
}

static void show_all(void *arg)
{
	struct request *r = arg;
	enum store_result result = nothing_counted(r->daemon);
	const struct bearer *t = access_token(r);
	char *text, *hosts, *verbs;
	const char *comma = "";
	size_t len;
	FILE *f;

	if (result != STORE_OK) {
		request_store_error(r, result);
		return;
	}
	f = open_memstream(&text, &len);
	verbs = json_text(access_verbs(r), NULL);
	hosts = json_text(t && bearer_sees_all(t) ? hosts_to_json(r->daemon) : json_array(), NULL);
	if (!f || !verbs || !hosts)
		abort();
	fprintf(f, "{\"now\":%" PRIu64 ",\"verbs\":%s,\"queues\":[", work_now_ms(r->daemon), verbs);
	for (struct queue *q = r->daemon->queues; q; q = q->hh.next) {
		if (!q->counted.known || !t || !bearer_sees(t, q->name))
			continue;
		fputs(comma, f);
		write_queue(f, q, &q->counted);
		comma = ",";
	}
	fprintf(f, "],\"hosts\":%s", hosts);
	if (r->daemon->newer && t && bearer_sees_all(t))
		fprintf(f, ",\"newer\":%u", r->daemon->newer);
	fputc('}', f);
	free(verbs);
	free(hosts);
	if (fclose(f))
		abort();
	request_json(r, 200, text, len);
}

void route_queue_list(struct request *r)
{
	if (!store_up(r->daemon->store))
		request_store_error(r, STORE_DOWN);
	else
		census_ask(r->daemon, show_all, r);
}

/**
 * struct showing - a queue that is being counted for a request
 */
struct showing {
	struct request *request;
	struct queue *queue;
};

static void answer_one(struct request *r, struct queue *q, const struct counted *counted)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		abort();
	write_queue(f, q, counted);
	if (fclose(f))
		abort();
	request_json(r, r->arg ? 201 : 200, text, len);
}

static void show_one(void *arg, const struct counted *counted)
{
	struct showing *s = arg;
	struct request *r = s->request;

	/* The queue was made or changed, but one of its lanes cannot be counted. */
	if (counted->result != STORE_OK && r->method == METHOD_PUT)
		request_store_error(r, STORE_UNKNOWN);
	else if (!has_counts(s->queue, counted))
		request_store_error(r, counted->result);
	else
		answer_one(r, s->queue, counted);
	free(s);
}

void route_queue_get(struct request *r, struct queue *q)
{
	struct showing *s = malloc(sizeof(*s));

	if (!s)
		abort();
	s->request = r;
	s->queue = q;
	queue_count(q, show_one, s);
}

static void answer_metrics(struct request *r, bool counted)
{
	size_t len;
	char *text = metrics_text(r->daemon, counted, &len);

	request_text(r, text ? 200 : 500, "text/plain; version=0.0.4", text, len, false);
}

static void show_metrics(void *arg)
{
	answer_metrics(arg, true);
}

void route_metrics(struct request *r)
{
	if (store_up(r->daemon->store))
		census_ask(r->daemon, show_metrics, r);
	else
		answer_metrics(r, false);
}

/* ---- Make, change ---- */

/**
 * struct setting - settings that are being stored
 * @request: the request
 * @settings: the settings
 * @text: the same, as they are stored
 * @create: there was no such queue
 */
struct setting {
	struct request *request;
	struct queue_settings settings;
	char *text;
	bool create;
};

static void end_setting(struct setting *s)
{
	free(s->text);
	free(s);
}

static void know_queue(void *arg, struct queue *q, enum store_result result, bool newer);

static void stored(void *arg, enum store_result result, const redisReply *reply)
{
	struct setting *s = arg;
	struct request *r = s->request;
	enum settings_result what;
	struct queue *q;
	char text[100];

	if (result != STORE_OK || !settings_answer(reply, &what)) {
		request_store_error(r, result);
		end_setting(s);
		return;
	}
	if (what != SETTINGS_STORED) {
		if (what == SETTINGS_MANY)
			request_error(r, 429, "queue_full", "queue", "there are %d queues already",
				      QUEUES_MAX);
		else
			/* Another daemon was faster, so its number of lanes and its mode apply. */
			queue_load(r->daemon, r->queue, know_queue, r);
		end_setting(s);
		return;
	}
	q = queue_apply(r->daemon, r->queue, &s->settings, s->text);
	/* A queue with this name may have been removed earlier. */
	for (unsigned int i = 0; q && i < q->settings.lanes; i++) {
		struct args a = { .confirm = true };

		lane_args(&a, LANE_OPEN);
		store_script(r->daemon->store, SCRIPT_REMOVE, q->name, i, &a, NULL, NULL);
	}
	snprintf(text, sizeof(text), "queue %s", r->queue);
	work_publish(r->daemon, "changed", text);
	r->arg = s->create ? r : NULL;
	if (q)
		route_queue_get(r, q);
	else
		request_error(r, 503, "fate_unknown", "queue",
			      "the queue was stored, but this daemon has no memory for it");
	end_setting(s);
}

/* @q: the queue, if there is one */
static void store_settings(struct request *r, const struct queue_settings *settings,
			   const struct queue *q, bool create)
{
	struct setting *s = calloc(1, sizeof(*s));
	struct args a = { .confirm = true };
	char key[160];

	if (!s)
		abort();
	s->request = r;
	s->settings = *settings;
	s->create = create;
	s->text = json_text(queue_settings_to_store(settings, q ? q->stored : NULL), NULL);
	if (!s->text)
		abort();
	settings_args(&a, create, r->queue, s->text, QUEUES_MAX);
	store_script_on_key(r->daemon->store, SCRIPT_SETTINGS,
			    store_key(r->daemon->store, key, "queues"), &a, stored, s);
}

/*
 * In a cluster each lane has its own part of a limit. If a part would be below 1, answers the
 * request and returns true.
 */
static bool lacks_parts(struct request *r, const struct queue_settings *s)
{
	const char *field = NULL;

	if (r->daemon->config.redis.kind != REDIS_CLUSTER)
		return false;
	if (s->concurrency && s->concurrency < s->lanes)
		field = "concurrency";
	else if (s->rate.limit && s->rate.burst < s->lanes)
		field = "rate.burst";
	if (field)
		request_error(r, 400, "invalid", field,
			      "in a cluster the limit is divided among the lanes, so it must be at "
			      "least %u", s->lanes);
	return field;
}

static void know_queue(void *arg, struct queue *q, enum store_result result, bool newer)
{
	struct request *r = arg;
	struct queue_settings settings;
	struct api_error err;
	bool lost = false;

	if (newer) {
		request_newer(r, "queue");
		return;
	}
	/* Redis has lost the queue. */
	if (!q && result == STORE_OK) {
		q = queue_find(r->daemon, r->queue);
		lost = q;
	}
	if (!q && result != STORE_OK) {
		request_store_error(r, result);
		return;
	}
	if (q)
		settings = q->settings;
	else
		queue_settings_default(&settings);
	if (queue_settings_parse(r->body ? r->body : "", r->len, &settings, &err))
		request_fail(r, &err);
	else if (q && settings.lanes != q->settings.lanes)
		request_error(r, 400, "invalid", "lanes",
			      "the number of lanes is set when the queue is created, and cannot be "
			      "changed later");
	else if (q && settings.mode != q->settings.mode)
		request_error(r, 400, "invalid", "mode",
			      "the mode is set when the queue is created, and cannot be changed later");
	else if (!lacks_parts(r, &settings))
		store_settings(r, &settings, q, !q || lost);
}

void route_queue_put(struct request *r)
{
	/*
	 * Another daemon may have changed the queue. If that one is newer, this daemon cannot read
	 * all settings and would lose some.
	 */
	if (!store_up(r->daemon->store))
		request_store_error(r, STORE_DOWN);
	else
		queue_load(r->daemon, r->queue, know_queue, r);
}

/* ---- Replay ---- */

/**
 * struct replaying - dead tasks that are being replayed, lane by lane
 * @request: the request
 * @queue: its queue
 * @limit: maximum number of tasks
 * @lane: that is being replayed
 * @after: where in the lane
 * @asked: tasks that were to be replayed so far
 * @replayed: those that were
 * @left: of the last ones, those without an answer
 * @gone: the client is
 * @result: of all commands so far
 */
struct replaying {
	struct request *request;
	struct queue *queue;
	unsigned int limit;
	unsigned int lane;
	struct place after;
	unsigned int asked;
	unsigned int replayed;
	unsigned int left;
	bool gone;
	enum store_result result;
};

static void replay_lane(struct replaying *p);

static void replay_done(struct replaying *p)
{
	if (p->result == STORE_OK && !p->gone && p->asked < p->limit &&
	    p->lane < p->queue->settings.lanes) {
		replay_lane(p);
		return;
	}
	if (p->result != STORE_OK && !p->replayed)
		request_store_error(p->request, p->result);
	else
		request_answer(p->request, 200, json_pack("{s:i}", "replayed", p->replayed));
	census_again(p->queue);
	free(p);
}

static void replayed_one(void *arg, enum store_result result, const redisReply *reply)
{
	struct replaying *p = arg;
	struct change_answer a;

	if (result != STORE_OK)
		p->result = result;
	else if (change_answer(reply, &a) && a.found && a.state == TASK_DEAD)
		p->replayed++;
	if (!--p->left)
		replay_done(p);
}

static void replay_listed(void *arg, enum store_result result, const redisReply *reply)
{
	struct replaying *p = arg;
	unsigned int n = result == STORE_OK ? look_list_items(reply) : 0, looked = 0;
	unsigned int lane = p->lane, wanted = p->limit - p->asked;

	if (result != STORE_OK)
		p->result = result;
	else if (!look_list_place(reply, &looked, &p->after))
		p->result = STORE_REFUSED;
	p->left = 1;
	for (unsigned int i = 1; i <= n; i++) {
		char id[TASK_ID_MAX + 1];
		struct task_view view;
		struct args a = { .confirm = true };

		if (!look_answer_item(reply, i, id, &view))
			continue;
		change_args(&a, id, CHANGE_REPLAY, false, 0);
		p->left++;
		p->asked++;
		store_script(p->request->daemon->store, SCRIPT_CHANGE, p->queue->name, lane, &a,
			     replayed_one, p);
	}
	/* A lane that has more is asked again. */
	if (looked < (wanted < LOOK_MAX ? wanted : LOOK_MAX)) {
		p->lane++;
		p->after.id[0] = '\0';
	}
	if (!--p->left)
		replay_done(p);
}

static void replay_lane(struct replaying *p)
{
	struct args a = { 0 };

	look_list_args(&a, TASK_DEAD, p->limit - p->asked, &p->after);
	store_script(p->request->daemon->store, SCRIPT_LOOK, p->queue->name, p->lane, &a,
		     replay_listed, p);
}

static void replay_left(struct request *r)
{
	((struct replaying *)r->arg)->gone = true;
}

struct replay_read {
	unsigned int limit;
	bool has_limit;
	struct api_error err;
};

static bool read_limit(void *arg, const char *name, const char *value)
{
	struct replay_read *read = arg;

	if (strcmp(name, "limit"))
		return !api_error_set(&read->err, 400, "invalid", name, "unknown parameter");
	if (read->has_limit)
		return !api_error_set(&read->err, 400, "invalid", name, "is given twice");
	read->has_limit = true;
	return !limit_parse(value, REPLAY_MAX, &read->limit, &read->err);
}

void route_queue_replay(struct request *r, struct queue *q)
{
	struct replay_read read = { .limit = REPLAY_DEFAULT };
	struct replaying *p;

	request_each_query(r, read_limit, &read);
	if (read.err.status) {
		request_fail(r, &read.err);
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		abort();
	p->request = r;
	p->queue = q;
	p->limit = read.limit;
	r->arg = p;
	r->gone = replay_left;
	request_watch(r);
	replay_lane(p);
}
