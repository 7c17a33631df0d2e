// SPDX-License-Identifier: GPL-2.0
/* twheelctl after: wait for a timer of the wheel, then run a command. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../shared/duration.h"
#include "device.h"
#include "error.h"
#include "option.h"
#include "output.h"
#include "timers.h"

/* Arms a single timer and waits for it. */
static void wait_for(struct wheel *w, struct roster *r, const struct spec *spec,
		     struct twheel_event *event)
{
	struct twheel_timer t;
	int ret;

	ret = roster_add(r, w, spec, &t);
	if (ret)
		die(error_status(-ret), "cannot arm the timer: %s", add_error_text(w, ret));
	while (!ret) {
		wait_input(w, -1, FOREVER, NULL, NULL);
		ret = twheel_read(w->twheel, event, 1);
	}
	if (ret < 0)
		die(error_status(-ret), "cannot wait for the timer: %s", error_text(-ret));
}

static int run_after(const struct verb *verb, int argc, char **argv)
{
	struct twheel_event event;
	struct roster r = { };
	struct conf conf = { };
	struct spec spec;
	struct wheel w;
	const char *why;

	while (next_option(verb, argc, argv, &conf) != -1)
		;
	if (optind == argc)
		usage_error(verb, "the DURATION is missing");
	why = parse_spec(argv[optind], &spec);
	if (why)
		usage_error(verb, "\"%s\": %s", argv[optind], why);
	if (spec.count > 1 || spec.flags & TWHEEL_DISARMED || spec.period)
		usage_error(verb, "takes one timer that expires once, not \"%s\"", argv[optind]);
	if (!spec.name[0])
		snprintf(spec.name, sizeof(spec.name), "after");
	argv += optind + 1;
	if (*argv && !strcmp(*argv, "--")) {
		argv++;
		if (!*argv)
			usage_error(verb, "there is no command after --");
	} else if (*argv && **argv == '-') {
		usage_error(verb, "%s: options come before the DURATION, a command after --",
			    *argv);
	}

	wheel_open(&w, &conf);
	wait_for(&w, &r, &spec, &event);
	if (!*argv) {
		print_event(&conf, &r, NULL, &event);
		wheel_close(&w);
		return STATUS_OK;
	}
	execvp(*argv, argv);
	die(errno == ENOENT ? STATUS_NO_COMMAND : STATUS_CANNOT_EXEC,
	    "cannot run %s: %s", *argv, strerror(errno));
}

const struct verb verb_after = {
	.name = "after",
	.args = "DURATION[,slack=DURATION] [--] [COMMAND...]",
	.summary = "Wait for a timer, then run a command or print the expiration.",
	.help = "To wait for a moment on the wheel's clock, use @SECONDS in place of DURATION.\n"
		"The exit status is that of the command, or 127 if there is no such command, or\n"
		"126 if it cannot be run.\n",
	.negative = negative_duration,
	.command_follows = true,
	.run = run_after,
};
