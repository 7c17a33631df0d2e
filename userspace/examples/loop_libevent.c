// SPDX-License-Identifier: GPL-2.0
/*
 * How does a wheel live in libevent's loop?
 *
 * Its descriptor is a persistent read event, whose callback reads the wheel. Any
 * other callback can arm timers, and the loop need not hear of it.
 */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libtwheel.h>

#define TIMERS	1000
#define MSEC		1000000ULL

static unsigned int expired;

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "loop_libevent: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* The adapter. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct twheel_event events[64];
	struct twheel *wheel = arg;
	int count, i;

	(void)fd;
	(void)what;
	while ((count = twheel_read(wheel, events, 64)) > 0) {
		/* An expired timer stays the program's until it is deleted. */
		for (i = 0; i < count; i++)
			check("del", twheel_del(wheel, events[i].id));
		expired += count;
	}
	check("read", count);
}

int main(void)
{
	struct event_base *base = event_base_new();
	struct twheel *wheel;
	struct event *event;
	unsigned int i;
	uint64_t id;

	check("open", twheel_open(&wheel, NULL));
	event = event_new(base, twheel_fd(wheel), EV_READ | EV_PERSIST, on_readable, wheel);
	if (!event || event_add(event, NULL)) {
		fprintf(stderr, "loop_libevent: no event\n");
		return 1;
	}
	for (i = 0; i < TIMERS; i++)
		check("add", twheel_add(wheel, twheel_after(wheel, i % 200 * MSEC), i, &id));

	while (expired < TIMERS)
		event_base_loop(base, EVLOOP_ONCE);
	printf("%u timers in libevent's loop\n", expired);
	event_free(event);
	event_base_free(base);
	twheel_close(wheel);
	return 0;
}
