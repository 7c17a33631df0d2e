// SPDX-License-Identifier: GPL-2.0
/* Parses the part of a URL after "?": state=&limit=&cursor=. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ground/units.h"
#include "text/field.h"
#include "text/query.h"

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool is_plain(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '-' || c == '_';
}

void list_cursor_text(char text[LIST_CURSOR_LEN], unsigned int lane, uint64_t score,
		      const char *id)
{
	char *end = text + snprintf(text, LIST_CURSOR_LEN, "%u.%" PRIu64 ".", lane, score);

	for (; *id; id++) {
		if (is_plain(*id))
			*end++ = *id;
		else
			end += sprintf(end, "~%02x", (unsigned char)*id);
	}
	*end = '\0';
}

static bool read_id(const char *text, char id[TASK_ID_MAX + 1])
{
	size_t len = 0;

	for (; *text; text++) {
		int high, low;

		if (len == TASK_ID_MAX)
			return false;
		if (is_plain(*text)) {
			id[len++] = *text;
			continue;
		}
		high = *text == '~' ? hex_value(text[1]) : -1;
		low = high < 0 ? -1 : hex_value(text[2]);
		if (low < 0 || !(high | low))
			return false;
		id[len++] = (char)(high << 4 | low);
		text += 2;
	}
	id[len] = '\0';
	return true;
}

bool list_cursor_parse(const char *text, unsigned int *lane, uint64_t *score,
		       char id[TASK_ID_MAX + 1])
{
	char number[2][24];
	uint64_t n;

	for (unsigned int i = 0; i < 2; i++) {
		size_t len = strcspn(text, ".");

		if (!text[len] || len >= sizeof(number[i]))
			return false;
		memcpy(number[i], text, len);
		number[i][len] = '\0';
		text += len + 1;
	}
	if (parse_number(number[0], &n) || n > UINT32_MAX || parse_number(number[1], score))
		return false;
	*lane = (unsigned int)n;
	return read_id(text, id);
}

void list_query_default(struct list_query *q)
{
	*q = (struct list_query){
		.state = TASK_SCHEDULED,
		.limit = LIST_LIMIT_DEFAULT,
	};
}

int limit_parse(const char *value, unsigned int max, unsigned int *limit,
		struct api_error *err)
{
	uint64_t n;

	if (!value || parse_number(value, &n) || !n || n > max)
		return api_error_set(err, INVALID, "limit",
				     "must be a whole number from 1 to %u", max);
	*limit = (unsigned int)n;
	return 0;
}

/* A cursor is opaque here, but it must consist of the characters of a word. */
static int set_cursor(struct list_query *q, const char *value, struct api_error *err)
{
	const char *p;

	for (p = value; *p; p++)
		if (*p <= ' ' || *p >= 0x7f)
			return api_error_set(err, INVALID, "cursor", "not a cursor");
	if ((size_t)(p - value) >= sizeof(q->cursor))
		return api_error_set(err, INVALID, "cursor", "not a cursor");
	memcpy(q->cursor, value, (size_t)(p - value) + 1);
	return 0;
}

/* True if the parameter was given before. */
static bool was_given(const struct list_query *q, const char *key)
{
	return (!strcmp(key, "limit") && q->has_limit) || (!strcmp(key, "state") && q->has_state) ||
	       (!strcmp(key, "cursor") && *q->cursor);
}

int list_query_set(struct list_query *q, const char *key, const char *value,
		   struct api_error *err)
{
	if (!value)
		value = "";
	if (was_given(q, key))
		return api_error_set(err, INVALID, key, "is given twice");
	if (!strcmp(key, "limit")) {
		q->has_limit = true;
		return limit_parse(value, LIST_LIMIT_MAX, &q->limit, err);
	}
	if (!strcmp(key, "cursor"))
		return set_cursor(q, value, err);
	if (strcmp(key, "state"))
		return api_error_set(err, INVALID, key, "unknown parameter");
	if (!task_state_find(value, &q->state))
		return api_error_set(err, INVALID, "state",
				     "must be scheduled, leased, done or dead");
	q->has_state = true;
	return 0;
}

/*
 * Decodes [@text, @end) into @out. Returns false if it is too long, or has a bad
 * escape or a NUL byte.
 */
static bool percent_decode(const char *text, const char *end, char *out, size_t room)
{
	while (text < end) {
		char c = *text++;

		if (c == '%') {
			int high, low;

			if (end - text < 2)
				return false;
			high = hex_value(text[0]);
			low = hex_value(text[1]);
			if (high < 0 || low < 0 || !(high | low))
				return false;
			c = (char)(high << 4 | low);
			text += 2;
		} else if (c == '+') {
			c = ' ';
		}
		if (room-- <= 1)
			return false;
		*out++ = c;
	}
	*out = '\0';
	return true;
}

int list_query_parse(const char *text, struct list_query *q, struct api_error *err)
{
	char key[32], value[LIST_CURSOR_LEN];

	list_query_default(q);
	while (text && *text) {
		const char *end = text + strcspn(text, "&");
		const char *equals = memchr(text, '=', (size_t)(end - text));
		const char *key_end = equals ? equals : end;
		const char *from = equals ? equals + 1 : end;

		if (end > text) {
			if (!percent_decode(text, key_end, key, sizeof(key)) ||
			    !percent_decode(from, end, value, sizeof(value)))
				return api_error_set(err, INVALID, NULL,
						     "the query is not valid");
			if (list_query_set(q, key, value, err))
				return -1;
		}
		text = *end ? end + 1 : end;
	}
	return 0;
}
