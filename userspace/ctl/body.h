/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the verbs task and schedule: the options for what a task does, and its id in a path. */
#ifndef TWHEELCTL_BODY_H
#define TWHEELCTL_BODY_H

#include <getopt.h>
#include <stdbool.h>

#include <jansson.h>

#include "verb.h"

/* The values of these options, and the first value that is free after them. */
enum {
	OPT_URL = OPT_OF_VERB,
	OPT_METHOD,
	OPT_HEADER,
	OPT_PAYLOAD,
	OPT_TIMEOUT,
	OPT_KEEP,
	OPT_AFTER_BODY,
};

/* The set of these options for check_options(). */
#define BODY_GIVEN	(OPTION(OPT_URL) | OPTION(OPT_METHOD) | OPTION(OPT_HEADER) | \
			 OPTION(OPT_PAYLOAD) | OPTION(OPT_TIMEOUT) | OPTION(OPT_KEEP))

/**
 * body_option() - take an option from --url to --keep into a task, or die with a usage error
 * @verb: the verb
 * @task: an object, to which the meaning of the option is added
 * @opt: an option of the verb, whose argument is in optarg
 *
 * Return: whether @opt is one of them.
 */
bool body_option(const struct verb *verb, json_t *task, int opt);

/* Appends @id to @path, which has room for @size bytes. All but the plainest bytes are escaped. */
void append_id(char *path, size_t size, const char *id);

#endif /* TWHEELCTL_BODY_H */
