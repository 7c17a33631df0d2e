/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What queues hold, asked of Redis when somebody wants to know.
 */
#ifndef TWHEELD_WORK_COUNTS_H
#define TWHEELD_WORK_COUNTS_H

#include "redis/command.h"
#include "redis/script.h"
#include "work/queue.h"

/**
 * struct census - counts of queues
 * @queues: how many
 * @result: STORE_OK, or why some are incomplete
 * @queue: queues, their counts, and how many lanes are missing in these
 */
struct census {
	size_t queues;
	enum store_result result;
	struct census_queue {
		struct queue *queue;
		struct counts counts;
		unsigned int missing;
	} queue[];
};

/**
 * census_take() - count
 * @d: the daemon
 * @only: this queue, or NULL for all
 * @fn: called later with the counts, which are freed afterwards
 * @arg: for @fn
 */
typedef void census_fn(void *arg, const struct census *census);
void census_take(struct daemon *d, struct queue *only, census_fn *fn, void *arg);

#endif /* TWHEELD_WORK_COUNTS_H */
