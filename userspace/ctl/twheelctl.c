// SPDX-License-Identifier: GPL-2.0
/*
 * twheelctl: timing wheels from the command line.
 *
 * Each verb has a file. This one contains the table of verbs, and parses what comes before a verb.
 *
 *   after.c monitor.c shell.c stat.c watch.c wheel.c ps.c hist.c list.c info.c doctor.c
 *   task.c queue.c schedule.c worker.c    verbs
 *   body.c        what task and schedule share
 *   http.c        requests to twheeld
 *   output.c      prints records for people and as JSON
 *   others.c      wheels of other processes
 *   timers.c      parses --add, and names the timers made from it
 *   device.c      opens the wheel, or explains why that fails; waits for it
 *   option.c      parses the command line of a verb
 *   advice.c      explains what to do if there is no wheel
 *   error.c       error messages and exit statuses
 *   json.c clock.c show.c ../shared/duration.c ../shared/base64.c
 *
 * A file only calls the files below it. The wheel is one of libtwheel, and functions that use it
 * return 0 or a count, or a negative errno. Times are nanoseconds.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "option.h"

static const struct verb * const verbs[] = {
	&verb_info,
	&verb_doctor,
	&verb_after,
	&verb_monitor,
	&verb_shell,
	&verb_stat,
	&verb_watch,
	&verb_wheel,
	&verb_ps,
	&verb_top,
	&verb_hist,
	&verb_list,
#ifdef WITH_TASKS
	&verb_task,
	&verb_queue,
	&verb_schedule,
	&verb_worker,
#endif
};

static void print_overview(FILE *out)
{
	size_t i;

	fprintf(out, "Usage: twheelctl VERB [OPTION]... [ARGUMENT]...\n"
		"Timing wheels from the command line.\n\n");
	for (i = 0; i < ARRAY_SIZE(verbs); i++)
		fprintf(out, "  %-8s %s\n", verbs[i]->name, verbs[i]->summary);
	fprintf(out, "  %-8s %s\n\n"
		"  -V, --version  print the version of twheelctl; \"info\" prints the module's\n\n%s",
		"help", "Print this text, or the help of a VERB.", lifetime_note);
}

static const struct verb *find_verb(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(verbs); i++)
		if (!strcmp(name, verbs[i]->name))
			return verbs[i];
	return NULL;
}

static int no_verb(const char *name)
{
	complain("there is no verb \"%s\"", name);
	hint("twheelctl --help");
	return STATUS_USAGE;
}

static int run_help(int argc, char **argv)
{
	const struct verb *verb;

	if (argc < 2 || !strcmp(argv[1], "-h") || !strcmp(argv[1], "--help") ||
	    !strcmp(argv[1], "help")) {
		print_overview(stdout);
		return STATUS_OK;
	}
	verb = find_verb(argv[1]);
	if (!verb)
		return no_verb(argv[1]);
	if (argc > 2)
		usage_error(verb, "help accepts one verb");
	print_help(verb);
	return STATUS_OK;
}

static int run_verb(const char *name, int argc, char **argv)
{
	const struct verb *verb;

	if (!strcmp(name, "help"))
		return run_help(argc, argv);
	verb = find_verb(name);
	if (!verb)
		return no_verb(name);
	if (verb->runs_command)
		reserve_statuses();
	return verb->run(verb, argc, argv);
}

/* Runs the verb argv[verb], which also gets the options before it. */
static int run_verb_after_options(int verb, int argc, char **argv)
{
	char *name = argv[verb];

	if (!strcmp(name, "help"))
		return run_help(argc - verb, argv + verb);
	memmove(argv + 2, argv + 1, (verb - 1) * sizeof(*argv));
	argv[1] = name;
	/* The verb parses the options from the beginning. */
	optind = 0;
	return run_verb(name, argc - 1, argv + 1);
}

/* Parses the options before a verb. */
static int run_option(int argc, char **argv)
{
	static const char shortopts[] = "+:hjV";
	struct option options[MAX_OPTIONS];

	front_options(options);
	for (;;) {
		switch (getopt_long(argc, argv, shortopts, options, NULL)) {
		case 'h':
			print_overview(stdout);
			return STATUS_OK;
		case 'V':
			printf("twheelctl %s\n", twheel_version());
			return STATUS_OK;
		case ':':
			complain("%s needs an argument", argv[optind - 1]);
			hint("twheelctl --help");
			return STATUS_USAGE;
		case '?':
			/* getopt may be in the middle of a word with several short options. */
			if (strchr(shortopts, optopt))
				complain("unknown option before the verb: %s",
					 argv[optind - 1]);
			else
				complain("unknown option before the verb: -%c", optopt);
			hint("the options of a verb follow it: twheelctl VERB [OPTION]...");
			return STATUS_USAGE;
		case -1:
			if (optind < argc && strcmp(argv[optind], "-"))
				return run_verb_after_options(optind, argc, argv);
			complain("there is no verb");
			hint("twheelctl --help");
			return STATUS_USAGE;
		}
	}
}

int main(int argc, char **argv)
{
	int status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* getopt begins its error messages with this name. */
	if (argc)
		argv[0] = "twheelctl";
	if (argc < 2) {
		print_overview(stderr);
		return STATUS_USAGE;
	}
	if (argv[1][0] == '-')
		status = run_option(argc, argv);
	else
		status = run_verb(argv[1], argc - 1, argv + 1);
	end_output();
	return status;
}
