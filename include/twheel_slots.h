/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The memory of a wheel's timers, and of the words that user space maps.
 *
 * A slot number, the low half of an id, leads to a timer and to a word:
 *
 *   dir[] --> block: 64 chunks --> chunk: 64 timers, one allocation
 *                    and pages --> words of the slots, in mappable pages
 *
 * All come on demand. The timers of a chunk go when they are all free, and the
 * page of their words too, unless the table has been mapped; blocks stay until
 * the wheel ends.
 */
#ifndef _TWHEEL_SLOTS_H
#define _TWHEEL_SLOTS_H

#include <linux/build_bug.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/spinlock_types.h>
#include <linux/types.h>

#include <linux/twheel.h>

#include "twheel.h"

/* As many as twheel_entry.slot can number. */
#define TWHEEL_SLOTS_MAX	(1U << 24)
/* Timers that share an allocation, and a mask of the live ones. */
#define TWHEEL_CHUNK		64U

/**
 * struct twheel_entry - one timer
 * @node: while armed: its place in the wheel
 * @ready: while expired: its place in the ready list
 * @expired_ns: while expired: when it was taken off the wheel
 * @deadline: while expired: the deadline that was reached
 * @user_data: the user's
 * @period: 0, or ns from one expiration to the next
 * @slack: how late it may be
 * @gen: generation, the high half of the id; 0 while the slot is free
 * @slot: the low half of the id
 * @flags: TWHEEL_ABSTIME and so on, of the last arming
 * @state: where it is: TWHEEL_IDLE, TWHEEL_ARMED (in the wheel, at the
 *	deadline that its word had when it was looked at) or TWHEEL_EXPIRED
 * @past: was due already when it was armed, so that its lateness is not ours
 * @last: not to be armed again for its next period
 */
struct twheel_entry {
	union {
		struct twheel_node node;
		struct {
			struct list_head ready;
			u64 expired_ns;
		};
	};
	u64 deadline;
	u64 user_data;
	u64 period;
	u64 slack;
	u32 gen;
	u32 slot : 24;
	u32 flags : 3;
	u32 state : 2;
	u32 past : 1;
	u32 last : 1;
};

static_assert(sizeof(struct twheel_entry) <= 64);

/* Out of memory, also of the cgroup's, is ENOMEM: nobody is killed for it. */
#define TWHEEL_GFP		(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

struct twheel_block;
struct twheel_chunk;

/**
 * struct twheel_garbage - memory that is out of use, each piece of which begins
 *	with the address of the next
 * @entries: the timers of chunks
 * @words: pages
 */
struct twheel_garbage {
	void *entries;
	void *words;
};

/**
 * struct twheel_slots - all slots of a wheel
 * @dir: the blocks
 * @header: the first page of the mapping, NULL until it is asked for
 * @mapped: the table has been mapped: its pages stay
 * @max: how many timers there may be
 * @used: how many there are
 * @chunks: how many chunks there have been
 * @avail: chunks that have memory and a free slot, first the one that was full
 *	last
 * @holes: chunks whose memory was given back
 * @spare: a chunk that is all free and keeps its memory for the next timer
 * @garbage: what was given back, for twheel_slots_dispose()
 */
struct twheel_slots {
	struct twheel_block **dir;
	struct twheel_table *header;
	bool mapped;
	u32 max;
	u32 used;
	u32 chunks;
	struct list_head avail;
	struct list_head holes;
	struct twheel_chunk *spare;
	struct twheel_garbage garbage;
};

int twheel_slots_init(struct twheel_slots *s, u32 max);
void twheel_slots_adopt(struct twheel_slots *s);
void twheel_slots_free(struct twheel_slots *s);

struct twheel_entry *twheel_slots_find(const struct twheel_slots *s, u64 id);
struct twheel_entry *twheel_slots_at(const struct twheel_slots *s, u32 slot);
struct twheel_slot *twheel_slots_word(const struct twheel_slots *s,
				      const struct twheel_entry *e);
void twheel_slots_prefetch(const struct twheel_slots *s, const struct twheel_entry *e);
u64 twheel_slots_live(const struct twheel_slots *s, u32 nr,
		      struct twheel_entry **entries);
struct twheel_entry *twheel_slots_get(struct twheel_slots *s);
void twheel_slots_put(struct twheel_slots *s, struct twheel_entry *e);
int twheel_slots_grow(struct twheel_slots *s, spinlock_t *lock);
void twheel_slots_dispose(struct twheel_garbage *garbage);

/* What has been given back since the last time, for twheel_slots_dispose(). */
static inline struct twheel_garbage twheel_slots_garbage(struct twheel_slots *s)
{
	struct twheel_garbage garbage = s->garbage;

	s->garbage = (struct twheel_garbage){};
	return garbage;
}

u64 twheel_slots_bytes(const struct twheel_slots *s);
struct page *twheel_slots_page(struct twheel_slots *s, pgoff_t pgoff);

static inline u64 twheel_entry_id(const struct twheel_entry *e)
{
	return (u64)e->gen << 32 | e->slot;
}

#endif /* _TWHEEL_SLOTS_H */
