// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Where the in-process wheel keeps its timers, their words and their marks: what twheel_store.c
 * is in the module.
 */
#include "inprocess.h"

#include <linux/prefetch.h>

static struct inprocess *of_store(const struct store *s)
{
	return container_of(s, struct inprocess, store);
}

struct timer *store_timer(const struct store *s, u32 slot)
{
	return (struct timer *)of_store(s)->entries.base + slot;
}

struct twheel_slot *store_word(const struct store *s, u32 slot)
{
	return (struct twheel_slot *)of_store(s)->words.base + slot;
}

u64 *store_user_data(const struct store *s, u32 slot)
{
	/* A read of the event comes there anyway: it is one miss of the cache less. */
	return (u64 *)&((struct shadow *)of_store(s)->shadow->base)[slot].user_data;
}

void store_fetch(const void *store, u32 slot, bool due)
{
	prefetchw(store_timer(store, slot));
	if (due)
		prefetchw(store_word(store, slot));
}

u64 *store_marks(const struct store *s, u32 slot)
{
	return (u64 *)of_store(s)->marks.base + slot / 64;
}
