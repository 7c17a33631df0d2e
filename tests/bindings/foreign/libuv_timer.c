// SPDX-License-Identifier: GPL-2.0
/*
 * The timers of libuv 1.44 on libtwheel, in place of its src/timer.c.
 *
 * Each loop has a wheel, which opens with its first timer. A timer is armed one tick before it
 * is due, so that the wheel has delivered it when the loop's time, which is in milliseconds,
 * gets there. Until then it waits in a queue, which also keeps timers of one millisecond in
 * the order in which they were started.
 */
#include "uv.h"
#include "uv-common.h"

#include <errno.h>
#include <limits.h>

#include <libtwheel.h>

#define NS_PER_MS	1000000ULL

struct timers {
	struct twheel *wheel;
	uint64_t tick_ns;
	QUEUE due;
};

/*
 * The contents of uv_timer_t.heap_node. The queue's links are NULL while the timer is in the
 * wheel.
 */
struct node {
	uint64_t id;
	QUEUE link;
};

_Static_assert(sizeof(struct node) == sizeof(((uv_timer_t *)0)->heap_node), "64-bit pointers");

static struct node *node_of(const uv_timer_t *handle)
{
	return (struct node *)handle->heap_node;
}

static uv_timer_t *of_link(QUEUE *link)
{
	struct node *node = QUEUE_DATA(link, struct node, link);

	return QUEUE_DATA(node, uv_timer_t, heap_node);
}

static int is_in_queue(const uv_timer_t *handle)
{
	return !!QUEUE_NEXT(&node_of(handle)->link);
}

static void queue(struct timers *t, uv_timer_t *handle)
{
	QUEUE *before = QUEUE_PREV(&t->due);

	while (before != &t->due) {
		const uv_timer_t *other = of_link(before);

		if (other->timeout < handle->timeout ||
		    (other->timeout == handle->timeout && other->start_id < handle->start_id))
			break;
		before = QUEUE_PREV(before);
	}
	QUEUE_INSERT_HEAD(before, &node_of(handle)->link);
}

static void unqueue(uv_timer_t *handle)
{
	QUEUE_REMOVE(&node_of(handle)->link);
	QUEUE_NEXT(&node_of(handle)->link) = NULL;
}

static int arm(struct timers *t, uv_timer_t *handle)
{
	struct node *node = node_of(handle);
	uint64_t deadline = ~0ULL;

	if (handle->timeout <= handle->loop->time) {
		queue(t, handle);
		return 0;
	}
	if (handle->timeout < ~0ULL / NS_PER_MS)
		deadline = handle->timeout * NS_PER_MS - t->tick_ns;
	if (!node->id)
		return twheel_add(t->wheel, deadline, (uintptr_t)handle, &node->id);
	return twheel_set(t->wheel, node->id, deadline);
}

static int open_wheel(struct timers *t)
{
	struct twheel_info info;
	int err = twheel_open(&t->wheel, NULL);

	if (err)
		return err;
	err = twheel_info(t->wheel, &info);
	t->tick_ns = info.tick_ns;
	return err;
}

/* In a child of fork(), the timers of the loop continue in a wheel of its own. */
static int open_again(uv_loop_t *loop, struct timers *t)
{
	QUEUE *link;
	int err;

	twheel_close(t->wheel);
	err = open_wheel(t);
	QUEUE_FOREACH(link, &loop->handle_queue) {
		uv_timer_t *handle = (uv_timer_t *)QUEUE_DATA(link, uv_handle_t, handle_queue);

		if (handle->type != UV_TIMER)
			continue;
		node_of(handle)->id = 0;
		if (!err && uv__is_active(handle) && !is_in_queue(handle))
			err = arm(t, handle);
	}
	return err;
}

static struct timers *timers_of(const uv_loop_t *loop)
{
	return loop->timer_heap.min;
}

static int begin(uv_loop_t *loop)
{
	struct timers *t = uv__malloc(sizeof(*t));
	int err;

	if (!t)
		return UV_ENOMEM;
	err = open_wheel(t);
	if (err) {
		uv__free(t);
		return err;
	}
	QUEUE_INIT(&t->due);
	loop->timer_heap.min = t;
	return 0;
}

/* Called by uv__loop_close(). */
void uv__timers_end(uv_loop_t *loop)
{
	struct timers *t = timers_of(loop);

	if (!t)
		return;
	twheel_close(t->wheel);
	uv__free(t);
	loop->timer_heap.min = NULL;
}

int uv_timer_init(uv_loop_t *loop, uv_timer_t *handle)
{
	uv__handle_init(loop, (uv_handle_t *)handle, UV_TIMER);
	handle->timer_cb = NULL;
	handle->timeout = 0;
	handle->repeat = 0;
	*node_of(handle) = (struct node){ 0 };
	return 0;
}

int uv_timer_start(uv_timer_t *handle, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
	uv_loop_t *loop = handle->loop;
	int err;

	if (!cb || uv__is_closing(handle))
		return UV_EINVAL;
	if (!timers_of(loop)) {
		err = begin(loop);
		if (err)
			return err;
	}
	uv_timer_stop(handle);
	handle->timer_cb = cb;
	handle->repeat = repeat;
	handle->timeout = timeout > UINT64_MAX - loop->time ? UINT64_MAX : loop->time + timeout;
	handle->start_id = loop->timer_counter++;
	err = arm(timers_of(loop), handle);
	if (err == -ECHILD) {
		err = open_again(loop, timers_of(loop));
		if (!err)
			err = arm(timers_of(loop), handle);
	}
	if (err < 0)
		return err;
	uv__handle_start(handle);
	return 0;
}

int uv_timer_stop(uv_timer_t *handle)
{
	if (!uv__is_active(handle))
		return 0;
	if (is_in_queue(handle))
		unqueue(handle);
	else
		twheel_clear(timers_of(handle->loop)->wheel, node_of(handle)->id);
	uv__handle_stop(handle);
	return 0;
}

int uv_timer_again(uv_timer_t *handle)
{
	if (!handle->timer_cb)
		return UV_EINVAL;
	if (!handle->repeat)
		return 0;
	return uv_timer_start(handle, handle->timer_cb, handle->repeat, handle->repeat);
}

void uv_timer_set_repeat(uv_timer_t *handle, uint64_t repeat)
{
	handle->repeat = repeat;
}

uint64_t uv_timer_get_repeat(const uv_timer_t *handle)
{
	return handle->repeat;
}

uint64_t uv_timer_get_due_in(const uv_timer_t *handle)
{
	uint64_t now = handle->loop->time;

	return handle->timeout > now ? handle->timeout - now : 0;
}

/* Returns how long the loop may sleep, in milliseconds, or -1 for forever. */
int uv__next_timeout(const uv_loop_t *loop)
{
	struct timers *t = timers_of(loop);
	uint64_t next, now = loop->time * NS_PER_MS;

	if (!t)
		return -1;
	next = twheel_next(t->wheel);
	if (next != ~0ULL)
		next += t->tick_ns;
	if (!QUEUE_EMPTY(&t->due)) {
		uint64_t first = of_link(QUEUE_HEAD(&t->due))->timeout * NS_PER_MS;

		next = first < next ? first : next;
	}
	if (next == ~0ULL)
		return -1;
	if (next <= now)
		return 0;
	next = (next - now + NS_PER_MS - 1) / NS_PER_MS;
	return next < INT_MAX ? (int)next : INT_MAX;
}

/* No callback runs meanwhile, so no event is stale. */
static void collect(uv_loop_t *loop, struct timers *t)
{
	struct twheel_event events[64];
	int i, n;

	do {
		n = twheel_read(t->wheel, events, 64);
		if (n == -ECHILD && !open_again(loop, t))
			n = twheel_read(t->wheel, events, 64);
		for (i = 0; i < n; i++)
			queue(t, (uv_timer_t *)(uintptr_t)events[i].user_data);
	} while (n == 64);
}

void uv__run_timers(uv_loop_t *loop)
{
	struct timers *t = timers_of(loop);

	if (!t)
		return;
	collect(loop, t);
	while (!QUEUE_EMPTY(&t->due)) {
		uv_timer_t *handle = of_link(QUEUE_HEAD(&t->due));

		if (handle->timeout > loop->time)
			break;
		uv_timer_stop(handle);
		uv_timer_again(handle);
		handle->timer_cb(handle);
	}
}

void uv__timer_close(uv_timer_t *handle)
{
	struct timers *t = timers_of(handle->loop);

	uv_timer_stop(handle);
	if (node_of(handle)->id)
		twheel_del(t->wheel, node_of(handle)->id);
	node_of(handle)->id = 0;
}
