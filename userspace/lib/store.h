/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* Where the in-process wheel keeps its timers. */
#ifndef LIBTWHEEL_STORE_H
#define LIBTWHEEL_STORE_H

#include "internal.h"

#include "twheel_timers.h"

/* The header page of the table, as it would be mapped. */
#define STORE_HEADER	4096U

/**
 * struct arena_store - a store whose slots grow in place
 * @store: which slots have a timer; the members that follow have a place for each
 * @entries: the timers
 * @words: their words
 * @shadow: cold.shadow, which has the user_data
 * @marks: a bit each
 */
struct arena_store {
	struct store store;
	struct arena entries;
	struct arena words;
	struct arena *shadow;
	struct arena marks;
};

int twheel__store_init(struct arena_store *s, uint32_t max, struct arena *shadow);
int twheel__store_grow(struct arena_store *s);
void twheel__store_free(struct arena_store *s);

#endif /* LIBTWHEEL_STORE_H */
