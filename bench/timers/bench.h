/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interfaces between the parts of the bench:
 *
 *   main.c	the command line
 *   backend.c	the list of all backends
 *   measure.c	measures one operation of all backends in turn
 *   check.c	checks that a backend works, and measures its expirations
 *   heartbeat.c	measures connections that send heartbeats, some of which fall silent
 *   server.c	measures the loop of a server, with cold caches
 *   turn.c	measures one turn of a loop that moves the timers of many connections
 *   calls.c	counts the system calls that timers of libtwheel cost
 *   futex.c	counts how often threads of libtwheel wait for each other
 *   rival.c	timers of other languages, in separate programs
 *   row.c	prints the results
 *   clock.c	clocks, random numbers and memory
 *   the others	a family of backends each
 *
 * No two files call each other.
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

/* The interval between the deadlines of two consecutive operations. */
#define BENCH_STEP	1000ULL
/* Maximum number of threads. */
#define BENCH_THREADS	4U
/* Additional timers of a bench, so that the timers of two threads share no cache line. */
#define BENCH_SPARE	16U
/* The tick that is nearest to the resolution of epoll_wait(), and so of libev. */
#define BENCH_COARSE	(1ULL << 20)

struct bench;

/**
 * struct bench_backend - a library or kernel facility that holds timers
 * @name: its name in the rows
 * @max_n: maximum number of timers that it is measured with
 * @why: the reason for this maximum, or NULL
 * @limit: returns the maximum number of timers on this machine; NULL if that is @max_n
 * @threads: maximum number of threads that may use it at the same time
 * @locked: the threads take a mutex around each operation
 * @together: it is only measured with several threads
 * @open: creates @n + %BENCH_SPARE idle timers and their handles. Returns 0, or -1 if this
 *	machine cannot hold them
 * @settle: does the work that follows the arming of timers and is not measured; may be NULL
 * @begin: called in the measured time, before operations that use the cached time of a loop;
 *	may be NULL
 * @arm: arms idle timers
 * @move: moves armed timers to a later time
 * @cancel: disarms armed timers
 * @pair: arms idle timers, and disarms each at once
 * @brief: the same for timers that never last until the wheel turns, if that makes a difference
 * @turnover: disarms armed timers, and arms another one in place of each
 * @replace: the same as @turnover in one call; NULL if there is no such call
 * @again: disarms armed timers, and arms the same timers again; NULL if it is not measured
 * @end: frees timers that have expired; may be NULL
 * @deliver: calls bench_deliver() for each timer that expires, and returns when the
 *	clock has reached @until
 * @reach: returns how many timers, beginning with the first, operations can be applied to;
 *	NULL if bench.usable says so
 * @cpu: returns the CPU time that operations have taken so far, in whichever process; NULL if
 *	that is the time of the caller
 * @calls: returns the number of system calls of the operations so far; NULL if it is not known
 * @close: frees everything
 *
 * Operations that a backend does not have are NULL. The timer of handle[i] is due at @when +
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
	void (*replace)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
	void (*again)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
	void (*end)(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when);
	void (*deliver)(struct bench *b, uint64_t until);
	uint32_t (*reach)(struct bench *b);
	uint64_t (*cpu)(struct bench *b);
	uint64_t (*calls)(struct bench *b);
	void (*close)(struct bench *b);
};

/**
 * struct bench - a set of timers in a backend
 * @kind: the backend
 * @state: private data of the backend
 * @n: number of timers, without the spare ones
 * @usable: number of timers, beginning with the first, that operations can be applied to. The
 *	others are only armed, unless &bench_backend.reach returns a higher number
 * @threads: number of threads that use it at the same time
 * @least: minimum number of operations in a repetition
 * @slack: by how many ns timers may be late, for backends that support slack
 * @tick: the resolution of a wheel in ns
 * @handle: the handles of the timers
 * @lock: the mutex to take around each operation; NULL if there is none
 * @mutex: the mutex that @lock points to
 * @sink: called for each expiration
 * @heard: private data of @sink
 * @came: time of the expiration that is being delivered; 0 for the current time
 * @failed: number of operations that were refused
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

/* Take and release the mutex of a backend, if it has one. */
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

/* Called before operations: lets the backend update its cached time. */
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

/* Checks for an error with a branch, as a program would. */
static __always_inline bool bench_refused(int ret)
{
	if (__builtin_expect(ret < 0, 0)) {
		/* Without this, the compiler would replace the branch by arithmetic. */
		__asm__ volatile("");
		return true;
	}
	return false;
}

/*
 * Applies @one to each handle. The compiler inlines it, so there is a loop for each operation. @it
 * is the wheel or loop, which a program would also keep at hand.
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

/* Applies @first and @second to each handle, one handle at a time, as a program would. */
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
 * Defines the five operations of a backend as loops over functions for one timer, such as
 * int arm_one(it, handle, when), which return a negative number for a failure. @it is an expression
 * of b.
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

/* Initializes the members for these operations in struct bench_backend. */
#define BENCH_OPS(name)							\
	.arm = name##_arm,						\
	.move = name##_move,						\
	.cancel = name##_cancel,					\
	.pair = name##_pair,						\
	.turnover = name##_turnover

/*
 * Defines a backend. The operations have the prefix @ops, and deliver and close the prefix @of. The
 * other arguments initialize further members.
 */
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
 * struct bench_alarm - a timerfd that wakes a loop for its earliest timer
 * @fd: the timerfd
 * @set: the time it is set to; UINT64_MAX if it is disarmed
 */
struct bench_alarm {
	int fd;
	uint64_t set;
};

void bench_alarm_open(struct bench_alarm *alarm);
void bench_alarm_wait(struct bench_alarm *alarm, uint64_t next, uint64_t until);

/* row.c */

/**
 * struct bench_row - the columns that describe a measured number
 * @op: the operation
 * @backend: the backend
 * @n: number of timers
 * @threads: number of threads
 * @pattern: the order of the timers
 * @unit: the unit of the number
 * @checked: what check.c found: "yes", "early" or "no"
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
 * struct bench_quantile - a quantile of the lateness
 * @op: its name in a row
 * @of_10000: the share of expirations that are not later, in 1/10,000
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
