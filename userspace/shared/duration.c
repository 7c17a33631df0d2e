// SPDX-License-Identifier: GPL-2.0
/*
 * Durations as people write them. All numbers are exact integers, and neither a locale nor a time
 * zone affects the result.
 */
#include <stdbool.h>
#include <string.h>

#include "duration.h"

#define SEC	1000000000ULL

const char negative_duration[] = "a duration cannot be negative";

static const struct unit {
	/* The first name is the one that this project writes. */
	const char *names[5];
	unsigned long long ns;
} units[] = {
	{ { "w", "week", "weeks" }, 7 * 86400 * SEC },
	{ { "d", "day", "days" }, 86400 * SEC },
	{ { "h", "hr", "hour", "hours" }, 3600 * SEC },
	{ { "m", "min", "minute", "minutes" }, 60 * SEC },
	{ { "s", "sec", "second", "seconds" }, SEC },
	{ { "ms", "msec" }, 1000000 },
	/* The micro sign, and the Greek letter that looks the same. */
	{ { "us", "usec", "\xc2\xb5s", "\xce\xbcs" }, 1000 },
	{ { "ns", "nsec" }, 1 },
};

#define NR_UNITS	(sizeof(units) / sizeof(*units))

static const char not_a_duration[] = "not a duration (try 250ms, 5s, 1h30m)";
static const char no_unit[] = "a duration needs a unit, for example ms, s or min";
static const char unknown_unit[] = "unknown unit: use, for example, ms, s, min, h, d or w";
static const char too_long[] = "longer than 584 years";

/* What is left of a text. */
struct rest {
	const char *p;
	const char *end;
};

static bool is_digit(const struct rest *r)
{
	return r->p < r->end && *r->p >= '0' && *r->p <= '9';
}

static bool is_blank(const struct rest *r)
{
	return r->p < r->end && (*r->p == ' ' || *r->p == '\t');
}

static void skip_digits(struct rest *r)
{
	while (is_digit(r))
		r->p++;
}

static void skip_blanks(struct rest *r)
{
	while (is_blank(r))
		r->p++;
}

/* Reads the name of a unit, which ends before a digit, a blank or a sign. */
static const char *read_unit(struct rest *r, const struct unit **unit)
{
	const char *name = r->p;
	size_t len, i, n;

	while (r->p < r->end && ((*r->p | 0x20) >= 'a' && (*r->p | 0x20) <= 'z' ? true :
				 (unsigned char)*r->p >= 0x80))
		r->p++;
	len = r->p - name;
	if (!len)
		return r->p == r->end || is_digit(r) ? no_unit : not_a_duration;
	for (i = 0; i < NR_UNITS; i++) {
		for (n = 0; n < 5 && units[i].names[n]; n++) {
			if (strlen(units[i].names[n]) == len &&
			    !memcmp(units[i].names[n], name, len)) {
				*unit = &units[i];
				return NULL;
			}
		}
	}
	return unknown_unit;
}

/* Adds the digits [@p, @end), in units of @ns each. */
static const char *add_number(const char *p, const char *end, unsigned long long ns,
			      unsigned long long *sum)
{
	unsigned long long value = 0, product;

	for (; p < end; p++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (unsigned long long)(*p - '0'), &value))
			return too_long;
	if (__builtin_mul_overflow(value, ns, &product) ||
	    __builtin_add_overflow(*sum, product, sum))
		return too_long;
	return NULL;
}

/* Adds the digits [@p, @end) that follow a point, in units of @ns each. */
static const char *add_fraction(const char *p, const char *end, unsigned long long ns,
				unsigned long long *sum)
{
	for (; p < end; p++) {
		/* At 0, a digit is less than a nanosecond. */
		ns = ns % 10 ? 0 : ns / 10;
		if (!ns && *p != '0')
			return "finer than a nanosecond";
		if (__builtin_add_overflow(*sum, ns * (unsigned long long)(*p - '0'), sum))
			return too_long;
	}
	return NULL;
}

/* The digits of a number: [whole, point) and, if it has a fraction, [point + 1, end). */
struct number {
	const char *whole;
	const char *point;
	const char *end;
};

static const char *read_number(struct rest *r, struct number *n)
{
	n->whole = r->p;
	skip_digits(r);
	n->point = r->p;
	n->end = r->p;
	if (n->point == n->whole)
		return not_a_duration;
	if (r->p == r->end || *r->p != '.')
		return NULL;
	r->p++;
	skip_digits(r);
	n->end = r->p;
	return n->end == n->point + 1 ? "no digit after the point" : NULL;
}

static const char *add(const struct number *n, unsigned long long ns, unsigned long long *sum)
{
	const char *why = add_number(n->whole, n->point, ns, sum);

	if (why || n->end == n->point)
		return why;
	return add_fraction(n->point + 1, n->end, ns, sum);
}

const char *parse_duration(const char *text, size_t len, unsigned long long *ns)
{
	struct rest r = { .p = text, .end = text + len };
	const struct unit *last = NULL, *unit = NULL;
	unsigned long long sum = 0;

	if (!len)
		return "empty";
	if (len > 1 && *text == '-' && ((text[1] >= '0' && text[1] <= '9') || text[1] == '.'))
		return negative_duration;
	if (len == 1 && *text == '0') {
		*ns = 0;
		return NULL;
	}
	while (r.p < r.end) {
		const char *why;
		struct number n;

		why = read_number(&r, &n);
		if (why)
			return why;
		skip_blanks(&r);
		why = read_unit(&r, &unit);
		if (why)
			return why;
		if (last && unit <= last)
			return "units must go from large to small";
		last = unit;
		why = add(&n, unit->ns, &sum);
		if (why)
			return why;
		skip_blanks(&r);
		if (r.p == r.end && (r.p[-1] == ' ' || r.p[-1] == '\t'))
			return not_a_duration;
	}
	*ns = sum;
	return NULL;
}

const char *parse_seconds(const char *text, size_t len, unsigned long long *ns)
{
	struct rest r = { .p = text, .end = text + len };
	unsigned long long sum = 0;
	struct number n;
	const char *why;

	why = read_number(&r, &n);
	if (why || r.p < r.end)
		return "not a number of seconds (try @1700000000 or @1.5)";
	why = add(&n, SEC, &sum);
	if (why)
		return why;
	*ns = sum;
	return NULL;
}
