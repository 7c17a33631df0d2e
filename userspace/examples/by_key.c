// SPDX-License-Identifier: GPL-2.0
/*
 * How does a program have timeouts by name, without keeping ids?
 *
 * It is told of signs of life, a name in each line, and says who has been silent
 * for some seconds: tail -F access.log | cut -d ' ' -f 1 | by_key 30
 *
 * The keys have a wheel of their own, which lives in the loop as any other does:
 * its descriptor, and twheel_flush() before the loop sleeps.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libtwheel_keyed.h>

#define NSEC_PER_SEC	1000000000ULL

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "by_key: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void is_silent(const void *key, size_t len, uint64_t user_data, void *arg)
{
	(void)user_data;
	(void)arg;
	printf("%.*s is silent\n", (int)len, (const char *)key);
	fflush(stdout);
}

/* Takes the whole lines of @text, each for a name. Returns how much that is. */
static size_t hear(struct twheel_keyed *keys, const char *text, size_t len, uint64_t deadline)
{
	const char *name = text, *end;

	while ((end = memchr(name, '\n', text + len - name))) {
		/* 1: somebody we know. */
		if (end > name && twheel_keyed_set(keys, name, end - name, deadline, 0) == 0)
			printf("%.*s is here\n", (int)(end - name), name);
		name = end + 1;
	}
	fflush(stdout);
	return name - text;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 30;
	struct pollfd fds[2] = { { .fd = 0, .events = POLLIN }, { .events = POLLIN } };
	struct twheel_keyed *keys;
	struct twheel_ctx *wheel;
	char text[4096];
	size_t have = 0;
	ssize_t got;

	if (argc > 2 || !(seconds > 0 && seconds < 1e6)) {
		fprintf(stderr, "usage: by_key [SECONDS]\n");
		return 2;
	}
	check("open", twheel_keyed_open(NULL, &keys));
	wheel = twheel_keyed_wheel(keys);
	fds[1].fd = twheel_fd(wheel);

	/* Until the last of them is silent, and no more can come. */
	while (fds[0].fd >= 0 || twheel_keyed_count(keys)) {
		check("flush", twheel_flush(wheel));
		if (poll(fds, 2, -1) < 0)
			check("poll", -errno);
		if (fds[1].revents)
			check("run", twheel_keyed_run(keys, is_silent, NULL));
		if (fds[0].fd < 0 || !fds[0].revents)
			continue;
		/* With room for an end, if the last line, or a very long one, has none. */
		got = read(0, text + have, sizeof(text) - 1 - have);
		check("read", got < 0 ? -errno : 0);
		have += got;
		if (!got)
			fds[0].fd = -1;
		if ((!got || have == sizeof(text) - 1) && !memchr(text, '\n', have))
			text[have++] = '\n';
		got = hear(keys, text, have, twheel_now(wheel) + seconds * NSEC_PER_SEC);
		have -= got;
		memmove(text, text + got, have);
	}
	twheel_keyed_close(keys);
	return 0;
}
