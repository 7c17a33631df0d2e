// SPDX-License-Identifier: GPL-2.0
/*
 * The next run is searched field by field: a month that matches, and in it a day, an hour and a
 * minute. A field that does not match skips all moments with its value. As wall times grow, so do
 * the moments that zone_time() returns for them. Therefore the first wall time whose moment has
 * not passed is the next run.
 */
#include "text/cron.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define MINUTE	60
#define HOUR	(60 * MINUTE)
#define DAY	(24 * HOUR)
/* February 29 may be eight years away. */
#define YEARS	9

struct field {
	const char *wrong;
	const char *const *names;
	unsigned int first, last;
	/* The value of the first name in the list. */
	unsigned int base;
};

static const char *const month_names[] = {
	"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", NULL,
};

static const char *const weekday_names[] = {
	"sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL,
};

static const struct field fields[] = {
	{ "the minute must be from 0 to 59", NULL, 0, 59, 0 },
	{ "the hour must be from 0 to 23", NULL, 0, 23, 0 },
	{ "the day of the month must be from 1 to 31", NULL, 1, 31, 0 },
	{ "the month must be from 1 to 12 or jan to dec", month_names, 1, 12, 1 },
	/* 7 means Sunday as well. */
	{ "the weekday must be from 0 to 7 or sun to sat", weekday_names, 0, 7, 0 },
};

static const struct {
	const char *name, *text;
} macros[] = {
	{ "@hourly", "0 * * * *" },
	{ "@daily", "0 0 * * *" },
	{ "@midnight", "0 0 * * *" },
	{ "@weekly", "0 0 * * 0" },
	{ "@monthly", "0 0 1 * *" },
	{ "@yearly", "0 0 1 1 *" },
	{ "@annually", "0 0 1 1 *" },
};

/* Reads a number of at most two digits, or a name. Returns what follows, or NULL. */
static const char *parse_value(const char *p, const struct field *f, unsigned int *value)
{
	unsigned int i;

	if (isdigit((unsigned char)*p)) {
		*value = *p++ - '0';
		if (isdigit((unsigned char)*p))
			*value = *value * 10 + *p++ - '0';
		return isdigit((unsigned char)*p) ? NULL : p;
	}
	for (i = 0; f->names && f->names[i]; i++) {
		if (strncasecmp(p, f->names[i], 3))
			continue;
		*value = f->base + i;
		return p + 3;
	}
	return NULL;
}

/* Reads one element of a list. Returns what follows, or NULL. */
static const char *parse_element(const char *p, const struct field *f, uint64_t *bits)
{
	unsigned int first = f->first, last = f->last, step = 1, i;
	bool open = false;

	if (*p == '*') {
		p++;
		/* Do not count Sunday twice. */
		last -= f->names == weekday_names;
	} else {
		p = parse_value(p, f, &first);
		if (!p)
			return NULL;
		last = first;
		open = *p == '/';
		if (*p == '-') {
			p = parse_value(p + 1, f, &last);
			if (!p)
				return NULL;
			/* A range may end on Sunday, for example Saturday to Sunday. */
			if (f->names == weekday_names && !last && first)
				last = 7;
		}
	}
	if (*p == '/') {
		p = parse_value(p + 1, &(struct field) { .first = 1 }, &step);
		if (!p || !step)
			return NULL;
		/* A number with a step has no end, so it goes on to the last value. */
		if (open)
			last = f->last - (f->names == weekday_names);
	}
	if (first < f->first || first > last || last > f->last)
		return NULL;
	for (i = first; i <= last; i += step)
		*bits |= 1ULL << i;
	return p;
}

/* Reads a field. Returns what follows, or NULL. */
static const char *parse_field(const char *p, const struct field *f, uint64_t *bits)
{
	*bits = 0;
	do {
		p = parse_element(p, f, bits);
	} while (p && *p == ',' && p++);
	if (!p || (*p && *p != ' ' && *p != '\t'))
		return NULL;
	if (f->names == weekday_names && *bits >> 7)
		*bits = (*bits | 1) & 0x7f;
	return p;
}

static bool is_leap(int64_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static unsigned int days_of(int64_t year, unsigned int month)
{
	static const unsigned char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

	return days[month - 1] + (month == 2 && is_leap(year));
}

/* True if a month that matches has a day that matches. */
static bool has_day(const struct cron *c)
{
	unsigned int month;

	if (c->either)
		return true;
	for (month = 1; month <= 12; month++)
		if (c->months >> month & 1 &&
		    c->days & ((2ULL << days_of(2000, month)) - 1))
			return true;
	return false;
}

const char *cron_parse(const char *text, struct cron *cron)
{
	uint64_t *const bits[] = {
		&cron->minutes, &cron->hours, &cron->days, &cron->months, &cron->weekdays,
	};
	const char *p = text;
	size_t i;

	if (*p == '@') {
		for (i = 0; i < sizeof(macros) / sizeof(*macros); i++)
			if (!strcmp(text, macros[i].name))
				return cron_parse(macros[i].text, cron);
		return "not one of @hourly, @daily, @weekly, @monthly, @yearly";
	}
	for (i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		p += strspn(p, " \t");
		if (!*p)
			return "not five fields: minute, hour, day of the month, month, weekday";
		p = parse_field(p, &fields[i], bits[i]);
		if (!p)
			return fields[i].wrong;
	}
	p += strspn(p, " \t");
	if (*p)
		return "more than five fields: minute, hour, day of the month, month, weekday";
	cron->either = cron->days != 0xfffffffe && cron->weekdays != 0x7f;
	return has_day(cron) ? NULL : "no month has that day";
}

/* A wall time, split into its fields. */
struct moment {
	int64_t year;
	unsigned int month, day, hour, minute;
};

/* Returns the days from 1970-01-01: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms". */
static int64_t days_from_civil(int64_t year, unsigned int month, unsigned int day)
{
	int64_t y = year - (month <= 2), era = y / 400;
	int64_t of_era = y - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static struct moment take_apart(int64_t wall)
{
	struct moment m = {
		.hour = wall % DAY / HOUR, .minute = wall % HOUR / MINUTE,
	};
	int64_t days = wall / DAY;

	/* This estimate is never too late, so search from there. */
	m.year = 1970 + days / 366;
	while (days_from_civil(m.year + 1, 1, 1) <= days)
		m.year++;
	days -= days_from_civil(m.year, 1, 1);
	for (m.month = 1; days >= days_of(m.year, m.month); m.month++)
		days -= days_of(m.year, m.month);
	m.day = days + 1;
	return m;
}

static int64_t put_together(const struct moment *m)
{
	return days_from_civil(m->year, m->month, m->day) * DAY + m->hour * HOUR +
	       m->minute * MINUTE;
}

static bool day_fits(const struct cron *c, const struct moment *m)
{
	/* The first day of 1970 was a Thursday. */
	unsigned int weekday = (days_from_civil(m->year, m->month, m->day) + 4) % 7;
	bool day = c->days >> m->day & 1, of_week = c->weekdays >> weekday & 1;

	return c->either ? day || of_week : day && of_week;
}

/*
 * Each of these goes to the next value of a field, and to the first values of all smaller fields.
 */
static void next_month(struct moment *m)
{
	m->day = 1;
	m->hour = 0;
	m->minute = 0;
	if (++m->month <= 12)
		return;
	m->month = 1;
	m->year++;
}

static void next_day(struct moment *m)
{
	m->hour = 0;
	m->minute = 0;
	if (++m->day > days_of(m->year, m->month))
		next_month(m);
}

static void next_hour(struct moment *m)
{
	m->minute = 0;
	if (++m->hour == 24)
		next_day(m);
}

static void next_minute(struct moment *m)
{
	if (++m->minute == 60)
		next_hour(m);
}

int64_t cron_next(const struct cron *cron, const struct zone *zone, int64_t after)
{
	struct moment m = take_apart(zone_wall(zone, after));
	int64_t last = m.year + YEARS;

	while (m.year <= last) {
		int64_t time;

		if (!(cron->months >> m.month & 1)) {
			next_month(&m);
		} else if (!day_fits(cron, &m)) {
			next_day(&m);
		} else if (!(cron->hours >> m.hour & 1)) {
			next_hour(&m);
		} else if (!(cron->minutes >> m.minute & 1)) {
			next_minute(&m);
		} else {
			time = zone_time(zone, put_together(&m));
			if (time > after)
				return time;
			next_minute(&m);
		}
	}
	return CRON_NEVER;
}
