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
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "twheel_slots.h"

static_assert(TWHEEL_BLOCK_PAGES >= 1);

static void assert_mutex(const struct twheel_slots *s)
{
	lockdep_assert(!s->mutex || lockdep_is_held(s->mutex));
}

/* How many chunks use the page of @slot in its block. */
static unsigned int *users_at(struct twheel_block *block, u32 slot)
{
	return &block->users[slot % TWHEEL_BLOCK / TWHEEL_WORDS];
}

static size_t nr_blocks(const struct twheel_slots *s)
{
	return DIV_ROUND_UP(s->max, TWHEEL_BLOCK);
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
		for (i = 0; i < TWHEEL_CHUNKS; i++)
			kfree(block->chunk[i].entries);
		for (i = 0; i < TWHEEL_BLOCK_PAGES; i++)
			free_page((unsigned long)block->words[i]);
		kfree(block);
		cond_resched();
	}
	twheel_slots_dispose(&s->garbage);
	free_page((unsigned long)s->header);
	kvfree(s->dir);
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

	twheel_slots_assert_held(s);
	if (nr >= s->chunks)
		return 0;
	chunk = twheel_chunk_at(s, array_index_nospec(nr, s->chunks));
	*entries = chunk->entries;
	return chunk->live;
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
 * twheel_slots_empty() - a chunk has no timer any more
 * @s: the slots
 * @chunk: the chunk
 *
 * The first %TWHEEL_SPARES of them keep their memory for the next timers, another
 * gives it back; but not here, under the lock: the page allocator may have 2,000
 * pages to tidy up, of others too.
 */
void twheel_slots_empty(struct twheel_slots *s, struct twheel_chunk *chunk)
{
	struct twheel_slot **words;

	twheel_slots_assert_held(s);
	if (s->spares < TWHEEL_SPARES) {
		s->spares++;
		return;
	}
	discard(&s->garbage.entries, chunk->entries);
	chunk->entries = NULL;
	list_move(&chunk->link, &s->holes);
	words = twheel_page_at(twheel_block_at(s, chunk->first), chunk->first);
	if (!--*users_at(twheel_block_at(s, chunk->first), chunk->first) && !s->mapped) {
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
	u32 first = round_down(slot, TWHEEL_BLOCK);
	struct twheel_block *block = twheel_block_at(s, slot);
	unsigned int i;

	assert_mutex(s);
	if (block)
		return block;
	block = kzalloc(sizeof(*block), TWHEEL_GFP);
	if (!block)
		return NULL;
	for (i = 0; i < TWHEEL_CHUNKS; i++) {
		struct twheel_chunk *chunk = &block->chunk[i];

		INIT_LIST_HEAD(&chunk->link);
		chunk->first = first + i * TWHEEL_CHUNK;
		if (chunk->first < s->max)
			chunk->exist = U64_MAX >> (TWHEEL_CHUNK -
						   min(s->max - chunk->first, TWHEEL_CHUNK));
	}
	s->dir[slot / TWHEEL_BLOCK] = block;
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

	assert_mutex(s);
	for (;;) {
		spin_lock_bh(lock);
		if (!list_empty(&s->avail) || s->used == s->max)
			break;
		/* Only here do holes get fewer and chunks more. */
		chunk = list_first_entry_or_null(&s->holes, struct twheel_chunk, link);
		slot = chunk ? chunk->first : s->chunks * TWHEEL_CHUNK;
		block = twheel_block_at(s, slot);
		words = block ? twheel_page_at(block, slot) : NULL;
		backed = words && *words;
		if (entries && words && (backed || page)) {
			if (!backed)
				swap(*(void **)words, page);
			(*users_at(block, slot))++;
			if (!chunk)
				chunk = twheel_chunk_at(s, s->chunks++);
			chunk->entries = entries;
			s->spares++;
			list_move(&chunk->link, &s->avail);
			entries = NULL;
			break;
		}
		spin_unlock_bh(lock);

		err = -ENOMEM;
		if (!block_of(s, slot))
			goto free;
		if (!entries)
			entries = kcalloc(TWHEEL_CHUNK, sizeof(*entries), TWHEEL_GFP);
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
	pgoff_t pages = twheel_slots_bytes(s) >> PAGE_SHIFT;
	struct twheel_block *block;
	void **page;

	assert_mutex(s);
	if (pgoff >= pages)
		return NULL;
	pgoff = array_index_nospec(pgoff, pages);
	if (pgoff) {
		u32 slot = (pgoff - 1) * TWHEEL_WORDS;

		block = block_of(s, slot);
		if (!block)
			return ERR_PTR(-ENOMEM);
		page = (void **)twheel_page_at(block, slot);
	} else {
		page = (void **)&s->header;
	}
	if (!*page)
		*page = (void *)get_zeroed_page(TWHEEL_GFP);
	if (!*page)
		return ERR_PTR(-ENOMEM);
	return virt_to_page(*page);
}
