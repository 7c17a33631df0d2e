// SPDX-License-Identifier: GPL-2.0
/*
 * JSON of answers, and errors. See json.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/json.h"

/* Keeps a message in ASCII and on one line, because it may quote what a client sent. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || (unsigned char)*text >= 0x7f)
			*text = '?';
}

int api_error_set(struct api_error *err, int status, const char *code,
		  const char *field, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(err->message, sizeof(err->message), fmt, args);
	va_end(args);
	err->status = status;
	err->code = code;
	/* This shortens a long name. */
	snprintf(err->field, sizeof(err->field), "%s", field ? field : "");
	make_printable(err->field);
	make_printable(err->message);
	return -1;
}

json_t *api_error_to_json(const struct api_error *err)
{
	json_t *inner = json_pack("{s:s, s:s}", "code", err->code, "message", err->message);

	if (inner && *err->field)
		json_object_set_new(inner, "field", json_string(err->field));
	return json_pack("{s:o}", "error", inner);
}

size_t real_digits(const json_t *v)
{
	size_t digits = 15, i;
	const char *key;
	json_t *item;
	char buf[40];

	switch (json_typeof(v)) {
	case JSON_REAL:
		snprintf(buf, sizeof(buf), "%.15g", json_real_value(v));
		return strtod(buf, NULL) == json_real_value(v) ? 15 : 17;
	case JSON_ARRAY:
		json_array_foreach(v, i, item)
			if (real_digits(item) > digits)
				return 17;
		return digits;
	case JSON_OBJECT:
		json_object_foreach((json_t *)v, key, item)
			if (real_digits(item) > digits)
				return 17;
		return digits;
	default:
		return digits;
	}
}

char *json_text(json_t *root, size_t *len)
{
	char *text;

	if (!root)
		return NULL;
	text = json_dumps(root, JSON_COMPACT | JSON_ENCODE_ANY |
			  JSON_REAL_PRECISION(real_digits(root)));
	json_decref(root);
	if (text && len)
		*len = strlen(text);
	return text;
}

json_t *text_to_json(const char *text, size_t len)
{
	json_t *v = json_stringn(text, len);
	char *copy;
	size_t i;

	if (v || !len)
		return v;
	copy = malloc(len);
	if (!copy)
		return NULL;
	for (i = 0; i < len; i++)
		copy[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
	v = json_stringn(copy, len);
	free(copy);
	return v;
}
