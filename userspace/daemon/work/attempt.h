/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Attempts: when tasks begin, and how their requests end.
 */
#ifndef TWHEELD_WORK_ATTEMPT_H
#define TWHEELD_WORK_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "redis/script.h"
#include "work/held.h"

/**
 * attempt_add() - hold a task that was taken
 * @l: its lane
 * @t: the task; copied
 * @holder: holder number that the take was sent with
 * @lease_ms: length of the lease that the take asked for
 * @now_ms: time of the take, on Redis's clock. The answer may be read much later
 */
void attempt_add(struct lane *l, const struct taken *t, uint64_t holder, uint64_t lease_ms,
		 uint64_t now_ms);

/**
 * attempt_rearm_all() - a clock was set
 */
void attempt_rearm_all(struct daemon *d);

/**
 * attempt_offer_idle() - a worker waits: offer it what is due
 */
void attempt_offer_idle(struct queue *q);

/**
 * attempt_abort_all() - end all requests, and release their tasks: at the end of the stop
 */
void attempt_abort_all(struct daemon *d);

int attempt_start(struct daemon *d);

/**
 * attempt_change() - let attempts that begin from now on use another configuration
 *
 * Return: 0, or -ENOMEM: nothing is changed.
 */
int attempt_change(struct daemon *d, const struct config *c);

/**
 * attempt_run() - let libcurl send what was begun in this turn, without a tick's delay
 */
void attempt_run(void *daemon);
void attempt_stop(struct daemon *d);

#endif /* TWHEELD_WORK_ATTEMPT_H */
