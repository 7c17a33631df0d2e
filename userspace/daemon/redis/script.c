// SPDX-License-Identifier: GPL-2.0
/* The scripts as C sees them. See script.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/script.h"

static const redisReply *element(const redisReply *r, unsigned int n)
{
	return r && r->type == REDIS_REPLY_ARRAY && n < r->elements ? r->element[n] : NULL;
}

static bool number(const redisReply *r, unsigned int n, int64_t *out)
{
	r = element(r, n);
	if (!r)
		return false;
	if (r->type == REDIS_REPLY_INTEGER)
		*out = r->integer;
	else if (r->type == REDIS_REPLY_STRING)
		*out = strtoll(r->str, NULL, 10);
	else
		return false;
	return true;
}

static bool u64(const redisReply *r, unsigned int n, uint64_t *out)
{
	int64_t value;

	if (!number(r, n, &value) || value < 0)
		return false;
	*out = value;
	return true;
}

static bool u32(const redisReply *r, unsigned int n, unsigned int *out)
{
	uint64_t value;

	if (!u64(r, n, &value) || value > UINT32_MAX)
		return false;
	*out = value;
	return true;
}

/* A time, or -1 for none. */
static bool time_or_never(const redisReply *r, unsigned int n, uint64_t *out)
{
	int64_t value;

	if (!number(r, n, &value))
		return false;
	*out = value < 0 ? NEVER_MS : (uint64_t)value;
	return true;
}

static void add_hex(struct args *a, uint64_t n)
{
	char text[20];

	snprintf(text, sizeof(text), "%016" PRIx64, n);
	args_text(a, text);
}

static bool hex(const redisReply *r, unsigned int n, uint64_t *out)
{
	r = element(r, n);
	if (!r || r->type != REDIS_REPLY_STRING)
		return false;
	*out = strtoull(r->str, NULL, 16);
	return true;
}

uint64_t script_now_ms(const redisReply *reply)
{
	uint64_t us = 0;

	u64(reply, 0, &us);
	return us / 1000;
}

/* ---- put ---- */

void put_args_begin(struct args *a, uint64_t lane_max)
{
	args_u64(a, lane_max);
}

void put_args_add(struct args *a, const struct task_spec *s)
{
	char settings[128];
	int len = snprintf(settings, sizeof(settings),
			   "%u %u %u %" PRIu64 " %" PRIu64 " %u %" PRIu64, s->if_exists,
			   s->when != TASK_AT, s->limit, s->every_ms, s->late_after_ms,
			   s->late_then, s->keep_ms);

	args_text(a, s->id);
	args_u64(a, s->when == TASK_NOW ? 0 : s->time_ms);
	args_bytes(a, settings, len);
	args_bytes(a, s->body, s->body_len);
}

/* Due when it was asked for. */
static bool created(const redisReply *reply, unsigned int n, const struct task_spec *s,
		    struct put_answer *out)
{
	out->due_ms = s->when == TASK_NOW ? 0 : s->time_ms;
	if (s->when != TASK_AT)
		out->due_ms += script_now_ms(reply);
	out->result = SCRIPT_CREATED;
	out->state = TASK_SCHEDULED;
	return u64(reply, n, &out->version);
}

bool put_answer(const redisReply *reply, unsigned int n, const struct task_spec *s,
		struct put_answer *out)
{
	static const enum task_state states[] = {
		TASK_SCHEDULED, TASK_LEASED, TASK_DONE, TASK_DEAD,
	};
	const redisReply *r = element(reply, n + 1);
	unsigned int result, state, leased;

	memset(out, 0, sizeof(*out));
	if (r && r->type == REDIS_REPLY_INTEGER)
		return created(reply, n + 1, s, out);
	if (!u32(r, 0, &result) || result > SCRIPT_GONE || !u64(r, 1, &out->due_ms) ||
	    !u64(r, 2, &out->version) || !u32(r, 3, &state) || state >= TASK_STATES ||
	    !u32(r, 4, &leased))
		return false;
	out->result = result;
	out->state = states[state];
	out->was_leased = leased;
	if (!leased)
		return true;
	return hex(r, 5, &out->holder) && u64(r, 6, &out->token) && u64(r, 7, &out->was_due_ms);
}

/* ---- take ---- */

#define TAKE_FIXED	10

void take_args(struct args *a, unsigned int limit, uint64_t lease_ms, uint64_t holder,
	       uint64_t ahead_ms, const struct take_limits *limits)
{
	args_u64(a, limit);
	args_u64(a, lease_ms);
	add_hex(a, holder);
	args_u64(a, ahead_ms);
	if (!limits)
		return;
	args_u64(a, limits->rate);
	args_u64(a, limits->per_us);
	args_u64(a, limits->burst);
	args_u64(a, limits->concurrency);
	args_u64(a, limits->lanes);
}

bool take_answer(const redisReply *reply, struct take_answer *out)
{
	unsigned int paused, limited;

	if (!u32(reply, 1, &paused) || !time_or_never(reply, 2, &out->next_ms) ||
	    !time_or_never(reply, 3, &out->lease_end_ms) || !u32(reply, 4, &out->missed) ||
	    !u32(reply, 5, &out->dead) || !u32(reply, 6, &out->orphans) ||
	    !u32(reply, 7, &out->newer) || !u32(reply, 8, &limited) ||
	    limited > LIMITED_CONCURRENCY || !u64(reply, 9, &out->wait_ms))
		return false;
	out->limited = limited;
	out->now_ms = script_now_ms(reply);
	out->paused = paused;
	out->count = reply->elements - TAKE_FIXED;
	return true;
}

bool take_answer_task(const redisReply *reply, unsigned int n, struct taken *t)
{
	const redisReply *r = element(reply, TAKE_FIXED + n);
	const redisReply *id = element(r, 0), *body = element(r, 7);

	if (!id || !body || id->type != REDIS_REPLY_STRING || body->type != REDIS_REPLY_STRING ||
	    !u64(r, 1, &t->token) || !u32(r, 2, &t->attempt) || !u64(r, 3, &t->due_ms) ||
	    !u64(r, 4, &t->first_due_ms) || !u64(r, 5, &t->version) || !u32(r, 6, &t->missed))
		return false;
	t->id = id->str;
	t->id_len = id->len;
	t->body = body->str;
	t->body_len = body->len;
	return t->id_len <= TASK_ID_MAX;
}

/* ---- ack, renew ---- */

void ack_args_begin(struct args *a, uint64_t holder)
{
	add_hex(a, holder);
}

void ack_args_add(struct args *a, const struct ack *ack)
{
	args_text(a, ack->id);
	args_u64(a, ack->token);
	args_u64(a, ack->verdict);
	if (ack->delay_ms == RELEASE_DUE)
		args_text(a, "-1");
	else
		args_u64(a, ack->delay_ms);
	args_u64(a, ack->at_ms);
	args_text(a, ack->note);
}

bool ack_answer(const redisReply *reply, unsigned int n, enum acked *out)
{
	unsigned int value;

	if (!u32(reply, n + 1, &value) || value > ACK_DEAD)
		return false;
	*out = value;
	return true;
}

void renew_args_begin(struct args *a, uint64_t holder, uint64_t lease_ms)
{
	add_hex(a, holder);
	args_u64(a, lease_ms);
}

void renew_args_add(struct args *a, const char *id, uint64_t token)
{
	args_text(a, id);
	args_u64(a, token);
}

bool renew_answer(const redisReply *reply, unsigned int n, enum renewed *out)
{
	unsigned int value;

	if (!u32(reply, n + 1, &value) || value > RENEW_CANCELED)
		return false;
	*out = value;
	return true;
}

/* ---- recover, change, sweep, pause ---- */

void recover_args(struct args *a, unsigned int limit, unsigned int max_lost)
{
	args_u64(a, limit);
	args_u64(a, max_lost);
}

bool recover_answer(const redisReply *reply, struct recover_answer *out)
{
	return u32(reply, 1, &out->returned) && u32(reply, 2, &out->dead) &&
	       u32(reply, 3, &out->orphans) && time_or_never(reply, 4, &out->lease_end_ms) &&
	       time_or_never(reply, 5, &out->next_ms) && u32(reply, 7, &out->newer);
}

void change_args(struct args *a, const char *id, enum change_verb verb, bool relative,
		 uint64_t time_ms)
{
	args_text(a, id);
	args_u64(a, verb);
	args_u64(a, relative);
	args_u64(a, time_ms);
}

bool change_answer(const redisReply *reply, struct change_answer *out)
{
	unsigned int ahead;
	int64_t state;

	memset(out, 0, sizeof(*out));
	if (!number(reply, 1, &state) || state >= TASK_STATES)
		return false;
	out->newer = state == -2;
	if (state < 0)
		return true;
	out->found = true;
	out->state = state;
	if (!u64(reply, 2, &out->due_ms) || !hex(reply, 3, &out->holder) ||
	    !u64(reply, 4, &out->token) || !u32(reply, 5, &ahead) || !u64(reply, 6, &out->version))
		return false;
	out->ahead = ahead;
	return true;
}

void sweep_args(struct args *a, unsigned int limit, uint64_t dead_max, uint64_t dead_keep_ms)
{
	args_u64(a, limit);
	args_u64(a, dead_max);
	args_u64(a, dead_keep_ms);
}

bool sweep_answer(const redisReply *reply, struct sweep_answer *out)
{
	unsigned int kind;

	out->most = 0;
	for (unsigned int i = 2; i < 5; i++) {
		if (!u32(reply, i, &kind))
			return false;
		if (kind > out->most)
			out->most = kind;
	}
	return u32(reply, 5, &out->orphans) && u32(reply, 6, &out->newer) &&
	       time_or_never(reply, 7, &out->next_ms);
}

void pause_args(struct args *a, bool pause)
{
	args_u64(a, pause);
}

bool pause_answer(const redisReply *reply, struct pause_answer *out)
{
	return u32(reply, 1, &out->begun) && u32(reply, 2, &out->held);
}

/* ---- settings ---- */

void settings_args(struct args *a, bool make, const char *name, const char *text,
		   unsigned int most)
{
	args_text(a, make ? "make" : "change");
	args_text(a, name);
	args_text(a, text);
	args_u64(a, most);
}

bool settings_answer(const redisReply *reply, enum settings_result *out)
{
	unsigned int value;

	if (!u32(reply, 1, &value) || value > SETTINGS_MANY)
		return false;
	*out = value;
	return true;
}

/* ---- look ---- */

void look_counts_args(struct args *a)
{
	args_text(a, "counts");
}

bool look_counts_answer(const redisReply *reply, struct counts *out)
{
	unsigned int paused;

	if (!u64(reply, 1, &out->state[TASK_SCHEDULED]) ||
	    !u64(reply, 2, &out->state[TASK_LEASED]) || !u64(reply, 3, &out->state[TASK_DONE]) ||
	    !u64(reply, 4, &out->state[TASK_DEAD]) ||
	    !time_or_never(reply, 5, &out->oldest_due_ms) || !u32(reply, 6, &paused))
		return false;
	out->paused = paused;
	for (unsigned int i = 0; i < FORECASTS; i++) {
		if (!u64(reply, 7 + i, &out->within[i]))
			return false;
	}
	return true;
}

void look_get_args(struct args *a, const char *id)
{
	args_text(a, "get");
	args_text(a, id);
}

static const char *const sets[] = { "due", "run", "done", "dead" };

void look_list_args(struct args *a, enum task_state state, unsigned int limit,
		    const struct place *after)
{
	args_text(a, "list");
	args_text(a, sets[state]);
	args_u64(a, limit);
	if (!after->id[0])
		return;
	args_u64(a, after->score);
	args_text(a, after->id);
}

bool look_list_place(const redisReply *reply, unsigned int *looked, struct place *last)
{
	const redisReply *r = element(reply, 1), *id = element(r, 2);

	if (!u32(r, 0, looked))
		return false;
	if (!*looked)
		return true;
	if (!id || id->type != REDIS_REPLY_STRING || id->len > TASK_ID_MAX ||
	    !u64(r, 1, &last->score))
		return false;
	memcpy(last->id, id->str, id->len);
	last->id[id->len] = '\0';
	return true;
}

/* ---- remove ---- */

void lane_args(struct args *a, enum lane_verb verb)
{
	static const char *const verbs[] = { "close", "open", "ask" };

	args_text(a, verbs[verb]);
}

bool lane_answer(const redisReply *reply, uint64_t *n)
{
	return u64(reply, 1, n);
}

void purge_args(struct args *a, enum task_state state, unsigned int limit, uint64_t before_ms,
		const char *prefix, const struct place *after)
{
	args_text(a, "purge");
	args_text(a, sets[state]);
	args_u64(a, limit);
	if (before_ms == NEVER_MS)
		args_text(a, "-1");
	else
		args_u64(a, before_ms);
	args_text(a, prefix);
	if (!after->id[0])
		return;
	args_u64(a, after->score);
	args_text(a, after->id);
}

bool purge_answer(const redisReply *reply, unsigned int *looked, struct place *last,
		  unsigned int *removed)
{
	return look_list_place(reply, looked, last) && u32(reply, 2, removed);
}

unsigned int look_list_items(const redisReply *reply)
{
	unsigned int items = look_answer_items(reply);

	return items ? items - 1 : 0;
}

unsigned int look_answer_items(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ARRAY && reply->elements ? reply->elements - 1 : 0;
}

bool look_answer_newer(const redisReply *reply, unsigned int n)
{
	int64_t state;

	return number(reply, n + 1, &state) && state == -2;
}

bool look_answer_item(const redisReply *reply, unsigned int n, char id[TASK_ID_MAX + 1],
		      struct task_view *v)
{
	const redisReply *r = element(reply, n + 1), *name = element(r, 0);
	const redisReply *note = element(r, 14), *body = element(r, 15);
	unsigned int state, begun, then;
	uint64_t score;

	memset(v, 0, sizeof(*v));
	if (!name || !note || !body || name->type != REDIS_REPLY_STRING ||
	    name->len > TASK_ID_MAX || note->type != REDIS_REPLY_STRING ||
	    body->type != REDIS_REPLY_STRING || !u32(r, 1, &state) || state >= TASK_STATES ||
	    !u64(r, 2, &v->due_ms) || !u64(r, 3, &v->first_due_ms) || !u64(r, 4, &v->version) ||
	    !u32(r, 5, &v->attempts) || !u32(r, 6, &v->lost) || !u32(r, 7, &v->limit) ||
	    !u32(r, 8, &begun) || !u64(r, 9, &score) || !u64(r, 10, &v->every_ms) ||
	    !u64(r, 11, &v->late_after_ms) || !u32(r, 12, &then) || !u64(r, 13, &v->keep_ms))
		return false;
	memcpy(id, name->str, name->len);
	id[name->len] = '\0';
	v->id = id;
	v->state = state;
	v->begun = begun;
	v->late_then = then;
	if (v->state == TASK_LEASED)
		v->lease_end_ms = score;
	else if (v->state != TASK_SCHEDULED)
		v->ended_ms = v->state == TASK_DONE ? score - v->keep_ms : score;
	if (note->len) {
		v->note = note->str;
		v->note_len = note->len;
	}
	if (body->len) {
		v->body = (const uint8_t *)body->str;
		v->body_len = body->len;
	}
	return true;
}
