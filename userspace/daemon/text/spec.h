/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A task: from a request, and as an answer. No I/O.
 */
#ifndef TWHEELD_TEXT_SPEC_H
#define TWHEELD_TEXT_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "text/body.h"
#include "text/json.h"
#include "text/settings.h"

#define TASK_ID_MAX	128
#define TASK_BATCH_MAX	1000
#define TASK_NOTE_MAX	256

/* What an id may have beside letters and digits. */
#define TASK_ID_MORE	"_:.@=/+~-"
#define TASK_ID_TEXT	\
	"1 to 128 of the characters A-Za-z0-9" TASK_ID_MORE " (but not \".\" or \"..\")"

/**
 * task_id_valid() - TASK_ID_TEXT
 * @id: NUL-terminated
 */
bool task_id_valid(const char *id);

/**
 * queue_name_valid() - 1 to 64 of A-Za-z0-9_-
 * @name: NUL-terminated
 */
bool queue_name_valid(const char *name);

enum task_when {
	TASK_NOW,
	/* time_ms is a Unix time. */
	TASK_AT,
	/* time_ms is a delay. */
	TASK_IN,
};

enum if_exists {
	IF_EXISTS_REPLACE,
	IF_EXISTS_KEEP,
	IF_EXISTS_FAIL,
	/* All but the due time. */
	IF_EXISTS_UPDATE,
};

enum late_then {
	LATE_RUN,
	LATE_SKIP,
	LATE_DEAD,
};

/**
 * struct task_spec - a task as a client describes it
 * @id: its id; made up if the client gave none
 * @when: how to read @time_ms
 * @time_ms: 0 for TASK_NOW
 * @if_exists: what an existing id means
 * @every_ms: period; 0: none
 * @late_after_ms: when the task counts as late; 0: never
 * @late_then: what happens then
 * @keep_ms: how long a done task stays
 * @limit: attempts in all, as in the body
 * @body: the body's stored form; malloc()ed
 * @body_len: its length
 */
struct task_spec {
	char id[TASK_ID_MAX + 1];
	enum task_when when;
	uint64_t time_ms;
	enum if_exists if_exists;
	uint64_t every_ms;
	uint64_t late_after_ms;
	enum late_then late_then;
	uint64_t keep_ms;
	uint16_t limit;
	uint8_t *body;
	size_t body_len;
};

/**
 * struct task_item - one task of a request, or why it is none
 * @spec: the task, if @err.status is 0
 * @err: else the error
 */
struct task_item {
	struct task_spec spec;
	struct api_error err;
};

/**
 * struct task_request - what POST …/tasks and PUT …/tasks/{id} ask for
 * @batch: the request was {"tasks":[…]}; the answer must be a list, too
 * @count: number of items; 1 unless @batch
 * @item: the items, in the order of the request
 */
struct task_request {
	bool batch;
	size_t count;
	struct task_item *item;
};

/**
 * task_request_parse() - read the body of a request that makes tasks
 * @text: the body
 * @len: its length
 * @id: the id in the path; NULL for POST. With it, a batch is refused, and a
 *	field "id" must be equal
 * @q: settings of the queue: its mode and its defaults
 * @req: the result; free it by task_request_free()
 * @err: the error of the whole request
 *
 * In a batch, a bad task is an item with an error, and the others hold. A single
 * bad task is an error of the request.
 */
int task_request_parse(const char *text, size_t len, const char *id,
		       const struct queue_settings *q, struct task_request *req,
		       struct api_error *err);

/**
 * task_request_free() - free all items
 * @req: the request; may be free already
 */
void task_request_free(struct task_request *req);

/**
 * struct task_move - the body of PATCH …/tasks/{id}
 * @when: TASK_AT or TASK_IN
 * @time_ms: the new time
 */
struct task_move {
	enum task_when when;
	uint64_t time_ms;
};

/**
 * task_move_parse() - read {"at":…} or {"in":…}
 * @text: the body
 * @len: its length
 * @move: the result
 * @err: the error
 */
int task_move_parse(const char *text, size_t len, struct task_move *move,
		    struct api_error *err);

enum task_state {
	TASK_SCHEDULED,
	TASK_LEASED,
	TASK_DONE,
	TASK_DEAD,
	TASK_STATES,
};

/**
 * task_state_name() - "scheduled", "leased", "done", "dead"
 * @state: the state
 */
const char *task_state_name(enum task_state state);

/**
 * task_state_find() - the state of a name
 * @name: the name
 * @state: the result
 *
 * Return: false if there is none.
 */
bool task_state_find(const char *name, enum task_state *state);

/**
 * struct task_view - a task as Redis has it
 * @queue: its queue
 * @id: its id
 * @state: its state
 * @due_ms: due time
 * @first_due_ms: due time before retries
 * @version: of the task
 * @attempts: attempts that were begun
 * @lost: leases that ended without a report
 * @limit: attempts in all
 * @begun: of a leased task: its due time has passed
 * @lease_end_ms: end of its lease; 0: none
 * @ended_ms: when it was done or died; 0: neither
 * @every_ms: period; 0: none
 * @late_after_ms: 0: none
 * @late_then: what happens then
 * @keep_ms: retention; 0: none
 * @note: last error; NULL: none
 * @note_len: its length
 * @body: stored form; NULL: leave it out
 * @body_len: its length
 */
struct task_view {
	const char *queue;
	const char *id;
	enum task_state state;
	uint64_t due_ms;
	uint64_t first_due_ms;
	uint64_t version;
	unsigned int attempts;
	unsigned int lost;
	unsigned int limit;
	bool begun;
	uint64_t lease_end_ms;
	uint64_t ended_ms;
	uint64_t every_ms;
	uint64_t late_after_ms;
	enum late_then late_then;
	uint64_t keep_ms;
	const char *note;
	size_t note_len;
	const uint8_t *body;
	size_t body_len;
};

/**
 * task_view_to_json() - a task as an answer
 * @v: the task
 *
 * Fields that a client can set have the names of the request. Durations are
 * numbers of ms.
 *
 * Return: an object, or NULL without memory.
 */
json_t *task_view_to_json(const struct task_view *v);

/**
 * task_put_text() - {"id","state","due","version","result"} of one task
 * @out: room for TASK_PUT_LEN bytes
 * @id: its id
 * @state: its state
 * @due_ms: its due time
 * @version: its version
 * @result: "created", "replaced", "kept" or "moved"
 * @was: the state of the task that was replaced, or NULL: field "was"
 *
 * Return: the end of the text.
 */
#define TASK_PUT_LEN	(TASK_ID_MAX + 192)
char *task_put_text(char *out, const char *id, enum task_state state, uint64_t due_ms,
		    uint64_t version, const char *result, const char *was);

#endif /* TWHEELD_TEXT_SPEC_H */
