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
#include <linux/lockdep.h>
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
 * @gen: generation, the high half of the id
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
			struct hlist_node ready;
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
	u32 state : 3;
	u32 past : 1;
	u32 last : 1;
};

static_assert(sizeof(struct twheel_entry) <= 64);

/* Out of memory, also of the cgroup's, is ENOMEM: nobody is killed for it. */
#define TWHEEL_GFP		(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* So many that batches of 256 timers come and go without an allocation. */
#define TWHEEL_SPARES		4U

/* Timers and chunks of a block; words of a page, and pages for those of a block. */
#define TWHEEL_BLOCK		4096U
#define TWHEEL_CHUNKS		(TWHEEL_BLOCK / TWHEEL_CHUNK)
#define TWHEEL_WORDS		(PAGE_SIZE / sizeof(struct twheel_slot))
#define TWHEEL_BLOCK_PAGES	(TWHEEL_BLOCK / TWHEEL_WORDS)

/**
 * struct twheel_chunk - where 64 timers are
 * @entries: the timers, or NULL while there are none
 * @exist: a bit per slot that there is: the last chunk may have fewer than 64
 * @live: a bit per slot that is not free
 * @link: in twheel_slots.avail, in twheel_slots.holes, or empty if full
 * @first: number of its first slot
 * @gen: generation last given out here. It outlives @entries, so an id does
 *	not come back before 2^32 timers were made in this chunk.
 */
struct twheel_chunk {
	struct twheel_entry *entries;
	u64 exist;
	u64 live;
	struct list_head link;
	u32 first;
	u32 gen;
};

struct mutex;
struct twheel_block;

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
 * @spares: how many chunks are all free and keep their memory
 * @garbage: what was given back, for twheel_slots_dispose()
 * @lock: the spinlock of the wheel, for lockdep; NULL where there is none, as in tests
 * @mutex: the same of its mutex
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
	unsigned int spares;
	struct twheel_garbage garbage;
	/* Protects all of this; see the top of twheel_slots.c. */
	spinlock_t *lock;
	/* Has what allocates for it one at a time. */
	struct mutex *mutex;
};

static inline void twheel_slots_assert_held(const struct twheel_slots *s)
{
	lockdep_assert(!s->lock || lockdep_is_held(s->lock));
}

int twheel_slots_init(struct twheel_slots *s, u32 max);
void twheel_slots_adopt(struct twheel_slots *s);
void twheel_slots_free(struct twheel_slots *s);

u64 twheel_slots_live(const struct twheel_slots *s, u32 nr,
		      struct twheel_entry **entries);
void twheel_slots_empty(struct twheel_slots *s, struct twheel_chunk *chunk);
int twheel_slots_grow(struct twheel_slots *s, spinlock_t *lock);
void twheel_slots_dispose(struct twheel_garbage *garbage);

/* What has been given back since the last time, for twheel_slots_dispose(). */
static inline struct twheel_garbage twheel_slots_garbage(struct twheel_slots *s)
{
	struct twheel_garbage garbage = s->garbage;

	twheel_slots_assert_held(s);
	s->garbage = (struct twheel_garbage){};
	return garbage;
}

u64 twheel_slots_bytes(const struct twheel_slots *s);
struct page *twheel_slots_page(struct twheel_slots *s, pgoff_t pgoff);

static inline u64 twheel_entry_id(const struct twheel_entry *e)
{
	return (u64)e->gen << 32 | e->slot;
}

/* What each operation needs. libtwheel has slots of its own and brings these, too. */
#ifdef TWHEEL_OWN_SLOTS

struct twheel_entry *twheel_slots_at(const struct twheel_slots *s, u32 slot);
struct twheel_slot *twheel_slots_word(const struct twheel_slots *s,
				      const struct twheel_entry *e);
void twheel_slots_prefetch(const struct twheel_slots *s, const struct twheel_entry *e);
struct twheel_entry *twheel_slots_get(struct twheel_slots *s);
void twheel_slots_put(struct twheel_slots *s, struct twheel_entry *e);

#else

#include <linux/bitops.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/prefetch.h>

/**
 * struct twheel_block - 64 chunks and their pages
 * @words: pages of the mapping, NULL where nobody needs one
 * @chunk: the chunks
 * @users: how many chunks with memory have their words in that page
 */
struct twheel_block {
	struct twheel_slot *words[TWHEEL_BLOCK_PAGES];
	struct twheel_chunk chunk[TWHEEL_CHUNKS];
	unsigned int users[TWHEEL_BLOCK_PAGES];
};

static inline struct twheel_block *twheel_block_at(const struct twheel_slots *s, u32 slot)
{
	return s->dir[slot / TWHEEL_BLOCK];
}

/* The page of @slot in its block. */
static inline struct twheel_slot **twheel_page_at(struct twheel_block *block, u32 slot)
{
	return &block->words[slot % TWHEEL_BLOCK / TWHEEL_WORDS];
}

static inline struct twheel_chunk *twheel_chunk_at(const struct twheel_slots *s, u32 nr)
{
	return &s->dir[nr / TWHEEL_CHUNKS]->chunk[nr % TWHEEL_CHUNKS];
}

/**
 * twheel_slots_at() - the live timer in a slot
 * @s: the slots
 * @slot: any number; user space may have given it
 *
 * Return: the timer, or NULL.
 */
static inline struct twheel_entry *twheel_slots_at(const struct twheel_slots *s, u32 slot)
{
	u32 nr = slot / TWHEEL_CHUNK;
	struct twheel_chunk *chunk;

	twheel_slots_assert_held(s);
	if (nr >= s->chunks)
		return NULL;
	chunk = twheel_chunk_at(s, array_index_nospec(nr, s->chunks));
	slot %= TWHEEL_CHUNK;
	return chunk->live >> slot & 1 ? &chunk->entries[slot] : NULL;
}

/**
 * twheel_slots_word() - the word of a timer, in the mapping
 * @s: the slots
 * @e: a live timer
 *
 * Return: its slot of the table. User space writes there at any time.
 */
static inline struct twheel_slot *twheel_slots_word(const struct twheel_slots *s,
						    const struct twheel_entry *e)
{
	u32 slot = e->slot;

	twheel_slots_assert_held(s);
	return *twheel_page_at(twheel_block_at(s, slot), slot) + slot % TWHEEL_WORDS;
}

/**
 * twheel_slots_prefetch() - have fetched what a look at a timer begins with
 * @s: the slots
 * @e: a live timer, which may be far away in memory
 */
static inline void twheel_slots_prefetch(const struct twheel_slots *s,
					 const struct twheel_entry *e)
{
	prefetchw(e);
}

/**
 * twheel_slots_get() - make a timer
 * @s: the slots
 *
 * Return: the timer, idle, with a new id and no flags, the rest for the caller to
 * fill in; -ENOSPC if there are as many as may be; -EAGAIN if twheel_slots_grow()
 * is needed first.
 */
static inline struct twheel_entry *twheel_slots_get(struct twheel_slots *s)
{
	struct twheel_chunk *chunk;
	struct twheel_entry *e;
	unsigned int i;
	u64 free;

	twheel_slots_assert_held(s);
	if (s->used == s->max)
		return ERR_PTR(-ENOSPC);
	chunk = list_first_entry_or_null(&s->avail, struct twheel_chunk, link);
	if (!chunk)
		return ERR_PTR(-EAGAIN);
	s->spares -= !chunk->live;
	free = chunk->exist & ~chunk->live;
	i = __ffs64(free);
	chunk->live |= 1ULL << i;
	if (!(free & (free - 1)))
		list_del_init(&chunk->link);
	if (!++chunk->gen)
		chunk->gen = 1;
	s->used++;

	e = &chunk->entries[i];
	e->gen = chunk->gen;
	e->slot = chunk->first + i;
	e->flags = 0;
	e->state = TWHEEL_IDLE;
	e->past = false;
	e->last = false;
	return e;
}

/**
 * twheel_slots_put() - end a timer
 * @s: the slots
 * @e: the timer, in no list
 */
static inline void twheel_slots_put(struct twheel_slots *s, struct twheel_entry *e)
{
	u32 slot = e->slot;
	struct twheel_chunk *chunk = twheel_chunk_at(s, slot / TWHEEL_CHUNK);

	twheel_slots_assert_held(s);
	chunk->live &= ~(1ULL << (slot % TWHEEL_CHUNK));
	s->used--;
	if (list_empty(&chunk->link))
		list_add(&chunk->link, &s->avail);
	if (!chunk->live)
		twheel_slots_empty(s, chunk);
}

#endif /* TWHEEL_OWN_SLOTS */

/**
 * twheel_slots_find() - the live timer with an id
 * @s: the slots
 * @id: any number; user space may have given it
 *
 * Return: the timer, or NULL.
 */
static inline struct twheel_entry *twheel_slots_find(const struct twheel_slots *s, u64 id)
	__must_hold(s->lock)
{
	struct twheel_entry *e = twheel_slots_at(s, (u32)id);

	return e && e->gen == id >> 32 ? e : NULL;
}

#endif /* _TWHEEL_SLOTS_H */
