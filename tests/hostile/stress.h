/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the hostile tests share beyond those of the device: options, and marks as no
 * program should set them.
 */
#ifndef STRESS_H
#define STRESS_H

#include "twheel_test.h"

/* For TEST_F_TIMEOUT: as long as the count that was asked for takes. */
#define UNLIMITED	1000000

/* In 10,000: how much of what make check-full needs this run has to reach. */
static unsigned long long part __attribute__((unused));

#define PART(all)	(((all) * part + 9999) / 10000)

struct stress_option {
	const char *name;
	unsigned long long *value;
};

/*
 * Takes "--name NUMBER" out of the arguments, for each of the options; the rest
 * is for the harness. Not one that is none, or has no number: exit 2.
 */
static inline void take_options(int *argc, char **argv, const struct stress_option *options,
				unsigned int nr)
{
	int from, to = 1;
	unsigned int i;
	char *end;

	for (from = 1; from < *argc; from++) {
		if (strncmp(argv[from], "--", 2)) {
			argv[to++] = argv[from];
			continue;
		}
		for (i = 0; i < nr; i++)
			if (!strcmp(argv[from] + 2, options[i].name))
				break;
		if (i == nr || from + 1 == *argc) {
			fprintf(stderr, "%s: unknown, or without its number\n", argv[from]);
			exit(2);
		}
		*options[i].value = strtoull(argv[++from], &end, 0);
		if (*end || end == argv[from]) {
			fprintf(stderr, "%s: no number\n", argv[from]);
			exit(2);
		}
	}
	argv[to] = NULL;
	*argc = to;
}

/*
 * True if one of the @n events that were just read claims to have expired in the future, by
 * CLOCK_MONOTONIC, which is the wheel's clock. read_events() has already checked that none
 * expired before its deadline.
 */
static inline bool ahead_of_clock(const struct twheel_event *ev, int n)
{
	__u64 t = now(CLOCK_MONOTONIC);
	int i;

	for (i = 0; i < n; i++)
		if (ev[i].expired_ns > t)
			return true;
	return false;
}

/* The program, with options. */
#define STRESS_MAIN(...)							\
	int main(int argc, char **argv)						\
	{									\
		static const struct stress_option options[] = {			\
			{ "part", &part }, __VA_ARGS__				\
		};								\
										\
		take_options(&argc, argv, options, ARRAY_SIZE(options));	\
		return test_harness_run(argc, argv);				\
	}

/* A bit of the summary stands for so many slots. */
#define LINE		(1U << 10)

/* Where the marks begin in the table of so many timers, whatever the header says. */
static inline size_t marks_offset(__u32 max_timers)
{
	size_t words = (size_t)max_timers * sizeof(struct twheel_slot);

	return PAGE + ((words + PAGE - 1) & ~(PAGE - 1));
}

#define SUMMARY_OFFSET	2048U

/*
 * Marks as no program should set them, of the first line or @lines of them: all bits,
 * any bits, a summary without marks, or marks without a summary.
 */
static inline void scatter_marks(__u64 *marks, __u64 *summary, unsigned int lines, __u64 random)
{
	unsigned int i;

	for (i = 0; i < lines * (LINE / 64) && random % 4 != 2; i++)
		__atomic_store_n(&marks[i], random % 4 ? random << i % 64 : NEVER,
				 __ATOMIC_RELAXED);
	for (i = 0; i <= lines / 64 && random % 4 != 3; i++)
		__atomic_store_n(&summary[i], random % 4 == 1 ? random : NEVER,
				 __ATOMIC_SEQ_CST);
}

#endif /* STRESS_H */
