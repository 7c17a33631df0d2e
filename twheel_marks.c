// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The marks, by which user space asks for looks at its words.
 *
 * A turn first processes the marks, and then the timers that are due. When user space has marked a
 * slot, it reads when the next turn is:
 *
 *   user                                  kernel, at the end of a turn
 *   set the mark, then the summary        next_ns = when it will turn next
 *   full barrier                (C)       full barrier              (D)
 *   read next_ns; KICK if t <= next_ns    read the summary again
 *
 * C pairs with D: if the user has read the old next_ns, then the kernel sees the
 * mark, and turns once more at the next tick.
 */
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/math64.h>

#include "twheel_timers.h"

/*
 * Clears bits of a word of marks, or of the summary, and sets others. This is a full barrier.
 *
 * It uses cmpxchg64(), which is a single instruction wherever the table can be mapped.
 * xchg() is a loop on s390, as atomic64_fetch_and() is on x86, and user space could keep
 * such a loop running.
 *
 * Return: false if user space has changed the word at each try.
 */
static bool marks_change(u64 *word, u64 clear, u64 set)
{
	u64 seen = READ_ONCE(*word);
	unsigned int tries;

	for (tries = 0; tries < EXCHANGES; tries++) {
		u64 old = cmpxchg64(word, seen, (seen & ~clear) | set);

		if (old == seen)
			return true;
		seen = old;
	}
	return false;
}

/* Sets bits, or all of the word if user space keeps changing it, because more looks do no harm. */
static void marks_set(u64 *word, u64 bits)
{
	if (!marks_change(word, 0, bits))
		WRITE_ONCE(*word, ~0ULL);
}

/* Returns the first @nr of the bits that are set in @bits. */
static u64 first_bits(u64 bits, unsigned int nr)
{
	u64 rest = bits;

	for (; rest && nr; nr--)
		rest &= rest - 1;
	return bits & ~rest;
}

/*
 * Looks at a timer that was marked. Return: true if the mark is not needed any more. If the timer
 * was armed again while its event is unread, the mark is kept until a KICK withdraws the event.
 */
static bool settle(struct timers *t, struct timer *e, u64 now)
	__must_hold(t->store->lock)
{
	struct twheel_slot *slot = timer_word(t, e);
	u64 word;

	reconcile(t, e, slot, now);
	if (t->kicks || e->place != TIMER_READY)
		return true;
	word = word_deadline(READ_ONCE(slot->deadline_ns));
	return word == timer_successor(e, e->deadline, e->expired_ns);
}

/*
 * Clears the marks of @line that the sweep has not passed yet, and looks at their slots. If marks
 * are left, the summary bit of the line is set again. Return: how much of the budget is left.
 */
static unsigned int take_line(struct timers *t, u32 line, u64 now, unsigned int budget)
	__must_hold(t->store->lock)
{
	u32 first = line << STORE_LINE_SHIFT;
	u64 *marks = store_marks(t->store, first);
	bool left = false;
	unsigned int i;

	for (i = 0; marks && !t->marked && i < STORE_LINE / 64; i++, first += 64) {
		u32 passed = t->slot > first ? t->slot - first : 0;
		u64 bits = READ_ONCE(marks[i]);
		u64 ahead = passed < 64 ? bits & ~0ULL << passed : 0;
		u64 taken = first_bits(ahead, budget);

		/* Clear the marks before the looks, so that a mark that is set later stays. */
		if (taken && !marks_change(&marks[i], taken, 0))
			taken = 0;
		left |= taken != bits;
		if (taken != ahead) {
			t->slot = first + __ffs64(ahead & ~taken);
			t->marked = true;
		}
		for (; taken; taken &= taken - 1, budget--) {
			u32 bit = __ffs64(taken);
			struct timer *e = store_at(t->store, first + bit);

			if (e && !settle(t, e, now)) {
				marks_set(&marks[i], 1ULL << bit);
				t->kept = true;
			}
		}
	}
	if (left)
		marks_set(&store_summary(t->store)[line / 64], 1ULL << line % 64);
	return t->marked ? 0 : budget;
}

/**
 * timers_begin_kick() - begin a sweep that finds all marks, also those that turns have kept
 * @t: the timers. The caller decrements @t->kicks when the KICK is over, complete or not
 *
 * A KICK may take the lock several times. Until it is over, other turns withdraw events as well, so
 * that they keep no mark for which the KICK would have to begin again.
 */
void timers_begin_kick(struct timers *t)
{
	u32 lines = DIV_ROUND_UP(t->store->fresh, STORE_LINE), i;

	timers_assert_held(t);
	t->kicks++;
	t->slot = 0;
	/* Kept marks have no summary bit, so set all bits. */
	for (i = 0; t->kept && i < DIV_ROUND_UP(lines, 64); i++)
		WRITE_ONCE(store_summary(t->store)[i], ~0ULL);
	t->kept = false;
}

/**
 * timers_take_marks() - look at the timers that were marked
 * @t: the timers
 * @now: the time
 * @budget: how many marks may be processed, where each line counts as one more
 *
 * This makes one sweep over all lines. Marks that are set behind it wait for the next sweep.
 *
 * Return: what is left of the budget.
 */
unsigned int timers_take_marks(struct timers *t, u64 now, unsigned int budget)
{
	u32 lines = DIV_ROUND_UP(t->store->fresh, STORE_LINE), line;

	timers_assert_held(t);
	t->marked = false;
	if (!t->store->table)
		return budget;
	while ((line = t->slot >> STORE_LINE_SHIFT) < lines) {
		u64 *summary = &store_summary(t->store)[line / 64];
		u64 bits = READ_ONCE(*summary) >> line % 64;

		if (!(bits & 1)) {
			line = bits ? line + __ffs64(bits) : (line / 64 + 1) * 64;
			t->slot = line << STORE_LINE_SHIFT;
			continue;
		}
		/* A full barrier: the marks of the line are read after it. */
		if (!budget || !marks_change(summary, 1ULL << line % 64, 0)) {
			t->marked = true;
			return 0;
		}
		budget = take_line(t, line, now, budget - 1);
		if (t->marked)
			return 0;
		t->slot = (line + 1) << STORE_LINE_SHIFT;
	}
	t->slot = 0;
	return budget;
}

static bool has_marks(const struct timers *t)
	__must_hold(t->store->lock)
{
	u32 lines = DIV_ROUND_UP(t->store->fresh, STORE_LINE);
	u64 *summary = store_summary(t->store);
	u32 i;

	for (i = 0; i < lines / 64; i++)
		if (READ_ONCE(summary[i]))
			return true;
	/* Ignore bits beyond the last slot, which no turn clears. */
	return lines % 64 && READ_ONCE(summary[i]) << (64 - lines % 64);
}

/**
 * timers_publish_next() - tell user space when the wheel will be turned next
 * @t: the timers
 * @next: when; 0 if a turn is under way or comes at once
 * @now: the time
 *
 * Return: what was published: @next, or earlier if there are marks.
 */
u64 timers_publish_next(struct timers *t, u64 next, u64 now)
{
	struct twheel_table *table = t->store->table;
	u64 tick = (now | (timers_tick_ns(t) - 1)) + 1;

	timers_assert_held(t);
	if (!table)
		return next;
	WRITE_ONCE(table->next_ns, next);
	/* D, pairs with C in user space. */
	smp_mb();
	if (next > tick && has_marks(t)) {
		next = tick;
		WRITE_ONCE(table->next_ns, next);
	}
	return next;
}
