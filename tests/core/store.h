/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A small store for the fuzzers and the race: flat arrays that grow in steps, so that a wheel
 * runs out of room.
 */
#ifndef _CORE_STORE_H
#define _CORE_STORE_H

#include "twheel_store.h"

/* The header page, and the number of lines whose marks user space touches together. */
#define FLAT_PAGE	4096U
#define FLAT_LINES	2U

/**
 * struct flat - a store
 * @store: what is common to all stores
 * @timers: a timer for each slot
 * @words: a word for each slot
 * @user_data: a user_data for each slot
 * @marks: a bit for each slot
 * @touched: true if user space has touched the marks, for each FLAT_LINES lines
 * @header: the header page
 */
struct flat {
	struct store store;
	struct timer *timers;
	struct twheel_slot *words;
	u64 *user_data;
	u64 *marks;
	bool *touched;
	void *header;
};

void flat_init(struct flat *f, u32 max);
void flat_grow(struct flat *f, u32 more);
u64 *flat_touch(struct flat *f, u32 slot);
void flat_free(struct flat *f);

#endif /* _CORE_STORE_H */
