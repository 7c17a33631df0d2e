/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A schedule: from a request, and its calendar. No I/O.
 */
#ifndef TWHEELD_TEXT_SCHEDULE_H
#define TWHEELD_TEXT_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "text/cron.h"
#include "text/rule.h"
#include "text/spec.h"

#define SCHEDULE_NAME_MAX	64
#define SCHEDULE_NAME_TEXT	\
	"1 to 64 of the characters A-Za-z0-9_.- (but not \".\" or \"..\")"
/* schedule_next(): no run is left. */
#define SCHEDULE_NEVER		UINT64_MAX

enum schedule_missed {
	/* The run that waits counts for all. */
	MISSED_ONCE,
	/* Nor does that one run, if it is late by more than a minute. */
	MISSED_SKIP,
	/* All, up to a limit. */
	MISSED_ALL,
};

enum schedule_overlap {
	OVERLAP_ALLOW,
	/* No run begins while the one before lasts. */
	OVERLAP_SKIP,
	/* A run waits until the one before has ended. */
	OVERLAP_QUEUE,
};

/**
 * struct schedule_spec - a schedule as a client describes it
 * @cron: its calendar, if @rule is NULL and @every_ms is 0
 * @rule: or a rule
 * @zone: whose local time that means
 * @every_ms: or a period: multiples of it since @start_ms, or since 1970
 * @start_ms: no run before
 * @end_ms: no run after
 * @max: runs in all; 0: no limit
 * @jitter_ms: a run is due up to this much later, depending on its name and time
 * @missed: what happens to runs whose time passed while no daemon ran
 * @missed_max: for MISSED_ALL and OVERLAP_QUEUE: so many in a row, the earliest
 * @overlap: what happens to runs whose time comes while the one before lasts
 * @enabled: it makes runs
 * @task: what a run does; without an id
 */
struct schedule_spec {
	struct cron cron;
	struct rule *rule;
	struct zone *zone;
	uint64_t every_ms;
	uint64_t start_ms;
	uint64_t end_ms;
	uint64_t max;
	uint64_t jitter_ms;
	enum schedule_missed missed;
	uint64_t missed_max;
	enum schedule_overlap overlap;
	bool enabled;
	struct task_spec task;
};

/**
 * schedule_name_valid() - SCHEDULE_NAME_TEXT
 */
bool schedule_name_valid(const char *name);

/**
 * schedule_parse() - read a definition
 * @text: the body of a request, or what schedule_text() made
 * @len: its length
 * @q: settings of the queue: its mode and its defaults
 * @spec: the result; free it by schedule_free_spec()
 * @err: the error
 */
int schedule_parse(const char *text, size_t len, const struct queue_settings *q,
		   struct schedule_spec *spec, struct api_error *err);

void schedule_free_spec(struct schedule_spec *spec);

/**
 * schedule_patch() - read the body of a PATCH: fields to put over a definition
 *
 * Return: an object, or NULL with @err.
 */
json_t *schedule_patch(const char *text, size_t len, struct api_error *err);

/**
 * schedule_text() - a definition as it is stored: the same text for the same fields
 * @text: a definition that schedule_parse() accepted
 * @len: its length
 * @patch: fields to put over it, or NULL; null removes a field
 *
 * The field "enabled" is left out, because the record has it.
 *
 * Return: text to free().
 */
char *schedule_text(const char *text, size_t len, const json_t *patch);

/**
 * schedule_next() - the first run after a moment
 * @spec: the schedule
 * @after_ms: the moment, Unix milliseconds
 *
 * Return: its time, without jitter; or SCHEDULE_NEVER.
 */
uint64_t schedule_next(const struct schedule_spec *spec, uint64_t after_ms);

/**
 * schedule_follow() - the run that is made after another one
 * @spec: the schedule
 * @run: the other one
 * @now_ms: the time
 * @caught: how many in a row were missed when they were made: brought up to date
 */
uint64_t schedule_follow(const struct schedule_spec *spec, uint64_t run, uint64_t now_ms,
			 uint64_t *caught);

/**
 * schedule_due() - when a run is due
 * @spec: the schedule
 * @name: its name
 * @run: the time of the run
 */
uint64_t schedule_due(const struct schedule_spec *spec, const char *name, uint64_t run);

/**
 * schedule_run_id() - the id of the task of a run: "NAME:MS"
 */
void schedule_run_id(char id[TASK_ID_MAX + 1], const char *name, uint64_t run);

#endif /* TWHEELD_TEXT_SCHEDULE_H */
