// SPDX-License-Identifier: GPL-2.0
/*
 * How do I name timeouts, instead of keeping ids?
 *
 * Each line of the input names somebody who is alive. The program prints the names that have
 * been silent for some seconds:
 *
 *	tail -F access.log | stdbuf -oL cut -d ' ' -f 1 | by_key 30
 *
 * The keys have their own wheel, whose descriptor your loop watches like that of any other
 * wheel.
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

/*
 * Handles the complete lines of @text, each of which is a name. Returns the length of these lines.
 */
static size_t hear(struct twheel_keyed *keys, const char *text, size_t len, uint64_t deadline)
{
	const char *name = text, *end;
	int known;

	while ((end = memchr(name, '\n', text + len - name))) {
		if (end > name) {
			known = twheel_keyed_set(keys, name, end - name, deadline, 0, NULL);
			check("set", known);
			if (!known)
				printf("%.*s is here\n", (int)(end - name), name);
		}
		name = end + 1;
	}
	fflush(stdout);
	return name - text;
}

/* Reads up to @size bytes into @text, of which @have are left from the last call. */
static size_t listen_to(struct pollfd *in, struct twheel_keyed *keys, char *text, size_t size,
			size_t have, uint64_t timeout)
{
	/* Leave room for a newline, in case the last line or a very long one has none. */
	ssize_t got = read(in->fd, text + have, size - 1 - have);
	size_t used;

	check("read", got < 0 ? -errno : 0);
	have += got;
	if (!got)
		in->fd = -1;
	if ((!got || have == size - 1) && !memchr(text, '\n', have))
		text[have++] = '\n';
	used = hear(keys, text, have, twheel_after(twheel_keyed_wheel(keys), timeout));
	memmove(text, text + used, have - used);
	return have - used;
}

int main(int argc, char **argv)
{
	char *end = "";
	double seconds = argc > 1 ? strtod(argv[1], &end) : 30;
	struct pollfd fds[2] = { { .fd = 0, .events = POLLIN }, { .events = POLLIN } };
	struct twheel_keyed *keys = NULL;
	char text[4096];
	unsigned int rounds;
	size_t have = 0;

	if (argc > 2 || *end || !(seconds > 0 && seconds < 1e6)) {
		fprintf(stderr, "usage: by_key [SECONDS]\n");
		return 2;
	}
	check("open", twheel_keyed_open(&keys, NULL));
	fds[1].fd = twheel_fd(twheel_keyed_wheel(keys));

	/* Go on until the input has ended and the last of them is silent. */
	while (fds[0].fd >= 0 || twheel_keyed_count(keys)) {
		if (poll(fds, 2, -1) < 0)
			check("poll", -errno);
		/* Read the lines that are already there before anyone is called silent. */
		for (rounds = 0; rounds < 1024 && fds[0].fd >= 0 && fds[0].revents; rounds++) {
			have = listen_to(&fds[0], keys, text, sizeof(text), have,
					 seconds * NSEC_PER_SEC);
			if (poll(fds, 1, 0) < 0)
				check("poll", -errno);
		}
		if (fds[1].revents)
			check("run", twheel_keyed_run(keys, is_silent, NULL));
	}
	twheel_keyed_close(keys);
	return 0;
}
