// SPDX-License-Identifier: GPL-2.0
/* Tasks that wait for the same thing. See fair.h. */
#include <stdlib.h>

#include <uthash.h>
#include <utlist.h>

#include "work/fair.h"

/**
 * struct flow - the tasks of one queue
 * @queue: the queue
 * @first: its tasks, in order
 * @count: how many
 * @weight: of the queue
 * @credit: how many more it gets in this turn
 * @hh: in fair.flows
 * @prev: in fair.turns
 * @next: in fair.turns
 */
struct flow {
	const struct queue *queue;
	struct turn *first;
	unsigned int count;
	unsigned int weight;
	unsigned int credit;
	UT_hash_handle hh;
	struct flow *prev;
	struct flow *next;
};

static struct flow *find(const struct fair *f, const struct queue *q)
{
	struct flow *flow;

	HASH_FIND_PTR(f->flows, &q, flow);
	return flow;
}

void fair_push(struct fair *f, struct turn *t)
{
	struct flow *flow = find(f, t->queue);

	if (!flow) {
		flow = calloc(1, sizeof(*flow));
		if (!flow)
			abort();
		flow->queue = t->queue;
		flow->credit = t->weight;
		HASH_ADD_PTR(f->flows, queue, flow);
		DL_APPEND(f->turns, flow);
	}
	flow->weight = t->weight;
	DL_APPEND(flow->first, t);
	flow->count++;
	f->count++;
}

void fair_remove(struct fair *f, struct turn *t)
{
	struct flow *flow = find(f, t->queue);

	DL_DELETE(flow->first, t);
	f->count--;
	if (--flow->count)
		return;
	HASH_DEL(f->flows, flow);
	DL_DELETE(f->turns, flow);
	free(flow);
}

struct turn *fair_next(struct fair *f, bool (*may)(const struct queue *q))
{
	struct flow *flow;

	DL_FOREACH(f->turns, flow) {
		if (!may || may(flow->queue))
			break;
	}
	if (!flow)
		return NULL;
	if (!--flow->credit) {
		flow->credit = flow->weight;
		DL_DELETE(f->turns, flow);
		DL_APPEND(f->turns, flow);
	}
	return flow->first;
}

struct turn *fair_oldest(const struct fair *f)
{
	struct turn *oldest = NULL;
	struct flow *flow;

	DL_FOREACH(f->turns, flow) {
		if (!oldest || flow->first->since < oldest->since)
			oldest = flow->first;
	}
	return oldest;
}

unsigned int fair_count(const struct fair *f, const struct queue *q)
{
	const struct flow *flow = find(f, q);

	return flow ? flow->count : 0;
}
