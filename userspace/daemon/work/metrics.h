/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters of this process.
 */
#ifndef TWHEELD_WORK_METRICS_H
#define TWHEELD_WORK_METRICS_H

#include <stddef.h>
#include <stdint.h>

enum put_outcome {
	PUT_CREATED,
	PUT_REPLACED,
	PUT_UPDATED,
	PUT_KEPT,
	PUT_EXISTS,
	PUT_FULL,
	PUT_FAILED,
	PUT_OUTCOMES,
};

enum take_outcome {
	TAKE_TASKS,
	TAKE_EMPTY,
	TAKE_FAILED,
	TAKE_OUTCOMES,
};

/* Classes of a callback's status. */
enum code_class {
	CODE_NONE,
	CODE_2XX,
	CODE_3XX,
	CODE_4XX,
	CODE_5XX,
	CODE_CLASSES,
};

enum dead_reason {
	DEAD_VERDICT,
	DEAD_ATTEMPTS,
	DEAD_LOST,
	DEAD_MISSED,
	DEAD_REASONS,
};

#define HISTOGRAM_BUCKETS	18
#define HISTOGRAM_FIRST_US	100

/**
 * struct histogram - how often which time; buckets double from 100 us
 * @bucket: counts; the last has no bound
 * @sum: of all, seconds
 */
struct histogram {
	uint64_t bucket[HISTOGRAM_BUCKETS + 1];
	double sum;
};

void histogram_add(struct histogram *h, uint64_t us);

enum held_back {
	/* The host gives no answer. */
	HELD_BACK_HOST,
	/* The address of the host gives no answer. */
	HELD_BACK_ADDRESS,
	/* The limits of the queue. */
	HELD_BACK_RATE,
	HELD_BACK_CONCURRENCY,
	HELD_BACKS,
};

/**
 * struct metrics - counters of this process
 */
struct metrics {
	struct histogram lateness;
	struct histogram callback[CODE_CLASSES];
	uint64_t puts[PUT_OUTCOMES];
	uint64_t takes[TAKE_OUTCOMES];
	uint64_t recalls[3];
	uint64_t held_back[HELD_BACKS];
	uint64_t dead[DEAD_REASONS];
	uint64_t lost;
	uint64_t stale;
	uint64_t orphans;
	uint64_t newer;
	uint64_t missed;
	uint64_t wakes;
};

/**
 * metrics_code() - the class of a status; 0 is none
 */
enum code_class metrics_code(int status);

#endif /* TWHEELD_WORK_METRICS_H */
