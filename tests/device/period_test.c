// SPDX-License-Identifier: GPL-2.0
/*
 * Periodic timers: they expire at a fixed rate, and a late reader gets one event with a count.
 */
#include "twheel_test.h"

#define PERIOD	(5 * NS_PER_MS)

WHEEL_FIXTURE(period, O_NONBLOCK)

/* Fixed rate: each event is for exactly deadline + k * period, and no period is left out. */
TEST_F(period, fixed_rate)
{
	__u64 deadline = now(CLOCK_MONOTONIC) + 20 * NS_PER_MS + 777;
	__u64 id = add_periodic(_metadata, self->fd, deadline, PERIOD, TWHEEL_ABSTIME);
	__u64 due = deadline;
	unsigned int i;
	int last;

	for (i = 0; i < 60; i++) {
		struct twheel_event ev;

		ASSERT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
		EXPECT_EQ(id, ev.id);
		EXPECT_EQ(due, ev.deadline_ns);
		EXPECT_GE(ev.expirations, 1);
		due += ev.expirations * PERIOD;
		/* The periods that were counted are over, and none was counted twice. */
		EXPECT_LE(due - PERIOD, now(CLOCK_MONOTONIC));
	}
	/* The timer is armed for the next period, unless that has come meanwhile. */
	last = state(self->fd, id);
	EXPECT_TRUE(last == TWHEEL_ARMED ||
		    (last == TWHEEL_EXPIRED && now(CLOCK_MONOTONIC) >= due));
}

/* A late reader gets one event with a count, and the next event is on the grid. */
TEST_F(period, late_reader)
{
	__u64 deadline = now(CLOCK_MONOTONIC) + PERIOD;
	struct twheel_event ev[4];
	__u64 before, after, next, id;

	id = add_periodic(_metadata, self->fd, deadline, PERIOD, TWHEEL_ABSTIME);
	sleep_ms(200);
	EXPECT_EQ(1, stats(_metadata, self->fd).unread);
	EXPECT_EQ(TWHEEL_EXPIRED, state(self->fd, id));
	before = now(CLOCK_MONOTONIC);
	EXPECT_EQ(1, take(self->fd, ev, 1, TIMEOUT_MS));
	after = now(CLOCK_MONOTONIC);
	EXPECT_EQ(deadline, ev[0].deadline_ns);
	EXPECT_GE(ev[0].expirations, (before - deadline) / PERIOD + 1);
	EXPECT_LE(ev[0].expirations, (after - deadline) / PERIOD + 1);
	next = deadline + ev[0].expirations * PERIOD;
	EXPECT_EQ(next, next_event(_metadata, self->fd, TIMEOUT_MS).deadline_ns);
}

/* An unread periodic timer causes no further wake-ups. */
TEST_F(period, unread_is_idle)
{
	__u64 before;

	add_periodic(_metadata, self->fd, NS_PER_MS, NS_PER_MS, 0);
	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	sleep_ms(20);
	before = stats(_metadata, self->fd).wakeups;
	sleep_ms(300);
	EXPECT_EQ(before, stats(_metadata, self->fd).wakeups);
	EXPECT_EQ(1, stats(_metadata, self->fd).unread);
}

/*
 * A timer that is more than 2^40 periods behind delivers one event, at once and with the exact
 * count.
 */
TEST_F(period, enormous_overrun)
{
	struct twheel_setup s = { .flags = TWHEEL_SETUP_REALTIME };
	__u64 period = 1 << 20, before, after, start;
	struct twheel_event ev;

	ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &s));
	before = now(CLOCK_REALTIME);
	if (before >> 60 == 0)
		SKIP(return, "the clock shows a time before 2006");
	add_periodic(_metadata, self->fd, 1, period, TWHEEL_ABSTIME);
	start = now(CLOCK_MONOTONIC);
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_LT(now(CLOCK_MONOTONIC) - start, 5 * NS_PER_SEC);
	after = now(CLOCK_REALTIME);
	EXPECT_EQ(1, ev.deadline_ns);
	EXPECT_GT(ev.expirations, 1ULL << 40);
	EXPECT_GE(ev.expirations, (before - 1) / period + 1);
	EXPECT_LE(ev.expirations, (after - 1) / period + 1);
	before = 1 + ev.expirations * period;
	EXPECT_EQ(before, next_event(_metadata, self->fd, TIMEOUT_MS).deadline_ns);
}

/* The shortest possible period is one tick. */
TEST_F(period, one_tick)
{
	__u64 deadline = now(CLOCK_MONOTONIC) + NS_PER_MS, due = deadline;
	struct twheel_timer t = { .period_ns = DEFAULT_TICK - 1 };
	unsigned int i;

	EXPECT_EQ(-EINVAL, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	add_periodic(_metadata, self->fd, deadline, DEFAULT_TICK, TWHEEL_ABSTIME);
	for (i = 0; i < 100; i++) {
		struct twheel_event ev;

		ASSERT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
		EXPECT_EQ(due, ev.deadline_ns);
		due += ev.expirations * DEFAULT_TICK;
	}
}

/* If the period leads past the end of time, the timer expires only once. */
TEST_F(period, beyond_end_of_time)
{
	static const __u64 periods[] = { NEVER, NEVER - 1, 1ULL << 63 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		__u64 id = add_periodic(_metadata, self->fd, NS_PER_MS, periods[i], 0);

		EXPECT_EQ(1, next_event(_metadata, self->fd, TIMEOUT_MS).expirations);
		EXPECT_FALSE(readable(self->fd, QUIET_MS));
		EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, id));
	}
}

/* GET reports the period and the next deadline. */
TEST_F(period, get)
{
	__u64 deadline = now(CLOCK_MONOTONIC) + NS_PER_MS;
	__u64 id = add_periodic(_metadata, self->fd, deadline, HOUR, TWHEEL_ABSTIME);
	struct twheel_event ev;
	struct twheel_timer t;

	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(0, get_timer(self->fd, id, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_EQ(HOUR, t.period_ns);
	EXPECT_EQ(deadline + HOUR, t.deadline_ns);
}

/* REARM can add a period to a timer. */
TEST_F(period, rearm_turns_on)
{
	__u64 id = add(_metadata, self->fd, HOUR, 0, 6);
	struct twheel_timer t = { .id = id, .deadline_ns = NS_PER_MS, .period_ns = PERIOD };
	struct twheel_event ev;
	unsigned int i;

	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REARM, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
		EXPECT_EQ(id, ev.id);
		EXPECT_EQ(6, ev.user_data);
	}
	/* Armed, or due again and not yet read. */
	EXPECT_GE(cancel(self->fd, id), (int)TWHEEL_ARMED);
	EXPECT_EQ(-ENOENT, state(self->fd, id));
}

/* REARM without a period ends the repetition: one more event comes, and then the id is gone. */
TEST_F(period, rearm_turns_off)
{
	__u64 id = add_periodic(_metadata, self->fd, NS_PER_MS, PERIOD, 0);
	struct twheel_event ev;

	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_GE(rearm(self->fd, id, NS_PER_MS, 0), 0);
	EXPECT_EQ(1, next_event(_metadata, self->fd, TIMEOUT_MS).expirations);
	EXPECT_EQ(-ENOENT, state(self->fd, id));
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
}

/* REARM of an unread periodic timer withdraws all of its periods. */
TEST_F(period, rearm_withdraws)
{
	__u64 id = add_periodic(_metadata, self->fd, NS_PER_MS, PERIOD, 0);

	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	EXPECT_EQ(TWHEEL_EXPIRED, rearm(self->fd, id, HOUR, 0));
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, id));
}

/* REARM with DISARMED stops a periodic timer. */
TEST_F(period, disarm)
{
	__u64 id = add_periodic(_metadata, self->fd, PERIOD, PERIOD, 0);
	struct twheel_event ev;

	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_GE(rearm(self->fd, id, 0, TWHEEL_DISARMED), 0);
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, id));
}

/* CANCEL of an unread periodic timer withdraws its event, and no other event comes. */
TEST_F(period, cancel_unread)
{
	__u64 id = add_periodic(_metadata, self->fd, NS_PER_MS, PERIOD, 0);

	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	EXPECT_EQ(TWHEEL_EXPIRED, cancel(self->fd, id));
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	EXPECT_EQ(-ENOENT, cancel(self->fd, id));
	EXPECT_EQ(1, stats(_metadata, self->fd).withdrawn);
}

/* CANCEL between two periods finds the timer armed. */
TEST_F(period, cancel_armed)
{
	__u64 id = add_periodic(_metadata, self->fd, NS_PER_MS, HOUR, 0);
	struct twheel_event ev;

	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, id));
	EXPECT_EQ(0, stats(_metadata, self->fd).allocated);
}

/* A periodic timer with slack keeps its grid. */
TEST_F(period, slack)
{
	struct twheel_timer t = {
		.deadline_ns = now(CLOCK_MONOTONIC) + NS_PER_MS,
		.period_ns = PERIOD,
		.slack_ns = 40 * NS_PER_MS,
		.flags = TWHEEL_ABSTIME,
	};
	__u64 due = t.deadline_ns;
	unsigned int i;

	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	for (i = 0; i < 10; i++) {
		struct twheel_event ev;

		ASSERT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
		EXPECT_EQ(due, ev.deadline_ns);
		due += ev.expirations * PERIOD;
	}
}

TEST_HARNESS_MAIN
