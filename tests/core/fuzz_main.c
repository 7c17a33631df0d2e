// SPDX-License-Identifier: GPL-2.0
/*
 * A fuzzer of libFuzzer's kind: FUZZ() is wheel_fuzz or timers_fuzz. When it
 * ends it says how many operations it has done.
 *
 * With FUZZ_RANDOM in the environment an input does not hold the decisions. Its first 8 bytes
 * are the seed of a generator that makes far more of them than an input has room for, and the
 * next chooses the number of timers:
 *
 *   FUZZ_RANDOM=1 wheel_fuzzer -max_len=9 -runs=100
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

/* So many that two chunks of timers are used, and so few that they meet. */
#define TIMERS		96
#define OPERATIONS	4096

/* And of a random feed. */
#define RANDOM_OPERATIONS	20000
static const unsigned int random_timers[] = { 4, 48, 48, 192, 4000 };

static bool is_random;

u64 fuzz_operations;

void fuzz_fail(const char *file, int line, const char *text, u64 left, u64 right)
{
	fprintf(stderr, "%s:%d: not so: %s, but %#llx and %#llx\n", file, line, text,
		left, right);
	abort();
}

static void say(void)
{
	fprintf(stderr, "operations: %llu\n", fuzz_operations);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	is_random = getenv("FUZZ_RANDOM");
	return atexit(say);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed feed = { .at = data, .end = data + size };
	unsigned int nr = sizeof(random_timers) / sizeof(random_timers[0]);
	unsigned int timers;
	u64 seed = 0;

	if (!is_random) {
		FUZZ(&feed, TIMERS, OPERATIONS);
		return 0;
	}
	memcpy(&seed, data, size < sizeof(seed) ? size : sizeof(seed));
	feed.random = seed ?: 1;
	timers = random_timers[size > sizeof(seed) ? data[sizeof(seed)] % nr : 0];
	FUZZ(&feed, timers, RANDOM_OPERATIONS);
	return 0;
}
