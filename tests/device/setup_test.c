// SPDX-License-Identifier: GPL-2.0
/*
 * SETUP and INFO: the shape of a wheel.
 */
#include "twheel_test.h"

#include <sched.h>

WHEEL_FIXTURE(setup, O_NONBLOCK)

static int shape(int fd, struct twheel_setup *s)
{
	return call(fd, TWHEEL_IOC_SETUP, s);
}

/* Expects INFO to report what SETUP returned. */
static void expect_info(struct __test_metadata *_metadata, int fd, const struct twheel_setup *s)
{
	struct twheel_info i = info(_metadata, fd);

	EXPECT_EQ(s->tick_ns, i.tick_ns);
	EXPECT_EQ(s->clock_id, i.clock_id);
	EXPECT_EQ(s->max_timers, i.max_timers);
	EXPECT_EQ(s->levels, i.levels);
	EXPECT_EQ(s->slot_bits, i.slot_bits);
}

/* Zero in a field selects the default, and SETUP returns the value that was chosen. */
TEST_F(setup, defaults)
{
	struct twheel_setup s = { 0 };

	EXPECT_EQ(0, shape(self->fd, &s));
	EXPECT_EQ(DEFAULT_TICK, s.tick_ns);
	EXPECT_EQ(CLOCK_MONOTONIC, s.clock_id);
	EXPECT_EQ(read_number(TWHEEL_PARAMS "max_timers"), s.max_timers);
	EXPECT_EQ(8, s.levels);
	EXPECT_EQ(6, s.slot_bits);
	EXPECT_EQ(0, s.flags);
	EXPECT_EQ(0, s.reserved[0] | s.reserved[1] | s.reserved[2]);
	expect_info(_metadata, self->fd, &s);
}

/* Without SETUP, INFO reports the shape that the first use would choose, and does choose. */
TEST_F(setup, info_before_and_after)
{
	struct twheel_info before = info(_metadata, self->fd);
	struct twheel_setup s = { 0 };

	EXPECT_EQ(DEFAULT_TICK, before.tick_ns);
	EXPECT_EQ(CLOCK_MONOTONIC, before.clock_id);
	EXPECT_EQ(NEVER, before.horizon_ns);
	EXPECT_EQ(read_number(TWHEEL_PARAMS "min_tick_ns"), before.min_tick_ns);
	EXPECT_EQ(0, shape(self->fd, &s));
	expect_info(_metadata, self->fd, &s);
	add(_metadata, self->fd, HOUR, 0, 0);
	expect_same_info(_metadata, self->fd, &before);
}

/* The tick is the largest power of two that does not exceed the requested tick. */
TEST_F(setup, tick_rounds_down)
{
	static const struct {
		__u64 asked, given;
	} rows[] = {
		{ 1000000, 1 << 19 },
		{ 1 << 19, 1 << 19 },
		{ (1 << 20) - 1, 1 << 19 },
		{ 1 << 20, 1 << 20 },
		{ (1 << 20) + 1, 1 << 20 },
		{ 10000000, 1 << 23 },
		{ NS_PER_SEC, 1 << 29 },
		{ 131072, 131072 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct twheel_setup s = { .tick_ns = rows[i].asked };

		EXPECT_EQ(0, shape(self->fd, &s));
		EXPECT_EQ(rows[i].given, s.tick_ns);
		expect_info(_metadata, self->fd, &s);
	}
}

/* SETUP accepts the shape that it returned, and does not change it. */
TEST_F(setup, returned_shape_is_stable)
{
	struct twheel_setup rows[] = {
		{ 0 },
		{ .tick_ns = 3000000, .slot_bits = 5, .levels = 16, .max_timers = 77 },
		{ .clock_id = CLOCK_BOOTTIME, .slot_bits = 12, .levels = 1 },
		{ .flags = TWHEEL_SETUP_REALTIME },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct twheel_setup again;

		EXPECT_EQ(0, shape(self->fd, &rows[i]));
		again = rows[i];
		EXPECT_EQ(0, shape(self->fd, &again));
		EXPECT_EQ(0, memcmp(&again, &rows[i], sizeof(again)));
	}
}

/* EPERM for a tick below min_tick_ns without CAP_SYS_RESOURCE; the wheel stays as it was. */
TEST_F(setup, small_tick_without_capability)
{
	struct twheel_info before = info(_metadata, self->fd);
	struct twheel_setup s;

	if (is_root())
		drop_capability(_metadata, CAP_SYS_RESOURCE);
	s = (struct twheel_setup) { .tick_ns = before.min_tick_ns - 1 };
	EXPECT_EQ(-EPERM, shape(self->fd, &s));
	s = (struct twheel_setup) { .tick_ns = 1 };
	EXPECT_EQ(-EPERM, shape(self->fd, &s));
	expect_same_info(_metadata, self->fd, &before);
	/* A tick of exactly min_tick_ns may be requested. */
	s = (struct twheel_setup) { .tick_ns = before.min_tick_ns };
	EXPECT_EQ(0, shape(self->fd, &s));
}

/* EPERM for the user nobody, too. */
TEST_F(setup, small_tick_as_nobody)
{
	__u64 floor = info(_metadata, self->fd).min_tick_ns;
	struct twheel_setup s = { .tick_ns = 1000 };

	be_nobody(_metadata);
	EXPECT_EQ(-EPERM, shape(self->fd, &s));
	s = (struct twheel_setup) { .tick_ns = floor - 1 };
	EXPECT_EQ(-EPERM, shape(self->fd, &s));
	/* min_tick_ns limits the requested tick. The tick that results may be below it. */
	s = (struct twheel_setup) { .tick_ns = floor };
	EXPECT_EQ(0, shape(self->fd, &s));
	EXPECT_EQ(1ULL << (63 - __builtin_clzll(floor)), s.tick_ns);
	s = (struct twheel_setup) { .tick_ns = 1 << 20 };
	EXPECT_EQ(0, shape(self->fd, &s));
}

/*
 * EPERM: the capability must be held in the initial user namespace, not in one that anybody
 * can create.
 */
TEST_F(setup, small_tick_in_user_namespace)
{
	struct twheel_setup s = { .tick_ns = 1000 };

	be_nobody(_metadata);
	if (unshare(CLONE_NEWUSER))
		SKIP(return, "NO USER NAMESPACES FOR NOBODY: not tested in one");
	EXPECT_EQ(-EPERM, shape(self->fd, &s));
}

/* With CAP_SYS_RESOURCE every tick is allowed, down to 1 ns, and works. */
TEST_F(setup, small_tick_with_capability)
{
	struct twheel_setup s = { .tick_ns = 1 };

	SKIP_UNLESS_ROOT();
	EXPECT_EQ(0, shape(self->fd, &s));
	EXPECT_EQ(1, s.tick_ns);
	expect_info(_metadata, self->fd, &s);
	add(_metadata, self->fd, 3 * NS_PER_MS, 0, 5);
	EXPECT_EQ(5, next_event(_metadata, self->fd, TIMEOUT_MS).user_data);
}

/*
 * G10: EINVAL for slot_bits outside 4 to 12, levels above 16, or more than 4,096 buckets in
 * all.
 */
TEST_F(setup, impossible_geometry)
{
	static const __u32 bits[] = { 1, 2, 3, 13, 16, 17, 32, 0x80000000, 0xffffffff };
	static const __u32 levels[] = { 17, 18, 64, 0xffffffff };
	struct twheel_info before = info(_metadata, self->fd);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bits); i++) {
		struct twheel_setup s = { .slot_bits = bits[i] };

		EXPECT_EQ(-EINVAL, shape(self->fd, &s));
	}
	for (i = 0; i < ARRAY_SIZE(levels); i++) {
		struct twheel_setup s = { .levels = levels[i] };

		EXPECT_EQ(-EINVAL, shape(self->fd, &s));
	}
	expect_same_info(_metadata, self->fd, &before);
}

/*
 * Each geometry in between is possible. levels = 0 selects as many levels as are needed and
 * fit.
 */
TEST_F(setup, possible_geometries)
{
	__u32 bits, levels;

	for (bits = 4; bits <= 12; bits++) {
		for (levels = 0; levels <= 16; levels++) {
			struct twheel_setup s = { .slot_bits = bits, .levels = levels };
			__u32 fit = 4096 >> bits;
			/* A deadline has 64 bits, of which the tick takes 19. */
			__u32 most = (64 - 19 + bits - 1) / bits;

			EXPECT_EQ(levels > fit ? -EINVAL : 0, shape(self->fd, &s));
			if (levels > fit)
				continue;
			EXPECT_EQ(bits, s.slot_bits);
			/* No more levels than a deadline can use. */
			most = most < fit ? most : fit;
			EXPECT_EQ(levels && levels < most ? levels : most, s.levels);
			expect_info(_metadata, self->fd, &s);
			if (19 + s.levels * bits < 64) {
				EXPECT_EQ(1ULL << (19 + s.levels * bits),
					  info(_metadata, self->fd).horizon_ns);
			} else {
				EXPECT_EQ(NEVER, info(_metadata, self->fd).horizon_ns);
			}
		}
	}
}

/* EINVAL for a clock that is none of the four. */
TEST_F(setup, unknown_clocks)
{
	static const __u32 clocks[] = {
		CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW,
		CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_REALTIME_ALARM,
		CLOCK_BOOTTIME_ALARM, 10, 12, 16, 0x7fffffff, 0x80000000, 0xffffffff,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(clocks); i++) {
		struct twheel_setup s = { .clock_id = clocks[i] };

		EXPECT_EQ(-EINVAL, shape(self->fd, &s))
			TH_LOG("clock %u", clocks[i]);
	}
	EXPECT_EQ(CLOCK_MONOTONIC, info(_metadata, self->fd).clock_id);
}

/* CLOCK_REALTIME is requested by its flag, which excludes any other clock. */
TEST_F(setup, realtime_flag)
{
	static const __u32 others[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI };
	struct twheel_setup s;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(others); i++) {
		s = (struct twheel_setup) {
			.clock_id = others[i],
			.flags = TWHEEL_SETUP_REALTIME,
		};
		EXPECT_EQ(-EINVAL, shape(self->fd, &s));
	}
	s = (struct twheel_setup) { .flags = TWHEEL_SETUP_REALTIME };
	EXPECT_EQ(0, shape(self->fd, &s));
	EXPECT_EQ(CLOCK_REALTIME, s.clock_id);
	EXPECT_EQ(TWHEEL_SETUP_REALTIME, s.flags);
	expect_info(_metadata, self->fd, &s);
}

/* SETUP may be called any number of times before the first timer; the last call counts. */
TEST_F(setup, twice)
{
	struct twheel_setup s = { .clock_id = CLOCK_TAI, .max_timers = 3 };

	EXPECT_EQ(0, shape(self->fd, &s));
	s = (struct twheel_setup) { .clock_id = CLOCK_BOOTTIME, .tick_ns = 1 << 21 };
	EXPECT_EQ(0, shape(self->fd, &s));
	EXPECT_EQ(CLOCK_BOOTTIME, s.clock_id);
	EXPECT_EQ(1 << 21, s.tick_ns);
	EXPECT_NE(3, s.max_timers);
	expect_info(_metadata, self->fd, &s);
	add_many(_metadata, self->fd, 10, HOUR, 0, 0, NULL);
}

/* EBUSY after the first timer, even after that is gone, and nothing changes. */
TEST_F(setup, busy_after_first_timer)
{
	struct twheel_setup s = { .tick_ns = 1 << 21, .max_timers = 5 };
	struct twheel_info before;
	__u64 id;

	id = add(_metadata, self->fd, HOUR, 0, 0);
	before = info(_metadata, self->fd);
	EXPECT_EQ(-EBUSY, shape(self->fd, &s));
	EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, id));
	EXPECT_EQ(-EBUSY, shape(self->fd, &s));
	expect_same_info(_metadata, self->fd, &before);
}

/* A timer that was refused does not count as the first timer. */
TEST_F(setup, not_busy_after_refusal)
{
	struct twheel_timer t = { .deadline_ns = HOUR, .flags = TWHEEL_DISARMED };
	struct twheel_setup s = { .max_timers = 5 };

	EXPECT_EQ(-EINVAL, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_EQ(-ENOENT, cancel(self->fd, 1ULL << 32));
	EXPECT_EQ(0, cancel_all(self->fd));
	EXPECT_EQ(0, shape(self->fd, &s));
}

/* G10: ENOSPC beyond max_timers: the existing timers are untouched, and a cancel makes room. */
TEST_F(setup, max_timers)
{
	static const __u32 limits[] = { 1, 2, 63, 64, 65, 200 };
	unsigned int l;

	for (l = 0; l < ARRAY_SIZE(limits); l++) {
		struct twheel_setup s = { .max_timers = limits[l] };
		struct twheel_timer t = { .deadline_ns = HOUR, .flags = TWHEEL_KEEP };
		int fd = open_wheel(_metadata, O_NONBLOCK);
		struct twheel_stats before;
		struct twheel_op ops[3];
		__u64 ids[200];
		unsigned int i;

		ASSERT_EQ(0, shape(fd, &s));
		EXPECT_EQ(limits[l], s.max_timers);
		add_many(_metadata, fd, limits[l], HOUR, 0, 0, ids);
		before = stats(_metadata, fd);
		EXPECT_EQ(limits[l], before.allocated);

		EXPECT_EQ(-ENOSPC, verb(fd, TWHEEL_IOC_REGISTER, &t));
		t.flags |= TWHEEL_DISARMED;
		EXPECT_EQ(-ENOSPC, verb(fd, TWHEEL_IOC_REGISTER, &t));
		expect_same(_metadata, fd, &before);
		for (i = 0; i < limits[l]; i++) {
			EXPECT_EQ(TWHEEL_ARMED, state(fd, ids[i]));
			EXPECT_LT((__u32)ids[i], limits[l]);
		}

		/*
		 * In a batch: one REGISTER is refused, a CANCEL makes room, and the next
		 * REGISTER succeeds.
		 */
		memset(ops, 0, sizeof(ops));
		ops[0].opcode = TWHEEL_OP_REGISTER;
		ops[0].timer.deadline_ns = HOUR;
		ops[1].opcode = TWHEEL_OP_CANCEL;
		ops[1].timer.id = ids[limits[l] / 2];
		ops[2] = ops[0];
		EXPECT_EQ(3, batch(fd, ops, 3));
		EXPECT_EQ(-ENOSPC, ops[0].result);
		/*
		 * The refused operation can be tried again as it is, because the delay is
		 * still a delay.
		 */
		EXPECT_EQ(HOUR, ops[0].timer.deadline_ns);
		EXPECT_EQ(0, ops[1].result);
		EXPECT_EQ(0, ops[2].result);
		EXPECT_EQ(-ENOSPC, verb(fd, TWHEEL_IOC_REGISTER, &t));
		close_wheel(_metadata, fd);
	}
}

/*
 * A REGISTER whose result cannot be written leaves the shape open, and what it has allocated
 * serves any shape.
 */
TEST_F(setup, max_timers_after_failed_register)
{
	enum { TIMERS_MAX = 1000 };
	static const __u32 limits[] = { 100, 1, 257, TIMERS_MAX };
	struct twheel_timer t = { .deadline_ns = HOUR };
	struct twheel_timer *arg = read_only(_metadata, &t, sizeof(t));
	unsigned int i, armed = 0;
	static __u64 ids[TIMERS_MAX];

	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		struct twheel_setup s = { .max_timers = limits[i] };

		ASSERT_EQ(0, shape(self->fd, &s));
		EXPECT_EQ(-EFAULT, call(self->fd, TWHEEL_IOC_REGISTER, arg));
	}
	add_many(_metadata, self->fd, TIMERS_MAX, HOUR, 0, 0, ids);
	for (i = 0; i < TIMERS_MAX; i++)
		armed += state(self->fd, ids[i]) == TWHEEL_ARMED;
	EXPECT_EQ(TIMERS_MAX, armed);
	EXPECT_EQ(TIMERS_MAX, cancel_all(self->fd));
}

/* An expired timer that is not kept makes room when it is read, not before. */
TEST_F(setup, room_after_read)
{
	struct twheel_setup s = { .max_timers = 1 };
	struct twheel_timer t = { 0 };
	struct twheel_event ev;

	ASSERT_EQ(0, shape(self->fd, &s));
	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	EXPECT_EQ(-ENOSPC, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_EQ(1, take(self->fd, &ev, 1, 0));
	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
}

FIXTURE(geometry) {
	int fd;
	struct twheel_setup s;
};

FIXTURE_VARIANT(geometry) {
	struct twheel_setup s;
};

/* The horizon is 8 ms, so nearly all deadlines of the test lie beyond it. */
VARIANT(geometry, one_level_16, .s = { .levels = 1, .slot_bits = 4 });

/* Netty's wheel: 512 buckets in one level, a horizon of 268 ms. */
VARIANT(geometry, one_level_512, .s = { .levels = 1, .slot_bits = 9 });
VARIANT(geometry, one_level_4096, .s = { .levels = 1, .slot_bits = 12 });

/* The horizon is 134 ms. */
VARIANT(geometry, two_levels_16, .s = { .levels = 2, .slot_bits = 4 });
VARIANT(geometry, all_levels_16, .s = { .levels = 16, .slot_bits = 4 });
VARIANT(geometry, coarse_tick, .s = { .tick_ns = 1 << 25, .slot_bits = 4 });

FIXTURE_SETUP(geometry)
{
	self->fd = open_wheel(_metadata, O_NONBLOCK);
	self->s = variant->s;
	ASSERT_EQ(0, shape(self->fd, &self->s));
}

WHEEL_TEARDOWN(geometry)

/*
 * In every geometry, each timer expires once, never early and in order, even beyond the
 * horizon.
 */
TEST_F(geometry, exact_at_every_distance)
{
	enum { N = 400 };
	__u64 spread = 250 * NS_PER_MS, last = 0, seed = 4711;
	struct twheel_event ev[N];
	bool seen[N] = { false };
	unsigned int i;

	for (i = 0; i < N; i++)
		add(_metadata, self->fd, 50 * NS_PER_MS + next_random(&seed) % spread, 0, i);
	EXPECT_EQ(N, collect(self->fd, ev, N));
	for (i = 0; i < N; i++) {
		__u64 tick = (ev[i].deadline_ns + self->s.tick_ns - 1) / self->s.tick_ns;

		ASSERT_LT(ev[i].user_data, N);
		EXPECT_FALSE(seen[ev[i].user_data]);
		seen[ev[i].user_data] = true;
		EXPECT_EQ(1, ev[i].expirations);
		EXPECT_LT(ev[i].expired_ns, ev[i].deadline_ns + TIMEOUT_MS * NS_PER_MS);
		EXPECT_GE(tick, last);
		last = tick;
	}
}

/* Distant deadlines, up to the end of time, are kept, reported and canceled exactly. */
TEST_F(geometry, far_deadlines)
{
	const __u64 deadlines[] = {
		HOUR, 24 * HOUR, 1ULL << 48, 1ULL << 56, 1ULL << 62,
		(1ULL << 63) - 1, 1ULL << 63, NEVER - self->s.tick_ns, NEVER - 2, NEVER,
	};
	__u64 ids[ARRAY_SIZE(deadlines)];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(deadlines); i++)
		ids[i] = add(_metadata, self->fd, deadlines[i], TWHEEL_ABSTIME, i);
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	for (i = 0; i < ARRAY_SIZE(deadlines); i++) {
		struct twheel_timer t;

		EXPECT_EQ(0, cancel_timer(self->fd, ids[i], &t));
		EXPECT_EQ(TWHEEL_ARMED, t.state);
		EXPECT_EQ(deadlines[i], t.deadline_ns);
	}
}

TEST_HARNESS_MAIN
