// SPDX-License-Identifier: GPL-2.0
/* The alarms of the daemon, which libtwheel keeps. See alarm.h. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>

#include <libtwheel.h>

#include "ground/alarm.h"

/* Maximum number of events per read. */
#define EVENTS		128
/* Maximum number of reads before the loop looks at its other descriptors. */
#define TURNS		64

/**
 * struct alarms - all alarms of the daemon
 * @tw: of libtwheel
 * @event: what was read last
 * @at: the one whose function runs
 * @count: how many there are
 */
struct alarms {
	struct twheel *tw;
	struct twheel_event event[EVENTS];
	unsigned int at;
	unsigned int count;
};

int alarms_open(struct alarms **out, uint64_t tick_ns)
{
	struct twheel_options options = {
		.size = sizeof(options),
		.tick_ns = tick_ns,
		.slack_ns = 1,
		.clock_id = CLOCK_BOOTTIME,
	};
	struct alarms *alarms = calloc(1, sizeof(*alarms));
	int ret;

	if (!alarms)
		return -ENOMEM;
	ret = twheel_open(&alarms->tw, &options);
	if (ret < 0) {
		free(alarms);
		return ret;
	}
	*out = alarms;
	return 0;
}

void alarms_close(struct alarms *alarms)
{
	if (!alarms)
		return;
	twheel_close(alarms->tw);
	free(alarms);
}

int alarms_fd(const struct alarms *alarms)
{
	return twheel_fd(alarms->tw);
}

uint64_t alarms_now(const struct alarms *alarms)
{
	return twheel_now(alarms->tw);
}

int alarms_sleep_ms(const struct alarms *alarms)
{
	uint64_t next = twheel_next(alarms->tw), now = twheel_now(alarms->tw), ms;

	if (next == ~0ULL)
		return -1;
	ms = next > now ? (next - now) / NSEC_PER_MSEC + 1 : 1;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

const char *alarms_backend(const struct alarms *alarms)
{
	return twheel_backend(alarms->tw);
}

/* Withdraws the event if it was read but its function has not run. */
static void withdraw(struct alarms *alarms, const struct alarm *a)
{
	for (unsigned int i = alarms->at; i < alarms->count; i++) {
		if (alarms->event[i].user_data == (uintptr_t)a)
			alarms->event[i].user_data = 0;
	}
}

int alarm_prepare(struct alarms *alarms, struct alarm *a)
{
	int ret;

	if (a->made)
		return 0;
	ret = twheel_add(alarms->tw, ~0ULL, (uintptr_t)a, &a->id);
	if (!ret)
		a->made = true;
	return ret;
}

int alarm_arm(struct alarms *alarms, struct alarm *a, uint64_t deadline)
{
	int ret;

	if (!a->made) {
		ret = twheel_add(alarms->tw, deadline, (uintptr_t)a, &a->id);
		if (ret)
			return ret;
		a->made = true;
	} else if (!twheel_set(alarms->tw, a->id, deadline) && a->armed) {
		withdraw(alarms, a);
	}
	a->deadline = deadline;
	a->armed = true;
	return 0;
}

int alarm_arm_before(struct alarms *alarms, struct alarm *a, uint64_t deadline)
{
	if (a->armed && a->deadline <= deadline)
		return 0;
	return alarm_arm(alarms, a, deadline);
}

void alarm_clear(struct alarms *alarms, struct alarm *a)
{
	if (!a->armed)
		return;
	if (!twheel_clear(alarms->tw, a->id))
		withdraw(alarms, a);
	a->armed = false;
}

bool alarm_disarm(struct alarms *alarms, struct alarm *a)
{
	bool was = a->armed;

	if (!a->made)
		return false;
	if (!twheel_del(alarms->tw, a->id) && was)
		withdraw(alarms, a);
	a->made = false;
	a->armed = false;
	return was;
}

unsigned int alarms_run(struct alarms *alarms)
{
	unsigned int total = 0;

	for (unsigned int turn = 0; turn < TURNS; turn++) {
		int n = twheel_read(alarms->tw, alarms->event, EVENTS);
		uint64_t now;

		if (n <= 0)
			break;
		alarms->count = n;
		now = twheel_now(alarms->tw);
		for (alarms->at = 0; alarms->at < alarms->count; alarms->at++) {
			struct alarm *a = (void *)(uintptr_t)alarms->event[alarms->at].user_data;

			if (!a || !a->armed)
				continue;
			a->armed = false;
			a->fn(a, now);
		}
		total += n;
		alarms->count = 0;
		if (n < EVENTS)
			break;
	}
	return total;
}
