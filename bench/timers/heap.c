// SPDX-License-Identifier: GPL-2.0
/*
 * A binary heap on one timerfd, which most hand-written event loops use. The heap contains the
 * deadlines, and each timer knows its index in the heap.
 */
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"

/* The index of a timer that is not in the heap. */
#define NOWHERE	UINT32_MAX

struct item {
	uint64_t deadline;
	uint32_t index;
};

/**
 * struct heap - a heap
 * @alarm: the timerfd that wakes the loop
 * @items: the heap; the children of item i are 2 * i + 1 and 2 * i + 2
 * @place: the index of each timer in @items
 * @nr: number of @items
 */
struct heap {
	struct bench_alarm alarm;
	struct item *items;
	uint32_t *place;
	uint32_t nr;
};

static int heap_open(struct bench *b)
{
	struct heap *h = bench_alloc(1, sizeof(*h));
	uint32_t i;

	h->items = bench_alloc(b->n + BENCH_SPARE, sizeof(*h->items));
	h->place = bench_alloc(b->n + BENCH_SPARE, sizeof(*h->place));
	bench_alarm_open(&h->alarm);
	for (i = 0; i < b->n + BENCH_SPARE; i++) {
		h->place[i] = NOWHERE;
		b->handle[i] = i;
	}
	b->state = h;
	return 0;
}

static void heap_close(struct bench *b)
{
	struct heap *h = b->state;

	close(h->alarm.fd);
	free(h->items);
	free(h->place);
	free(h);
}

static inline void put(struct heap *h, uint32_t at, struct item item)
{
	h->items[at] = item;
	h->place[item.index] = at;
}

static inline void sift_up(struct heap *h, uint32_t at, struct item item)
{
	while (at && h->items[(at - 1) / 2].deadline > item.deadline) {
		put(h, at, h->items[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	put(h, at, item);
}

static inline void sift_down(struct heap *h, uint32_t at, struct item item)
{
	uint32_t child;

	while ((child = 2 * at + 1) < h->nr) {
		if (child + 1 < h->nr && h->items[child + 1].deadline < h->items[child].deadline)
			child++;
		if (h->items[child].deadline >= item.deadline)
			break;
		put(h, at, h->items[child]);
		at = child;
	}
	put(h, at, item);
}

static inline void sift(struct heap *h, uint32_t at, struct item item)
{
	if (at && h->items[(at - 1) / 2].deadline > item.deadline)
		sift_up(h, at, item);
	else
		sift_down(h, at, item);
}

static inline int heap_move_one(void *it, uint64_t handle, uint64_t when)
{
	struct item item = { .deadline = when, .index = handle };
	struct heap *h = it;
	uint32_t at = h->place[handle];

	if (at == NOWHERE)
		sift_up(h, h->nr++, item);
	else
		sift(h, at, item);
	return 0;
}

static inline int heap_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	struct heap *h = it;
	uint32_t at = h->place[handle];

	(void)when;
	if (at == NOWHERE)
		return -1;
	h->place[handle] = NOWHERE;
	if (at != --h->nr)
		sift(h, at, h->items[h->nr]);
	return 0;
}

BENCH_LOOPS(heap, b->state, heap_move_one, heap_move_one, heap_cancel_one)

/* The mutex is not held while the program handles an expiration. */
static uint64_t expire(struct bench *b)
{
	struct heap *h = b->state;
	uint64_t now = bench_now(), next;

	bench_lock(b);
	while (h->nr && h->items[0].deadline <= now) {
		uint32_t index = h->items[0].index;

		heap_cancel_one(h, index, 0);
		bench_unlock(b);
		bench_deliver(b, index);
		bench_lock(b);
	}
	next = h->nr ? h->items[0].deadline : UINT64_MAX;
	bench_unlock(b);
	return next;
}

static void heap_deliver(struct bench *b, uint64_t until)
{
	struct heap *h = b->state;

	do
		bench_alarm_wait(&h->alarm, expire(b), until);
	while (bench_now() < until);
}

BENCH_BACKEND(heap, "heap", heap, heap,
	      .max_n = 10000000, .threads = 1, .open = heap_open);

BENCH_BACKEND(heap_mutex, "heap+mutex", heap, heap,
	      .max_n = 10000000, .threads = BENCH_THREADS, .locked = true, .open = heap_open,
	      .again = heap_turnover);
