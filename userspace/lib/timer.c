// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Timers: add, set, clear, del, one at a time and many.
 *
 * A free slot is an idle timer that the wheel keeps for this process. twheel_add() takes one
 * from the cache of the thread, and twheel_del() puts it back.
 *
 *   free in a cache  --add-->  the program's  --del-->  free in a cache
 *        |    ^                                             |    ^
 *      spill  refill  <-->  pool of the wheel  <-->       spill  refill
 *                                 ^
 *                          REGISTER, 64 at a time
 *
 * Unless the timer is periodic, a word that is not 0 proves that none of its events is outstanding,
 * so a single exchange can move or disarm the timer. To keep it that way, twheel_clear() does not
 * write 0 but parks the word: shadow.armed stays set, and the next arming is a single exchange
 * again.
 *
 * If a word is 0, the timer has expired, or was disarmed by an operation. The event of an expired
 * timer is unread, on its way from the backend's read to the program, or handed out. Because it is
 * on its way only under cold.reading, a word that is 0 is armed only under that lock. If
 * shadow.armed says that an event is outstanding, REARM withdraws it.
 *
 * tests/model/library.pml is a model of this.
 *
 * Another process that shares the wheel may cancel a timer of this one. The thread that then finds
 * 0 in the word learns from REARM that the timer is gone, and gives up the slot.
 */
#include "internal.h"

#include <limits.h>

/* Makes a full barrier of an atomic operation that has just changed memory. */
static inline void after_exchange(void)
{
#if defined(__x86_64__) || defined(__i386__)
	/* On x86 the atomic instruction is a full barrier. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Sets @bit if it is not set. */
static inline void set_mark(uint64_t *bits, uint32_t bit)
{
	uint64_t mask = 1ULL << bit % 64;

	bits += bit / 64;
	if (!(__atomic_load_n(bits, __ATOMIC_SEQ_CST) & mask))
		__atomic_fetch_or(bits, mask, __ATOMIC_SEQ_CST);
	/*
	 * If the bit is set already, the earlier exchange is the barrier on x86, where loads stay
	 * in order.
	 */
	after_exchange();
}

/* Asks the next turn to look at the slot. */
static inline void mark_slot(struct twheel *w, uint32_t slot)
{
	set_mark(w->marks, slot);
	set_mark(w->summary, slot >> w->shift);
}

/* Kicks if the next turn is too late for slots that were marked for @deadline. */
static inline void kick_before(struct twheel *w, uint64_t deadline)
{
	/* A timer that is never due can wait for any turn. */
	if (deadline <= __atomic_load_n(w->next_ns, __ATOMIC_SEQ_CST) && deadline != ASLEEP) {
		count(&w->cold->usage.kicks);
		w->cold->backend->kick(w);
	}
}

/*
 * Marks a slot that the wheel would not look at in time, and kicks if no turn comes before the
 * deadline. This is not rare, because most requests begin and end between two turns.
 *
 * Return: @ret, so that the caller can end with a tail call. It then needs no stack frame, whose
 * stores would delay the next exchange.
 */
static __attribute__((noinline)) int announce(struct twheel *w, uint32_t slot, uint64_t deadline,
					      int ret)
{
	mark_slot(w, slot);
	kick_before(w, deadline);
	return ret;
}

/*
 * Exchanges the word of a timer for @to, if it is still @from. If this arms the timer, the slot is
 * marked, and the caller has to kick. Return: true if the word was exchanged.
 */
bool twheel__exchange(struct twheel *w, uint32_t slot, uint64_t from, uint64_t to)
{
	if (!__atomic_compare_exchange_n(&w->words[slot].deadline_ns, &(__u64) { from }, to, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return false;
	after_exchange();
	if (to)
		mark_slot(w, slot);
	return true;
}

/* Returns whether the wheel will look at @deadline, which was just exchanged, in time. */
static inline bool is_seen(const struct twheel_slot *slot, uint64_t deadline)
{
	return likely(deadline > __atomic_load_n(&slot->wake_ns, __ATOMIC_RELAXED));
}

/* Avoids the words that mean disarmed: 0 becomes 1, and TWHEEL_PARKED becomes never. */
static inline uint64_t to_word(uint64_t deadline)
{
	if (unlikely(deadline - 1 >= TWHEEL_PARKED - 1))
		return deadline ? UINT64_MAX : 1;
	return deadline;
}

/* Arms a word that is 0. Return: whether the wheel will look in time. */
static inline bool arm(struct twheel_slot *slot, uint64_t deadline)
{
	__atomic_exchange_n(&slot->deadline_ns, deadline, __ATOMIC_SEQ_CST);
	after_exchange();
	return is_seen(slot, deadline);
}

/* Slots */

static rare int put_slot_slowly(struct twheel *w, uint32_t slot, int ret)
{
	struct cache *cache = twheel__make_cache(w);
	struct cache alone = { .nr = 1, .slots = { slot } };

	if (!cache) {
		twheel__spill(w, &alone, 0);
		return ret;
	}
	if (cache->nr == KEPT)
		twheel__spill(w, cache, KEPT / 2);
	cache->slots[cache->nr++] = slot;
	return ret;
}

/* Returns the slot to the cache of this thread. Return: @ret, for the reason in announce(). */
static inline int put_slot(struct twheel *w, struct shadow *shadow, uint32_t slot, int ret)
{
	struct cache *cache = find_cache(w);

	__atomic_store_n(&shadow->id, 0, __ATOMIC_RELAXED);
	if (unlikely(!cache || cache->nr == KEPT))
		return put_slot_slowly(w, slot, ret);
	cache->slots[cache->nr++] = slot;
	return ret;
}

/* Performs one operation on @timer, which receives the answer. Return: 0 or a negative errno. */
static int exec_one(struct twheel *w, uint32_t opcode, struct twheel_timer *timer)
{
	struct twheel_op op = { .timer = *timer, .opcode = opcode };
	int ret = w->cold->backend->exec(w, &op, 1);

	if (ret < 0)
		return ret;
	if (op.result)
		return op.result;
	*timer = op.timer;
	return 0;
}

/* add */

/* Turns a free slot into a timer of the program, with a new id. */
static inline __attribute__((always_inline)) void
lend_slot(struct shadow *shadow, uint32_t slot, uint64_t user_data, uint64_t *id)
{
	uint64_t own;

	shadow->count++;
	shadow->count += !shadow->count;
	own = (uint64_t)shadow->count << 32 | slot;
	*id = own;
	__atomic_store_n(&shadow->user_data, user_data, __ATOMIC_RELAXED);
	/* A reader that finds this id hands out this user_data. */
	__atomic_store_n(&shadow->id, own, __ATOMIC_RELEASE);
}

/* Makes sure that this thread has a cache with a free slot. Return: 0 or a negative errno. */
static rare int fill_cache(struct twheel *w, struct cache **cache)
{
	if (is_child(w))
		return -ECHILD;
	*cache = find_cache(w);
	if (!*cache)
		*cache = twheel__make_cache(w);
	if (!*cache)
		return -ENOMEM;
	return (*cache)->nr ? 0 : twheel__refill(w, *cache);
}

/*
 * Adds a timer in a slot of @cache, which is not empty. If @marked is not NULL, it is set if the
 * slot was marked, and the caller has to kick. The fast path passes 0 for @special, so that the
 * compiler can leave out what it does not need. All others pass that of @w.
 */
static inline __attribute__((always_inline)) int
add_slot(struct twheel *w, struct cache *cache, uint64_t deadline, uint64_t user_data,
	 uint64_t *id, bool *marked, uint32_t special)
{
	uint32_t slot = cache->slots[--cache->nr];
	struct shadow *shadow = &w->shadow[slot];

	deadline = to_word(deadline);
	lend_slot(shadow, slot, user_data, id);
	__atomic_store_n(&shadow->armed, 1, __ATOMIC_RELAXED);
	/* After the store to @id, which may be part of the object that the event hands over. */
	if (special & SPECIAL_TSAN)
		__tsan_release(shadow);
	if (arm(&w->words[slot], deadline))
		return 0;
	if (!marked)
		return announce(w, slot, deadline, 0);
	mark_slot(w, slot);
	*marked = true;
	return 0;
}

static rare int add_slowly(struct twheel *w, uint64_t deadline, uint64_t user_data, uint64_t *id)
{
	struct cache *cache;
	int err;

	err = fill_cache(w, &cache);
	if (err)
		return err;
	return add_slot(w, cache, deadline, user_data, id, NULL, w->special);
}

TWHEEL_PUBLIC int twheel_add(struct twheel *w, uint64_t deadline, uint64_t user_data,
			     uint64_t *id)
{
	struct cache *cache = find_cache(w);

	if (unlikely(!cache || !cache->nr || w->special))
		return add_slowly(w, deadline, user_data, id);
	return add_slot(w, cache, deadline, user_data, id, NULL, 0);
}

/* set, clear, del */

/*
 * Ends an arming or withdraws its event, and then arms the timer as @timer says. The caller holds
 * cold.reading. Return: 1 if there was an arming or an event to end, 0, or a negative errno.
 */
static int withdraw(struct twheel *w, uint64_t kernel_id, struct twheel_timer *timer)
{
	int err;

	timer->id = kernel_id;
	count(&w->cold->usage.withdrawn);
	err = exec_one(w, TWHEEL_OP_REARM, timer);
	return err ? err : timer->state != TWHEEL_IDLE;
}

/* Does the same for a timer of REGISTER or REARM, which keeps its period, slack and flags. */
static int rearm_as_it_is(struct twheel *w, uint64_t kernel_id, uint64_t deadline)
{
	struct twheel_timer timer = { .id = kernel_id };
	int err = exec_one(w, TWHEEL_OP_GET, &timer);

	if (err)
		return err;
	timer.flags &= TWHEEL_KEEP;
	timer.flags |= deadline ? TWHEEL_ABSTIME : TWHEEL_DISARMED;
	timer.deadline_ns = deadline;
	return withdraw(w, kernel_id, &timer);
}

/*
 * Sets a timer whose word may be 0, or clears it if @deadline is 0. If @ends is set, the caller
 * gives the slot back, so the timer loses the period and slack that REARM may have given it.
 */
static rare int change_slowly(struct twheel *w, uint64_t id, uint64_t deadline, bool ends)
{
	struct shadow *shadow = find_shadow(w, id);
	uint64_t kernel_id = shadow ? load64(&shadow->kernel_id) : id;
	struct twheel_timer timer = {
		.deadline_ns = deadline,
		.slack_ns = w->cold->slack_ns,
		.flags = TWHEEL_KEEP | (deadline ? TWHEEL_ABSTIME : TWHEEL_DISARMED),
	};
	int ret = 0;

	take_lock(&w->cold->reading);
	if (!shadow) {
		ret = rearm_as_it_is(w, id, deadline);
	} else if (!is_live(shadow, id)) {
		ret = -ENOENT;
	} else if (is_set(&shadow->armed) || is_set(&shadow->custom)) {
		ret = is_set(&shadow->custom) && !ends ? rearm_as_it_is(w, kernel_id, deadline) :
		      withdraw(w, kernel_id, &timer);
		if (ret == -ENOENT)
			twheel__lose(w, shadow, kernel_id);
		else if (ret >= 0)
			__atomic_store_n(&shadow->armed, !!deadline, __ATOMIC_RELAXED);
	} else if (deadline) {
		__atomic_store_n(&shadow->armed, 1, __ATOMIC_RELAXED);
		tell_arming(w, shadow);
		if (!arm(&w->words[(uint32_t)id], deadline))
			announce(w, id, deadline, 0);
	}
	drop_lock(&w->cold->reading);
	return ret;
}

/*
 * Exchanges a word for @deadline, unless it is 0. @old is the word as the caller has read it.
 * Return: the word before the exchange, or 0 if it was 0 and stays so.
 */
static inline uint64_t exchange_from(struct twheel_slot *slot, __u64 old, uint64_t deadline)
{
	do {
		if (unlikely(!old))
			return 0;
	} while (unlikely(!__atomic_compare_exchange_n(&slot->deadline_ns, &old, deadline, false,
						       __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)));
	after_exchange();
	return old;
}

static inline uint64_t exchange(struct twheel_slot *slot, uint64_t deadline)
{
	return exchange_from(slot, __atomic_load_n(&slot->deadline_ns, __ATOMIC_RELAXED), deadline);
}

/* Moves the timer if its word is not 0. */
static inline int set_word(struct twheel *w, uint64_t id, uint64_t deadline)
{
	struct twheel_slot *slot = &w->words[(uint32_t)id];
	uint64_t old;

	/*
	 * Prefetch first, so that the line is on its way while a load waits for the previous
	 * exchange.
	 */
	__builtin_prefetch(slot, 1);
	deadline = to_word(deadline);
	old = exchange(slot, deadline);
	if (unlikely(!old))
		return change_slowly(w, id, deadline, false);
	return is_seen(slot, deadline) ? old != TWHEEL_PARKED :
	       announce(w, id, deadline, old != TWHEEL_PARKED);
}

/* Withdraws the event of earlier periods that a timer may still have after it was disarmed. */
static rare int clear_custom(struct twheel *w, uint64_t id)
{
	return change_slowly(w, id, 0, false) < 0 ? -ENOENT : 1;
}

/* Clears a timer that may be periodic. */
static rare int clear_periodic(struct twheel *w, uint64_t id)
{
	struct twheel_slot *slot = &w->words[(uint32_t)id];

	if (is_arming(__atomic_exchange_n(&slot->deadline_ns, 0, __ATOMIC_SEQ_CST)))
		return clear_custom(w, id);
	return change_slowly(w, id, 0, false);
}

/* Parks the word if it is not 0. */
static inline int park(struct twheel *w, uint64_t id)
{
	struct twheel_slot *slot = &w->words[(uint32_t)id];
	uint64_t old;

	__builtin_prefetch(slot, 1);
	old = exchange(slot, TWHEEL_PARKED);
	return likely(old) ? old != TWHEEL_PARKED : change_slowly(w, id, 0, false);
}

/* Clears a timer of any kind. */
static __attribute__((noinline)) int clear_any(struct twheel *w, uint64_t id)
{
	struct shadow *shadow = find_shadow(w, id);

	if (!shadow || is_set(&shadow->custom))
		return clear_periodic(w, id);
	if (w->parks)
		return park(w, id);
	if (unlikely(!__atomic_exchange_n(&w->words[(uint32_t)id].deadline_ns, 0,
					  __ATOMIC_SEQ_CST)))
		return change_slowly(w, id, 0, false);
	__atomic_store_n(&shadow->armed, 0, __ATOMIC_RELAXED);
	return 1;
}

static inline int clear_word(struct twheel *w, uint64_t id)
{
	return unlikely(load32(&w->check_kind)) ? clear_any(w, id) : park(w, id);
}

/* Return: 0 if a timer has this @id, or a negative errno. */
static int find_timer(struct twheel *w, uint64_t id)
{
	struct shadow *shadow = find_shadow(w, id);
	struct twheel_timer timer = { .id = id };

	if (shadow)
		return is_live(shadow, id) ? 0 : -ENOENT;
	return exec_one(w, TWHEEL_OP_GET, &timer);
}

/*
 * Checks that the word of @id may be changed, if the fast path could not decide that: in a forked
 * child, if ids are checked, or if the id cannot be valid.
 */
static int check_id(struct twheel *w, uint64_t id)
{
	struct shadow *shadow = find_shadow(w, id);

	if (is_child(w))
		return -ECHILD;
	if ((uint32_t)id >= load32(&w->nr_words) || !(id >> 32))
		return -ENOENT;
	tell_arming(w, shadow);
	return w->special & SPECIAL_CHECKED ? find_timer(w, id) : 0;
}

static rare int set_checked(struct twheel *w, uint64_t id, uint64_t deadline)
{
	int err = check_id(w, id);

	return err ? err : set_word(w, id, deadline);
}

static rare int clear_checked(struct twheel *w, uint64_t id)
{
	int err = check_id(w, id);

	return err ? err : clear_word(w, id);
}

TWHEEL_PUBLIC int twheel_set(struct twheel *w, uint64_t id, uint64_t deadline)
{
	if (unlikely((uint32_t)id >= load32(&w->nr_slots) || !(id >> 32)))
		return set_checked(w, id, deadline);
	return set_word(w, id, deadline);
}

TWHEEL_PUBLIC int twheel_clear(struct twheel *w, uint64_t id)
{
	if (unlikely((uint32_t)id >= load32(&w->nr_slots) || !(id >> 32)))
		return clear_checked(w, id);
	return clear_word(w, id);
}

/* Ends a timer of REGISTER. */
static rare int cancel_foreign(struct twheel *w, uint64_t id)
{
	struct twheel_timer timer = { .id = id };
	int err;

	take_lock(&w->cold->reading);
	err = exec_one(w, TWHEEL_OP_CANCEL, &timer);
	drop_lock(&w->cold->reading);
	return err ? err : timer.state != TWHEEL_IDLE;
}

/* Deletes a timer that may have an unread event. @old is the word that it had. */
static rare int del_slowly(struct twheel *w, uint64_t id, uint64_t old)
{
	struct shadow *shadow = &w->shadow[(uint32_t)id];
	int ret = change_slowly(w, id, 0, true);

	if (ret < 0)
		return ret;
	__atomic_store_n(&shadow->custom, 0, __ATOMIC_RELAXED);
	return put_slot(w, shadow, id, ret | is_arming(old));
}

/* Deletes a timer of REGISTER, unless the id is a stale one of twheel_add(). */
static rare int del_foreign(struct twheel *w, uint64_t id)
{
	if (is_child(w))
		return -ECHILD;
	return find_shadow(w, id) ? -ENOENT : cancel_foreign(w, id);
}

static inline int del(struct twheel *w, uint64_t id)
{
	struct shadow *shadow;
	uint64_t old;

	if (unlikely((uint32_t)id >= __atomic_load_n(&w->nr_shadows, __ATOMIC_ACQUIRE)))
		return del_foreign(w, id);
	shadow = &w->shadow[(uint32_t)id];
	if (unlikely(!is_live(shadow, id)))
		return del_foreign(w, id);
	old = __atomic_exchange_n(&w->words[(uint32_t)id].deadline_ns, 0, __ATOMIC_SEQ_CST);
	/* A periodic timer may also have an unread event of earlier periods. */
	if (unlikely(!old || is_set(&shadow->custom)))
		return del_slowly(w, id, old);
	return put_slot(w, shadow, id, old != TWHEEL_PARKED);
}

TWHEEL_PUBLIC int twheel_del(struct twheel *w, uint64_t id)
{
	return del(w, id);
}

/* replace */

static rare int replace_slowly(struct twheel *w, uint64_t id, uint64_t deadline,
			       uint64_t user_data, uint64_t *new_id)
{
	int ended, err;

	if (is_child(w))
		return -ECHILD;
	err = find_timer(w, id);
	if (err)
		return err;
	/* A timer of REGISTER has no slot that twheel_add() could use again. */
	if (!find_shadow(w, id))
		return -EOPNOTSUPP;
	/* With a cache, add gets the slot that del gives back, so it cannot fail. */
	if (!find_cache(w) && !twheel__make_cache(w))
		return -ENOMEM;
	ended = del(w, id);
	if (ended < 0)
		return ended;
	err = twheel_add(w, deadline, user_data, new_id);
	return err ? err : ended;
}

/*
 * A single exchange ends one timer and begins another in the same slot. Meanwhile another thread
 * may read the event of either, but cannot know which of them it is. So @id says that it must not
 * hand out the event, and filter() arms the timer again: the old one if the exchange is still to
 * come, or the new one.
 */
TWHEEL_PUBLIC int twheel_replace(struct twheel *w, uint64_t id, uint64_t deadline,
				 uint64_t user_data, uint64_t *new_id)
{
	struct twheel_slot *slot;
	struct shadow *shadow;
	uint64_t old;

	if (unlikely((uint32_t)id >= __atomic_load_n(&w->nr_shadows, __ATOMIC_ACQUIRE) ||
		     w->special))
		return replace_slowly(w, id, deadline, user_data, new_id);
	slot = &w->words[(uint32_t)id];
	shadow = &w->shadow[(uint32_t)id];
	__builtin_prefetch(slot, 1);
	__builtin_prefetch(shadow, 1);
	if (unlikely(!is_live(shadow, id) || is_set(&shadow->custom)))
		return replace_slowly(w, id, deadline, user_data, new_id);
	deadline = to_word(deadline);
	__atomic_store_n(&shadow->id, REPLACING, __ATOMIC_RELAXED);
	old = exchange(slot, deadline);
	if (unlikely(!old)) {
		__atomic_store_n(&shadow->id, id, __ATOMIC_RELAXED);
		return replace_slowly(w, id, deadline, user_data, new_id);
	}
	lend_slot(shadow, id, user_data, new_id);
	return is_seen(slot, deadline) ? old != TWHEEL_PARKED :
	       announce(w, id, deadline, old != TWHEEL_PARKED);
}

/*
 * Many at once
 *
 * An exchange waits until its cache line has arrived, and the next exchange waits for the one
 * before. So the lines of several timers are fetched before the first of them is changed.
 *
 * A call that fails must not have changed any timer, so all ids are checked first. A timer that
 * ends after this check, because another thread or process drains the wheel, counts as not armed.
 */

/* How many timers are fetched at a time: about as many cache misses as a CPU handles at once. */
#define AHEAD	16U
/* How many timers twheel_set_many() checks at a time, after it has fetched all of their words. */
#define CHECKED		64U
/* How many words stay in the L1 cache from the check until the exchange. */
#define KEPT_NEAR	256U

TWHEEL_PUBLIC void twheel_prefetch(const struct twheel *w, uint64_t id)
{
	if (likely((uint32_t)id < load32(&w->nr_slots)))
		__builtin_prefetch(&w->words[(uint32_t)id], 1);
}

/* Fetches the words of the first timers, and their shadows if @ends says that these are deleted. */
static inline void fetch(const struct twheel *w, const uint64_t *ids, unsigned int n, bool ends)
{
	uint32_t slots = ends ? __atomic_load_n(&w->nr_shadows, __ATOMIC_ACQUIRE) : 0;
	unsigned int i;

	for (i = 0; i < n && i < AHEAD; i++) {
		twheel_prefetch(w, ids[i]);
		if ((uint32_t)ids[i] < slots)
			__builtin_prefetch(&w->shadow[(uint32_t)ids[i]], 1);
	}
}

/* Fetches the words and shadows of the slots that twheel_add_many() takes next from @cache. */
static inline void fetch_free(const struct twheel *w, const struct cache *cache, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n && i < AHEAD && i < cache->nr; i++) {
		uint32_t slot = cache->slots[cache->nr - 1 - i];

		__builtin_prefetch(&w->words[slot], 1);
		__builtin_prefetch(&w->shadow[slot], 1);
	}
}

/*
 * Fetches @n words, and then checks that the fast path can set all these timers. No branch in
 * the loops waits for a cache miss.
 */
static inline bool can_set(const struct twheel *w, const uint64_t *ids, unsigned int n)
{
	const struct twheel_slot *words = w->words;
	uint32_t nr_slots = load32(&w->nr_slots);
	bool cannot = false;
	unsigned int i;

	for (i = 0; i < n; i++) {
		/* It does no harm to prefetch for an id that does not exist. */
		__builtin_prefetch(&words[(uint32_t)ids[i]], 1);
		cannot |= (uint32_t)ids[i] >= nr_slots || !(ids[i] >> 32);
	}
	if (unlikely(cannot))
		return false;
	for (i = 0; i < n; i++)
		cannot |= !__atomic_load_n(&words[(uint32_t)ids[i]].deadline_ns, __ATOMIC_RELAXED);
	return !cannot;
}

/* Checks that all of @ids can be changed. Return: 0 or a negative errno. */
static int check_each(struct twheel *w, const uint64_t *ids, unsigned int n, bool ends)
{
	unsigned int i;
	int err;

	for (i = 0; i < n; i++) {
		uint64_t id = ids[i];

		if (i % AHEAD == 0)
			fetch(w, ids + i, n - i, ends);
		if (unlikely((uint32_t)id >= load32(&w->nr_slots) || !(id >> 32))) {
			err = check_id(w, id);
			if (err)
				return err;
		}
		/* Like twheel_set(), do not check the id of a timer whose word is not 0. */
		if (likely(!ends && load64((uint64_t *)&w->words[(uint32_t)id].deadline_ns)))
			continue;
		err = find_timer(w, id);
		if (err)
			return err;
	}
	return 0;
}

static int check_many(struct twheel *w, const uint64_t *ids, unsigned int n, bool ends)
{
	unsigned int i, part;
	int err;

	if (is_child(w))
		return -ECHILD;
	if (n > INT_MAX)
		return -EINVAL;
	for (i = 0; i < n; i += part) {
		part = n - i < CHECKED ? n - i : CHECKED;
		if (!ends && likely(can_set(w, ids + i, part)))
			continue;
		err = check_each(w, ids + i, part, ends);
		if (err)
			return err;
	}
	return 0;
}

/*
 * Sets up to %AHEAD timers. Because a load waits for the exchanges before it, all words are loaded
 * before the first exchange, and each wake_ns only after the last. @marked is set if a slot was
 * marked. Return: how many armings were ended.
 */
static inline int set_some(struct twheel *w, const uint64_t *ids, unsigned int n, uint64_t deadline,
			   bool *marked)
{
	__u64 old[AHEAD];
	unsigned int i;
	int ended = 0;

	for (i = 0; i < n; i++)
		old[i] = __atomic_load_n(&w->words[(uint32_t)ids[i]].deadline_ns, __ATOMIC_RELAXED);
	for (i = 0; i < n; i++) {
		old[i] = exchange_from(&w->words[(uint32_t)ids[i]], old[i], deadline);
		if (unlikely(!old[i]))
			ended += change_slowly(w, ids[i], deadline, false) == 1;
		else
			ended += old[i] != TWHEEL_PARKED;
	}
	for (i = 0; i < n; i++) {
		if (old[i] && !is_seen(&w->words[(uint32_t)ids[i]], deadline)) {
			mark_slot(w, ids[i]);
			*marked = true;
		}
	}
	return ended;
}

TWHEEL_PUBLIC int twheel_set_many(struct twheel *w, const uint64_t *ids, unsigned int n,
				  uint64_t deadline)
{
	int err = check_many(w, ids, n, false);
	bool marked = false;
	unsigned int i, part;
	int ended = 0;

	if (err)
		return err;
	deadline = to_word(deadline);
	for (i = 0; i < n; i += part) {
		part = n - i < AHEAD ? n - i : AHEAD;
		/* Words that check_many() has fetched may have left the cache again. */
		if (unlikely(n > KEPT_NEAR))
			fetch(w, ids + i, n - i, false);
		ended += set_some(w, ids + i, part, deadline, &marked);
	}
	if (marked)
		kick_before(w, deadline);
	return ended;
}

TWHEEL_PUBLIC int twheel_add_many(struct twheel *w, uint64_t deadline, const uint64_t *user_data,
				  uint64_t *ids, unsigned int n)
{
	struct cache *cache = find_cache(w);
	bool marked = false;
	unsigned int i;
	int err = 0;

	if (is_child(w))
		return -ECHILD;
	if (n > INT_MAX)
		return -EINVAL;
	for (i = 0; i < n; i++) {
		if (unlikely(!cache || !cache->nr)) {
			err = fill_cache(w, &cache);
			if (err)
				break;
		}
		if (i % AHEAD == 0)
			fetch_free(w, cache, n - i);
		err = add_slot(w, cache, deadline, user_data[i], &ids[i], &marked, w->special);
		if (err)
			break;
	}
	if (marked)
		kick_before(w, to_word(deadline));
	return i ? (int)i : err;
}

TWHEEL_PUBLIC int twheel_del_many(struct twheel *w, const uint64_t *ids, unsigned int n)
{
	int err = check_many(w, ids, n, true);
	unsigned int i;
	int ended = 0;

	if (err)
		return err;
	for (i = 0; i < n; i++) {
		if (i % AHEAD == 0)
			fetch(w, ids + i, n - i, true);
		ended += del(w, ids[i]) == 1;
	}
	return ended;
}

/* user_data */

TWHEEL_PUBLIC int twheel_set_user_data(struct twheel *w, uint64_t id, uint64_t user_data)
{
	struct shadow *shadow = find_shadow(w, id);
	int err;

	if (is_child(w))
		return -ECHILD;
	err = find_timer(w, id);
	if (err)
		return err;
	/* The user_data of a timer of REGISTER is in the wheel, where no operation changes it. */
	if (!shadow)
		return -EOPNOTSUPP;
	tell_arming(w, shadow);
	__atomic_store_n(&shadow->user_data, user_data, __ATOMIC_RELAXED);
	return 0;
}

/* Cancels the timers of twheel_add(), whose events other holders of the wheel must not get. */
void twheel__end_timers(struct twheel *w)
{
	struct twheel_op ops[REFILL];
	unsigned int n = 0;
	uint32_t slot;

	for (slot = 0; slot < w->nr_shadows; slot++) {
		if (!w->shadow[slot].kernel_id)
			continue;
		ops[n++] = (struct twheel_op) {
			.timer.id = w->shadow[slot].kernel_id,
			.opcode = TWHEEL_OP_CANCEL,
		};
		if (n == REFILL) {
			w->cold->backend->exec(w, ops, n);
			n = 0;
		}
	}
	if (n)
		w->cold->backend->exec(w, ops, n);
	if (w->cold->wake_id) {
		ops[0] = (struct twheel_op) {
			.timer.id = w->cold->wake_id,
			.opcode = TWHEEL_OP_CANCEL,
		};
		w->cold->backend->exec(w, ops, 1);
	}
}
