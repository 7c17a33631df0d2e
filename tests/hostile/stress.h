/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the hostile tests share beyond the tests of the device: options, and marks that no
 * program should set.
 */
#ifndef STRESS_H
#define STRESS_H

#include "twheel_test.h"

/* For TEST_F_TIMEOUT: the time depends only on the requested count. */
#define UNLIMITED	1000000

/* The part of make check-full's requirements that this run must reach, in 1/10,000. */
static unsigned long long part __attribute__((unused));

#define PART(all)	(((all) * part + 9999) / 10000)

struct stress_option {
	const char *name;
	unsigned long long *value;
};

/*
 * Removes "--name NUMBER" from the arguments for each of the options; the harness gets the
 * rest. Exits with 2 if an option is unknown or has no number.
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
 * Returns true if one of the @n events that were just read claims to have expired in the
 * future, by the wheel's clock, CLOCK_MONOTONIC. read_events() has already checked that none
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

/* Defines the main function of a program with these options. */
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

/* One bit of the summary covers this many slots. */
#define LINE		(1U << 10)

/* Returns where the marks start in the table of this many timers, whatever the header says. */
static inline size_t marks_offset(__u32 max_timers)
{
	size_t words = (size_t)max_timers * sizeof(struct twheel_slot);

	return PAGE + ((words + PAGE - 1) & ~(PAGE - 1));
}

#define SUMMARY_OFFSET	2048U

/*
 * Sets marks that no program should set, in the first line or in @lines of them: all bits,
 * random bits, a summary without marks, or marks without a summary.
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
