// SPDX-License-Identifier: GPL-2.0
/* <twheel/reader.h>: callbacks that delete, detach, arm and read while other timers are due. */
#include "lib_test.h"

#include <twheel/reader.h>

#define TIMERS	2000

struct rig {
	struct twheel_reader reader;
	uint64_t id[TIMERS];
	unsigned int seen[TIMERS];
	unsigned int total;
	unsigned int detach_at;
	bool deletes_next;
	bool arms_again;
	bool reads;
	int error;
};

static void on_event(const struct twheel_event *event, void *arg)
{
	struct rig *r = arg;
	unsigned int n = event->user_data;

	r->seen[n]++;
	r->total++;
	if (r->deletes_next && !(n % 2) && twheel_del(r->reader.wheel, r->id[n + 1]) != 1)
		r->error = 1;
	if (r->arms_again)
		r->error = twheel_set(r->reader.wheel, event->id, 1) < 0;
	if (r->total == r->detach_at)
		r->reader.attached = 0;
	/* Reads like a loop that runs within a callback, if the descriptor is readable. */
	if (r->reads && r->total < 10) {
		unsigned int before = r->total;

		if (!readable(twheel_fd(r->reader.wheel), TIMEOUT_MS) ||
		    twheel_reader_read(&r->reader) < 0 || r->total == before)
			r->error = 1;
	}
}

/* Adds timers, which are all due when this returns. */
static void make_due(struct __test_metadata *_metadata, struct twheel *w, struct rig *r)
{
	unsigned int i;

	memset(r, 0, sizeof(*r));
	twheel_reader_init(&r->reader, w, on_event, r);
	for (i = 0; i < TIMERS; i++)
		ASSERT_EQ(0, twheel_add(w, 1, i, &r->id[i]));
	ASSERT_EQ(1, twheel_wait(w, SECOND));
}

static void read_all(struct rig *r, unsigned int wanted)
{
	int i;

	for (i = 0; i < TIMEOUT_MS && r->total < wanted; i++) {
		twheel_reader_read(&r->reader);
		twheel_wait(r->reader.wheel, NS_PER_MS);
	}
}

TEST_F(lib, reader_hands_over_each_once)
{
	struct rig r;
	unsigned int i;

	make_due(_metadata, self->w, &r);
	read_all(&r, TIMERS);
	EXPECT_EQ(0, twheel_reader_read(&r.reader));
	for (i = 0; i < TIMERS; i++)
		EXPECT_EQ(1, r.seen[i]);
}

/* Half of the callbacks delete the timers of the other half, whose events are unread. */
TEST_F(lib, reader_drops_what_was_deleted)
{
	struct rig r;
	unsigned int i;

	make_due(_metadata, self->w, &r);
	r.deletes_next = true;
	read_all(&r, TIMERS / 2);
	EXPECT_EQ(0, twheel_reader_read(&r.reader));
	EXPECT_EQ(0, r.error);
	for (i = 0; i < TIMERS; i++)
		EXPECT_EQ(i % 2 ? 0 : 1, r.seen[i]);
}

TEST_F(lib, reader_keeps_the_rest_when_detached)
{
	struct rig r;
	unsigned int i;

	make_due(_metadata, self->w, &r);
	r.reader.attached = 1;
	r.detach_at = 10;
	EXPECT_EQ(1, twheel_reader_read(&r.reader));
	EXPECT_EQ(10, r.total);
	/* Read the rest directly. */
	read_all(&r, TIMERS);
	for (i = 0; i < TIMERS; i++)
		EXPECT_EQ(1, r.seen[i]);
}

/*
 * Events whose callbacks have not run yet keep the descriptor readable, which a nested loop
 * checks.
 */
TEST_F(lib, reader_within_a_callback)
{
	struct rig r;
	unsigned int i;

	make_due(_metadata, self->w, &r);
	r.reader.attached = 1;
	r.reads = true;
	read_all(&r, TIMERS);
	EXPECT_EQ(0, r.error);
	for (i = 0; i < TIMERS; i++)
		EXPECT_EQ(1, r.seen[i]);
}

/*
 * While the descriptor is not readable, the reader holds no event back, because a loop would
 * not ask for it.
 */
TEST_F(lib, reader_keeps_nothing_from_a_loop)
{
	unsigned int turns = 0;
	struct rig r;

	make_due(_metadata, self->w, &r);
	r.reader.attached = 1;
	while (r.total < TIMERS && readable(twheel_fd(self->w), TIMEOUT_MS)) {
		twheel_reader_read(&r.reader);
		turns++;
	}
	EXPECT_EQ(TIMERS, r.total);
	EXPECT_LE(2, turns);
}

/* A timer that is due again at once does not keep the loop from other work. */
TEST_F(lib, reader_ends_a_turn)
{
	struct rig r;

	make_due(_metadata, self->w, &r);
	r.arms_again = true;
	twheel_reader_read(&r.reader);
	EXPECT_LT(0, r.total);
	EXPECT_GE(TWHEEL_READER_TURN, r.total);
	EXPECT_EQ(0, r.error);
}

TEST_HARNESS_MAIN
