/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A GSource that is a timer of a wheel, with a callback, a priority and a context as GLib's own.
 * The wheel's adapter must be attached, with timer_source_event() for its callback, to the same
 * context. A source ends with its last reference, which must be before the wheel.
 */
#ifndef GLIB_SOURCE_H
#define GLIB_SOURCE_H

#include <twheel/glib.h>

struct timer_source {
	GSource source;
	struct twheel *wheel;
	uint64_t id;
};

/* No callback of a source runs while events are read, so that of an event is still there. */
static inline void timer_source_event(const struct twheel_event *event, void *arg G_GNUC_UNUSED)
{
	g_source_set_ready_time((GSource *)(uintptr_t)event->user_data, 0);
}

/* As g_source_set_ready_time(): microseconds of g_get_monotonic_time(), or -1 for never. */
static inline void timer_source_set_ready_time(GSource *source, gint64 us)
{
	struct timer_source *t = (struct timer_source *)source;

	/* It may have expired, without its callback having been called yet. */
	g_source_set_ready_time(source, -1);
	twheel_set(t->wheel, t->id, (guint64)us > G_MAXUINT64 / 1000 ? ~0ULL : us * 1000ULL);
}

/* The callback may arm the source again. If it returns G_SOURCE_REMOVE, it is destroyed. */
static inline gboolean timer_source_dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
	g_source_set_ready_time(source, -1);
	return callback(data);
}

static inline void timer_source_finalize(GSource *source)
{
	twheel_del(((struct timer_source *)source)->wheel, ((struct timer_source *)source)->id);
}

/* Not armed yet. NULL if the wheel is full. */
static inline GSource *timer_source_new(struct twheel *wheel)
{
	static GSourceFuncs funcs = {
		.dispatch = timer_source_dispatch,
		.finalize = timer_source_finalize,
	};
	GSource *source = g_source_new(&funcs, sizeof(struct timer_source));
	struct timer_source *t = (struct timer_source *)source;

	t->wheel = wheel;
	if (!twheel_add(wheel, ~0ULL, (uintptr_t)t, &t->id))
		return source;
	g_source_unref(source);
	return NULL;
}

#endif
