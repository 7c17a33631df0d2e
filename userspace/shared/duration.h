/* SPDX-License-Identifier: GPL-2.0 */
/* Durations as people write them: one meaning for twheelctl and twheeld. */
#ifndef TWHEEL_DURATION_H
#define TWHEEL_DURATION_H

#include <stddef.h>

/* What parse_duration() says of -1s. */
extern const char negative_duration[];

/**
 * parse_duration() - read "250ms", "5min", "1h30m" or "1min 30s"
 * @text: the duration, which need not end with a NUL
 * @len: its length
 * @ns: the result; only set on success
 *
 * The units are those of systemd.time(7) from weeks to microseconds, and ns; months and years
 * have no fixed length. They come from the largest to the smallest, each at most once. A number
 * may have a fraction of whole nanoseconds. Only 0 needs no unit, because it is the same in all.
 *
 * Return: NULL, or what is wrong with @text.
 */
const char *parse_duration(const char *text, size_t len, unsigned long long *ns);

/**
 * parse_seconds() - read a number of seconds, such as 1700000000.5
 * @text: the number, which need not end with a NUL
 * @len: its length
 * @ns: the result; only set on success
 *
 * Return: NULL, or what is wrong with @text.
 */
const char *parse_seconds(const char *text, size_t len, unsigned long long *ns);

#endif /* TWHEEL_DURATION_H */
