/* SPDX-License-Identifier: GPL-2.0 */
/* The command line of a verb. */
#ifndef TWHEELCTL_OPTION_H
#define TWHEELCTL_OPTION_H

#include "verb.h"

#define MAX_OPTIONS	32

void front_options(struct option options[MAX_OPTIONS]);
int next_option(const struct verb *verb, int argc, char **argv,
		struct conf *conf);
void print_help(const struct verb *verb);
void usage_error(const struct verb *verb, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));
__u64 number_option(const struct verb *verb, const char *option,
		    const char *text, __u64 max);
__u64 duration_option(const struct verb *verb, const char *option,
		      const char *text);
extern const char lifetime_note[];

#endif /* TWHEELCTL_OPTION_H */
