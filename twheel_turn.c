// SPDX-License-Identifier: GPL-2.0
/*
 * The clock, the lock, the hrtimer and the worker of a wheel.
 *
 * Everything is done between lock_wheel() and unlock_wheel(). The latter programs the next
 * turn, and wakes those who wait for events.
 *
 * The hrtimer is programmed for the first moment at which anything must be done. It runs in
 * a softirq, where turns have a budget, and a worker does the rest. The header of the table
 * contains the time of the next turn, so that user space knows when its marks will be seen.
 *
 * The meaning of @programmed, and how it comes about:
 *
 *   WHEEL_NEVER   nothing is to be done          file_set_clock(), note_next()
 *   a time ahead  the hrtimer will fire then     start_timer(), restart()
 *   a time past   the hrtimer is running, or     time has passed; turn_timer() may have
 *                 has queued the wheel           queued the wheel without the lock
 *   0             the wheel is queued            hand_over()
 *
 * The header of the table says the same, but 0 whenever the wheel is queued.
 */
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/kernel_stat.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/poll.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "twheel_trace.h"
#include "twheel_turn.h"

/* What a turn in a softirq takes from the budget in addition to its timers. */
#define TURN_COST		16U
/* The budget refills by one timer per TURN_PAUSE_NS without a turn, so it is full after 100 us. */
#define TURN_PAUSE_NS		800U

/*
 * Runs the turns that exceed the softirq's budget. It serves the users in rotation, each
 * with one budget for all of their wheels, so it makes no difference to others how many
 * wheels a user has. No control group pays for this work, so it gets at most one CPU
 * (from Linux 6.9 on, one of each NUMA node); the CPUs can be set in sysfs.
 */
static struct workqueue_struct *turn_wq;

/**
 * struct turn_budget - what the hrtimer softirqs of a CPU may do for wheels
 * @run: number of the latest of these softirqs, which the kernel counts
 * @left: what is left of the budget
 * @ended: when the last turn ended
 *
 * On PREEMPT_RT a softirq may preempt another, but hrtimers of a CPU still run one at a time.
 */
struct turn_budget {
	unsigned int run;
	unsigned int left;
	u64 ended;
};

static DEFINE_PER_CPU(struct turn_budget, turn_budget);

/**
 * file_now() - return the time on the wheel's clock, in the time namespace of its opener
 * @w: the wheel, with its lock held
 */
u64 file_now(const struct twheel_file *w)
{
	lockdep_assert_held(&w->lock);

	switch (w->clock_id) {
	case CLOCK_BOOTTIME:
		return ktime_get_boottime_ns() + w->offset;
	case CLOCK_REALTIME:
		return ktime_get_real_ns();
	case CLOCK_TAI:
		return ktime_get_clocktai_ns();
	default:
		return ktime_get_ns() + w->offset;
	}
}

/**
 * lock_wheel() - take the lock of a wheel, and return the time
 * @w: the wheel
 */
u64 lock_wheel(struct twheel_file *w)
	__acquires(&w->lock)
{
	spin_lock_bh(&w->lock);
	return file_now(w);
}

/* True if the hrtimer can be set to @next without overflowing ktime_t. */
static bool fits_ktime(const struct twheel_file *w, u64 next)
{
	return next < KTIME_MAX && next - w->offset < KTIME_MAX;
}

/* Publishes that @next is the next turn. Return: what the hrtimer must be set to. */
static ktime_t note_next(struct twheel_file *w, u64 next, u64 now)
{
	lockdep_assert_held(&w->lock);
	if (next && !fits_ktime(w, next))
		next = WHEEL_NEVER;
	w->programmed = timers_publish_next(&w->timers, next, now);
	/* If there are marks, @programmed is the next tick, which ktime_t may be too small for. */
	return fits_ktime(w, w->programmed) ? ns_to_ktime(w->programmed - w->offset) : KTIME_MAX;
}

static void start_timer(struct twheel_file *w, u64 next, u64 now)
{
	ktime_t expires = note_next(w, next, now);

	if (expires != KTIME_MAX)
		hrtimer_start(&w->timer, expires, HRTIMER_MODE_ABS_SOFT);
}

/* Queues a wheel for the worker, behind the others of its user. Needs no lock of the wheel. */
static void queue_turn(struct twheel_file *w)
{
	struct quota *q = w->pages.bill.quota;
	bool idle;

	spin_lock(&q->lock);
	/* If the user is not idle, the work is queued, or is running and queues itself again. */
	idle = hlist_empty(&q->due) && !q->turning;
	if (hlist_unhashed(&w->due)) {
		w->due.next = NULL;
		w->due.pprev = q->due_end;
		*q->due_end = &w->due;
		q->due_end = &w->due.next;
	}
	spin_unlock(&q->lock);
	if (idle)
		queue_work(turn_wq, &q->work);
}

static void unqueue_turn(struct quota *q, struct twheel_file *w)
{
	lockdep_assert_held(&q->lock);
	if (!hlist_unhashed(&w->due) && !w->due.next)
		q->due_end = w->due.pprev;
	hlist_del_init(&w->due);
}

/* Leaves the next turn to the worker. */
static void hand_over(struct twheel_file *w, u64 now)
{
	note_next(w, 0, now);
	queue_turn(w);
}

/* Programs the next turn, or leaves it to the worker if it is due. */
static void program(struct twheel_file *w, u64 next, u64 now)
{
	if (w->dying)
		return;
	if (next <= now)
		hand_over(w, now);
	else
		start_timer(w, next, now);
}

/**
 * unlock_wheel() - program the next turn, release the lock and wake readers
 * @w: the wheel
 * @now: what lock_wheel() returned
 */
void unlock_wheel(struct twheel_file *w, u64 now)
	__releases(&w->lock)
{
	u64 next = timers_next(&w->timers);
	bool news = w->timers.news;

	w->timers.news = false;
	if (next < w->programmed)
		program(w, next, now);
	spin_unlock_bh(&w->lock);
	if (!news)
		return;
	if (wq_has_sleeper(&w->readers))
		wake_up_interruptible(&w->readers);
	wake_up_interruptible_poll(&w->pollers, EPOLLIN | EPOLLRDNORM);
}

/*
 * Programs the hrtimer after its turn by a restart, which costs less than to start it again.
 *
 * The softirq reads the clock only when it begins. If the clock has been set back since, it would
 * run a restarted hrtimer again and again until the clock has caught up, so in that case the worker
 * starts the hrtimer.
 */
static enum hrtimer_restart restart(struct twheel_file *w, u64 now)
{
	u64 next = timers_next(&w->timers);
	ktime_t expires;

	/* In the meantime, the hrtimer may have been started, or the turn left to the worker. */
	if (w->dying || !w->programmed || hrtimer_is_queued(&w->timer))
		return HRTIMER_NORESTART;
	if (next > now && now >= w->programmed) {
		expires = note_next(w, next, now);
		if (expires == KTIME_MAX)
			return HRTIMER_NORESTART;
		/* If marks were set during the turn, leave them to the worker. */
		if (w->programmed >= next) {
			hrtimer_set_expires(&w->timer, expires);
			return HRTIMER_RESTART;
		}
	}
	hand_over(w, now);
	return HRTIMER_NORESTART;
}

/* Turns the wheel once. Return: how much of the budget was used. */
static unsigned int turn(struct twheel_file *w, u64 now, unsigned int budget)
{
	u64 expired = w->timers.stats.expired;
	unsigned int touched;

	w->timers.stats.wakeups++;
	touched = budget - timers_turn(&w->timers, now, budget);
	trace_twheel_turn(&w->timers, now, touched, w->timers.stats.expired - expired);
	return touched;
}

/* Refills the budget at the start of hrtimer softirq @run, for the pause since the last turn. */
static noinline void refill(struct turn_budget *b, unsigned int run)
{
	u64 pauses = (ktime_get_ns() - b->ended) / TURN_PAUSE_NS;

	b->run = run;
	b->left = min(b->left + pauses, (u64)TURN_BUDGET);
}

/* Turns a wheel in the softirq. */
static noinline enum hrtimer_restart turn_within(struct twheel_file *w, struct turn_budget *b)
{
	enum hrtimer_restart ret;
	u64 now = lock_wheel(w);

	b->left -= TURN_COST;
	b->left -= turn(w, now, b->left);
	ret = restart(w, now);
	unlock_wheel(w, now);
	b->ended = ktime_get_ns();
	return ret;
}

/*
 * All wheels that are due in the softirqs of a CPU share a budget, and when it is used up, the
 * worker turns the remaining wheels. To hand a wheel over takes no longer than the expiration of a
 * timerfd, and waits for no lock that is held for long. So a thousand wheels keep the CPU busy no
 * longer than a thousand timerfds. The turn and the refill are not inlined, so that this
 * function saves few registers when it hands over.
 */
static enum hrtimer_restart turn_timer(struct hrtimer *timer)
{
	struct twheel_file *w = container_of(timer, struct twheel_file, timer);
	struct turn_budget *b = this_cpu_ptr(&turn_budget);
	unsigned int run = __this_cpu_read(kstat.softirqs[HRTIMER_SOFTIRQ]);
	struct twheel_table *table = READ_ONCE(w->timers.store->table);

	if (run != b->run)
		refill(b, run);
	if (b->left > TURN_COST)
		return turn_within(w, b);
	/* The worker waits for this function to return before it publishes the next turn. */
	if (table)
		WRITE_ONCE(table->next_ns, 0);
	queue_turn(w);
	return HRTIMER_NORESTART;
}

/* Turns a wheel once in the worker. Return: how much of the budget was used. */
static unsigned int turn_late(struct twheel_file *w)
{
	unsigned int touched;
	u64 now;

	/* Wait for the softirq: an hrtimer started during its callback stays on that CPU. */
	hrtimer_cancel(&w->timer);
	now = lock_wheel(w);
	touched = turn(w, now, TURN_BUDGET);
	program(w, timers_next(&w->timers), now);
	unlock_wheel(w, now);
	return touched;
}

/**
 * quota_turn() - turn wheels of a user until a budget is used up, then queue the user again
 * @work: the work of the user
 */
void quota_turn(struct work_struct *work)
{
	struct quota *q = container_of(work, struct quota, work);
	unsigned int used = 0;
	struct twheel_file *w;
	bool more;

	spin_lock_bh(&q->lock);
	while (used < TURN_BUDGET &&
	       (w = hlist_entry_safe(q->due.first, struct twheel_file, due))) {
		unqueue_turn(q, w);
		q->turning = w;
		spin_unlock_bh(&q->lock);
		used += TURN_COST + turn_late(w);
		spin_lock_bh(&q->lock);
	}
	q->turning = NULL;
	more = !hlist_empty(&q->due);
	spin_unlock_bh(&q->lock);
	if (more)
		queue_work(turn_wq, &q->work);
}

/**
 * file_set_clock() - choose the clock of a wheel
 * @w: the wheel, which has had no timer and no mapping yet
 * @clock_id: the clock
 */
void file_set_clock(struct twheel_file *w, clockid_t clock_id)
{
	w->programmed = WHEEL_NEVER;
	w->clock_id = clock_id;
	w->offset = 0;
	if (clock_id == CLOCK_MONOTONIC)
		w->offset = w->offset_monotonic;
	else if (clock_id == CLOCK_BOOTTIME)
		w->offset = w->offset_boottime;
	hrtimer_setup(&w->timer, turn_timer, clock_id, HRTIMER_MODE_ABS_SOFT);
}

/**
 * file_stop_turns() - make sure that a wheel is not turned any more
 * @w: the wheel, which no call uses any more
 *
 * Context: may sleep.
 */
void file_stop_turns(struct twheel_file *w)
{
	struct quota *q = w->pages.bill.quota;
	bool turning;

	/* From here on, neither the hrtimer nor the worker starts itself or the other. */
	spin_lock_bh(&w->lock);
	w->dying = true;
	spin_unlock_bh(&w->lock);
	hrtimer_cancel(&w->timer);
	spin_lock_bh(&q->lock);
	unqueue_turn(q, w);
	turning = q->turning == w;
	spin_unlock_bh(&q->lock);
	if (turning)
		flush_work(&q->work);
}

int turn_init(void)
{
	turn_wq = alloc_workqueue("twheel", WQ_UNBOUND | WQ_SYSFS, 1);
	return turn_wq ? 0 : -ENOMEM;
}

void turn_exit(void)
{
	destroy_workqueue(turn_wq);
}
