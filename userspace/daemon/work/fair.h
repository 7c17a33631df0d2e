/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tasks that wait for the same thing, and the queue whose turn it is.
 *
 * The tasks of a queue stay in order. The queues take turns, and in its turn a queue gets as
 * many tasks as its weight: weighted round robin. So a flood in one queue delays another only
 * by its share.
 */
#ifndef TWHEELD_WORK_FAIR_H
#define TWHEELD_WORK_FAIR_H

#include <stdbool.h>
#include <stdint.h>

struct flow;
struct queue;

/**
 * struct turn - a task that waits
 * @queue: its queue
 * @weight: of the queue
 * @since: when it began to wait
 * @prev: in the flow of its queue
 * @next: in the flow of its queue
 */
struct turn {
	const struct queue *queue;
	unsigned int weight;
	uint64_t since;
	struct turn *prev;
	struct turn *next;
};

/**
 * struct fair - a place where tasks wait
 * @flows: the queues that have some, by queue
 * @turns: the same, that whose turn it is first
 * @count: tasks
 */
struct fair {
	struct flow *flows;
	struct flow *turns;
	unsigned int count;
};

/**
 * fair_push() - a task waits; its queue, weight and since are set
 */
void fair_push(struct fair *f, struct turn *t);

/**
 * fair_remove() - a task waits no longer
 */
void fair_remove(struct fair *f, struct turn *t);

/**
 * fair_next() - the task whose turn it is; it goes on waiting until fair_remove()
 * @f: the place
 * @may: whether tasks of a queue may go on now; NULL: all may
 *
 * Return: NULL if there is none.
 */
struct turn *fair_next(struct fair *f, bool (*may)(const struct queue *q));

/**
 * fair_oldest() - the task that has waited longest, or NULL
 */
struct turn *fair_oldest(const struct fair *f);

/**
 * fair_count() - how many tasks of a queue wait
 */
unsigned int fair_count(const struct fair *f, const struct queue *q);

#endif /* TWHEELD_WORK_FAIR_H */
