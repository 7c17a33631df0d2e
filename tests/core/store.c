// SPDX-License-Identifier: GPL-2.0
/* The store of the fuzzers and the race; see store.h. */
#include <assert.h>
#include <stdlib.h>

#include <linux/list.h>
#include <linux/minmax.h>

#include "store.h"

static struct flat *flat_of(const struct store *s)
{
	return container_of(s, struct flat, store);
}

struct timer *store_timer(const struct store *s, u32 slot)
{
	assert(slot < s->room);
	return &flat_of(s)->timers[slot];
}

struct twheel_slot *store_word(const struct store *s, u32 slot)
{
	assert(slot < s->room);
	return &flat_of(s)->words[slot];
}

u64 *store_user_data(const struct store *s, u32 slot)
{
	assert(slot < s->room);
	return &flat_of(s)->user_data[slot];
}

/* A visit prefetches only slots that have had a timer. */
void store_fetch(const void *store, u32 slot, bool due)
{
	assert(slot < ((const struct store *)store)->fresh);
}

u64 *store_marks(const struct store *s, u32 slot)
{
	struct flat *f = flat_of(s);

	assert(slot < s->max && slot % STORE_LINE == 0);
	return f->touched[slot / STORE_LINE / FLAT_LINES] ? f->marks + slot / 64 : NULL;
}

static void *zalloc(size_t nr, size_t size)
{
	void *mem = calloc(nr, size);

	if (!mem)
		abort();
	return mem;
}

/* Initializes a store for @max slots, without room for any. */
void flat_init(struct flat *f, u32 max)
{
	u32 lines = (max + STORE_LINE - 1) / STORE_LINE;

	*f = (struct flat) { .store.max = max };
	f->timers = zalloc(max, sizeof(*f->timers));
	f->words = zalloc(max, sizeof(*f->words));
	f->user_data = zalloc(max, sizeof(*f->user_data));
	f->marks = zalloc(lines, STORE_LINE / 8);
	f->touched = zalloc(lines / FLAT_LINES + 1, sizeof(*f->touched));
	f->header = zalloc(1, FLAT_PAGE);
}

/* Makes room for @more timers, or for as many as are allowed. */
void flat_grow(struct flat *f, u32 more)
{
	f->store.room = min(f->store.room + more, f->store.max);
}

/* Touches the marks of @slot for user space. Returns the __u64 that contains its mark. */
u64 *flat_touch(struct flat *f, u32 slot)
{
	f->touched[slot / STORE_LINE / FLAT_LINES] = true;
	return f->marks + slot / 64;
}

void flat_free(struct flat *f)
{
	free(f->timers);
	free(f->words);
	free(f->user_data);
	free(f->marks);
	free(f->touched);
	free(f->header);
}
