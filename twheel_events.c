// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The events of a wheel: what a read takes off the ready list.
 *
 * A reader peeks at the first events, copies them, and consumes those that arrived, all
 * under one hold of the lock. The rest are left as they were, so a read that fails leaves no
 * trace.
 */
#include <linux/atomic.h>
#include <linux/list.h>

#include "twheel_timers.h"
#include "twheel_trace.h"

/*
 * How often @e has expired until @until. If user space has changed the word since the expiry,
 * only the periods until the expiry count.
 */
static u64 count_periods(const struct timers *t, const struct timer *e, u64 until)
	__must_hold(t->store->lock)
{
	u64 left = timer_successor(e, e->deadline, e->expired_ns);

	if (until < e->expired_ns || READ_ONCE(timer_word(t, e)->deadline_ns) != left)
		until = e->expired_ns;
	return timer_periods(e, e->deadline, until);
}

/*
 * Leaves in the word of @e the first period that its event does not count. Return: false if
 * user space has changed the word since the periods were counted. Those until the expiry need
 * no claim, as the expiry has claimed them.
 */
static bool claim_periods(const struct timers *t, const struct timer *e, u64 expirations)
	__must_hold(t->store->lock)
{
	u64 left = timer_successor(e, e->deadline, e->expired_ns);
	u64 next = timer_successor(e, e->deadline, e->deadline + (expirations - 1) * e->period);

	return next == left || cmpxchg64(&timer_word(t, e)->deadline_ns, left, next) == left;
}

/**
 * timers_peek() - the first events that are ready
 * @t: the timers
 * @events: out: the events
 * @nr: how many at most
 * @until: the time up to which periods count; 0: up to the expiry, as cannot be refused
 *
 * Return: how many. They stay until timers_consume() takes those that were delivered.
 */
unsigned int timers_peek(const struct timers *t, struct twheel_event *events, unsigned int nr,
			 u64 until)
{
	const struct hlist_node *at = t->ready.first;
	unsigned int i;

	timers_assert_held(t);
	for (i = 0; i < nr && at; i++, at = at->next) {
		const struct timer *e = hlist_entry(at, struct timer, ready);

		events[i] = (struct twheel_event) {
			.id = timer_id(e),
			.user_data = READ_ONCE(*store_user_data(t->store, e->slot)),
			.deadline_ns = e->deadline,
			.expired_ns = e->expired_ns,
			.expirations = e->period ? count_periods(t, e, until) : 1,
		};
	}
	return i;
}

/**
 * timers_consume() - take the first events
 * @t: the timers
 * @events: what timers_peek() has given under this hold of the lock
 * @nr: how many of them
 * @now: the time
 *
 * A timer whose word is armed goes back to the wheel. The others end, unless kept.
 *
 * Return: how many were taken. It is fewer if user space has changed the word of the next one
 * meanwhile, so that its count of periods is not true any more.
 */
unsigned int timers_consume(struct timers *t, const struct twheel_event *events,
			    unsigned int nr, u64 now)
{
	unsigned int i;

	timers_assert_held(t);
	for (i = 0; i < nr; i++) {
		struct timer *e = hlist_entry(t->ready.first, struct timer, ready);
		struct twheel_slot *slot = timer_word(t, e);

		if (e->period && !claim_periods(t, e, events[i].expirations))
			break;
		t->stats.unread--;
		t->stats.delivered++;
		WRITE_ONCE(t->ready.first, e->ready.next);
		if (e->ready.next)
			e->ready.next->pprev = &t->ready.first;
		else
			t->ready_end = &t->ready.first;
		e->place = TIMER_IDLE;
		trace_twheel_deliver(t, e, e->deadline, now);
		if (word_deadline(READ_ONCE(slot->deadline_ns)))
			reconcile(t, e, slot, now, LOOK);
		else if (!(e->flags & TWHEEL_KEEP) && !e->period)
			timer_end(t, e, slot);
	}
	return i;
}
