/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* Reads a wheel in an event loop of libevent. As in libevent, -1 means an error. */
#ifndef TWHEEL_LIBEVENT_H
#define TWHEEL_LIBEVENT_H

#include <event2/event.h>
#include <twheel/reader.h>

struct twheel_libevent {
	struct twheel_reader reader;
	struct event *event;
};

static inline void twheel_libevent_readable(evutil_socket_t fd, short what, void *arg)
{
	struct twheel_libevent *a = (struct twheel_libevent *)arg;

	(void)fd;
	(void)what;
	twheel_reader_read(&a->reader);
}

/* Returns 0, or -1. */
static inline int twheel_libevent_attach(struct twheel_libevent *a, struct event_base *base,
					 struct twheel *wheel, twheel_event_cb *on_event,
					 void *arg)
{
	twheel_reader_init(&a->reader, wheel, on_event, arg);
	a->event = event_new(base, twheel_fd(wheel), EV_READ | EV_PERSIST,
			     twheel_libevent_readable, a);
	if (!a->event)
		return -1;
	if (event_add(a->event, NULL)) {
		event_free(a->event);
		return -1;
	}
	a->reader.attached = 1;
	return 0;
}

/* Calls the callback for the pending events, without running the loop. */
static inline int twheel_libevent_read(struct twheel_libevent *a)
{
	return twheel_reader_read(&a->reader);
}

static inline void twheel_libevent_detach(struct twheel_libevent *a)
{
	a->reader.attached = 0;
	event_free(a->event);
}

#endif /* TWHEEL_LIBEVENT_H */
