/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * What the parts of libtwheel share.
 *
 *   device.c	opening a wheel, and the kernel's backend
 *   inprocess.c	the other backend
 *   timer.c	timers: what goes to the backend as it is
 *   table.c	the words: arm, disarm, and the kicks that follow
 *   timeout.c	timeouts, in slots that are kept for the next
 *   event.c	waiting and reading
 *   keyed.c	timeouts by key
 *
 * Locks, from the outside in:
 *   twheel_registry		which thread has caches of which wheel
 *     twheel_home.reading	between the backend's read and the caller
 *       twheel_home.lock		the slots that no thread has
 *         that of inprocess.c
 * None is taken to arm, move or disarm.
 */
#ifndef LIBTWHEEL_INTERNAL_H
#define LIBTWHEEL_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "libtwheel.h"

#define TWHEEL_PUBLIC	__attribute__((visibility("default")))

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
/* What is rare stands apart, so that the rest needs no stack. */
#define rare		__attribute__((noinline, cold))

#define NSEC_PER_SEC	1000000000ULL

/* What wake_ns is where the wheel will not look. */
#define TWHEEL_ASLEEP	UINT64_MAX

/* In place of a deadline: there is no timeout. */
#define TWHEEL_STOPPED	(UINT64_MAX - 1)

/* Slots that a thread collects: those that need it go into one KICK. */
#define TWHEEL_KICKS	64U
/* Slots that are asked for at a time. */
#define TWHEEL_REFILL	64U
/* Free slots of either kind that a thread keeps. */
#define TWHEEL_FREE	(2 * TWHEEL_REFILL)

struct twheel_ctx;

/**
 * struct twheel_backend - a kind of wheel
 * @name: as twheel_backend() tells it
 * @exec: does @nr operations, each with its own result; returns how many
 * @kick: looks at slots
 * @read: takes events, without waiting; returns how many
 * @counters: as twheel_counters()
 * @close: ends it
 */
struct twheel_backend {
	const char *name;
	int (*exec)(struct twheel_ctx *wheel, struct twheel_op *ops, unsigned int nr);
	int (*kick)(struct twheel_ctx *wheel, const uint32_t *slots, unsigned int nr);
	int (*read)(struct twheel_ctx *wheel, struct twheel_event *events, size_t nr);
	int (*counters)(struct twheel_ctx *wheel, struct twheel_stats *stats);
	void (*close)(struct twheel_ctx *wheel);
};

/**
 * struct twheel_shadow - what this process knows of a slot
 * @id: of a slot that is ours for timeouts, else 0
 * @deadline_ns: when the timeout is due; 0 once its event has been handed out;
 *	%TWHEEL_STOPPED if none is started. An event with another deadline is
 *	one that was moved over or stopped.
 * @user_data: of the timeout
 * @next_id: of the slot once the timeout, which was drained, is done with; else
 *	0
 */
struct twheel_shadow {
	uint64_t id;
	uint64_t deadline_ns;
	uint64_t user_data;
	uint64_t next_id;
};

/**
 * struct twheel_cache - what a thread has of a wheel
 * @serial: of the wheel; 0 when that has been closed, or after a fork
 * @wheel: the wheel
 * @next: next cache of the thread
 * @sibling: next cache of the wheel
 * @nr_kicks: how many of @kicks
 * @nr_queued: how many of @queued
 * @nr_idle: how many of @idle
 * @kicks: slots that the wheel must be told of, or where that is to be found out
 * @queued: free slots that the wheel still is to look at, the latest last
 * @idle: free slots that it has forgotten
 */
struct twheel_cache {
	uint64_t serial;
	struct twheel_ctx *wheel;
	struct twheel_cache *next;
	struct twheel_cache *sibling;
	unsigned int nr_kicks;
	unsigned int nr_queued;
	unsigned int nr_idle;
	uint32_t kicks[TWHEEL_KICKS];
	uint32_t queued[TWHEEL_FREE];
	uint32_t idle[TWHEEL_FREE];
};

/**
 * struct twheel_home - what is this process's own, and not a forked child's
 * @here: true; a child finds all of this zero
 * @reading: held from the backend's read until its events are handed out
 * @lock: protects what follows
 * @caches: those of all threads; protected by twheel_registry instead
 * @ids: all slots that are ours for timeouts, and some that were
 * @pool: those of them that no thread has
 * @nr_ids: how many of @ids
 * @nr_pool: how many of @pool
 * @room: of @ids and @pool
 */
struct twheel_home {
	bool here;
	pthread_mutex_t reading;
	pthread_mutex_t lock;
	struct twheel_cache *caches;
	uint64_t *ids;
	uint32_t *pool;
	unsigned int nr_ids;
	unsigned int nr_pool;
	unsigned int room;
};

/**
 * struct twheel_ctx - a wheel
 * @words: where the words are; first, as programs look for it there
 * @fd: to poll
 * @serial: tells it from all others of this process
 * @shadow: one per slot
 * @backend: the kind
 * @home: see there
 * @inprocess: of inprocess.c
 * @table: the mapping
 * @table_bytes: its size
 * @info: what it is
 * @usage: what it has cost; counted atomically
 */
struct twheel_ctx {
	struct twheel_words words;
	int fd;
	uint64_t serial;
	struct twheel_shadow *shadow;
	const struct twheel_backend *backend;
	struct twheel_home *home;
	void *inprocess;
	void *table;
	size_t table_bytes;
	struct twheel_info info;
	/* A 32-bit compiler would let them straddle cache lines. */
	_Alignas(8) struct twheel_usage usage;
};

/* What is inline in programs looks for them there, and so. */
_Static_assert(!offsetof(struct twheel_ctx, words), "a wheel begins with its words");
_Static_assert(offsetof(struct twheel_words, nr_slots) == sizeof(void *), "part of the ABI");

/* A wheel in the process, of which this is a forked child. */
static inline bool twheel_is_gone(const struct twheel_ctx *wheel)
{
	return wheel->inprocess && !wheel->home->here;
}

static inline uint64_t twheel_load(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline void twheel_store(uint64_t *p, uint64_t value)
{
	__atomic_store_n(p, value, __ATOMIC_RELAXED);
}

static inline void twheel_count(uint64_t *p, uint64_t more)
{
	__atomic_fetch_add(p, more, __ATOMIC_RELAXED);
}

/* Zeroed memory that is there when touched; a fork zeroes it for the child. */
void *twheel_map(size_t bytes);

/* Without inprocess.c there is no other backend to fall back on. */
#ifdef WITHOUT_FALLBACK
#define TWHEEL_FALLBACK	false
static inline int twheel_inprocess_open(struct twheel_ctx *wheel,
					const struct twheel_setup *setup)
{
	(void)wheel;
	(void)setup;
	return -EOPNOTSUPP;
}
#else
#define TWHEEL_FALLBACK	true
int twheel_inprocess_open(struct twheel_ctx *wheel, const struct twheel_setup *setup);
#endif

int twheel_init_caches(void);
struct twheel_cache *twheel_find_cache(struct twheel_ctx *wheel, bool make);
void twheel_forget_caches(struct twheel_ctx *wheel);
int twheel_flush_cache(struct twheel_ctx *wheel, struct twheel_cache *cache);
int twheel_collect(struct twheel_ctx *wheel, struct twheel_cache *cache, uint32_t slot);
void twheel_spill_cache(struct twheel_ctx *wheel, struct twheel_cache *cache);
void twheel_end_timeouts(struct twheel_ctx *wheel);
void twheel_forget_timeout(struct twheel_ctx *wheel, uint64_t id);
size_t twheel_filter(struct twheel_ctx *wheel, struct twheel_event *events, size_t nr,
		     bool timeouts);
int twheel_take_events(struct twheel_ctx *wheel, struct twheel_event *events, size_t count,
		       bool timeouts);

/* The caches of this thread, the latest used first. */
extern __thread struct twheel_cache *twheel_caches
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The cache of this thread if it is the first of those, as it mostly is; or NULL. */
static inline struct twheel_cache *twheel_first_cache(const struct twheel_ctx *wheel)
{
	struct twheel_cache *cache = twheel_caches;

	return likely(cache && twheel_load(&cache->serial) == wheel->serial) ? cache : NULL;
}

/* The cache of this thread, made if there is none; NULL if out of memory. */
static inline struct twheel_cache *twheel_cache(struct twheel_ctx *wheel)
{
	struct twheel_cache *cache = twheel_first_cache(wheel);

	return likely(cache) ? cache : twheel_find_cache(wheel, true);
}

#endif /* LIBTWHEEL_INTERNAL_H */
