// SPDX-License-Identifier: GPL-2.0
/*
 * twheelctl stat: puts a load on its own wheel, and prints the counters at each interval. With
 * --pid, it looks at the wheel of another process and puts no load on it.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../shared/duration.h"
#include "clock.h"
#include "device.h"
#include "error.h"
#include "json.h"
#include "option.h"
#include "others.h"
#include "output.h"
#include "show.h"
#include "timers.h"

#define EVENTS		256
#define DEFAULT_LOAD	"100ms,periodic,count=100"

static const struct option options[] = {
	{ "add", required_argument, NULL, 'a' },
	{ "pid", required_argument, NULL, 'p' },
	{ }
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

static void print_header(void)
{
	printf("%8s %7s %7s %7s %8s %7s %9s %9s %9s\n", "armed", "unread",
	       "expired", "moved", "cascaded", "wakeups", "p50 up to", "p99 up to",
	       "worst");
}

static void print_row(const struct conf *conf, const struct twheel_stats *from,
		      const struct twheel_stats *to, __u64 elapsed)
{
	char half[DURATION_LEN], most[DURATION_LEN], worst[DURATION_LEN];
	__u64 p50, p99;
	bool any = percentile(from, to, 50, &p50) && percentile(from, to, 99, &p99);

	if (conf->json) {
		json_open("stats");
		json_u64("elapsed_ns", elapsed);
		json_stats_fields(to);
		if (any) {
			json_u64("p50_ns", p50);
			json_u64("p99_ns", p99);
		}
		json_close();
		return;
	}
	printf("%8llu %7llu %7llu %7llu %8llu %7llu %9s %9s %9s\n", to->armed,
	       to->unread, to->expired - from->expired, to->moved - from->moved,
	       to->cascaded - from->cascaded, to->wakeups - from->wakeups,
	       any ? duration_text(half, p50) : "-",
	       any ? duration_text(most, p99) : "-",
	       duration_text(worst, to->worst_lateness_ns));
}

/*
 * Waits for a signal, or until @end on the monotonic clock. Returns true if the owner of the wheel
 * is still running.
 */
static bool wait_for_owner(struct wheel *w, __u64 end)
{
	sigset_t ours, others;
	bool ended = false;
	__u64 now;

	sigemptyset(&ours);
	sigaddset(&ours, SIGINT);
	sigaddset(&ours, SIGTERM);
	/* Signals are blocked except during the wait, so none is missed. */
	sigprocmask(SIG_BLOCK, &ours, &others);
	while (!ended && !interrupted && (now = monotonic_now()) < end)
		ended = wait_owner(w, end - now, &others);
	sigprocmask(SIG_SETMASK, &others, NULL);
	return !ended;
}

/* Reads events until a signal arrives or @end on the monotonic clock, and at least once. */
static void consume(struct wheel *w, __u64 end)
{
	struct twheel_event events[EVENTS];
	sigset_t ours, others;
	bool ready;
	__u64 now;
	int ret;

	sigemptyset(&ours);
	sigaddset(&ours, SIGINT);
	sigaddset(&ours, SIGTERM);
	do {
		now = monotonic_now();
		/* Signals are blocked except during the wait, so none is missed. */
		sigprocmask(SIG_BLOCK, &ours, &others);
		ready = wait_input(w, -1, now < end && !interrupted ? end - now : 0, NULL,
				   &others);
		sigprocmask(SIG_SETMASK, &others, NULL);
		if (!ready)
			continue;
		ret = twheel_read(w->twheel, events, EVENTS);
		if (ret < 0)
			die(STATUS_FAILURE, "cannot read the wheel: %s", error_text(-ret));
	} while (!interrupted && now < end);
}

static void watch(const struct conf *conf, struct wheel *w, __u64 interval,
		  __u64 count)
{
	struct twheel_stats before = { }, after;
	__u64 start = monotonic_now();
	bool running = true;
	__u64 row;

	/* The counters of our own wheel were 0 before the load. */
	if (w->pidfd >= 0)
		wheel_stats(w, &before);
	for (row = 1; row <= count && running && !interrupted; row++) {
		if (w->pidfd >= 0)
			running = wait_for_owner(w, start + row * interval);
		else
			consume(w, start + row * interval);
		wheel_stats(w, &after);
		print_row(conf, &before, &after, monotonic_now() - start);
		before = after;
	}
	print_histogram(conf, &before);
}

static int run_stat(const struct verb *verb, int argc, char **argv)
{
	/* These signals end a wait, but do not interrupt the printing of a row. */
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	__u64 interval = NSEC_PER_SEC;
	struct target target = { };
	struct roster roster = { };
	struct load load = { };
	struct conf conf = { };
	__u64 count = 1;
	struct wheel w;
	const char *why;
	int opt;

	while ((opt = next_option(verb, argc, argv, &conf)) != -1)
		if (opt == 'a')
			load_add(&load, verb, optarg);
		else
			parse_target(verb, optarg, &target);
	if (optind < argc) {
		why = parse_duration(argv[optind], strlen(argv[optind]), &interval);
		if (!why && !interval)
			why = "the interval must be above 0";
		if (!why && interval > 86400 * NSEC_PER_SEC)
			why = "the interval must not be longer than a day";
		if (why)
			usage_error(verb, "%s: %s", argv[optind], why);
		optind++;
		count = ~0U;
	}
	if (optind < argc)
		count = number_option(verb, "COUNT", argv[optind++], ~0U);
	if (optind < argc)
		usage_error(verb, "accepts only INTERVAL and COUNT, not \"%s\"", argv[optind]);
	if (target.pid && load.count)
		usage_error(verb, "--add cannot be used with --pid");
	if (!load.count)
		load_add(&load, verb, DEFAULT_LOAD);

	if (target.pid) {
		open_other(&w, verb, &conf, &target);
	} else {
		wheel_open(&w, &conf);
		load_arm(&load, &w, &roster);
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (!conf.json)
		print_header();
	watch(&conf, &w, interval, count);
	wheel_close(&w);
	return STATUS_OK;
}

const struct verb verb_stat = {
	.name = "stat",
	.args = "[--add TIMER]... [INTERVAL [COUNT]]",
	.summary = "Put a load on a wheel and print its counters at each interval.",
	.help = "The columns expired, moved, cascaded and wakeups and the percentiles refer to\n"
		"the interval. The worst lateness and all counters of --json refer to the time\n"
		"since the wheel was opened. At the end, or on SIGINT or SIGTERM, the verb prints\n"
		"a histogram of the lateness. INTERVAL is a DURATION. Without a COUNT the verb\n"
		"goes on until it is interrupted, and without an INTERVAL it prints one row\n"
		"after 1s.\n"
		"\n"
		"  -a, --add=TIMER       the load (default: " DEFAULT_LOAD "):\n"
		"                        see monitor --help\n"
		"  -p, --pid=PID[:FD]    show the wheel of this process instead, until it ends\n",
	.negative = "an interval or a count cannot be negative",
	.longopts = options,
	.run = run_stat,
};
