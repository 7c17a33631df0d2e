// SPDX-License-Identifier: GPL-2.0
/*
 * The main part of a libFuzzer program, where FUZZ() is wheel_fuzz or timers_fuzz. When it
 * ends it prints the number of operations.
 *
 * With FUZZ_RANDOM in the environment, an input does not contain the decisions. Its first 8
 * bytes are the seed of a generator that makes far more decisions than fit into an input, and
 * the next byte selects the number of timers:
 *
 *   FUZZ_RANDOM=1 wheel_fuzzer -max_len=9 -runs=100
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

/* Enough to use two chunks of timers, and few enough that they meet. */
#define TIMERS		96
#define OPERATIONS	4096

/* The number of operations with a random feed. */
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
