// SPDX-License-Identifier: GPL-2.0
/*
 * How do I use a wheel in an epoll loop?
 *
 * Add its descriptor once, and call twheel_read() when it is ready. There is nothing else to
 * do, because a timer is armed as soon as twheel_add() or twheel_set() returns.
 *
 * Each connection has a timer, which starts again whenever the connection sends something. One
 * twheel_set_many() moves all timers of a turn, so that the processor fetches their words
 * together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <libtwheel.h>

#define CONNS		100
#define HEARTBEATS	5
#define TIMEOUT		500000000ULL	/* ns */

/* Stands for a connection that sends some heartbeats and then falls silent. */
struct conn {
	int fd;
	uint64_t timer;
};

static struct conn conns[CONNS];
static unsigned int running = CONNS, heard, turns;
static struct twheel *wheel;

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "loop_epoll: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* Reads from those that are ready. Stores the ids of their timers, and returns how many. */
static int on_sockets(const struct epoll_event *ready, int n, uint64_t *ids)
{
	int i, nr = 0;

	turns++;
	for (i = 0; i < n; i++) {
		const struct conn *c = ready[i].data.ptr;
		uint64_t heartbeat;

		if (ready[i].data.ptr != wheel && read(c->fd, &heartbeat, sizeof(heartbeat)) > 0)
			ids[nr++] = c->timer;
	}
	heard += nr;
	return nr;
}

/* You own a timer until you delete it, even after it has expired. */
static void on_timeouts(const struct twheel_event *events, int n)
{
	uint64_t ids[64];
	int i;

	for (i = 0; i < n; i++) {
		close(conns[events[i].user_data].fd);
		ids[i] = events[i].id;
	}
	check("del", twheel_del_many(wheel, ids, n));
	running -= n;
}

static void run(int loop)
{
	struct twheel_event events[64];
	uint64_t ids[64];
	int n;
	/* begin epoll */
	struct epoll_event ready[64] = { { .events = EPOLLIN, .data.ptr = wheel } };

	epoll_ctl(loop, EPOLL_CTL_ADD, twheel_fd(wheel), ready);
	while (running) {
		n = epoll_wait(loop, ready, 64, -1);
		n = on_sockets(ready, n, ids);
		twheel_set_many(wheel, ids, n, twheel_after(wheel, TIMEOUT));
		while ((n = twheel_read(wheel, events, 64)) > 0)
			on_timeouts(events, n);
	}
	/* end epoll */
}

static void accept_all(int loop)
{
	unsigned int i;

	for (i = 0; i < CONNS; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &conns[i] };

		conns[i].fd = eventfd(HEARTBEATS, EFD_CLOEXEC | EFD_SEMAPHORE | EFD_NONBLOCK);
		if (conns[i].fd < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, conns[i].fd, &ev)) {
			perror("loop_epoll");
			exit(1);
		}
		check("add", twheel_add(wheel, twheel_after(wheel, TIMEOUT), i, &conns[i].timer));
	}
}

int main(void)
{
	int loop = epoll_create1(EPOLL_CLOEXEC);

	if (loop < 0) {
		perror("loop_epoll");
		return 1;
	}
	check("open", twheel_open(&wheel, NULL));
	accept_all(loop);
	run(loop);
	printf("%u connections, %u heartbeats, %u turns of the loop\n", CONNS, heard, turns);
	twheel_close(wheel);
	return heard != CONNS * HEARTBEATS;
}
