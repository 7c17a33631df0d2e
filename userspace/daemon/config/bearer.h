/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who may ask for what: the lines of token-file.
 *
 *	NAME TOKEN VERBS QUEUES		deploy 5eCr3t... read,put mail-*,jobs
 *	TOKEN				all verbs, all queues
 *
 * The name is for the log. This file does no I/O.
 */
#ifndef TWHEELD_CONFIG_BEARER_H
#define TWHEELD_CONFIG_BEARER_H

#include <stdbool.h>
#include <stddef.h>

#define BEARER_NAME_MAX	64
#define BEARER_LEN	256

/* What a token may do, a bit for each; a route wants one of them. */
enum verb {
	VERB_READ = 1,
	VERB_PUT = 2,
	VERB_WORK = 4,
	VERB_ADMIN = 8,
};

#define BEARER_VERBS		4
#define BEARER_ALL	15

/**
 * struct bearer - one line
 * @name: of its owner
 * @text: the token, and NUL bytes behind it up to the end
 * @verbs: what it may do
 * @queues: in which queues: globs with commas between
 */
struct bearer {
	char name[BEARER_NAME_MAX + 1];
	char text[BEARER_LEN];
	unsigned int verbs;
	char queues[256];
};

/**
 * bearer_parse() - read a line
 * @line: without spaces around it
 * @t: the result; set on success only
 *
 * Return: NULL, or a constant text that says what is wrong, without the token.
 */
const char *bearer_parse(const char *line, struct bearer *t);

/**
 * bearer_sees() - whether a token is for a queue
 */
bool bearer_sees(const struct bearer *t, const char *queue);

/**
 * bearer_sees_all() - whether it is for all queues
 */
bool bearer_sees_all(const struct bearer *t);

/**
 * verb_name() - "read", "put", "work" or "admin"
 * @one: one bit
 */
const char *verb_name(enum verb one);

#endif /* TWHEELD_CONFIG_BEARER_H */
