// SPDX-License-Identifier: GPL-2.0
/*
 * libtwheel: functions for many timers in one turn of a loop, and timers whose user_data
 * changes, with both backends.
 */
#include "lib_test.h"

#include <limits.h>

/* More than a thread keeps free, and no multiple of the number that is prefetched at a time. */
#define MANY	333

/* Adds @n timers with distant deadlines, whose user_data counts from 0. */
static void add_far(struct __test_metadata *_metadata, struct twheel *w, uint64_t *ids,
		    unsigned int n)
{
	uint64_t data[MANY];
	unsigned int i;

	for (i = 0; i < n; i++)
		data[i] = i;
	ASSERT_EQ(n, twheel_add_many(w, twheel_after(w, HOUR), data, ids, n));
}

static uint64_t deadline_of(struct __test_metadata *_metadata, struct twheel *w, uint64_t id)
{
	struct twheel_timer t = { .id = id };

	EXPECT_EQ(0, lib_get(w, &t));
	return t.deadline_ns;
}

/* Expects each of @n timers to expire once, at @at. */
static void expect_all(struct __test_metadata *_metadata, struct twheel *w, const uint64_t *ids,
		       unsigned int n, uint64_t at)
{
	struct twheel_event ev[MANY];
	bool seen[MANY] = { false };
	unsigned int i;

	ASSERT_EQ(n, lib_collect(w, ev, n));
	for (i = 0; i < n; i++) {
		ASSERT_LT(ev[i].user_data, n);
		EXPECT_FALSE(seen[ev[i].user_data]);
		seen[ev[i].user_data] = true;
		EXPECT_EQ(ids[ev[i].user_data], ev[i].id);
		EXPECT_EQ(at, ev[i].deadline_ns);
		EXPECT_GE(ev[i].expired_ns, at);
	}
	EXPECT_TRUE(quiet(w));
}

TEST_F(lib, add_many)
{
	uint64_t at = twheel_after(self->w, 20 * NS_PER_MS), ids[MANY], data[MANY];
	unsigned int i;

	for (i = 0; i < MANY; i++)
		data[i] = i;
	ASSERT_EQ(MANY, twheel_add_many(self->w, at, data, ids, MANY));
	expect_all(_metadata, self->w, ids, MANY, at);
	/* Their events were read. */
	EXPECT_EQ(0, twheel_del_many(self->w, ids, MANY));
	/* 0 counts as 1. */
	ASSERT_EQ(2, twheel_add_many(self->w, 0, data, ids, 2));
	expect_all(_metadata, self->w, ids, 2, 1);
	EXPECT_EQ(0, twheel_del_many(self->w, ids, 2));
	EXPECT_EQ(0, twheel_add_many(self->w, at, NULL, NULL, 0));
	EXPECT_EQ(-EINVAL, twheel_add_many(self->w, at, data, ids, INT_MAX + 1U));
}

/*
 * If the wheel becomes full, the first timers are added, and the rest of the array is left
 * alone.
 */
TEST_F(lib, add_many_full)
{
	struct twheel_options o = self->o;
	uint64_t ids[MANY], data[MANY] = { 0 };
	struct twheel *w;
	unsigned int i, round;

	o.max_timers = 200;
	ASSERT_EQ(0, twheel_open(&w, &o));
	for (round = 0; round < 3; round++) {
		for (i = 0; i < MANY; i++)
			ids[i] = 5;
		ASSERT_EQ(200, twheel_add_many(w, twheel_after(w, HOUR), data, ids, MANY));
		for (i = 0; i < MANY; i++)
			EXPECT_EQ(i >= 200, ids[i] == 5);
		EXPECT_EQ(-ENOSPC, twheel_add_many(w, twheel_after(w, HOUR), data, ids + 200, 1));
		ASSERT_EQ(200, twheel_del_many(w, ids, 200));
	}
	twheel_close(w);
}

/*
 * twheel_set_many() returns the sum of what twheel_set() would have returned, whatever state
 * each timer is in.
 */
TEST_F(lib, set_many)
{
	uint64_t at, ids[MANY];
	struct twheel_event ev[MANY];
	unsigned int i;

	add_far(_metadata, self->w, ids, MANY);
	/* In turn: armed, cleared, expired and unread, and read. */
	for (i = 3; i < MANY; i += 4)
		ASSERT_EQ(1, twheel_set(self->w, ids[i], 1));
	ASSERT_EQ(MANY / 4, lib_collect(self->w, ev, MANY));
	for (i = 1; i < MANY; i += 4)
		ASSERT_EQ(1, twheel_clear(self->w, ids[i]));
	for (i = 2; i < MANY; i += 4)
		ASSERT_EQ(1, twheel_set(self->w, ids[i], 2));
	ASSERT_TRUE(is_unread(self->w));
	at = twheel_after(self->w, HOUR);
	EXPECT_EQ((MANY + 3) / 4 + (MANY + 1) / 4, twheel_set_many(self->w, ids, MANY, at));
	for (i = 0; i < MANY; i++)
		EXPECT_EQ(at, deadline_of(_metadata, self->w, ids[i]));
	/* Unread events were withdrawn. */
	EXPECT_TRUE(quiet(self->w));
	/* A timer that is there twice is moved twice. */
	ids[1] = ids[0];
	EXPECT_EQ(2, twheel_set_many(self->w, ids, 2, at));
	EXPECT_EQ(0, twheel_set_many(self->w, NULL, 0, at));
	EXPECT_EQ(-EINVAL, twheel_set_many(self->w, ids, INT_MAX + 1U, at));
}

/* A deadline takes effect before the call returns, with at most one kick for all timers. */
TEST_F(lib, set_many_earlier)
{
	struct twheel_usage before = { .size = sizeof(before) }, after = before;
	uint64_t at, ids[MANY];

	add_far(_metadata, self->w, ids, MANY);
	ASSERT_EQ(0, twheel_usage(self->w, &before));
	at = twheel_after(self->w, 20 * NS_PER_MS);
	ASSERT_EQ(MANY, twheel_set_many(self->w, ids, MANY, at));
	ASSERT_EQ(0, twheel_usage(self->w, &after));
	EXPECT_LE(after.kicks, before.kicks + 1);
	expect_all(_metadata, self->w, ids, MANY, at);
	/* No kick, because these deadlines never come. */
	EXPECT_EQ(0, twheel_set_many(self->w, ids, MANY, NEVER));
	ASSERT_EQ(0, twheel_usage(self->w, &before));
	EXPECT_EQ(after.kicks, before.kicks);
	EXPECT_EQ(NEVER, deadline_of(_metadata, self->w, ids[MANY - 1]));
	/* The same for timers that are added. */
	EXPECT_EQ(MANY, twheel_del_many(self->w, ids, MANY));
	ASSERT_EQ(0, twheel_usage(self->w, &before));
	add_far(_metadata, self->w, ids, 100);
	ASSERT_EQ(0, twheel_usage(self->w, &after));
	EXPECT_LE(after.kicks, before.kicks + 1);
}

/* A single stale id, wherever it is in the array, is an error, and no timer changes. */
TEST_F(lib, many_stale)
{
	uint64_t at, ids[MANY], gone, none[] = { 0, NEVER, 1ULL << 32 | UINT32_MAX, 7 };
	unsigned int i, place[] = { 0, 15, 16, 200, MANY - 1 };

	add_far(_metadata, self->w, ids, MANY);
	at = deadline_of(_metadata, self->w, ids[0]);
	ASSERT_EQ(0, twheel_add(self->w, at, 0, &gone));
	ASSERT_EQ(1, twheel_del(self->w, gone));
	for (i = 0; i < 2 * ARRAY_SIZE(place); i++) {
		uint64_t *it = &ids[place[i / 2]], kept = *it;
		unsigned int j;

		*it = i % 2 ? gone : none[i % ARRAY_SIZE(none)];
		EXPECT_EQ(-ENOENT, twheel_set_many(self->w, ids, MANY, at + HOUR));
		EXPECT_EQ(-ENOENT, twheel_del_many(self->w, ids, MANY));
		*it = kept;
		for (j = 0; j < MANY; j++)
			ASSERT_EQ(at, deadline_of(_metadata, self->w, ids[j]));
	}
	EXPECT_EQ(MANY, twheel_del_many(self->w, ids, MANY));
	EXPECT_EQ(-ENOENT, twheel_del_many(self->w, ids, MANY));
	EXPECT_EQ(-ENOENT, twheel_set_many(self->w, ids, MANY, at));
	EXPECT_TRUE(quiet(self->w));
}

/* A checked wheel detects a stale id whose slot another timer has. */
TEST_F(lib, many_checked)
{
	struct twheel_options o = self->o;
	uint64_t at, ids[20], old;
	struct twheel *w;

	o.flags |= TWHEEL_OPEN_CHECKED;
	ASSERT_EQ(0, twheel_open(&w, &o));
	at = twheel_after(w, HOUR);
	ASSERT_EQ(0, twheel_add(w, at, 0, &old));
	ASSERT_EQ(1, twheel_del(w, old));
	add_far(_metadata, w, ids, 19);
	EXPECT_EQ((uint32_t)old, (uint32_t)ids[0]);
	ids[19] = old;
	EXPECT_EQ(-ENOENT, twheel_set_many(w, ids, 20, at + HOUR));
	EXPECT_EQ(-ENOENT, twheel_del_many(w, ids, 20));
	EXPECT_GT(at + HOUR, deadline_of(_metadata, w, ids[0]));
	EXPECT_EQ(19, twheel_set_many(w, ids, 19, at));
	EXPECT_EQ(at, deadline_of(_metadata, w, ids[18]));
	EXPECT_EQ(19, twheel_del_many(w, ids, 19));
	twheel_close(w);
}

/* Timers of REGISTER, mixed with others. */
TEST_F(lib, many_registered)
{
	uint64_t at = twheel_after(self->w, HOUR), ids[20];
	unsigned int i;

	add_far(_metadata, self->w, ids, 20);
	for (i = 0; i < 20; i += 2)
		ids[i] = reserve_timer(_metadata, self->w, i);
	/* The timers of REGISTER were idle. */
	EXPECT_EQ(10, twheel_set_many(self->w, ids, 20, at));
	EXPECT_EQ(20, twheel_set_many(self->w, ids, 20, at + 1));
	for (i = 0; i < 20; i++)
		EXPECT_EQ(at + 1, deadline_of(_metadata, self->w, ids[i]));
	EXPECT_EQ(1, twheel_clear(self->w, ids[0]));
	EXPECT_EQ(1, twheel_clear(self->w, ids[1]));
	EXPECT_EQ(18, twheel_del_many(self->w, ids, 20));
	for (i = 0; i < 20; i++)
		EXPECT_EQ(-ENOENT, lib_state(self->w, ids[i]));
}

/* A prefetch is only a hint, so any id may be passed. */
TEST_F(lib, prefetch)
{
	uint64_t id;

	twheel_prefetch(self->w, 0);
	twheel_prefetch(self->w, NEVER);
	ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), 0, &id));
	twheel_prefetch(self->w, id);
	EXPECT_EQ(TWHEEL_ARMED, lib_state(self->w, id));
	EXPECT_EQ(1, twheel_del(self->w, id));
	twheel_prefetch(self->w, id);
	EXPECT_TRUE(quiet(self->w));
}

/* An object has moved: events that are read from now on have its new address. */
TEST_F(lib, set_user_data)
{
	struct twheel_timer t = { .deadline_ns = HOUR, .period_ns = SECOND };
	uint64_t id;

	ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), 1, &id));
	EXPECT_EQ(0, twheel_set_user_data(self->w, id, 2));
	/* The timer is still armed. */
	EXPECT_EQ(TWHEEL_ARMED, lib_state(self->w, id));
	EXPECT_EQ(1, twheel_set(self->w, id, 3));
	lib_expect(_metadata, self->w, id, 2, 3);
	EXPECT_EQ(0, twheel_set_user_data(self->w, id, NEVER));
	EXPECT_EQ(0, twheel_set(self->w, id, 4));
	lib_expect(_metadata, self->w, id, NEVER, 4);
	/* GET and LIST report the new user_data. */
	EXPECT_EQ(0, twheel_set(self->w, id, twheel_after(self->w, HOUR)));
	EXPECT_EQ(0, twheel_set_user_data(self->w, id, 5));
	t.id = id;
	ASSERT_EQ(0, lib_get(self->w, &t));
	EXPECT_EQ(5, t.user_data);
	/* So does an event that is already there. */
	EXPECT_EQ(1, twheel_set(self->w, id, 6));
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(0, twheel_set_user_data(self->w, id, 7));
	lib_expect(_metadata, self->w, id, 7, 6);
	EXPECT_EQ(0, twheel_set(self->w, id, 8));
	lib_expect(_metadata, self->w, id, 7, 8);
	EXPECT_EQ(0, twheel_del(self->w, id));
	EXPECT_EQ(-ENOENT, twheel_set_user_data(self->w, id, 9));
	EXPECT_EQ(-ENOENT, twheel_set_user_data(self->w, 0, 9));
	EXPECT_EQ(-ENOENT, twheel_set_user_data(self->w, NEVER, 9));
	/* No ioctl of the wheel can do it for timers of REGISTER. */
	id = reserve_timer(_metadata, self->w, 10);
	EXPECT_EQ(-EOPNOTSUPP, twheel_set_user_data(self->w, id, 11));
	t = (struct twheel_timer) { .id = id };
	ASSERT_EQ(0, lib_get(self->w, &t));
	EXPECT_EQ(10, t.user_data);
}

TEST_HARNESS_MAIN
