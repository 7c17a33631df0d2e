// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdlib.h>

#include <linux/minmax.h>

#include "store.h"

/* Slots of a step: few, so that steps are met, and no divisor of what else counts. */
#define STEP	48U
#define HEADER	4096U

struct core_store {
	struct store store;
	struct timer *timers;
	struct twheel_slot *words;
	u64 *marks;
	void *table;
};

unsigned long memory_left = ~0UL;

static struct core_store *of(const struct store *s)
{
	return container_of(s, struct core_store, store);
}

struct timer *store_timer(const struct store *s, u32 slot)
{
	return &of(s)->timers[slot];
}

struct twheel_slot *store_word(const struct store *s, u32 slot)
{
	return &of(s)->words[slot];
}

u64 *store_marks(const struct store *s, u32 slot)
{
	return of(s)->marks + slot / 64;
}

static void *zalloc(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		abort();
	return p;
}

struct store *core_store_make(u32 max, bool mapped)
{
	struct core_store *c = zalloc(sizeof(*c));

	c->store.max = max;
	c->timers = zalloc(max * sizeof(*c->timers));
	c->words = zalloc(max * sizeof(*c->words));
	c->marks = zalloc((max / STORE_LINE + 1) * STORE_LINE / 8);
	c->table = zalloc(HEADER);
	if (mapped) {
		c->store.table = c->table;
		c->store.table->next_ns = WHEEL_NEVER;
	}
	return &c->store;
}

void core_store_free(struct store *s)
{
	struct core_store *c = of(s);

	free(c->timers);
	free(c->words);
	free(c->marks);
	free(c->table);
	free(c);
}

int core_store_grow(struct store *s)
{
	if (!hlist_empty(&s->free) || s->fresh < s->room || s->room == s->max)
		return 0;
	if (!memory_left)
		return -ENOMEM;
	if (memory_left != ~0UL)
		memory_left--;
	s->room = min(s->room + STEP, s->max);
	return 0;
}
