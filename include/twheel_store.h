/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The store of a wheel: what leads from a slot, the low half of an id, to a timer, to its
 * word, to its user_data and to its mark.
 *
 * The module keeps them in pages that it maps, see twheel_store.c; libtwheel in plain
 * memory. Either brings five functions; the linker chooses. The caller holds the lock.
 */
#ifndef _TWHEEL_STORE_H
#define _TWHEEL_STORE_H

#include <linux/build_bug.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/spinlock_types.h>
#include <linux/types.h>

#include <linux/twheel.h>

#include "twheel.h"

/* As many slots as the summary in the header page has room for. */
#define STORE_MAX		(1U << 24)
/* A bit of the summary stands for the marks of STORE_LINE slots. */
#define STORE_LINE_SHIFT	10U
#define STORE_LINE		(1U << STORE_LINE_SHIFT)
/* Where the summary begins in the header page, which has room for STORE_MAX slots. */
#define STORE_SUMMARY_OFFSET	2048U

static_assert(STORE_SUMMARY_OFFSET + STORE_MAX / STORE_LINE / 8 <= 4096);

/**
 * enum timer_place - where a timer is
 * @TIMER_FREE: its slot has no timer
 * @TIMER_IDLE: nowhere
 * @TIMER_QUEUED: in the wheel, to be looked at
 * @TIMER_TAKEN: just off the wheel, still counted as armed, until a look decides
 * @TIMER_READY: on the ready list: it has an event
 */
enum timer_place {
	TIMER_FREE,
	TIMER_IDLE,
	TIMER_QUEUED,
	TIMER_TAKEN,
	TIMER_READY,
};

/**
 * struct timer - one timer
 * @node: while queued: its place in the wheel. While free: link of store.free. Its number
 *	is @slot
 * @ready: while ready: its place on the ready list
 * @expired_ns: while ready: when it was taken off the wheel
 * @deadline: while queued: the word as last seen. While ready: the deadline reached
 * @period: 0, or ns from one expiration to the next
 * @slack: how late it may be
 * @gen: generation, the high half of the id
 * @slot: the low half of the id
 * @flags: TWHEEL_ABSTIME and so on, of the last arming by a verb
 * @place: an enum timer_place
 * @past: it was due already when it was queued, so its lateness is not ours
 */
struct timer {
	union {
		struct wheel_node node;
		struct {
			struct hlist_node ready;
			u64 expired_ns;
			u32 slot;
		};
	};
	u64 deadline;
	u64 period;
	u64 slack;
	u32 gen;
	u8 flags;
	u8 place;
	bool past;
};

static_assert(sizeof(struct timer) <= 64);

/**
 * struct store - the slots of a wheel
 * @max: how many timers there may be
 * @used: how many there are
 * @fresh: the first slot that has had no timer yet
 * @room: the first slot without memory
 * @gen: the generation that was given out last: an id comes again after 2^32 others
 * @free: the slots below @fresh that have no timer, the latest first
 * @table: the header page of the mapping; NULL if nobody has mapped it
 * @lock: the spinlock of the wheel, for lockdep; NULL where there is none
 */
struct store {
	u32 max;
	u32 used;
	u32 fresh;
	u32 room;
	u32 gen;
	struct hlist_head free;
	struct twheel_table *table;
	/* Protects all of it. */
	spinlock_t *lock;
};

/* The memory of the timer in @slot, which is below @room. */
struct timer *store_timer(const struct store *s, u32 slot);
/* The word of @slot, which is below @room. User space writes there at any time. */
struct twheel_slot *store_word(const struct store *s, u32 slot);
/*
 * The user_data of @slot, which is below @room. It lies beside the timer, which fills a cache
 * line, because no visit of the wheel reads it. In libtwheel, twheel_add() writes there without
 * the lock.
 */
u64 *store_user_data(const struct store *s, u32 slot);

/*
 * Prefetches the timer in @slot, which is below @room, and its word if it is @due: a
 * wheel_fetch_fn for a &struct store.
 */
void store_fetch(const void *store, u32 slot, bool due);

/* The marks of the line that @slot begins: STORE_LINE bits; NULL if never touched. */
u64 *store_marks(const struct store *s, u32 slot);

/* These are one expression each, and smaller than a call. */

static inline void store_assert_held(const struct store *s)
{
	lockdep_assert(!s->lock || lockdep_is_held(s->lock));
}

/* The bits of the summary. The store must be mapped. */
static inline u64 *store_summary(const struct store *s)
{
	return (u64 *)((char *)s->table + STORE_SUMMARY_OFFSET);
}

/* Where the mapping has its parts, in bytes; pages are of @page bytes. */
static inline u64 store_marks_offset(u32 max, u64 page)
{
	u64 bytes = (u64)max * sizeof(struct twheel_slot);

	return page + ((bytes + page - 1) & ~(page - 1));
}

static inline u64 store_bytes(u32 max, u64 page)
{
	/* Whole lines, so that one can be taken without a look at its end. */
	u64 bytes = (((u64)max + STORE_LINE - 1) & ~(u64)(STORE_LINE - 1)) / 8;

	return store_marks_offset(max, page) + ((bytes + page - 1) & ~(page - 1));
}

static inline u64 timer_id(const struct timer *e)
{
	return (u64)e->gen << 32 | e->slot;
}

/* twheel_slots.c */
struct timer *store_at(const struct store *s, u32 slot);
struct timer *store_prefetch(const struct store *s, u32 slot);
struct timer *store_find(const struct store *s, u64 id);
int store_peek(const struct store *s, u64 *id);
struct timer *store_get(struct store *s);
void store_put(struct store *s, struct timer *e);

#endif /* _TWHEEL_STORE_H */
