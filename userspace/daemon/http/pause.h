/* SPDX-License-Identifier: GPL-2.0 */
/* Pauses a queue. */
#ifndef TWHEELD_HTTP_PAUSE_H
#define TWHEELD_HTTP_PAUSE_H

#include "redis/command.h"

struct queue;

/**
 * pause_queue() - begin no more attempts of a queue, on any daemon
 * @done: called when no daemon holds a task of it, or when a while has passed; or with what failed
 */
typedef void pause_fn(void *arg, enum store_result result);
void pause_queue(struct queue *q, pause_fn *done, void *arg);

#endif /* TWHEELD_HTTP_PAUSE_H */
