// SPDX-License-Identifier: GPL-2.0
/* The timers of the daemon, by libtwheel. See wheel.h. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>

#include <libtwheel.h>

#include "ground/wheel.h"

/* Events that are read at once. */
#define EVENTS		128
/* Turns of reading after which the loop looks at its other descriptors. */
#define TURNS		64

/**
 * struct wheel - the wheel
 * @tw: of libtwheel
 * @event: what was read last
 * @at: the one whose function runs
 * @count: how many there are
 */
struct wheel {
	struct twheel *tw;
	struct twheel_event event[EVENTS];
	unsigned int at;
	unsigned int count;
};

int wheel_open(struct wheel **wheel, uint64_t tick_ns, unsigned int max_timers)
{
	struct twheel_options options = {
		.size = sizeof(options),
		.tick_ns = tick_ns,
		.slack_ns = 1,
		.clock_id = CLOCK_BOOTTIME,
		.max_timers = max_timers,
	};
	struct wheel *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return -ENOMEM;
	ret = twheel_open(&w->tw, &options);
	if (ret < 0) {
		free(w);
		return ret;
	}
	*wheel = w;
	return 0;
}

void wheel_close(struct wheel *w)
{
	if (!w)
		return;
	twheel_close(w->tw);
	free(w);
}

int wheel_fd(const struct wheel *w)
{
	return twheel_fd(w->tw);
}

uint64_t wheel_now(const struct wheel *w)
{
	return twheel_now(w->tw);
}

int wheel_sleep_ms(const struct wheel *w)
{
	uint64_t next = twheel_next(w->tw), now = twheel_now(w->tw), ms;

	if (next == ~0ULL)
		return -1;
	ms = next > now ? (next - now) / NSEC_PER_MSEC + 1 : 1;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

const char *wheel_backend(const struct wheel *w)
{
	return twheel_backend(w->tw);
}

/* An event that was read, but whose function has not run, is withdrawn here. */
static void withdraw(struct wheel *w, const struct timer *t)
{
	for (unsigned int i = w->at; i < w->count; i++) {
		if (w->event[i].user_data == (uintptr_t)t)
			w->event[i].user_data = 0;
	}
}

int wheel_prepare(struct wheel *w, struct timer *t)
{
	int ret;

	if (t->made)
		return 0;
	ret = twheel_add(w->tw, ~0ULL, (uintptr_t)t, &t->id);
	if (!ret)
		t->made = true;
	return ret;
}

int wheel_arm(struct wheel *w, struct timer *t, uint64_t deadline)
{
	int ret;

	if (!t->made) {
		ret = twheel_add(w->tw, deadline, (uintptr_t)t, &t->id);
		if (ret)
			return ret;
		t->made = true;
	} else if (!twheel_set(w->tw, t->id, deadline) && t->armed) {
		withdraw(w, t);
	}
	t->deadline = deadline;
	t->armed = true;
	return 0;
}

int wheel_arm_before(struct wheel *w, struct timer *t, uint64_t deadline)
{
	if (t->armed && t->deadline <= deadline)
		return 0;
	return wheel_arm(w, t, deadline);
}

void wheel_clear(struct wheel *w, struct timer *t)
{
	if (!t->armed)
		return;
	if (!twheel_clear(w->tw, t->id))
		withdraw(w, t);
	t->armed = false;
}

bool wheel_disarm(struct wheel *w, struct timer *t)
{
	bool was = t->armed;

	if (!t->made)
		return false;
	if (!twheel_del(w->tw, t->id) && was)
		withdraw(w, t);
	t->made = false;
	t->armed = false;
	return was;
}

unsigned int wheel_run(struct wheel *w)
{
	unsigned int total = 0;

	for (unsigned int turn = 0; turn < TURNS; turn++) {
		int n = twheel_read(w->tw, w->event, EVENTS);
		uint64_t now;

		if (n <= 0)
			break;
		w->count = n;
		now = twheel_now(w->tw);
		for (w->at = 0; w->at < w->count; w->at++) {
			struct timer *t = (void *)(uintptr_t)w->event[w->at].user_data;

			if (!t || !t->armed)
				continue;
			t->armed = false;
			t->fn(t, now);
		}
		total += n;
		w->count = 0;
		if (n < EVENTS)
			break;
	}
	return total;
}
