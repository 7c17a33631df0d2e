// SPDX-License-Identifier: GPL-2.0
/*
 * Timers expire never early, exactly once, in order, within their slack, and in batches. An
 * idle wheel sleeps.
 */
#include "twheel_test.h"

/* Cancels all timers, for another try on a machine that was too slow. */
static void start_over(struct __test_metadata *_metadata, int fd)
{
	struct twheel_event ev[64];

	ASSERT_GE(cancel_all(fd), 0);
	while (read(fd, ev, sizeof(ev)) > 0)
		;
	ASSERT_EQ(0, stats(_metadata, fd).allocated);
}

/* Arms @n timers for one instant, well ahead of time. Returns that instant. */
static __u64 arm_storm(struct __test_metadata *_metadata, int fd, unsigned int n)
{
	__u64 lead = n * 10 * NS_PER_US;

	for (;; lead *= 2) {
		__u64 instant = now(CLOCK_MONOTONIC) + lead;

		add_many(_metadata, fd, n, instant, TWHEEL_ABSTIME, 0, NULL);
		if (now(CLOCK_MONOTONIC) < instant - lead / 4)
			return instant;
		start_over(_metadata, fd);
	}
}

FIXTURE(clock) {
	int fd;
	int id;
	__u64 tick;
};

FIXTURE_VARIANT(clock) {
	int id;
	__u64 tick;
};

VARIANT(clock, monotonic, .id = CLOCK_MONOTONIC);
VARIANT(clock, monotonic_131us, .id = CLOCK_MONOTONIC, .tick = 1 << 17);
VARIANT(clock, boottime, .id = CLOCK_BOOTTIME);
VARIANT(clock, realtime, .id = CLOCK_REALTIME);
VARIANT(clock, tai, .id = CLOCK_TAI);

FIXTURE_SETUP(clock)
{
	struct twheel_setup s = {
		.clock_id = variant->id,
		.tick_ns = variant->tick,
		.flags = variant->id == CLOCK_REALTIME ? TWHEEL_SETUP_REALTIME : 0,
	};

	self->fd = open_wheel(_metadata, O_NONBLOCK);
	ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &s));
	ASSERT_EQ(variant->id, s.clock_id);
	self->id = variant->id;
	self->tick = s.tick_ns;
}

WHEEL_TEARDOWN(clock)

/*
 * G1, G2, G3, G4, G6: Thousands of timers with random delays are each read once, not before
 * the clock has reached the deadline, and in the order of the ticks.
 */
TEST_F(clock, random_delays)
{
	enum { N = 3000 };
	struct twheel_op *ops = calloc(N, sizeof(*ops));
	struct twheel_event *ev = calloc(64, sizeof(*ev));
	__u64 *deadlines = calloc(N, sizeof(*deadlines));
	__u64 seed = now(CLOCK_REALTIME), spread = 400 * NS_PER_MS;
	__u64 lead = 100 * NS_PER_MS, start, last = 0;
	unsigned int got = 0, i;
	int ret;

	TH_LOG("seed %llu", (unsigned long long)seed);
	/* The order is that of the ticks only if nothing was due while the timers were made. */
	for (;; lead *= 2) {
		start = now(self->id) + lead;
		for (i = 0; i < N; i++) {
			deadlines[i] = start + next_random(&seed) % spread;
			ops[i] = (struct twheel_op) {
				.timer.deadline_ns = deadlines[i],
				.timer.user_data = i,
				.timer.flags = TWHEEL_ABSTIME,
				.opcode = TWHEEL_OP_REGISTER,
			};
		}
		ASSERT_EQ(N, batch(self->fd, ops, N));
		if (now(self->id) < start)
			break;
		start_over(_metadata, self->fd);
	}
	while (got < N && (ret = take(self->fd, ev, 64, TIMEOUT_MS)) > 0) {
		__u64 after = now(self->id);

		for (i = 0; i < (unsigned int)ret; i++) {
			__u64 deadline, tick;

			ASSERT_LT(ev[i].user_data, N);
			deadline = deadlines[ev[i].user_data];
			/* The deadline becomes zero once it was read. */
			ASSERT_NE(0, deadline);
			deadlines[ev[i].user_data] = 0;
			EXPECT_EQ(deadline, ev[i].deadline_ns);
			EXPECT_GE(ev[i].expired_ns, deadline);
			EXPECT_LE(ev[i].expired_ns, after);
			EXPECT_LT(ev[i].expired_ns, deadline + TIMEOUT_MS * NS_PER_MS);
			EXPECT_EQ(1, ev[i].expirations);
			tick = (deadline + self->tick - 1) / self->tick;
			EXPECT_GE(tick, last);
			last = tick;
		}
		got += ret;
	}
	EXPECT_EQ(N, got);
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	free(deadlines);
	free(ev);
	free(ops);
}

/* A relative delay is counted from the call, on the wheel's clock. */
TEST_F(clock, relative_delay)
{
	struct twheel_timer t = { .deadline_ns = 7 * NS_PER_MS + 1 };
	__u64 before = now(self->id), after;
	struct twheel_event ev;

	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	after = now(self->id);
	EXPECT_GE(t.deadline_ns, before + 7 * NS_PER_MS + 1);
	EXPECT_LE(t.deadline_ns, after + 7 * NS_PER_MS + 1);
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_GE(now(self->id), t.deadline_ns);
	EXPECT_GE(ev.expired_ns, t.deadline_ns);
}

/* G1: No timer is early at the border of a tick: at its start, and one ns to either side. */
TEST_F(clock, tick_borders)
{
	__u64 border = (now(self->id) / self->tick + 40) * self->tick;
	struct twheel_event ev[3];
	unsigned int i;

	for (i = 0; i < 3; i++)
		add(_metadata, self->fd, border - 1 + i, TWHEEL_ABSTIME, i);
	EXPECT_EQ(3, collect(self->fd, ev, 3));
	for (i = 0; i < 3; i++)
		EXPECT_GE(ev[i].expired_ns, ev[i].deadline_ns);
	/* The third timer is in the next tick. */
	EXPECT_EQ(2, ev[2].user_data);
}

/*
 * Returns the minimum lateness, beyond the tick, of timers that run one after the other, each
 * @delay to twice that away. A slow machine is often late, but not always, so this stops at
 * the first lateness below @enough.
 */
static __u64 least_lateness(struct __test_metadata *_metadata, int fd, __u64 tick, __u64 delay,
			    __u64 enough)
{
	__u64 seed = 23, least = NEVER;
	unsigned int i;

	/* One of 64 lies on the border of the next level and does not cascade. */
	for (i = 0; i < 100 && (i < 8 || least >= enough); i++) {
		struct twheel_event ev;
		__u64 late;

		add(_metadata, fd, delay + next_random(&seed) % delay, 0, 0);
		ASSERT_EQ(1, take(fd, &ev, 1, TIMEOUT_MS));
		ASSERT_GE(ev.expired_ns, ev.deadline_ns);
		late = ev.expired_ns - ev.deadline_ns;
		/* The rest of the tick does not count as lateness. */
		late -= late < -ev.deadline_ns % tick ? late : -ev.deadline_ns % tick;
		least = late < least ? late : least;
	}
	return least;
}

/* G2: A timer is late by no more than its tick and what the machine adds. */
TEST_F_TIMEOUT(clock, lateness, 60)
{
	const __u64 enough = 2 * NS_PER_MS;

	/* The lowest level spans 8 ms at the smallest of the ticks, and 34 ms at the others. */
	EXPECT_LT(least_lateness(_metadata, self->fd, self->tick, 4 * NS_PER_MS, enough), enough);
	EXPECT_EQ(0, stats(_metadata, self->fd).cascaded);
	EXPECT_LT(least_lateness(_metadata, self->fd, self->tick, 40 * NS_PER_MS, enough), enough);
	EXPECT_GT(stats(_metadata, self->fd).cascaded, 0);
}

WHEEL_FIXTURE(expiry, O_NONBLOCK)

/*
 * Timers are read in the order in which they became due, even if a past deadline is armed
 * later.
 */
TEST_F(expiry, past_deadline_is_read_last)
{
	struct twheel_event ev[4];
	__u64 first;

	first = add(_metadata, self->fd, 5 * NS_PER_MS, 0, 1);
	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	sleep_ms(2);
	add(_metadata, self->fd, 1, TWHEEL_ABSTIME, 2);
	sleep_ms(2);
	add(_metadata, self->fd, 0, 0, 3);
	EXPECT_EQ(3, take(self->fd, ev, 4, 0));
	EXPECT_EQ(first, ev[0].id);
	EXPECT_EQ(2, ev[1].user_data);
	EXPECT_EQ(3, ev[2].user_data);
}

/* Returns how many expirations the histogram holds. */
static __u64 counted_late(struct __test_metadata *_metadata, int fd)
{
	struct twheel_stats s = stats(_metadata, fd);
	__u64 counted = 0;
	unsigned int i;

	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++)
		counted += s.lateness[i];
	return counted;
}

/* The maximum lateness, the sum and the histogram agree with the events. */
TEST_F(expiry, lateness)
{
	enum { N = 200 };
	__u64 worst = 0, sum = 0, histogram[TWHEEL_LATENESS_BUCKETS] = { 0 };
	struct twheel_event ev[N];
	struct twheel_stats s;
	__u64 seed = 5;
	unsigned int i;

	for (i = 0; i < N; i++)
		add(_metadata, self->fd, 100 * NS_PER_MS + next_random(&seed) % (50 * NS_PER_MS),
		    0, i);
	EXPECT_EQ(N, collect(self->fd, ev, N));
	for (i = 0; i < N; i++) {
		__u64 late = ev[i].expired_ns - ev[i].deadline_ns;

		worst = late > worst ? late : worst;
		sum += late;
		histogram[late ? 63 - __builtin_clzll(late) : 0]++;
	}
	s = stats(_metadata, self->fd);
	EXPECT_EQ(worst, s.worst_lateness_ns);
	EXPECT_EQ(sum, s.lateness_sum_ns);
	EXPECT_EQ(N, counted_late(_metadata, self->fd));
	EXPECT_EQ(0, memcmp(histogram, s.lateness, sizeof(histogram)));
}

/* A deadline that was already past when it was armed does not count as late. */
TEST_F(expiry, past_is_not_late)
{
	add(_metadata, self->fd, 1, TWHEEL_ABSTIME, 0);
	add(_metadata, self->fd, 0, 0, 0);
	add_many(_metadata, self->fd, 200, 5, TWHEEL_ABSTIME, 0, NULL);
	EXPECT_EQ(0, stats(_metadata, self->fd).worst_lateness_ns);
	EXPECT_EQ(0, stats(_metadata, self->fd).lateness_sum_ns);
	EXPECT_EQ(0, counted_late(_metadata, self->fd));
}

#define SLACK	(200 * NS_PER_MS)

/* Arms 400 timers within 150 ms and reads them all. Returns how many wake-ups that took. */
static __u64 wakeups_with_slack(struct __test_metadata *_metadata, int fd, __u64 slack)
{
	enum { N = 400 };
	__u64 before, seed = 99, base = now(CLOCK_MONOTONIC) + SOON;
	struct twheel_event ev[N];
	struct twheel_op ops[N];
	unsigned int i;

	before = stats(_metadata, fd).wakeups;
	for (i = 0; i < N; i++)
		ops[i] = (struct twheel_op) {
			.timer.deadline_ns = base + next_random(&seed) % (150 * NS_PER_MS),
			.timer.slack_ns = slack,
			.timer.flags = TWHEEL_ABSTIME,
			.opcode = TWHEEL_OP_REGISTER,
		};
	ASSERT_EQ(N, batch(fd, ops, N));
	EXPECT_EQ(N, collect(fd, ev, N));
	for (i = 0; i < N; i++) {
		EXPECT_GE(ev[i].expired_ns, ev[i].deadline_ns);
		EXPECT_LT(ev[i].expired_ns,
			  ev[i].deadline_ns + slack + DEFAULT_TICK + TIMEOUT_MS * NS_PER_MS);
	}
	return stats(_metadata, fd).wakeups - before;
}

/* Slack saves wake-ups, makes no timer early, and saves moves down a level. */
TEST_F(expiry, slack)
{
	__u64 without, with, cascaded;
	unsigned int tries = 0;

	/*
	 * Try again if the host kept the machine waiting, which then found many timers due at
	 * each wake-up.
	 */
	do
		without = wakeups_with_slack(_metadata, self->fd, 0);
	while (without < 50 && ++tries < 10);
	cascaded = stats(_metadata, self->fd).cascaded;
	EXPECT_GT(cascaded, 0);
	with = wakeups_with_slack(_metadata, self->fd, SLACK);
	TH_LOG("%llu wake-ups without slack, %llu with", (unsigned long long)without,
	       (unsigned long long)with);
	EXPECT_LT(with * 2, without);
	EXPECT_EQ(cascaded, stats(_metadata, self->fd).cascaded);
}

/* G2: Slack is a bound: a timer waits for no longer than its slack and its tick. */
TEST_F(expiry, slack_is_a_bound)
{
	/* A bucket of the next level is 34 ms wide, and one of the level above 2 s. */
	struct twheel_timer t = { .deadline_ns = 10 * NS_PER_MS, .slack_ns = 34 * NS_PER_MS };
	struct twheel_event ev;
	__u64 best = NEVER;
	unsigned int i;

	/* The machine may be late, but not every time. */
	for (i = 0; i < 10 && best > t.slack_ns + DEFAULT_TICK + 20 * NS_PER_MS; i++) {
		t.deadline_ns = 10 * NS_PER_MS;
		t.flags = 0;
		EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
		EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
		EXPECT_GE(ev.expired_ns, ev.deadline_ns);
		if (ev.expired_ns - ev.deadline_ns < best)
			best = ev.expired_ns - ev.deadline_ns;
	}
	EXPECT_LE(best, t.slack_ns + DEFAULT_TICK + 20 * NS_PER_MS);
}

/*
 * Even unlimited slack does not delay a timer forever, because the coarsest level has borders
 * too.
 */
TEST_F(expiry, unlimited_slack)
{
	struct twheel_timer t = { .deadline_ns = NEVER - 5, .slack_ns = NEVER };

	t.flags = TWHEEL_ABSTIME;
	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	/* A timer that is already due does not wait for its slack. */
	t.deadline_ns = 1;
	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_EQ(TWHEEL_EXPIRED, t.state);
	EXPECT_TRUE(readable(self->fd, 0));
}

/*
 * G8: 100,000 timers at one instant expire in portions, and the timers of another wheel expire
 * in between.
 */
TEST_F_TIMEOUT(expiry, storm, 60)
{
	enum { STORM = 100000, BYSTANDERS = 300 };
	struct twheel_event *ev = calloc(4096, sizeof(*ev));
	unsigned char *seen = calloc(STORM, 1);
	unsigned int got = 0, others = 0, i;
	int other = open_wheel(_metadata, O_NONBLOCK);
	__u64 before, instant;
	struct pollfd p[2];

	instant = arm_storm(_metadata, self->fd, STORM);
	/* The other wheel's timers are due before, during and after the storm. */
	for (i = 0; i < BYSTANDERS; i++)
		add(_metadata, other, instant - 150 * NS_PER_MS + i * 3 * NS_PER_MS,
		    TWHEEL_ABSTIME, i);
	before = stats(_metadata, self->fd).wakeups;

	p[0] = (struct pollfd) { .fd = self->fd, .events = POLLIN };
	p[1] = (struct pollfd) { .fd = other, .events = POLLIN };
	while ((got < STORM || others < BYSTANDERS) &&
	       poll_again(p, 2, TIMEOUT_MS) > 0) {
		int ret;

		ret = p[1].revents ? take(other, ev, 64, 0) : 0;
		ASSERT_GE(ret, 0);
		for (i = 0; i < (unsigned int)ret; i++) {
			/* Exactly once and in order. */
			EXPECT_EQ(others + i, ev[i].user_data);
			EXPECT_GE(ev[i].expired_ns, ev[i].deadline_ns);
			EXPECT_LT(ev[i].expired_ns, ev[i].deadline_ns + 5 * NS_PER_SEC);
		}
		others += ret;
		ret = p[0].revents ? take(self->fd, ev, 4096, 0) : 0;
		ASSERT_GE(ret, 0);
		for (i = 0; i < (unsigned int)ret; i++) {
			ASSERT_LT(ev[i].user_data, STORM);
			ASSERT_EQ(0, seen[ev[i].user_data]++);
			EXPECT_GE(ev[i].expired_ns, ev[i].deadline_ns);
		}
		got += ret;
	}
	EXPECT_EQ(STORM, got);
	EXPECT_EQ(BYSTANDERS, others);
	/* No portion has more than a thousand timers. */
	EXPECT_GT(stats(_metadata, self->fd).wakeups - before, STORM / 1000);
	close_wheel(_metadata, other);
	free(seen);
	free(ev);
}

/* G6: In a storm with thousands of timers in each of a few ticks, each portion keeps the order. */
TEST_F(expiry, storm_in_order)
{
	enum { TICKS = 8, EACH = 1000, N = TICKS * EACH };
	/* The first deadline comes after all are armed. */
	__u64 base = now(CLOCK_MONOTONIC) + slowness() * 500 * NS_PER_MS, last = 0;
	struct twheel_event *ev = calloc(N, sizeof(*ev));
	unsigned int i;

	/* Arm the latest first. */
	for (i = TICKS; i-- > 0;)
		add_many(_metadata, self->fd, EACH, base + i * DEFAULT_TICK, TWHEEL_ABSTIME, 0,
			 NULL);
	ASSERT_LT(now(CLOCK_MONOTONIC), base);
	EXPECT_EQ(N, collect(self->fd, ev, N));
	for (i = 0; i < N; i++) {
		EXPECT_GE(ev[i].deadline_ns, last);
		last = ev[i].deadline_ns;
	}
	free(ev);
}

/* A timer that is armed while a storm is being processed waits its turn, and expires. */
TEST_F_TIMEOUT(expiry, arm_during_storm, 60)
{
	enum { STORM = 30000 };
	struct twheel_event *ev = calloc(4096, sizeof(*ev));
	__u64 instant = arm_storm(_metadata, self->fd, STORM);
	__u64 before = counted_late(_metadata, self->fd);
	unsigned int got = 0, i;
	bool late = false;
	int ret;

	/* Wait until the storm's tick is over. */
	while (now(CLOCK_MONOTONIC) < instant + 2 * DEFAULT_TICK)
		;
	add(_metadata, self->fd, 0, 0, STORM);
	while (got <= STORM && (ret = take(self->fd, ev, 4096, TIMEOUT_MS)) > 0) {
		for (i = 0; i < (unsigned int)ret; i++) {
			/* The whole storm was due before it. */
			late |= ev[i].user_data == STORM;
			EXPECT_EQ(got + i == STORM, ev[i].user_data == STORM);
		}
		got += ret;
	}
	EXPECT_EQ(STORM + 1, got);
	EXPECT_TRUE(late);
	/* The timer had to wait, but its deadline was past when it was armed. */
	EXPECT_EQ(STORM, counted_late(_metadata, self->fd) - before);
	free(ev);
}

/* G8: A call that arms a timer which is already due processes a part of a storm, not all of it. */
TEST_F_TIMEOUT(expiry, arm_is_bounded, 120)
{
	enum { STORM = 30000, TRIES = 100 };
	struct twheel_stats before, after;
	struct twheel_timer t;
	unsigned int i;

	/*
	 * The worker may finish the storm first, but not every time. It usually does if
	 * processors take turns of milliseconds.
	 */
	for (i = 0; i < TRIES; i++) {
		__u64 instant = arm_storm(_metadata, self->fd, STORM);

		/* Wait until the storm's tick is over. */
		while (now(CLOCK_MONOTONIC) < instant + 2 * DEFAULT_TICK)
			;
		t = (struct twheel_timer) { 0 };
		before = stats(_metadata, self->fd);
		ASSERT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
		after = stats(_metadata, self->fd);
		if (t.state == TWHEEL_ARMED && after.expired - before.expired < STORM / 4)
			break;
		start_over(_metadata, self->fd);
	}
	EXPECT_LT(i, TRIES)
		TH_LOG("%llu of %llu expired", (unsigned long long)(after.expired - before.expired),
		       (unsigned long long)before.armed);
}

/* The hierarchy, and a hashed wheel, which turns many times within an hour. */
static const struct twheel_setup idle_shapes[] = {
	{ .levels = 0 },
	{ .levels = 1, .slot_bits = 9 },
};

FIXTURE(idle) {
	int fd[ARRAY_SIZE(idle_shapes)];
};

FIXTURE_SETUP(idle)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(idle_shapes); i++) {
		struct twheel_setup s = idle_shapes[i];

		self->fd[i] = open_wheel(_metadata, O_NONBLOCK);
		ASSERT_EQ(0, call(self->fd[i], TWHEEL_IOC_SETUP, &s));
	}
}

FIXTURE_TEARDOWN(idle)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(idle_shapes); i++)
		close_wheel(_metadata, self->fd[i]);
}

/* G7: 100,000 timers that are an hour away cause no wake-up. */
TEST_F(idle, no_wakeups)
{
	struct twheel_stats before[ARRAY_SIZE(idle_shapes)], after;
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(idle_shapes); i++) {
		for (k = 0; k < 10; k++)
			add_many(_metadata, self->fd[i], 10000, HOUR + k * 12345678, 0, 0, NULL);
		before[i] = stats(_metadata, self->fd[i]);
		EXPECT_EQ(100000, before[i].armed);
	}
	sleep_ms(3000);
	for (i = 0; i < ARRAY_SIZE(idle_shapes); i++) {
		after = stats(_metadata, self->fd[i]);
		EXPECT_EQ(before[i].wakeups, after.wakeups);
		EXPECT_EQ(before[i].cascaded, after.cascaded);
		EXPECT_EQ(100000, after.armed);
	}
}

/* A canceled timer costs at most the wake-up that was programmed for it. */
TEST_F(idle, wakeups_after_cancel)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(idle_shapes); i++) {
		__u64 id = add(_metadata, self->fd[i], 20 * NS_PER_MS, 0, 0);

		EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd[i], id));
	}
	sleep_ms(300);
	for (i = 0; i < ARRAY_SIZE(idle_shapes); i++)
		EXPECT_LE(stats(_metadata, self->fd[i]).wakeups, 1);
}

/* One timer costs one wake-up for its tick, and one for each level that it moves down. */
TEST_F(idle, wakeups_of_one_timer)
{
	struct twheel_event ev;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(idle_shapes); i++)
		add(_metadata, self->fd[i], 400 * NS_PER_MS, 0, 0);
	for (i = 0; i < ARRAY_SIZE(idle_shapes); i++) {
		EXPECT_EQ(1, take(self->fd[i], &ev, 1, TIMEOUT_MS));
		EXPECT_GE(stats(_metadata, self->fd[i]).wakeups, 1);
		EXPECT_LE(stats(_metadata, self->fd[i]).wakeups, 4);
	}
}

TEST_HARNESS_MAIN
