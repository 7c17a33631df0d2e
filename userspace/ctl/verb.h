/* SPDX-License-Identifier: GPL-2.0 */
/* Verbs, and the options that they share. */
#ifndef TWHEELCTL_VERB_H
#define TWHEELCTL_VERB_H

#include <getopt.h>

#include <libtwheel.h>

#include "common.h"

#define DEVICE		"/dev/twheel"

/*
 * The values of the options that verbs share. @device is DEVICE unless the user named another one.
 * Only the verbs that talk to twheeld use @server, @token_file and @cacert.
 */
struct conf {
	const char *device;
	bool names_device;
	struct twheel_options shape;
	const char *server;
	const char *token_file;
	const char *cacert;
	bool json;
};

/* The first value for an option without a letter that belongs to a single verb. */
#define OPT_OF_VERB	512

/**
 * struct verb - one thing that twheelctl does
 * @name: the first word
 * @args: its synopsis after the name
 * @summary: one line
 * @help: what --help adds, with one option on each line
 * @longopts: its own options, ended by a zero entry, or NULL. A value below OPT_OF_VERB is the
 *	letter of the option, which means the same in every verb
 * @remote: talks to twheeld, so it has no wheel
 * @observes: looks at wheels of other processes, so it makes none
 * @negative: why an argument cannot be a negative number, which getopt mistakes for options
 * @command_follows: its options end at the first other word, because a command with its own
 *	options follows there or later
 * @runs_command: exits with the status of a command, or with STATUS_OWN_FAILURE if it fails itself
 * @run: performs it, and returns the exit status
 */
struct verb {
	const char *name;
	const char *args;
	const char *summary;
	const char *help;
	const struct option *longopts;
	const char *negative;
	bool remote;
	bool observes;
	bool command_follows;
	bool runs_command;
	int (*run)(const struct verb *verb, int argc, char **argv);
};

extern const struct verb verb_info;
extern const struct verb verb_doctor;
extern const struct verb verb_after;
extern const struct verb verb_monitor;
extern const struct verb verb_shell;
extern const struct verb verb_stat;
extern const struct verb verb_watch;
extern const struct verb verb_wheel;
extern const struct verb verb_ps;
extern const struct verb verb_top;
extern const struct verb verb_hist;
extern const struct verb verb_list;
extern const struct verb verb_task;
extern const struct verb verb_queue;
extern const struct verb verb_schedule;
extern const struct verb verb_worker;

#endif /* TWHEELCTL_VERB_H */
