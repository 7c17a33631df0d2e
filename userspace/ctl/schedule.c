// SPDX-License-Identifier: GPL-2.0
/* twheelctl schedule: add, change and print schedules of twheeld. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "body.h"
#include "error.h"
#include "http.h"
#include "option.h"
#include "show.h"

/* Long enough for a cursor and a name in which every byte is escaped. */
#define PATH_LEN	1536
#define NAME_MAX_LEN	64

enum {
	OPT_CRON = OPT_AFTER_BODY,
	OPT_RRULE,
	OPT_EVERY,
	OPT_TZ,
	OPT_START,
	OPT_END,
	OPT_MAX,
	OPT_JITTER,
	OPT_MISSED,
	OPT_MISSED_LIMIT,
	OPT_OVERLAP,
	OPT_DISABLED,
	OPT_LIMIT,
};

static const struct option options[] = {
	{ "cron", required_argument, NULL, OPT_CRON },
	{ "rrule", required_argument, NULL, OPT_RRULE },
	{ "every", required_argument, NULL, OPT_EVERY },
	{ "tz", required_argument, NULL, OPT_TZ },
	{ "start", required_argument, NULL, OPT_START },
	{ "end", required_argument, NULL, OPT_END },
	{ "max", required_argument, NULL, OPT_MAX },
	{ "jitter", required_argument, NULL, OPT_JITTER },
	{ "missed", required_argument, NULL, OPT_MISSED },
	{ "missed-limit", required_argument, NULL, OPT_MISSED_LIMIT },
	{ "overlap", required_argument, NULL, OPT_OVERLAP },
	{ "disabled", no_argument, NULL, OPT_DISABLED },
	{ "limit", required_argument, NULL, OPT_LIMIT },
	{ "url", required_argument, NULL, OPT_URL },
	{ "method", required_argument, NULL, OPT_METHOD },
	{ "header", required_argument, NULL, OPT_HEADER },
	{ "payload", required_argument, NULL, OPT_PAYLOAD },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "keep", required_argument, NULL, OPT_KEEP },
	{ }
};

/* The names of the fields that can also be set by options. */
static const char *const texts[] = {
	[OPT_CRON - OPT_CRON] = "cron", [OPT_RRULE - OPT_CRON] = "rrule",
	[OPT_TZ - OPT_CRON] = "tz", [OPT_MISSED - OPT_CRON] = "missed",
	[OPT_OVERLAP - OPT_CRON] = "overlap",
};

struct command {
	struct conf conf;
	json_t *definition;
	json_t *task;
	__u64 limit;
	unsigned int given;
};

static void set_number(const struct verb *verb, json_t *object, const char *name,
		       const char *option)
{
	json_object_set_new(object, name, json_integer((json_int_t)
		number_option(verb, option, optarg, 1000000000)));
}

static void read_options(const struct verb *verb, int argc, char **argv, struct command *c)
{
	int opt;

	c->definition = json_object();
	c->task = json_object();
	while ((opt = next_option(verb, argc, argv, &c->conf)) != -1) {
		c->given |= OPTION(opt);
		if (body_option(verb, c->task, opt))
			continue;
		switch (opt) {
		case OPT_EVERY:
			set_duration(verb, c->definition, "every", optarg);
			break;
		case OPT_JITTER:
			set_duration(verb, c->definition, "jitter", optarg);
			break;
		case OPT_START:
			set_field(verb, c->definition, "start", time_value(optarg));
			break;
		case OPT_END:
			set_field(verb, c->definition, "end", time_value(optarg));
			break;
		case OPT_MAX:
			set_number(verb, c->definition, "max", "--max");
			break;
		case OPT_MISSED_LIMIT:
			set_number(verb, c->definition, "missed_limit", "--missed-limit");
			break;
		case OPT_DISABLED:
			json_object_set_new(c->definition, "enabled", json_false());
			break;
		case OPT_LIMIT:
			c->limit = number_option(verb, "--limit", optarg, 1000);
			break;
		default:
			set_field(verb, c->definition, texts[opt - OPT_CRON],
				  json_string(optarg));
			break;
		}
	}
	json_object_set_new(c->definition, "task", c->task);
}

/* "report  30 2 * * mon-fri  Europe/Berlin  in 5h  17 runs" */
static void print_schedule(const json_t *s)
{
	const json_t *next = json_object_get(s, "next"), *v;
	static const char *const calendars[] = { "cron", "rrule", "every" };
	char when[DURATION_LEN + 8];
	size_t i;

	printf("%s", json_string_value(json_object_get(s, "schedule")));
	for (i = 0; i < ARRAY_SIZE(calendars); i++) {
		v = json_object_get(s, calendars[i]);
		if (!json_is_string(v))
			continue;
		fputs(*calendars[i] == 'e' ? "  every " : "  ", stdout);
		print_text(v);
	}
	v = json_object_get(s, "tz");
	if (json_is_string(v)) {
		fputs("  ", stdout);
		print_text(v);
	}
	if (!json_is_true(json_object_get(s, "enabled")))
		fputs("  disabled", stdout);
	else if (json_is_integer(next))
		printf("  %s", when_text(when, json_integer_value(next)));
	else
		fputs("  no run is left", stdout);
	printf("  %lld runs\n", json_integer_value(json_object_get(s, "runs")));
}

/* "report:1795840200000  2026-11-28T01:30:00Z  in 5h" */
static void print_run(const json_t *run)
{
	json_int_t at = json_integer_value(json_object_get(run, "at"));
	char when[DURATION_LEN + 8], text[32];
	time_t seconds = at / 1000;
	struct tm tm;

	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
	printf("%s  %s  %s\n", json_string_value(json_object_get(run, "id")), text,
	       when_text(when, json_integer_value(json_object_get(run, "due"))));
}

/* Prints the elements of a list in an answer. */
static void print_list(const struct command *c, json_t *answer, const char *name,
		       void (*print)(const json_t *v))
{
	json_t *v;
	size_t i;

	json_array_foreach(json_object_get(answer, name), i, v) {
		if (c->conf.json)
			print_json(json_incref(v));
		else
			print(v);
	}
}

/* Asks for all schedules, one page at a time. */
static int list(const struct command *c, const char *queue)
{
	char path[PATH_LEN];
	const char *cursor;
	json_t *answer;

	snprintf(path, sizeof(path), "/v1/queues/%s/schedules?limit=1000", queue);
	do {
		answer = http_call(&c->conf, "GET", path, NULL);
		print_list(c, answer, "schedules", print_schedule);
		hint_newer(answer, "schedules");
		cursor = json_string_value(json_object_get(answer, "cursor"));
		snprintf(path, sizeof(path), "/v1/queues/%s/schedules?limit=1000&cursor=", queue);
		if (cursor)
			append_id(path, sizeof(path), cursor);
		json_decref(answer);
	} while (cursor);
	return STATUS_OK;
}

static const struct subcommand commands[] = {
	{ "add", BODY_GIVEN | OPTION(OPT_CRON) | OPTION(OPT_RRULE) | OPTION(OPT_EVERY) |
	  OPTION(OPT_TZ) | OPTION(OPT_START) | OPTION(OPT_END) | OPTION(OPT_MAX) |
	  OPTION(OPT_JITTER) | OPTION(OPT_MISSED) | OPTION(OPT_MISSED_LIMIT) |
	  OPTION(OPT_OVERLAP) | OPTION(OPT_DISABLED), "PUT", "" },
	{ "list", 0, NULL, NULL },
	{ "show", 0, "GET", "" },
	{ "next", OPTION(OPT_LIMIT), "GET", "/next" },
	{ "run", 0, "POST", "/run" },
	{ "enable", 0, "POST", "/enable" },
	{ "disable", 0, "POST", "/disable" },
	{ "remove", 0, "DELETE", "" },
	{ }
};

static void print_answer(const struct command *c, const char *command, json_t *answer)
{
	if (!strcmp(command, "next")) {
		print_list(c, answer, "next", print_run);
		if (!c->conf.json && !json_array_size(json_object_get(answer, "next")))
			hint("the schedule is disabled, or no run is left");
	} else if (c->conf.json) {
		print_json(json_incref(answer));
	} else if (!strcmp(command, "show")) {
		print_fields(answer);
	} else if (!strcmp(command, "run")) {
		printf("%s  scheduled\n", json_string_value(json_object_get(answer, "id")));
	} else if (!strcmp(command, "remove")) {
		printf("%s  removed\n", json_string_value(json_object_get(answer, "schedule")));
	} else {
		print_schedule(answer);
	}
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct command c = { .limit = 10 };
	const struct subcommand *command;
	const char *queue, *name;
	char path[PATH_LEN];
	json_t *answer;

	read_options(verb, argc, argv, &c);
	command = take_subcommand(verb, argc, argv, c.given, commands, &queue);
	name = command->method && optind < argc ? argv[optind++] : NULL;
	if (optind < argc)
		usage_error(verb, "unknown argument %s", argv[optind]);
	if (!command->method)
		return list(&c, queue);
	if (!name)
		usage_error(verb, "the name is missing");
	if (!*name || strlen(name) > NAME_MAX_LEN)
		usage_error(verb, "a name has 1 to %d characters", NAME_MAX_LEN);

	snprintf(path, sizeof(path), "/v1/queues/%s/schedules/", queue);
	append_id(path, sizeof(path), name);
	strncat(path, command->suffix, sizeof(path) - strlen(path) - 1);
	if (!strcmp(command->name, "next"))
		snprintf(path + strlen(path), sizeof(path) - strlen(path), "?n=%llu", c.limit);
	answer = http_call(&c.conf, command->method, path,
			   *command->method == 'P' && !*command->suffix ? c.definition : NULL);
	print_answer(&c, command->name, answer);
	json_decref(answer);
	return STATUS_OK;
}

const struct verb verb_schedule = {
	.name = "schedule",
	.args = "list QUEUE | add|show|next|run|enable|disable|remove QUEUE NAME",
	.summary = "Add, show, run or stop schedules of twheeld.",
	.help =
		"Options of add, which creates a schedule or replaces its definition:\n"
		"      --cron=CALENDAR   five fields as in crontab(5), or @daily and so on\n"
		"      --rrule=RULE      instead, a rule of RFC 5545: FREQ=DAILY;INTERVAL=2\n"
		"      --every=DURATION  instead, the period from one run to the next\n"
		"      --tz=ZONE         time zone of the calendar (default: UTC)\n"
		"      --start=TIME      first moment of a run: RFC 3339 or Unix milliseconds\n"
		"      --end=TIME        last moment of a run\n"
		"      --max=N           maximum number of runs\n"
		"      --jitter=DURATION maximum of the random delay that each run gets\n"
		"      --missed=WHAT     what to do about missed runs: once (default), skip, all\n"
		"      --missed-limit=N  maximum number of runs to make up for (default: 100)\n"
		"      --overlap=WHAT    what to do while a run is in progress: allow (default),\n"
		"                        skip or queue\n"
		"      --disabled        make no runs until the schedule is enabled\n"
		"      --url=URL         what a run calls; none for a pull queue\n"
		"      --method=METHOD   the HTTP method (default: POST)\n"
		"      --header=HEADER   \"NAME: VALUE\"; may be repeated\n"
		"      --payload=JSON    the body; - reads it from stdin\n"
		"      --timeout=DURATION\n"
		"                        maximum duration of an attempt\n"
		"      --keep=DURATION   how long a run stays readable after it is done\n"
		"                        (default: 0)\n"
		"Options of next:\n"
		"      --limit=N         how many runs to print (default: 10)\n",
	.longopts = options,
	.remote = true,
	.run = run,
};
