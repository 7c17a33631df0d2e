// SPDX-License-Identifier: GPL-2.0
/* twheelctl info: the properties of a new wheel. */
#include <getopt.h>
#include <stdio.h>

#include "advice.h"
#include "clock.h"
#include "device.h"
#include "error.h"
#include "json.h"
#include "option.h"
#include "show.h"

static void print_json(const struct conf *conf, const struct wheel *w)
{
	const struct twheel_info *info = &w->info;
	char version[64];

	json_open("info");
	json_text("backend", twheel_backend(w->twheel));
	if (wheel_is_kernel(w)) {
		json_text("device", conf->device);
		json_text("module_version", module_version(version, sizeof(version)));
	}
	json_text("clock", clock_name(info->clock_id));
	json_u64("tick_ns", info->tick_ns);
	json_u64("min_tick_ns", info->min_tick_ns);
	json_u64("levels", info->levels);
	json_u64("slot_bits", info->slot_bits);
	json_u64("horizon_ns", info->horizon_ns);
	json_u64("max_timers", info->max_timers);
	json_u64("table_bytes", info->table_bytes);
	json_u64("features", info->features);
	json_close();
}

static void print_table(const struct conf *conf, const struct wheel *w)
{
	const struct twheel_info *info = &w->info;
	char buf[DURATION_LEN];
	char version[64];

	if (wheel_is_kernel(w)) {
		printf("device      %s\n", conf->device);
		printf("module      %s\n", module_version(version, sizeof(version)));
	} else {
		printf("device      none: the wheel is in this process\n");
	}
	printf("clock       %s\n", clock_name(info->clock_id));
	printf("tick        %s (2^%d ns)\n", duration_text(buf, info->tick_ns),
	       __builtin_ctzll(info->tick_ns));
	if (wheel_is_kernel(w))
		printf("min tick    %s without CAP_SYS_RESOURCE\n",
		       duration_text(buf, info->min_tick_ns));
	printf("levels      %u of %u buckets\n", info->levels, 1U << info->slot_bits);
	printf("horizon     %s\n", info->horizon_ns == ~0ULL ? "every deadline" :
	       duration_text(buf, info->horizon_ns));
	printf("max timers  %u\n", info->max_timers);
	if (info->features & TWHEEL_FEATURE_TABLE)
		printf("table       %llu bytes to map (%llu KiB)\n", info->table_bytes,
		       info->table_bytes / 1024);
	else
		printf("table       cannot be mapped\n");
}

static int run_info(const struct verb *verb, int argc, char **argv)
{
	struct conf conf = { };
	struct wheel w;

	while (next_option(verb, argc, argv, &conf) != -1)
		;
	if (optind < argc)
		usage_error(verb, "takes no argument");
	wheel_open(&w, &conf);
	if (conf.json)
		print_json(&conf, &w);
	else
		print_table(&conf, &w);
	wheel_close(&w);
	return STATUS_OK;
}

const struct verb verb_info = {
	.name = "info",
	.args = "",
	.summary = "Print the shape and the limits of a wheel.",
	.help = "Creates a wheel of the shape that the options describe, and prints its actual\n"
		"shape. If the wheel cannot be created, a hint says what to do.\n",
	.run = run_info,
};
