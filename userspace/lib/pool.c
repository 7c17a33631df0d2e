// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The pool of a wheel: the free slots of this process that are in no thread's cache.
 *
 * New slots are made 64 at a time, when the pool is empty. Slots come back to the pool when a
 * cache overflows, or when its thread ends.
 */
#include "internal.h"

#include <stdlib.h>

/*
 * Moves slots from a cache to the pool until @keep are left. The pool has room for all slots of
 * this process: see reserve().
 */
void twheel__spill(struct twheel *w, struct cache *cache, uint32_t keep)
{
	struct cold *cold = w->cold;

	take_lock(&cold->pool_lock);
	while (cache->nr > keep)
		cold->pool[cold->nr_pool++] = cache->slots[--cache->nr];
	drop_lock(&cold->pool_lock);
}

/* Makes room in pool and shadow for slots up to @last. The caller holds pool_lock. */
static int reserve(struct twheel *w, uint32_t last)
{
	struct cold *cold = w->cold;
	uint32_t room = last + 1 + REFILL;
	uint32_t *pool;
	int err;

	/* The in-process wheel has shadows for all its slots. */
	if (!cold->inprocess) {
		err = twheel__arena_grow(&cold->shadow,
					 ((size_t)last + 1) * sizeof(struct shadow));
		if (err)
			return err;
	}
	if (cold->pool_room < room) {
		pool = realloc(cold->pool, 2 * (size_t)room * sizeof(*pool));
		if (!pool)
			return -ENOMEM;
		cold->pool = pool;
		cold->pool_room = 2 * room;
	}
	if (w->nr_shadows <= last)
		__atomic_store_n(&w->nr_shadows, last + 1, __ATOMIC_RELEASE);
	return 0;
}

/* In this order, so that a reader without the lock finds the right kernel_id for a live id. */
static void forget(struct shadow *shadow)
{
	__atomic_store_n(&shadow->id, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&shadow->kernel_id, 0, __ATOMIC_RELEASE);
}

/*
 * Called when the wheel turns out to have no timer @kernel_id any more. If its slot has been used
 * again in the meantime, the shadow belongs to the new timer and stays.
 */
void twheel__lose(struct twheel *w, struct shadow *shadow, uint64_t kernel_id)
{
	take_lock(&w->cold->pool_lock);
	if (load64(&shadow->kernel_id) == kernel_id)
		forget(shadow);
	drop_lock(&w->cold->pool_lock);
}

/*
 * Called when the wheel has made the timer @kernel_id. If twheel_add() used the same slot before,
 * another process has canceled that timer, whose id is stale from now on.
 */
void twheel__forget_slot(struct twheel *w, uint64_t kernel_id)
{
	struct shadow *shadow = find_shadow(w, kernel_id);

	if (unlikely(shadow && load64(&shadow->kernel_id) != kernel_id))
		forget(shadow);
}

/* Makes slots and puts them into the pool. The caller holds pool_lock. */
static int make_slots(struct twheel *w)
{
	struct twheel_op ops[REFILL] = {};
	struct cold *cold = w->cold;
	unsigned int i, made = 0;
	uint32_t last = 0;
	int done, err = 0;

	for (i = 0; i < REFILL; i++) {
		ops[i].opcode = TWHEEL_OP_REGISTER;
		ops[i].timer.flags = TWHEEL_KEEP | TWHEEL_DISARMED;
		ops[i].timer.slack_ns = cold->slack_ns;
	}
	count(&cold->usage.refills);
	done = cold->backend->exec(w, ops, REFILL);
	if (done < 0)
		return done;
	for (i = 0; i < (unsigned int)done; i++) {
		if (ops[i].result) {
			err = err ? err : ops[i].result;
			continue;
		}
		ops[made++] = ops[i];
		if ((uint32_t)ops[i].timer.id > last)
			last = ops[i].timer.id;
	}
	if (!made)
		return err ? err : -ENOMEM;
	err = reserve(w, last);
	if (err) {
		for (i = 0; i < made; i++)
			ops[i].opcode = TWHEEL_OP_CANCEL;
		cold->backend->exec(w, ops, made);
		return err;
	}
	/* The lowest slot goes last, because a thread takes the last one first. */
	while (made--) {
		uint32_t slot = ops[made].timer.id;

		twheel__forget_slot(w, ops[made].timer.id);
		__atomic_store_n(&w->shadow[slot].custom, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&w->shadow[slot].kernel_id, ops[made].timer.id,
				 __ATOMIC_RELAXED);
		cold->pool[cold->nr_pool++] = slot;
	}
	return 0;
}

/* Fills an empty cache. Return: 0 or a negative errno. */
int twheel__refill(struct twheel *w, struct cache *cache)
{
	struct cold *cold = w->cold;
	uint32_t nr;
	int err = 0;

	take_lock(&cold->pool_lock);
	if (!cold->nr_pool)
		err = make_slots(w);
	if (!err) {
		nr = cold->nr_pool < REFILL ? cold->nr_pool : REFILL;
		/* In the same order, so that the last slot of the pool is still used first. */
		cold->nr_pool -= nr;
		for (cache->nr = 0; cache->nr < nr; cache->nr++)
			cache->slots[cache->nr] = cold->pool[cold->nr_pool + cache->nr];
	}
	drop_lock(&cold->pool_lock);
	return err;
}
