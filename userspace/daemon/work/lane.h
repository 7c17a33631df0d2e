/* SPDX-License-Identifier: GPL-2.0 */
/* Lanes: alarms, take, recover, sweeps. */
#ifndef TWHEELD_WORK_LANE_H
#define TWHEELD_WORK_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "work/queue.h"

/**
 * lane_init() - prepare a lane
 *
 * Return: 0, or a negative errno.
 */
int lane_init(struct lane *l, struct queue *q, unsigned int index);
void lane_free(struct lane *l);

/**
 * lane_stop() - its queue was removed: take and recover nothing any more
 */
void lane_stop(struct lane *l);

/**
 * lane_wake() - the lane may have a task that is due at @ms
 */
void lane_wake(struct lane *l, uint64_t ms);

/**
 * lane_look() - take now: after a start, a new rank, or a lost connection
 */
void lane_look(struct lane *l);

/**
 * lane_arm() - set the alarm for what is known
 */
void lane_arm(struct lane *l);

/**
 * lane_refill() - there may be room again for lanes of a queue that found none
 */
void lane_refill(struct queue *q);

/**
 * lane_refill_all() - the same for all queues, if room became free in this turn of the loop
 */
void lane_refill_all(void *daemon);

#endif /* TWHEELD_WORK_LANE_H */
