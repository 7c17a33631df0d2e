/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the fuzzers of the wheel share, beside their decisions: how they stop.
 *
 * Each is one function that takes decisions from a feed and does what they say
 * to the code and to a model of it. The feed is the input of libFuzzer, or the
 * numbers of a generator, which do not end.
 */
#ifndef _FUZZ_H
#define _FUZZ_H

#include <stdlib.h>

#include "twheel_feed.h"

/* Operations done so far, by all. */
extern u64 fuzz_operations;

/*
 * Do up to @operations on at most @timers timers, less if the feed ends before.
 * What they find goes to fuzz_fail().
 */
void wheel_fuzz(struct feed *f, unsigned int timers, u64 operations);
void timers_fuzz(struct feed *f, unsigned int timers, u64 operations);

/* Says what is wrong, and does not come back. */
__attribute__((noreturn))
void fuzz_fail(const char *file, int line, const char *text, u64 left, u64 right);

#define FUZZ_CHECK(left, relation, right) do {				\
	u64 _left = (left);						\
	u64 _right = (right);						\
									\
	if (!(_left relation _right))					\
		fuzz_fail(__FILE__, __LINE__, #left " " #relation " " #right, \
			  _left, _right);				\
} while (0)

static inline void *fuzz_zalloc(size_t size)
{
	void *mem = calloc(1, size);

	if (!mem)
		abort();
	return mem;
}

#endif /* _FUZZ_H */
