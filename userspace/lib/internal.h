/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Declarations that the parts of libtwheel share.
 *
 *   keyed.c	timeouts by key, on the public functions alone
 *   metrics.c	statistics as Prometheus reads them
 *   open.c	opening and closing
 *   submit.c	operations, lists, drains
 *   timer.c	add, set, clear, del
 *   event.c	waiting, waking, reading
 *   process.c	what a process and its threads have: the registry, forks, caches
 *   pool.c	free slots that no thread has
 *   kernel.c	the kernel's backend
 *   inprocess.c	the other backend
 *   store.c	where that one keeps its timers
 *   wheel.c	what a wheel is
 *   arena.c	arrays that grow in place
 *
 * A file calls only those below it.
 *
 * Locks, from the outside in. All inherit priority, and a thread spins for a moment before it
 * sleeps for one: see struct lock. Moving, clearing and deleting an armed timer take none.
 *   the registry's		opening, closing, ends of threads, first use by a thread
 *   cold.reading		between the backend's read and the caller
 *     cold.pool_lock		free slots that no thread has
 *       inprocess.lock		the wheel in the process
 */
#ifndef LIBTWHEEL_INTERNAL_H
#define LIBTWHEEL_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "libtwheel.h"

#define TWHEEL_PUBLIC	__attribute__((visibility("default")))

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
/* The compiler keeps a rare path apart, so that the fast path needs no stack. */
#define rare		__attribute__((__noinline__, cold))

#define NSEC_PER_SEC	1000000000ULL

/* No struct of any version has more bytes. A greater size was never set, or is a mistake. */
#define STRUCT_MAX	4096U

/* The value of wake_ns if the wheel will not look at the slot. */
#define ASLEEP		UINT64_MAX

/* The timers of twheel_wake(). Their user_data is a random number. */
#define WAKE_DATA	0x9c5e1fd63a08b7e2ULL
#define WAKE_DEADLINE	1U

/* How many slots make_slots() asks for at a time. */
#define REFILL		64U
/* Maximum number of free slots of a wheel that a thread keeps. */
#define KEPT		(2 * REFILL)

/* Address space is taken in pieces of this size if the process may lock little memory. */
#define PIECE		(1UL << 20)

/**
 * struct arena - an array that grows in place
 * @base: where it begins
 * @reserved: bytes of address space
 * @usable: how many of these can be touched
 */
struct arena {
	char *base;
	size_t reserved;
	size_t usable;
};

/**
 * struct lock - a mutex for which a thread spins a little before it sleeps
 * @mutex: it inherits priority
 * @held: a thread has it, or nearly: to read this takes the line of memory away from nobody
 *
 * The owner has it for some 20 ns, unless the kernel works meanwhile or takes its processor
 * away. A mutex that inherits priority goes to the first thread that sleeps for it, so two
 * threads that use it in turns would sleep and be woken each time.
 */
struct lock {
	pthread_mutex_t mutex;
	bool held;
};

/*
 * Pauses of a thread before it sleeps for a lock, in all and at most between two looks: some
 * microseconds. Each is twice as long as the one before. So two threads that want the lock all
 * the time take it for some operations each, and not in turns, which would move the wheel from
 * one processor's cache to the other's for each operation.
 */
#define PAUSES		512U
#define LONGEST_PAUSE	128U

/* Spins for the lock, and then sleeps for it. */
void twheel__wait_for_lock(struct lock *lock);

static inline void take_lock(struct lock *lock)
{
	if (unlikely(pthread_mutex_trylock(&lock->mutex)))
		twheel__wait_for_lock(lock);
	__atomic_store_n(&lock->held, true, __ATOMIC_RELAXED);
}

static inline void drop_lock(struct lock *lock)
{
	__atomic_store_n(&lock->held, false, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock->mutex);
}

int twheel__arena_init(struct arena *arena, size_t bytes);
int twheel__arena_grow(struct arena *arena, size_t bytes);
void twheel__arena_free(struct arena *arena);

/**
 * struct shadow - what this process knows of a slot
 * @kernel_id: id of the slot's timer, which the backend knows; 0 if it is not ours
 * @id: id that was given out for it; 0 while it is free
 * @user_data: of the timer
 * @count: how many adds the slot has had
 * @armed: an arming is outstanding: none of its events was handed out, nor was it cleared.
 *	Changed under cold.reading, or by the thread that the timer is the only one of
 * @custom: armed by REARM with a period, so an event leaves it armed, or with a slack; a free
 *	slot is not
 */
struct shadow {
	uint64_t kernel_id;
	uint64_t id;
	uint64_t user_data;
	uint32_t count;
	uint8_t armed;
	uint8_t custom;
};

/**
 * struct twheel_backend - a kind of wheel
 * @name: as twheel_backend() tells it
 * @exec: does @n operations, each with its own result; returns how many
 * @kick: turns the wheel now
 * @read: takes events, without waiting; returns how many
 * @ready: after a wait for the descriptor: is there anything to read?
 * @next: as twheel_next()
 * @list: as twheel_list()
 * @stats: as twheel_stats()
 * @close: ends it
 */
struct twheel_backend {
	const char *name;
	int (*exec)(struct twheel *w, struct twheel_op *ops, unsigned int n);
	int (*kick)(struct twheel *w);
	int (*read)(struct twheel *w, struct twheel_event *events, unsigned int n);
	bool (*ready)(struct twheel *w, bool readable);
	uint64_t (*next)(struct twheel *w);
	int (*list)(struct twheel *w, struct twheel_timer *timers, unsigned int n,
		    uint32_t *cursor);
	int (*stats)(struct twheel *w, struct twheel_stats *stats);
	void (*close)(struct twheel *w);
};

/**
 * struct cold - the part of a wheel that a forked child keeps
 * @fd: to poll
 * @pid: the process that opened the wheel
 * @reason: why the backend is not the kernel's, or ""
 * @backend: the kind
 * @info: what it is
 * @slack_ns: of the timers of twheel_add()
 * @ahead_ns: how far the clock of the wheel is ahead of the same clock in this process, modulo
 *	2^64: another process may have opened it in another time namespace
 * @no_preadv2: preadv2() is not to be had
 * @table: the mapping of a kernel wheel; of one that is observed, under @reading
 * @table_bytes: its size
 * @inprocess: of inprocess.c
 * @shadow: a &struct shadow for each slot that was ever ours, and those before it
 * @reading: held from the backend's read until its events are handed out
 * @pool_lock: protects what follows
 * @pool: free slots that no thread has
 * @nr_pool: how many
 * @pool_room: how many there is room for
 * @wake_id: of the timer that twheel_wake() uses, or 0; written under @reading, atomically
 * @usage: counted atomically
 */
struct cold {
	int fd;
	pid_t pid;
	const char *reason;
	const struct twheel_backend *backend;
	struct twheel_info info;
	uint64_t slack_ns;
	uint64_t ahead_ns;
	bool no_preadv2;
	void *table;
	size_t table_bytes;
	struct inprocess *inprocess;
	struct arena shadow;
	struct lock reading;
	struct lock pool_lock;
	uint32_t *pool;
	uint32_t nr_pool;
	uint32_t pool_room;
	/* A 32-bit compiler would let these straddle cache lines. */
	_Alignas(8) uint64_t wake_id;
	struct twheel_usage usage;
};

/**
 * struct twheel - the part of a wheel that a forked child finds zeroed
 * @words: where the words are
 * @nr_slots: how many of them the fast ways may touch: none, if @special
 * @special: ids are checked, or a sanitizer wants to know
 * @nr_words: how many can be touched
 * @kinds: twheel_clear() must ask of what kind its timer is: there may be periodic ones, or
 *	the kernel knows no parked words
 * @marks: a bit for each slot
 * @summary: a bit for 2^@shift slots
 * @next_ns: when the wheel will be turned next; NULL if it is only observed
 * @shift: see there
 * @index: of the wheel, in this process
 * @serial: tells it from all others of this process
 * @parks: the wheel knows parked words
 * @shadow: cold.shadow
 * @nr_shadows: how many of them
 * @cold: the rest
 */
struct twheel {
	struct twheel_slot *words;
	uint32_t nr_slots;
	uint32_t special;
	uint32_t nr_words;
	uint32_t kinds;
	uint64_t *marks;
	uint64_t *summary;
	uint64_t *next_ns;
	uint32_t shift;
	uint32_t index;
	uint64_t serial;
	bool parks;
	struct shadow *shadow;
	uint32_t nr_shadows;
	struct cold *cold;
};

/* Why twheel.special is not 0. */
#define SPECIAL_CHECKED	1U
#define SPECIAL_TSAN	2U

static inline uint32_t load32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline uint64_t load64(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* A flag that another thread may just set. */
static inline bool is_set(const uint8_t *flag)
{
	return __atomic_load_n(flag, __ATOMIC_RELAXED);
}

/* True if @word arms its timer. */
static inline bool is_arming(uint64_t word)
{
	return word && word != TWHEEL_PARKED;
}

static inline void count(uint64_t *p)
{
	__atomic_fetch_add(p, 1, __ATOMIC_RELAXED);
}

/* True if this is a forked child of the process that opened @w. */
static inline bool is_child(const struct twheel *w)
{
	return !w->serial;
}

/* More words can be touched. */
static inline void set_nr_words(struct twheel *w, uint32_t nr)
{
	__atomic_store_n(&w->nr_words, nr, __ATOMIC_RELEASE);
	if (!w->special)
		__atomic_store_n(&w->nr_slots, nr, __ATOMIC_RELEASE);
}

/* wheel.c */
/* Set by twheel__process_init(). */
extern size_t twheel__page_size;

struct cold *twheel__cold(const struct twheel *w);
struct twheel *twheel__new(void);
void twheel__free(struct twheel *w);
int twheel__mutex_init(pthread_mutex_t *mutex);
int twheel__try_clock(int clock_id);
uint64_t twheel__clock(int clock_id);

/* process.c */
/**
 * struct cache - free slots that a thread has of a wheel
 * @serial: of the wheel; another one means that the slots are nobody's
 * @nr: how many
 * @slots: they, the latest last
 */
struct cache {
	uint64_t serial;
	uint32_t nr;
	uint32_t slots[KEPT];
};

/**
 * struct thread - what a thread has
 * @caches: by index of the wheel
 * @nr_caches: how many
 * @owner: the registry that it is in
 * @next: next thread there
 * @prev: where this is linked
 */
struct thread {
	struct cache **caches;
	uint32_t nr_caches;
	struct registry *owner;
	struct thread *next;
	struct thread **prev;
};

/* musl refuses such a variable in a library that dlopen() loads. */
#ifdef __GLIBC__
#define TLS_MODEL	__attribute__((tls_model("initial-exec")))
#else
#define TLS_MODEL
#endif

extern __thread struct thread *twheel__self TLS_MODEL __attribute__((visibility("hidden")));

int twheel__process_init(void);
int twheel__enroll(struct twheel *w);
void twheel__dismiss(struct twheel *w);
struct cache *twheel__make_cache(struct twheel *w);

/* The cache of this thread, or NULL. */
static inline struct cache *find_cache(const struct twheel *w)
{
	struct thread *self = twheel__self;
	struct cache *cache;

	if (unlikely(!self || w->index >= self->nr_caches))
		return NULL;
	cache = self->caches[w->index];
	return likely(cache && cache->serial == w->serial) ? cache : NULL;
}

/* pool.c */
void twheel__spill(struct twheel *w, struct cache *cache, uint32_t keep);
int twheel__refill(struct twheel *w, struct cache *cache);
void twheel__lose(struct twheel *w, struct shadow *shadow, uint64_t kernel_id);
void twheel__forget_slot(struct twheel *w, uint64_t kernel_id);

/* timer.c, event.c */
void twheel__end_timers(struct twheel *w);
bool twheel__replace(struct twheel *w, uint32_t slot, uint64_t from, uint64_t to);
void twheel__make_wake_timer(struct twheel *w);

/* The shadow of @slot if that is ours, or NULL. */
static inline struct shadow *find_shadow(const struct twheel *w, uint32_t slot)
{
	struct shadow *shadow;

	if (slot >= __atomic_load_n(&w->nr_shadows, __ATOMIC_ACQUIRE))
		return NULL;
	shadow = &w->shadow[slot];
	return load64(&shadow->kernel_id) ? shadow : NULL;
}

/* True if @id names a timer of this process. The id of a free slot is 0. */
static inline bool is_live(const struct shadow *shadow, uint64_t id)
{
	return id && load64(&shadow->id) == id;
}

/* kernel.c, inprocess.c */
int twheel__kernel_open(struct twheel *w, const struct twheel_setup *setup);
int twheel__kernel_attach(struct twheel *w, int fd);
int twheel__kernel_observe(struct twheel *w, int fd);
void twheel__find_namespace(struct twheel *w);
/* Without inprocess.c there is no other backend to fall back on. */
#ifdef WITHOUT_FALLBACK
#define FALLBACK	false
static inline int twheel__inprocess_open(struct twheel *w, const struct twheel_setup *setup)
{
	(void)w;
	(void)setup;
	return -EOPNOTSUPP;
}
#else
#define FALLBACK	true
int twheel__inprocess_open(struct twheel *w, const struct twheel_setup *setup);
#endif

/*
 * ThreadSanitizer does not see that an event comes after its arming. If the program has the
 * sanitizer, these calls say so.
 */
void __tsan_release(void *addr) __attribute__((weak));
void __tsan_acquire(void *addr) __attribute__((weak));

#endif /* LIBTWHEEL_INTERNAL_H */
