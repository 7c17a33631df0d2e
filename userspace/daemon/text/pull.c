// SPDX-License-Identifier: GPL-2.0
/* What workers of a pull queue ask for and report, and their tokens. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../shared/base64.h"
#include "ground/units.h"
#include "text/field.h"
#include "text/pull.h"

#define LEASE_DEFAULT	(30 * MS_PER_SEC)
#define LEASE_MIN	MS_PER_SEC
#define LEASE_MAX	(12 * MS_PER_HOUR)
#define WAIT_MAX	MS_PER_MIN

int reserve_parse(const char *text, size_t len, struct reserve *r, struct api_error *err)
{
	static const char *const names[] = { "limit", "lease", "wait", NULL };
	struct reserve n = { .limit = 1, .lease_ms = LEASE_DEFAULT };
	struct fields f = { .at = "", .err = err };
	uint64_t limit = n.limit;
	json_t *root;
	int ret;

	root = json_parse(text, len, true, err);
	if (!root)
		return -1;
	f.obj = root;
	ret = fields_only(&f, names) ||
	      field_number(&f, "limit", 1, RESERVE_LIMIT_MAX, &limit) ||
	      field_duration(&f, "lease", LEASE_MIN, LEASE_MAX, &n.lease_ms) ||
	      field_duration(&f, "wait", 0, WAIT_MAX, &n.wait_ms) ? -1 : 0;
	json_decref(root);
	if (ret)
		return -1;
	n.limit = (unsigned int)limit;
	*r = n;
	return 0;
}

const char *token_text(char buf[TOKEN_LEN], uint64_t holder, uint64_t token)
{
	snprintf(buf, TOKEN_LEN, "%016" PRIx64 "-%" PRIx64, holder, token);
	return buf;
}

/* Reads from @min to 16 hex digits at *@p. */
static bool read_hex(const char **p, unsigned int min, uint64_t *value)
{
	unsigned int digits = 0;
	uint64_t v = 0;

	for (;; ++*p, digits++) {
		char c = **p;

		if (c >= '0' && c <= '9')
			c = (char)(c - '0');
		else if (c >= 'a' && c <= 'f')
			c = (char)(c - 'a' + 10);
		else
			break;
		if (digits == 16)
			return false;
		v = v << 4 | (unsigned int)c;
	}
	*value = v;
	return digits >= min;
}

bool token_parse(const char *text, uint64_t *holder, uint64_t *token)
{
	uint64_t h, t;

	if (!read_hex(&text, 16, &h) || *text++ != '-' || !read_hex(&text, 1, &t) || *text)
		return false;
	*holder = h;
	*token = t;
	return true;
}

/* The fields of an item beside its id and its token. NULL ends each list. */
static const char *const extra_fields[][4] = {
	[REPORT_ACK] = { NULL },
	[REPORT_NACK] = { "delay", "dead", "error", NULL },
	[REPORT_EXTEND] = { "lease", NULL },
	[REPORT_RELEASE] = { "delay", NULL },
};

static int read_extras(const struct fields *f, enum report_kind kind,
		       struct report_item *item)
{
	uint64_t most = kind == REPORT_RELEASE ? MS_PER_HOUR : MS_PER_DAY;
	const char *error = NULL;
	size_t len;

	if (field_duration(f, "delay", 0, most, &item->delay_ms) ||
	    field_bool(f, "dead", &item->dead) || field_string(f, "error", &error) ||
	    field_duration(f, "lease", LEASE_MIN, LEASE_MAX, &item->lease_ms))
		return -1;
	if (json_object_get(f->obj, "delay"))
		item->has_delay = true;
	if (!error)
		return 0;
	len = strlen(error);
	if (len > TASK_NOTE_MAX) {
		/* Cut before the first byte of a character, so that the text stays valid UTF-8. */
		for (len = TASK_NOTE_MAX; len && (error[len] & 0xc0) == 0x80;)
			len--;
	}
	memcpy(item->error, error, len);
	item->error[len] = '\0';
	return 0;
}

/* Rejects fields that are neither in @first nor among the extra fields of @kind. */
static int known_fields(const struct fields *f, enum report_kind kind,
			const char *const *first)
{
	const char *names[8];
	size_t n = 0, i;

	for (i = 0; first[i]; i++)
		names[n++] = first[i];
	for (i = 0; extra_fields[kind][i]; i++)
		names[n++] = extra_fields[kind][i];
	names[n] = NULL;
	return fields_only(f, names);
}

static int read_item(const struct fields *f, enum report_kind kind,
		     struct report_item *item)
{
	static const char *const names[] = { "id", "token", NULL };
	const char *id = NULL, *token = NULL;

	if (!json_is_object(f->obj))
		return field_error(f, INVALID, "", "must be an object");
	if (known_fields(f, kind, names) || field_string(f, "id", &id) ||
	    field_string(f, "token", &token) || read_extras(f, kind, item))
		return -1;
	if (!id || !task_id_valid(id))
		return field_error(f, INVALID, "id", "must consist of " TASK_ID_TEXT);
	if (!token || !token_parse(token, &item->holder, &item->token))
		return field_error(f, INVALID, "token", "must be the token of a lease");
	memcpy(item->id, id, strlen(id) + 1);
	return 0;
}

static int read_report(const struct fields *f, enum report_kind kind, struct report *report)
{
	static const char *const names[] = { "tasks", NULL };
	struct report_item defaults = { .lease_ms = LEASE_DEFAULT };
	json_t *tasks = json_object_get(f->obj, "tasks");
	size_t i;

	if (known_fields(f, kind, names) || read_extras(f, kind, &defaults))
		return -1;
	if (!json_is_array(tasks) || !json_array_size(tasks))
		return field_error(f, INVALID, "tasks", "must be a list of tasks");
	if (json_array_size(tasks) > TASK_BATCH_MAX)
		return field_error(f, TOO_LARGE, "tasks", "must contain at most 1000 tasks");
	report->count = json_array_size(tasks);
	report->item = calloc(report->count, sizeof(*report->item));
	if (!report->item)
		return field_error(f, 500, "internal", "", "no memory");
	for (i = 0; i < report->count; i++) {
		struct fields item = { .obj = json_array_get(tasks, i), .err = f->err };
		char at[32];

		snprintf(at, sizeof(at), "tasks[%zu].", i);
		item.at = at;
		report->item[i] = defaults;
		if (read_item(&item, kind, &report->item[i]))
			return -1;
	}
	return 0;
}

int report_parse(const char *text, size_t len, enum report_kind kind,
		 struct report *report, struct api_error *err)
{
	struct fields f = { .at = "", .err = err };
	json_t *root;
	int ret;

	*report = (struct report){ .count = 0 };
	root = json_parse(text, len, false, err);
	if (!root)
		return -1;
	f.obj = root;
	ret = read_report(&f, kind, report);
	json_decref(root);
	if (ret)
		report_free(report);
	return ret;
}

void report_free(struct report *report)
{
	free(report->item);
	*report = (struct report){ .count = 0 };
}

/* Room for everything except the id and the payload, with the largest numbers. */
#define RESERVED_LEN	(TASK_ID_MAX + TOKEN_LEN + RUN_KEY_LEN + 160)

void payload_check(struct task_body *b)
{
	json_t *v;

	if (!(b->flags & BODY_JSON))
		return;
	v = json_loadb((const char *)b->payload, b->payload_len, JSON_DECODE_ANY, NULL);
	if (!v)
		b->flags &= (uint8_t)~BODY_JSON;
	json_decref(v);
}

size_t reserved_room(const struct task_body *b)
{
	return RESERVED_LEN + (b->payload_len + 2) / 3 * 4;
}

/* Writes text instead of building a json_t, because a worker waits for a task that is due now. */
char *reserved_text(char *out, const struct run *run, uint64_t holder, uint64_t token,
		    const struct task_body *b)
{
	char text[TOKEN_LEN], key[RUN_KEY_LEN];

	out += sprintf(out, "{\"id\":\"%s\",\"token\":\"%s\",\"key\":\"%s\",\"version\":%" PRIu64
		       ",\"attempt\":%u,\"first_due\":%" PRIu64, run->id,
		       token_text(text, holder, token), run_key(key, run), run->version,
		       run->attempt, run->first_due_ms);
	if (b->flags & BODY_JSON) {
		out = stpcpy(out, ",\"payload\":");
		memcpy(out, b->payload, b->payload_len);
		out += b->payload_len;
	} else if (b->flags & BODY_HAS_PAYLOAD) {
		out = stpcpy(out, ",\"payload_base64\":\"");
		format_base64(out, b->payload, b->payload_len);
		out = stpcpy(out + strlen(out), "\"");
	}
	return stpcpy(out, "}");
}
