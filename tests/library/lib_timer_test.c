// SPDX-License-Identifier: GPL-2.0
/*
 * libtwheel: timers, and the cost of add, set, clear and del, with both backends.
 */
#include "lib_test.h"

#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/ptrace.h>

/* ---- The verbs ---- */

TEST_F(lib, add)
{
	uint64_t at = twheel_now(self->w) + 20 * NS_PER_MS, id, other;

	ASSERT_EQ(0, twheel_add(self->w, at, 42, &id));
	ASSERT_EQ(0, twheel_add(self->w, at + HOUR, 43, &other));
	EXPECT_NE(id, other);
	EXPECT_NE(0, id >> 32);
	lib_expect(_metadata, self->w, id, 42, at);
	/* The event was read, which is what del reports, and the id ends. */
	EXPECT_EQ(0, twheel_del(self->w, id));
	expect_gone(_metadata, self->w, id);
	EXPECT_EQ(1, twheel_del(self->w, other));
	EXPECT_EQ(-ENOENT, twheel_del(self->w, other));
	EXPECT_TRUE(quiet(self->w));

	/* 0 counts as 1, so the timer is due. */
	ASSERT_EQ(0, twheel_add(self->w, 0, 44, &id));
	EXPECT_EQ(1, lib_event(_metadata, self->w).deadline_ns);
	EXPECT_EQ(0, twheel_del(self->w, id));
}

/* A delay that leads past the end of time means never. */
TEST_F(lib, after_end_of_time)
{
	uint64_t before = twheel_now(self->w), at = twheel_after(self->w, SECOND), id;

	EXPECT_GE(at, before + SECOND);
	EXPECT_LE(at, twheel_now(self->w) + SECOND);
	EXPECT_EQ(NEVER, twheel_after(self->w, NEVER));
	EXPECT_EQ(NEVER, twheel_after(self->w, NEVER - before));
	ASSERT_EQ(0, twheel_add(self->w, NEVER, 0, &id));
	EXPECT_TRUE(quiet(self->w));
	EXPECT_EQ(TWHEEL_ARMED, lib_state(self->w, id));
	EXPECT_EQ(1, twheel_del(self->w, id));
}

/* A timer that is deleted after it expired, but before its event was read, is never read. */
TEST_F(lib, del_unread)
{
	uint64_t id, again;

	ASSERT_EQ(0, twheel_add(self->w, 0, 1, &id));
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(1, twheel_del(self->w, id));
	/* No reader is woken for it either. */
	EXPECT_FALSE(readable(twheel_fd(self->w), 0));
	EXPECT_TRUE(quiet(self->w));

	/* The event is not read either if the slot is reused first. */
	ASSERT_EQ(0, twheel_add(self->w, 0, 1, &id));
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(1, twheel_del(self->w, id));
	ASSERT_EQ(0, twheel_add(self->w, twheel_now(self->w) + HOUR, 2, &again));
	EXPECT_EQ((uint32_t)id, (uint32_t)again);
	EXPECT_TRUE(quiet(self->w));
	EXPECT_EQ(1, twheel_del(self->w, again));
	ASSERT_EQ(0, twheel_add(self->w, 5, 3, &again));
	lib_expect(_metadata, self->w, again, 3, 5);
	EXPECT_EQ(0, twheel_del(self->w, again));
}

/* Replaces a timer and returns the id of the new one. twheel_replace() must return @ret. */
static uint64_t replaced(struct __test_metadata *_metadata, struct twheel *w, uint64_t id,
			 uint64_t deadline, uint64_t user_data, int ret)
{
	uint64_t new_id = 0;

	EXPECT_EQ(ret, twheel_replace(w, id, deadline, user_data, &new_id));
	EXPECT_NE(id, new_id);
	EXPECT_EQ(-ENOENT, lib_state(w, id));
	return new_id;
}

/* A timer can be replaced in any state, and its id is stale afterwards. */
TEST_F(lib, replace)
{
	struct twheel_op op = { .opcode = TWHEEL_OP_REARM, .timer.flags = TWHEEL_ABSTIME };
	struct twheel *w = self->w;
	uint64_t far = twheel_now(w) + HOUR;
	struct twheel_timer t;
	uint64_t id, old;

	/* Armed */
	ASSERT_EQ(0, twheel_add(w, far, 1, &id));
	id = replaced(_metadata, w, id, far + 1, 2, 1);
	t = (struct twheel_timer) { .id = id };
	ASSERT_EQ(0, lib_get(w, &t));
	EXPECT_EQ(far + 1, t.deadline_ns);
	EXPECT_EQ(2, t.user_data);
	id = replaced(_metadata, w, id, 3, 3, 1);
	lib_expect(_metadata, w, id, 3, 3);
	/* Its event has been read */
	id = replaced(_metadata, w, id, far, 4, 0);
	EXPECT_EQ(TWHEEL_ARMED, lib_state(w, id));
	/* Disarmed */
	EXPECT_EQ(1, twheel_clear(w, id));
	id = replaced(_metadata, w, id, 5, 5, 0);
	/* Its event is unread, and must never be read */
	ASSERT_TRUE(is_unread(w));
	id = replaced(_metadata, w, id, far, 6, 1);
	EXPECT_TRUE(quiet(w));
	/* Periodic: the new timer has no period */
	op.timer.id = id;
	op.timer.deadline_ns = far;
	op.timer.period_ns = SECOND;
	ASSERT_EQ(1, twheel_submit(w, &op, 1));
	ASSERT_EQ(0, op.result);
	id = replaced(_metadata, w, id, 7, 7, 1);
	lib_expect(_metadata, w, id, 7, 7);
	EXPECT_TRUE(quiet(w));
	/* Words that mean disarmed are avoided */
	id = replaced(_metadata, w, id, TWHEEL_PARKED, 8, 0);
	EXPECT_EQ(TWHEEL_ARMED, lib_state(w, id));
	id = replaced(_metadata, w, id, 0, 9, 1);
	lib_expect(_metadata, w, id, 9, 1);
	EXPECT_EQ(0, twheel_del(w, id));

	/* A call that fails changes nothing */
	old = id;
	EXPECT_EQ(-ENOENT, twheel_replace(w, id, far, 10, &id));
	EXPECT_EQ(-ENOENT, twheel_replace(w, 0, far, 10, &id));
	EXPECT_EQ(-ENOENT, twheel_replace(w, NEVER, far, 10, &id));
	EXPECT_EQ(old, id);
	old = reserve_timer(_metadata, w, 11);
	EXPECT_EQ(-EOPNOTSUPP, twheel_replace(w, old, far, 12, &id));
	EXPECT_EQ(TWHEEL_IDLE, lib_state(w, old));
}

/*
 * Tries the verbs on @id, which is either @armed with a distant deadline or idle, and finally
 * deletes it.
 */
static void expect_verbs(struct __test_metadata *_metadata, struct twheel *w, uint64_t id,
			 bool armed)
{
	uint64_t at = twheel_now(w) + 400 * NS_PER_MS;
	struct twheel_usage before = { .size = sizeof(before) },
			    after = { .size = sizeof(after) };

	EXPECT_EQ(armed, twheel_set(w, id, at));
	EXPECT_EQ(TWHEEL_ARMED, lib_state(w, id));
	/* Moved later: it does not expire at the old deadline. */
	at += 60 * NS_PER_MS;
	EXPECT_EQ(1, twheel_set(w, id, at));
	lib_expect(_metadata, w, id, 5, at);
	/* After its event was read: set arms it again, and returns 0 because of the event. */
	EXPECT_EQ(0, twheel_set(w, id, 3));
	lib_expect(_metadata, w, id, 5, 3);
	/* Expired and unread: set withdraws the event. */
	EXPECT_EQ(0, twheel_set(w, id, 4));
	ASSERT_TRUE(is_unread(w));
	EXPECT_EQ(TWHEEL_EXPIRED, lib_state(w, id));
	at = twheel_now(w) + 30 * NS_PER_MS;
	ASSERT_EQ(0, twheel_usage(w, &before));
	EXPECT_EQ(1, twheel_set(w, id, at));
	ASSERT_EQ(0, twheel_usage(w, &after));
	EXPECT_EQ(before.withdrawn + 1, after.withdrawn);
	lib_expect(_metadata, w, id, 5, at);
	EXPECT_TRUE(quiet(w));
	/* The same with a new deadline in the past: one event, that of the new arming. */
	EXPECT_EQ(0, twheel_set(w, id, 6));
	ASSERT_TRUE(is_unread(w));
	EXPECT_EQ(1, twheel_set(w, id, 7));
	lib_expect(_metadata, w, id, 5, 7);
	EXPECT_TRUE(quiet(w));
	/* Moved earlier: it does not wait for the old deadline. 0 counts as 1. */
	EXPECT_EQ(0, twheel_set(w, id, twheel_now(w) + HOUR));
	at = twheel_now(w) + 5 * NS_PER_MS;
	EXPECT_EQ(1, twheel_set(w, id, at));
	lib_expect(_metadata, w, id, 5, at);
	EXPECT_EQ(0, twheel_set(w, id, twheel_now(w) + HOUR));
	EXPECT_EQ(1, twheel_set(w, id, 0));
	lib_expect(_metadata, w, id, 5, 1);
	/* Disarmed, but the program still owns it. */
	EXPECT_EQ(0, twheel_set(w, id, twheel_after(w, 5 * NS_PER_MS)));
	EXPECT_EQ(1, twheel_clear(w, id));
	EXPECT_EQ(0, twheel_clear(w, id));
	EXPECT_TRUE(quiet(w));
	EXPECT_EQ(TWHEEL_IDLE, lib_state(w, id));
	EXPECT_EQ(0, twheel_set(w, id, 1));
	lib_expect(_metadata, w, id, 5, 1);
	EXPECT_EQ(0, twheel_clear(w, id));
	/* Clearing an unread event withdraws it. */
	EXPECT_EQ(0, twheel_set(w, id, 2));
	ASSERT_TRUE(is_unread(w));
	EXPECT_EQ(1, twheel_clear(w, id));
	EXPECT_FALSE(readable(twheel_fd(w), 0));
	EXPECT_EQ(TWHEEL_IDLE, lib_state(w, id));
	EXPECT_EQ(0, twheel_clear(w, id));
	EXPECT_TRUE(quiet(w));
	/* Deleted after it was cleared: del ends no arming. */
	EXPECT_EQ(0, twheel_set(w, id, twheel_after(w, HOUR)));
	EXPECT_EQ(1, twheel_clear(w, id));
	EXPECT_EQ(0, twheel_del(w, id));
	expect_gone(_metadata, w, id);
	EXPECT_TRUE(quiet(w));
}

TEST_F(lib, set_and_clear)
{
	uint64_t id;

	ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), 5, &id));
	expect_verbs(_metadata, self->w, id, true);
}

/* ---- Ids ---- */

/* Ids of timers that no longer exist. */
TEST_F(lib, stale_ids)
{
	uint64_t at = twheel_after(self->w, HOUR), old, id, seen[100];
	struct twheel_timer t;
	unsigned int i, j;

	/* Slots are reused, but ids are not. */
	for (i = 0; i < ARRAY_SIZE(seen); i++) {
		ASSERT_EQ(0, twheel_add(self->w, at, i, &seen[i]));
		EXPECT_EQ((uint32_t)seen[0], (uint32_t)seen[i]);
		EXPECT_NE(0, seen[i] >> 32);
		for (j = 0; j < i; j++)
			ASSERT_NE(seen[j], seen[i]);
		EXPECT_EQ(1, twheel_del(self->w, seen[i]));
	}
	old = seen[0];
	/* While the slot is free. */
	expect_gone(_metadata, self->w, old);
	EXPECT_TRUE(quiet(self->w));
	/* While another timer in the slot is armed: del and all operations of submit notice. */
	ASSERT_EQ(0, twheel_add(self->w, at, 7, &id));
	EXPECT_EQ(-ENOENT, twheel_del(self->w, old));
	EXPECT_EQ(-ENOENT, lib_state(self->w, old));
	EXPECT_EQ(-ENOENT, lib_cancel(self->w, old));
	t = (struct twheel_timer) { .id = old, .deadline_ns = 1 };
	EXPECT_EQ(-ENOENT, lib_rearm(self->w, &t));
	EXPECT_EQ(TWHEEL_ARMED, lib_state(self->w, id));
	EXPECT_TRUE(quiet(self->w));
	/*
	 * While another timer in the slot is cleared. set would take its fast path, as if that
	 * timer were armed.
	 */
	EXPECT_EQ(1, twheel_clear(self->w, id));
	EXPECT_EQ(-ENOENT, twheel_del(self->w, old));
	EXPECT_EQ(TWHEEL_IDLE, lib_state(self->w, id));
	/*
	 * While the event of another timer in the slot is unread, or was read: every verb
	 * notices.
	 */
	for (i = 1; i < 3; i++) {
		EXPECT_EQ(0, twheel_set(self->w, id, i));
		ASSERT_TRUE(is_unread(self->w));
		if (i == 2)
			lib_expect(_metadata, self->w, id, 7, 2);
		expect_gone(_metadata, self->w, old);
		if (i == 1)
			lib_expect(_metadata, self->w, id, 7, 1);
		EXPECT_TRUE(quiet(self->w));
	}
	EXPECT_EQ(0, twheel_set(self->w, id, 3));
	EXPECT_EQ(3, lib_event(_metadata, self->w).deadline_ns);
}

/* Ids that no timer can have. */
TEST_F(lib, impossible_ids)
{
	uint64_t impossible[] = {
		UINT32_MAX, 1ULL << 32 | UINT32_MAX, 1 << 20, 1ULL << 32 | 1 << 20,
		1ULL << 32 | ((1 << 20) - 1), 1ULL << 32 | 1 << 19, NEVER,
	};
	unsigned int i, round;
	uint64_t id;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < ARRAY_SIZE(impossible); i++) {
			expect_gone(_metadata, self->w, impossible[i]);
			EXPECT_EQ(-ENOENT, lib_state(self->w, impossible[i]));
			EXPECT_EQ(-ENOENT, lib_cancel(self->w, impossible[i]));
		}
		ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), 0, &id));
	}
	EXPECT_TRUE(quiet(self->w));
}

/* No timer has the id 0, which a program may use to mean "none yet". */
TEST_F(lib, id_is_never_0)
{
	struct twheel_timer t = {
		.user_data = 3,
		.deadline_ns = HOUR,
		.flags = TWHEEL_KEEP,
	};
	unsigned int i;
	uint64_t id;

	/* On a new wheel, and on one that has a timer. */
	for (i = 0; i < 2; i++) {
		expect_gone(_metadata, self->w, 0);
		EXPECT_EQ(-ENOENT, lib_cancel(self->w, 0));
		if (!i)
			ASSERT_EQ(0, lib_register(self->w, &t));
	}
	EXPECT_EQ(0, lib_get(self->w, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_EQ(0, twheel_add(self->w, twheel_now(self->w), 5, &id));
	EXPECT_NE(0, id);
	EXPECT_EQ(5, lib_event(_metadata, self->w).user_data);
	EXPECT_EQ(0, twheel_del(self->w, id));
}

/*
 * Expects a checked wheel to detect every use of a stale id, whatever the state of the timer
 * that has its slot now.
 */
static void expect_checked(struct __test_metadata *_metadata, struct twheel *w)
{
	uint64_t at = twheel_after(w, HOUR), old, id;
	struct twheel_timer t;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		if (i) {
			old = reserve_timer(_metadata, w, 0);
			EXPECT_EQ(TWHEEL_IDLE, lib_cancel(w, old));
			/* The next timer is in the same slot, or in another one. */
			t = (struct twheel_timer) { .deadline_ns = HOUR, .flags = TWHEEL_KEEP };
			ASSERT_EQ(0, lib_register(w, &t));
			id = t.id;
		} else {
			ASSERT_EQ(0, twheel_add(w, at, 1, &old));
			EXPECT_EQ(1, twheel_del(w, old));
			ASSERT_EQ(0, twheel_add(w, at, 2, &id));
			EXPECT_EQ((uint32_t)old, (uint32_t)id);
		}
		expect_gone(_metadata, w, old);
		EXPECT_EQ(-ENOENT, twheel_set(w, (uint32_t)id, 1));
		EXPECT_EQ(-ENOENT, twheel_clear(w, id ^ 1ULL << 63));
		EXPECT_EQ(TWHEEL_ARMED, lib_state(w, id));
		EXPECT_TRUE(quiet(w));
		/* Valid ids are accepted. */
		EXPECT_EQ(1, twheel_set(w, id, at));
		EXPECT_EQ(1, twheel_clear(w, id));
		EXPECT_EQ(0, twheel_set(w, id, at));
		EXPECT_EQ(1, twheel_del(w, id));
		EXPECT_EQ(-ENOENT, twheel_clear(w, id));
	}
}

TEST_F(lib, checked)
{
	struct twheel_options o = self->o;
	struct twheel *w;

	o.flags |= TWHEEL_OPEN_CHECKED;
	ASSERT_EQ(0, twheel_open(&w, &o));
	expect_checked(_metadata, w);
	twheel_close(w);
	/* The environment can make a wheel checked. */
	ASSERT_EQ(0, setenv("TWHEEL_CHECKED", "1", 1));
	ASSERT_EQ(0, twheel_open(&w, &self->o));
	expect_checked(_metadata, w);
	twheel_close(w);
}

/* An event in an array may be stale, which its id shows. */
TEST_F(lib, stale_event)
{
	struct twheel_event ev[2];
	uint64_t id[2], again;

	ASSERT_EQ(0, twheel_add(self->w, 1, 0, &id[0]));
	ASSERT_EQ(0, twheel_add(self->w, 1, 1, &id[1]));
	ASSERT_EQ(2, lib_collect(self->w, ev, 2));
	/* The first event's callback deletes the second timer, whose slot goes to another one. */
	EXPECT_EQ(0, twheel_del(self->w, ev[1].id));
	ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), 2, &again));
	EXPECT_EQ((uint32_t)ev[1].id, (uint32_t)again);
	EXPECT_NE(ev[1].id, again);
	EXPECT_EQ(-ENOENT, twheel_del(self->w, ev[1].id));
	EXPECT_EQ(1, twheel_del(self->w, again));
	EXPECT_EQ(0, twheel_del(self->w, ev[0].id));
}

/* ---- The same ids for verbs and operations ---- */

/* The verbs work on timers of REGISTER. */
TEST_F(lib, registered_by_verbs)
{
	uint64_t id = reserve_timer(_metadata, self->w, 5);

	EXPECT_EQ(0, twheel_clear(self->w, id));
	expect_verbs(_metadata, self->w, id, false);

	/* Deleted while armed, and while unread. */
	id = reserve_timer(_metadata, self->w, 9);
	EXPECT_EQ(0, twheel_set(self->w, id, twheel_after(self->w, HOUR)));
	EXPECT_EQ(1, twheel_del(self->w, id));
	EXPECT_EQ(-ENOENT, lib_state(self->w, id));
	id = reserve_timer(_metadata, self->w, 9);
	EXPECT_EQ(0, twheel_set(self->w, id, 1));
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(1, twheel_del(self->w, id));
	EXPECT_TRUE(quiet(self->w));
}

/* The operations work on timers of twheel_add(). */
TEST_F(lib, added_by_operations)
{
	uint64_t at = twheel_after(self->w, HOUR), id, read;
	struct twheel_timer t;

	ASSERT_EQ(0, twheel_add(self->w, at, 21, &id));
	poison(&t);
	t.id = id;
	t.flags = 0;
	ASSERT_EQ(0, lib_get(self->w, &t));
	EXPECT_EQ(id, t.id);
	EXPECT_EQ(21, t.user_data);
	EXPECT_EQ(at, t.deadline_ns);
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	/* REARM keeps such a timer whatever its flags, so that a verb can arm it again. */
	t = (struct twheel_timer) { .id = id, .deadline_ns = NS_PER_MS };
	ASSERT_EQ(0, lib_rearm(self->w, &t));
	EXPECT_EQ(id, t.id);
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	lib_expect(_metadata, self->w, id, 21, t.deadline_ns);
	EXPECT_EQ(TWHEEL_IDLE, lib_state(self->w, id));
	EXPECT_EQ(0, twheel_set(self->w, id, 2));
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(TWHEEL_EXPIRED, lib_state(self->w, id));
	/* REARM withdraws an unread event. */
	t = (struct twheel_timer) { .id = id, .deadline_ns = HOUR };
	ASSERT_EQ(0, lib_rearm(self->w, &t));
	EXPECT_EQ(TWHEEL_EXPIRED, t.state);
	EXPECT_TRUE(quiet(self->w));
	EXPECT_EQ(1, twheel_set(self->w, id, 3));
	EXPECT_EQ(3, lib_event(_metadata, self->w).deadline_ns);

	/* CANCEL does the same as del, on an idle, an armed and an unread timer. */
	EXPECT_EQ(TWHEEL_IDLE, lib_cancel(self->w, id));
	EXPECT_EQ(-ENOENT, lib_cancel(self->w, id));
	EXPECT_EQ(-ENOENT, twheel_set(self->w, id, 1));
	ASSERT_EQ(0, twheel_add(self->w, at, 22, &id));
	EXPECT_EQ(TWHEEL_ARMED, lib_cancel(self->w, id));
	ASSERT_EQ(0, twheel_add(self->w, 1, 23, &id));
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(TWHEEL_EXPIRED, lib_cancel(self->w, id));
	EXPECT_TRUE(quiet(self->w));
	ASSERT_EQ(0, twheel_add(self->w, 1, 24, &read));
	EXPECT_EQ(24, lib_event(_metadata, self->w).user_data);
	EXPECT_EQ(TWHEEL_IDLE, lib_cancel(self->w, read));
}

/* Slack, set for the whole wheel or with REARM, makes events later but never early. */
TEST_F(lib, slack)
{
	struct twheel_options o = self->o;
	struct twheel_timer t;
	struct twheel *w;
	uint64_t at, id;

	o.slack_ns = 100 * NS_PER_MS;
	ASSERT_EQ(0, twheel_open(&w, &o));
	at = twheel_after(w, 5 * NS_PER_MS);
	ASSERT_EQ(0, twheel_add(w, at, 1, &id));
	t = (struct twheel_timer) { .id = id };
	ASSERT_EQ(0, lib_get(w, &t));
	EXPECT_EQ(o.slack_ns, t.slack_ns);
	lib_expect(_metadata, w, id, 1, at);
	/* Verbs that take their slow path keep the slack. */
	EXPECT_EQ(0, twheel_set(w, id, 1));
	ASSERT_TRUE(is_unread(w));
	EXPECT_EQ(1, twheel_set(w, id, twheel_after(w, HOUR)));
	t = (struct twheel_timer) { .id = id };
	ASSERT_EQ(0, lib_get(w, &t));
	EXPECT_EQ(o.slack_ns, t.slack_ns);
	twheel_close(w);
}

/* ---- Operations ---- */

TEST_F(lib, timer_verbs)
{
	struct twheel_timer t = {
		.user_data = 7,
		.deadline_ns = HOUR,
		.flags = TWHEEL_KEEP,
		.slack_ns = 5,
	};
	uint64_t before = twheel_now(self->w), id;

	ASSERT_EQ(0, lib_register(self->w, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_GE(t.deadline_ns, before + HOUR);
	EXPECT_LE(t.deadline_ns, twheel_now(self->w) + HOUR);
	id = t.id;
	EXPECT_NE(0, id >> 32);

	poison(&t);
	t.id = id;
	t.flags = 0;
	ASSERT_EQ(0, lib_get(self->w, &t));
	EXPECT_EQ(id, t.id);
	EXPECT_EQ(7, t.user_data);
	EXPECT_EQ(5, t.slack_ns);
	EXPECT_EQ(TWHEEL_KEEP, t.flags);
	EXPECT_EQ(TWHEEL_ARMED, t.state);

	t = (struct twheel_timer) { .id = id, .deadline_ns = 1, .flags = TWHEEL_KEEP };
	ASSERT_EQ(0, lib_rearm(self->w, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	lib_expect(_metadata, self->w, id, 7, t.deadline_ns);

	/* A kept timer that is idle, and then one that has expired and is unread. */
	t = (struct twheel_timer) { .id = id, .deadline_ns = 0, .flags = TWHEEL_KEEP };
	ASSERT_EQ(0, lib_rearm(self->w, &t));
	EXPECT_EQ(TWHEEL_IDLE, t.state);
	ASSERT_EQ(1, twheel_wait(self->w, TIMEOUT_MS * NS_PER_MS));
	EXPECT_EQ(TWHEEL_EXPIRED, lib_cancel(self->w, id));
	EXPECT_EQ(-ENOENT, lib_cancel(self->w, id));
	t.id = id;
	EXPECT_EQ(-ENOENT, lib_get(self->w, &t));
	t.flags = 0;
	EXPECT_EQ(-ENOENT, lib_rearm(self->w, &t));
	EXPECT_TRUE(quiet(self->w));

	/* An id does not come back, even if the slot is the same. */
	t = (struct twheel_timer) { .deadline_ns = HOUR };
	ASSERT_EQ(0, lib_register(self->w, &t));
	EXPECT_NE(id, t.id);
	EXPECT_EQ(-ENOENT, lib_cancel(self->w, id));
	EXPECT_EQ(TWHEEL_ARMED, lib_cancel(self->w, t.id));

	t = (struct twheel_timer) { .deadline_ns = 1, .flags = 1 << 3 };
	EXPECT_EQ(-EINVAL, lib_register(self->w, &t));
	t = (struct twheel_timer) { .deadline_ns = 1, .flags = TWHEEL_DISARMED };
	EXPECT_EQ(-EINVAL, lib_register(self->w, &t));
	t = (struct twheel_timer) { .deadline_ns = 1, .period_ns = DEFAULT_TICK - 1 };
	EXPECT_EQ(-EINVAL, lib_register(self->w, &t));
	/* The failed operation changed nothing. */
	EXPECT_EQ(1, t.deadline_ns);
	EXPECT_EQ(0, t.id);
}

TEST_F(lib, submit)
{
	struct twheel_op ops[3] = {
		{ .opcode = TWHEEL_OP_REGISTER, .timer.deadline_ns = HOUR, .result = -1 },
		{ .opcode = 77, .result = -1 },
		{ .opcode = TWHEEL_OP_REGISTER, .timer.deadline_ns = HOUR, .result = -1 },
	};
	struct twheel_op get = { .opcode = 0 };

	EXPECT_EQ(3, twheel_submit(self->w, ops, 3));
	EXPECT_EQ(0, ops[0].result);
	EXPECT_EQ(-EINVAL, ops[1].result);
	EXPECT_EQ(0, ops[2].result);
	EXPECT_NE(ops[0].timer.id, ops[2].timer.id);
	ops[0].opcode = TWHEEL_OP_CANCEL;
	ops[2].opcode = TWHEEL_OP_GET;
	EXPECT_EQ(3, twheel_submit(self->w, ops, 3));
	EXPECT_EQ(TWHEEL_ARMED, ops[0].timer.state);
	EXPECT_EQ(TWHEEL_ARMED, ops[2].timer.state);
	EXPECT_EQ(0, twheel_submit(self->w, ops, 0));
	EXPECT_EQ(1, twheel_submit(self->w, &get, 1));
	EXPECT_EQ(-EINVAL, get.result);
	EXPECT_EQ(-EINVAL, twheel_submit(self->w, ops, TWHEEL_BATCH_MAX + 1));
}

/* A periodic timer has a fixed rate, its event has a count for late readers, and REARM ends it. */
TEST_F(lib, period)
{
	uint64_t period = 8 * NS_PER_MS, start = twheel_now(self->w) + period, next = start;
	struct twheel_timer t = {
		.deadline_ns = start,
		.period_ns = period,
		.flags = TWHEEL_ABSTIME | TWHEEL_KEEP,
	};
	struct twheel_event ev;
	unsigned int i;

	ASSERT_EQ(0, lib_register(self->w, &t));
	for (i = 0; i < 5; i++) {
		if (i == 3)
			sleep_ms(50);
		ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
		EXPECT_GE(twheel_now(self->w), next);
		EXPECT_EQ(next, ev.deadline_ns);
		EXPECT_GE(ev.expired_ns, next);
		EXPECT_GE(ev.expirations, i == 3 ? 5 : 1);
		next += ev.expirations * period;
	}
	/* The word holds the next deadline. Disarming it there ends the periods. */
	EXPECT_EQ(0, (t.deadline_ns - start) % period);
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(1, twheel_clear(self->w, t.id));
	EXPECT_TRUE(quiet(self->w));
	ASSERT_EQ(0, lib_get(self->w, &t));
	EXPECT_EQ(TWHEEL_IDLE, t.state);
	EXPECT_EQ(TWHEEL_IDLE, lib_cancel(self->w, t.id));
}

/* A timer of twheel_add() may become periodic, until a verb ends that. */
TEST_F(lib, period_of_added)
{
	uint64_t period = 8 * NS_PER_MS, id, at;
	struct twheel_timer t;
	struct twheel_event ev;
	unsigned int i;

	ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), 31, &id));
	t = (struct twheel_timer) { .id = id, .deadline_ns = period, .period_ns = period };
	ASSERT_EQ(0, lib_rearm(self->w, &t));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
		EXPECT_EQ(id, ev.id);
		EXPECT_EQ(31, ev.user_data);
		EXPECT_NE(0, ev.expirations);
	}
	/* An unread event of earlier periods is withdrawn too. */
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(1, twheel_clear(self->w, id));
	EXPECT_TRUE(quiet(self->w));
	/* Armed again, it is still periodic. */
	EXPECT_EQ(0, twheel_set(self->w, id, twheel_after(self->w, period)));
	ASSERT_TRUE(is_unread(self->w));
	/* Moved, its grid starts anew. An unread event may be withdrawn, or comes before. */
	at = twheel_after(self->w, 2 * period);
	EXPECT_EQ(1, twheel_set(self->w, id, at));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	if (ev.deadline_ns < at)
		ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(at, ev.deadline_ns);
	for (i = 0; i < 3; i++)
		ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(1, twheel_clear(self->w, id));
	t = (struct twheel_timer) { .id = id, .deadline_ns = period, .period_ns = period };
	EXPECT_EQ(0, lib_rearm(self->w, &t));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(1, twheel_del(self->w, id));
	EXPECT_TRUE(quiet(self->w));
	/* The next timer in that slot has no period. */
	ASSERT_EQ(0, twheel_add(self->w, 1, 32, &id));
	lib_expect(_metadata, self->w, id, 32, 1);
	EXPECT_TRUE(quiet(self->w));
	EXPECT_EQ(0, twheel_del(self->w, id));
}

/* A slack that was set with REARM applies to later armings, until the timer is deleted. */
TEST_F(lib, slack_of_added)
{
	struct twheel_timer t = { .deadline_ns = 1, .slack_ns = 3 * SECOND };
	struct twheel_usage before = { .size = sizeof(before) },
			    after = { .size = sizeof(after) };
	uint64_t id, slot;

	ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), 1, &id));
	slot = (uint32_t)id;
	t.id = id;
	ASSERT_EQ(0, lib_rearm(self->w, &t));
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(1, twheel_set(self->w, id, twheel_after(self->w, HOUR)));
	ASSERT_EQ(0, lib_get(self->w, &t));
	EXPECT_EQ(3 * SECOND, t.slack_ns);
	EXPECT_EQ(1, twheel_clear(self->w, id));
	EXPECT_EQ(0, twheel_set(self->w, id, 1));
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(1, twheel_del(self->w, id));
	ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), 1, &id));
	ASSERT_EQ(slot, (uint32_t)id);
	t.id = id;
	ASSERT_EQ(0, lib_get(self->w, &t));
	EXPECT_EQ(0, t.slack_ns);
	/* There is no event to withdraw when the new timer is deleted. */
	ASSERT_EQ(0, twheel_usage(self->w, &before));
	EXPECT_EQ(1, twheel_del(self->w, id));
	ASSERT_EQ(0, twheel_usage(self->w, &after));
	EXPECT_EQ(before.withdrawn, after.withdrawn);
}

/* LIST reports all timers of the program, but none of the slots that the library keeps. */
TEST_F(lib, list)
{
	enum { ADDED = 150, REGISTERED = 30 };
	struct twheel_timer part[16], t;
	unsigned int i, total = 0, seen = 0;
	static uint64_t id[ADDED];
	uint32_t cursor = 0;
	int n;

	EXPECT_EQ(0, twheel_list(self->w, part, 16, &cursor));
	for (i = 0; i < ADDED; i++)
		ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), i, &id[i]));
	for (i = 0; i < REGISTERED; i++) {
		t = (struct twheel_timer) { .user_data = 1000, .deadline_ns = HOUR };
		ASSERT_EQ(0, lib_register(self->w, &t));
	}
	for (i = 0; i < ADDED; i += 2)
		ASSERT_EQ(1, twheel_del(self->w, id[i]));
	ASSERT_EQ(1, twheel_clear(self->w, id[1]));
	cursor = 0;
	while ((n = twheel_list(self->w, part, 16, &cursor)) > 0) {
		ASSERT_LE(n, 16);
		for (i = 0; i < (unsigned int)n; i++) {
			total++;
			EXPECT_EQ(part[i].id == id[1] ? TWHEEL_IDLE : TWHEEL_ARMED, part[i].state);
			if (part[i].user_data == 1000)
				continue;
			ASSERT_LT(part[i].user_data, ADDED);
			EXPECT_EQ(id[part[i].user_data], part[i].id);
			EXPECT_EQ(1, part[i].user_data % 2);
			seen++;
		}
	}
	EXPECT_EQ(0, n);
	EXPECT_EQ(ADDED / 2, seen);
	EXPECT_EQ(ADDED / 2 + REGISTERED, total);
}

/* A drain ends all armed timers at once; those of twheel_add() are kept. */
TEST_F(lib, drain)
{
	enum { N = 100 };
	struct twheel_timer t = { .user_data = N, .deadline_ns = HOUR };
	struct twheel_event ev[N + 1];
	uint64_t id[N];
	unsigned int i;

	EXPECT_EQ(-EINVAL, twheel_drain(self->w, 0));
	EXPECT_EQ(-EINVAL, twheel_drain(self->w, 3));
	for (i = 0; i < N; i++)
		ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), i, &id[i]));
	ASSERT_EQ(0, lib_register(self->w, &t));
	EXPECT_EQ(1, twheel_clear(self->w, id[0]));
	EXPECT_EQ(N, twheel_drain(self->w, TWHEEL_DRAIN_EXPIRE));
	EXPECT_EQ(0, twheel_drain(self->w, TWHEEL_DRAIN_EXPIRE));
	EXPECT_EQ(1, twheel_del(self->w, id[1]));
	ASSERT_EQ(N - 1, lib_collect(self->w, ev, N - 1));
	for (i = 0; i < N - 1; i++) {
		EXPECT_EQ(1, ev[i].expirations);
		EXPECT_LE(ev[i].deadline_ns, ev[i].expired_ns);
		if (ev[i].user_data < N)
			EXPECT_EQ(id[ev[i].user_data], ev[i].id);
	}
	EXPECT_TRUE(quiet(self->w));
	EXPECT_EQ(-ENOENT, twheel_del(self->w, t.id));

	/* With CANCEL, unread events stay unread. */
	EXPECT_EQ(0, twheel_set(self->w, id[2], 1));
	ASSERT_TRUE(is_unread(self->w));
	for (i = 3; i < N; i++)
		EXPECT_EQ(0, twheel_set(self->w, id[i], twheel_after(self->w, HOUR)));
	t = (struct twheel_timer) { .deadline_ns = HOUR };
	ASSERT_EQ(0, lib_register(self->w, &t));
	EXPECT_EQ(N - 3 + 1, twheel_drain(self->w, TWHEEL_DRAIN_CANCEL));
	EXPECT_EQ(0, twheel_drain(self->w, TWHEEL_DRAIN_CANCEL));
	EXPECT_EQ(id[2], lib_event(_metadata, self->w).id);
	EXPECT_TRUE(quiet(self->w));
	EXPECT_EQ(-ENOENT, lib_state(self->w, t.id));
	/* No arming is left, and the timers can be armed again. */
	for (i = 3; i < N; i++)
		EXPECT_EQ(0, i % 2 ? twheel_set(self->w, id[i], 1) : twheel_del(self->w, id[i]));
	ASSERT_EQ((N - 3 + 1) / 2, lib_collect(self->w, ev, (N - 3 + 1) / 2));
	EXPECT_TRUE(quiet(self->w));
	ASSERT_EQ(0, twheel_add(self->w, 1, N + 1, &id[0]));
	EXPECT_EQ(N + 1, lib_event(_metadata, self->w).user_data);
}

/* Kept timers stay, with EXPIRE and with CANCEL. Periods end, and unread events stay unread. */
TEST_F(lib, drain_kept_and_periodic)
{
	const uint32_t keep[] = { 0, TWHEEL_KEEP };
	struct twheel_event ev[6];
	unsigned int k;

	for (k = 0; k < 2; k++) {
		struct twheel_timer once = { .deadline_ns = HOUR, .flags = keep[k] };
		struct twheel_timer periodic = {
			.deadline_ns = HOUR,
			.period_ns = HOUR,
			.flags = keep[k],
			.user_data = 1,
		};
		struct twheel_timer due = periodic;

		due.deadline_ns = 1;
		due.flags |= TWHEEL_ABSTIME;
		ASSERT_EQ(0, lib_register(self->w, &once));
		ASSERT_EQ(0, lib_register(self->w, &periodic));
		ASSERT_EQ(0, lib_register(self->w, &due));
		ASSERT_TRUE(is_unread(self->w));
		EXPECT_EQ(2, twheel_drain(self->w, TWHEEL_DRAIN_EXPIRE));
		ASSERT_EQ(3, lib_collect(self->w, ev, 3));
		EXPECT_EQ(due.id, ev[0].id);
		EXPECT_EQ(1, ev[1].expirations);
		EXPECT_EQ(1, ev[2].expirations);
		EXPECT_TRUE(quiet(self->w));
		EXPECT_EQ(keep[k] ? (int)TWHEEL_IDLE : -ENOENT, lib_state(self->w, once.id));
		EXPECT_EQ(keep[k] ? (int)TWHEEL_IDLE : -ENOENT, lib_state(self->w, periodic.id));
		/* An event does not end a periodic timer. */
		EXPECT_EQ((int)TWHEEL_IDLE, lib_state(self->w, due.id));
		EXPECT_EQ(0, twheel_drain(self->w, TWHEEL_DRAIN_CANCEL));

		once.deadline_ns = HOUR;
		periodic.deadline_ns = HOUR;
		periodic.flags = keep[k];
		once.flags = keep[k];
		ASSERT_EQ(0, lib_register(self->w, &once));
		ASSERT_EQ(0, lib_register(self->w, &periodic));
		EXPECT_EQ(2, twheel_drain(self->w, TWHEEL_DRAIN_CANCEL));
		EXPECT_TRUE(quiet(self->w));
		EXPECT_EQ(keep[k] ? (int)TWHEEL_IDLE : -ENOENT, lib_state(self->w, once.id));
		EXPECT_EQ(keep[k] ? (int)TWHEEL_IDLE : -ENOENT, lib_state(self->w, periodic.id));
		EXPECT_LE(0, twheel_del(self->w, due.id));
	}
}

/* ---- Cleared timers ---- */

/* A cleared timer is idle to every function, and can be armed again any number of times. */
TEST_F(lib, cleared)
{
	struct twheel_usage before = { .size = sizeof(before) }, after = before;
	struct twheel_timer t, timers[2];
	uint64_t id, at;
	uint32_t cursor = 0;
	unsigned int i;

	ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), 5, &id));
	EXPECT_EQ(1, twheel_clear(self->w, id));
	EXPECT_EQ(0, twheel_clear(self->w, id));
	t = (struct twheel_timer) { .id = id };
	ASSERT_EQ(0, lib_get(self->w, &t));
	EXPECT_EQ(TWHEEL_IDLE, t.state);
	EXPECT_EQ(0, t.deadline_ns);
	ASSERT_EQ(1, twheel_list(self->w, timers, 2, &cursor));
	EXPECT_EQ(TWHEEL_IDLE, timers[0].state);
	EXPECT_EQ(0, timers[0].deadline_ns);
	/* A drain finds nothing to end. */
	EXPECT_EQ(0, twheel_drain(self->w, TWHEEL_DRAIN_EXPIRE));
	EXPECT_EQ(0, twheel_drain(self->w, TWHEEL_DRAIN_CANCEL));
	EXPECT_TRUE(quiet(self->w));
	/*
	 * Each arming afterwards has its event, whether the wheel has looked at the timer or
	 * not.
	 */
	EXPECT_EQ(0, twheel_set(self->w, id, twheel_after(self->w, HOUR)));
	ASSERT_EQ(0, twheel_usage(self->w, &before));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(!i, twheel_set(self->w, id, twheel_after(self->w, HOUR)));
		EXPECT_EQ(1, twheel_clear(self->w, id));
		if (i == 2)
			EXPECT_TRUE(quiet(self->w));
		at = twheel_after(self->w, 10 * NS_PER_MS);
		EXPECT_EQ(0, twheel_set(self->w, id, at));
		lib_expect(_metadata, self->w, id, 5, at);
	}
	ASSERT_EQ(0, twheel_usage(self->w, &after));
	EXPECT_EQ(before.withdrawn, after.withdrawn);
	/* REARM finds the timer idle, and can make it periodic, which clear ends. */
	EXPECT_EQ(0, twheel_set(self->w, id, twheel_after(self->w, HOUR)));
	EXPECT_EQ(1, twheel_clear(self->w, id));
	t = (struct twheel_timer) { .id = id, .period_ns = 10 * NS_PER_MS };
	ASSERT_EQ(0, lib_rearm(self->w, &t));
	EXPECT_EQ(TWHEEL_IDLE, t.state);
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(1, twheel_clear(self->w, id));
	EXPECT_TRUE(quiet(self->w));
	EXPECT_EQ(0, twheel_set(self->w, id, NEVER));
	/* Deleting a cleared timer ends no arming. */
	EXPECT_EQ(1, twheel_clear(self->w, id));
	EXPECT_EQ(0, twheel_del(self->w, id));
	expect_gone(_metadata, self->w, id);
	/* The slot works like a new one. */
	ASSERT_EQ(0, twheel_add(self->w, 3, 6, &id));
	lib_expect(_metadata, self->w, id, 6, 3);
}

/* A deadline that looks like the word of a cleared timer means never. */
TEST_F(lib, deadline_like_cleared)
{
	uint64_t id, other, data = 2;
	struct twheel_timer t;

	ASSERT_EQ(0, twheel_add(self->w, TWHEEL_PARKED, 1, &id));
	ASSERT_EQ(1, twheel_add_many(self->w, TWHEEL_PARKED, &data, &other, 1));
	EXPECT_EQ(TWHEEL_ARMED, lib_state(self->w, id));
	EXPECT_EQ(1, twheel_set(self->w, id, TWHEEL_PARKED));
	EXPECT_EQ(1, twheel_set_many(self->w, &other, 1, TWHEEL_PARKED));
	t = (struct twheel_timer) { .id = id };
	ASSERT_EQ(0, lib_get(self->w, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_EQ(NEVER, t.deadline_ns);
	EXPECT_EQ(1, twheel_del(self->w, id));
	EXPECT_EQ(1, twheel_clear(self->w, other));
	EXPECT_EQ(0, twheel_set_many(self->w, &other, 1, NEVER));
	EXPECT_EQ(1, twheel_del(self->w, other));
}

/* ---- Slots ---- */

/* A wheel takes its maximum number of timers, and reuses the slots of deleted ones. */
TEST_F(lib, full)
{
	struct twheel_options o = self->o;
	struct twheel *w;
	uint64_t id[201];
	unsigned int round, i;

	o.max_timers = 200;
	ASSERT_EQ(0, twheel_open(&w, &o));
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 200; i++)
			ASSERT_EQ(0, twheel_add(w, twheel_now(w) + HOUR, i, &id[i]));
		EXPECT_EQ(-ENOSPC, twheel_add(w, twheel_now(w) + HOUR, i, &id[200]));
		/* There is room to replace one, even after it has expired. */
		EXPECT_EQ(1, twheel_replace(w, id[0], 1, 0, &id[0]));
		lib_expect(_metadata, w, id[0], 0, 1);
		EXPECT_EQ(0, twheel_replace(w, id[0], twheel_now(w) + HOUR, 0, &id[0]));
		for (i = 0; i < 200; i++)
			ASSERT_EQ(1, twheel_del(w, id[i]));
	}
	twheel_close(w);
}

static pthread_barrier_t all_armed;

/*
 * No thread ends before all have armed their timers, because the next one would get its
 * leftover slots.
 */
static void *add_many_here(void *arg)
{
	uint64_t *id = arg;
	struct twheel *w = (struct twheel *)(uintptr_t)id[0];
	unsigned int i;

	for (i = 0; i < 100; i++)
		twheel_add(w, twheel_now(w) + 20 * NS_PER_MS, 1000 + i, &id[i]);
	pthread_barrier_wait(&all_armed);
	return NULL;
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/*
 * Threads share no cache lines, except at the ends of the blocks of 64 slots that each of them
 * gets. Timers outlive the thread that armed them.
 */
TEST_F(lib, threads_share_no_lines)
{
	struct twheel_event ev[200];
	uint64_t ids[4][100], all[400];
	unsigned int i, j, shared = 0;
	pthread_t thread[4];

	/* Start in the middle of a cache line. */
	reserve_timer(_metadata, self->w, 0);
	ASSERT_EQ(0, pthread_barrier_init(&all_armed, NULL, 4));
	for (i = 0; i < 4; i++) {
		ids[i][0] = (uintptr_t)self->w;
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, add_many_here, ids[i]));
	}
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
	for (i = 0; i < 4; i++) {
		for (j = 0; j < 100; j++)
			all[i * 100 + j] = (ids[i][j] & 0xffffffff) << 2 | i;
	}
	qsort(all, 400, sizeof(*all), compare_ids);
	for (i = 1; i < 400; i++) {
		ASSERT_NE(all[i - 1] >> 2, all[i] >> 2);
		/* The slot is in the upper bits. A line holds 4 slots of 16 bytes. */
		shared += all[i - 1] >> 4 == all[i] >> 4 && (all[i - 1] & 3) != (all[i] & 3);
	}
	pthread_barrier_destroy(&all_armed);
	TH_LOG("%u lines shared", shared);
	/* Each thread takes two blocks of 64 slots, so there are seven borders. */
	EXPECT_LE(shared, 7);
	for (i = 0; i < 400; i += 200)
		ASSERT_EQ(200, lib_collect(self->w, ev, 200));
	EXPECT_TRUE(quiet(self->w));
}

static void *add_and_del(void *arg)
{
	struct twheel *w = arg;
	uint64_t id[100];
	unsigned int i;

	for (i = 0; i < 100; i++)
		twheel_add(w, twheel_now(w) + HOUR, 0, &id[i]);
	for (i = 0; i < 100; i++)
		twheel_del(w, id[i]);
	return NULL;
}

/* Other threads reuse the slots of threads that have ended: there is no leak. */
TEST_F(lib, threads_end)
{
	struct twheel_options o = self->o;
	struct twheel_usage usage = { .size = sizeof(usage) };
	struct twheel_stats s;
	struct twheel *w;
	pthread_t thread;
	unsigned int i;

	o.max_timers = 256;
	ASSERT_EQ(0, twheel_open(&w, &o));
	for (i = 0; i < 50; i++) {
		ASSERT_EQ(0, pthread_create(&thread, NULL, add_and_del, w));
		ASSERT_EQ(0, pthread_join(thread, NULL));
	}
	ASSERT_EQ(0, twheel_usage(w, &usage));
	EXPECT_LE(usage.refills, 3);
	ASSERT_EQ(0, twheel_stats(w, &s));
	EXPECT_LE(s.allocated, 192);
	twheel_close(w);
}

static void *del_all(void *arg)
{
	uint64_t *id = arg;
	struct twheel *w = (struct twheel *)(uintptr_t)id[1000];
	unsigned int i;

	for (i = 0; i < 1000; i++)
		id[i] = twheel_del(w, id[i]) == 1;
	return NULL;
}

/* Timers are deleted by another thread than the one that added them: their slots are reused. */
TEST_F(lib, del_by_other_thread)
{
	uint64_t at = twheel_now(self->w) + HOUR;
	struct twheel_usage usage = { .size = sizeof(usage) };
	static uint64_t id[1001];
	unsigned int round, i;
	pthread_t thread;

	for (round = 0; round < 10; round++) {
		for (i = 0; i < 1000; i++)
			ASSERT_EQ(0, twheel_add(self->w, at, i, &id[i]));
		id[1000] = (uintptr_t)self->w;
		ASSERT_EQ(0, pthread_create(&thread, NULL, del_all, id));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		for (i = 0; i < 1000; i++)
			ASSERT_EQ(1, id[i]);
	}
	ASSERT_EQ(0, twheel_usage(self->w, &usage));
	EXPECT_LE(usage.refills, 20);
}

/* ---- An event that is being read ---- */

/* What another thread does between the return of the kernel's read and that of twheel_read(). */
static struct meanwhile {
	int (*act)(struct meanwhile *m);
	struct twheel *w;
	uint64_t id;
	uint64_t deadline_ns;
	int ret;
} *meanwhile;

static void *do_meanwhile(void *arg)
{
	struct meanwhile *m = arg;

	m->ret = m->act(m);
	return NULL;
}

static pthread_t meanwhile_thread;

/* How often a signal interrupts the read first. */
static unsigned int interruptions;

/* The CPU time that a thread uses between the two, and whether it is running. */
static unsigned int compute_ms;
static bool computing;

static void compute(uint64_t ns)
{
	uint64_t end = now(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

/* Replaces the C library's preadv2(), under the name that its headers declare. */
ssize_t hooked_preadv2(int fd, const struct iovec *iov, int count, long offset, int flags)
	__asm__("preadv2");
ssize_t hooked_preadv64v2(int fd, const struct iovec *iov, int count, int64_t offset, int flags)
	__asm__("preadv64v2");

ssize_t hooked_preadv2(int fd, const struct iovec *iov, int count, long offset, int flags)
{
	return hooked_preadv64v2(fd, iov, count, offset, flags);
}

ssize_t hooked_preadv64v2(int fd, const struct iovec *iov, int count,
			  int64_t offset __attribute__((unused)), int flags)
{
	ssize_t ret;

	if (interruptions) {
		interruptions--;
		errno = EINTR;
		return -1;
	}
	ret = syscall(SYS_preadv2, fd, iov, count, -1L, -1L, flags);
	if (ret > 0 && meanwhile) {
		pthread_create(&meanwhile_thread, NULL, do_meanwhile, meanwhile);
		meanwhile = NULL;
		sleep_ms(QUIET_MS);
	}
	if (ret > 0 && compute_ms) {
		__atomic_store_n(&computing, true, __ATOMIC_SEQ_CST);
		compute(compute_ms * NS_PER_MS);
	}
	return ret;
}

static int act_del(struct meanwhile *m)
{
	return twheel_del(m->w, m->id);
}

static int act_clear(struct meanwhile *m)
{
	return twheel_clear(m->w, m->id);
}

static int act_set(struct meanwhile *m)
{
	return twheel_set(m->w, m->id, m->deadline_ns);
}

FIXTURE(on_its_way) {
	struct twheel *own;
	struct meanwhile m;
};

/* Blocking descriptors always use preadv2(). */
FIXTURE_SETUP(on_its_way)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_KERNEL };
	int fd;

	OPEN_OR_SKIP(&o, &self->own);
	fd = dup(twheel_fd(self->own));
	ASSERT_EQ(0, fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK));
	ASSERT_EQ(0, twheel_open_fd(&self->m.w, fd));
	ASSERT_EQ(0, twheel_add(self->m.w, 1, 5, &self->m.id));
	self->m.ret = -1;
}

FIXTURE_TEARDOWN(on_its_way)
{
	if (!self->own)
		return;
	lib_conserved(_metadata, self->own);
	twheel_close(self->m.w);
	twheel_close(self->own);
}

/* Has another thread act while an event is being read. Returns the result of its call. */
static int act_meanwhile(struct __test_metadata *_metadata, struct meanwhile *m, int expected)
{
	struct twheel_event ev;

	ASSERT_TRUE(is_unread(m->w));
	meanwhile = m;
	EXPECT_EQ(expected, twheel_read(m->w, &ev, 1));
	ASSERT_EQ(0, pthread_join(meanwhile_thread, NULL));
	return m->ret;
}

/*
 * G5: A timer is deleted while its event is being read: the event is delivered, and del waits
 * in order to report that.
 */
TEST_F(on_its_way, del)
{
	self->m.act = act_del;
	EXPECT_EQ(0, act_meanwhile(_metadata, &self->m, 1));
	EXPECT_TRUE(quiet(self->m.w));
}

TEST_F(on_its_way, clear)
{
	self->m.act = act_clear;
	EXPECT_EQ(0, act_meanwhile(_metadata, &self->m, 1));
	EXPECT_TRUE(quiet(self->m.w));
	EXPECT_EQ(0, twheel_del(self->m.w, self->m.id));
}

/* A signal that interrupts the search among withdrawn events does not become an error. */
TEST_F(on_its_way, signal)
{
	struct twheel_event ev;

	ASSERT_TRUE(is_unread(self->m.w));
	interruptions = 2;
	EXPECT_EQ(1, twheel_read(self->m.w, &ev, 1));
	EXPECT_EQ(0, interruptions);
	EXPECT_EQ(0, twheel_del(self->m.w, self->m.id));
}

/*
 * A timer is set while its event is being read: the event is delivered, and the new deadline
 * has its own event.
 */
TEST_F(on_its_way, set)
{
	uint64_t deadlines[] = { twheel_after(self->m.w, 300 * NS_PER_MS), 2, 1 };
	unsigned int i;

	self->m.act = act_set;
	for (i = 0; i < ARRAY_SIZE(deadlines); i++) {
		self->m.deadline_ns = deadlines[i];
		EXPECT_EQ(0, act_meanwhile(_metadata, &self->m, 1));
		lib_expect(_metadata, self->m.w, self->m.id, 5, deadlines[i]);
		EXPECT_TRUE(quiet(self->m.w));
		EXPECT_EQ(0, twheel_set(self->m.w, self->m.id, 1));
	}
	EXPECT_EQ(1, twheel_del(self->m.w, self->m.id));
}

static int act_clear_and_set(struct meanwhile *m)
{
	int ret = twheel_clear(m->w, m->id) == 1 && !twheel_set(m->w, m->id, NEVER);

	m->deadline_ns = now(CLOCK_MONOTONIC);
	return ret;
}

/* Another timer is cleared and set meanwhile, without the lock that the reader holds. */
TEST_F(on_its_way, clear_and_set)
{
	uint64_t expired = self->m.id;

	ASSERT_EQ(0, twheel_add(self->m.w, NEVER, 6, &self->m.id));
	self->m.act = act_clear_and_set;
	EXPECT_EQ(1, act_meanwhile(_metadata, &self->m, 1));
	EXPECT_LT(self->m.deadline_ns + QUIET_MS * NS_PER_MS / 2, now(CLOCK_MONOTONIC));
	EXPECT_EQ(1, twheel_del(self->m.w, self->m.id));
	EXPECT_EQ(0, twheel_del(self->m.w, expired));
}

/* ---- No priority inversion ---- */

/* Makes this thread the only one with this priority on the first processor. */
static bool be_urgent(int priority)
{
	struct sched_param param = { .sched_priority = priority };
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	return !sched_setaffinity(0, sizeof(first), &first) &&
	       !sched_setscheduler(0, priority ? SCHED_FIFO : SCHED_OTHER, &param);
}

static void *read_as_low(void *arg)
{
	struct meanwhile *m = arg;
	struct twheel_event ev;

	be_urgent(0);
	m->ret = twheel_read(m->w, &ev, 1);
	return NULL;
}

static void *compute_as_middle(void *arg)
{
	uint64_t end = now(CLOCK_MONOTONIC) + 3 * SECOND;

	(void)arg;
	be_urgent(10);
	while (now(CLOCK_MONOTONIC) < end)
		;
	return NULL;
}

static void *set_as_high(void *arg)
{
	uint64_t *took = arg, start;

	be_urgent(20);
	start = now(CLOCK_MONOTONIC);
	took[1] = twheel_set((struct twheel *)(uintptr_t)took[1], took[2], NEVER);
	took[0] = now(CLOCK_MONOTONIC) - start;
	return NULL;
}

/*
 * A thread of low priority is in a read, a thread of high priority sets the timer whose event
 * is being read, and one of middle priority computes. The first inherits the high priority, so
 * the second waits only for the first.
 */
TEST_F_TIMEOUT(on_its_way, inheritance, 60)
{
	struct meanwhile m = self->m;
	pthread_t low, middle, high;
	uint64_t took[3] = { 0, (uintptr_t)m.w, m.id };

	ASSERT_TRUE(is_unread(m.w));
	if (!be_urgent(30))
		SKIP(return, "no priorities here");
	compute_ms = 300;
	ASSERT_EQ(0, pthread_create(&low, NULL, read_as_low, &m));
	while (!__atomic_load_n(&computing, __ATOMIC_SEQ_CST))
		sleep_ms(1);
	ASSERT_EQ(0, pthread_create(&high, NULL, set_as_high, took));
	sleep_ms(20);
	ASSERT_EQ(0, pthread_create(&middle, NULL, compute_as_middle, NULL));
	ASSERT_EQ(0, pthread_join(high, NULL));
	compute_ms = 0;
	ASSERT_EQ(0, pthread_join(middle, NULL));
	ASSERT_EQ(0, pthread_join(low, NULL));
	ASSERT_TRUE(be_urgent(0));
	TH_LOG("%llu ms", (unsigned long long)(took[0] / NS_PER_MS));
	EXPECT_LT(took[0], 1500 * NS_PER_MS);
	EXPECT_EQ(1, m.ret);
	EXPECT_EQ(0, took[1]);
	EXPECT_EQ(1, twheel_del(m.w, m.id));
}

/* ---- Cost ---- */

/* Pairs of add and del need no system call, after the first few. */
TEST_F_TIMEOUT(lib, add_del_needs_no_syscall, 120)
{
	enum { WINDOW = 32, PAIRS = 100000 };
	uint64_t id[WINDOW] = { 0 };
	struct twheel_usage u = { .size = sizeof(u) };
	unsigned int i;

	for (i = 0; i < PAIRS; i++) {
		uint64_t *one = &id[i % WINDOW];

		if (i >= WINDOW)
			ASSERT_EQ(1, twheel_del(self->w, *one));
		ASSERT_EQ(0, twheel_add(self->w, twheel_now(self->w) + HOUR + i, i, one));
	}
	ASSERT_EQ(0, twheel_usage(self->w, &u));
	EXPECT_LE(u.kicks, 3);
	EXPECT_LE(u.refills, 1);
	EXPECT_EQ(0, u.withdrawn);
	for (i = 0; i < WINDOW; i++)
		EXPECT_EQ(1, twheel_del(self->w, id[i]));
}

/*
 * With deadlines in random order, only those that come before all others cost a kick: about ln
 * n of n.
 */
TEST_F_TIMEOUT(lib, random_order, 120)
{
	enum { N = 100000 };
	uint64_t start = twheel_after(self->w, HOUR), id;
	__u64 seed = now(CLOCK_REALTIME);
	struct twheel_usage u = { .size = sizeof(u) };
	unsigned int i;

	TH_LOG("seed %llu", (unsigned long long)seed);
	for (i = 0; i < N; i++)
		ASSERT_EQ(0, twheel_add(self->w, start + next_random(&seed) % HOUR, i, &id));
	ASSERT_EQ(0, twheel_usage(self->w, &u));
	TH_LOG("%llu kicks", (unsigned long long)u.kicks);
	EXPECT_LE(u.kicks, 60);
	EXPECT_EQ((N + 63) / 64, u.refills);
}

/*
 * The wheel is kicked for deadlines before its next turn, and for no others. It has one level
 * of 34 s, so it turns only at deadlines.
 */
TEST_F(lib, kick_only_before_next_turn)
{
	enum { TICK = 1 << 23 };
	struct twheel_options o = self->o;
	struct twheel_usage u = { .size = sizeof(u) };
	uint64_t at, start, id, other;
	struct twheel *w;

	o.levels = 1;
	o.slot_bits = 12;
	o.tick_ns = TICK;
	ASSERT_EQ(0, twheel_open(&w, &o));
	at = twheel_after(w, 20 * SECOND);
	start = (at - 1) & -(uint64_t)TICK;
	ASSERT_EQ(0, twheel_add(w, at, 0, &id));
	ASSERT_EQ(0, twheel_usage(w, &u));
	EXPECT_EQ(1, u.kicks);
	/* Within the tick at which the wheel looks by itself. */
	EXPECT_EQ(1, twheel_set(w, id, start + 1));
	/* A later deadline. */
	ASSERT_EQ(0, twheel_add(w, at + 2 * TICK, 0, &other));
	EXPECT_EQ(1, twheel_set(w, other, at + 1 + TICK));
	ASSERT_EQ(0, twheel_usage(w, &u));
	EXPECT_EQ(1, u.kicks);
	EXPECT_EQ(1, twheel_set(w, id, start));
	ASSERT_EQ(0, twheel_usage(w, &u));
	EXPECT_EQ(2, u.kicks);
	twheel_close(w);
	/* A deadline that never comes does not wake the wheel. */
	ASSERT_EQ(0, twheel_open(&w, &o));
	ASSERT_EQ(0, twheel_add(w, ~0ULL, 0, &id));
	ASSERT_EQ(0, twheel_usage(w, &u));
	EXPECT_EQ(0, u.kicks);
	EXPECT_EQ(1, twheel_clear(w, id));
	twheel_close(w);
}

#define TIMERS	100000
#define MOVES	200000

static void move_later(struct twheel *w, const uint64_t *id)
{
	/*
	 * Read the clock only once, because on some machines that is a system call, which the
	 * tracer sees.
	 */
	uint64_t at = twheel_now(w) + 2 * HOUR;
	__u64 seed = 88172645463325252ULL;
	unsigned int i;

	syscall(SYS_getppid);
	for (i = 0; i < MOVES; i++) {
		if (twheel_set(w, id[next_random(&seed) % TIMERS], at + i) != 1)
			_exit(5);
	}
	syscall(SYS_getppid);
}

/* Moves timers of REGISTER later and later. */
static void child_moves_registered(struct twheel *w)
{
	struct twheel_op *ops = calloc(TWHEEL_BATCH_MAX, sizeof(*ops));
	static uint64_t id[TIMERS];
	unsigned int i, n, j;

	if (!ops)
		_exit(3);
	for (i = 0; i < TIMERS; i += n) {
		n = TIMERS - i < TWHEEL_BATCH_MAX ? TIMERS - i : TWHEEL_BATCH_MAX;
		fill_ops(ops, n, TWHEEL_OP_REGISTER, HOUR, TWHEEL_KEEP);
		if (twheel_submit(w, ops, n) != (int)n)
			_exit(4);
		for (j = 0; j < n; j++)
			id[i + j] = ops[j].timer.id;
	}
	move_later(w, id);
}

static void child_adds(struct twheel *w, uint64_t *id)
{
	uint64_t at = twheel_now(w) + HOUR;
	unsigned int i;

	for (i = 0; i < TIMERS; i++) {
		if (twheel_add(w, at + i, i, &id[i]))
			_exit(4);
	}
}

/* Moves timers of twheel_add() later and later. */
static void child_moves(struct twheel *w)
{
	static uint64_t id[TIMERS];

	child_adds(w, id);
	move_later(w, id);
}

/* Adds and deletes timers with a constant delay. */
static void child_pairs(struct twheel *w)
{
	uint64_t id[64], at;
	unsigned int i;

	at = twheel_now(w) + HOUR;
	for (i = 0; i < 64; i++) {
		if (twheel_add(w, at + i, i, &id[i]))
			_exit(4);
	}
	syscall(SYS_getppid);
	for (; i < MOVES; i++) {
		if (twheel_del(w, id[i % 64]) != 1 || twheel_add(w, at + i, i, &id[i % 64]))
			_exit(5);
	}
	syscall(SYS_getppid);
}

/* Moves timers earlier, but not before the first of all. */
static void child_marks(struct twheel *w)
{
	static uint64_t id[TIMERS];
	__u64 seed = 88172645463325252ULL;
	uint64_t at, first;
	unsigned int i;

	child_adds(w, id);
	at = twheel_now(w);
	if (twheel_add(w, at + HOUR / 4, 0, &first))
		_exit(4);
	syscall(SYS_getppid);
	for (i = 0; i < MOVES; i++) {
		if (twheel_set(w, id[next_random(&seed) % TIMERS],
			       at + HOUR / 2 + next_random(&seed) % (HOUR / 4)) != 1)
			_exit(5);
	}
	syscall(SYS_getppid);
}

/* Forks a traced child, which has stopped itself. Returns 0 in the child. */
static pid_t fork_traced(struct __test_metadata *_metadata)
{
	pid_t child = fork();
	int status;

	if (!child) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(2);
		raise(SIGSTOP);
		return 0;
	}
	ASSERT_GT(child, 0);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFSTOPPED(status)) TH_LOG("no tracing here");
	ASSERT_EQ(0, ptrace(PTRACE_SETOPTIONS, child, NULL,
			    PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
	return child;
}

/* Lets @child run into its next system call. Returns its number, or -1 if the child has exited. */
static int run_to_call(struct __test_metadata *_metadata, pid_t child, int *status)
{
	struct { __u8 op, pad[3]; __u32 arch; uint64_t ip, sp, nr, args[6]; } info;

	for (;;) {
		ASSERT_EQ(0, ptrace(PTRACE_SYSCALL, child, NULL, NULL));
		ASSERT_EQ(child, waitpid(child, status, 0));
		if (!WIFSTOPPED(*status))
			return -1;
		if (WSTOPSIG(*status) != (SIGTRAP | 0x80))
			continue;
		ASSERT_GT(ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info), 0);
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
			return info.nr;
	}
}

/* Without a stable clock in the processor, the C library reads the clock with a system call. */
static bool reads_clock(int nr)
{
#ifdef SYS_clock_gettime64
	if (nr == SYS_clock_gettime64)
		return true;
#endif
	return nr == SYS_clock_gettime;
}

/*
 * Runs @act in a child. Returns how many system calls it makes between its two marker calls,
 * except those that read the clock.
 */
static unsigned int count_calls(struct __test_metadata *_metadata, const struct twheel_options *o,
				void (*act)(struct twheel *w))
{
	pid_t child = fork_traced(_metadata);
	unsigned int calls = 0, marks = 0;
	int status, nr;

	if (!child) {
		struct twheel *w;

		if (twheel_open(&w, o))
			_exit(3);
		act(w);
		_exit(0);
	}
	while ((nr = run_to_call(_metadata, child, &status)) >= 0) {
		if (nr == SYS_getppid)
			marks++;
		else if (marks == 1 && !reads_clock(nr))
			calls++;
	}
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	EXPECT_EQ(2, marks);
	return calls;
}

/* Moving 100,000 timers any number of times takes no system call, as a tracer counts. */
TEST_F_TIMEOUT(lib, no_system_call, 300)
{
	EXPECT_EQ(0, count_calls(_metadata, &self->o, child_moves_registered));
	EXPECT_EQ(0, count_calls(_metadata, &self->o, child_moves));
	EXPECT_EQ(0, count_calls(_metadata, &self->o, child_pairs));
	EXPECT_EQ(0, count_calls(_metadata, &self->o, child_marks));
	/* Pairs of add and del in a checked wheel need none either. */
	self->o.flags |= TWHEEL_OPEN_CHECKED;
	EXPECT_EQ(0, count_calls(_metadata, &self->o, child_pairs));
}

/* ---- A race, step by step ---- */

/*
 * The number of instructions of a set before which another thread reads, each in a round of
 * its own. It is somewhat more than a set needs to take the lock.
 */
#define STEPS	(sizeof(long) == 8 ? 200 : 400)

struct steps {
	struct twheel *w;
	/* Posted when the other thread may read, and when it has. */
	sem_t go;
	sem_t has_read;
	/* The number of rounds that the reading thread has completed, and the setting thread. */
	unsigned int done;
	unsigned int rounds;
	bool read;
	/*
	 * The number of rounds in which an event was read, and in which set returned the wrong
	 * value.
	 */
	unsigned int events;
	unsigned int wrong;
};

static void *read_at_step(void *arg)
{
	struct steps *s = arg;
	struct twheel_event ev;
	unsigned int round;

	for (round = 0; round < STEPS; round++) {
		sem_wait(&s->go);
		s->read = twheel_read(s->w, &ev, 1) == 1;
		__atomic_store_n(&s->done, round + 1, __ATOMIC_RELEASE);
		sem_post(&s->has_read);
	}
	return NULL;
}

static void child_steps(const struct twheel_options *o, struct steps *s)
{
	pthread_t thread;
	uint64_t id;
	int ret;

	if (twheel_open(&s->w, o) || pthread_create(&thread, NULL, read_at_step, s))
		_exit(3);
	while (s->rounds < STEPS) {
		if (twheel_add(s->w, 1, 0, &id))
			_exit(4);
		syscall(SYS_getppid);
		ret = twheel_set(s->w, id, NEVER);
		s->rounds++;
		while (sem_wait(&s->has_read))
			;
		s->events += s->read;
		s->wrong += ret != !s->read;
		if (twheel_del(s->w, id) != 1)
			_exit(5);
	}
	_exit(0);
}

/*
 * Another thread reads an unread event before the first instruction of a set, before the
 * second, and so on. The set must return whether it was read.
 */
TEST_F_TIMEOUT(lib, set_and_read, 120)
{
	struct steps *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int round, step, ms;
	pid_t child;
	int status;

	ASSERT_TRUE(s != MAP_FAILED);
	ASSERT_EQ(0, sem_init(&s->go, 1, 0) | sem_init(&s->has_read, 1, 0));
	child = fork_traced(_metadata);
	if (!child)
		child_steps(&self->o, s);
	for (round = 0; round < STEPS; round++) {
		int nr;

		do {
			nr = run_to_call(_metadata, child, &status);
			ASSERT_GE(nr, 0);
		} while (nr != SYS_getppid);
		for (step = 0; step <= round && s->rounds == round; step++) {
			ASSERT_EQ(0, ptrace(PTRACE_SINGLESTEP, child, NULL, NULL));
			ASSERT_EQ(child, waitpid(child, &status, 0));
			ASSERT_TRUE(WIFSTOPPED(status));
		}
		sem_post(&s->go);
		/* If the reader waits for the lock, the set comes first. */
		for (ms = 0; ms < 20 && __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) == round; ms++)
			sleep_ms(1);
	}
	while (run_to_call(_metadata, child, &status) >= 0)
		;
	EXPECT_EQ(0, status);
	TH_LOG("%u of %u read", s->events, s->rounds);
	EXPECT_EQ(0, s->wrong);
	EXPECT_EQ(STEPS, s->rounds);
	EXPECT_NE(0, s->events);
	EXPECT_NE(STEPS, s->events);
}

/* ---- Another process cancels or expires all timers ---- */

FIXTURE(drained) {
	struct twheel *w;
};

FIXTURE_SETUP(drained)
{
	struct twheel_options o = {
		.size = sizeof(o),
		.flags = TWHEEL_OPEN_KERNEL,
		.max_timers = 256,
	};

	OPEN_OR_SKIP(&o, &self->w);
}

FIXTURE_TEARDOWN(drained)
{
	lib_close(_metadata, self->w);
}

static void add_some(struct __test_metadata *_metadata, struct twheel *w, uint64_t delay,
		     uint64_t *id, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		ASSERT_EQ(0, twheel_add(w, twheel_now(w) + delay, i, &id[i]));
}

/* Expects that @n timers can be added and expire, each in a slot of its own. */
static void all_come(struct __test_metadata *_metadata, struct twheel *w, unsigned int n)
{
	bool seen[256] = { false };
	struct twheel_event ev[256];
	uint64_t id[256];
	unsigned int i;

	add_some(_metadata, w, 20 * NS_PER_MS, id, n);
	ASSERT_EQ(n, lib_collect(w, ev, n));
	for (i = 0; i < n; i++) {
		ASSERT_LT(ev[i].user_data, n);
		EXPECT_FALSE(seen[ev[i].user_data]);
		EXPECT_EQ(id[ev[i].user_data], ev[i].id);
		seen[ev[i].user_data] = true;
	}
	for (i = 0; i < n; i++)
		EXPECT_EQ(0, twheel_del(w, id[i]));
	EXPECT_TRUE(quiet(w));
}

/* All armings have ended, and their owner gets -ENOENT; the other timers are as before. */
TEST_F(drained, owner_gets_enoent)
{
	enum { N = 200 };
	uint64_t id[N], read, unread, spare;
	struct twheel_event ev;
	struct twheel_stats s;
	unsigned int i;

	ASSERT_EQ(0, twheel_add(self->w, 1, 0, &read));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	ASSERT_EQ(0, twheel_add(self->w, 1, 0, &unread));
	ASSERT_EQ(1, twheel_wait(self->w, TIMEOUT_MS * NS_PER_MS));
	add_some(_metadata, self->w, HOUR, id, N);
	/* A slot that is free when the timers are canceled. */
	ASSERT_EQ(0, twheel_add(self->w, twheel_now(self->w) + HOUR, 0, &spare));
	ASSERT_EQ(1, twheel_del(self->w, spare));
	/* LIST sees the words, whether or not the kernel has looked. */
	EXPECT_EQ(N, cancel_all(twheel_fd(self->w)));
	for (i = 0; i < N; i++) {
		EXPECT_EQ(-ENOENT, i % 2 ? twheel_del(self->w, id[i]) :
					   twheel_set(self->w, id[i], 1));
		EXPECT_EQ(-ENOENT, twheel_del(self->w, id[i]));
	}
	EXPECT_EQ(1, twheel_del(self->w, unread));
	EXPECT_EQ(0, twheel_del(self->w, read));
	EXPECT_TRUE(quiet(self->w));
	all_come(_metadata, self->w, 256);
	ASSERT_EQ(0, twheel_stats(self->w, &s));
	/* Plus the slot that twheel_wake() uses. */
	EXPECT_LE(s.allocated, 256 + 1);
	EXPECT_EQ(0, s.armed);
}

/* Timers that another process expired deliver events like any others. */
TEST_F(drained, expire)
{
	struct twheel_event ev[10];
	uint64_t id[10];
	unsigned int i;

	add_some(_metadata, self->w, HOUR, id, 10);
	EXPECT_EQ(10, expire_all(twheel_fd(self->w)));
	EXPECT_EQ(1, twheel_del(self->w, id[0]));
	ASSERT_EQ(9, lib_collect(self->w, ev, 9));
	for (i = 0; i < 9; i++)
		EXPECT_EQ(1, ev[i].expirations);
	for (i = 1; i < 10; i++)
		EXPECT_EQ(0, twheel_del(self->w, id[i]));
	all_come(_metadata, self->w, 10);
}

/* A slot that the kernel assigns again is not used twice: the old timer's owner gets -ENOENT. */
TEST_F(drained, slots_of_added)
{
	uint64_t id[256], more;
	unsigned int i, round;

	for (round = 0; round < 3; round++) {
		add_some(_metadata, self->w, HOUR, id, 256);
		EXPECT_EQ(256, cancel_all(twheel_fd(self->w)));
		/* This timer is in one of those slots. */
		ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), 0, &more));
		for (i = 0; i < 256; i++)
			EXPECT_EQ(-ENOENT, twheel_del(self->w, id[i]));
		EXPECT_EQ(1, twheel_del(self->w, more));
		for (i = 0; i < 256; i++)
			EXPECT_EQ(-ENOENT, twheel_del(self->w, id[i]));
		all_come(_metadata, self->w, 256);
	}
}

/* The library leaves slots alone that were assigned to timers of REGISTER. */
TEST_F(drained, slots_of_registered)
{
	struct twheel_op ops[128] = { };
	struct twheel_timer t;
	uint64_t id[128];
	unsigned int i;

	add_some(_metadata, self->w, HOUR, id, 128);
	EXPECT_EQ(128, cancel_all(twheel_fd(self->w)));
	fill_ops(ops, 128, TWHEEL_OP_REGISTER, HOUR, TWHEEL_KEEP);
	ASSERT_EQ(64, twheel_submit(self->w, ops, 64));
	for (i = 64; i < 128; i++)
		ASSERT_EQ(0, lib_register(self->w, &ops[i].timer));
	for (i = 0; i < 128; i++)
		EXPECT_EQ(-ENOENT, twheel_del(self->w, id[i]));
	for (i = 0; i < 128; i++) {
		t = (struct twheel_timer) { .id = ops[i].timer.id };
		ASSERT_EQ(0, lib_get(self->w, &t));
		EXPECT_EQ(TWHEEL_ARMED, t.state);
		EXPECT_EQ(ops[i].timer.deadline_ns, t.deadline_ns);
	}
	all_come(_metadata, self->w, 128);
}

/* ---- Random ---- */

/* G3, G5: Random verbs in a single thread are compared with a model. */
TEST_F_TIMEOUT(lib, model, 120)
{
	enum { N = 300, ROUNDS = 30000 };
	struct { uint64_t id, deadline; bool added, armed; } *m, model[N] = { };
	__u64 seed = now(CLOCK_REALTIME);
	uint64_t at;
	struct twheel_event ev[32];
	unsigned int i, j, reads = 0;
	int n, state;

	TH_LOG("seed %llu", (unsigned long long)seed);
	for (i = 0; i < ROUNDS; i++) {
		m = &model[next_random(&seed) % N];
		at = twheel_now(self->w) + next_random(&seed) % (5 * NS_PER_MS);
		if (!(next_random(&seed) % 8))
			at += HOUR;
		if (!(next_random(&seed) % 4)) {
			n = twheel_read(self->w, ev, 1 + next_random(&seed) % 32);
			ASSERT_GE(n, 0);
			at = twheel_now(self->w);
			for (j = 0; j < (unsigned int)n; j++) {
				ASSERT_LT(ev[j].user_data, N);
				m = &model[ev[j].user_data];
				ASSERT_TRUE(m->added);
				ASSERT_TRUE(m->armed);
				ASSERT_EQ(m->id, ev[j].id);
				ASSERT_EQ(m->deadline, ev[j].deadline_ns);
				ASSERT_LE(m->deadline, ev[j].expired_ns);
				ASSERT_LE(ev[j].expired_ns, at);
				m->armed = false;
				reads++;
			}
			continue;
		}
		if (!m->added) {
			if (m->id)
				ASSERT_EQ(-ENOENT, twheel_del(self->w, m->id));
			ASSERT_EQ(0, twheel_add(self->w, at, m - model, &m->id));
			m->added = true;
			m->armed = true;
			m->deadline = at;
			continue;
		}
		switch (next_random(&seed) % 8) {
		case 0:
		case 1:
			ASSERT_EQ(m->armed, twheel_del(self->w, m->id));
			m->added = false;
			m->armed = false;
			break;
		case 2:
			ASSERT_EQ(m->armed, twheel_clear(self->w, m->id));
			m->armed = false;
			break;
		case 3:
			state = lib_state(self->w, m->id);
			ASSERT_EQ(m->armed, state != TWHEEL_IDLE);
			if (state == TWHEEL_EXPIRED)
				ASSERT_LE(m->deadline, twheel_now(self->w));
			break;
		default:
			ASSERT_EQ(m->armed, twheel_set(self->w, m->id, at));
			m->armed = true;
			m->deadline = at;
		}
	}
	EXPECT_NE(0, reads);
	/* Timers that are armed with near deadlines expire. */
	for (i = 0; i < N; i++) {
		if (model[i].armed && model[i].deadline > twheel_now(self->w) + HOUR / 2) {
			EXPECT_EQ(1, twheel_clear(self->w, model[i].id));
			model[i].armed = false;
		}
	}
	while ((n = lib_take(self->w, ev, 32, 200)) > 0) {
		for (j = 0; j < (unsigned int)n; j++) {
			m = &model[ev[j].user_data];
			ASSERT_TRUE(m->armed);
			m->armed = false;
		}
	}
	for (i = 0; i < N; i++)
		EXPECT_FALSE(model[i].armed);
}

TEST_HARNESS_MAIN
