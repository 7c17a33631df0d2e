// SPDX-License-Identifier: GPL-2.0
/*
 * The memory of a wheel's timers, and of the words that user space maps.
 *
 * Who may call what: twheel_slots_grow() and twheel_slots_page() allocate and
 * run under the mutex of the wheel; everything else under its spinlock. Blocks
 * come under the mutex alone; under the spinlock one is reached only through a
 * chunk number below @chunks, which is published by it. Pages come under both,
 * and go under the spinlock, unless the table has been mapped: then they stay.
 */
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/prefetch.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "twheel_slots.h"

/* A chunk of 64 timers is an allocation of 4 KiB; 64 chunks share a block. */
#define CHUNK_BITS	6
#define CHUNK		(1U << CHUNK_BITS)
#define BLOCK_BITS	6
#define BLOCK		(1U << BLOCK_BITS)

/* Words in a page of the mapping, and pages for the words of a block. */
#define WORDS		(PAGE_SIZE / sizeof(struct twheel_slot))
#define BLOCK_PAGES	(CHUNK * BLOCK / WORDS)

static_assert(BLOCK_PAGES >= 1);

/**
 * struct twheel_chunk - where 64 timers are
 * @entries: the timers, or NULL while there are none
 * @words: their words
 * @free: a bit per slot that is free
 * @link: in twheel_slots.avail, in twheel_slots.holes, or empty if full
 * @first: number of its first slot
 * @gen: generation last given out here. It outlives @entries, so an id does
 *	not come back before 2^32 timers were made in this chunk.
 */
struct twheel_chunk {
	struct twheel_entry *entries;
	struct twheel_slot *words;
	u64 free;
	struct list_head link;
	u32 first;
	u32 gen;
};

/**
 * struct twheel_block - 64 chunks and their pages
 * @chunk: the chunks
 * @words: pages of the mapping, NULL where nobody needs one
 * @users: how many chunks with memory have their words in that page
 */
struct twheel_block {
	struct twheel_chunk chunk[BLOCK];
	struct twheel_slot *words[BLOCK_PAGES];
	unsigned int users[BLOCK_PAGES];
};

static size_t nr_blocks(const struct twheel_slots *s)
{
	return DIV_ROUND_UP(s->max, CHUNK * BLOCK);
}

static struct twheel_block *block_at(const struct twheel_slots *s, u32 slot)
{
	return s->dir[slot / (CHUNK * BLOCK)];
}

/* The page of @slot in its block, and how many chunks use that. */
static struct twheel_slot **page_at(struct twheel_block *block, u32 slot)
{
	return &block->words[slot % (CHUNK * BLOCK) / WORDS];
}

static unsigned int *users_at(struct twheel_block *block, u32 slot)
{
	return &block->users[slot % (CHUNK * BLOCK) / WORDS];
}

static struct twheel_chunk *chunk_at(const struct twheel_slots *s, u32 nr)
{
	return &s->dir[nr >> BLOCK_BITS]->chunk[nr & (BLOCK - 1)];
}

/* The slots of @chunk that exist: the last chunk may have fewer than 64. */
static u64 chunk_mask(const struct twheel_slots *s, const struct twheel_chunk *chunk)
{
	return U64_MAX >> (CHUNK - min(s->max - chunk->first, CHUNK));
}

/**
 * twheel_slots_init() - make slots without any timer
 * @s: the slots
 * @max: how many timers there may be, at most %TWHEEL_SLOTS_MAX
 *
 * Context: may sleep. Return: 0 or -ENOMEM.
 */
int twheel_slots_init(struct twheel_slots *s, u32 max)
{
	*s = (struct twheel_slots) { .max = max };
	s->dir = kvcalloc(nr_blocks(s), sizeof(*s->dir), TWHEEL_GFP);
	return s->dir ? 0 : -ENOMEM;
}

/**
 * twheel_slots_adopt() - make them usable where they have come to lie
 * @s: slots without any timer, which twheel_slots_init() made elsewhere
 */
void twheel_slots_adopt(struct twheel_slots *s)
{
	INIT_LIST_HEAD(&s->avail);
	INIT_LIST_HEAD(&s->holes);
}

/**
 * twheel_slots_free() - end all slots and timers
 * @s: the slots, which nobody uses any more. A page that user space still
 *	holds (pinned, or in a pipe) lives until that lets go.
 *
 * Context: may sleep, and does so now and then if there are very many.
 */
void twheel_slots_free(struct twheel_slots *s)
{
	size_t b, i;

	for (b = 0; b < nr_blocks(s); b++) {
		struct twheel_block *block = s->dir[b];

		if (!block)
			continue;
		for (i = 0; i < BLOCK; i++)
			kfree(block->chunk[i].entries);
		for (i = 0; i < BLOCK_PAGES; i++)
			free_page((unsigned long)block->words[i]);
		kfree(block);
		cond_resched();
	}
	twheel_slots_dispose(&s->garbage);
	free_page((unsigned long)s->header);
	kvfree(s->dir);
}

/**
 * twheel_slots_at() - the live timer in a slot
 * @s: the slots
 * @slot: any number; user space may have given it
 *
 * Return: the timer, or NULL.
 */
struct twheel_entry *twheel_slots_at(const struct twheel_slots *s, u32 slot)
{
	u32 nr = slot >> CHUNK_BITS;
	struct twheel_chunk *chunk;
	struct twheel_entry *e;

	if (nr >= s->chunks)
		return NULL;
	chunk = chunk_at(s, array_index_nospec(nr, s->chunks));
	if (!chunk->entries)
		return NULL;
	e = &chunk->entries[slot & (CHUNK - 1)];
	return e->gen ? e : NULL;
}

/**
 * twheel_slots_find() - the live timer with an id
 * @s: the slots
 * @id: any number; user space may have given it
 *
 * Return: the timer, or NULL.
 */
struct twheel_entry *twheel_slots_find(const struct twheel_slots *s, u64 id)
{
	struct twheel_entry *e = twheel_slots_at(s, (u32)id);

	return e && e->gen == id >> 32 ? e : NULL;
}

/**
 * twheel_slots_word() - the word of a timer, in the mapping
 * @s: the slots
 * @e: a live timer
 *
 * Return: its slot of the table. User space writes there at any time.
 */
struct twheel_slot *twheel_slots_word(const struct twheel_slots *s,
				      const struct twheel_entry *e)
{
	return &chunk_at(s, e->slot >> CHUNK_BITS)->words[e->slot & (CHUNK - 1)];
}

/**
 * twheel_slots_prefetch() - have fetched what a look at a timer begins with
 * @s: the slots
 * @e: a live timer, which may be far away in memory
 */
void twheel_slots_prefetch(const struct twheel_slots *s, const struct twheel_entry *e)
{
	prefetchw(e);
}

/**
 * twheel_slots_live() - the live timers of a chunk
 * @s: the slots
 * @nr: which chunk, from 0; user space may have given it
 * @entries: out: the 64 timers of the chunk, if there is a live one
 *
 * Return: a bit for each live timer.
 */
u64 twheel_slots_live(const struct twheel_slots *s, u32 nr,
		      struct twheel_entry **entries)
{
	const struct twheel_chunk *chunk;

	if (nr >= s->chunks)
		return 0;
	chunk = chunk_at(s, array_index_nospec(nr, s->chunks));
	*entries = chunk->entries;
	return *entries ? chunk_mask(s, chunk) & ~chunk->free : 0;
}

/**
 * twheel_slots_get() - make a timer
 * @s: the slots
 *
 * Return: the timer, idle, with a new id and all else zero; -ENOSPC if there
 * are as many as may be; -EAGAIN if twheel_slots_grow() is needed first.
 */
struct twheel_entry *twheel_slots_get(struct twheel_slots *s)
{
	struct twheel_chunk *chunk;
	struct twheel_entry *e;
	unsigned int i;

	if (s->used == s->max)
		return ERR_PTR(-ENOSPC);
	chunk = list_first_entry_or_null(&s->avail, struct twheel_chunk, link);
	if (!chunk)
		return ERR_PTR(-EAGAIN);
	if (chunk == s->spare)
		s->spare = NULL;
	i = __ffs64(chunk->free);
	chunk->free &= chunk->free - 1;
	if (!chunk->free)
		list_del_init(&chunk->link);
	if (!++chunk->gen)
		chunk->gen = 1;

	e = &chunk->entries[i];
	*e = (struct twheel_entry) {
		.gen = chunk->gen,
		.slot = chunk->first + i,
		.state = TWHEEL_IDLE,
	};
	s->used++;
	return e;
}

static void discard(void **pile, void *piece)
{
	*(void **)piece = *pile;
	*pile = piece;
}

static void *salvage(void **pile)
{
	void *piece = *pile;

	*pile = *(void **)piece;
	return piece;
}

/**
 * twheel_slots_put() - end a timer
 * @s: the slots
 * @e: the timer, in no list
 *
 * Memory is given back when a second chunk is all free; but not here, under the
 * lock: the page allocator may have 2,000 pages to tidy up, of others too.
 */
void twheel_slots_put(struct twheel_slots *s, struct twheel_entry *e)
{
	struct twheel_chunk *chunk = chunk_at(s, e->slot >> CHUNK_BITS);
	struct twheel_slot **words;

	e->gen = 0;
	chunk->free |= 1ULL << (e->slot & (CHUNK - 1));
	s->used--;
	if (list_empty(&chunk->link))
		list_add(&chunk->link, &s->avail);
	if (chunk->free != chunk_mask(s, chunk))
		return;
	if (!s->spare) {
		s->spare = chunk;
		return;
	}
	discard(&s->garbage.entries, chunk->entries);
	chunk->entries = NULL;
	list_move(&chunk->link, &s->holes);
	words = page_at(block_at(s, chunk->first), chunk->first);
	if (!--*users_at(block_at(s, chunk->first), chunk->first) && !s->mapped) {
		discard(&s->garbage.words, *words);
		*words = NULL;
	}
}

/**
 * twheel_slots_dispose() - free what has been given back
 * @garbage: what twheel_slots_garbage() returned
 *
 * Context: any, without the lock.
 */
void twheel_slots_dispose(struct twheel_garbage *garbage)
{
	while (garbage->entries)
		kfree(salvage(&garbage->entries));
	while (garbage->words)
		free_page((unsigned long)salvage(&garbage->words));
}

/* The block of @slot, made if there is none; NULL if out of memory. */
static struct twheel_block *block_of(struct twheel_slots *s, u32 slot)
{
	u32 first = round_down(slot, CHUNK * BLOCK);
	struct twheel_block *block = block_at(s, slot);
	unsigned int i;

	if (block)
		return block;
	block = kzalloc(sizeof(*block), TWHEEL_GFP);
	if (!block)
		return NULL;
	for (i = 0; i < BLOCK; i++) {
		INIT_LIST_HEAD(&block->chunk[i].link);
		block->chunk[i].first = first + i * CHUNK;
	}
	s->dir[slot / (CHUNK * BLOCK)] = block;
	return block;
}

/**
 * twheel_slots_grow() - have a free slot
 * @s: the slots
 * @lock: the spinlock of the wheel, which is not held
 *
 * Context: under the mutex of the wheel; may sleep.
 * Return: 0, also if there is no need or no room; or -ENOMEM.
 */
int twheel_slots_grow(struct twheel_slots *s, spinlock_t *lock)
{
	struct twheel_entry *entries = NULL;
	struct twheel_block *block;
	struct twheel_chunk *chunk;
	struct twheel_slot **words;
	void *page = NULL;
	bool backed;
	int err = 0;
	u32 slot;

	for (;;) {
		spin_lock_bh(lock);
		if (!list_empty(&s->avail) || s->used == s->max)
			break;
		/* Only here do holes get fewer and chunks more. */
		chunk = list_first_entry_or_null(&s->holes, struct twheel_chunk, link);
		slot = chunk ? chunk->first : s->chunks * CHUNK;
		block = block_at(s, slot);
		words = block ? page_at(block, slot) : NULL;
		backed = words && *words;
		if (entries && words && (backed || page)) {
			if (!backed)
				swap(*(void **)words, page);
			(*users_at(block, slot))++;
			if (!chunk)
				chunk = chunk_at(s, s->chunks++);
			chunk->entries = entries;
			chunk->words = *words + slot % WORDS;
			chunk->free = chunk_mask(s, chunk);
			list_move(&chunk->link, &s->avail);
			entries = NULL;
			break;
		}
		spin_unlock_bh(lock);

		err = -ENOMEM;
		if (!block_of(s, slot))
			goto free;
		if (!entries)
			entries = kcalloc(CHUNK, sizeof(*entries), TWHEEL_GFP);
		if (!page && !backed)
			page = (void *)get_zeroed_page(TWHEEL_GFP);
		if (!entries || !(page || backed))
			goto free;
		err = 0;
	}
	spin_unlock_bh(lock);
free:
	free_page((unsigned long)page);
	kfree(entries);
	return err;
}

/**
 * twheel_slots_bytes() - the size of the mapping
 * @s: the slots
 *
 * Return: bytes, whole pages.
 */
u64 twheel_slots_bytes(const struct twheel_slots *s)
{
	return PAGE_SIZE + PAGE_ALIGN((u64)s->max * sizeof(struct twheel_slot));
}

/**
 * twheel_slots_page() - a page of the mapping
 * @s: the slots
 * @pgoff: which, 0 is the header
 *
 * Context: under the mutex of the wheel; may sleep.
 * Return: the page, without a reference of its own; NULL beyond the end;
 * -ENOMEM.
 */
struct page *twheel_slots_page(struct twheel_slots *s, pgoff_t pgoff)
{
	struct twheel_block *block;
	void **page;

	if (pgoff >= twheel_slots_bytes(s) >> PAGE_SHIFT)
		return NULL;
	if (pgoff) {
		u32 slot = (pgoff - 1) * WORDS;

		block = block_of(s, slot);
		if (!block)
			return ERR_PTR(-ENOMEM);
		page = (void **)page_at(block, slot);
	} else {
		page = (void **)&s->header;
	}
	if (!*page)
		*page = (void *)get_zeroed_page(TWHEEL_GFP);
	return *page ? virt_to_page(*page) : ERR_PTR(-ENOMEM);
}
