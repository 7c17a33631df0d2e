// SPDX-License-Identifier: GPL-2.0
/* Random numbers. See random.h. */
#include <sys/random.h>

#include "ground/hash.h"
#include "ground/now.h"
#include "ground/random.h"

uint64_t random_u64(void)
{
	static uint64_t state;

	while (!state) {
		if (getrandom(&state, sizeof(state), 0) < 0)
			state = now_ns(CLOCK_REALTIME);
	}
	/* splitmix64 */
	state += 0x9e3779b97f4a7c15ULL;
	return mix64(state);
}

uint64_t random_id(void)
{
	uint64_t id = 0;

	while (!id) {
		if (getrandom(&id, sizeof(id), 0) < 0)
			id = random_u64();
	}
	return id;
}
