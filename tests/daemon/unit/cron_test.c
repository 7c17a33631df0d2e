// SPDX-License-Identifier: GPL-2.0
/*
 * Calendars (D18), and time zones. The times were calculated by hand from the rules of both
 * zones. In Berlin the clocks go from 02:00 to 03:00 on 2026-03-29 and from 03:00 back to
 * 02:00 on 2026-10-25. In New York they change on 2026-03-08 and 2026-11-01.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>

#include "ground/zone.h"
#include "tap.h"
#include "text/cron.h"

/* Converts a UTC time such as "2026-03-29 01:00:00". */
static int64_t utc(const char *text)
{
	struct tm tm = { 0 };

	if (!strptime(text, "%Y-%m-%d %H:%M:%S", &tm))
		abort();
	return timegm(&tm);
}

static const char *text_of(int64_t time)
{
	static char buf[32];
	time_t t = time;

	if (time == CRON_NEVER)
		return "never";
	strftime(buf, sizeof(buf), "%F %T", gmtime(&t));
	return buf;
}

static const struct {
	const char *cron, *zone, *after, *next;
} runs[] = {
	{ "* * * * *", "UTC", "2026-01-01 00:00:00", "2026-01-01 00:01:00" },
	{ "* * * * *", "UTC", "2026-01-01 00:00:59", "2026-01-01 00:01:00" },
	{ "*/15 * * * *", "UTC", "2026-01-01 00:59:59", "2026-01-01 01:00:00" },
	{ "5/20 * * * *", "UTC", "2026-01-01 00:45:00", "2026-01-01 01:05:00" },
	{ "30 9 * * mon-fri", "UTC", "2026-11-27 09:30:00", "2026-11-30 09:30:00" },
	{ "0 12 * * Sat-Sun", "UTC", "2026-11-28 12:00:00", "2026-11-29 12:00:00" },
	{ "0 0 * * 5-7", "UTC", "2026-11-28 00:00:00", "2026-11-29 00:00:00" },
	{ "0 0 1,15 * *", "UTC", "2026-11-15 00:00:00", "2026-12-01 00:00:00" },
	{ "0 0 31 * *", "UTC", "2026-01-31 00:00:00", "2026-03-31 00:00:00" },
	{ "0 0 29 2 *", "UTC", "2096-02-29 00:00:00", "2104-02-29 00:00:00" },
	{ "0 0 13 * fri", "UTC", "2026-11-28 00:00:00", "2026-12-04 00:00:00" },
	{ "0 0 13 * 5", "UTC", "2026-12-11 00:00:00", "2026-12-13 00:00:00" },
	{ "59 23 31 DEC *", "UTC", "2026-12-31 23:59:00", "2027-12-31 23:59:00" },
	{ "@hourly", "UTC", "2026-01-01 00:10:00", "2026-01-01 01:00:00" },
	{ "@daily", "UTC", "2026-01-01 00:00:00", "2026-01-02 00:00:00" },
	{ "@weekly", "UTC", "2026-11-28 00:00:00", "2026-11-29 00:00:00" },
	{ "@monthly", "UTC", "2026-11-28 00:00:00", "2026-12-01 00:00:00" },
	{ "@yearly", "UTC", "2026-11-28 00:00:00", "2027-01-01 00:00:00" },
	/* Calendars use local time. */
	{ "0 9 * * *", "Europe/Berlin", "2026-01-15 00:00:00", "2026-01-15 08:00:00" },
	{ "0 9 * * *", "Europe/Berlin", "2026-07-15 00:00:00", "2026-07-15 07:00:00" },
	{ "0 9 * * *", "America/New_York", "2026-07-15 00:00:00", "2026-07-15 13:00:00" },
	{ "0 0 * * mon", "Pacific/Auckland", "2026-07-17 12:00:00", "2026-07-19 12:00:00" },
	{ "0 0 * * *", "Asia/Kathmandu", "2026-07-17 12:00:00", "2026-07-17 18:15:00" },
	/* A time that does not exist is the first moment after the gap, once. */
	{ "30 2 * * *", "Europe/Berlin", "2026-03-28 02:00:00", "2026-03-29 01:00:00" },
	{ "30 2 * * *", "Europe/Berlin", "2026-03-29 01:00:00", "2026-03-30 00:30:00" },
	{ "*/15 2 * * *", "Europe/Berlin", "2026-03-29 00:59:59", "2026-03-29 01:00:00" },
	{ "*/15 2 * * *", "Europe/Berlin", "2026-03-29 01:00:00", "2026-03-30 00:00:00" },
	{ "15 2,3 * * *", "Europe/Berlin", "2026-03-29 00:00:00", "2026-03-29 01:00:00" },
	{ "15 2,3 * * *", "Europe/Berlin", "2026-03-29 01:00:00", "2026-03-29 01:15:00" },
	{ "30 2 8 3 *", "America/New_York", "2026-03-01 00:00:00", "2026-03-08 07:00:00" },
	/* A time that exists twice runs once, the first time. */
	{ "30 2 * * *", "Europe/Berlin", "2026-10-24 12:00:00", "2026-10-25 00:30:00" },
	{ "30 2 * * *", "Europe/Berlin", "2026-10-25 00:30:00", "2026-10-26 01:30:00" },
	{ "30 2 * * *", "Europe/Berlin", "2026-10-25 01:10:00", "2026-10-26 01:30:00" },
	{ "*/30 * * * *", "Europe/Berlin", "2026-10-25 00:30:00", "2026-10-25 02:00:00" },
	{ "30 1 1 11 *", "America/New_York", "2026-10-31 00:00:00", "2026-11-01 05:30:00" },
	{ "30 1 * * *", "America/New_York", "2026-11-01 05:30:00", "2026-11-02 06:30:00" },
	/* A change of half an hour, and a day that was left out. */
	{ "15 2 * * *", "Australia/Lord_Howe", "2026-10-03 00:00:00", "2026-10-03 15:30:00" },
	{ "0 12 30 * *", "Pacific/Apia", "2011-12-01 00:00:00", "2011-12-30 10:00:00" },
	/* Far beyond the last change that the database lists. */
	{ "30 2 * * *", "Europe/Berlin", "2060-03-27 12:00:00", "2060-03-28 01:00:00" },
	{ "0 9 * * *", "Europe/Berlin", "2060-07-15 00:00:00", "2060-07-15 07:00:00" },
};

static const char *const bad[] = {
	"", " ", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *",
	"* * * 0 *", "* * * 13 *", "* * * * 8", "-1 * * * *", "1-60 * * * *", "5-1 * * * *",
	"*/0 * * * *", "*/ * * * *", "1, * * * *", ",1 * * * *", "1--2 * * * *", "a * * * *",
	"* * * foo *", "* * * janu *", "* * * * monday", "* * * mon *", "@reboot", "@", "@Daily",
	"0 0 30 2 *", "0 0 31 4,6,9,11 *", "001 * * * *", "* * ? * *", "* * L * *", "* * * * 5#2",
	"1/2/3 * * * *", "* * * * 1-2-3",
};

static const char *const no_zones[] = {
	"", "Europe/Nowhere", "../UTC", "Europe/../UTC", "+01:00", "CET-1CEST,M3.5.0,M10.5.0/3",
	"/etc/localtime", ":UTC", "Europe/Berlin,Paris",
};

int main(void)
{
	struct cron cron;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(runs); i++) {
		struct zone *zone = zone_open(runs[i].zone);
		const char *why = cron_parse(runs[i].cron, &cron);

		if (!ok(zone && !why, "D18: \"%s\" in %s", runs[i].cron, runs[i].zone)) {
			printf("# %s\n", why ? why : "no such zone");
			continue;
		}
		is_text(text_of(cron_next(&cron, zone, utc(runs[i].after))), runs[i].next,
			"D18: \"%s\" in %s after %s", runs[i].cron, runs[i].zone, runs[i].after);
		zone_close(zone);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		ok(cron_parse(bad[i], &cron), "\"%s\" is no calendar", bad[i]);
	for (i = 0; i < ARRAY_SIZE(no_zones); i++)
		ok(!zone_open(no_zones[i]), "\"%s\" is no zone", no_zones[i]);
	return tap_end();
}
