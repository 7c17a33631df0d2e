/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fields of JSON objects, with checks. Only the parsers of this directory use this.
 *
 * If a field is absent, a function leaves its result alone, so the result has to contain the
 * default before. It returns 0, or -1 with the error set.
 */
#ifndef TWHEELD_TEXT_FIELD_H
#define TWHEELD_TEXT_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "text/body.h"
#include "text/json.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* A task must be due at most this long after now. */
#define TASK_AHEAD_MAX_MS	(100ULL * 366 * 24 * 3600 * 1000)

/* A time without a unit that is below this is rejected. */
#define BARE_TIME_MIN	100000000000ULL

#define INVALID		400, "invalid"
#define TOO_LARGE	413, "too_large"

/**
 * struct fields - an object that is read
 * @obj: the object
 * @at: where it stands, as a prefix: "", "retry.", "tasks[3]."
 * @err: for the error
 * @stored: a daemon wrote it: durations are numbers of ms
 */
struct fields {
	const json_t *obj;
	const char *at;
	struct api_error *err;
	bool stored;
};

/* Sets the error of the field @name of @f. Returns -1. */
int field_error(const struct fields *f, int status, const char *code, const char *name,
		const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/*
 * Parses a body that must be an object. An empty one counts as {} if @empty_ok.
 * Returns a new reference, or NULL with @err set.
 */
json_t *json_parse(const char *text, size_t len, bool empty_ok, struct api_error *err);

/*
 * The same value as the library has for @text, a list or an object, or NULL if only the
 * library can tell.
 */
json_t *json_plain(const char *text, size_t len);

/* Refuses fields that are not in @names, which ends with NULL. */
int fields_only(const struct fields *f, const char *const *names);

/* The object in the field @name, or NULL if it is absent. */
int field_object(const struct fields *f, const char *name, struct fields *sub);

int field_number(const struct fields *f, const char *name, uint64_t min, uint64_t max,
		 uint64_t *value);
int field_duration(const struct fields *f, const char *name, uint64_t min, uint64_t max,
		   uint64_t *ms);
/* A duration in the field @text, or a number of ms in @number. */
int field_either(const struct fields *f, const char *text, const char *number, uint64_t min,
		 uint64_t max, uint64_t *ms);
int field_time(const struct fields *f, const char *name, uint64_t *ms);
int field_bool(const struct fields *f, const char *name, bool *value);

/* A string without NUL bytes; *@value lives as long as the object. */
int field_string(const struct fields *f, const char *name, const char **value);

/* One of @count names; *@value becomes its index. */
int field_choice(const struct fields *f, const char *name, const char *const *names,
		 unsigned int count, unsigned int *value);

/* {"limit","base","cap","jitter"}; *@retry holds the defaults before. */
int field_retry(const struct fields *f, const char *name, struct retry *retry);
json_t *retry_to_json(const struct retry *retry);

/* Adds "payload" or "payload_base64", if there is one. */
void payload_to_json(json_t *obj, const struct task_body *b);

#define TIMEOUT_DEFAULT_MS	10000
#define TIMEOUT_MAX_MS		(15 * 60 * 1000)

#endif /* TWHEELD_TEXT_FIELD_H */
