/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* Where the in-process wheel keeps its timers. */
#ifndef LIBTWHEEL_STORE_H
#define LIBTWHEEL_STORE_H

#include "internal.h"

#include "twheel_timers.h"

/* Size of the header of the table, which is a page in the table of a kernel wheel. */
#define STORE_HEADER	4096U

/**
 * struct arena_store - a store whose arrays grow in place
 * @store: which slots have a timer
 * @entries: the timers, by slot
 * @words: the words, by slot
 * @shadow: cold.shadow, which contains the user_data
 * @marks: the marks, a bit for each slot
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
