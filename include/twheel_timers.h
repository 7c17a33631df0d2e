/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The timers of a wheel: what the verbs do, the look at the deadline table,
 * and the events.
 *
 * Everything here is handed the time and runs under the lock of the wheel; it
 * never sleeps, and knows no clock, file or user pointer. The words of the
 * table are the exception that it exists for: user space changes them at any
 * moment.
 */
#ifndef _TWHEEL_TIMERS_H
#define _TWHEEL_TIMERS_H

#include <linux/types.h>

#include <linux/twheel.h>

#include "twheel.h"
#include "twheel_slots.h"

/**
 * struct twheel_timers - all timers of a wheel, which its lock protects
 * @wheel: where the armed ones are
 * @slots: where all are, and their words
 * @ready: the expired ones, in the order of their ticks. Whether it is empty
 *	may be asked without the lock.
 * @ready_end: where the next of these is linked
 * @used: a timer has been made, or the table mapped: the shape is fixed
 * @news: something has come to @ready; for the caller to clear
 * @stats: what has happened, but for what twheel_stats() adds
 */
struct twheel_timers {
	struct twheel wheel;
	struct twheel_slots slots;
	struct hlist_head ready;
	struct hlist_node **ready_end;
	bool used;
	bool news;
	struct twheel_stats stats;
};

static inline void twheel_assert_held(const struct twheel_timers *t)
{
	twheel_slots_assert_held(&t->slots);
}

static inline u64 twheel_tick_ns(const struct twheel_timers *t)
{
	return 1ULL << t->wheel.shape.shift;
}

static inline void twheel_ready_init(struct twheel_timers *t)
{
	t->ready.first = NULL;
	t->ready_end = &t->ready.first;
}

unsigned int twheel_run(struct twheel_timers *t, u64 now, unsigned int budget);
unsigned int twheel_apply(struct twheel_timers *t, struct twheel_op *ops, unsigned int nr,
			  u64 now);
bool twheel_kick(struct twheel_timers *t, u32 slot, u64 now);
unsigned int twheel_drain(struct twheel_timers *t, u32 *chunk, u32 mode, u64 now);
int twheel_list(const struct twheel_timers *t, u32 *cursor,
		struct twheel_timer *out, unsigned int nr, unsigned int budget);
void twheel_stats(const struct twheel_timers *t, struct twheel_stats *stats);

/**
 * struct twheel_claimed - a timer whose event is on its way to a reader
 * @entry: it
 * @slot: its word
 */
struct twheel_claimed {
	struct twheel_entry *entry;
	struct twheel_slot *slot;
};

unsigned int twheel_claim(struct twheel_timers *t, struct twheel_claimed *claimed,
			  struct twheel_event *events, unsigned int nr,
			  unsigned int budget, u64 now);
int twheel_readable(struct twheel_timers *t, unsigned int budget, u64 now);
void twheel_settle(struct twheel_timers *t, struct twheel_claimed *claimed,
		   unsigned int nr, unsigned int delivered, u64 now);

#endif /* _TWHEEL_TIMERS_H */
