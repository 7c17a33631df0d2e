// SPDX-License-Identifier: GPL-2.0
/*
 * How do I use a wheel with libuv?
 *
 * Use <twheel/libuv.h>. Any callback can arm timers, and the loop need not be told.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <twheel/libuv.h>

#define TIMERS	1000
#define MSEC		1000000ULL

static struct twheel_uv adapter;
static unsigned int expired;

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "loop_libuv: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* You own a timer until you delete it, even after it has expired. */
static void on_event(const struct twheel_event *event, void *wheel)
{
	check("del", twheel_del(wheel, event->id));
	if (++expired == TIMERS)
		twheel_uv_detach(&adapter, NULL);
}

int main(void)
{
	uv_loop_t *loop = uv_default_loop();
	struct twheel *wheel;
	unsigned int i;
	uint64_t id;

	check("open", twheel_open(&wheel, NULL));
	check("attach", twheel_uv_attach(&adapter, loop, wheel, on_event, wheel));
	for (i = 0; i < TIMERS; i++)
		check("add", twheel_add(wheel, twheel_after(wheel, i % 200 * MSEC), i, &id));
	/* The loop ends when no handle is left. */
	uv_run(loop, UV_RUN_DEFAULT);
	printf("%u timers in libuv's loop\n", expired);
	twheel_close(wheel);
	return expired == TIMERS ? 0 : 1;
}
