// SPDX-License-Identifier: GPL-2.0
/* Each timer is a GSource: it has a priority, and is destroyed as GLib's own timeouts are. */
#include <twheel/glib.h>

static struct twheel *wheel;

struct timer {
	GSource source;
	uint64_t id;
};

/* No callback runs while events are read, so the source of an event is still there. */
static void on_event(const struct twheel_event *event, void *arg G_GNUC_UNUSED)
{
	g_source_set_ready_time((GSource *)(uintptr_t)event->user_data, 0);
}

static gboolean dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
	g_source_set_ready_time(source, -1);
	return callback(data);
}

static void finalize(GSource *source)
{
	twheel_del(wheel, ((struct timer *)source)->id);
}

static gboolean count(gpointer called)
{
	++*(int *)called;
	return G_SOURCE_REMOVE;
}

int main(void)
{
	static GSourceFuncs funcs = { .dispatch = dispatch, .finalize = finalize };
	struct twheel_glib adapter;
	int i, called = 0;

	if (twheel_open(&wheel, NULL))
		return 1;
	twheel_glib_attach(&adapter, NULL, wheel, on_event, NULL);
	for (i = 0; i < 1000; i++) {
		struct timer *t = (struct timer *)g_source_new(&funcs, sizeof(*t));

		if (twheel_add(wheel, twheel_after(wheel, i * 100000), (uintptr_t)t, &t->id))
			g_error("no timer");
		g_source_set_callback(&t->source, count, &called, NULL);
		g_source_attach(&t->source, NULL);
		if (i % 2)
			g_source_destroy(&t->source);
		g_source_unref(&t->source);
	}
	while (called < 500)
		g_main_context_iteration(NULL, TRUE);
	twheel_glib_detach(&adapter);
	twheel_close(wheel);
	g_print("%d of 1000 sources were called\n", called);
}
