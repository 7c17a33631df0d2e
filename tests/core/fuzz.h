/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the fuzzers of the wheel share besides their decisions: how they stop.
 *
 * Each fuzzer is one function that takes decisions from a feed, and applies them to the code
 * and to a model of it. The feed is either libFuzzer's input, or the endless output of a
 * random number generator.
 */
#ifndef _FUZZ_H
#define _FUZZ_H

#include <stdlib.h>

#include "twheel_feed.h"

/* The number of operations that all fuzzers have done. */
extern u64 fuzz_operations;

/*
 * Do up to @operations on at most @timers timers, or fewer if the feed ends. They report
 * errors to fuzz_fail().
 */
void wheel_fuzz(struct feed *f, unsigned int timers, u64 operations);
void timers_fuzz(struct feed *f, unsigned int timers, u64 operations);

/* Reports an error, and does not return. */
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
