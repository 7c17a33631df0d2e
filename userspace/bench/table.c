// SPDX-License-Identifier: GPL-2.0
/*
 * The deadline table: bare words, the protocol by hand, and libtwheel.
 *
 * All have their words in a table of libtwheel: that of the wheel in the
 * process, laid out as the mapping of /dev/twheel and, like that, in small pages;
 * or that of /dev/twheel itself (TWHEEL_BACKEND=kernel). Those of the first that
 * are open at a time have the very same, as it matters which pages it has.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"
#undef NSEC_PER_SEC
#include "bench.h"

#define EVENTS	256

/**
 * struct table - a wheel of libtwheel
 * @wheel: that
 * @slots: its words
 * @index: which timer has a slot
 * @id: of each timer, where more than one backend uses them
 * @n: how many timers
 * @users: how many backends
 */
struct table {
	struct twheel_ctx *wheel;
	struct twheel_slot *slots;
	uint32_t *index;
	uint64_t *id;
	uint32_t n;
	unsigned int users;
};

/* That which others may use, too; or NULL. */
static struct table *shared;

static struct twheel_ctx *wheel_of(const struct bench *b)
{
	return ((struct table *)b->state)->wheel;
}

static int open_wheel(struct bench *b)
{
	struct twheel_options options = {
		.size = sizeof(options),
		.tick_ns = b->tick,
		.max_timers = b->n + 1024,
	};
	struct table *table = bench_alloc(1, sizeof(*table));
	int err;

	if (!getenv("TWHEEL_BACKEND"))
		options.flags = TWHEEL_OPEN_INPROCESS;
	err = twheel_open(&options, &table->wheel);
	if (err) {
		free(table);
		errno = -err;
		return -1;
	}
	table->slots = table->wheel->words.slots;
	table->index = bench_alloc(table->wheel->words.nr_slots, sizeof(*table->index));
	table->n = b->n;
	table->users = 1;
	if (!strcmp(twheel_backend(table->wheel), "inprocess")) {
		uintptr_t first = (uintptr_t)table->slots & -4096UL;

		madvise((void *)first, (size_t)table->wheel->words.nr_slots * sizeof(*table->slots),
			MADV_NOHUGEPAGE);
	}
	b->state = table;
	return 0;
}

static void name_timer(struct bench *b, uint32_t index, uint64_t id)
{
	struct table *table = b->state;

	b->handle[index] = id;
	table->index[(uint32_t)id] = index;
}

static int open_timers(struct bench *b)
{
	uint32_t i, nr = b->n + BENCH_SPARE;
	struct twheel_op ops[64];

	if (open_wheel(b))
		return -1;
	memset(ops, 0, sizeof(ops));
	for (i = 0; i < nr; i++) {
		struct twheel_op *op = &ops[i % ARRAY_SIZE(ops)];

		*op = (struct twheel_op) {
			.opcode = TWHEEL_OP_REGISTER,
			.timer.flags = TWHEEL_KEEP | TWHEEL_DISARMED,
			.timer.slack_ns = b->slack,
			.timer.user_data = i,
		};
		if (i % ARRAY_SIZE(ops) == ARRAY_SIZE(ops) - 1 || i == nr - 1) {
			unsigned int j, count = i % ARRAY_SIZE(ops) + 1;

			if (twheel_batch(wheel_of(b), ops, count) != (int)count)
				bench_die("twheel_batch");
			for (j = 0; j < count; j++) {
				if (ops[j].result)
					bench_die("register");
				name_timer(b, ops[j].timer.user_data, ops[j].timer.id);
			}
		}
	}
	return 0;
}

/* Those of a backend that is open already, if there is one with as many. */
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

static void close_table(struct bench *b)
{
	struct table *table = b->state;

	if (--table->users)
		return;
	if (table == shared)
		shared = NULL;
	twheel_close(table->wheel);
	free(table->index);
	free(table->id);
	free(table);
}

static uint64_t count_calls(struct bench *b)
{
	struct twheel_usage usage;

	twheel_usage(wheel_of(b), &usage);
	return usage.kicks + usage.refills + usage.withdrawn;
}

/* What is due is found by looking at every word, which is only for the check. */
static void scan_words(struct bench *b, uint64_t until)
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

/* Bare stores, which no other thread may count on to see, and bare exchanges. */

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

static inline int exchange_arm_one(void *it, uint64_t handle, uint64_t when)
{
	(void)it;
	exchange(handle, when);
	return 0;
}

/* Who disarms wants to know whether it was armed. */
static inline int exchange_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	(void)it;
	(void)when;
	return exchange(handle, 0) ? 0 : -1;
}

/* As little as a library could do, which is called. */
static __attribute__((noinline)) uint64_t called_exchange(uint64_t handle, uint64_t when)
{
	return exchange(handle, when);
}

static inline int called_arm_one(void *it, uint64_t handle, uint64_t when)
{
	(void)it;
	called_exchange(handle, when);
	return 0;
}

static inline int called_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	(void)it;
	(void)when;
	return called_exchange(handle, 0) ? 0 : -1;
}

BENCH_LOOPS(called, b->state, called_arm_one, called_arm_one, called_cancel_one)
BENCH_LOOPS(store, b->state, store_arm_one, store_arm_one, store_cancel_one)
BENCH_LOOPS(exchange, b->state, exchange_arm_one, exchange_arm_one, exchange_cancel_one)

const struct bench_backend bench_store = {
	.name = "store",
	.max_n = 10000000,
	.threads = 2,
	.open = share_words,
	BENCH_OPS(store),
	.deliver = scan_words,
	.close = close_table,
};

const struct bench_backend bench_exchange = {
	.name = "exchange",
	.max_n = 10000000,
	.threads = 2,
	.open = share_words,
	BENCH_OPS(exchange),
	.deliver = scan_words,
	.close = close_table,
};

const struct bench_backend bench_called = {
	.name = "exchange+call",
	.max_n = 10000000,
	.threads = 2,
	.open = share_words,
	BENCH_OPS(called),
	.deliver = scan_words,
	.close = close_table,
};

/* The protocol by hand: exchange, read, compare, and KICK if it must be. */

static __attribute__((noinline, cold)) int table_kick(struct twheel_ctx *wheel, uint32_t slot)
{
	return wheel->backend->kick(wheel, &slot, 1) == 1 ? 0 : -1;
}

static inline int table_arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct table *table = it;
	struct twheel_slot *slot = &table->slots[(uint32_t)handle];

	__twheel_exchange(slot, when);
	if (unlikely(when <= __twheel_wake(slot)))
		return table_kick(table->wheel, handle);
	return 0;
}

static inline int table_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	struct table *table = it;

	(void)when;
	return __twheel_exchange(&table->slots[(uint32_t)handle], 0) ? 0 : -1;
}

BENCH_LOOPS(table, b->state, table_arm_one, table_arm_one, table_cancel_one)

static void deliver(struct bench *b, uint64_t until)
{
	struct table *table = b->state;
	struct twheel_ctx *wheel = table->wheel;
	struct twheel_event events[EVENTS];
	uint64_t now;
	int i, nr;

	while ((now = bench_now()) < until) {
		if (twheel_wait(wheel, until - now) <= 0)
			continue;
		do {
			nr = twheel_read(wheel, events, EVENTS);
			for (i = 0; i < nr; i++)
				bench_deliver(b, table->index[(uint32_t)events[i].id]);
		} while (nr == EVENTS);
	}
}

const struct bench_backend bench_table = {
	.name = "table",
	.max_n = 10000000,
	.threads = 2,
	.open = share_timers,
	BENCH_OPS(table),
	.deliver = deliver,
	.close = close_table,
};

/* libtwheel's timers, by their words; a pair is a timeout that starts and stops. */

static inline int lib_arm_one(void *it, uint64_t handle, uint64_t when)
{
	return twheel_arm(it, handle, when);
}

static inline int lib_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	(void)when;
	return twheel_disarm(it, handle) - 1;
}

BENCH_LOOPS(lib_loop, wheel_of(b), lib_arm_one, lib_arm_one, lib_cancel_one)

static inline int start_and_stop_one(void *it, uint64_t handle, uint64_t when)
{
	struct twheel_ctx *wheel = it;
	uint64_t id;

	(void)handle;
	if (twheel_start(wheel, when, 0, &id))
		return -1;
	return twheel_stop(wheel, id) - 1;
}

/*
 * As in a loop: a timeout that is in flight when it sleeps has it flush. After
 * that the wheel looks at the slot by itself, and those that follow take it.
 */
static BENCH_PROTO(lib_pair)
{
	struct twheel_ctx *wheel = wheel_of(b);
	uint64_t id;

	if (twheel_start(wheel, when, 0, &id) || twheel_flush(wheel) || twheel_stop(wheel, id) != 1)
		b->failed++;
	bench_each(b, wheel, handle, nr, when, start_and_stop_one);
}

/* The wheel never hears of them, as none lasts until the loop sleeps. */
static BENCH_PROTO(lib_brief)
{
	bench_each(b, wheel_of(b), handle, nr, when, start_and_stop_one);
}

const struct bench_backend bench_libtwheel = {
	.name = "libtwheel",
	.max_n = 10000000,
	.threads = 2,
	.open = share_timers,
	.arm = lib_loop_arm,
	.move = lib_loop_move,
	.cancel = lib_loop_cancel,
	.pair = lib_pair,
	.brief = lib_brief,
	.turnover = lib_loop_turnover,
	.deliver = deliver,
	.calls = count_calls,
	.close = close_table,
};

/* As one has it who does not trust it: needless, and beside the others behind one. */
const struct bench_backend bench_libtwheel_mutex = {
	.name = "libtwheel+mutex",
	.max_n = 10000000,
	.threads = 2,
	.locked = true,
	.open = share_timers,
	.arm = lib_loop_arm,
	.move = lib_loop_move,
	.cancel = lib_loop_cancel,
	.pair = lib_pair,
	.turnover = lib_loop_turnover,
	.deliver = deliver,
	.close = close_table,
};

/*
 * libtwheel's timeouts. They have no slack, and as to stop one ends its id, one
 * that is not armed is one that is not due within the time of the bench.
 */

#define UNARMED	(INT64_MAX / 2)

static int open_timeouts(struct bench *b)
{
	uint64_t id;
	uint32_t i;

	if (open_wheel(b))
		return -1;
	for (i = 0; i < b->n + BENCH_SPARE; i++) {
		if (twheel_start(wheel_of(b), UNARMED, 0, &id))
			bench_die("twheel_start");
		name_timer(b, i, id);
	}
	return twheel_flush(wheel_of(b));
}

static inline int timeout_move_one(void *it, uint64_t handle, uint64_t when)
{
	return twheel_move(it, handle, when);
}

static inline int timeout_turnover_one(void *it, uint64_t handle, uint64_t when)
{
	struct twheel_ctx *wheel = it;
	uint64_t id;

	/* The slot that was freed is the one that is taken, so handles stay. */
	if (twheel_stop(wheel, handle) != 1 || twheel_start(wheel, when, 0, &id))
		return -1;
	return id == handle ? 0 : -1;
}

static BENCH_PROTO(timeout_moves)
{
	bench_each(b, wheel_of(b), handle, nr, when, timeout_move_one);
}

static BENCH_PROTO(timeout_turnovers)
{
	bench_each(b, wheel_of(b), handle, nr, when, timeout_turnover_one);
}

const struct bench_backend bench_timeout = {
	.name = "libtwheel-timeout",
	.max_n = 10000000,
	.threads = 2,
	.open = open_timeouts,
	.arm = timeout_moves,
	.move = timeout_moves,
	.turnover = timeout_turnovers,
	.deliver = deliver,
	.calls = count_calls,
	.close = close_table,
};

/* By REARM: at once, under the lock of the wheel. */

static inline int rearm_arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct bench *b = it;
	struct twheel_timer timer = {
		.id = handle,
		.deadline_ns = when,
		.slack_ns = b->slack,
		.flags = TWHEEL_KEEP | TWHEEL_ABSTIME,
	};

	return twheel_rearm(wheel_of(b), &timer);
}

static inline int rearm_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	struct bench *b = it;
	struct twheel_timer timer = { .id = handle, .flags = TWHEEL_KEEP | TWHEEL_DISARMED };

	(void)when;
	return twheel_rearm(wheel_of(b), &timer);
}

BENCH_LOOPS(rearm, b, rearm_arm_one, rearm_arm_one, rearm_cancel_one)

const struct bench_backend bench_rearm = {
	.name = "libtwheel-rearm",
	.max_n = 10000000,
	.threads = 2,
	.open = open_timers,
	BENCH_OPS(rearm),
	.deliver = deliver,
	.close = close_table,
};

/*
 * How many system calls requests with a deadline cost: REQUESTS start each ms and
 * end in the next, none of them late, and the loop sleeps in between. The timeout
 * is short, as what it costs that the wheel looks at a slot is counted here.
 */
#define CALLS_MSEC	1000U
#define CALLS_TIMEOUT	(200 * NSEC_PER_MSEC)
#define REQUESTS	50U
/* A machine that stands still for longer than the timeout lets them expire. */
#define CALLS_TRIES	5U

static void hear_late(struct bench *b, uint32_t index)
{
	(void)index;
	*(bool *)b->heard = true;
}

/* @bad: something went wrong; @late: as a timeout expired, it means nothing. */
static double calls_once(bool *bad, bool *late)
{
	struct bench *b = bench_open(&bench_timeout, 0, 0, 0);
	uint64_t ids[REQUESTS], before, calls, when;
	unsigned int msec, i;

	if (!b)
		bench_die("calls");
	*bad = false;
	*late = false;
	b->sink = hear_late;
	b->heard = late;
	before = count_calls(b);
	when = bench_now();
	for (msec = 0; msec < CALLS_MSEC; msec++) {
		for (i = 0; i < REQUESTS; i++) {
			if (msec && twheel_stop(wheel_of(b), ids[i]) != 1)
				*bad = true;
			if (twheel_start(wheel_of(b), bench_now() + CALLS_TIMEOUT, i, &ids[i]))
				*bad = true;
		}
		when += NSEC_PER_MSEC;
		b->kind->deliver(b, when);
		/* Who stood still for so long may find them expired. */
		if (bench_now() > when + CALLS_TIMEOUT / 2)
			when = bench_now();
	}
	calls = count_calls(b) - before;
	bench_close(b);
	return 1000.0 * calls / (CALLS_MSEC * REQUESTS);
}

void bench_calls(unsigned int reps)
{
	struct bench_row row = {
		.op = "calls",
		.backend = bench_libtwheel.name,
		.n = REQUESTS,
		.threads = 1,
		.pattern = "paced",
		.unit = "per_1000_pairs",
	};
	bool bad = false, once, late;
	unsigned int i, tries;
	double calls[reps];

	if (!bench_wanted(&bench_libtwheel))
		return;
	for (i = 0; i < reps; i++) {
		for (tries = 1; ; tries++) {
			calls[i] = calls_once(&once, &late);
			if (!late || tries == CALLS_TRIES)
				break;
		}
		bad |= once;
	}
	row.checked = bad ? "no" : "yes";
	bench_row(&row, calls, reps);
}
