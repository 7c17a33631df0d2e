// SPDX-License-Identifier: GPL-2.0
/*
 * How does a wheel live in an io_uring loop?
 *
 * Either way: a poll request says when twheel_read() has something, which is
 * for both backends and for timeouts; or, of a kernel wheel that has timers
 * only, the ring itself reads the events.
 */
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>

#include <libtwheel.h>

#define TIMEOUTS	1000
#define MSEC		1000000ULL
#define EVENTS		64

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "loop_io_uring: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* Submits what was prepared, and waits for one completion. Returns its result. */
static int wait_one(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int res;

	check("submit", io_uring_submit(ring));
	do {
		res = io_uring_wait_cqe(ring, &cqe);
	} while (res == -EINTR);
	check("wait", res);
	res = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	check("completion", res);
	return res;
}

static unsigned int by_poll(struct io_uring *ring, struct twheel_ctx *wheel)
{
	struct twheel_event events[EVENTS];
	unsigned int expired = 0, i;
	uint64_t id;
	int count, j;

	for (i = 0; i < TIMEOUTS; i++)
		check("start", twheel_start(wheel, twheel_now(wheel) + i % 200 * MSEC, i, &id));
	while (expired < TIMEOUTS) {
		check("flush", twheel_flush(wheel));
		io_uring_prep_poll_add(io_uring_get_sqe(ring), twheel_fd(wheel), POLLIN);
		wait_one(ring);
		while ((count = twheel_read(wheel, events, EVENTS)) > 0) {
			/* Each is stopped once, or its slot stays in use. */
			for (j = 0; j < count; j++)
				check("stop", twheel_stop(wheel, events[j].id));
			expired += count;
		}
		check("read", count);
	}
	return expired;
}

static unsigned int by_read(struct io_uring *ring, struct twheel_ctx *wheel)
{
	struct twheel_event events[EVENTS];
	unsigned int expired = 0, i;

	for (i = 0; i < TIMEOUTS; i++) {
		struct twheel_timer timer = { .deadline_ns = i % 200 * MSEC, .user_data = i };

		check("register", twheel_register(wheel, &timer));
	}
	while (expired < TIMEOUTS) {
		io_uring_prep_read(io_uring_get_sqe(ring), twheel_fd(wheel), events,
				   sizeof(events), 0);
		expired += wait_one(ring) / sizeof(events[0]);
	}
	return expired;
}

int main(void)
{
	struct twheel_ctx *wheel;
	struct io_uring ring;

	check("ring", io_uring_queue_init(8, &ring, 0));
	check("open", twheel_open(NULL, &wheel));
	printf("%u timeouts by poll\n", by_poll(&ring, wheel));
	twheel_close(wheel);
	check("open", twheel_open(NULL, &wheel));
	if (!strcmp(twheel_backend(wheel), "kernel"))
		printf("%u timers by read\n", by_read(&ring, wheel));
	twheel_close(wheel);
	io_uring_queue_exit(&ring);
	return 0;
}
