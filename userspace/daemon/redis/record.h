/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The scripts of schedules as C sees them, and the record of a schedule. No I/O.
 *
 * See lua/schedule.lua, lua/plant.lua and lua/clear.lua.
 */
#ifndef TWHEELD_REDIS_RECORD_H
#define TWHEELD_REDIS_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "redis/script.h"
#include "text/schedule.h"

/* Maximum number of schedules in all queues. */
#define SCHEDULES_MAX	10000

enum record_state {
	RECORD_DISABLED,
	RECORD_ENABLED,
	RECORD_DELETED,
};

/**
 * struct record - of a schedule
 * @generation: of its definition
 * @state: whether it makes runs
 * @next: the run that is to be made, or was made last; SCHEDULE_NEVER: none
 * @made: the task of that run was made
 * @runs: number of runs that were made
 * @caught: how many of the latest runs had been missed when they were made
 * @clears: there may still be tasks of earlier generations
 * @clear: the run of one of these tasks
 * @definition: JSON; points into the text
 * @definition_len: its length
 */
struct record {
	uint64_t generation;
	enum record_state state;
	uint64_t next;
	bool made;
	uint64_t runs;
	uint64_t caught;
	bool clears;
	uint64_t clear;
	const char *definition;
	size_t definition_len;
};

/**
 * record_parse() - read a record
 * @text: NUL-terminated; @r points into it
 *
 * Return: false if it is none that this version knows.
 */
bool record_parse(const char *text, size_t len, struct record *r);

enum record_result {
	RECORD_MANY = -4,
	RECORD_RACED = -3,
	RECORD_NEWER = -2,
	RECORD_ABSENT = -1,
	RECORD_SAME,
	RECORD_DONE,
	RECORD_CREATED,
};

void record_define_args(struct args *a, const char *field, uint64_t generation, bool enabled,
			uint64_t next, const char *definition);
void record_delete_args(struct args *a, const char *field);
void record_cleared_args(struct args *a, const char *field, const struct record *r);
void record_made_args(struct args *a, const char *field, const struct record *r);
void record_advance_args(struct args *a, const char *field, const struct record *r, uint64_t to,
			 uint64_t caught);
void record_renew_args(struct args *a, const char *field, const struct record *r,
		       uint64_t known);

/**
 * record_answer() - of all these
 * @text: out: the record as it is now; NULL: there is none
 */
bool record_answer(const redisReply *reply, enum record_result *result, const redisReply **text);

enum planted {
	PLANT_MADE,
	PLANT_WAS_MADE,
	PLANT_STALE,
	PLANT_FULL,
	PLANT_NEWER,
	/* The queue was removed. */
	PLANT_GONE,
};

void plant_args(struct args *a, const struct record *r, const char *name, uint64_t lane_max,
		uint64_t due_ms, const struct task_spec *task);
/**
 * plant_answer() - what became of a run
 * @known: out: with PLANT_STALE the generation that the lane knows
 */
bool plant_answer(const redisReply *reply, enum planted *out, uint64_t *known);

/**
 * struct clear_answer - of a clear
 * @held: a daemon holds the task, and must be told
 * @due_ms: its due time
 * @holder: who holds it
 * @token: of its take
 */
struct clear_answer {
	bool held;
	uint64_t due_ms;
	uint64_t holder;
	uint64_t token;
};

void clear_args(struct args *a, const struct record *r, const char *name);
bool clear_answer(const redisReply *reply, struct clear_answer *out);

#endif /* TWHEELD_REDIS_RECORD_H */
