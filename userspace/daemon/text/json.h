/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The bodies and queries of the HTTP API, from and to JSON. No I/O.
 *
 *   json.c      parsing, fields, errors
 *   plain.c     the JSON that nearly all clients send
 *   spec.c      a task: from a request, and as an answer
 *   settings.c  the settings of a queue
 *   pull.c      reserve, ack, nack, extend, release; tokens
 *   query.c     the part of a URL behind "?"
 *
 * Every parser refuses unknown fields, fields that stand twice, and numbers
 * outside their limits. A parser returns 0, or -1 with a struct api_error. It
 * then has freed all that it made.
 */
#ifndef TWHEELD_TEXT_JSON_H
#define TWHEELD_TEXT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "text/body.h"

#define TASK_ID_MAX		128
#define QUEUE_NAME_MAX		64
#define TASK_BATCH_MAX		1000
#define TASK_NOTE_MAX		256
#define REQUEST_MAX		(4 << 20)
#define LIST_LIMIT_MAX		1000
#define LIST_LIMIT_DEFAULT	100
#define RESERVE_LIMIT_MAX	100
#define LANES_MAX		256
#define LANES_DEFAULT		4
#define TOKEN_LEN		36

/* A task is due at most this long after now. */
#define TASK_AHEAD_MAX_MS	(100ULL * 366 * 24 * 3600 * 1000)

/**
 * struct api_error - an answer that is an error
 * @status: HTTP status
 * @code: "invalid", "too_large" ...: a constant
 * @message: one sentence; ASCII
 * @field: the culprit, for example "callback.url" or "tasks[3].id"; may be empty
 */
struct api_error {
	int status;
	const char *code;
	char message[192];
	char field[64];
};

/**
 * api_error_set() - fill in an error
 * @err: the error
 * @status: HTTP status
 * @code: a constant
 * @field: name of the field, or NULL
 * @fmt: the message
 *
 * Return: -1.
 */
int api_error_set(struct api_error *err, int status, const char *code,
		  const char *field, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/**
 * api_error_to_json() - {"error":{"code","message","field"}}
 * @err: the error
 */
json_t *api_error_to_json(const struct api_error *err);

/**
 * json_text() - an answer as text
 * @root: the answer; its reference is given up
 * @len: length of the text; may be NULL
 *
 * Return: text to free(), or NULL without memory or if @root is NULL.
 */
char *json_text(json_t *root, size_t *len);

/**
 * text_to_json() - a string for an answer from bytes of any kind
 * @text: bytes of a task, an endpoint or Redis
 * @len: how many
 *
 * Bytes that are not UTF-8 become "?", for JSON cannot hold them.
 */
json_t *text_to_json(const char *text, size_t len);

/* ---- names ---- */

/**
 * task_id_valid() - 1 to 128 of A-Za-z0-9_:-
 * @id: NUL-terminated
 */
bool task_id_valid(const char *id);

/**
 * queue_name_valid() - 1 to 64 of A-Za-z0-9_-
 * @name: NUL-terminated
 */
bool queue_name_valid(const char *name);

/* ---- settings of a queue ---- */

enum queue_mode {
	QUEUE_PUSH,
	QUEUE_PULL,
};

/**
 * struct queue_settings - what PUT /v1/queues/{q} sets
 * @mode: push or pull
 * @lanes: 1 to LANES_MAX
 * @ahead_ms: 0 to 5 s; QUEUE_AHEAD_DEFAULT: the daemon's for its mode
 * @timeout_ms: of an attempt, for tasks that name none
 * @retry: for tasks that name none, field by field
 * @lane_max: tasks in a lane; 0: the daemon's
 */
struct queue_settings {
	enum queue_mode mode;
	unsigned int lanes;
	uint32_t ahead_ms;
	uint32_t timeout_ms;
	struct retry retry;
	uint64_t lane_max;
};

#define QUEUE_AHEAD_DEFAULT	UINT32_MAX

/**
 * queue_settings_default() - the settings of a queue that names none
 * @s: the result
 */
void queue_settings_default(struct queue_settings *s);

/**
 * queue_settings_parse() - read the body of PUT /v1/queues/{q}
 * @text: the body; an empty one has no fields
 * @len: its length
 * @s: the settings so far; each field of the body replaces its own
 * @err: the error; @s is then as it was
 *
 * Fields: mode, lanes, ahead, timeout, retry, lane_max.
 */
int queue_settings_parse(const char *text, size_t len, struct queue_settings *s,
			 struct api_error *err);

/**
 * queue_settings_load() - read what queue_settings_to_json() wrote
 * @text: the value in `tw:queues`
 * @len: its length
 * @s: the result; a field that is absent has its default
 *
 * Unknown fields are skipped, because a newer daemon may have written them.
 *
 * Return: true, or false if it is not valid.
 */
bool queue_settings_load(const char *text, size_t len, struct queue_settings *s);

/**
 * queue_settings_to_json() - settings as stored and as answered
 * @s: the settings
 */
json_t *queue_settings_to_json(const struct queue_settings *s);

/* ---- a task ---- */

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
 * Fields that a client can set have the names and the form of the request. So
 * "callback", "payload", "retry", "timeout", "every", "late" and "keep" can be
 * sent again.
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

/* ---- pull ---- */

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
size_t reserved_room(const char *id, const struct task_body *b);

/**
 * reserved_text() - {"id","token","attempt","first_due","payload"}
 * @out: room for reserved_room() bytes
 * @id: its id
 * @holder: for the token
 * @token: for the token
 * @attempt: 1, 2, 3 ...
 * @first_due_ms: due time before retries
 * @b: the body, as payload_check() left it
 *
 * A payload that is not JSON is "payload_base64".
 *
 * Return: the end of the text.
 */
char *reserved_text(char *out, const char *id, uint64_t holder, uint64_t token,
		    unsigned int attempt, uint64_t first_due_ms, const struct task_body *b);

/* ---- queries ---- */

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
	char cursor[256];
};

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

#endif /* TWHEELD_TEXT_JSON_H */
