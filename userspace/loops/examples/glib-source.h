/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A GSource that is a timer of a wheel, and has a callback, a priority and a context like those of
 * GLib. Attach the wheel's adapter to the same context, with timer_source_event() as the callback.
 * Drop the last reference to each source before you close the wheel.
 */
#ifndef GLIB_SOURCE_H
#define GLIB_SOURCE_H

#include <twheel/glib.h>

struct timer_source {
	GSource source;
	struct twheel *wheel;
	uint64_t id;
};

/* No callback runs while events are read, so the source of each event still exists. */
static inline void timer_source_event(const struct twheel_event *event, void *arg G_GNUC_UNUSED)
{
	g_source_set_ready_time((GSource *)(uintptr_t)event->user_data, 0);
}

/* Like g_source_set_ready_time(): microseconds of g_get_monotonic_time(), or -1 for never. */
static inline void timer_source_set_ready_time(GSource *source, gint64 us)
{
	struct timer_source *t = (struct timer_source *)source;

	/* The timer may have expired, although its callback has not been called yet. */
	g_source_set_ready_time(source, -1);
	twheel_set(t->wheel, t->id, (guint64)us > G_MAXUINT64 / 1000 ? ~0ULL : us * 1000ULL);
}

/* The callback may arm the source again, or return G_SOURCE_REMOVE to destroy it. */
static inline gboolean timer_source_dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
	g_source_set_ready_time(source, -1);
	return callback(data);
}

static inline void timer_source_finalize(GSource *source)
{
	twheel_del(((struct timer_source *)source)->wheel, ((struct timer_source *)source)->id);
}

/* Makes a source that is not armed yet. Returns NULL if the wheel is full. */
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
