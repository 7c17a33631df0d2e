// SPDX-License-Identifier: GPL-2.0
/* Tokens: who may do what. Parses the lines of token-file. See bearer.h. */
#include <string.h>

#include "config/bearer.h"
#include "config/value.h"

#define WORDS	4

static const char *const names[BEARER_VERBS] = { "read", "put", "work", "admin" };

const char *verb_name(enum verb one)
{
	unsigned int i = 0;

	while (i < BEARER_VERBS - 1 && !(one >> i & 1))
		i++;
	return names[i];
}

static bool is_word_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '_' || c == '-';
}

/* True if a text only consists of the characters of names and of those in @more. */
static bool has_only(const char *text, const char *more)
{
	for (; *text; text++)
		if (!is_word_char(*text) && !strchr(more, *text))
			return false;
	return true;
}

/* Finds the next element of a list with commas. Returns its length; @list moves behind it. */
static size_t next_of(const char **list)
{
	size_t len = strcspn(*list, ",");

	*list += len + ((*list)[len] == ',');
	return len;
}

static const char *read_verbs(const char *list, unsigned int *verbs)
{
	*verbs = 0;
	do {
		const char *one = list;
		size_t len = next_of(&list);
		unsigned int i;

		for (i = 0; i < BEARER_VERBS; i++)
			if (strlen(names[i]) == len && !memcmp(one, names[i], len))
				break;
		if (i == BEARER_VERBS)
			return "verbs are read, put, work and admin, separated by commas";
		*verbs |= 1U << i;
	} while (*list || list[-1] == ',');
	return NULL;
}

static const char *read_queues(const char *list, char *queues, size_t room)
{
	if (strlen(list) >= room)
		return "the list of queues is too long";
	if (!has_only(list, "*?,") || *list == ',' || list[strlen(list) - 1] == ',' ||
	    strstr(list, ",,"))
		return "queues are names, which may contain * and ?, separated by commas";
	memcpy(queues, list, strlen(list) + 1);
	return NULL;
}

/* Copies the words of a line. Returns their number, or WORDS + 1 if there are more. */
static unsigned int split(char *text, char *word[WORDS])
{
	unsigned int n = 0;

	for (text += strspn(text, " \t"); *text; text += strspn(text, " \t")) {
		if (n == WORDS)
			return n + 1;
		word[n++] = text;
		text += strcspn(text, " \t");
		if (*text)
			*text++ = '\0';
	}
	return n;
}

const char *bearer_parse(const char *line, struct bearer *t)
{
	struct bearer new = { .verbs = BEARER_ALL, .queues = "*" };
	char text[1024], *word[WORDS] = { "token", text };
	const char *why;
	unsigned int n;

	if (strlen(line) >= sizeof(text))
		return "the line is too long";
	memcpy(text, line, strlen(line) + 1);
	n = split(text, word);
	if (n == 1) {
		word[1] = word[0];
		word[0] = "token";
	} else if (n != WORDS) {
		return "a line must be NAME TOKEN VERBS QUEUES, or a single token";
	}
	if (strlen(word[0]) > BEARER_NAME_MAX || !has_only(word[0], ".@"))
		return "the name of a token must be 1 to 64 of A-Za-z0-9_.@-";
	why = token_refused(word[1]);
	if (!why && strlen(word[1]) >= sizeof(new.text))
		why = "a token must have at most 255 characters";
	if (!why && n == WORDS)
		why = read_verbs(word[2], &new.verbs);
	if (!why && n == WORDS)
		why = read_queues(word[3], new.queues, sizeof(new.queues));
	if (why)
		return why;
	memcpy(new.name, word[0], strlen(word[0]) + 1);
	memcpy(new.text, word[1], strlen(word[1]));
	*t = new;
	return NULL;
}

/* True if a glob of @len bytes matches the name. If a star matched too little, it matches more. */
static bool matches(const char *glob, size_t len, const char *name)
{
	const char *end = glob + len, *star = NULL, *from = NULL;

	while (*name) {
		if (glob < end && *glob == '*') {
			star = ++glob;
			from = name;
		} else if (glob < end && (*glob == '?' || *glob == *name)) {
			glob++;
			name++;
		} else if (star) {
			glob = star;
			name = ++from;
		} else {
			return false;
		}
	}
	while (glob < end && *glob == '*')
		glob++;
	return glob == end;
}

bool bearer_sees(const struct bearer *t, const char *queue)
{
	const char *list = t->queues;

	while (*list) {
		const char *one = list;
		size_t len = next_of(&list);

		if (matches(one, len, queue))
			return true;
	}
	return false;
}

bool bearer_sees_all(const struct bearer *t)
{
	const char *list = t->queues;

	while (*list) {
		const char *one = list;

		if (next_of(&list) == 1 && *one == '*')
			return true;
	}
	return false;
}
