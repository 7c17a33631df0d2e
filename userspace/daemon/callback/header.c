// SPDX-License-Identifier: GPL-2.0
/*
 * The headers of a callback: those of the task, then the daemon's own.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "callback/header.h"
#include "text/run.h"

#define LINE_LEN	(BODY_HEADERS_BYTES + 8)

static bool has_name(const char *header, const char *name)
{
	size_t len = strlen(name);

	return !strncasecmp(header, name, len) && header[len] == ':';
}

/* True if the daemon sets this header itself, so that the header of the task is left out. */
static bool is_ours(const char *header)
{
	return has_name(header, "Idempotency-Key") ||
	       !strncasecmp(header, "Twheel-", 7) || !strncasecmp(header, "webhook-", 8);
}

static __attribute__((format(printf, 2, 3)))
bool add_header(struct curl_slist **list, const char *fmt, ...)
{
	struct curl_slist *longer;
	char line[LINE_LEN];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (len < 0 || (size_t)len >= sizeof(line))
		return false;
	longer = curl_slist_append(*list, line);
	if (longer)
		*list = longer;
	return longer;
}

/* Adds the headers of the task. Returns 0, or a negative errno. */
static int add_task_headers(struct curl_slist **list, const struct task_body *b)
{
	const char *p = b->header, *colon;
	bool has_type = false;
	unsigned int i;

	for (i = 0; i < b->headers; i++, p += strlen(p) + 1) {
		size_t name_len;

		colon = strstr(p, ": ");
		if (!colon)
			return -EINVAL;
		name_len = (size_t)(colon - p);
		if (header_refused(p, name_len, colon + 2, strlen(colon + 2)))
			return -EINVAL;
		if (is_ours(p))
			continue;
		if (has_name(p, "Content-Type"))
			has_type = true;
		/* libcurl drops "Name: "; a header without a value is "Name;". */
		if (colon[2] ? !add_header(list, "%s", p) :
			       !add_header(list, "%.*s;", (int)name_len, p))
			return -ENOMEM;
	}
	if (!has_type && !add_header(list, "Content-Type: application/json"))
		return -ENOMEM;
	return 0;
}

static int add_our_headers(struct curl_slist **list, const struct callback_request *req,
			   const struct signer *signer)
{
	char key[RUN_KEY_LEN], id[SIGN_ID_LEN], signature[SIGN_SIGNATURE_LEN];
	const struct run run = {
		.queue = req->queue,
		.id = req->id,
		.version = req->version,
		.first_due_ms = req->first_due_ms,
	};
	uint64_t seconds = req->now_ms / 1000;

	run_key(key, &run);
	if (!sign_id(key, id) ||
	    !sign_body(signer, id, seconds, req->body->payload,
		       req->body->payload_len, signature))
		return -ENOMEM;
	/* "Expect" without a value: never wait for 100. */
	if (!add_header(list, "Idempotency-Key: %s", key) ||
	    !add_header(list, "Twheel-Task: %s", req->id) ||
	    !add_header(list, "Twheel-Queue: %s", req->queue) ||
	    !add_header(list, "Twheel-Attempt: %u", req->attempt) ||
	    !add_header(list, "Twheel-Scheduled-At: %" PRIu64, req->first_due_ms) ||
	    !add_header(list, "webhook-id: %s", id) ||
	    !add_header(list, "webhook-timestamp: %" PRIu64, seconds) ||
	    !add_header(list, "Expect:"))
		return -ENOMEM;
	if (req->missed && !add_header(list, "Twheel-Missed: %u", req->missed))
		return -ENOMEM;
	if (*signature && !add_header(list, "webhook-signature: %s", signature))
		return -ENOMEM;
	return 0;
}

int callback_headers(const struct callback_request *req, const struct signer *signer,
		     struct curl_slist **list)
{
	int err;

	*list = NULL;
	err = add_task_headers(list, req->body);
	return err ? err : add_our_headers(list, req, signer);
}
