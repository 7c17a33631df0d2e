// SPDX-License-Identifier: GPL-2.0
/* A wheel in GLib's loop. Any callback can arm timers, and the loop need not be told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <twheel/glib.h>

#define TIMERS	1000
#define MSEC		1000000ULL

static struct twheel_glib adapter;
static unsigned int expired;
static GMainLoop *loop;

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "glib: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* You own a timer until you delete it, even after it has expired. */
static void on_event(const struct twheel_event *event, void *wheel)
{
	check("del", twheel_del(wheel, event->id));
	if (++expired < TIMERS)
		return;
	twheel_glib_detach(&adapter);
	g_main_loop_quit(loop);
}

int main(void)
{
	struct twheel *wheel;
	unsigned int i;
	uint64_t id;

	check("open", twheel_open(&wheel, NULL));
	loop = g_main_loop_new(NULL, FALSE);
	twheel_glib_attach(&adapter, NULL, wheel, on_event, wheel);
	for (i = 0; i < TIMERS; i++)
		check("add", twheel_add(wheel, twheel_after(wheel, i % 200 * MSEC), i, &id));
	g_main_loop_run(loop);
	printf("%u timers in GLib's loop\n", expired);
	g_main_loop_unref(loop);
	twheel_close(wheel);
	return expired == TIMERS ? 0 : 1;
}
