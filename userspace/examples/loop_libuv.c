// SPDX-License-Identifier: GPL-2.0
/*
 * How does a wheel live in libuv's loop?
 *
 * Its descriptor is a poll handle, whose callback reads the wheel. Any other
 * callback can arm timers, and the loop need not hear of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include <libtwheel.h>

#define TIMERS	1000
#define MSEC		1000000ULL

static unsigned int expired;

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "loop_libuv: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* The adapter. */
static void on_readable(uv_poll_t *poll, int status, int what)
{
	struct twheel *wheel = poll->data;
	struct twheel_event events[64];
	int count, i;

	(void)status;
	(void)what;
	while ((count = twheel_read(wheel, events, 64)) > 0) {
		/* An expired timer stays the program's until it is deleted. */
		for (i = 0; i < count; i++)
			check("del", twheel_del(wheel, events[i].id));
		expired += count;
	}
	check("read", count);
	if (expired == TIMERS)
		uv_stop(poll->loop);
}

static void add_wheel(uv_loop_t *loop, uv_poll_t *poll, struct twheel *wheel)
{
	poll->data = wheel;
	check("poll", uv_poll_init(loop, poll, twheel_fd(wheel)));
	check("poll", uv_poll_start(poll, UV_READABLE, on_readable));
}

int main(void)
{
	uv_loop_t *loop = uv_default_loop();
	struct twheel *wheel;
	uv_poll_t poll;
	unsigned int i;
	uint64_t id;

	check("open", twheel_open(&wheel, NULL));
	add_wheel(loop, &poll, wheel);
	for (i = 0; i < TIMERS; i++)
		check("add", twheel_add(wheel, twheel_after(wheel, i % 200 * MSEC), i, &id));
	uv_run(loop, UV_RUN_DEFAULT);
	printf("%u timers in libuv's loop\n", expired);

	/* The loop lets go of the descriptor before the wheel is closed. */
	uv_close((uv_handle_t *)&poll, NULL);
	uv_run(loop, UV_RUN_DEFAULT);
	twheel_close(wheel);
	return expired == TIMERS ? 0 : 1;
}
