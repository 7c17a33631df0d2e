// SPDX-License-Identifier: GPL-2.0
/*
 * How does a wheel live in an epoll loop of your own?
 *
 * Its descriptor is added once, and twheel_read() is called when it is ready. That
 * is all: a timer is armed when twheel_add() or twheel_set() has returned.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <libtwheel.h>

#define TIMERS	1000
#define MSEC		1000000ULL

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "loop_epoll: %s: %s\n", what, strerror(-err));
	exit(1);
}

static unsigned int read_wheel(struct twheel *wheel)
{
	struct twheel_event events[64];
	uint64_t ids[64];
	unsigned int total = 0;
	int count, i;

	while ((count = twheel_read(wheel, events, 64)) > 0) {
		/* An expired timer stays the program's until it is deleted. */
		for (i = 0; i < count; i++)
			ids[i] = events[i].id;
		check("del", twheel_del_many(wheel, ids, count));
		total += count;
	}
	check("read", count);
	return total;
}

int main(void)
{
	unsigned int expired = 0, turns = 0, i;
	struct epoll_event ev = { .events = EPOLLIN };
	int loop = epoll_create1(EPOLL_CLOEXEC);
	struct twheel *wheel;
	uint64_t id;

	check("open", twheel_open(&wheel, NULL));
	if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, twheel_fd(wheel), &ev)) {
		perror("epoll");
		return 1;
	}
	for (i = 0; i < TIMERS; i++)
		check("add", twheel_add(wheel, twheel_after(wheel, i % 200 * MSEC), i, &id));

	while (expired < TIMERS) {
		if (epoll_wait(loop, &ev, 1, -1) == 1)
			expired += read_wheel(wheel);
		turns++;
	}
	printf("%u timers in %u turns of the loop\n", expired, turns);
	twheel_close(wheel);
	return 0;
}
