/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the hostile tests share beyond those of the device: options, the marks of
 * the table, and a conservation check for threads and children, where no assertion
 * can be made.
 */
#ifndef STRESS_H
#define STRESS_H

#include "table.h"

#include <sched.h>

/* For TEST_F_TIMEOUT: as long as the count that was asked for takes. */
#define UNLIMITED	1000000

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

/* What must hold at any moment. @s: the numbers by which it does or does not. */
static inline bool conserved(int fd, struct twheel_stats *s)
{
	if (call(fd, TWHEEL_IOC_STATS, s))
		return false;
	return s->armings == s->expired + s->displaced + s->armed &&
	       s->expired == s->delivered + s->withdrawn + s->unread;
}

static inline void tell_stats(const char *of, const struct twheel_stats *s)
{
	printf("# %s: armings %llu = expired %llu + displaced %llu + armed %llu;"
	       " expired = delivered %llu + withdrawn %llu + unread %llu; timers %llu\n",
	       of, s->armings, s->expired, s->displaced, s->armed, s->delivered, s->withdrawn,
	       s->unread, s->allocated);
	fflush(stdout);
}

/* Whether this thread could be put on @cpu alone. */
static inline bool pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

/* How many events one read gives, or a negative errno. */
static inline int read_now(int fd, struct twheel_event *ev, unsigned int max)
{
	ssize_t ret = read_events(fd, ev, max * sizeof(*ev));

	return ret < 0 ? -errno : (int)(ret / (ssize_t)sizeof(*ev));
}

/*
 * Whether one of the @n events that were read just now says that it expired later, by
 * CLOCK_MONOTONIC, which is the wheel's. That none did before its deadline, read_events()
 * has seen.
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

/* @n operations alike, numbered by their user_data. */
static inline void fill_ops(struct twheel_op *ops, unsigned int n, __u32 opcode,
			    __u64 deadline, __u32 flags)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		ops[i] = (struct twheel_op) {
			.opcode = opcode,
			.timer.user_data = i,
			.timer.deadline_ns = deadline,
			.timer.flags = flags,
			.result = 1,
		};
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

/* The marks of @t. */
static inline __u64 *all_marks(const struct table *t)
{
	return (__u64 *)((char *)t->head + t->head->marks_offset);
}

/* Its summary. */
static inline __u64 *all_summary(const struct table *t)
{
	return (__u64 *)((char *)t->head + t->head->summary_offset);
}

static inline void set_bit_of(__u64 *bits, __u32 nr)
{
	__u64 bit = 1ULL << nr % 64;

	if (!(__atomic_load_n(&bits[nr / 64], __ATOMIC_RELAXED) & bit))
		__atomic_fetch_or(&bits[nr / 64], bit, __ATOMIC_SEQ_CST);
}

/* Asks the kernel to look at the slot of @id when it turns the wheel next. */
static inline void set_mark(const struct table *t, __u64 id)
{
	set_bit_of(all_marks(t), (__u32)id);
	set_bit_of(all_summary(t), (__u32)id / LINE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* A KICK without slots. */
static inline int turn_now(int fd)
{
	return kick_slots(fd, NULL, 0);
}

/* The protocol to arm or move by a mark. Returns whether it took a KICK, or its error. */
static inline int arm_by_mark(struct table *t, __u64 id, __u64 deadline)
{
	struct twheel_slot *slot = slot_of(t, id);
	int ret;

	swap_word(slot, deadline);
	if (deadline > wake(slot))
		return 0;
	set_mark(t, id);
	if (deadline > next_turn(t))
		return 0;
	ret = turn_now(t->fd);
	__atomic_fetch_add(&t->kicks, 1, __ATOMIC_RELAXED);
	return ret < 0 ? ret : 1;
}

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

/* Memory that the children share, or NULL. */
static inline void *shared_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

#endif /* STRESS_H */
