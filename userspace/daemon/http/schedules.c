// SPDX-License-Identifier: GPL-2.0
/* Routes of schedules. See api.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/api.h"
#include "redis/store.h"
#include "text/query.h"
#include "work/put.h"
#include "work/schedule.h"

#define NEXT_DEFAULT	10
#define NEXT_MAX	1000
/* How often a change is tried again because another one came first. */
#define TRIES		10

/* ---- Answers ---- */

static json_t *definition_of(const struct record *r)
{
	json_t *o = json_loadb(r->definition, r->definition_len, 0, NULL);

	return o ? o : json_object();
}

static json_t *schedule_to_json(const char *queue, const char *name, const struct record *r,
				uint64_t now_ms)
{
	json_t *o = definition_of(r);
	bool ahead = r->state == RECORD_ENABLED && r->next != SCHEDULE_NEVER &&
		     (!r->made || r->next > now_ms);

	json_object_set_new(o, "schedule", json_string(name));
	json_object_set_new(o, "queue", json_string(queue));
	json_object_set_new(o, "enabled", json_boolean(r->state == RECORD_ENABLED));
	json_object_set_new(o, "runs", json_integer((json_int_t)(r->runs - (ahead && r->made))));
	if (ahead)
		json_object_set_new(o, "next", json_integer((json_int_t)r->next));
	return o;
}

static bool name_is_valid(struct request *r)
{
	if (schedule_name_valid(r->id))
		return true;
	request_error(r, 400, "invalid", "schedule", "the name of a schedule consists of "
		      SCHEDULE_NAME_TEXT);
	return false;
}

static void say_absent(struct request *r)
{
	request_error(r, 404, "not_found", "schedule", "there is no such schedule");
}

/* ---- Read a record ---- */

/**
 * struct reading - a request that waits for the record of its schedule
 * @request: the request
 * @queue: its queue
 * @fn: called with the record
 * @arg: for @fn
 */
typedef void record_fn(struct request *r, struct queue *q, const struct record *record,
		       void *arg);
struct reading {
	struct request *request;
	struct queue *queue;
	record_fn *fn;
	void *arg;
};

/* If there is no record to read, answers the request and passes NULL to @fn. */
static void record_read(void *arg, enum store_result result, const redisReply *reply)
{
	struct reading *rd = arg;
	struct request *r = rd->request;
	const struct record *found = NULL;
	struct record record;

	if (result != STORE_OK)
		request_store_error(r, result);
	else if (reply->type != REDIS_REPLY_STRING)
		say_absent(r);
	else if (!record_parse(reply->str, reply->len, &record))
		request_newer(r, "schedule");
	else if (record.state == RECORD_DELETED)
		say_absent(r);
	else
		found = &record;
	rd->fn(r, rd->queue, found, rd->arg);
	free(rd);
}

static void read_record(struct request *r, struct queue *q, record_fn *fn, void *arg)
{
	struct reading *rd = calloc(1, sizeof(*rd));
	char field[SCHEDULE_FIELD_LEN], key[160];
	struct args a = { 0 };

	if (!rd)
		abort();
	rd->request = r;
	rd->queue = q;
	rd->fn = fn;
	rd->arg = arg;
	schedule_field(field, q->name, r->id);
	args_text(&a, "HGET");
	args_text(&a, store_key(r->daemon->store, key, "schedules"));
	args_text(&a, field);
	store_command(r->daemon->store, key, &a, record_read, rd);
}

/* Reads the definition in a record. Returns false and an answer if this version cannot. */
static bool read_definition(struct request *r, const struct queue *q, const struct record *record,
			    struct schedule_spec *spec)
{
	char *text = strndup(record->definition, record->definition_len);
	struct api_error err;
	int ret;

	if (!text)
		abort();
	ret = schedule_parse(text, record->definition_len, &q->settings, spec, &err);
	free(text);
	if (ret)
		request_error(r, 409, "newer", "schedule", "this twheeld cannot read what was stored: "
			      "%s: %s", err.field, err.message);
	return !ret;
}

/* ---- Make, change ---- */

/**
 * struct defining - a schedule that is being made or changed
 * @request: the request
 * @queue: its queue
 * @patch: what a change puts over the definition that is there; NULL: a new definition
 * @tries: how often it was tried
 */
struct defining {
	struct request *request;
	struct queue *queue;
	json_t *patch;
	unsigned int tries;
};

static void changes(struct request *r, struct queue *q, const struct record *record, void *arg);

static void end_defining(struct defining *df)
{
	json_decref(df->patch);
	free(df);
}

static void tell(struct daemon *d, const char *queue, const char *name)
{
	char field[SCHEDULE_FIELD_LEN], text[SCHEDULE_FIELD_LEN + 16];

	schedule_field(field, queue, name);
	snprintf(text, sizeof(text), "schedule %s", field);
	work_publish(d, "changed", text);
	schedule_look(d, field);
}

static void defined(void *arg, enum store_result result, const redisReply *reply)
{
	struct defining *df = arg;
	struct request *r = df->request;
	const redisReply *text;
	enum record_result what;
	struct record record;

	if (result != STORE_OK || !record_answer(reply, &what, &text)) {
		request_store_error(r, result);
	} else if (what == RECORD_RACED && ++df->tries < TRIES) {
		read_record(r, df->queue, changes, df);
		return;
	} else if (what == RECORD_RACED) {
		request_error(r, 409, "raced", "schedule",
			      "other requests kept changing the schedule: try again");
	} else if (what == RECORD_ABSENT) {
		say_absent(r);
	} else if (what == RECORD_MANY) {
		request_error(r, 429, "queue_full", "schedule", "there are %d schedules already",
			      SCHEDULES_MAX);
	} else if (what == RECORD_NEWER || !text || !record_parse(text->str, text->len, &record)) {
		request_newer(r, "schedule");
	} else {
		if (what != RECORD_SAME)
			tell(r->daemon, df->queue->name, r->id);
		request_answer(r, what == RECORD_CREATED ? 201 : 200,
			       schedule_to_json(df->queue->name, r->id, &record,
						work_now_ms(r->daemon)));
	}
	end_defining(df);
}

/* @definition: as stored. */
static void define(struct defining *df, const struct schedule_spec *spec, const char *definition,
		   uint64_t generation)
{
	struct request *r = df->request;
	char field[SCHEDULE_FIELD_LEN], key[160];
	struct args a = { 0 };

	schedule_field(field, df->queue->name, r->id);
	record_define_args(&a, field, generation, spec->enabled,
			   schedule_next(spec, work_now_ms(r->daemon)), definition);
	store_script_on_key(r->daemon->store, SCRIPT_SCHEDULE,
			    store_key(r->daemon->store, key, "schedules"), &a, defined, df);
}

static struct defining *begin_defining(struct request *r, struct queue *q)
{
	struct defining *df = calloc(1, sizeof(*df));

	if (!df)
		abort();
	df->request = r;
	df->queue = q;
	return df;
}

void route_schedule_put(struct request *r, struct queue *q)
{
	const char *body = r->body ? r->body : "";
	struct schedule_spec spec;
	struct api_error err;
	char *text;

	if (!name_is_valid(r))
		return;
	if (schedule_parse(body, r->len, &q->settings, &spec, &err)) {
		request_fail(r, &err);
		return;
	}
	text = schedule_text(body, r->len, NULL);
	if (!text)
		abort();
	define(begin_defining(r, q), &spec, text, 0);
	free(text);
	schedule_free_spec(&spec);
}

static void changes(struct request *r, struct queue *q, const struct record *record, void *arg)
{
	struct defining *df = arg;
	json_t *enabled = json_object_get(df->patch, "enabled");
	struct schedule_spec spec;
	struct api_error err;
	char *text;

	if (!record) {
		end_defining(df);
		return;
	}
	text = schedule_text(record->definition, record->definition_len, df->patch);
	if (!text) {
		/* What is stored is no object. */
		request_newer(r, "schedule");
		end_defining(df);
		return;
	}
	if (schedule_parse(text, strlen(text), &q->settings, &spec, &err)) {
		/* Report the error of the change, unless the old definition cannot be read. */
		if (read_definition(r, q, record, &spec)) {
			schedule_free_spec(&spec);
			request_fail(r, &err);
		}
		end_defining(df);
	} else {
		spec.enabled = enabled ? json_is_true(enabled) : record->state == RECORD_ENABLED;
		define(df, &spec, text, record->generation);
		schedule_free_spec(&spec);
	}
	free(text);
}

static void patch(struct request *r, struct queue *q, json_t *with)
{
	struct defining *df = begin_defining(r, q);

	df->patch = with;
	read_record(r, q, changes, df);
}

void route_schedule_change(struct request *r, struct queue *q)
{
	struct api_error err;
	json_t *with;

	if (!name_is_valid(r))
		return;
	with = schedule_patch(r->body ? r->body : "", r->len, &err);
	if (with)
		patch(r, q, with);
	else
		request_fail(r, &err);
}

void route_schedule_enable(struct request *r, struct queue *q)
{
	if (name_is_valid(r))
		patch(r, q, json_pack("{s:b}", "enabled", 1));
}

void route_schedule_disable(struct request *r, struct queue *q)
{
	if (name_is_valid(r))
		patch(r, q, json_pack("{s:b}", "enabled", 0));
}

/* ---- Delete ---- */

static void deleted(void *arg, enum store_result result, const redisReply *reply)
{
	struct request *r = arg;
	const redisReply *text;
	enum record_result what;

	if (result != STORE_OK || !record_answer(reply, &what, &text)) {
		request_store_error(r, result);
	} else if (what == RECORD_NEWER) {
		request_newer(r, "schedule");
	} else if (what == RECORD_ABSENT) {
		say_absent(r);
	} else {
		tell(r->daemon, r->queue, r->id);
		request_answer(r, 200, json_pack("{s:s,s:s}", "schedule", r->id, "result",
						 "deleted"));
	}
}

void route_schedule_delete(struct request *r, struct queue *q)
{
	char field[SCHEDULE_FIELD_LEN], key[160];
	struct args a = { 0 };

	if (!name_is_valid(r))
		return;
	schedule_field(field, q->name, r->id);
	record_delete_args(&a, field);
	store_script_on_key(r->daemon->store, SCRIPT_SCHEDULE,
			    store_key(r->daemon->store, key, "schedules"), &a, deleted, r);
}

/* ---- Show ---- */

static void show(struct request *r, struct queue *q, const struct record *record, void *arg)
{
	(void)arg;
	if (record)
		request_answer(r, 200, schedule_to_json(q->name, r->id, record,
							work_now_ms(r->daemon)));
}

void route_schedule_get(struct request *r, struct queue *q)
{
	if (name_is_valid(r))
		read_record(r, q, show, NULL);
}

struct number_read {
	const char *name;
	unsigned int max;
	unsigned int value;
	bool seen;
	const char *cursor;
	struct api_error err;
};

static bool read_number(void *arg, const char *name, const char *value)
{
	struct number_read *read = arg;

	if (read->cursor && !strcmp(name, "cursor")) {
		if (value && !schedule_name_valid(value))
			return !api_error_set(&read->err, 400, "invalid", name,
					      "the cursor is not one that a list has returned");
		read->cursor = value ? value : "";
		return true;
	}
	if (strcmp(name, read->name))
		return !api_error_set(&read->err, 400, "invalid", name, "unknown parameter");
	if (read->seen)
		return !api_error_set(&read->err, 400, "invalid", name, "is given twice");
	read->seen = true;
	if (!limit_parse(value, read->max, &read->value, &read->err))
		return true;
	snprintf(read->err.field, sizeof(read->err.field), "%s", name);
	return false;
}

/* ---- The next runs ---- */

/*
 * How long the runs of a schedule are looked for before others have their turn, and how long the
 * others have. All runs of a rule that rarely names a day take 40 ms.
 */
#define TURN		NSEC_PER_MSEC

/**
 * struct next_runs - a request for the next runs of a schedule
 * @request: the request
 * @spec: the schedule
 * @run: the next one; SCHEDULE_NEVER: there are no more
 * @left: how many are to be shown
 * @list: those that were found
 * @timer: for its next turn, if it is the first of those that wait
 * @next: in daemon.next_runs
 */
struct next_runs {
	struct request *request;
	struct schedule_spec spec;
	uint64_t run;
	uint64_t left;
	json_t *list;
	struct alarm timer;
	struct next_runs *next;
};

static void find_runs(struct next_runs *c);

static void end_next_runs(struct next_runs *c)
{
	struct daemon *d = c->request->daemon;

	request_answer(c->request, 200, json_pack("{s:s,s:o}", "schedule", c->request->id,
						  "next", c->list));
	alarm_disarm(d->alarms, &c->timer);
	LL_DELETE(d->next_runs, c);
	schedule_free_spec(&c->spec);
	free(c);
	c = d->next_runs;
	if (c && alarm_arm(d->alarms, &c->timer, alarms_now(d->alarms) + TURN))
		find_runs(c);
}

static void add_run(struct next_runs *c)
{
	json_int_t at = c->run, due = schedule_due(&c->spec, c->request->id, c->run);
	char id[TASK_ID_MAX + 1];

	schedule_run_id(id, c->request->id, c->run);
	json_array_append_new(c->list, json_pack("{s:s,s:I,s:I}", "id", id, "at", at, "due", due));
}

/* Called for the first of those that wait. */
static void find_runs(struct next_runs *c)
{
	struct alarms *alarms = c->request->daemon->alarms;
	uint64_t end = alarms_now(alarms) + TURN;

	for (; c->left && c->run != SCHEDULE_NEVER; c->left--) {
		uint64_t now = alarms_now(alarms);

		/* Without memory for a timer, go on. */
		if (now > end && !alarm_arm(alarms, &c->timer, now + TURN))
			return;
		add_run(c);
		c->run = schedule_next(&c->spec, c->run);
	}
	end_next_runs(c);
}

static void next_turn(struct alarm *a, uint64_t now)
{
	(void)now;
	find_runs(container_of(a, struct next_runs, timer));
}

static void show_next(struct request *r, struct queue *q, const struct record *record, void *arg)
{
	uint64_t now = work_now_ms(r->daemon), left, count = (uintptr_t)arg;
	struct daemon *d = r->daemon;
	struct next_runs *c;

	if (!record)
		return;
	c = calloc(1, sizeof(*c));
	if (!c)
		abort();
	if (!read_definition(r, q, record, &c->spec)) {
		free(c);
		return;
	}
	c->request = r;
	c->list = json_array();
	c->timer.fn = next_turn;
	c->run = record->next;
	left = c->spec.max ? c->spec.max - (record->runs < c->spec.max ? record->runs :
					    c->spec.max) : NEXT_MAX;
	if (c->run != SCHEDULE_NEVER && record->made && c->run <= now)
		c->run = schedule_next(&c->spec, now);
	else if (record->made)
		left++;
	if (record->state == RECORD_ENABLED && record->next != SCHEDULE_NEVER)
		c->left = left < count ? left : count;
	LL_APPEND(d->next_runs, c);
	if (d->next_runs == c)
		find_runs(c);
}

void route_schedule_next(struct request *r, struct queue *q)
{
	struct number_read read = { .name = "n", .max = NEXT_MAX, .value = NEXT_DEFAULT };

	if (!name_is_valid(r))
		return;
	request_each_query(r, read_number, &read);
	if (read.err.status)
		request_fail(r, &read.err);
	else
		read_record(r, q, show_next, (void *)(uintptr_t)read.value);
}

/* ---- List ---- */

/**
 * struct listing - schedules of a queue that are being listed, in the order of their names
 * @request: the request
 * @queue: its queue
 * @limit: maximum number of schedules
 * @after: the last of the list before
 * @count: how many are asked for
 * @more: there are more after these
 * @field: theirs
 */
struct listing {
	struct request *request;
	struct queue *queue;
	unsigned int limit;
	char after[SCHEDULE_FIELD_LEN];
	size_t count;
	bool more;
	char (*field)[SCHEDULE_FIELD_LEN];
};

static void list_failed(struct listing *l, enum store_result result)
{
	request_store_error(l->request, result);
	free(l->field);
	free(l);
}

static void list_records(void *arg, enum store_result result, const redisReply *reply)
{
	struct listing *l = arg;
	struct request *r = l->request;
	const char *queue = l->queue->name;
	uint64_t now = work_now_ms(r->daemon);
	size_t skip = strlen(queue) + 1;
	unsigned int newer = 0;
	json_t *list, *answer;

	if (result != STORE_OK || reply->type != REDIS_REPLY_ARRAY ||
	    reply->elements != l->count) {
		list_failed(l, result);
		return;
	}
	list = json_array();
	for (size_t i = 0; i < l->count; i++) {
		const redisReply *text = reply->element[i];
		struct record record;

		/* It was removed in the meantime. */
		if (text->type != REDIS_REPLY_STRING)
			continue;
		if (!record_parse(text->str, text->len, &record))
			newer++;
		else if (record.state != RECORD_DELETED)
			json_array_append_new(list, schedule_to_json(queue, l->field[i] + skip,
								     &record, now));
	}
	answer = json_pack("{s:o}", "schedules", list);
	if (newer)
		json_object_set_new(answer, "newer", json_integer(newer));
	if (l->more)
		json_object_set_new(answer, "cursor",
				    json_string(l->field[l->count - 1] + skip));
	request_answer(r, 200, answer);
	free(l->field);
	free(l);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void list_names(void *arg, enum store_result result, const redisReply *reply)
{
	struct listing *l = arg;
	struct daemon *d = l->request->daemon;
	size_t skip = strlen(l->queue->name) + 1;
	char prefix[SCHEDULE_FIELD_LEN], key[160];
	struct args a = { 0 };

	if (result != STORE_OK || reply->type != REDIS_REPLY_ARRAY) {
		list_failed(l, result);
		return;
	}
	schedule_field(prefix, l->queue->name, "");
	l->field = calloc(reply->elements + 1, sizeof(*l->field));
	if (!l->field)
		abort();
	for (size_t i = 0; i < reply->elements; i++) {
		const redisReply *name = reply->element[i];

		if (name->type == REDIS_REPLY_STRING && name->len < SCHEDULE_FIELD_LEN &&
		    !strncmp(name->str, prefix, skip) && strcmp(name->str, l->after) > 0)
			strcpy(l->field[l->count++], name->str);
	}
	qsort(l->field, l->count, sizeof(*l->field), by_name);
	l->more = l->count > l->limit;
	if (l->more)
		l->count = l->limit;
	if (!l->count) {
		request_answer(l->request, 200, json_pack("{s:[]}", "schedules"));
		free(l->field);
		free(l);
		return;
	}
	args_text(&a, "HMGET");
	args_text(&a, store_key(d->store, key, "schedules"));
	for (size_t i = 0; i < l->count; i++)
		args_text(&a, l->field[i]);
	store_command(d->store, key, &a, list_records, l);
}

void route_schedule_list(struct request *r, struct queue *q)
{
	struct number_read read = {
		.name = "limit", .max = LIST_LIMIT_MAX, .value = LIST_LIMIT_DEFAULT, .cursor = "",
	};
	struct args a = { 0 };
	struct listing *l;
	char key[160];

	request_each_query(r, read_number, &read);
	if (read.err.status) {
		request_fail(r, &read.err);
		return;
	}
	l = calloc(1, sizeof(*l));
	if (!l)
		abort();
	l->request = r;
	l->queue = q;
	l->limit = read.value;
	schedule_field(l->after, q->name, read.cursor);
	args_text(&a, "HKEYS");
	args_text(&a, store_key(r->daemon->store, key, "schedules"));
	store_command(r->daemon->store, key, &a, list_names, l);
}

/* ---- Run now ---- */

static void ran(void *arg, const struct put_result *p)
{
	struct request *r = arg;
	char id[TASK_ID_MAX + 1], *text, *end;

	if (p->error) {
		request_error(r, p->status, p->error, NULL,
			      p->status == 503 ? "Redis did not confirm the run: try again" :
			      "the run was refused: try again later");
		return;
	}
	schedule_run_id(id, r->id, p->due_ms);
	text = malloc(TASK_PUT_LEN);
	if (!text)
		abort();
	end = task_put_text(text, id, p->state, p->due_ms, p->version, p->result, NULL);
	request_json(r, 201, text, end - text);
}

static void run_now(struct request *r, struct queue *q, const struct record *record, void *arg)
{
	uint64_t now = work_now_ms(r->daemon);
	struct schedule_spec spec;

	(void)arg;
	if (!record || !read_definition(r, q, record, &spec))
		return;
	spec.task.when = TASK_AT;
	spec.task.time_ms = now;
	spec.task.if_exists = IF_EXISTS_KEEP;
	schedule_run_id(spec.task.id, r->id, now);
	/* This moves the body out of the task. */
	put_task(q, &spec.task, ran, r);
	schedule_free_spec(&spec);
}

void route_schedule_run(struct request *r, struct queue *q)
{
	if (name_is_valid(r))
		read_record(r, q, run_now, NULL);
}
