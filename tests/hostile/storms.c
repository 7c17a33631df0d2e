// SPDX-License-Identifier: GPL-2.0
/*
 * Attacks on the machine by an ordinary user of /dev/twheel, and how late they make others.
 *
 * In each test, two processes of the user nobody, one on each processor, attack for N seconds
 * (--seconds N). Beside them runs a bystander, which measures the lateness of a 1 ms timer on a
 * wheel of its own, and of another on a timerfd.
 *
 * A test passes if the timer of the wheel is hardly later than that of the timerfd, and hardly
 * later than beside two processes that only compute. Also, no attacker may find a wrong answer,
 * and the kernel must not log a stall.
 *
 *   --late 1   does not judge the lateness, for kernels with debugging options
 *   --exact 1  judges it in time slices of the scheduler, for an emulated processor whose clock
 *              counts instructions, so that a busy host does not matter
 */
#include "bystander.h"
#include "stress.h"

#include <sys/prctl.h>

static unsigned long long seconds = 5;
static unsigned long long late;
static unsigned long long exact;

#define ATTACKERS	2
/* A time slice of the scheduler while others wait, and a tick of the wheel. */
#define SLICE		(5 * NS_PER_MS)

static struct shared {
	/* How many of the attackers and the bystander have started. */
	unsigned int there;
	/* The wheel that both attackers share, for some attacks. */
	int fd;
	/* What each attacker has done, and what it found wrong. */
	unsigned long done[ATTACKERS];
	const char *wrong[ATTACKERS + 1];
	struct bystander bystander;
} *shared;

struct storm {
	/* Runs in the parent before the attackers start; may be NULL. */
	void (*prepare)(struct __test_metadata *_metadata);
	/* One round of attacker @nr's attack, which may keep its state. */
	void (*attack)(unsigned int nr);
	/* Runs in each attacker at the end; may be NULL. */
	void (*end)(unsigned int nr);
	/* The unit of done[], and the minimum that each attacker does. */
	const char *unit;
	unsigned long rounds;
	/*
	 * How many slices more than usual others may wait, in 99 % of cases; 0 means one. In
	 * the worst case, more than one for each attacker; 0 means the same number.
	 */
	unsigned int slices;
	unsigned int at_worst;
};

static void wrong(unsigned int nr, const char *what)
{
	if (!shared->wrong[nr])
		shared->wrong[nr] = what;
}

static bool storm_over(void)
{
	return __atomic_load_n(&shared->bystander.stop, __ATOMIC_ACQUIRE);
}

static bool nobody_died(void)
{
	siginfo_t info = { 0 };

	waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
	return !info.si_pid;
}

/* Returns true if an attacker has not yet completed each kind of its rounds. */
static bool too_few(const struct storm *storm)
{
	unsigned int i;

	for (i = 0; i < ATTACKERS; i++)
		if (__atomic_load_n(&shared->done[i], __ATOMIC_RELAXED) < storm->rounds &&
		    !__atomic_load_n(&shared->wrong[i], __ATOMIC_RELAXED))
			return nobody_died();
	return false;
}

/* Runs for the time of the storm, or of the run that it is compared with. */
static void run_once(struct __test_metadata *_metadata, const struct storm *storm)
{
	pid_t pid[ATTACKERS + 1];
	unsigned int i;

	memset(shared, 0, sizeof(*shared));
	shared->fd = -1;
	if (storm->prepare)
		storm->prepare(_metadata);
	for (i = 0; i <= ATTACKERS; i++) {
		pid[i] = fork_child(_metadata);
		if (pid[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (i < ATTACKERS)
			pin(i);
		__atomic_fetch_add(&shared->there, 1, __ATOMIC_RELEASE);
		if (i == ATTACKERS) {
			shared->wrong[i] = run_bystander(&shared->bystander,
							 wheel_open(O_NONBLOCK));
			_exit(0);
		}
		while (!storm_over() && !shared->wrong[i])
			storm->attack(i);
		if (storm->end)
			storm->end(i);
		_exit(0);
	}
	while (__atomic_load_n(&shared->there, __ATOMIC_ACQUIRE) <= ATTACKERS)
		sleep_ms(10);
	sleep_ms(seconds * 1000);
	/*
	 * Use few timers of our own, because timers that follow each other make an interrupt
	 * long.
	 */
	while (too_few(storm))
		sleep_ms(200);
	__atomic_store_n(&shared->bystander.stop, true, __ATOMIC_RELEASE);
	for (i = 0; i <= ATTACKERS; i++)
		EXPECT_EQ(0, status_of(pid[i]));
	if (shared->fd >= 0)
		close_wheel(_metadata, shared->fd);
	TH_LOG("%lu %s", shared->done[0] + shared->done[1], storm->unit);
	if (!strcmp(storm->unit, "events"))
		TARGET("events", shared->done[0] + shared->done[1],
		       PART(seconds * 320000));
	LOG_BYSTANDER(&shared->bystander);
	EXPECT_EQ(NULL, shared->wrong[ATTACKERS])
		TH_LOG("bystander: %s", shared->wrong[ATTACKERS]);
	for (i = 0; i < ATTACKERS; i++) {
		EXPECT_EQ(NULL, shared->wrong[i])
			TH_LOG("attacker %u: %s", i, shared->wrong[i]);
		EXPECT_GT(shared->done[i], 0);
	}
}

static void spin(unsigned int nr)
{
	shared->done[nr]++;
}

/* How late the bystander's wheel was beside processes that only spin. */
struct usual {
	__u64 half;
	__u64 most;
};

/*
 * Returns true if the wheel is about as punctual as the timerfd, and half of the time as
 * beside spinning processes. A process for which the host stood still may have been late for a
 * while, but not for that long. Where no host can stand still, it must be so all the time. The
 * kernel's own threads also work for the storm, and so take a slice each, which delays the
 * timerfd too.
 */
static bool punctual(const struct storm *storm, const struct usual *usual)
{
	const unsigned int slices = storm->slices ?: 1, at_worst = storm->at_worst ?: slices;
	const struct bystander *b = &shared->bystander;

	/*
	 * In the worst case it waits for each attacker, and for a kernel thread. Within one
	 * run it may by luck wait less.
	 */
	if (exact)
		return as_punctual(b, 1, SLICE, SLICE) &&
		       percentile(&b->wheel, 50) <= usual->half + SLICE &&
		       percentile(&b->wheel, 99) <= usual->most + slices * SLICE &&
		       b->wheel.worst <= (ATTACKERS + at_worst + 1) * SLICE;
	return as_punctual(b, 3, 5 * NS_PER_MS, 100 * NS_PER_MS) &&
	       percentile(&b->wheel, 50) <= 4 * usual->half + 20 * NS_PER_MS;
}

static void run_storm(struct __test_metadata *_metadata, const struct storm *storm)
{
	static const struct storm spinning = { .attack = spin, .unit = "turns of nothing" };
	unsigned int tries;
	struct usual usual;

	shared = shared_memory(sizeof(*shared));
	ASSERT_TRUE(!!shared);
	if (late) {
		run_once(_metadata, storm);
		return;
	}
	for (tries = 1; ; tries++) {
		run_once(_metadata, &spinning);
		usual.half = percentile(&shared->bystander.wheel, 50);
		usual.most = percentile(&shared->bystander.wheel, 99);
		run_once(_metadata, storm);
		/* The host may have stood still for one of them. */
		if (punctual(storm, &usual) || exact || tries == 3)
			break;
	}
	EXPECT_TRUE(punctual(storm, &usual));
}

FIXTURE(storms) {};

FIXTURE_SETUP(storms)
{
	be_nobody(_metadata);
}

NO_TEARDOWN(storms)

#define STORM(name, ...)						\
	static const struct storm name##_storm = { __VA_ARGS__ };	\
	TEST_F_TIMEOUT(storms, name, UNLIMITED)				\
	{								\
		run_storm(_metadata, &name##_storm);			\
	}

/* Opens a wheel for one attacker. */
static int mine(const struct twheel_setup *shape)
{
	static int fd = -1;
	struct twheel_setup s;

	if (fd >= 0)
		return fd;
	fd = wheel_open(O_NONBLOCK);
	if (shape) {
		s = *shape;
		if (call(fd, TWHEEL_IOC_SETUP, &s))
			exit(1);
	}
	return fd;
}

static void expect_mine_conserved(unsigned int nr)
{
	struct twheel_stats s;

	if (!conserved(mine(NULL), &s)) {
		tell_stats("an attacker's wheel", &s);
		wrong(nr, "conservation");
	}
}

/* 100,000 timers in one tick are re-armed in the past endlessly from two processors. */
#define PAST	100000U

static __u64 past_ids[PAST];

static void past_prepare(struct __test_metadata *_metadata)
{
	shared->fd = open_wheel(_metadata, O_NONBLOCK);
	add_many(_metadata, shared->fd, PAST, now(CLOCK_MONOTONIC) + 500 * NS_PER_MS,
		 TWHEEL_KEEP | TWHEEL_ABSTIME, 0, past_ids);
}

static void past_attack(unsigned int nr)
{
	static struct twheel_op ops[PAST / ATTACKERS];
	unsigned int i;

	fill_ops(ops, ARRAY_SIZE(ops), TWHEEL_OP_REARM, 1 + shared->done[nr] % 3,
		 TWHEEL_KEEP | TWHEEL_ABSTIME);
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i].timer.id = past_ids[i * ATTACKERS + nr];
	if (batch(shared->fd, ops, ARRAY_SIZE(ops)) != ARRAY_SIZE(ops))
		wrong(nr, "BATCH");
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (ops[i].result)
			wrong(nr, "REARM");
	shared->done[nr] += ARRAY_SIZE(ops);
}

static void past_end(unsigned int nr)
{
	struct twheel_stats s;

	if (!conserved(shared->fd, &s) || s.unread != PAST)
		wrong(nr, "all of them are unread now");
}

/* The worker takes its slice too. */
STORM(rearm_in_the_past, past_prepare, past_attack, past_end, "re-armed", .slices = 2)

/* 1,000 timers with the smallest period of the smallest tick are read as fast as possible. */
static const struct twheel_setup smallest = { .tick_ns = 100000 };

#define SMALLEST_TICK	(1U << 16)

static void periodic_timers(unsigned int nr, unsigned int n, __u64 period)
{
	static struct twheel_op ops[1000];
	unsigned int i;

	fill_ops(ops, n, TWHEEL_OP_REGISTER, period, 0);
	for (i = 0; i < n; i++)
		ops[i].timer.period_ns = period;
	if (batch(mine(NULL), ops, n) != (int)n || ops[n - 1].result)
		wrong(nr, "BATCH of REGISTER");
}

static void tick_attack(unsigned int nr)
{
	static struct twheel_event ev[1000];
	int fd = mine(&smallest), got, i;

	if (!shared->done[nr]) {
		periodic_timers(nr, 1000, SMALLEST_TICK);
		sleep_ms(1);
	}
	got = read_now(fd, ev, ARRAY_SIZE(ev));
	if (ahead_of_clock(ev, got))
		wrong(nr, "early");
	for (i = 0; i < got; i++)
		shared->done[nr]++;
}

STORM(smallest_ticks, NULL, tick_attack, expect_mine_conserved, "events")

/* The same without a reader costs nothing: each timer expires once. */
static void unread_attack(unsigned int nr)
{
	mine(&smallest);
	if (!shared->done[nr])
		periodic_timers(nr, 1000, SMALLEST_TICK);
	shared->done[nr]++;
	sleep_ms(1);
}

static void unread_end(unsigned int nr)
{
	struct twheel_stats s;

	sleep_ms(100);
	if (!conserved(mine(NULL), &s) || s.expired != 1000 || s.unread != 1000)
		wrong(nr, "each has expired once");
}

STORM(smallest_unread, NULL, unread_attack, unread_end, "ms")

/* Timers with periods since 1970, of the smallest tick: all of these periods expire at once. */
static void overrun_attack(unsigned int nr)
{
	static const struct twheel_setup shape = {
		.tick_ns = 100000, .flags = TWHEEL_SETUP_REALTIME,
	};
	struct twheel_timer t = {
		.deadline_ns = 1, .period_ns = SMALLEST_TICK, .flags = TWHEEL_ABSTIME,
	};
	int fd = mine(&shape);
	struct twheel_event ev;
	__u64 before, after;

	if (verb(fd, TWHEEL_IOC_REGISTER, &t))
		wrong(nr, "REGISTER");
	before = now(CLOCK_REALTIME);
	if (read_now(fd, &ev, 1) != 1 || ev.id != t.id)
		wrong(nr, "its event");
	after = now(CLOCK_REALTIME);
	if (ev.expirations < (before - 1) / SMALLEST_TICK ||
	    ev.expirations > (after - 1) / SMALLEST_TICK + 1)
		wrong(nr, "how many periods");
	if (cancel(fd, t.id) < (int)TWHEEL_ARMED)
		wrong(nr, "armed for its next period");
	/* The timer may have expired again meanwhile; then CANCEL has withdrawn that event. */
	if (read_now(fd, &ev, 1) != -EAGAIN)
		wrong(nr, "an event after CANCEL");
	shared->done[nr]++;
}

STORM(overruns_since_1970, NULL, overrun_attack, expect_mine_conserved, "times")

/* The largest possible batches. */
static void batch_attack(unsigned int nr)
{
	static struct twheel_op ops[TWHEEL_BATCH_MAX];
	int fd = mine(NULL);
	unsigned int i;

	fill_ops(ops, TWHEEL_BATCH_MAX, TWHEEL_OP_REGISTER, (shared->done[nr] & 1) * HOUR, 0);
	if (batch(fd, ops, TWHEEL_BATCH_MAX) != TWHEEL_BATCH_MAX)
		wrong(nr, "BATCH of REGISTER");
	for (i = 0; i < TWHEEL_BATCH_MAX; i++)
		ops[i].opcode = TWHEEL_OP_CANCEL;
	if (batch(fd, ops, TWHEEL_BATCH_MAX) != TWHEEL_BATCH_MAX)
		wrong(nr, "BATCH of CANCEL");
	for (i = 0; i < TWHEEL_BATCH_MAX; i++)
		if (ops[i].result)
			wrong(nr, "CANCEL");
	shared->done[nr]++;
}

STORM(largest_batches, NULL, batch_attack, expect_mine_conserved, "pairs", 3, 3, 4)

/* A million timers are moved to now and read, then canceled, then closed. */
#define MILLION		1000000U

static void many(unsigned int nr, int fd, unsigned int n, __u64 deadline, __u32 flags)
{
	static struct twheel_op ops[4096];
	unsigned int done;

	for (done = 0; done < n; done += ARRAY_SIZE(ops)) {
		unsigned int some = n - done < ARRAY_SIZE(ops) ? n - done : ARRAY_SIZE(ops);

		fill_ops(ops, some, TWHEEL_OP_REGISTER, deadline, flags);
		if (batch(fd, ops, some) != (int)some || ops[some - 1].result)
			wrong(nr, "BATCH of REGISTER");
	}
}

static void million_attack(unsigned int nr)
{
	static struct twheel_event ev[4096];
	int fd = wheel_open(O_NONBLOCK), got;
	struct twheel_stats s;
	unsigned int sum = 0;

	many(nr, fd, MILLION, HOUR, 0);
	if (shared->done[nr] % 3 == 0) {
		if (expire_all(fd) != (int)MILLION)
			wrong(nr, "REARM");
		while ((got = read_now(fd, ev, ARRAY_SIZE(ev))) > 0)
			sum += got;
		if (sum != MILLION)
			wrong(nr, "a million events");
	} else if (shared->done[nr] % 3 == 1) {
		if (cancel_all(fd) != (int)MILLION)
			wrong(nr, "CANCEL");
	}
	if (!conserved(fd, &s))
		wrong(nr, "conservation");
	close(fd);
	shared->done[nr]++;
}

/* G8: millions of timers that end keep others waiting no longer than a slice */
STORM(end_and_close_millions, NULL, million_attack, NULL, "millions", 3)

/* Many timers expire at one instant, again and again. */
static void instant_attack(unsigned int nr)
{
	int fd = wheel_open(O_NONBLOCK);
	struct twheel_stats s;
	bool ahead;

	many(nr, fd, MILLION / 4, now(CLOCK_MONOTONIC) + 8 * NS_PER_SEC, TWHEEL_ABSTIME);
	/*
	 * Otherwise some were armed too late, and expired in the call that armed them, because
	 * a host may stand still for as long.
	 */
	ahead = conserved(fd, &s) && !s.expired;
	if (exact && !ahead)
		wrong(nr, "armed too late");
	do {
		sleep_ms(10);
		if (!conserved(fd, &s))
			wrong(nr, "conservation");
	} while (s.expired != MILLION / 4 && !shared->wrong[nr]);
	/* No visit has touched more timers than this. */
	if (ahead && s.wakeups < s.expired / 128)
		wrong(nr, "too many in one visit");
	close(fd);
	shared->done[nr] += MILLION / 4;
}

/*
 * G8: At least until the first instant, for each attacker, however short the storm. A worker
 * does the rest of each instant, and each wheel's worker has its slice too.
 */
STORM(one_instant, NULL, instant_attack, NULL, "timers", MILLION / 4, .at_worst = ATTACKERS)

static size_t table_bytes(int fd)
{
	struct twheel_info info;

	if (call(fd, TWHEEL_IOC_INFO, &info))
		exit(1);
	return info.table_bytes;
}

/* The words of 4,096 timers constantly change around the present time, and are kicked. */
#define FLIPPED	4096U

static void flip_prepare(struct __test_metadata *_metadata)
{
	shared->fd = open_wheel(_metadata, O_NONBLOCK);
	add_many(_metadata, shared->fd, FLIPPED, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, NULL);
}

static void flip_attack(unsigned int nr)
{
	static __u32 kicked[FLIPPED];
	static struct table table;
	struct twheel_event ev[64];
	unsigned int i;
	__u64 t;

	if (!table.head) {
		table.fd = shared->fd;
		table.head = map_at(table.fd, table_bytes(table.fd), PROT_READ | PROT_WRITE,
				    MAP_SHARED, 0);
		if (table.head == MAP_FAILED)
			exit(1);
		table.slots = (void *)((char *)table.head + table.head->slots_offset);
		for (i = 0; i < FLIPPED; i++)
			kicked[i] = i;
	}
	t = now(CLOCK_MONOTONIC);
	for (i = 0; i < FLIPPED; i++)
		swap_word(&table.slots[i], i % 3 ? t + i % 64 * DEFAULT_TICK : 1);
	if (nr) {
		if (kick_slots(&table, kicked, FLIPPED))
			wrong(nr, "KICK");
		while (read_now(shared->fd, ev, ARRAY_SIZE(ev)) > 0)
			;
	}
	shared->done[nr] += FLIPPED;
}

/* G9: words that change constantly harm only their own wheel */
STORM(flipped_words, flip_prepare, flip_attack, NULL, "words written")

/*
 * All marks of 100,000 timers with short ticks are set endlessly, with and without a summary,
 * and some words constantly change. Nobody kicks: the wheel handles the marks by itself, a
 * budget at a time.
 */
#define MARKED	100000U

static void mark_prepare(struct __test_metadata *_metadata)
{
	struct twheel_setup s = { .tick_ns = 100000 };

	shared->fd = open_wheel(_metadata, O_NONBLOCK);
	ASSERT_EQ(0, call(shared->fd, TWHEEL_IOC_SETUP, &s));
	add_many(_metadata, shared->fd, MARKED, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, NULL);
	add_many(_metadata, shared->fd, 1, SMALLEST_TICK, TWHEEL_KEEP, 0, NULL);
}

static void mark_attack(unsigned int nr)
{
	const unsigned int lines = MARKED / LINE + 1;
	static struct twheel_event ev[1000];
	static struct table t;
	static __u64 random;
	unsigned int i;

	if (!t.head) {
		random = nr + 1;
		t.fd = shared->fd;
		t.head = map_at(t.fd, table_bytes(t.fd), PROT_READ | PROT_WRITE, MAP_SHARED, 0);
		if (t.head == MAP_FAILED)
			exit(1);
		t.slots = (void *)((char *)t.head + t.head->slots_offset);
	}
	scatter_marks(marks_of(&t, 0), summary_of(&t, 0), lines,
		      nr ? next_random(&random) : 4 * (random++ % 2));
	/* Armed for now, so that there is more to do than marks. */
	for (i = nr; i < 64; i += ATTACKERS)
		swap_word(&t.slots[i * LINE], i % 3 ? now(CLOCK_MONOTONIC) : 1);
	if (nr)
		while (read_now(t.fd, ev, ARRAY_SIZE(ev)) == ARRAY_SIZE(ev))
			;
	shared->done[nr] += lines;
}

/* G8, G9: The worker uses a slice as well. */
STORM(marks_set_constantly, mark_prepare, mark_attack, NULL, "lines marked", .slices = 2)

/*
 * One level of 16 short ticks, and very many timers beyond its horizon: the kernel looks at
 * each of them whenever the earliest has left. So each round has one that leaves.
 */
static const struct twheel_setup one_level = {
	.tick_ns = 100000, .levels = 1, .slot_bits = 4,
};

#define ROUND	(16ULL * SMALLEST_TICK)
#define FAR	200000U

static unsigned long armed_near[ATTACKERS];

static void rounds_attack(unsigned int nr)
{
	int fd = mine(&one_level);
	struct twheel_timer t = { .deadline_ns = 2 * SMALLEST_TICK };

	if (!armed_near[nr]++)
		many(nr, fd, FAR, HOUR, 0);
	if (verb(fd, TWHEEL_IOC_REGISTER, &t))
		wrong(nr, "REGISTER");
	sleep_ns(ROUND);
	/* It does not matter here whether the timer is armed, unread, or late. */
	if (cancel(fd, t.id) < 0)
		wrong(nr, "CANCEL");
	shared->done[nr]++;
}

static void rounds_end(unsigned int nr)
{
	struct twheel_stats s;

	if (!conserved(mine(NULL), &s))
		wrong(nr, "conservation");
	printf("# attacker %u: %llu timers looked at for %lu that were armed, %llu visits\n", nr,
	       s.cascaded, armed_near[nr], s.wakeups);
	fflush(stdout);
}

STORM(rounds, NULL, rounds_attack, rounds_end, "armed", 10, .slices = 2)

STRESS_MAIN({ "seconds", &seconds }, { "late", &late }, { "exact", &exact })
