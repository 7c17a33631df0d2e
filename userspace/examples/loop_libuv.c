// SPDX-License-Identifier: GPL-2.0
/*
 * How does a wheel live in libuv's loop?
 *
 * Its descriptor is a poll handle, and a prepare handle, which runs just before
 * the loop sleeps, calls twheel_flush(). The rest of the program need not know.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include <libtwheel.h>

#define TIMEOUTS	1000
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
struct wheel_handle {
	struct twheel_ctx *wheel;
	uv_poll_t poll;
	uv_prepare_t prepare;
};

static void on_readable(uv_poll_t *poll, int status, int what)
{
	struct wheel_handle *h = poll->data;
	struct twheel_event events[64];
	int count, i;

	(void)status;
	(void)what;
	while ((count = twheel_read(h->wheel, events, 64)) > 0) {
		/* Each is stopped once, or its slot stays in use. */
		for (i = 0; i < count; i++)
			check("stop", twheel_stop(h->wheel, events[i].id));
		expired += count;
	}
	check("read", count);
	if (expired == TIMEOUTS)
		uv_stop(poll->loop);
}

static void before_sleep(uv_prepare_t *prepare)
{
	struct wheel_handle *h = prepare->data;

	check("flush", twheel_flush(h->wheel));
}

static void add_wheel(uv_loop_t *loop, struct wheel_handle *h)
{
	h->poll.data = h;
	h->prepare.data = h;
	check("poll", uv_poll_init(loop, &h->poll, twheel_fd(h->wheel)));
	check("poll", uv_poll_start(&h->poll, UV_READABLE, on_readable));
	check("prepare", uv_prepare_init(loop, &h->prepare));
	check("prepare", uv_prepare_start(&h->prepare, before_sleep));
}

int main(void)
{
	uv_loop_t *loop = uv_default_loop();
	struct wheel_handle h;
	unsigned int i;
	uint64_t id;

	check("open", twheel_open(NULL, &h.wheel));
	add_wheel(loop, &h);
	for (i = 0; i < TIMEOUTS; i++)
		check("start", twheel_start(h.wheel, twheel_now(h.wheel) + i % 200 * MSEC, i,
					    &id));
	uv_run(loop, UV_RUN_DEFAULT);
	printf("%u timeouts in libuv's loop\n", expired);

	uv_close((uv_handle_t *)&h.poll, NULL);
	uv_close((uv_handle_t *)&h.prepare, NULL);
	uv_run(loop, UV_RUN_DEFAULT);
	twheel_close(h.wheel);
	return expired == TIMEOUTS ? 0 : 1;
}
