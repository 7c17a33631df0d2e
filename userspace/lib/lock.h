/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* A mutex for which a thread spins for a moment before it sleeps. */
#ifndef LIBTWHEEL_LOCK_H
#define LIBTWHEEL_LOCK_H

#include <pthread.h>
#include <stdbool.h>

/**
 * struct lock - a mutex for which a thread spins a little before it sleeps
 * @mutex: inherits priority
 * @held: approximately whether a thread holds the mutex. A waiter can read this without taking
 *	the cache line away from the owner
 *
 * A thread holds the lock for some 20 ns, unless it enters the kernel or is preempted meanwhile.
 * A mutex that inherits priority is handed to the first thread that sleeps for it, so two threads
 * that use it alternately would sleep and be woken each time.
 */
struct lock {
	pthread_mutex_t mutex;
	bool held;
};

/*
 * A thread spins for SPIN_PAUSES pause instructions before it sleeps for a lock. They take 50 us on
 * an AMD EPYC, which is two to three times the cost of a sleep and a wake-up.
 *
 * It tries TRIES times in a row, because a thread that uses the lock all the time only releases it
 * for moments, which a single try would miss. After each series it pauses twice as long, up to
 * MAX_PAUSE, so that the other thread can perform many operations before it loses the lock. If the
 * threads alternated, each operation would move the wheel from one processor's cache to the
 * other's.
 */
#define SPIN_PAUSES	2048U
#define MAX_PAUSE	512U
#define TRIES		16U

/* Makes a mutex that inherits priority if the kernel supports that. Return: 0 or -errno. */
int twheel__mutex_init(pthread_mutex_t *mutex);

/* Spins for the lock, and then sleeps for it. */
void twheel__wait_for_lock(struct lock *lock);

static inline void take_lock(struct lock *lock)
{
	if (__builtin_expect(pthread_mutex_trylock(&lock->mutex), 0))
		twheel__wait_for_lock(lock);
	__atomic_store_n(&lock->held, true, __ATOMIC_RELAXED);
}

static inline void drop_lock(struct lock *lock)
{
	__atomic_store_n(&lock->held, false, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock->mutex);
}

#endif /* LIBTWHEEL_LOCK_H */
