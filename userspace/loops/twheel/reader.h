/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Events of a wheel, one callback each: what the adapters for event loops share.
 *
 * The callback may set and delete timers, this one included, and it may detach. If
 * twheel_del() of another timer returns 0, its event may be the next of the batch:
 * twheel_reader_skip() drops it.
 */
#ifndef TWHEEL_READER_H
#define TWHEEL_READER_H

#include <libtwheel.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TWHEEL_READER_BATCH	64
/* So many batches for each turn of the loop. Other descriptors wait no longer for theirs. */
#define TWHEEL_READER_BATCHES	16

typedef void twheel_event_cb(const struct twheel_event *event, void *arg);

/**
 * struct twheel_reader - a wheel whose events are handed to a callback
 * @wheel: the wheel
 * @on_event: the callback
 * @arg: its last argument
 * @attached: a loop calls twheel_reader_read()
 * @next: the next one of @events
 * @count: how many of @events there are
 * @events: what was read and is not handed over yet
 */
struct twheel_reader {
	struct twheel *wheel;
	twheel_event_cb *on_event;
	void *arg;
	int attached;
	int next;
	int count;
	struct twheel_event events[TWHEEL_READER_BATCH];
};

/* Starts without a loop. The memory of @r must stay until its last callback has returned. */
static inline void twheel_reader_init(struct twheel_reader *r, struct twheel *wheel,
				      twheel_event_cb *on_event, void *arg)
{
	r->wheel = wheel;
	r->on_event = on_event;
	r->arg = arg;
	r->attached = 0;
	r->next = 0;
	r->count = 0;
}

/**
 * twheel_reader_read() - hand over the events that there are
 * @r: the reader
 *
 * If a callback detaches, the events behind it stay in @r. They come with the next call,
 * whether a loop makes it or the program does. Otherwise none stays there: the descriptor,
 * by which a loop goes, tells of the events in the wheel alone.
 *
 * Return: 1: there may be more; 0: that was all; -ECHILD: in a child of fork().
 */
static inline int twheel_reader_read(struct twheel_reader *r)
{
	int was_attached = r->attached;
	int i;

	for (i = 0; ; i++) {
		while (r->next < r->count) {
			struct twheel_event event = r->events[r->next++];

			r->on_event(&event, r->arg);
			if (was_attached && !r->attached)
				return 1;
		}
		r->next = 0;
		r->count = 0;
		if (i == TWHEEL_READER_BATCHES)
			return 1;
		r->count = twheel_read(r->wheel, r->events, TWHEEL_READER_BATCH);
		if (r->count <= 0)
			return r->count;
	}
}

/* Hands over no event of this timer that was read before now. */
static inline void twheel_reader_skip(struct twheel_reader *r, uint64_t id)
{
	int from, to = r->next;

	for (from = r->next; from < r->count; from++)
		if (r->events[from].id != id)
			r->events[to++] = r->events[from];
	if (r->next < r->count)
		r->count = to;
}

#ifdef __cplusplus
}
#endif

#endif /* TWHEEL_READER_H */
