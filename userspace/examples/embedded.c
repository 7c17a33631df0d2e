// SPDX-License-Identifier: GPL-2.0
/*
 * How do I use a wheel in a loop that only accepts a timeout value?
 *
 * Such a loop is embedded in another one, which asks "how many ms may I sleep?": libuv calls
 * this uv_backend_timeout(), and GLib asks each source in prepare(). twheel_next() is the
 * answer, as a time in ns: no event comes before it, and it is 0 while an event is unread. The
 * time can be too early, because the wheel sometimes has work to do that produces no event. In
 * that case the read finds nothing, and the loop asks again.
 *
 * Each turn of the loop reads, asks and sleeps. on_event() handles each event that was read.
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
	/* ~0 if the timer is not armed. */
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
 * Returns the longest sleep for poll(), in ms rounded up; -1 means forever. An event can come up
 * to a tick after its deadline. So if the deadline has passed but there is no event yet, the loop
 * sleeps for 1 ms: with 0, it would ask again and again until the tick ends.
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

/* Handles a timer that has expired, and may arm timers, as it does here. */
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

/* Reads until there are no more events. */
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

/* Finds the earliest deadline the slow way, to check twheel_next(). */
static uint64_t earliest(const struct timer *timers)
{
	uint64_t first = ~0ULL;
	unsigned int i;

	for (i = 0; i < TIMERS; i++)
		if (first > timers[i].deadline)
			first = timers[i].deadline;
	return first;
}

/* True if the loop does not sleep for too long. */
static bool is_right(const struct timer *timers, uint64_t now, int slept)
{
	uint64_t first = earliest(timers);

	/* Allow 2 ms, because the sleep is rounded up and an event can be a tick late. */
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
		/* Nothing is armed any more, and this loop has nothing else to wait for. */
		if (ms < 0)
			break;
		/* Stands for the outer loop, which would also wait for descriptors. */
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
