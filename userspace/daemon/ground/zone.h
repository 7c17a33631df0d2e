/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Time zones of the IANA database, by GLib. Wall times are in seconds, counted as a Unix time
 * would be if the zone were UTC.
 */
#ifndef TWHEELD_GROUND_ZONE_H
#define TWHEELD_GROUND_ZONE_H

#include <stdint.h>

struct zone;

/**
 * zone_open() - find a time zone
 * @name: "Europe/Berlin", "UTC"
 *
 * Return: the zone, for zone_close(); NULL if there is none of this name on this machine.
 */
struct zone *zone_open(const char *name);

void zone_close(struct zone *zone);

/**
 * zone_wall() - what the clocks on the wall show
 * @zone: the zone
 * @time: a Unix time in seconds
 */
int64_t zone_wall(const struct zone *zone, int64_t time);

/**
 * zone_time() - when the clocks on the wall show a time first
 * @zone: the zone
 * @wall: a wall time. If a change of the clocks leaves it out, the moment of the change counts
 *
 * Return: the Unix time in seconds.
 */
int64_t zone_time(const struct zone *zone, int64_t wall);

#endif
