/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* Reads a wheel in an event loop of libuv. As in libuv, errors are negative errnos. */
#ifndef TWHEEL_LIBUV_H
#define TWHEEL_LIBUV_H

#include <twheel/reader.h>
#include <uv.h>

/* The adapter uses @poll.data, so the program must not change it. */
struct twheel_uv {
	struct twheel_reader reader;
	uv_poll_t poll;
};

static inline void twheel_uv_readable(uv_poll_t *poll, int status, int what)
{
	struct twheel_uv *a = (struct twheel_uv *)poll->data;

	(void)status;
	(void)what;
	twheel_reader_read(&a->reader);
}

/* Returns 0, or an error of libuv. */
static inline int twheel_uv_attach(struct twheel_uv *a, uv_loop_t *loop, struct twheel *wheel,
				   twheel_event_cb *on_event, void *arg)
{
	int ret = uv_poll_init(loop, &a->poll, twheel_fd(wheel));

	if (ret)
		return ret;
	twheel_reader_init(&a->reader, wheel, on_event, arg);
	a->poll.data = a;
	ret = uv_poll_start(&a->poll, UV_READABLE, twheel_uv_readable);
	if (ret)
		uv_close((uv_handle_t *)&a->poll, NULL);
	else
		a->reader.attached = 1;
	return ret;
}

/* Calls the callback for the pending events, without running the loop. */
static inline int twheel_uv_read(struct twheel_uv *a)
{
	return twheel_reader_read(&a->reader);
}

/*
 * libuv closes a handle in its next turn, so the memory of @a must stay valid until the loop has
 * called @closed. Pass NULL if the memory stays anyway.
 */
static inline void twheel_uv_detach(struct twheel_uv *a, uv_close_cb closed)
{
	a->reader.attached = 0;
	uv_close((uv_handle_t *)&a->poll, closed);
}

#endif /* TWHEEL_LIBUV_H */
