// SPDX-License-Identifier: GPL-2.0
/*
 * How do I use a wheel with libevent?
 *
 * Use <twheel/libevent.h>. Any callback can arm timers, and the loop need not be told.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <twheel/libevent.h>

#define TIMERS	1000
#define MSEC		1000000ULL

static struct twheel_libevent adapter;
static unsigned int expired;

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "loop_libevent: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* You own a timer until you delete it, even after it has expired. */
static void on_event(const struct twheel_event *event, void *wheel)
{
	check("del", twheel_del(wheel, event->id));
	if (++expired == TIMERS)
		twheel_libevent_detach(&adapter);
}

int main(void)
{
	struct event_base *base = event_base_new();
	struct twheel *wheel;
	unsigned int i;
	uint64_t id;

	check("open", twheel_open(&wheel, NULL));
	if (!base || twheel_libevent_attach(&adapter, base, wheel, on_event, wheel)) {
		fprintf(stderr, "loop_libevent: no event\n");
		return 1;
	}
	for (i = 0; i < TIMERS; i++)
		check("add", twheel_add(wheel, twheel_after(wheel, i % 200 * MSEC), i, &id));
	/* The loop ends when no event is left. */
	event_base_dispatch(base);
	printf("%u timers in libevent's loop\n", expired);
	event_base_free(base);
	twheel_close(wheel);
	return expired == TIMERS ? 0 : 1;
}
