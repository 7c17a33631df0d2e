// SPDX-License-Identifier: GPL-2.0
/* Prints the frequency of the TSC of this machine in kHz. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

#define READINGS	100

struct reading {
	uint64_t ns;
	uint64_t tsc;
};

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/*
 * Reads both clocks many times, and returns the reading that took the least time, because nothing
 * interrupted that one.
 */
static struct reading read_both(void)
{
	uint64_t least = UINT64_MAX;
	struct reading best = {};
	int i;

	for (i = 0; i < READINGS; i++) {
		uint64_t tsc = __rdtsc(), ns = clock_ns(), took = __rdtsc() - tsc;

		if (took >= least)
			continue;
		least = took;
		best = (struct reading) { .ns = ns, .tsc = tsc + took / 2 };
	}
	return best;
}

int main(void)
{
	const struct timespec while_it_counts = { .tv_nsec = 20000000 };
	struct reading first = read_both(), last;

	nanosleep(&while_it_counts, NULL);
	last = read_both();
	printf("%.0f\n", (last.tsc - first.tsc) * 1e6 / (last.ns - first.ns));
	return 0;
}
