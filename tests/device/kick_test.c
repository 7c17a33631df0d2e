// SPDX-License-Identifier: GPL-2.0
/*
 * Arming, moving and disarming a timer with one atomic exchange, the wake_ns that the kernel
 * publishes, and the KICK that tells the kernel of earlier deadlines.
 */
#include "twheel_test.h"

#include <sys/epoll.h>

TABLE_FIXTURE(kick)

/* Moving a timer */

/* A timer that one exchange moves later expires at the new deadline, once. */
TEST_F(kick, later)
{
	__u64 old = now(CLOCK_MONOTONIC) + AHEAD, new = old + 100 * NS_PER_MS;
	__u64 id = add(_metadata, self->fd, old, TWHEEL_ABSTIME | TWHEEL_KEEP, 6);
	struct twheel_slot *slot = slot_of(&self->t, id);
	struct twheel_stats s;

	EXPECT_EQ(old, word(slot));
	EXPECT_EQ(old, swap_word(slot, new));
	EXPECT_GT(new, wake(slot));
	expect_event(_metadata, self->fd, id, new);
	EXPECT_EQ(0, word(slot));
	EXPECT_EQ(NEVER, wake(slot));
	s = stats(_metadata, self->fd);
	/* The kernel looked once, at the old deadline, and needed no verb. */
	EXPECT_EQ(1, s.moved);
	EXPECT_EQ(1, s.armings);
	EXPECT_EQ(1, s.expired);
	EXPECT_EQ(1, s.delivered);
	EXPECT_EQ(0, s.rearmed);
	EXPECT_EQ(0, s.displaced);
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
}

struct sleeper {
	pthread_t thread;
	int fd;
	pid_t tid;
	int ret;
	struct twheel_event ev;
};

static void *sleep_in_read(void *arg)
{
	struct sleeper *s = arg;

	__atomic_store_n(&s->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	s->ret = read(s->fd, &s->ev, sizeof(s->ev));
	return NULL;
}

/* Returns how often a thread has gone to sleep. */
static long long switches(pid_t tid)
{
	char path[64], line[128];
	long long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	f = fopen(path, "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %lld", &n) == 1)
			break;
	fclose(f);
	return n;
}

/* G7: A timer that is looked at and queued again wakes nobody. */
TEST_F(kick, wakes_nobody)
{
	__u64 start = now(CLOCK_MONOTONIC), deadline = start + AHEAD;
	struct sleeper s = { .fd = wheel_open(0) };
	struct twheel_slot *slot;
	struct table t;
	unsigned int i;
	long long n;
	__u64 id;

	t = map_table(_metadata, s.fd);
	id = add(_metadata, s.fd, deadline, TWHEEL_ABSTIME | TWHEEL_KEEP, 0);
	slot = slot_of(&t, id);
	ASSERT_EQ(0, pthread_create(&s.thread, NULL, sleep_in_read, &s));
	while (!__atomic_load_n(&s.tid, __ATOMIC_ACQUIRE))
		sleep_ms(1);
	sleep_ms(10);
	n = switches(s.tid);
	EXPECT_GT(n, 0);
	/* Far enough away that even on a busy host the next deadline does not come up too soon. */
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(deadline, swap_word(slot, deadline + NS_PER_SEC));
		deadline += NS_PER_SEC;
		ASSERT_TRUE(wake_becomes(slot, tick_of(&t, deadline)));
	}
	EXPECT_GE(stats(_metadata, s.fd).moved, 1);
	EXPECT_EQ(n, switches(s.tid));
	/* The thread was asleep all the time, and wakes up for this. */
	EXPECT_NE(0, arm(&t, id, 1));
	pthread_join(s.thread, NULL);
	EXPECT_EQ(sizeof(s.ev), s.ret);
	EXPECT_EQ(1, s.ev.deadline_ns);
	expect_conserved(_metadata, s.fd);
	unmap_table(&t);
	close(s.fd);
}

/* A timer that is moved earlier with a KICK expires at the new deadline. */
TEST_F(kick, earlier)
{
	__u64 id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 0);
	struct twheel_slot *slot = slot_of(&self->t, id);
	__u64 deadline = now(CLOCK_MONOTONIC) + AHEAD;

	EXPECT_NE(0, swap_word(slot, deadline));
	EXPECT_LE(deadline, wake(slot));
	EXPECT_EQ(0, kick(&self->t, id));
	EXPECT_EQ(tick_of(&self->t, deadline), wake(slot));
	EXPECT_EQ(deadline, word(slot));
	expect_event(_metadata, self->fd, id, deadline);
}

/*
 * A timer that is moved earlier without a KICK expires not before the new deadline, nor after
 * the old one.
 */
TEST_F(kick, earlier_without_kick)
{
	__u64 old = now(CLOCK_MONOTONIC) + AHEAD, new = old - 300 * NS_PER_MS;
	__u64 id = add(_metadata, self->fd, old, TWHEEL_ABSTIME, 0);

	EXPECT_EQ(old, swap_word(slot_of(&self->t, id), new));
	expect_event(_metadata, self->fd, id, new);
}

/* A timer that is moved into the past with a KICK expires at once, and keeps its deadline. */
TEST_F(kick, moved_to_past)
{
	__u64 id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 0), start;
	static const __u64 deadlines[] = { 1, NS_PER_MS };
	struct twheel_event ev;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(deadlines); i++) {
		start = now(CLOCK_MONOTONIC);
		arm(&self->t, id, deadlines[i]);
		EXPECT_EQ(1, take(self->fd, &ev, 1, 0));
		EXPECT_EQ(deadlines[i], ev.deadline_ns);
		EXPECT_GE(ev.expired_ns, start);
		EXPECT_EQ(1, ev.expirations);
	}
	/* The lateness is that of the deadline that the timer was waiting for. */
	EXPECT_LT(stats(_metadata, self->fd).worst_lateness_ns, now(CLOCK_MONOTONIC) / 2);
	EXPECT_EQ(2, self->t.kicks);
}

/* The deadline ~0 never comes, and a move away from it needs a KICK. */
TEST_F(kick, never)
{
	__u64 id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 0);
	struct twheel_slot *slot = slot_of(&self->t, id);
	__u64 deadline;

	EXPECT_NE(0, swap_word(slot, NEVER));
	EXPECT_EQ(0, kick(&self->t, id));
	EXPECT_EQ(NEVER, wake(slot));
	EXPECT_EQ(NEVER, word(slot));
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, id));
	EXPECT_EQ(1, stats(_metadata, self->fd).armed);
	deadline = now(CLOCK_MONOTONIC) + 20 * NS_PER_MS;
	EXPECT_EQ(NEVER, arm(&self->t, id, deadline));
	EXPECT_EQ(1, self->t.kicks);
	expect_event(_metadata, self->fd, id, deadline);
	/* The last moment before that is a deadline like any other. */
	EXPECT_EQ(0, arm(&self->t, id, NEVER - 2));
	EXPECT_EQ(NEVER - 2, word(slot));
	EXPECT_EQ(tick_of(&self->t, NEVER - 2), wake(slot));
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	EXPECT_EQ(NEVER - 2, disarm(&self->t, id));
}

/* Verbs and looks treat a parked word as 0. As the deadline of a verb it means never. */
TEST_F(kick, parked)
{
	static const __u32 keep[] = { TWHEEL_KEEP, 0 };
	__u64 deadline, id;
	unsigned int i;

	EXPECT_EQ(NEVER - 1, TWHEEL_PARKED);
	EXPECT_TRUE(info(_metadata, self->fd).features & TWHEEL_FEATURE_PARKED);
	EXPECT_TRUE(self->t.head->features & TWHEEL_FEATURE_PARKED);
	for (i = 0; i < ARRAY_SIZE(keep); i++) {
		struct twheel_slot *slot;
		struct twheel_timer listed;
		__u32 cursor = 0;

		deadline = now(CLOCK_MONOTONIC) + AHEAD;
		id = add(_metadata, self->fd, deadline, TWHEEL_ABSTIME | keep[i], 0);
		slot = slot_of(&self->t, id);
		EXPECT_EQ(deadline, swap_word(slot, TWHEEL_PARKED));
		expect_timer(_metadata, self->fd, id, TWHEEL_IDLE, 0);
		EXPECT_EQ(1, list(self->fd, &listed, 1, &cursor));
		EXPECT_EQ(TWHEEL_IDLE, listed.state);
		EXPECT_EQ(0, listed.deadline_ns);
		/* The look takes the timer off the wheel, and no event comes. */
		EXPECT_TRUE(wake_becomes(slot, NEVER));
		EXPECT_EQ(0, stats(_metadata, self->fd).armed);
		EXPECT_FALSE(readable(self->fd, QUIET_MS));
		EXPECT_EQ(TWHEEL_PARKED, word(slot));
		/* Armed again, it needs a KICK, and expires. */
		deadline = now(CLOCK_MONOTONIC) + AHEAD;
		EXPECT_EQ(TWHEEL_PARKED, arm(&self->t, id, deadline));
		EXPECT_EQ(TWHEEL_ARMED, state(self->fd, id));
		EXPECT_NE(0, swap_word(slot, TWHEEL_PARKED));
		EXPECT_EQ(0, kick(&self->t, id));
		EXPECT_EQ(NEVER, wake(slot));
		EXPECT_EQ(TWHEEL_IDLE, rearm(self->fd, id, HOUR, keep[i]));
		EXPECT_NE(0, swap_word(slot, TWHEEL_PARKED));
		EXPECT_EQ(TWHEEL_IDLE, cancel(self->fd, id));
		expect_conserved(_metadata, self->fd);
	}
	/* Parked by a verb. */
	id = add(_metadata, self->fd, TWHEEL_PARKED, TWHEEL_ABSTIME | TWHEEL_KEEP, 0);
	EXPECT_EQ(NEVER, word(slot_of(&self->t, id)));
	EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, id, TWHEEL_PARKED, TWHEEL_ABSTIME | TWHEEL_KEEP));
	EXPECT_EQ(NEVER, word(slot_of(&self->t, id)));
	EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, id));
}

/* wake_ns is the start of the tick that contains the deadline. */
TEST_F(kick, wake_is_start_of_tick)
{
	__u64 border = (now(CLOCK_MONOTONIC) + HOUR) & ~(self->t.tick - 1);
	static const long long offsets[] = { -2, -1, 0, 1, 2, DEFAULT_TICK - 1, DEFAULT_TICK };
	__u64 id = reserve(_metadata, self->fd, 0);
	struct twheel_slot *slot = slot_of(&self->t, id);
	unsigned int i, by_ioctl;

	for (by_ioctl = 0; by_ioctl < 2; by_ioctl++) {
		for (i = 0; i < ARRAY_SIZE(offsets); i++) {
			__u64 deadline = border + offsets[i];

			if (by_ioctl) {
				ASSERT_GE(rearm(self->fd, id, deadline,
						TWHEEL_ABSTIME | TWHEEL_KEEP), 0);
			} else {
				swap_word(slot, deadline);
				ASSERT_EQ(0, kick(&self->t, id));
			}
			EXPECT_LT(wake(slot), deadline);
			EXPECT_GE(wake(slot) + self->t.tick, deadline);
			EXPECT_EQ(0, wake(slot) % self->t.tick);
		}
	}
}

/*
 * wake_ns is ~0 whenever the kernel will not look: while the timer is reserved, expired, read
 * or disarmed.
 */
TEST_F(kick, wake_when_not_armed)
{
	__u64 id = reserve(_metadata, self->fd, 0);
	struct twheel_slot *slot = slot_of(&self->t, id);
	struct twheel_event ev;
	struct twheel_timer t;

	EXPECT_EQ(NEVER, wake(slot));
	EXPECT_EQ(0, word(slot));
	arm(&self->t, id, now(CLOCK_MONOTONIC) + AHEAD);
	EXPECT_NE(NEVER, wake(slot));
	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	EXPECT_EQ(NEVER, wake(slot));
	EXPECT_EQ(0, word(slot));
	EXPECT_EQ(1, take(self->fd, &ev, 1, 0));
	EXPECT_EQ(NEVER, wake(slot));

	/*
	 * Disarmed through the table: wake_ns changes once the old deadline has come up, or at
	 * a KICK.
	 */
	arm(&self->t, id, now(CLOCK_MONOTONIC) + AHEAD);
	EXPECT_NE(0, disarm(&self->t, id));
	EXPECT_TRUE(wake_becomes(slot, NEVER));
	arm(&self->t, id, now(CLOCK_MONOTONIC) + HOUR);
	EXPECT_NE(0, disarm(&self->t, id));
	EXPECT_NE(NEVER, wake(slot));
	EXPECT_EQ(0, kick(&self->t, id));
	EXPECT_EQ(NEVER, wake(slot));
	/* Disarmed by ioctl: wake_ns changes at once. */
	arm(&self->t, id, now(CLOCK_MONOTONIC) + HOUR);
	EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, id, 0, TWHEEL_KEEP | TWHEEL_DISARMED));
	EXPECT_EQ(NEVER, wake(slot));
	EXPECT_EQ(0, word(slot));
	arm(&self->t, id, now(CLOCK_MONOTONIC) + HOUR);
	EXPECT_EQ(0, cancel_timer(self->fd, id, &t));
	EXPECT_EQ(NEVER, wake(slot));
	EXPECT_EQ(0, word(slot));
}

/*
 * The earliest deadline that needs no KICK expires in time. A deadline at wake_ns itself does
 * need one.
 */
TEST_F(kick, deadline_at_wake_ns)
{
	unsigned int i;

	for (i = 0; i < 5; i++) {
		__u64 id = add(_metadata, self->fd, AHEAD, TWHEEL_KEEP, 0);
		struct twheel_slot *slot = slot_of(&self->t, id);
		__u64 deadline = wake(slot) + 1;

		EXPECT_NE(0, swap_word(slot, deadline));
		EXPECT_EQ(deadline - 1, wake(slot));
		expect_event(_metadata, self->fd, id, deadline);
		EXPECT_EQ(TWHEEL_IDLE, cancel(self->fd, id));
	}
	/* A deadline at wake_ns itself: only a KICK has the wheel look one tick earlier. */
	for (i = 0; i < 20; i++) {
		__u64 id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 0);
		struct twheel_slot *slot = slot_of(&self->t, id);
		__u64 deadline = wake(slot);

		EXPECT_NE(0, swap_word(slot, deadline));
		EXPECT_EQ(0, kick(&self->t, id));
		EXPECT_EQ(deadline - self->t.tick, wake(slot));
		EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, id));
	}
}

/*
 * The kernel writes wake_ns but never reads it, so a program that overwrites it confuses only
 * itself.
 */
TEST_F(kick, wake_is_not_read)
{
	static const __u64 values[] = { 0, 1, NEVER, NEVER - 1, 0x0123456789abcdef };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		__u64 id = add(_metadata, self->fd, AHEAD / 2, TWHEEL_KEEP, 0);
		struct twheel_slot *slot = slot_of(&self->t, id);
		__u64 deadline = word(slot) + AHEAD;

		__atomic_store_n(&slot->wake_ns, values[i], __ATOMIC_SEQ_CST);
		EXPECT_NE(0, swap_word(slot, deadline));
		/* The kernel looked at the old deadline, and published wake_ns again. */
		EXPECT_TRUE(wake_becomes(slot, tick_of(&self->t, deadline)));
		__atomic_store_n(&slot->wake_ns, values[i], __ATOMIC_SEQ_CST);
		expect_event(_metadata, self->fd, id, deadline);
		EXPECT_EQ(NEVER, wake(slot));
		__atomic_store_n(&slot->wake_ns, values[i], __ATOMIC_SEQ_CST);
		EXPECT_EQ(TWHEEL_IDLE, rearm(self->fd, id, HOUR, TWHEEL_KEEP));
		EXPECT_EQ(tick_of(&self->t, word(slot)), wake(slot));
		EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, id));
	}
}

/* Disarming a timer, and arming an idle one */

/* Disarming by one exchange returns the old deadline, and no event comes. */
TEST_F(kick, disarm)
{
	static const __u32 keep[] = { TWHEEL_KEEP, 0 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(keep); i++) {
		__u64 old = now(CLOCK_MONOTONIC) + AHEAD, deadline;
		__u64 id = add(_metadata, self->fd, old, TWHEEL_ABSTIME | keep[i], 0);

		EXPECT_EQ(old, disarm(&self->t, id));
		EXPECT_EQ(0, disarm(&self->t, id));
		expect_timer(_metadata, self->fd, id, TWHEEL_IDLE, 0);
		EXPECT_TRUE(wake_becomes(slot_of(&self->t, id), NEVER));
		EXPECT_FALSE(readable(self->fd, QUIET_MS));
		EXPECT_EQ(0, stats(_metadata, self->fd).armed);
		EXPECT_EQ(TWHEEL_IDLE, state(self->fd, id));
		/* The timer still exists, kept or not, and can be armed again. */
		deadline = now(CLOCK_MONOTONIC) + 20 * NS_PER_MS;
		EXPECT_EQ(0, swap_word(slot_of(&self->t, id), deadline));
		EXPECT_EQ(0, kick(&self->t, id));
		expect_event(_metadata, self->fd, id, deadline);
		EXPECT_EQ(keep[i] ? (int)TWHEEL_IDLE : -ENOENT, state(self->fd, id));
	}
}

/*
 * A timer that is armed again before the kernel noticed: a deadline after wake_ns needs no
 * KICK.
 */
TEST_F(kick, disarm_and_arm)
{
	__u64 old = now(CLOCK_MONOTONIC) + AHEAD, new = old + 40 * NS_PER_MS;
	__u64 id = add(_metadata, self->fd, old, TWHEEL_ABSTIME, 0);

	EXPECT_EQ(old, disarm(&self->t, id));
	EXPECT_EQ(0, arm(&self->t, id, new));
	EXPECT_EQ(0, self->t.kicks);
	expect_event(_metadata, self->fd, id, new);
}

/* Short-lived timers on a slot that is still queued are armed and disarmed without any KICK. */
TEST_F(kick, pairs_without_kick)
{
	__u64 id = add(_metadata, self->fd, AHEAD, TWHEEL_KEEP, 0);
	unsigned int i, lost = 0;

	EXPECT_NE(0, disarm(&self->t, id));
	for (i = 0; i < 1000; i++) {
		__u64 deadline = now(CLOCK_MONOTONIC) + 2 * AHEAD + i;

		lost += arm(&self->t, id, deadline) != 0;
		lost += disarm(&self->t, id) != deadline;
	}
	EXPECT_EQ(0, lost);
	/* At most as often as the kernel found the timer disarmed, which wakes nobody either. */
	EXPECT_LE(self->t.kicks, 20);
	EXPECT_FALSE(readable(self->fd, 2 * AHEAD / NS_PER_MS + QUIET_MS));
	EXPECT_EQ(0, stats(_metadata, self->fd).expired);
}

/* A reserved timer can be armed through the table. */
TEST_F(kick, reserved)
{
	__u64 id = reserve(_metadata, self->fd, 0xfeed);
	__u64 deadline = now(CLOCK_MONOTONIC) + AHEAD;
	struct twheel_event ev;

	EXPECT_EQ(0, swap_word(slot_of(&self->t, id), deadline));
	EXPECT_LE(deadline, wake(slot_of(&self->t, id)));
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, id));
	EXPECT_EQ(0, kick(&self->t, id));
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(id, ev.id);
	EXPECT_EQ(0xfeed, ev.user_data);
	EXPECT_EQ(deadline, ev.deadline_ns);
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, id));
	/* One arming, which ended once. */
	EXPECT_EQ(1, stats(_metadata, self->fd).armings);
}

/* Without KEEP the event ends the timer, however it was armed, and its slot shows that. */
TEST_F(kick, not_kept)
{
	__u64 id = add(_metadata, self->fd, HOUR, 0, 0), deadline;
	struct twheel_slot *slot = slot_of(&self->t, id);

	deadline = now(CLOCK_MONOTONIC) + 10 * NS_PER_MS;
	EXPECT_NE(0, arm(&self->t, id, deadline));
	expect_event(_metadata, self->fd, id, deadline);
	EXPECT_EQ(-ENOENT, state(self->fd, id));
	EXPECT_EQ(0, stats(_metadata, self->fd).allocated);
	EXPECT_EQ(0, word(slot));
	EXPECT_EQ(NEVER, wake(slot));
	/* An exchange on the slot now finds no timer there. */
	EXPECT_EQ(0, swap_word(slot, 1));
	EXPECT_EQ(0, kick(&self->t, id));
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	/* The next timer in that slot has its own deadline. */
	id = add(_metadata, self->fd, HOUR, 0, 0);
	EXPECT_EQ(slot, slot_of(&self->t, id));
	EXPECT_GT(word(slot), now(CLOCK_MONOTONIC));
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, id));
}

/* G6: Timers that are armed by exchange expire in the order of their ticks, like any others. */
TEST_F(kick, order)
{
	enum { N = 200 };
	__u64 ahead = AHEAD, start, seed = 11, last = 0;
	struct twheel_event ev[N];
	__u32 slots[N];
	unsigned int i;

	for (i = 0; i < N; i++)
		slots[i] = i % 2 ? reserve(_metadata, self->fd, i) :
				   add(_metadata, self->fd, HOUR, 0, i);
	/*
	 * Arm all of them before the first is due, because timers that are already due expire
	 * in the order of the KICKs.
	 */
	do {
		start = now(CLOCK_MONOTONIC) + ahead;
		for (i = 0; i < N; i++)
			swap_word(slot_of(&self->t, slots[i]),
				  start + next_random(&seed) % (80 * NS_PER_MS));
		EXPECT_EQ(0, kick_slots(&self->t, slots, N));
		ahead *= 2;
	} while (now(CLOCK_MONOTONIC) >= start);
	ASSERT_EQ(N, collect(self->fd, ev, N));
	for (i = 0; i < N; i++) {
		__u64 tick = (ev[i].deadline_ns + self->t.tick - 1) / self->t.tick;

		EXPECT_GE(tick, last);
		last = tick;
	}
}

/* Unread expirations */

/* Disarming a timer that has expired is too late: the exchange returns 0, and the event stays. */
TEST_F(kick, disarm_unread)
{
	__u64 id = add(_metadata, self->fd, 0, TWHEEL_KEEP, 0);

	EXPECT_EQ(0, disarm(&self->t, id));
	EXPECT_EQ(TWHEEL_EXPIRED, state(self->fd, id));
	EXPECT_EQ(0, kick(&self->t, id));
	EXPECT_EQ(TWHEEL_EXPIRED, state(self->fd, id));
	EXPECT_TRUE(readable(self->fd, 0));
	EXPECT_EQ(TWHEEL_EXPIRED, cancel(self->fd, id));
	EXPECT_FALSE(readable(self->fd, 0));
}

/*
 * G6: read() withdraws nothing. Of a thousand unread timers, every other one is armed anew
 * without a KICK: each event is read once, and then the new armings are in effect.
 */
TEST_F(kick, unread_and_armed_without_kick)
{
	enum { N = 1000 };
	unsigned char seen[N] = { 0 };
	struct twheel_event ev[64];
	unsigned int i, wrong = 0;
	__u64 ids[N], later = now(CLOCK_MONOTONIC) + HOUR;
	int ret, k;

	add_many(_metadata, self->fd, N, 0, TWHEEL_KEEP, 0, ids);
	EXPECT_EQ(N, stats(_metadata, self->fd).unread);
	for (i = 0; i < N; i += 2)
		EXPECT_EQ(0, swap_word(slot_of(&self->t, ids[i]), later + i));
	while ((ret = take(self->fd, ev, ARRAY_SIZE(ev), 0)) > 0)
		for (k = 0; k < ret; k++)
			seen[ev[k].user_data % N]++;
	for (i = 0; i < N; i++)
		wrong += seen[i] != 1;
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(N / 2, stats(_metadata, self->fd).armed);
	EXPECT_EQ(0, stats(_metadata, self->fd).withdrawn);
	for (i = 0; i < N; i += 2)
		wrong += wake(slot_of(&self->t, ids[i])) != tick_of(&self->t, later + i);
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(N / 2, cancel_all(self->fd));
}

/*
 * G3: A timer is armed while its event is unread: the new event comes after the old one,
 * whether due by then or not.
 */
TEST_F(kick, armed_while_unread)
{
	__u64 id = add(_metadata, self->fd, 0, TWHEEL_KEEP, 0);
	__u64 soon = now(CLOCK_MONOTONIC) + AHEAD;
	struct twheel_event ev[2];

	/* Read one event at a time, because a read of two would also return the other. */
	EXPECT_EQ(0, swap_word(slot_of(&self->t, id), 5));
	ASSERT_EQ(1, take(self->fd, ev, 1, 0));
	EXPECT_NE(5, ev[0].deadline_ns);
	EXPECT_EQ(0, swap_word(slot_of(&self->t, id), soon));
	EXPECT_EQ(5, next_event(_metadata, self->fd, 0).deadline_ns);
	expect_event(_metadata, self->fd, id, soon);
	EXPECT_EQ(0, stats(_metadata, self->fd).withdrawn);
	/* A timer that is not kept ends with its event, unless its word is armed. */
	id = add(_metadata, self->fd, 0, 0, 0);
	soon = now(CLOCK_MONOTONIC) + AHEAD;
	EXPECT_EQ(0, swap_word(slot_of(&self->t, id), soon));
	ASSERT_EQ(1, take(self->fd, ev, 2, 0));
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, id));
	expect_event(_metadata, self->fd, id, soon);
	EXPECT_EQ(-ENOENT, state(self->fd, id));
}

/*
 * G4: One call reads all events that are ready, even under a storm of signals, whether the
 * timers have been armed since or not, and whether the descriptor blocks or not.
 */
TEST_F(kick, read_under_signals)
{
	enum { N = 3000, ROUNDS = 4 };
	static struct twheel_event ev[N];
	static __u64 ids[N];
	unsigned int round, i;

	catch_signal(SIGALRM, 0);
	for (round = 0; round < ROUNDS; round++) {
		unsigned int wrong = 0;

		ASSERT_EQ(0, fcntl(self->fd, F_SETFL, round % 2 ? O_NONBLOCK : 0));
		add_many(_metadata, self->fd, N, 0, TWHEEL_KEEP, 0, ids);
		for (i = 0; i < N; i += 3)
			EXPECT_EQ(0, swap_word(slot_of(&self->t, ids[i]),
					       now(CLOCK_MONOTONIC) + HOUR));
		signal_every(100);
		EXPECT_EQ((int)sizeof(ev), read_events(self->fd, ev, sizeof(ev)));
		signal_every(0);
		for (i = 0; i < N; i++) {
			wrong += ev[i].id != ids[i];
			wrong += cancel(self->fd, ids[i]) != (int)(i % 3 ? TWHEEL_IDLE :
								   TWHEEL_ARMED);
		}
		EXPECT_EQ(0, wrong);
	}
}

/*
 * An unread event of a periodic timer stays when an exchange disarms the timer. G6: poll and read
 * withdraw nothing; a KICK withdraws the events of marked slots.
 */
TEST_F(kick, disarmed_unread_stays)
{
	__u64 id = add_periodic(_metadata, self->fd, NS_PER_MS, HOUR, TWHEEL_KEEP);
	__u64 other = add_periodic(_metadata, self->fd, NS_PER_MS, HOUR, TWHEEL_KEEP);
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct twheel_event ev;

	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, self->fd, &event));
	while (stats(_metadata, self->fd).unread < 2)
		ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	EXPECT_NE(0, disarm(&self->t, id));
	EXPECT_NE(0, disarm(&self->t, other));
	EXPECT_TRUE(readable(self->fd, 0));
	EXPECT_EQ(1, epoll_wait(epoll, &event, 1, 0));
	/* This KICK finds no marks. */
	EXPECT_EQ(0, turn_now(self->fd));
	EXPECT_EQ(2, stats(_metadata, self->fd).unread);
	EXPECT_EQ(0, kick(&self->t, id));
	EXPECT_EQ(1, stats(_metadata, self->fd).withdrawn);
	EXPECT_TRUE(readable(self->fd, 0));
	EXPECT_EQ(1, take(self->fd, &ev, 1, 0));
	EXPECT_EQ(other, ev.id);
	EXPECT_EQ(1, ev.expirations);
	EXPECT_FALSE(readable(self->fd, 0));
	EXPECT_EQ(0, epoll_wait(epoll, &event, 1, 0));
	EXPECT_EQ(0, stats(_metadata, self->fd).unread);
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, other));
	EXPECT_EQ(-EAGAIN, errno_of(read(self->fd, &ev, sizeof(ev))));
	/* Armed again, the timer expires and is reported. */
	EXPECT_EQ(0, arm(&self->t, id, now(CLOCK_MONOTONIC) + NS_PER_MS));
	EXPECT_EQ(1, epoll_wait(epoll, &event, 1, TIMEOUT_MS));
	EXPECT_EQ(id, next_event(_metadata, self->fd, 0).id);
	close(epoll);
}

/* The same with more timers than the kernel looks at under one hold of the lock. */
TEST_F(kick, many_disarmed_unread)
{
	enum { N = 1000 };
	unsigned int i, armed = 0;
	__u32 slots[N];
	__u64 ids[N];

	for (i = 0; i < N; i++) {
		ids[i] = add_periodic(_metadata, self->fd, NS_PER_MS, HOUR, TWHEEL_KEEP);
		slots[i] = ids[i];
	}
	while (stats(_metadata, self->fd).unread < N)
		ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	for (i = 0; i < N; i++)
		armed += disarm(&self->t, ids[i]) != 0;
	EXPECT_EQ(N, armed);
	EXPECT_TRUE(readable(self->fd, 0));
	EXPECT_EQ(N, stats(_metadata, self->fd).unread);
	EXPECT_EQ(0, kick_slots(&self->t, slots, N));
	EXPECT_FALSE(readable(self->fd, 0));
	EXPECT_EQ(0, stats(_metadata, self->fd).unread);
	EXPECT_EQ(N, stats(_metadata, self->fd).withdrawn);
}

/* The KICK ioctl */

/* A look at an unchanged timer changes nothing. */
TEST_F(kick, unchanged_timer)
{
	__u64 armed = add(_metadata, self->fd, HOUR, 0, 0);
	__u64 unread = add(_metadata, self->fd, 0, TWHEEL_KEEP, 0);
	__u64 idle = reserve(_metadata, self->fd, 0);
	__u64 periodic = add_periodic(_metadata, self->fd, 0, HOUR, 0);
	__u32 slots[] = { armed, unread, idle, periodic };
	struct twheel_stats before = stats(_metadata, self->fd), after;
	unsigned int i;

	for (i = 0; i < 100; i++)
		EXPECT_EQ(0, kick_slots(&self->t, slots, ARRAY_SIZE(slots)));
	after = stats(_metadata, self->fd);
	EXPECT_TRUE(same_counts(&before, &after));
	EXPECT_EQ(before.moved, after.moved);
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, armed));
	EXPECT_EQ(TWHEEL_EXPIRED, state(self->fd, unread));
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, idle));
	EXPECT_EQ(TWHEEL_EXPIRED, state(self->fd, periodic));
}

/* KICK needs no mapping. Without a mapping nothing has changed, so it does nothing. */
TEST_F(kick, without_mapping)
{
	int fd = wheel_open(O_NONBLOCK);
	__u64 id = add(_metadata, fd, HOUR, 0, 0);

	EXPECT_EQ(0, turn_now(fd));
	EXPECT_EQ(TWHEEL_ARMED, state(fd, id));
	close(fd);
}

/* Timers that came due expire before those that a KICK makes expire at once. */
TEST_F(kick, due_before_kicked)
{
	struct twheel_event ev[2];
	unsigned int i;
	__u64 kicked;

	kicked = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 1);
	for (i = 0; i < 50; i++) {
		__u64 due = add(_metadata, self->fd, NS_PER_MS + i * 20000, TWHEEL_KEEP, 0);
		__u64 end = word(slot_of(&self->t, due)) + self->t.tick;
		__u64 tick_end = tick_of(&self->t, end) + self->t.tick;
		bool swapped;

		/* Wait until about the moment at which the timer expires by itself. */
		while (now(CLOCK_MONOTONIC) < end)
			;
		arm(&self->t, kicked, now(CLOCK_MONOTONIC));
		ASSERT_EQ(2, collect(self->fd, ev, 2));
		/*
		 * If the hrtimer is late, the KICK may expire both within the tick of the first,
		 * and timers that expire at the same tick come in any order.
		 */
		swapped = ev[0].id == kicked && ev[0].expired_ns == ev[1].expired_ns &&
			  ev[0].expired_ns < tick_end;
		EXPECT_EQ(due, ev[swapped].id);
		EXPECT_EQ(kicked, ev[!swapped].id);
		EXPECT_EQ(TWHEEL_IDLE, cancel(self->fd, due));
	}
}

/* Slack */

/* A timer keeps its slack when it is moved by exchange. */
TEST_F(kick, slack)
{
	/* The width of a bucket of the second level, which is not wider than the slack. */
	const __u64 width = DEFAULT_TICK << 6;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		struct twheel_timer t = {
			.deadline_ns = now(CLOCK_MONOTONIC) + AHEAD,
			.slack_ns = 40 * NS_PER_MS,
			.flags = TWHEEL_ABSTIME | TWHEEL_KEEP,
		};
		struct twheel_event ev;
		__u64 deadline, looks, old = 1;

		ASSERT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
		looks = wake(slot_of(&self->t, t.id));
		deadline = t.deadline_ns + (i + 1) * 231 * NS_PER_MS;
		/* The first half is moved later; the others are disarmed first. */
		if (i >= 2)
			old = disarm(&self->t, t.id);
		arm(&self->t, t.id, deadline);
		if (now(CLOCK_MONOTONIC) >= t.deadline_ns) {
			/* The machine stood still: try again. */
			EXPECT_GE(cancel(self->fd, t.id), 0);
			i--;
			continue;
		}
		EXPECT_EQ(tick_of(&self->t, t.deadline_ns), looks);
		EXPECT_NE(0, old);
		ASSERT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
		EXPECT_EQ(deadline, ev.deadline_ns);
		/* At the border of a bucket, together with all others of that bucket. */
		EXPECT_GE(ev.expired_ns, (deadline + width - 1) / width * width);
		EXPECT_EQ(0, get_timer(self->fd, t.id, &t));
		EXPECT_EQ(40 * NS_PER_MS, t.slack_ns);
	}
}

/* Lateness */

static void sleep_until(__u64 end)
{
	__u64 start = now(CLOCK_MONOTONIC);

	if (end > start)
		sleep_ns(end - start);
}

/* Lateness is counted once, from the deadline that the timer was moved to, later or earlier. */
TEST_F(kick, lateness)
{
	__u64 start = now(CLOCK_MONOTONIC), worst = 0, sum = 0;
	__u64 id = add(_metadata, self->fd, start + AHEAD, TWHEEL_ABSTIME | TWHEEL_KEEP, 0);
	static const int moves[] = { AHEAD / NS_PER_MS, -100 };
	struct twheel_event ev;
	struct twheel_stats s;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(moves); i++) {
		__u64 deadline = now(CLOCK_MONOTONIC) + AHEAD;

		arm(&self->t, id, deadline);
		deadline += moves[i] * (long long)NS_PER_MS;
		EXPECT_NE(0, arm(&self->t, id, deadline));
		ASSERT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
		EXPECT_EQ(deadline, ev.deadline_ns);
		if (ev.expired_ns - ev.deadline_ns > worst)
			worst = ev.expired_ns - ev.deadline_ns;
		EXPECT_EQ(worst, stats(_metadata, self->fd).worst_lateness_ns);
	}
	s = stats(_metadata, self->fd);
	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++)
		sum += s.lateness[i];
	EXPECT_EQ(ARRAY_SIZE(moves), sum);
}

/*
 * 20,000 timers with a timeout of 600 ms get heartbeats for a second, while the wheel turns.
 * Those whose heartbeats stop expire. No other timer expires unless its heartbeat was late,
 * and no event is for a deadline that was moved away.
 */
TEST_F_TIMEOUT(kick, heartbeats, 120)
{
	enum { N = 20000, STEP = 400, ROUNDS = 10 };
	__u64 *ids = calloc(N, sizeof(*ids));
	__u64 *last = calloc(N, sizeof(*last));
	unsigned int i, round, wrong = 0, early = 0, got = 0, stopped = 0;
	struct twheel_event ev[64];
	int ret, k;

	ASSERT_TRUE(ids && last);
	add_many(_metadata, self->fd, N, 600 * NS_PER_MS, TWHEEL_KEEP, 0, ids);
	for (i = 0; i < N; i++)
		last[i] = word(slot_of(&self->t, ids[i]));
	for (round = 0; round < ROUNDS || stopped < N / STEP; round++) {
		__u64 start = now(CLOCK_MONOTONIC);

		for (i = 0; i < N && round < ROUNDS; i++) {
			__u64 next = start + 600 * NS_PER_MS + i, old;

			if (round && i % STEP == 0)
				continue;
			old = arm(&self->t, ids[i], next);
			wrong += old && old != last[i];
			/* 0 only if the timer had expired, and then that event is withdrawn. */
			early += !old && last[i] > now(CLOCK_MONOTONIC);
			last[i] = next;
		}
		if (round < ROUNDS)
			sleep_until(start + 100 * NS_PER_MS);
		ret = take(self->fd, ev, ARRAY_SIZE(ev), round < ROUNDS ? 0 : TIMEOUT_MS);
		ASSERT_GE(ret, 0);
		if (round > ROUNDS)
			ASSERT_GT(ret, 0);
		for (k = 0; k < ret; k++) {
			__u64 who = ev[k].user_data % N;

			early += ev[k].expired_ns < ev[k].deadline_ns;
			wrong += ev[k].deadline_ns != last[who];
			stopped += who % STEP == 0;
			got++;
		}
	}
	TH_LOG("%u events, %lu KICKs", got, self->t.kicks);
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, early);
	EXPECT_EQ(N / STEP, stopped);
	free(last);
	free(ids);
}

TEST_HARNESS_MAIN
