/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * The part that all adapters for event loops share: it reads the events of a wheel and calls a
 * callback for each of them.
 *
 * Because events are read one at a time, all others are still in the wheel while a callback
 * runs. A callback may therefore
 *  - set and delete any timer, after which a deleted timer delivers no more events;
 *  - run the loop again, if the loop allows that, or call twheel_reader_read() itself;
 *  - throw an exception, if the caller is C++, after which the next turn of the loop reads the
 *    remaining events;
 *  - detach.
 */
#ifndef TWHEEL_READER_H
#define TWHEEL_READER_H

#include <libtwheel.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Maximum number of events that are read in one turn of the loop, before it serves others. */
#define TWHEEL_READER_TURN	1024

typedef void twheel_event_cb(const struct twheel_event *event, void *arg);

/**
 * struct twheel_reader - a wheel whose events are passed to a callback
 * @wheel: the wheel
 * @on_event: the callback
 * @arg: its last argument
 * @attached: not 0 while an event loop calls twheel_reader_read()
 */
struct twheel_reader {
	struct twheel *wheel;
	twheel_event_cb *on_event;
	void *arg;
	int attached;
};

/*
 * Prepares a reader, which is not attached to a loop yet. The memory of @r must stay valid until
 * its last callback has returned.
 */
static inline void twheel_reader_init(struct twheel_reader *r, struct twheel *wheel,
				      twheel_event_cb *on_event, void *arg)
{
	r->wheel = wheel;
	r->on_event = on_event;
	r->arg = arg;
	r->attached = 0;
}

/**
 * twheel_reader_read() - call the callback for each event that is unread now
 * @r: the reader
 *
 * This never waits. If a callback detaches the reader, the function returns at once, and the
 * next call delivers the remaining events, no matter if a loop or the program makes that call.
 *
 * Return: 1: there may be more events; 0: there are no more; -ECHILD: this is a forked child.
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
