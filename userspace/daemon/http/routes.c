// SPDX-License-Identifier: GPL-2.0
/* Which function serves a path. See api.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/access.h"
#include "http/api.h"
#include "http/page.h"
#include "http/routes.h"
#include "redis/store.h"
#include "text/spec.h"
#include "work/queues.h"

/**
 * struct route_entry - a path and its function
 * @words: number of words in the path behind "/v1/queues"
 * @method: of the request
 * @second: the second of these words, or NULL for any
 * @fourth: the fourth of these words, or NULL for any
 * @verb: what a token needs; 0: nothing
 * @takes: a body, a query; or it shows all queues
 * @fn: the function
 * @on_queue: this function instead, if the queue must exist
 *
 * The words are: queue, "tasks", "schedules" or a verb, id, verb. A path outside of /v1 has one
 * word at most, which is @second.
 */
#define BODY	1
#define QUERY	2
#define ALL	4
struct route_entry {
	unsigned int words;
	enum method method;
	const char *second;
	const char *fourth;
	enum verb verb;
	unsigned int takes;
	void (*fn)(struct request *r);
	void (*on_queue)(struct request *r, struct queue *q);
};

static const struct route_entry routes[] = {
	{ 0, METHOD_GET, NULL, NULL, VERB_READ, 0, route_queue_list },
	{ 1, METHOD_GET, NULL, NULL, VERB_READ, 0, NULL, route_queue_get },
	{ 1, METHOD_PUT, NULL, NULL, VERB_ADMIN, BODY, route_queue_put },
	{ 1, METHOD_DELETE, NULL, NULL, VERB_ADMIN, QUERY, NULL, route_queue_remove },
	{ 2, METHOD_POST, "tasks", NULL, VERB_PUT, BODY, NULL, route_task_make },
	{ 2, METHOD_GET, "tasks", NULL, VERB_READ, QUERY, NULL, route_task_list },
	{ 2, METHOD_POST, "reserve", NULL, VERB_WORK, BODY, NULL, route_reserve },
	{ 2, METHOD_POST, "ack", NULL, VERB_WORK, BODY, NULL, route_ack },
	{ 2, METHOD_POST, "nack", NULL, VERB_WORK, BODY, NULL, route_nack },
	{ 2, METHOD_POST, "extend", NULL, VERB_WORK, BODY, NULL, route_extend },
	{ 2, METHOD_POST, "release", NULL, VERB_WORK, BODY, NULL, route_release },
	{ 2, METHOD_POST, "pause", NULL, VERB_ADMIN, 0, NULL, route_queue_pause },
	{ 2, METHOD_POST, "resume", NULL, VERB_ADMIN, 0, NULL, route_queue_resume },
	{ 2, METHOD_POST, "purge", NULL, VERB_ADMIN, BODY, NULL, route_queue_purge },
	{ 2, METHOD_POST, "replay", NULL, VERB_ADMIN, QUERY, NULL, route_queue_replay },
	{ 3, METHOD_PUT, "tasks", NULL, VERB_PUT, BODY, NULL, route_task_make },
	{ 3, METHOD_GET, "tasks", NULL, VERB_READ, 0, NULL, route_task_get },
	{ 3, METHOD_PATCH, "tasks", NULL, VERB_PUT, BODY, NULL, route_task_move },
	{ 3, METHOD_DELETE, "tasks", NULL, VERB_PUT, 0, NULL, route_task_cancel },
	{ 4, METHOD_POST, "tasks", "run", VERB_PUT, 0, NULL, route_task_run },
	{ 4, METHOD_POST, "tasks", "replay", VERB_PUT, 0, NULL, route_task_replay },
	{ 2, METHOD_GET, "schedules", NULL, VERB_READ, QUERY, NULL, route_schedule_list },
	{ 3, METHOD_PUT, "schedules", NULL, VERB_PUT, BODY, NULL, route_schedule_put },
	{ 3, METHOD_GET, "schedules", NULL, VERB_READ, 0, NULL, route_schedule_get },
	{ 3, METHOD_PATCH, "schedules", NULL, VERB_PUT, BODY, NULL, route_schedule_change },
	{ 3, METHOD_DELETE, "schedules", NULL, VERB_PUT, 0, NULL, route_schedule_delete },
	{ 4, METHOD_GET, "schedules", "next", VERB_READ, QUERY, NULL, route_schedule_next },
	{ 4, METHOD_POST, "schedules", "enable", VERB_PUT, 0, NULL, route_schedule_enable },
	{ 4, METHOD_POST, "schedules", "disable", VERB_PUT, 0, NULL, route_schedule_disable },
	{ 4, METHOD_POST, "schedules", "run", VERB_PUT, 0, NULL, route_schedule_run },
};

#define ROUTES	(sizeof(routes) / sizeof(routes[0]))

/* Splits the path into words. Returns false if there are too many, or if one is empty. */
static bool split(struct request *r)
{
	char *at = r->path;

	if (*at != '/')
		return false;
	while (*at == '/') {
		*at++ = '\0';
		if (!*at && r->words)
			return false;
		if (!*at)
			break;
		if (r->words == sizeof(r->word) / sizeof(r->word[0]))
			return false;
		r->word[r->words++] = at;
		at = strchrnul(at, '/');
	}
	return true;
}

static bool is(const char *word, const char *want)
{
	return !want || !strcmp(word, want);
}

static void probe_alive(struct request *r)
{
	request_answer(r, 200, json_pack("{s:s}", "status", "alive"));
}

static void probe_ready(struct request *r)
{
	const char *why = work_not_ready(r->daemon);

	if (why)
		request_error(r, 503, r->daemon->leaving ? "stopping" : "store_down", NULL, "%s",
			      why);
	else
		request_answer(r, 200, json_pack("{s:s}", "status", "ready"));
}

static void show_page(struct request *r)
{
	request_text(r, 200, "text/html; charset=utf-8", (char *)page_html, page_html_len, true);
}

/* Paths outside of /v1. Probes may add any query to these. */
static const struct route_entry roots[] = {
	{ .words = 0, .takes = QUERY, .fn = show_page },
	{ .words = 1, .second = "healthz", .takes = QUERY, .fn = probe_alive },
	{ .words = 1, .second = "readyz", .takes = QUERY, .fn = probe_ready },
	{ .words = 1, .second = "metrics", .verb = VERB_READ, .takes = QUERY | ALL,
	  .fn = route_metrics },
};

#define ROOTS	(sizeof(roots) / sizeof(roots[0]))

/* A slash in an id has to be escaped in the path. */
static const char *read_id(char *word)
{
	for (char *at = word; *at; at++) {
		if (*at == REQUEST_SLASH)
			*at = '/';
	}
	return word;
}

static bool names_are_valid(struct request *r)
{
	if (r->queue && !queue_name_valid(r->queue)) {
		request_error(r, 400, "invalid", "queue",
			      "the name of a queue consists of 1 to 64 of the characters A-Za-z0-9_-");
		return false;
	}
	if (r->id && !task_id_valid(r->id)) {
		request_error(r, 400, "invalid", "id",
			      "an id consists of " TASK_ID_TEXT);
		return false;
	}
	return true;
}

static bool has_path(const struct request *r, const struct route_entry *e)
{
	unsigned int words = r->words - 2;

	if (e < routes || e >= routes + ROUTES)
		return e->words == r->words && (!r->words || is(r->word[0], e->second));
	return e->words == words && (words < 2 || is(r->word[3], e->second)) &&
	       (words < 4 || is(r->word[5], e->fourth));
}

/* Looks up the path in one of the tables, and notes which methods the path has. */
static void look_in(struct request *r, const struct route_entry *e, size_t count)
{
	static const char *const names[] = {
		[METHOD_GET] = "GET, HEAD", [METHOD_POST] = "POST", [METHOD_PUT] = "PUT",
		[METHOD_PATCH] = "PATCH", [METHOD_DELETE] = "DELETE",
	};

	for (; count; count--, e++) {
		size_t used = strlen(r->allow);

		if (!has_path(r, e))
			continue;
		snprintf(r->allow + used, sizeof(r->allow) - used, "%s%s", used ? ", " : "",
			 names[e->method]);
		if (e->method == r->method)
			r->route = e;
	}
}

bool request_find(struct request *r)
{
	if (!split(r)) {
		request_error(r, 404, "not_found", NULL, "there is no such path");
		return false;
	}
	if (r->words < 2)
		look_in(r, roots, ROOTS);
	else if (!strcmp(r->word[0], "v1") && !strcmp(r->word[1], "queues"))
		look_in(r, routes, ROUTES);
	if (!r->allow[0])
		request_error(r, 404, "not_found", NULL, "there is no such path");
	else if (!r->route)
		request_error(r, 405, "invalid", "method", "this path supports only %s", r->allow);
	if (!r->route)
		return false;
	if (r->words > 2)
		r->queue = r->word[2];
	if (r->words > 4)
		r->id = read_id(r->word[4]);
	return names_are_valid(r);
}

bool request_may(struct request *r)
{
	const struct route_entry *e = r->route;

	return !e->verb || access_admit(r, e->verb, e->takes & ALL);
}

/* True if a body is empty or an empty object, which many clients send with every request. */
static bool is_empty_body(const char *body)
{
	static const char spaces[] = " \t\r\n";

	body += strspn(body, spaces);
	if (*body == '{')
		body += 1 + strspn(body + 1, spaces);
	else
		return !*body;
	return *body == '}' && !body[1 + strspn(body + 1, spaces)];
}

static bool refuse_parameter(void *arg, const char *name, const char *value)
{
	struct request *r = arg;

	(void)value;
	request_error(r, 400, "invalid", name, "this path has no parameters");
	return false;
}

/**
 * struct wanted - a request that waits for its queue
 */
struct wanted {
	struct request *request;
	void (*fn)(struct request *r, struct queue *q);
};

/*
 * Notes that the request uses a queue. A removed queue is kept until its last request has ended.
 */
static void use_queue(struct request *r, struct queue *q)
{
	r->uses = q;
	q->requests++;
}

void request_release(struct request *r)
{
	if (r->uses)
		r->uses->requests--;
}

static void got_queue(void *arg, struct queue *q, enum store_result result, bool newer)
{
	struct wanted *w = arg;

	if (q) {
		use_queue(w->request, q);
		w->fn(w->request, q);
	} else if (result != STORE_OK) {
		request_store_error(w->request, result);
	} else if (newer) {
		request_newer(w->request, "queue");
	} else {
		request_error(w->request, 404, "not_found", "queue",
			      "there is no such queue: PUT /v1/queues/{q} creates it");
	}
	free(w);
}

static void with_queue(struct request *r, void (*fn)(struct request *r, struct queue *q))
{
	struct queue *q = queue_find(r->daemon, r->queue);
	struct wanted *w;

	if (!store_up(r->daemon->store)) {
		request_store_error(r, STORE_DOWN);
		return;
	}
	if (q) {
		use_queue(r, q);
		fn(r, q);
		return;
	}
	/* The queue is not known here. Ask Redis, because another daemon may just have made it. */
	w = malloc(sizeof(*w));
	if (!w)
		abort();
	w->request = r;
	w->fn = fn;
	queue_load(r->daemon, r->queue, got_queue, w);
}

void request_serve(struct request *r)
{
	const struct route_entry *e = r->route;

	if (!(e->takes & QUERY))
		request_each_query(r, refuse_parameter, r);
	if (r->answered)
		return;
	if (!(e->takes & BODY) && r->len && (strlen(r->body) != r->len || !is_empty_body(r->body)))
		request_error(r, 400, "invalid", "body", "this path takes no body");
	else if (e->on_queue)
		with_queue(r, e->on_queue);
	else
		e->fn(r);
}
