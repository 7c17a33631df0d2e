// SPDX-License-Identifier: GPL-2.0
/* Routes of tasks. See api.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/units.h"
#include "http/api.h"
#include "redis/script.h"
#include "redis/store.h"
#include "text/query.h"
#include "work/lane.h"
#include "work/put.h"
#include "work/recall.h"

/* ---- Put ---- */

/**
 * struct making - a request that makes tasks
 * @request: the request
 * @tasks: what it asks for
 * @answer: one for each task
 * @left: tasks without an answer
 */
struct making {
	struct request *request;
	struct task_request tasks;
	struct put_result *answer;
	size_t left;
};

/**
 * struct making_one - one of its tasks
 */
struct making_one {
	struct making *making;
	size_t index;
};

static const char *put_message(const char *code)
{
	if (!strcmp(code, "exists"))
		return "a task with this id exists";
	if (!strcmp(code, "busy"))
		return "the queue is being removed; the task is not accepted";
	if (!strcmp(code, "newer"))
		return "a newer twheeld stored the task with this id, so this daemon does not "
		       "change it: ask a newer daemon";
	if (!strcmp(code, "queue_full"))
		return "the lane has reached its maximum number of tasks";
	if (!strcmp(code, "store_full"))
		return "Redis has no memory left; the task is not accepted";
	if (!strcmp(code, "fate_unknown"))
		return "it may have been accepted: repeat it with the same id and if_exists keep";
	return "Redis cannot be reached, or refused it; the task is not accepted";
}

static void put_error(struct api_error *err, const struct put_result *r, const char *field)
{
	api_error_set(err, r->status, r->error, field, "%s", put_message(r->error));
}

/* Returns the error of one task, or NULL. */
static const struct api_error *one_error(const struct task_item *item, const struct put_result *r,
					 struct api_error *err)
{
	if (item->err.status)
		return &item->err;
	if (!r->error)
		return NULL;
	put_error(err, r, NULL);
	return err;
}

static char *one_text(char *out, const struct task_item *item, const struct put_result *r)
{
	return task_put_text(out, item->spec.id, r->state, r->due_ms, r->version, r->result,
			     r->was);
}

/* Makes room for @more bytes at @at. */
static char *room_for(char **text, char *at, size_t *room, size_t more)
{
	size_t used = at - *text;

	if (used + more <= *room)
		return at;
	*room = 2 * *room + more;
	*text = realloc(*text, *room);
	if (!*text)
		abort();
	return *text + used;
}

static void answer_batch(struct making *m)
{
	size_t room = 64 + m->tasks.count * TASK_PUT_LEN / 2;
	char *text = malloc(room), *at;

	if (!text)
		abort();
	at = stpcpy(text, "{\"tasks\":[");
	for (size_t i = 0; i < m->tasks.count; i++) {
		const struct task_item *item = &m->tasks.item[i];
		const struct put_result *r = &m->answer[i];
		const struct api_error *error;
		struct api_error err;
		char *why;

		error = one_error(item, r, &err);
		why = error ? json_text(api_error_to_json(error), NULL) : NULL;
		at = room_for(&text, at, &room, (why ? strlen(why) : TASK_PUT_LEN) + 8);
		if (i)
			*at++ = ',';
		if (error)
			at = stpcpy(at, why ? why : "null");
		else
			at = one_text(at, item, r);
		free(why);
	}
	at = stpcpy(at, "]}");
	request_json(m->request, 200, text, at - text);
}

static void answer_one(struct making *m)
{
	struct put_result *r = &m->answer[0];
	struct api_error err;
	char *text;

	if (r->error) {
		put_error(&err, r, r->status == 409 ? "id" : NULL);
		request_fail(m->request, &err);
		return;
	}
	text = malloc(TASK_PUT_LEN);
	if (!text)
		abort();
	request_json(m->request, r->status, text,
		     one_text(text, &m->tasks.item[0], r) - text);
}

static void answer_making(struct making *m)
{
	if (m->tasks.batch)
		answer_batch(m);
	else
		answer_one(m);
	task_request_free(&m->tasks);
	free(m->answer);
	free(m);
}

static void made(void *arg, const struct put_result *result)
{
	struct making_one *one = arg;
	struct making *m = one->making;

	m->answer[one->index] = *result;
	free(one);
	if (!--m->left)
		answer_making(m);
}

void route_task_make(struct request *r, struct queue *q)
{
	struct task_request tasks;
	struct api_error err;
	struct making *m;

	if (task_request_parse(r->body ? r->body : "", r->len, r->id, &q->settings, &tasks, &err)) {
		request_fail(r, &err);
		return;
	}
	m = calloc(1, sizeof(*m));
	if (!m)
		abort();
	m->request = r;
	m->tasks = tasks;
	m->answer = calloc(tasks.count + 1, sizeof(*m->answer));
	if (!m->answer)
		abort();
	/* Count one more, so that the answer is not sent before the last task was begun. */
	m->left = 1;
	for (size_t i = 0; i < tasks.count; i++) {
		struct making_one *one;

		if (m->tasks.item[i].err.status)
			continue;
		one = malloc(sizeof(*one));
		if (!one)
			abort();
		one->making = m;
		one->index = i;
		m->left++;
		put_task(q, &m->tasks.item[i].spec, made, one);
	}
	if (!--m->left)
		answer_making(m);
}

/* ---- Get, list ---- */

static void got_task(void *arg, enum store_result result, const redisReply *reply)
{
	struct request *r = arg;
	char id[TASK_ID_MAX + 1];
	struct task_view view;

	if (result != STORE_OK) {
		request_store_error(r, result);
		return;
	}
	if (look_answer_newer(reply, 0)) {
		request_newer(r, "id");
		return;
	}
	if (!look_answer_items(reply) || !look_answer_item(reply, 0, id, &view)) {
		request_error(r, 404, "not_found", "id", "there is no such task");
		return;
	}
	view.queue = r->queue;
	request_answer(r, 200, task_view_to_json(&view));
}

void route_task_get(struct request *r, struct queue *q)
{
	struct args a = { 0 };

	look_get_args(&a, r->id);
	store_script(r->daemon->store, SCRIPT_LOOK, q->name, queue_lane(q, r->id)->index, &a,
		     got_task, r);
}

/**
 * struct listing - a list, as it grows lane by lane
 * @request: the request
 * @queue: its queue
 * @query: what it asks for
 * @lane: that is being asked
 * @after: where in the lane
 * @tasks: found so far
 * @newer: those that a newer version stored, which are not listed
 */
struct listing {
	struct request *request;
	struct queue *queue;
	struct list_query query;
	unsigned int lane;
	struct place after;
	json_t *tasks;
	unsigned int newer;
};

static void list_lane(struct listing *l);

static void listed(void *arg, enum store_result result, const redisReply *reply)
{
	struct listing *l = arg;
	unsigned int n = result == STORE_OK ? look_list_items(reply) : 0;
	unsigned int asked = l->query.limit - json_array_size(l->tasks), looked;
	char cursor[LIST_CURSOR_LEN];
	json_t *answer;

	if (result != STORE_OK || !look_list_place(reply, &looked, &l->after)) {
		request_store_error(l->request, result == STORE_OK ? STORE_REFUSED : result);
		json_decref(l->tasks);
		free(l);
		return;
	}
	for (unsigned int i = 1; i <= n; i++) {
		char id[TASK_ID_MAX + 1];
		struct task_view view;

		l->newer += look_answer_newer(reply, i);
		if (!look_answer_item(reply, i, id, &view))
			continue;
		view.queue = l->queue->name;
		json_array_append_new(l->tasks, task_view_to_json(&view));
	}
	if (looked < asked && l->lane + 1 < l->queue->settings.lanes) {
		l->lane++;
		l->after.id[0] = '\0';
		list_lane(l);
		return;
	}
	answer = json_pack("{s:o}", "tasks", l->tasks);
	if (l->newer)
		json_object_set_new(answer, "newer", json_integer(l->newer));
	if (looked == asked) {
		list_cursor_text(cursor, l->lane, l->after.score, l->after.id);
		json_object_set_new(answer, "cursor", json_string(cursor));
	}
	request_answer(l->request, 200, answer);
	free(l);
}

static void list_lane(struct listing *l)
{
	struct args a = { 0 };

	look_list_args(&a, l->query.state, l->query.limit - json_array_size(l->tasks), &l->after);
	store_script(l->request->daemon->store, SCRIPT_LOOK, l->queue->name, l->lane, &a,
		     listed, l);
}

struct list_read {
	struct list_query *query;
	struct api_error err;
};

static bool read_query(void *arg, const char *name, const char *value)
{
	struct list_read *read = arg;

	return !list_query_set(read->query, name, value, &read->err);
}

void route_task_list(struct request *r, struct queue *q)
{
	struct listing *l = calloc(1, sizeof(*l));
	struct list_read read = { 0 };

	if (!l)
		abort();
	l->request = r;
	l->queue = q;
	list_query_default(&l->query);
	read.query = &l->query;
	request_each_query(r, read_query, &read);
	if (!read.err.status && l->query.cursor[0] &&
	    (!list_cursor_parse(l->query.cursor, &l->lane, &l->after.score, l->after.id) ||
	     l->lane >= q->settings.lanes))
		api_error_set(&read.err, 400, "invalid", "cursor",
			      "the cursor is not one that a list has returned");
	if (read.err.status) {
		request_fail(r, &read.err);
		free(l);
		return;
	}
	l->tasks = json_array();
	list_lane(l);
}

/* ---- Change ---- */

/**
 * struct changing - a cancel, move, run or replay
 */
struct changing {
	struct request *request;
	struct lane *lane;
	enum change_verb verb;
	struct change_answer answer;
};

static void say_moved(struct changing *c)
{
	struct change_answer *a = &c->answer;
	char *text, *end;

	lane_wake(c->lane, a->due_ms);
	text = malloc(TASK_PUT_LEN);
	if (!text)
		abort();
	end = task_put_text(text, c->request->id, TASK_SCHEDULED, a->due_ms, a->version,
			    c->verb == CHANGE_REPLAY ? "replayed" : "moved", NULL);
	request_json(c->request, 200, text, end - text);
}

static void say_leased(struct changing *c, int status)
{
	if (status == 202)
		request_answer(c->request, 202, json_pack("{s:s,s:s}", "id", c->request->id,
							  "state", "leased"));
	else
		request_error(c->request, 409, "leased", "id", "an attempt has begun");
}

static void say_canceled(struct changing *c, enum task_state was)
{
	request_answer(c->request, 200, json_pack("{s:s,s:s}", "id", c->request->id,
						  "state", task_state_name(was)));
}

static void recalled(void *arg, enum recall_verdict verdict)
{
	struct changing *c = arg;

	if (verdict == RECALL_YES && c->verb == CHANGE_CANCEL)
		say_canceled(c, TASK_SCHEDULED);
	else if (verdict == RECALL_YES)
		say_moved(c);
	else
		say_leased(c, c->verb == CHANGE_CANCEL || verdict == RECALL_SILENT ? 202 : 409);
	free(c);
}

static void handle_leased(struct changing *c)
{
	static const enum recall_verb verbs[] = {
		[CHANGE_CANCEL] = RECALL_CANCEL,
		[CHANGE_MOVE] = RECALL_MOVE,
		[CHANGE_RUN] = RECALL_RUN,
	};
	struct change_answer *a = &c->answer;

	if (c->verb == CHANGE_REPLAY) {
		request_error(c->request, 409, "leased", "id", "only a dead task can be replayed");
		free(c);
		return;
	}
	if (a->ahead) {
		recall_ask(c->lane, c->request->id, a->holder, a->token, verbs[c->verb], a->due_ms,
			   recalled, c);
		return;
	}
	say_leased(c, c->verb == CHANGE_CANCEL ? 202 : 409);
	free(c);
}

static void changed(void *arg, enum store_result result, const redisReply *reply)
{
	struct changing *c = arg;
	struct change_answer *a = &c->answer;

	if (result != STORE_OK || !change_answer(reply, a)) {
		request_store_error(c->request, result);
	} else if (a->newer) {
		request_newer(c->request, "id");
	} else if (!a->found) {
		request_error(c->request, 404, "not_found", "id", "there is no such task");
	} else if (a->state == TASK_LEASED) {
		handle_leased(c);
		return;
	} else if (c->verb == CHANGE_CANCEL) {
		say_canceled(c, a->state);
	} else if (c->verb == CHANGE_REPLAY && a->state != TASK_DEAD) {
		request_error(c->request, 409, "exists", "id", "only a dead task can be replayed");
	} else {
		say_moved(c);
	}
	free(c);
}

static void change(struct request *r, struct queue *q, enum change_verb verb,
		   const struct task_move *move)
{
	struct changing *c = calloc(1, sizeof(*c));
	struct args a = { .confirm = true };

	if (!c)
		abort();
	c->request = r;
	c->lane = queue_lane(q, r->id);
	c->verb = verb;
	change_args(&a, r->id, verb, move && move->when == TASK_IN, move ? move->time_ms : 0);
	store_script(r->daemon->store, SCRIPT_CHANGE, q->name, c->lane->index, &a, changed, c);
}

void route_task_cancel(struct request *r, struct queue *q)
{
	change(r, q, CHANGE_CANCEL, NULL);
}

void route_task_move(struct request *r, struct queue *q)
{
	struct task_move move;
	struct api_error err;

	if (task_move_parse(r->body ? r->body : "", r->len, &move, &err))
		request_fail(r, &err);
	else
		change(r, q, CHANGE_MOVE, &move);
}

void route_task_run(struct request *r, struct queue *q)
{
	change(r, q, CHANGE_RUN, NULL);
}

void route_task_replay(struct request *r, struct queue *q)
{
	change(r, q, CHANGE_REPLAY, NULL);
}
