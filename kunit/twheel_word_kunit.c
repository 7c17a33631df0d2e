// SPDX-License-Identifier: GPL-2.0
/*
 * Suite "twheel_word": a timer and its word, with user space writing between the steps of
 * reconcile(), in every way there is; and the marks, at each moment of a turn.
 *
 * The hook runs before the word is acted upon and after wake_ns has been published. Each
 * time a user does one thing by the protocol: nothing, an exchange with 0, or with a
 * deadline that is past, near or far, and notes whether he would have to kick. When the
 * look is done he kicks if he must; then what the protocol promises is checked.
 */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/spinlock.h>

#include <linux/twheel.h>

static void word_step(struct twheel_slot *slot);
#define word_step word_step
#include "twheel_word.c"
#include "twheel_timers.c"
#include "twheel_pages.h"

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
	struct timers timers;
	struct pages pages;
	struct timer *e;
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

static void word_step(struct twheel_slot *slot)
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
	KUNIT_ASSERT_EQ(test, 1U, timers_apply(&lt->timers, &op, 1,
					       min(row->planned, START) - 10 * TICK));
	KUNIT_ASSERT_EQ(test, 0, op.result);
	lt->e = store_find(lt->timers.store, op.timer.id);
	lt->slot = store_word(lt->timers.store, lt->e->slot);
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
			.id = timer_id(lt->e),
			.deadline_ns = row->rearm,
			.flags = TWHEEL_ABSTIME | TWHEEL_KEEP | row->flags,
		},
		.opcode = TWHEEL_OP_REARM,
	};
	bool disarms = row->flags & TWHEEL_DISARMED;

	if (!row->rearm) {
		timers_turn(&lt->timers, lt->now, AMPLE, LOOK);
		return;
	}
	lt->taken += !!row->word;
	lt->stored += !disarms;
	lt->last = disarms ? 0 : row->rearm;
	KUNIT_EXPECT_EQ(test, 1U, timers_apply(&lt->timers, &op, 1, lt->now));
	KUNIT_EXPECT_EQ(test, 0, op.result);
}

/* What must hold whenever nobody is in the middle of anything. */
static void look_check(struct kunit *test, struct look_test *lt, u64 claimed)
{
	const struct twheel_stats *s = &lt->timers.stats;
	u64 word = lt->slot->deadline_ns;
	u64 wake = lt->slot->wake_ns;
	struct timer *e = lt->e;

	KUNIT_EXPECT_EQ(test, s->armings, s->expired + s->displaced + s->armed);
	KUNIT_EXPECT_EQ(test, s->expired, s->delivered + s->withdrawn + s->unread);
	KUNIT_EXPECT_EQ(test, s->armed, (u64)(e->place == TIMER_QUEUED));
	KUNIT_EXPECT_EQ(test, s->unread, (u64)(e->place == TIMER_READY));
	KUNIT_EXPECT_NE(test, (unsigned int)e->place, TIMER_TAKEN);

	/* Exactly once: taken back, claimed by the kernel, or still there. */
	KUNIT_EXPECT_EQ(test, lt->stored, lt->taken + claimed + !!word);
	/* And never lost: the last one is to come, or to be read. */
	if (lt->last && word != lt->last) {
		KUNIT_EXPECT_EQ(test, (unsigned int)e->place, TIMER_READY);
		KUNIT_EXPECT_EQ(test, e->deadline, lt->last);
	}

	if (e->place == TIMER_QUEUED) {
		/* A drain is of what was armed before. */
		KUNIT_EXPECT_FALSE(test, e->drained);
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
		/* What is armed over an event waits for its reader. */
		KUNIT_EXPECT_TRUE(test, !word || e->place == TIMER_READY);
		KUNIT_EXPECT_EQ(test, wake, WHEEL_NEVER);
	}
	/* Early is only what was drained. */
	if (e->place == TIMER_READY)
		KUNIT_EXPECT_TRUE(test, e->deadline <= e->expired_ns || e->drained);
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
	struct wheel_shape shape;
	struct look_test *lt;
	void *mem;
	/* Which pages_grow() wants; nobody contends for it. */
	spinlock_t lock;
};

static void look_init(struct kunit *test, struct look_room *room)
{
	*room = (struct look_room) { .shape = { .shift = SHIFT, .slot_bits = 6 } };
	spin_lock_init(&room->lock);
	room->shape.levels = wheel_max_levels(SHIFT, room->shape.slot_bits);
	room->lt = kunit_kzalloc(test, sizeof(*room->lt), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, room->lt);
	room->mem = kunit_kzalloc(test, wheel_bytes(&room->shape), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, room->mem);
}

/* A new wheel with the timer of @row, and script @n for its user. */
static void look_begin(struct kunit *test, struct look_room *room, unsigned int n,
		       const struct look_row *row)
{
	struct look_test *lt = room->lt;
	unsigned int i;

	memset(lt, 0, sizeof(*lt));
	memset(room->mem, 0, wheel_bytes(&room->shape));
	lt->pages.store.max = 1;
	pages_init(&lt->pages, &room->lock);
	timers_init(&lt->timers, &lt->pages.store);
	lt->now = START;
	wheel_init(&lt->timers.wheel, &room->shape, room->mem, START - 200 * TICK);
	KUNIT_ASSERT_EQ(test, 0, pages_grow(&lt->pages));
	/* From here on nobody holds it. */
	lt->pages.store.lock = NULL;
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
	timers_turn(&lt->timers, lt->now, AMPLE, LOOK);
	KUNIT_EXPECT_EQ(test, (unsigned int)lt->e->place, TIMER_READY);
	current_test = lt;
	word_step(lt->slot);
}

/* The user tells of what he has to tell of. */
static void look_kicks(struct look_test *lt)
{
	while (lt->kick) {
		lt->kick = false;
		timers_kick(&lt->timers, lt->e->slot, lt->now);
	}
}

/* Return: whether the test goes on. */
static bool look_end(struct kunit *test, struct look_test *lt)
{
	current_test = NULL;
	pages_free(&lt->pages);
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
 * Law 6: GET of a timer that has expired says that there is an event, whatever the user does
 * to its word before and meanwhile.
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
		op.timer.id = timer_id(lt->e);
		KUNIT_EXPECT_EQ(test, 1U, timers_apply(&lt->timers, &op, 1, lt->now));
		KUNIT_EXPECT_EQ(test, 0, op.result);
		KUNIT_EXPECT_EQ(test, op.timer.state, TWHEEL_EXPIRED);
		KUNIT_EXPECT_EQ(test, op.timer.deadline_ns, row.word);
		KUNIT_EXPECT_EQ(test, (unsigned int)lt->e->place, TIMER_READY);
		if (!look_end(test, lt))
			return;
	}
}

/*
 * Law 6: a reader gets the event of a timer that has expired, whatever the user does to its
 * word before and meanwhile; and what the user has armed over it stands.
 */
static void read_every_interleaving(struct kunit *test)
{
	static const struct look_row row = { "", START - 1, START - 1 };
	struct look_room room;
	struct look_test *lt;
	unsigned int n;

	look_init(test, &room);
	lt = room.lt;
	for (n = 0; n < look_scripts(); n++) {
		struct twheel_event event;

		look_begin_expired(test, &room, n, &row);
		KUNIT_EXPECT_EQ(test, 1U, timers_peek(&lt->timers, &event, 1, lt->now));
		KUNIT_EXPECT_EQ(test, event.deadline_ns, row.word);
		if (event.deadline_ns == lt->last)
			lt->last = 0;
		timers_consume(&lt->timers, 1, lt->now);
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
		u32 slot = 0;
		u64 claimed;

		look_begin(test, &room, n, &row);
		current_test = NULL;
		KUNIT_EXPECT_EQ(test, 1ULL, timers_drain(&lt->timers, &slot,
							 TWHEEL_DRAIN_EXPIRE, AMPLE,
							 lt->now));
		current_test = lt;
		word_step(lt->slot);
		look_kicks(lt);
		/* The drain has left nothing in the word; later expiries leave a period. */
		claimed = lt->timers.stats.expired;
		lt->stored += claimed - 1;
		look_check(test, lt, claimed);
		if (!look_end(test, lt))
			return;
	}
}

/* The marks */

#define MARKED_TIMERS	3000U

struct marks_test {
	struct timers timers;
	struct pages pages;
	struct wheel_shape shape;
	/* Which pages_grow() wants; nobody contends for it. */
	spinlock_t lock;
	u64 now;
};

/* Has a page of the mapping, as a fault does. */
static void touch_page(struct kunit *test, struct pages *pages, pgoff_t pgoff)
{
	struct vm_area_struct *vma = kunit_kzalloc(test, sizeof(*vma), GFP_KERNEL);
	struct vm_fault vmf = { .vma = vma, .pgoff = pgoff };

	KUNIT_ASSERT_NOT_NULL(test, vma);
	vma->vm_private_data = pages;
	KUNIT_ASSERT_EQ(test, 0U, (__force unsigned int)pages_vm_ops.fault(&vmf));
	put_page(vmf.page);
}

/* A mapped wheel with idle timers, of which none is marked. */
static struct marks_test *marks_begin(struct kunit *test)
{
	struct marks_test *mt = kunit_kzalloc(test, sizeof(*mt), GFP_KERNEL);
	struct twheel_table *table;
	unsigned int i;
	void *mem;

	current_test = NULL;
	KUNIT_ASSERT_NOT_NULL(test, mt);
	spin_lock_init(&mt->lock);
	mt->pages.store.max = MARKED_TIMERS;
	mt->shape = (struct wheel_shape) { .shift = SHIFT, .slot_bits = 6 };
	mt->shape.levels = wheel_max_levels(SHIFT, mt->shape.slot_bits);
	mem = kunit_kzalloc(test, wheel_bytes(&mt->shape), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, mem);
	pages_init(&mt->pages, &mt->lock);
	timers_init(&mt->timers, &mt->pages.store);
	mt->now = START;
	wheel_init(&mt->timers.wheel, &mt->shape, mem, mt->now);
	table = pages_header(&mt->pages);
	KUNIT_ASSERT_NOT_NULL(test, table);
	while (mt->pages.store.room < MARKED_TIMERS) {
		/* Room is made when there is none. */
		mt->pages.store.fresh = mt->pages.store.room;
		KUNIT_ASSERT_EQ(test, 0, pages_grow(&mt->pages));
	}
	mt->pages.store.fresh = 0;
	mt->pages.store.lock = NULL;
	for (i = 0; i < MARKED_TIMERS; i++) {
		struct twheel_op op = {
			.timer.flags = TWHEEL_KEEP | TWHEEL_DISARMED,
			.opcode = TWHEEL_OP_REGISTER,
		};

		KUNIT_ASSERT_EQ(test, 1U, timers_apply(&mt->timers, &op, 1, mt->now));
		KUNIT_ASSERT_EQ(test, 0, op.result);
	}
	touch_page(test, &mt->pages, store_marks_offset(MARKED_TIMERS, PAGE_SIZE) >> PAGE_SHIFT);
	timers_map(&mt->timers, table, PAGE_SIZE, CLOCK_MONOTONIC, WHEEL_NEVER);
	return mt;
}

static void marks_end(struct marks_test *mt)
{
	pages_free(&mt->pages);
}

/* Arms slot @nr by the protocol. Return: whether the user has to KICK. */
static bool mark(struct marks_test *mt, u32 nr, u64 deadline)
{
	struct twheel_slot *slot = store_word(&mt->pages.store, nr);

	xchg(&slot->deadline_ns, deadline);
	if (deadline > slot->wake_ns)
		return false;
	set_bit(nr, (unsigned long *)store_marks(&mt->pages.store, 0));
	set_bit(nr >> STORE_LINE_SHIFT, summary_bits(&mt->timers));
	return deadline <= mt->pages.store.table->next_ns;
}

static struct timer *timer_of(struct marks_test *mt, u32 nr)
{
	return store_at(&mt->pages.store, nr);
}

/* A turn, and what it publishes. */
static u64 turn(struct marks_test *mt, unsigned int budget, enum look look)
{
	timers_turn(&mt->timers, mt->now, budget, look);
	return timers_publish_next(&mt->timers, timers_next(&mt->timers), mt->now);
}

/* design.md 6: a mark is enough where the deadline comes after the next turn. */
static void mark_is_seen_by_next_turn(struct kunit *test)
{
	struct marks_test *mt = marks_begin(test);

	KUNIT_EXPECT_TRUE(test, mark(mt, 0, START + 10 * TICK));
	KUNIT_EXPECT_EQ(test, turn(mt, AMPLE, LOOK_AND_WITHDRAW), START + 10 * TICK);
	KUNIT_EXPECT_EQ(test, mt->pages.store.table->next_ns, START + 10 * TICK);
	/* Later than that turn: no KICK. Earlier: a KICK. */
	KUNIT_EXPECT_FALSE(test, mark(mt, 1, START + 10 * TICK + 1));
	KUNIT_EXPECT_FALSE(test, mark(mt, 2999, START + 5000 * TICK));
	KUNIT_EXPECT_TRUE(test, mark(mt, 2, START + 9 * TICK));
	KUNIT_EXPECT_EQ(test, (unsigned int)timer_of(mt, 1)->place, TIMER_IDLE);
	mt->now = START + 10 * TICK;
	KUNIT_EXPECT_EQ(test, turn(mt, AMPLE, LOOK), START + 11 * TICK);
	KUNIT_EXPECT_EQ(test, (unsigned int)timer_of(mt, 0)->place, TIMER_READY);
	KUNIT_EXPECT_EQ(test, (unsigned int)timer_of(mt, 1)->place, TIMER_QUEUED);
	KUNIT_EXPECT_EQ(test, (unsigned int)timer_of(mt, 2)->place, TIMER_READY);
	KUNIT_EXPECT_EQ(test, (unsigned int)timer_of(mt, 2999)->place, TIMER_QUEUED);
	marks_end(mt);
}

/* design.md 6: the summary is read again after next_ns was published. */
static void mark_between_turn_and_publish(struct kunit *test)
{
	struct marks_test *mt = marks_begin(test);

	KUNIT_EXPECT_TRUE(test, mark(mt, 0, START + TICK));
	turn(mt, AMPLE, LOOK_AND_WITHDRAW);
	mt->now = START + TICK;
	timers_turn(&mt->timers, mt->now, AMPLE, LOOK);
	/* Who still reads the old next_ns does not KICK. */
	KUNIT_EXPECT_FALSE(test, mark(mt, 1, START + 3 * TICK));
	KUNIT_EXPECT_EQ(test, timers_publish_next(&mt->timers, timers_next(&mt->timers), mt->now),
			START + 2 * TICK);
	KUNIT_EXPECT_EQ(test, mt->pages.store.table->next_ns, START + 2 * TICK);
	mt->now = START + 2 * TICK;
	KUNIT_EXPECT_EQ(test, turn(mt, AMPLE, LOOK), START + 3 * TICK);
	KUNIT_EXPECT_EQ(test, (unsigned int)timer_of(mt, 1)->place, TIMER_QUEUED);
	marks_end(mt);
}

/* Law 6: a turn withdraws nothing, a KICK does; the new arming stands in any case. */
static void armed_over_unread(struct kunit *test)
{
	struct marks_test *mt = marks_begin(test);
	struct twheel_event event;
	u32 nr;

	for (nr = 0; nr < 2; nr++)
		mark(mt, nr, START - TICK);
	turn(mt, AMPLE, LOOK);
	for (nr = 0; nr < 2; nr++) {
		KUNIT_EXPECT_EQ(test, (unsigned int)timer_of(mt, nr)->place, TIMER_READY);
		mark(mt, nr, START + 5 * TICK);
	}
	turn(mt, AMPLE, LOOK);
	KUNIT_EXPECT_EQ(test, mt->timers.stats.unread, 2ULL);
	KUNIT_EXPECT_EQ(test, 1U, timers_peek(&mt->timers, &event, 1, mt->now));
	KUNIT_EXPECT_EQ(test, event.deadline_ns, START - TICK);
	timers_consume(&mt->timers, 1, mt->now);
	KUNIT_EXPECT_EQ(test, mt->timers.stats.armed, 1ULL);
	mark(mt, 1, START + 6 * TICK);
	turn(mt, AMPLE, LOOK_AND_WITHDRAW);
	KUNIT_EXPECT_EQ(test, mt->timers.stats.withdrawn, 1ULL);
	KUNIT_EXPECT_EQ(test, mt->timers.stats.armed, 2ULL);
	marks_end(mt);
}

/* Law 8: a turn keeps to its budget, and the sweep goes on where it was. */
static void marks_and_budget(struct kunit *test)
{
	struct marks_test *mt = marks_begin(test);
	unsigned int turns = 0;
	u64 armed = 0;
	u32 nr;

	for (nr = 0; nr < MARKED_TIMERS; nr++)
		mark(mt, nr, START + (50 + nr % 7) * TICK);
	do {
		u64 before = armed;

		KUNIT_ASSERT_LT(test, turns, 100U);
		timers_turn(&mt->timers, mt->now, 256, LOOK);
		armed = mt->timers.stats.armed;
		/* Half of it, and what is left of a word of marks. */
		KUNIT_EXPECT_LE(test, armed - before, 128ULL + 63);
		turns++;
		if (mt->timers.marked)
			KUNIT_EXPECT_EQ(test, timers_next(&mt->timers), 0ULL);
	} while (mt->timers.marked);
	KUNIT_EXPECT_EQ(test, armed, (u64)MARKED_TIMERS);
	KUNIT_EXPECT_EQ(test, turn(mt, AMPLE, LOOK), START + 50 * TICK);
	marks_end(mt);
}

/* design.md 6: marks that are set again and again are taken once a turn. */
static void marks_without_rest(struct kunit *test)
{
	struct marks_test *mt = marks_begin(test);
	unsigned int i;

	for (i = 0; i < 10; i++) {
		memset(store_marks(&mt->pages.store, 0), 0xff, MARKED_TIMERS / 8);
		memset(summary_bits(&mt->timers), 0xff, 8);
		timers_turn(&mt->timers, mt->now, AMPLE, LOOK);
		KUNIT_EXPECT_FALSE(test, mt->timers.marked);
		memset(summary_bits(&mt->timers), 0xff, 8);
		/* What is set again waits for the next tick, and that is all. */
		KUNIT_EXPECT_EQ(test, timers_publish_next(&mt->timers,
							  timers_next(&mt->timers), mt->now),
				mt->now + TICK);
		mt->now += TICK;
	}
	/* Bits of lines without timers ask for nothing. */
	turn(mt, AMPLE, LOOK);
	KUNIT_EXPECT_EQ(test, turn(mt, AMPLE, LOOK), WHEEL_NEVER);
	marks_end(mt);
}

static struct kunit_case look_cases[] = {
	KUNIT_CASE_PARAM(look_every_interleaving, look_gen_params),
	KUNIT_CASE(drained_every_interleaving),
	KUNIT_CASE(get_every_interleaving),
	KUNIT_CASE(read_every_interleaving),
	{}
};

static struct kunit_suite look_suite = {
	.name = "twheel_word",
	.test_cases = look_cases,
};

static struct kunit_case marks_cases[] = {
	KUNIT_CASE(mark_is_seen_by_next_turn),
	KUNIT_CASE(mark_between_turn_and_publish),
	KUNIT_CASE(armed_over_unread),
	KUNIT_CASE(marks_and_budget),
	KUNIT_CASE(marks_without_rest),
	{}
};

static struct kunit_suite marks_suite = {
	.name = "twheel_marks",
	.test_cases = marks_cases,
};

kunit_test_suites(&look_suite, &marks_suite);
