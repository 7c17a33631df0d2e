// SPDX-License-Identifier: GPL-2.0
/* The scripts of schedules as C sees them. See record.h. */
#include "redis/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool record_parse(const char *text, size_t len, struct record *r)
{
	const char *end = memchr(text, '\n', len);
	char clears[24] = "";
	unsigned int state, made;
	int64_t next;

	memset(r, 0, sizeof(*r));
	/* "1 %u" in one format would match "10", because a space also matches nothing. */
	if (!end || strncmp(text, "1 ", 2) ||
	    sscanf(text + 2, "%" SCNu64 " %u %" SCNd64 " %u %" SCNu64 " %" SCNu64 " %23[0-9-]",
		   &r->generation, &state, &next, &made, &r->runs, &r->caught, clears) != 7 ||
	    state > RECORD_DELETED)
		return false;
	r->state = state;
	r->next = next < 0 ? SCHEDULE_NEVER : (uint64_t)next;
	r->made = made;
	r->clears = clears[0] != '-';
	r->clear = r->clears ? strtoull(clears, NULL, 10) : 0;
	r->definition = end + 1;
	r->definition_len = text + len - r->definition;
	return true;
}

static void begin(struct args *a, const char *verb, const char *field, uint64_t generation)
{
	a->confirm = true;
	args_text(a, verb);
	args_text(a, field);
	args_u64(a, generation);
}

static void add_run(struct args *a, uint64_t run)
{
	if (run == SCHEDULE_NEVER)
		args_text(a, "-1");
	else
		args_u64(a, run);
}

void record_define_args(struct args *a, const char *field, uint64_t generation, bool enabled,
			uint64_t next, const char *definition)
{
	begin(a, "define", field, generation);
	args_u64(a, enabled ? RECORD_ENABLED : RECORD_DISABLED);
	add_run(a, enabled ? next : SCHEDULE_NEVER);
	args_u64(a, SCHEDULES_MAX);
	args_text(a, definition);
}

void record_delete_args(struct args *a, const char *field)
{
	begin(a, "delete", field, 0);
}

void record_cleared_args(struct args *a, const char *field, const struct record *r)
{
	begin(a, "cleared", field, r->generation);
	args_u64(a, r->clear);
}

void record_made_args(struct args *a, const char *field, const struct record *r)
{
	begin(a, "made", field, r->generation);
	args_u64(a, r->next);
}

void record_advance_args(struct args *a, const char *field, const struct record *r, uint64_t to,
			 uint64_t caught)
{
	begin(a, "advance", field, r->generation);
	args_u64(a, r->next);
	add_run(a, to);
	args_u64(a, caught);
}

void record_renew_args(struct args *a, const char *field, const struct record *r,
		       uint64_t known)
{
	begin(a, "renew", field, r->generation);
	args_u64(a, known);
}

static bool number_at(const redisReply *reply, size_t n, int64_t *out)
{
	if (reply->type != REDIS_REPLY_ARRAY || n >= reply->elements ||
	    reply->element[n]->type != REDIS_REPLY_INTEGER)
		return false;
	*out = reply->element[n]->integer;
	return true;
}

bool record_answer(const redisReply *reply, enum record_result *result, const redisReply **text)
{
	int64_t value;

	if (!number_at(reply, 1, &value) || value < RECORD_MANY || value > RECORD_CREATED ||
	    reply->elements < 3 || reply->element[2]->type != REDIS_REPLY_STRING)
		return false;
	*result = value;
	*text = reply->element[2]->len ? reply->element[2] : NULL;
	return true;
}

void plant_args(struct args *a, const struct record *r, const char *name, uint64_t lane_max,
		uint64_t due_ms, const struct task_spec *task)
{
	a->confirm = true;
	args_u64(a, r->generation);
	args_text(a, name);
	args_u64(a, r->next);
	args_u64(a, lane_max);
	args_u64(a, due_ms);
	args_u64(a, task->limit);
	args_u64(a, task->late_after_ms);
	args_u64(a, task->late_then);
	args_u64(a, task->keep_ms);
	args_bytes(a, task->body, task->body_len);
}

bool plant_answer(const redisReply *reply, enum planted *out, uint64_t *known)
{
	int64_t value, generation = 0;

	if (!number_at(reply, 1, &value) || value < 0 || value > PLANT_GONE ||
	    (value == PLANT_STALE && !number_at(reply, 2, &generation)))
		return false;
	*out = value;
	*known = generation;
	return true;
}

void clear_args(struct args *a, const struct record *r, const char *name)
{
	a->confirm = true;
	args_u64(a, r->generation);
	args_text(a, name);
	args_u64(a, r->clear);
}

bool clear_answer(const redisReply *reply, struct clear_answer *out)
{
	int64_t what, due, token;

	memset(out, 0, sizeof(*out));
	if (!number_at(reply, 1, &what))
		return false;
	out->held = what == 2;
	if (!out->held)
		return true;
	if (!number_at(reply, 2, &due) || !number_at(reply, 4, &token) ||
	    reply->element[3]->type != REDIS_REPLY_STRING)
		return false;
	out->due_ms = due;
	out->holder = strtoull(reply->element[3]->str, NULL, 16);
	out->token = token;
	return true;
}
