/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* A wheel in the loop of libuv. Errors are those of libuv: negative errnos. */
#ifndef TWHEEL_LIBUV_H
#define TWHEEL_LIBUV_H

#include <twheel/reader.h>
#include <uv.h>

/* Beside these, @poll.data belongs to the adapter. */
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

/* Hands over what there is now, without the loop. See twheel_reader_read(). */
static inline int twheel_uv_read(struct twheel_uv *a)
{
	return twheel_reader_read(&a->reader);
}

/* The memory of @a must stay until the loop has called @closed, which may be NULL. */
static inline void twheel_uv_detach(struct twheel_uv *a, uv_close_cb closed)
{
	a->reader.attached = 0;
	uv_close((uv_handle_t *)&a->poll, closed);
}

#endif /* TWHEEL_LIBUV_H */
