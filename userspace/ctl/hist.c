// SPDX-License-Identifier: GPL-2.0
/* twheelctl hist: how late the expirations of other programs were. */
#include <getopt.h>
#include <stdlib.h>

#include <metrics.h>

#include "device.h"
#include "error.h"
#include "option.h"
#include "others.h"
#include "output.h"

static const struct option options[] = {
	{ "pid", required_argument, NULL, 'p' },
	{ }
};

/* Sums the lateness of all wheels that fdinfo shows. */
static void sum_others(struct twheel_stats *sum)
{
	const struct target all = { };
	bool known = false;
	struct others o;
	size_t i, j;

	find_others(&o, &all);
	for (i = 0; i < o.count; i++) {
		const struct twheel_stats *stats = &o.seen[i].stats;

		if (!(o.seen[i].known & SAMPLE_LATENESS))
			continue;
		known = true;
		for (j = 0; j < TWHEEL_LATENESS_BUCKETS; j++)
			sum->lateness[j] += stats->lateness[j];
		if (sum->worst_lateness_ns < stats->worst_lateness_ns)
			sum->worst_lateness_ns = stats->worst_lateness_ns;
	}
	if (o.count && !known) {
		complain("this module is too old to report how late other processes' wheels are");
		hint("use --pid to look at a single wheel");
		exit(STATUS_FAILURE);
	}
	hint_missing(&o);
	free_others(&o);
}

static int run_hist(const struct verb *verb, int argc, char **argv)
{
	struct twheel_stats stats = { };
	struct target target = { };
	struct conf conf = { };
	struct wheel w;
	int opt;

	while ((opt = next_option(verb, argc, argv, &conf)) != -1)
		if (opt == 'p')
			parse_target(verb, optarg, &target);
	if (optind < argc)
		usage_error(verb, "takes no argument");
	if (target.pid) {
		open_other(&w, verb, &conf, &target);
		wheel_stats(&w, &stats);
		wheel_close(&w);
	} else {
		sum_others(&stats);
	}
	print_histogram(&conf, &stats);
	return STATUS_OK;
}

const struct verb verb_hist = {
	.name = "hist",
	.args = "[--pid=PID[:FD]]",
	.summary = "Show a histogram of how late expirations were.",
	.help = "The histogram covers the time since each wheel was opened, and all wheels that\n"
		"processes have open, unless you select one.\n"
		"\n"
		"  -p, --pid=PID[:FD]    only the wheel of this process, or of its descriptor FD\n",
	.longopts = options,
	.observes = true,
	.run = run_hist,
};
