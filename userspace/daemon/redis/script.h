/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The scripts as C sees them: what goes in, what comes out. No I/O.
 *
 * The comment on top of each lua/NAME.lua has the exact ARGV and answers. Each
 * decoder returns false if the answer is not one of its script.
 */
#ifndef TWHEELD_REDIS_SCRIPT_H
#define TWHEELD_REDIS_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "redis/command.h"
#include "text/spec.h"

#define NEVER_MS	UINT64_MAX

/* ---- put ---- */

enum script_put {
	SCRIPT_CREATED,
	SCRIPT_REPLACED,
	SCRIPT_KEPT,
	SCRIPT_EXISTS,
	SCRIPT_LANE_FULL,
	/* A newer version stored the task that is there. */
	SCRIPT_NEWER,
	SCRIPT_UPDATED,
	SCRIPT_GONE,
};

/**
 * struct put_answer - of one task
 * @result: what was done
 * @due_ms: due time, of the task that is there now
 * @version: of it
 * @state: of it
 * @was_leased: the task that was replaced or updated was leased
 * @holder: who held it
 * @token: of its take
 * @was_due_ms: its due time
 */
struct put_answer {
	enum script_put result;
	uint64_t due_ms;
	uint64_t version;
	enum task_state state;
	bool was_leased;
	uint64_t holder;
	uint64_t token;
	uint64_t was_due_ms;
};

void put_args_begin(struct args *a, uint64_t lane_max);
void put_args_add(struct args *a, const struct task_spec *spec);
/**
 * put_answer() - what became of a task
 * @n: its number in the batch
 * @spec: what was asked for
 */
bool put_answer(const redisReply *reply, unsigned int n, const struct task_spec *spec,
		struct put_answer *out);

/* ---- take ---- */

enum limited {
	LIMITED_NOT,
	LIMITED_RATE,
	LIMITED_CONCURRENCY,
};

/**
 * struct take_limits - limits that a take obeys
 * @rate: tasks in each period; 0: no limit
 * @per_us: the period
 * @burst: tasks at once, after a pause
 * @concurrency: leases at once; 0: no limit
 * @lanes: that share them; 0: the lane has them alone
 */
struct take_limits {
	uint64_t rate;
	uint64_t per_us;
	uint64_t burst;
	uint64_t concurrency;
	unsigned int lanes;
};

/**
 * struct take_answer - of a take
 * @now_ms: Redis's time
 * @paused: the lane gives nothing
 * @next_ms: due time of the lane's head, or NEVER_MS
 * @lease_end_ms: the earliest end of a lease, or NEVER_MS
 * @missed: tasks that were skipped
 * @dead: tasks that were buried because they were late
 * @orphans: ids without a header
 * @newer: tasks of a newer version
 * @limited: a limit kept back tasks that are due
 * @wait_ms: until the rate lets some through
 * @count: tasks
 */
struct take_answer {
	uint64_t now_ms;
	bool paused;
	uint64_t next_ms;
	uint64_t lease_end_ms;
	unsigned int missed;
	unsigned int dead;
	unsigned int orphans;
	unsigned int newer;
	enum limited limited;
	uint64_t wait_ms;
	unsigned int count;
};

/**
 * struct taken - a task in an answer to take
 */
struct taken {
	const char *id;
	size_t id_len;
	uint64_t token;
	unsigned int attempt;
	unsigned int missed;
	uint64_t due_ms;
	uint64_t first_due_ms;
	uint64_t version;
	const char *body;
	size_t body_len;
};

/* @limits: NULL: there are none. */
void take_args(struct args *a, unsigned int limit, uint64_t lease_ms, uint64_t holder,
	       uint64_t ahead_ms, const struct take_limits *limits);
bool take_answer(const redisReply *reply, struct take_answer *out);
bool take_answer_task(const redisReply *reply, unsigned int n, struct taken *out);

/* ---- ack, renew ---- */

enum verdict {
	VERDICT_OK,
	VERDICT_RETRY,
	VERDICT_DEAD,
	VERDICT_RELEASE,
	VERDICTS,
};

/* A release makes a task due at its due time. */
#define RELEASE_DUE	UINT64_MAX

/**
 * struct ack - the end of an attempt
 * @id: of the task
 * @token: of its take
 * @verdict: ok, retry, dead, release
 * @delay_ms: until the next attempt, or RELEASE_DUE
 * @at_ms: for release: absolute due time instead of a delay; 0: none
 * @note: the last error; empty: none
 */
struct ack {
	const char *id;
	uint64_t token;
	enum verdict verdict;
	uint64_t delay_ms;
	uint64_t at_ms;
	const char *note;
};

enum acked {
	ACK_APPLIED,
	ACK_STALE,
	/* Applied, and the task is dead. */
	ACK_DEAD,
};

void ack_args_begin(struct args *a, uint64_t holder);
void ack_args_add(struct args *a, const struct ack *ack);
bool ack_answer(const redisReply *reply, unsigned int n, enum acked *out);

enum renewed {
	RENEW_HELD,
	RENEW_STALE,
	/* Held, and no further attempt. */
	RENEW_CANCELED,
};

void renew_args_begin(struct args *a, uint64_t holder, uint64_t lease_ms);
void renew_args_add(struct args *a, const char *id, uint64_t token);
bool renew_answer(const redisReply *reply, unsigned int n, enum renewed *out);
uint64_t script_now_ms(const redisReply *reply);

/* ---- recover ---- */

struct recover_answer {
	unsigned int returned;
	unsigned int dead;
	unsigned int orphans;
	unsigned int newer;
	uint64_t lease_end_ms;
	uint64_t next_ms;
};

void recover_args(struct args *a, unsigned int limit, unsigned int max_lost);
bool recover_answer(const redisReply *reply, struct recover_answer *out);

/* ---- change ---- */

enum change_verb {
	CHANGE_CANCEL,
	CHANGE_MOVE,
	CHANGE_RUN,
	CHANGE_REPLAY,
};

/**
 * struct change_answer - of a change
 * @found: there is such a task
 * @newer: there is one, and a newer version stored it: nothing else is known
 * @state: that it was in
 * @due_ms: its due time: the new one, unless it is leased
 * @holder: of a leased task
 * @token: of a leased task
 * @ahead: a leased task that was not due yet
 * @version: of the task
 */
struct change_answer {
	bool found;
	bool newer;
	enum task_state state;
	uint64_t due_ms;
	uint64_t holder;
	uint64_t token;
	bool ahead;
	uint64_t version;
};

void change_args(struct args *a, const char *id, enum change_verb verb, bool relative,
		 uint64_t time_ms);
bool change_answer(const redisReply *reply, struct change_answer *out);

/* ---- sweep, pause ---- */

/**
 * struct sweep_answer - what was removed
 * @most: number of removed tasks, of the kind of which most were removed
 * @orphans: ids without a header
 * @newer: tasks of a newer version
 * @next_ms: when the next one is to be removed, or NEVER_MS
 */
struct sweep_answer {
	unsigned int most;
	unsigned int orphans;
	unsigned int newer;
	uint64_t next_ms;
};

void sweep_args(struct args *a, unsigned int limit, uint64_t dead_max, uint64_t dead_keep_ms);
bool sweep_answer(const redisReply *reply, struct sweep_answer *out);

/**
 * struct pause_answer - leased tasks of a lane
 * @begun: their due time has passed
 * @held: their due time is ahead
 */
struct pause_answer {
	unsigned int begun;
	unsigned int held;
};

void pause_args(struct args *a, bool pause);
bool pause_answer(const redisReply *reply, struct pause_answer *out);

/* ---- remove ---- */

struct place;

enum lane_verb {
	LANE_CLOSE,
	LANE_OPEN,
	LANE_ASK,
};

void lane_args(struct args *a, enum lane_verb verb);
/* @n: after LANE_CLOSE, the number of tasks in the lane; after LANE_ASK, 1 if it is closed. */
bool lane_answer(const redisReply *reply, uint64_t *n);

void purge_args(struct args *a, enum task_state state, unsigned int limit, uint64_t before_ms,
		const char *prefix, const struct place *after);
bool purge_answer(const redisReply *reply, unsigned int *looked, struct place *last,
		  unsigned int *removed);

/* ---- settings ---- */

enum settings_result {
	SETTINGS_EXIST,
	SETTINGS_STORED,
	SETTINGS_MANY,
};

/**
 * settings_args() - store the settings of a queue
 * @make: only if there is no such queue
 * @most: maximum number of queues
 */
void settings_args(struct args *a, bool make, const char *name, const char *text,
		   unsigned int most);
bool settings_answer(const redisReply *reply, enum settings_result *out);

/* ---- look ---- */

#define FORECASTS	3

/**
 * struct counts - what a lane or a queue has
 * @state: tasks in each state
 * @oldest_due_ms: due time of the first scheduled task, or NEVER_MS
 * @paused: it gives nothing
 * @within: tasks due within 60 s, 60 min, 24 h
 */
struct counts {
	uint64_t state[TASK_STATES];
	uint64_t oldest_due_ms;
	bool paused;
	uint64_t within[FORECASTS];
};

void look_counts_args(struct args *a);
bool look_counts_answer(const redisReply *reply, struct counts *out);
void look_get_args(struct args *a, const char *id);

/**
 * struct place - where a list of a lane ended
 * @score: of the last id in its set
 * @id: that id; empty: the list begins
 */
struct place {
	uint64_t score;
	char id[TASK_ID_MAX + 1];
};

void look_list_args(struct args *a, enum task_state state, unsigned int limit,
		    const struct place *after);

/**
 * look_list_place() - how far a list came
 * @looked: how many ids were looked at; those without a task in this state are not listed
 * @last: of these; untouched if there is none
 */
bool look_list_place(const redisReply *reply, unsigned int *looked, struct place *last);

/**
 * look_list_items() - how many tasks a list has; the first has the number 1
 */
unsigned int look_list_items(const redisReply *reply);
unsigned int look_answer_items(const redisReply *reply);

/**
 * look_answer_newer() - whether a newer version stored a task
 * @n: its number in a list; 0: the task that was asked for
 */
bool look_answer_newer(const redisReply *reply, unsigned int n);

/**
 * look_answer_item() - one task of an answer
 * @id: room for its id, which @out points to
 * @out: points into @reply, too
 */
bool look_answer_item(const redisReply *reply, unsigned int n, char id[TASK_ID_MAX + 1],
		      struct task_view *out);

#endif /* TWHEELD_REDIS_SCRIPT_H */
