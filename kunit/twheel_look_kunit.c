// SPDX-License-Identifier: GPL-2.0
/*
 * Suite "twheel_look": the look at a word of the deadline table, with user
 * space writing between its steps, in every way there is.
 *
 * The hook runs before the word is acted upon and after wake_ns has been
 * published; where an expiry is claimed as planned, in between as well. Each
 * time a user does one thing by the protocol: nothing, an exchange with 0, or
 * with a deadline that is past, near or far, and notes whether he would have to
 * kick. When the look is done he kicks if he must; then what the protocol
 * promises is checked.
 */
#include <kunit/test.h>
#include <linux/spinlock.h>

#include <linux/twheel.h>

static void twheel_look_step(struct twheel_slot *slot);
#define twheel_look_step twheel_look_step
#include "twheel_timers.c"

#define SHIFT	20
#define TICK	BIT_ULL(SHIFT)
#define START	(1000 * TICK)
#define STEPS	6
#define AMPLE	U32_MAX

/* What a user may do in a step; a script is STEPS of these. */
static const u64 moves[] = { 0, START - 5 * TICK, START + 3 * TICK + 7, START + 900 * TICK };

#define NOTHING	ARRAY_SIZE(moves)
#define CHOICES	(ARRAY_SIZE(moves) + 1)

struct look_test {
	struct twheel_timers timers;
	struct twheel_entry *e;
	struct twheel_slot *slot;
	u64 now;
	/* The script, and how far it has got. */
	unsigned int script[STEPS];
	unsigned int step;
	bool kick;
	/* Words other than 0 that the user stored, and got back. */
	u64 stored;
	u64 taken;
	/* The arming that the user has not got back, as far as he knows. */
	u64 last;
};

static struct look_test *current_test;

static void twheel_look_step(struct twheel_slot *slot)
{
	struct look_test *lt = current_test;
	unsigned int move;
	u64 word, old;

	if (!lt || lt->step == STEPS)
		return;
	move = lt->script[lt->step++];
	if (move == NOTHING)
		return;
	word = moves[move];
	/* Each that is due differs from the one before, so that the kernel sees it. */
	if (word && word < START)
		word -= lt->step * TICK;
	old = xchg(&slot->deadline_ns, word);
	lt->taken += !!old;
	if (old || word)
		lt->last = word;
	if (!word)
		return;
	lt->stored++;
	if (word <= READ_ONCE(slot->wake_ns))
		lt->kick = true;
}

struct look_row {
	const char *name;
	u64 word;
	u64 planned;
	u64 period;
	u64 slack;
	/* In place of what the wheel does, a REARM for then, with these flags. */
	u64 rearm;
	u32 flags;
};

/* The word differs from the plan where the user has moved it before. */
static const struct look_row looks[] = {
	{ "due as planned", START - 1, START - 1 },
	{ "moved later before it came up", START + 50 * TICK, START - 1 },
	{ "disarmed before it came up", 0, START - 1 },
	{ "due as planned, periodic", START - 1, START - 1, 2 * TICK },
	{ "late by many periods", START - 100 * TICK, START - 100 * TICK, 2 * TICK },
	{ "moved later, with slack", START + 50 * TICK, START - 1, 0, 64 * TICK },
	{ "moved far away by REARM", START + 2 * TICK, START + 2 * TICK, 0, 0,
	  START + 1800 * TICK },
	{ "armed by REARM", 0, START + 2 * TICK, 0, 0, START + 1800 * TICK },
	{ "due at once by REARM", START + 2 * TICK, START + 2 * TICK, 0, 0, START - 1 },
	{ "disarmed by REARM", START + 2 * TICK, START + 2 * TICK, 0, 0, START - 1,
	  TWHEEL_DISARMED },
};

static void look_describe(const struct look_row *row, char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(look, looks, look_describe);

static void look_arm(struct kunit *test, struct look_test *lt, const struct look_row *row)
{
	struct twheel_op op = {
		.timer = {
			.deadline_ns = row->planned,
			.period_ns = row->period,
			.slack_ns = row->slack,
			.flags = TWHEEL_ABSTIME | TWHEEL_KEEP,
		},
		.opcode = TWHEEL_OP_REGISTER,
	};

	current_test = NULL;
	KUNIT_ASSERT_EQ(test, 1U, twheel_apply(&lt->timers, &op, 1,
					       min(row->planned, START) - 10 * TICK));
	KUNIT_ASSERT_EQ(test, 0, op.result);
	lt->e = twheel_slots_find(&lt->timers.slots, op.timer.id);
	lt->slot = twheel_slots_word(&lt->timers.slots, lt->e);
	lt->step = 0;
	lt->kick = false;
	lt->stored = 1;
	lt->taken = 0;
	lt->last = row->word;
	if (row->word != row->planned) {
		xchg(&lt->slot->deadline_ns, row->word);
		lt->taken++;
		lt->stored += !!row->word;
	}
	current_test = lt;
}

/* What the wheel does at now, or the REARM, which exchanges the word as users do. */
static void look_act(struct kunit *test, struct look_test *lt, const struct look_row *row)
{
	struct twheel_op op = {
		.timer = {
			.id = twheel_entry_id(lt->e),
			.deadline_ns = row->rearm,
			.flags = TWHEEL_ABSTIME | TWHEEL_KEEP | row->flags,
		},
		.opcode = TWHEEL_OP_REARM,
	};
	bool disarms = row->flags & TWHEEL_DISARMED;

	if (!row->rearm) {
		twheel_run(&lt->timers, lt->now, AMPLE);
		return;
	}
	lt->taken += !!row->word;
	lt->stored += !disarms;
	lt->last = disarms ? 0 : row->rearm;
	KUNIT_EXPECT_EQ(test, 1U, twheel_apply(&lt->timers, &op, 1, lt->now));
	KUNIT_EXPECT_EQ(test, 0, op.result);
}

/* What must hold whenever nobody is in the middle of anything. */
static void look_check(struct kunit *test, struct look_test *lt, u64 claimed)
{
	const struct twheel_stats *s = &lt->timers.stats;
	u64 word = lt->slot->deadline_ns;
	u64 wake = lt->slot->wake_ns;
	struct twheel_entry *e = lt->e;

	KUNIT_EXPECT_EQ(test, s->armings, s->expired + s->displaced + s->armed);
	KUNIT_EXPECT_EQ(test, s->expired, s->delivered + s->withdrawn + s->unread);
	KUNIT_EXPECT_EQ(test, s->armed, (u64)(e->state == TWHEEL_ARMED));
	KUNIT_EXPECT_EQ(test, s->unread, (u64)(e->state == TWHEEL_EXPIRED));
	KUNIT_EXPECT_NE(test, (unsigned int)e->state, TWHEEL_TAKEN);

	/* Exactly once: taken back, claimed by the kernel, or still there. */
	KUNIT_EXPECT_EQ(test, lt->stored, lt->taken + claimed + !!word);
	/* And never lost: the last one is to come, or to be read. */
	if (lt->last && word != lt->last) {
		KUNIT_EXPECT_EQ(test, (unsigned int)e->state, TWHEEL_EXPIRED);
		KUNIT_EXPECT_EQ(test, e->deadline, lt->last);
	}

	if (e->state == TWHEEL_ARMED) {
		/* A drain is of what was armed before. */
		KUNIT_EXPECT_FALSE(test, e->last);
		/* The kernel comes before the word, or at the next tick. */
		if (word > lt->now)
			KUNIT_EXPECT_LE(test, e->deadline, word);
		else if (word)
			KUNIT_EXPECT_LE(test, e->deadline, lt->now + TICK);
		/* Nobody who is told not to kick is forgotten. */
		KUNIT_EXPECT_GE(test, wake + TICK, e->deadline);
		/* And nobody kicks to go where the kernel looks anyway. */
		KUNIT_EXPECT_LT(test, wake, e->deadline);
	} else {
		KUNIT_EXPECT_TRUE(test, !word || twheel_unread(e, word));
		KUNIT_EXPECT_EQ(test, wake, TWHEEL_NEVER);
	}
	/* Early is only what was drained, and that only while nobody has armed it. */
	if (e->state == TWHEEL_EXPIRED)
		KUNIT_EXPECT_TRUE(test, e->deadline <= e->expired_ns || (e->last && !word));
}

/*
 * Expiries that the kernel has claimed of one word each: of a periodic timer it
 * has put the next word there itself, which counts as stored.
 */
static u64 look_claimed(struct look_test *lt, const struct look_row *row)
{
	u64 claimed = lt->timers.stats.expired;

	if (row->period)
		lt->stored += claimed;
	return claimed;
}

/* What a test of every script needs. */
struct look_room {
	struct twheel_shape shape;
	struct look_test *lt;
	void *mem;
	/* Which twheel_slots_grow() wants; nobody contends for it. */
	spinlock_t lock;
};

static void look_init(struct kunit *test, struct look_room *room)
{
	*room = (struct look_room) { .shape = { .shift = SHIFT, .slot_bits = 6 } };
	spin_lock_init(&room->lock);
	room->shape.levels = twheel_max_levels(SHIFT, room->shape.slot_bits);
	room->lt = kunit_kzalloc(test, sizeof(*room->lt), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, room->lt);
	room->mem = kunit_kzalloc(test, twheel_bytes(&room->shape), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, room->mem);
}

/* A new wheel with the timer of @row, and script @n for its user. */
static void look_begin(struct kunit *test, struct look_room *room, unsigned int n,
		       const struct look_row *row)
{
	struct look_test *lt = room->lt;
	unsigned int i;

	memset(lt, 0, sizeof(*lt));
	memset(room->mem, 0, twheel_bytes(&room->shape));
	twheel_ready_init(&lt->timers);
	lt->now = START;
	twheel_init(&lt->timers.wheel, &room->shape, room->mem, START - 200 * TICK);
	KUNIT_ASSERT_EQ(test, 0, twheel_slots_init(&lt->timers.slots, 1));
	twheel_slots_adopt(&lt->timers.slots);
	KUNIT_ASSERT_EQ(test, 0, twheel_slots_grow(&lt->timers.slots, &room->lock));
	for (i = 0; i < STEPS; i++, n /= CHOICES)
		lt->script[i] = n % CHOICES;
	look_arm(test, lt, row);
}

/* The same, when the timer has expired and the user has taken his first step. */
static void look_begin_expired(struct kunit *test, struct look_room *room, unsigned int n,
			       const struct look_row *row)
{
	struct look_test *lt = room->lt;

	look_begin(test, room, n, row);
	current_test = NULL;
	twheel_run(&lt->timers, lt->now, AMPLE);
	KUNIT_EXPECT_EQ(test, (unsigned int)lt->e->state, TWHEEL_EXPIRED);
	current_test = lt;
	twheel_look_step(lt->slot);
}

/* The user tells of what he has to tell of. */
static void look_kicks(struct look_test *lt)
{
	while (lt->kick) {
		lt->kick = false;
		twheel_kick(&lt->timers, lt->e->slot, lt->now);
	}
}

/* Return: whether the test goes on. */
static bool look_end(struct kunit *test, struct look_test *lt)
{
	current_test = NULL;
	twheel_slots_free(&lt->timers.slots);
	if (test->status != KUNIT_FAILURE)
		return true;
	kunit_info(test, "script %u%u%u%u%u%u", lt->script[0], lt->script[1],
		   lt->script[2], lt->script[3], lt->script[4], lt->script[5]);
	return false;
}

static unsigned int look_scripts(void)
{
	unsigned int scripts = 1, i;

	for (i = 0; i < STEPS; i++)
		scripts *= CHOICES;
	return scripts;
}

static void look_every_interleaving(struct kunit *test)
{
	const struct look_row *row = test->param_value;
	struct look_room room;
	struct look_test *lt;
	unsigned int n;

	look_init(test, &room);
	lt = room.lt;
	for (n = 0; n < look_scripts(); n++) {
		look_begin(test, &room, n, row);
		look_act(test, lt, row);
		look_kicks(lt);
		look_check(test, lt, look_claimed(lt, row));
		if (!look_end(test, lt))
			return;
	}
}

/*
 * GET of a timer that has expired, with the user at its word before and meanwhile: it
 * says that there is an event exactly if one is left, which nobody can bring back then.
 */
static void get_every_interleaving(struct kunit *test)
{
	static const struct look_row row = { "", START - 1, START - 1, 2 * TICK };
	struct look_room room;
	struct look_test *lt;
	unsigned int n;

	look_init(test, &room);
	lt = room.lt;
	for (n = 0; n < look_scripts(); n++) {
		struct twheel_op op = { .opcode = TWHEEL_OP_GET };

		look_begin_expired(test, &room, n, &row);
		op.timer.id = twheel_entry_id(lt->e);
		KUNIT_EXPECT_EQ(test, 1U, twheel_apply(&lt->timers, &op, 1, lt->now));
		KUNIT_EXPECT_EQ(test, 0, op.result);
		KUNIT_EXPECT_EQ(test, op.timer.state == TWHEEL_EXPIRED,
				lt->e->state == TWHEEL_EXPIRED);
		if (op.timer.state == TWHEEL_EXPIRED)
			KUNIT_EXPECT_EQ(test, op.timer.deadline_ns, lt->e->deadline);
		if (!look_end(test, lt))
			return;
	}
}

/*
 * A reader at a timer that has expired, with the user at its word before and meanwhile:
 * he is told that there is nothing only when nothing is ready.
 */
static void claim_every_interleaving(struct kunit *test)
{
	static const struct look_row row = { "", START - 1, START - 1 };
	struct look_room room;
	struct look_test *lt;
	unsigned int n;

	look_init(test, &room);
	lt = room.lt;
	for (n = 0; n < look_scripts(); n++) {
		struct twheel_claimed claimed;
		struct twheel_event event;
		unsigned int nr;

		look_begin_expired(test, &room, n, &row);
		nr = twheel_claim(&lt->timers, &claimed, &event, 1, AMPLE, lt->now);
		if (!nr)
			KUNIT_EXPECT_TRUE(test, hlist_empty(&lt->timers.ready));
		else if (event.deadline_ns == lt->last)
			lt->last = 0;
		twheel_settle(&lt->timers, &claimed, nr, nr, lt->now);
		look_kicks(lt);
		look_check(test, lt, look_claimed(lt, &row));
		if (!look_end(test, lt))
			return;
	}
}

/* A periodic timer that was drained and not read, which the user arms again. */
static void drained_every_interleaving(struct kunit *test)
{
	/* So that the first period after it is one of the user's moves. */
	static const struct look_row row = { "", START + 898 * TICK, START + 898 * TICK, 2 * TICK };
	struct look_room room;
	struct look_test *lt;
	unsigned int n;

	look_init(test, &room);
	lt = room.lt;
	for (n = 0; n < look_scripts(); n++) {
		u32 chunk = 0;
		u64 claimed;

		look_begin(test, &room, n, &row);
		current_test = NULL;
		KUNIT_EXPECT_EQ(test, 1U, twheel_drain(&lt->timers, &chunk,
						       TWHEEL_DRAIN_EXPIRE, lt->now));
		current_test = lt;
		twheel_look_step(lt->slot);
		look_kicks(lt);
		/* The drain has left nothing in the word; later expiries leave a period. */
		claimed = lt->timers.stats.expired;
		lt->stored += claimed - 1;
		look_check(test, lt, claimed);
		if (!look_end(test, lt))
			return;
	}
}

static struct kunit_case look_cases[] = {
	KUNIT_CASE_PARAM(look_every_interleaving, look_gen_params),
	KUNIT_CASE(drained_every_interleaving),
	KUNIT_CASE(get_every_interleaving),
	KUNIT_CASE(claim_every_interleaving),
	{}
};

static struct kunit_suite look_suite = {
	.name = "twheel_look",
	.test_cases = look_cases,
};

kunit_test_suite(look_suite);
