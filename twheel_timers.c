// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The timers of a wheel: the turn, the operations, and the events on the ready list.
 *
 * A timer is in one place: idle, queued in the wheel, or on the ready list. It is its own
 * event, so nothing is allocated when it expires and no queue can overflow. A periodic
 * timer goes back to the wheel when its event is read; the event counts its periods.
 */
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/overflow.h>
#include <linux/prefetch.h>
#include <linux/time.h>

#include "twheel_timers.h"
#include "twheel_trace.h"

/*
 * Maximum number of earlier timers that one arming expires. A group of 24 armings thus
 * touches at most 24 * 5 = 120 timers under one hold of the lock.
 */
#define ARM_BUDGET	4U
/* All levels together have at most 2^12 buckets, so that a wheel stays small. */
#define BUCKETS_SHIFT	12
#define TIMERS_FEATURES	(TWHEEL_FEATURE_TABLE | TWHEEL_FEATURE_MARKS | TWHEEL_FEATURE_PARKED)

/**
 * timers_begin() - make a wheel's timers usable
 * @t: the timers, zeroed. The caller makes @t->wheel
 * @store: the store in which they will be
 */
void timers_begin(struct timers *t, struct store *store)
{
	t->store = store;
	t->ready_end = &t->ready.first;
}

/**
 * timers_check_setup() - check the shape that a wheel should get, and return 0 or -EINVAL
 * @setup: in: the shape, with zeroes for the defaults; out: the shape that the wheel gets
 * @max_timers: default for the maximum number of timers
 * @most: highest value of the maximum number of timers
 * @tick_ns: default tick
 * @shape: out: for wheel_init()
 */
int timers_check_setup(struct twheel_setup *setup, u32 max_timers, u32 most, u64 tick_ns,
		       struct wheel_shape *shape)
{
	bool realtime = setup->flags & TWHEEL_SETUP_REALTIME;
	u32 levels;

	if ((setup->flags & ~TWHEEL_SETUP_REALTIME) || setup->reserved[0] ||
	    setup->reserved[1] || setup->reserved[2])
		return -EINVAL;
	if (!setup->clock_id && !realtime)
		setup->clock_id = CLOCK_MONOTONIC;
	if (realtime ? setup->clock_id != CLOCK_REALTIME :
	    setup->clock_id != CLOCK_MONOTONIC && setup->clock_id != CLOCK_BOOTTIME &&
	    setup->clock_id != CLOCK_TAI)
		return -EINVAL;
	setup->max_timers = setup->max_timers ?: max_timers;
	setup->slot_bits = setup->slot_bits ?: 6;
	if (setup->max_timers > most || setup->slot_bits < WHEEL_MIN_SLOT_BITS ||
	    setup->slot_bits > BUCKETS_SHIFT)
		return -EINVAL;
	levels = 1U << (BUCKETS_SHIFT - setup->slot_bits);
	if (setup->levels > min(levels, WHEEL_MAX_LEVELS))
		return -EINVAL;

	shape->shift = fls64(setup->tick_ns ?: tick_ns) - 1;
	shape->slot_bits = setup->slot_bits;
	shape->levels = min(setup->levels ?: levels,
			    wheel_max_levels(shape->shift, shape->slot_bits));
	setup->tick_ns = 1ULL << shape->shift;
	setup->levels = shape->levels;
	return 0;
}

/**
 * timers_info() - describe the wheel
 * @t: the timers
 * @info: out: the description, except for clock_id, min_tick_ns and table_bytes, which the caller
 *	has to set
 */
void timers_info(const struct timers *t, struct twheel_info *info)
{
	timers_assert_held(t);
	*info = (struct twheel_info) {
		.features = TIMERS_FEATURES,
		.tick_ns = timers_tick_ns(t),
		.horizon_ns = wheel_horizon(&t->wheel.shape),
		.max_timers = t->store->max,
		.levels = t->wheel.shape.levels,
		.slot_bits = t->wheel.shape.slot_bits,
	};
}

/**
 * timers_map() - describe the table, and look for marks from now on
 * @t: the timers, whose shape is fixed by this
 * @table: the header page. User space may have written there
 * @page: the size of a page
 * @clock_id: the clock of the wheel
 * @next: when the wheel will be turned next
 */
void timers_map(struct timers *t, struct twheel_table *table, u32 page, u32 clock_id, u64 next)
{
	timers_assert_held(t);
	t->store->table = table;
	WRITE_ONCE(table->magic, TWHEEL_TABLE_MAGIC);
	WRITE_ONCE(table->slots_offset, page);
	WRITE_ONCE(table->slot_size, sizeof(struct twheel_slot));
	WRITE_ONCE(table->slots, t->store->max);
	WRITE_ONCE(table->tick_ns, timers_tick_ns(t));
	WRITE_ONCE(table->clock_id, clock_id);
	WRITE_ONCE(table->features, TIMERS_FEATURES);
	WRITE_ONCE(table->next_ns, next);
	WRITE_ONCE(table->marks_offset, store_marks_offset(t->store->max, page));
	WRITE_ONCE(table->summary_offset, STORE_SUMMARY_OFFSET);
	WRITE_ONCE(table->summary_shift, STORE_LINE_SHIFT);
}

/* The turn */

/* Takes the timers that are due off the wheel. Return: how much of the budget is left. */
static unsigned int take_due(struct timers *t, u64 now, unsigned int budget)
	__must_hold(t->store->lock)
{
	struct wheel_node *node;

	while ((node = wheel_expire(&t->wheel, now, &budget))) {
		struct timer *e = container_of(node, struct timer, node);
		u64 due = e->deadline;
		u64 late;

		e->place = TIMER_TAKEN;
		reconcile(t, e, timer_word(t, e), now);
		if (e->place != TIMER_READY || e->past)
			continue;
		late = now - min(now, max(due, e->deadline));
		t->stats.lateness[fls64(late | 1) - 1]++;
		t->stats.lateness_sum_ns += late;
		t->stats.worst_lateness_ns = max(t->stats.worst_lateness_ns, late);
	}
	return budget;
}

/**
 * timers_turn() - look at the marked timers, then take those that are due off the wheel
 * @t: the timers
 * @now: the time
 * @budget: approximately how many timers may be touched, half of them because of marks
 *
 * Return: how much of the budget is left. If the turn could not process everything, timers_next()
 * says that the next turn is due.
 */
unsigned int timers_turn(struct timers *t, u64 now, unsigned int budget)
{
	unsigned int half = budget - budget / 2;

	timers_assert_held(t);
	budget = budget / 2 + timers_take_marks(t, now, half);
	return take_due(t, now, budget);
}

/**
 * timers_next() - return when the wheel must be turned, which is now if that time has passed
 * @t: the timers
 */
u64 timers_next(const struct timers *t)
{
	timers_assert_held(t);
	return t->marked ? 0 : wheel_next(&t->wheel);
}

/* The operations */

/* The deadline that @arg asks for, 0 for none. */
static u64 wanted_deadline(const struct twheel_timer *arg, u64 now)
{
	u64 sum;

	if (arg->flags & TWHEEL_DISARMED)
		return 0;
	if (arg->flags & TWHEEL_ABSTIME)
		return deadline_word(arg->deadline_ns ?: 1);
	return check_add_overflow(now, arg->deadline_ns, &sum) ? WHEEL_NEVER : deadline_word(sum);
}

static u32 state_of(const struct timer *e, u64 word)
{
	if (e->place == TIMER_READY)
		return TWHEEL_EXPIRED;
	return word_deadline(word) ? TWHEEL_ARMED : TWHEEL_IDLE;
}

/* Describes @e in @out. Return: the word that this was read from. */
static u64 report(const struct timers *t, const struct timer *e,
		  const struct twheel_slot *slot, struct twheel_timer *out)
{
	u64 word = READ_ONCE(slot->deadline_ns);

	*out = (struct twheel_timer) {
		.id = timer_id(e),
		.user_data = READ_ONCE(*store_user_data(t->store, e->slot)),
		.deadline_ns = e->place == TIMER_READY ? e->deadline : word_deadline(word),
		.period_ns = e->period,
		.slack_ns = e->slack,
		.flags = e->flags,
		.state = state_of(e, word),
	};
	return word;
}

/* Checks the arguments of @op, without looking at a timer. Return: 0 or -EINVAL. */
static int check_op(const struct timers *t, const struct twheel_op *op)
{
	const struct twheel_timer *arg = &op->timer;

	if (arg->flags & ~(TWHEEL_ABSTIME | TWHEEL_KEEP | TWHEEL_DISARMED))
		return -EINVAL;
	if (op->opcode < TWHEEL_OP_REGISTER || op->opcode > TWHEEL_OP_GET)
		return -EINVAL;
	if (op->opcode <= TWHEEL_OP_REARM && arg->period_ns &&
	    arg->period_ns < timers_tick_ns(t))
		return -EINVAL;
	/* A timer that is neither armed nor kept would be of no use. */
	return op->opcode == TWHEEL_OP_REGISTER && (arg->flags & TWHEEL_DISARMED) &&
	       !(arg->flags & TWHEEL_KEEP) ? -EINVAL : 0;
}

/* Before a timer expires at once, lets those expire that were due earlier, to keep the order. */
static void expire_earlier(struct timers *t, u64 deadline, u64 now)
	__must_hold(t->store->lock)
{
	if (deadline && deadline <= now)
		take_due(t, now, ARM_BUDGET);
}

static int answer_register(struct timers *t, struct twheel_timer *arg, u64 now)
	__must_hold(t->store->lock)
{
	int err = store_peek(t->store, &arg->id);

	if (err)
		return err;
	/* Without buckets, have the caller allocate them. */
	if (!t->wheel.occupied)
		return -EAGAIN;
	arg->deadline_ns = wanted_deadline(arg, now);
	expire_earlier(t, arg->deadline_ns, now);
	arg->state = !arg->deadline_ns ? TWHEEL_IDLE :
		     timer_comes_at_once(t, arg->deadline_ns, now) ? TWHEEL_EXPIRED : TWHEEL_ARMED;
	return 0;
}

static int answer_op(struct timers *t, struct timers_answer *a, u64 now)
	__must_hold(t->store->lock)
{
	struct twheel_op *op = &a->op;
	struct twheel_timer *arg = &op->timer;
	struct twheel_slot *slot;
	int err = check_op(t, op);

	if (err)
		return err;
	if (op->opcode == TWHEEL_OP_REGISTER)
		return answer_register(t, arg, now);
	a->timer = store_find(t->store, arg->id);
	if (!a->timer)
		return -ENOENT;
	slot = timer_word(t, a->timer);
	if (op->opcode == TWHEEL_OP_REARM) {
		a->word = READ_ONCE(slot->deadline_ns);
		arg->user_data = READ_ONCE(*store_user_data(t->store, a->timer->slot));
		arg->deadline_ns = wanted_deadline(arg, now);
		arg->state = state_of(a->timer, a->word);
	} else {
		a->word = report(t, a->timer, slot, arg);
	}
	return 0;
}

/**
 * timers_prefetch() - prefetch what operations will touch
 * @t: the timers
 * @ops: the operations
 * @nr: how many, %TIMERS_AHEAD at most
 *
 * Timers lie far apart in memory, so without this the CPU would wait for one after the other.
 * With this prefetch, a REARM among 1,000,000 timers takes a fourth of the time, and
 * among 10,000 it takes 4 ns more.
 */
void timers_prefetch(const struct timers *t, const struct twheel_op *ops, unsigned int nr)
{
	const struct timer *fetched[TIMERS_AHEAD];
	unsigned int i;

	for (i = 0; i < nr; i++)
		fetched[i] = ops[i].opcode == TWHEEL_OP_REGISTER ? NULL :
			     store_prefetch(t->store, (u32)ops[i].timer.id);
	/* To leave its bucket, a timer touches its neighbors. */
	for (i = 0; i < nr; i++) {
		if (!fetched[i] || fetched[i]->place != TIMER_QUEUED)
			continue;
		prefetchw(fetched[i]->node.link.pprev);
		prefetchw(fetched[i]->node.link.next);
	}
}

/**
 * timers_answer() - find out the answer of an operation, without performing it
 * @t: the timers. If a REGISTER is due at once, timers that are due before it expire here
 * @op: the operation
 * @a: out: for timers_commit() under the same hold of the lock. The result is 0 or an error,
 *	as the header of the ABI describes it
 * @now: the time
 *
 * Return: false if the store needs more room first.
 */
bool timers_answer(struct timers *t, const struct twheel_op *op, struct timers_answer *a,
		   u64 now)
{
	timers_assert_held(t);
	a->op = *op;
	a->op.result = answer_op(t, a, now);
	return a->op.result != -EAGAIN;
}

/*
 * Exchanges the word, as user space does, after which the caller looks at it. The answer only
 * depends on whether the timer is armed. If user space has merely moved the timer in the meantime,
 * this tries again, because otherwise a thread that moves the timer all the time could keep the
 * operation from completing.
 */
static bool exchange(struct timers *t, const struct timers_answer *a, struct twheel_slot *slot,
		     u64 word, u64 now)
	__must_hold(t->store->lock)
{
	u64 seen = a->word;
	unsigned int tries;

	for (tries = 0; tries < EXCHANGES; tries++) {
		u64 old = cmpxchg64(&slot->deadline_ns, seen, word);

		if (old == seen) {
			timer_count_unseen(t, a->timer, old, now);
			return true;
		}
		if (a->timer->place != TIMER_READY &&
		    !word_deadline(old) != !word_deadline(a->word))
			return false;
		seen = old;
	}
	return false;
}

/**
 * timers_commit() - perform an operation whose answer was delivered
 * @t: the timers
 * @a: the answer
 * @now: the time
 *
 * Return: false if user space has exchanged the word in the meantime, so that the answer is not
 * true any more. The caller then has to call timers_answer() again.
 */
bool timers_commit(struct timers *t, const struct timers_answer *a, u64 now)
{
	const struct twheel_timer *arg = &a->op.timer;
	u32 opcode = a->op.opcode;
	struct timer *e = a->timer;
	struct twheel_slot *slot;

	timers_assert_held(t);
	if (a->op.result || opcode == TWHEEL_OP_GET)
		return true;
	if (opcode == TWHEEL_OP_REGISTER) {
		e = store_get(t->store);
		t->stats.registered++;
		WRITE_ONCE(*store_user_data(t->store, e->slot), arg->user_data);
		slot = timer_word(t, e);
		/* The word of a slot without a timer means nothing. */
		WRITE_ONCE(slot->deadline_ns, arg->deadline_ns);
	} else {
		slot = timer_word(t, e);
		if (!exchange(t, a, slot, opcode == TWHEEL_OP_REARM ? arg->deadline_ns : 0, now))
			return false;
		timer_to_idle(t, e);
	}
	if (opcode == TWHEEL_OP_CANCEL) {
		t->stats.cancelled++;
		trace_twheel_cancel(t, e, arg->deadline_ns, now);
		timer_end(t, e, slot);
		return true;
	}
	if (opcode == TWHEEL_OP_REARM) {
		t->stats.rearmed++;
		expire_earlier(t, arg->deadline_ns, now);
	}
	e->period = arg->period_ns;
	e->slack = arg->slack_ns;
	e->flags = arg->flags;
	reconcile(t, e, slot, now);
	return true;
}

/**
 * timers_list() - describe live timers
 * @t: the timers
 * @cursor: in: the slot to start from, which may be any number; out: the slot to continue with
 * @out: out: the timers
 * @nr: maximum number of timers
 * @budget: maximum number of slots to look at
 *
 * Return: the number of timers; -ENOENT if there are no more.
 */
int timers_list(const struct timers *t, u32 *cursor, struct twheel_timer *out,
		unsigned int nr, unsigned int budget)
{
	int got = 0;

	timers_assert_held(t);
	for (; got < nr && budget && *cursor < t->store->fresh; budget--, ++*cursor) {
		struct timer *e = store_at(t->store, *cursor);

		if (e)
			report(t, e, timer_word(t, e), &out[got++]);
	}
	return !got && *cursor >= t->store->fresh ? -ENOENT : got;
}

/* Events */

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
 * Moves the word of @e to the first period that its event does not count. If the event counts only
 * the periods until the expiry, the expiry has already moved the word. Return: false if
 * user space has changed the word since the periods were counted.
 */
static bool claim_periods(const struct timers *t, const struct timer *e, u64 expirations)
	__must_hold(t->store->lock)
{
	u64 left = timer_successor(e, e->deadline, e->expired_ns);
	u64 next = timer_successor(e, e->deadline, e->deadline + (expirations - 1) * e->period);

	return next == left || cmpxchg64(&timer_word(t, e)->deadline_ns, left, next) == left;
}

/**
 * timers_peek() - copy the first events that are ready
 * @t: the timers
 * @events: out: the events
 * @nr: maximum number of events
 * @until: the time until which periods are counted. If it is 0, they are counted until the expiry,
 *	so that timers_consume() refuses none of the events
 *
 * Return: the number of events, which stay until timers_consume() takes them.
 */
unsigned int timers_peek(const struct timers *t, struct twheel_event *events,
			 unsigned int nr, u64 until)
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
			/*
			 * If a member were missing here, the compiler would first clear
			 * the whole struct.
			 */
			.flags = 0,
			.reserved = 0,
		};
	}
	return i;
}

/**
 * timers_consume() - take events that were delivered off the ready list
 * @t: the timers
 * @events: the events that timers_peek() has returned under this hold of the lock
 * @nr: how many of them were delivered
 * @now: the time
 *
 * A timer whose word is armed goes back to the wheel. Of the others, those without %TWHEEL_KEEP and
 * without a period end.
 *
 * Return: how many were taken. It is fewer than @nr if user space has changed the word of the next
 * timer in the meantime, so that the number of periods in its event is not true any more.
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
			reconcile(t, e, slot, now);
		else if (!(e->flags & TWHEEL_KEEP) && !e->period)
			timer_end(t, e, slot);
	}
	return i;
}

/**
 * timers_stats() - report the counters
 * @t: the timers
 * @stats: out
 */
void timers_stats(const struct timers *t, struct twheel_stats *stats)
{
	timers_assert_held(t);
	*stats = t->stats;
	stats->allocated = t->store->used;
	stats->cascaded = t->wheel.cascaded;
}
