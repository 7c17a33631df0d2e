// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Timeouts, in slots that are kept for the next.
 *
 * A slot is a timer that the wheel keeps for this process, idle. To start a
 * timeout takes one from those that the thread has, to stop it puts it there.
 * What is taken first is a slot that was disarmed by exchange and that the
 * wheel still is to look at: unless the new deadline is earlier than that, it
 * needs no KICK.
 *
 * The word of a free slot is 0, and nobody changes that but the thread that has
 * it. So there is nothing to learn from what was there, and a timeout is started
 * by a store. Whether it needs a KICK is asked before the thread sleeps, after
 * one full barrier for all that it has started.
 *
 *   free in a cache  --start-->  started  --stop-->  free in a cache
 *        |    ^                                          |    ^
 *      spill  refill  <-->  pool of the wheel  <-->    spill  refill
 *                                 ^
 *                          REGISTER, 64 at a time
 *
 * Why no event is handed out of an arming that was moved over or stopped:
 *
 * The owner ends an arming by exchanging the word. If the old word was not 0,
 * the wheel has not claimed it and never will. If it was 0, the wheel has, and
 * the event is unread, or on its way from the backend's read to the caller, or
 * handed out. It is on its way only under home.reading. So the owner takes
 * that: then it is handed out, which has set the shadow to 0; or it is unread,
 * and REARM withdraws it; or it was dropped, because the owner had put
 * another deadline into the shadow already. In any case none is left when the
 * lock is released, so the next arming of the slot begins without a past.
 *
 * Or another process has drained the wheel. That takes the word by exchange, too,
 * and ends the timer if there was a deadline. So it ends no free slot; and who
 * finds 0 in the word of a timeout is told by REARM that there is no timer, and
 * forgets the slot. A refill that gets it before leaves it alone until then.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/* Slots in a cache line, which threads should not share. */
#define LINE	(64 / sizeof(struct twheel_slot))

/* Without those that mean something else: 0 counts as 1, and never is never. */
static inline uint64_t real_deadline(uint64_t deadline_ns)
{
	/* 0 and the last three. */
	if (unlikely(deadline_ns - 1 >= TWHEEL_STOPPED - 1))
		deadline_ns += !deadline_ns || deadline_ns == TWHEEL_STOPPED;
	return deadline_ns;
}

static bool is_queued(const struct twheel_ctx *wheel, uint32_t slot)
{
	return __twheel_wake(__twheel_word(wheel, slot)) != TWHEEL_ASLEEP;
}

/* The first @nr of the pool, or as many as there are, go to the cache. */
static bool take_from_pool(struct twheel_ctx *wheel, struct twheel_cache *cache, unsigned int nr)
{
	struct twheel_home *home = wheel->home;

	if (nr > home->nr_pool)
		nr = home->nr_pool;
	home->nr_pool -= nr;
	for (; nr; nr--) {
		uint32_t slot = home->pool[home->nr_pool + nr - 1];

		if (is_queued(wheel, slot))
			cache->queued[cache->nr_queued++] = slot;
		else
			cache->idle[cache->nr_idle++] = slot;
	}
	return cache->nr_queued || cache->nr_idle;
}

static bool is_ours(struct twheel_shadow *shadow, uint64_t id)
{
	return twheel_load(&shadow->id) == id || shadow->next_id == id;
}

/* Leaves those ids whose slots are still ours. */
static void sift_ids(struct twheel_ctx *wheel)
{
	struct twheel_home *home = wheel->home;
	unsigned int i, kept = 0;

	for (i = 0; i < home->nr_ids; i++) {
		uint64_t id = home->ids[i];

		if (is_ours(&wheel->shadow[(uint32_t)id], id))
			home->ids[kept++] = id;
	}
	home->nr_ids = kept;
}

/* So that no slot is ever without a place, they are as large as can be needed. */
static int reserve(struct twheel_ctx *wheel, unsigned int more)
{
	struct twheel_home *home = wheel->home;
	unsigned int room = home->room ? home->room : more;
	uint64_t *ids;
	uint32_t *pool;

	if (home->nr_ids + more > home->room)
		sift_ids(wheel);
	if (home->nr_ids + more <= home->room)
		return 0;
	while (room < home->nr_ids + more)
		room *= 2;
	ids = realloc(home->ids, room * sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	home->ids = ids;
	pool = realloc(home->pool, room * sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	home->pool = pool;
	home->room = room;
	return 0;
}

static int compare_slots(const void *a, const void *b)
{
	uint32_t left = ((const struct twheel_op *)a)->timer.id;
	uint32_t right = ((const struct twheel_op *)b)->timer.id;

	return left < right ? -1 : left > right;
}

/*
 * Puts the whole cache lines among @nr sorted slots to the front. Return: how
 * many slots that are.
 */
static unsigned int whole_lines(struct twheel_op *ops, unsigned int nr)
{
	unsigned int i = 0, whole = 0, j;

	while (i < nr) {
		uint32_t slot = ops[i].timer.id;

		if (slot % LINE || i + LINE > nr ||
		    (uint32_t)ops[i + LINE - 1].timer.id != slot + LINE - 1) {
			i++;
			continue;
		}
		for (j = 0; j < LINE; j++, i++, whole++) {
			struct twheel_op op = ops[whole];

			ops[whole] = ops[i];
			ops[i] = op;
		}
	}
	return whole;
}

/*
 * A slot is ours. If a timeout is started there, that was drained, which its
 * owner is still to be told: until then the slot waits.
 */
static void add_slot(struct twheel_ctx *wheel, uint64_t id)
{
	struct twheel_shadow *shadow = &wheel->shadow[(uint32_t)id];
	struct twheel_home *home = wheel->home;

	home->ids[home->nr_ids++] = id;
	if (twheel_load(&shadow->id)) {
		twheel_store(&shadow->next_id, id);
		return;
	}
	home->pool[home->nr_pool++] = (uint32_t)id;
	twheel_store(&shadow->deadline_ns, TWHEEL_STOPPED);
	twheel_store(&shadow->id, id);
}

/* Has the wheel make slots, into the pool. Return: 0 or a negative errno. */
static int make_slots(struct twheel_ctx *wheel)
{
	struct twheel_op ops[TWHEEL_REFILL] = {};
	unsigned int nr = 0, whole, i;
	int done, err;

	err = reserve(wheel, TWHEEL_REFILL);
	if (err)
		return err;
	for (i = 0; i < TWHEEL_REFILL; i++) {
		ops[i].opcode = TWHEEL_OP_REGISTER;
		ops[i].timer.flags = TWHEEL_KEEP | TWHEEL_DISARMED;
	}
	twheel_count(&wheel->usage.refills, 1);
	done = wheel->backend->exec(wheel, ops, TWHEEL_REFILL);
	if (done < 0)
		return done;
	for (i = 0; i < (unsigned int)done; i++) {
		if (!ops[i].result)
			ops[nr++] = ops[i];
		else if (!err)
			err = ops[i].result;
	}
	if (!nr)
		return err ? err : -ENOMEM;

	/* The rest of a line would be another's; but better that than none. */
	qsort(ops, nr, sizeof(*ops), compare_slots);
	whole = whole_lines(ops, nr);
	if (whole && whole < nr) {
		for (i = whole; i < nr; i++)
			ops[i].opcode = TWHEEL_OP_CANCEL;
		twheel_count(&wheel->usage.refills, 1);
		wheel->backend->exec(wheel, ops + whole, nr - whole);
		nr = whole;
	}
	for (i = nr; i; i--)
		add_slot(wheel, ops[i - 1].timer.id);
	return 0;
}

static int refill(struct twheel_ctx *wheel, struct twheel_cache *cache)
{
	struct twheel_home *home = wheel->home;
	int err = 0;

	pthread_mutex_lock(&home->lock);
	while (!err && !take_from_pool(wheel, cache, TWHEEL_REFILL))
		err = make_slots(wheel);
	pthread_mutex_unlock(&home->lock);
	return err;
}

static void spill(struct twheel_ctx *wheel, const uint32_t *slots, unsigned int *nr,
		  unsigned int keep)
{
	struct twheel_home *home = wheel->home;

	pthread_mutex_lock(&home->lock);
	while (*nr > keep)
		home->pool[home->nr_pool++] = slots[--*nr];
	pthread_mutex_unlock(&home->lock);
}

/* All its free slots go to the pool. */
void twheel_spill_cache(struct twheel_ctx *wheel, struct twheel_cache *cache)
{
	spill(wheel, cache->queued, &cache->nr_queued, 0);
	spill(wheel, cache->idle, &cache->nr_idle, 0);
}

/* Frees @slot where the cache of the thread is to be found, or has no room. */
static rare void put_slot_slowly(struct twheel_ctx *wheel, uint32_t slot)
{
	struct twheel_cache *cache = twheel_cache(wheel);
	unsigned int one = 1;

	if (!cache) {
		spill(wheel, &slot, &one, 0);
		return;
	}
	if (cache->nr_queued == TWHEEL_FREE)
		spill(wheel, cache->queued, &cache->nr_queued, TWHEEL_FREE / 2);
	if (cache->nr_idle == TWHEEL_FREE)
		spill(wheel, cache->idle, &cache->nr_idle, TWHEEL_FREE / 2);
	if (is_queued(wheel, slot))
		cache->queued[cache->nr_queued++] = slot;
	else
		cache->idle[cache->nr_idle++] = slot;
}

static inline void put_slot(struct twheel_ctx *wheel, uint32_t slot)
{
	struct twheel_cache *cache = twheel_first_cache(wheel);

	twheel_store(&wheel->shadow[slot].deadline_ns, TWHEEL_STOPPED);
	if (unlikely(!cache || cache->nr_queued == TWHEEL_FREE || cache->nr_idle == TWHEEL_FREE))
		put_slot_slowly(wheel, slot);
	else if (is_queued(wheel, slot))
		cache->queued[cache->nr_queued++] = slot;
	else
		cache->idle[cache->nr_idle++] = slot;
}

/* The shadow of a timeout that was started and not stopped; or NULL. */
static struct twheel_shadow *find_started(struct twheel_ctx *wheel, uint64_t id)
{
	struct twheel_shadow *shadow;

	/* An id of 0 is that of every slot that is not ours. */
	if (unlikely((uint32_t)id >= wheel->words.nr_slots || !id))
		return NULL;
	shadow = &wheel->shadow[(uint32_t)id];
	if (unlikely(twheel_load(&shadow->id) != id ||
		     twheel_load(&shadow->deadline_ns) == TWHEEL_STOPPED))
		return NULL;
	return shadow;
}

/*
 * Has the wheel withdraw the event of an arming that it has claimed, and arm
 * for @deadline_ns instead, or not at all if that is 0. Under home.reading.
 * Return: 0 or a negative errno.
 */
static int withdraw(struct twheel_ctx *wheel, uint64_t id, uint64_t deadline_ns)
{
	struct twheel_op op = {
		.timer.id = id,
		.timer.deadline_ns = deadline_ns,
		.timer.flags = TWHEEL_KEEP | (deadline_ns ? TWHEEL_ABSTIME : TWHEEL_DISARMED),
		.opcode = TWHEEL_OP_REARM,
	};
	int ret = wheel->backend->exec(wheel, &op, 1);

	twheel_count(&wheel->usage.withdrawn, 1);
	return ret < 0 ? ret : op.result;
}

/*
 * Another process has drained the timeout. Its slot is not ours, or ours again.
 * Under home.reading.
 */
static void forget_slot(struct twheel_ctx *wheel, uint64_t id)
{
	struct twheel_shadow *shadow = &wheel->shadow[(uint32_t)id];
	struct twheel_home *home = wheel->home;

	pthread_mutex_lock(&home->lock);
	if (twheel_load(&shadow->id) == id) {
		uint64_t next = shadow->next_id;

		/* What the owner has written there may have had it drained, too. */
		if (next && withdraw(wheel, next, 0))
			next = 0;
		if (next)
			home->pool[home->nr_pool++] = (uint32_t)id;
		twheel_store(&shadow->deadline_ns, TWHEEL_STOPPED);
		twheel_store(&shadow->id, next);
		twheel_store(&shadow->next_id, 0);
	}
	pthread_mutex_unlock(&home->lock);
}

/* A timer was made. If there was a timeout in its slot, that was drained. */
void twheel_forget_timeout(struct twheel_ctx *wheel, uint64_t id)
{
	uint64_t old = twheel_load(&wheel->shadow[(uint32_t)id].id);

	if (likely(!old))
		return;
	pthread_mutex_lock(&wheel->home->reading);
	forget_slot(wheel, old);
	pthread_mutex_unlock(&wheel->home->reading);
}

/* The end of twheel_start(), if the thread has collected as many as it can. */
static rare int announce_start(struct twheel_ctx *wheel, struct twheel_cache *cache, uint64_t id)
{
	int err = twheel_collect(wheel, cache, id);

	if (err)
		twheel_stop(wheel, id);
	return err;
}

static inline int start_slot(struct twheel_ctx *wheel, struct twheel_cache *cache, uint32_t nr,
			     uint64_t deadline_ns, uint64_t user_data, uint64_t *id)
{
	struct twheel_shadow *shadow = &wheel->shadow[nr];
	struct twheel_slot *slot = __twheel_word(wheel, nr);

	deadline_ns = real_deadline(deadline_ns);
	twheel_store(&shadow->user_data, user_data);
	twheel_store(&shadow->deadline_ns, deadline_ns);
	*id = twheel_load(&shadow->id);
	/* A, but for its barrier, which comes in sift_kicks(). */
	__atomic_store_n(&slot->deadline_ns, deadline_ns, __ATOMIC_RELEASE);
	/* One that is brief has the slot of the last, which is collected already. */
	if (cache->nr_kicks && cache->kicks[cache->nr_kicks - 1] == nr)
		return 0;
	if (unlikely(cache->nr_kicks == TWHEEL_KICKS))
		return announce_start(wheel, cache, *id);
	cache->kicks[cache->nr_kicks++] = nr;
	return 0;
}

/* Starts a timeout where there is no free slot that the wheel still is to look at. */
static rare int start_slowly(struct twheel_ctx *wheel, uint64_t deadline_ns, uint64_t user_data,
			     uint64_t *id)
{
	struct twheel_cache *cache = twheel_cache(wheel);
	uint32_t nr;
	int err;

	if (!cache)
		return -ENOMEM;
	if (!cache->nr_queued && !cache->nr_idle) {
		err = refill(wheel, cache);
		if (err)
			return err;
	}
	if (cache->nr_queued)
		nr = cache->queued[--cache->nr_queued];
	else
		nr = cache->idle[--cache->nr_idle];
	return start_slot(wheel, cache, nr, deadline_ns, user_data, id);
}

TWHEEL_PUBLIC int twheel_start(struct twheel_ctx *wheel, uint64_t deadline_ns,
			       uint64_t user_data, uint64_t *id)
{
	struct twheel_cache *cache = twheel_first_cache(wheel);
	uint32_t nr;

	if (unlikely(!cache))
		return start_slowly(wheel, deadline_ns, user_data, id);
	if (cache->nr_queued)
		nr = cache->queued[--cache->nr_queued];
	else if (likely(cache->nr_idle))
		nr = cache->idle[--cache->nr_idle];
	else
		return start_slowly(wheel, deadline_ns, user_data, id);
	return start_slot(wheel, cache, nr, deadline_ns, user_data, id);
}

/* As twheel_move(), of a timeout that the wheel had claimed, or that is no more. */
static rare int move_claimed(struct twheel_ctx *wheel, uint64_t id, uint64_t deadline_ns)
{
	int err;

	pthread_mutex_lock(&wheel->home->reading);
	/* If the event of the new deadline was read by now, it is over. */
	err = withdraw(wheel, id, twheel_load(&wheel->shadow[(uint32_t)id].deadline_ns));
	if (err == -ENOENT) {
		/* Somebody else's word, perhaps. */
		__atomic_compare_exchange_n(&__twheel_word(wheel, id)->deadline_ns, &deadline_ns,
					    0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
		forget_slot(wheel, id);
	}
	pthread_mutex_unlock(&wheel->home->reading);
	return err ? err : 1;
}

TWHEEL_PUBLIC int twheel_move(struct twheel_ctx *wheel, uint64_t id, uint64_t deadline_ns)
{
	struct twheel_shadow *shadow = find_started(wheel, id);
	struct twheel_slot *slot;
	uint64_t before;
	int err = 0;

	if (unlikely(!shadow))
		return twheel_is_gone(wheel) ? -ECHILD : -ENOENT;
	slot = __twheel_word(wheel, id);
	deadline_ns = real_deadline(deadline_ns);
	/* From here on the event of the old deadline is dropped, if it was not read. */
	before = __atomic_exchange_n(&shadow->deadline_ns, deadline_ns, __ATOMIC_ACQ_REL);
	if (unlikely(!__twheel_exchange(slot, deadline_ns) && before))
		return move_claimed(wheel, id, deadline_ns);
	if (unlikely(deadline_ns <= __twheel_wake(slot)))
		err = twheel_collect(wheel, twheel_cache(wheel), id);
	return err ? err : !!before;
}

/* As twheel_stop(), of a timeout that the wheel had claimed, or that is no more. */
static rare int stop_claimed(struct twheel_ctx *wheel, uint64_t id)
{
	bool unread;
	int err = 0;

	pthread_mutex_lock(&wheel->home->reading);
	unread = twheel_load(&wheel->shadow[(uint32_t)id].deadline_ns);
	if (unread)
		err = withdraw(wheel, id, 0);
	if (err == -ENOENT)
		forget_slot(wheel, id);
	pthread_mutex_unlock(&wheel->home->reading);
	if (!err)
		put_slot(wheel, id);
	return err ? err : unread;
}

TWHEEL_PUBLIC int twheel_stop(struct twheel_ctx *wheel, uint64_t id)
{
	if (unlikely(!find_started(wheel, id)))
		return twheel_is_gone(wheel) ? -ECHILD : -ENOENT;
	if (unlikely(!__twheel_exchange(__twheel_word(wheel, id), 0)))
		return stop_claimed(wheel, id);
	put_slot(wheel, id);
	return 1;
}

/*
 * Leaves those of @nr events that are to be handed out, with what their
 * timeouts were started with. Under home.reading. Return: how many.
 */
size_t twheel_filter(struct twheel_ctx *wheel, struct twheel_event *events, size_t nr,
		     bool timeouts)
{
	size_t i, kept = 0;

	for (i = 0; i < nr; i++) {
		uint32_t slot = events[i].id;
		uint64_t deadline = events[i].deadline_ns;
		struct twheel_shadow *shadow;
		bool ours = false;

		if (slot < wheel->words.nr_slots) {
			shadow = &wheel->shadow[slot];
			if (twheel_load(&shadow->id) == events[i].id) {
				/*
				 * Of this timeout while its deadline is there: who ends it
				 * waits for us until then, and not any more after that.
				 */
				uint64_t user_data = twheel_load(&shadow->user_data);

				if (!__atomic_compare_exchange_n(&shadow->deadline_ns, &deadline,
								 0, false, __ATOMIC_ACQ_REL,
								 __ATOMIC_RELAXED))
					continue;
				events[i].user_data = user_data;
				ours = true;
			} else if (twheel_load(&shadow->next_id) == events[i].id) {
				continue;
			}
		}
		if (ours || !timeouts)
			events[kept++] = events[i];
	}
	return kept;
}

/* The wheel is closed: others that have the descriptor shall not hear of them. */
void twheel_end_timeouts(struct twheel_ctx *wheel)
{
	struct twheel_op ops[TWHEEL_REFILL];
	struct twheel_home *home = wheel->home;
	unsigned int nr;

	while (home->nr_ids) {
		for (nr = 0; nr < TWHEEL_REFILL && home->nr_ids; nr++) {
			ops[nr] = (struct twheel_op) {
				.timer.id = home->ids[--home->nr_ids],
				.opcode = TWHEEL_OP_CANCEL,
			};
		}
		wheel->backend->exec(wheel, ops, nr);
	}
}
