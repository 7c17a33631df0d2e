// SPDX-License-Identifier: GPL-2.0
/*
 * How do I use a wheel in an epoll loop?
 *
 * Add its descriptor once, and call twheel_read() when it is ready. There is nothing else to
 * do, because a timer is armed as soon as twheel_add() or twheel_set() returns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <libtwheel.h>

#define TIMERS	1000
#define BATCH	64
#define MSEC		1000000ULL

static unsigned int running = TIMERS, turns;
static struct twheel *wheel;
/* Stands for the sockets. */
static int request;

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "loop_epoll: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* The loop need not be told about new timers. */
static void on_socket(const int *fd)
{
	uint64_t id, value;
	unsigned int i;

	turns++;
	if (read(*fd, &value, sizeof(value)) != sizeof(value))
		exit(1);
	for (i = 0; i < TIMERS; i++)
		check("add", twheel_add(wheel, twheel_after(wheel, i % 200 * MSEC), i, &id));
}

/* You own a timer until you delete it, even after it has expired. */
static void on_timeouts(const struct twheel_event *events, int n)
{
	uint64_t ids[BATCH];
	int i;

	turns++;
	for (i = 0; i < n; i++)
		ids[i] = events[i].id;
	check("del", twheel_del_many(wheel, ids, n));
	running -= n;
}

static void run(int loop)
{
	struct twheel_event events[BATCH];
	int n;
	/* begin epoll */
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = wheel };

	epoll_ctl(loop, EPOLL_CTL_ADD, twheel_fd(wheel), &ev);
	while (running) {
		if (epoll_wait(loop, &ev, 1, -1) == 1 && ev.data.ptr != wheel)
			on_socket(ev.data.ptr);
		while ((n = twheel_read(wheel, events, 64)) > 0)
			on_timeouts(events, n);
	}
	/* end epoll */
}

int main(void)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &request };
	int loop = epoll_create1(EPOLL_CLOEXEC);

	check("open", twheel_open(&wheel, NULL));
	request = eventfd(1, EFD_CLOEXEC);
	if (loop < 0 || request < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, request, &ev)) {
		perror("epoll");
		return 1;
	}
	run(loop);
	printf("%u timers in %u turns of the loop\n", TIMERS, turns);
	twheel_close(wheel);
	return running != 0;
}
