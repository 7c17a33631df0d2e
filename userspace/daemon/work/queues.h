/* SPDX-License-Identifier: GPL-2.0 */
/* The queues that `tw:queues` contains: made, changed, read again. */
#ifndef TWHEELD_WORK_QUEUES_H
#define TWHEELD_WORK_QUEUES_H

#include <stddef.h>

#include "redis/command.h"
#include "text/settings.h"
#include "work/queue.h"

/**
 * queue_apply() - make a queue, or change it
 * @d: the daemon
 * @name: its name
 * @settings: with another mode or number of lanes, it is another queue, and the old one is
 *	forgotten
 * @text: the settings as Redis has them
 *
 * The script "settings" limits the number of queues, for all daemons together.
 *
 * Return: NULL without memory.
 */
struct queue *queue_apply(struct daemon *d, const char *name,
			  const struct queue_settings *settings, const char *text);

/**
 * queue_load() - read one queue from Redis
 * @fn: called with the queue. Or with NULL and the result of the command; @newer: there is such a
 *	queue, and only a newer version can read its settings
 *
 * If Redis does not have a queue that this daemon knows, @fn is called when the daemon has found
 * out why: it has forgotten a queue that was removed, and stores again one that Redis has lost.
 */
typedef void queue_fn(void *arg, struct queue *q, enum store_result result, bool newer);
void queue_load(struct daemon *d, const char *name, queue_fn *fn, void *arg);

/**
 * queue_load_all() - read all queues from Redis
 */
void queue_load_all(struct daemon *d);

/**
 * queue_forget() - the queue was removed from Redis
 */
void queue_forget(struct queue *q);

/**
 * queue_free_removed() - free forgotten queues that no command refers to: each heartbeat
 */
void queue_free_removed(struct daemon *d);

/**
 * queue_release() - give back all tasks of a queue that have not begun
 */
void queue_release(struct queue *q);

void queue_free_all(struct daemon *d);

/**
 * queue_rank_all() - find the ranks anew, after members came or went
 */
void queue_rank_all(struct daemon *d);

#endif /* TWHEELD_WORK_QUEUES_H */
