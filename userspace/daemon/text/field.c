// SPDX-License-Identifier: GPL-2.0
/* JSON of requests: parsing, and fields with limits. See field.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ground/now.h"
#include "ground/units.h"
#include "text/field.h"
#include "text/plain.h"

#define RETRY_LIMIT_MAX		1000
#define RETRY_DELAY_MAX		(30 * MS_PER_DAY)
#define JITTER_UNIT		1000

int field_error(const struct fields *f, int status, const char *code, const char *name,
		const char *fmt, ...)
{
	char field[sizeof(f->err->field)], message[sizeof(f->err->message)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	/* Without a name, the object itself is wrong. */
	if (*name || !*f->at)
		snprintf(field, sizeof(field), "%s%s", f->at, name);
	else
		snprintf(field, sizeof(field), "%.*s", (int)strlen(f->at) - 1, f->at);
	return api_error_set(f->err, status, code, field, "%s", message);
}

json_t *json_parse(const char *text, size_t len, bool empty_ok, struct api_error *err)
{
	json_error_t why;
	json_t *root;

	if (!len && empty_ok)
		return json_object();
	if (len > REQUEST_MAX) {
		api_error_set(err, TOO_LARGE, NULL, "the request has more than 4 MiB");
		return NULL;
	}
	root = json_plain(text, len);
	if (!root)
		root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	if (!root) {
		enum json_error_code code = json_error_code(&why);
		bool has_nul = code == json_error_null_character ||
			       code == json_error_null_byte_in_key;

		api_error_set(err, INVALID, NULL, "%s: line %d, column %d%s%s",
			      has_nul ? "a string must not contain NUL" : "not JSON", why.line,
			      why.column, has_nul ? "" : ": ", has_nul ? "" : why.text);
		return NULL;
	}
	if (!json_is_object(root)) {
		json_decref(root);
		api_error_set(err, INVALID, NULL, "the body must be a JSON object");
		return NULL;
	}
	return root;
}

int fields_only(const struct fields *f, const char *const *names)
{
	const char *key;
	json_t *value;
	size_t i;

	json_object_foreach((json_t *)f->obj, key, value) {
		for (i = 0; names[i] && strcmp(names[i], key); i++)
			;
		if (!names[i])
			return field_error(f, INVALID, key, "unknown field");
	}
	return 0;
}

int field_object(const struct fields *f, const char *name, struct fields *sub)
{
	const json_t *v = json_object_get(f->obj, name);

	if (v && !json_is_object(v))
		return field_error(f, INVALID, name, "must be an object");
	sub->obj = v;
	sub->err = f->err;
	sub->stored = f->stored;
	return 0;
}

int field_number(const struct fields *f, const char *name, uint64_t min, uint64_t max,
		 uint64_t *value)
{
	const json_t *v = json_object_get(f->obj, name);
	json_int_t n;

	if (!v)
		return 0;
	n = json_integer_value(v);
	if (!json_is_integer(v) || n < 0 || (uint64_t)n < min || (uint64_t)n > max)
		return field_error(f, INVALID, name, "must be a whole number from %llu to %llu",
				   (unsigned long long)min, (unsigned long long)max);
	*value = (uint64_t)n;
	return 0;
}

int field_duration(const struct fields *f, const char *name, uint64_t min, uint64_t max,
		   uint64_t *ms)
{
	const json_t *v = json_object_get(f->obj, name);
	char least[DURATION_LEN], most[DURATION_LEN];
	const char *why;
	uint64_t value;

	if (!v)
		return 0;
	if (f->stored)
		return field_number(f, name, min, max, ms);
	if (!json_is_string(v))
		return field_error(f, INVALID, name,
				   "must be a string with a unit (ms, s, min, h, d, w), such as \"30s\"");
	why = parse_ms(json_string_value(v), &value);
	if (why)
		return field_error(f, INVALID, name, "%s", why);
	if (value < min || value > max)
		return field_error(f, INVALID, name, "must be from %s to %s",
				   format_duration(least, min), format_duration(most, max));
	*ms = value;
	return 0;
}

int field_either(const struct fields *f, const char *text, const char *number, uint64_t min,
		 uint64_t max, uint64_t *ms)
{
	if (json_object_get(f->obj, text) && json_object_get(f->obj, number))
		return field_error(f, INVALID, number, "\"%s\" and \"%s\" cannot be used together",
				   text, number);
	return field_duration(f, text, min, max, ms) || field_number(f, number, min, max, ms) ?
	       -1 : 0;
}

int field_time(const struct fields *f, const char *name, uint64_t *ms)
{
	const json_t *v = json_object_get(f->obj, name);
	const char *text = json_string_value(v);
	uint64_t value = 0;
	const char *why;

	if (!v)
		return 0;
	if (!text && (!json_is_integer(v) || json_integer_value(v) < 0))
		return field_error(f, INVALID, name,
				   "must be a time: RFC 3339, or Unix milliseconds");
	why = text ? parse_time(text, &value) : NULL;
	if (why)
		return field_error(f, INVALID, name, "%s", why);
	if (!text)
		value = (uint64_t)json_integer_value(v);
	/* This is most likely in seconds, because as milliseconds it would be before 1974. */
	if ((!text || !text[strspn(text, "0123456789")]) && value < BARE_TIME_MIN)
		return field_error(f, INVALID, name,
				   "a number means Unix milliseconds, and must be at least 100000000000");
	if (value > now_ns(CLOCK_REALTIME) / NSEC_PER_MSEC + TASK_AHEAD_MAX_MS)
		return field_error(f, INVALID, name, "too far in the future");
	*ms = value;
	return 0;
}

int field_bool(const struct fields *f, const char *name, bool *value)
{
	const json_t *v = json_object_get(f->obj, name);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return field_error(f, INVALID, name, "must be true or false");
	*value = json_is_true(v);
	return 0;
}

int field_string(const struct fields *f, const char *name, const char **value)
{
	const json_t *v = json_object_get(f->obj, name);

	if (!v)
		return 0;
	if (!json_is_string(v))
		return field_error(f, INVALID, name, "must be a string");
	*value = json_string_value(v);
	return 0;
}

int field_choice(const struct fields *f, const char *name, const char *const *names,
		 unsigned int count, unsigned int *value)
{
	const char *text = NULL;
	char list[96] = "";
	unsigned int i;
	size_t len = 0;

	if (field_string(f, name, &text))
		return -1;
	if (!text)
		return 0;
	for (i = 0; i < count; i++) {
		if (!strcmp(text, names[i])) {
			*value = i;
			return 0;
		}
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
					!i ? "" : i + 1 < count ? ", " : " or ", names[i]);
	}
	return field_error(f, INVALID, name, "must be %s", list);
}

/* A number from 0 to 1, in thousandths. */
static int field_jitter(const struct fields *f, uint16_t *jitter)
{
	const json_t *v = json_object_get(f->obj, "jitter");
	double value;

	if (!v)
		return 0;
	value = json_number_value(v);
	if (!json_is_number(v) || !(value >= 0 && value <= 1))
		return field_error(f, INVALID, "jitter", "must be a number from 0 to 1");
	*jitter = (uint16_t)lround(value * JITTER_UNIT);
	return 0;
}

int field_retry(const struct fields *f, const char *name, struct retry *retry)
{
	static const char *const names[] = { "limit", "base", "cap", "jitter", NULL };
	uint64_t limit = retry->limit, base = retry->base_ms, cap = retry->cap_ms;
	struct retry r = *retry;
	struct fields sub = { .obj = NULL };
	char at[32];

	if (field_object(f, name, &sub))
		return -1;
	if (!sub.obj)
		return 0;
	snprintf(at, sizeof(at), "%.16s%s.", f->at, name);
	sub.at = at;
	if (fields_only(&sub, names) ||
	    field_number(&sub, "limit", 1, RETRY_LIMIT_MAX, &limit) ||
	    field_duration(&sub, "base", 1, RETRY_DELAY_MAX, &base) ||
	    field_duration(&sub, "cap", 1, RETRY_DELAY_MAX, &cap) ||
	    field_jitter(&sub, &r.jitter))
		return -1;
	/* If one of the two is a default, it adapts to the value that was given. */
	if (cap < base) {
		if (!json_object_get(sub.obj, "cap"))
			cap = base;
		else if (!json_object_get(sub.obj, "base"))
			base = cap;
		else
			return field_error(&sub, INVALID, "cap", "must not be below base");
	}
	r.limit = (uint16_t)limit;
	r.base_ms = (uint32_t)base;
	r.cap_ms = (uint32_t)cap;
	*retry = r;
	return 0;
}

json_t *retry_to_json(const struct retry *retry)
{
	return json_pack("{s:I, s:I, s:I, s:f}", "limit", (json_int_t)retry->limit,
			 "base", (json_int_t)retry->base_ms, "cap",
			 (json_int_t)retry->cap_ms, "jitter",
			 (double)retry->jitter / JITTER_UNIT);
}
