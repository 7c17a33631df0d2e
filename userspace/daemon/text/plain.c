// SPDX-License-Identifier: GPL-2.0
/*
 * Parses the JSON that nearly all clients send: printable ASCII without escapes, and whole
 * numbers. The library passes each character through several functions, which was half of what a
 * task cost the daemon.
 *
 * What this file does not know it leaves to the library, including all errors. Whatever it accepts
 * means the same to the library.
 */
#include <stdbool.h>
#include <string.h>

#include "text/plain.h"

#define DEPTH_MAX	16
#define KEY_MAX		64
#define DIGITS_MAX	18

/**
 * struct text - what is left
 * @at: the next character
 * @end: behind the last one
 * @depth: of lists and objects around it
 */
struct text {
	const char *at;
	const char *end;
	unsigned int depth;
};

static json_t *read_value(struct text *t);

/* Returns the next character that is not a space, without consuming it, or 0 at the end. */
static char look(struct text *t)
{
	while (t->at < t->end &&
	       (*t->at == ' ' || *t->at == '\n' || *t->at == '\t' || *t->at == '\r'))
		t->at++;
	return t->at < t->end ? *t->at : 0;
}

static bool take(struct text *t, char c)
{
	if (look(t) != c)
		return false;
	t->at++;
	return true;
}

static bool take_word(struct text *t, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(t->end - t->at) < len || memcmp(t->at, word, len))
		return false;
	t->at += len;
	return true;
}

/* Returns the first character of a string, or NULL. */
static const char *take_string(struct text *t, size_t *len)
{
	const char *begin, *p;

	if (!take(t, '"'))
		return NULL;
	begin = t->at;
	for (p = begin; p < t->end && *p != '"'; p++) {
		if (*p < ' ' || *p > '~' || *p == '\\')
			return NULL;
	}
	if (p == t->end)
		return NULL;
	t->at = p + 1;
	*len = (size_t)(p - begin);
	return begin;
}

static json_t *read_string(struct text *t)
{
	const char *s;
	size_t len;

	s = take_string(t, &len);
	return s ? json_stringn_nocheck(s, len) : NULL;
}

/* After a fraction or an exponent this stops, and the caller leaves the number to the library. */
static json_t *read_number(struct text *t)
{
	const char *begin = t->at;
	json_int_t n = 0;

	for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
		if (t->at - begin == DIGITS_MAX)
			return NULL;
		n = n * 10 + (*t->at - '0');
	}
	return *begin == '0' && t->at > begin + 1 ? NULL : json_integer(n);
}

static bool read_member(struct text *t, json_t *object)
{
	char key[KEY_MAX + 1];
	const char *s;
	size_t len;

	s = take_string(t, &len);
	if (!s || len > KEY_MAX || !take(t, ':'))
		return false;
	memcpy(key, s, len);
	key[len] = '\0';
	return !json_object_get(object, key) &&
	       !json_object_set_new_nocheck(object, key, read_value(t));
}

static bool read_item(struct text *t, json_t *list)
{
	return !json_array_append_new(list, read_value(t));
}

static json_t *read_all(struct text *t, json_t *into, bool (*one)(struct text *t, json_t *into),
			char close)
{
	bool ok = into && t->depth < DEPTH_MAX;

	t->at++;
	t->depth++;
	if (ok && !take(t, close)) {
		do
			ok = one(t, into);
		while (ok && take(t, ','));
		ok = ok && take(t, close);
	}
	t->depth--;
	if (ok)
		return into;
	json_decref(into);
	return NULL;
}

static json_t *read_value(struct text *t)
{
	char c = look(t);

	if (c == '{')
		return read_all(t, json_object(), read_member, '}');
	if (c == '[')
		return read_all(t, json_array(), read_item, ']');
	if (c == '"')
		return read_string(t);
	if (c >= '0' && c <= '9')
		return read_number(t);
	if (take_word(t, "true"))
		return json_true();
	if (take_word(t, "false"))
		return json_false();
	return take_word(t, "null") ? json_null() : NULL;
}

json_t *json_plain(const char *text, size_t len)
{
	struct text t = { .at = text, .end = text + len };
	char first = look(&t);
	json_t *root = first == '{' || first == '[' ? read_value(&t) : NULL;

	look(&t);
	if (t.at == t.end)
		return root;
	json_decref(root);
	return NULL;
}
