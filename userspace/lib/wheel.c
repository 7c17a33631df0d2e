// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* The memory, the locks and the clock of a wheel, and the functions that report on it. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK	18
#endif

/* Size of the struct in version 0.3, the first that has this struct. */
#define USAGE_FIRST	(offsetof(struct twheel_usage, withdrawn) + sizeof(uint64_t))

size_t twheel__page_size;

int twheel__mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;
	int err;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	err = pthread_mutex_init(mutex, &attr);
	/* The kernel may not support mutexes that inherit priority. */
	if (err)
		err = pthread_mutex_init(mutex, NULL);
	pthread_mutexattr_destroy(&attr);
	return -err;
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#else
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
#endif
}

void twheel__wait_for_lock(struct lock *lock)
{
	unsigned int left = SPIN_PAUSES, pause = 1, i;

	for (; left >= pause; left -= pause) {
		for (i = 0; i < pause; i++)
			relax();
		for (i = 0; i < TRIES; i++) {
			if (!__atomic_load_n(&lock->held, __ATOMIC_RELAXED) &&
			    !pthread_mutex_trylock(&lock->mutex))
				return;
			relax();
		}
		if (pause < MAX_PAUSE)
			pause *= 2;
	}
	pthread_mutex_lock(&lock->mutex);
}

/*
 * In a forked child the first page of a wheel is zeroed, so the pointer to the cold part is stored
 * in the second page as well.
 */
struct cold *twheel__cold(const struct twheel *w)
{
	return *(struct cold **)((char *)w + twheel__page_size);
}

struct twheel *twheel__new(void)
{
	struct cold *cold = calloc(1, sizeof(*cold));
	struct twheel *w;

	if (!cold)
		return NULL;
	w = mmap(NULL, 2 * twheel__page_size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w == MAP_FAILED) {
		free(cold);
		return NULL;
	}
	/* If the kernel refuses, the fork handler wipes the page. */
	madvise(w, twheel__page_size, MADV_WIPEONFORK);
	*(struct cold **)((char *)w + twheel__page_size) = cold;
	w->cold = cold;
	cold->fd = -1;
	cold->pid = getpid();
	cold->reason = "";
	if (__tsan_release)
		w->special = SPECIAL_TSAN;
	twheel__mutex_init(&cold->reading.mutex);
	twheel__mutex_init(&cold->pool_lock.mutex);
	return w;
}

void twheel__free(struct twheel *w)
{
	struct cold *cold = twheel__cold(w);

	twheel__arena_free(&cold->shadow);
	free(cold->pool);
	free(cold);
	munmap(w, 2 * twheel__page_size);
}

TWHEEL_PUBLIC int twheel_fd(const struct twheel *w)
{
	return twheel__cold(w)->fd;
}

TWHEEL_PUBLIC const char *twheel_backend(const struct twheel *w)
{
	return twheel__cold(w)->backend->name;
}

TWHEEL_PUBLIC const char *twheel_backend_reason(const struct twheel *w)
{
	return twheel__cold(w)->reason;
}

/* Checks that the clock can be read. Return: 0 or a negative errno. */
int twheel__try_clock(int clock_id)
{
	struct timespec ts;

	return clock_gettime(clock_id, &ts) ? -errno : 0;
}

/*
 * Because twheel_open() has tried the clock, an error here comes from a system call filter, or from
 * a kernel that is too old for the date. No caller could continue without the time.
 */
uint64_t twheel__clock(int clock_id)
{
	struct timespec ts;

	if (unlikely(clock_gettime(clock_id, &ts)))
		abort();
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

TWHEEL_PUBLIC uint64_t twheel_now(const struct twheel *w)
{
	const struct cold *cold = twheel__cold(w);

	return twheel__clock(cold->info.clock_id) + cold->ahead_ns;
}

TWHEEL_PUBLIC uint64_t twheel_after(const struct twheel *w, uint64_t delay_ns)
{
	uint64_t deadline;

	return __builtin_add_overflow(twheel_now(w), delay_ns, &deadline) ? UINT64_MAX :
	       deadline;
}

TWHEEL_PUBLIC int twheel_info(const struct twheel *w, struct twheel_info *info)
{
	if (is_child(w))
		return -ECHILD;
	*info = w->cold->info;
	return 0;
}

TWHEEL_PUBLIC int twheel_stats(struct twheel *w, struct twheel_stats *stats)
{
	int err = is_child(w) ? -ECHILD : w->cold->backend->stats(w, stats);

	/* Do not count the timer of twheel_wake(). */
	if (!err && load64(&w->cold->wake_id)) {
		stats->allocated--;
		stats->registered--;
	}
	return err;
}

TWHEEL_PUBLIC int twheel_usage(const struct twheel *w, struct twheel_usage *usage)
{
	struct twheel_usage out = { .size = usage->size };
	size_t size = usage->size ? usage->size : USAGE_FIRST;

	if (is_child(w))
		return -ECHILD;
	if (size < USAGE_FIRST)
		return -EINVAL;
	if (size > STRUCT_MAX)
		return -E2BIG;
	out.kicks = load64(&w->cold->usage.kicks);
	out.refills = load64(&w->cold->usage.refills);
	out.withdrawn = load64(&w->cold->usage.withdrawn);
	memset(usage, 0, size);
	memcpy(usage, &out, size < sizeof(out) ? size : sizeof(out));
	return 0;
}
