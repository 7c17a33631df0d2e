// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The words: arm, disarm, and the kicks that follow.
 *
 * Kicks are collected by thread, in a cache that it has of each wheel that it
 * uses. The latest used is found by one comparison. A cache belongs to its
 * thread; a wheel that is closed only takes its own name off it, and the
 * thread uses it for another.
 */
#include <errno.h>
#include <sys/mman.h>

/* Has libtwheel.h define the library's twheel_arm() and twheel_disarm(). */
#define TWHEEL_INLINE	__attribute__((visibility("default")))
#undef TWHEEL_NO_INLINE
#include "internal.h"

__thread struct twheel_cache *twheel_caches
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static pthread_mutex_t twheel_registry = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t twheel_once = PTHREAD_ONCE_INIT;
static pthread_key_t twheel_key;

static void lock_registry(void)
{
	pthread_mutex_lock(&twheel_registry);
}

static void unlock_registry(void)
{
	pthread_mutex_unlock(&twheel_registry);
}

/* The thread ends: what it has collected is sent, what it has goes to others. */
static void end_caches(void *unused)
{
	struct twheel_cache *cache = twheel_caches, *next;
	struct twheel_cache **link;

	(void)unused;
	lock_registry();
	for (; cache; cache = next) {
		next = cache->next;
		if (cache->serial) {
			twheel_flush_cache(cache->wheel, cache);
			twheel_spill_cache(cache->wheel, cache);
			link = &cache->wheel->home->caches;
			while (*link != cache)
				link = &(*link)->sibling;
			*link = cache->sibling;
		}
		munmap(cache, sizeof(*cache));
	}
	twheel_caches = NULL;
	unlock_registry();
}

static int twheel_init_error;

static void init_caches(void)
{
	twheel_init_error = -pthread_key_create(&twheel_key, end_caches);
	if (twheel_init_error)
		return;
	twheel_init_error = -pthread_atfork(lock_registry, unlock_registry, unlock_registry);
	if (twheel_init_error)
		pthread_key_delete(twheel_key);
}

/* Before the first wheel. Return: 0, or why there can be no caches in this process. */
int twheel_init_caches(void)
{
	pthread_once(&twheel_once, init_caches);
	return twheel_init_error;
}

/* The cache of this thread, which becomes the first to be found; or NULL. */
struct twheel_cache *twheel_find_cache(struct twheel_ctx *wheel, bool make)
{
	struct twheel_cache **link, **dead = NULL;
	struct twheel_cache *cache;
	uint64_t serial;

	for (link = &twheel_caches; (cache = *link); link = &cache->next) {
		serial = twheel_load(&cache->serial);
		if (serial == wheel->serial)
			goto found;
		if (!serial)
			dead = link;
	}
	if (!make)
		return NULL;

	if (dead) {
		link = dead;
		cache = *link;
	} else {
		cache = twheel_map(sizeof(*cache));
		/* Anything but NULL has the key's function called. */
		if (!cache || pthread_setspecific(twheel_key, cache)) {
			if (cache)
				munmap(cache, sizeof(*cache));
			return NULL;
		}
		*link = cache;
	}
	lock_registry();
	cache->wheel = wheel;
	cache->nr_kicks = 0;
	cache->nr_queued = 0;
	cache->nr_idle = 0;
	cache->sibling = wheel->home->caches;
	wheel->home->caches = cache;
	twheel_store(&cache->serial, wheel->serial);
	unlock_registry();
found:
	*link = cache->next;
	cache->next = twheel_caches;
	twheel_caches = cache;
	return cache;
}

/* The wheel is closed. Others who share it shall have what was armed until then. */
void twheel_forget_caches(struct twheel_ctx *wheel)
{
	struct twheel_cache *cache;

	lock_registry();
	for (cache = wheel->home->caches; cache; cache = cache->sibling) {
		twheel_flush_cache(wheel, cache);
		twheel_store(&cache->serial, 0);
	}
	wheel->home->caches = NULL;
	unlock_registry();
}

/*
 * Whether the wheel has to be told of this slot still: it may have been
 * disarmed since, or the wheel has looked, after which it knows.
 */
static bool is_pending(const struct twheel_slot *slot)
{
	uint64_t deadline = __atomic_load_n(&slot->deadline_ns, __ATOMIC_ACQUIRE);

	return deadline && deadline <= __twheel_wake(slot);
}

/*
 * Leaves those that the wheel has to be told of. For what was armed by a store, as
 * twheel_start() does, this is the full barrier of A: after it wake_ns is read.
 */
static void sift_kicks(struct twheel_ctx *wheel, struct twheel_cache *cache)
{
	unsigned int nr = __atomic_exchange_n(&cache->nr_kicks, 0, __ATOMIC_SEQ_CST);
	unsigned int i, kept = 0;

	__twheel_after_exchange();
	for (i = 0; i < nr; i++) {
		if (is_pending(__twheel_word(wheel, cache->kicks[i])))
			cache->kicks[kept++] = cache->kicks[i];
	}
	cache->nr_kicks = kept;
}

static int send_kicks(struct twheel_ctx *wheel, struct twheel_cache *cache)
{
	unsigned int nr = cache->nr_kicks;
	int ret = wheel->backend->kick(wheel, cache->kicks, nr);

	if (ret < 0)
		return ret;
	cache->nr_kicks = 0;
	twheel_count(&wheel->usage.kicks, 1);
	twheel_count(&wheel->usage.kicked, nr);
	return 0;
}

int twheel_flush_cache(struct twheel_ctx *wheel, struct twheel_cache *cache)
{
	if (!cache->nr_kicks)
		return 0;
	sift_kicks(wheel, cache);
	return cache->nr_kicks ? send_kicks(wheel, cache) : 0;
}

/* Makes room. If it were for a few only, there soon would be none again. */
static int make_room(struct twheel_ctx *wheel, struct twheel_cache *cache)
{
	sift_kicks(wheel, cache);
	return cache->nr_kicks > TWHEEL_KICKS / 2 ? send_kicks(wheel, cache) : 0;
}

/* The wheel is to be told of @slot: before the thread sleeps, or if it is many. */
int twheel_collect(struct twheel_ctx *wheel, struct twheel_cache *cache, uint32_t slot)
{
	int ret;

	if (!cache) {
		/* No memory to remember it. */
		ret = wheel->backend->kick(wheel, &slot, 1);
		return ret < 0 ? ret : 0;
	}
	/* A timeout that is started and stopped in turn has the same slot. */
	if (cache->nr_kicks && cache->kicks[cache->nr_kicks - 1] == slot)
		return 0;
	if (cache->nr_kicks == TWHEEL_KICKS) {
		ret = make_room(wheel, cache);
		if (ret)
			return ret;
	}
	cache->kicks[cache->nr_kicks++] = slot;
	return 0;
}

TWHEEL_PUBLIC int twheel_flush(struct twheel_ctx *wheel)
{
	struct twheel_cache *cache;

	if (twheel_is_gone(wheel))
		return -ECHILD;
	cache = twheel_find_cache(wheel, false);
	return cache ? twheel_flush_cache(wheel, cache) : 0;
}

TWHEEL_PUBLIC int __twheel_announce(struct twheel_ctx *wheel, uint64_t id, uint64_t old)
{
	int err = twheel_collect(wheel, twheel_cache(wheel), id);

	return err ? err : !!old;
}
