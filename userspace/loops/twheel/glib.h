/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* Reads a wheel in an event loop of GLib. Attaching and detaching cannot fail. */
#ifndef TWHEEL_GLIB_H
#define TWHEEL_GLIB_H

#include <glib-unix.h>
#include <twheel/reader.h>

struct twheel_glib {
	struct twheel_reader reader;
	GSource *source;
};

static inline gboolean twheel_glib_readable(gint fd, GIOCondition what, gpointer arg)
{
	struct twheel_glib *a = (struct twheel_glib *)arg;

	(void)fd;
	(void)what;
	twheel_reader_read(&a->reader);
	return a->reader.attached ? G_SOURCE_CONTINUE : G_SOURCE_REMOVE;
}

/* If @context is NULL, this uses the default main context. */
static inline void twheel_glib_attach(struct twheel_glib *a, GMainContext *context,
				      struct twheel *wheel, twheel_event_cb *on_event,
				      void *arg)
{
	twheel_reader_init(&a->reader, wheel, on_event, arg);
	a->reader.attached = 1;
	a->source = g_unix_fd_source_new(twheel_fd(wheel), G_IO_IN);
	/* A callback may run an inner loop, in which this source must also work. */
	g_source_set_can_recurse(a->source, TRUE);
	g_source_set_callback(a->source, G_SOURCE_FUNC(twheel_glib_readable), a, NULL);
	g_source_attach(a->source, context);
}

/* Calls the callback for the pending events, without running the loop. */
static inline int twheel_glib_read(struct twheel_glib *a)
{
	return twheel_reader_read(&a->reader);
}

static inline void twheel_glib_detach(struct twheel_glib *a)
{
	a->reader.attached = 0;
	g_source_destroy(a->source);
	g_source_unref(a->source);
}

#endif /* TWHEEL_GLIB_H */
