// SPDX-License-Identifier: GPL-2.0
/* Prints records: lines and tables for people, or JSON, one object on each line, for programs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "json.h"
#include "output.h"
#include "show.h"
#include "timers.h"

#define BAR_WIDTH	40

/* Prints a time exactly, in seconds. */
const char *seconds_text(char buf[SECONDS_LEN], __u64 ns)
{
	snprintf(buf, SECONDS_LEN, "%llu.%09llu", ns / NSEC_PER_SEC, ns % NSEC_PER_SEC);
	return buf;
}

const char *state_name(unsigned int state)
{
	switch (state) {
	case TWHEEL_IDLE:
		return "idle";
	case TWHEEL_ARMED:
		return "armed";
	case TWHEEL_EXPIRED:
		return "expired";
	}
	return "unknown";
}

/* True if print_event() supports every directive of this format. */
bool check_format(const char *format)
{
	for (; *format; format++)
		if (*format == '%' && (!*++format || !strchr("nidtlLx%", *format)))
			return false;
	return true;
}

/*
 * If was_due() is true, the result must not be used. The wheel does not count the lateness of such
 * an event either.
 */
static __u64 lateness(const struct twheel_event *e)
{
	return e->expired_ns - e->deadline_ns;
}

static void print_formatted(const struct roster *r, const char *format,
			    const struct twheel_event *e)
{
	bool due = was_due(r, e);
	__u64 late = lateness(e);
	char buf[SECONDS_LEN];

	for (; *format; format++) {
		if (*format != '%') {
			putchar(*format);
			continue;
		}
		switch (*++format) {
		case 'n':
			fputs(roster_name(r, e->user_data), stdout);
			break;
		case 'i':
			printf("0x%llx", e->id);
			break;
		case 'd':
			fputs(seconds_text(buf, e->deadline_ns), stdout);
			break;
		case 't':
			fputs(seconds_text(buf, e->expired_ns), stdout);
			break;
		case 'l':
			fputs(due ? "-" : lateness_text(buf, late), stdout);
			break;
		case 'L':
			if (due)
				putchar('-');
			else
				printf("%llu", late);
			break;
		case 'x':
			printf("%llu", e->expirations);
			break;
		default:
			putchar('%');
		}
	}
	putchar('\n');
}

/**
 * print_event() - print one expiration
 * @conf: says whether to print JSON
 * @r: the names
 * @format: replaces the usual line; or NULL
 * @e: the event
 */
void print_event(const struct conf *conf, const struct roster *r,
		 const char *format, const struct twheel_event *e)
{
	__u64 late = lateness(e);
	char seconds[SECONDS_LEN];
	char text[DURATION_LEN];

	if (conf->json) {
		json_open("expiration");
		json_text("name", roster_name(r, e->user_data));
		json_id(e->id);
		json_u64("deadline_ns", e->deadline_ns);
		json_u64("expired_ns", e->expired_ns);
		if (was_due(r, e))
			json_none("lateness_ns");
		else
			json_u64("lateness_ns", late);
		json_u64("expirations", e->expirations);
		json_close();
		return;
	}
	if (format) {
		print_formatted(r, format, e);
		return;
	}
	printf("%s  %-12s  %s", seconds_text(seconds, e->expired_ns),
	       roster_name(r, e->user_data),
	       was_due(r, e) ? "due when armed" : lateness_text(text, late));
	if (e->expirations > 1)
		printf("  x%llu", e->expirations);
	putchar('\n');
}

/*
 * @r has the names. It is NULL for a timer of another process, and then user_data is printed
 * instead.
 */
void json_timer_fields(const struct roster *r, const struct twheel_timer *t)
{
	if (r)
		json_text("name", roster_name(r, t->user_data));
	json_id(t->id);
	if (!r)
		json_u64("user_data", t->user_data);
	json_text("state", state_name(t->state));
	json_u64("deadline_ns", t->deadline_ns);
	json_u64("period_ns", t->period_ns);
	json_u64("slack_ns", t->slack_ns);
	json_bool("keep", t->flags & TWHEEL_KEEP);
}

/* The counters, in the order in which they are printed. */
static const struct counter {
	const char *name;
	size_t offset;
} counters[] = {
	{ "armed", offsetof(struct twheel_stats, armed) },
	{ "unread", offsetof(struct twheel_stats, unread) },
	{ "allocated", offsetof(struct twheel_stats, allocated) },
	{ "registered", offsetof(struct twheel_stats, registered) },
	{ "rearmed", offsetof(struct twheel_stats, rearmed) },
	{ "cancelled", offsetof(struct twheel_stats, cancelled) },
	{ "expired", offsetof(struct twheel_stats, expired) },
	{ "delivered", offsetof(struct twheel_stats, delivered) },
	{ "armings", offsetof(struct twheel_stats, armings) },
	{ "displaced", offsetof(struct twheel_stats, displaced) },
	{ "withdrawn", offsetof(struct twheel_stats, withdrawn) },
	{ "moved", offsetof(struct twheel_stats, moved) },
	{ "cascaded", offsetof(struct twheel_stats, cascaded) },
	{ "wakeups", offsetof(struct twheel_stats, wakeups) },
};

static __u64 counter_value(const struct twheel_stats *stats, const struct counter *c)
{
	return *(const __u64 *)((const char *)stats + c->offset);
}

void json_stats_fields(const struct twheel_stats *stats)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(counters); i++)
		json_u64(counters[i].name, counter_value(stats, &counters[i]));
	json_u64("worst_lateness_ns", stats->worst_lateness_ns);
	json_u64("lateness_sum_ns", stats->lateness_sum_ns);
}

void print_stats(const struct twheel_stats *stats)
{
	char buf[DURATION_LEN];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(counters); i++)
		printf("%-10s  %llu\n", counters[i].name,
		       counter_value(stats, &counters[i]));
	printf("%-10s  %s\n", "worst", duration_text(buf, stats->worst_lateness_ns));
}

/* Returns the smallest lateness that bucket @i of the histogram counts. */
static __u64 bucket_start(unsigned int i)
{
	return i ? 1ULL << i : 0;
}

/**
 * print_histogram() - print how late the expirations of a wheel were
 * @conf: says whether to print JSON
 * @stats: of the wheel
 */
void print_histogram(const struct conf *conf, const struct twheel_stats *stats)
{
	unsigned int first = TWHEEL_LATENESS_BUCKETS, last = 0, i;
	char text[DURATION_LEN];
	__u64 most = 1;

	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++) {
		if (!stats->lateness[i])
			continue;
		if (first > i)
			first = i;
		last = i;
		if (most < stats->lateness[i])
			most = stats->lateness[i];
	}
	if (conf->json) {
		json_open("lateness");
		json_u64("worst_lateness_ns", stats->worst_lateness_ns);
		json_begin("buckets", '[');
		for (i = first; i <= last; i++) {
			json_begin(NULL, '{');
			json_u64("from_ns", bucket_start(i));
			json_u64("count", stats->lateness[i]);
			json_end('}');
		}
		json_end(']');
		json_close();
		return;
	}
	if (first > last) {
		printf("no expiration yet\n");
		return;
	}
	printf("late by at least\n");
	for (i = first; i <= last; i++) {
		unsigned int bar = (stats->lateness[i] * BAR_WIDTH + most - 1) / most;

		printf("%12s  %9llu  ", duration_text(text, bucket_start(i)),
		       stats->lateness[i]);
		while (bar--)
			putchar('#');
		putchar('\n');
	}
	printf("worst %s\n", duration_text(text, stats->worst_lateness_ns));
}

/*
 * Finds the lateness that @percent of the expirations between two readings do not exceed. This is
 * the upper end of a bucket, or the worst lateness ever if that is less. Returns true if there
 * were any expirations.
 */
bool percentile(const struct twheel_stats *from, const struct twheel_stats *to,
		unsigned int percent, __u64 *ns)
{
	__u64 total = 0, sum = 0, bound = ~0ULL;
	unsigned int i;

	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++)
		total += to->lateness[i] - from->lateness[i];
	if (!total)
		return false;
	for (i = 0; i < TWHEEL_LATENESS_BUCKETS - 1; i++) {
		sum += to->lateness[i] - from->lateness[i];
		if (sum * 100 >= total * percent)
			break;
	}
	if (i < TWHEEL_LATENESS_BUCKETS - 1)
		bound = 1ULL << (i + 1);
	if (bound > to->worst_lateness_ns)
		bound = to->worst_lateness_ns;
	*ns = bound;
	return true;
}

/* True if stdout is a terminal that shows colors. */
bool may_use_escapes(void)
{
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no_color && *no_color) &&
	       term && strcmp(term, "dumb");
}
