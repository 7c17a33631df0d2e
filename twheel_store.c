// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The store of the device.
 *
 *   page of the mapping     what is in it
 *   0                       header and summary
 *   1 ...                   words of 256 slots, which belong to 4 blocks of timers
 *   ...                     marks of 32,768 slots
 *
 * (with pages of 4 KiB). A page is allocated when user space accesses it, or when the wheel needs
 * room for timers. In the second case the page of their marks is allocated as well, so that user
 * space can access everything that belongs to a timer once it exists. A page stays until the wheel
 * ends, because user space may hold a mapping of it.
 *
 * The pages are in an xarray, whereas the array of blocks leads from a slot to its timer. This
 * takes 1 ns among 1,000 timers and 10 ns among 1,000,000, where an xarray takes 7 and 34 ns.
 * Timers in blocks take 2 to 9 ns each to allocate and free, while those of a kmem_cache take 38 to
 * 46 ns, and 8 bytes more for a pointer (bench/device/kunit.sh on an Intel Xeon).
 *
 * All allocations are made without a lock, because they may wait for memory of the caller's
 * cgroup. If two callers have allocated the same thing, one of them frees it again.
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

#define WORDS		((u32)(PAGE_SIZE / sizeof(struct twheel_slot)))
#define MARKS		((u32)(PAGE_SIZE * BITS_PER_BYTE))
/* As few slots as this share a block, so that a wheel with few timers takes little memory. */
#define BLOCK		64U

/* Where the pages begin in the xarray. SETUP changes their place in the mapping, but not this. */
#define FIRST_MARKS	1UL
#define FIRST_WORDS	(FIRST_MARKS + STORE_MAX / MARKS)

/* The charge for a page, and for the xarray node that it may need. */
#define PAGE_COST	(PAGE_SIZE + sizeof(struct xa_node))

static struct block *find_block(const struct store *s, u32 slot)
{
	return &container_of(s, struct pages, store)->blocks[slot / BLOCK];
}

struct timer *store_timer(const struct store *s, u32 slot)
{
	return &find_block(s, slot)->timers[slot % BLOCK];
}

struct twheel_slot *store_word(const struct store *s, u32 slot)
{
	return &find_block(s, slot)->words[slot % BLOCK];
}

u64 *store_user_data(const struct store *s, u32 slot)
{
	return &find_block(s, slot)->user_data[slot % BLOCK];
}

void store_fetch(const void *store, u32 slot, bool due)
{
	const struct block *block = find_block(store, slot);
	u32 i = slot % BLOCK;

	prefetchw(&block->timers[i]);
	if (due)
		prefetchw(&block->words[i]);
}

u64 *store_marks(const struct store *s, u32 slot)
{
	struct pages *p = container_of((struct store *)s, struct pages, store);
	u64 *marks = xa_load(&p->pages, FIRST_MARKS + slot / MARKS);

	return marks ? marks + slot % MARKS / 64 : NULL;
}

/**
 * pages_init() - make a store without any slot
 * @p: the store, zeroed. The caller sets @p->store.max and @p->bill
 * @lock: the lock of the wheel
 */
void pages_init(struct pages *p, spinlock_t *lock)
{
	p->store.lock = lock;
	xa_init_flags(&p->pages, XA_FLAGS_ACCOUNT);
	mutex_init(&p->mutex);
}

static void free_block(const struct block *block)
{
	kvfree(block->timers);
	kvfree(block->user_data);
}

/**
 * pages_free() - end all slots and timers
 * @p: the store, which nobody uses any more. If a pipe still refers to a page, the kernel frees
 *	that page later
 *
 * Context: may sleep.
 */
void pages_free(struct pages *p)
{
	unsigned long i;
	void *page;

	for (i = 0; i < p->store.room; i += BLOCK) {
		free_block(find_block(&p->store, i));
		cond_resched();
	}
	kvfree(p->blocks);
	xa_for_each(&p->pages, i, page) {
		free_page((unsigned long)page);
		cond_resched();
	}
	xa_destroy(&p->pages);
}

/* Return: page @nr, which is allocated if it is not there; or -ENOMEM or -ENOSPC. */
static void *get_page_at(struct pages *p, unsigned long nr)
{
	void *page = xa_load(&p->pages, nr), *other = XA_ERROR(-ENOMEM);
	int err;

	if (page)
		return page;
	err = quota_charge(&p->bill, PAGE_COST);
	if (err)
		return ERR_PTR(err);
	page = (void *)get_zeroed_page(STORE_GFP);
	if (page)
		other = xa_cmpxchg(&p->pages, nr, NULL, page, STORE_GFP);
	if (!other)
		return page;
	free_page((unsigned long)page);
	quota_uncharge(&p->bill, PAGE_COST);
	return xa_is_err(other) ? ERR_PTR(-ENOMEM) : other;
}

static bool is_full(const struct store *s)
{
	bool full;

	spin_lock_bh(s->lock);
	full = hlist_empty(&s->free) && s->fresh == s->room && s->fresh < s->max;
	spin_unlock_bh(s->lock);
	return full;
}

/*
 * Appends @block, unless another call has appended block @nr already. If *@blocks is not NULL, it
 * is a larger array, which replaces the present one. Return: true if the block was appended, in
 * which case *@blocks is the array that was replaced.
 */
static bool install(struct pages *p, u32 nr, const struct block *block, struct block **blocks)
{
	struct store *s = &p->store;
	bool ours;

	/* The copy takes too long to hold the lock of the wheel for it. */
	mutex_lock(&p->mutex);
	ours = s->room == nr * BLOCK;
	if (ours) {
		if (*blocks && nr)
			memcpy(*blocks, p->blocks, nr * sizeof(**blocks));
		spin_lock_bh(s->lock);
		if (*blocks)
			swap(p->blocks, *blocks);
		p->blocks[nr] = *block;
		/* Not limited to the maximum, which SETUP may change before the first timer. */
		s->room += BLOCK;
		spin_unlock_bh(s->lock);
	}
	mutex_unlock(&p->mutex);
	return ours;
}

/* Makes block @nr, unless another call is faster. Return: 0, -ENOMEM or -ENOSPC. */
static int add_block(struct pages *p, u32 nr)
{
	/* The array doubles at each power of two. */
	size_t array = nr & (nr - 1) ? 0 : max(2 * nr, 1U) * sizeof(struct block);
	size_t cost = BLOCK * (sizeof(struct timer) + sizeof(u64));
	struct block *blocks = NULL, block;
	struct twheel_slot *words;
	u32 slot = nr * BLOCK;
	void *marks;
	int err;

	marks = get_page_at(p, FIRST_MARKS + slot / MARKS);
	words = get_page_at(p, FIRST_WORDS + slot / WORDS);
	if (IS_ERR(marks) || IS_ERR(words))
		return PTR_ERR(IS_ERR(marks) ? marks : words);
	err = quota_charge(&p->bill, cost + array);
	if (err)
		return err;
	block.words = words + slot % WORDS;
	block.timers = kvcalloc(BLOCK, sizeof(*block.timers), STORE_GFP);
	block.user_data = kvcalloc(BLOCK, sizeof(*block.user_data), STORE_GFP);
	if (array)
		blocks = kvzalloc(array, STORE_GFP);
	if (!block.timers || !block.user_data || (array && !blocks))
		err = -ENOMEM;
	if (err || !install(p, nr, &block, &blocks)) {
		free_block(&block);
		quota_uncharge(&p->bill, cost + array);
	} else if (array) {
		/* The user no longer pays for the array that this one replaces. */
		quota_uncharge(&p->bill, nr * sizeof(struct block));
	}
	kvfree(blocks);
	return err;
}

/**
 * pages_grow() - make room for more timers
 * @p: the store
 *
 * Context: without the lock; may sleep.
 * Return: 0, even if there was room already, or if the maximum is reached; -ENOMEM; -ENOSPC if the
 * user has reached a limit.
 */
int pages_grow(struct pages *p)
{
	int err;

	if (!is_full(&p->store))
		return 0;
	err = add_block(p, READ_ONCE(p->store.room) / BLOCK);
	/* If another call has made room meanwhile, this one has not failed. */
	return err && is_full(&p->store) ? err : 0;
}

/* Returns the index in the xarray for page @pgoff of the mapping. */
static unsigned long page_number(const struct store *s, pgoff_t pgoff)
{
	pgoff_t marks = store_marks_offset(s->max, PAGE_SIZE) >> PAGE_SHIFT;

	if (!pgoff)
		return 0;
	return pgoff < marks ? FIRST_WORDS + pgoff - 1 : FIRST_MARKS + pgoff - marks;
}

static vm_fault_t pages_fault(struct vm_fault *vmf)
{
	struct pages *p = vmf->vma->vm_private_data;
	void *page = get_page_at(p, page_number(&p->store, vmf->pgoff));

	/* After VM_FAULT_OOM, nothing would be killed, and the access would fault for ever. */
	if (IS_ERR(page))
		return VM_FAULT_SIGBUS;
	vmf->page = virt_to_page(page);
	get_page(vmf->page);
	return 0;
}

const struct vm_operations_struct pages_vm_ops = {
	.fault	= pages_fault,
};

/**
 * pages_header() - return the header page, which the caller puts into the store
 * @p: the store, in which the page is allocated if necessary
 *
 * Context: may sleep. Return: the page, or -ENOMEM or -ENOSPC.
 */
struct twheel_table *pages_header(struct pages *p)
{
	return get_page_at(p, 0);
}
