// SPDX-License-Identifier: GPL-2.0
/*
 * A task: from a request, and as an answer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "../../shared/base64.h"
#include "text/field.h"
#include "text/spec.h"

#define EVERY_MIN_MS	100

static const char *const if_exists_names[] = {
	[IF_EXISTS_REPLACE] = "replace",
	[IF_EXISTS_KEEP] = "keep",
	[IF_EXISTS_FAIL] = "fail",
	[IF_EXISTS_UPDATE] = "update",
};

static const char *const late_names[] = {
	[LATE_RUN] = "run",
	[LATE_SKIP] = "skip",
	[LATE_DEAD] = "dead",
};

static const char *const state_names[TASK_STATES] = {
	[TASK_SCHEDULED] = "scheduled",
	[TASK_LEASED] = "leased",
	[TASK_DONE] = "done",
	[TASK_DEAD] = "dead",
};

const char *task_state_name(enum task_state state)
{
	return state_names[state];
}

bool task_state_find(const char *name, enum task_state *state)
{
	unsigned int i;

	for (i = 0; i < TASK_STATES; i++) {
		if (!strcmp(name, state_names[i])) {
			*state = i;
			return true;
		}
	}
	return false;
}

static bool is_word(const char *text, size_t max, const char *more)
{
	size_t len;

	for (len = 0; text[len]; len++) {
		char c = text[len];

		if (len == max)
			return false;
		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
		    !(c >= '0' && c <= '9') && !strchr(more, c))
			return false;
	}
	return len;
}

bool task_id_valid(const char *id)
{
	/* In a path, these two would have another meaning. */
	return is_word(id, TASK_ID_MAX, TASK_ID_MORE) && strcmp(id, ".") && strcmp(id, "..");
}

bool queue_name_valid(const char *name)
{
	return is_word(name, QUEUE_NAME_MAX, "_-");
}

static int make_id(struct fields *f, char id[TASK_ID_MAX + 1])
{
	uint64_t random[2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return field_error(f, 500, "internal", "id", "no random numbers are available");
	snprintf(id, TASK_ID_MAX + 1, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
	return 0;
}

static int read_id(struct fields *f, const char *path_id, struct task_spec *s)
{
	const char *id = path_id;

	if (field_string(f, "id", &id))
		return -1;
	if (!id)
		return make_id(f, s->id);
	if (!task_id_valid(id))
		return field_error(f, INVALID, "id", "must consist of " TASK_ID_TEXT);
	if (path_id && strcmp(id, path_id))
		return field_error(f, INVALID, "id", "differs from the id in the path");
	memcpy(s->id, id, strlen(id) + 1);
	return 0;
}

/* Reads "at", "in" or "in_ms". If there is none, leaves TASK_NOW. */
static int read_when(const struct fields *f, enum task_when *when, uint64_t *ms)
{
	bool at = json_object_get(f->obj, "at"), text = json_object_get(f->obj, "in");
	bool in = text || json_object_get(f->obj, "in_ms");

	if (at && in)
		return field_error(f, INVALID, text ? "in" : "in_ms",
				   "\"at\" and \"in\" cannot be used together");
	if (at)
		*when = TASK_AT;
	if (in)
		*when = TASK_IN;
	if (field_time(f, "at", ms) ||
	    field_either(f, "in", "in_ms", 0, TASK_AHEAD_MAX_MS, ms))
		return -1;
	return 0;
}

static int read_late(const struct fields *f, struct task_spec *s)
{
	static const char *const names[] = { "after", "then", NULL };
	struct fields late = { .at = "late." };
	unsigned int then = LATE_RUN;

	if (field_object(f, "late", &late))
		return -1;
	if (!late.obj)
		return 0;
	if (fields_only(&late, names) ||
	    field_duration(&late, "after", 1, TASK_AHEAD_MAX_MS, &s->late_after_ms) ||
	    field_choice(&late, "then", late_names, ARRAY_SIZE(late_names), &then))
		return -1;
	if (!s->late_after_ms)
		return field_error(&late, INVALID, "after", "is missing");
	if (!json_object_get(late.obj, "then"))
		return field_error(&late, INVALID, "then", "is missing");
	s->late_then = then;
	return 0;
}

/* Memory for the parts of a body while it is being read. */
struct parts {
	char header[BODY_HEADERS_BYTES];
	uint8_t *payload;
};

static int read_headers(const struct fields *cb, struct task_body *b, struct parts *parts)
{
	struct fields headers = { .at = "callback.headers." };
	const char *name, *why, *value;
	json_t *v;

	if (field_object(cb, "headers", &headers))
		return -1;
	b->header = parts->header;
	json_object_foreach((json_t *)headers.obj, name, v) {
		size_t room = sizeof(parts->header) - b->headers_len;
		int len;

		value = json_string_value(v);
		if (!value)
			return field_error(&headers, INVALID, name, "must be a string");
		why = header_refused(name, strlen(name), value, strlen(value));
		if (why)
			return field_error(&headers, INVALID, name, "%s", why);
		if (b->headers == BODY_HEADERS_MAX)
			return field_error(cb, INVALID, "headers", "must contain at most 32 headers");
		len = snprintf(parts->header + b->headers_len, room, "%s: %s", name, value);
		if (len < 0 || (size_t)len >= room)
			return field_error(cb, INVALID, "headers", "must not be longer than 8 KiB");
		b->headers_len += (size_t)len + 1;
		b->headers++;
	}
	return 0;
}

static int read_callback(const struct fields *f, enum queue_mode mode,
			 struct task_body *b, struct parts *parts)
{
	static const char *const methods[] = { "GET", "POST", "PUT", "PATCH", "DELETE" };
	static const char *const names[] = { "url", "method", "headers", NULL };
	struct fields cb = { .at = "callback." };
	unsigned int method = BODY_POST;
	const char *why;

	if (field_object(f, "callback", &cb))
		return -1;
	if (mode == QUEUE_PULL && cb.obj)
		return field_error(f, INVALID, "callback",
				   "workers pull from this queue; it takes no callback");
	if (mode == QUEUE_PUSH && !cb.obj)
		return field_error(f, INVALID, "callback",
				   "is missing; this queue calls URLs");
	if (!cb.obj)
		return 0;
	if (fields_only(&cb, names) || field_string(&cb, "url", &b->url) ||
	    field_choice(&cb, "method", methods, ARRAY_SIZE(methods), &method))
		return -1;
	if (!b->url)
		return field_error(&cb, INVALID, "url", "is missing");
	why = url_refused(b->url);
	if (why)
		return field_error(&cb, INVALID, "url", "%s", why);
	b->method = method;
	return read_headers(&cb, b, parts);
}

/* Returns a string in quotes if no character has to be escaped, or NULL for any other value. */
static char *quoted_plain(const json_t *v)
{
	const char *s = json_string_value(v);
	size_t len = json_string_length(v);
	char *text;

	if (!s)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = s[i];

		if (c < ' ' || c == '"' || c == '\\')
			return NULL;
	}
	text = malloc(len + 3);
	if (!text)
		return NULL;
	text[0] = '"';
	memcpy(text + 1, s, len);
	memcpy(text + 1 + len, "\"", 2);
	return text;
}

static int read_payload_json(const struct fields *f, const json_t *v, struct task_body *b,
			     struct parts *parts)
{
	char *text = quoted_plain(v);

	if (!text)
		text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY |
				  JSON_REAL_PRECISION(real_digits(v)));
	if (!text)
		return field_error(f, 500, "internal", "payload", "no memory");
	parts->payload = (uint8_t *)text;
	b->payload = parts->payload;
	b->payload_len = strlen(text);
	b->flags = BODY_HAS_PAYLOAD | BODY_JSON;
	if (b->payload_len > BODY_PAYLOAD_MAX)
		return field_error(f, TOO_LARGE, "payload", "has more than 64 KiB");
	return 0;
}

static int read_payload(const struct fields *f, struct task_body *b, struct parts *parts)
{
	const json_t *v = json_object_get(f->obj, "payload");
	const char *base64 = NULL, *why;

	if (field_string(f, "payload_base64", &base64))
		return -1;
	if (v && base64)
		return field_error(f, INVALID, "payload_base64",
				   "\"payload\" and \"payload_base64\" cannot be used together");
	if (v)
		return read_payload_json(f, v, b, parts);
	if (!base64)
		return 0;
	if (strlen(base64) > (BODY_PAYLOAD_MAX + 2) / 3 * 4)
		return field_error(f, TOO_LARGE, "payload_base64", "has more than 64 KiB");
	parts->payload = malloc(strlen(base64) + 1);
	if (!parts->payload)
		return field_error(f, 500, "internal", "payload_base64", "no memory");
	why = parse_base64(base64, strlen(base64), parts->payload, &b->payload_len);
	if (why)
		return field_error(f, INVALID, "payload_base64", "%s", why);
	b->payload = parts->payload;
	b->flags = BODY_HAS_PAYLOAD;
	if (b->payload_len > BODY_PAYLOAD_MAX)
		return field_error(f, TOO_LARGE, "payload_base64", "has more than 64 KiB");
	return 0;
}

/* Reads all fields of the stored body, and encodes it. */
static int read_body(const struct fields *f, const struct queue_settings *q,
		     struct task_spec *s, struct parts *parts)
{
	struct task_body b = { .method = BODY_POST, .retry = q->retry };
	uint64_t timeout = q->timeout_ms;

	if (read_callback(f, q->mode, &b, parts) || read_payload(f, &b, parts) ||
	    field_retry(f, "retry", &b.retry) ||
	    field_duration(f, "timeout", 1, TIMEOUT_MAX_MS, &timeout))
		return -1;
	b.timeout_ms = (uint32_t)timeout;
	s->limit = b.retry.limit;
	s->body_len = body_size(&b);
	s->body = malloc(s->body_len);
	if (!s->body)
		return field_error(f, 500, "internal", "", "no memory");
	body_encode(&b, s->body);
	return 0;
}

/* Reads one task. After an error, nothing in @s has to be freed. */
static int read_task(struct fields *f, const char *path_id, const struct queue_settings *q,
		     struct task_spec *s)
{
	static const char *const names[] = {
		"id", "at", "in", "in_ms", "if_exists", "callback", "payload", "payload_base64",
		"retry", "timeout", "every", "every_ms", "late", "keep", NULL
	};
	unsigned int if_exists = IF_EXISTS_REPLACE;
	struct parts parts;
	int ret;

	*s = (struct task_spec){ .when = TASK_NOW };
	parts.payload = NULL;
	if (fields_only(f, names) || read_id(f, path_id, s) ||
	    read_when(f, &s->when, &s->time_ms) ||
	    field_choice(f, "if_exists", if_exists_names, ARRAY_SIZE(if_exists_names),
			 &if_exists) ||
	    field_either(f, "every", "every_ms", EVERY_MIN_MS, TASK_AHEAD_MAX_MS, &s->every_ms) ||
	    read_late(f, s) ||
	    field_duration(f, "keep", 0, TASK_AHEAD_MAX_MS, &s->keep_ms))
		return -1;
	s->if_exists = if_exists;
	/* The body comes last, because it has to be freed. */
	ret = read_body(f, q, s, &parts);
	free(parts.payload);
	return ret;
}

static int read_batch(const json_t *tasks, const struct queue_settings *q,
		      struct task_request *req, struct api_error *err)
{
	size_t i;

	if (!json_is_array(tasks) || !json_array_size(tasks))
		return api_error_set(err, INVALID, "tasks", "must be a list of tasks");
	if (json_array_size(tasks) > TASK_BATCH_MAX)
		return api_error_set(err, TOO_LARGE, "tasks", "must contain at most 1000 tasks");
	req->batch = true;
	req->count = json_array_size(tasks);
	req->item = calloc(req->count, sizeof(*req->item));
	if (!req->item)
		return api_error_set(err, 500, "internal", NULL, "no memory");
	for (i = 0; i < req->count; i++) {
		struct task_item *item = &req->item[i];
		struct fields f = {
			.obj = json_array_get(tasks, i),
			.at = "",
			.err = &item->err,
		};

		if (!json_is_object(f.obj))
			api_error_set(&item->err, INVALID, NULL, "a task must be an object");
		else
			read_task(&f, NULL, q, &item->spec);
	}
	return 0;
}

static int read_single(const json_t *root, const char *id, const struct queue_settings *q,
		       struct task_request *req, struct api_error *err)
{
	struct fields f = { .obj = root, .at = "", .err = err };

	req->item = calloc(1, sizeof(*req->item));
	if (!req->item)
		return api_error_set(err, 500, "internal", NULL, "no memory");
	req->count = 1;
	return read_task(&f, id, q, &req->item->spec);
}

int task_request_parse(const char *text, size_t len, const char *id,
		       const struct queue_settings *q, struct task_request *req,
		       struct api_error *err)
{
	static const char *const names[] = { "tasks", NULL };
	struct fields f = { .at = "", .err = err };
	json_t *root, *tasks;
	int ret;

	*req = (struct task_request){ .batch = false };
	root = json_parse(text, len, false, err);
	if (!root)
		return -1;
	f.obj = root;
	tasks = json_object_get(root, "tasks");
	if (!tasks || id)
		ret = read_single(root, id, q, req, err);
	else
		ret = fields_only(&f, names) || read_batch(tasks, q, req, err) ? -1 : 0;
	json_decref(root);
	if (ret)
		task_request_free(req);
	return ret;
}

void task_request_free(struct task_request *req)
{
	size_t i;

	for (i = 0; i < req->count; i++)
		free(req->item[i].spec.body);
	free(req->item);
	*req = (struct task_request){ .batch = false };
}

int task_move_parse(const char *text, size_t len, struct task_move *move,
		    struct api_error *err)
{
	static const char *const names[] = { "at", "in", "in_ms", NULL };
	struct fields f = { .at = "", .err = err };
	struct task_move m = { .when = TASK_NOW };
	json_t *root;
	int ret;

	root = json_parse(text, len, false, err);
	if (!root)
		return -1;
	f.obj = root;
	ret = fields_only(&f, names) || read_when(&f, &m.when, &m.time_ms) ? -1 : 0;
	json_decref(root);
	if (!ret && m.when == TASK_NOW)
		ret = api_error_set(err, INVALID, "at", "\"at\", \"in\" or \"in_ms\" is missing");
	if (!ret)
		*move = m;
	return ret;
}

static void set(json_t *obj, const char *name, json_t *value)
{
	if (obj)
		json_object_set_new(obj, name, value);
}

static void set_number(json_t *obj, const char *name, uint64_t value)
{
	set(obj, name, json_integer((json_int_t)value));
}

static json_t *bytes_to_json(const uint8_t *data, size_t len)
{
	char *text = malloc((len + 2) / 3 * 4 + 1);
	json_t *v;

	if (!text)
		return NULL;
	format_base64(text, data, len);
	v = json_string(text);
	free(text);
	return v;
}

/* Adds "payload" or "payload_base64". */
void payload_to_json(json_t *obj, const struct task_body *b)
{
	json_t *v = NULL;

	if (!(b->flags & BODY_HAS_PAYLOAD))
		return;
	if (b->flags & BODY_JSON)
		v = json_loadb((const char *)b->payload, b->payload_len, JSON_DECODE_ANY,
			       NULL);
	if (v)
		set(obj, "payload", v);
	else
		set(obj, "payload_base64", bytes_to_json(b->payload, b->payload_len));
}

static json_t *callback_to_json(const struct task_body *b)
{
	json_t *cb = json_object(), *headers = json_object();
	const char *p = b->header;
	unsigned int i;

	set(cb, "url", text_to_json(b->url, strlen(b->url)));
	set(cb, "method", json_string(body_method_name(b->method)));
	for (i = 0; i < b->headers; i++, p += strlen(p) + 1) {
		const char *colon = strstr(p, ": ");
		json_t *name = colon ? text_to_json(p, (size_t)(colon - p)) : NULL;

		if (name)
			set(headers, json_string_value(name),
			    text_to_json(colon + 2, strlen(colon + 2)));
		json_decref(name);
	}
	if (b->headers)
		set(cb, "headers", headers);
	else
		json_decref(headers);
	return cb;
}

static void body_to_json(json_t *obj, const uint8_t *data, size_t len)
{
	struct task_body b;

	if (!data || !body_decode(data, len, &b))
		return;
	if (b.url)
		set(obj, "callback", callback_to_json(&b));
	payload_to_json(obj, &b);
	set(obj, "retry", retry_to_json(&b.retry));
	set_number(obj, "timeout", b.timeout_ms);
}

json_t *task_view_to_json(const struct task_view *v)
{
	json_t *obj = json_object();

	set(obj, "id", text_to_json(v->id, strlen(v->id)));
	set(obj, "queue", text_to_json(v->queue, strlen(v->queue)));
	set(obj, "state", json_string(task_state_name(v->state)));
	set_number(obj, "due", v->due_ms);
	set_number(obj, "first_due", v->first_due_ms);
	set_number(obj, "version", v->version);
	set_number(obj, "attempts", v->attempts);
	set_number(obj, "lost", v->lost);
	set_number(obj, "limit", v->limit);
	if (v->state == TASK_LEASED)
		set(obj, "begun", json_boolean(v->begun));
	if (v->lease_end_ms)
		set_number(obj, "lease_end", v->lease_end_ms);
	if (v->ended_ms)
		set_number(obj, "ended", v->ended_ms);
	if (v->every_ms)
		set_number(obj, "every", v->every_ms);
	if (v->late_after_ms)
		set(obj, "late", json_pack("{s:I, s:s}", "after",
					   (json_int_t)v->late_after_ms, "then",
					   late_names[v->late_then]));
	if (v->keep_ms)
		set_number(obj, "keep", v->keep_ms);
	if (v->note)
		set(obj, "error", text_to_json(v->note, v->note_len));
	body_to_json(obj, v->body, v->body_len);
	return obj;
}

char *task_put_text(char *out, const char *id, enum task_state state, uint64_t due_ms,
		    uint64_t version, const char *result, const char *was)
{
	out += sprintf(out, "{\"id\":\"%s\",\"state\":\"%s\",\"due\":%" PRIu64
		       ",\"version\":%" PRIu64 ",\"result\":\"%s\"", id,
		       task_state_name(state), due_ms, version, result);
	if (was)
		out += sprintf(out, ",\"was\":\"%s\"", was);
	return stpcpy(out, "}");
}
