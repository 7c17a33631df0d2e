// SPDX-License-Identifier: GPL-2.0
/*
 * The deadline table: bare words, the protocol without the library, and libtwheel.
 *
 * All of them use the words of a table of libtwheel: that of an in-process wheel, or that of
 * /dev/twheel with TWHEEL_BACKEND=kernel. Backends of an in-process wheel that are open at the same
 * time share one table, because it matters which pages of memory it has.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#undef NSEC_PER_SEC
#include "bench.h"

#define EVENTS	256

/**
 * struct table - a wheel of libtwheel and its table
 * @wheel: the wheel
 * @slots: its words
 * @id: the id of each timer, if several backends share them
 * @n: number of timers
 * @nr_slots: number of words
 * @users: number of backends that use it
 */
struct table {
	struct twheel *wheel;
	struct twheel_slot *slots;
	uint64_t *id;
	uint32_t n;
	uint32_t nr_slots;
	unsigned int users;
};

/* The table that backends share, or NULL. */
static struct table *shared;

static struct twheel *wheel_of(const struct bench *b)
{
	return ((struct table *)b->state)->wheel;
}

static int open_wheel(struct bench *b)
{
	struct twheel_options options = {
		.size = sizeof(options),
		.tick_ns = b->tick,
		.slack_ns = b->slack,
		.max_timers = b->n + 1024,
	};
	struct table *table = bench_alloc(1, sizeof(*table));
	int err;

	if (!getenv("TWHEEL_BACKEND"))
		options.flags = TWHEEL_OPEN_INPROCESS;
	err = twheel_open(&table->wheel, &options);
	if (err) {
		free(table);
		errno = -err;
		return -1;
	}
	table->slots = table->wheel->words;
	table->n = b->n;
	table->nr_slots = options.max_timers;
	table->users = 1;
	b->state = table;
	return 0;
}

/* An idle timer has a deadline that does not come during the bench. */
#define UNARMED	(INT64_MAX / 2)

static int open_timers(struct bench *b)
{
	uint64_t id;
	uint32_t i;

	if (open_wheel(b))
		return -1;
	for (i = 0; i < b->n + BENCH_SPARE; i++) {
		if (twheel_add(wheel_of(b), UNARMED, i, &id))
			bench_die("twheel_add");
		b->handle[i] = id;
	}
	return 0;
}

/* Turns the wheel, as the loop of a program eventually does. The turn processes all marks. */
static void turn_wheel(struct bench *b)
{
	struct twheel *wheel = wheel_of(b);

	if (wheel->cold->backend->kick(wheel))
		bench_die("kick");
}

/* Shares the timers of an open backend, if there is one with the same number of timers. */
static int share_timers(struct bench *b)
{
	size_t bytes = (b->n + BENCH_SPARE) * sizeof(*b->handle);
	struct table *table = shared;

	if (table && table->n == b->n) {
		table->users++;
		b->state = table;
		memcpy(b->handle, table->id, bytes);
		return 0;
	}
	if (open_timers(b))
		return -1;
	table = b->state;
	table->id = bench_alloc(b->n + BENCH_SPARE, sizeof(*table->id));
	memcpy(table->id, b->handle, bytes);
	if (!shared)
		shared = table;
	return 0;
}

/* The handle of a bare word is its address. */
static int share_words(struct bench *b)
{
	struct table *table;
	uint32_t i;

	if (share_timers(b))
		return -1;
	table = b->state;
	for (i = 0; i < b->n + BENCH_SPARE; i++)
		b->handle[i] = (uintptr_t)&table->slots[(uint32_t)b->handle[i]];
	return 0;
}

static void table_close(struct bench *b)
{
	struct table *table = b->state;

	if (--table->users)
		return;
	if (table == shared)
		shared = NULL;
	twheel_close(table->wheel);
	free(table->id);
	free(table);
}

static uint64_t count_calls(struct bench *b)
{
	struct twheel_usage usage = { .size = sizeof(usage) };

	twheel_usage(wheel_of(b), &usage);
	return usage.kicks + usage.refills + usage.withdrawn;
}

#define words_close table_close

/* Looks at every word to find due timers. Only the check uses this. */
static void words_deliver(struct bench *b, uint64_t until)
{
	uint32_t i;

	do {
		for (i = 0; i < b->n + BENCH_SPARE; i++) {
			struct twheel_slot *slot = (void *)(uintptr_t)b->handle[i];
			uint64_t when = slot->deadline_ns;

			if (when && when <= bench_now()) {
				slot->deadline_ns = 0;
				bench_deliver(b, i);
			}
		}
		bench_sleep_until(bench_now() + NSEC_PER_MSEC);
	} while (bench_now() < until);
}

/* Bare stores, which other threads need not see at once, and bare exchanges. */

static inline int store_arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct twheel_slot *slot = (struct twheel_slot *)(uintptr_t)handle;

	(void)it;
	__atomic_store_n(&slot->deadline_ns, when, __ATOMIC_RELAXED);
	return 0;
}

static inline int store_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	(void)when;
	return store_arm_one(it, handle, 0);
}

static inline uint64_t exchange(uint64_t handle, uint64_t when)
{
	struct twheel_slot *slot = (struct twheel_slot *)(uintptr_t)handle;

	return __atomic_exchange_n(&slot->deadline_ns, when, __ATOMIC_SEQ_CST);
}

/* The least that a library function could do. */
static __attribute__((noinline)) uint64_t called_exchange(uint64_t handle, uint64_t when)
{
	return exchange(handle, when);
}

/* Canceling reports whether the timer was armed. */
#define EXCHANGE_LOOPS(name, swap)						\
static inline int name##_arm_one(void *it, uint64_t handle, uint64_t when)	\
{										\
	(void)it;								\
	swap(handle, when);							\
	return 0;								\
}										\
										\
static inline int name##_cancel_one(void *it, uint64_t handle, uint64_t when)	\
{										\
	(void)it;								\
	(void)when;								\
	return swap(handle, 0) ? 0 : -1;					\
}										\
										\
BENCH_LOOPS(name, b->state, name##_arm_one, name##_arm_one, name##_cancel_one)

EXCHANGE_LOOPS(called, called_exchange)
EXCHANGE_LOOPS(exchange, exchange)
BENCH_LOOPS(store, b->state, store_arm_one, store_arm_one, store_cancel_one)

BENCH_BACKEND(store, "store", store, words,
	      .max_n = 10000000, .threads = 2, .open = share_words);
BENCH_BACKEND(exchange, "exchange", exchange, words,
	      .max_n = 10000000, .threads = 2, .open = share_words, .again = exchange_turnover);
BENCH_BACKEND(called, "exchange+call", called, words,
	      .max_n = 10000000, .threads = 2, .open = share_words);

/* The protocol without the library: exchange, read, compare; mark, and KICK if necessary. */

static inline void set_mark(uint64_t *bits, uint32_t bit)
{
	uint64_t mask = 1ULL << bit % 64;

	if (!(__atomic_load_n(&bits[bit / 64], __ATOMIC_SEQ_CST) & mask))
		__atomic_fetch_or(&bits[bit / 64], mask, __ATOMIC_SEQ_CST);
}

static __attribute__((noinline, cold)) int table_mark(struct twheel *wheel, uint32_t slot,
						      uint64_t when)
{
	set_mark(wheel->marks, slot);
	set_mark(wheel->summary, slot >> wheel->shift);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (when > __atomic_load_n(wheel->next_ns, __ATOMIC_SEQ_CST))
		return 0;
	return wheel->cold->backend->kick(wheel);
}

static inline int table_arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct table *table = it;
	struct twheel_slot *slot = &table->slots[(uint32_t)handle];

	__atomic_exchange_n(&slot->deadline_ns, when, __ATOMIC_SEQ_CST);
	if (unlikely(when <= __atomic_load_n(&slot->wake_ns, __ATOMIC_SEQ_CST)))
		return table_mark(table->wheel, handle, when);
	return 0;
}

static inline int table_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	struct table *table = it;

	(void)when;
	return __atomic_exchange_n(&table->slots[(uint32_t)handle].deadline_ns, 0,
				   __ATOMIC_SEQ_CST) ? 0 : -1;
}

BENCH_LOOPS(table, b->state, table_arm_one, table_arm_one, table_cancel_one)

/*
 * The least functions that can do what twheel_set() and twheel_clear() do: they check the id,
 * exchange the word and compare. If the caches are too small, fewer cache misses overlap across
 * calls than in a loop of exchanges.
 */
static __attribute__((noinline)) int least_set(struct table *table, uint64_t id, uint64_t when)
{
	if (unlikely((uint32_t)id >= table->nr_slots || !(id >> 32)))
		return -1;
	return table_arm_one(table, id, when);
}

static __attribute__((noinline)) int least_clear(struct table *table, uint64_t id)
{
	uint64_t old;

	if (unlikely((uint32_t)id >= table->nr_slots || !(id >> 32)))
		return -1;
	old = __atomic_exchange_n(&table->slots[(uint32_t)id].deadline_ns, TWHEEL_PARKED,
				  __ATOMIC_SEQ_CST);
	return old && old != TWHEEL_PARKED ? 0 : -1;
}

static inline int least_arm_one(void *it, uint64_t handle, uint64_t when)
{
	return least_set(it, handle, when);
}

static inline int least_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	(void)when;
	return least_clear(it, handle);
}

BENCH_LOOPS(least, b->state, least_arm_one, least_arm_one, least_cancel_one)

static void table_deliver(struct bench *b, uint64_t until)
{
	struct table *table = b->state;
	struct twheel *wheel = table->wheel;
	struct twheel_event events[EVENTS];
	uint64_t now;
	int i, nr;

	while ((now = bench_now()) < until) {
		if (twheel_wait(wheel, until - now) <= 0)
			continue;
		do {
			nr = twheel_read(wheel, events, EVENTS);
			for (i = 0; i < nr; i++)
				bench_deliver(b, events[i].user_data);
		} while (nr == EVENTS);
	}
}

BENCH_BACKEND(least, "least", least, table,
	      .max_n = 10000000, .threads = 2, .open = share_timers, .settle = turn_wheel,
	      .again = least_turnover);

BENCH_BACKEND(table, "table", table, table,
	      .max_n = 10000000, .threads = 2, .open = share_timers, .settle = turn_wheel);

/* libtwheel. Pairs and turnovers add and delete timers. */

static inline int lib_set_one(void *it, uint64_t handle, uint64_t when)
{
	return twheel_set(it, handle, when);
}

static inline int lib_clear_one(void *it, uint64_t handle, uint64_t when)
{
	(void)when;
	return twheel_clear(it, handle) - 1;
}

static inline int lib_pair_one(void *it, uint64_t handle, uint64_t when)
{
	struct twheel *wheel = it;
	uint64_t id;

	(void)handle;
	if (twheel_add(wheel, when, 0, &id))
		return -1;
	return twheel_del(wheel, id) - 1;
}

static BENCH_PROTO(lib_sets)
{
	bench_each(b, wheel_of(b), handle, nr, when, lib_set_one);
}

static BENCH_PROTO(lib_clears)
{
	bench_each(b, wheel_of(b), handle, nr, when, lib_clear_one);
}

/* A turn of the wheel finds the first timer in flight, so later ones of this slot need no mark. */
static BENCH_PROTO(lib_pairs)
{
	struct twheel *wheel = wheel_of(b);
	uint64_t id;

	if (twheel_add(wheel, when, 0, &id) || wheel->cold->backend->kick(wheel) ||
	    twheel_del(wheel, id) != 1)
		b->failed++;
	bench_each(b, wheel, handle, nr, when, lib_pair_one);
}

/* No turn of the wheel finds a timer in flight, so each one is marked. */
static BENCH_PROTO(lib_briefs)
{
	bench_each(b, wheel_of(b), handle, nr, when, lib_pair_one);
}

/*
 * Deletes a timer and adds another one, which gets the same slot and another id. A program would
 * keep that id; this reads it from the library's memory, which twheel_del() accesses in any case.
 */
static inline int lib_turnover_one(void *it, uint64_t handle, uint64_t when)
{
	struct twheel *wheel = it;
	uint32_t slot = handle;
	uint64_t user_data = wheel->shadow[slot].user_data, id;

	if (twheel_del(wheel, wheel->shadow[slot].id) != 1 ||
	    twheel_add(wheel, when, user_data, &id))
		return -1;
	return (uint32_t)id == slot ? 0 : -1;
}

static BENCH_PROTO(lib_turnovers)
{
	bench_each(b, wheel_of(b), handle, nr, when, lib_turnover_one);
}

/* The same by twheel_replace(). */
static inline int lib_replace_one(void *it, uint64_t handle, uint64_t when)
{
	struct twheel *wheel = it;
	uint32_t slot = handle;
	uint64_t id;

	return twheel_replace(wheel, wheel->shadow[slot].id, when, wheel->shadow[slot].user_data,
			      &id) - 1;
}

static BENCH_PROTO(lib_replaces)
{
	bench_each(b, wheel_of(b), handle, nr, when, lib_replace_one);
}

/* Disarms and arms a timer, as a server does that works on a request of the connection. */
static inline int lib_again_one(void *it, uint64_t handle, uint64_t when)
{
	return twheel_clear(it, handle) != 1 || twheel_set(it, handle, when) ? -1 : 0;
}

static BENCH_PROTO(lib_agains)
{
	bench_each(b, wheel_of(b), handle, nr, when, lib_again_one);
}

static inline int lib_end_one(void *it, uint64_t handle, uint64_t when)
{
	struct twheel *wheel = it;

	(void)when;
	return twheel_del(wheel, wheel->shadow[(uint32_t)handle].id) < 0 ? -1 : 0;
}

static BENCH_PROTO(lib_ends)
{
	bench_each(b, wheel_of(b), handle, nr, when, lib_end_one);
}

#define LIB_VERBS							\
	.max_n = 10000000, .threads = 2, .open = share_timers,		\
	.settle = turn_wheel, .arm = lib_sets, .move = lib_sets,	\
	.cancel = lib_clears, .pair = lib_pairs, .turnover = lib_turnovers, \
	.replace = lib_replaces, .again = lib_agains,			\
	.end = lib_ends,						\
	.deliver = table_deliver, .close = table_close

const struct bench_backend bench_libtwheel = {
	.name = "libtwheel", LIB_VERBS, .brief = lib_briefs, .calls = count_calls,
};

/* libtwheel needs no mutex. This shows its cost with one, as the other backends have it. */
const struct bench_backend bench_libtwheel_mutex = {
	.name = "libtwheel+mutex", LIB_VERBS, .locked = true,
};

/* Timers that are moved by REARM, which takes effect at once, under the lock of the wheel. */

static int open_registered(struct bench *b)
{
	uint32_t i;

	if (open_wheel(b))
		return -1;
	for (i = 0; i < b->n + BENCH_SPARE; i++) {
		struct twheel_op op = {
			.opcode = TWHEEL_OP_REGISTER,
			.timer.flags = TWHEEL_KEEP | TWHEEL_DISARMED,
			.timer.user_data = i,
		};

		if (twheel_submit(wheel_of(b), &op, 1) != 1 || op.result)
			bench_die("register");
		b->handle[i] = op.timer.id;
	}
	return 0;
}

static int rearm(struct bench *b, uint64_t id, uint64_t when, uint32_t flags)
{
	struct twheel_op op = {
		.opcode = TWHEEL_OP_REARM,
		.timer.id = id,
		.timer.deadline_ns = when,
		.timer.slack_ns = b->slack,
		.timer.flags = TWHEEL_KEEP | flags,
	};

	return twheel_submit(wheel_of(b), &op, 1) == 1 ? op.result : -1;
}

static inline int rearm_arm_one(void *it, uint64_t handle, uint64_t when)
{
	return rearm(it, handle, when, TWHEEL_ABSTIME);
}

static inline int rearm_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	(void)when;
	return rearm(it, handle, 0, TWHEEL_DISARMED);
}

BENCH_LOOPS(rearm, b, rearm_arm_one, rearm_arm_one, rearm_cancel_one)

BENCH_BACKEND(rearm, "libtwheel-rearm", rearm, table,
	      .max_n = 10000000, .threads = 2, .open = open_registered);

struct twheel *bench_wheel_of(struct bench *b)
{
	return wheel_of(b);
}
