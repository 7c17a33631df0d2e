/* SPDX-License-Identifier: GPL-2.0 */
/* Parses the part of a URL after "?". This file does no I/O. */
#ifndef TWHEELD_TEXT_QUERY_H
#define TWHEELD_TEXT_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/json.h"
#include "text/spec.h"

#define LIST_LIMIT_MAX		1000
#define LIST_LIMIT_DEFAULT	100
/*
 * "LANE.SCORE.ID". If a URL would have to escape a byte of the id, it becomes "~" and two hex
 * digits.
 */
#define LIST_CURSOR_LEN		(16 + 24 + 3 * TASK_ID_MAX)

/**
 * struct list_query - state=&limit=&cursor=
 * @has_state: a state was named
 * @has_limit: a limit was
 * @state: list only this one; TASK_SCHEDULED unless named
 * @limit: 1 to LIST_LIMIT_MAX; default LIST_LIMIT_DEFAULT
 * @cursor: where the last answer ended; empty: at the beginning
 */
struct list_query {
	bool has_state;
	bool has_limit;
	enum task_state state;
	unsigned int limit;
	char cursor[LIST_CURSOR_LEN];
};

/**
 * list_cursor_text() - the cursor of a list, which needs no escapes in a URL
 * @text: the result
 * @lane: number of the lane
 * @score: of the task that was listed last
 * @id: of it; empty: the lane begins
 */
void list_cursor_text(char text[LIST_CURSOR_LEN], unsigned int lane, uint64_t score,
		      const char *id);

/**
 * list_cursor_parse() - the same back
 *
 * Return: false if it is no such text.
 */
bool list_cursor_parse(const char *text, unsigned int *lane, uint64_t *score,
		       char id[TASK_ID_MAX + 1]);

/**
 * list_query_default() - a query without parameters
 * @q: the result
 */
void list_query_default(struct list_query *q);

/**
 * list_query_set() - apply one parameter
 * @q: the query
 * @key: its name, decoded
 * @value: its value, decoded; NULL counts as empty
 * @err: the error
 */
int list_query_set(struct list_query *q, const char *key, const char *value,
		   struct api_error *err);

/**
 * list_query_parse() - read a query that is still percent-encoded
 * @text: what stands behind "?"; NULL counts as empty
 * @q: the result
 * @err: the error
 */
int list_query_parse(const char *text, struct list_query *q, struct api_error *err);

/**
 * limit_parse() - the value of limit= of …/replay
 * @value: its value, decoded
 * @max: the largest
 * @limit: the result
 * @err: the error
 */
int limit_parse(const char *value, unsigned int max, unsigned int *limit,
		struct api_error *err);

#endif /* TWHEELD_TEXT_QUERY_H */
