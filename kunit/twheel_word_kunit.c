// SPDX-License-Identifier: GPL-2.0
/*
 * Suite "twheel_word": reconcile() and the turn, with user space writing between their steps
 * in every possible way.
 *
 * Each time the user does one thing by the protocol. With a single word it does nothing, or
 * exchanges it with 0 or with a deadline that is past, near or far, at the two places that
 * reconcile() has for it. With marks it takes the steps of the protocol, spread over these
 * places and one more, where a turn has published next_ns and will read the summary again. At
 * the end the user kicks if necessary, and the suite checks what the protocol promises.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/time.h>

#include <linux/twheel.h>

#include "twheel_apply.h"
#include "twheel_notrace.h"
#include "twheel_rows.h"
#include "twheel_store.h"

static void word_step(struct twheel_slot *slot);
#define word_step word_step
#include "twheel_word.c"

/* Called for the barrier between next_ns and the summary. */
static void next_step(void);
#undef smp_mb
#define smp_mb() next_step() /* D of twheel_marks.c */
/* Called before each exchange of a word of marks, and of a word by a verb. */
static void exchange_step(u64 *word);

static u64 exchange_after_step(u64 *word, u64 from, u64 to)
{
	exchange_step(word);
	return cmpxchg64(word, from, to);
}

#undef cmpxchg64
#define cmpxchg64(word, from, to) exchange_after_step(word, from, to)
#include "twheel_marks.c"
#include "twheel_timers.c"
#include "twheel_slots.c"

#define SHIFT	20
#define TICK	BIT_ULL(SHIFT)
#define START	(1000 * TICK)
#define UNLIMITED	U32_MAX

/* Three lines, the last of which is partial, so that the summary has bits without slots. */
#define SLOTS	(2 * STORE_LINE + 100)
#define LINES	3
#define HEADER	4096

/* A wheel with a store that has room for SLOTS timers from the beginning. */
struct word_wheel {
	struct timers timers;
	struct store store;
	struct timer timer[SLOTS];
	struct twheel_slot word[SLOTS];
	u64 user_data[SLOTS];
	u64 marks[LINES * STORE_LINE / 64];
	u64 header[HEADER / sizeof(u64)];
	/* User space has touched the page of the marks. */
	bool marked;
	struct wheel_shape shape;
	void *mem;
};

static struct word_wheel *wheel_of(const struct store *s)
{
	return container_of(s, struct word_wheel, store);
}

struct timer *store_timer(const struct store *s, u32 slot)
{
	return &wheel_of(s)->timer[slot];
}

struct twheel_slot *store_word(const struct store *s, u32 slot)
{
	return &wheel_of(s)->word[slot];
}

u64 *store_user_data(const struct store *s, u32 slot)
{
	return &wheel_of(s)->user_data[slot];
}

void store_fetch(const void *store, u32 slot, bool due)
{
}

u64 *store_marks(const struct store *s, u32 slot)
{
	return wheel_of(s)->marked ? &wheel_of(s)->marks[slot / 64] : NULL;
}

/* Called at the steps: user space's part. */
static void (*at_word)(struct twheel_slot *slot);
static void (*at_next)(void);
static void (*at_exchange)(u64 *word);

static void word_step(struct twheel_slot *slot)
{
	if (at_word)
		at_word(slot);
}

static void next_step(void)
{
	/* The barrier that it replaces. */
	mb();
	if (at_next)
		at_next();
}

static void exchange_step(u64 *word)
{
	if (at_exchange)
		at_exchange(word);
}

static struct word_wheel *wheel_alloc(struct kunit *test)
{
	struct word_wheel *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, w);
	w->shape = (struct wheel_shape) { .shift = SHIFT, .slot_bits = 6 };
	w->shape.levels = wheel_max_levels(SHIFT, w->shape.slot_bits);
	w->mem = kunit_kzalloc(test, wheel_bytes(&w->shape), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, w->mem);
	return w;
}

/* Makes an empty wheel of @max timers, which are at most SLOTS. */
static void wheel_begin(struct word_wheel *w, u32 max, u64 now)
{
	at_word = NULL;
	at_next = NULL;
	at_exchange = NULL;
	memset(&w->timers, 0, sizeof(w->timers));
	memset(w->timer, 0, max * sizeof(*w->timer));
	memset(w->word, 0, max * sizeof(*w->word));
	memset(w->marks, 0, sizeof(w->marks));
	memset(w->header, 0, sizeof(w->header));
	memset(w->mem, 0, wheel_bytes(&w->shape));
	w->store = (struct store) { .max = max, .room = max };
	w->marked = false;
	wheel_init(&w->timers.wheel, &w->shape, w->mem, now, store_fetch, &w->store);
	timers_begin(&w->timers, &w->store);
}

/* User space takes no more steps. */
static void wheel_end(void)
{
	at_word = NULL;
	at_next = NULL;
	at_exchange = NULL;
}

static struct twheel_timer do_op(struct kunit *test, struct word_wheel *w, u32 opcode,
				 struct twheel_timer timer, u64 now)
{
	struct twheel_op op = { .timer = timer, .opcode = opcode };

	op.timer.flags |= TWHEEL_ABSTIME;
	KUNIT_EXPECT_EQ(test, 1U, timers_apply(&w->timers, &op, 1, now));
	KUNIT_EXPECT_EQ(test, 0, op.result);
	return op.timer;
}

static void check_sums(struct kunit *test, const struct word_wheel *w)
{
	const struct twheel_stats *s = &w->timers.stats;

	KUNIT_EXPECT_EQ(test, s->armings, s->expired + s->displaced + s->armed);
	KUNIT_EXPECT_EQ(test, s->expired, s->delivered + s->withdrawn + s->unread);
}

/* One word */

#define STEPS	6

/* The user's possible moves in a step; a script consists of STEPS of these. */
static const u64 moves[] = { 0, START - 5 * TICK, START + 3 * TICK + 7, START + 900 * TICK };

#define NOTHING	ARRAY_SIZE(moves)
#define CHOICES	(ARRAY_SIZE(moves) + 1)

struct look_test {
	struct word_wheel *w;
	struct timers *timers;
	struct timer *e;
	struct twheel_slot *slot;
	u64 now;
	/* The script, and the number of steps that were taken. */
	unsigned int script[STEPS];
	unsigned int step;
	bool kick;
	/* Words other than 0 that the user stored, and those that it got back. */
	u64 stored;
	u64 taken;
	/* The last arming that the user has not got back, as far as it knows. */
	u64 last;
};

static struct look_test *current_test;

static void user_moves(struct twheel_slot *slot)
{
	struct look_test *lt = current_test;
	unsigned int move;
	u64 word, old;

	if (lt->step == STEPS)
		return;
	move = lt->script[lt->step++];
	if (move == NOTHING)
		return;
	word = moves[move];
	/* Each due deadline differs from the one before, so that the kernel notices. */
	if (word && word < START)
		word -= lt->step * TICK;
	/* Parking a word disarms the timer. */
	old = word_deadline(xchg(&slot->deadline_ns, !word && lt->step % 2 ? TWHEEL_PARKED : word));
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
	/* If not 0, a REARM to this time with these flags replaces the look. */
	u64 rearm;
	u32 flags;
};

/* The word differs from the plan if the user has moved it before. */
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

ROWS(look, looks);

/* Makes the timer of @row. From here on the user takes its steps. */
static void look_arm(struct kunit *test, struct look_test *lt, const struct look_row *row)
{
	struct twheel_timer timer = {
		.deadline_ns = row->planned,
		.period_ns = row->period,
		.slack_ns = row->slack,
		.flags = TWHEEL_KEEP,
	};

	timer = do_op(test, lt->w, TWHEEL_OP_REGISTER, timer, min(row->planned, START) - 10 * TICK);
	lt->e = store_find(lt->timers->store, timer.id);
	KUNIT_ASSERT_NOT_NULL(test, lt->e);
	lt->slot = store_word(lt->timers->store, lt->e->slot);
	lt->stored = 1;
	lt->last = row->word;
	if (row->word != row->planned) {
		xchg(&lt->slot->deadline_ns, row->word);
		lt->taken++;
		lt->stored += !!row->word;
	}
	at_word = user_moves;
}

/* Does what the wheel does at that time, or the REARM, which exchanges the word like users do. */
static void look_act(struct kunit *test, struct look_test *lt, const struct look_row *row)
{
	struct twheel_timer timer = {
		.id = timer_id(lt->e),
		.deadline_ns = row->rearm,
		.flags = TWHEEL_KEEP | row->flags,
	};
	bool disarms = row->flags & TWHEEL_DISARMED;

	if (!row->rearm) {
		timers_turn(lt->timers, lt->now, UNLIMITED);
		return;
	}
	lt->taken += !!row->word;
	lt->stored += !disarms;
	lt->last = disarms ? 0 : row->rearm;
	do_op(test, lt->w, TWHEEL_OP_REARM, timer, lt->now);
}

/* Checks what must hold whenever no thread is in the middle of anything. */
static void look_check(struct kunit *test, struct look_test *lt, u64 claimed)
{
	const struct twheel_stats *s = &lt->timers->stats;
	u64 word = word_deadline(lt->slot->deadline_ns);
	u64 wake = lt->slot->wake_ns;
	struct timer *e = lt->e;

	check_sums(test, lt->w);
	KUNIT_EXPECT_EQ(test, s->armed, (u64)(e->place == TIMER_QUEUED));
	KUNIT_EXPECT_EQ(test, s->unread, (u64)(e->place == TIMER_READY));
	KUNIT_EXPECT_NE(test, (unsigned int)e->place, (unsigned int)TIMER_TAKEN);

	/* Exactly once: taken back, claimed by the kernel, or still there. */
	KUNIT_EXPECT_EQ(test, lt->stored, lt->taken + claimed + !!word);
	/* Never lost: the last arming is still to expire, or to be read. */
	if (lt->last && word != lt->last) {
		KUNIT_EXPECT_EQ(test, (unsigned int)e->place, (unsigned int)TIMER_READY);
		KUNIT_EXPECT_EQ(test, e->deadline, lt->last);
	}

	if (e->place == TIMER_QUEUED) {
		/* The kernel looks before the word's deadline, or at the next tick. */
		if (word > lt->now)
			KUNIT_EXPECT_LE(test, e->deadline, word);
		else if (word)
			KUNIT_EXPECT_LE(test, e->deadline, lt->now + TICK);
		/* No timer is forgotten whose user was told not to kick. */
		KUNIT_EXPECT_GE(test, wake + TICK, e->deadline);
		/* No user kicks for a time at which the kernel looks anyway. */
		KUNIT_EXPECT_LT(test, wake, e->deadline);
	} else {
		KUNIT_EXPECT_TRUE(test, !word || (e->place == TIMER_READY &&
						  word == timer_successor(e, e->deadline,
									  e->expired_ns)));
		KUNIT_EXPECT_EQ(test, wake, WHEEL_NEVER);
	}
	/* G1: never early */
	if (e->place == TIMER_READY)
		KUNIT_EXPECT_LE(test, e->deadline, e->expired_ns);
}

/*
 * Returns how many expiries of a word the kernel has claimed. For a periodic timer it has
 * stored the next word itself, which counts as stored.
 */
static u64 look_claimed(struct look_test *lt, const struct look_row *row)
{
	u64 claimed = lt->timers->stats.expired;

	if (row->period)
		lt->stored += claimed;
	return claimed;
}

static struct look_test *look_alloc(struct kunit *test)
{
	struct look_test *lt = kunit_kzalloc(test, sizeof(*lt), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, lt);
	lt->w = wheel_alloc(test);
	return lt;
}

/* Makes a new wheel with the timer of @row, and script @n for its user. */
static void look_begin(struct kunit *test, struct look_test *lt, unsigned int n,
		       const struct look_row *row)
{
	struct word_wheel *w = lt->w;
	unsigned int i;

	*lt = (struct look_test) { .w = w, .timers = &w->timers, .now = START };
	current_test = lt;
	wheel_begin(w, 1, START - 200 * TICK);
	for (i = 0; i < STEPS; i++, n /= CHOICES)
		lt->script[i] = n % CHOICES;
	look_arm(test, lt, row);
}

/* The same, once the timer has an event and the user has taken its first step. */
static void look_begin_ready(struct kunit *test, struct look_test *lt, unsigned int n,
			     const struct look_row *row)
{
	look_begin(test, lt, n, row);
	at_word = NULL;
	timers_turn(lt->timers, lt->now, UNLIMITED);
	KUNIT_EXPECT_EQ(test, (unsigned int)lt->e->place, (unsigned int)TIMER_READY);
	at_word = user_moves;
	user_moves(lt->slot);
}

/* Looks at @slot, as a KICK does if it is marked. Returns true if it has a timer. */
static bool look_at(struct timers *t, u32 slot, u64 now)
{
	struct timer *e = store_at(t->store, slot);

	t->kicks++;
	if (e)
		reconcile(t, e, timer_word(t, e), now);
	t->kicks--;
	return e;
}

/* The user kicks if the protocol requires it. */
static void look_kicks(struct look_test *lt)
{
	while (lt->kick) {
		lt->kick = false;
		look_at(lt->timers, lt->e->slot, lt->now);
	}
}

/* Returns true if the test continues. */
static bool look_end(struct kunit *test, struct look_test *lt)
{
	wheel_end();
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

/* G3, G4: each arming ends once and none is lost, with every script */
static void look_every_interleaving(struct kunit *test)
{
	const struct look_row *row = test->param_value;
	struct look_test *lt = look_alloc(test);
	unsigned int n;

	for (n = 0; n < look_scripts(); n++) {
		look_begin(test, lt, n, row);
		look_act(test, lt, row);
		look_kicks(lt);
		look_check(test, lt, look_claimed(lt, row));
		if (!look_end(test, lt))
			return;
	}
}

/*
 * G6: Calls that only look, and turns, leave an event alone, whatever the user does to the
 * word.
 */
static void event_is_final(struct kunit *test)
{
	static const struct look_row row = { "", START - 1, START - 1, 2 * TICK };
	struct look_test *lt = look_alloc(test);
	unsigned int n;

	for (n = 0; n < look_scripts(); n++) {
		struct twheel_timer timer, listed;
		struct twheel_event event;
		u32 cursor = 0;

		look_begin_ready(test, lt, n, &row);
		timer = do_op(test, lt->w, TWHEEL_OP_GET,
			      (struct twheel_timer) { .id = timer_id(lt->e) }, lt->now);
		KUNIT_EXPECT_EQ(test, timer.state, TWHEEL_EXPIRED);
		KUNIT_EXPECT_EQ(test, timer.deadline_ns, START - 1);
		KUNIT_EXPECT_EQ(test, 1, timers_list(lt->timers, &cursor, &listed, 1, 1));
		KUNIT_EXPECT_EQ(test, listed.state, TWHEEL_EXPIRED);
		reconcile(lt->timers, lt->e, lt->slot, lt->now);
		timers_turn(lt->timers, lt->now + 10 * TICK, UNLIMITED);
		KUNIT_EXPECT_EQ(test, lt->timers->stats.withdrawn, 0ULL);
		KUNIT_EXPECT_EQ(test, 1U, timers_peek(lt->timers, &event, 1, lt->now));
		KUNIT_EXPECT_EQ(test, event.deadline_ns, START - 1);
		if (!look_end(test, lt))
			return;
	}
}

static const struct look_row reads[] = {
	{ "once", START - 1, START - 1 },
	{ "periodic", START - 1, START - 1, 2 * TICK },
};

ROWS(read, reads);

/*
 * A reader takes an event while the user changes its word before and meanwhile: the event is
 * delivered, and a later arming then takes effect.
 */
static void read_every_interleaving(struct kunit *test)
{
	const struct look_row *row = test->param_value;
	struct look_test *lt = look_alloc(test);
	unsigned int n;

	for (n = 0; n < look_scripts(); n++) {
		struct twheel_event event;
		u64 claimed;

		look_begin_ready(test, lt, n, row);
		KUNIT_EXPECT_EQ(test, 1U, timers_peek(lt->timers, &event, 1, lt->now));
		KUNIT_EXPECT_EQ(test, event.deadline_ns, START - 1);
		KUNIT_EXPECT_EQ(test, event.expirations, 1ULL);
		if (event.deadline_ns == lt->last)
			lt->last = 0;
		/* User space takes no lock. */
		user_moves(lt->slot);
		KUNIT_EXPECT_EQ(test, 1U, timers_consume(lt->timers, &event, 1, lt->now));
		KUNIT_EXPECT_EQ(test, lt->timers->stats.delivered, 1ULL);
		/* Nobody has to kick for a change before the read. */
		if (lt->step <= 2 && lt->e->place == TIMER_QUEUED &&
		    word_deadline(lt->slot->deadline_ns))
			KUNIT_EXPECT_LE(test, lt->e->deadline, lt->slot->deadline_ns);
		look_kicks(lt);
		claimed = look_claimed(lt, row);
		look_check(test, lt, claimed);
		if (!look_end(test, lt))
			return;
	}
}

/*
 * G3, G4: If the user ends a period while its event is copied, the event is not delivered but
 * counted anew, without that period. A reader is refused once at most.
 */
static void read_counts_anew(struct kunit *test)
{
	static const struct look_row row = { "", START - 1, START - 1, 2 * TICK };
	static const u64 until[] = { START + 9 * TICK, 0 };
	struct look_test *lt = look_alloc(test);
	u64 left = START - 1 + 2 * TICK;
	struct twheel_event event;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		look_begin(test, lt, 0, &row);
		at_word = NULL;
		timers_turn(lt->timers, lt->now, UNLIMITED);
		KUNIT_EXPECT_EQ(test, 1U, timers_peek(lt->timers, &event, 1, until[0]));
		KUNIT_EXPECT_EQ(test, event.expirations, 5ULL);
		KUNIT_EXPECT_EQ(test, xchg(&lt->slot->deadline_ns, 0), left);
		KUNIT_EXPECT_EQ(test, 0U, timers_consume(lt->timers, &event, 1, until[0]));
		KUNIT_EXPECT_EQ(test, lt->timers->stats.unread, 1ULL);
		/* The user may arm the same period again, and end it once more. */
		xchg(&lt->slot->deadline_ns, i ? left : 0);
		KUNIT_EXPECT_EQ(test, 1U, timers_peek(lt->timers, &event, 1, until[i]));
		KUNIT_EXPECT_EQ(test, event.expirations, 1ULL);
		KUNIT_EXPECT_EQ(test, xchg(&lt->slot->deadline_ns, 0), i ? left : 0);
		KUNIT_EXPECT_EQ(test, 1U, timers_consume(lt->timers, &event, 1, until[0]));
		KUNIT_EXPECT_EQ(test, lt->timers->stats.unread, 0ULL);
		KUNIT_EXPECT_EQ(test, (unsigned int)lt->e->place, (unsigned int)TIMER_IDLE);
		wheel_end();
	}
}

/* Marks */

static struct twheel_table *marks_header(const struct word_wheel *w)
{
	return w->timers.store->table;
}

/* Maps the wheel, except for the page of its marks. */
static void marks_map(struct word_wheel *w, u64 next)
{
	timers_map(&w->timers, (struct twheel_table *)w->header, HEADER, CLOCK_MONOTONIC, next);
}

/* Makes a mapped wheel with @nr idle timers, in the slots from 0 on. */
static struct word_wheel *marks_begin(struct kunit *test, struct word_wheel *w, u32 nr)
{
	struct twheel_timer timer = { .flags = TWHEEL_KEEP | TWHEEL_DISARMED };
	u32 i;

	wheel_begin(w, SLOTS, START);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, i, (u32)do_op(test, w, TWHEEL_OP_REGISTER, timer, START).id);
	marks_map(w, WHEEL_NEVER);
	w->marked = true;
	return w;
}

static unsigned long *mark_bits(const struct word_wheel *w)
{
	return (unsigned long *)store_marks(w->timers.store, 0);
}

static unsigned long *summary_map(const struct word_wheel *w)
{
	return (unsigned long *)((char *)marks_header(w) + marks_header(w)->summary_offset);
}

static void mark(const struct word_wheel *w, u32 slot)
{
	set_bit(slot, mark_bits(w));
	set_bit(slot >> marks_header(w)->summary_shift, summary_map(w));
}

static struct twheel_slot *slot_of(const struct word_wheel *w, u32 slot)
{
	return store_word(w->timers.store, slot);
}

static unsigned int place_of(const struct word_wheel *w, u32 slot)
{
	return store_timer(w->timers.store, slot)->place;
}

/* The protocol without the KICK. Returns true if a KICK is needed. */
static bool arm_and_mark(const struct word_wheel *w, u32 slot, u64 to)
{
	xchg(&slot_of(w, slot)->deadline_ns, to);
	if (to > READ_ONCE(slot_of(w, slot)->wake_ns))
		return false;
	mark(w, slot);
	/* C of twheel_marks.c. */
	mb();
	return to <= READ_ONCE(marks_header(w)->next_ns);
}

/* Turns the wheel, and does what the file does afterwards. Returns when it turns next. */
static u64 marks_turn(struct word_wheel *w, u64 now, unsigned int budget)
{
	timers_turn(&w->timers, now, budget);
	return timers_publish_next(&w->timers, timers_next(&w->timers), now);
}

static void marks_kick(struct word_wheel *w, u64 now)
{
	timers_begin_kick(&w->timers);
	timers_turn(&w->timers, now, UNLIMITED);
	w->timers.kicks--;
}

/* The steps of the protocol in order, between which the user may be interrupted. */
enum { EXCHANGE, MARK, SUMMARY, NEXT, RECIPE };
enum { BEFORE, IN_SWEEP, AFTER_LOOK, IN_DUE, BETWEEN, AFTER, PLACES };

/**
 * struct mark_test - a user who arms a timer by the protocol, while the wheel turns
 * @w: the wheel
 * @slot: the timer's slot
 * @to: the deadline
 * @at: the place at which the user takes each step
 * @place: the present place of the turn
 * @done: the number of steps taken
 * @kick: the user must kick
 */
struct mark_test {
	struct word_wheel *w;
	u32 slot;
	u64 to;
	unsigned int at[RECIPE];
	unsigned int place;
	unsigned int done;
	bool kick;
};

static struct mark_test *current_mark;

static void user_marks(struct mark_test *mt, unsigned int place)
{
	struct word_wheel *w = mt->w;

	for (; mt->done < RECIPE && mt->at[mt->done] <= place; mt->done++) {
		switch (mt->done) {
		case EXCHANGE:
			xchg(&slot_of(w, mt->slot)->deadline_ns, mt->to);
			/* Marks are for deadlines that the kernel would not look at. */
			if (mt->to > READ_ONCE(slot_of(w, mt->slot)->wake_ns))
				mt->done = NEXT;
			break;
		case MARK:
			set_bit(mt->slot, mark_bits(w));
			break;
		case SUMMARY:
			set_bit(mt->slot >> STORE_LINE_SHIFT, summary_map(w));
			break;
		case NEXT:
			mt->kick = mt->to <= READ_ONCE(marks_header(w)->next_ns);
			break;
		}
	}
}

/* The first two looks are at the timer that was marked before, the others at due timers. */
static void marks_at_word(struct twheel_slot *slot)
{
	struct mark_test *mt = current_mark;

	if (mt->place < IN_DUE && slot != slot_of(mt->w, mt->slot))
		user_marks(mt, ++mt->place);
}

static void marks_at_next(void)
{
	user_marks(current_mark, BETWEEN);
}

struct mark_row {
	const char *name;
	/* The slot that the user marks, and the one at which the sweep is interrupted. */
	u32 slot;
	u32 other;
	u64 to;
	/* The earlier deadline of the timer; 0 if it was not armed. */
	u64 from;
};

static const struct mark_row mark_rows[] = {
	{ "armed soon, behind the sweep", 3, 70, START + TICK / 2, 0 },
	{ "armed soon, before the sweep", 70, 3, START + TICK / 2, 0 },
	{ "armed soon, beside the sweep", 4, 3, START + 2 * TICK, 0 },
	{ "armed soon, in a line behind it", 5, 1500, START + 2 * TICK, 0 },
	{ "armed soon, in a line before it", 1500, 5, START + 2 * TICK, 0 },
	{ "armed soon, in the last line", 2100, 5, START + 5 * TICK + 1, 0 },
	{ "armed for long, behind the sweep", 3, 70, START + 2000 * TICK, 0 },
	{ "armed for the past, before it", 70, 3, START - TICK, 0 },
	{ "moved from far to near", 3, 70, START + 2 * TICK, START + 5000 * TICK },
	{ "moved from near to nearer", 70, 3, START + TICK, START + 3 * TICK },
};

ROWS(mark, mark_rows);

/* Turns the wheel when it requests that, until @slot has an event. Returns when that was. */
static u64 turn_until_ready(struct word_wheel *w, u64 next, u32 slot)
{
	unsigned int turns;
	u64 now = START;

	for (turns = 0; turns < 100 && place_of(w, slot) != TIMER_READY; turns++) {
		if (next == WHEEL_NEVER)
			return WHEEL_NEVER;
		now = max(now, next);
		next = marks_turn(w, now, UNLIMITED);
	}
	return store_timer(w->timers.store, slot)->expired_ns;
}

static void mark_interleaved(struct kunit *test, struct mark_test *mt, const struct mark_row *row)
{
	struct twheel_timer timer = { .deadline_ns = START, .flags = TWHEEL_KEEP };
	struct word_wheel *w = mt->w;
	u64 next, came;

	/* One timer is due and one was marked, so that both parts of the turn look. */
	marks_begin(test, w, 2110);
	timer.id = timer_id(store_timer(w->timers.store, 100));
	do_op(test, w, TWHEEL_OP_REARM, timer, START - TICK);
	if (row->from) {
		timer.id = timer_id(store_timer(w->timers.store, mt->slot));
		timer.deadline_ns = row->from;
		do_op(test, w, TWHEEL_OP_REARM, timer, START - TICK);
	}
	timers_publish_next(&w->timers, timers_next(&w->timers), START - TICK);
	arm_and_mark(w, row->other, START + 9000 * TICK);

	current_mark = mt;
	mt->done = 0;
	mt->place = BEFORE;
	mt->kick = false;
	user_marks(mt, BEFORE);
	at_word = marks_at_word;
	at_next = marks_at_next;
	next = marks_turn(w, START, UNLIMITED);
	at_word = NULL;
	at_next = NULL;
	user_marks(mt, AFTER);
	if (mt->kick) {
		marks_kick(w, START);
		next = timers_publish_next(&w->timers, timers_next(&w->timers), START);
	}
	KUNIT_EXPECT_EQ(test, place_of(w, row->other), (unsigned int)TIMER_QUEUED);
	came = turn_until_ready(w, next, mt->slot);
	KUNIT_EXPECT_GE(test, came, mt->to);
	/* In the tick of its deadline, or the next one from now on. */
	KUNIT_EXPECT_LE(test, came, (max(mt->to, START + 1) + TICK - 1) & ~(TICK - 1));
	check_sums(test, w);
	wheel_end();
}

static void mark_every_interleaving(struct kunit *test)
{
	const struct mark_row *row = test->param_value;
	struct mark_test mt = { .w = wheel_alloc(test), .slot = row->slot, .to = row->to };
	unsigned int *at = mt.at;

	for (at[EXCHANGE] = BEFORE; at[EXCHANGE] < PLACES; at[EXCHANGE]++)
		for (at[MARK] = at[EXCHANGE]; at[MARK] < PLACES; at[MARK]++)
			for (at[SUMMARY] = at[MARK]; at[SUMMARY] < PLACES; at[SUMMARY]++)
				for (at[NEXT] = at[SUMMARY]; at[NEXT] < PLACES; at[NEXT]++) {
					mark_interleaved(test, &mt, row);
					if (test->status != KUNIT_FAILURE)
						continue;
					kunit_info(test, "steps at %u %u %u %u", at[EXCHANGE],
						   at[MARK], at[SUMMARY], at[NEXT]);
					return;
				}
}

/*
 * Takes all steps of the protocol when next_ns is published: the kernel reads the summary
 * again.
 */
static void mark_at_next_step(void)
{
	struct mark_test *mt = current_mark;

	mt->kick |= arm_and_mark(mt->w, mt->slot, mt->to);
}

static void mark_reads_again(struct kunit *test)
{
	struct mark_test mt = { .w = wheel_alloc(test), .slot = 7, .to = START + 50 * TICK };
	struct word_wheel *w = marks_begin(test, mt.w, 20);
	u64 next;

	/* The kernel looks before that deadline, so the user needs no KICK. */
	arm_and_mark(w, 3, START + 20 * TICK);
	next = marks_turn(w, START, UNLIMITED);
	KUNIT_EXPECT_EQ(test, next, START + 20 * TICK);
	KUNIT_EXPECT_EQ(test, marks_header(w)->next_ns, next);

	/* With the new next_ns, the user sets a mark just before the summary is read again. */
	current_mark = &mt;
	at_next = mark_at_next_step;
	next = marks_turn(w, START + TICK, UNLIMITED);
	KUNIT_EXPECT_FALSE(test, mt.kick);
	KUNIT_EXPECT_EQ(test, next, START + 2 * TICK);
	KUNIT_EXPECT_EQ(test, marks_header(w)->next_ns, next);
	at_next = NULL;
	next = marks_turn(w, next, UNLIMITED);
	KUNIT_EXPECT_EQ(test, next, START + 20 * TICK);
	KUNIT_EXPECT_EQ(test, place_of(w, 7), (unsigned int)TIMER_QUEUED);
	wheel_end();
}

/* The values of next_ns, for readers of the table. */
static void next_is_published(struct kunit *test)
{
	struct word_wheel *w = wheel_alloc(test);

	wheel_begin(w, SLOTS, START);
	/* Nobody has mapped the table. */
	KUNIT_EXPECT_EQ(test, timers_publish_next(&w->timers, 4711, START), 4711ULL);
	wheel_end();

	marks_begin(test, w, 20);
	KUNIT_EXPECT_EQ(test, marks_header(w)->next_ns, WHEEL_NEVER);
	KUNIT_EXPECT_EQ(test, marks_turn(w, START, UNLIMITED), WHEEL_NEVER);
	KUNIT_EXPECT_EQ(test, marks_header(w)->next_ns, WHEEL_NEVER);
	/* An idle wheel must be kicked, but not one that turns sooner. */
	KUNIT_EXPECT_TRUE(test, arm_and_mark(w, 1, START + 9 * TICK));
	KUNIT_EXPECT_EQ(test, marks_turn(w, START, UNLIMITED), START + 9 * TICK);
	KUNIT_EXPECT_EQ(test, marks_header(w)->next_ns, START + 9 * TICK);
	KUNIT_EXPECT_TRUE(test, arm_and_mark(w, 2, START + 9 * TICK));
	KUNIT_EXPECT_FALSE(test, arm_and_mark(w, 3, START + 9 * TICK + 1));
	KUNIT_EXPECT_EQ(test, marks_turn(w, START + TICK, UNLIMITED), START + 9 * TICK);
	/* A turn that is under way, or follows at once. */
	KUNIT_EXPECT_EQ(test, timers_publish_next(&w->timers, 0, START), 0ULL);
	KUNIT_EXPECT_EQ(test, marks_header(w)->next_ns, 0ULL);
	KUNIT_EXPECT_FALSE(test, arm_and_mark(w, 4, START + 2 * TICK));
	KUNIT_EXPECT_EQ(test, timers_publish_next(&w->timers, 0, START), 0ULL);
	/* With a mark, a later turn moves to the next tick, and an earlier one stays. */
	KUNIT_EXPECT_EQ(test, timers_publish_next(&w->timers, START + 9 * TICK, START),
			START + TICK);
	KUNIT_EXPECT_EQ(test, marks_header(w)->next_ns, START + TICK);
	KUNIT_EXPECT_EQ(test, timers_publish_next(&w->timers, START + 3, START), START + 3);
	/* The kernel does not trust the contents of the header. */
	memset(marks_header(w), 0xff, sizeof(*marks_header(w)));
	timers_turn(&w->timers, START, UNLIMITED);
	KUNIT_EXPECT_EQ(test, place_of(w, 4), (unsigned int)TIMER_QUEUED);
	KUNIT_EXPECT_EQ(test, timers_next(&w->timers), START + 2 * TICK);
	wheel_end();
}

/* A turn leaves an event whose timer was armed again, and a KICK withdraws it. */
static void mark_withdraws(struct kunit *test)
{
	struct word_wheel *w = marks_begin(test, wheel_alloc(test), 20);
	const struct twheel_stats *s = &w->timers.stats;
	u64 now = START + 4 * TICK;
	struct twheel_event event;
	u32 i;

	/* The events come in this order. */
	for (i = 0; i < 4; i++)
		arm_and_mark(w, i, START + 1 + i * TICK);
	marks_turn(w, START, UNLIMITED);
	marks_turn(w, now, UNLIMITED);
	KUNIT_EXPECT_EQ(test, s->unread, 4ULL);

	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_TRUE(test, arm_and_mark(w, i, START + 9 * TICK));
	/* A turn that finds their marks leaves the events. */
	marks_turn(w, now, UNLIMITED);
	KUNIT_EXPECT_EQ(test, s->unread, 4ULL);
	KUNIT_EXPECT_EQ(test, timers_publish_next(&w->timers, WHEEL_NEVER, now), WHEEL_NEVER);
	/* One of them is read, and a KICK withdraws the others. */
	KUNIT_EXPECT_EQ(test, 1U, timers_peek(&w->timers, &event, 1, now));
	KUNIT_EXPECT_EQ(test, 1U, timers_consume(&w->timers, &event, 1, now));
	marks_kick(w, now);
	KUNIT_EXPECT_EQ(test, s->withdrawn, 2ULL);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, place_of(w, i), (unsigned int)TIMER_QUEUED);
	/* A KICK withdraws nothing from a timer that was not changed. */
	mark(w, 3);
	marks_kick(w, now);
	KUNIT_EXPECT_EQ(test, s->withdrawn, 2ULL);
	KUNIT_EXPECT_EQ(test, s->unread, 1ULL);
	check_sums(test, w);
	wheel_end();
}

/*
 * A KICK on many lines takes the lock several times. A turn in between finds the mark of an event
 * that was armed over. It withdraws that event, so that the KICK need not begin again.
 */
static void kick_goes_on(struct kunit *test)
{
	struct word_wheel *w = marks_begin(test, wheel_alloc(test), SLOTS);
	const struct twheel_stats *s = &w->timers.stats;
	u32 last = 2 * STORE_LINE + 10;
	u64 now = START + TICK;

	arm_and_mark(w, last, START + 1);
	marks_turn(w, START, UNLIMITED);
	marks_turn(w, now, UNLIMITED);
	arm_and_mark(w, last, START + 9 * TICK);
	marks_turn(w, now, UNLIMITED);
	KUNIT_EXPECT_EQ(test, s->unread, 1ULL);

	/* Each of these budgets suffices for two of the three lines. */
	timers_begin_kick(&w->timers);
	timers_turn(&w->timers, now, 4);
	KUNIT_EXPECT_TRUE(test, w->timers.marked);
	KUNIT_EXPECT_EQ(test, s->unread, 1ULL);
	timers_turn(&w->timers, now, 4);
	KUNIT_EXPECT_EQ(test, s->withdrawn, 1ULL);
	timers_turn(&w->timers, now, 4);
	KUNIT_EXPECT_GT(test, timers_next(&w->timers), now);
	w->timers.kicks--;
	KUNIT_EXPECT_EQ(test, place_of(w, last), (unsigned int)TIMER_QUEUED);
	check_sums(test, w);
	wheel_end();
}

/* Makes a wheel that has not turned with eight due timers, for which later ones have to wait. */
static struct word_wheel *overdue_begin(struct kunit *test)
{
	struct twheel_timer timer = { .deadline_ns = START + 1 };
	struct word_wheel *w = wheel_alloc(test);
	unsigned int i;

	wheel_begin(w, 256, START);
	for (i = 0; i < 8; i++)
		do_op(test, w, TWHEEL_OP_REGISTER, timer, START);
	return w;
}

/*
 * G2: A timer that was due when it was armed waits behind others. If the clock is then set
 * back, its place is in the future, and a KICK makes it expire.
 */
static void kick_after_set_back(struct kunit *test)
{
	struct word_wheel *w = overdue_begin(test);
	struct twheel_timer timer = { .deadline_ns = START };

	do_op(test, w, TWHEEL_OP_REGISTER, timer, START + 10 * TICK);
	KUNIT_EXPECT_EQ(test, place_of(w, 8), (unsigned int)TIMER_QUEUED);
	look_at(&w->timers, 8, START + 2);
	KUNIT_EXPECT_EQ(test, place_of(w, 8), (unsigned int)TIMER_READY);
	check_sums(test, w);
	wheel_end();
}

/* G2: A deadline that was past when it was armed does not count as late, even if it waits. */
static void past_is_not_late(struct kunit *test)
{
	struct word_wheel *w = overdue_begin(test);
	struct twheel_timer timer = { .deadline_ns = START };
	u64 now = START + 10 * TICK, counted = 0;
	struct twheel_stats s;
	unsigned int i;

	do_op(test, w, TWHEEL_OP_REGISTER, timer, now);
	KUNIT_EXPECT_EQ(test, place_of(w, 8), (unsigned int)TIMER_QUEUED);
	timers_turn(&w->timers, now, 128);
	KUNIT_EXPECT_EQ(test, place_of(w, 8), (unsigned int)TIMER_READY);
	timers_stats(&w->timers, &s);
	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++)
		counted += s.lateness[i];
	KUNIT_EXPECT_EQ(test, s.expired, 9ULL);
	KUNIT_EXPECT_EQ(test, counted, 8ULL);
	KUNIT_EXPECT_EQ(test, s.lateness_sum_ns, 8 * (now - START - 1));
	KUNIT_EXPECT_EQ(test, s.worst_lateness_ns, now - START - 1);
	check_sums(test, w);
	wheel_end();
}

/* Returns how many changed words the kernel has looked at. */
static u64 armed_of(const struct word_wheel *w)
{
	return w->timers.stats.armed;
}

/* G8: A turn has a budget, and the next one continues where it ended. */
static void mark_budget(struct kunit *test)
{
	static const unsigned int budgets[] = { 3, 8, 64, 256, 1000 };
	struct word_wheel *w = wheel_alloc(test);
	unsigned int b;

	for (b = 0; b < ARRAY_SIZE(budgets); b++) {
		unsigned int budget = budgets[b], turns = 0;
		u64 before;
		u32 i;

		marks_begin(test, w, SLOTS);
		for (i = 0; i < SLOTS; i++)
			arm_and_mark(w, i, START + 5000 * TICK);
		do {
			before = armed_of(w);
			KUNIT_EXPECT_EQ(test, w->timers.marked, turns > 0);
			timers_turn(&w->timers, START, budget);
			turns++;
			KUNIT_EXPECT_LE(test, armed_of(w) - before, budget - budget / 2 + 0ULL);
			/* In the order of the slots, from where the last turn ended. */
			for (i = 0; i < armed_of(w); i++)
				KUNIT_ASSERT_EQ(test, place_of(w, i), (unsigned int)TIMER_QUEUED);
			/* A turn for the rest is requested at once, and next_ns shows that. */
			if (armed_of(w) < SLOTS) {
				KUNIT_EXPECT_EQ(test, timers_next(&w->timers), 0ULL);
				KUNIT_EXPECT_LT(test, before, armed_of(w));
			}
		} while (timers_next(&w->timers) == 0 && turns < 2 * SLOTS);
		KUNIT_EXPECT_EQ(test, armed_of(w), (u64)SLOTS);
		/* Each line uses one of the half that marks may use. */
		KUNIT_EXPECT_LE(test, turns, SLOTS / (budget - budget / 2 - 1) + 6);
		KUNIT_EXPECT_TRUE(test, bitmap_empty(mark_bits(w), SLOTS));
		KUNIT_EXPECT_TRUE(test, bitmap_empty(summary_map(w), 64));
		KUNIT_EXPECT_EQ(test, w->timers.slot, 0U);
		wheel_end();
	}
}

/* The sweep reaches each mark, however often earlier ones are set again. */
static void mark_behind_busy_ones(struct kunit *test)
{
	struct word_wheel *w = marks_begin(test, wheel_alloc(test), SLOTS);
	unsigned int turns;
	u32 i;

	arm_and_mark(w, 1000, START + 5000 * TICK);
	arm_and_mark(w, SLOTS - 1, START + 5000 * TICK);
	for (turns = 0; turns < 20; turns++) {
		for (i = 0; i < 200; i++)
			mark(w, i);
		timers_turn(&w->timers, START, 64);
	}
	KUNIT_EXPECT_EQ(test, place_of(w, 1000), (unsigned int)TIMER_QUEUED);
	KUNIT_EXPECT_EQ(test, place_of(w, SLOTS - 1), (unsigned int)TIMER_QUEUED);
	/* Marks that were set behind the sweep are not forgotten. */
	arm_and_mark(w, 0, START + 5000 * TICK);
	for (turns = 0; turns < 20; turns++)
		timers_turn(&w->timers, START, 64);
	KUNIT_EXPECT_EQ(test, place_of(w, 0), (unsigned int)TIMER_QUEUED);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(mark_bits(w), SLOTS));
	wheel_end();
}

/* However many timers are marked, each turn leaves a share of its budget to due timers. */
static void mark_leaves_room(struct kunit *test)
{
	struct word_wheel *w = marks_begin(test, wheel_alloc(test), SLOTS);
	u32 i;

	for (i = 0; i < 200; i++)
		arm_and_mark(w, i, START + 1);
	while (timers_turn(&w->timers, START, UNLIMITED), timers_next(&w->timers) <= START)
		;
	for (i = 200; i < SLOTS; i++)
		arm_and_mark(w, i, START + 5000 * TICK);
	timers_turn(&w->timers, START + TICK, 64);
	KUNIT_EXPECT_GE(test, w->timers.stats.expired, 32ULL);
	KUNIT_EXPECT_LE(test, w->timers.stats.expired, 64ULL);
	wheel_end();
}

/* Marks of slots without a timer, and of lines beyond the slots, have no effect. */
static void mark_of_nobody(struct kunit *test)
{
	struct word_wheel *w = marks_begin(test, wheel_alloc(test), 70);
	struct twheel_timer gone = { .id = timer_id(store_timer(w->timers.store, 5)) };
	u64 next;

	do_op(test, w, TWHEEL_OP_CANCEL, gone, START);
	/* A slot whose timer has ended, one that never had a timer, and a line without timers. */
	slot_of(w, 5)->deadline_ns = START + TICK;
	slot_of(w, 100)->deadline_ns = START + TICK;
	mark(w, 5);
	mark(w, 100);
	mark(w, 1500);
	/* Beyond all slots: in the summary's first word, and in its last. */
	set_bit(3, summary_map(w));
	set_bit(63, summary_map(w));
	set_bit(STORE_MAX / STORE_LINE - 1, summary_map(w));
	next = marks_turn(w, START, UNLIMITED);
	KUNIT_EXPECT_EQ(test, next, WHEEL_NEVER);
	KUNIT_EXPECT_EQ(test, armed_of(w), 0ULL);
	KUNIT_EXPECT_FALSE(test, test_bit(0, summary_map(w)));
	/* These cause no turn, and stay until there are timers. */
	KUNIT_EXPECT_TRUE(test, test_bit(1, summary_map(w)));
	KUNIT_EXPECT_TRUE(test, test_bit(3, summary_map(w)));
	KUNIT_EXPECT_TRUE(test, test_bit(63, summary_map(w)));
	KUNIT_EXPECT_FALSE(test, look_at(&w->timers, 5, START));
	KUNIT_EXPECT_FALSE(test, look_at(&w->timers, 1500, START));
	KUNIT_EXPECT_FALSE(test, look_at(&w->timers, U32_MAX, START));

	/* If all slots have a timer, marks beyond them still have no effect. */
	while (w->timers.store->used < SLOTS) {
		struct twheel_timer timer = { .flags = TWHEEL_KEEP | TWHEEL_DISARMED };

		do_op(test, w, TWHEEL_OP_REGISTER, timer, START);
	}
	next = marks_turn(w, START, UNLIMITED);
	KUNIT_EXPECT_EQ(test, next, WHEEL_NEVER);
	KUNIT_EXPECT_FALSE(test, test_bit(1, summary_map(w)));
	KUNIT_EXPECT_TRUE(test, test_bit(63, summary_map(w)));
	wheel_end();
}

/* A summary bit for marks whose page was never touched. */
static void mark_without_page(struct kunit *test)
{
	struct twheel_timer timer = { .flags = TWHEEL_KEEP | TWHEEL_DISARMED };
	struct word_wheel *w = wheel_alloc(test);

	wheel_begin(w, SLOTS, START);
	do_op(test, w, TWHEEL_OP_REGISTER, timer, START);
	marks_map(w, WHEEL_NEVER);
	bitmap_fill(summary_map(w), 128);
	KUNIT_EXPECT_EQ(test, marks_turn(w, START, UNLIMITED), WHEEL_NEVER);
	KUNIT_EXPECT_FALSE(test, test_bit(0, summary_map(w)));
	KUNIT_EXPECT_TRUE(test, test_bit(1, summary_map(w)));
	wheel_end();
}

/* A user that marks each timer that is looked at, every time, and moves it. */
static struct word_wheel *restless;
static unsigned int restless_looks;

static void marks_again(struct twheel_slot *slot)
{
	u32 nr = slot - slot_of(restless, 0);

	restless_looks++;
	xchg(&slot->deadline_ns, READ_ONCE(slot->deadline_ns) + TICK);
	mark(restless, nr);
}

static void mark_again(struct kunit *test)
{
	struct word_wheel *w = marks_begin(test, wheel_alloc(test), 200);
	unsigned int turns;
	u64 next = START;
	u32 i;

	restless = w;
	for (i = 0; i < 200; i++)
		arm_and_mark(w, i, START + 1000 * TICK + i);
	at_word = marks_again;
	for (turns = 0; turns < 10; turns++) {
		u64 now = next;

		restless_looks = 0;
		next = marks_turn(w, now, UNLIMITED);
		/* One look per turn, and then the wheel rests until the next tick. */
		KUNIT_EXPECT_LE(test, restless_looks, 200U * 2 * (WORD_LOOKS + 1));
		KUNIT_EXPECT_GE(test, restless_looks, 200U);
		KUNIT_EXPECT_FALSE(test, w->timers.marked);
		KUNIT_EXPECT_EQ(test, next, now + TICK);
		KUNIT_EXPECT_EQ(test, marks_header(w)->next_ns, next);
	}
	check_sums(test, w);
	wheel_end();
}

/* A word that a user changes before each exchange, after so many that he leaves alone. */
static u64 *contended;
static unsigned int left_alone;
static unsigned int contentions;

static void contend(u64 *word)
{
	if (word != contended)
		return;
	if (left_alone) {
		left_alone--;
		return;
	}
	contentions++;
	/* Neither a slot nor a line has this bit. */
	WRITE_ONCE(*word, READ_ONCE(*word) ^ BIT_ULL(63));
}

/* A turn while @word is contended. Returns when the wheel turns next. */
static u64 contended_turn(struct kunit *test, struct word_wheel *w, u64 *word,
			  unsigned int alone, u64 now)
{
	u64 next;

	contended = word;
	left_alone = alone;
	contentions = 0;
	at_exchange = contend;
	next = marks_turn(w, now, UNLIMITED);
	at_exchange = NULL;
	KUNIT_EXPECT_EQ(test, contentions, EXCHANGES);
	return next;
}

/*
 * G8: However often user space changes a word of marks, a turn tries only so often to change it,
 * and no mark is lost.
 */
static void mark_contended(struct kunit *test)
{
	struct word_wheel *w = marks_begin(test, wheel_alloc(test), 20);
	u64 *words[] = { store_summary(w->timers.store), store_marks(w->timers.store, 0) };
	u64 now = START + TICK;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		arm_and_mark(w, i, START + 9 * TICK);
		KUNIT_EXPECT_EQ(test, contended_turn(test, w, words[i], 0, START), 0ULL);
		KUNIT_EXPECT_EQ(test, place_of(w, i), (unsigned int)TIMER_IDLE);
		KUNIT_EXPECT_EQ(test, marks_turn(w, START, UNLIMITED), START + 9 * TICK);
		KUNIT_EXPECT_EQ(test, place_of(w, i), (unsigned int)TIMER_QUEUED);
	}

	/* A turn that cannot keep one mark sets all in its place. */
	arm_and_mark(w, 2, START + 1);
	marks_turn(w, START, UNLIMITED);
	marks_turn(w, now, UNLIMITED);
	arm_and_mark(w, 2, START + 9 * TICK);
	contended_turn(test, w, words[1], 1, now);
	KUNIT_EXPECT_EQ(test, *words[1], U64_MAX);
	KUNIT_EXPECT_EQ(test, w->timers.stats.unread, 1ULL);
	marks_kick(w, now);
	KUNIT_EXPECT_EQ(test, w->timers.stats.withdrawn, 1ULL);
	KUNIT_EXPECT_EQ(test, place_of(w, 2), (unsigned int)TIMER_QUEUED);
	KUNIT_EXPECT_EQ(test, *words[1], 0ULL);
	check_sums(test, w);
	wheel_end();
}

static struct kunit_case word_cases[] = {
	KUNIT_CASE_PARAM(look_every_interleaving, look_gen_params),
	KUNIT_CASE(event_is_final),
	KUNIT_CASE_PARAM(read_every_interleaving, read_gen_params),
	KUNIT_CASE(read_counts_anew),
	KUNIT_CASE_PARAM(mark_every_interleaving, mark_gen_params),
	KUNIT_CASE(mark_reads_again),
	KUNIT_CASE(next_is_published),
	KUNIT_CASE(mark_withdraws),
	KUNIT_CASE(kick_goes_on),
	KUNIT_CASE(kick_after_set_back),
	KUNIT_CASE(past_is_not_late),
	KUNIT_CASE(mark_budget),
	KUNIT_CASE(mark_behind_busy_ones),
	KUNIT_CASE(mark_leaves_room),
	KUNIT_CASE(mark_of_nobody),
	KUNIT_CASE(mark_without_page),
	KUNIT_CASE(mark_again),
	KUNIT_CASE(mark_contended),
	{}
};

static struct kunit_suite word_suite = {
	.name = "twheel_word",
	.test_cases = word_cases,
};

kunit_test_suite(word_suite);
