/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The JSON of the HTTP API: errors, and the text of answers. No I/O.
 *
 *   json.c      errors, text
 *   field.c     parsing, fields with their limits
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

#include <stddef.h>

#include <jansson.h>

#define REQUEST_MAX	(4 << 20)

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

/* Decimal digits that all real numbers in @v need: 15, or 17. */
size_t real_digits(const json_t *v);

#endif /* TWHEELD_TEXT_JSON_H */
