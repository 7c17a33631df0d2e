// SPDX-License-Identifier: GPL-2.0
/*
 * The operations of the fuzzers with random decisions and no sanitizer, many:
 *
 *   differential [operations=NUMBER] [seed=NUMBER]
 *
 * Prints TAP: a line for the wheel and one for the timers, each with the number
 * of operations. A failure names the seed of the round that found it, to be
 * given here as seed=, with rounds=1.
 */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "fuzz.h"

/* Each round is a new wheel, with so many timers, for so many operations. */
struct size {
	unsigned int timers;
	u64 operations;
};

#define SIZES	5

static const struct layer {
	const char *name;
	void (*fuzz)(struct feed *f, unsigned int timers, u64 operations);
	struct size size[SIZES];
} layers[] = {
	{
		"twheel.c and a sorted array", wheel_fuzz,
		{ { 4, 1000 }, { 48, 5000 }, { 192, 20000 }, { 192, 20000 }, { 6000, 100000 } },
	}, {
		"twheel_timers.c, twheel_word.c and what their users know", timers_fuzz,
		{ { 4, 1000 }, { 48, 20000 }, { 48, 20000 }, { 192, 10000 }, { 4000, 2000 } },
	},
};

#define NR(array)	(sizeof(array) / sizeof((array)[0]))

u64 fuzz_operations;

static unsigned int layer;
static u64 seed;
static u64 limit = 1000000;
static u64 rounds = ~0ULL;

void fuzz_fail(const char *file, int line, const char *text, u64 left, u64 right)
{
	printf("# %s:%d: not so: %s, but %#llx and %#llx\n", file, line, text, left, right);
	printf("# operation %llu, seed=%llu rounds=1\n", fuzz_operations, seed);
	printf("not ok %u %s\n", layer + 1, layers[layer].name);
	exit(1);
}

static bool set_param(char *arg)
{
	static const struct param {
		const char *name;
		u64 *value;
	} params[] = {
		{ "operations", &limit }, { "seed", &seed }, { "rounds", &rounds },
	};
	char *value = strchr(arg, '=');
	unsigned int i;
	char *end;

	if (!value || !value[1])
		return false;
	*value++ = 0;
	for (i = 0; i < NR(params); i++) {
		if (strcmp(arg, params[i].name))
			continue;
		*params[i].value = strtoull(value, &end, 0);
		return !*end;
	}
	return false;
}

/* Seeds beside each other are no relatives. */
static u64 scramble(u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return (x ^ x >> 31) ?: 1;
}

int main(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++) {
		if (!set_param(argv[i])) {
			fprintf(stderr, "usage: %s [operations=N] [seed=N] [rounds=N]\n", argv[0]);
			return 2;
		}
	}
	while (!seed) {
		if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
			return 2;
		/* To be typed. */
		seed >>= 32;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n1..%zu\n", NR(layers));
	for (layer = 0; layer < NR(layers); layer++) {
		u64 first = seed;
		u64 round;

		fuzz_operations = 0;
		for (round = 0; round < rounds && fuzz_operations < limit; round++, seed++) {
			const struct size *size = &layers[layer].size[seed % SIZES];
			struct feed feed = { .random = scramble(seed) };

			layers[layer].fuzz(&feed, size->timers, size->operations);
		}
		printf("# target operations.layer%u %llu %llu\n", layer + 1, fuzz_operations,
		       limit);
		printf("ok %u %s: %llu operations, no difference (seed %llu)\n", layer + 1,
		       layers[layer].name, fuzz_operations, first);
		seed = first;
	}
	return 0;
}
