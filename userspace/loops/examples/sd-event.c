// SPDX-License-Identifier: GPL-2.0
/* A wheel in sd-event's loop. Any callback can arm timers, and the loop need not be told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <twheel/sd-event.h>

#define TIMERS	1000
#define MSEC		1000000ULL

static struct twheel_sd adapter;
static unsigned int expired;
static sd_event *loop;

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "sd-event: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* You own a timer until you delete it, even after it has expired. */
static void on_event(const struct twheel_event *event, void *wheel)
{
	check("del", twheel_del(wheel, event->id));
	if (++expired < TIMERS)
		return;
	twheel_sd_detach(&adapter);
	check("exit", sd_event_exit(loop, 0));
}

int main(void)
{
	struct twheel *wheel;
	unsigned int i;
	uint64_t id;

	check("open", twheel_open(&wheel, NULL));
	check("loop", sd_event_default(&loop));
	check("attach", twheel_sd_attach(&adapter, loop, wheel, on_event, wheel));
	for (i = 0; i < TIMERS; i++)
		check("add", twheel_add(wheel, twheel_after(wheel, i % 200 * MSEC), i, &id));
	check("loop", sd_event_loop(loop));
	printf("%u timers in sd-event's loop\n", expired);
	sd_event_unref(loop);
	twheel_close(wheel);
	return expired == TIMERS ? 0 : 1;
}
