// SPDX-License-Identifier: GPL-2.0
/*
 * A fuzzer of libFuzzer's kind: FUZZ() is wheel_fuzz or timers_fuzz. When it
 * ends it says how many operations it has done.
 */
#include <stdint.h>
#include <stdio.h>

#include "fuzz.h"

/* So many that two chunks of timers are used, and so few that they meet. */
#define TIMERS		96
#define OPERATIONS	4096

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
	return atexit(say);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed feed = { .at = data, .end = data + size };

	FUZZ(&feed, TIMERS, OPERATIONS);
	return 0;
}
