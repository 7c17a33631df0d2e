/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * One timer and its word: where the timer is, what its word asks for, and how
 * the two are brought together.
 *
 * Everything here is handed the time and runs under the lock of the wheel. The
 * words are the exception that it exists for: user space exchanges them at any
 * moment.
 */
#ifndef _TWHEEL_WORD_H
#define _TWHEEL_WORD_H

#include <linux/types.h>

#include <linux/twheel.h>

#include "twheel.h"
#include "twheel_store.h"

/**
 * struct timers - the timers of a wheel
 * @wheel: where the queued ones are
 * @store: all of them, and their words
 * @ready: the expired ones, in the order of their ticks. Whether it is empty may
 *	be asked without the lock
 * @ready_end: where the next of these is linked
 * @marked: the budget of a turn did not reach all marks
 * @line: where the sweep of the marks goes on
 * @used: a timer has been made, or the table mapped: the shape is fixed
 * @news: something has come to @ready; for the caller to clear
 * @stats: what has happened, but for what timers_stats() adds
 */
struct timers {
	struct wheel wheel;
	struct store *store;
	struct hlist_head ready;
	struct hlist_node **ready_end;
	u32 line;
	bool marked;
	bool used;
	bool news;
	struct twheel_stats stats;
};

/* Whether a look may withdraw an event whose timer has been armed over. */
enum look { LOOK, LOOK_AND_WITHDRAW };

static inline void timers_assert_held(const struct timers *t)
	__must_hold(t->store->lock)
{
	store_assert_held(t->store);
}

static inline u64 timers_tick_ns(const struct timers *t)
{
	return 1ULL << t->wheel.shape.shift;
}

u64 timer_successor(const struct timer *e, u64 deadline, u64 now);
void timer_to_idle(struct timers *t, struct timer *e);
void timer_to_ready(struct timers *t, struct timer *e, struct twheel_slot *slot,
		    u64 deadline, u64 now);
void reconcile(struct timers *t, struct timer *e, struct twheel_slot *slot, u64 now,
	       enum look look);

#endif /* _TWHEEL_WORD_H */
