/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* Reads a wheel in an event loop of libev. Attaching and detaching cannot fail. */
#ifndef TWHEEL_LIBEV_H
#define TWHEEL_LIBEV_H

#include <ev.h>
#include <twheel/reader.h>

/* The adapter uses @io.data, so the program must not change it. */
struct twheel_ev {
	struct twheel_reader reader;
	struct ev_loop *loop;
	ev_io io;
};

static inline void twheel_ev_readable(struct ev_loop *loop, ev_io *io, int what)
{
	struct twheel_ev *a = (struct twheel_ev *)io->data;

	(void)loop;
	(void)what;
	twheel_reader_read(&a->reader);
}

static inline void twheel_ev_attach(struct twheel_ev *a, struct ev_loop *loop,
				    struct twheel *wheel, twheel_event_cb *on_event, void *arg)
{
	twheel_reader_init(&a->reader, wheel, on_event, arg);
	a->loop = loop;
	a->reader.attached = 1;
	ev_io_init(&a->io, twheel_ev_readable, twheel_fd(wheel), EV_READ);
	a->io.data = a;
	ev_io_start(loop, &a->io);
}

/* Calls the callback for the pending events, without running the loop. */
static inline int twheel_ev_read(struct twheel_ev *a)
{
	return twheel_reader_read(&a->reader);
}

static inline void twheel_ev_detach(struct twheel_ev *a)
{
	a->reader.attached = 0;
	ev_io_stop(a->loop, &a->io);
}

#endif /* TWHEEL_LIBEV_H */
