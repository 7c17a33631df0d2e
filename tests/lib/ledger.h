/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ledger of a race records who armed which timer, and how each arming ended. Each ends
 * once: as an event that was read, in a verb that found the timer armed, or as the old value
 * that an exchange returned. The wheel itself counts the events that a later arming has
 * withdrawn.
 */
#ifndef LEDGER_H
#define LEDGER_H

#include "twheel_test.h"

#define EVENT	sizeof(struct twheel_event)

/* Counts armings, and how they ended. Threads may share a ledger, or have one each. */
struct ledger {
	unsigned long armed;
	/* Verbs, by the state that they found. */
	unsigned long found[3];
	/* Old deadlines that an exchange returned. */
	unsigned long got_back;
	/* Armings that were read as events. */
	unsigned long read;
	/* Results that cannot be. */
	unsigned long wrong;
};

static inline void count_in(unsigned long *n, unsigned long more)
{
	__atomic_fetch_add(n, more, __ATOMIC_RELAXED);
}

/* Counts a verb that returned @ret. Returns true if @ret is a state, and not an error. */
static inline bool ended_by_verb(struct ledger *l, int ret)
{
	if (ret < 0 || ret > 2) {
		count_in(&l->wrong, 1);
		return false;
	}
	count_in(&l->found[ret], 1);
	return true;
}

static inline void add_ledger(struct ledger *to, const struct ledger *l)
{
	unsigned int i;

	to->armed += l->armed;
	for (i = 0; i < 3; i++)
		to->found[i] += l->found[i];
	to->got_back += l->got_back;
	to->read += l->read;
	to->wrong += l->wrong;
}

/* Returns how many armings have ended, including the @withdrawn ones, which nobody was told of. */
static inline unsigned long ended(const struct ledger *l, unsigned long withdrawn)
{
	return l->got_back + l->found[TWHEEL_ARMED] + l->read + withdrawn;
}

/*
 * Expects that nothing is armed or unread on the wheel any more, and that each arming has
 * ended once.
 */
static inline void expect_ended(struct __test_metadata *_metadata, int fd, const struct ledger *l)
{
	struct twheel_stats s = stats(_metadata, fd);

	TH_LOG("%lu armed: %lu got back, %lu found armed, %lu read, %llu withdrawn", l->armed,
	       l->got_back, l->found[TWHEEL_ARMED], l->read, s.withdrawn);
	EXPECT_EQ(0, l->wrong);
	EXPECT_EQ(0, s.armed);
	EXPECT_EQ(0, s.unread);
	EXPECT_EQ(l->read, s.delivered);
	EXPECT_EQ(l->armed, ended(l, s.withdrawn));
}

/*
 * Expects the same on a wheel where only verbs have armed timers, and a verb has ended each.
 * Verbs found an event unread as often as one was withdrawn, and found a timer idle as often
 * as an event was read.
 */
static inline void expect_found(struct __test_metadata *_metadata, int fd, const struct ledger *l)
{
	struct twheel_stats s = stats(_metadata, fd);

	expect_ended(_metadata, fd, l);
	EXPECT_EQ(l->armed, s.armings);
	EXPECT_EQ(l->found[TWHEEL_ARMED], s.displaced);
	EXPECT_EQ(l->found[TWHEEL_EXPIRED], s.withdrawn);
	EXPECT_EQ(l->found[TWHEEL_IDLE], l->read);
}

/* A thread that reads events until it is told to stop and there are none left. */
struct reader {
	pthread_t thread;
	int fd;
	bool stop;
	/* Reads without sleeping, and so as close to the expiry as possible. */
	bool spin;
	/* Called for each event, unless it is NULL. */
	void (*see)(struct reader *r, const struct twheel_event *ev);
	void *arg;
	/* The number of events read. */
	unsigned long got;
	unsigned int wrong;
};

static void *read_all(void *arg)
{
	struct reader *r = arg;

	for (;;) {
		bool stop = stopped(&r->stop);
		struct twheel_event ev[16];
		int i, ret = read_events(r->fd, ev, sizeof(ev));

		if (ret < 0) {
			r->wrong += errno != EAGAIN;
			if (stop)
				return NULL;
			if (!r->spin)
				readable(r->fd, 1);
			continue;
		}
		for (i = 0; r->see && i < ret / (int)EVENT; i++)
			r->see(r, &ev[i]);
		count_in(&r->got, ret / EVENT);
	}
}

static inline void start_reader(struct __test_metadata *_metadata, struct reader *r)
{
	ASSERT_EQ(0, pthread_create(&r->thread, NULL, read_all, r));
}

static inline void stop_reader(struct __test_metadata *_metadata, struct reader *r)
{
	stop_and_join(r->thread, &r->stop);
	EXPECT_EQ(0, r->wrong);
}

#endif /* LEDGER_H */
