// SPDX-License-Identifier: GPL-2.0
/*
 * The timers of a wheel: the verbs, the look at the deadline table, the events.
 *
 * A timer is in one place: idle, in a bucket of the wheel, or on the ready
 * list. It is its own event, so nothing is allocated when it expires and no
 * queue can overflow. A periodic timer goes back to the wheel when its event
 * is read, and the event counts the periods that passed: a reader who comes
 * late costs nobody anything.
 *
 * When it is due is what its word in the table says, which user space changes
 * as it likes. The verbs change it too, by the same exchange. The wheel is only
 * where the kernel has planned to look at the word; see twheel_look().
 */
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/err.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/overflow.h>

#include "twheel_timers.h"

#ifndef CONFIG_64BIT
#error "The words of the table are exchanged as 64 bits, by xchg()"
#endif
#ifdef CONFIG_PARISC
#error "There xchg() is a lock of the kernel's, which user space does not take"
#endif
#if defined(CONFIG_MIPS) || defined(CONFIG_SPARC)
#error "There what user space writes may lie in a cache that the kernel does not look into"
#endif

/*
 * Timers that an arming takes off the wheel because they are due before it: so
 * many that 24 armings under one hold of the lock touch 240, themselves too.
 */
#define TWHEEL_ARM_BUDGET	9U
/* Looks at one word in one visit; then it waits for the next tick. */
#define TWHEEL_LOOKS		4

/*
 * The suites play user space between the steps of a look. In the module this
 * is nothing.
 */
#ifndef twheel_look_step
static inline void twheel_look_step(struct twheel_slot *slot)
{
}
#endif

/* The time that is @delta after @start; past the end of time, never. */
static u64 twheel_after(u64 start, u64 delta)
{
	u64 sum;

	return check_add_overflow(start, delta, &sum) ? TWHEEL_NEVER : sum;
}

/*
 * Where a timer is
 *
 *   TWHEEL_IDLE     nowhere
 *   TWHEEL_ARMED    in the wheel, planned for twheel_entry.deadline
 *   TWHEEL_TAKEN    just off the wheel, still counted as armed; only while the
 *                   lock is held, until one of the three others is decided on
 *   TWHEEL_EXPIRED  in the ready list
 */
#define TWHEEL_TAKEN		3U

static inline void twheel_unlink(struct twheel_timers *t, struct twheel_entry *e)
	__must_hold(t->slots.lock)
{
	if (e->state == TWHEEL_ARMED) {
		twheel_del(&t->wheel, &e->node);
		e->state = TWHEEL_TAKEN;
	} else if (e->state == TWHEEL_EXPIRED) {
		if (!e->ready.next)
			t->ready_end = e->ready.pprev;
		__hlist_del(&e->ready);
		t->stats.unread--;
		t->stats.withdrawn++;
		e->state = TWHEEL_IDLE;
	}
}

static void twheel_to_idle(struct twheel_timers *t, struct twheel_entry *e)
	__must_hold(t->slots.lock)
{
	twheel_unlink(t, e);
	if (e->state == TWHEEL_TAKEN) {
		t->stats.armed--;
		t->stats.displaced++;
	}
	e->state = TWHEEL_IDLE;
}

/* Makes @e, which is nowhere, the last of the ready list. */
static inline void twheel_link_ready(struct twheel_timers *t, struct twheel_entry *e,
				     u64 now)
	__must_hold(t->slots.lock)
{
	e->state = TWHEEL_EXPIRED;
	e->expired_ns = now;
	e->ready.next = NULL;
	e->ready.pprev = t->ready_end;
	WRITE_ONCE(*t->ready_end, &e->ready);
	t->ready_end = &e->ready.next;
	t->stats.expired++;
	t->stats.unread++;
	t->news = true;
}

static void twheel_to_ready(struct twheel_timers *t, struct twheel_entry *e,
			    u64 deadline, u64 now)
	__must_hold(t->slots.lock)
{
	twheel_unlink(t, e);
	if (e->state == TWHEEL_TAKEN)
		t->stats.armed--;
	else
		t->stats.armings++;
	e->deadline = deadline;
	twheel_link_ready(t, e, now);
}

/*
 * Puts @e, which is in no list, into the wheel. For a @deadline after @now, or in a
 * tick that the wheel has not reached yet.
 */
static __always_inline void twheel_link_wheel(struct twheel_timers *t,
					      struct twheel_entry *e, u64 deadline,
					      u64 slack, u64 now)
	__must_hold(t->slots.lock)
{
	e->deadline = deadline;
	twheel_set_time(&t->wheel, now);
	WARN_ON_ONCE(!twheel_add(&t->wheel, &e->node, deadline, slack));
}

/* The same, wherever it was. */
static void twheel_to_wheel(struct twheel_timers *t, struct twheel_entry *e,
			    u64 deadline, u64 slack, u64 now)
	__must_hold(t->slots.lock)
{
	twheel_unlink(t, e);
	if (e->state == TWHEEL_TAKEN) {
		t->stats.moved++;
	} else {
		t->stats.armings++;
		t->stats.armed++;
	}
	e->state = TWHEEL_ARMED;
	twheel_link_wheel(t, e, deadline, slack, now);
}

/* The look */

/*
 * What an expiry at @now of the deadline @deadline leaves in the word of @e:
 * the first period after @now, or 0.
 */
static u64 twheel_successor(const struct twheel_entry *e, u64 deadline, u64 now)
{
	u64 periods = 1;

	if (!e->period || e->last)
		return 0;
	if (now > deadline)
		periods += div64_u64(now - deadline, e->period);
	/* At most one period after now, so only the sum can overflow. */
	return twheel_after(deadline, periods * e->period);
}

/*
 * Is @e an event, if its word is @deadline? If that is not what the expiry left
 * there, user space has armed or disarmed the timer since, and it is none.
 */
static bool twheel_unread(const struct twheel_entry *e, u64 deadline)
{
	return e->state == TWHEEL_EXPIRED &&
	       deadline == twheel_successor(e, e->deadline, e->expired_ns);
}

/*
 * Nothing to do for @e if its word is @deadline: before anything was decided of it,
 * or after that, and what was decided has been published.
 */
static bool twheel_settled(const struct twheel_entry *e, u64 deadline, bool decided)
{
	switch (e->state) {
	case TWHEEL_ARMED:
		if (!decided)
			return deadline == e->deadline;
		/* Later, or not at all, will be seen in time. */
		return !deadline || deadline >= e->deadline;
	case TWHEEL_EXPIRED:
		return twheel_unread(e, deadline);
	case TWHEEL_IDLE:
		return decided && !deadline;
	default:
		return false;
	}
}

/*
 * Tells user space until when the kernel does not look: up to the start of the
 * tick of @deadline, a move has to be announced by KICK.
 */
static void twheel_publish(const struct twheel_timers *t, struct twheel_slot *slot,
			   u64 deadline)
	__must_hold(t->slots.lock)
{
	u64 start = (deadline - 1) & ~(twheel_tick_ns(t) - 1);

	WRITE_ONCE(slot->wake_ns, deadline == TWHEEL_NEVER ? TWHEEL_NEVER : start);
}

/* Plans the next look at @e for @deadline, which is after @now, and says so. */
static inline void twheel_plan(struct twheel_timers *t, struct twheel_entry *e,
			       struct twheel_slot *slot, u64 deadline, u64 now)
	__must_hold(t->slots.lock)
{
	e->past = false;
	twheel_to_wheel(t, e, deadline, e->slack, now);
	twheel_publish(t, slot, deadline);
}

/*
 * Reads the word of @e and puts the timer where that wants it. Whatever is
 * read there is believed of this timer only, once.
 *
 *   user                                  kernel, here
 *   old = xchg(deadline_ns, t)    (A)     queue at the word that was read
 *   w = wake_ns                           wake_ns = start of its tick
 *   KICK if t <= w                        full barrier              (B)
 *                                         read deadline_ns again
 *
 * A pairs with B: if the user has read the old wake_ns, then the second read
 * sees t. And an expiry is claimed by cmpxchg, so of a word that both want to
 * change one gets the old value: the kernel, then it is an event; or the user,
 * then it is none. doc/model/table.pml is the model of this; it fails without the
 * second read, and with a store in place of the cmpxchg.
 *
 * A word that never stands still is left alone until the next tick. It is read
 * once more before: what was decided last may be what the word wants.
 */
static void twheel_look(struct twheel_timers *t, struct twheel_entry *e,
			struct twheel_slot *slot, u64 now)
	__must_hold(t->slots.lock)
{
	u64 tick = now & ~(twheel_tick_ns(t) - 1);
	bool decided = false;
	unsigned int looks;
	u64 at;

	for (looks = 0; ; looks++) {
		u64 deadline = READ_ONCE(slot->deadline_ns);
		bool last = e->last;
		u64 next;

		if (twheel_settled(e, deadline, decided))
			return;
		if (looks == TWHEEL_LOOKS) {
			at = tick + twheel_tick_ns(t);
			break;
		}
		twheel_look_step(slot);
		if (deadline && (e->state == TWHEEL_IDLE || e->state == TWHEEL_EXPIRED))
			e->last = false;
		/*
		 * Due, but so may be others before it. One that the wheel is
		 * late with queues for its own tick, a new arming for that or
		 * the first that the wheel has not begun with.
		 */
		next = twheel_next(&t->wheel);
		at = min(deadline, tick);
		if (e->state != TWHEEL_TAKEN)
			at = min(tick, max(deadline, next + twheel_tick_ns(t)));
		if (deadline && deadline <= now && next < at)
			break;
		if (!deadline) {
			twheel_to_idle(t, e);
			twheel_publish(t, slot, TWHEEL_NEVER);
		} else if (deadline > now) {
			twheel_plan(t, e, slot, deadline, now);
		} else {
			u64 left = twheel_successor(e, deadline, now);

			/* Moved under our hands, and nothing is decided by that. */
			if (cmpxchg64(&slot->deadline_ns, deadline, left) != deadline) {
				e->last = last;
				continue;
			}
			twheel_to_ready(t, e, deadline, now);
			twheel_publish(t, slot, TWHEEL_NEVER);
		}
		decided = true;
		/* B, pairs with A in user space. */
		smp_mb();
		twheel_look_step(slot);
	}
	e->past |= e->state != TWHEEL_TAKEN;
	/* What was drained is not what is armed now. */
	e->last = false;
	twheel_to_wheel(t, e, at, 0, now);
	twheel_publish(t, slot, at);
}

/*
 * The look at @e, just taken off the wheel, as it mostly ends: its word is what
 * it was planned for, so it is due, and nothing is due before it. Return: whether
 * it was so, and still is; else it has been looked at.
 */
static inline bool twheel_expire_planned(struct twheel_timers *t, struct twheel_entry *e,
					 struct twheel_slot *slot, u64 now)
	__must_hold(t->slots.lock)
{
	u64 left = twheel_successor(e, e->deadline, now);

	/* Most were moved, and then need no exchange here. */
	if (READ_ONCE(slot->deadline_ns) != e->deadline)
		goto moved;
	twheel_look_step(slot);
	if (cmpxchg64(&slot->deadline_ns, e->deadline, left) != e->deadline)
		goto moved;
	twheel_look_step(slot);
	t->stats.armed--;
	twheel_link_ready(t, e, now);
	twheel_publish(t, slot, TWHEEL_NEVER);
	/* B, pairs with A in user space. */
	smp_mb();
	twheel_look_step(slot);
	if (READ_ONCE(slot->deadline_ns) == left)
		return true;
	twheel_look(t, e, slot, now);
	return false;
moved:
	e->state = TWHEEL_TAKEN;
	twheel_look(t, e, slot, now);
	return false;
}

/**
 * twheel_run() - take what is due off the wheel
 * @t: the timers
 * @now: the time
 * @budget: how many timers may be touched
 *
 * What its word calls for later is queued again; the rest is ready to be read.
 * If the budget was not enough, twheel_due() of the wheel says so.
 *
 * Return: how much of the budget is left.
 */
unsigned int twheel_run(struct twheel_timers *t, u64 now, unsigned int budget)
{
	struct twheel_node *node;

	twheel_assert_held(t);
	while ((node = twheel_expire(&t->wheel, now, &budget))) {
		struct twheel_entry *e = container_of(node, struct twheel_entry, node);
		struct twheel_slot *slot = twheel_slots_word(&t->slots, e);
		struct twheel_node *next = twheel_upcoming(node);
		u64 due = e->deadline;
		u64 late;

		if (next)
			twheel_slots_prefetch(&t->slots,
					      container_of(next, struct twheel_entry, node));
		if (!twheel_expire_planned(t, e, slot, now)) {
			if (e->state != TWHEEL_EXPIRED)
				continue;
			due = max(due, e->deadline);
		}
		if (e->past)
			continue;
		late = now - due;
		t->stats.lateness[fls64(late | 1) - 1]++;
		if (late > t->stats.worst_lateness_ns)
			t->stats.worst_lateness_ns = late;
	}
	return budget;
}

/* The verbs */

/* The deadline that @arg asks for, 0 for none. */
static u64 twheel_wanted(const struct twheel_timer *arg, u64 now)
{
	if (arg->flags & TWHEEL_DISARMED)
		return 0;
	if (arg->flags & TWHEEL_ABSTIME)
		return arg->deadline_ns ?: 1;
	return twheel_after(now, arg->deadline_ns);
}

/*
 * Puts @deadline into the word of @e, as user space does, and takes @e from
 * where it was: then it is idle. Return: the state that it was in, and in @before
 * its deadline.
 */
static __always_inline u32 twheel_exchange(struct twheel_timers *t, struct twheel_entry *e,
					   struct twheel_slot *slot, u64 deadline,
					   u64 *before)
	__must_hold(t->slots.lock)
{
	u32 state;

	*before = xchg(&slot->deadline_ns, deadline);
	state = *before ? TWHEEL_ARMED : TWHEEL_IDLE;
	if (e->state == TWHEEL_ARMED) {
		twheel_del(&t->wheel, &e->node);
		t->stats.armed--;
		t->stats.displaced++;
		e->state = TWHEEL_IDLE;
	} else if (e->state == TWHEEL_EXPIRED) {
		if (twheel_unread(e, *before)) {
			state = TWHEEL_EXPIRED;
			*before = e->deadline;
		}
		twheel_unlink(t, e);
	}
	return state;
}

/* Where @e is, and for when. */
static void twheel_report_state(const struct twheel_entry *e, const struct twheel_slot *slot,
				struct twheel_timer *out)
{
	u64 deadline = READ_ONCE(slot->deadline_ns);

	if (twheel_unread(e, deadline)) {
		out->deadline_ns = e->deadline;
		out->state = TWHEEL_EXPIRED;
	} else {
		out->deadline_ns = deadline;
		out->state = deadline ? TWHEEL_ARMED : TWHEEL_IDLE;
	}
}

/*
 * Arms the idle @e, or not, as @arg says; @deadline is in its word already. Puts
 * where it is then, and for when, into @arg.
 */
static __always_inline void twheel_arm(struct twheel_timers *t, struct twheel_entry *e,
				       struct twheel_slot *slot, struct twheel_timer *arg,
				       u64 deadline, u64 now)
	__must_hold(t->slots.lock)
{
	e->period = arg->period_ns;
	e->slack = arg->slack_ns;
	e->flags = arg->flags;
	if (deadline > now) {
		/* A look that finds there what has just been put there. */
		e->state = TWHEEL_ARMED;
		e->past = false;
		e->last = false;
		twheel_look_step(slot);
		t->stats.armings++;
		t->stats.armed++;
		twheel_link_wheel(t, e, deadline, arg->slack_ns, now);
		twheel_publish(t, slot, deadline);
		/* B, pairs with A in user space. */
		smp_mb();
		twheel_look_step(slot);
		if (READ_ONCE(slot->deadline_ns) == deadline) {
			arg->deadline_ns = deadline;
			arg->state = TWHEEL_ARMED;
			return;
		}
	} else if (deadline) {
		/* What is due at once comes behind what was due before it. */
		twheel_run(t, now, TWHEEL_ARM_BUDGET);
	}
	twheel_look(t, e, slot, now);
	twheel_report_state(e, slot, arg);
}

/* Ends the timer @e, which is idle. */
static inline void twheel_end(struct twheel_timers *t, struct twheel_entry *e,
			      struct twheel_slot *slot)
	__must_hold(t->slots.lock)
{
	WRITE_ONCE(slot->deadline_ns, 0);
	WRITE_ONCE(slot->wake_ns, TWHEEL_NEVER);
	twheel_slots_put(&t->slots, e);
}

static void twheel_report(const struct twheel_entry *e, const struct twheel_slot *slot,
			  struct twheel_timer *out)
{
	out->id = twheel_entry_id(e);
	out->user_data = e->user_data;
	out->period_ns = e->period;
	out->slack_ns = e->slack;
	out->flags = e->flags;
	twheel_report_state(e, slot, out);
}

/*
 * What GET says is final: of what was disarmed through the table no event comes.
 * So an event is one as of the look at the word which has decided that.
 */
static void twheel_get(struct twheel_timers *t, struct twheel_entry *e,
		       struct twheel_slot *slot, struct twheel_timer *out, u64 now)
	__must_hold(t->slots.lock)
{
	if (e->state == TWHEEL_EXPIRED && !twheel_unread(e, READ_ONCE(slot->deadline_ns)))
		twheel_look(t, e, slot, now);
	twheel_look_step(slot);
	twheel_report(e, slot, out);
	if (e->state == TWHEEL_EXPIRED) {
		out->deadline_ns = e->deadline;
		out->state = TWHEEL_EXPIRED;
	}
}

static __always_inline int twheel_register(struct twheel_timers *t, struct twheel_timer *arg,
					   u64 now)
	__must_hold(t->slots.lock)
{
	u64 deadline = twheel_wanted(arg, now);
	struct twheel_entry *e;
	struct twheel_slot *slot;

	/* A timer that is neither armed nor kept would be of no use. */
	if ((arg->flags & TWHEEL_DISARMED) && !(arg->flags & TWHEEL_KEEP))
		return -EINVAL;
	e = twheel_slots_get(&t->slots);
	if (IS_ERR(e))
		return PTR_ERR(e);
	t->used = true;
	t->stats.registered++;
	e->user_data = arg->user_data;
	slot = twheel_slots_word(&t->slots, e);
	/* What was there means nothing. */
	WRITE_ONCE(slot->deadline_ns, deadline);
	twheel_arm(t, e, slot, arg, deadline, now);
	/* The rest is what was asked for. */
	arg->id = twheel_entry_id(e);
	return 0;
}

static __always_inline void twheel_rearm(struct twheel_timers *t, struct twheel_entry *e,
					 struct twheel_slot *slot, struct twheel_timer *arg,
					 u64 now)
	__must_hold(t->slots.lock)
{
	u64 deadline = twheel_wanted(arg, now), before;
	u32 state;

	t->stats.rearmed++;
	state = twheel_exchange(t, e, slot, deadline, &before);
	twheel_arm(t, e, slot, arg, deadline, now);
	/* The rest is what was asked for. */
	arg->user_data = e->user_data;
	arg->state = state;
}

static __always_inline void twheel_cancel(struct twheel_timers *t, struct twheel_entry *e,
					  struct twheel_slot *slot,
					  struct twheel_timer *arg)
	__must_hold(t->slots.lock)
{
	t->stats.cancelled++;
	arg->state = twheel_exchange(t, e, slot, 0, &arg->deadline_ns);
	arg->user_data = e->user_data;
	arg->period_ns = e->period;
	arg->slack_ns = e->slack;
	arg->flags = e->flags;
	twheel_end(t, e, slot);
}

/* Does @op. Return: its result, or -EAGAIN; as twheel_apply() says. */
static __always_inline int twheel_apply_one(struct twheel_timers *t, struct twheel_op *op,
					    u64 now)
	__must_hold(t->slots.lock)
{
	struct twheel_timer *arg = &op->timer;
	bool arms = op->opcode == TWHEEL_OP_REGISTER || op->opcode == TWHEEL_OP_REARM;
	struct twheel_entry *e;
	struct twheel_slot *slot;

	if (arg->flags & ~(TWHEEL_ABSTIME | TWHEEL_KEEP | TWHEEL_DISARMED))
		return -EINVAL;
	if (arms && arg->period_ns && arg->period_ns < twheel_tick_ns(t))
		return -EINVAL;
	if (op->opcode == TWHEEL_OP_REGISTER)
		return twheel_register(t, arg, now);
	if (op->opcode < TWHEEL_OP_REGISTER || op->opcode > TWHEEL_OP_GET)
		return -EINVAL;

	e = twheel_slots_find(&t->slots, arg->id);
	if (!e)
		return -ENOENT;
	slot = twheel_slots_word(&t->slots, e);
	if (op->opcode == TWHEEL_OP_REARM)
		twheel_rearm(t, e, slot, arg, now);
	else if (op->opcode == TWHEEL_OP_CANCEL)
		twheel_cancel(t, e, slot, arg);
	else
		twheel_get(t, e, slot, arg, now);
	return 0;
}

/**
 * twheel_apply() - do operations
 * @t: the timers
 * @ops: what to do. The timer of one is changed only if that succeeds; what came
 *	of it is in its result: 0; -EINVAL, -ENOENT or -ENOSPC as the header of
 *	the ABI says.
 * @nr: how many
 * @now: the time
 *
 * Of each, everything is checked before anything is changed.
 *
 * Return: how many were done. If not all, then twheel_slots_grow() is needed
 * before the next.
 */
unsigned int twheel_apply(struct twheel_timers *t, struct twheel_op *ops, unsigned int nr,
			  u64 now)
{
	unsigned int i;

	twheel_assert_held(t);
	for (i = 0; i < nr; i++) {
		int err = twheel_apply_one(t, &ops[i], now);

		if (err == -EAGAIN)
			break;
		ops[i].result = err;
	}
	return i;
}

/**
 * twheel_kick() - look at a slot because user space says so
 * @t: the timers
 * @slot: any number
 * @now: the time
 *
 * Return: whether there is a timer.
 */
bool twheel_kick(struct twheel_timers *t, u32 slot, u64 now)
{
	struct twheel_entry *e = twheel_slots_at(&t->slots, slot);

	twheel_assert_held(t);
	if (!e)
		return false;
	twheel_look(t, e, twheel_slots_word(&t->slots, e), now);
	return true;
}

/* Drains the timer @e if it is armed. Return: whether it was. */
static bool twheel_drain_one(struct twheel_timers *t, struct twheel_entry *e, u32 mode,
			     u64 now)
	__must_hold(t->slots.lock)
{
	struct twheel_slot *slot = twheel_slots_word(&t->slots, e);
	u64 deadline = xchg(&slot->deadline_ns, 0);
	bool unread = twheel_unread(e, deadline);
	bool armed = deadline && !unread;

	if (armed && mode == TWHEEL_DRAIN_CANCEL) {
		t->stats.cancelled++;
		twheel_to_idle(t, e);
		twheel_end(t, e, slot);
		return true;
	}
	if (armed)
		twheel_to_ready(t, e, deadline, now);
	else if (!unread)
		twheel_to_idle(t, e);
	/* What is unread stays, but comes to its end there: no period after now. */
	if (e->state == TWHEEL_EXPIRED && !e->last) {
		if (unread && e->period)
			e->expired_ns = max(e->expired_ns, now);
		e->last = true;
	}
	twheel_publish(t, slot, TWHEEL_NEVER);
	/* The word may have been set since; as B in twheel_look(). */
	smp_mb();
	twheel_look(t, e, slot, now);
	return armed;
}

/**
 * twheel_drain() - drain the armed timers of a chunk
 * @t: the timers
 * @chunk: in: which chunk, from 0; out: the next, U32_MAX behind the last
 * @mode: %TWHEEL_DRAIN_EXPIRE or %TWHEEL_DRAIN_CANCEL
 * @now: the time
 *
 * Return: how many there were.
 */
unsigned int twheel_drain(struct twheel_timers *t, u32 *chunk, u32 mode, u64 now)
{
	struct twheel_entry *entries;
	u64 live = twheel_slots_live(&t->slots, *chunk, &entries);
	unsigned int count = 0;

	twheel_assert_held(t);
	for (; live; live &= live - 1)
		count += twheel_drain_one(t, &entries[__ffs64(live)], mode, now);
	if (++*chunk >= t->slots.chunks)
		*chunk = U32_MAX;
	return count;
}

/**
 * twheel_list() - report live timers
 * @t: the timers
 * @cursor: in: the slot to start from, any number; out: behind the last
 * @out: where to
 * @nr: how many at most
 * @budget: how many timers and empty chunks may be looked at
 *
 * Return: how many; -ENOENT if there are no more.
 */
int twheel_list(const struct twheel_timers *t, u32 *cursor,
		struct twheel_timer *out, unsigned int nr, unsigned int budget)
{
	u32 slot = *cursor;
	int got = 0;
	bool end;

	twheel_assert_held(t);
	for (;;) {
		struct twheel_entry *entries;
		u32 chunk = slot / TWHEEL_CHUNK;
		u32 i = slot % TWHEEL_CHUNK;
		u64 live = twheel_slots_live(&t->slots, chunk, &entries);

		end = chunk >= t->slots.chunks;
		if (end || got == nr || !budget--)
			break;
		live &= U64_MAX << i;
		if (live) {
			i = __ffs64(live);
			twheel_report(&entries[i], twheel_slots_word(&t->slots, &entries[i]),
				      &out[got++]);
			i++;
		} else {
			i = TWHEEL_CHUNK;
		}
		slot = chunk * TWHEEL_CHUNK + i;
	}
	*cursor = slot;
	return end && !got ? -ENOENT : got;
}

/**
 * twheel_stats() - what has happened so far
 * @t: the timers
 * @stats: out
 */
void twheel_stats(const struct twheel_timers *t, struct twheel_stats *stats)
{
	twheel_assert_held(t);
	*stats = t->stats;
	stats->allocated = t->slots.used;
	stats->cascaded = t->wheel.cascaded;
}

/* Events */

/*
 * The event of the expired timer @e as of @now. A periodic timer's counts all
 * periods that have passed, whether or not its tick or slack has; until it was
 * drained, if it was.
 */
static inline void twheel_put_event(struct twheel_event *event,
				    const struct twheel_entry *e, u64 now)
{
	u64 expirations = e->deadline <= e->expired_ns;

	if (e->period && expirations) {
		u64 until = e->last ? e->expired_ns : now;

		if (until > e->deadline)
			expirations += div64_u64(until - e->deadline, e->period);
	}
	*event = (struct twheel_event) {
		.id = twheel_entry_id(e),
		.user_data = e->user_data,
		.deadline_ns = e->deadline,
		.expired_ns = e->expired_ns,
		.expirations = expirations,
	};
}

/* Changes what an expiry left in the word of @e, if it is still there. */
static bool twheel_leave(struct twheel_slot *slot, u64 from, u64 to)
{
	if (from == to)
		return READ_ONCE(slot->deadline_ns) == from;
	return cmpxchg64(&slot->deadline_ns, from, to) == from;
}

/**
 * twheel_claim() - the first events that are ready
 * @t: the timers
 * @claimed: out: the timers that they are of
 * @events: out: the events
 * @nr: how many at most
 * @budget: how many timers may be looked at instead
 * @now: the time
 *
 * They are claimed, not taken: twheel_settle() must follow under the same hold
 * of the lock. The word of a periodic timer then has its first period after
 * @now. A timer whose word user space has changed is no event any more; it is
 * looked at instead.
 *
 * They are the first of @ready, one after the other.
 *
 * Return: how many.
 */
unsigned int twheel_claim(struct twheel_timers *t, struct twheel_claimed *claimed,
			  struct twheel_event *events, unsigned int nr,
			  unsigned int budget, u64 now)
{
	struct hlist_node **at = &t->ready.first;
	unsigned int i = 0;

	twheel_assert_held(t);
	while (i < nr && *at) {
		struct twheel_entry *e = hlist_entry(*at, struct twheel_entry, ready);
		struct twheel_slot *slot = twheel_slots_word(&t->slots, e);

		if (twheel_leave(slot, twheel_successor(e, e->deadline, e->expired_ns),
				 twheel_successor(e, e->deadline, now))) {
			claimed[i] = (struct twheel_claimed) { e, slot };
			twheel_put_event(&events[i++], e, now);
			at = &e->ready.next;
			continue;
		}
		if (!budget--)
			break;
		twheel_look(t, e, slot, now);
	}
	return i;
}

/**
 * twheel_readable() - is there an event?
 * @t: the timers
 * @budget: how many timers may be looked at
 * @now: the time
 *
 * A timer whose word user space has changed since it expired is no event any more,
 * and is looked at: if all are such, nothing else may ever come to do so.
 *
 * Return: 1 if so, 0 if not; -EAGAIN if the budget was not enough to tell.
 */
int twheel_readable(struct twheel_timers *t, unsigned int budget, u64 now)
{
	twheel_assert_held(t);
	while (t->ready.first) {
		struct twheel_entry *e = hlist_entry(t->ready.first, struct twheel_entry, ready);
		struct twheel_slot *slot = twheel_slots_word(&t->slots, e);

		if (twheel_unread(e, READ_ONCE(slot->deadline_ns)))
			return 1;
		if (!budget--)
			return -EAGAIN;
		twheel_look(t, e, slot, now);
	}
	return 0;
}

/**
 * twheel_settle() - end what twheel_claim() began
 * @t: the timers
 * @claimed: as it gave them
 * @nr: how many it gave
 * @delivered: how many of these have reached their reader
 * @now: the time, the same
 *
 * Those delivered are consumed, and the others are as if nothing had been.
 */
void twheel_settle(struct twheel_timers *t, struct twheel_claimed *claimed,
		   unsigned int nr, unsigned int delivered, u64 now)
{
	unsigned int i;

	twheel_assert_held(t);
	/* They are the first of the list, and leave it together. */
	if (delivered) {
		struct hlist_node *rest = claimed[delivered - 1].entry->ready.next;

		WRITE_ONCE(t->ready.first, rest);
		if (rest)
			rest->pprev = &t->ready.first;
		else
			t->ready_end = &t->ready.first;
	}
	t->stats.unread -= delivered;
	t->stats.delivered += delivered;
	for (i = 0; i < delivered; i++) {
		struct twheel_entry *e = claimed[i].entry;
		struct twheel_slot *slot = claimed[i].slot;

		e->state = TWHEEL_IDLE;
		/* Armed for the next period; or by the user, about to kick. */
		if (READ_ONCE(slot->deadline_ns))
			twheel_look(t, e, slot, now);
		else if (!(e->flags & TWHEEL_KEEP) && (!e->period || e->last))
			twheel_end(t, e, slot);
	}
	for (; i < nr; i++) {
		struct twheel_entry *e = claimed[i].entry;

		/* If it fails, the next claim finds what the user wrote. */
		twheel_leave(claimed[i].slot,
			     twheel_successor(e, e->deadline, now),
			     twheel_successor(e, e->deadline, e->expired_ns));
	}
}
