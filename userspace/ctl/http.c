// SPDX-License-Identifier: GPL-2.0
/* Requests to twheeld. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../shared/duration.h"
#include "clock.h"
#include "error.h"
#include "http.h"
#include "option.h"
#include "show.h"
#include "transfer.h"

static const char *server_name(const struct conf *conf)
{
	const char *server = conf->server ? conf->server : getenv("TWHEELD");

	return server && *server ? server : SERVER;
}

/* Reads the first line of the token file, without the newline. */
static const char *read_token(const struct conf *conf)
{
	static char token[512];
	FILE *f;

	if (!conf->token_file || *token)
		return token;
	f = fopen(conf->token_file, "re");
	if (!f || !fgets(token, sizeof(token), f))
		die(STATUS_USAGE, "cannot read a token from %s", conf->token_file);
	fclose(f);
	token[strcspn(token, " \t\r\n")] = '\0';
	return token;
}

/* Parses an answer. It may be of any form, because the server may not be a twheeld. */
static int parse_answer(const char *text, size_t len, int status, json_t **answer)
{
	*answer = len ? json_loadb(text, len, JSON_DECODE_ANY, NULL) : NULL;
	return status / 100 == 2 && !json_is_object(*answer) ? -EPROTO : 0;
}

int http_try(const struct conf *conf, const char *method, const char *path, json_t *body,
	     int *status, json_t **answer, const sigset_t *mask)
{
	char *sent = body ? json_dumps(body, JSON_COMPACT) : NULL, *text;
	const struct transfer t = {
		.server = server_name(conf),
		.cacert = conf->cacert,
		.token = read_token(conf),
		.method = method,
		.path = path,
		.body = sent ? sent : "",
		.mask = mask,
	};
	size_t len;
	int err;

	json_decref(body);
	*answer = NULL;
	err = transfer(&t, status, &text, &len);
	if (!err)
		err = parse_answer(text, len, *status, answer);
	free(text);
	free(sent);
	return err;
}

/* Returns the exit status for an HTTP status. */
static int exit_status(int status)
{
	switch (status) {
	case 400:
	case 413:
		return STATUS_USAGE;
	case 401:
	case 403:
		return STATUS_NO_PERMISSION;
	case 404:
		return STATUS_NO_TIMER;
	case 429:
		return STATUS_LIMIT;
	default:
		return STATUS_FAILURE;
	}
}

void http_die(int status, const json_t *answer)
{
	const json_t *error = json_object_get(answer, "error");
	const char *message = json_string_value(json_object_get(error, "message"));
	const char *field = json_string_value(json_object_get(error, "field"));

	complain("%s%s%s", field ? field : "", field ? ": " : "",
		 message ? message : "twheeld refused the request");
	if (status == 404 && field && !strcmp(field, "queue"))
		hint("twheelctl queue make QUEUE creates it");
	leave(exit_status(status));
}

json_t *http_call(const struct conf *conf, const char *method, const char *path,
		  json_t *body)
{
	json_t *answer;
	int status, err;

	err = http_try(conf, method, path, body, &status, &answer, NULL);
	if (err)
		die(STATUS_NO_DEVICE, "twheeld at %s: %s", server_name(conf), transfer_why(err));
	if (status < 200 || status > 299)
		http_die(status, answer);
	return answer;
}

void check_name(const struct verb *verb, const char *what, const char *text)
{
	const char *p;

	for (p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("_-", *p))
			break;
	if (p == text)
		usage_error(verb, "the %s is empty", what);
	if (*p)
		usage_error(verb, "a %s may contain only A-Z, a-z, 0-9, \"_\" and \"-\", not \"%s\"",
			    what, text);
}

void check_options(const struct verb *verb, const char *command, unsigned int given,
		   unsigned int options)
{
	const struct option *o;

	for (o = verb->longopts; o->name; o++)
		if (given & ~options & OPTION(o->val))
			usage_error(verb, "%s does not accept --%s", command, o->name);
}

const struct subcommand *take_subcommand(const struct verb *verb, int argc, char **argv,
					 unsigned int given, const struct subcommand *commands,
					 const char **queue)
{
	const char *name;

	if (argc == optind)
		usage_error(verb, "a command and a queue are missing");
	name = argv[optind++];
	while (commands->name && strcmp(commands->name, name))
		commands++;
	if (!commands->name)
		usage_error(verb, "there is no command \"%s\"", name);
	check_options(verb, name, given, commands->options);
	if (argc == optind)
		usage_error(verb, "the queue is missing");
	*queue = argv[optind++];
	check_name(verb, "queue", *queue);
	return commands;
}

char *value_text(const json_t *value)
{
	const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
	char *text = json_dumps(value, flags | JSON_REAL_PRECISION(15));
	json_t *read = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;

	if (!json_equal(value, read)) {
		free(text);
		text = json_dumps(value, flags | JSON_REAL_PRECISION(17));
	}
	json_decref(read);
	return text;
}

void print_json(json_t *answer)
{
	char *text = answer ? value_text(answer) : NULL;

	puts(text ? text : "{}");
	free(text);
	json_decref(answer);
}

void print_text(const json_t *v)
{
	const unsigned char *p = (const unsigned char *)json_string_value(v);
	char *text;

	/* A character that follows 0xc2 and is below 0xa0 is a control character beyond ASCII. */
	while (*p >= ' ' && *p != 0x7f && (*p != 0xc2 || p[1] >= 0xa0))
		p++;
	text = *p ? json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
	fputs(text ? text : json_string_value(v), stdout);
	free(text);
}

void print_fields(const json_t *object)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)object, name, v) {
		printf("%-11s ", name);
		if (!json_is_string(v)) {
			print_json(json_incref(v));
			continue;
		}
		print_text(v);
		putchar('\n');
	}
}

void set_field(const struct verb *verb, json_t *object, const char *name, json_t *value)
{
	if (json_object_set_new(object, name, value))
		usage_error(verb, "%s: not UTF-8", name);
}

void set_duration(const struct verb *verb, json_t *object, const char *name, const char *text)
{
	const char *why;
	__u64 ns;

	why = parse_duration(text, strlen(text), &ns);
	if (why)
		usage_error(verb, "--%s: \"%s\": %s", name, text, why);
	set_field(verb, object, name, json_string(text));
}

json_t *time_value(const char *text)
{
	char *end;
	long long n = strtoll(text, &end, 10);

	return *text && !*end ? json_integer(n) : json_string(text);
}

const char *when_text(char buf[DURATION_LEN + 8], json_int_t ms)
{
	char duration[DURATION_LEN];
	__s64 left = ms - (__s64)(realtime_now() / NSEC_PER_MSEC);

	duration_text(duration, (__u64)(left < 0 ? -left : left) * NSEC_PER_MSEC);
	snprintf(buf, DURATION_LEN + 8, left < 0 ? "%s ago" : "in %s", duration);
	return buf;
}

void hint_newer(const json_t *answer, const char *what)
{
	json_int_t count = json_integer_value(json_object_get(answer, "newer"));

	if (count)
		hint("%s that a newer twheeld stored, and that are not listed: %lld", what, count);
}
