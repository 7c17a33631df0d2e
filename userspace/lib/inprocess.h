/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* The in-process wheel, for inprocess.c and store.c. */
#ifndef LIBTWHEEL_INPROCESS_H
#define LIBTWHEEL_INPROCESS_H

#include "internal.h"

#include "twheel_timers.h"

/**
 * struct inprocess - a wheel
 * @lock: protects all below
 * @timers: the timers, and what has happened to them
 * @store: where they are
 * @mem: the buckets
 * @entries: a timer per slot
 * @words: a word per slot
 * @shadow: cold.shadow, which has the user_data of each slot
 * @marks: a bit per slot
 * @clock: of the wheel
 * @set: what the timerfd is set to; WHEEL_NEVER if to nothing
 * @programmed: when the wheel will be turned next, as published
 */
struct inprocess {
	struct lock lock;
	struct timers timers;
	struct store store;
	void *mem;
	struct arena entries;
	struct arena words;
	struct arena *shadow;
	struct arena marks;
	clockid_t clock;
	u64 set;
	u64 programmed;
};

#endif /* LIBTWHEEL_INPROCESS_H */
