// SPDX-License-Identifier: GPL-2.0
/* Decisions about tasks. See task.h. */
#include <string.h>

#include "ground/hash.h"
#include "work/task.h"

#define FIRST_LIMIT	32

unsigned int task_lane(const char *id, unsigned int lanes)
{
	return fnv32(id) % lanes;
}

uint64_t task_score(const char *member, const char *queue, unsigned int lane)
{
	uint64_t hash = fnv64(fnv64(FNV64_START, member), "/");

	return mix64(mix64(fnv64(hash, queue)) + lane);
}

unsigned int task_rank(const char *self, const char *const *members, size_t count,
		       const char *queue, unsigned int lane)
{
	uint64_t mine = task_score(self, queue, lane);
	unsigned int rank = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t score = task_score(members[i], queue, lane);

		if (score > mine || (score == mine && strcmp(members[i], self) < 0))
			rank++;
	}
	return rank;
}

uint64_t task_rank_delay_ms(unsigned int rank)
{
	return rank < 2 ? rank * RANK_DELAY_MS : RANK_FAR_MS;
}

uint64_t task_sweep_ms(unsigned int rank)
{
	if (rank == 0)
		return 1000;
	return rank == 1 ? 5000 : TASK_FAR_MS;
}

uint64_t task_idle_sweep_ms(unsigned int lanes)
{
	return lanes * IDLE_SPACE_MS > TASK_FAR_MS ? lanes * IDLE_SPACE_MS : TASK_FAR_MS;
}

uint64_t task_backoff_ms(const struct retry *r, unsigned int attempt, uint32_t random)
{
	uint64_t delay = r->base_ms;

	for (unsigned int i = 1; i < attempt && delay < r->cap_ms; i++)
		delay *= 2;
	if (delay > r->cap_ms)
		delay = r->cap_ms;
	/* delay < 2^32, jitter < 2^16: their product with 2^16 parts fits. */
	return delay + (delay * r->jitter / 1000 * (random >> 16) >> 16);
}

uint64_t task_delay_ms(uint64_t backoff_ms, uint64_t retry_after_ms)
{
	return retry_after_ms > backoff_ms ? retry_after_ms : backoff_ms;
}

bool task_may_begin(uint64_t lease_end_ms, uint64_t now_ms, uint64_t bound_ms)
{
	return now_ms + bound_ms + LEASE_LEFT_MS <= lease_end_ms;
}

unsigned int task_next_limit(unsigned int limit, unsigned int max)
{
	if (!limit)
		limit = FIRST_LIMIT / 2;
	return 2 * limit < max ? 2 * limit : max;
}
