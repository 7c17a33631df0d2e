/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the bench share.
 *
 *   main.c	the command line
 *   backend.c	the list of all backends
 *   measure.c	one operation, many backends: repeated in turn, median and spread
 *   check.c	whether a backend does the work; and what its expirations cost
 *   heartbeat.c	connections that send heartbeats, and some that fall silent
 *   server.c	the loop of a server, with cold caches
 *   turn.c	one turn of a loop that moves the timers of many connections
 *   calls.c	system calls that timers of libtwheel cost
 *   futex.c	how often threads of libtwheel wait for each other
 *   rival.c	timers of other languages, in programs of their own
 *   row.c	what comes out
 *   clock.c	clocks, chance and memory
 *   the others	a family of backends each
 *
 * A file calls no file that calls it.
 */
#ifndef BENCH_H
#define BENCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/cdefs.h>
#include <time.h>

#define NSEC_PER_USEC	1000ULL
#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_SEC	1000000000ULL

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* From the deadline of one operation to that of the next. */
#define BENCH_STEP	1000ULL
/* Threads at most. */
#define BENCH_THREADS	4U
/* Timers beside the n of a bench: so many that those of two threads share no line. */
#define BENCH_SPARE	16U
/* The resolution of epoll_wait(), and so of libev, as near as a tick comes. */
#define BENCH_COARSE	(1ULL << 20)

struct bench;

/**
 * struct bench_backend - what can hold timers
 * @name: in the rows
 * @max_n: how many timers it can be asked to hold
 * @why: what is in the way of more, or NULL
 * @limit: how many this machine lets it hold, or NULL: as many
 * @threads: how many threads may use one at a time
 * @locked: they take a mutex around each operation
 * @together: it is measured with several threads only
 * @open: makes @n + %BENCH_SPARE timers, none of them armed, and their handles;
 *	0, or -1 if this machine cannot
 * @settle: what happens in time once timers are armed, and is not measured; NULL: nothing
 * @begin: called in the time that is measured, before operations that take
 *	the present time from a loop which has read it; NULL if none does
 * @arm: arms idle timers
 * @move: moves armed timers to a later time
 * @cancel: disarms armed timers
 * @pair: arms idle timers, and disarms each at once
 * @brief: that, where it makes a difference that none of them lasts until the
 *	wheel is turned
 * @turnover: disarms armed timers, and arms each again
 * @again: disarms armed timers, and arms each again, the same; NULL: is not measured
 * @end: ends timers that have expired; NULL if that is nothing
 * @deliver: calls bench_deliver() for each that expires, and returns when the
 *	clock has reached @until
 * @reach: how many timers can be operated on, from the first on; NULL: as
 *	bench.usable says
 * @cpu: CPU time that operations have taken so far, whoever did them; NULL: that of
 *	the caller
 * @calls: system calls so far that the operations have cost; NULL: not known
 * @close: ends all
 *
 * Operations that a backend has not are NULL. Handle i is due at @when +
 * i * %BENCH_STEP.
 */
struct bench_backend {
	const char *name;
	uint32_t max_n;
	const char *why;
	uint32_t (*limit)(void);
	unsigned int threads;
	bool locked;
	bool together;
	int (*open)(struct bench *b);
	void (*settle)(struct bench *b);
	void (*begin)(struct bench *b);
	void (*arm)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
	void (*move)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
	void (*cancel)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
	void (*pair)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
	void (*brief)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
	void (*turnover)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
	void (*again)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
	void (*end)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
	void (*deliver)(struct bench *b, uint64_t until);
	uint32_t (*reach)(struct bench *b);
	uint64_t (*cpu)(struct bench *b);
	uint64_t (*calls)(struct bench *b);
	void (*close)(struct bench *b);
};

/**
 * struct bench - a backend that holds timers
 * @kind: the backend
 * @state: its own
 * @n: how many timers, without the spare ones
 * @usable: how many of these the caller can operate on: the first. The others are
 *	armed, and that is all, if there is no &bench_backend.reach beyond
 * @threads: how many threads use it at a time
 * @least: so many operations at least are a repetition
 * @slack: by how many ns they may be late, for those who can use it
 * @tick: the resolution in ns that is wanted of wheels
 * @handle: by which they are named
 * @lock: to be taken around each operation; NULL if there is none
 * @mutex: that
 * @sink: who hears of expirations
 * @heard: for @sink
 * @came: when what expires did; 0: now
 * @failed: operations that were refused
 */
struct bench {
	const struct bench_backend *kind;
	void *state;
	uint32_t n;
	uint32_t usable;
	unsigned int threads;
	uint64_t least;
	uint64_t slack;
	uint64_t tick;
	uint64_t *handle;
	pthread_mutex_t *lock;
	pthread_mutex_t mutex;
	void (*sink)(struct bench *b, uint32_t index);
	void *heard;
	uint64_t came;
	uint64_t failed;
};

/* An initializer of any kind of timespec. */
#define BENCH_TIME(ns) { .tv_sec = (ns) / NSEC_PER_SEC, .tv_nsec = (ns) % NSEC_PER_SEC }

/* Around what is done to the timers of a backend that has a mutex. */
static inline void bench_lock(struct bench *b)
{
	if (b->lock)
		pthread_mutex_lock(b->lock);
}

static inline void bench_unlock(struct bench *b)
{
	if (b->lock)
		pthread_mutex_unlock(b->lock);
}

/* Before operations, for those who have something to do then. */
static inline void bench_begin(struct bench *b)
{
	if (b->kind->begin)
		b->kind->begin(b);
}

/* Timer @index has expired. */
static inline void bench_deliver(struct bench *b, uint32_t index)
{
	b->sink(b, index);
}

/* By a branch, as a program would ask, and not by arithmetic. */
static __always_inline bool bench_refused(int ret)
{
	if (__builtin_expect(ret < 0, 0)) {
		/* Or the compiler makes arithmetic of it. */
		__asm__ volatile("");
		return true;
	}
	return false;
}

/*
 * @one for each handle. The compiler makes a loop of it for each @one, and a
 * program would have @it, the wheel or whatever it is, at hand as well.
 */
static __always_inline void bench_each(struct bench *b, void *it, const uint64_t *handle, size_t nr,
				       uint64_t when,
				       int (*one)(void *it, uint64_t handle, uint64_t when))
{
	pthread_mutex_t *lock = b->lock;
	uint64_t failed = 0;
	size_t i;

	if (!lock) {
		for (i = 0; i < nr; i++, when += BENCH_STEP)
			failed += bench_refused(one(it, handle[i], when));
	} else {
		for (i = 0; i < nr; i++, when += BENCH_STEP) {
			pthread_mutex_lock(lock);
			failed += bench_refused(one(it, handle[i], when));
			pthread_mutex_unlock(lock);
		}
	}
	if (failed)
		__atomic_fetch_add(&b->failed, failed, __ATOMIC_RELAXED);
}

/* @first and @second for each handle, as they come to a program: one at a time. */
static __always_inline void bench_both(struct bench *b, void *it, const uint64_t *handle, size_t nr,
				       uint64_t when,
				       int (*first)(void *it, uint64_t handle, uint64_t when),
				       int (*second)(void *it, uint64_t handle, uint64_t when))
{
	pthread_mutex_t *lock = b->lock;
	uint64_t failed = 0;
	size_t i;

	if (!lock) {
		for (i = 0; i < nr; i++, when += BENCH_STEP) {
			failed += bench_refused(first(it, handle[i], when));
			failed += bench_refused(second(it, handle[i], when));
		}
	} else {
		for (i = 0; i < nr; i++, when += BENCH_STEP) {
			pthread_mutex_lock(lock);
			failed += bench_refused(first(it, handle[i], when));
			pthread_mutex_unlock(lock);
			pthread_mutex_lock(lock);
			failed += bench_refused(second(it, handle[i], when));
			pthread_mutex_unlock(lock);
		}
	}
	if (failed)
		__atomic_fetch_add(&b->failed, failed, __ATOMIC_RELAXED);
}

#define BENCH_PROTO(fn) \
	void fn(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when)

/*
 * The five operations of a backend, as loops over what one timer takes:
 * int arm_one(it, handle, when), and so on; negative is a failure. @it is an
 * expression of b.
 */
#define BENCH_LOOPS(name, it, arm_one, move_one, cancel_one)		\
static void name##_arm(struct bench *b, const uint64_t *handle,		\
		       size_t nr, uint64_t when)			\
{									\
	bench_each(b, it, handle, nr, when, arm_one);			\
}									\
									\
static BENCH_PROTO(name##_move)						\
{									\
	bench_each(b, it, handle, nr, when, move_one);			\
}									\
									\
static BENCH_PROTO(name##_cancel)					\
{									\
	bench_each(b, it, handle, nr, when, cancel_one);		\
}									\
									\
static __attribute__((unused)) BENCH_PROTO(name##_pair)			\
{									\
	bench_both(b, it, handle, nr, when, arm_one, cancel_one);	\
}									\
									\
static BENCH_PROTO(name##_turnover)					\
{									\
	bench_both(b, it, handle, nr, when, cancel_one, arm_one);	\
}

/* Their place in the table of a backend. */
#define BENCH_OPS(name)							\
	.arm = name##_arm,						\
	.move = name##_move,						\
	.cancel = name##_cancel,					\
	.pair = name##_pair,						\
	.turnover = name##_turnover

/* A backend: the five operations are @ops, it ends as @of does, and the rest is members. */
#define BENCH_BACKEND(backend, title, ops, of, ...)			\
	const struct bench_backend bench_##backend = {			\
		.name = title,						\
		BENCH_OPS(ops),						\
		.deliver = of##_deliver,				\
		.close = of##_close,					\
		__VA_ARGS__						\
	}

extern const struct bench_backend *const bench_backends[];
extern const unsigned int bench_nr_backends;

extern const struct bench_backend bench_store, bench_exchange, bench_called, bench_least;
extern const struct bench_backend bench_table;
extern const struct bench_backend bench_libtwheel, bench_libtwheel_mutex;
extern const struct bench_backend bench_rearm;
extern const struct bench_backend bench_wheel, bench_wheel_mutex;
extern const struct bench_backend bench_lazy, bench_lazy_mutex;
extern const struct bench_backend bench_heap, bench_heap_mutex;
extern const struct bench_backend bench_libev, bench_libev_mutex;
extern const struct bench_backend bench_libevent, bench_libevent_mutex;
extern const struct bench_backend bench_libuv, bench_libuv_mutex;
extern const struct bench_backend bench_timerfd, bench_posix;
extern const struct bench_backend bench_io_uring, bench_io_uring_mutex;
extern const struct bench_backend bench_tokio, bench_go;

/* backend.c */

extern const char *bench_only;
bool bench_is_listed(const char *list, const char *name);
struct bench *bench_open(const struct bench_backend *kind, uint32_t n, uint64_t slack,
			 uint64_t tick);
struct bench *bench_must_open(const struct bench_backend *kind, uint32_t n, uint64_t slack,
			      uint64_t tick);
void bench_close(struct bench *b);
uint32_t bench_fit(const struct bench_backend *kind, uint32_t n);
uint64_t bench_cpu(struct bench *b);

/* clock.c */

void bench_stop(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void bench_die(const char *what) __attribute__((noreturn));
uint64_t bench_now(void);
uint64_t bench_thread_cpu(void);
uint64_t bench_process_cpu(void);
void bench_sleep_until(uint64_t until);
uint64_t bench_random(void);
void bench_shuffle(uint32_t *order, uint32_t nr);
void *bench_alloc(size_t nr, size_t size);
uint64_t bench_raise_limit(int resource, uint64_t wanted);

/**
 * struct bench_alarm - a timerfd that wakes a loop for the first of its timers
 * @fd: the timerfd
 * @set: for when; UINT64_MAX if for nothing
 */
struct bench_alarm {
	int fd;
	uint64_t set;
};

void bench_alarm_open(struct bench_alarm *alarm);
void bench_alarm_wait(struct bench_alarm *alarm, uint64_t next, uint64_t until);

/* row.c */

/**
 * struct bench_row - a number that was measured
 * @op: which operation
 * @backend: of whom
 * @n: with how many timers
 * @threads: by how many threads
 * @pattern: in which order
 * @unit: of the number
 * @checked: "yes", "early" or "no"
 */
struct bench_row {
	const char *op;
	const char *backend;
	uint32_t n;
	unsigned int threads;
	const char *pattern;
	const char *unit;
	const char *checked;
};

extern const char *bench_where;

void bench_row_header(void);
void bench_row(const struct bench_row *row, double *values, unsigned int reps);
void bench_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* check.c */

const char *bench_check(const struct bench_backend *kind);
const char *bench_checked(const struct bench_backend *kind);
bool bench_wanted(const struct bench_backend *kind);
void bench_expire(uint32_t n, uint32_t before, unsigned int reps);
uint64_t bench_arm_within(struct bench *b, uint64_t *due, uint64_t span, uint64_t lead);

/**
 * struct bench_quantile - of what came, the latest but for some
 * @op: its name in a row
 * @of_10000: so many are not later
 */
struct bench_quantile {
	const char *op;
	unsigned int of_10000;
};

void bench_quantiles(uint64_t *late, uint32_t nr, const struct bench_quantile *q,
		     unsigned int quantiles, double *us);

/* table.c */

struct twheel *bench_wheel_of(struct bench *b);

/* calls.c */

void bench_calls(unsigned int reps, uint32_t most);

/* futex.c */

void bench_futex(unsigned int reps, uint32_t n);

/* server.c */

void bench_server(unsigned int reps);

/* turn.c */

void bench_turn(uint32_t n, unsigned int reps);

/* measure.c */

void bench_measure(uint32_t n, unsigned int threads, unsigned int reps, bool few);

#endif /* BENCH_H */
