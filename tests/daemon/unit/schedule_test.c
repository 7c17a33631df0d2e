// SPDX-License-Identifier: GPL-2.0
/*
 * Schedules as text (D18): invalid ones, the next run, and the run that follows when the time
 * of others has passed. tests/daemon/schedule_test.py tests what daemons do with them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "text/schedule.h"

#define MINUTE	60000ULL
#define HOUR	(60 * MINUTE)
/* 2026-11-28 00:00:00 UTC. */
#define DAY	1795824000000ULL

static bool parse(const char *text, struct schedule_spec *spec, struct api_error *err)
{
	struct queue_settings q;

	queue_settings_default(&q);
	q.mode = QUEUE_PULL;
	memset(err, 0, sizeof(*err));
	return !schedule_parse(text, strlen(text), &q, spec, err);
}

static void refused(const char *text, const char *field)
{
	struct schedule_spec spec;
	struct api_error err;

	ok(!parse(text, &spec, &err) && err.status == 400 && !strcmp(err.field, field),
	   "%s is refused, field %s", text, err.field);
}

/* Checks the run that follows a moment of the day. */
static void next(const char *text, uint64_t after, uint64_t want)
{
	struct schedule_spec spec;
	struct api_error err;
	uint64_t got = 0;

	if (parse(text, &spec, &err))
		got = schedule_next(&spec, DAY + after);
	ok(got == (want == SCHEDULE_NEVER ? want : DAY + want), "%s after %llu ms: %lld %s", text,
	   (unsigned long long)after, (long long)(got - DAY), err.message);
	schedule_free_spec(&spec);
}

/*
 * Checks which run follows at 10:05:30, after the 10:00 run of a schedule that runs every
 * minute.
 */
static void follow(const char *more, uint64_t caught, uint64_t want, uint64_t want_caught)
{
	struct schedule_spec spec;
	struct api_error err;
	char text[200];
	uint64_t got = 0;

	snprintf(text, sizeof(text), "{\"every\":\"1m\"%s}", more);
	if (parse(text, &spec, &err))
		got = schedule_follow(&spec, DAY + 10 * HOUR, DAY + 10 * HOUR + 5 * MINUTE + 30000,
				      &caught);
	ok(got == DAY + 10 * HOUR + want * MINUTE && caught == want_caught,
	   "%s: %llu caught", text, (unsigned long long)caught);
	schedule_free_spec(&spec);
}

static void text_of(const char *text, const char *patch, const char *want)
{
	json_t *with = patch ? json_loads(patch, 0, NULL) : NULL;
	char *got = schedule_text(text, strlen(text), with);

	ok(got && !strcmp(got, want), "%s with %s is %s", text, patch ? patch : "nothing", got);
	free(got);
	json_decref(with);
}

static void jitter(void)
{
	struct schedule_spec spec;
	struct api_error err;
	unsigned int late = 0, far = 0, same = 0;

	ok(parse("{\"every\":\"1m\",\"jitter\":\"10s\"}", &spec, &err), "a schedule with jitter");
	for (uint64_t run = DAY; run < DAY + 1000 * MINUTE; run += MINUTE) {
		uint64_t due = schedule_due(&spec, "a", run);

		late += due >= run && due < run + 10000;
		far += due > run + 5000;
		same += due == schedule_due(&spec, "a", run);
	}
	ok(late == 1000 && same == 1000, "jitter only adds, and a run always has the same");
	ok(far > 400 && far < 600, "it spreads: %u of 1000 in the second half", far);
	schedule_free_spec(&spec);
}

int main(void)
{
	refused("[]", "");
	refused("{}", "cron");
	refused("{\"cron\":\"* * * * * *\"}", "cron");
	refused("{\"cron\":\"* * * * *\",\"tz\":\"\"}", "tz");
	refused("{\"cron\":\"* * * * *\",\"every\":\"1m\"}", "every");
	refused("{\"every\":\"999ms\"}", "every");
	refused("{\"every\":60}", "every");
	refused("{\"every\":\"1m\",\"rrule\":\"FREQ=DAILY\"}", "rrule");
	/* This is built without libical. */
	refused("{\"rrule\":\"FREQ=DAILY\"}", "rrule");
	refused("{\"every\":\"1m\",\"task\":{\"every\":\"1m\"}}", "task.every");
	refused("{\"every\":\"1m\",\"task\":{\"retry\":{\"limit\":0}}}", "task.retry.limit");
	refused("{\"every\":\"1m\",\"missed_limit\":0}", "missed_limit");
	ok(schedule_name_valid("a.b_c-1") && !schedule_name_valid("a:b") &&
	   !schedule_name_valid("..") && !schedule_name_valid("") &&
	   !schedule_name_valid("a/b"), "schedule names are checked");

	next("{\"every\":\"1h\"}", 0, HOUR);
	next("{\"every\":\"1h\"}", HOUR - 1, HOUR);
	next("{\"every\":\"1h\",\"start\":1795824000500}", 0, 500);
	next("{\"every\":\"1h\",\"start\":1795824000500}", 500, HOUR + 500);
	next("{\"every\":\"1h\",\"end\":1795827600000}", 0, HOUR);
	next("{\"every\":\"1h\",\"end\":1795827600000}", HOUR, SCHEDULE_NEVER);
	next("{\"cron\":\"0 * * * *\"}", 0, HOUR);
	next("{\"cron\":\"0 * * * *\",\"start\":1795831200000}", 0, 2 * HOUR);
	next("{\"cron\":\"0 * * * *\",\"start\":1795831200001}", 0, 3 * HOUR);
	next("{\"cron\":\"30 5 * * *\",\"tz\":\"Asia/Kolkata\"}", 0, 24 * HOUR);

	follow("", 0, 6, 0);
	follow(",\"missed\":\"skip\"", 0, 6, 0);
	follow(",\"missed\":\"all\"", 0, 1, 1);
	follow(",\"missed\":\"all\",\"missed_limit\":2", 1, 1, 2);
	follow(",\"missed\":\"all\",\"missed_limit\":2", 2, 6, 0);
	follow(",\"overlap\":\"skip\"", 0, 6, 0);
	follow(",\"overlap\":\"queue\"", 0, 1, 1);

	text_of("{ \"tz\":\"UTC\", \"enabled\":false,\"cron\":\"@daily\"}", NULL,
		"{\"cron\":\"@daily\",\"tz\":\"UTC\"}");
	text_of("{\"cron\":\"@daily\",\"tz\":\"UTC\"}", "{\"tz\":null,\"max\":3}",
		"{\"cron\":\"@daily\",\"max\":3}");
	jitter();
	return tap_end();
}
