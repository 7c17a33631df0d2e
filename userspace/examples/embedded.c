// SPDX-License-Identifier: GPL-2.0
/*
 * How do I use a wheel in a loop that only accepts a timeout value?
 *
 * Some loops are embedded in others by a time-out: "sleep, but no longer than so many ms".
 * libuv calls it uv_backend_timeout(), GLib asks each source in prepare(). twheel_next() is
 * that number, in ns: no event comes before it, and it is 0 while one is unread. It can be too
 * early, because the wheel has something to do that is no event. Then the read finds nothing,
 * and the loop asks again.
 *
 * Each turn of the loop reads, asks and sleeps. What was read is handled in on_event().
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
	unsigned int expired;
	bool again;
	bool early;
};

static void check(const char *what, int ret)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "embedded: %s: %s\n", what, strerror(-ret));
	exit(1);
}

/*
 * The longest sleep, in ms as poll() takes it; -1 is for ever. The ms are rounded up. An event
 * comes up to a tick after its deadline, so the loop sleeps for a ms if the deadline has come
 * but the event has not: with 0 it would ask again and again until the tick has passed.
 */
static int sleep_ms(struct twheel *wheel)
{
	uint64_t next = twheel_next(wheel), now = twheel_now(wheel), ms;

	if (next == ~0ULL)
		return -1;
	if (!next)
		return 0;
	ms = next > now ? (next - now + MSEC - 1) / MSEC : 1;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* Here a program handles a timer that has expired. It may arm timers, like this one. */
static void on_event(struct twheel *wheel, const struct twheel_event *event, struct timer *t)
{
	t->early |= twheel_now(wheel) < t->deadline || event->deadline_ns != t->deadline;
	t->deadline = ~0ULL;
	t->expired++;
	if (!t->again)
		return;
	t->again = false;
	t->deadline = twheel_after(wheel, 50 * MSEC);
	check("set", twheel_set(wheel, t->id, t->deadline));
}

/* Reads until there is nothing. */
static void read_all(struct twheel *wheel, struct timer *timers)
{
	struct twheel_event events[16];
	int count, i;

	while ((count = twheel_read(wheel, events, 16)) > 0) {
		for (i = 0; i < count; i++)
			on_event(wheel, &events[i], &timers[events[i].user_data]);
	}
	check("read", count);
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

/* Whether the loop has slept for too long, or too short. */
static bool is_right(const struct timer *timers, uint64_t now, int slept)
{
	uint64_t first = earliest(timers);

	/* Two ms: it rounds up, and an event comes within a tick. */
	return slept < 0 ? first == ~0ULL : now + slept * MSEC <= first + 2 * MSEC || slept <= 1;
}

int main(void)
{
	static struct timer timers[TIMERS];
	unsigned int expired = 0, turns = 0, i;
	struct twheel *wheel;
	bool right = true;

	check("open", twheel_open(&wheel, NULL));
	for (i = 0; i < TIMERS; i++) {
		struct timer *t = &timers[i];

		t->deadline = twheel_after(wheel, (1 + i * 37 % 400) * MSEC);
		t->again = i % 4 == 0;
		check("add", twheel_add(wheel, t->deadline, i, &t->id));
	}

	for (; earliest(timers) != ~0ULL; turns++) {
		uint64_t now;
		int ms;

		read_all(wheel, timers);
		now = twheel_now(wheel);
		ms = sleep_ms(wheel);
		right &= is_right(timers, now, ms);
		/* Nothing is armed any more, and this host has nothing else to wait for. */
		if (ms < 0)
			break;
		/* The host, which would have descriptors of its own. */
		if (poll(NULL, 0, ms) < 0)
			perror("poll");
	}
	for (i = 0; i < TIMERS; i++) {
		expired += timers[i].expired;
		right &= !timers[i].early;
		check("del", twheel_del(wheel, timers[i].id));
	}
	twheel_close(wheel);
	printf("%u expirations in %u turns of the host's loop\n", expired, turns);
	puts(right ? "twheel_next() was never too late" : "this cannot happen");
	return right ? 0 : 1;
}
