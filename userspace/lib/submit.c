// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Operations, lists and drains of <libtwheel/twheel.h>, with the ids of this process.
 *
 * The wheel knows a timer of twheel_add() by another id and without its user_data, and keeps it
 * after it has expired. An operation on such a timer is performed separately, under cold.reading,
 * so that none of its events is on its way to the program at that time.
 */
#include "internal.h"

/* Replaces what the wheel said of a timer of twheel_add() with what the program knows. */
static void translate(const struct shadow *shadow, struct twheel_timer *timer)
{
	timer->id = __atomic_load_n(&shadow->id, __ATOMIC_ACQUIRE);
	timer->user_data = load64(&shadow->user_data);
	timer->flags &= ~TWHEEL_KEEP;
}

/* Performs @op on the timer of twheel_add() that @shadow describes. Return: the result. */
static int do_own(struct twheel *w, struct shadow *shadow, struct twheel_op *op)
{
	struct twheel_op own = *op;
	uint64_t id = op->timer.id;
	uint64_t kernel_id = load64(&shadow->kernel_id);
	int ret;

	if (own.opcode == TWHEEL_OP_CANCEL) {
		/* Ask for the timer's state first, then delete it as its owner would. */
		own.opcode = TWHEEL_OP_GET;
		ret = do_own(w, shadow, &own);
		if (ret)
			return ret;
		ret = twheel_del(w, id);
		if (ret < 0)
			return ret;
		op->timer = own.timer;
		if (!ret)
			op->timer.state = TWHEEL_IDLE;
		return 0;
	}
	take_lock(&w->cold->reading);
	if (!is_live(shadow, id)) {
		ret = -ENOENT;
		goto unlock;
	}
	own.timer.id = kernel_id;
	if (own.opcode == TWHEEL_OP_REARM)
		own.timer.flags |= TWHEEL_KEEP;
	tell_arming(w, shadow);
	ret = w->cold->backend->exec(w, &own, 1);
	if (ret >= 0)
		ret = own.result;
	if (ret == -ENOENT)
		twheel__lose(w, shadow, kernel_id);
	if (ret)
		goto unlock;
	if (own.opcode == TWHEEL_OP_REARM) {
		__atomic_store_n(&shadow->armed, !(own.timer.flags & TWHEEL_DISARMED),
				 __ATOMIC_RELAXED);
		__atomic_store_n(&shadow->custom, own.timer.period_ns ||
				 own.timer.slack_ns != w->cold->slack_ns, __ATOMIC_RELAXED);
	}
	translate(shadow, &own.timer);
	/* Another thread may have deleted or replaced the timer since. */
	if (own.timer.id != id) {
		ret = -ENOENT;
		goto unlock;
	}
	op->timer = own.timer;
unlock:
	drop_lock(&w->cold->reading);
	return ret;
}

TWHEEL_PUBLIC int twheel_submit(struct twheel *w, struct twheel_op *ops, unsigned int n)
{
	unsigned int done = 0, run, i;

	if (is_child(w))
		return -ECHILD;
	if (n > TWHEEL_BATCH_MAX)
		return -EINVAL;
	/* The next twheel_clear() must withdraw the event that a periodic timer may have. */
	for (i = 0; i < n && !load32(&w->check_kind); i++)
		if (ops[i].opcode <= TWHEEL_OP_REARM && ops[i].timer.period_ns)
			__atomic_store_n(&w->check_kind, 1, __ATOMIC_SEQ_CST);
	while (done < n) {
		struct shadow *shadow = NULL;
		bool hidden = false;
		int ret;

		/* Count the next operations that concern no timer of twheel_add(). */
		for (run = 0; done + run < n; run++) {
			struct twheel_op *op = &ops[done + run];

			hidden = op->timer.id && op->timer.id == load64(&w->cold->wake_id) &&
				 op->opcode >= TWHEEL_OP_REARM && op->opcode <= TWHEEL_OP_GET;
			if (hidden)
				break;
			if (op->opcode == TWHEEL_OP_REARM || op->opcode == TWHEEL_OP_CANCEL ||
			    op->opcode == TWHEEL_OP_GET)
				shadow = find_shadow(w, op->timer.id);
			if (shadow)
				break;
		}
		if (run) {
			tell_arming(w, NULL);
			ret = w->cold->backend->exec(w, ops + done, run);
			if (ret < 0)
				return done ? (int)done : ret;
			for (i = done; i < done + ret; i++)
				if (ops[i].opcode == TWHEEL_OP_REGISTER && !ops[i].result)
					twheel__forget_slot(w, ops[i].timer.id);
			done += ret;
			if ((unsigned int)ret < run)
				break;
		}
		if (hidden) {
			ops[done++].result = -ENOENT;
		} else if (shadow) {
			ops[done].result = do_own(w, shadow, &ops[done]);
			done++;
		}
	}
	return done;
}

TWHEEL_PUBLIC int twheel_list(struct twheel *w, struct twheel_timer *timers, unsigned int n,
			      uint32_t *cursor)
{
	int got, i, kept = 0;

	if (is_child(w))
		return -ECHILD;
	while (n && !kept) {
		got = w->cold->backend->list(w, timers, n, cursor);
		if (got <= 0)
			return got;
		for (i = 0; i < got; i++) {
			struct shadow *shadow = find_shadow(w, timers[i].id);

			if (timers[i].id == load64(&w->cold->wake_id))
				continue;
			if (shadow && load64(&shadow->kernel_id) == timers[i].id) {
				/* Leave out free slots, and those whose timer is being replaced. */
				translate(shadow, &timers[i]);
				if (!timers[i].id || timers[i].id == REPLACING)
					continue;
			} else if (timers[i].user_data == WAKE_DATA) {
				/*
				 * The wake timer of another process, whose events filter() drops.
				 */
				timers[i].user_data = 0;
				timers[i].deadline_ns = 0;
				timers[i].state = TWHEEL_IDLE;
			}
			timers[kept++] = timers[i];
		}
	}
	return kept;
}

/*
 * Ends the arming of a listed timer in the way that @mode says, and counts it, unless the word has
 * changed since. Some timers need an operation for that: REARM if the periods have to end, and
 * CANCEL if the timer does. The caller holds cold.reading.
 *
 * Return: true if the caller has to perform @op.
 */
static bool drain_timer(struct twheel *w, unsigned int mode, const struct twheel_timer *timer,
			uint64_t now, struct twheel_op *op, int *count)
{
	struct shadow *shadow = find_shadow(w, timer->id);
	uint32_t slot = timer->id;

	if (timer->user_data == WAKE_DATA)
		return false;
	if (timer->state == TWHEEL_EXPIRED && timer->period_ns)
		/* Keep the event, and disarm the next period, which the word holds. */
		twheel__exchange(w, slot, load64((uint64_t *)&w->words[slot].deadline_ns), 0);
	if (timer->state != TWHEEL_ARMED)
		return false;
	*op = (struct twheel_op) { .timer.id = timer->id };
	if (mode == TWHEEL_DRAIN_EXPIRE && timer->period_ns) {
		op->opcode = TWHEEL_OP_REARM;
		op->timer.slack_ns = timer->slack_ns;
		op->timer.flags = timer->flags & TWHEEL_KEEP;
		return true;
	}
	if (mode == TWHEEL_DRAIN_EXPIRE) {
		/*
		 * The timer may be due but wait for its tick. Change the word, so that the kick
		 * looks at it.
		 */
		uint64_t past = timer->deadline_ns == now ? now - 1 : now;

		*count += twheel__exchange(w, slot, timer->deadline_ns, past) &&
			  timer->deadline_ns > now;
		return false;
	}
	if (!twheel__exchange(w, slot, timer->deadline_ns, 0))
		return false;
	++*count;
	if (shadow && load64(&shadow->kernel_id) == timer->id) {
		if (!is_set(&shadow->custom))
			__atomic_store_n(&shadow->armed, 0, __ATOMIC_RELAXED);
		return false;
	}
	/* A timer with KEEP may be one of twheel_add() in another process, so it stays. */
	op->opcode = TWHEEL_OP_CANCEL;
	return !(timer->flags & TWHEEL_KEEP);
}

/* Evaluates the results of the operations that drain_timer() has asked for. */
static void drained(struct twheel *w, const struct twheel_op *ops, int n, int *count)
{
	for (; n > 0; n--, ops++) {
		struct shadow *shadow = find_shadow(w, ops->timer.id);

		if (ops->opcode != TWHEEL_OP_REARM || ops->result)
			continue;
		*count += ops->timer.state == TWHEEL_ARMED;
		if (shadow && load64(&shadow->kernel_id) == ops->timer.id)
			__atomic_store_n(&shadow->custom,
					 ops->timer.slack_ns != w->cold->slack_ns,
					 __ATOMIC_RELAXED);
	}
}

static int kick_until_done(struct twheel *w)
{
	int ret;

	do {
		ret = w->cold->backend->kick(w);
	} while (ret == -EINTR);
	return ret;
}

TWHEEL_PUBLIC int twheel_drain(struct twheel *w, unsigned int mode)
{
	struct twheel_timer timers[REFILL];
	struct twheel_op ops[REFILL];
	uint32_t cursor = 0;
	int ret, i, nr, count = 0;
	uint64_t now;

	if (is_child(w))
		return -ECHILD;
	if (mode != TWHEEL_DRAIN_EXPIRE && mode != TWHEEL_DRAIN_CANCEL)
		return -EINVAL;
	/* Under this lock no other thread arms a timer whose word is 0. */
	take_lock(&w->cold->reading);
	/* Timers that are already due expire first, and are not counted. */
	ret = kick_until_done(w);
	now = twheel_now(w);
	while (ret >= 0) {
		ret = w->cold->backend->list(w, timers, REFILL, &cursor);
		if (ret <= 0)
			break;
		for (nr = 0, i = 0; i < ret; i++)
			nr += drain_timer(w, mode, &timers[i], now, &ops[nr], &count);
		ret = nr ? w->cold->backend->exec(w, ops, nr) : 0;
		drained(w, ops, ret, &count);
	}
	if (!ret && mode == TWHEEL_DRAIN_EXPIRE)
		ret = kick_until_done(w);
	drop_lock(&w->cold->reading);
	return ret < 0 ? ret : count;
}
