/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The timers of a wheel: twheel_word.c puts each of them where its word wants it, twheel_marks.c
 * finds those that are marked, and twheel_timers.c implements the turn and the operations.
 *
 * The caller passes the time to all of these functions, which run under the lock of the wheel and
 * never sleep. User space may exchange the words at any time.
 */
#ifndef _TWHEEL_TIMERS_H
#define _TWHEEL_TIMERS_H

#include <linux/types.h>

#include <linux/twheel.h>

#include "twheel.h"
#include "twheel_store.h"

/**
 * struct timers - the timers of a wheel
 * @wheel: the wheel, which contains the queued timers
 * @store: all timers and their words
 * @ready: the expired timers, in order. Without the lock, you may only test if it is empty
 * @ready_end: the pointer to which the next of these is appended
 * @marked: the budget of the last turn did not suffice for all marks
 * @kept: turns have kept marks for the next KICK, of timers that were armed again while unread
 * @kicks: how many KICKs are under way. Meanwhile all looks withdraw the events of such timers
 * @slot: where the sweep over the marks continues
 * @id: number of the wheel in fdinfo and traces
 * @news: set when a timer is added to @ready, and cleared by the caller
 * @stats: the counters, except for those that timers_stats() adds
 */
struct timers {
	struct wheel wheel;
	struct store *store;
	struct hlist_head ready;
	struct hlist_node **ready_end;
	u64 id;
	u32 slot;
	u32 kicks;
	bool marked;
	bool kept;
	bool news;
	struct twheel_stats stats;
};

/* Timers that are prefetched at a time: about as many as a CPU waits for at once. */
#define TIMERS_AHEAD	24U
/* Tries to exchange a word that user space changes meanwhile. */
#define EXCHANGES	16U

/*
 * A call that fails changes nothing, so an operation or a read takes two steps under one hold of
 * the lock. First, timers_answer() or timers_peek() finds out the answer. When this has been copied
 * to the user, timers_commit() or timers_consume() makes it true. They refuse if user space has
 * exchanged the word in between, so that the answer is wrong, and the caller then begins with the
 * first step again.
 */

/**
 * struct timers_answer - an operation and its answer
 * @op: the operation, with the result and the fields that the user gets
 * @timer: the timer, except for REGISTER, where timers_commit() makes it
 * @word: the word of the timer, from which the answer was made
 */
struct timers_answer {
	struct twheel_op op;
	struct timer *timer;
	u64 word;
};

static inline void timers_assert_held(const struct timers *t)
	__must_hold(t->store->lock)
{
	store_assert_held(t->store);
}

static inline u64 timers_tick_ns(const struct timers *t)
{
	return 1ULL << t->wheel.shape.shift;
}

static inline struct twheel_slot *timer_word(const struct timers *t, const struct timer *e)
{
	return store_word(t->store, e->slot);
}

/* The deadline that @word contains, or 0 if the timer is not armed. */
static inline u64 word_deadline(u64 word)
{
	return word == TWHEEL_PARKED ? 0 : word;
}

/* The word for @deadline. Only user space parks words, so TWHEEL_PARKED becomes never. */
static inline u64 deadline_word(u64 deadline)
{
	return deadline == TWHEEL_PARKED ? WHEEL_NEVER : deadline;
}

/* twheel_word.c */
bool timer_comes_at_once(const struct timers *t, u64 deadline, u64 now);
void timer_count_unseen(struct timers *t, const struct timer *e, u64 word, u64 now);
u64 timer_periods(const struct timer *e, u64 deadline, u64 now);
u64 timer_successor(const struct timer *e, u64 deadline, u64 now);
void timer_to_idle(struct timers *t, struct timer *e);
void timer_end(struct timers *t, struct timer *e, struct twheel_slot *slot);
void reconcile(struct timers *t, struct timer *e, struct twheel_slot *slot, u64 now);

/* twheel_marks.c */
void timers_begin_kick(struct timers *t);
unsigned int timers_take_marks(struct timers *t, u64 now, unsigned int budget);
u64 timers_publish_next(struct timers *t, u64 next, u64 now);

/* twheel_timers.c */
void timers_begin(struct timers *t, struct store *store);
int timers_check_setup(struct twheel_setup *setup, u32 max_timers, u32 most, u64 tick_ns,
		       struct wheel_shape *shape);
void timers_info(const struct timers *t, struct twheel_info *info);
void timers_map(struct timers *t, struct twheel_table *table, u32 page, u32 clock_id, u64 next);

unsigned int timers_turn(struct timers *t, u64 now, unsigned int budget);
u64 timers_next(const struct timers *t);

void timers_prefetch(const struct timers *t, const struct twheel_op *ops, unsigned int nr);
bool timers_answer(struct timers *t, const struct twheel_op *op, struct timers_answer *a,
		   u64 now);
bool timers_commit(struct timers *t, const struct timers_answer *a, u64 now);
int timers_list(const struct timers *t, u32 *cursor, struct twheel_timer *out,
		unsigned int nr, unsigned int budget);
void timers_stats(const struct timers *t, struct twheel_stats *stats);

unsigned int timers_peek(const struct timers *t, struct twheel_event *events,
			 unsigned int nr, u64 until);
unsigned int timers_consume(struct timers *t, const struct twheel_event *events,
			    unsigned int nr, u64 now);

#endif /* _TWHEEL_TIMERS_H */
