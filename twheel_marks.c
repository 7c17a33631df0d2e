// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The marks, by which user space asks for looks at its words.
 *
 * A turn takes the marks, and then what is due. When user space has marked a slot, it reads
 * when the next turn is:
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

/* The bits of u64 are those of unsigned long, for atomic operations on one. */
static_assert(sizeof(unsigned long) == sizeof(u64) ||
	      __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

static unsigned long *summary_bits(const struct timers *t)
{
	return (unsigned long *)store_summary(t->store);
}

/*
 * Looks at a timer that was marked. Return: whether that has settled it; the mark of an event
 * that was armed over is kept until a KICK withdraws the event.
 */
static bool settle(struct timers *t, struct timer *e, u64 now, enum look look)
	__must_hold(t->store->lock)
{
	struct twheel_slot *slot = timer_word(t, e);
	u64 word;

	reconcile(t, e, slot, now, look);
	if (look == LOOK_AND_WITHDRAW || e->place != TIMER_READY)
		return true;
	word = word_deadline(READ_ONCE(slot->deadline_ns));
	return word == timer_successor(e, e->deadline, e->expired_ns);
}

/*
 * Begins a sweep that finds all marks that turns have kept, in lines whose bit is clear. A turn may
 * have kept some since the KICK began its sweep, ahead of which they were then.
 */
static void sweep_all_lines(struct timers *t, u32 lines)
	__must_hold(t->store->lock)
{
	u32 i;

	for (i = 0; i < DIV_ROUND_UP(lines, 64); i++)
		WRITE_ONCE(store_summary(t->store)[i], ~0ULL);
	t->kept = false;
	t->slot = 0;
}

/*
 * Takes the marks of @line that are ahead of the sweep, and looks at their slots.
 * Return: how much is left; a line that has marks still has its bit again.
 */
static unsigned int take_line(struct timers *t, u32 line, u64 now, unsigned int budget,
			      enum look look)
	__must_hold(t->store->lock)
{
	u64 *marks = store_marks(t->store, line << STORE_LINE_SHIFT);
	u32 first = line << STORE_LINE_SHIFT;
	bool again = false;
	unsigned int i;

	for (i = 0; marks && i < STORE_LINE / 64; i++, first += 64) {
		u32 passed = t->slot > first ? t->slot - first : 0;
		u64 ahead = passed < 64 ? ~0ULL << passed : 0;
		u64 bits = READ_ONCE(marks[i]), left;

		if (!(bits & ahead)) {
			again |= bits;
			continue;
		}
		if (!budget) {
			t->slot = first + passed;
			t->marked = true;
			break;
		}
		/* The mark goes before the look: one that comes later stays. */
		bits = xchg(&marks[i], 0);
		left = bits & ~ahead;
		for (bits &= ahead; bits && budget; bits &= bits - 1, budget--) {
			u32 bit = __ffs64(bits);
			struct timer *e = store_at(t->store, first + bit);

			if (e && !settle(t, e, now, look)) {
				set_bit(bit, (unsigned long *)&marks[i]);
				t->kept = true;
			}
		}
		if (bits) {
			t->slot = first + __ffs64(bits);
			t->marked = true;
		}
		/* The slots that are left are marked again, and then their line. */
		for (left |= bits; left; left &= left - 1) {
			set_bit(__ffs64(left), (unsigned long *)&marks[i]);
			again = true;
		}
		if (t->marked)
			break;
	}
	if (again || t->marked)
		set_bit(line, summary_bits(t));
	return t->marked ? 0 : budget;
}

/**
 * timers_take_marks() - look at what was marked
 * @t: the timers
 * @now: the time
 * @budget: how many marks may be taken; a line takes one as well
 * @look: as for reconcile()
 *
 * One sweep over all lines. Marks that are set behind it wait for the next sweep.
 *
 * Return: what is left of the budget.
 */
unsigned int timers_take_marks(struct timers *t, u64 now, unsigned int budget, enum look look)
{
	u32 lines = DIV_ROUND_UP(t->store->fresh, STORE_LINE), line;

	timers_assert_held(t);
	t->marked = false;
	if (!t->store->table)
		return budget;
	if (t->kept && look == LOOK_AND_WITHDRAW)
		sweep_all_lines(t, lines);
	while ((line = t->slot >> STORE_LINE_SHIFT) < lines) {
		u64 bits = READ_ONCE(store_summary(t->store)[line / 64]) >> (line % 64);
		bool set;

		if (!(bits & 1)) {
			line = bits ? line + __ffs64(bits) : (line / 64 + 1) * 64;
			t->slot = line << STORE_LINE_SHIFT;
			continue;
		}
		if (!budget) {
			t->marked = true;
			return 0;
		}
		/* A full barrier: the marks of the line are read after it. */
		set = test_and_clear_bit(line, summary_bits(t));
		if (set)
			budget = take_line(t, line, now, budget - 1, look);
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
	/* Bits beyond the timers are nobody's, and stay. */
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
