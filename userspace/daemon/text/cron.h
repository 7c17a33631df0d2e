/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calendars as crontab(5) has them. No I/O.
 */
#ifndef TWHEELD_TEXT_CRON_H
#define TWHEELD_TEXT_CRON_H

#include <stdbool.h>
#include <stdint.h>

#include "ground/zone.h"

/* cron_next() of a calendar that has no day any more. */
#define CRON_NEVER	INT64_MAX

/**
 * struct cron - the minutes at which something runs: a bit for each value that fits
 * @minutes: 0 to 59
 * @hours: 0 to 23
 * @days: of the month, 1 to 31
 * @months: 1 to 12
 * @weekdays: 0 to 6, from Sunday
 * @either: a day fits if @days or @weekdays has it, because both are restricted
 */
struct cron {
	uint64_t minutes;
	uint64_t hours;
	uint64_t days;
	uint64_t months;
	uint64_t weekdays;
	bool either;
};

/**
 * cron_parse() - read a calendar
 * @text: five fields (minute, hour, day of the month, month, weekday) of "*", numbers, names of
 *	months and weekdays, ranges, steps and lists; or @hourly, @daily, @midnight, @weekly,
 *	@monthly, @yearly, @annually
 * @cron: out
 *
 * Return: NULL, or what is wrong with it: static text.
 */
const char *cron_parse(const char *text, struct cron *cron);

/**
 * cron_next() - the first run after a moment
 * @cron: the calendar
 * @zone: whose local time it means. A local time that does not exist there is taken for the
 *	first moment after the gap, and of one that exists twice the first counts
 * @after: the moment, as a Unix time in seconds
 *
 * Return: when, as a Unix time in seconds, or CRON_NEVER.
 */
int64_t cron_next(const struct cron *cron, const struct zone *zone, int64_t after);

#endif
