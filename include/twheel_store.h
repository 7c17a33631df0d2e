/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The store of a wheel, which finds the timer, the word, the user_data and the mark that belong to
 * a slot. The slot is the low half of a timer's id.
 *
 * The module keeps these in pages that user space maps, see twheel_store.c, and libtwheel in plain
 * memory. Each of them defines the functions from store_timer() to store_marks(). The caller holds
 * the lock.
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
/* Each bit of the summary covers a line, which is the marks of STORE_LINE slots. */
#define STORE_LINE_SHIFT	10U
#define STORE_LINE		(1U << STORE_LINE_SHIFT)
/* Where the summary begins in the header page, which has room for STORE_MAX slots. */
#define STORE_SUMMARY_OFFSET	2048U

static_assert(STORE_SUMMARY_OFFSET + STORE_MAX / STORE_LINE / 8 <= 4096);

/**
 * enum timer_place - where a timer is
 * @TIMER_FREE: its slot has no timer
 * @TIMER_IDLE: it is neither in the wheel nor on the ready list
 * @TIMER_QUEUED: it is in the wheel, to be looked at later
 * @TIMER_TAKEN: it has just left the wheel, and counts as armed until a look decides
 * @TIMER_READY: it is on the ready list, because it has an event
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
 * @node: while the timer is queued, its place in the wheel; while the slot is free, the link of
 *	store.free. The number of the node is @slot
 * @ready: while the timer is ready, its place on the ready list
 * @expired_ns: while the timer is ready, when it was taken off the wheel
 * @deadline: while the timer is queued, the word as it was last seen; while it is ready, the
 *	deadline that was reached
 * @period: ns from one expiration to the next, or 0
 * @slack: how late the timer may be in addition to its tick, in ns
 * @gen: generation, which is the high half of the id
 * @slot: the low half of the id
 * @flags: TWHEEL_ABSTIME and so on, from the last REGISTER or REARM
 * @place: an enum timer_place
 * @past: the timer was due already when it was queued, so its lateness is not counted
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
 * @max: maximum number of timers
 * @used: number of timers that exist
 * @fresh: the first slot that has never had a timer
 * @room: the first slot without memory
 * @gen: the generation of the latest timer. An id is reused only after 2^32 other timers
 * @free: the slots below @fresh that have no timer now, the latest first
 * @table: the header page of the mapping, or NULL if the table was never mapped
 * @lock: the spinlock of the wheel, for lockdep, or NULL if there is none
 */
struct store {
	u32 max;
	u32 used;
	u32 fresh;
	u32 room;
	u32 gen;
	struct hlist_head free;
	struct twheel_table *table;
	/* Protects all members. */
	spinlock_t *lock;
};

/* The memory of the timer in @slot, which is below @room. */
struct timer *store_timer(const struct store *s, u32 slot);
/* The word of @slot, which is below @room. User space writes there at any time. */
struct twheel_slot *store_word(const struct store *s, u32 slot);
/*
 * The user_data of @slot, which is below @room. It is not part of struct timer, which already fills
 * a cache line, because no visit of the wheel reads it. In libtwheel, twheel_add() writes there
 * without the lock.
 */
u64 *store_user_data(const struct store *s, u32 slot);

/*
 * Prefetches the timer in @slot, which is below @room, and its word if it is @due. This is the
 * wheel_fetch_fn for a &struct store.
 */
void store_fetch(const void *store, u32 slot, bool due);

/* The STORE_LINE marks of the line that begins with @slot, or NULL if they have no page yet. */
u64 *store_marks(const struct store *s, u32 slot);

/* These are inline, because each is a single expression and smaller than a call. */

static inline void store_assert_held(const struct store *s)
{
	lockdep_assert(!s->lock || lockdep_is_held(s->lock));
}

/* The bits of the summary. The store must be mapped. */
static inline u64 *store_summary(const struct store *s)
{
	return (u64 *)((char *)s->table + STORE_SUMMARY_OFFSET);
}

/* The offset of the marks in the mapping, in bytes, for pages of @page bytes. */
static inline u64 store_marks_offset(u32 max, u64 page)
{
	u64 bytes = (u64)max * sizeof(struct twheel_slot);

	return page + ((bytes + page - 1) & ~(page - 1));
}

static inline u64 store_bytes(u32 max, u64 page)
{
	/* Round up to whole lines, so that the last one can be processed like the others. */
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
