/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Requests to twheeld: one connection each, JSON both ways.
 */
#ifndef TWHEELCTL_HTTP_H
#define TWHEELCTL_HTTP_H

#include <signal.h>

#include <jansson.h>

#include "show.h"
#include "verb.h"

#define SERVER	"127.0.0.1:7733"

/**
 * http_try() - send a request
 * @conf: names the server and the token
 * @method: GET, POST ...
 * @path: path and query; every character must be allowed in a URL
 * @body: what to send, or NULL; drops the caller's reference
 * @status: out: the HTTP status
 * @answer: out: the JSON of the answer, as a new reference, or NULL if it has none
 * @mask: signals that are blocked during the wait for the answer, or NULL
 *
 * Return: 0, or a negative errno. -EINTR: a signal arrived that @mask does not block.
 */
int http_try(const struct conf *conf, const char *method, const char *path, json_t *body,
	     int *status, json_t **answer, const sigset_t *mask);

/**
 * http_call() - send a request, or exit
 *
 * Unless the status is 2xx, this exits with the error that the daemon has reported.
 *
 * Return: the answer.
 */
json_t *http_call(const struct conf *conf, const char *method, const char *path,
		  json_t *body);

/* Exits with the error that the daemon has reported. */
void http_die(int status, const json_t *answer) __attribute__((noreturn));

/* Exits with a usage error unless the text can be part of a path. */
void check_name(const struct verb *verb, const char *what, const char *text);

/* The bit of an option in a set of options. */
#define OPTION(value)	(1U << ((value) - OPT_OF_VERB))

/* Exits with a usage error if one of the @given options is not among the @options of @command. */
void check_options(const struct verb *verb, const char *command, unsigned int given,
		   unsigned int options);

/**
 * struct subcommand - a word after a verb, for the tasks or schedules of a queue
 * @name: the word
 * @options: the options that it takes, as a set of OPTION()
 * @method: method of the request, if it names a single one; NULL: it names only the queue
 * @suffix: what comes after the name in the path
 */
struct subcommand {
	const char *name;
	unsigned int options;
	const char *method;
	const char *suffix;
};

/**
 * take_subcommand() - take the subcommand and the queue from the arguments, or exit
 * @verb: the verb
 * @argc: as for main(); optind moves to the word after the queue
 * @argv: as for main()
 * @given: the options that were given
 * @commands: all subcommands; the last one has no name
 * @queue: out: the queue
 */
const struct subcommand *take_subcommand(const struct verb *verb, int argc, char **argv,
					 unsigned int given, const struct subcommand *commands,
					 const char **queue);

/*
 * Returns a value as one line of JSON, with as many digits as its numbers need. The caller frees
 * it.
 */
char *value_text(const json_t *value);

/* Prints an answer as one line of JSON, and drops the caller's reference to it. */
void print_json(json_t *answer);

/* Prints a text. One that contains control characters is printed as JSON. */
void print_text(const json_t *v);

/* Prints the fields of an object, one on each line. */
void print_fields(const json_t *object);

/* Adds a duration, which the daemon reads as twheelctl does, or exits with a usage error. */
void set_duration(const struct verb *verb, json_t *object, const char *name, const char *text);

/*
 * Adds an option to an object. It is an error if there is no value, because the text is not UTF-8.
 */
void set_field(const struct verb *verb, json_t *object, const char *name, json_t *value);

/* Makes a point in time. Digits are Unix milliseconds. Any other text is passed on. */
json_t *time_value(const char *text);

/* "in 5s", "3s ago" for a Unix time in ms. */
const char *when_text(char buf[DURATION_LEN + 8], json_int_t ms);

/* Tells how many tasks, schedules or queues a list lacks because a newer twheeld stored them. */
void hint_newer(const json_t *answer, const char *what);

#endif /* TWHEELCTL_HTTP_H */
