/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Declarations that the parts of libtwheel share.
 *
 *   keyed.c	timeouts by key, built on the public functions
 *   metrics.c	statistics for Prometheus
 *   open.c	opening and closing
 *   submit.c	operations, lists, drains
 *   timer.c	add, set, clear, del
 *   event.c	waiting, waking, reading
 *   process.c	state of a process and its threads: the registry, forks, caches
 *   pool.c	free slots that are in no thread's cache
 *   kernel.c	the backend for /dev/twheel
 *   inprocess.c	the backend inside the process
 *   store.c	the timers of the in-process wheel
 *   wheel.c	the memory, the clock and the locks of a wheel
 *   arena.c	arrays that grow in place
 *
 * A file calls only functions of the files below it.
 *
 * Locks, from the outside in. All inherit priority, and a thread spins for a moment before it
 * sleeps: see struct lock. To move, clear or delete an armed timer takes no lock.
 *   twheel_keyed.lock		the keys of a set
 *   registry.lock		opening, closing, the end of a thread, its first use of a wheel
 *   cold.reading		from the backend's read until the caller has the events
 *     cold.pool_lock		free slots that are in no thread's cache
 *       inprocess.lock		the in-process wheel
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
#include "lock.h"

#define TWHEEL_PUBLIC	__attribute__((visibility("default")))

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
/* The compiler keeps a rare path apart, so that the fast path needs no stack. */
#define rare		__attribute__((__noinline__, cold))

#define NSEC_PER_SEC	1000000000ULL

/* The structs of all versions are smaller, so a larger size was left unset or is a mistake. */
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
 * @base: the first element
 * @reserved: size of the reserved address space in bytes
 * @usable: size of its first part that can be accessed
 */
struct arena {
	char *base;
	size_t reserved;
	size_t usable;
};

int twheel__arena_init(struct arena *arena, size_t bytes);
int twheel__arena_grow(struct arena *arena, size_t bytes);
void twheel__arena_free(struct arena *arena);

/**
 * struct shadow - the state of a slot in this process
 * @kernel_id: the id by which the backend knows the slot's timer, or 0 if twheel_add() does not
 *	use this slot
 * @id: the id that the program got for the timer, 0 while the slot is free, or %REPLACING
 * @user_data: of the timer
 * @count: how often a timer was added in this slot
 * @armed: the timer was armed, and since then its event has not been handed out, nor was the
 *	timer cleared. Changed under cold.reading, or by the only thread that uses the timer
 * @custom: REARM gave the timer a period, so that it is still armed after an event, or a slack of
 *	its own. Never set in a free slot
 */
struct shadow {
	uint64_t kernel_id;
	uint64_t id;
	uint64_t user_data;
	uint32_t count;
	uint8_t armed;
	uint8_t custom;
};

/* The value of shadow.id while twheel_replace() changes the timer. It names no slot. */
#define REPLACING	UINT64_MAX

/**
 * struct twheel_backend - a kind of wheel
 * @name: what twheel_backend() returns
 * @exec: performs @n operations, each with its own result, and returns how many have one
 * @kick: turns the wheel now
 * @read: reads events without waiting, and returns their number
 * @ready: called after a wait for the descriptor: returns whether there is anything to read
 * @next: does the work of twheel_next()
 * @list: does the work of twheel_list()
 * @stats: does the work of twheel_stats()
 * @close: frees what the backend has allocated, and closes the descriptor
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
 * @fd: the descriptor to poll
 * @pid: the process that opened the wheel
 * @reason: why the wheel is not the kernel's, or ""
 * @backend: the functions of the backend
 * @info: the shape of the wheel, as twheel_info() reports it
 * @slack_ns: slack of the timers of twheel_add()
 * @ahead_ns: how far the clock of the wheel is ahead of the same clock in this process, modulo
 *	2^64, because another process may have opened the wheel in another time namespace
 * @no_preadv2: preadv2() cannot be used here
 * @table: the mapping of a kernel wheel. For an observed wheel, it is made under @reading
 * @table_bytes: size of @table
 * @inprocess: the wheel of inprocess.c
 * @shadow: a &struct shadow for each slot, up to the highest that twheel_add() has used
 * @reading: held from the backend's read until its events are handed out
 * @pool_lock: protects the members from @pool to @pool_room
 * @pool: free slots that are in no thread's cache
 * @nr_pool: number of slots in @pool
 * @pool_room: allocated length of @pool
 * @wake_id: id of the timer that twheel_wake() uses, or 0. Written under @reading, and read
 *	without it
 * @usage: the counters of twheel_usage(), changed atomically
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
 * @words: the words of the deadline table
 * @nr_slots: how many words the fast paths may access, which is none if @special is set
 * @special: SPECIAL_ flags: ids are checked, or ThreadSanitizer has to be told of armings
 * @nr_words: how many words can be accessed
 * @check_kind: twheel_clear() has to find out what kind of timer it clears, because there may
 *	be periodic timers, or because the module does not support parked words
 * @marks: a bit for each slot
 * @summary: a bit for each 2^@shift slots
 * @next_ns: when the wheel turns next, or NULL if it is only observed
 * @shift: see @summary
 * @index: number of the wheel in this process, which is reused after it is closed
 * @serial: number of the wheel in this process, which is never reused; 0 in a forked child
 * @parks: the wheel supports parked words
 * @shadow: the array in cold.shadow
 * @nr_shadows: length of @shadow
 * @cold: the rest of the wheel
 */
struct twheel {
	struct twheel_slot *words;
	uint32_t nr_slots;
	uint32_t special;
	uint32_t nr_words;
	uint32_t check_kind;
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

/* Reads a flag that another thread may set at the same time. */
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

/* Notes that the first @nr words can be accessed now. */
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
int twheel__try_clock(int clock_id);
uint64_t twheel__clock(int clock_id);

/* process.c */
/**
 * struct cache - free slots of a wheel that a thread keeps for its next adds
 * @serial: serial of the wheel. If the wheel at this index has another one, the slots belong to a
 *	wheel that was closed
 * @nr: number of slots
 * @slots: the slots, of which the last is used first
 */
struct cache {
	uint64_t serial;
	uint32_t nr;
	uint32_t slots[KEPT];
};

/**
 * struct thread - the caches of a thread
 * @caches: the cache for each wheel, by the index of the wheel
 * @nr_caches: length of @caches
 * @owner: the registry that lists this thread
 * @next: next thread in that list
 * @prev: the pointer that points to this thread in that list
 */
struct thread {
	struct cache **caches;
	uint32_t nr_caches;
	struct registry *owner;
	struct thread *next;
	struct thread **prev;
};

/* musl refuses initial-exec variables in a library that is loaded with dlopen(). */
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
bool twheel__exchange(struct twheel *w, uint32_t slot, uint64_t from, uint64_t to);
void twheel__make_wake_timer(struct twheel *w);

/* Returns the shadow of @slot, or NULL if twheel_add() does not use that slot. */
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
 * ThreadSanitizer cannot see that an event happens after its arming. In a program that is built
 * with the sanitizer, these calls tell it.
 */
void __tsan_release(void *addr) __attribute__((weak));
void __tsan_acquire(void *addr) __attribute__((weak));

/*
 * Tells ThreadSanitizer that a timer is about to be armed, or its user_data replaced. @shadow is
 * NULL for timers of REGISTER, and then the wheel stands for all of them.
 */
static inline void tell_arming(struct twheel *w, struct shadow *shadow)
{
	if (w->special & SPECIAL_TSAN)
		__tsan_release(shadow ? (void *)shadow : w);
}

/* Tells ThreadSanitizer that an event of such a timer was read. */
static inline void tell_event(struct twheel *w, struct shadow *shadow)
{
	if (w->special & SPECIAL_TSAN)
		__tsan_acquire(shadow ? (void *)shadow : w);
}

#endif /* LIBTWHEEL_INTERNAL_H */
