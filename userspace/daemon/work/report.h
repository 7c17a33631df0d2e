/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reports, in batches.
 */
#ifndef TWHEELD_WORK_REPORT_H
#define TWHEELD_WORK_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "text/spec.h"
#include "work/queue.h"

enum report_answer {
	REPORT_APPLIED,
	REPORT_STALE,
	REPORT_DEAD,
	/* The report was not sent. */
	REPORT_DOWN,
	/* The report may have been sent. */
	REPORT_UNKNOWN,
};

/**
 * struct outcome - the end of an attempt, on its way to Redis
 * @lane: of its task
 * @holder: of its take
 * @token: of its take
 * @verdict: ok, retry, dead, release
 * @delay_ms: until the next attempt, or RELEASE_DUE
 * @at_ms: for release: absolute due time instead of a delay; 0: none
 * @done: called with the answer and the report, which is freed afterwards; or NULL
 * @arg: for @done
 * @persist: send it again until there is an answer
 * @confirm: a client is told of it, so it must outlive the master
 * @repeated: it was sent before
 * @next: in a list
 * @prev: in a list
 * @status: of the last answer; 0: there was none
 * @host: that was called; empty: none
 * @note: the last error; empty: none
 * @id: of the task
 */
struct outcome {
	struct lane *lane;
	uint64_t holder;
	uint64_t token;
	enum verdict verdict;
	uint64_t delay_ms;
	uint64_t at_ms;
	void (*done)(void *arg, enum report_answer answer);
	void *arg;
	bool persist;
	bool confirm;
	bool repeated;
	struct outcome *next;
	struct outcome *prev;
	int status;
	char host[100];
	char note[TASK_NOTE_MAX + 1];
	char id[TASK_ID_MAX + 1];
};

/**
 * report_send() - report the end of an attempt
 * @l: the lane
 * @r: copied
 */
void report_send(struct lane *l, const struct outcome *r);

/**
 * report_log() - a line about a failure: queue, id, host, and the status or why there is none
 * @r: the report
 * @what: what happened
 */
void report_log(const struct outcome *r, const char *what);

/**
 * report_flush() - send what waits for company
 */
void report_flush(struct lane *l);

/**
 * report_flush_all() - send all of them: Redis is back, or the daemon stops
 */
void report_flush_all(struct daemon *d);

/**
 * report_free_all() - forget reports that cannot be sent any more
 */
void report_free_all(struct lane *l);

#endif /* TWHEELD_WORK_REPORT_H */
