// SPDX-License-Identifier: GPL-2.0
/*
 * How do I wait for many timers and for other descriptors at the same time?
 *
 * No matter how many timers a wheel has, it is one descriptor in the epoll set, and one
 * twheel_read() returns as many events as fit. Here, 1,000 timers run beside a pipe whose
 * writer falls silent; user_data tells the timers apart.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <libtwheel.h>

#define TIMERS	1000
#define MSEC	1000000ULL

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* The library returns a negative errno. */
static void check(const char *what, int ret)
{
	if (ret >= 0)
		return;
	errno = -ret;
	die(what);
}

static void watch(int loop, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &ev))
		die("epoll_ctl");
}

/* Adds timer number @i, which is due in 1 to 500 ms. */
static void add_timer(struct twheel *wheel, unsigned int i)
{
	uint64_t id;

	check("add", twheel_add(wheel, twheel_after(wheel, (1 + i % 500) * MSEC), i, &id));
}

/* Reads events and deletes their timers. Returns how many timers expired. */
static unsigned int read_wheel(struct twheel *wheel, bool expired[TIMERS])
{
	struct twheel_event events[256];
	int count = twheel_read(wheel, events, 256);
	int i;

	check("read", count);
	for (i = 0; i < count; i++) {
		unsigned long long which = events[i].user_data;

		if (expired[which])
			printf("timer %llu expired twice: this cannot happen\n", which);
		expired[which] = true;
		check("del", twheel_del(wheel, events[i].id));
	}
	return count;
}

int main(void)
{
	int loop = epoll_create1(EPOLL_CLOEXEC);
	unsigned int i, count = 0, wakeups = 0;
	static bool expired[TIMERS];
	struct twheel *wheel;
	int pipefd[2];

	check("open", twheel_open(&wheel, NULL));
	if (loop < 0 || pipe2(pipefd, O_CLOEXEC))
		die("descriptors");
	watch(loop, twheel_fd(wheel));
	watch(loop, pipefd[0]);
	for (i = 0; i < TIMERS; i++)
		add_timer(wheel, i);
	if (write(pipefd[1], "hello", 5) != 5)
		die("write");

	while (count < TIMERS) {
		struct epoll_event ready[2];
		int n = epoll_wait(loop, ready, 2, -1);

		if (n < 0 && errno != EINTR)
			die("epoll_wait");
		if (n < 0)
			continue;
		wakeups++;
		while (n--) {
			char text[16];

			if (ready[n].data.fd == twheel_fd(wheel)) {
				count += read_wheel(wheel, expired);
				continue;
			}
			if (read(pipefd[0], text, sizeof(text)) > 0)
				printf("the pipe had something to say\n");
		}
	}
	printf("%u timers, %u wake-ups, one descriptor\n", count, wakeups);
	twheel_close(wheel);
	return 0;
}
