// SPDX-License-Identifier: GPL-2.0
/*
 * The marks: a program marks a timer that it arms or moves earlier, and the kernel looks at it at
 * the next turn. next_ns says when that is, so a KICK is needed only if the deadline comes before
 * it.
 */
#include "bystander.h"
#include "ledger.h"

#include <sched.h>
#include <sys/prctl.h>

FIXTURE(marks) {
	int fd;
	struct table t;
};

FIXTURE_SETUP(marks)
{
	self->fd = open_wheel(_metadata, O_NONBLOCK);
	self->t = map_table(_metadata, self->fd);
	ASSERT_TRUE(self->t.head->features & TWHEEL_FEATURE_MARKS);
}

TABLE_TEARDOWN(marks)

/* Returns the end of the tick that contains @deadline, when the wheel turns at the latest. */
static __u64 tick_end(const struct table *t, __u64 deadline)
{
	return tick_of(t, deadline) + t->tick;
}

static bool next_becomes(const struct table *t, __u64 value)
{
	unsigned int ms;

	for (ms = 0; ms < TIMEOUT_MS; ms++) {
		if (next_turn(t) == value)
			return true;
		sleep_ms(1);
	}
	return false;
}

/* The value of next_ns */

/* next_ns is ~0 on an idle wheel, then the first turn, and ~0 again when no timer is left. */
TEST_F(marks, next_of_few)
{
	__u64 deadline, far, id;
	struct twheel_event ev;

	EXPECT_EQ(NEVER, next_turn(&self->t));
	id = reserve(_metadata, self->fd, 0);
	EXPECT_EQ(NEVER, next_turn(&self->t));
	far = now(CLOCK_MONOTONIC) + HOUR;
	EXPECT_EQ(TWHEEL_IDLE, rearm(self->fd, id, far, TWHEEL_ABSTIME | TWHEEL_KEEP));
	EXPECT_LE(next_turn(&self->t), tick_end(&self->t, far));
	deadline = now(CLOCK_MONOTONIC) + AHEAD;
	add(_metadata, self->fd, deadline, TWHEEL_ABSTIME, 0);
	EXPECT_LE(next_turn(&self->t), tick_end(&self->t, deadline));
	EXPECT_NE(0, disarm(&self->t, id));
	ASSERT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	/* The old deadline of the disarmed timer comes up, or an ioctl sees the change. */
	EXPECT_EQ(0, kick(&self->t, id));
	add(_metadata, self->fd, NS_PER_MS, 0, 0);
	ASSERT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_TRUE(next_becomes(&self->t, NEVER));
}

/* A mapping that is made later shows the same next_ns. */
TEST_F(marks, next_in_fresh_mapping)
{
	int fd = wheel_open(O_NONBLOCK);
	__u64 deadline = now(CLOCK_MONOTONIC) + AHEAD;
	struct twheel_event ev;
	struct table t, other;

	add(_metadata, fd, deadline, TWHEEL_ABSTIME, 0);
	t = map_table(_metadata, fd);
	other = map_table(_metadata, fd);
	EXPECT_LE(next_turn(&t), tick_end(&t, deadline));
	EXPECT_EQ(next_turn(&t), next_turn(&other));
	ASSERT_EQ(1, take(fd, &ev, 1, TIMEOUT_MS));
	EXPECT_TRUE(next_becomes(&t, NEVER));
	unmap_table(&t);
	unmap_table(&other);
	close(fd);
}

/*
 * next_ns is never late: however a timer is armed, the wheel turns before the tick of its
 * deadline is over.
 */
TEST_F(marks, next_is_never_late)
{
	enum { N = 500, ROUNDS = 4 };
	unsigned int round, i, late = 0;
	__u64 seed = 5, ids[N];
	static struct twheel_event ev[N];

	for (round = 0; round < ROUNDS; round++) {
		__u64 first = NEVER;

		add_many(_metadata, self->fd, N, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, ids);
		for (i = 0; i < N; i++) {
			__u64 next, deadline = now(CLOCK_MONOTONIC) + AHEAD +
				next_random(&seed) % (round % 2 ? HOUR : NS_PER_SEC);

			if (i % 3)
				arm_marked(&self->t, ids[i], deadline);
			else
				rearm(self->fd, ids[i], deadline, TWHEEL_ABSTIME | TWHEEL_KEEP);
			if (deadline < first)
				first = deadline;
			/* The wheel may have turned at that moment, and be at work. */
			next = next_turn(&self->t);
			if (next > tick_end(&self->t, first) &&
			    now(CLOCK_MONOTONIC) < first)
				late++;
		}
		EXPECT_EQ(0, late);
		EXPECT_LE(N, expire_all(self->fd) +
			     stats(_metadata, self->fd).unread);
		EXPECT_EQ(N, take(self->fd, ev, N, 0));
		for (i = 0; i < N; i++)
			EXPECT_GE(cancel(self->fd, ids[i]), 0);
	}
}

/* More marks than one turn handles. */
#define MANY	20000

/*
 * Returns true if next_ns becomes 0 before it is @next again. Between two looks this sleeps,
 * so that other threads get the processor for longer than a look takes, even on a machine that
 * counts instructions.
 */
static bool next_is_zero_before(const struct table *t, __u64 next, pid_t pid)
{
	const struct timespec moment = { .tv_nsec = 100000 };
	bool zero = false, dead = false;
	unsigned int i;

	for (i = 0; i < 10 * TIMEOUT_MS; i++) {
		__u64 value = next_turn(t);

		zero |= !value;
		if (dead && value == next)
			break;
		dead = dead || waitpid(pid, NULL, WNOHANG) == pid;
		nanosleep(&moment, NULL);
	}
	return zero;
}

/*
 * next_ns is 0 while the worker has work, even work that a call has left behind: that of a
 * process which was killed in the middle of a KICK. This process preempts the worker between
 * its turns, of which there are more than a hundred.
 */
TEST_F(marks, next_while_there_is_work)
{
	enum { TRIES = 50 };
	const struct sched_param first = { .sched_priority = 1 };
	static __u64 ids[MANY];
	unsigned int i, tries;
	bool zero = false;
	__u64 next;

	add_many(_metadata, self->fd, MANY, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, ids);
	add(_metadata, self->fd, HOUR, 0, 0);
	next = next_turn(&self->t);
	ASSERT_NE(0, next);
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first));
	for (tries = 0; tries < TRIES && !zero; tries++) {
		pid_t pid = fork_child(_metadata);

		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;) {
				for (i = 0; i < MANY; i++)
					mark(&self->t, ids[i]);
				turn_now(self->fd);
			}
		}
		sleep_ms(10 + tries);
		kill(pid, SIGKILL);
		zero = next_is_zero_before(&self->t, next, pid);
		EXPECT_TRUE(next_becomes(&self->t, next));
	}
	TH_LOG("%u tries", tries);
	EXPECT_TRUE(zero);
}

/* A KICK that runs to completion leaves nothing to the worker. */
TEST_F(marks, kick_takes_all)
{
	static __u64 ids[MANY];
	unsigned int i;
	__u64 before;

	add_many(_metadata, self->fd, MANY, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, ids);
	before = stats(_metadata, self->fd).wakeups;
	for (i = 0; i < MANY; i++)
		mark(&self->t, ids[i]);
	EXPECT_EQ(0, turn_now(self->fd));
	for (i = 0; i < MANY; i++)
		EXPECT_FALSE(is_marked(&self->t, ids[i]));
	sleep_ms(100);
	EXPECT_EQ(before, stats(_metadata, self->fd).wakeups);
}

/* Arming by marks */

/*
 * An idle timer that is armed only by a mark expires in time, because the wheel turns before
 * its deadline.
 */
TEST_F(marks, expires_without_kick)
{
	static const unsigned int after[] = { 0, 1, 50, 300 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(after); i++) {
		__u64 id = reserve(_metadata, self->fd, i), first, deadline;
		struct twheel_event ev[2];

		first = now(CLOCK_MONOTONIC) + AHEAD;
		add(_metadata, self->fd, first, TWHEEL_ABSTIME, 99);
		deadline = tick_end(&self->t, first) + after[i] * NS_PER_MS + 1;
		ASSERT_LT(next_turn(&self->t), deadline);
		EXPECT_EQ(0, arm_marked(&self->t, id, deadline));
		ASSERT_EQ(2, collect(self->fd, ev, 2));
		/* In order, unless one late turn has handled both. */
		if (ev[0].id == id) {
			EXPECT_EQ(ev[1].expired_ns, ev[0].expired_ns);
			ev[1] = ev[0];
		}
		EXPECT_EQ(id, ev[1].id);
		EXPECT_EQ(deadline, ev[1].deadline_ns);
		EXPECT_FALSE(readable(self->fd, 0));
	}
	/* Their lateness counts from their own deadlines, and no system call was needed. */
	EXPECT_EQ(0, self->t.kicks);
	EXPECT_EQ(0, stats(_metadata, self->fd).rearmed);
}

/* A mark moves a timer earlier, to a time after the next turn. */
TEST_F(marks, moved_earlier)
{
	__u64 id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 0);
	__u64 first = now(CLOCK_MONOTONIC) + AHEAD, deadline = first + 50 * NS_PER_MS;
	struct twheel_event ev[2];

	add(_metadata, self->fd, first, TWHEEL_ABSTIME, 0);
	EXPECT_NE(0, arm_marked(&self->t, id, deadline));
	EXPECT_TRUE(is_marked(&self->t, id) || now(CLOCK_MONOTONIC) > first);
	ASSERT_EQ(2, collect(self->fd, ev, 2));
	EXPECT_EQ(id, ev[1].id);
	EXPECT_EQ(deadline, ev[1].deadline_ns);
	EXPECT_EQ(0, self->t.kicks);
	EXPECT_GE(stats(_metadata, self->fd).moved, 1);
}

/*
 * On an idle wheel, or for a deadline before the next turn, a KICK makes the kernel look at the
 * marks, and returns 0.
 */
TEST_F(marks, kick_looks_at_marks)
{
	__u64 a = reserve(_metadata, self->fd, 1), b = reserve(_metadata, self->fd, 2);
	__u64 deadline = now(CLOCK_MONOTONIC) + 2 * AHEAD;

	swap_word(slot_of(&self->t, a), deadline);
	EXPECT_EQ(NEVER, wake(slot_of(&self->t, a)));
	mark(&self->t, a);
	EXPECT_EQ(NEVER, next_turn(&self->t));
	EXPECT_EQ(0, turn_now(self->fd));
	EXPECT_EQ(tick_of(&self->t, deadline), wake(slot_of(&self->t, a)));
	EXPECT_FALSE(is_marked(&self->t, a));
	EXPECT_FALSE(is_summed(&self->t, a));
	EXPECT_LE(next_turn(&self->t), tick_end(&self->t, deadline));

	/* Moved earlier, by the protocol. */
	deadline -= AHEAD;
	EXPECT_EQ(0, arm_marked(&self->t, b, deadline));
	EXPECT_EQ(tick_of(&self->t, deadline), wake(slot_of(&self->t, b)));
	EXPECT_LE(next_turn(&self->t), tick_end(&self->t, deadline));
	expect_event(_metadata, self->fd, b, deadline);
	expect_event(_metadata, self->fd, a, deadline + AHEAD);
	/* A timer that is already due is readable when the KICK returns. */
	EXPECT_EQ(0, arm_marked(&self->t, a, 1));
	EXPECT_TRUE(readable(self->fd, 0));
	expect_event(_metadata, self->fd, a, 1);
}

/* A turn clears the marks and their bit of the summary, whoever turns the wheel. */
TEST_F(marks, cleared_by_turn)
{
	__u64 id = reserve(_metadata, self->fd, 0), first;
	struct twheel_event ev[2];

	first = now(CLOCK_MONOTONIC) + AHEAD;
	add(_metadata, self->fd, first, TWHEEL_ABSTIME, 0);
	swap_word(slot_of(&self->t, id), first + HOUR);
	mark(&self->t, id);
	if (now(CLOCK_MONOTONIC) < first) {
		EXPECT_TRUE(is_marked(&self->t, id));
		EXPECT_TRUE(is_summed(&self->t, id));
	}
	ASSERT_EQ(1, take(self->fd, ev, 2, TIMEOUT_MS));
	EXPECT_FALSE(is_marked(&self->t, id));
	EXPECT_FALSE(is_summed(&self->t, id));
	EXPECT_EQ(tick_of(&self->t, first + HOUR), wake(slot_of(&self->t, id)));
	EXPECT_EQ(1, stats(_metadata, self->fd).armed);
	/* A look at an unchanged timer changes nothing. */
	mark(&self->t, id);
	EXPECT_EQ(0, turn_now(self->fd));
	EXPECT_EQ(1, stats(_metadata, self->fd).armed);
	EXPECT_EQ(0, stats(_metadata, self->fd).moved);
}

/*
 * A timer that is moved later or disarmed needs no mark, and no KICK looks at a timer that was
 * not marked.
 */
TEST_F(marks, without_mark)
{
	__u64 id = add(_metadata, self->fd, AHEAD, TWHEEL_KEEP, 0);
	struct twheel_slot *slot = slot_of(&self->t, id);
	__u64 deadline = word(slot) + HOUR, looks = wake(slot);

	EXPECT_NE(0, arm_marked(&self->t, id, deadline));
	EXPECT_FALSE(is_marked(&self->t, id));
	EXPECT_EQ(0, turn_now(self->fd));
	EXPECT_TRUE(wake(slot) == looks || now(CLOCK_MONOTONIC) > looks);
	EXPECT_TRUE(wake_becomes(slot, tick_of(&self->t, deadline)));
	EXPECT_EQ(deadline, disarm(&self->t, id));
	EXPECT_EQ(0, turn_now(self->fd));
	EXPECT_EQ(tick_of(&self->t, deadline), wake(slot));
	EXPECT_EQ(0, self->t.kicks);
}

/* Slots at the borders of words, lines and pages of marks. */
TEST_F(marks, slots_at_page_borders)
{
	enum { N = 70000 };
	static const __u32 slots[] = {
		0, 1, 62, 63, 64, 1022, 1023, 1024, 1025, 32767, 32768, 65535, 65536, 69631,
		69632, N - 1,
	};
	static __u64 ids[N];
	struct twheel_event ev[ARRAY_SIZE(slots) + 1];
	__u64 start;
	unsigned int i;

	add_many(_metadata, self->fd, N, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, ids);
	/* First each on its own, then all together. */
	for (i = 0; i < ARRAY_SIZE(slots); i++) {
		ASSERT_EQ(slots[i], (__u32)ids[slots[i]]);
		EXPECT_EQ(0, arm_marked(&self->t, ids[slots[i]], i + 1));
		ASSERT_EQ(1, take(self->fd, ev, 2, 0));
		EXPECT_EQ(ids[slots[i]], ev[0].id);
		EXPECT_FALSE(is_marked(&self->t, slots[i]));
	}
	EXPECT_EQ(ARRAY_SIZE(slots), self->t.kicks);
	start = now(CLOCK_MONOTONIC) + AHEAD;
	for (i = 0; i < ARRAY_SIZE(slots); i++)
		EXPECT_EQ(0, arm_marked(&self->t, ids[slots[i]], start + i));
	ASSERT_EQ(ARRAY_SIZE(slots), collect(self->fd, ev, ARRAY_SIZE(slots)));
	for (i = 0; i < ARRAY_SIZE(slots); i++)
		EXPECT_EQ(ids[slots[ev[i].deadline_ns - start]], ev[i].id);
}

/*
 * After publishing next_ns, the kernel reads the whole summary again. If it finds a mark, the
 * wheel turns at the next tick.
 */
TEST_F(marks, next_after_mark)
{
	enum { N = 70000 };
	static const __u32 slots[] = { 0, 1024, 65535, 65536, N - 1 };
	static __u64 ids[N];
	__u64 deadline = now(CLOCK_MONOTONIC) + 20 * HOUR;
	unsigned int i;

	add_many(_metadata, self->fd, N, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, ids);
	add(_metadata, self->fd, 16 * HOUR, 0, 0);
	for (i = 0; i < ARRAY_SIZE(slots); i++) {
		__u64 id = ids[slots[i]];

		EXPECT_EQ(0, arm_marked(&self->t, id, deadline));
		EXPECT_TRUE(is_marked(&self->t, id));
		/* Publishes an earlier next_ns than before. */
		add(_metadata, self->fd, 8 * HOUR >> i, 0, 0);
		EXPECT_TRUE(wake_becomes(slot_of(&self->t, id), tick_of(&self->t, deadline)));
		EXPECT_FALSE(is_marked(&self->t, id));
	}
	EXPECT_EQ(0, self->t.kicks);
}

/* Unread events */

/* G6: A KICK withdraws the event of a marked timer whose word was changed. */
TEST_F(marks, kick_withdraws)
{
	__u64 id = add(_metadata, self->fd, 0, TWHEEL_KEEP, 0);
	__u64 deadline = now(CLOCK_MONOTONIC) + AHEAD;

	EXPECT_EQ(TWHEEL_EXPIRED, state(self->fd, id));
	EXPECT_EQ(0, arm_marked(&self->t, id, deadline));
	EXPECT_EQ(1, self->t.kicks);
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, id));
	EXPECT_EQ(1, stats(_metadata, self->fd).withdrawn);
	expect_event(_metadata, self->fd, id, deadline);
	/* The event of a timer whose word was not changed stays. */
	mark(&self->t, id);
	EXPECT_EQ(0, turn_now(self->fd));
	id = add(_metadata, self->fd, 0, TWHEEL_KEEP, 0);
	mark(&self->t, id);
	EXPECT_EQ(0, turn_now(self->fd));
	EXPECT_EQ(TWHEEL_EXPIRED, state(self->fd, id));
	EXPECT_EQ(1, stats(_metadata, self->fd).withdrawn);
}

/* Arms @id, whose event is unread, with a mark, and has the wheel turn for another timer. */
static void turn_over_unread(struct __test_metadata *_metadata, struct table *t, __u64 id,
			     __u64 deadline)
{
	add(_metadata, t->fd, deadline - AHEAD, TWHEEL_ABSTIME, 8);
	EXPECT_EQ(0, arm_marked(t, id, deadline));
	EXPECT_EQ(0, t->kicks);
	while (stats(_metadata, t->fd).unread < 2)
		sleep_ms(1);
	EXPECT_FALSE(is_summed(t, id));
	EXPECT_EQ(TWHEEL_EXPIRED, state(t->fd, id));
}

/*
 * A turn that nobody asked for withdraws nothing. The event stays, then the new arming takes
 * effect.
 */
TEST_F(marks, turn_withdraws_nothing)
{
	__u64 id = add(_metadata, self->fd, 0, TWHEEL_KEEP, 7);
	__u64 deadline = now(CLOCK_MONOTONIC) + 2 * AHEAD;
	struct twheel_event ev[3];

	turn_over_unread(_metadata, &self->t, id, deadline);
	ASSERT_EQ(2, take(self->fd, ev, 2, 0));
	EXPECT_EQ(7, ev[0].user_data);
	EXPECT_NE(deadline, ev[0].deadline_ns);
	EXPECT_EQ(8, ev[1].user_data);
	expect_event(_metadata, self->fd, id, deadline);
	EXPECT_EQ(0, stats(_metadata, self->fd).withdrawn);
}

/* A KICK withdraws the event, even if a turn has come between the mark and the KICK. */
TEST_F(marks, kick_withdraws_after_a_turn)
{
	__u64 id = add(_metadata, self->fd, 0, TWHEEL_KEEP, 7);
	__u64 deadline = now(CLOCK_MONOTONIC) + 2 * AHEAD;
	struct twheel_event ev[3];

	turn_over_unread(_metadata, &self->t, id, deadline);
	EXPECT_EQ(0, turn_now(self->fd));
	EXPECT_EQ(1, stats(_metadata, self->fd).withdrawn);
	ASSERT_EQ(1, take(self->fd, ev, 3, 0));
	EXPECT_EQ(8, ev[0].user_data);
	expect_event(_metadata, self->fd, id, deadline);
}

/*
 * On a wheel that does not turn, only a deadline that comes before all others needs a KICK:
 * one KICK for ascending deadlines, some for random ones.
 */
TEST_F(marks, kick_only_for_new_minimum)
{
	enum { N = 1000 };
	__u64 start = now(CLOCK_MONOTONIC) + HOUR, ids[N], seed = 21, least = NEVER;
	int fd = wheel_open(O_NONBLOCK);
	unsigned int i, minima = 0;
	struct table t;

	add_many(_metadata, self->fd, N, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, ids);
	for (i = 0; i < N; i++)
		EXPECT_EQ(0, arm_marked(&self->t, ids[i], start + i * NS_PER_MS));
	EXPECT_EQ(1, self->t.kicks);
	EXPECT_EQ(N, cancel_all(self->fd));

	/* Use another wheel, because the first one still turns for the canceled timers. */
	t = map_table(_metadata, fd);
	add_many(_metadata, fd, N, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, ids);
	for (i = 0; i < N; i++) {
		__u64 deadline = start + next_random(&seed) % HOUR;

		minima += deadline < least;
		least = deadline < least ? deadline : least;
		EXPECT_EQ(0, arm_marked(&t, ids[i], deadline));
	}
	TH_LOG("%lu KICKs, %u minima of %u", t.kicks, minima, N);
	/* The wheel turns where its levels begin, a little earlier than it must. */
	EXPECT_GE(t.kicks, 1);
	EXPECT_LE(t.kicks, minima);
	EXPECT_EQ(N, cancel_all(fd));
	unmap_table(&t);
	close(fd);
}

/*
 * 100,000 timers that are armed by marks, to expire within a second, all expire once and in
 * time.
 */
TEST_F_TIMEOUT(marks, expire_100000, 120)
{
	enum { N = 100000 };
	struct twheel_event *ev = calloc(N, sizeof(*ev));
	__u64 *ids = calloc(N, sizeof(*ids)), *deadlines = calloc(N, sizeof(*deadlines));
	unsigned int i, round, wrong = 0;
	struct twheel_stats before, after;
	__u64 seed = 31;

	ASSERT_TRUE(ev && ids && deadlines);
	add_many(_metadata, self->fd, N, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, ids);
	/*
	 * First with deadlines so soon that the wheel turns meanwhile, then all of them in the
	 * past.
	 */
	for (round = 0; round < 2; round++) {
		unsigned int got;

		before = stats(_metadata, self->fd);
		self->t.kicks = 0;
		for (i = 0; i < N; i++) {
			__u64 start = round ? 0 : now(CLOCK_MONOTONIC) + 100 * NS_PER_MS;

			deadlines[i] = start + 1 + next_random(&seed) % NS_PER_SEC;
			if (!round) {
				wrong += arm_marked(&self->t, ids[i], deadlines[i]) != 0;
				continue;
			}
			wrong += swap_word(slot_of(&self->t, ids[i]), deadlines[i]) != 0;
			mark(&self->t, ids[i]);
		}
		if (round) {
			/* One KICK looks at all of them before it returns. */
			EXPECT_EQ(0, turn_now(self->fd));
			EXPECT_EQ(N, stats(_metadata, self->fd).unread);
		}
		got = collect(self->fd, ev, N);
		EXPECT_EQ(N, got);
		for (i = 0; i < got; i++) {
			__u64 who = ev[i].user_data;

			wrong += who >= N || ev[i].id != ids[who] ||
				 ev[i].deadline_ns != deadlines[who];
			if (who < N)
				deadlines[who] = 0;
		}
		EXPECT_EQ(0, wrong);
		EXPECT_FALSE(readable(self->fd, 0));
		after = stats(_metadata, self->fd);
		EXPECT_EQ(N, after.armings - before.armings);
		TH_LOG("%lu KICKs, %llu turns", self->t.kicks, after.wakeups - before.wakeups);
		/* N19: At most one KICK for each turn, and the first. */
		EXPECT_LE(self->t.kicks, after.wakeups - before.wakeups + 1);
	}
	free(ev);
	free(ids);
	free(deadlines);
}

/* Many threads and processes */

#define OWN	400

/* Arms its idle timers at random, by the protocol. */
struct armer {
	pthread_t thread;
	struct table t;
	const __u64 *ids;
	__u64 seed;
	bool stop;
	struct ledger l;
	unsigned long past;
};

static void *arm_at_random(void *arg)
{
	struct armer *a = arg;

	while (!stopped(&a->stop)) {
		__u64 r = next_random(&a->seed), old;
		__u64 deadline = now(CLOCK_MONOTONIC) + 1 + (r >> 16) % (20 * NS_PER_MS);

		if (r % 16 == 0) {
			deadline = now(CLOCK_MONOTONIC);
			a->past++;
		}
		if (r % 8 == 1) {
			old = disarm(&a->t, a->ids[r % OWN]);
		} else {
			old = arm_marked(&a->t, a->ids[r % OWN], deadline);
			a->l.armed++;
		}
		/* An arming that an exchange got back will not become an event. */
		a->l.got_back += old != 0;
		/*
		 * Sleep now and then: sometimes the wheel turns meanwhile, sometimes the core
		 * stays busy.
		 */
		if (r % 64 == 2)
			sleep_ns((r >> 32) % NS_PER_MS);
	}
	return NULL;
}

/*
 * Two threads arm, move and disarm their own timers at random, by the protocol, while another
 * one reads. G3, in the strict form: if a timer is armed while its event is unread, that event
 * is either withdrawn or read, once. Nothing is lost.
 */
TEST_F_TIMEOUT(marks, threads, 120)
{
	unsigned long kicks = 0, past = 0;
	struct ledger l = { 0 };
	struct armer a[2] = { 0 };
	struct twheel_stats s;
	struct twheel_event ev[64];
	__u64 ids[2 * OWN], end;
	unsigned int i;

	add_many(_metadata, self->fd, 2 * OWN, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, ids);
	for (i = 0; i < 2; i++) {
		a[i].t = self->t;
		a[i].ids = ids + i * OWN;
		a[i].seed = 41 + i;
		ASSERT_EQ(0, pthread_create(&a[i].thread, NULL, arm_at_random, &a[i]));
	}
	end = now(CLOCK_MONOTONIC) + 2 * NS_PER_SEC;
	while (now(CLOCK_MONOTONIC) < end) {
		int ret = take(self->fd, ev, ARRAY_SIZE(ev), 10);

		ASSERT_GE(ret, 0);
		l.read += ret;
	}
	for (i = 0; i < 2; i++) {
		stop_and_join(a[i].thread, &a[i].stop);
		kicks += a[i].t.kicks;
		past += a[i].past;
		add_ledger(&l, &a[i].l);
	}
	/* All armed timers expire by themselves. */
	for (;;) {
		int ret = take(self->fd, ev, ARRAY_SIZE(ev), 1000 * slowness());

		ASSERT_GE(ret, 0);
		l.read += ret;
		if (!ret)
			break;
	}
	s = stats(_metadata, self->fd);
	TH_LOG("%lu KICKs, %llu turns, %lu to the past", kicks, s.wakeups, past);
	/*
	 * Each arming was taken back by an exchange, or became an event that was read or
	 * withdrawn.
	 */
	expect_ended(_metadata, self->fd, &l);
	for (i = 0; i < 2 * OWN; i++)
		EXPECT_EQ(0, word(&self->t.slots[(__u32)ids[i]]));
	/* N19: At most one KICK for each turn, plus those for deadlines in the past. */
	EXPECT_LE(kicks, s.wakeups + past);
}

/*
 * A child that inherits the wheel can mark timers too, and parent and child see each other's
 * marks.
 */
TEST_F(marks, fork)
{
	enum { N = 64 };
	__u64 ids[N], start = now(CLOCK_MONOTONIC) + AHEAD;
	unsigned char seen[N] = { 0 };
	struct twheel_event ev[N];
	unsigned int i, wrong = 0;
	int status;
	pid_t pid;

	add_many(_metadata, self->fd, N, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, ids);
	pid = fork_child(_metadata);
	if (!pid) {
		for (i = 0; i < N; i += 2)
			wrong += arm_marked(&self->t, ids[i], start + i) != 0;
		_exit(wrong != 0);
	}
	for (i = 1; i < N; i += 2)
		wrong += arm_marked(&self->t, ids[i], start + i) != 0;
	EXPECT_EQ(0, status_of(pid));
	ASSERT_EQ(N, collect(self->fd, ev, N));
	for (i = 0; i < N; i++) {
		__u64 who = ev[i].user_data % N;

		wrong += seen[who]++ || ev[i].deadline_ns != start + who;
	}
	EXPECT_EQ(0, wrong);
	/* The parent sees the child's mark, and its KICK handles it. */
	pid = fork_child(_metadata);
	if (!pid) {
		swap_word(slot_of(&self->t, ids[5]), 1);
		mark(&self->t, ids[5]);
		_exit(0);
	}
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(is_marked(&self->t, ids[5]));
	EXPECT_EQ(0, turn_now(self->fd));
	expect_event(_metadata, self->fd, ids[5], 1);
}

/* Hostile marks */

/* Marks on slots without a timer, or beyond the last slot, have no effect. */
TEST_F(marks, free_slots)
{
	__u64 alive = reserve(_metadata, self->fd, 0), dead = reserve(_metadata, self->fd, 0);
	__u32 last = self->t.head->slots - 1;
	unsigned int i;

	EXPECT_EQ(TWHEEL_IDLE, cancel(self->fd, dead));
	for (i = 0; i < 10; i++) {
		swap_word(slot_of(&self->t, dead), 1);
		swap_word(&self->t.slots[last], 1);
		mark(&self->t, dead);
		mark(&self->t, 500);
		mark(&self->t, 5000);
		mark(&self->t, last);
		EXPECT_EQ(0, turn_now(self->fd));
		EXPECT_FALSE(readable(self->fd, 0));
		EXPECT_FALSE(is_marked(&self->t, dead));
	}
	EXPECT_EQ(0, stats(_metadata, self->fd).armings);
	/* A summary with bits for marks that do not exist. */
	memset(summary_of(&self->t, 0), 0xff, PAGE - self->t.head->summary_offset);
	EXPECT_EQ(0, turn_now(self->fd));
	EXPECT_EQ(0, arm_marked(&self->t, alive, 1));
	expect_event(_metadata, self->fd, alive, 1);
	/* An idle wheel stays idle: no turn for bits that stand for no slot. */
	EXPECT_TRUE(next_becomes(&self->t, NEVER));
	i = stats(_metadata, self->fd).wakeups;
	sleep_ms(100);
	EXPECT_EQ(i, stats(_metadata, self->fd).wakeups);
}

/* Sets all bits of the marks and of the summary, again and again, until it is killed. */
static void mark_all_for_ever(struct table *t)
{
	size_t marks = t->bytes - t->head->marks_offset;
	char *first = (char *)t->head + t->head->marks_offset;
	char *summary = (char *)t->head + t->head->summary_offset;

	for (;;) {
		memset(first, 0xff, marks);
		memset(summary, 0xff, PAGE - t->head->summary_offset);
		t->head->next_ns = NEVER;
	}
}

/*
 * G9, G8: A process that sets all marks all the time harms at most the timers of its own
 * wheel. Calls on that wheel return, its timers still expire, and another wheel is punctual.
 */
TEST_F_TIMEOUT(marks, hostile_marks, 120)
{
	enum { N = 5000, ROUNDS = 30 };
	__u64 honest, *ids = calloc(N, sizeof(*ids)), before;
	struct twheel_setup s = { .max_timers = 1 << 16 };
	int fd = open_wheel(_metadata, O_NONBLOCK);
	struct neighbor n;
	struct table t;
	unsigned int i;
	pid_t pid;

	ASSERT_TRUE(!!ids);
	ASSERT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &s));
	t = map_table(_metadata, fd);
	add_many(_metadata, fd, N, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0, ids);
	honest = ids[N / 2];
	pid = fork_child(_metadata);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		mark_all_for_ever(&t);
	}
	start_neighbor(_metadata, &n);
	for (i = 0; i < ROUNDS; i++) {
		__u64 deadline = now(CLOCK_MONOTONIC) + 5 * NS_PER_MS;
		struct twheel_event ev;

		/* The attacker has written to next_ns too, so always KICK. */
		EXPECT_EQ(0, swap_word(slot_of(&t, honest), deadline));
		mark(&t, honest);
		EXPECT_EQ(0, turn_now(fd));
		ASSERT_EQ(1, take(fd, &ev, 1, TIMEOUT_MS));
		EXPECT_EQ(honest, ev.id);
		EXPECT_EQ(deadline, ev.deadline_ns);
		add(_metadata, fd, HOUR, 0, 0);
		EXPECT_EQ(1, i % 2 ? cancel_all(fd) : expire_all(fd));
		if (i % 2 == 0)
			EXPECT_EQ(1, take(fd, &ev, 1, 0));
	}
	stop_neighbor(_metadata, &n);
	EXPECT_TRUE(killed(pid));
	EXPECT_EQ(0, cancel_all(fd));
	EXPECT_EQ(N, stats(_metadata, fd).allocated);
	/* Then the wheel becomes quiet: the marks are handled, and nothing is due. */
	sleep_ms(50 * slowness());
	before = stats(_metadata, fd).wakeups;
	sleep_ms(100);
	EXPECT_EQ(before, stats(_metadata, fd).wakeups);
	close_table(_metadata, &t);
	free(ids);
}

TEST_HARNESS_MAIN
