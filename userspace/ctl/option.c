// SPDX-License-Identifier: GPL-2.0
/* Parses the command line of a verb: its own options, those that verbs share, and --help. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../shared/duration.h"
#include "clock.h"
#include "error.h"
#include "option.h"

/* These values are above all characters, which are the short options of verbs. */
enum {
	OPT_DEVICE = 256,
	OPT_CLOCK,
	OPT_TICK,
	OPT_LEVELS,
	OPT_SLOT_BITS,
	OPT_MAX_TIMERS,
	OPT_SERVER,
	OPT_TOKEN_FILE,
	OPT_CACERT,
};

static const struct option common_options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ "json", no_argument, NULL, 'j' },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "clock", required_argument, NULL, OPT_CLOCK },
	{ "tick", required_argument, NULL, OPT_TICK },
	{ "levels", required_argument, NULL, OPT_LEVELS },
	{ "slot-bits", required_argument, NULL, OPT_SLOT_BITS },
	{ "max-timers", required_argument, NULL, OPT_MAX_TIMERS },
	{ }
};

static const struct option remote_options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ "json", no_argument, NULL, 'j' },
	{ "server", required_argument, NULL, OPT_SERVER },
	{ "token-file", required_argument, NULL, OPT_TOKEN_FILE },
	{ "cacert", required_argument, NULL, OPT_CACERT },
	{ }
};

static const struct option observer_options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ "json", no_argument, NULL, 'j' },
	{ }
};

const char lifetime_note[] =
	"A timer lives only as long as its wheel is open: when twheelctl ends, its\n"
	"wheel and all timers on it are gone. To run a command later, use \"after\", which\n"
	"waits until its timer expires.\n";

static const char common_help[] =
	"\n"
	"Options of every verb, which may also come before it:\n"
	"  -j, --json            print one JSON object per line, with times in ns\n"
	"  -h, --help            print this text\n"
	"      --device=PATH     use this device (default: " DEVICE ")\n"
	"      --clock=CLOCK     monotonic (default), boottime, realtime or tai\n"
	"      --tick=DURATION   resolution, rounded down to a power of two, in ns\n"
	"      --levels=N        number of levels; a single one makes a hashed wheel\n"
	"      --slot-bits=N     each level has 2^N buckets\n"
	"      --max-timers=N    maximum number of timers that the wheel may hold\n"
	"\n"
	"Write DURATION as in systemd.time(7): 250ms, 5s, 1h30m, 1.5s or '1min 30s'.\n"
	"It needs a unit: ns, us, ms, s, min, h, d or w.\n"
	"\n"
	"TWHEEL_BACKEND=inprocess in the environment asks for a wheel in this process,\n"
	"which needs no module.\n"
	"\n";

static const char remote_help[] =
	"\n"
	"Options of every verb of twheeld:\n"
	"      --server=SERVER   HOST:PORT, https://HOST:PORT or unix:PATH (default:\n"
	"                        $TWHEELD or 127.0.0.1:7733); a static twheelctl accepts\n"
	"                        neither TLS nor names of hosts other than localhost\n"
	"      --cacert=FILE     trusted CAs in PEM format (default: those of the system)\n"
	"      --token-file=FILE file whose first line is the bearer token\n"
	"  -j, --json            print one JSON object per line\n"
	"  -h, --help            print this text\n"
	"\n"
	"Write DURATION as in systemd.time(7): 250ms, 5s, 1h30m, 1.5s or '1min 30s'.\n"
	"It needs a unit: ms, s, min, h, d or w.\n";

static const char observer_help[] =
	"  -j, --json            print one JSON object per line, with times in ns\n"
	"  -h, --help            print this text\n";

/* Explains what is wrong with the command line, and exits. */
void usage_error(const struct verb *verb, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "twheelctl: %s: ", verb->name);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	hint("twheelctl %s --help", verb->name);
	leave(STATUS_USAGE);
}

/* Reads a number from @min to @max as the argument of an option, or exits. */
static __u64 range_option(const struct verb *verb, const char *option,
			  const char *text, __u64 min, __u64 max)
{
	__u64 value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || value < min || value > max)
		usage_error(verb, "%s takes a number from %llu to %llu, not \"%s\"",
			    option, min, max, text);
	return value;
}

/* Reads a number of at least 1 in the same way. */
__u64 number_option(const struct verb *verb, const char *option,
		    const char *text, __u64 max)
{
	return range_option(verb, option, text, 1, max);
}

/* Reads a duration as the argument of an option, or exits. */
__u64 duration_option(const struct verb *verb, const char *option,
		      const char *text)
{
	const char *why;
	__u64 ns;

	why = parse_duration(text, strlen(text), &ns);
	if (why)
		usage_error(verb, "%s: \"%s\": %s", option, text, why);
	return ns;
}

static void clock_option(const struct verb *verb, const char *text,
			 struct twheel_options *shape)
{
	static const unsigned int clocks[] = {
		CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI,
	};
	size_t i;

	shape->clock_id = 0;
	shape->flags = 0;
	if (!strcmp(text, clock_name(CLOCK_REALTIME))) {
		shape->flags = TWHEEL_OPEN_REALTIME;
		return;
	}
	for (i = 0; i < ARRAY_SIZE(clocks); i++) {
		if (!strcmp(text, clock_name(clocks[i]))) {
			shape->clock_id = clocks[i];
			return;
		}
	}
	usage_error(verb, "--clock must be monotonic, boottime, realtime or tai, not \"%s\"",
		    text);
}

void print_help(const struct verb *verb)
{
	printf("Usage: twheelctl %s [OPTION]...%s%s\n%s\n\n%s%s%s", verb->name,
	       *verb->args ? " " : "", verb->args, verb->summary, verb->help,
	       verb->remote ? remote_help : verb->observes ? observer_help : common_help,
	       verb->remote || verb->observes ? "" : lifetime_note);
}

static bool is_negative_number(const char *word)
{
	return word && *word == '-' && (isdigit((unsigned char)word[1]) || word[1] == '.');
}

/* Explains a negative number, which getopt has mistaken for options, if @verb takes a number. */
static void refuse_negative(const struct verb *verb, char **argv)
{
	char **word = argv + optind - 1;

	if (!is_negative_number(*word) && !is_negative_number(*++word))
		return;
	if (verb->negative)
		usage_error(verb, "%s: %s", *word, verb->negative);
}

/* Explains why getopt stopped at argv[optind - 1] or within the next word, and exits. */
static _Noreturn void option_error(const struct verb *verb, char **argv,
				   const char *shortopts, const struct option *longopts)
{
	const char *word = argv[optind - 1];
	const struct option *o;

	refuse_negative(verb, argv);
	/* optopt is 0 if a long option is unknown. */
	if (!optopt)
		usage_error(verb, "unknown option %s", word);
	for (o = longopts; o->name; o++)
		if (o->val == optopt && !o->has_arg)
			usage_error(verb, "--%s takes no argument", o->name);
	if (!strchr(shortopts, optopt))
		usage_error(verb, "unknown option -%c", optopt);
	usage_error(verb, "unknown option %s", word);
}

/* Lists the options before a verb: help, version, and those that verbs share. */
void front_options(struct option options[MAX_OPTIONS])
{
	const struct option *o;
	size_t n = 0;

	options[n++] = (struct option){ "version", no_argument, NULL, 'V' };
	for (o = common_options; o->name; o++)
		options[n++] = *o;
	for (o = remote_options; o->name; o++)
		if (o->val >= OPT_SERVER)
			options[n++] = *o;
	options[n] = (struct option){ };
}

/* Lists all options of a verb, beginning with the shared ones. */
static void verb_options(const struct verb *verb, struct option options[MAX_OPTIONS])
{
	const struct option *o;
	size_t n = 0;

	if (verb->observes)
		o = observer_options;
	else
		o = verb->remote ? remote_options : common_options;
	for (; o->name; o++)
		options[n++] = *o;
	for (o = verb->longopts; o && o->name; o++)
		options[n++] = *o;
	options[n] = (struct option){ };
}

/* Writes the letters of @longopts in the form that getopt expects. */
static void letters(char *shortopts, const struct option *longopts, bool command_follows)
{
	const struct option *o;

	if (command_follows)
		*shortopts++ = '+';
	*shortopts++ = ':';
	for (o = longopts; o->name; o++) {
		if (o->val > UCHAR_MAX)
			continue;
		*shortopts++ = (char)o->val;
		if (o->has_arg)
			*shortopts++ = ':';
	}
	*shortopts = '\0';
}

/**
 * next_option() - read the command line of a verb, one option at a time
 * @verb: the verb
 * @argc: of the verb
 * @argv: of the verb, whose name is argv[0]
 * @conf: out: the shared options; zero at first
 *
 * Return: an option of @verb itself, or -1 at the end.
 */
int next_option(const struct verb *verb, int argc, char **argv,
		struct conf *conf)
{
	static struct option longopts[MAX_OPTIONS];
	static char shortopts[2 * MAX_OPTIONS + 2];

	if (!conf->device) {
		conf->device = DEVICE;
		verb_options(verb, longopts);
		letters(shortopts, longopts, verb->command_follows);
	}
	for (;;) {
		int opt = getopt_long(argc, argv, shortopts, longopts, NULL);

		switch (opt) {
		case 'h':
			print_help(verb);
			end_output();
			exit(STATUS_OK);
		case 'j':
			conf->json = true;
			break;
		case OPT_DEVICE:
			conf->device = optarg;
			conf->names_device = true;
			break;
		case OPT_SERVER:
			conf->server = optarg;
			break;
		case OPT_TOKEN_FILE:
			conf->token_file = optarg;
			break;
		case OPT_CACERT:
			conf->cacert = optarg;
			break;
		case OPT_CLOCK:
			clock_option(verb, optarg, &conf->shape);
			break;
		case OPT_TICK:
			conf->shape.tick_ns = duration_option(verb, "--tick", optarg);
			if (!conf->shape.tick_ns)
				usage_error(verb, "--tick must be above 0");
			break;
		case OPT_LEVELS:
			conf->shape.levels = number_option(verb, "--levels", optarg, 16);
			break;
		case OPT_SLOT_BITS:
			conf->shape.slot_bits = range_option(verb, "--slot-bits", optarg, 4, 12);
			break;
		case OPT_MAX_TIMERS:
			conf->shape.max_timers = number_option(verb, "--max-timers", optarg,
							       ~0U);
			break;
		case ':':
			usage_error(verb, "%s needs an argument", argv[optind - 1]);
		case '?':
			option_error(verb, argv, shortopts, longopts);
		default:
			return opt;
		}
	}
}
