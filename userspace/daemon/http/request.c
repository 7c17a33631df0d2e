// SPDX-License-Identifier: GPL-2.0
/* One HTTP request, and its answer. See request.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <microhttpd.h>

#include "ground/log.h"
#include "http/request.h"
#include "redis/store.h"
#include "work/work.h"

void request_end(struct request *r)
{
	r->answered = true;
	if (r->watch.events)
		loop_watch(r->daemon->loop, &r->watch, 0);
	if (!r->suspended)
		return;
	r->suspended = false;
	MHD_resume_connection(r->conn);
	*r->run = true;
	loop_again(r->daemon->loop);
}

void request_text(struct request *r, int status, const char *type, char *text, size_t len,
		  bool constant)
{
	if (r->answered) {
		log_often(LOG_ERR, "a request was answered twice");
		if (!constant)
			free(text);
		return;
	}
	r->status = status;
	r->type = type;
	r->text = text;
	r->text_len = len;
	r->constant = constant;
	request_end(r);
}

void request_json(struct request *r, int status, char *text, size_t len)
{
	request_text(r, status, REQUEST_JSON, text, len, false);
}

void request_answer(struct request *r, int status, json_t *root)
{
	static char no_memory[] = "{\"error\":{\"code\":\"internal\",\"message\":\"no memory\"}}\n";
	size_t len;
	char *text = json_text(root, &len);

	if (text)
		request_json(r, status, text, len);
	else
		request_text(r, 500, REQUEST_JSON, no_memory, sizeof(no_memory) - 1, true);
}

void request_fail(struct request *r, const struct api_error *err)
{
	if (err->status == 429 || r->no_room)
		r->retry_after = 1;
	request_answer(r, err->status, api_error_to_json(err));
}

void request_error(struct request *r, int status, const char *code, const char *field,
		   const char *fmt, ...)
{
	struct api_error err = { 0 };
	char message[sizeof(err.message)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	api_error_set(&err, status, code, field, "%s", message);
	request_fail(r, &err);
}

void request_newer(struct request *r, const char *field)
{
	request_error(r, 409, "newer", field, "a newer twheeld stored this, so "
		      "this daemon does not change it: ask a newer daemon");
}

struct each_query {
	bool (*fn)(void *arg, const char *name, const char *value);
	void *arg;
};

static enum MHD_Result one_query(void *arg, enum MHD_ValueKind kind, const char *key,
				 const char *value)
{
	struct each_query *each = arg;

	(void)kind;
	return each->fn(each->arg, key, value) ? MHD_YES : MHD_NO;
}

void request_each_query(struct request *r, bool (*fn)(void *arg, const char *name,
						      const char *value), void *arg)
{
	struct each_query each = { fn, arg };

	MHD_get_connection_values(r->conn, MHD_GET_ARGUMENT_KIND, one_query, &each);
}

static void hung_up(struct watch *w, uint32_t events)
{
	struct request *r = container_of(w, struct request, watch);

	(void)events;
	loop_watch(r->daemon->loop, w, 0);
	if (r->gone && !r->answered)
		r->gone(r);
}

/* Watches the connection in the loop, because libmicrohttpd does not look at suspended ones. */
void request_watch(struct request *r)
{
	const union MHD_ConnectionInfo *info;

	info = MHD_get_connection_info(r->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	if (!info)
		return;
	r->watch.fn = hung_up;
	r->watch.fd = info->connect_fd;
	loop_watch(r->daemon->loop, &r->watch, EPOLLRDHUP);
}

void request_store_error(struct request *r, enum store_result result)
{
	const char *why = store_why(r->daemon->store);

	if (result == STORE_FULL)
		request_error(r, 503, "store_full", NULL, "Redis has no memory left");
	else if (result == STORE_UNKNOWN && r->method != METHOD_GET)
		request_error(r, 503, "fate_unknown", NULL,
			      "the request may have been carried out, but Redis or its replicas did not "
			      "confirm it: repeat it");
	else if (result == STORE_REFUSED || result == STORE_OK)
		request_error(r, 503, "store_down", NULL, "Redis refused the command");
	else
		request_error(r, 503, "store_down", NULL, "Redis cannot be reached: %s",
			      why ? why : "the connection broke");
}
