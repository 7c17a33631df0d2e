// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The store of the module.
 *
 *   page of the mapping     what is in it
 *   0                       header and summary
 *   1 ...                   words of 256 slots; their timers are in the same block
 *   ...                     marks of 32,768 slots
 *
 * (with pages of 4 KiB). A page comes when user space touches it, or when the wheel
 * needs room for timers. It stays until the wheel ends, because user space may hold a
 * mapping of it.
 *
 * An xarray holds the pages. Each look goes from a slot to its timer by the array of
 * blocks: 1 ns among 1,000 timers, 10 ns among 1,000,000. By an xarray it takes 7 and
 * 34 ns. Timers in blocks cost 2 to 9 ns each to allocate and free. Timers of a kmem_cache
 * cost 38 to 46 ns, and 8 bytes for a pointer (bench/device/kunit.sh on an Intel Xeon).
 *
 * pages_grow(), pages_fault() and pages_header() allocate, under the mutex and without
 * the lock of the wheel.
 */
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/prefetch.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#include "twheel_pages.h"
#include "twheel_quota.h"

#define WORDS		((u32)(PAGE_SIZE / sizeof(struct twheel_slot)))
#define MARKS		((u32)(PAGE_SIZE * BITS_PER_BYTE))

static struct block *find_block(const struct store *s, u32 slot)
{
	return &container_of(s, struct pages, store)->blocks[slot / WORDS];
}

struct timer *store_timer(const struct store *s, u32 slot)
{
	return &find_block(s, slot)->timers[slot % WORDS];
}

struct twheel_slot *store_word(const struct store *s, u32 slot)
{
	return &find_block(s, slot)->words[slot % WORDS];
}

u64 *store_user_data(const struct store *s, u32 slot)
{
	return &find_block(s, slot)->user_data[slot % WORDS];
}

void store_fetch(const void *store, u32 slot, bool due)
{
	const struct block *block = find_block(store, slot);
	u32 i = slot % WORDS;

	prefetchw(&block->timers[i]);
	if (due)
		prefetchw(&block->words[i]);
}

u64 *store_marks(const struct store *s, u32 slot)
{
	struct pages *p = container_of((struct store *)s, struct pages, store);
	pgoff_t first = store_marks_offset(s->max, PAGE_SIZE) >> PAGE_SHIFT;
	u64 *marks = xa_load(&p->pages, first + slot / MARKS);

	return marks ? marks + slot % MARKS / 64 : NULL;
}

/**
 * pages_init() - make a store without any slot
 * @p: the store, zeroed. The caller sets @p->store.max
 * @lock: the lock of the wheel
 */
void pages_init(struct pages *p, spinlock_t *lock)
{
	p->store.lock = lock;
	xa_init_flags(&p->pages, XA_FLAGS_ACCOUNT);
	mutex_init(&p->mutex);
}

/* Two blocks share a page: each needs half of one. */
static bool owns_user_data(u32 nr)
{
	return nr % 2 == 0;
}

/* The user_data of block @nr, zeroed; NULL if out of memory. */
static u64 *get_user_data(struct pages *p, u32 nr)
{
	lockdep_assert_held(&p->mutex);
	if (owns_user_data(nr))
		return (u64 *)get_zeroed_page(STORE_GFP);
	return p->blocks[nr - 1].user_data + WORDS;
}

/**
 * pages_free() - end all slots and timers
 * @p: the store, which nobody uses any more. Pages that a pipe holds stay for that
 *
 * Context: may sleep.
 */
void pages_free(struct pages *p)
{
	unsigned long i;
	void *page;

	quota_uncharge(p->quota, p->store.room);
	for (i = 0; i < p->store.room; i += WORDS) {
		kvfree(find_block(&p->store, i)->timers);
		if (owns_user_data(i / WORDS))
			free_page((unsigned long)find_block(&p->store, i)->user_data);
		cond_resched();
	}
	kvfree(p->blocks);
	xa_for_each(&p->pages, i, page) {
		free_page((unsigned long)page);
		cond_resched();
	}
	xa_destroy(&p->pages);
}

/* Page @pgoff of the mapping, made if there is none; NULL if out of memory. */
static void *get_page_at(struct pages *p, pgoff_t pgoff)
{
	void *page = xa_load(&p->pages, pgoff);

	lockdep_assert_held(&p->mutex);
	if (page)
		return page;
	page = (void *)get_zeroed_page(STORE_GFP);
	if (page && !xa_err(xa_store(&p->pages, pgoff, page, STORE_GFP)))
		return page;
	free_page((unsigned long)page);
	return NULL;
}

/* Makes room for block @nr. Return: 0 or -ENOMEM. */
static int grow_blocks(struct pages *p, u32 nr)
{
	struct block *blocks;

	/* The array doubles at each power of two. */
	if (nr & (nr - 1))
		return 0;
	blocks = kvcalloc(max(2 * nr, 1U), sizeof(*blocks), STORE_GFP);
	if (!blocks)
		return -ENOMEM;
	/* pages_grow() alone writes there, under the mutex: the copy needs no lock. */
	if (nr)
		memcpy(blocks, p->blocks, nr * sizeof(*blocks));
	spin_lock_bh(p->store.lock);
	swap(p->blocks, blocks);
	spin_unlock_bh(p->store.lock);
	kvfree(blocks);
	return 0;
}

/**
 * pages_grow() - make room for more timers
 * @p: the store
 *
 * Context: without the lock; may sleep.
 * Return: 0, also if there is room or may not be more; or -ENOMEM; or -ENOSPC if the user
 * may not have more.
 */
int pages_grow(struct pages *p)
{
	struct store *s = &p->store;
	struct block block;
	int err = 0;
	bool full;
	u32 room;

	mutex_lock(&p->mutex);
	spin_lock_bh(s->lock);
	room = s->room;
	full = hlist_empty(&s->free) && s->fresh == room && s->fresh < s->max;
	spin_unlock_bh(s->lock);
	if (!full)
		goto unlock;
	err = quota_charge(p->quota, WORDS);
	if (err)
		goto unlock;
	err = -ENOMEM;
	block.words = get_page_at(p, 1 + room / WORDS);
	if (!block.words || grow_blocks(p, room / WORDS))
		goto uncharge;
	block.timers = kvcalloc(WORDS, sizeof(*block.timers), STORE_GFP);
	if (!block.timers)
		goto uncharge;
	block.user_data = get_user_data(p, room / WORDS);
	if (!block.user_data)
		goto free_timers;
	spin_lock_bh(s->lock);
	*find_block(s, room) = block;
	/* Whole blocks: until there is a timer, a SETUP may still change the maximum. */
	s->room = room + WORDS;
	spin_unlock_bh(s->lock);
	mutex_unlock(&p->mutex);
	return 0;

free_timers:
	kvfree(block.timers);
uncharge:
	quota_uncharge(p->quota, WORDS);
unlock:
	mutex_unlock(&p->mutex);
	return err;
}

static vm_fault_t pages_fault(struct vm_fault *vmf)
{
	struct pages *p = vmf->vma->vm_private_data;
	void *page = NULL;

	mutex_lock(&p->mutex);
	if (vmf->pgoff < store_bytes(p->store.max, PAGE_SIZE) >> PAGE_SHIFT)
		page = get_page_at(p, vmf->pgoff);
	mutex_unlock(&p->mutex);
	/* Not VM_FAULT_OOM: nothing would be killed, and it would fault for ever. */
	if (!page)
		return VM_FAULT_SIGBUS;
	vmf->page = virt_to_page(page);
	get_page(vmf->page);
	return 0;
}

const struct vm_operations_struct pages_vm_ops = {
	.fault	= pages_fault,
};

/**
 * pages_header() - have the header page, which the caller puts into the store
 * @p: the store
 *
 * Context: may sleep. Return: NULL if out of memory.
 */
struct twheel_table *pages_header(struct pages *p)
{
	void *page;

	mutex_lock(&p->mutex);
	page = get_page_at(p, 0);
	mutex_unlock(&p->mutex);
	return page;
}
