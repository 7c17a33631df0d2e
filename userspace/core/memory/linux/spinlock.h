/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SHIM_LINUX_SPINLOCK_H
#define _SHIM_LINUX_SPINLOCK_H

#include <assert.h>
#include <stdbool.h>

#include <linux/spinlock_types.h>

/* One thread, so a lock has only to be free when it is taken. */
struct spinlock {
	bool held;
};

static inline void spin_lock_bh(spinlock_t *lock)
{
	assert(!lock->held);
	lock->held = true;
}

static inline void spin_unlock_bh(spinlock_t *lock)
{
	assert(lock->held);
	lock->held = false;
}

#endif /* _SHIM_LINUX_SPINLOCK_H */
