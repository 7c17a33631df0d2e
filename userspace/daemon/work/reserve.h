/* SPDX-License-Identifier: GPL-2.0 */
/* Finds tasks for a worker that asks. */
#ifndef TWHEELD_WORK_RESERVE_H
#define TWHEELD_WORK_RESERVE_H

#include <stdbool.h>

#include "work/waiter.h"

/**
 * reserve_tasks() - find tasks for a worker that has just come
 * @q: its queue
 * @w: the worker; it may have its answer at once
 * @once: it does not wait for tasks that come later
 */
void reserve_tasks(struct queue *q, struct waiter *w, bool once);

#endif /* TWHEELD_WORK_RESERVE_H */
