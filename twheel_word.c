// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * One timer and its word.
 *
 * The word, which user space exchanges as it likes, says when a timer is due. The wheel
 * holds the tick at which the kernel has planned to look at the word. reconcile() brings
 * the two together; every arming, look and expiry goes through it.
 *
 *   user                                  kernel, in reconcile()
 *   old = xchg(deadline_ns, t)    (A)     queue at the word just read
 *   look at wake_ns                       wake_ns = start of its tick
 *   t <= wake_ns: mark the slot           full barrier              (B)
 *                                         read deadline_ns again
 *
 * A pairs with B: if the user has read the old wake_ns, then the second read sees t.
 *
 * The kernel claims an expiry by cmpxchg, so if both sides change the word, only one of them gets
 * the old value. If the kernel gets it, there is an event. The kernel does not read the word again
 * then, because it looks at the word when the timer leaves the ready list.
 *
 * tests/model/table.pml is the model of this and of the marks.
 */
#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/overflow.h>

#include "twheel_timers.h"
#include "twheel_trace.h"

#ifndef CONFIG_64BIT
#error "The words of the table are exchanged as 64 bits, by cmpxchg64()"
#endif
#ifdef CONFIG_PARISC
#error "On parisc cmpxchg64() takes a kernel lock, which user space does not take"
#endif
#if defined(CONFIG_MIPS) || defined(CONFIG_SPARC)
#error "On mips and sparc user space may write to a cache that the kernel does not look into"
#endif

/* How often reconcile() looks at a changing word before it leaves it to the next tick. */
#define WORD_LOOKS	4

/* Here the KUnit suites act as user space, between the steps of a look. The module does nothing. */
#ifndef word_step
static void word_step(struct twheel_slot *slot)
{
}
#endif

/* Takes @e off the wheel if it is there. Return: true if it counts as armed. */
static bool take(struct timers *t, struct timer *e)
	__must_hold(t->store->lock)
{
	if (e->place == TIMER_QUEUED)
		wheel_del(&t->wheel, &e->node);
	return e->place == TIMER_QUEUED || e->place == TIMER_TAKEN;
}

/* Takes the event of @e off the ready list. */
static void withdraw(struct timers *t, struct timer *e)
	__must_hold(t->store->lock)
{
	if (!e->ready.next)
		t->ready_end = e->ready.pprev;
	__hlist_del(&e->ready);
	t->stats.unread--;
	t->stats.withdrawn++;
	e->place = TIMER_IDLE;
}

/**
 * timer_to_idle() - end an arming before it expires, or withdraw its event
 * @t: the timers
 * @e: the timer
 */
void timer_to_idle(struct timers *t, struct timer *e)
{
	timers_assert_held(t);
	if (e->place == TIMER_READY)
		withdraw(t, e);
	if (take(t, e)) {
		t->stats.armed--;
		t->stats.displaced++;
	}
	e->place = TIMER_IDLE;
}

/**
 * timer_count_unseen() - count an arming that ends and that no look has seen
 * @t: the timers
 * @e: the timer
 * @word: its word until now
 * @now: the time
 */
void timer_count_unseen(struct timers *t, const struct timer *e, u64 word, u64 now)
{
	timers_assert_held(t);
	if (!word_deadline(word) || e->place == TIMER_QUEUED)
		return;
	/* After an expiry the word holds the next period; that is not a new arming. */
	if (e->place == TIMER_READY && word == timer_successor(e, e->deadline, e->expired_ns))
		return;
	t->stats.armings++;
	t->stats.displaced++;
	trace_twheel_arm(t, e, word, now);
}

/**
 * timer_end() - end a timer
 * @t: the timers
 * @e: the timer, idle
 * @slot: its word
 */
void timer_end(struct timers *t, struct timer *e, struct twheel_slot *slot)
{
	timers_assert_held(t);
	WRITE_ONCE(slot->deadline_ns, 0);
	WRITE_ONCE(slot->wake_ns, WHEEL_NEVER);
	store_put(t->store, e);
}

/*
 * Publishes wake_ns, the start of the tick of @deadline. A later deadline needs no mark.
 */
static void publish(const struct timers *t, struct twheel_slot *slot, u64 deadline)
{
	u64 start = (deadline - 1) & ~(timers_tick_ns(t) - 1);

	WRITE_ONCE(slot->wake_ns, deadline == WHEEL_NEVER ? WHEEL_NEVER : start);
}

/* Turns @e into its event, after @deadline was exchanged out of its word. */
static void to_ready(struct timers *t, struct timer *e, struct twheel_slot *slot,
		     u64 deadline, u64 now)
	__must_hold(t->store->lock)
{
	if (take(t, e)) {
		t->stats.armed--;
	} else {
		t->stats.armings++;
		trace_twheel_arm(t, e, deadline, now);
	}
	trace_twheel_expire(t, e, deadline, now);
	e->place = TIMER_READY;
	e->deadline = deadline;
	e->expired_ns = now;
	e->ready.next = NULL;
	e->ready.pprev = t->ready_end;
	WRITE_ONCE(*t->ready_end, &e->ready);
	t->ready_end = &e->ready.next;
	t->stats.expired++;
	t->stats.unread++;
	t->news = true;
	publish(t, slot, WHEEL_NEVER);
}

/* Queues @e at @at, a tick that the wheel has not reached, and publishes wake_ns. */
static void to_wheel(struct timers *t, struct timer *e, struct twheel_slot *slot,
		     u64 at, u64 slack, u64 now)
	__must_hold(t->store->lock)
{
	if (e->deadline > now)
		e->past = false;
	else if (e->place != TIMER_TAKEN)
		e->past = true;
	if (take(t, e)) {
		t->stats.moved++;
		trace_twheel_move(t, e, e->deadline, now);
	} else {
		t->stats.armings++;
		t->stats.armed++;
		trace_twheel_arm(t, e, e->deadline, now);
	}
	e->place = TIMER_QUEUED;
	wheel_set_time(&t->wheel, now);
	WARN_ON_ONCE(!wheel_add(&t->wheel, &e->node, e->slot, at, slack));
	publish(t, slot, at);
}

/**
 * timer_periods() - count the expirations until @now: one, and one more for each period since
 * @e: the timer
 * @deadline: the deadline that was reached
 * @now: the time
 */
u64 timer_periods(const struct timer *e, u64 deadline, u64 now)
{
	return e->period && now > deadline ? 1 + div64_u64(now - deadline, e->period) : 1;
}

/**
 * timer_successor() - return the word after an expiry: the first period after @now, or 0
 * @e: the timer
 * @deadline: the deadline that was reached
 * @now: the time
 */
u64 timer_successor(const struct timer *e, u64 deadline, u64 now)
{
	u64 sum;

	if (!e->period)
		return 0;
	/* The product is at most one period after now, so only the sum can overflow. */
	return check_add_overflow(deadline, timer_periods(e, deadline, now) * e->period, &sum) ?
	       WHEEL_NEVER : deadline_word(sum);
}

/* The start of the present tick. */
static u64 tick_start(const struct timers *t, u64 now)
{
	return now & ~(timers_tick_ns(t) - 1);
}

/**
 * timer_comes_at_once() - find out if an arming would expire now
 * @t: the timers
 * @deadline: the deadline of the arming
 * @now: the time
 */
bool timer_comes_at_once(const struct timers *t, u64 deadline, u64 now)
{
	timers_assert_held(t);
	return deadline <= now && wheel_next(&t->wheel) >= tick_start(t, now);
}

/*
 * Expires @e, which is due at @word. Events come in the order of their ticks, so if the wheel
 * has something before it, @e is queued behind that. Return: false if user space has changed
 * the word meanwhile.
 */
static bool expire(struct timers *t, struct timer *e, struct twheel_slot *slot, u64 word,
		   u64 now)
	__must_hold(t->store->lock)
{
	bool taken = e->place == TIMER_TAKEN;

	/* If the wheel has just taken the timer off for this deadline, expire it now. */
	if (!taken || word != e->deadline) {
		u64 next = wheel_next(&t->wheel);
		u64 at = word;

		/* A new arming goes to its own tick, or the first that the wheel has not begun. */
		if (!taken)
			at = max(at, next + timers_tick_ns(t));
		at = min(at, tick_start(t, now));
		if (next < at) {
			e->deadline = word;
			to_wheel(t, e, slot, at, 0, now);
			return true;
		}
	}
	if (cmpxchg64(&slot->deadline_ns, word, timer_successor(e, word, now)) != word)
		return false;
	to_ready(t, e, slot, word, now);
	return true;
}

/*
 * True if @e is where @word wants it. @placed says that this call of reconcile() has put @e there,
 * and has published when the kernel will look again.
 */
static bool is_settled(const struct timers *t, const struct timer *e, u64 word, bool placed)
	__must_hold(t->store->lock)
{
	switch (e->place) {
	case TIMER_QUEUED:
		/* A timer queued behind others may wait too long if the clock was set back. */
		if (e->past)
			return false;
		/* If the timer was moved later or disarmed, the queued look is in time. */
		return word == e->deadline || (placed && (!word || word > e->deadline));
	case TIMER_READY:
		return !t->kicks || word == timer_successor(e, e->deadline, e->expired_ns);
	case TIMER_IDLE:
		return placed && !word;
	default:
		return false;
	}
}

/**
 * reconcile() - put a timer where its word wants it
 * @t: the timers
 * @e: the timer: idle, queued, taken or ready
 * @slot: its word
 * @now: the time
 *
 * An event is only withdrawn while a KICK is under way, and if user space has changed the word.
 *
 * User space may change the word at any time, so each value that is read is used only once, and
 * only for this timer. A word that changes all the time is left alone until the next tick.
 */
void reconcile(struct timers *t, struct timer *e, struct twheel_slot *slot, u64 now)
{
	bool placed = false;
	unsigned int looks;

	timers_assert_held(t);
	for (looks = 0; ; looks++) {
		u64 word = word_deadline(READ_ONCE(slot->deadline_ns));

		if (is_settled(t, e, word, placed))
			return;
		word_step(slot);
		if (e->place == TIMER_READY)
			withdraw(t, e);
		if (looks == WORD_LOOKS) {
			e->deadline = (now | (timers_tick_ns(t) - 1)) + 1;
			to_wheel(t, e, slot, e->deadline, 0, now);
			return;
		}
		if (word && word <= now) {
			if (expire(t, e, slot, word, now))
				return;
			/* User space has just moved the timer, so look again. */
			continue;
		}
		if (word) {
			e->deadline = word;
			to_wheel(t, e, slot, word, e->slack, now);
		} else {
			timer_to_idle(t, e);
			publish(t, slot, WHEEL_NEVER);
		}
		placed = true;
		/* B, pairs with A in user space. */
		smp_mb();
		word_step(slot);
	}
}
