// SPDX-License-Identifier: GPL-2.0
/*
 * libical finds the days of a rule, and this file finds the times of a day, because libical would
 * search all seconds of 500 years for a day that no month has. Both are wall times, and
 * zone_time() says when the clocks show one of them first. As wall times grow, so do these
 * moments. Therefore the first wall time whose moment has not passed is the next run.
 */
#include "text/rule.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_LIBICAL
#include <libical/ical.h>

/* The runs of a COUNT are counted once, from its start on. */
#define COUNT_MAX	10000
#define MINUTE	60
#define HOUR	(60 * MINUTE)
#define DAY	(24LL * HOUR)

/*
 * @recur: which days
 * @hours, @minutes, @seconds: and when on each: a bit for each value; 0: that of DTSTART
 * @first: DTSTART, as a wall time
 * @base: the day at which libical begins, which may be earlier
 * @count: how many runs it has, until rule_start() has found the last of them; 0: no count
 * @until: no run comes after
 */
struct rule {
	struct icalrecurrencetype recur;
	uint64_t hours, minutes, seconds;
	int64_t first;
	int64_t base;
	const struct zone *zone;
	int count;
	int64_t until;
};

static struct icaltimetype from_wall(int64_t wall)
{
	struct icaltimetype t = icaltime_from_timet_with_zone((time_t)wall, 0, NULL);

	t.zone = NULL;
	return t;
}

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
 * True if the rule names day @d of a month of @length days that begins with weekday @first
 * (0: Sunday). Only monthly rules count weekdays within a month.
 */
static bool names_day(const struct icalrecurrencetype *r, int d, int length, int first)
{
	const short *list = r->by_month_day;
	bool named = list[0] == ICAL_RECURRENCE_ARRAY_MAX;
	int i;

	for (i = 0; i < ICAL_BY_MONTHDAY_SIZE && list[i] != ICAL_RECURRENCE_ARRAY_MAX; i++)
		named |= list[i] == d || list[i] == d - length - 1;
	list = r->by_day;
	if (r->freq != ICAL_MONTHLY_RECURRENCE || list[0] == ICAL_RECURRENCE_ARRAY_MAX)
		return named;
	for (i = 0; named && i < ICAL_BY_DAY_SIZE && list[i] != ICAL_RECURRENCE_ARRAY_MAX; i++) {
		int position = icalrecurrencetype_day_position(list[i]);

		if ((first + d - 1) % 7 == (int)icalrecurrencetype_day_day_of_week(list[i]) - 1 &&
		    (!position || position == (d + 6) / 7 || -position == (length - d + 7) / 7))
			return true;
	}
	return false;
}

/* Returns how many days a month must have at least for the BYSETPOS. */
static int days_needed(const struct icalrecurrencetype *r)
{
	int i, least = INT_MAX;

	if (r->freq != ICAL_MONTHLY_RECURRENCE || r->by_set_pos[0] == ICAL_RECURRENCE_ARRAY_MAX)
		return 1;
	for (i = 0; i < ICAL_BY_SETPOS_SIZE && r->by_set_pos[i] != ICAL_RECURRENCE_ARRAY_MAX; i++)
		if (abs(r->by_set_pos[i]) < least)
			least = abs(r->by_set_pos[i]);
	return least;
}

/* True unless the rule names days of which no month has any, or too few for its BYSETPOS. */
static bool has_day(const struct icalrecurrencetype *r)
{
	static const unsigned char days[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int needed = days_needed(r), m, length, first, d;

	for (m = 1; m <= 12; m++) {
		const short *list = r->by_month;
		bool named = list[0] == ICAL_RECURRENCE_ARRAY_MAX;
		int i;

		for (i = 0; i < ICAL_BY_MONTH_SIZE && list[i] != ICAL_RECURRENCE_ARRAY_MAX; i++)
			named |= list[i] == m;
		if (!named)
			continue;
		for (length = m == 2 ? 28 : days[m - 1]; length <= days[m - 1]; length++)
			for (first = 0; first < 7; first++) {
				int left = needed;

				for (d = 1; d <= length; d++)
					if (names_day(r, d, length, first) && !--left)
						return true;
			}
	}
	return false;
}

const char *rule_parse(const char *text, struct rule **rule)
{
	struct rule r = { .count = 0 };

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
		return "COUNT is above 10000; \"max\" may be more";
	r.hours = take_list(r.recur.by_hour, ICAL_BY_HOUR_SIZE);
	r.minutes = take_list(r.recur.by_minute, ICAL_BY_MINUTE_SIZE);
	r.seconds = take_list(r.recur.by_second, ICAL_BY_SECOND_SIZE);
	if (r.hours >> 24 || r.minutes >> 60 || r.seconds >> 60)
		return "BYHOUR is above 23, or BYMINUTE or BYSECOND above 59";
	if (r.recur.by_set_pos[0] != ICAL_RECURRENCE_ARRAY_MAX &&
	    (many(r.hours) || many(r.minutes) || many(r.seconds)))
		return "BYSETPOS needs a single time of the day: one BYHOUR and one BYMINUTE";
	if (!has_day(&r.recur))
		return "no month has that day";
	r.count = r.recur.count;
	r.recur.count = 0;
	*rule = malloc(sizeof(r));
	if (!*rule)
		abort();
	**rule = r;
	return NULL;
}

/*
 * Returns the first day of a weekly rule in the week of @day. Otherwise libical, which counts from
 * Sunday, would take some days of DTSTART's week for days of the week before.
 */
static int64_t first_of_week(const struct rule *rule, int64_t day)
{
	int from = rule->recur.week_start, behind = 7, i;
	const short *list = rule->recur.by_day;

	if (list[0] == ICAL_RECURRENCE_ARRAY_MAX)
		return day;
	for (i = 0; i < ICAL_BY_DAY_SIZE && list[i] != ICAL_RECURRENCE_ARRAY_MAX; i++) {
		int of = icalrecurrencetype_day_day_of_week(list[i]);

		if ((of - from + 7) % 7 < behind)
			behind = (of - from + 7) % 7;
	}
	return day + (behind - (icaltime_day_of_week(from_wall(day)) - from + 7) % 7) * DAY;
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
	icalrecur_iterator *i = icalrecur_iterator_new(r->recur, from_wall(r->base));
	int64_t last = 0;
	int left = r->count;

	if (!i)
		return RULE_NEVER;
	while (left) {
		struct icaltimetype t = icalrecur_iterator_next(i);
		int64_t day = icaltime_as_timet(t), time = begin_day(r, day);

		if (icaltime_is_null_time(t))
			break;
		for (; left && next_of_day(r, &time); time++, left--)
			last = day + time;
	}
	icalrecur_iterator_free(i);
	return left ? RULE_NEVER : zone_time(r->zone, last);
}

const char *rule_start(struct rule *rule, const struct zone *zone, int64_t start)
{
	struct icaltimetype until = rule->recur.until;

	if (rule->count && !start)
		return "COUNT counts from \"start\", which is missing";
	rule->zone = zone;
	rule->first = start ? zone_wall(zone, start) : 0;
	rule->base = rule->first - rule->first % DAY;
	if (rule->recur.freq == ICAL_WEEKLY_RECURRENCE)
		rule->base = first_of_week(rule, rule->base);
	if (!rule->hours)
		rule->hours = 1ULL << rule->first % DAY / HOUR;
	if (!rule->minutes)
		rule->minutes = 1ULL << rule->first % HOUR / MINUTE;
	if (!rule->seconds)
		rule->seconds = 1ULL << rule->first % MINUTE;
	rule->until = RULE_NEVER;
	if (!icaltime_is_null_time(until)) {
		int64_t wall;

		/* A date stands for the whole day. */
		if (until.is_date) {
			until.is_date = 0;
			until.hour = 23;
			until.minute = 59;
			until.second = 59;
		}
		wall = icaltime_as_timet(until);
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
	int64_t wall = zone_wall(rule->zone, after), time = RULE_NEVER, base = rule->base;
	int64_t weeks = rule->recur.interval * 7 * DAY;
	bool weekly = rule->recur.freq == ICAL_WEEKLY_RECURRENCE;
	bool skips = wall - wall % DAY > base;
	icalrecur_iterator *i;

	/*
	 * icalrecur_iterator_set_start() would not choose the week that INTERVAL and WKST require.
	 */
	if (skips && weekly)
		base += (wall - base) / weeks * weeks;
	i = icalrecur_iterator_new(rule->recur, from_wall(base));
	if (!i)
		return RULE_NEVER;
	if (skips && !weekly)
		icalrecur_iterator_set_start(i, from_wall(wall - wall % DAY));
	while (time == RULE_NEVER) {
		struct icaltimetype t = icalrecur_iterator_next(i);

		if (icaltime_is_null_time(t))
			break;
		time = run_of_day(rule, icaltime_as_timet(t), after);
	}
	icalrecur_iterator_free(i);
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
