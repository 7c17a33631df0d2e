/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The store of the device: pages that user space maps, and the timers that belong to them. */
#ifndef _TWHEEL_PAGES_H
#define _TWHEEL_PAGES_H

#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/xarray.h>

#include "twheel_quota.h"
#include "twheel_store.h"

/* If memory runs out, even that of the cgroup alone, the call fails and nobody is killed. */
#define STORE_GFP		(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)
/*
 * For open, whose caller holds the mutex of the misc devices, so that an allocation must not wait.
 * It is charged even beyond the limit of the cgroup, which has to free as much before it gets more
 * memory.
 */
#define NOWAIT_GFP		(GFP_ATOMIC | __GFP_ACCOUNT | __GFP_NOWARN)

/**
 * struct block - some adjacent slots
 * @words: their words, in a page of the mapping
 * @timers: the timers of these slots
 * @user_data: the user_data of these slots
 */
struct block {
	struct twheel_slot *words;
	struct timer *timers;
	u64 *user_data;
};

/**
 * struct pages - the store of a wheel of the device
 * @store: the part that all stores have in common
 * @blocks: the blocks, in the order of their slots. Changed under the lock of the wheel
 * @pages: the pages of the mapping
 * @bill: the memory that is charged to the user for this wheel
 * @mutex: held while @blocks is replaced. No memory is allocated under it
 */
struct pages {
	struct store store;
	struct block *blocks;
	struct xarray pages;
	struct bill bill;
	/* Serializes what replaces @blocks. */
	struct mutex mutex;
};

void pages_init(struct pages *p, spinlock_t *lock);
void pages_free(struct pages *p);
int pages_grow(struct pages *p);
struct twheel_table *pages_header(struct pages *p);

/* Handles the page faults of a mapping, whose vm_private_data is the store. */
extern const struct vm_operations_struct pages_vm_ops;

#endif /* _TWHEEL_PAGES_H */
