// SPDX-License-Identifier: GPL-2.0
/* twheelctl task: add, change and print tasks of twheeld. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "body.h"
#include "error.h"
#include "http.h"
#include "option.h"
#include "show.h"

/* Maximum number of bytes in an id. Each of them may be escaped. */
#define ID_MAX		128
#define PATH_LEN	512

enum {
	OPT_ID = OPT_AFTER_BODY,
	OPT_AT,
	OPT_IN,
	OPT_EVERY,
	OPT_IF_EXISTS,
	OPT_STATE,
	OPT_LIMIT,
};

static const struct option options[] = {
	{ "id", required_argument, NULL, OPT_ID },
	{ "at", required_argument, NULL, OPT_AT },
	{ "in", required_argument, NULL, OPT_IN },
	{ "every", required_argument, NULL, OPT_EVERY },
	{ "url", required_argument, NULL, OPT_URL },
	{ "method", required_argument, NULL, OPT_METHOD },
	{ "header", required_argument, NULL, OPT_HEADER },
	{ "payload", required_argument, NULL, OPT_PAYLOAD },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "keep", required_argument, NULL, OPT_KEEP },
	{ "if-exists", required_argument, NULL, OPT_IF_EXISTS },
	{ "state", required_argument, NULL, OPT_STATE },
	{ "limit", required_argument, NULL, OPT_LIMIT },
	{ }
};

/* The command line: the fields of a task and of a list. */
struct command {
	struct conf conf;
	json_t *task;
	const char *state;
	__u64 limit;
	unsigned int given;
};

static void read_options(const struct verb *verb, int argc, char **argv, struct command *c)
{
	int opt;

	c->task = json_object();
	while ((opt = next_option(verb, argc, argv, &c->conf)) != -1) {
		c->given |= OPTION(opt);
		if (body_option(verb, c->task, opt))
			continue;
		switch (opt) {
		case OPT_ID:
			set_field(verb, c->task, "id", json_string(optarg));
			break;
		case OPT_AT:
			set_field(verb, c->task, "at", time_value(optarg));
			break;
		case OPT_IN:
			set_duration(verb, c->task, "in", optarg);
			break;
		case OPT_EVERY:
			set_duration(verb, c->task, "every", optarg);
			break;
		case OPT_IF_EXISTS:
			set_field(verb, c->task, "if_exists", json_string(optarg));
			break;
		case OPT_STATE:
			c->state = optarg;
			break;
		case OPT_LIMIT:
			c->limit = number_option(verb, "--limit", optarg, 1000);
			break;
		}
	}
}

static bool has_state(const json_t *t, const char *state)
{
	const char *is = json_string_value(json_object_get(t, "state"));

	return is && !strcmp(is, state);
}

static void print_task(const json_t *t)
{
	json_t *due = json_object_get(t, "due"), *error = json_object_get(t, "error");
	char when[DURATION_LEN + 8];

	printf("%s  %s", json_string_value(json_object_get(t, "id")),
	       json_string_value(json_object_get(t, "state")));
	if (due)
		printf("  %s", when_text(when, json_integer_value(due)));
	if (json_is_string(error)) {
		fputs("  ", stdout);
		print_text(error);
	}
	putchar('\n');
}

static int list(const struct command *c, const char *queue)
{
	char path[PATH_LEN];
	json_t *answer, *t;
	size_t i;

	snprintf(path, sizeof(path), "/v1/queues/%s/tasks?limit=%llu%s%s", queue,
		 c->limit ? c->limit : 100, c->state ? "&state=" : "",
		 c->state ? c->state : "");
	answer = http_call(&c->conf, "GET", path, NULL);
	json_array_foreach(json_object_get(answer, "tasks"), i, t) {
		if (c->conf.json)
			print_json(json_incref(t));
		else
			print_task(t);
	}
	if (!c->conf.json && json_object_get(answer, "cursor"))
		hint("the list ends at --limit=%zu: there may be more tasks", i);
	hint_newer(answer, "tasks");
	json_decref(answer);
	return STATUS_OK;
}

/* The options of each command. Commands with a method address a single task. */
static const struct subcommand commands[] = {
	{ "add", OPTION(OPT_ID) | OPTION(OPT_AT) | OPTION(OPT_IN) | OPTION(OPT_EVERY) |
	  BODY_GIVEN | OPTION(OPT_IF_EXISTS), NULL, NULL },
	{ "list", OPTION(OPT_STATE) | OPTION(OPT_LIMIT), NULL, NULL },
	{ "get", 0, "GET", "" },
	{ "move", OPTION(OPT_AT) | OPTION(OPT_IN), "PATCH", "" },
	{ "cancel", 0, "DELETE", "" },
	{ "run", 0, "POST", "/run" },
	{ "replay", 0, "POST", "/replay" },
	{ }
};

static int run(const struct verb *verb, int argc, char **argv)
{
	struct command c = { .limit = 0 };
	const struct subcommand *command;
	const char *name, *queue, *id;
	char path[PATH_LEN];
	json_t *answer, *body = NULL;

	read_options(verb, argc, argv, &c);
	command = take_subcommand(verb, argc, argv, c.given, commands, &queue);
	name = command->name;
	id = argv[optind];
	if (id && !command->method)
		usage_error(verb, "unknown argument %s", id);
	if (argc - optind > 1)
		usage_error(verb, "unknown argument %s", argv[optind + 1]);
	if (c.state)
		check_name(verb, "state", c.state);

	if (!strcmp(name, "list"))
		return list(&c, queue);
	if (!strcmp(name, "add")) {
		snprintf(path, sizeof(path), "/v1/queues/%s/tasks", queue);
		answer = http_call(&c.conf, "POST", path, c.task);
		goto print;
	}
	if (!id)
		usage_error(verb, "the id is missing");
	if (!*id || strlen(id) > ID_MAX)
		usage_error(verb, "an id has 1 to %d characters", ID_MAX);
	if (!strcmp(name, "move"))
		body = c.task;
	snprintf(path, sizeof(path), "/v1/queues/%s/tasks/", queue);
	append_id(path, sizeof(path), id);
	strncat(path, command->suffix, sizeof(path) - strlen(path) - 1);
	answer = http_call(&c.conf, command->method, path, body);
print:
	if (c.conf.json)
		print_json(json_incref(answer));
	else if (!strcmp(name, "get"))
		print_fields(answer);
	else
		print_task(answer);
	if (!c.conf.json && !strcmp(name, "cancel") && has_state(answer, "leased"))
		hint("if an attempt is running, it is the last one");
	json_decref(answer);
	return STATUS_OK;
}

const struct verb verb_task = {
	.name = "task",
	.args = "add|list QUEUE | get|move|cancel|run|replay QUEUE ID",
	.summary = "Add, show, move or cancel tasks of twheeld.",
	.help =
		"Options of add:\n"
		"      --id=ID           id of the task (default: the daemon makes one up)\n"
		"      --at=TIME         when it is due, in RFC 3339 or Unix milliseconds; also\n"
		"                        for move\n"
		"      --in=DURATION     when it is due, as a delay from now; also for move\n"
		"      --every=DURATION  period of a task that repeats\n"
		"      --url=URL         what to call; none for a pull queue\n"
		"      --method=METHOD   the HTTP method (default: POST)\n"
		"      --header=HEADER   \"NAME: VALUE\"; may be repeated\n"
		"      --payload=JSON    the body; - reads it from stdin\n"
		"      --timeout=DURATION\n"
		"                        maximum duration of an attempt\n"
		"      --keep=DURATION   how long the task stays readable after it is done\n"
		"                        (default: 0)\n"
		"      --if-exists=WHAT  replace (default), update, keep or fail\n"
		"Options of list:\n"
		"      --state=STATE     scheduled (default), leased, done or dead\n"
		"      --limit=N         maximum number of tasks (default: 100)\n",
	.longopts = options,
	.remote = true,
	.run = run,
};
