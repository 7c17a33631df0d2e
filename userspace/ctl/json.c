// SPDX-License-Identifier: GPL-2.0
/*
 * Prints records as JSON, one object on each line. Numbers are exact integers, and times are in
 * ns. Many readers only have 53 bits for a number, so a larger number is printed as a string. An
 * id is always a string.
 */
#include <stdio.h>

#include "json.h"

/* A double can represent every integer up to this one. */
#define JSON_EXACT	(1ULL << 53)

/* True if the next JSON value needs a comma before it. */
static bool json_comma;

static void json_key(const char *key)
{
	if (json_comma)
		putchar(',');
	if (key)
		printf("\"%s\":", key);
	json_comma = true;
}

void json_begin(const char *key, char bracket)
{
	json_key(key);
	putchar(bracket);
	json_comma = false;
}

void json_end(char bracket)
{
	putchar(bracket);
	json_comma = true;
}

void json_u64(const char *key, __u64 value)
{
	json_key(key);
	printf(value > JSON_EXACT ? "\"%llu\"" : "%llu", value);
}

void json_none(const char *key)
{
	json_key(key);
	fputs("null", stdout);
}

void json_bool(const char *key, bool value)
{
	json_key(key);
	fputs(value ? "true" : "false", stdout);
}

/*
 * Returns the length in UTF-8 of the character at @s, which is not ASCII, or 0 if it is not valid.
 */
static unsigned int utf8_len(const unsigned char *s)
{
	/* The range of the second byte, which excludes overlong forms and surrogates. */
	unsigned char least = *s == 0xe0 ? 0xa0 : *s == 0xf0 ? 0x90 : 0x80;
	unsigned char most = *s == 0xed ? 0x9f : *s == 0xf4 ? 0x8f : 0xbf;
	unsigned int len, i;

	if (*s < 0xc2 || *s > 0xf4 || s[1] < least || s[1] > most)
		return 0;
	len = *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : 4;
	for (i = 2; i < len; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return len;
}

void json_text(const char *key, const char *value)
{
	json_key(key);
	putchar('"');
	for (; *value; value++) {
		unsigned char c = *value;
		unsigned int len = utf8_len((const unsigned char *)value);

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < ' ')
			printf("\\u%04x", c);
		else if (c < 0x80)
			putchar(c);
		else if (len)
			value += fwrite(value, 1, len, stdout) - 1;
		else
			/* Replace the byte, because a path or a name may have any encoding. */
			fputs("\\ufffd", stdout);
	}
	putchar('"');
}

void json_id(__u64 id)
{
	json_key("id");
	printf("\"0x%llx\"", id);
}

/* Begins a record; json_close() ends it and its line. */
void json_open(const char *type)
{
	json_comma = false;
	json_begin(NULL, '{');
	json_u64("schema", JSON_SCHEMA);
	json_text("type", type);
}

void json_close(void)
{
	json_end('}');
	putchar('\n');
}
