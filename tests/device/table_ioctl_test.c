// SPDX-License-Identifier: GPL-2.0
/*
 * The table and the ioctls show the same timers: an ioctl finds what was done through the
 * table, and the other way round. Periodic timers and clocks through the table.
 */
#include "twheel_test.h"

FIXTURE(table_ioctl) {
	int fd;
	struct table t;
	/* A distant deadline that is not a round number. */
	__u64 later;
};

FIXTURE_SETUP(table_ioctl)
{
	self->fd = open_wheel(_metadata, O_NONBLOCK);
	self->t = map_table(_metadata, self->fd);
	self->later = now(CLOCK_MONOTONIC) + HOUR + 12345;
}

TABLE_TEARDOWN(table_ioctl)

/* Expects read() to find nothing, and poll() to agree. */
static bool nothing_to_read(int fd)
{
	struct twheel_event ev;

	return !readable(fd, 0) && read(fd, &ev, sizeof(ev)) == -1 && errno == EAGAIN;
}

/* A deadline that an ioctl has set is in the word, and the start of its tick in wake_ns. */
TEST_F(table_ioctl, ioctl_sets_word)
{
	struct twheel_timer t = { .deadline_ns = HOUR, .flags = TWHEEL_KEEP };
	struct twheel_slot *slot;

	ASSERT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	slot = slot_of(&self->t, t.id);
	EXPECT_EQ(t.deadline_ns, word(slot));
	EXPECT_EQ(tick_of(&self->t, t.deadline_ns), wake(slot));
	EXPECT_EQ(0, rearm_timer(self->fd, t.id, 2 * HOUR, TWHEEL_KEEP, &t));
	EXPECT_EQ(t.deadline_ns, word(slot));
	EXPECT_EQ(tick_of(&self->t, t.deadline_ns), wake(slot));
	EXPECT_EQ(0, rearm_timer(self->fd, t.id, NEVER, TWHEEL_KEEP, &t));
	EXPECT_EQ(NEVER, word(slot));
	EXPECT_EQ(NEVER, wake(slot));
	/* A timer that has expired has no deadline any more. */
	EXPECT_EQ(0, rearm_timer(self->fd, t.id, 0, TWHEEL_KEEP, &t));
	EXPECT_EQ(0, word(slot));
	EXPECT_EQ(NEVER, wake(slot));
	EXPECT_EQ(TWHEEL_EXPIRED, cancel(self->fd, t.id));
	EXPECT_EQ(0, word(slot));
	EXPECT_EQ(NEVER, wake(slot));
}

/* GET and LIST report what the word says, whether or not the kernel has been kicked. */
TEST_F(table_ioctl, get_and_list)
{
	__u64 moved = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 1);
	__u64 disarmed = add(_metadata, self->fd, HOUR, 0, 2);
	__u64 armed = reserve(_metadata, self->fd, 3);
	struct twheel_timer t[4];
	__u32 cursor = 0;
	unsigned int i;

	swap_word(slot_of(&self->t, moved), self->later);
	swap_word(slot_of(&self->t, disarmed), 0);
	swap_word(slot_of(&self->t, armed), self->later + 1);
	expect_timer(_metadata, self->fd, moved, TWHEEL_ARMED, self->later);
	expect_timer(_metadata, self->fd, disarmed, TWHEEL_IDLE, 0);
	expect_timer(_metadata, self->fd, armed, TWHEEL_ARMED, self->later + 1);

	EXPECT_EQ(3, list(self->fd, t, 4, &cursor));
	for (i = 0; i < 3; i++) {
		static const __u32 states[] = { TWHEEL_ARMED, TWHEEL_IDLE, TWHEEL_ARMED };
		const __u64 deadlines[] = { self->later, 0, self->later + 1 };

		EXPECT_EQ(i + 1, t[i].user_data);
		EXPECT_EQ(states[i], t[i].state);
		EXPECT_EQ(deadlines[i], t[i].deadline_ns);
	}
}

/* REARM reports what the word said before, and replaces it. */
TEST_F(table_ioctl, rearm)
{
	__u64 id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 0);
	struct twheel_slot *slot = slot_of(&self->t, id);
	struct twheel_event ev;
	struct twheel_timer t;

	swap_word(slot, 0);
	EXPECT_EQ(0, rearm_timer(self->fd, id, 2 * HOUR, TWHEEL_KEEP, &t));
	EXPECT_EQ(TWHEEL_IDLE, t.state);
	EXPECT_EQ(t.deadline_ns, word(slot));
	swap_word(slot, 0);
	EXPECT_EQ(0, kick(&self->t, id));
	swap_word(slot, self->later);
	EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, id, 0, TWHEEL_KEEP | TWHEEL_DISARMED));
	EXPECT_EQ(0, word(slot));
	swap_word(slot, self->later);
	EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, id, 10 * NS_PER_MS, TWHEEL_KEEP));
	/* The deadline from the table is gone; the one from the ioctl expires. */
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_LT(ev.deadline_ns, self->later);
	EXPECT_FALSE(readable(self->fd, 0));
}

/* CANCEL reports what the word said, and the timer does not expire any more. */
TEST_F(table_ioctl, cancel)
{
	__u64 soon = now(CLOCK_MONOTONIC) + 100 * NS_PER_MS;
	__u64 moved = add(_metadata, self->fd, HOUR, 0, 1);
	__u64 disarmed = add(_metadata, self->fd, HOUR, 0, 2);
	__u64 armed = reserve(_metadata, self->fd, 3);
	struct twheel_timer t;

	swap_word(slot_of(&self->t, moved), self->later);
	swap_word(slot_of(&self->t, disarmed), 0);
	swap_word(slot_of(&self->t, armed), soon);
	EXPECT_EQ(0, cancel_timer(self->fd, moved, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_EQ(self->later, t.deadline_ns);
	EXPECT_EQ(0, cancel_timer(self->fd, disarmed, &t));
	EXPECT_EQ(TWHEEL_IDLE, t.state);
	EXPECT_EQ(0, t.deadline_ns);
	/* This deadline would have needed a KICK, which would come too late now. */
	EXPECT_EQ(0, cancel_timer(self->fd, armed, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_EQ(soon, t.deadline_ns);
	EXPECT_EQ(0, kick(&self->t, armed));
	EXPECT_FALSE(readable(self->fd, 100 + QUIET_MS));
	EXPECT_EQ(0, stats(_metadata, self->fd).allocated);
	EXPECT_EQ(0, stats(_metadata, self->fd).expired);
}

/* A batch finds what the table has just set, and the table shows what the batch did. */
TEST_F(table_ioctl, batch)
{
	enum { N = 100 };
	struct twheel_op ops[4 * N];
	struct twheel_event ev[N];
	unsigned int i, wrong = 0;
	__u64 ids[N], deadline;

	add_many(_metadata, self->fd, N, HOUR, TWHEEL_KEEP, 0, ids);
	for (i = 0; i < N; i++)
		swap_word(slot_of(&self->t, ids[i]), i % 2 ? self->later + i : 0);
	for (i = 0; i < N; i++) {
		struct twheel_op *op = &ops[4 * i];

		op[0] = (struct twheel_op) { .opcode = TWHEEL_OP_GET, .timer.id = ids[i] };
		op[1] = (struct twheel_op) {
			.opcode = TWHEEL_OP_REARM,
			.timer = {
				.id = ids[i],
				.deadline_ns = self->later,
				.flags = TWHEEL_ABSTIME | TWHEEL_KEEP,
			},
		};
		op[2] = op[0];
		op[3] = (struct twheel_op) {
			.opcode = TWHEEL_OP_REGISTER,
			.timer.flags = TWHEEL_KEEP | TWHEEL_DISARMED,
		};
	}
	EXPECT_EQ(4 * N, batch(self->fd, ops, 4 * N));
	for (i = 0; i < N; i++) {
		struct twheel_op *op = &ops[4 * i];
		__u32 before = i % 2 ? TWHEEL_ARMED : TWHEEL_IDLE;

		wrong += op[0].result || op[1].result || op[2].result || op[3].result;
		wrong += op[0].timer.state != before ||
			 op[0].timer.deadline_ns != (i % 2 ? self->later + i : 0);
		wrong += op[1].timer.state != before;
		wrong += op[2].timer.state != TWHEEL_ARMED ||
			 op[2].timer.deadline_ns != self->later;
		wrong += word(slot_of(&self->t, ids[i])) != self->later;
		wrong += word(slot_of(&self->t, op[3].timer.id)) != 0;
	}
	EXPECT_EQ(0, wrong);
	/* The table arms the timers that the batch made, and a batch cancels them. */
	deadline = now(CLOCK_MONOTONIC) + AHEAD;
	for (i = 0; i < N; i++) {
		__u64 id = ops[4 * i + 3].timer.id;

		wrong += arm(&self->t, id, deadline + i) != 0;
		ops[i] = (struct twheel_op) { .opcode = TWHEEL_OP_CANCEL, .timer.id = id };
	}
	EXPECT_EQ(N, batch(self->fd, ops, N / 2) + N / 2);
	for (i = 0; i < N / 2; i++)
		wrong += ops[i].result || ops[i].timer.state != TWHEEL_ARMED ||
			 ops[i].timer.deadline_ns != deadline + i;
	EXPECT_EQ(0, wrong);
	ASSERT_EQ(N / 2, collect(self->fd, ev, N / 2));
	for (i = 0; i < N / 2; i++)
		wrong += ev[i].deadline_ns < deadline + N / 2;
	EXPECT_EQ(0, wrong);
}

/* Timers whose event is unread, and whose word has been exchanged since */

/*
 * G6: An event stays until it is read, or until REARM, CANCEL or a KICK withdraws it. After
 * the KICK, the verbs report the new arming and end it. Before the KICK they report the event.
 * Verbs that only look leave it alone, and after a read the new arming takes effect.
 */
FIXTURE(unread) {
	int fd;
	struct table t;
	__u64 later;
	__u64 first;
	__u64 id;
};

FIXTURE_VARIANT(unread) {
	bool kick;
};

VARIANT(unread, kicked, .kick = true);
VARIANT(unread, not_kicked, .kick = false);

FIXTURE_SETUP(unread)
{
	struct twheel_timer t;

	self->fd = open_wheel(_metadata, O_NONBLOCK);
	self->t = map_table(_metadata, self->fd);
	self->later = now(CLOCK_MONOTONIC) + HOUR + 12345;
	self->id = add(_metadata, self->fd, 0, TWHEEL_KEEP, 0);
	ASSERT_EQ(0, get_timer(self->fd, self->id, &t));
	ASSERT_EQ(TWHEEL_EXPIRED, t.state);
	self->first = t.deadline_ns;
	EXPECT_EQ(0, swap_word(slot_of(&self->t, self->id), self->later));
	if (variant->kick)
		EXPECT_EQ(0, kick(&self->t, self->id));
}

FIXTURE_TEARDOWN(unread)
{
	EXPECT_TRUE(nothing_to_read(self->fd));
	close_table(_metadata, &self->t);
}

/* Each arming counts, whether or not the kernel has looked before it ended. */
static void expect_armings(struct __test_metadata *_metadata, int fd, __u64 armings,
			   __u64 displaced)
{
	struct twheel_stats s = stats(_metadata, fd);

	EXPECT_EQ(armings, s.armings);
	EXPECT_EQ(displaced, s.displaced);
}

/* Expects the event of the first arming, which nobody has withdrawn. */
static void expect_first(struct __test_metadata *_metadata, int fd, __u64 id, __u64 first)
{
	struct twheel_event ev[2];

	EXPECT_TRUE(readable(fd, 0));
	ASSERT_EQ(1, take(fd, ev, 2, 0));
	EXPECT_EQ(id, ev[0].id);
	EXPECT_EQ(first, ev[0].deadline_ns);
	EXPECT_EQ(1, ev[0].expirations);
	EXPECT_EQ(0, stats(_metadata, fd).withdrawn);
}

TEST_F(unread, read)
{
	if (!variant->kick)
		expect_first(_metadata, self->fd, self->id, self->first);
	else
		EXPECT_EQ(1, stats(_metadata, self->fd).withdrawn);
	EXPECT_TRUE(nothing_to_read(self->fd));
	/* The new arming is in effect, and the kernel has looked. */
	expect_timer(_metadata, self->fd, self->id, TWHEEL_ARMED, self->later);
	EXPECT_EQ(1, stats(_metadata, self->fd).armed);
	EXPECT_EQ(tick_of(&self->t, self->later), wake(slot_of(&self->t, self->id)));
}

TEST_F(unread, get)
{
	__u32 expected = variant->kick ? TWHEEL_ARMED : TWHEEL_EXPIRED;
	__u64 deadline = variant->kick ? self->later : self->first;
	struct twheel_timer t;
	__u32 cursor = 0;

	expect_timer(_metadata, self->fd, self->id, expected, deadline);
	EXPECT_EQ(1, list(self->fd, &t, 1, &cursor));
	EXPECT_EQ(expected, t.state);
	EXPECT_EQ(deadline, t.deadline_ns);
	if (!variant->kick)
		expect_first(_metadata, self->fd, self->id, self->first);
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, self->id));
}

TEST_F(unread, rearm)
{
	EXPECT_EQ(variant->kick ? TWHEEL_ARMED : TWHEEL_EXPIRED,
		  (__u32)rearm(self->fd, self->id, HOUR, TWHEEL_KEEP));
	EXPECT_EQ(1, stats(_metadata, self->fd).withdrawn);
	EXPECT_EQ(1, stats(_metadata, self->fd).armed);
	expect_armings(_metadata, self->fd, 3, 1);
}

TEST_F(unread, cancel)
{
	struct twheel_timer t;

	EXPECT_EQ(0, cancel_timer(self->fd, self->id, &t));
	EXPECT_EQ(variant->kick ? TWHEEL_ARMED : TWHEEL_EXPIRED, t.state);
	EXPECT_EQ(variant->kick ? self->later : self->first, t.deadline_ns);
	EXPECT_EQ(1, stats(_metadata, self->fd).withdrawn);
	expect_armings(_metadata, self->fd, 2, 1);
}

/* Periodic timers */

#define PERIOD	(20 * NS_PER_MS)

FIXTURE(periodic) {
	int fd;
	struct table t;
	__u64 id;
	__u64 first;
	struct twheel_slot *slot;
};

FIXTURE_VARIANT(periodic) {
	__u32 flags;
};

VARIANT(periodic, kept, .flags = TWHEEL_KEEP);
VARIANT(periodic, not_kept, .flags = 0);

FIXTURE_SETUP(periodic)
{
	self->fd = open_wheel(_metadata, O_NONBLOCK);
	self->t = map_table(_metadata, self->fd);
	self->first = now(CLOCK_MONOTONIC) + AHEAD;
	self->id = add_periodic(_metadata, self->fd, self->first, PERIOD,
				TWHEEL_ABSTIME | variant->flags);
	self->slot = slot_of(&self->t, self->id);
}

TABLE_TEARDOWN(periodic)

static bool on_grid(__u64 first, __u64 deadline)
{
	return deadline >= first && (deadline - first) % PERIOD == 0;
}

/*
 * The next period that an expiry leaves in the word does not count as an arming until the
 * event is read.
 */
TEST_F(periodic, successor_is_no_arming)
{
	__u64 past = self->first - AHEAD;

	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	EXPECT_NE(0, word(self->slot));
	EXPECT_EQ(TWHEEL_EXPIRED, rearm(self->fd, self->id, HOUR, variant->flags));
	expect_armings(_metadata, self->fd, 2, 0);
	EXPECT_EQ(TWHEEL_EXPIRED, cancel(self->fd, add_periodic(_metadata, self->fd, past, PERIOD,
								TWHEEL_ABSTIME | variant->flags)));
	expect_armings(_metadata, self->fd, 3, 0);
}

/*
 * The word holds the next deadline: at first the initial one, then the one that follows each
 * expiration.
 */
TEST_F(periodic, word)
{
	__u64 next = self->first;
	struct twheel_event ev;
	struct twheel_timer t;
	unsigned int i;

	EXPECT_EQ(self->first, word(self->slot));
	for (i = 0; i < 20; i++) {
		__u64 held;

		ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
		/*
		 * While the event is unread, the word holds the first deadline after the
		 * expiration.
		 */
		held = word(self->slot);
		EXPECT_TRUE(on_grid(next + PERIOD, held));
		EXPECT_EQ(NEVER, wake(self->slot));
		ASSERT_EQ(1, take(self->fd, &ev, 1, 0));
		EXPECT_EQ(next, ev.deadline_ns);
		EXPECT_LE(held, ev.expired_ns + PERIOD);
		EXPECT_GT(held, ev.expired_ns);
		next += ev.expirations * PERIOD;
		EXPECT_GE(next, held);
		/* After the read, the word holds the next deadline that will be an event. */
		held = word(self->slot);
		EXPECT_TRUE(on_grid(next, held));
		EXPECT_EQ(0, get_timer(self->fd, self->id, &t));
		EXPECT_GE(t.deadline_ns, held);
	}
}

/* G4: A read that faults consumes nothing, and loses no period. */
TEST_F(periodic, faulting_read)
{
	char *edge = border(_metadata, PROT_NONE);
	struct twheel_event ev;
	unsigned int i;

	for (i = 0; i < 5; i++) {
		ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
		/* Several periods late, so that the word has to be set anew. */
		sleep_ms(100);
		EXPECT_EQ(-EFAULT, errno_of(read(self->fd, edge, sizeof(ev))));
		EXPECT_EQ(-EFAULT, errno_of(read(self->fd, edge - sizeof(ev) + 1, sizeof(ev))));
		EXPECT_EQ(TWHEEL_EXPIRED, state(self->fd, self->id));
		sleep_ms(50);
		ASSERT_EQ(1, take(self->fd, &ev, 1, 0));
		EXPECT_EQ(self->first, ev.deadline_ns);
		EXPECT_GE(ev.expirations, 150 * NS_PER_MS / PERIOD);
		self->first += ev.expirations * PERIOD;
	}
	EXPECT_EQ(0, stats(_metadata, self->fd).withdrawn);
}

/* A move by exchange restarts the grid at the new deadline. */
TEST_F(periodic, move)
{
	struct twheel_event ev;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		__u64 deadline = now(CLOCK_MONOTONIC) + AHEAD / 2 + 777 * i, next = deadline;
		unsigned int k;

		/* Whether an event is unread or not; later, or earlier with KICK. */
		arm(&self->t, self->id, deadline);
		for (k = 0; k < 4; k++) {
			ASSERT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
			EXPECT_EQ(next, ev.deadline_ns);
			next += ev.expirations * PERIOD;
		}
		if (i)
			ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	}
}

/*
 * Disarmed by exchange while it waits for the next period: the timer is idle, and no event
 * comes.
 */
TEST_F(periodic, disarm)
{
	struct twheel_event ev;
	__u64 deadline;

	EXPECT_EQ(self->first, disarm(&self->t, self->id));
	EXPECT_TRUE(wake_becomes(self->slot, NEVER));
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, self->id));
	/* It can be armed again. */
	deadline = now(CLOCK_MONOTONIC) + 5 * NS_PER_MS;
	EXPECT_EQ(0, arm(&self->t, self->id, deadline));
	ASSERT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(deadline, ev.deadline_ns);
	deadline += ev.expirations * PERIOD;
	EXPECT_EQ(deadline, next_event(_metadata, self->fd, TIMEOUT_MS).deadline_ns);
}

/*
 * Disarmed by exchange while its event is unread: the event stays until it is read or a verb
 * withdraws it, and no further period comes.
 */
TEST_F(periodic, disarm_unread)
{
	enum { READ, KICKED, GOT, LISTED, CANCELLED, REARMED, WAYS };
	struct twheel_event ev;
	struct twheel_timer t;
	unsigned int way;

	for (way = 0; way < WAYS; way++) {
		bool stays = way != KICKED && way != CANCELLED && way != REARMED;
		__u64 held, withdrawn = stats(_metadata, self->fd).withdrawn;
		__u32 cursor = 0;

		ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
		held = disarm(&self->t, self->id);
		EXPECT_TRUE(on_grid(self->first + PERIOD, held));
		switch (way) {
		case KICKED:
			EXPECT_EQ(0, kick(&self->t, self->id));
			break;
		case GOT:
			expect_timer(_metadata, self->fd, self->id, TWHEEL_EXPIRED, self->first);
			break;
		case LISTED:
			EXPECT_EQ(1, list(self->fd, &t, 1, &cursor));
			EXPECT_EQ(TWHEEL_EXPIRED, t.state);
			EXPECT_EQ(self->first, t.deadline_ns);
			break;
		/* CANCEL reports the event, and withdraws it (G5). */
		case CANCELLED:
			EXPECT_EQ(0, cancel_timer(self->fd, self->id, &t));
			EXPECT_EQ(TWHEEL_EXPIRED, t.state);
			EXPECT_EQ(self->first, t.deadline_ns);
			break;
		case REARMED:
			t = (struct twheel_timer) {
				.id = self->id,
				.flags = variant->flags | TWHEEL_DISARMED,
			};
			EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REARM, &t));
			EXPECT_EQ(TWHEEL_EXPIRED, t.state);
			break;
		}
		EXPECT_EQ(withdrawn + !stays, stats(_metadata, self->fd).withdrawn);
		if (stays) {
			EXPECT_TRUE(readable(self->fd, 0));
			ASSERT_EQ(1, take(self->fd, &ev, 1, 0));
			EXPECT_EQ(self->first, ev.deadline_ns);
			/* The periods that the expiry found, and none that came later. */
			EXPECT_EQ(held, self->first + ev.expirations * PERIOD);
		}
		EXPECT_TRUE(nothing_to_read(self->fd));
		/* CANCEL has removed the timer. */
		if (way == CANCELLED) {
			EXPECT_EQ(-ENOENT, state(self->fd, self->id));
			self->id = add_periodic(_metadata, self->fd, HOUR, PERIOD, variant->flags);
			self->slot = slot_of(&self->t, self->id);
			EXPECT_NE(0, disarm(&self->t, self->id));
		}
		/* Otherwise the timer still exists, and is periodic as before. */
		EXPECT_EQ(TWHEEL_IDLE, state(self->fd, self->id));
		self->first = now(CLOCK_MONOTONIC);
		EXPECT_EQ(0, swap_word(self->slot, self->first));
		EXPECT_EQ(0, kick(&self->t, self->id));
	}
	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	EXPECT_EQ(TWHEEL_EXPIRED, cancel(self->fd, self->id));
}

/*
 * Moved while its event is unread: a read before the KICK delivers the event, and a KICK
 * withdraws it. The new arming takes effect in either case.
 */
TEST_F(periodic, move_unread)
{
	struct twheel_event ev;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		__u64 deadline, held;

		ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
		deadline = now(CLOCK_MONOTONIC) + AHEAD;
		held = swap_word(self->slot, deadline);
		EXPECT_NE(0, held);
		if (i) {
			EXPECT_EQ(0, kick(&self->t, self->id));
			EXPECT_EQ(1, stats(_metadata, self->fd).withdrawn);
		} else {
			ASSERT_EQ(1, take(self->fd, &ev, 1, 0));
			EXPECT_EQ(self->first, ev.deadline_ns);
			EXPECT_EQ(held, self->first + ev.expirations * PERIOD);
		}
		EXPECT_TRUE(nothing_to_read(self->fd));
		EXPECT_EQ(deadline, next_event(_metadata, self->fd, TIMEOUT_MS).deadline_ns);
	}
}

/* If the next period would lie beyond the end of time, the word becomes ~0. */
TEST_F(periodic, end_of_time)
{
	__u64 id = add_periodic(_metadata, self->fd, 0, NEVER - 5, variant->flags);

	EXPECT_EQ(NEVER, word(slot_of(&self->t, id)));
	EXPECT_EQ(TWHEEL_EXPIRED, cancel(self->fd, id));
	EXPECT_EQ(0, word(slot_of(&self->t, id)));
}

/* Clocks */

FIXTURE(wall_clock) {
	int fd;
	struct table t;
	__u64 base;
};

FIXTURE_VARIANT(wall_clock) {
	int clock;
};

VARIANT(wall_clock, realtime, .clock = CLOCK_REALTIME);
VARIANT(wall_clock, tai, .clock = CLOCK_TAI);

FIXTURE_SETUP(wall_clock)
{
	SKIP_UNLESS_ROOT();
	self->fd = wheel_on(variant->clock);
	ASSERT_GE(self->fd, 0);
	self->t = map_table(_metadata, self->fd);
	self->base = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC);
}

/* Sets the wall clock to @ns past where it would be had nobody set it. */
static void set_clock(struct __test_metadata *_metadata, __u64 base, long long ns)
{
	set_wall_clock(_metadata, base + now(CLOCK_MONOTONIC) + ns);
}

FIXTURE_TEARDOWN(wall_clock)
{
	set_clock(_metadata, self->base, 0);
	close_table(_metadata, &self->t);
}

/*
 * G6: The clock is set forward over many ticks: timers still expire in the order of the words'
 * ticks, wherever they were queued.
 */
TEST_F(wall_clock, order)
{
	enum { N = 500 };
	__u64 start = now(variant->clock) + 30 * MINUTE, seed = 19, last = 0;
	struct twheel_event ev[N];
	unsigned int i, wrong = 0;
	__u64 ids[N];

	add_many(_metadata, self->fd, N, start, TWHEEL_ABSTIME, 0, ids);
	for (i = 0; i < N; i++)
		if (i % 3)
			arm(&self->t, ids[i], start + 1 + next_random(&seed) % MINUTE);
	EXPECT_EQ(0, self->t.kicks);
	set_clock(_metadata, self->base, 60 * MINUTE);
	ASSERT_EQ(N, collect(self->fd, ev, N));
	for (i = 0; i < N; i++) {
		__u64 tick = tick_of(&self->t, ev[i].deadline_ns);

		wrong += tick < last;
		last = tick;
	}
	EXPECT_EQ(0, wrong);
}

TEST_HARNESS_MAIN
