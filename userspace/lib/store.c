// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The store in which the in-process wheel keeps its timers, their words and their marks. It
 * replaces twheel_store.c of the module.
 */
#include "store.h"

#include <stdlib.h>

#include <linux/minmax.h>
#include <linux/prefetch.h>

static struct arena_store *of_store(const struct store *s)
{
	return container_of(s, struct arena_store, store);
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
	/* A read touches the shadow anyway, so this saves a cache miss. */
	return (u64 *)&((struct shadow *)of_store(s)->shadow->base)[slot].user_data;
}

void store_fetch(const void *store, u32 slot, bool due)
{
	prefetchw(store_timer(store, slot));
	if (due) {
		prefetchw(store_word(store, slot));
		/* The user_data of its event is in the shadow. */
		prefetchw(store_user_data(store, slot));
	}
}

u64 *store_marks(const struct store *s, u32 slot)
{
	return (u64 *)of_store(s)->marks.base + slot / 64;
}

/* Reserves room for @max timers. Return: 0 or -ENOMEM. */
int twheel__store_init(struct arena_store *s, uint32_t max, struct arena *shadow)
{
	s->store.max = max;
	s->shadow = shadow;
	s->store.table = calloc(1, STORE_HEADER);
	if (!s->store.table ||
	    twheel__arena_init(&s->entries, (size_t)max * sizeof(struct timer)) ||
	    twheel__arena_init(&s->words, (size_t)max * sizeof(struct twheel_slot)) ||
	    twheel__arena_init(&s->marks, max / 8 + STORE_LINE / 8))
		return -ENOMEM;
	return 0;
}

/* Grows the room by half. Return: 0 or -ENOMEM. */
int twheel__store_grow(struct arena_store *s)
{
	u64 room = min((u64)s->store.max, s->store.room + s->store.room / 2 + 1024ULL);
	u64 lines = (room + STORE_LINE - 1) & ~(u64)(STORE_LINE - 1);

	if (twheel__arena_grow(&s->entries, room * sizeof(struct timer)) ||
	    twheel__arena_grow(&s->words, room * sizeof(struct twheel_slot)) ||
	    twheel__arena_grow(s->shadow, room * sizeof(struct shadow)) ||
	    twheel__arena_grow(&s->marks, lines / 8))
		return -ENOMEM;
	s->store.room = room;
	return 0;
}

void twheel__store_free(struct arena_store *s)
{
	twheel__arena_free(&s->entries);
	twheel__arena_free(&s->words);
	twheel__arena_free(&s->marks);
	free(s->store.table);
}
