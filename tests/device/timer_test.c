// SPDX-License-Identifier: GPL-2.0
/*
 * REGISTER, REARM, CANCEL and GET: flags, states and ids.
 */
#include "twheel_test.h"

WHEEL_FIXTURE(timer, O_NONBLOCK)

/*
 * REGISTER arms a timer: it returns the id and the absolute deadline, and later the event
 * comes.
 */
TEST_F(timer, register_relative)
{
	struct twheel_timer t = {
		.user_data = 0x0123456789abcdef,
		.deadline_ns = 30 * NS_PER_MS,
		.slack_ns = 0,
	};
	struct twheel_event ev;
	__u64 before, after;

	before = now(CLOCK_MONOTONIC);
	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	after = now(CLOCK_MONOTONIC);
	EXPECT_NE(0, t.id >> 32);
	EXPECT_GE(t.deadline_ns, before + 30 * NS_PER_MS);
	EXPECT_LE(t.deadline_ns, after + 30 * NS_PER_MS);
	EXPECT_EQ(0x0123456789abcdef, t.user_data);
	EXPECT_EQ(0, t.period_ns);
	EXPECT_EQ(TWHEEL_ARMED, t.state);

	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	after = now(CLOCK_MONOTONIC);
	EXPECT_EQ(t.id, ev.id);
	EXPECT_EQ(0x0123456789abcdef, ev.user_data);
	EXPECT_EQ(t.deadline_ns, ev.deadline_ns);
	EXPECT_LE(ev.expired_ns, after);
	EXPECT_EQ(1, ev.expirations);
	EXPECT_FALSE(readable(self->fd, 0));
}

/* With ABSTIME the deadline is used as it is. */
TEST_F(timer, register_absolute)
{
	__u64 deadline = now(CLOCK_MONOTONIC) + SOON + 12345;
	struct twheel_timer t = { .deadline_ns = deadline, .flags = TWHEEL_ABSTIME };

	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_EQ(deadline, t.deadline_ns);
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_EQ(deadline, next_event(_metadata, self->fd, TIMEOUT_MS).deadline_ns);
}

/*
 * A timer that is already due expires at once: a deadline in the past, a delay of 0, or an
 * absolute 0, which counts as 1.
 */
TEST_F(timer, due_at_once)
{
	__u64 before = now(CLOCK_MONOTONIC);
	const struct {
		__u64 deadline, kept;
		__u32 flags;
	} rows[] = {
		{ before - NS_PER_SEC, before - NS_PER_SEC, TWHEEL_ABSTIME },
		{ 0, 0, 0 },
		{ 0, 1, TWHEEL_ABSTIME },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct twheel_timer t = {
			.user_data = i, .deadline_ns = rows[i].deadline, .flags = rows[i].flags,
		};

		EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
		EXPECT_EQ(TWHEEL_EXPIRED, t.state);
		EXPECT_TRUE(rows[i].kept ? t.deadline_ns == rows[i].kept :
					   t.deadline_ns >= before);
		expect_event(_metadata, self->fd, t.id, t.deadline_ns);
	}
}

/* A delay that leads past the end of time means never. */
TEST_F(timer, saturating_delay)
{
	static const __u64 delays[] = { NEVER, NEVER - 1, NEVER - 1000 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(delays); i++) {
		struct twheel_timer t = { .deadline_ns = delays[i] };

		EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
		EXPECT_EQ(NEVER, t.deadline_ns);
		EXPECT_EQ(TWHEEL_ARMED, t.state);
		EXPECT_FALSE(readable(self->fd, QUIET_MS));
		EXPECT_EQ(0, get_timer(self->fd, t.id, &t));
		EXPECT_EQ(NEVER, t.deadline_ns);
		EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, t.id));
	}
}

/* The id of a one-shot timer ends with its event. */
TEST_F(timer, id_ends_with_event)
{
	__u64 id = add(_metadata, self->fd, 0, 0, 0);
	struct twheel_event ev;

	EXPECT_EQ(TWHEEL_EXPIRED, state(self->fd, id));
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(-ENOENT, state(self->fd, id));
	EXPECT_EQ(-ENOENT, cancel(self->fd, id));
	EXPECT_EQ(-ENOENT, rearm(self->fd, id, HOUR, 0));
	EXPECT_EQ(0, stats(_metadata, self->fd).allocated);
}

/* With KEEP the timer outlives its event, idle, and can be armed again. */
TEST_F(timer, keep)
{
	__u64 id = add(_metadata, self->fd, 0, TWHEEL_KEEP, 9);
	struct twheel_event ev;
	struct twheel_timer t;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
		EXPECT_EQ(id, ev.id);
		EXPECT_EQ(9, ev.user_data);
		t = expect_timer(_metadata, self->fd, id, TWHEEL_IDLE, 0);
		EXPECT_EQ(9, t.user_data);
		EXPECT_EQ(TWHEEL_KEEP, t.flags & TWHEEL_KEEP);
		EXPECT_FALSE(readable(self->fd, 0));
		EXPECT_EQ(TWHEEL_IDLE, rearm(self->fd, id, NS_PER_MS, TWHEEL_KEEP));
	}
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(TWHEEL_IDLE, cancel(self->fd, id));
	EXPECT_EQ(-ENOENT, state(self->fd, id));
}

/* Each REARM sets KEEP anew: without it, the next event is the last. */
TEST_F(timer, rearm_ends_keep)
{
	__u64 id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 0);
	struct twheel_event ev;

	EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, id, 0, 0));
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(-ENOENT, state(self->fd, id));

	id = add(_metadata, self->fd, HOUR, 0, 0);
	EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, id, 0, TWHEEL_KEEP));
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, id));
}

/* REGISTER with KEEP and DISARMED reserves a timer without a deadline, which does not expire. */
TEST_F(timer, register_disarmed)
{
	struct twheel_timer t = {
		.user_data = 8,
		.deadline_ns = 0,
		.flags = TWHEEL_KEEP | TWHEEL_DISARMED,
	};
	__u64 id;

	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	id = t.id;
	EXPECT_EQ(TWHEEL_IDLE, t.state);
	EXPECT_EQ(0, t.deadline_ns);
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	EXPECT_EQ(0, stats(_metadata, self->fd).armings);
	EXPECT_EQ(1, stats(_metadata, self->fd).allocated);
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, id));
	EXPECT_EQ(TWHEEL_IDLE, rearm(self->fd, id, NS_PER_MS, TWHEEL_KEEP));
	EXPECT_EQ(8, next_event(_metadata, self->fd, TIMEOUT_MS).user_data);
	EXPECT_EQ(TWHEEL_IDLE, cancel(self->fd, id));
}

/* REARM with DISARMED disarms a timer, which does not expire but still exists. */
TEST_F(timer, rearm_disarmed)
{
	static const __u32 keep[] = { TWHEEL_KEEP, 0 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(keep); i++) {
		__u64 id = add(_metadata, self->fd, SOON, keep[i], 0);
		struct twheel_event ev;

		EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, id, 0, keep[i] | TWHEEL_DISARMED));
		EXPECT_FALSE(readable(self->fd, 250));
		expect_timer(_metadata, self->fd, id, TWHEEL_IDLE, 0);
		EXPECT_EQ(TWHEEL_IDLE, rearm(self->fd, id, 0, keep[i] | TWHEEL_DISARMED));
		EXPECT_EQ(TWHEEL_IDLE, rearm(self->fd, id, 0, keep[i]));
		EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	}
}

/* REARM moves a deadline later or earlier, and the old one has no effect any more. */
TEST_F(timer, rearm_moves)
{
	__u64 id = add(_metadata, self->fd, SOON, 0, 77);
	__u64 deadline = now(CLOCK_MONOTONIC) + HOUR;
	struct twheel_event ev;
	struct twheel_timer t;

	t = (struct twheel_timer) {
		.id = id,
		.user_data = 1234,
		.deadline_ns = deadline,
		.flags = TWHEEL_ABSTIME,
	};
	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REARM, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_EQ(deadline, t.deadline_ns);
	EXPECT_FALSE(readable(self->fd, 250));

	/* user_data stays the same. */
	EXPECT_EQ(77, expect_timer(_metadata, self->fd, id, TWHEEL_ARMED, deadline).user_data);

	EXPECT_EQ(0, rearm_timer(self->fd, id, 20 * NS_PER_MS, 0, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(77, ev.user_data);
	EXPECT_EQ(t.deadline_ns, ev.deadline_ns);
}

/* REARM withdraws an expiration that was not read, and reports that. */
TEST_F(timer, rearm_withdraws)
{
	__u64 id = add(_metadata, self->fd, 0, 0, 5);
	struct twheel_event ev[2];
	struct twheel_stats s;
	struct twheel_timer t;

	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	EXPECT_EQ(0, rearm_timer(self->fd, id, SOON, 0, &t));
	EXPECT_EQ(TWHEEL_EXPIRED, t.state);
	EXPECT_FALSE(readable(self->fd, 0));
	s = stats(_metadata, self->fd);
	EXPECT_EQ(1, s.withdrawn);
	EXPECT_EQ(1, s.rearmed);
	EXPECT_EQ(0, s.unread);
	EXPECT_EQ(1, take(self->fd, ev, 2, TIMEOUT_MS));
	EXPECT_EQ(t.deadline_ns, ev[0].deadline_ns);
	EXPECT_EQ(5, ev[0].user_data);
}

/* REARM with DISARMED withdraws an unread expiration too. */
TEST_F(timer, rearm_disarmed_withdraws)
{
	__u64 id = add(_metadata, self->fd, 0, TWHEEL_KEEP, 0);

	EXPECT_EQ(TWHEEL_EXPIRED, rearm(self->fd, id, 0, TWHEEL_KEEP | TWHEEL_DISARMED));
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, id));
}

/* REARM into the past withdraws the old event and creates a new one. */
TEST_F(timer, rearm_expired_to_past)
{
	__u64 id = add(_metadata, self->fd, 0, 0, 0);
	struct twheel_event ev[2];

	EXPECT_EQ(TWHEEL_EXPIRED, rearm(self->fd, id, 7, TWHEEL_ABSTIME));
	EXPECT_EQ(1, take(self->fd, ev, 2, TIMEOUT_MS));
	EXPECT_EQ(7, ev[0].deadline_ns);
	EXPECT_EQ(-ENOENT, state(self->fd, id));
}

/* A REARM that is refused leaves the timer armed as it was, or its event unread. */
TEST_F(timer, rearm_refused)
{
	__u64 id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 0);
	struct twheel_timer bad = { .id = id, .period_ns = 1 };
	struct twheel_timer t, before;
	struct twheel_event ev;

	EXPECT_EQ(0, get_timer(self->fd, id, &before));
	EXPECT_EQ(-EINVAL, call(self->fd, TWHEEL_IOC_REARM, &bad));
	EXPECT_EQ(0, get_timer(self->fd, id, &t));
	EXPECT_EQ(0, memcmp(&before, &t, sizeof(t)));

	EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, id, 0, 0));
	EXPECT_EQ(-EINVAL, call(self->fd, TWHEEL_IOC_REARM, &bad));
	EXPECT_EQ(TWHEEL_EXPIRED, state(self->fd, id));
	EXPECT_EQ(1, take(self->fd, &ev, 1, 0));
}

/* CANCEL of an armed timer reports that it was armed, and no event comes. */
TEST_F(timer, cancel_armed)
{
	__u64 id = add(_metadata, self->fd, SOON, 0, 0);
	struct twheel_stats s;

	EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, id));
	EXPECT_FALSE(readable(self->fd, 250));
	EXPECT_EQ(-ENOENT, cancel(self->fd, id));
	s = stats(_metadata, self->fd);
	EXPECT_EQ(1, s.cancelled);
	EXPECT_EQ(1, s.displaced);
	EXPECT_EQ(0, s.allocated);
	EXPECT_EQ(0, s.expired);
}

/* CANCEL of an expired timer reports that it had expired, and withdraws the event. */
TEST_F(timer, cancel_expired)
{
	__u64 id = add(_metadata, self->fd, 0, 0, 0);
	struct twheel_stats s;

	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	EXPECT_EQ(TWHEEL_EXPIRED, cancel(self->fd, id));
	EXPECT_FALSE(readable(self->fd, 0));
	EXPECT_EQ(-ENOENT, cancel(self->fd, id));
	s = stats(_metadata, self->fd);
	EXPECT_EQ(1, s.withdrawn);
	EXPECT_EQ(0, s.displaced);
	EXPECT_EQ(0, s.unread);
}

/* CANCEL of one of several unread events withdraws only that one. */
TEST_F(timer, cancel_between_events)
{
	struct twheel_event ev[5];
	__u64 ids[5];
	unsigned int i;

	for (i = 0; i < 5; i++)
		ids[i] = add(_metadata, self->fd, 0, 0, i);
	EXPECT_EQ(TWHEEL_EXPIRED, cancel(self->fd, ids[0]));
	EXPECT_EQ(TWHEEL_EXPIRED, cancel(self->fd, ids[2]));
	EXPECT_EQ(TWHEEL_EXPIRED, cancel(self->fd, ids[4]));
	EXPECT_EQ(2, take(self->fd, ev, 5, 0));
	EXPECT_EQ(1, ev[0].user_data);
	EXPECT_EQ(3, ev[1].user_data);
}

/* CANCEL and GET ignore all known flags. */
TEST_F(timer, known_flags_do_not_matter)
{
	__u32 flags;

	for (flags = 0; flags < 8; flags++) {
		struct twheel_timer t = {
			.id = add(_metadata, self->fd, HOUR, 0, 0),
			.flags = flags,
		};

		EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_GET, &t));
		EXPECT_EQ(TWHEEL_ARMED, t.state);
		t.flags = flags;
		EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_CANCEL, &t));
		EXPECT_EQ(TWHEEL_ARMED, t.state);
	}
}

/* GET returns everything that REGISTER was given, and changes nothing. */
TEST_F(timer, get)
{
	__u64 deadline = now(CLOCK_MONOTONIC) + HOUR;
	struct twheel_timer t = {
		.user_data = ~5ULL,
		.deadline_ns = deadline,
		.period_ns = 12345678,
		.slack_ns = 87654321,
		.flags = TWHEEL_ABSTIME | TWHEEL_KEEP,
	};
	struct twheel_timer got, again;

	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_EQ(0, get_timer(self->fd, t.id, &got));
	EXPECT_EQ(t.id, got.id);
	EXPECT_EQ(~5ULL, got.user_data);
	EXPECT_EQ(deadline, got.deadline_ns);
	EXPECT_EQ(12345678, got.period_ns);
	EXPECT_EQ(87654321, got.slack_ns);
	EXPECT_EQ(TWHEEL_KEEP, got.flags & ~TWHEEL_ABSTIME);
	EXPECT_EQ(TWHEEL_ARMED, got.state);
	EXPECT_EQ(0, get_timer(self->fd, t.id, &again));
	EXPECT_EQ(0, memcmp(&got, &again, sizeof(got)));
}

/* GET of an expired timer returns its state and the deadline that it had. */
TEST_F(timer, get_expired)
{
	__u64 deadline = now(CLOCK_MONOTONIC) + 5 * NS_PER_MS;
	__u64 id = add(_metadata, self->fd, deadline, TWHEEL_ABSTIME, 4);

	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	EXPECT_EQ(4, expect_timer(_metadata, self->fd, id, TWHEEL_EXPIRED, deadline).user_data);
	/* The event is still unread. */
	EXPECT_TRUE(readable(self->fd, 0));
}

/*
 * The low half of an id is a slot below max_timers, and no two are equal; the high half is not
 * 0.
 */
TEST_F(timer, ids)
{
	enum { N = 5000 };
	__u64 *ids = calloc(N, sizeof(*ids));
	bool *slots = calloc(N, 1);
	unsigned int i;

	add_many(_metadata, self->fd, N, HOUR, 0, 0, ids);
	for (i = 0; i < N; i++) {
		__u32 slot = ids[i];

		EXPECT_NE(0, ids[i] >> 32);
		/* Slots are dense, because the table must be mapped up to the highest. */
		ASSERT_LT(slot, N + 64);
		if (slot < N) {
			EXPECT_FALSE(slots[slot]);
			slots[slot] = true;
		}
	}
	free(slots);
	free(ids);
}

static int compare_u64(const void *a, const void *b)
{
	__u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

/* Slots are reused, but ids are not: 100,000 ids in eight slots. */
TEST_F(timer, ids_are_not_reused)
{
	enum { N = 100000, SLOTS = 8, PER_CALL = 8000 };
	struct twheel_setup s = { .max_timers = SLOTS };
	struct twheel_op *ops = calloc(PER_CALL, sizeof(*ops));
	__u64 *ids = calloc(N, sizeof(*ids));
	__u64 live[SLOTS] = { 0 };
	unsigned int n = 0, i;

	ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &s));
	while (n < N) {
		/* Half a wheel at a time, so that the lifetimes of the ids overlap. */
		for (i = 0; i < SLOTS / 2; i++) {
			unsigned int k = (n + i) % SLOTS;

			ops[i] = (struct twheel_op) {
				.opcode = TWHEEL_OP_CANCEL,
				.timer.id = live[k],
			};
			ops[SLOTS / 2 + i] = (struct twheel_op) {
				.opcode = TWHEEL_OP_REGISTER,
				.timer.deadline_ns = HOUR,
			};
		}
		ASSERT_EQ(SLOTS, batch(self->fd, ops, SLOTS));
		for (i = 0; i < SLOTS / 2; i++) {
			ASSERT_EQ(n < SLOTS ? -ENOENT : 0, ops[i].result);
			ASSERT_EQ(0, ops[SLOTS / 2 + i].result);
			ids[n] = ops[SLOTS / 2 + i].timer.id;
			ASSERT_LT((__u32)ids[n], SLOTS);
			live[n % SLOTS] = ids[n];
			n++;
		}
	}
	/* None of the old ids names a timer. */
	for (n = 0; n + SLOTS < N; n += PER_CALL) {
		for (i = 0; i < PER_CALL; i++)
			ops[i] = (struct twheel_op) {
				.opcode = TWHEEL_OP_GET,
				.timer.id = ids[n + i < N - SLOTS ? n + i : 0],
			};
		ASSERT_EQ(PER_CALL, batch(self->fd, ops, PER_CALL));
		for (i = 0; i < PER_CALL; i++)
			ASSERT_EQ(-ENOENT, ops[i].result);
	}
	qsort(ids, N, sizeof(*ids), compare_u64);
	for (n = 1; n < N; n++)
		ASSERT_NE(ids[n - 1], ids[n]);
	free(ops);
	free(ids);
}

/* STATS counts everything that was done once. */
TEST_F(timer, counts)
{
	struct twheel_stats s;
	__u64 a, b, c;

	a = add(_metadata, self->fd, HOUR, 0, 0);
	b = add(_metadata, self->fd, 0, TWHEEL_KEEP, 0);
	c = add(_metadata, self->fd, 0, 0, 0);
	s = stats(_metadata, self->fd);
	EXPECT_EQ(1, s.armed);
	EXPECT_EQ(2, s.unread);
	EXPECT_EQ(3, s.allocated);
	EXPECT_EQ(3, s.registered);
	EXPECT_EQ(3, s.armings);
	EXPECT_EQ(2, s.expired);
	EXPECT_EQ(0, s.delivered);

	EXPECT_EQ(b, next_event(_metadata, self->fd, 0).id);
	EXPECT_EQ(TWHEEL_EXPIRED, rearm(self->fd, c, HOUR, 0));
	EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, a, 2 * HOUR, 0));
	EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, a));
	EXPECT_EQ(TWHEEL_IDLE, cancel(self->fd, b));
	s = stats(_metadata, self->fd);
	EXPECT_EQ(1, s.armed);
	EXPECT_EQ(0, s.unread);
	EXPECT_EQ(1, s.allocated);
	EXPECT_EQ(3, s.registered);
	EXPECT_EQ(2, s.rearmed);
	EXPECT_EQ(2, s.cancelled);
	EXPECT_EQ(2, s.expired);
	EXPECT_EQ(1, s.delivered);
	EXPECT_EQ(5, s.armings);
	EXPECT_EQ(2, s.displaced);
	EXPECT_EQ(1, s.withdrawn);
}

/* Two wheels do not affect each other. */
TEST_F(timer, wheels_are_separate)
{
	int other = open_wheel(_metadata, O_NONBLOCK);
	struct twheel_event ev;
	__u64 id;

	id = add(_metadata, self->fd, 0, TWHEEL_KEEP, 0);
	EXPECT_FALSE(readable(other, QUIET_MS));
	EXPECT_EQ(-ENOENT, state(other, id));
	EXPECT_EQ(-ENOENT, cancel(other, id));
	EXPECT_EQ(0, list_all(other));
	EXPECT_EQ(0, stats(_metadata, other).registered);
	EXPECT_EQ(1, take(self->fd, &ev, 1, 0));
	close(other);
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, id));
}

TEST_HARNESS_MAIN
