// SPDX-License-Identifier: GPL-2.0
/*
 * GLib's timeouts on libtwheel, by LD_PRELOAD: this replaces all functions that create one.
 * Each context has a wheel, whose events are read when the context checks its sources, so that
 * a timeout is dispatched in the same iteration, by its priority.
 */
#include <glib.h>
#include <libtwheel.h>

/* The context owns it, and so does each of its timeouts. */
struct wheel_source {
	GSource source;
	struct twheel *wheel;
	gpointer tag;
};

struct timeout {
	GSource source;
	struct wheel_source *of;
	uint64_t id;
	gint64 due;	/* in us, as g_get_monotonic_time() */
	guint interval;
	gboolean seconds;
	gboolean once;
	gboolean expired;
};

static gboolean wheel_check(GSource *source)
{
	struct wheel_source *w = (struct wheel_source *)source;
	struct twheel_event event;

	if (!g_source_query_unix_fd(source, w->tag))
		return FALSE;
	/* No callback runs meanwhile, so each timeout still exists. */
	while (twheel_read(w->wheel, &event, 1) == 1)
		((struct timeout *)(uintptr_t)event.user_data)->expired = TRUE;
	return FALSE;
}

static gboolean wheel_dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
	(void)source;
	(void)callback;
	(void)data;
	return G_SOURCE_CONTINUE;
}

static void wheel_finalize(GSource *source)
{
	twheel_close(((struct wheel_source *)source)->wheel);
}

static struct wheel_source *new_wheel(GMainContext *context)
{
	static GSourceFuncs funcs = {
		.check = wheel_check,
		.dispatch = wheel_dispatch,
		.finalize = wheel_finalize,
	};
	struct wheel_source *w = (struct wheel_source *)g_source_new(&funcs, sizeof(*w));

	if (twheel_open(&w->wheel, NULL))
		g_error("no wheel");
	g_source_set_static_name(&w->source, "wheel");
	/* The context checks it before all timeouts. */
	g_source_set_priority(&w->source, G_MININT);
	w->tag = g_source_add_unix_fd(&w->source, twheel_fd(w->wheel), G_IO_IN);
	g_source_attach(&w->source, context);
	return w;
}

static GMutex wheels_lock;

/* Returns a new reference. A context that was freed has destroyed its wheel. */
static struct wheel_source *wheel_of(GMainContext *context)
{
	static GHashTable *wheels;
	struct wheel_source *w;

	g_mutex_lock(&wheels_lock);
	if (!wheels)
		wheels = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify)g_source_unref);
	w = g_hash_table_lookup(wheels, context);
	if (!w || g_source_is_destroyed(&w->source)) {
		w = new_wheel(context);
		g_hash_table_insert(wheels, context, w);
	}
	g_source_ref(&w->source);
	g_mutex_unlock(&wheels_lock);
	return w;
}

static void set_due(struct timeout *t, gint64 now)
{
	t->due = now + (gint64)t->interval * (t->seconds ? G_USEC_PER_SEC : 1000);
	/* Timeouts of whole seconds expire together. */
	if (t->seconds)
		t->due = (t->due + G_USEC_PER_SEC * 3 / 4) / G_USEC_PER_SEC * G_USEC_PER_SEC;
}

static void add_timer(struct timeout *t, GMainContext *context)
{
	t->of = wheel_of(context);
	if (twheel_add(t->of->wheel, t->due * 1000, (uintptr_t)t, &t->id))
		g_error("no timer");
}

static gboolean timeout_prepare(GSource *source, gint *sleep)
{
	struct timeout *t = (struct timeout *)source;

	*sleep = -1;
	if (!t->of && t->due <= g_source_get_time(source))
		t->expired = TRUE;
	if (t->expired)
		return TRUE;
	/*
	 * The context waits for a new wheel in this iteration already, but the wheel's source has
	 * woken it, so this iteration ends without a dispatch.
	 */
	if (!t->of)
		add_timer(t, g_source_get_context(source));
	return FALSE;
}

static gboolean timeout_check(GSource *source)
{
	return ((struct timeout *)source)->expired;
}

static gboolean timeout_dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
	struct timeout *t = (struct timeout *)source;

	t->expired = FALSE;
	if (!callback) {
		g_warning("a timeout without a callback");
		return G_SOURCE_REMOVE;
	}
	if (t->once) {
		((GSourceOnceFunc)(void (*)(void))callback)(data);
		return G_SOURCE_REMOVE;
	}
	if (!callback(data))
		return G_SOURCE_REMOVE;
	set_due(t, g_source_get_time(source));
	/* Without a wheel, the next prepare adds the timer. */
	if (t->of)
		twheel_set(t->of->wheel, t->id, t->due * 1000);
	return G_SOURCE_CONTINUE;
}

static void timeout_finalize(GSource *source)
{
	struct timeout *t = (struct timeout *)source;

	if (!t->of)
		return;
	twheel_del(t->of->wheel, t->id);
	g_source_unref(&t->of->source);
}

static GSource *new_timeout(guint interval, gboolean seconds, gboolean once)
{
	static GSourceFuncs funcs = {
		.prepare = timeout_prepare,
		.check = timeout_check,
		.dispatch = timeout_dispatch,
		.finalize = timeout_finalize,
	};
	GSource *source = g_source_new(&funcs, sizeof(struct timeout));
	struct timeout *t = (struct timeout *)source;

	t->interval = interval;
	t->seconds = seconds;
	t->once = once;
	set_due(t, g_get_monotonic_time());
	return source;
}

static guint attach(GSource *source, gint priority, gpointer callback, gpointer data,
		    GDestroyNotify notify)
{
	guint id;

	g_source_set_priority(source, priority);
	g_source_set_callback(source, (GSourceFunc)callback, data, notify);
	/*
	 * Opening a wheel can take longer than the 50 ms in which a test expects its first timeout,
	 * so do not leave it to the first iteration.
	 */
	add_timer((struct timeout *)source, g_main_context_default());
	id = g_source_attach(source, NULL);
	g_source_unref(source);
	return id;
}

GSource *g_timeout_source_new(guint interval)
{
	return new_timeout(interval, FALSE, FALSE);
}

GSource *g_timeout_source_new_seconds(guint interval)
{
	return new_timeout(interval, TRUE, FALSE);
}

guint g_timeout_add_full(gint priority, guint interval, GSourceFunc function, gpointer data,
			 GDestroyNotify notify)
{
	g_return_val_if_fail(function, 0);
	return attach(new_timeout(interval, FALSE, FALSE), priority, function, data, notify);
}

guint g_timeout_add(guint interval, GSourceFunc function, gpointer data)
{
	return g_timeout_add_full(G_PRIORITY_DEFAULT, interval, function, data, NULL);
}

guint g_timeout_add_once(guint interval, GSourceOnceFunc function, gpointer data)
{
	g_return_val_if_fail(function, 0);
	return attach(new_timeout(interval, FALSE, TRUE), G_PRIORITY_DEFAULT, function, data, NULL);
}

guint g_timeout_add_seconds_full(gint priority, guint interval, GSourceFunc function,
				 gpointer data, GDestroyNotify notify)
{
	g_return_val_if_fail(function, 0);
	return attach(new_timeout(interval, TRUE, FALSE), priority, function, data, notify);
}

guint g_timeout_add_seconds(guint interval, GSourceFunc function, gpointer data)
{
	return g_timeout_add_seconds_full(G_PRIORITY_DEFAULT, interval, function, data, NULL);
}
