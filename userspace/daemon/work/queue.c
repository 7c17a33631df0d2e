// SPDX-License-Identifier: GPL-2.0
/* Queues and their lanes. See queue.h. */
#include "redis/store.h"
#include "work/queue.h"
#include "work/task.h"

uint64_t queue_ahead_ms(const struct queue *q)
{
	/*
	 * A task that was taken counts towards the limits, so do not take it before it can begin.
	 */
	if (queue_limited(&q->settings))
		return 0;
	if (q->settings.ahead_ms != QUEUE_AHEAD_DEFAULT)
		return q->settings.ahead_ms;
	return q->settings.mode == QUEUE_PUSH ? q->daemon->config.ahead_ms : 0;
}

struct lane *queue_lane(struct queue *q, const char *id)
{
	return &q->lane[task_lane(id, q->settings.lanes)];
}

struct queue *queue_find(struct daemon *d, const char *name)
{
	struct queue *q;

	HASH_FIND_STR(d->queues, name, q);
	return q;
}

bool lane_up(const struct lane *l)
{
	return store_node_ready(l->queue->daemon->store, l->node);
}

const struct clock *lane_clock(const struct lane *l)
{
	static const struct clock unknown;

	return l->node == STORE_NO_NODE ? &unknown : &l->queue->daemon->clock[l->node];
}

uint64_t lane_now_ms(const struct lane *l)
{
	const struct daemon *d = l->queue->daemon;
	const struct clock *clock = lane_clock(l);

	return clock->known ? clock_redis_ms(clock, alarms_now(d->alarms)) : work_now_ms(d);
}
