/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Decisions about tasks. No I/O, no clock, no chance: a random number is an argument.
 */
#ifndef TWHEELD_WORK_TASK_H
#define TWHEELD_WORK_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/body.h"

/* An attempt only begins if this much of its lease is left, ms. */
#define LEASE_LEFT_MS	500
/* How much later than the home the next rank takes, ms. */
#define RANK_DELAY_MS	150
/* How much later all ranks from 2 on take, ms. */
#define RANK_FAR_MS	1000
/* How often all ranks from 2 on sweep, ms. */
#define TASK_FAR_MS	30000
/* Interval between sweeps of an empty lane, ms. */
#define IDLE_SPACE_MS	100ULL
/* A rank that no member has. */
#define RANK_NONE	UINT32_MAX

/**
 * task_lane() - the lane of a task
 * @id: its id
 * @lanes: lanes of its queue
 *
 * FNV-1a, 32 bits. All programs that write to Redis must agree on it.
 */
unsigned int task_lane(const char *id, unsigned int lanes);

/**
 * task_score() - how much a member wants a lane
 * @member: its name
 * @queue: name of the queue
 * @lane: number of the lane
 *
 * The member with the highest score is the lane's home (rendezvous hashing). If a
 * member goes, only its own lanes move.
 */
uint64_t task_score(const char *member, const char *queue, unsigned int lane);

/**
 * task_rank() - the place of a member in a lane
 * @self: its name
 * @members: names of all members; without @self, it counts as one more
 * @count: how many
 * @queue: name of the queue
 * @lane: number of the lane
 *
 * Return: 0 for the home, 1 for the next ...
 */
unsigned int task_rank(const char *self, const char *const *members, size_t count,
		       const char *queue, unsigned int lane);

/**
 * task_rank_delay_ms() - how much later than the home a rank acts
 */
uint64_t task_rank_delay_ms(unsigned int rank);

/**
 * task_sweep_ms() - how often a rank looks at a lane with tasks, without an alarm
 * @rank: of this daemon in the lane
 */
uint64_t task_sweep_ms(unsigned int rank);

/**
 * task_idle_sweep_ms() - how often a daemon looks at a lane that is known to be empty
 * @lanes: of all queues
 *
 * A message announces each new task, and is so rarely lost without notice that looking at ten
 * lanes a second is enough, no matter how many there are.
 */
uint64_t task_idle_sweep_ms(unsigned int lanes);

/**
 * task_backoff_ms() - the delay before the next attempt
 * @r: of the task
 * @attempt: the one that failed: 1, 2, 3 ...
 * @random: all 32 bits count
 *
 * min(cap, base * 2^(attempt - 1)) * (1 + random part of jitter). The random part only
 * adds.
 */
uint64_t task_backoff_ms(const struct retry *r, unsigned int attempt, uint32_t random);

/**
 * task_delay_ms() - the delay after a failed request
 * @backoff_ms: of task_backoff_ms()
 * @retry_after_ms: what the endpoint asked for; 0: nothing
 */
uint64_t task_delay_ms(uint64_t backoff_ms, uint64_t retry_after_ms);

/**
 * task_may_begin() - whether a lease is long enough to begin an attempt
 * @lease_end_ms: end of the lease, Redis's time
 * @now_ms: Redis's time
 * @bound_ms: how wrong @now_ms may be
 */
bool task_may_begin(uint64_t lease_end_ms, uint64_t now_ms, uint64_t bound_ms);

/**
 * task_next_limit() - how many tasks the next take asks for
 * @limit: how many the last one asked for; 0: after a pause
 * @max: batch
 */
unsigned int task_next_limit(unsigned int limit, unsigned int max);

#endif /* TWHEELD_WORK_TASK_H */
