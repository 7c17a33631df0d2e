// SPDX-License-Identifier: GPL-2.0
/* A wheel in libev's loop. Any callback can arm timers, and the loop need not be told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <twheel/libev.h>

#define TIMERS	1000
#define MSEC		1000000ULL

static struct twheel_ev adapter;
static unsigned int expired;

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "libev: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* You own a timer until you delete it, even after it has expired. */
static void on_event(const struct twheel_event *event, void *wheel)
{
	check("del", twheel_del(wheel, event->id));
	if (++expired == TIMERS)
		twheel_ev_detach(&adapter);
}

int main(void)
{
	struct ev_loop *loop = ev_default_loop(0);
	struct twheel *wheel;
	unsigned int i;
	uint64_t id;

	check("open", twheel_open(&wheel, NULL));
	twheel_ev_attach(&adapter, loop, wheel, on_event, wheel);
	for (i = 0; i < TIMERS; i++)
		check("add", twheel_add(wheel, twheel_after(wheel, i % 200 * MSEC), i, &id));
	/* The loop ends when no watcher is left. */
	ev_run(loop, 0);
	printf("%u timers in libev's loop\n", expired);
	twheel_close(wheel);
	return expired == TIMERS ? 0 : 1;
}
