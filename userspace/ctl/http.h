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
 * @path: with its query; all characters must be those of a URL
 * @body: what to send, or NULL; its reference is given up
 * @status: of the answer
 * @answer: its JSON; a new reference, or NULL if it has none
 * @mask: signals that are blocked while it waits for the answer, or NULL
 *
 * Return: 0, or a negative errno. -EINTR: a signal came that @mask lets through.
 */
int http_try(const struct conf *conf, const char *method, const char *path, json_t *body,
	     int *status, json_t **answer, const sigset_t *mask);

/**
 * http_call() - send a request, or die
 *
 * The same. It dies with the words of the daemon unless the status is 2xx.
 *
 * Return: the answer.
 */
json_t *http_call(const struct conf *conf, const char *method, const char *path,
		  json_t *body);

/* Dies with the words of the daemon. */
void http_die(int status, const json_t *answer) __attribute__((noreturn));

/* Dies with a usage error unless the text can be part of a path. */
void check_name(const struct verb *verb, const char *what, const char *text);

/* An option of a verb in a set of these. */
#define OPTION(value)	(1U << ((value) - OPT_OF_VERB))

/* Dies with a usage error if @command has one of the @given options not among its @options. */
void check_options(const struct verb *verb, const char *command, unsigned int given,
		   unsigned int options);

/**
 * struct subcommand - a word behind a verb, for things that a queue has
 * @name: the word
 * @options: those that it takes, as a set of OPTION()
 * @method: of its request, if it names one thing; NULL: it names the queue alone
 * @suffix: what comes behind the name of the thing in the path
 */
struct subcommand {
	const char *name;
	unsigned int options;
	const char *method;
	const char *suffix;
};

/**
 * take_subcommand() - take the subcommand and the queue from the arguments, or die
 * @verb: the verb
 * @argc: as for main(); optind moves behind the queue
 * @argv: likewise
 * @given: the options that were given
 * @commands: all that there are, up to one without a name
 * @queue: out: the queue
 */
const struct subcommand *take_subcommand(const struct verb *verb, int argc, char **argv,
					 unsigned int given, const struct subcommand *commands,
					 const char **queue);

/* A value as one line of JSON, its numbers with the digits that they need. To be freed. */
char *value_text(const json_t *value);

/* Prints an answer as one line of JSON and gives up its reference. */
void print_json(json_t *answer);

/* Adds a duration, which the daemon reads as twheelctl does, or dies with a usage error. */
void set_duration(const struct verb *verb, json_t *object, const char *name, const char *text);

/* Adds an option to an object. A text that is not UTF-8 has no value, and is an error. */
void set_field(const struct verb *verb, json_t *object, const char *name, json_t *value);

/* Makes a point in time. Digits are Unix milliseconds. Any other text is passed on. */
json_t *time_value(const char *text);

/* "in 5s", "3s ago" for a Unix time in ms. */
const char *when_text(char buf[DURATION_LEN + 8], json_int_t ms);

#endif /* TWHEELCTL_HTTP_H */
