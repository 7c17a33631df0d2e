// SPDX-License-Identifier: GPL-2.0
/*
 * Lateness to the nanosecond, on a machine whose clock counts instructions (ci/exact.sh).
 * There hours and days pass in seconds, and the load of the host has no effect.
 *
 * On other machines the bounds mean nothing, and a run would take days.
 */
#include "twheel_test.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/timerfd.h>

#define DAY		(24 * HOUR)
/* The time that the machine may need to wake up, beyond the tick. */
#define WAKE_UP		(200 * NS_PER_US)
/* The time to move a timer down by one level: 100 of the machine's instructions. */
#define MOVE		800ULL
/* The maximum number of timers that a turn moves: TURN_BUDGET of the module. */
#define BUDGET		128
/* The longest that another wheel may keep the processor: one budget of it under its lock. */
#define HOLD		(200 * NS_PER_US)
/* The longest that a processor's softirqs turn wheels before the worker takes over. */
#define TURNS		(250 * NS_PER_US)
/*
 * The longest that the kernel itself takes to free pages in bulk: some 300,000 instructions at
 * a time.
 */
#define PAGES		(4 * NS_PER_MS)
/* The time limit of a test, by the machine's clock. */
#define TEST_DAYS	(60 * 24 * 3600)

FIXTURE(exact)
{
	int fd;
	__u64 tick;
	__u64 seed;
	__u64 start;
	__u64 worst;
	__u64 sum;
	__u64 seen;
};

FIXTURE_VARIANT(exact)
{
	__u64 tick_ns;
	__u32 levels;
	__u32 slot_bits;
	/* How far away the most distant timers are. */
	__u64 far;
};

VARIANT(exact, tick_65us, .tick_ns = 1 << 16, .far = 2 * HOUR);
VARIANT(exact, tick_524us, .far = DAY);

/* A hashed wheel of 2 s, which turns many times before the distant timers expire. */
VARIANT(exact, one_level, .levels = 1, .slot_bits = 12, .far = 2 * HOUR);

FIXTURE_SETUP(exact)
{
	struct twheel_setup setup = {
		.tick_ns = variant->tick_ns,
		.levels = variant->levels,
		.slot_bits = variant->slot_bits,
	};

	self->fd = open_wheel(_metadata, O_NONBLOCK);
	ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &setup));
	self->tick = setup.tick_ns;
	self->seed = 0x7477686565;
	/* Allocate the memory for the first timer now, which takes longer than a tick. */
	cancel(self->fd, reserve(_metadata, self->fd, 0));
	self->start = now(CLOCK_MONOTONIC);
}

FIXTURE_TEARDOWN(exact)
{
	close_wheel(_metadata, self->fd);
	printf("# %s.%s: %llu expirations, mean %llu ns late, worst %llu\n",
	       variant->levels ? "one_level" : variant->tick_ns ? "tick_65us" : "tick_524us",
	       _metadata->name, self->seen, self->seen ? self->sum / self->seen : 0,
	       self->worst);
	fflush(stdout);
}

/*
 * Checks an expiration that was just read: not early, even by the clock, and at most @allowed
 * late.
 */
static __u64 note(struct __test_metadata *_metadata, struct _test_data_exact *self,
		  const struct twheel_event *ev, __u64 allowed)
{
	__u64 late = ev->expired_ns - ev->deadline_ns;

	ASSERT_GE(ev->expired_ns, ev->deadline_ns);
	ASSERT_GE(now(CLOCK_MONOTONIC), ev->expired_ns);
	ASSERT_LE(late, allowed) {
		TH_LOG("a deadline %llu ns from the start", ev->deadline_ns - self->start);
	}
	self->sum += late;
	self->seen++;
	if (late > self->worst)
		self->worst = late;
	return late;
}

/*
 * Takes @n expirations of different timers in order, as they come. A timer that falls due
 * while a bucket is emptied into the level below waits for that, so it may be late by the time
 * that moving all timers of the bucket takes. Returns how many were late by more than a tick
 * and the wake-up.
 */
static unsigned int take_all(struct __test_metadata *_metadata, struct _test_data_exact *self,
			     unsigned int n)
{
	const __u64 in_time = self->tick + WAKE_UP;
	bool *seen = calloc(n, sizeof(*seen));
	unsigned int taken = 0, later = 0;
	struct twheel_event ev[64];
	__u64 last = 0;

	ASSERT_TRUE(!!seen);
	while (taken < n) {
		int i, got = take(self->fd, ev, ARRAY_SIZE(ev), -1);

		ASSERT_GT(got, 0);
		for (i = 0; i < got; i++) {
			ASSERT_LT(ev[i].user_data, n);
			ASSERT_FALSE(seen[ev[i].user_data]);
			seen[ev[i].user_data] = true;
			ASSERT_EQ(1, ev[i].expirations);
			ASSERT_GE(ev[i].expired_ns, last);
			last = ev[i].expired_ns;
			later += note(_metadata, self, &ev[i], in_time + n * MOVE) > in_time;
		}
		taken += got;
	}
	free(seen);
	return later;
}

/*
 * G1, G2: Distances from one tick up, equally many in each power of two; the near ones run
 * alone.
 */
TEST_F_TIMEOUT(exact, every_distance, TEST_DAYS)
{
	/*
	 * Run before the kernel's own threads, such as that of RCU, which would delay any
	 * process.
	 */
	const struct sched_param first = { .sched_priority = 1 };
	const unsigned int per_octave = 32;
	struct twheel_event ev;
	unsigned int n = 0, i;
	__u64 octave;

	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO, &first));
	for (octave = self->tick; octave < variant->far; octave *= 2) {
		for (i = 0; i < per_octave; i++) {
			__u64 delay = octave + next_random(&self->seed) % octave;
			bool near = octave < NS_PER_SEC;

			if (delay > variant->far)
				delay = variant->far - i;
			add(_metadata, self->fd, now(CLOCK_MONOTONIC) + delay, TWHEEL_ABSTIME,
			    near ? 0 : n++);
			if (!near)
				continue;
			ASSERT_EQ(1, take(self->fd, &ev, 1, -1));
			/* Measure when the waiting process has the event. */
			ASSERT_LE(now(CLOCK_MONOTONIC) - ev.deadline_ns, self->tick + WAKE_UP);
			note(_metadata, self, &ev, self->tick + WAKE_UP);
		}
	}
	/* So few timers share a bucket that emptying it does not take long. */
	EXPECT_EQ(0, take_all(_metadata, self, n));
}

/* With timers closer together than ticks, all timers of one tick share one wake-up. */
TEST_F_TIMEOUT(exact, dense, TEST_DAYS)
{
	const __u64 distance = 100 * NS_PER_US;
	const unsigned int n = 10000;
	struct twheel_stats s;
	unsigned int i, later;

	for (i = 0; i < n; i++)
		add(_metadata, self->fd, self->start + 20 * NS_PER_SEC + i * distance,
		    TWHEEL_ABSTIME, i);
	later = take_all(_metadata, self, n);
	s = stats(_metadata, self->fd);
	printf("# %u late by more than a tick and %llu us, %llu moves, %llu turns\n", later,
	       WAKE_UP / NS_PER_US, s.cascaded, s.wakeups);
	/* At most as many as fall due during all the moves, and none for any other reason. */
	EXPECT_LE(later, s.cascaded * MOVE / distance);
	/* In any case 99 % are in time. */
	EXPECT_LE(later, n / 100);
	/* One wake-up for each tick, plus those that only moved timers down, one budget each. */
	EXPECT_LE(s.wakeups, n * distance / self->tick + s.cascaded / BUDGET + 16);
}

struct connections {
	unsigned int alive;
	__u64 ids[50];
	__u64 offset[50];
	__u64 deadline[50];
};

#define TIMEOUT		(30 * NS_PER_SEC)
#define INTERVAL	(5 * NS_PER_SEC)

/* Sends a heartbeat on each connection, each at its own moment. None of them needs the kernel. */
static void speak(struct __test_metadata *_metadata, const struct table *t,
		  struct connections *c)
{
	__u64 at = now(CLOCK_MONOTONIC);
	unsigned int i;

	for (i = 0; i < c->alive; i++) {
		c->deadline[i] = at + c->offset[i] + TIMEOUT;
		ASSERT_NE(0, swap_word(slot_of(t, c->ids[i]), c->deadline[i]));
		ASSERT_GT(c->deadline[i], wake(slot_of(t, c->ids[i])));
	}
}

/*
 * Connections send a heartbeat every 5 s, which moves their 30 s timeout by an exchange. One
 * after the other falls silent.
 */
TEST_F_TIMEOUT(exact, heartbeats, TEST_DAYS)
{
	struct table t = map_table(_metadata, self->fd);
	struct connections c = { .alive = ARRAY_SIZE(c.ids) };
	unsigned int i;

	for (i = 0; i < c.alive; i++) {
		c.offset[i] = next_random(&self->seed) % INTERVAL;
		c.ids[i] = add(_metadata, self->fd, self->start + TIMEOUT,
			       TWHEEL_ABSTIME | TWHEEL_KEEP, i);
	}
	while (c.alive) {
		struct twheel_event ev[2];
		__u64 due;

		for (i = 0; i < 12; i++) {
			speak(_metadata, &t, &c);
			sleep_ns(INTERVAL);
		}
		due = c.deadline[--c.alive];
		while (now(CLOCK_MONOTONIC) < due + self->tick) {
			speak(_metadata, &t, &c);
			sleep_ns(NS_PER_SEC);
		}
		ASSERT_EQ(1, take(self->fd, ev, ARRAY_SIZE(ev), 0));
		ASSERT_EQ(c.alive, ev[0].user_data);
		ASSERT_EQ(due, ev[0].deadline_ns);
		note(_metadata, self, &ev[0], self->tick + WAKE_UP);
		ASSERT_EQ(0, cancel(self->fd, c.ids[c.alive]));
	}
	unmap_table(&t);
}

/* Nobody reads for hours: the count is right, and the wheel was not kept busy. */
TEST_F_TIMEOUT(exact, overruns, TEST_DAYS)
{
	const __u64 period = NS_PER_MS + 1, first = self->start + NS_PER_SEC;
	struct twheel_event ev;
	__u64 id, before, start;

	id = add_periodic(_metadata, self->fd, first, period, TWHEEL_ABSTIME);
	sleep_ns(2 * NS_PER_SEC);
	before = stats(_metadata, self->fd).wakeups;
	sleep_ns(2 * HOUR);
	EXPECT_EQ(before, stats(_metadata, self->fd).wakeups);
	/* There are seven million periods, and counting them takes no time. */
	start = now(CLOCK_MONOTONIC);
	ASSERT_EQ(1, take(self->fd, &ev, 1, 0));
	EXPECT_LT(now(CLOCK_MONOTONIC) - start, DEFAULT_TICK);
	EXPECT_EQ(id, ev.id);
	/* The periods that were due at the read or, at the latest, at the call after it. */
	EXPECT_GE(ev.expirations, 2 * HOUR / period);
	EXPECT_LE(ev.expirations, (now(CLOCK_MONOTONIC) - first) / period + 1);
	cancel(self->fd, id);
}

/* G7: A hundred thousand timers that are a day away cause no wake-up within an hour. */
TEST_F_TIMEOUT(exact, idle, TEST_DAYS)
{
	__u64 before;

	add_many(_metadata, self->fd, 100000, self->start + DAY, TWHEEL_ABSTIME, 0, NULL);
	before = stats(_metadata, self->fd).wakeups;
	sleep_ns(HOUR);
	if (variant->levels) {
		/* The hashed wheel may look at its timers once per turn. */
		EXPECT_LE(stats(_metadata, self->fd).wakeups,
			  before + HOUR / (self->tick << 16) + 1);
	} else {
		EXPECT_EQ(before, stats(_metadata, self->fd).wakeups);
	}
	ASSERT_EQ(100000, cancel_all(self->fd));
}

/* The wall clock is set far forward and back, which does not affect this clock. */
TEST_F_TIMEOUT(exact, wall_clock, TEST_DAYS)
{
	/* Just before the end of 32-bit time, a leap day, a round number, and a new year. */
	static const time_t dates[] = { 2147483645, 1709164799, 1000000000, 1767225600 };
	unsigned int i;

	for (i = 0; i < 400; i++)
		add(_metadata, self->fd, self->start + (i + 1) * NS_PER_SEC / 10,
		    TWHEEL_ABSTIME, i);
	for (i = 0; i < ARRAY_SIZE(dates); i++) {
		struct timeval tv = { .tv_sec = dates[i] };

		sleep_ns(9 * NS_PER_SEC);
		ASSERT_EQ(0, settimeofday(&tv, NULL));
	}
	EXPECT_EQ(0, take_all(_metadata, self, 400));
}

#define BEATS		500U
#define STORM		300000U

/* Arms timers for half a second, one millisecond apart. */
static void begin_beats(struct __test_metadata *_metadata, struct _test_data_exact *self)
{
	__u64 first = now(CLOCK_MONOTONIC) + 20 * NS_PER_MS;
	unsigned int i;

	for (i = 0; i < BEATS; i++)
		add(_metadata, self->fd, first + i * NS_PER_MS, TWHEEL_ABSTIME, i);
	ASSERT_LT(now(CLOCK_MONOTONIC), first);
}

/* Expects that all of them were late by at most a tick, a wake-up and @more. */
static void end_beats(struct __test_metadata *_metadata, struct _test_data_exact *self,
		      const char *beside, __u64 more)
{
	unsigned int taken = 0;
	struct twheel_event ev[64];
	__u64 worst = 0;

	while (taken < BEATS) {
		int i, got = take(self->fd, ev, ARRAY_SIZE(ev), -1);

		ASSERT_GT(got, 0);
		for (i = 0; i < got; i++) {
			__u64 late = note(_metadata, self, &ev[i], self->tick + WAKE_UP + more);

			if (late > worst)
				worst = late;
		}
		taken += got;
	}
	printf("# %s: a neighbor %llu us late at the worst\n", beside, worst / NS_PER_US);
}

static void read_all(struct __test_metadata *_metadata, int fd, struct twheel_event *ev)
{
	unsigned int taken = 0;

	while (taken < STORM) {
		int got = take(fd, ev, 4096, -1);

		ASSERT_GT(got, 0);
		taken += got;
	}
}

/*
 * G8: On a single processor, beside processes that do whatever takes longest, with hundreds of
 * thousands of timers: no timer is late by more than one budget under a lock takes. Where
 * memory is allocated and freed, the time that the kernel needs for that is added.
 */
TEST_F_TIMEOUT(exact, beside_storms, TEST_DAYS)
{
	struct twheel_event *ev = calloc(4096, sizeof(*ev));
	int fd = wheel_open(O_NONBLOCK);
	__u64 instant;

	ASSERT_TRUE(!!ev);
	/* Allocate all memory beforehand. */
	add_many(_metadata, fd, STORM, HOUR, 0, 0, NULL);
	ASSERT_EQ(STORM, cancel_all(fd));

	add_many(_metadata, fd, STORM, HOUR, 0, 0, NULL);
	begin_beats(_metadata, self);
	ASSERT_EQ(STORM, expire_all(fd));
	end_beats(_metadata, self, "REARM by BATCH", HOLD);

	begin_beats(_metadata, self);
	read_all(_metadata, fd, ev);
	end_beats(_metadata, self, "read", PAGES);

	begin_beats(_metadata, self);
	add_many(_metadata, fd, STORM, HOUR, 0, 0, NULL);
	end_beats(_metadata, self, "BATCH", PAGES);

	begin_beats(_metadata, self);
	ASSERT_EQ(STORM, cancel_all(fd));
	end_beats(_metadata, self, "CANCEL by BATCH", PAGES);

	instant = now(CLOCK_MONOTONIC) + 60 * NS_PER_SEC;
	add_many(_metadata, fd, STORM, instant, TWHEEL_ABSTIME, 0, NULL);
	/* In the middle of the beats. */
	sleep_ns(instant - 100 * NS_PER_MS - now(CLOCK_MONOTONIC));
	begin_beats(_metadata, self);
	end_beats(_metadata, self, "one instant", HOLD);
	/* Wait for the timers that the worker has not processed yet. */
	sleep_ns(2 * NS_PER_SEC);
	ASSERT_EQ(STORM, stats(_metadata, fd).unread);

	begin_beats(_metadata, self);
	close(fd);
	end_beats(_metadata, self, "close", PAGES);
	free(ev);
}

/*
 * Returns the longest time that a process with the highest priority does not get the
 * processor, from 5 ms before @instant until 15 ms after it.
 */
static __u64 worst_gap(struct __test_metadata *_metadata, __u64 instant)
{
	struct sched_param first = { .sched_priority = 1 };
	__u64 last, at, worst = 0;

	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO, &first));
	sleep_ns(instant - 5 * NS_PER_MS - now(CLOCK_MONOTONIC));
	for (last = now(CLOCK_MONOTONIC); last < instant + 15 * NS_PER_MS; last = at) {
		at = now(CLOCK_MONOTONIC);
		if (at - last > worst)
			worst = at - last;
	}
	first.sched_priority = 0;
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_OTHER, &first));
	return worst;
}

/* Returns this while @many timerfds expire, or @many wheels with @each timers if that is not 0. */
static __u64 gap_of_many(struct __test_metadata *_metadata, unsigned int many, unsigned int each)
{
	__u64 instant = (now(CLOCK_MONOTONIC) + 60 * NS_PER_SEC) & ~((1ULL << 19) - 1), gap;
	struct itimerspec its = { .it_value = { instant / NS_PER_SEC, instant % NS_PER_SEC } };
	int *fd = calloc(many, sizeof(*fd));
	unsigned int i;

	for (i = 0; i < many; i++) {
		fd[i] = each ? open_wheel(_metadata, O_NONBLOCK) :
			timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
		ASSERT_LE(0, fd[i]);
		if (each)
			add_many(_metadata, fd[i], each, instant, TWHEEL_ABSTIME, 0, NULL);
		else
			ASSERT_EQ(0, timerfd_settime(fd[i], TFD_TIMER_ABSTIME, &its, NULL));
	}
	gap = worst_gap(_metadata, instant);
	sleep_ns(NS_PER_SEC);
	for (i = 0; i < many; i++) {
		if (each)
			EXPECT_EQ(each, stats(_metadata, fd[i]).unread);
		close(fd[i]);
	}
	free(fd);
	return gap;
}

/*
 * G8, N11: Many wheels have timers that are due at one instant, each with fewer than a budget.
 * They keep a process from the only processor for one budget in total, and beyond that no
 * longer than as many timerfds do.
 */
TEST_F_TIMEOUT(exact, many_wheels, TEST_DAYS)
{
	static const unsigned int rows[][2] = { { 100, 120 }, { 1500, 1 } };
	const struct rlimit files = { 4096, 4096 };
	unsigned int i;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		__u64 timerfds = gap_of_many(_metadata, rows[i][0], 0);
		__u64 wheels = gap_of_many(_metadata, rows[i][0], rows[i][1]);

		printf("# %u wheels with %u timers each: a process waits %llu us, beside timerfds %llu us\n",
		       rows[i][0], rows[i][1], wheels / NS_PER_US, timerfds / NS_PER_US);
		EXPECT_LE(wheels, timerfds + TURNS);
	}
}

TEST_HARNESS_MAIN
