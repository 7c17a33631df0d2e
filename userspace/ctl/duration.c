// SPDX-License-Identifier: GPL-2.0
/*
 * Durations as people write them: 250ms, 5s, 1h30m, 1.5s.
 *
 * All numbers are exact integers. Units come from the largest to the smallest, each at most
 * once. Each digit of a fraction must be whole nanoseconds. A number without a unit stands
 * alone and counts seconds, as for sleep(1). parse_duration() reads what is printed.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "duration.h"

/* short_duration() rounds to days from here on. */
#define WIDE_DAYS	100

static const struct unit {
	const char *name;
	__u64 ns;
} units[] = {
	{ "d", 86400 * NSEC_PER_SEC },
	{ "h", 3600 * NSEC_PER_SEC },
	{ "m", 60 * NSEC_PER_SEC },
	{ "s", NSEC_PER_SEC },
	{ "ms", NSEC_PER_MSEC },
	{ "us", NSEC_PER_USEC },
	{ "ns", 1 },
};

const char negative_duration[] = "a duration cannot be negative";

static const struct unit *find_unit(const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(units); i++)
		if (strlen(units[i].name) == len && !memcmp(units[i].name, name, len))
			return &units[i];
	return NULL;
}

/* Reads the digits at *@p, in units of @ns each, and adds them to *@sum. */
static const char *add_number(const char **p, const char *end, __u64 ns, __u64 *sum)
{
	__u64 value = 0, product;

	for (; *p < end && isdigit((unsigned char)**p); ++*p)
		if (__builtin_mul_overflow(value, 10ULL, &value) ||
		    __builtin_add_overflow(value, (__u64)(**p - '0'), &value))
			return "too long";
	if (__builtin_mul_overflow(value, ns, &product) ||
	    __builtin_add_overflow(*sum, product, sum))
		return "too long";
	return NULL;
}

static const char *add_fraction(const char **p, const char *end, __u64 ns, __u64 *sum)
{
	for (; *p < end && isdigit((unsigned char)**p); ++*p) {
		/* At 0, a digit is less than a nanosecond. */
		ns = ns % 10 ? 0 : ns / 10;
		if (!ns && **p != '0')
			return "finer than a nanosecond";
		if (__builtin_add_overflow(*sum, ns * (**p - '0'), sum))
			return "too long";
	}
	return NULL;
}

/**
 * parse_duration_part() - read a duration that ends before the string does
 * @text: the beginning of the duration
 * @len: its length
 * @ns: the result; only set on success
 *
 * Return: NULL, or what is wrong with it.
 */
const char *parse_duration_part(const char *text, size_t len, __u64 *ns)
{
	const struct unit *last = NULL;
	const char *end = text + len;
	const char *p = text;
	__u64 sum = 0;

	if (!len)
		return "empty";
	if (len > 1 && *text == '-' && (isdigit((unsigned char)text[1]) || text[1] == '.'))
		return negative_duration;
	while (p < end) {
		const char *number = p, *fraction = NULL, *name, *why;
		__u64 scale = NSEC_PER_SEC;

		while (p < end && isdigit((unsigned char)*p))
			p++;
		if (p == number)
			return "not a duration (try 250ms, 5s, 1h30m)";
		if (p < end && *p == '.') {
			fraction = ++p;
			while (p < end && isdigit((unsigned char)*p))
				p++;
			if (p == fraction)
				return "no digit after the point";
		}
		name = p;
		while (p < end && isalpha((unsigned char)*p))
			p++;
		if (p > name) {
			const struct unit *unit = find_unit(name, p - name);

			if (!unit)
				return "unknown unit (there are ns, us, ms, s, m, h, d)";
			if (last && unit <= last)
				return "units must go from large to small";
			last = unit;
			scale = unit->ns;
		} else if (number != text || p < end) {
			return "not a duration (try 250ms, 5s, 1h30m)";
		}

		why = add_number(&number, name, scale, &sum);
		if (!why && fraction)
			why = add_fraction(&fraction, name, scale, &sum);
		if (why)
			return why;
	}
	*ns = sum;
	return NULL;
}

/**
 * parse_duration() - read a duration
 * @text: all of it
 * @ns: the result; only set on success
 *
 * Return: NULL, or what is wrong with it.
 */
const char *parse_duration(const char *text, __u64 *ns)
{
	return parse_duration_part(text, strlen(text), ns);
}

/**
 * duration_text() - write a duration for people
 * @buf: out: the text
 * @ns: the duration
 *
 * Below a minute, the text has one unit and up to three decimals. Above, it has two units.
 *
 * Return: @buf.
 */
const char *duration_text(char buf[DURATION_LEN], __u64 ns)
{
	const struct unit *unit = units;
	unsigned int milli;
	int len;

	while (unit->ns > 1 && ns < unit->ns)
		unit++;
	if (unit->ns > NSEC_PER_SEC) {
		__u64 rest = ns % unit->ns / unit[1].ns;

		len = snprintf(buf, DURATION_LEN, "%llu%s", ns / unit->ns, unit->name);
		if (rest)
			snprintf(buf + len, DURATION_LEN - len, "%llu%s", rest,
				 unit[1].name);
		return buf;
	}
	milli = unit->ns > 1 ? ns % unit->ns / (unit->ns / 1000) : 0;
	len = snprintf(buf, DURATION_LEN, "%llu.%03u", ns / unit->ns, milli);
	while (buf[len - 1] == '0')
		len--;
	if (buf[len - 1] == '.')
		len--;
	snprintf(buf + len, DURATION_LEN - len, "%s", unit->name);
	return buf;
}

/* Writes a rounded duration in at most seven characters. */
const char *short_duration(char buf[DURATION_LEN], __u64 ns)
{
	__u64 unit = 1;

	if (ns >= WIDE_DAYS * NSEC_PER_DAY)
		unit = NSEC_PER_DAY;
	else if (ns < 60 * NSEC_PER_SEC)
		while (ns / unit >= 1000)
			unit *= 10;
	return duration_text(buf, (ns + unit / 2) / unit * unit);
}

/**
 * lateness_text() - write a lateness for people
 * @buf: out: the text
 * @ns: the lateness. It is negative if a drain came before the deadline
 *
 * Return: @buf.
 */
const char *lateness_text(char buf[DURATION_LEN], __s64 ns)
{
	char digits[DURATION_LEN];

	duration_text(digits, ns < 0 ? -(__u64)ns : (__u64)ns);
	snprintf(buf, DURATION_LEN, "%c%.30s", ns < 0 ? '-' : '+', digits);
	return buf;
}
