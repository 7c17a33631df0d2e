// SPDX-License-Identifier: GPL-2.0
/*
 * Parses and prints durations, sizes and times as people write them, with exact integers and
 * without the locale and the time zone of the process.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../../shared/duration.h"
#include "ground/units.h"

#define NS_PER_MS	1000000ULL

static const struct unit {
	const char *name;
	uint64_t ms;
} units[] = {
	{ "d", MS_PER_DAY },
	{ "h", MS_PER_HOUR },
	{ "m", MS_PER_MIN },
	{ "s", MS_PER_SEC },
	{ "ms", 1 },
};

static const char not_a_time[] = "not an RFC 3339 time (try 2026-11-27T08:00:00Z)";
static const char too_long[] = "too large";

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads one or more digits at *@p. */
static const char *read_digits(const char **p, uint64_t *value)
{
	uint64_t v = 0;

	if (!is_digit(**p))
		return "not a number";
	for (; is_digit(**p); ++*p)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(**p - '0'), &v))
			return too_long;
	*value = v;
	return NULL;
}

const char *parse_ms(const char *text, uint64_t *ms)
{
	unsigned long long ns;
	const char *why;

	why = parse_duration(text, strlen(text), &ns);
	if (why)
		return why;
	if (ns % NS_PER_MS)
		return "finer than a millisecond";
	*ms = ns / NS_PER_MS;
	return NULL;
}

const char *format_duration(char buf[DURATION_LEN], uint64_t ms)
{
	const struct unit *unit = units;

	/* The largest unit that divides the duration. 0 becomes "0ms". */
	while (unit->ms > 1 && (!ms || ms % unit->ms))
		unit++;
	snprintf(buf, DURATION_LEN, "%llu%s", (unsigned long long)(ms / unit->ms),
		 unit->name);
	return buf;
}

const char *parse_number(const char *text, uint64_t *value)
{
	const char *why;
	uint64_t v;

	why = read_digits(&text, &v);
	if (why)
		return why;
	if (*text)
		return "not a number";
	*value = v;
	return NULL;
}

const char *parse_size(const char *text, uint64_t *bytes)
{
	static const char suffixes[] = "KMGT";
	const char *suffix, *why;
	uint64_t v;

	why = read_digits(&text, &v);
	if (why == too_long)
		return why;
	if (why)
		return "not a size (try 65536, 64K, 64M)";
	if (*text) {
		suffix = strchr(suffixes, *text);
		if (!suffix || text[1])
			return "not a size (try 65536, 64K, 64M)";
		if (__builtin_mul_overflow(v, 1ULL << 10 * (suffix - suffixes + 1), &v))
			return too_long;
	}
	*bytes = v;
	return NULL;
}

/* Reads exactly @count digits, and then the character @after unless that is 0. */
static bool read_field(const char **p, unsigned int count, char after, unsigned int *value)
{
	*value = 0;
	for (; count; count--, ++*p) {
		if (!is_digit(**p))
			return false;
		*value = *value * 10 + (unsigned int)(**p - '0');
	}
	if (after && *(*p)++ != after)
		return false;
	return true;
}

/* Returns the days from 1970-01-01 to a date of the Gregorian calendar. */
static int64_t days_from_civil(unsigned int year, unsigned int month, unsigned int day)
{
	/* Let the year begin in March, so that a leap day is its last day. */
	int64_t y = (int64_t)year - (month <= 2);
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t year_of_era = y - era * 400;
	int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + year_of_era * 365 + year_of_era / 4 -
	       year_of_era / 100 + day_of_year - 719468;
}

static unsigned int days_of_month(unsigned int year, unsigned int month)
{
	static const uint8_t days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

/* Reads a fraction such as ".25" at *@p, in ms, rounded up. */
static bool read_fraction(const char **p, int64_t *ms)
{
	unsigned int scale = 100;
	bool rest = false;

	*ms = 0;
	if (**p != '.')
		return true;
	++*p;
	if (!is_digit(**p))
		return false;
	for (; is_digit(**p); ++*p) {
		*ms += (int64_t)scale * (**p - '0');
		rest = rest || (!scale && **p != '0');
		scale /= 10;
	}
	*ms += rest;
	return true;
}

/* Reads "Z" or "+01:00" up to the end of the text, in minutes. */
static bool read_zone(const char *p, int *minutes)
{
	unsigned int h, m;
	int sign;

	if ((*p == 'Z' || *p == 'z') && !p[1]) {
		*minutes = 0;
		return true;
	}
	if (*p != '+' && *p != '-')
		return false;
	sign = *p++ == '-' ? -1 : 1;
	if (!read_field(&p, 2, ':', &h) || !read_field(&p, 2, 0, &m) || *p ||
	    h > 23 || m > 59)
		return false;
	*minutes = sign * (int)(h * 60 + m);
	return true;
}

const char *parse_time(const char *text, uint64_t *ms)
{
	unsigned int year, month, day, hour, min, sec;
	const char *p = text;
	int64_t fraction, t;
	int zone;

	while (is_digit(*p))
		p++;
	if (p > text && !*p)
		return parse_number(text, ms);
	p = text;
	if (!read_field(&p, 4, '-', &year) || !read_field(&p, 2, '-', &month) ||
	    !read_field(&p, 2, 0, &day))
		return not_a_time;
	if (*p != 'T' && *p != 't' && *p != ' ')
		return not_a_time;
	p++;
	if (!read_field(&p, 2, ':', &hour) || !read_field(&p, 2, ':', &min) ||
	    !read_field(&p, 2, 0, &sec) || !read_fraction(&p, &fraction))
		return not_a_time;
	if (!read_zone(p, &zone))
		return "a time needs a zone: Z or +01:00";
	if (!month || month > 12 || !day || day > days_of_month(year, month) ||
	    hour > 23 || min > 59 || sec > 60)
		return "there is no such date";
	t = days_from_civil(year, month, day) * 86400 + hour * 3600 + min * 60 + sec -
	    (int64_t)zone * 60;
	t = t * 1000 + fraction;
	if (t < 0)
		return "before 1970";
	*ms = (uint64_t)t;
	return NULL;
}
