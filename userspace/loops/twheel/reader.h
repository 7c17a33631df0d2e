/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Events of a wheel, one callback each: what the adapters for event loops share.
 *
 * Events are read one at a time, so all others are still in the wheel while a callback runs.
 * Therefore it may
 *  - set and delete any timer: the event of one that is deleted does not come any more;
 *  - run the loop, if the loop allows that, or call twheel_reader_read() itself;
 *  - throw an exception, if the caller is C++: the next turn of the loop reads the rest;
 *  - detach.
 */
#ifndef TWHEEL_READER_H
#define TWHEEL_READER_H

#include <libtwheel.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* At most this many events are read in a turn of the loop, so that other descriptors get theirs. */
#define TWHEEL_READER_TURN	1024

typedef void twheel_event_cb(const struct twheel_event *event, void *arg);

/**
 * struct twheel_reader - a wheel whose events are handed to a callback
 * @wheel: the wheel
 * @on_event: the callback
 * @arg: its last argument
 * @attached: a loop calls twheel_reader_read()
 */
struct twheel_reader {
	struct twheel *wheel;
	twheel_event_cb *on_event;
	void *arg;
	int attached;
};

/* Starts without a loop. The memory of @r must stay until its last callback has returned. */
static inline void twheel_reader_init(struct twheel_reader *r, struct twheel *wheel,
				      twheel_event_cb *on_event, void *arg)
{
	r->wheel = wheel;
	r->on_event = on_event;
	r->arg = arg;
	r->attached = 0;
}

/**
 * twheel_reader_read() - hand over the events that there are
 * @r: the reader
 *
 * If a callback detaches, this returns at once. The next call hands over the other events,
 * whether a loop makes it or the program does.
 *
 * Return: 1: there may be more; 0: that was all; -ECHILD: in a child of fork().
 */
static inline int twheel_reader_read(struct twheel_reader *r)
{
	int was_attached = r->attached;
	struct twheel_event event;
	int i, ret;

	for (i = 0; i < TWHEEL_READER_TURN; i++) {
		ret = twheel_read(r->wheel, &event, 1);
		if (ret <= 0)
			return ret;
		r->on_event(&event, r->arg);
		if (was_attached && !r->attached)
			return 1;
	}
	return 1;
}

#ifdef __cplusplus
}
#endif

#endif /* TWHEEL_READER_H */
