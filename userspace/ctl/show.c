// SPDX-License-Identifier: GPL-2.0
/* Writes durations for people. The shared parser can read what is printed here. */
#include <stdio.h>

#include "clock.h"
#include "show.h"

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
 * @ns: the lateness.
 *
 * Return: @buf.
 */
const char *lateness_text(char buf[DURATION_LEN], __u64 ns)
{
	char digits[DURATION_LEN];

	duration_text(digits, ns);
	snprintf(buf, DURATION_LEN, "+%.30s", digits);
	return buf;
}
