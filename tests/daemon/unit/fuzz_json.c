// SPDX-License-Identifier: GPL-2.0
/*
 * Requests: the first byte selects the parser, the rest is the body. An accepted request must
 * be within its limits, and an error must be complete. A text that json_plain() accepts means
 * the same to the library.
 */
#include "fuzz.h"
#include "text/field.h"
#include "text/plain.h"
#include "text/pull.h"
#include "text/query.h"
#include "text/settings.h"
#include "text/spec.h"

static void check_spec(const struct task_spec *s)
{
	struct task_view v = {
		.queue = "q", .id = s->id, .state = TASK_DEAD,
		.body = s->body, .body_len = s->body_len,
	};
	struct task_body b;

	must(task_id_valid(s->id));
	must(body_decode(s->body, s->body_len, &b));
	must(b.retry.base_ms && b.retry.base_ms <= b.retry.cap_ms);
	must(b.retry.limit == s->limit && b.retry.jitter <= 1000);
	must(b.timeout_ms && b.timeout_ms <= 15 * 60 * 1000);
	must(!b.url || !url_refused(b.url));
	free(json_text(task_view_to_json(&v), NULL));
}

static void check_error(const struct api_error *err)
{
	must(err->status >= 400 && err->code && *err->message);
	free(json_text(api_error_to_json(err), NULL));
}

static void fuzz_tasks(const char *text, size_t len, enum queue_mode mode, const char *id)
{
	struct queue_settings q;
	struct task_request req;
	struct api_error err;
	size_t i;

	queue_settings_default(&q);
	q.mode = mode;
	if (task_request_parse(text, len, id, &q, &req, &err)) {
		check_error(&err);
		return;
	}
	must(req.count && (req.batch || req.count == 1));
	for (i = 0; i < req.count; i++) {
		if (req.item[i].err.status)
			check_error(&req.item[i].err);
		else
			check_spec(&req.item[i].spec);
	}
	task_request_free(&req);
}

static void fuzz_settings(const char *text, size_t len)
{
	struct queue_settings s, back;
	struct api_error err;
	char *out;

	queue_settings_load(text, len, &s);
	queue_settings_default(&s);
	if (queue_settings_parse(text, len, &s, &err)) {
		check_error(&err);
		return;
	}
	must(s.lanes && s.lanes <= LANES_MAX);
	out = json_text(queue_settings_to_store(&s, NULL), NULL);
	must(queue_settings_load(out, strlen(out), &back));
	must(back.lanes == s.lanes && back.ahead_ms == s.ahead_ms);
	must(back.rate.limit == s.rate.limit && back.concurrency == s.concurrency);
	free(out);
}

static void fuzz_pull(const char *text, size_t len, enum report_kind kind)
{
	struct api_error err;
	struct reserve r;
	struct report report;

	if (reserve_parse(text, len, &r, &err))
		check_error(&err);
	if (report_parse(text, len, kind, &report, &err)) {
		check_error(&err);
		return;
	}
	must(report.count);
	report_free(&report);
}

static void fuzz_plain(const char *text, size_t len)
{
	json_t *plain = json_plain(text, len), *library;
	char *a, *b;

	if (!plain)
		return;
	library = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	a = json_dumps(plain, 0);
	b = json_dumps(library, 0);
	must(a && b && !strcmp(a, b));
	free(a);
	free(b);
	json_decref(plain);
	json_decref(library);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;
	struct task_move move;
	struct api_error err;

	if (!size)
		return 0;
	size--;
	fuzz_plain(text, size);
	switch (*data % 9) {
	case 0:
		fuzz_tasks(text, size, QUEUE_PUSH, NULL);
		break;
	case 1:
		fuzz_tasks(text, size, QUEUE_PULL, NULL);
		break;
	case 2:
		fuzz_tasks(text, size, QUEUE_PUSH, "a");
		break;
	case 3:
		fuzz_settings(text, size);
		break;
	case 4:
		if (task_move_parse(text, size, &move, &err))
			check_error(&err);
		break;
	default:
		fuzz_pull(text, size, *data % 9 - 5);
	}
	return 0;
}
