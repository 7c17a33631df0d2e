// SPDX-License-Identifier: GPL-2.0
/* Which function serves a path. See api.h. */
#include <string.h>

#include "api.h"
#include "daemon.h"

#include "page.h"

/**
 * struct route_entry - a path and its function
 * @words: number of words in the path behind "/v1/queues"
 * @method: of the request
 * @second: the second of these words, or NULL for any
 * @fourth: the fourth of these words, or NULL for any
 * @fn: the function
 * @on_queue: or the function, if the queue must be there
 *
 * The words are: queue, "tasks" or a verb, id, verb.
 */
struct route_entry {
	unsigned int words;
	enum method method;
	const char *second;
	const char *fourth;
	void (*fn)(struct request *r);
	void (*on_queue)(struct request *r, struct queue *q);
};

static const struct route_entry routes[] = {
	{ 0, METHOD_GET, NULL, NULL, route_queue_list },
	{ 1, METHOD_GET, NULL, NULL, NULL, route_queue_get },
	{ 1, METHOD_PUT, NULL, NULL, route_queue_put },
	{ 2, METHOD_POST, "tasks", NULL, NULL, route_task_make },
	{ 2, METHOD_GET, "tasks", NULL, NULL, route_task_list },
	{ 2, METHOD_POST, "reserve", NULL, NULL, route_reserve },
	{ 2, METHOD_POST, "ack", NULL, NULL, route_ack },
	{ 2, METHOD_POST, "nack", NULL, NULL, route_nack },
	{ 2, METHOD_POST, "extend", NULL, NULL, route_extend },
	{ 2, METHOD_POST, "release", NULL, NULL, route_release },
	{ 2, METHOD_POST, "pause", NULL, NULL, route_queue_pause },
	{ 2, METHOD_POST, "resume", NULL, NULL, route_queue_resume },
	{ 2, METHOD_POST, "replay", NULL, NULL, route_queue_replay },
	{ 3, METHOD_PUT, "tasks", NULL, NULL, route_task_make },
	{ 3, METHOD_GET, "tasks", NULL, NULL, route_task_get },
	{ 3, METHOD_PATCH, "tasks", NULL, NULL, route_task_move },
	{ 3, METHOD_DELETE, "tasks", NULL, NULL, route_task_cancel },
	{ 4, METHOD_POST, "tasks", "run", NULL, route_task_run },
	{ 4, METHOD_POST, "tasks", "replay", NULL, route_task_replay },
};

#define ROUTES	(sizeof(routes) / sizeof(routes[0]))

/* Splits the path into words. Return: false if there are too many, or an empty one. */
static bool split(struct request *r)
{
	char *at = r->path;

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

static void probe_ready(struct request *r)
{
	const char *why = daemon_not_ready(r->daemon);

	if (why)
		request_error(r, 503, "store_down", NULL, "%s", why);
	else
		request_answer(r, 200, json_pack("{s:s}", "status", "ready"));
}

static void show_page(struct request *r)
{
	request_text(r, 200, "text/html; charset=utf-8", (char *)page_html, page_html_len, true);
}

/* Paths outside of /v1. Return: whether @r is answered. */
static bool serve_root(struct request *r)
{
	if (r->method != METHOD_GET || r->words > 1)
		return false;
	if (!r->words)
		show_page(r);
	else if (!strcmp(r->word[0], "healthz"))
		request_answer(r, 200, json_pack("{s:s}", "status", "alive"));
	else if (!strcmp(r->word[0], "readyz"))
		probe_ready(r);
	else if (!strcmp(r->word[0], "metrics"))
		route_metrics(r);
	else
		return false;
	return true;
}

static bool names_are_valid(struct request *r)
{
	if (r->queue && !queue_name_valid(r->queue)) {
		request_error(r, 400, "invalid", "queue",
			      "a queue has a name of 1 to 64 of A-Za-z0-9_-");
		return false;
	}
	if (r->id && !task_id_valid(r->id)) {
		request_error(r, 400, "invalid", "id",
			      "an id has 1 to 128 of A-Za-z0-9_:-");
		return false;
	}
	return true;
}

void request_route(struct request *r)
{
	bool known = false;
	unsigned int words;

	if (!split(r)) {
		request_error(r, 404, "not_found", NULL, "there is no such path");
		return;
	}
	if (serve_root(r))
		return;
	if (r->words < 2 || strcmp(r->word[0], "v1") || strcmp(r->word[1], "queues")) {
		request_error(r, 404, "not_found", NULL, "there is no such path");
		return;
	}
	words = r->words - 2;
	r->queue = words > 0 ? r->word[2] : NULL;
	r->id = words > 2 ? r->word[4] : NULL;
	for (unsigned int i = 0; i < ROUTES; i++) {
		const struct route_entry *e = &routes[i];

		if (e->words != words || (words > 1 && !is(r->word[3], e->second)) ||
		    (words > 3 && !is(r->word[5], e->fourth)))
			continue;
		known = true;
		if (e->method != r->method)
			continue;
		if (!names_are_valid(r))
			return;
		if (e->on_queue)
			request_with_queue(r, e->on_queue);
		else
			e->fn(r);
		return;
	}
	if (known)
		request_error(r, 405, "invalid", "method", "this path has no such method");
	else
		request_error(r, 404, "not_found", NULL, "there is no such path");
}
