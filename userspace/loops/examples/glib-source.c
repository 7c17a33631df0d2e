// SPDX-License-Identifier: GPL-2.0
/* Each timer is a GSource. One is moved by heartbeats, one is silent, and one is destroyed. */
#include "glib-source.h"

enum { IDLE = 60000, PING = 20000 /* us */, SIGNS = 5 };

static GSource *alive;
static unsigned int signs, kicked;

static void arm(GSource *source, gint64 delay)
{
	timer_source_set_ready_time(source, g_get_monotonic_time() + delay);
}

/* Moves the other source, and arms its own again until the last sign. */
static gboolean sign_of_life(gpointer arg G_GNUC_UNUSED)
{
	arm(alive, IDLE);
	if (++signs == SIGNS)
		return G_SOURCE_REMOVE;
	arm(g_main_current_source(), PING);
	return G_SOURCE_CONTINUE;
}

static gboolean kick(gpointer name)
{
	g_print("%s is kicked, after %u signs\n", (char *)name, signs);
	kicked++;
	return G_SOURCE_REMOVE;
}

/* The context keeps the source until it is destroyed. */
static GSource *start(struct twheel *wheel, gint64 delay, GSourceFunc callback, const char *name)
{
	GSource *source = timer_source_new(wheel);

	g_source_set_callback(source, callback, (gpointer)name, NULL);
	arm(source, delay);
	g_source_attach(source, NULL);
	g_source_unref(source);
	return source;
}

int main(void)
{
	struct twheel_glib adapter;
	struct twheel *wheel;

	g_assert_cmpint(twheel_open(&wheel, NULL), ==, 0);
	twheel_glib_attach(&adapter, NULL, wheel, timer_source_event, NULL);
	alive = start(wheel, IDLE, kick, "alive");
	start(wheel, IDLE, kick, "silent");
	g_source_destroy(start(wheel, IDLE, kick, "closed"));
	/* If both are due, the sign comes before the kick. */
	g_source_set_priority(start(wheel, PING, sign_of_life, NULL), G_PRIORITY_HIGH);
	while (kicked < 2)
		g_main_context_iteration(NULL, TRUE);
	twheel_glib_detach(&adapter);
	twheel_close(wheel);
}
