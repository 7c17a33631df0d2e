// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The store of the module.
 *
 *   page of the mapping     what is in it            chunk
 *   0                       header and summary       the page
 *   1 ...                   words of 256 slots       the page, and their 256 timers
 *   ...                     marks of 32,768 slots    the page
 *
 * (with pages of 4 KiB). A chunk comes when user space touches its page, or when the
 * wheel needs room for timers. It stays until the wheel ends: a word that user space
 * holds a mapping of cannot move, and a timer without its word would be of no use.
 *
 * An xarray leads from a page to its chunk: from a random slot to its timer takes 7 ns among
 * 1,000 and 34 ns among 1,000,000. A flat directory takes 1 and 10 ns, but 32 KiB of each
 * wheel of 2^20 slots. Timers in chunks cost 2 to 9 ns each to allocate and free, timers of
 * a kmem_cache 38 to 46 ns, and 8 bytes for a pointer (kunit/bench.sh on an Intel Xeon).
 *
 * pages_grow(), pages_fault() and pages_header() allocate, under the mutex and without the
 * lock of the wheel. The xarray is read under RCU, so the lock is enough to read it.
 */
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#include "twheel_pages.h"

#define WORDS		((u32)(PAGE_SIZE / sizeof(struct twheel_slot)))
#define MARKS		((u32)(PAGE_SIZE * BITS_PER_BYTE))

/**
 * struct chunk - a page of the mapping
 * @page: its memory
 * @timers: of the slots whose words are there; NULL while there is no room for these
 */
struct chunk {
	void *page;
	struct timer *timers;
};

/* The chunk of a page, or NULL. */
static struct chunk *find_chunk(const struct store *s, pgoff_t pgoff)
{
	return xa_load(&container_of((struct store *)s, struct pages, store)->chunks, pgoff);
}

static struct chunk *words_chunk(const struct store *s, u32 slot)
{
	return find_chunk(s, 1 + slot / WORDS);
}

static pgoff_t first_marks(const struct store *s)
{
	return store_marks_offset(s->max, PAGE_SIZE) >> PAGE_SHIFT;
}

struct timer *store_timer(const struct store *s, u32 slot)
{
	return &words_chunk(s, slot)->timers[slot % WORDS];
}

struct twheel_slot *store_word(const struct store *s, u32 slot)
{
	struct twheel_slot *words = words_chunk(s, slot)->page;

	return &words[slot % WORDS];
}

u64 *store_marks(const struct store *s, u32 slot)
{
	struct chunk *chunk = find_chunk(s, first_marks(s) + slot / MARKS);

	return chunk ? (u64 *)chunk->page + slot % MARKS / 64 : NULL;
}

/**
 * pages_init() - make a store without any slot
 * @p: the store, zeroed. The caller sets @p->store.max
 * @lock: the lock of the wheel
 */
void pages_init(struct pages *p, spinlock_t *lock)
{
	p->store.lock = lock;
	xa_init_flags(&p->chunks, XA_FLAGS_ACCOUNT);
	mutex_init(&p->mutex);
}

static void free_chunk(struct chunk *chunk)
{
	if (!chunk)
		return;
	free_page((unsigned long)chunk->page);
	kvfree(chunk->timers);
	kfree(chunk);
}

/**
 * pages_free() - end all slots and timers
 * @p: the store, which nobody uses any more. A page that user space still holds (in
 *	a pipe, say) lives until that lets go
 *
 * Context: may sleep.
 */
void pages_free(struct pages *p)
{
	struct chunk *chunk;
	unsigned long pgoff;

	xa_for_each(&p->chunks, pgoff, chunk) {
		free_chunk(chunk);
		cond_resched();
	}
	xa_destroy(&p->chunks);
}

/* The chunk of a page, made if there is none; NULL if out of memory. */
static struct chunk *get_chunk(struct pages *p, pgoff_t pgoff)
{
	struct chunk *chunk = find_chunk(&p->store, pgoff);

	lockdep_assert_held(&p->mutex);
	if (chunk)
		return chunk;
	chunk = kzalloc(sizeof(*chunk), STORE_GFP);
	if (!chunk)
		return NULL;
	chunk->page = (void *)get_zeroed_page(STORE_GFP);
	if (chunk->page && !xa_err(xa_store(&p->chunks, pgoff, chunk, STORE_GFP)))
		return chunk;
	free_chunk(chunk);
	return NULL;
}

/**
 * pages_grow() - make room for more timers
 * @p: the store
 *
 * Context: without the lock; may sleep.
 * Return: 0, also if there is room or may not be more; or -ENOMEM.
 */
int pages_grow(struct pages *p)
{
	struct store *s = &p->store;
	struct timer *timers;
	struct chunk *chunk;
	int err = 0;
	u32 room;

	mutex_lock(&p->mutex);
	spin_lock_bh(s->lock);
	room = hlist_empty(&s->free) && s->fresh == s->room ? s->room : s->max;
	spin_unlock_bh(s->lock);
	if (room == s->max)
		goto unlock;
	err = -ENOMEM;
	chunk = get_chunk(p, 1 + room / WORDS);
	if (!chunk)
		goto unlock;
	timers = kvcalloc(WORDS, sizeof(*timers), STORE_GFP);
	if (!timers)
		goto unlock;
	err = 0;
	spin_lock_bh(s->lock);
	chunk->timers = timers;
	s->room = min(room + WORDS, s->max);
	spin_unlock_bh(s->lock);
unlock:
	mutex_unlock(&p->mutex);
	return err;
}

static vm_fault_t pages_fault(struct vm_fault *vmf)
{
	struct pages *p = vmf->vma->vm_private_data;
	struct chunk *chunk = NULL;

	mutex_lock(&p->mutex);
	if (vmf->pgoff < store_bytes(p->store.max, PAGE_SIZE) >> PAGE_SHIFT)
		chunk = get_chunk(p, vmf->pgoff);
	mutex_unlock(&p->mutex);
	/* Not VM_FAULT_OOM: nothing would be killed, and it would fault for ever. */
	if (!chunk)
		return VM_FAULT_SIGBUS;
	vmf->page = virt_to_page(chunk->page);
	get_page(vmf->page);
	return 0;
}

const struct vm_operations_struct pages_vm_ops = {
	.fault	= pages_fault,
};

/**
 * pages_header() - have the header page
 * @p: the store
 *
 * Context: may sleep. Return: the header, which the caller puts into the store when it
 * is filled in; NULL if out of memory.
 */
struct twheel_table *pages_header(struct pages *p)
{
	struct chunk *chunk;

	mutex_lock(&p->mutex);
	chunk = get_chunk(p, 0);
	mutex_unlock(&p->mutex);
	return chunk ? chunk->page : NULL;
}
