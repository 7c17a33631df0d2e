// SPDX-License-Identifier: GPL-2.0
/* twheelctl monitor: arm the timers of --add, and print each expiration. */
#include <getopt.h>
#include <stdio.h>

#include "clock.h"
#include "device.h"
#include "error.h"
#include "json.h"
#include "option.h"
#include "output.h"
#include "show.h"
#include "timers.h"

#define EVENTS	64

enum {
	OPT_IDLE_TIMEOUT = OPT_OF_VERB,
};

static const struct option options[] = {
	{ "add", required_argument, NULL, 'a' },
	{ "num-events", required_argument, NULL, 'n' },
	{ "idle-timeout", required_argument, NULL, OPT_IDLE_TIMEOUT },
	{ "format", required_argument, NULL, 'F' },
	{ "banner", no_argument, NULL, 'b' },
	{ "quiet", no_argument, NULL, 'q' },
	{ }
};

struct monitor {
	struct conf conf;
	struct load load;
	struct roster roster;
	const char *format;
	__u64 limit;
	__u64 idle;
	bool banner;
	bool quiet;
};

static void read_options(const struct verb *verb, int argc, char **argv,
			 struct monitor *m)
{
	int opt;

	while ((opt = next_option(verb, argc, argv, &m->conf)) != -1) {
		switch (opt) {
		case 'a':
			load_add(&m->load, verb, optarg);
			break;
		case 'n':
			m->limit = number_option(verb, "-n", optarg, ~0ULL);
			break;
		case OPT_IDLE_TIMEOUT:
			m->idle = duration_option(verb, "--idle-timeout", optarg);
			break;
		case 'F':
			if (!check_format(optarg))
				usage_error(verb, "unknown %% in the format \"%s\"", optarg);
			m->format = optarg;
			break;
		case 'b':
			m->banner = true;
			break;
		case 'q':
			m->quiet = true;
			break;
		}
	}
	if (optind < argc)
		usage_error(verb, "unknown argument %s: timers are armed by --add",
			    argv[optind]);
	if (m->format && m->conf.json)
		usage_error(verb, "--format cannot be used with --json");
	if (!m->load.count)
		usage_error(verb, "there is nothing to wait for: arm a timer with --add");
}

static void print_banner(const struct monitor *m, const struct wheel *w,
			 unsigned int made)
{
	char buf[DURATION_LEN];

	if (m->conf.json) {
		json_open("ready");
		json_u64("timers", made);
		json_text("clock", clock_name(w->info.clock_id));
		json_u64("tick_ns", w->info.tick_ns);
		json_u64("now_ns", twheel_now(w->twheel));
		json_close();
	} else {
		printf("%u timers, clock %s, tick %s\n", made,
		       clock_name(w->info.clock_id),
		       duration_text(buf, w->info.tick_ns));
	}
}

/* Explains why the monitor ends after @seen events. Returns the exit status. */
static int end_early(const struct monitor *m, __u64 seen, const char *why)
{
	if (m->limit)
		complain("%s, after %llu of %llu expirations", why, seen, m->limit);
	else
		complain("%s", why);
	return STATUS_TIMEOUT;
}

static int watch(struct monitor *m, struct wheel *w)
{
	struct twheel_event events[EVENTS];
	char idle[DURATION_LEN], why[64];
	__u64 seen = 0;

	snprintf(why, sizeof(why), "no timer expired for %s", duration_text(idle, m->idle));
	for (;;) {
		int count = twheel_read(w->twheel, events, EVENTS);
		int i;

		if (count < 0)
			die(error_status(-count), "cannot read the wheel: %s", error_text(-count));
		for (i = 0; i < count; i++) {
			if (!m->quiet)
				print_event(&m->conf, &m->roster, m->format, &events[i]);
			if (++seen == m->limit)
				return STATUS_OK;
		}
		if (count)
			continue;
		if (wheel_nothing_left(w)) {
			if (!m->limit)
				return STATUS_OK;
			return end_early(m, seen, "nothing is left that could expire");
		}
		if (!wait_input(w, -1, m->idle, NULL, NULL) && m->idle != FOREVER)
			return end_early(m, seen, why);
	}
}

static int run_monitor(const struct verb *verb, int argc, char **argv)
{
	struct monitor m = { .idle = FOREVER };
	struct wheel w;
	unsigned int made;
	int status;

	read_options(verb, argc, argv, &m);
	wheel_open(&w, &m.conf);
	made = load_arm(&m.load, &w, &m.roster);
	if (m.banner)
		print_banner(&m, &w, made);
	status = watch(&m, &w);
	wheel_close(&w);
	return status;
}

const struct verb verb_monitor = {
	.name = "monitor",
	.args = "--add TIMER [--add TIMER]...",
	.summary = "Arm timers and print each expiration with its lateness.",
	.help = "A line shows the time in seconds on the wheel's clock, the name of the timer,\n"
		"the lateness (or \"due when armed\"), and xN if it stands for N expirations. The\n"
		"verb exits when no timer is left that could expire.\n"
		"\n"
		"  -a, --add=TIMER       DURATION or @SECONDS (of the wheel's clock) or idle,\n"
		"                        then any of ,periodic ,period=DURATION\n"
		"                        ,slack=DURATION ,keep ,label=NAME ,count=N\n"
		"  -n, --num-events=N    exit after N lines, or with status 124 if no timer is\n"
		"                        left before that\n"
		"      --idle-timeout=DURATION\n"
		"                        exit with status 124 if nothing expires for this long\n"
		"  -F, --format=FORMAT   %n name, %i id, %d deadline and %t time of expiry in\n"
		"                        seconds, %l lateness, %L in ns, %x expirations, %% a %\n"
		"  -b, --banner          print a line when the timers are armed\n"
		"  -q, --quiet           do not print expirations\n",
	.longopts = options,
	.run = run_monitor,
};
