// SPDX-License-Identifier: GPL-2.0
/*
 * Clocks that are set while timers run, and time namespaces.
 */
#include "twheel_test.h"

#include <sched.h>

/* Sets the wall clock, and with it CLOCK_TAI. */
static void step(struct __test_metadata *_metadata, long long ns)
{
	set_wall_clock(_metadata, now(CLOCK_REALTIME) + ns);
}

/*
 * A wheel on the clock of the variant. The teardown puts the wall clock right: had nobody set
 * it, it would show base + CLOCK_MONOTONIC.
 */
#define CLOCK_FIXTURE(name)							\
	struct __test_metadata;							\
	FIXTURE(name) { int fd; __u64 base; }

#define CLOCK_SETUP(name)							\
	struct __test_metadata;							\
	FIXTURE_SETUP(name)							\
	{									\
		SKIP_UNLESS_ROOT();						\
		self->fd = wheel_on(variant->clock);				\
		ASSERT_GE(self->fd, 0);						\
		self->base = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC);	\
	}									\
	FIXTURE_TEARDOWN(name)							\
	{									\
		set_wall_clock(_metadata, self->base + now(CLOCK_MONOTONIC));	\
		close_wheel(_metadata, self->fd);				\
	}

CLOCK_FIXTURE(set);

FIXTURE_VARIANT(set) {
	int clock;
	/* True if the clock follows the wall clock. */
	bool moves;
};

VARIANT(set, monotonic, .clock = CLOCK_MONOTONIC);
VARIANT(set, boottime, .clock = CLOCK_BOOTTIME);
VARIANT(set, realtime, .clock = CLOCK_REALTIME, .moves = true);
VARIANT(set, tai, .clock = CLOCK_TAI, .moves = true);

CLOCK_SETUP(set)

/* The clock is set forward: timers that became due expire at once, by the clock as it is now. */
TEST_F(set, forward)
{
	__u64 start = now(variant->clock);
	struct twheel_event ev[4];

	add(_metadata, self->fd, start + 30 * MINUTE, TWHEEL_ABSTIME, 1);
	add(_metadata, self->fd, start + 10 * MINUTE, TWHEEL_ABSTIME, 0);
	add(_metadata, self->fd, start + 120 * MINUTE, TWHEEL_ABSTIME, 2);
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	step(_metadata, 60 * MINUTE);
	if (!variant->moves) {
		EXPECT_FALSE(readable(self->fd, QUIET_MS));
		return;
	}
	EXPECT_EQ(2, collect(self->fd, ev, 2));
	EXPECT_EQ(0, ev[0].user_data);
	EXPECT_EQ(1, ev[1].user_data);
	EXPECT_EQ(start + 30 * MINUTE, ev[1].deadline_ns);
	EXPECT_GE(ev[1].expired_ns, start + 60 * MINUTE);
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	/* Timers that are armed afterwards go by the clock as it is then. */
	start = now(variant->clock);
	add(_metadata, self->fd, 20 * NS_PER_MS, 0, 3);
	EXPECT_EQ(1, take(self->fd, ev, 4, TIMEOUT_MS));
	EXPECT_EQ(3, ev[0].user_data);
	EXPECT_GE(ev[0].deadline_ns, start + 20 * NS_PER_MS);
}

/* The clock is set to 2001, to 2038, and beyond what 32 bits of seconds hold. */
TEST_F(set, years)
{
	static const __u64 years[] = {
		1000000000 * NS_PER_SEC, 2147480000 * NS_PER_SEC,
		(1ULL << 31) * NS_PER_SEC - 30 * NS_PER_MS,
	};
	__u64 far = now(variant->clock) + 120 * MINUTE, near;
	struct twheel_event ev[4];
	unsigned int i;

	add(_metadata, self->fd, far, TWHEEL_ABSTIME, 100);
	for (i = 0; i < ARRAY_SIZE(years) - (sizeof(time_t) < 8); i++) {
		step(_metadata, years[i] - now(CLOCK_REALTIME));
		/* The distant timer is due if the clock has passed it. */
		if (i == 1 && variant->moves) {
			ASSERT_EQ(1, collect(self->fd, ev, 1));
			EXPECT_EQ(100, ev[0].user_data);
			EXPECT_EQ(far, ev[0].deadline_ns);
		}
		EXPECT_FALSE(readable(self->fd, 1));
		near = now(variant->clock) + 60 * NS_PER_MS;
		add(_metadata, self->fd, near, TWHEEL_ABSTIME, i);
		ASSERT_EQ(1, take(self->fd, ev, 4, TIMEOUT_MS));
		EXPECT_EQ(i, ev[0].user_data);
		EXPECT_EQ(near, ev[0].deadline_ns);
		EXPECT_GE(now(variant->clock), ev[0].expired_ns);
	}
}

/*
 * G1: The clock is set backward: no timer that was armed before expires until the clock is
 * there again.
 */
TEST_F(set, backward_armed_before)
{
	__u64 start = now(variant->clock);
	struct twheel_event ev[4];
	__u64 far, near;

	near = add(_metadata, self->fd, start + 400 * NS_PER_MS, TWHEEL_ABSTIME, 1);
	far = add(_metadata, self->fd, start + 600 * NS_PER_MS, TWHEEL_ABSTIME, 2);
	step(_metadata, -60LL * MINUTE);
	if (!variant->moves) {
		EXPECT_EQ(2, collect(self->fd, ev, 2));
		EXPECT_EQ(1, ev[0].user_data);
		EXPECT_EQ(start + 400 * NS_PER_MS, ev[0].deadline_ns);
		return;
	}
	EXPECT_FALSE(readable(self->fd, 700));
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, near));
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, far));
	/* Set forward again: both are due now. */
	step(_metadata, 60 * MINUTE);
	EXPECT_EQ(2, collect(self->fd, ev, 2));
	EXPECT_EQ(1, ev[0].user_data);
	EXPECT_EQ(2, ev[1].user_data);
	EXPECT_EQ(start + 600 * NS_PER_MS, ev[1].deadline_ns);
}

/*
 * G2: The clock is set backward: timers that are armed afterwards expire by the new time, and
 * not late.
 */
TEST_F(set, backward_armed_after)
{
	struct twheel_event ev[8];
	__u64 start, seed = 5;
	unsigned int i;

	/* The wheel is not idle before the clock is set. */
	add(_metadata, self->fd, 5 * NS_PER_MS, 0, 0);
	EXPECT_EQ(1, take(self->fd, ev, 8, TIMEOUT_MS));
	add(_metadata, self->fd, now(variant->clock) + 90 * MINUTE, TWHEEL_ABSTIME, 100);
	step(_metadata, -60LL * MINUTE);
	start = now(variant->clock);
	for (i = 0; i < 6; i++)
		add(_metadata, self->fd, start + 50 * NS_PER_MS +
		    next_random(&seed) % (100 * NS_PER_MS), TWHEEL_ABSTIME, i);
	add(_metadata, self->fd, 200 * NS_PER_MS, 0, 6);
	EXPECT_EQ(7, collect(self->fd, ev, 7));
	EXPECT_LT(now(variant->clock), start + TIMEOUT_MS * NS_PER_MS);
	for (i = 0; i < 7; i++) {
		EXPECT_LT(ev[i].user_data, 100);
		EXPECT_GE(ev[i].deadline_ns, start + 50 * NS_PER_MS);
	}
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	EXPECT_EQ(1, stats(_metadata, self->fd).armed);
}

/*
 * The clock is set backward and forward at random: no timer is early by the clock that it
 * shows then.
 */
TEST_F(set, back_and_forth)
{
	enum { N = 200, STEPS = 12 };
	__u64 seed = 77, start = now(variant->clock);
	unsigned char seen[N] = { 0 };
	struct twheel_event ev[N];
	unsigned int i, k, got = 0;

	/* From a minute before to a minute after the time that the clock will be set to. */
	for (i = 0; i < N; i++)
		add(_metadata, self->fd, start + next_random(&seed) % (10 * MINUTE),
		    TWHEEL_ABSTIME, i);
	for (k = 0; k < STEPS; k++) {
		int ret;

		step(_metadata, (long long)(next_random(&seed) % (4 * MINUTE)) - 2LL * MINUTE);
		sleep_ms(5);
		ret = read_events(self->fd, ev, sizeof(ev));
		for (i = 0; ret > 0 && i < ret / sizeof(*ev); i++) {
			ASSERT_LT(ev[i].user_data, N);
			seen[ev[i].user_data]++;
			got++;
		}
	}
	step(_metadata, 30 * MINUTE);
	if (variant->moves) {
		EXPECT_EQ(N - got, collect(self->fd, ev, N - got));
		for (i = 0; i < N - got; i++)
			seen[ev[i].user_data]++;
		for (i = 0; i < N; i++)
			EXPECT_EQ(1, seen[i]);
	} else {
		/* On its own, the clock advanced by less than a second. */
		EXPECT_LT(got, N / 10);
	}
}

/*
 * A periodic timer counts the missed periods if the clock is set forward, and waits if it is
 * set backward.
 */
TEST_F(set, periodic)
{
	__u64 deadline = now(variant->clock) + 20 * NS_PER_MS, period = 500 * NS_PER_MS;
	struct twheel_event ev;
	__u64 id;

	id = add_periodic(_metadata, self->fd, deadline, period, TWHEEL_ABSTIME);
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	step(_metadata, 60 * MINUTE);
	if (!variant->moves)
		return;
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(deadline + period, ev.deadline_ns);
	EXPECT_GE(ev.expirations, 7199);
	step(_metadata, -60LL * MINUTE);
	EXPECT_FALSE(readable(self->fd, 600));
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, id));
}

/* Tests that make sense only for the clocks that follow the wall clock. */
CLOCK_FIXTURE(moved);

FIXTURE_VARIANT(moved) {
	int clock;
};

VARIANT(moved, realtime, .clock = CLOCK_REALTIME);
VARIANT(moved, tai, .clock = CLOCK_TAI);

CLOCK_SETUP(moved)

/* The clock is set backward in the middle of a storm: timers that are still on the wheel wait. */
TEST_F(moved, backward_in_storm)
{
	enum { N = 60000 };
	struct twheel_event *ev = calloc(N, sizeof(*ev));
	__u64 deadline = now(variant->clock) + 500 * NS_PER_MS;
	unsigned int got = 0;
	int ret;

	ASSERT_TRUE(!!ev);
	add_many(_metadata, self->fd, N, deadline, TWHEEL_ABSTIME, 0, NULL);
	while (!stats(_metadata, self->fd).expired)
		;
	step(_metadata, -60LL * MINUTE);
	while (got < N && (ret = take(self->fd, ev + got, N - got, 200)) > 0)
		got += ret;
	TH_LOG("%u before the step, %u wait", got, N - got);
	EXPECT_EQ(N - got, stats(_metadata, self->fd).armed);
	step(_metadata, 60 * MINUTE);
	EXPECT_EQ(N - got, collect(self->fd, ev + got, N - got));
	/* The hour that was taken back has not been counted as lateness. */
	EXPECT_LT(stats(_metadata, self->fd).worst_lateness_ns, 30 * MINUTE);
	free(ev);
}

/*
 * The clock is set backward while the softirq is between two wheels that are due. The softirq
 * goes on by the time at which it began, so the wheels stay due until it ends. The hrtimers
 * stay where they were started, and the clock is set on another processor.
 */
TEST_F(moved, backward_in_softirq)
{
	enum { WHEELS = 256, STEPS = 20, WAKEUPS_MAX = 8 };
	__u64 before[WHEELS], deadline;
	struct twheel_event ev;
	int fds[WHEELS];
	cpu_set_t all;
	int i, n;

	ASSERT_EQ(0, sched_getaffinity(0, sizeof(all), &all));
	for (i = 0; i < WHEELS; i++) {
		fds[i] = wheel_on(variant->clock);
		ASSERT_GE(fds[i], 0);
	}
	for (n = 0; n < STEPS; n++) {
		ASSERT_TRUE(pin(0));
		deadline = now(variant->clock) + 100 * NS_PER_MS;
		for (i = 0; i < WHEELS; i++)
			add(_metadata, fds[i], deadline, TWHEEL_ABSTIME, n);
		if (CPU_COUNT(&all) > 1)
			ASSERT_TRUE(pin(1));
		for (i = 0; i < WHEELS; i++)
			before[i] = stats(_metadata, fds[i]).wakeups;
		if (now(variant->clock) < deadline - 2 * NS_PER_MS)
			sleep_ns(deadline - 2 * NS_PER_MS - now(variant->clock));
		while (now(variant->clock) < deadline + n * 50 * NS_PER_US)
			sleep_ns(10 * NS_PER_US);
		step(_metadata, -2LL * NS_PER_SEC);
		sleep_ms(20);
		for (i = 0; i < WHEELS; i++)
			EXPECT_LE(stats(_metadata, fds[i]).wakeups - before[i], WAKEUPS_MAX);
		step(_metadata, 2LL * NS_PER_SEC);
		for (i = 0; i < WHEELS; i++)
			EXPECT_EQ(1, take(fds[i], &ev, 1, TIMEOUT_MS));
	}
	for (i = 0; i < WHEELS; i++)
		close(fds[i]);
	EXPECT_EQ(0, sched_setaffinity(0, sizeof(all), &all));
}

/* A clock that is set forward wakes a reader that sleeps in poll(). */
TEST_F(moved, forward_wakes_poll)
{
	pid_t pid;

	add(_metadata, self->fd, now(variant->clock) + 30 * MINUTE, TWHEEL_ABSTIME, 0);
	pid = fork_child(_metadata);
	if (!pid)
		_exit(readable(self->fd, TIMEOUT_MS) ? 0 : 1);
	sleep_ms(30);
	step(_metadata, 60 * MINUTE);
	EXPECT_EQ(0, status_of(pid));
}

/*
 * Time namespaces. Their offsets must be set before the first process enters, and the child of
 * the process that unshared enters.
 */
FIXTURE(namespace) {
	int outside;
	/* The clock inside minus the clock outside. */
	long long offset;
};

FIXTURE_VARIANT(namespace) {
	int clock;
	long long monotonic;
	long long boottime;
};

VARIANT(namespace, monotonic_ahead,
	.clock = CLOCK_MONOTONIC, .monotonic = 1000000, .boottime = 777777);
VARIANT(namespace, boottime_ahead,
	.clock = CLOCK_BOOTTIME, .monotonic = 777777, .boottime = 1000000);

/* Not by more than the machine has been up, because the clock must not become negative. */
VARIANT(namespace, monotonic_behind, .clock = CLOCK_MONOTONIC, .monotonic = -1);
VARIANT(namespace, boottime_behind, .clock = CLOCK_BOOTTIME, .boottime = -1);
VARIANT(namespace, realtime, .clock = CLOCK_REALTIME, .monotonic = 86400, .boottime = 86400);
VARIANT(namespace, tai, .clock = CLOCK_TAI, .monotonic = 86400, .boottime = 86400);

/* Returns the offset of @clock in the namespace. */
static long long offset_of(int clock, long long monotonic, long long boottime)
{
	switch (clock) {
	case CLOCK_MONOTONIC:
		return monotonic * (long long)NS_PER_SEC + 500000000;
	case CLOCK_BOOTTIME:
		return boottime * (long long)NS_PER_SEC + 250000000;
	}
	return 0;
}

FIXTURE_SETUP(namespace)
{
	char offsets[128];

	SKIP_UNLESS_ROOT();
	if (access("/proc/self/timens_offsets", F_OK))
		SKIP(return, "THIS KERNEL HAS NO TIME NAMESPACES: not tested with them");
	self->offset = offset_of(variant->clock, variant->monotonic, variant->boottime);
	self->outside = wheel_on(variant->clock);
	ASSERT_GE(self->outside, 0);
	ASSERT_EQ(0, unshare(CLONE_NEWTIME));
	snprintf(offsets, sizeof(offsets), "monotonic %lld 500000000\nboottime %lld 250000000\n",
		 variant->monotonic, variant->boottime);
	ASSERT_TRUE(write_text("/proc/self/timens_offsets", offsets));
}

FIXTURE_TEARDOWN(namespace)
{
	close_wheel(_metadata, self->outside);
}

/*
 * Checks that words of @fd are on @clock as the wheel's opener sees it, whoever writes them,
 * which is @offset ahead of what this process sees.
 */
static void check_words(struct __test_metadata *_metadata, int fd, int clock, long long offset)
{
	struct twheel_timer timer = { .deadline_ns = AHEAD, .flags = TWHEEL_KEEP };
	__u64 before, deadline;
	struct twheel_event ev;
	struct table t;

	/* On a processor without LSE, the module refuses to map the table. */
	if (!info(_metadata, fd).table_bytes)
		return;
	t = map_table(_metadata, fd);
	before = now(clock) + offset;
	EXPECT_EQ(0, verb(fd, TWHEEL_IOC_REGISTER, &timer));
	deadline = word(slot_of(&t, timer.id));
	EXPECT_EQ(timer.deadline_ns, deadline);
	EXPECT_GE(deadline, before + AHEAD);
	EXPECT_LE(deadline, now(clock) + offset + AHEAD);
	EXPECT_EQ(tick_of(&t, deadline), wake(slot_of(&t, timer.id)));
	/* Move it later, by exchange. */
	deadline += 50 * NS_PER_MS;
	EXPECT_NE(0, arm(&t, timer.id, deadline));
	EXPECT_EQ(0, t.kicks);
	ASSERT_EQ(1, take(fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(deadline, ev.deadline_ns);
	EXPECT_GE(now(clock) + offset, ev.expired_ns);
	/* Arm it when idle, with a KICK. */
	deadline = now(clock) + offset + 40 * NS_PER_MS;
	EXPECT_EQ(0, arm(&t, timer.id, deadline));
	EXPECT_EQ(1, t.kicks);
	ASSERT_EQ(1, take(fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(deadline, ev.deadline_ns);
	EXPECT_GE(now(clock) + offset, ev.expired_ns);
	EXPECT_LT(ev.expired_ns, deadline + TIMEOUT_MS * NS_PER_MS);
	EXPECT_EQ(TWHEEL_IDLE, cancel(fd, timer.id));
	expect_conserved(_metadata, fd);
	unmap_table(&t);
}

/*
 * Checks that deadlines and events of @fd are on @clock, @offset ahead of what this process
 * sees.
 */
static void check_clock(struct __test_metadata *_metadata, int fd, int clock, long long offset)
{
	struct twheel_timer t = { .deadline_ns = 30 * NS_PER_MS };
	struct twheel_event ev;
	__u64 before, after;

	before = now(clock) + offset;
	EXPECT_EQ(0, verb(fd, TWHEEL_IOC_REGISTER, &t));
	after = now(clock) + offset;
	EXPECT_GE(t.deadline_ns, before + 30 * NS_PER_MS);
	EXPECT_LE(t.deadline_ns, after + 30 * NS_PER_MS);
	EXPECT_EQ(1, take(fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(t.deadline_ns, ev.deadline_ns);
	EXPECT_LE(ev.expired_ns, now(clock) + offset);

	t = (struct twheel_timer) {
		.deadline_ns = now(clock) + offset + SOON / 2,
		.flags = TWHEEL_ABSTIME,
	};
	before = t.deadline_ns;
	EXPECT_EQ(0, verb(fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_EQ(before, t.deadline_ns);
	EXPECT_EQ(0, get_timer(fd, t.id, &t));
	EXPECT_EQ(before, t.deadline_ns);
	EXPECT_EQ(1, take(fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(before, ev.deadline_ns);
	EXPECT_GE(now(clock) + offset, before);
	EXPECT_LT(ev.expired_ns, before + TIMEOUT_MS * NS_PER_MS);

	/* An absolute 0 counts as 1 in every namespace, and "never" stays "never". */
	t = (struct twheel_timer) { .flags = TWHEEL_ABSTIME };
	EXPECT_EQ(0, verb(fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_EQ(1, t.deadline_ns);
	EXPECT_EQ(TWHEEL_EXPIRED, t.state);
	EXPECT_EQ(1, next_event(_metadata, fd, TIMEOUT_MS).deadline_ns);
	t = (struct twheel_timer) { .deadline_ns = NEVER };
	EXPECT_EQ(0, verb(fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_EQ(NEVER, t.deadline_ns);
	before = t.id;
	t = (struct twheel_timer) { .deadline_ns = NEVER - 1, .flags = TWHEEL_ABSTIME };
	EXPECT_EQ(0, verb(fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_FALSE(readable(fd, QUIET_MS));
	EXPECT_EQ(TWHEEL_ARMED, cancel(fd, before));
	EXPECT_EQ(TWHEEL_ARMED, cancel(fd, t.id));
	check_words(_metadata, fd, clock, offset);
}

/* A wheel that was opened inside a namespace uses the clock that processes see there. */
static void opened_inside(struct __test_metadata *_metadata, int clock, __u64 outside,
			  long long offset)
{
	int fd = wheel_on(clock);

	ASSERT_GE(fd, 0);
	/* Check that we are inside. */
	EXPECT_GE(now(clock), outside + offset);
	EXPECT_LT(now(clock), outside + offset + TIMEOUT_MS * NS_PER_MS);
	check_clock(_metadata, fd, clock, 0);
	close_wheel(_metadata, fd);
}

TEST_F(namespace, opened_inside)
{
	__u64 outside = now(variant->clock);

	IN_CHILD(opened_inside(_metadata, variant->clock, outside, self->offset));
}

/* A wheel that was opened outside keeps the clock of its opener, whoever uses it. */
TEST_F(namespace, opened_outside)
{
	IN_CHILD(check_clock(_metadata, self->outside, variant->clock, -self->offset));
	/* For the opener nothing has changed. */
	check_clock(_metadata, self->outside, variant->clock, 0);
}

/* A wheel that was opened inside and is used outside keeps the clock of its opener too. */
TEST_F(namespace, used_outside)
{
	int pair[2], fd, status;
	pid_t pid;

	ASSERT_EQ(0, pipe2(pair, O_CLOEXEC));
	pid = fork_child(_metadata);
	if (!pid) {
		fd = wheel_on(variant->clock);
		if (write(pair[1], &fd, sizeof(fd)) != sizeof(fd))
			_exit(1);
		pause();
	}
	close(pair[1]);
	ASSERT_EQ(sizeof(fd), read(pair[0], &fd, sizeof(fd)));
	close(pair[0]);
	ASSERT_GE(fd, 0);
	fd = syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, pid, 0), fd, 0);
	ASSERT_GE(fd, 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	check_clock(_metadata, fd, variant->clock, self->offset);
	close_wheel(_metadata, fd);
}

TEST_HARNESS_MAIN
