/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The body of a task: what an attempt needs, as stored in `tw:{Q/L}:body`.
 *
 * The stored form is one block of bytes. body_decode() points into that block
 * and copies nothing, so the block must live as long as the struct.
 *
 *   offset  bytes
 *        0  1  format: 1
 *        1  1  enum body_method
 *        2  1  BODY_* flags
 *        3  1  number of headers
 *        4  4  timeout, ms
 *        8  4  retry: base, ms
 *       12  4  retry: cap, ms
 *       16  2  retry: jitter, thousandths
 *       18  2  length of the URL with its NUL; 0 for a pull task
 *       20  2  length of all headers with their NULs
 *       22  2  retry: limit
 *       24     URL, headers, payload
 *
 * Numbers are big-endian. A header is "Name: value" and a NUL.
 */
#ifndef TWHEELD_TEXT_BODY_H
#define TWHEELD_TEXT_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BODY_URL_MAX		2048
#define BODY_HEADERS_MAX	32
#define BODY_HEADERS_BYTES	8192
#define BODY_PAYLOAD_MAX	65536
#define BODY_FIXED_LEN		24
#define BODY_MAX		(BODY_FIXED_LEN + BODY_URL_MAX + 1 + BODY_HEADERS_BYTES + \
				 BODY_PAYLOAD_MAX)

enum body_method {
	BODY_GET,
	BODY_POST,
	BODY_PUT,
	BODY_PATCH,
	BODY_DELETE,
	BODY_METHODS,
};

/* The payload is JSON text, else bytes that a client sent as base64. */
#define BODY_JSON		0x01
/* The task has a payload, perhaps an empty one. */
#define BODY_HAS_PAYLOAD	0x02

/**
 * struct retry - when a failed attempt is repeated
 * @limit: attempts in all: 1 to 1000
 * @base_ms: delay before the second attempt
 * @cap_ms: longest delay; not below @base_ms
 * @jitter: largest random part that is added, in thousandths of the delay
 */
struct retry {
	uint16_t limit;
	uint16_t jitter;
	uint32_t base_ms;
	uint32_t cap_ms;
};

/**
 * struct task_body - a body, decoded
 * @method: of the request
 * @flags: BODY_JSON, BODY_HAS_PAYLOAD
 * @headers: how many headers there are
 * @timeout_ms: of one attempt
 * @retry: its retries
 * @url: NUL-terminated; NULL for a pull task
 * @header: the first header; each ends with a NUL, the next follows it
 * @headers_len: length of all headers, with their NULs
 * @payload: bytes; not NUL-terminated
 * @payload_len: how many
 */
struct task_body {
	enum body_method method;
	uint8_t flags;
	uint8_t headers;
	uint32_t timeout_ms;
	struct retry retry;
	const char *url;
	const char *header;
	size_t headers_len;
	const uint8_t *payload;
	size_t payload_len;
};

/**
 * body_size() - how many bytes body_encode() writes
 * @b: the body
 */
size_t body_size(const struct task_body *b);

/**
 * body_encode() - write the stored form
 * @b: a body whose fields keep the limits above
 * @out: room for body_size() bytes
 */
void body_encode(const struct task_body *b, uint8_t *out);

/**
 * body_decode() - read the stored form
 * @data: the block; @b points into it
 * @len: its length
 * @b: the result
 *
 * The block comes from Redis, so everything is checked.
 *
 * Return: true, or false if it is not one that body_encode() wrote.
 */
bool body_decode(const uint8_t *data, size_t len, struct task_body *b);

/**
 * body_method_name() - "GET", "POST" ...
 * @method: the method
 */
const char *body_method_name(enum body_method method);

/**
 * header_refused() - whether a task may send a header
 * @name: its name
 * @name_len: length of it
 * @value: its value
 * @value_len: length of it
 *
 * Return: NULL if it may, or a constant text that says why not.
 */
const char *header_refused(const char *name, size_t name_len, const char *value,
			   size_t value_len);

/**
 * url_refused() - whether a URL is one that a callback may have
 * @url: NUL-terminated
 *
 * Only the form is checked: http or https, a host, no user or password, no
 * control character or space, at most BODY_URL_MAX bytes.
 *
 * Return: NULL if it is, or a constant text that says why not.
 */
const char *url_refused(const char *url);

/**
 * url_host_key() - the part of a URL that names its server
 * @url: a URL that url_refused() accepted
 * @key: the result: scheme, host in lower case and port, "http://a.example:80"
 * @len: room in @key
 *
 * Return: true, or false if the URL is not valid or @len is too small.
 */
bool url_host_key(const char *url, char *key, size_t len);

#endif /* TWHEELD_TEXT_BODY_H */
