// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Metrics of wheels, in the text format of Prometheus (0.0.4), in which each name appears once,
 * followed by the lines of all wheels. Only integers are printed, so that the output does not
 * depend on the locale.
 */
#include "internal.h"
#include "metrics.h"

/* The first bucket of the histogram ends at 2^FIRST ns, and the last at 2^LAST ns or 17 s. */
#define FIRST	10
#define LAST	34

enum kind { STATES, MAXIMUM, NEXT, COUNTER, WORST, HISTOGRAM };

#define STATISTIC(member)	offsetof(struct twheel_stats, member)

/* @needs: the SAMPLE_ flag of a statistic that not every sample contains. @member: its offset. */
static const struct family {
	const char *name;
	const char *type;
	const char *help;
	enum kind kind;
	unsigned int needs;
	size_t member;
} families[] = {
	{ "twheel_timers", "gauge",
	  "Timers of the wheel. Idle ones are kept for the next arming.", STATES, 0, 0 },
	{ "twheel_timers_max", "gauge", "How many timers the wheel may hold.", MAXIMUM, 0, 0 },
	{ "twheel_next_seconds", "gauge",
	  "How long until the wheel turns next. +Inf: no timer is armed.", NEXT, 0, 0 },
	{ "twheel_expired_total", "counter", "Armings that expired.", COUNTER, 0,
	  STATISTIC(expired) },
	{ "twheel_moved_total", "counter",
	  "Times that the wheel looked at a timer and found that it had been moved.", COUNTER,
	  SAMPLE_MOVED, STATISTIC(moved) },
	{ "twheel_armings_total", "counter", "Times that a timer was armed.", COUNTER,
	  SAMPLE_STATS, STATISTIC(armings) },
	{ "twheel_cascaded_total", "counter", "Times that a timer moved down a level.", COUNTER,
	  SAMPLE_STATS, STATISTIC(cascaded) },
	{ "twheel_wakeups_total", "counter", "Times that the wheel was turned.", COUNTER,
	  SAMPLE_STATS, STATISTIC(wakeups) },
	{ "twheel_lateness_max_seconds", "gauge", "The longest lateness so far.", WORST,
	  SAMPLE_WORST, 0 },
	{ "twheel_lateness_seconds", "histogram",
	  "How long after their deadlines timers were taken off the wheel.", HISTOGRAM,
	  SAMPLE_LATENESS, 0 },
};

/* Begins a line with the name and the labels, where @label is an additional one or NULL. */
static void begin(FILE *file, const char *name, const char *suffix,
		  const struct twheel__sample *s, const char *label)
{
	fprintf(file, "%s%s{backend=\"%s\"%s%s%s%s} ", name, suffix, s->backend,
		*s->labels ? "," : "", s->labels, label ? "," : "", label ? label : "");
}

static void put_number(FILE *file, uint64_t value)
{
	fprintf(file, "%llu\n", (unsigned long long)value);
}

static void put_seconds(FILE *file, uint64_t ns)
{
	fprintf(file, "%llu.%09llu\n", (unsigned long long)(ns / NSEC_PER_SEC),
		(unsigned long long)(ns % NSEC_PER_SEC));
}

static void put_states(FILE *file, const char *name, const struct twheel__sample *s)
{
	const struct twheel_stats *stats = &s->stats;
	uint64_t busy = stats->armed + stats->unread;

	begin(file, name, "", s, "state=\"armed\"");
	put_number(file, stats->armed);
	begin(file, name, "", s, "state=\"unread\"");
	put_number(file, stats->unread);
	begin(file, name, "", s, "state=\"idle\"");
	/* The timer of twheel_wake() does not count as allocated, but its event as unread. */
	put_number(file, stats->allocated > busy ? stats->allocated - busy : 0);
}

static void put_histogram(FILE *file, const char *name, const struct twheel__sample *s)
{
	uint64_t sum = 0;
	unsigned int i;
	char label[40];

	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++) {
		uint64_t end = 1ULL << (i + 1) % 64;

		sum += s->stats.lateness[i];
		if (i + 1 < FIRST || i + 1 > LAST)
			continue;
		snprintf(label, sizeof(label), "le=\"%llu.%09llu\"",
			 (unsigned long long)(end / NSEC_PER_SEC),
			 (unsigned long long)(end % NSEC_PER_SEC));
		begin(file, name, "_bucket", s, label);
		put_number(file, sum);
	}
	begin(file, name, "_bucket", s, "le=\"+Inf\"");
	put_number(file, sum);
	if (s->known & SAMPLE_SUM) {
		begin(file, name, "_sum", s, NULL);
		put_seconds(file, s->stats.lateness_sum_ns);
	}
	begin(file, name, "_count", s, NULL);
	put_number(file, sum);
}

static void put_sample(FILE *file, const struct family *f, const struct twheel__sample *s)
{
	if (f->kind != STATES && f->kind != HISTOGRAM)
		begin(file, f->name, "", s, NULL);
	switch (f->kind) {
	case STATES:
		put_states(file, f->name, s);
		break;
	case HISTOGRAM:
		put_histogram(file, f->name, s);
		break;
	case MAXIMUM:
		put_number(file, s->max_timers);
		break;
	case NEXT:
		if (s->next_in_ns == UINT64_MAX)
			fputs("+Inf\n", file);
		else
			put_seconds(file, s->next_in_ns);
		break;
	case WORST:
		put_seconds(file, s->stats.worst_lateness_ns);
		break;
	case COUNTER:
		put_number(file, *(const __u64 *)((const char *)&s->stats + f->member));
	}
}

/* Writes each metric that at least one of the samples contains. */
void twheel__write_metrics(FILE *file, const struct twheel__sample *samples, unsigned int n)
{
	const struct family *f = families;
	unsigned int i;

	for (; f < families + sizeof(families) / sizeof(*families); f++) {
		bool begun = false;

		for (i = 0; i < n; i++) {
			if ((samples[i].known & f->needs) != f->needs)
				continue;
			if (!begun)
				fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help,
					f->name, f->type);
			begun = true;
			put_sample(file, f, &samples[i]);
		}
	}
}

static int take_sample(struct twheel *w, struct twheel__sample *s)
{
	/* When the wheel turns, which twheel_next() would not say if an event is unread. */
	uint64_t next = w->next_ns ? load64(w->next_ns) : twheel_next(w);
	uint64_t now = twheel_now(w);
	struct twheel_info info;
	int err;

	err = twheel_info(w, &info);
	if (!err)
		err = twheel_stats(w, &s->stats);
	if (err)
		return err;
	s->backend = twheel_backend(w);
	s->known = SAMPLE_MOVED | SAMPLE_LATENESS | SAMPLE_SUM | SAMPLE_WORST | SAMPLE_STATS;
	s->max_timers = info.max_timers;
	s->next_in_ns = next == UINT64_MAX ? next : next > now ? next - now : 0;
	return 0;
}

TWHEEL_PUBLIC int twheel_metrics(struct twheel *w, const char *labels, FILE *file)
{
	struct twheel__sample sample = { .labels = labels ? labels : "" };
	int err = take_sample(w, &sample);

	if (err)
		return err;
	twheel__write_metrics(file, &sample, 1);
	return ferror(file) ? -EIO : 0;
}
