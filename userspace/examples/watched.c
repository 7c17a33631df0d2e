// SPDX-License-Identifier: GPL-2.0
/*
 * How does a program tell "twheelctl watch", or systemd, that it is alive?
 *
 * It sends datagrams to $NOTIFY_SOCKET, as sd_notify(3) describes. Each argument is a step, so
 * that you can try each way to fall silent:
 *
 *   NAME=VALUE	sends this text
 *   ping:MS	sends WATCHDOG=1 three times as often as it has to
 *   sleep:MS	sends nothing
 *   stop	stops itself, as Ctrl-Z does
 *   loop	uses the processor forever
 *   block	waits inside the kernel, where SIGABRT does not end it
 */
#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what)
{
	fprintf(stderr, "watched: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void notify(const char *text)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;
	socklen_t size = offsetof(struct sockaddr_un, sun_path) + len;
	int fd;

	/* No supervisor is watching. */
	if (!len || len > sizeof(addr.sun_path))
		return;
	memcpy(addr.sun_path, path, len);
	/* The name of an abstract socket begins with a zero byte. */
	if (*path == '@')
		addr.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&addr,
			     size) < 0)
		fail("notify");
	close(fd);
}

static void sleep_us(unsigned long us)
{
	struct timespec ts = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };

	nanosleep(&ts, NULL);
}

/* WATCHDOG_USEC= applies to the process that WATCHDOG_PID= names, but not to its children. */
static unsigned long watchdog_us(void)
{
	const char *pid = getenv("WATCHDOG_PID"), *us = getenv("WATCHDOG_USEC");

	return us && pid && atoi(pid) == getpid() ? strtoul(us, NULL, 10) : 0;
}

static void ping(unsigned long us)
{
	unsigned long step = watchdog_us() / 3, slept;

	if (!step)
		step = 100000;
	for (slept = 0; slept < us; slept += step) {
		notify("WATCHDOG=1");
		sleep_us(step);
	}
	notify("WATCHDOG=1");
}

/* The parent in vfork() waits inside the kernel for its child, which ignores SIGABRT as well. */
static void block(void)
{
	if (vfork())
		return;
	signal(SIGABRT, SIG_IGN);
	for (;;)
		pause();
}

static void step(const char *what)
{
	const char *colon = strchr(what, ':');
	unsigned long us = colon ? strtoul(colon + 1, NULL, 10) * 1000 : 0;

	if (strchr(what, '='))
		notify(what);
	else if (!strncmp(what, "ping:", 5))
		ping(us);
	else if (!strncmp(what, "sleep:", 6))
		sleep_us(us);
	else if (!strcmp(what, "stop"))
		raise(SIGSTOP);
	else if (!strcmp(what, "block"))
		block();
	else if (!strcmp(what, "loop"))
		for (;;)
			;
	else
		errx(2, "unknown step: %s", what);
}

int main(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		step(argv[i]);
	return 0;
}
