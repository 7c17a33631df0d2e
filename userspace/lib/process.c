// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The registry of a process, and the caches of its threads.
 *
 * A forked child must notice that a wheel belongs to its parent, at no cost to the parent. The
 * fast paths therefore read memory that a fork zeroes (MADV_WIPEONFORK), so that the child finds
 * no slots there and leaves the fast path. If the kernel does not support this, the child handler
 * of pthread_atfork() zeroes that memory. The handler takes no lock, and walks a table whose
 * segments stay where they are, so it can run at any moment and in any order.
 *
 * The rare operations take the lock of the registry. Because another thread may hold this lock at
 * a fork, a registry belongs to a single process, and a child makes its own.
 *
 * A thread has a cache of free slots for each wheel that it uses, which it finds by the index of
 * the wheel. If the cache has another serial than the wheel, its slots belonged to a wheel that was
 * closed. When a thread ends, it gives its slots back.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* Segments of the table of wheels, each twice as large as the one before. */
#define SEGMENTS	20
#define SEGMENT_0	64U

/**
 * struct registry - the wheels and the threads of a process
 * @pid: the process
 * @lock: protects the members below, and the table of wheels, which only the fork handler reads
 *	without it
 * @threads: the threads that have caches
 * @free: indices of wheels that were closed
 * @nr_free: number of indices in @free
 * @room: allocated length of @free
 * @older: the registry of the parent, if this process was forked. It is not used, but keeps the
 *	memory reachable for leak checkers
 */
struct registry {
	pid_t pid;
	pthread_mutex_t lock;
	struct thread *threads;
	uint32_t *free;
	uint32_t nr_free;
	uint32_t room;
	struct registry *older;
};

__thread struct thread *twheel__self TLS_MODEL __attribute__((visibility("hidden")));

static struct registry *registry;
/* The registry of the process that loaded the library. Its lock is never destroyed. */
static struct registry first;
/* Set by leave_process(), after which no wheel can be opened any more. Protected by the lock. */
static bool has_left;
static struct twheel **segments[SEGMENTS];
/* A leak checker finds the cold parts through this table. */
static struct cold **colds[SEGMENTS];
static uint32_t nr_indices;
static uint64_t last_serial;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;
static int init_error;

/* Locks the registry of this process and returns it, or NULL if there is no memory. */
static struct registry *lock_registry(void)
{
	struct registry *r = __atomic_load_n(&registry, __ATOMIC_ACQUIRE);
	pid_t pid = getpid();

	while (!r || r->pid != pid) {
		struct registry *mine = calloc(1, sizeof(*mine));

		if (!mine)
			return NULL;
		mine->pid = pid;
		mine->older = r;
		twheel__mutex_init(&mine->lock);
		if (__atomic_compare_exchange_n(&registry, &r, mine, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE)) {
			r = mine;
		} else {
			pthread_mutex_destroy(&mine->lock);
			free(mine);
		}
	}
	pthread_mutex_lock(&r->lock);
	return r;
}

static void unlock_registry(struct registry *r)
{
	pthread_mutex_unlock(&r->lock);
}

/* Return: the segment of *@index, which becomes the index within the segment. */
static unsigned int segment_of(uint32_t *index)
{
	unsigned int s = 0;

	while (*index >= SEGMENT_0 << s) {
		*index -= SEGMENT_0 << s;
		s++;
	}
	return s;
}

static void wipe(struct twheel *w)
{
	__atomic_store_n(&w->nr_slots, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&w->nr_shadows, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&w->serial, 0, __ATOMIC_RELAXED);
}

static void after_fork(void)
{
	pid_t pid = getpid();
	unsigned int s, i;

	for (s = 0; s < SEGMENTS; s++) {
		struct twheel **segment = __atomic_load_n(&segments[s], __ATOMIC_ACQUIRE);

		for (i = 0; segment && i < SEGMENT_0 << s; i++) {
			struct twheel *w = __atomic_load_n(&segment[i], __ATOMIC_ACQUIRE);

			/* A handler that ran before this one may have opened a wheel. */
			if (w && twheel__cold(w)->pid != pid)
				wipe(w);
		}
	}
}

static void free_thread(struct thread *thread)
{
	uint32_t i;

	for (i = 0; i < thread->nr_caches; i++)
		free(thread->caches[i]);
	free(thread->caches);
	free(thread);
}

/* Gives the slots of a thread that ends to the pools of their wheels. */
static void end_thread(void *arg)
{
	struct thread *self = arg;
	struct registry *r = lock_registry();
	uint32_t i;

	twheel__self = NULL;
	if (!r)
		return;
	for (i = 0; i < self->nr_caches; i++) {
		struct cache *cache = self->caches[i];
		uint32_t index = i;
		unsigned int s = segment_of(&index);
		struct twheel *w = segments[s] ? segments[s][index] : NULL;

		if (cache && w && cache->serial == w->serial && !is_child(w))
			twheel__spill(w, cache, 0);
	}
	if (self->owner == r) {
		*self->prev = self->next;
		if (self->next)
			self->next->prev = self->prev;
	}
	unlock_registry(r);
	free_thread(self);
}

static void init_process(void)
{
	twheel__page_size = sysconf(_SC_PAGESIZE);
	init_error = -pthread_key_create(&key, end_thread);
	if (init_error)
		return;
	has_key = true;
	init_error = -pthread_atfork(NULL, NULL, after_fork);
	first.pid = getpid();
	twheel__mutex_init(&first.lock);
	__atomic_store_n(&registry, &first, __ATOMIC_RELEASE);
}

/* Runs before the first wheel is opened. Return: 0, or the error that prevents any wheel. */
int twheel__process_init(void)
{
	pthread_once(&once, init_process);
	return init_error;
}

/*
 * Runs when the process exits or the library is unloaded, perhaps as part of a plugin. After this,
 * the end of a thread must not call the library. If a wheel is still open, the process is exiting
 * and threads may still use the memory, so it is not freed.
 */
__attribute__((destructor)) static void leave_process(void)
{
	struct registry *r = __atomic_load_n(&registry, __ATOMIC_ACQUIRE);
	bool unused;
	int s;

	if (has_key)
		pthread_key_delete(key);
	has_key = false;
	if (!r || r->pid != getpid() || r->older || pthread_mutex_trylock(&r->lock))
		return;
	unused = r->nr_free == nr_indices;
	/* Threads keep pointers to freed memory, which only a new wheel would make them use. */
	has_left = unused;
	unlock_registry(r);
	if (!unused)
		return;
	twheel__self = NULL;
	while (r->threads) {
		struct thread *thread = r->threads;

		r->threads = thread->next;
		free_thread(thread);
	}
	for (s = 0; s < SEGMENTS; s++) {
		free(segments[s]);
		free(colds[s]);
		segments[s] = NULL;
		colds[s] = NULL;
	}
	free(r->free);
}

/* Gives @w an index and a serial. Return: 0 or -ENOMEM. */
int twheel__enroll(struct twheel *w)
{
	struct registry *r = lock_registry();
	uint32_t index, at;
	unsigned int s;

	if (!r)
		return -ENOMEM;
	if (has_left) {
		unlock_registry(r);
		return -ESHUTDOWN;
	}
	index = r->nr_free ? r->free[r->nr_free - 1] : nr_indices;
	at = index;
	s = segment_of(&at);
	if (s >= SEGMENTS)
		goto no_memory;
	if (!segments[s]) {
		struct twheel **segment = calloc(SEGMENT_0 << s, sizeof(*segment));
		struct cold **other = calloc(SEGMENT_0 << s, sizeof(*other));

		if (!segment || !other) {
			free(segment);
			free(other);
			goto no_memory;
		}
		colds[s] = other;
		__atomic_store_n(&segments[s], segment, __ATOMIC_RELEASE);
	}
	/* Make room now, so that twheel__dismiss() can put the index back. */
	if (r->room <= index) {
		uint32_t room = index ? 2 * index : SEGMENT_0;
		uint32_t *bigger = realloc(r->free, room * sizeof(*bigger));

		if (!bigger)
			goto no_memory;
		r->free = bigger;
		r->room = room;
	}
	if (r->nr_free)
		r->nr_free--;
	else
		nr_indices++;
	w->index = index;
	w->serial = ++last_serial;
	colds[s][at] = w->cold;
	__atomic_store_n(&segments[s][at], w, __ATOMIC_RELEASE);
	unlock_registry(r);
	return 0;

no_memory:
	unlock_registry(r);
	return -ENOMEM;
}

/* Removes @w, which is being closed, from the table of wheels. */
void twheel__dismiss(struct twheel *w)
{
	struct registry *r = lock_registry();
	unsigned int s, i;

	/* In a child, the index of a parent's wheel has been zeroed, and is not reused. */
	if (!r || is_child(w)) {
		for (s = 0; s < SEGMENTS && segments[s]; s++)
			for (i = 0; i < SEGMENT_0 << s; i++)
				if (segments[s][i] == w) {
					segments[s][i] = NULL;
					colds[s][i] = NULL;
				}
	} else {
		i = w->index;
		s = segment_of(&i);
		__atomic_store_n(&segments[s][i], NULL, __ATOMIC_RELEASE);
		colds[s][i] = NULL;
		r->free[r->nr_free++] = w->index;
	}
	if (r)
		unlock_registry(r);
}

/* Returns the cache of this thread, which it makes if necessary, or NULL if there is no memory. */
struct cache *twheel__make_cache(struct twheel *w)
{
	struct thread *self = twheel__self;
	struct cache *cache = NULL;
	struct registry *r;

	r = lock_registry();
	if (!r)
		return NULL;
	if (!self) {
		self = calloc(1, sizeof(*self));
		/* Makes end_thread() run when the thread ends, with this as its argument. */
		if (!self || (has_key && pthread_setspecific(key, self))) {
			free(self);
			goto unlock;
		}
		twheel__self = self;
	}
	if (self->owner != r) {
		self->owner = r;
		self->next = r->threads;
		self->prev = &r->threads;
		if (self->next)
			self->next->prev = &self->next;
		r->threads = self;
	}
	if (w->index >= self->nr_caches) {
		uint32_t nr = w->index + 16 + w->index / 2;
		struct cache **bigger = realloc(self->caches, nr * sizeof(*bigger));

		if (!bigger)
			goto unlock;
		memset(bigger + self->nr_caches, 0,
		       (nr - self->nr_caches) * sizeof(*bigger));
		self->caches = bigger;
		self->nr_caches = nr;
	}
	cache = self->caches[w->index];
	if (!cache) {
		cache = calloc(1, sizeof(*cache));
		self->caches[w->index] = cache;
	}
	if (cache && cache->serial != w->serial) {
		cache->serial = w->serial;
		cache->nr = 0;
	}
unlock:
	unlock_registry(r);
	return cache;
}
