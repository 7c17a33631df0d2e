/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What workers send and get: reserve, reports, tokens. No I/O.
 */
#ifndef TWHEELD_TEXT_PULL_H
#define TWHEELD_TEXT_PULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/body.h"
#include "text/json.h"
#include "text/run.h"
#include "text/spec.h"

#define RESERVE_LIMIT_MAX	100
#define TOKEN_LEN		36

/**
 * struct reserve - the body of POST …/reserve
 * @limit: 1 to 100; default 1
 * @lease_ms: 1 s to 12 h; default 30 s
 * @wait_ms: 0 to 60 s; default 0
 */
struct reserve {
	unsigned int limit;
	uint64_t lease_ms;
	uint64_t wait_ms;
};

int reserve_parse(const char *text, size_t len, struct reserve *r,
		  struct api_error *err);

enum report_kind {
	REPORT_ACK,
	REPORT_NACK,
	REPORT_EXTEND,
	REPORT_RELEASE,
};

/**
 * struct report_item - one task of a report
 * @id: its id
 * @holder: from its token
 * @token: from its token
 * @dead: nack: no further attempt
 * @has_delay: nack, release: @delay_ms was given; else the back-off decides
 * @delay_ms: 0 to 1 d for nack; 0 to 1 h for release
 * @lease_ms: extend: the new lease, from now; default 30 s
 * @error: nack: text for the note; valid UTF-8
 */
struct report_item {
	char id[TASK_ID_MAX + 1];
	uint64_t holder;
	uint64_t token;
	bool dead;
	bool has_delay;
	uint64_t delay_ms;
	uint64_t lease_ms;
	char error[TASK_NOTE_MAX + 1];
};

/**
 * struct report - the body of POST …/ack, /nack, /extend, /release
 * @count: 1 to TASK_BATCH_MAX
 * @item: the items
 */
struct report {
	size_t count;
	struct report_item *item;
};

/**
 * report_parse() - read {"tasks":[{"id","token"}]}
 * @text: the body
 * @len: its length
 * @kind: which fields an item may have
 * @report: the result; free it by report_free()
 * @err: the error
 *
 * "delay", "dead", "error" and "lease" may also stand beside "tasks". They then
 * are the default of all items.
 */
int report_parse(const char *text, size_t len, enum report_kind kind,
		 struct report *report, struct api_error *err);

void report_free(struct report *report);

/**
 * token_text() - the token of a lease as workers see it
 * @buf: the result: 16 hex digits, "-", hex digits
 * @holder: number of the daemon's start
 * @token: number of the lease
 *
 * Return: @buf.
 */
const char *token_text(char buf[TOKEN_LEN], uint64_t holder, uint64_t token);

/**
 * token_parse() - read it
 * @text: NUL-terminated
 * @holder: the result
 * @token: the result
 *
 * Return: false if it is none.
 */
bool token_parse(const char *text, uint64_t *holder, uint64_t *token);

/**
 * payload_check() - find out whether a payload is what its flag says
 * @b: the body. BODY_JSON is taken from a payload that is not JSON
 */
void payload_check(struct task_body *b);

/**
 * reserved_room() - room that reserved_text() needs at most
 */
size_t reserved_room(const struct task_body *b);

/**
 * reserved_text() - {"id","token","key","version","attempt","first_due","payload"}
 * @out: room for reserved_room() bytes
 * @run: the run
 * @holder: for the token
 * @token: for the token
 * @b: the body, as payload_check() left it
 *
 * A payload that is not JSON is "payload_base64".
 *
 * Return: the end of the text.
 */
char *reserved_text(char *out, const struct run *run, uint64_t holder, uint64_t token,
		    const struct task_body *b);

#endif /* TWHEELD_TEXT_PULL_H */
