// SPDX-License-Identifier: GPL-2.0
/*
 * twheelctl wheel: draws the levels of a wheel, and how full their buckets are.
 *
 * The device does not report the bucket of a timer. place() computes it from the deadline, the
 * slack and the time of arming, by the rules of the wheel. If the kernel is late to move a timer
 * down, the picture already shows the timer in the next bucket.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "device.h"
#include "error.h"
#include "json.h"
#include "option.h"
#include "others.h"
#include "output.h"
#include "show.h"
#include "timers.h"

#define TIMERS		256
#define COUNT_LEN	16
#define DEFAULT_RANDOM	200
/* Random delays are below 2^42 ns, which is 73 minutes, or five levels of the default wheel. */
#define RANDOM_BITS	42

enum {
	OPT_ONCE = OPT_OF_VERB,
};

static const struct option options[] = {
	{ "add", required_argument, NULL, 'a' },
	{ "random", required_argument, NULL, 'r' },
	{ "once", no_argument, NULL, OPT_ONCE },
	{ "interval", required_argument, NULL, 'i' },
	{ "pid", required_argument, NULL, 'p' },
	{ }
};

struct picture {
	struct conf conf;
	struct load load;
	struct target target;
	unsigned int random;
	bool once;
	bool color;
	__u64 interval;
	struct wheel wheel;
	struct roster roster;
	/* The shape of the wheel: a tick is 2^shift ns. */
	unsigned int shift;
	unsigned int slot_bits;
	unsigned int levels;
	/* Number of timers in each bucket, one level after the other. */
	unsigned int *bucket;
	__u64 idle;
	__u64 due;
	__u64 armed;
};

static unsigned int log2_floor(__u64 x)
{
	return 63 - __builtin_clzll(x);
}

/* The coarsest level whose buckets are not wider than 2^order ticks. */
static unsigned int order_level(const struct picture *p, unsigned int order)
{
	unsigned int level = order / p->slot_bits;

	return level < p->levels ? level : p->levels - 1;
}

/**
 * place() - find the bucket in which a timer sits
 * @p: the shape of the wheel
 * @t: the timer, armed
 * @armed_at: when it was armed
 * @now: the time
 *
 * The wheel puts a timer on the lowest level that reaches as far as its deadline. When the wheel
 * arrives at the bucket, the timer moves down, by its distance from there. Slack postpones the
 * timer to the end of a bucket, on the coarsest level whose buckets are not wider than the slack,
 * and the timer stays on that level or above.
 *
 * Return: the index of the bucket, or -1 if the timer is due.
 */
static long place(const struct picture *p, const struct twheel_timer *t,
		  __u64 armed_at, __u64 now)
{
	__u64 partial = t->deadline_ns & ((1ULL << p->shift) - 1);
	__u64 tick = (t->deadline_ns >> p->shift) + !!partial;
	__u64 slack = t->slack_ns >> p->shift;
	__u64 clk = armed_at >> p->shift;
	unsigned int floor = 0;

	if (slack > 1) {
		__u64 mask;

		floor = order_level(p, log2_floor(slack));
		mask = (1ULL << floor * p->slot_bits) - 1;
		if (tick <= ~0ULL - mask)
			tick = (tick + mask) & ~mask;
		else
			floor = 0;
	}
	while (tick > clk) {
		unsigned int level = order_level(p, log2_floor((tick - clk - 1) | 1));
		unsigned int level_shift;
		__u64 start;

		if (level < floor)
			level = floor;
		level_shift = level * p->slot_bits;
		start = tick >> level_shift << level_shift;
		if (start > now >> p->shift)
			return ((long)level << p->slot_bits) +
			       ((tick >> level_shift) & ((1ULL << p->slot_bits) - 1));
		clk = start;
		floor = order_level(p, __builtin_ctzll(tick));
	}
	return -1;
}

/*
 * Returns when a timer was armed. That is unknown for timers of other processes, so these are
 * drawn as if they had just been armed. A periodic timer is armed again when its event is read, at
 * or after the deadline, so its level is approximate.
 */
static __u64 armed_at(const struct picture *p, const struct twheel_timer *t, __u64 now)
{
	const struct entry *e;

	if (p->target.pid)
		return now;
	e = &p->roster.entry[t->user_data - 1];
	if (t->period_ns && t->deadline_ns != e->first_deadline)
		return t->deadline_ns - t->period_ns;
	return e->armed_at;
}

static void count_timers(struct picture *p, __u64 now)
{
	struct twheel_timer timers[TIMERS];
	unsigned int cursor = 0;
	int count, i;

	memset(p->bucket, 0, ((size_t)p->levels << p->slot_bits) * sizeof(*p->bucket));
	p->idle = 0;
	p->due = 0;
	p->armed = 0;
	while ((count = twheel_list(p->wheel.twheel, timers, TIMERS, &cursor)) > 0) {
		for (i = 0; i < count; i++) {
			const struct twheel_timer *t = &timers[i];
			long where;

			if (t->state == TWHEEL_IDLE) {
				p->idle++;
				continue;
			}
			where = -1;
			if (t->state == TWHEEL_ARMED)
				where = place(p, t, armed_at(p, t, now), now);
			if (where < 0) {
				p->due++;
			} else {
				p->armed++;
				p->bucket[where]++;
			}
		}
	}
	if (count < 0)
		die(error_status(-count), "cannot list the timers: %s", error_text(-count));
}

static char cell_glyph(unsigned int count)
{
	if (!count)
		return '.';
	if (count < 10)
		return '0' + count;
	return count < 100 ? '+' : '#';
}

/* Writes a number of timers in at most four characters. */
static const char *count_text(char buf[COUNT_LEN], unsigned int count)
{
	if (count < 10000)
		snprintf(buf, COUNT_LEN, "%u", count);
	else if (count < 1000000)
		snprintf(buf, COUNT_LEN, "%uk", count / 1000);
	else
		snprintf(buf, COUNT_LEN, "%uM", count / 1000000);
	return buf;
}

/* Draws one level. If it has too many buckets, each cell shows several of them. */
static void draw_level(const struct picture *p, unsigned int level, __u64 now)
{
	unsigned int buckets = 1U << p->slot_bits;
	const unsigned int *bucket = p->bucket + (size_t)level * buckets;
	unsigned int shift = p->shift + level * p->slot_bits;
	unsigned int fold = p->slot_bits > 6 ? p->slot_bits - 6 : 0;
	unsigned int cursor = (now >> shift) & (buckets - 1);
	unsigned int cell, i, timers = 0;
	char width[DURATION_LEN];
	char total[COUNT_LEN];

	printf("%2u %7s ", level, short_duration(width, 1ULL << shift));
	for (cell = 0; cell < buckets >> fold; cell++) {
		bool here = cell == cursor >> fold;
		unsigned int count = 0;

		for (i = 0; i < 1U << fold; i++)
			count += bucket[(cell << fold) + i];
		timers += count;
		if (here && p->color)
			printf("\033[7m%c\033[0m", cell_glyph(count));
		else
			putchar(cell_glyph(count));
	}
	printf(" %s\n", count_text(total, timers));
	if (!p->color)
		printf("%11s%*s^\n", "", (int)(cursor >> fold), "");
}

static void draw(const struct picture *p, __u64 now)
{
	char seconds[SECONDS_LEN];
	unsigned int level;

	if (!p->once && p->color)
		printf("\033[H\033[J");
	printf("at %s  armed %llu, due %llu, idle %llu\n", seconds_text(seconds, now),
	       p->armed, p->due, p->idle);
	printf("level bucket  . empty, 1-9 timers, + from 10, # from 100%s\n",
	       p->color ? "" : ", ^ now");
	for (level = 0; level < p->levels; level++)
		draw_level(p, level, now);
}

static void print_json(const struct picture *p, __u64 now)
{
	unsigned int buckets = 1U << p->slot_bits;
	unsigned int level, i;

	json_open("wheel");
	json_u64("now_ns", now);
	json_u64("tick_ns", p->wheel.info.tick_ns);
	json_u64("armed", p->armed);
	json_u64("due", p->due);
	json_u64("idle", p->idle);
	json_begin("levels", '[');
	for (level = 0; level < p->levels; level++) {
		const unsigned int *bucket = p->bucket + (size_t)level * buckets;
		unsigned int shift = p->shift + level * p->slot_bits;

		json_begin(NULL, '{');
		json_u64("level", level);
		json_u64("bucket_ns", 1ULL << shift);
		json_u64("buckets", buckets);
		json_u64("cursor", (now >> shift) & (buckets - 1));
		json_begin("occupied", '[');
		for (i = 0; i < buckets; i++) {
			if (!bucket[i])
				continue;
			json_begin(NULL, '{');
			json_u64("bucket", i);
			json_u64("timers", bucket[i]);
			json_end('}');
		}
		json_end(']');
		json_end('}');
	}
	json_end(']');
	json_close();
}

static void show(struct picture *p)
{
	__u64 now = twheel_now(p->wheel.twheel);

	count_timers(p, now);
	if (p->conf.json)
		print_json(p, now);
	else
		draw(p, now);
}

/* Chooses delays whose logarithms are spread evenly, so that every level gets some timers. */
static void add_random(struct picture *p)
{
	unsigned int i;

	srandom((unsigned int)monotonic_now());
	for (i = 0; i < p->random; i++) {
		unsigned int bits = p->shift + 1;
		struct spec spec = { };
		struct twheel_timer t;
		int ret;

		if (bits < RANDOM_BITS)
			bits += random() % (RANDOM_BITS - bits);
		else if (bits > 62)
			bits = 62;
		spec.deadline = (1ULL << bits) +
				((((__u64)random() << 31) ^ random()) & ((1ULL << bits) - 1));
		ret = roster_add(&p->roster, &p->wheel, &spec, &t);
		if (ret)
			die(error_status(-ret), "cannot arm timer %u: %s", i + 1,
			    add_error_text(&p->wheel, ret));
	}
}

/* Reads the events of one interval. */
static void consume(struct picture *p)
{
	__u64 end = monotonic_now() + p->interval;
	struct twheel_event events[TIMERS];
	__u64 now;
	int ret;

	while ((now = monotonic_now()) < end) {
		if (!wait_input(&p->wheel, -1, end - now, NULL, NULL))
			continue;
		ret = twheel_read(p->wheel.twheel, events, TIMERS);
		if (ret < 0)
			die(STATUS_FAILURE, "cannot read the wheel: %s", error_text(-ret));
	}
}

/* Waits for an interval. Returns true if there is more to draw. */
static bool wait_to_draw(struct picture *p)
{
	if (p->target.pid)
		return !wait_owner(&p->wheel, p->interval, NULL);
	if (wheel_nothing_left(&p->wheel))
		return false;
	consume(p);
	return true;
}

static void read_options(const struct verb *verb, int argc, char **argv,
			 struct picture *p)
{
	int opt;

	while ((opt = next_option(verb, argc, argv, &p->conf)) != -1) {
		switch (opt) {
		case 'a':
			load_add(&p->load, verb, optarg);
			break;
		case 'r':
			p->random = number_option(verb, "--random", optarg, 1U << 24);
			break;
		case OPT_ONCE:
			p->once = true;
			break;
		case 'p':
			parse_target(verb, optarg, &p->target);
			break;
		case 'i':
			p->interval = duration_option(verb, "--interval", optarg);
			if (!p->interval || p->interval > NSEC_PER_DAY)
				usage_error(verb, "--interval must be above 0 and no longer than a day");
			break;
		}
	}
	if (optind < argc)
		usage_error(verb, "unknown argument %s", argv[optind]);
	if (p->target.pid && (p->load.count || p->random))
		usage_error(verb, "--add and --random cannot be used with --pid");
	if (!p->load.count && !p->random)
		p->random = DEFAULT_RANDOM;
}

static int run_wheel(const struct verb *verb, int argc, char **argv)
{
	struct picture p = { .interval = 200 * NSEC_PER_MSEC };

	read_options(verb, argc, argv, &p);
	if (p.target.pid)
		open_other(&p.wheel, verb, &p.conf, &p.target);
	else
		wheel_open(&p.wheel, &p.conf);
	p.shift = log2_floor(p.wheel.info.tick_ns);
	p.slot_bits = p.wheel.info.slot_bits;
	p.levels = p.wheel.info.levels;
	p.bucket = calloc((size_t)p.levels << p.slot_bits, sizeof(*p.bucket));
	if (!p.bucket)
		die(STATUS_LIMIT, "no memory for the picture");
	p.color = may_use_escapes();
	if (!p.target.pid) {
		load_arm(&p.load, &p.wheel, &p.roster);
		add_random(&p);
	}

	show(&p);
	while (!p.once && wait_to_draw(&p))
		show(&p);
	wheel_close(&p.wheel);
	return STATUS_OK;
}

const struct verb verb_wheel = {
	.name = "wheel",
	.args = "[--add TIMER]... [--random=N]",
	.summary = "Draw the levels of a wheel and which buckets are occupied.",
	.help = "Each row is a level, and each cell is a bucket, or several if the level has\n"
		"more than 64. The current bucket is shown in reverse, or marked with ^ if the\n"
		"terminal has no color or NO_COLOR is set. Each row ends with the number of its\n"
		"timers, in k or M if it is large. The picture is drawn again and again until\n"
		"nothing is armed or unread.\n"
		"\n"
		"  -a, --add=TIMER       arm a timer: see monitor --help\n"
		"  -r, --random=N        arm N timers with random delays (default without --add:\n"
		"                        200)\n"
		"      --once            draw a single picture\n"
		"  -i, --interval=DURATION\n"
		"                        time between two pictures (default: 200ms)\n"
		"  -p, --pid=PID[:FD]    show the wheel of this process instead, until it ends\n",
	.longopts = options,
	.run = run_wheel,
};
