// SPDX-License-Identifier: GPL-2.0
/* twheelctl list: the timers of a wheel of another process. */
#include <getopt.h>
#include <stdio.h>

#include "device.h"
#include "error.h"
#include "json.h"
#include "option.h"
#include "others.h"
#include "output.h"
#include "show.h"

#define TIMERS	256

enum {
	OPT_ALL = OPT_OF_VERB,
};

static const struct option options[] = {
	{ "pid", required_argument, NULL, 'p' },
	{ "all", no_argument, NULL, OPT_ALL },
	{ }
};

/* Writes how long until a timer expires, or "-" if it is idle. */
static const char *due_text(char buf[DURATION_LEN], const struct twheel_timer *t, __u64 now)
{
	if (!t->deadline_ns)
		snprintf(buf, DURATION_LEN, "-");
	else if (t->deadline_ns == ~0ULL)
		snprintf(buf, DURATION_LEN, "never");
	else if (t->deadline_ns <= now)
		snprintf(buf, DURATION_LEN, "due");
	else
		short_duration(buf, t->deadline_ns - now);
	return buf;
}

static void print_timer(const struct conf *conf, const struct twheel_timer *t, __u64 now)
{
	char due[DURATION_LEN], period[DURATION_LEN], slack[DURATION_LEN];

	if (conf->json) {
		json_open("timer");
		json_timer_fields(NULL, t);
		json_close();
		return;
	}
	printf("0x%-16llx %-8s %8s %8s %8s  0x%llx\n", t->id, state_name(t->state),
	       due_text(due, t, now),
	       t->period_ns ? short_duration(period, t->period_ns) : "-",
	       t->slack_ns ? short_duration(slack, t->slack_ns) : "-", t->user_data);
}

static int run_list(const struct verb *verb, int argc, char **argv)
{
	struct twheel_timer timers[TIMERS];
	struct target target = { };
	struct conf conf = { };
	__u64 shown = 0, idle = 0, now;
	unsigned int cursor = 0;
	bool all = false;
	struct wheel w;
	int count, i;
	int opt;

	while ((opt = next_option(verb, argc, argv, &conf)) != -1) {
		if (opt == 'p')
			parse_target(verb, optarg, &target);
		else
			all = true;
	}
	if (optind < argc)
		usage_error(verb, "takes no argument");
	if (!target.pid)
		usage_error(verb, "--pid=PID or --pid=PID:FD is missing");
	open_other(&w, verb, &conf, &target);
	if (!conf.json)
		printf("%-18s %-8s %8s %8s %8s  %s\n", "ID", "STATE", "DUE IN", "PERIOD", "SLACK",
		       "DATA");
	now = twheel_now(w.twheel);
	while ((count = twheel_list(w.twheel, timers, TIMERS, &cursor)) > 0) {
		for (i = 0; i < count; i++) {
			if (timers[i].state == TWHEEL_IDLE && !all) {
				idle++;
				continue;
			}
			print_timer(&conf, &timers[i], now);
			shown++;
		}
	}
	if (count < 0)
		die(error_status(-count), "cannot list the timers: %s", error_text(-count));
	if (conf.json) {
		json_open("listed");
		json_u64("timers", shown);
		json_u64("idle", idle);
		json_u64("now_ns", now);
		json_close();
	} else if (idle) {
		printf("listed %llu; --all adds %llu idle timers\n", shown, idle);
	} else {
		printf("listed %llu\n", shown);
	}
	wheel_close(&w);
	return STATUS_OK;
}

const struct verb verb_list = {
	.name = "list",
	.args = "--pid=PID[:FD]",
	.summary = "Show the timers of another process's wheel.",
	.help = "DATA is the user_data that the kernel knows. A library may use that field for\n"
		"itself, and may keep idle timers for later use.\n"
		"\n"
		"  -p, --pid=PID[:FD]    the wheel of this process, or of its descriptor FD\n"
		"      --all             list idle timers as well\n",
	.longopts = options,
	.observes = true,
	.run = run_list,
};
