/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One HTTP request and its answer. The function of a route answers at once, or keeps the request
 * and answers later. Each request is answered exactly once.
 */
#ifndef TWHEELD_HTTP_REQUEST_H
#define TWHEELD_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "ground/loop.h"
#include "redis/command.h"
#include "text/json.h"

struct api;
struct daemon;
struct listen_on;
struct queue;
struct route_entry;

/* Stands for a slash that was escaped in the path, and therefore does not end a word. */
#define REQUEST_SLASH	'\1'
#define REQUEST_JSON	"application/json"

enum method {
	METHOD_GET,
	METHOD_POST,
	METHOD_PUT,
	METHOD_PATCH,
	METHOD_DELETE,
	METHOD_OTHER,
};

/**
 * struct request - one HTTP request
 * @daemon: whom it is for
 * @method: its method
 * @queue: name in the path, or NULL
 * @id: of the task in the path, or NULL
 * @body: what was sent; NUL-terminated
 * @len: length of @body
 * @on: the address where it came in
 * @arg: of the function that keeps the request
 * @gone: called if the client disconnects before the answer was sent, or NULL
 * @finished: called when the answer was sent, or could not be; or NULL
 *
 * The rest belongs to server.c, request.c and routes.c.
 */
struct request {
	struct daemon *daemon;
	enum method method;
	const char *queue;
	const char *id;
	char *body;
	size_t len;
	const struct listen_on *on;
	void *arg;
	void (*gone)(struct request *r);
	void (*finished)(struct request *r, bool sent);

	struct queue *uses;
	struct request *prev;
	struct request *next;
	struct api *api;
	bool *run;
	void *conn;
	char *path;
	char *word[8];
	unsigned int words;
	const struct route_entry *route;
	char allow[40];
	size_t body_max;
	size_t room;
	size_t received;
	bool too_large;
	bool no_room;
	bool close;
	struct watch watch;
	bool started;
	bool handling;
	bool suspended;
	bool answered;
	int status;
	unsigned int retry_after;
	const char *type;
	char *text;
	size_t text_len;
	bool constant;
};

/**
 * request_answer() - answer with JSON
 * @r: the request
 * @status: HTTP status
 * @root: the answer; its reference is given up
 */
void request_answer(struct request *r, int status, json_t *root);

/**
 * request_json() - answer with JSON that is text already
 * @text: is freed
 */
void request_json(struct request *r, int status, char *text, size_t len);

/**
 * request_text() - answer with a text of another type
 * @text: belongs to the request, unless @constant
 */
void request_text(struct request *r, int status, const char *type, char *text, size_t len,
		  bool constant);

/**
 * request_fail() - answer with an error
 */
void request_fail(struct request *r, const struct api_error *err);

/**
 * request_error() - answer with an error
 * @field: the culprit, or NULL
 */
void request_error(struct request *r, int status, const char *code, const char *field,
		   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/**
 * request_newer() - answer that a newer version stored what is asked for
 * @field: what that is
 */
void request_newer(struct request *r, const char *field);

/**
 * request_each_query() - all parameters of the query
 * @fn: returns false to end
 */
void request_each_query(struct request *r, bool (*fn)(void *arg, const char *name,
						      const char *value), void *arg);

/**
 * request_end() - the client is gone, and there is no answer
 */
void request_end(struct request *r);

/**
 * request_watch() - call @gone if the client disconnects
 */
void request_watch(struct request *r);

/**
 * request_store_error() - answer that Redis did not do it
 * @result: why; STORE_OK: the answer does not fit the command, which counts as a refusal
 */
void request_store_error(struct request *r, enum store_result result);

#endif /* TWHEELD_HTTP_REQUEST_H */
