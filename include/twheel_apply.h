/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Operations on timers by a caller who shares their memory: not for the device. */
#ifndef _TWHEEL_APPLY_H
#define _TWHEEL_APPLY_H

#include <linux/minmax.h>

#include "twheel_timers.h"

/**
 * timers_apply() - perform operations whose answers need not be copied to user space
 * @t: the timers
 * @ops: in: the operations; out: the answers
 * @nr: number of operations
 * @now: the time
 *
 * Return: how many were performed. If that is not all of them, the store needs more room before the
 * next one.
 */
static inline unsigned int timers_apply(struct timers *t, struct twheel_op *ops, unsigned int nr,
					u64 now)
{
	struct timers_answer a;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		if (i % TIMERS_AHEAD == 0 && nr > 1)
			timers_prefetch(t, ops + i, min(nr - i, TIMERS_AHEAD));
		do {
			if (!timers_answer(t, &ops[i], &a, now))
				return i;
		} while (!timers_commit(t, &a, now));
		ops[i] = a.op;
	}
	return i;
}

#endif /* _TWHEEL_APPLY_H */
