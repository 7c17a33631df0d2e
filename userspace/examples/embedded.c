// SPDX-License-Identifier: GPL-2.0
/*
 * How does a wheel live in a loop that takes a number, and no descriptor?
 *
 * Some loops are embedded in others by a time-out: "sleep, but no longer than this".
 * libuv calls it uv_backend_timeout(), GLib asks each source in prepare(). twheel_next()
 * is that number: no event comes before it, and it costs no system call. It can be too
 * early, because the wheel has something to do that is no event. Then the read finds
 * nothing, and the loop asks again.
 *
 * Ask first, then read, then sleep. The kernel turns its wheel at any moment. An event
 * that comes between a read and the question is not in the answer, which is about the
 * turns to come, and the host would sleep over it. An event that comes between the
 * question and the read is read.
 */
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libtwheel.h>

#define TIMERS	100
#define MSEC	1000000ULL

struct timer {
	uint64_t id;
	/* ~0 if it is not armed. */
	uint64_t deadline;
	bool again;
};

static void check(const char *what, int ret)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "embedded: %s: %s\n", what, strerror(-ret));
	exit(1);
}

/*
 * The longest sleep of the host, in ms as poll() takes it; -1 is for ever. An event is
 * ready at the end of a tick. A host that wakes within that tick finds nothing, and asks
 * again and again until it has passed. So the tick is added, and the ms are rounded up.
 */
static int host_timeout(uint64_t next, uint64_t now, uint64_t tick_ns)
{
	uint64_t ms;

	if (next == ~0ULL)
		return -1;
	/* It is due. */
	if (next + tick_ns <= now)
		return 0;
	ms = (next + tick_ns - now + MSEC - 1) / MSEC;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* Reads until there is nothing. Returns how many expired. */
static unsigned int read_all(struct twheel *wheel, struct timer *timers, bool *right)
{
	struct twheel_event events[16];
	unsigned int expired = 0;
	int count, i;

	while ((count = twheel_read(wheel, events, 16)) > 0) {
		for (i = 0; i < count; i++) {
			struct timer *t = &timers[events[i].user_data];

			if (twheel_now(wheel) < t->deadline)
				*right = false;
			t->deadline = ~0ULL;
			expired++;
			if (t->again) {
				t->again = false;
				t->deadline = twheel_after(wheel, 50 * MSEC);
				check("set", twheel_set(wheel, t->id, t->deadline));
			}
		}
	}
	check("read", count);
	return expired;
}

/* The dumb way to know what comes first, to see whether twheel_next() is right. */
static uint64_t earliest(const struct timer *timers)
{
	uint64_t first = ~0ULL;
	unsigned int i;

	for (i = 0; i < TIMERS; i++)
		if (first > timers[i].deadline)
			first = timers[i].deadline;
	return first;
}

int main(void)
{
	static struct timer timers[TIMERS];
	unsigned int expired = 0, turns = 0, i;
	struct twheel_info info;
	struct twheel *wheel;
	bool right = true;

	check("open", twheel_open(&wheel, NULL));
	check("info", twheel_info(wheel, &info));
	right = twheel_next(wheel) == ~0ULL;
	for (i = 0; i < TIMERS; i++) {
		struct timer *t = &timers[i];

		t->deadline = twheel_after(wheel, (1 + i * 37 % 400) * MSEC);
		t->again = i % 4 == 0;
		check("add", twheel_add(wheel, t->deadline, i, &t->id));
	}

	/* Every fourth expires twice. */
	while (expired < TIMERS + TIMERS / 4) {
		uint64_t next = twheel_next(wheel);
		unsigned int got = read_all(wheel, timers, &right);

		/* Functions have run, which may have armed timers: the answer is old. */
		expired += got;
		if (got)
			continue;
		/* An event comes within the tick that begins with its deadline. */
		if (next > earliest(timers) + info.tick_ns) {
			printf("an event comes before %llu\n", (unsigned long long)next);
			right = false;
		}
		/* The host, which would have descriptors of its own. */
		if (poll(NULL, 0, host_timeout(next, twheel_now(wheel), info.tick_ns)) < 0)
			perror("poll");
		turns++;
	}
	for (i = 0; i < TIMERS; i++)
		check("del", twheel_del(wheel, timers[i].id));
	twheel_close(wheel);
	printf("%u expirations in %u turns of the host's loop\n", expired, turns);
	puts(right ? "twheel_next() was never too late" : "this cannot happen");
	return right ? 0 : 1;
}
