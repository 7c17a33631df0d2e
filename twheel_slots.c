// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The slots of a store: which have a timer, and which slot a new timer gets.
 */
#include <linux/errno.h>
#include <linux/list.h>
#include <linux/nospec.h>
#include <linux/prefetch.h>

#include "twheel_store.h"

/**
 * store_at() - the live timer in a slot, or NULL
 * @s: the store
 * @slot: any number; user space may have given it
 */
struct timer *store_at(const struct store *s, u32 slot)
{
	struct timer *e;

	store_assert_held(s);
	if (slot >= s->fresh)
		return NULL;
	e = store_timer(s, array_index_nospec(slot, s->fresh));
	return e->place == TIMER_FREE ? NULL : e;
}

/**
 * store_prefetch() - prefetch everything that an operation reads of a slot
 * @s: the store
 * @slot: any number; user space may have given it
 *
 * Return: the timer, which may be free; NULL if the slot never had one.
 */
struct timer *store_prefetch(const struct store *s, u32 slot)
{
	store_assert_held(s);
	if (slot >= s->fresh)
		return NULL;
	slot = array_index_nospec(slot, s->fresh);
	prefetch(store_user_data(s, slot));
	store_fetch(s, slot, true);
	return store_timer(s, slot);
}

/**
 * store_find() - the live timer with an id, or NULL
 * @s: the store
 * @id: any number
 */
struct timer *store_find(const struct store *s, u64 id)
{
	struct timer *e = store_at(s, (u32)id);

	return e && e->gen == id >> 32 ? e : NULL;
}

/**
 * store_peek() - find out the id of the timer that store_get() makes next
 * @s: the store
 * @id: out: the id
 *
 * Return: 0; -ENOSPC if the maximum number of timers is reached; -EAGAIN if the store needs more
 * room first.
 */
int store_peek(const struct store *s, u64 *id)
{
	u32 slot = s->fresh;

	store_assert_held(s);
	if (s->used == s->max)
		return -ENOSPC;
	if (!hlist_empty(&s->free))
		slot = hlist_entry(s->free.first, struct timer, node.link)->slot;
	else if (s->fresh == s->room)
		return -EAGAIN;
	*id = (u64)(s->gen + 1 ?: 1) << 32 | slot;
	return 0;
}

/**
 * store_get() - make the timer whose id store_peek() has returned
 * @s: the store
 *
 * Return: the timer, which is idle, and whose other members the caller has to set.
 */
struct timer *store_get(struct store *s)
{
	struct timer *e;

	store_assert_held(s);
	if (!hlist_empty(&s->free)) {
		e = hlist_entry(s->free.first, struct timer, node.link);
		__hlist_del(&e->node.link);
	} else {
		e = store_timer(s, s->fresh);
		e->slot = s->fresh++;
	}
	if (!++s->gen)
		s->gen = 1;
	e->gen = s->gen;
	e->flags = 0;
	e->place = TIMER_IDLE;
	e->past = false;
	s->used++;
	return e;
}

/**
 * store_put() - end a timer
 * @s: the store
 * @e: the timer, in no list
 */
void store_put(struct store *s, struct timer *e)
{
	store_assert_held(s);
	e->place = TIMER_FREE;
	hlist_add_head(&e->node.link, &s->free);
	s->used--;
}
