/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Workers that wait for tasks of a pull queue.
 */
#ifndef TWHEELD_WORK_WAITER_H
#define TWHEELD_WORK_WAITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/pull.h"
#include "work/held.h"
#include "work/queue.h"

/**
 * waiter_fn - a worker has its answer
 * @arg: of waiter_add()
 * @text: JSON; to free()
 * @len: length of it
 *
 * Tell waiter_sent() later whether it could be sent.
 */
typedef void waiter_fn(void *arg, char *text, size_t len);

/**
 * waiter_add() - a worker waits
 * @q: a pull queue
 * @want: what it asks for
 * @fn: called once with the answer, but not from here
 * @arg: for @fn
 */
struct waiter *waiter_add(struct queue *q, const struct reserve *want, waiter_fn *fn, void *arg);

/**
 * waiter_end() - answer a worker with the tasks that it has: the client is gone, or we stop
 */
void waiter_end(struct waiter *w);

/**
 * waiter_tasks() - how many tasks the answer has
 */
unsigned int waiter_tasks(const struct waiter *w);

/**
 * waiter_sent() - the answer was sent or not; the waiter is gone afterwards
 */
void waiter_sent(struct waiter *w, bool sent);

/**
 * waiter_room() - how many tasks the workers of a queue wait for
 * @q: the queue
 * @early: for tasks that are not due yet: those that are held already count as well
 * @lease_ms: out: the lease that the first of them wants
 */
unsigned int waiter_room(const struct queue *q, bool early, uint64_t *lease_ms);

/**
 * waiter_hurries() - whether a worker that does not want to wait has no task yet
 */
bool waiter_hurries(const struct queue *q);

/**
 * waiter_offer() - hand a task that is due to a worker
 *
 * Return: false if nobody waits.
 */
bool waiter_offer(struct queue *q, struct held *h);

/**
 * waiter_settle() - answer workers that have tasks: after the tasks of a take
 */
void waiter_settle(struct queue *q);

/**
 * waiter_settle_later() - do so at the end of the turn, after all that is due in it
 */
void waiter_settle_later(struct queue *q);
void waiter_settle_all(void *daemon);

/**
 * waiter_end_all() - answer all workers: at the beginning of the stop
 */
void waiter_end_queue(struct queue *q);
void waiter_end_all(struct daemon *d);

#endif /* TWHEELD_WORK_WAITER_H */
