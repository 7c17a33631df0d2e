// SPDX-License-Identifier: GPL-2.0
/* twheelctl queue: make, change and print queues of twheeld. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "http.h"
#include "option.h"
#include "show.h"

#define PATH_LEN	160
/* The highest rate, burst and concurrency that the daemon accepts. */
#define LIMIT_MAX	1000000

enum {
	OPT_MODE = OPT_OF_VERB,
	OPT_LANES,
	OPT_AHEAD,
	OPT_TIMEOUT,
	OPT_LANE_MAX,
	OPT_RATE,
	OPT_BURST,
	OPT_CONCURRENCY,
	OPT_WEIGHT,
	OPT_LIMIT,
	OPT_STATE,
	OPT_BEFORE,
	OPT_PREFIX,
	OPT_PURGE,
};

/* The options of make. */
#define MAKE_GIVEN	(OPTION(OPT_MODE) | OPTION(OPT_LANES) | OPTION(OPT_AHEAD) | \
			 OPTION(OPT_TIMEOUT) | OPTION(OPT_LANE_MAX) | OPTION(OPT_RATE) | \
			 OPTION(OPT_BURST) | OPTION(OPT_CONCURRENCY) | OPTION(OPT_WEIGHT))

static const struct option options[] = {
	{ "mode", required_argument, NULL, OPT_MODE },
	{ "lanes", required_argument, NULL, OPT_LANES },
	{ "ahead", required_argument, NULL, OPT_AHEAD },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "lane-max", required_argument, NULL, OPT_LANE_MAX },
	{ "rate", required_argument, NULL, OPT_RATE },
	{ "burst", required_argument, NULL, OPT_BURST },
	{ "concurrency", required_argument, NULL, OPT_CONCURRENCY },
	{ "weight", required_argument, NULL, OPT_WEIGHT },
	{ "limit", required_argument, NULL, OPT_LIMIT },
	{ "state", required_argument, NULL, OPT_STATE },
	{ "before", required_argument, NULL, OPT_BEFORE },
	{ "prefix", required_argument, NULL, OPT_PREFIX },
	{ "purge", no_argument, NULL, OPT_PURGE },
	{ }
};

static long long count(const json_t *q, const char *name)
{
	return json_integer_value(json_object_get(q, name));
}

static void print_header(void)
{
	printf("%-20s %-5s %10s %8s %8s  %-16s %s\n", "QUEUE", "MODE", "SCHEDULED", "LEASED",
	       "DEAD", "OLDEST", "PAUSED");
}

static void print_queue(const json_t *q)
{
	json_t *oldest = json_object_get(q, "oldest_due");
	char when[DURATION_LEN + 8] = "-";

	if (json_is_integer(oldest))
		when_text(when, json_integer_value(oldest));
	printf("%-20s %-5s %10lld %8lld %8lld  %-16s %s\n",
	       json_string_value(json_object_get(q, "queue")),
	       json_string_value(json_object_get(q, "mode")), count(q, "scheduled"),
	       count(q, "leased"), count(q, "dead"), when,
	       json_is_true(json_object_get(q, "paused")) ? "yes" : "no");
}

static void print_forecast(const json_t *q)
{
	const json_t *f = json_object_get(q, "forecast");

	printf("%-20s %10lld %10lld %10lld\n", json_string_value(json_object_get(q, "queue")),
	       count(f, "60s"), count(f, "60m"), count(f, "24h"));
}

/* Explains what is missing in the counts of a queue. */
static void hint_lanes(const json_t *q)
{
	if (count(q, "missing_lanes"))
		hint("queue %s: %lld of its %lld lanes do not answer, and are not counted",
		     json_string_value(json_object_get(q, "queue")), count(q, "missing_lanes"),
		     count(q, "lanes"));
}

/* Prints one queue or all of them. */
static void print_queues(const struct conf *conf, json_t *answer, bool forecast)
{
	json_t *queues = json_object_get(answer, "queues"), *q;
	size_t i;

	if (!queues) {
		queues = json_array();
		json_array_append(queues, answer);
	} else {
		json_incref(queues);
	}
	if (!conf->json && forecast)
		printf("%-20s %10s %10s %10s\n", "QUEUE", "60s", "60m", "24h");
	else if (!conf->json)
		print_header();
	json_array_foreach(queues, i, q) {
		if (conf->json)
			print_json(json_incref(q));
		else if (forecast)
			print_forecast(q);
		else
			print_queue(q);
		if (!conf->json)
			hint_lanes(q);
	}
	hint_newer(answer, "queues");
	json_decref(queues);
	json_decref(answer);
}

/* Removes a setting. Returns false if @optarg is a value. */
static bool set_none(const struct verb *verb, json_t *object, const char *name)
{
	if (strcmp(optarg, "none"))
		return false;
	set_field(verb, object, name, json_null());
	return true;
}

static void set_count(const struct verb *verb, json_t *object, const char *name,
		      const char *option, __u64 max)
{
	set_field(verb, object, name,
		  json_integer((json_int_t)number_option(verb, option, optarg, max)));
}

/* Reads "100" or "100/1min". */
static json_t *rate_value(const struct verb *verb, const char *text)
{
	size_t len = strcspn(text, "/");
	json_t *rate = json_object();
	char limit[24];

	snprintf(limit, sizeof(limit), "%.*s", (int)len, text);
	if (len >= sizeof(limit))
		usage_error(verb, "--rate takes N/DURATION or none, not \"%s\"", text);
	json_object_set_new(rate, "limit", json_integer((json_int_t)
		number_option(verb, "--rate", limit, LIMIT_MAX)));
	if (!text[len])
		return rate;
	duration_option(verb, "--rate", text + len + 1);
	set_field(verb, rate, "per", json_string(text + len + 1));
	return rate;
}

static json_t *read_options(const struct verb *verb, int argc, char **argv,
			    struct conf *conf, __u64 *limit, unsigned int *given)
{
	json_t *settings = json_object(), *burst = json_object();
	int opt;

	while ((opt = next_option(verb, argc, argv, conf)) != -1) {
		*given |= OPTION(opt);
		switch (opt) {
		case OPT_MODE:
			set_field(verb, settings, "mode", json_string(optarg));
			break;
		case OPT_LANES:
			set_count(verb, settings, "lanes", "--lanes", 256);
			break;
		case OPT_AHEAD:
			if (!set_none(verb, settings, "ahead"))
				set_duration(verb, settings, "ahead", optarg);
			break;
		case OPT_TIMEOUT:
			set_duration(verb, settings, "timeout", optarg);
			break;
		case OPT_LANE_MAX:
			if (!set_none(verb, settings, "lane_max"))
				set_count(verb, settings, "lane_max", "--lane-max", 1000000000);
			break;
		case OPT_RATE:
			if (!set_none(verb, settings, "rate"))
				set_field(verb, settings, "rate", rate_value(verb, optarg));
			break;
		case OPT_BURST:
			set_count(verb, burst, "burst", "--burst", LIMIT_MAX);
			break;
		case OPT_CONCURRENCY:
			if (!set_none(verb, settings, "concurrency"))
				set_count(verb, settings, "concurrency", "--concurrency",
					  LIMIT_MAX);
			break;
		case OPT_WEIGHT:
			set_count(verb, settings, "weight", "--weight", 100);
			break;
		case OPT_LIMIT:
			*limit = number_option(verb, "--limit", optarg, 1000);
			break;
		case OPT_STATE:
			set_field(verb, settings, "state", json_string(optarg));
			break;
		case OPT_BEFORE:
			set_field(verb, settings, "before", time_value(optarg));
			break;
		case OPT_PREFIX:
			set_field(verb, settings, "prefix", json_string(optarg));
			break;
		}
	}
	/* --burst belongs to --rate, in either order. */
	if (json_object_size(burst) && json_object_update(json_object_get(settings, "rate"), burst))
		usage_error(verb, "--burst needs --rate=N");
	json_decref(burst);
	return settings;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct conf conf = { .json = false };
	const char *name, *queue, *method = "GET";
	unsigned int given = 0, options = 0;
	bool forecast, shows, posts, removes;
	char path[PATH_LEN];
	json_t *settings, *answer;
	__u64 limit = 1000;

	settings = read_options(verb, argc, argv, &conf, &limit, &given);
	name = optind < argc ? argv[optind++] : "";
	queue = optind < argc ? argv[optind++] : NULL;
	if (optind < argc)
		usage_error(verb, "unknown argument %s", argv[optind]);
	forecast = !strcmp(name, "forecast");
	shows = forecast || !strcmp(name, "list") || !strcmp(name, "show") ||
		!strcmp(name, "make");
	posts = !strcmp(name, "pause") || !strcmp(name, "resume") || !strcmp(name, "replay") ||
		!strcmp(name, "purge");
	removes = !strcmp(name, "remove");
	if (!shows && !posts && !removes)
		usage_error(verb, *name ? "there is no command \"%s\"" :
			    "a command is missing%s", name);
	if (!strcmp(name, "make"))
		options = MAKE_GIVEN;
	else if (!strcmp(name, "replay"))
		options = OPTION(OPT_LIMIT);
	else if (!strcmp(name, "purge"))
		options = OPTION(OPT_STATE) | OPTION(OPT_BEFORE) | OPTION(OPT_PREFIX);
	else if (removes)
		options = OPTION(OPT_PURGE);
	check_options(verb, name, given, options);
	if (!queue && !forecast && strcmp(name, "list"))
		usage_error(verb, "the queue is missing");
	if (queue)
		check_name(verb, "queue", queue);

	if (!strcmp(name, "make"))
		method = "PUT";
	else if (posts)
		method = "POST";
	else if (removes)
		method = "DELETE";
	snprintf(path, sizeof(path), "/v1/queues%s%s%s%s", queue ? "/" : "", queue ? queue : "",
		 posts ? "/" : "", posts ? name : "");
	if (!strcmp(name, "replay"))
		snprintf(path + strlen(path), sizeof(path) - strlen(path), "?limit=%llu", limit);
	else if (given & OPTION(OPT_PURGE))
		strcat(path, "?purge=true");
	answer = http_call(&conf, method, path, *method == 'P' ? settings : NULL);
	if (shows) {
		print_queues(&conf, answer, forecast);
	} else if (conf.json) {
		print_json(answer);
	} else {
		print_fields(answer);
		json_decref(answer);
	}
	return STATUS_OK;
}

const struct verb verb_queue = {
	.name = "queue",
	.args = "list|forecast | show|make|pause|resume|forecast|replay|purge|remove QUEUE",
	.summary = "Create, show, pause, replay, purge or remove queues of twheeld.",
	.help =
		"Options of make:\n"
		"      --mode=MODE       push (default) or pull\n"
		"      --lanes=N         1 to 256 lanes (default: 4), which cannot be changed\n"
		"      --ahead=DURATION  a daemon takes a task this long before it is due\n"
		"      --timeout=DURATION\n"
		"                        timeout of tasks that do not set one\n"
		"      --lane-max=N      maximum number of tasks in each lane\n"
		"      --rate=N[/DURATION]\n"
		"                        maximum number of tasks taken in 1s or DURATION, by all\n"
		"                        daemons together (default: none)\n"
		"      --burst=N         maximum number taken at once (default: N of --rate)\n"
		"      --concurrency=N   maximum number that are leased at once (default: none)\n"
		"      --weight=N        share relative to other queues, 1 (default) to 100\n"
		"With --rate and --concurrency, \"none\" removes the limit. With --ahead and\n"
		"--lane-max, it restores the setting of the daemon.\n"
		"Options of replay:\n"
		"      --limit=N         number of tasks, 1 to 1000 (default: 1000)\n"
		"Options of purge, which removes tasks:\n"
		"      --state=STATE     scheduled, done or dead; required\n"
		"      --before=TIME     only those that were due, ended or died before this time\n"
		"      --prefix=TEXT     only those whose ids begin with this text\n"
		"Options of remove:\n"
		"      --purge           remove the queue together with its tasks\n",
	.longopts = options,
	.remote = true,
	.run = run,
};
