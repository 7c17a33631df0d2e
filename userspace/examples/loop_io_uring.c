// SPDX-License-Identifier: GPL-2.0
/*
 * How do I use a wheel in an io_uring loop?
 *
 * There are two ways. With a poll request, the ring reports when twheel_read() has something
 * to read, which works with both backends and for all timers. Or the ring itself reads the
 * events of a kernel wheel from a descriptor of the program's own, but only for timers of
 * REGISTER, because the library has to see the events of timers that twheel_add() made.
 */
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libtwheel.h>

#define TIMERS	1000
#define MSEC		1000000ULL
#define EVENTS		64

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "loop_io_uring: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* Waits for one completion. Returns its result. */
static int wait_one(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int res;

	do {
		res = io_uring_wait_cqe(ring, &cqe);
	} while (res == -EINTR);
	check("wait", res);
	res = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return res;
}

static unsigned int by_poll(struct io_uring *ring)
{
	struct twheel_event events[EVENTS];
	unsigned int expired = 0, i;
	struct twheel *wheel;
	uint64_t id;
	int count, j;

	check("open", twheel_open(&wheel, NULL));
	for (i = 0; i < TIMERS; i++)
		check("add", twheel_add(wheel, twheel_after(wheel, i % 200 * MSEC), i, &id));
	while (expired < TIMERS) {
		io_uring_prep_poll_add(io_uring_get_sqe(ring), twheel_fd(wheel), POLLIN);
		check("submit", io_uring_submit(ring));
		check("poll", wait_one(ring));
		while ((count = twheel_read(wheel, events, EVENTS)) > 0) {
			/* You own a timer until you delete it, even after it has expired. */
			for (j = 0; j < count; j++)
				check("del", twheel_del(wheel, events[j].id));
			expired += count;
		}
		check("read", count);
	}
	twheel_close(wheel);
	return expired;
}

/* Submits a poll request, and a read that the ring begins once the poll has completed. */
static int poll_and_read(struct io_uring *ring, int fd, struct twheel_event *events)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_poll_add(sqe, fd, POLLIN);
	io_uring_sqe_set_flags(sqe, IOSQE_IO_LINK);
	io_uring_prep_read(io_uring_get_sqe(ring), fd, events, EVENTS * sizeof(*events), 0);
	check("submit", io_uring_submit(ring));
	check("poll", wait_one(ring));
	return wait_one(ring);
}

/* Returns 0 if there is no /dev/twheel, because the ring could read nothing. */
static unsigned int by_read(struct io_uring *ring)
{
	int fd = open("/dev/twheel", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	struct twheel_event events[EVENTS];
	unsigned int expired = 0, i;
	struct twheel *wheel;

	if (fd < 0)
		return 0;
	/* The wheel needs its own descriptor beside that of the ring. */
	check("open_fd", twheel_open_fd(&wheel, fcntl(fd, F_DUPFD_CLOEXEC, 3)));
	for (i = 0; i < TIMERS; i++) {
		struct twheel_op op = {
			.opcode = TWHEEL_OP_REGISTER,
			.timer.deadline_ns = i % 200 * MSEC,
			.timer.user_data = i,
		};

		check("submit", twheel_submit(wheel, &op, 1));
		check("register", op.result);
	}
	while (expired < TIMERS) {
		int bytes = poll_and_read(ring, fd, events);

		/* The event that completed the poll may have been withdrawn since. */
		if (bytes == -EAGAIN)
			continue;
		check("read", bytes);
		expired += bytes / sizeof(events[0]);
	}
	twheel_close(wheel);
	close(fd);
	return expired;
}

int main(void)
{
	struct io_uring ring;
	unsigned int read;

	check("ring", io_uring_queue_init(8, &ring, 0));
	printf("%u timers by poll\n", by_poll(&ring));
	read = by_read(&ring);
	if (read)
		printf("%u timers by read\n", read);
	io_uring_queue_exit(&ring);
	return 0;
}
