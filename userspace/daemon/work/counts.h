/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counts the tasks of queues in Redis, when somebody wants to know.
 *
 * All requests for the counts of all queues share one census per second. It counts a few lanes at
 * a time, so that takes and reports of thousands of lanes need not wait for it.
 */
#ifndef TWHEELD_WORK_COUNTS_H
#define TWHEELD_WORK_COUNTS_H

#include "work/queue.h"

/**
 * queue_count() - count one queue now
 * @q: the queue
 * @fn: called later
 * @arg: for @fn
 */
typedef void count_fn(void *arg, const struct counted *counted);
void queue_count(struct queue *q, count_fn *fn, void *arg);

/**
 * census_ask() - count all queues, unless that was done within a second
 * @d: the daemon
 * @fn: called later, when each queue has its counts in queue.counted
 * @arg: for @fn
 */
typedef void census_fn(void *arg);
void census_ask(struct daemon *d, census_fn *fn, void *arg);

/**
 * census_again() - a user has changed a queue, and is to see it: the next who asks has it counted
 */
void census_again(struct queue *q);

/**
 * census_skip() - a queue is removed: the census goes on with the next one
 */
void census_skip(struct queue *q);

/**
 * census_end() - the daemon stops: answer all who wait
 */
void census_end(struct daemon *d);

#endif /* TWHEELD_WORK_COUNTS_H */
