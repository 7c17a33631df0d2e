// SPDX-License-Identifier: GPL-2.0
/*
 * Processors that go offline and come back, and a machine that sleeps: no timer is lost,
 * early, or reported twice. Needs root, on a machine that may be put to sleep and whose clock
 * (rtc0) wakes it (ci/power.sh).
 */
#include "twheel_test.h"

#define CPU_ONLINE	"/sys/devices/system/cpu/cpu1/online"
#define PM_TEST		"/sys/power/pm_test"
#define PM_STATE	"/sys/power/state"
#define WAKE_ALARM	"/sys/class/rtc/rtc0/wakealarm"

#define SLEEP_S		4

static __u64 slept(void)
{
	return now(CLOCK_BOOTTIME) - now(CLOCK_MONOTONIC);
}

FIXTURE(power)
{
	int fd;
	int clock;
};

FIXTURE_VARIANT(power)
{
	int clock;
};

VARIANT(power, monotonic, .clock = CLOCK_MONOTONIC);
VARIANT(power, boottime, .clock = CLOCK_BOOTTIME);

FIXTURE_SETUP(power)
{
	struct twheel_setup setup = { .clock_id = variant->clock };

	self->clock = variant->clock;
	self->fd = open_wheel(_metadata, O_NONBLOCK);
	ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &setup));
}

WHEEL_TEARDOWN(power)

/* Arms one timer for every 10 ms, for as long as the test may take, and one in an hour. */
static unsigned int arm_row(struct __test_metadata *_metadata, struct _test_data_power *self,
			    unsigned int seconds)
{
	const unsigned int n = seconds * 100;
	__u64 start = now(self->clock);
	unsigned int i;

	for (i = 0; i < n; i++)
		add(_metadata, self->fd, start + (i + 1) * 10 * NS_PER_MS, TWHEEL_ABSTIME, i);
	add(_metadata, self->fd, start + HOUR, TWHEEL_ABSTIME, n);
	return n;
}

/* Expects all timers of the row, in order, and not the one in an hour. */
static void expect_row(struct __test_metadata *_metadata, struct _test_data_power *self,
		       unsigned int n)
{
	struct twheel_event ev[64];
	unsigned int have = 0;

	while (have < n) {
		int i, got = take(self->fd, ev, ARRAY_SIZE(ev), TIMEOUT_MS);

		ASSERT_GT(got, 0);
		for (i = 0; i < got; i++) {
			ASSERT_EQ(have++, ev[i].user_data);
			ASSERT_EQ(1, ev[i].expirations);
			ASSERT_GE(ev[i].expired_ns, ev[i].deadline_ns);
			ASSERT_GE(now(self->clock), ev[i].expired_ns);
		}
	}
	ASSERT_FALSE(readable(self->fd, QUIET_MS));
	ASSERT_EQ(1, cancel_all(self->fd));
}

TEST_F_TIMEOUT(power, processor_goes_and_comes, 120)
{
	unsigned int cycle, n;

	n = arm_row(_metadata, self, 10);
	for (cycle = 0; cycle < 100; cycle++) {
		ASSERT_TRUE(write_text(CPU_ONLINE, "0"));
		ASSERT_TRUE(write_text(CPU_ONLINE, "1"));
	}
	expect_row(_metadata, self, n);
}

/* Timers are armed on a processor that is then offline for as long as they live. */
TEST_F_TIMEOUT(power, processor_is_gone, 120)
{
	cpu_set_t second;
	unsigned int n;

	CPU_ZERO(&second);
	CPU_SET(1, &second);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(second), &second));
	n = arm_row(_metadata, self, 2);
	ASSERT_TRUE(write_text(CPU_ONLINE, "0"));
	expect_row(_metadata, self, n);
	ASSERT_TRUE(write_text(CPU_ONLINE, "1"));
}

/* Each step goes further towards sleep, and returns after a second. */
TEST_F_TIMEOUT(power, almost_sleeps, 180)
{
	static const char *const levels[] = {
		"freezer", "devices", "platform", "processors", "core",
	};
	unsigned int i, n;

	for (i = 0; i < ARRAY_SIZE(levels); i++) {
		n = arm_row(_metadata, self, 8);
		ASSERT_TRUE(write_text(PM_TEST, levels[i]));
		ASSERT_TRUE(write_text(PM_STATE, "mem"));
		expect_row(_metadata, self, n);
	}
	ASSERT_TRUE(write_text(PM_TEST, "none"));
}

/*
 * CLOCK_MONOTONIC stands still while the machine sleeps, so its timers expire later.
 * CLOCK_BOOTTIME goes on, so timers that came due meanwhile expire at once.
 */
TEST_F_TIMEOUT(power, sleeps, 180)
{
	unsigned int round, n;

	for (round = 0; round < 3; round++) {
		__u64 before = slept(), asleep, armed, woken, due;
		__u64 expired = stats(_metadata, self->fd).expired;
		char alarm[8];

		n = arm_row(_metadata, self, 3);
		armed = now(self->clock);
		snprintf(alarm, sizeof(alarm), "+%d", SLEEP_S);
		ASSERT_TRUE(write_text(WAKE_ALARM, "0"));
		ASSERT_TRUE(write_text(WAKE_ALARM, alarm));
		ASSERT_TRUE(write_text(PM_STATE, "mem"));
		asleep = slept() - before;
		/* Check that the machine was asleep, or the test shows nothing. */
		ASSERT_GE(asleep, NS_PER_SEC);
		if (self->clock == CLOCK_BOOTTIME) {
			woken = now(self->clock);
			due = (woken - armed) / (10 * NS_PER_MS);
			due = due < n ? due : n;
			/* At once, although the host may be busy with other work. */
			while (stats(_metadata, self->fd).expired - expired < due) {
				ASSERT_LT(now(self->clock), woken + 2 * NS_PER_SEC);
				sleep_ms(1);
			}
		}
		expect_row(_metadata, self, n);
	}
}

TEST_HARNESS_MAIN
