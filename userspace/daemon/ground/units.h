/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Durations, sizes and times as people write them. No I/O, no clock.
 *
 * Durations and times are milliseconds. Each function returns NULL on success,
 * or a constant text that says what is wrong. It then leaves its result alone.
 */
#ifndef TWHEELD_GROUND_UNITS_H
#define TWHEELD_GROUND_UNITS_H

#include <stddef.h>
#include <stdint.h>

#define MS_PER_SEC	1000ULL
#define MS_PER_MIN	(60 * MS_PER_SEC)
#define MS_PER_HOUR	(60 * MS_PER_MIN)
#define MS_PER_DAY	(24 * MS_PER_HOUR)
#define MS_PER_YEAR	(366 * MS_PER_DAY)

/* Room for format_duration(), with the final NUL. */
#define DURATION_LEN	32

/**
 * parse_ms() - read a duration, as parse_duration() does
 * @text: the duration, NUL-terminated
 * @ms: the result
 *
 * "1.5s" is accepted because it is a whole number of milliseconds.
 */
const char *parse_ms(const char *text, uint64_t *ms);

/**
 * format_duration() - write a duration that parse_ms() can read
 * @buf: where to
 * @ms: the duration
 *
 * Return: @buf.
 */
const char *format_duration(char buf[DURATION_LEN], uint64_t ms);

/**
 * parse_size() - read "65536", "64K", "64M" or "2G"; K is 1024
 * @text: the size, NUL-terminated
 * @bytes: the result
 */
const char *parse_size(const char *text, uint64_t *bytes);

/**
 * parse_number() - read a decimal number without a sign
 * @text: the number, NUL-terminated
 * @value: the result
 */
const char *parse_number(const char *text, uint64_t *value);

/**
 * parse_time() - read an RFC 3339 time, or Unix milliseconds in digits
 * @text: for example "2026-11-27T08:00:00.250Z", NUL-terminated
 * @ms: the result: Unix milliseconds
 *
 * A fraction finer than a millisecond is rounded up, so that no task is early.
 * A leap second (":60") is the first instant of the next minute.
 */
const char *parse_time(const char *text, uint64_t *ms);

#endif /* TWHEELD_GROUND_UNITS_H */
