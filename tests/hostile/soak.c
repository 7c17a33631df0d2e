// SPDX-License-Identifier: GPL-2.0
/*
 * Runs everything at the same time for --seconds N, and checks it each second:
 *
 *   a wheel that is used by ioctl, by two workers and two readers. Every arming is accounted
 *   for: as an event that was read, or in the result of REARM or CANCEL. Some timers, which
 *   nobody touches in time, must expire.
 *   a wheel that is used through its table, by marks, beside a thread that writes rubbish. In
 *   the part that this thread leaves alone, each word is gone when its time has come.
 *   a wheel of periodic timers, none of whose periods may be missing.
 */
#include "ledger.h"
#include "stress.h"

static unsigned long long seconds = 60;
static unsigned long long seed = 1;

#define WORKERS		2
#define READERS		2
#define TIMERS		1000U
#define PERIODIC	50U
/* This many of a worker's timers are left alone until they must have expired. */
#define ALONE		50U
/* An event that takes longer than this will never come. */
#define LOST_AFTER	(5 * NS_PER_SEC)

static struct {
	bool stop;
	/* The wheels that are used by ioctl, through the table, and with periodic timers. */
	int wheel, mapped, periodic;
	struct table table;

	/* What the workers did to the first wheel, and what the readers got. */
	struct ledger l;
	unsigned long alone;
	/* Exchanges and kicks on the second wheel. */
	unsigned long stores, kicks;
	/* The first error. */
	const char *wrong;
} all;

static void wrong(const char *what)
{
	const char *none = NULL;

	__atomic_compare_exchange_n(&all.wrong, &none, what, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

static bool over(void)
{
	return __atomic_load_n(&all.stop, __ATOMIC_ACQUIRE) || all.wrong;
}

/* Accounts for the previous arming, by the state that was found. */
static void account(int found)
{
	if (!ended_by_verb(&all.l, found))
		wrong("REARM or CANCEL of a timer that is kept");
}

/* Moves, ends and recreates its own kept timers forever. */
static void *work(void *arg)
{
	__u64 random = seed * 97 + (uintptr_t)arg, ids[TIMERS], due[ALONE] = { 0 };
	struct twheel_timer t;
	unsigned int i;

	for (i = 0; i < TIMERS; i++)
		ids[i] = 0;
	while (!over()) {
		__u64 delay = next_random(&random) % (20 * NS_PER_MS);

		i = next_random(&random) % TIMERS;
		if (i < ALONE && ids[i]) {
			int found;

			if (now(CLOCK_MONOTONIC) < due[i] + LOST_AFTER)
				continue;
			found = rearm(all.wheel, ids[i], delay, TWHEEL_KEEP);
			due[i] = now(CLOCK_MONOTONIC) + delay;
			account(found);
			count_in(&all.l.armed, 1);
			count_in(&all.alone, 1);
			if (found == TWHEEL_ARMED)
				wrong("a timer that has not expired");
			continue;
		}
		if (ids[i] && delay % 4) {
			account(rearm(all.wheel, ids[i], delay, TWHEEL_KEEP));
			count_in(&all.l.armed, 1);
			continue;
		}
		if (ids[i])
			account(cancel(all.wheel, ids[i]));
		t = (struct twheel_timer) { .deadline_ns = delay, .flags = TWHEEL_KEEP };
		if (verb(all.wheel, TWHEEL_IOC_REGISTER, &t))
			wrong("REGISTER");
		ids[i] = t.id;
		if (i < ALONE)
			due[i] = now(CLOCK_MONOTONIC) + delay;
		count_in(&all.l.armed, 1);
		if (delay % 64 == 0)
			sleep_ns(delay / 4);
	}
	for (i = 0; i < TIMERS; i++)
		if (ids[i])
			account(cancel(all.wheel, ids[i]));
	return NULL;
}

static void *read_them(void *arg)
{
	struct twheel_event ev[32];
	int got;

	(void)arg;
	while (!over()) {
		if (!readable(all.wheel, 10))
			continue;
		got = read_now(all.wheel, ev, ARRAY_SIZE(ev));
		if (ahead_of_clock(ev, got))
			wrong("early");
		if (got > 0)
			count_in(&all.l.read, got);
		else if (got != -EAGAIN)
			wrong("read");
	}
	return NULL;
}

static void read_table(void)
{
	struct twheel_event ev[32];
	int got;

	while ((got = read_now(all.mapped, ev, ARRAY_SIZE(ev))) > 0)
		if (ahead_of_clock(ev, got))
			wrong("early, of the table");
}

/*
 * Sends heartbeats by the protocol, and reads the resulting events. In the end all timers have
 * expired, so no word is left.
 */
static void *beat(void *arg)
{
	__u64 random = seed * 89, t = 0;
	__u32 slot;

	(void)arg;
	while (!over()) {
		slot = next_random(&random) % (TIMERS / 2);
		t = now(CLOCK_MONOTONIC) + next_random(&random) % (5 * NS_PER_MS);
		swap_word(&all.table.slots[slot], t);
		if (mark_armed(&all.table, slot, t) < 0)
			wrong("KICK");
		count_in(&all.stores, 1);
		if (random % 128 == 0)
			disarm(&all.table, slot);
		if (random % 1024 == 0)
			read_table();
	}
	for (slot = 0; slot < TIMERS / 2; slot++) {
		while (word(&all.table.slots[slot]) && now(CLOCK_MONOTONIC) < t + LOST_AFTER) {
			/*
			 * The kernel looks at an arming over an unread event when that event
			 * is read.
			 */
			read_table();
			sleep_ms(1);
		}
		if (word(&all.table.slots[slot]))
			wrong("a timeout that has not come");
	}
	read_table();
	return NULL;
}

/* Writes rubbish to the upper half of the timers, sets random marks, and kicks random slots. */
static void *scribble(void *arg)
{
	__u64 random = seed * 83;
	__u32 slot;

	(void)arg;
	while (!over()) {
		slot = TIMERS / 2 + next_random(&random) % (TIMERS / 2);
		all.table.slots[slot].deadline_ns = next_random(&random) >> random % 64;
		all.table.slots[slot].wake_ns = random;
		mark(&all.table, random % 4 ? slot : random % 65536);
		if (random % 16 == 0) {
			if (turn_now(all.mapped) < 0)
				wrong("KICK");
			count_in(&all.kicks, 1);
			sleep_ns(NS_PER_MS);
		}
	}
	return NULL;
}

/* The next period of each periodic timer. */
static __u64 expected[PERIODIC];

static __u64 period_of(unsigned int i)
{
	return (i + 1) * NS_PER_MS;
}

static unsigned long read_periods(void)
{
	__u64 before = now(CLOCK_MONOTONIC);
	struct twheel_event ev[32];
	unsigned long periods = 0;
	int got, i;

	while ((got = read_now(all.periodic, ev, ARRAY_SIZE(ev))) > 0) {
		if (ahead_of_clock(ev, got))
			wrong("early, of the periodic");
		for (i = 0; i < got; i++) {
			unsigned int nr = ev[i].user_data;

			if (nr >= PERIODIC || ev[i].deadline_ns != expected[nr])
				wrong("a period is missing, or came twice");
			else
				expected[nr] += ev[i].expirations * period_of(nr);
			if (!ev[i].expirations)
				wrong("no period");
			periods += ev[i].expirations;
		}
	}
	for (i = 0; i < (int)PERIODIC; i++)
		if (expected[i] + LOST_AFTER < before)
			wrong("a period that has not come");
	return periods;
}

static void check_conserved(const char *which, int fd)
{
	struct twheel_stats s;

	if (conserved(fd, &s))
		return;
	tell_stats(which, &s);
	wrong(which);
}

FIXTURE(soak) {};

FIXTURE_SETUP(soak)
{
	unsigned int i;

	all.wheel = open_wheel(_metadata, O_NONBLOCK);
	all.mapped = open_wheel(_metadata, O_NONBLOCK);
	all.periodic = open_wheel(_metadata, O_NONBLOCK);
	all.table = map_table(_metadata, all.mapped);
	add_many(_metadata, all.mapped, TIMERS, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, NULL);
	for (i = 0; i < PERIODIC; i++) {
		struct twheel_timer t = {
			.deadline_ns = period_of(i),
			.period_ns = period_of(i),
			.user_data = i,
		};

		ASSERT_EQ(0, verb(all.periodic, TWHEEL_IOC_REGISTER, &t));
		expected[i] = t.deadline_ns;
	}
}

FIXTURE_TEARDOWN(soak)
{
	expect_conserved(_metadata, all.wheel);
	expect_conserved(_metadata, all.mapped);
	expect_conserved(_metadata, all.periodic);
	unmap_table(&all.table);
	close(all.wheel);
	close(all.mapped);
	close(all.periodic);
}

/* G1, G3: Nothing is lost, doubled or early, each second and in the end. */
TEST_F_TIMEOUT(soak, everything, UNLIMITED)
{
	pthread_t threads[WORKERS + READERS + 2];
	struct twheel_event ev[32];
	unsigned long periods = 0;
	unsigned int i, n = 0, second;
	int got;

	for (i = 0; i < WORKERS; i++)
		ASSERT_EQ(0, pthread_create(&threads[n++], NULL, work, (void *)(uintptr_t)i));
	for (i = 0; i < READERS; i++)
		ASSERT_EQ(0, pthread_create(&threads[n++], NULL, read_them, NULL));
	ASSERT_EQ(0, pthread_create(&threads[n++], NULL, beat, NULL));
	ASSERT_EQ(0, pthread_create(&threads[n++], NULL, scribble, NULL));
	for (second = 0; second < seconds && !all.wrong; second++) {
		sleep_ms(1000);
		check_conserved("the wheel that is used by ioctl", all.wheel);
		check_conserved("the wheel that is used through its table", all.mapped);
		check_conserved("the periodic wheel", all.periodic);
		periods += read_periods();
	}
	__atomic_store_n(&all.stop, true, __ATOMIC_RELEASE);
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(NULL, all.wrong)
		TH_LOG("after %u s: %s", second, all.wrong);

	/* All timers of the workers are canceled, so no event can be left. */
	got = read_now(all.wheel, ev, ARRAY_SIZE(ev));
	EXPECT_EQ(-EAGAIN, got);
	EXPECT_EQ(0, stats(_metadata, all.wheel).allocated);
	expect_found(_metadata, all.wheel, &all.l);
	EXPECT_GT(all.l.read, 0);
	EXPECT_GT(all.l.found[TWHEEL_ARMED], 0);
	EXPECT_GT(periods, 0);
	EXPECT_GT(all.stores, 0);
	EXPECT_TRUE(all.alone > 0 || second <= LOST_AFTER / NS_PER_SEC);
	TH_LOG("%u s: %lu armings, %lu read, %lu left alone, %lu exchanges, %lu kicks, %lu periods",
	       second, all.l.armed, all.l.read, all.alone, all.stores,
	       all.table.kicks + all.kicks, periods);
	TARGET("events", all.l.read, PART(seconds * 14000));
	TARGET("seconds", second, PART(seconds));
}

STRESS_MAIN({ "seconds", &seconds }, { "seed", &seed })
