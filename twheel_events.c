// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The events of a wheel: what a read takes off the ready list.
 *
 * A reader peeks at the first events, copies them, and consumes those that arrived, all
 * under one hold of the lock. The rest are left as they were.
 */
#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "twheel_timers.h"
#include "twheel_trace.h"

/*
 * Adds the periods of @e until @now to @event, and claims them: the word gets the first
 * period after @now. If user space has changed the word, those of the expiry are all.
 */
static void count_periods(struct timers *t, struct timer *e, struct twheel_event *event,
			  u64 now)
	__must_hold(t->store->lock)
{
	struct twheel_slot *slot = timer_word(t, e);
	u64 left = timer_successor(e, e->deadline, e->expired_ns);
	u64 next;

	now = max(now, e->expired_ns);
	next = timer_successor(e, e->deadline, now);
	if (left && (next == left || cmpxchg64(&slot->deadline_ns, left, next) == left))
		e->expired_ns = now;
	if (e->expired_ns > e->deadline)
		event->expirations += div64_u64(e->expired_ns - e->deadline, e->period);
}

/**
 * timers_peek() - the first events that are ready
 * @t: the timers
 * @events: out: the events
 * @nr: how many at most
 * @now: the time
 *
 * Return: how many. They stay until timers_consume() takes those that were delivered.
 */
unsigned int timers_peek(struct timers *t, struct twheel_event *events, unsigned int nr,
			 u64 now)
{
	struct hlist_node *at = t->ready.first;
	unsigned int i;

	timers_assert_held(t);
	for (i = 0; i < nr && at; i++, at = at->next) {
		struct timer *e = hlist_entry(at, struct timer, ready);

		events[i] = (struct twheel_event) {
			.id = timer_id(e),
			.user_data = READ_ONCE(*store_user_data(t->store, e->slot)),
			.deadline_ns = e->deadline,
			.expired_ns = e->expired_ns,
			.expirations = 1,
		};
		if (e->period)
			count_periods(t, e, &events[i], now);
	}
	return i;
}

/**
 * timers_unpeek() - leave the first events as they were before timers_peek()
 * @t: the timers
 * @events: what timers_peek() has given of them, under this hold of the lock
 * @nr: how many
 *
 * The next reader must not be told that a periodic timer came off the wheel when this one
 * looked. Where user space has changed the word since, the periods stay claimed.
 */
void timers_unpeek(struct timers *t, const struct twheel_event *events, unsigned int nr)
{
	struct hlist_node *at = t->ready.first;
	unsigned int i;

	timers_assert_held(t);
	for (i = 0; i < nr; i++, at = at->next) {
		struct timer *e = hlist_entry(at, struct timer, ready);
		u64 claimed, left;

		if (e->expired_ns == events[i].expired_ns)
			continue;
		claimed = timer_successor(e, e->deadline, e->expired_ns);
		left = timer_successor(e, e->deadline, events[i].expired_ns);
		if (claimed == left ||
		    cmpxchg64(&timer_word(t, e)->deadline_ns, claimed, left) == claimed)
			e->expired_ns = events[i].expired_ns;
	}
}

/**
 * timers_consume() - take the first events
 * @t: the timers
 * @nr: how many of those that timers_peek() has given under this hold of the lock
 * @now: the time
 *
 * A timer whose word is armed goes back to the wheel. The others end, unless kept.
 */
void timers_consume(struct timers *t, unsigned int nr, u64 now)
{
	timers_assert_held(t);
	t->stats.unread -= nr;
	t->stats.delivered += nr;
	while (nr--) {
		struct timer *e = hlist_entry(t->ready.first, struct timer, ready);
		struct twheel_slot *slot = timer_word(t, e);

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
}
