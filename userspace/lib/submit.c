// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Operations, lists and drains of <linux/twheel.h>, with the ids of this process.
 *
 * A timer of twheel_add() has an id and user_data that the wheel does not know, and the
 * wheel keeps it. An operation on such a timer is done alone, under cold.reading: then none
 * of its events is on its way to a caller.
 */
#include "internal.h"

/* Gives the wheel's answer about a timer of ours the id and user_data of the program. */
static void translate(const struct shadow *shadow, struct twheel_timer *timer)
{
	timer->id = load64(&shadow->id);
	timer->user_data = load64(&shadow->user_data);
	timer->flags &= ~TWHEEL_KEEP;
}

/* Does @op on the timer of @shadow, which is ours. Return: the result. */
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
	while (done < n) {
		struct shadow *shadow = NULL;
		bool hidden = false;
		int ret;

		/* The wheel can do these at once: none is a timer of ours. */
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
				/* Leave out free slots. */
				if (!load64(&shadow->id))
					continue;
				translate(shadow, &timers[i]);
			} else if (timers[i].user_data == WAKE_DATA) {
				/* Of another process. Nobody gets its event. */
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
 * Disarms the timers of ours, which stay. If twheel_add() armed a timer before it saw
 * w->drains change, its word shows that, and then its shadow. Return: the number disarmed.
 */
static int clear_own(struct twheel *w)
{
	uint32_t slot, slots = __atomic_load_n(&w->nr_shadows, __ATOMIC_SEQ_CST);
	int count = 0;

	for (slot = 0; slot < slots; slot++) {
		struct shadow *shadow = &w->shadow[slot];

		if (!__atomic_load_n(&w->words[slot].deadline_ns, __ATOMIC_SEQ_CST) ||
		    !load64(&shadow->id))
			continue;
		if (__atomic_exchange_n(&w->words[slot].deadline_ns, 0, __ATOMIC_SEQ_CST)) {
			if (!shadow->custom)
				__atomic_store_n(&shadow->armed, 0, __ATOMIC_RELAXED);
			count++;
		}
	}
	return count;
}

TWHEEL_PUBLIC int twheel_drain(struct twheel *w, unsigned int mode)
{
	int own = 0, ret;

	if (is_child(w))
		return -ECHILD;
	/* Under this lock no other thread arms a cleared timer. twheel_add() looks again. */
	take_lock(&w->cold->reading);
	if (mode == TWHEEL_DRAIN_CANCEL) {
		__atomic_fetch_add(&w->drains, 1, __ATOMIC_SEQ_CST);
		own = clear_own(w);
	}
	ret = w->cold->backend->drain(w, mode);
	if (mode == TWHEEL_DRAIN_CANCEL) {
		__atomic_fetch_add(&w->drains, 1, __ATOMIC_SEQ_CST);
		twheel__wake_after_drain(w);
	}
	drop_lock(&w->cold->reading);
	return ret < 0 ? ret : own + ret;
}
