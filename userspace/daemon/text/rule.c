// SPDX-License-Identifier: GPL-2.0
/*
 * libical parses rules. This file finds the days that they name, because libical needs seconds for
 * days that are decades apart, and counts BYSETPOS, BYMONTHDAY and BYYEARDAY wrong in some rules.
 * It also finds the times of a day. All of these are wall times, and zone_time() says when the
 * clocks show one of them first. As wall times grow, so do these moments. Therefore the first wall
 * time whose moment has not passed is the next run.
 */
#include "text/rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_LIBICAL
#include <glib.h>
#include <libical/ical.h>

/* The runs of a COUNT are counted once, from its start on. */
#define COUNT_MAX	10000
#define MINUTE	60
#define HOUR	(60 * MINUTE)
#define DAY	(24LL * HOUR)
/* The search for a day ends in 2582. */
#define LAST_DAY	(223530 * DAY)
/* The number of 1970-01-01 in GLib's calendar. */
#define EPOCH	719163

/* A day, and its place in the calendar. @weekday is 0 on Sunday, and @yearday 1 on January 1. */
struct day {
	int64_t time;
	int year, month, day, weekday, yearday;
};

/*
 * @recur: which days
 * @hours, @minutes, @seconds: and when on each: a bit for each value; 0: that of DTSTART
 * @first: DTSTART, as a wall time
 * @base: its day
 * @count: how many runs it has, until rule_start() has found the last of them; 0: no count
 * @until: no run comes after
 */
struct rule {
	struct icalrecurrencetype recur;
	uint64_t hours, minutes, seconds;
	int64_t first;
	struct day base;
	const struct zone *zone;
	int count;
	int64_t until;
};

/* True if two neighboring bits are set. */
static bool many(uint64_t bits)
{
	return bits & (bits - 1);
}

/* Empties a list of libical. Returns its values as bits. */
static uint64_t take_list(short *list, size_t size)
{
	uint64_t bits = 0;
	size_t i;

	for (i = 0; i < size && list[i] != ICAL_RECURRENCE_ARRAY_MAX; i++) {
		bits |= 1ULL << list[i];
		list[i] = ICAL_RECURRENCE_ARRAY_MAX;
	}
	return bits;
}

/*
 * GLib counts the days here, because libical would do it in a time_t, which has 32 bits in the
 * libical of some machines, but 64 in the daemon.
 */
static struct day day_at(int64_t time)
{
	GDate date;

	g_date_clear(&date, 1);
	g_date_set_julian(&date, EPOCH + (guint32)(time / DAY));
	return (struct day){
		.time = time - time % DAY, .year = g_date_get_year(&date),
		.month = g_date_get_month(&date), .day = g_date_get_day(&date),
		.weekday = g_date_get_weekday(&date) % 7,
		.yearday = g_date_get_day_of_year(&date),
	};
}

static int64_t wall_of(const struct icaltimetype *t)
{
	GDate date;

	g_date_clear(&date, 1);
	g_date_set_dmy(&date, t->day, t->month, t->year);
	return ((int64_t)g_date_get_julian(&date) - EPOCH) * DAY + t->hour * HOUR +
	       t->minute * MINUTE + t->second;
}

static void next_day(struct day *d)
{
	d->time += DAY;
	d->weekday = (d->weekday + 1) % 7;
	d->yearday++;
	if (++d->day <= icaltime_days_in_month(d->month, d->year))
		return;
	d->day = 1;
	if (++d->month <= 12)
		return;
	d->month = 1;
	d->yearday = 1;
	d->year++;
}

static bool is_empty(const short *list)
{
	return list[0] == ICAL_RECURRENCE_ARRAY_MAX;
}

static bool has(const short *list, size_t size, int value)
{
	size_t i;

	for (i = 0; i < size && list[i] != ICAL_RECURRENCE_ARRAY_MAX; i++)
		if (list[i] == value)
			return true;
	return false;
}

/* True if a number in BYDAY counts the weekdays of a month or year. */
static bool numbers_weekdays(const struct icalrecurrencetype *r)
{
	int i;

	for (i = 0; i < ICAL_BY_DAY_SIZE && r->by_day[i] != ICAL_RECURRENCE_ARRAY_MAX; i++)
		if (icalrecurrencetype_day_position(r->by_day[i]))
			return true;
	return false;
}

/* Returns what RFC 5545 does not allow with the frequency of a rule, or NULL. */
static const char *misplaced(const struct icalrecurrencetype *r)
{
	bool yearly = r->freq == ICAL_YEARLY_RECURRENCE;

	if (!yearly && (!is_empty(r->by_year_day) || !is_empty(r->by_week_no)))
		return "BYYEARDAY and BYWEEKNO need FREQ=YEARLY";
	if (r->freq == ICAL_WEEKLY_RECURRENCE && !is_empty(r->by_month_day))
		return "BYMONTHDAY cannot be used with FREQ=WEEKLY";
	if (!numbers_weekdays(r) || r->freq == ICAL_MONTHLY_RECURRENCE)
		return NULL;
	return !yearly ? "a number in BYDAY needs FREQ=MONTHLY or YEARLY" :
		!is_empty(r->by_week_no) ? "a number in BYDAY cannot be used with BYWEEKNO" : NULL;
}

const char *rule_parse(const char *text, struct rule **rule)
{
	struct rule r = { .count = 0 };
	const char *why;

	*rule = NULL;
	/* libical knows other calendars, in which a month can be a leap month. */
	if (strcasestr(text, "RSCALE") || strcasestr(text, "SKIP"))
		return "RSCALE and SKIP are not supported";
	r.recur = icalrecurrencetype_from_string(text);
	if (r.recur.freq == ICAL_NO_RECURRENCE)
		return "is not a rule of RFC 5545, such as FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9";
	if (r.recur.freq < ICAL_DAILY_RECURRENCE)
		return "FREQ must be DAILY, WEEKLY, MONTHLY or YEARLY: for more runs a day, use "
		       "BYHOUR and BYMINUTE, or \"every\"";
	if (r.recur.interval < 1)
		return "INTERVAL must be 1 or more";
	if (r.recur.count > COUNT_MAX)
		return "COUNT must be at most 10000: for more runs, use \"max\"";
	r.hours = take_list(r.recur.by_hour, ICAL_BY_HOUR_SIZE);
	r.minutes = take_list(r.recur.by_minute, ICAL_BY_MINUTE_SIZE);
	r.seconds = take_list(r.recur.by_second, ICAL_BY_SECOND_SIZE);
	if (r.hours >> 24 || r.minutes >> 60 || r.seconds >> 60)
		return "BYHOUR is above 23, or BYMINUTE or BYSECOND above 59";
	if (!is_empty(r.recur.by_set_pos) &&
	    (many(r.hours) || many(r.minutes) || many(r.seconds)))
		return "BYSETPOS needs a single time of the day: one BYHOUR and one BYMINUTE";
	why = misplaced(&r.recur);
	if (why)
		return why;
	r.count = r.recur.count;
	r.recur.count = 0;
	*rule = malloc(sizeof(r));
	if (!*rule)
		abort();
	**rule = r;
	return NULL;
}

static int first_of_week(const struct rule *r)
{
	return (int)r->recur.week_start - 1;
}

/* Returns how many days of the period have passed before @d: of its week, month or year. */
static int days_before(const struct rule *r, const struct day *d)
{
	switch (r->recur.freq) {
	case ICAL_YEARLY_RECURRENCE:
		return d->yearday - 1;
	case ICAL_MONTHLY_RECURRENCE:
		return d->day - 1;
	case ICAL_WEEKLY_RECURRENCE:
		return (d->weekday - first_of_week(r) + 7) % 7;
	default:
		return 0;
	}
}

/* Returns how many periods lie between that of DTSTART and that of @d. */
static int64_t periods_before(const struct rule *r, const struct day *d)
{
	const struct day *base = &r->base;

	switch (r->recur.freq) {
	case ICAL_YEARLY_RECURRENCE:
		return d->year - base->year;
	case ICAL_MONTHLY_RECURRENCE:
		return (d->year - base->year) * 12 + d->month - base->month;
	case ICAL_WEEKLY_RECURRENCE:
		return ((d->time - base->time) / DAY - days_before(r, d) +
			days_before(r, base)) / 7;
	default:
		return (d->time - base->time) / DAY;
	}
}

/* True if a list is empty, or contains @n, or its place as counted from the end of @count. */
static bool has_place(const short *list, size_t size, int n, int count)
{
	return is_empty(list) || has(list, size, n) || has(list, size, n - count - 1);
}

/* True if BYWEEKNO does not exclude the day. A week belongs to the year of its fourth day. */
static bool names_week(const struct rule *r, const struct day *d)
{
	int fourth = d->yearday - (d->weekday - first_of_week(r) + 7) % 7 + 3;
	int length = icaltime_days_in_year(d->year), week;

	if (fourth > length) {
		fourth -= length;
		length = icaltime_days_in_year(d->year + 1);
	} else if (fourth < 1) {
		length = icaltime_days_in_year(d->year - 1);
		fourth += length;
	}
	week = (fourth + 6) / 7;
	return has_place(r->recur.by_week_no, ICAL_BY_WEEKNO_SIZE, week,
			 week + (length - fourth) / 7);
}

/* True if BYDAY does not exclude the day, which is the @n-th of a month or year of @length days. */
static bool names_weekday(const struct rule *r, const struct day *d, int n, int length)
{
	const short *list = r->recur.by_day;
	int i;

	for (i = 0; i < ICAL_BY_DAY_SIZE && list[i] != ICAL_RECURRENCE_ARRAY_MAX; i++) {
		int position = icalrecurrencetype_day_position(list[i]);

		if ((int)icalrecurrencetype_day_day_of_week(list[i]) - 1 == d->weekday &&
		    (!position || position == (n + 6) / 7 || -position == (length - n + 7) / 7))
			return true;
	}
	return !i;
}

/* True if the day has what the rule takes from DTSTART, because it does not name days itself. */
static bool names_base(const struct rule *r, const struct day *d)
{
	const struct icalrecurrencetype *c = &r->recur;

	if (!is_empty(c->by_day) || !is_empty(c->by_month_day) || !is_empty(c->by_year_day))
		return true;
	if (c->freq == ICAL_WEEKLY_RECURRENCE || !is_empty(c->by_week_no))
		return d->weekday == r->base.weekday;
	if (c->freq == ICAL_DAILY_RECURRENCE)
		return true;
	return d->day == r->base.day && (c->freq == ICAL_MONTHLY_RECURRENCE ||
		!is_empty(c->by_month) || d->month == r->base.month);
}

/* True if the rule names the day, apart from its INTERVAL and BYSETPOS. */
static bool names(const struct rule *r, const struct day *d)
{
	const struct icalrecurrencetype *c = &r->recur;
	int month, year;

	if (!is_empty(c->by_month) && !has(c->by_month, ICAL_BY_MONTH_SIZE, d->month))
		return false;
	month = icaltime_days_in_month(d->month, d->year);
	year = icaltime_days_in_year(d->year);
	if (!has_place(c->by_month_day, ICAL_BY_MONTHDAY_SIZE, d->day, month) ||
	    !has_place(c->by_year_day, ICAL_BY_YEARDAY_SIZE, d->yearday, year) ||
	    !names_base(r, d) || (!is_empty(c->by_week_no) && !names_week(r, d)))
		return false;
	return c->freq == ICAL_YEARLY_RECURRENCE && is_empty(c->by_month) ?
		names_weekday(r, d, d->yearday, year) : names_weekday(r, d, d->day, month);
}

/*
 * The days of a rule, one after another.
 *
 * @next: the next day that is looked at
 * @period: the one whose days were counted last, for BYSETPOS
 * @count: the days that the rule names in it
 * @place: how many of them came before @next
 */
struct days {
	const struct rule *rule;
	struct day next;
	int64_t period;
	int count, place;
};

/* Begins with @from or a later day, but not before DTSTART. */
static struct days days_from(const struct rule *r, int64_t from)
{
	return (struct days){
		.rule = r, .next = from > r->base.time ? day_at(from) : r->base, .period = -1,
	};
}

static void count_period(struct days *s)
{
	const struct rule *r = s->rule;
	int before = days_before(r, &s->next);
	struct day other = before ? day_at(s->next.time - before * DAY) : s->next;

	s->count = 0;
	s->place = 0;
	do {
		bool named = names(r, &other);

		s->count += named;
		s->place += named && other.time < s->next.time;
		next_day(&other);
	} while (days_before(r, &other));
}

/* True if BYSETPOS does not exclude the next day, which the rule names. */
static bool is_in_place(struct days *s, int64_t period)
{
	const short *list = s->rule->recur.by_set_pos;

	if (is_empty(list))
		return true;
	if (s->period != period)
		count_period(s);
	s->period = period;
	s->place++;
	return has_place(list, ICAL_BY_SETPOS_SIZE, s->place, s->count);
}

/* Return: false if there are no more days. */
static bool days_next(struct days *s, int64_t *day)
{
	const struct rule *r = s->rule;
	bool found = false;

	for (; !found && s->next.time < LAST_DAY; next_day(&s->next)) {
		int64_t period = periods_before(r, &s->next);

		found = !(period % r->recur.interval) && names(r, &s->next) &&
			is_in_place(s, period);
		*day = s->next.time;
	}
	return found;
}

/* Finds the first time of a day that is @time or later. Return: false if there is none. */
static bool next_of_day(const struct rule *r, int64_t *time)
{
	int64_t hour, minute, second;

	for (; *time < DAY; *time = (hour + 1) * HOUR) {
		hour = *time / HOUR;
		if (!(r->hours >> hour & 1))
			continue;
		for (; *time < (hour + 1) * HOUR; *time = (*time / MINUTE + 1) * MINUTE) {
			minute = *time % HOUR / MINUTE;
			if (!(r->minutes >> minute & 1))
				continue;
			for (second = *time % MINUTE; second < MINUTE; second++, ++*time)
				if (r->seconds >> second & 1)
					return true;
			--*time;
		}
	}
	return false;
}

/* The first time of a day that counts. */
static int64_t begin_day(const struct rule *r, int64_t day)
{
	return day < r->first ? r->first - day : 0;
}

/* Return: when the last run of a COUNT is, or RULE_NEVER if it has fewer runs. */
static int64_t last_counted(const struct rule *r)
{
	int64_t last = 0, day;
	struct days days = days_from(r, 0);
	int left = r->count;

	while (left && days_next(&days, &day)) {
		int64_t time = begin_day(r, day);

		for (; left && next_of_day(r, &time); time++, left--)
			last = day + time;
	}
	return left ? RULE_NEVER : zone_time(r->zone, last);
}

const char *rule_start(struct rule *rule, const struct zone *zone, int64_t start)
{
	struct icaltimetype until = rule->recur.until;

	if (rule->count && !start)
		return "COUNT counts from \"start\", which is missing";
	rule->zone = zone;
	rule->first = start ? zone_wall(zone, start) : 0;
	rule->base = day_at(rule->first);
	if (!rule->hours)
		rule->hours = 1ULL << rule->first % DAY / HOUR;
	if (!rule->minutes)
		rule->minutes = 1ULL << rule->first % HOUR / MINUTE;
	if (!rule->seconds)
		rule->seconds = 1ULL << rule->first % MINUTE;
	rule->until = RULE_NEVER;
	if (!icaltime_is_null_time(until)) {
		int64_t wall;

		if (!g_date_valid_dmy(until.day, until.month, until.year))
			return "UNTIL is not a date";
		/* A date stands for the whole day. */
		if (until.is_date) {
			until.is_date = 0;
			until.hour = 23;
			until.minute = 59;
			until.second = 59;
		}
		wall = wall_of(&until);
		rule->until = icaltime_is_utc(until) ? wall : zone_time(zone, wall);
		rule->recur.until = icaltime_null_time();
	}
	if (rule->count) {
		int64_t last = last_counted(rule);

		if (last < rule->until)
			rule->until = last;
	}
	return rule_next(rule, start ? start - 1 : 0) == RULE_NEVER ? "never falls due" : NULL;
}

/* Finds the first run of a day that is after a moment. */
static int64_t run_of_day(const struct rule *r, int64_t day, int64_t after)
{
	int64_t wall = zone_wall(r->zone, after), time = begin_day(r, day);

	if (wall > day + time)
		time = wall - day;
	for (; next_of_day(r, &time); time++) {
		int64_t at = zone_time(r->zone, day + time);

		if (at > after)
			return at;
	}
	return RULE_NEVER;
}

int64_t rule_next(const struct rule *rule, int64_t after)
{
	int64_t wall = zone_wall(rule->zone, after), time = RULE_NEVER, day;
	struct days days = days_from(rule, wall - wall % DAY);

	while (time == RULE_NEVER && days_next(&days, &day))
		time = run_of_day(rule, day, after);
	return time <= rule->until ? time : RULE_NEVER;
}

void rule_free(struct rule *rule)
{
	free(rule);
}

#else

const char *rule_parse(const char *text, struct rule **rule)
{
	(void)text;
	*rule = NULL;
	return "this twheeld was built without libical: use \"cron\" or \"every\"";
}

const char *rule_start(struct rule *rule, const struct zone *zone, int64_t start)
{
	(void)rule;
	(void)zone;
	(void)start;
	return NULL;
}

int64_t rule_next(const struct rule *rule, int64_t after)
{
	(void)rule;
	(void)after;
	return RULE_NEVER;
}

void rule_free(struct rule *rule)
{
	(void)rule;
}

#endif
