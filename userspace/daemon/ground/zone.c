// SPDX-License-Identifier: GPL-2.0
#include "ground/zone.h"

#include <string.h>

#include <glib.h>

#define DAY	86400

/* A struct zone is really a GTimeZone. */
static GTimeZone *zone_of(const struct zone *zone)
{
	return (GTimeZone *)zone;
}

struct zone *zone_open(const char *name)
{
	/*
	 * GLib would also accept offsets and POSIX rules, and take an empty name for the local
	 * zone.
	 */
	if (!g_ascii_isalpha(*name) || strpbrk(name, ",") || strstr(name, ".."))
		return NULL;
	return (struct zone *)g_time_zone_new_identifier(name);
}

void zone_close(struct zone *zone)
{
	if (zone)
		g_time_zone_unref(zone_of(zone));
}

int64_t zone_wall(const struct zone *zone, int64_t time)
{
	GTimeZone *tz = zone_of(zone);
	gint interval = g_time_zone_find_interval(tz, G_TIME_TYPE_UNIVERSAL, time);

	return time + g_time_zone_get_offset(tz, interval);
}

/* Finds the first moment after @from and before @to at which clocks show @wall or later. */
static int64_t change_to(const struct zone *zone, int64_t wall, int64_t from, int64_t to)
{
	while (to - from > 1) {
		int64_t middle = from + (to - from) / 2;

		if (zone_wall(zone, middle) < wall)
			from = middle;
		else
			to = middle;
	}
	return to;
}

int64_t zone_time(const struct zone *zone, int64_t wall)
{
	/* Try the offset from UTC of a day before, and the one of a day later. */
	int64_t early = wall - (zone_wall(zone, wall - DAY) - (wall - DAY));
	int64_t late = wall - (zone_wall(zone, wall + DAY) - (wall + DAY));
	int64_t first = early < late ? early : late;

	if (zone_wall(zone, first) == wall)
		return first;
	if (zone_wall(zone, early < late ? late : early) == wall)
		return early < late ? late : early;
	return change_to(zone, wall, first - DAY, first + 2 * DAY);
}
