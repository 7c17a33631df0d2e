// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/twheel: one open file is one timing wheel.
 *
 *   ioctl ---> verbs --+                        +--> ready list ---> read()
 *                      v                        |        |
 *   mapping --> word --> look <--> the wheel ---+     poll, SIGIO
 *                      ^          (twheel.c)
 *   KICK --------------+      turned by hrtimer, worker
 *
 * Here are the ways in and out: clocks, the lock, what turns the wheel, copies
 * from and to user memory. What happens to a timer is in twheel_timers.c.
 *
 * Lifetime: everything belongs to the open file and is freed by its release,
 * when no call is under way and no mapping is left; the hrtimer and the worker
 * are stopped first. A timer lives from REGISTER to CANCEL, or until the event
 * that ends it is read. Its id is its slot and a generation, looked up anew by
 * each call.
 *
 * Locking:
 *   mmap_lock             of a process that faults on the mapping
 *     twheel_file.mutex   SETUP and the growth of the slots; may sleep
 *       twheel_file.lock  everything that changes after open, see the struct
 *         locks of the wait queues, hrtimers and work queues
 * The lock is taken with softirqs off, because the hrtimer expires in one. It
 * is held for no more than TWHEEL_BUDGET timers at a time: long work drops it
 * in between, and expiry of more than a budget goes on in a worker.
 *
 * User memory is never touched under the mutex, nor under the lock with page
 * faults on. (The words of the table are kernel memory that user space maps.)
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/nsproxy.h>
#include <linux/personality.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/time_namespace.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <linux/twheel.h>

#include "compat.h"
#include "twheel.h"
#include "twheel_slots.h"
#include "twheel_timers.h"

/* Of the range that Documentation/admin-guide/devices.txt leaves to local use. */
#define TWHEEL_MINOR		250

/* Timers touched before the lock is dropped. */
#define TWHEEL_BUDGET		256U
/* Of them, a wheel's in a softirq in any case: few do not wait for the worker. */
#define TWHEEL_SHARE		8U
/* The pause between turns that gives back one of the shared ones: 100 us give all. */
#define TWHEEL_PAUSE_NS		400U
/*
 * Operations of a batch, or timers of a list, done at a time. Where memory ends
 * in the midst of them, one at a time: a copy of many stops up to 16 bytes too
 * early on some architectures (arm64), which may be one more than there is room for.
 */
#define TWHEEL_GROUP		24U
/* Events copied by a read at a time: on the stack, within 2048 bytes under KASAN. */
#define TWHEEL_EVENTS		28U
/* Timers that a read looks at meanwhile, which are no events any more. */
#define TWHEEL_LOOKS_A_READ	(TWHEEL_BUDGET - TWHEEL_EVENTS)

/* Slots looked at by a KICK at a time. */
#define TWHEEL_KICKS		64U

#define TWHEEL_DEFAULT_TICK_NS	NSEC_PER_MSEC
#define TWHEEL_DEFAULT_BITS	6

static_assert(sizeof(struct twheel_setup) == 40);
static_assert(sizeof(struct twheel_info) == 96);
static_assert(sizeof(struct twheel_timer) == 48);
static_assert(sizeof(struct twheel_op) == 56);
static_assert(offsetof(struct twheel_op, opcode) == 48);
static_assert(sizeof(struct twheel_batch) == 16);
static_assert(sizeof(struct twheel_drain) == 16);
static_assert(sizeof(struct twheel_kick) == 16);
static_assert(sizeof(struct twheel_list) == 16);
static_assert(sizeof(struct twheel_event) == 40);
static_assert(sizeof(struct twheel_stats) == 704);
static_assert(sizeof(struct twheel_table) == 32);
static_assert(sizeof(struct twheel_slot) == 16);

/* So they are on two pages at most, and twheel_probe() has seen both. */
static_assert(sizeof(struct twheel_op[TWHEEL_GROUP]) <= PAGE_SIZE);

static unsigned int max_timers = 1U << 20;
module_param(max_timers, uint, 0644);
MODULE_PARM_DESC(max_timers, "Timers that a wheel may hold unless its SETUP says otherwise (default 1048576)");

static unsigned int max_timers_limit = TWHEEL_SLOTS_MAX;
module_param(max_timers_limit, uint, 0644);
MODULE_PARM_DESC(max_timers_limit, "The most timers that a SETUP may ask for (default and at most 16777216)");

static unsigned int min_tick_ns = 100 * NSEC_PER_USEC;
module_param(min_tick_ns, uint, 0644);
MODULE_PARM_DESC(min_tick_ns, "The smallest tick in ns without CAP_SYS_RESOURCE (default 100000)");

/**
 * struct twheel_file - a wheel
 * @lock: protects all below it, unless it says otherwise
 * @timers: the timers
 * @mem: the buckets of their wheel
 * @programmed: when @timer will run, TWHEEL_NEVER if none waits for that; 0 if
 *              the worker sees to it
 * @clock_id: clock of all times here; with @offset, as the opener sees it
 * @offset: what the opener's time namespace adds to the clock
 * @dying: release has begun: program nothing
 * @mutex: serialises SETUP, growth and page faults of the mapping
 * @timer: turns the wheel; takes the lock
 * @work: turns it when more is due than a softirq should do; takes the lock
 * @readers: blocked in read(), each waiting exclusively
 * @pollers: in poll() and epoll
 * @fasync: who gets SIGIO
 * @offset_monotonic: offset of CLOCK_MONOTONIC, fixed at open
 * @offset_boottime: offset of CLOCK_BOOTTIME, fixed at open
 */
struct twheel_file {
	/* Taken with softirqs off; by any context. */
	spinlock_t lock;
	struct twheel_timers timers;
	void *mem;
	u64 programmed;
	clockid_t clock_id;
	u64 offset;
	bool dying;

	/* Outside of the lock; process context. */
	struct mutex mutex;
	struct hrtimer timer;
	struct work_struct work;
	wait_queue_head_t readers;
	wait_queue_head_t pollers;
	struct fasync_struct *fasync;
	u64 offset_monotonic;
	u64 offset_boottime;
};

/*
 * For the work that a softirq must not do, of all wheels, a budget of each in
 * turn. Nobody's control group pays for it, so it has one CPU at most, whatever
 * users do, or one of each NUMA node from Linux 6.9 on; an administrator can say
 * which, and how many, in sysfs.
 */
static struct workqueue_struct *twheel_wq;

/**
 * struct twheel_softirq - what the softirqs of a CPU have done
 * @ended: when the last turn of a wheel did, by CLOCK_MONOTONIC
 * @left: of the budget that wheels share whose turns follow each other
 */
struct twheel_softirq {
	u64 ended;
	unsigned int left;
};

/* Used by softirqs, of which there is one at a time on a CPU. */
static DEFINE_PER_CPU(struct twheel_softirq, twheel_softirq);

/* Time */

/* The time on the wheel's clock, as the process that opened it sees that. */
static u64 twheel_now(const struct twheel_file *w)
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

/* The lock, and what follows from what was done under it */

static u64 twheel_lock(struct twheel_file *w)
	__acquires(&w->lock)
{
	spin_lock_bh(&w->lock);
	return twheel_now(w);
}

/* Whether the clock ever gets to @next, by what the hrtimer counts, which must not wrap. */
static bool twheel_comes(const struct twheel_file *w, u64 next)
{
	lockdep_assert_held(&w->lock);
	return next < KTIME_MAX && next - w->offset < KTIME_MAX;
}

/*
 * Sees to it that the wheel is turned when it must be: by the hrtimer, which
 * is never armed in the past and only moved to an earlier time; or, if that
 * time has come, by the worker.
 */
static void twheel_program(struct twheel_file *w, u64 now)
{
	u64 next = twheel_next(&w->timers.wheel);

	lockdep_assert_held(&w->lock);
	if (next >= w->programmed || w->dying)
		return;
	if (next <= now) {
		queue_work(twheel_wq, &w->work);
		return;
	}
	if (!twheel_comes(w, next))
		return;
	w->programmed = next;
	hrtimer_start(&w->timer, ns_to_ktime(next - w->offset), HRTIMER_MODE_ABS_SOFT);
}

/*
 * Ends what twheel_lock() began at @now. What went out of use is freed, and what
 * became ready is there; now wake.
 */
static void twheel_unlock(struct twheel_file *w, u64 now)
	__releases(&w->lock)
{
	struct twheel_garbage garbage = twheel_slots_garbage(&w->timers.slots);
	bool news = w->timers.news;

	w->timers.news = false;
	twheel_program(w, now);
	spin_unlock_bh(&w->lock);
	twheel_slots_dispose(&garbage);
	if (!news)
		return;
	if (wq_has_sleeper(&w->readers))
		wake_up_interruptible(&w->readers);
	wake_up_interruptible_poll(&w->pollers, EPOLLIN | EPOLLRDNORM);
	kill_fasync(&w->fasync, SIGIO, POLL_IN);
}

/*
 * From within the hrtimer, which fired at what @w->programmed says: to be restarted
 * costs less than to be started by twheel_program(), to which all else is left. It
 * is queued already if somebody moved it to an earlier time since it fired, by a
 * clock set back, or by a reading of the clock that had grown old.
 *
 * A clock set back since it fired must not be waited for on this CPU: the softirq
 * goes by what the clock was when it began, and would run the hrtimer again until
 * the clock is there. The worker starts it when the softirq is done with it.
 */
static enum hrtimer_restart twheel_restart(struct twheel_file *w, u64 now)
{
	u64 next = twheel_next(&w->timers.wheel);
	bool back = w->programmed != TWHEEL_NEVER && now < w->programmed;

	lockdep_assert_held(&w->lock);
	w->programmed = TWHEEL_NEVER;
	if (next <= now || w->dying || !twheel_comes(w, next))
		return HRTIMER_NORESTART;
	if (back) {
		w->programmed = 0;
		queue_work(twheel_wq, &w->work);
		return HRTIMER_NORESTART;
	}
	if (hrtimer_is_queued(&w->timer))
		return HRTIMER_NORESTART;
	w->programmed = next;
	hrtimer_set_expires(&w->timer, ns_to_ktime(next - w->offset));
	return HRTIMER_RESTART;
}

/*
 * One softirq runs all hrtimers of the CPU that are due. So that many wheels at
 * one instant do not make it longer than one would, their turns share a budget,
 * which pauses between them refill; what is beyond it, or a wheel's share, the
 * worker does.
 */
static enum hrtimer_restart twheel_timer(struct hrtimer *timer)
{
	struct twheel_file *w = container_of(timer, struct twheel_file, timer);
	struct twheel_softirq *softirq = this_cpu_ptr(&twheel_softirq);
	u64 refill = (ktime_get_ns() - softirq->ended) / TWHEEL_PAUSE_NS;
	enum hrtimer_restart restart;
	unsigned int budget, touched;
	u64 now;

	softirq->left = min_t(u64, TWHEEL_BUDGET, softirq->left + refill);
	budget = max(softirq->left, TWHEEL_SHARE);

	now = twheel_lock(w);
	w->timers.stats.wakeups++;
	touched = budget - twheel_run(&w->timers, now, budget);
	restart = twheel_restart(w, now);
	twheel_unlock(w, now);

	softirq->left -= min(touched, softirq->left);
	softirq->ended = ktime_get_ns();
	return restart;
}

static void twheel_work(struct work_struct *work)
{
	struct twheel_file *w = container_of(work, struct twheel_file, work);
	u64 now = twheel_lock(w);

	if (!w->programmed) {
		/* What is started while it runs stays with its softirq. */
		spin_unlock_bh(&w->lock);
		hrtimer_cancel(&w->timer);
		now = twheel_lock(w);
		w->programmed = TWHEEL_NEVER;
	}
	w->timers.stats.wakeups++;
	twheel_run(&w->timers, now, TWHEEL_BUDGET);
	/* If more is due this queues the work again, behind that of others. */
	twheel_unlock(w, now);
}

/* Does up to TWHEEL_GROUP operations, each with its own result. May sleep. */
static void twheel_exec(struct twheel_file *w, struct twheel_op *ops, unsigned int nr)
{
	unsigned int done = 0;

	while (done < nr) {
		u64 now = twheel_lock(w);
		int err;

		done += twheel_apply(&w->timers, ops + done, nr - done, now);
		twheel_unlock(w, now);
		if (done == nr)
			break;
		mutex_lock(&w->mutex);
		err = twheel_slots_grow(&w->timers.slots, &w->lock);
		mutex_unlock(&w->mutex);
		if (err)
			ops[done++].result = err;
	}
}

/* ioctl */

/* A pointer that came as __u64; what does not fit is a bad one. */
static void __user *twheel_user_ptr(u64 address)
{
	return (void __user *)(uintptr_t)min_t(u64, address, ULONG_MAX);
}

/*
 * Can the answer be written? Asked before anything is done, so that a bad
 * pointer changes nothing: puts the first and the last byte of @value, which
 * was read from @arg, back where they were. They may be on two pages.
 */
static int twheel_probe(void __user *arg, const void *value, size_t size)
{
	const u8 *bytes = value;
	u8 __user *at = arg;

	if (put_user(bytes[0], at) || put_user(bytes[size - 1], at + size - 1))
		return -EFAULT;
	return 0;
}

/*
 * The answers could not be written after all, because somebody has unmapped
 * them since: ends the timers that were made, as nobody knows their ids.
 */
static void twheel_forget(struct twheel_file *w, struct twheel_op *ops, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		if (ops[i].opcode != TWHEEL_OP_REGISTER || ops[i].result)
			continue;
		ops[i].opcode = TWHEEL_OP_CANCEL;
		twheel_exec(w, &ops[i], 1);
	}
}

static long twheel_ioctl_timer(struct twheel_file *w, u32 opcode,
			       struct twheel_timer __user *arg)
{
	struct twheel_op op = { .opcode = opcode };

	if (copy_from_user(&op.timer, arg, sizeof(op.timer)) ||
	    twheel_probe(arg, &op.timer, sizeof(op.timer)))
		return -EFAULT;
	twheel_exec(w, &op, 1);
	if (op.result)
		return op.result;
	if (!copy_to_user(arg, &op.timer, sizeof(op.timer)))
		return 0;
	twheel_forget(w, &op, 1);
	return -EFAULT;
}

static noinline_for_stack long
twheel_ioctl_batch(struct twheel_file *w, const struct twheel_batch __user *arg)
{
	struct twheel_op ops[TWHEEL_GROUP] __uninitialized;
	unsigned int group = TWHEEL_GROUP;
	struct twheel_op __user *uptr;
	struct twheel_batch batch;
	long done = 0;

	if (copy_from_user(&batch, arg, sizeof(batch)))
		return -EFAULT;
	if (batch.flags || batch.count > TWHEEL_BATCH_MAX)
		return -EINVAL;
	uptr = twheel_user_ptr(batch.ops);
	while (done < batch.count) {
		unsigned int nr = min_t(u32, batch.count - done, group);
		size_t size = nr * sizeof(*ops);
		unsigned int good;

		/* Whole operations that can be read, and written back. */
		size -= copy_from_user(ops, uptr + done, size);
		size = rounddown(size, sizeof(*ops));
		if (size && twheel_probe(uptr + done, ops, size))
			size -= copy_to_user(uptr + done, ops, size);
		good = size / sizeof(*ops);
		twheel_exec(w, ops, good);
		if (copy_to_user(uptr + done, ops, good * sizeof(*ops))) {
			twheel_forget(w, ops, good);
			return done ?: -EFAULT;
		}
		done += good;
		if (good < nr && nr == 1)
			return done ?: -EFAULT;
		if (good < nr)
			group = 1;
		if (fatal_signal_pending(current))
			break;
		cond_resched();
	}
	return done;
}

/*
 * What was due before a call comes before what the call makes readable. May sleep,
 * and where timers go round a wheel that has no time for them all, take minutes.
 *
 * Return: 0; -ERESTARTNOINTR for a signal, which the call has done nothing before.
 */
static int twheel_run_due(struct twheel_file *w)
{
	u64 start = 0, now;
	bool due;

	do {
		now = twheel_lock(w);
		start = start ?: now;
		twheel_run(&w->timers, now, TWHEEL_BUDGET);
		/* The clock may have been set back meanwhile. */
		due = twheel_due(&w->timers.wheel, min(start, now));
		twheel_unlock(w, now);
		cond_resched();
	} while (due && !signal_pending(current));
	return due ? -ERESTARTNOINTR : 0;
}

static long twheel_ioctl_drain(struct twheel_file *w, struct twheel_drain __user *arg)
{
	struct twheel_drain drain;
	u32 chunk = 0;
	int err;

	if (copy_from_user(&drain, arg, sizeof(drain)) ||
	    twheel_probe(arg, &drain, sizeof(drain)))
		return -EFAULT;
	if (drain.reserved ||
	    (drain.mode != TWHEEL_DRAIN_EXPIRE && drain.mode != TWHEEL_DRAIN_CANCEL))
		return -EINVAL;
	drain.count = 0;
	if (drain.mode == TWHEEL_DRAIN_EXPIRE) {
		err = twheel_run_due(w);
		if (err)
			return err;
	}
	do {
		u64 now = twheel_lock(w);

		drain.count += twheel_drain(&w->timers, &chunk, drain.mode, now);
		twheel_unlock(w, now);
		cond_resched();
	} while (chunk != U32_MAX && !fatal_signal_pending(current));
	if (put_user(drain.count, &arg->count))
		return -EFAULT;
	return drain.count;
}

static noinline_for_stack long
twheel_ioctl_list(struct twheel_file *w, struct twheel_list __user *arg)
{
	struct twheel_timer timers[TWHEEL_GROUP];
	struct twheel_timer __user *uptr;
	unsigned int group = TWHEEL_GROUP;
	struct twheel_list list;
	unsigned int done = 0;
	size_t left = 0;

	if (copy_from_user(&list, arg, sizeof(list)) ||
	    twheel_probe(arg, &list, sizeof(list)))
		return -EFAULT;
	uptr = twheel_user_ptr(list.timers);
	list.count = min_t(u32, list.count, INT_MAX);
	while (done < list.count && !fatal_signal_pending(current)) {
		unsigned int nr = min(list.count - done, group);
		int got;

		spin_lock_bh(&w->lock);
		got = twheel_list(&w->timers, &list.cursor, timers, nr, TWHEEL_BUDGET);
		spin_unlock_bh(&w->lock);
		if (got < 0) {
			left = 0;
			break;
		}
		left = copy_to_user(uptr + done, timers, got * sizeof(*timers));
		if (left) {
			got -= DIV_ROUND_UP(left, sizeof(*timers));
			/* To go on with the first that did not arrive. */
			list.cursor = (u32)timers[got].id;
		}
		done += got;
		if (left && nr == 1)
			break;
		if (left)
			group = 1;
		cond_resched();
	}
	if (put_user(list.cursor, &arg->cursor) || (left && !done))
		return -EFAULT;
	return done;
}

static noinline_for_stack long
twheel_ioctl_kick(struct twheel_file *w, const struct twheel_kick __user *arg)
{
	u32 slots[TWHEEL_KICKS];
	struct twheel_kick kick;
	unsigned int group = TWHEEL_KICKS;
	unsigned int done = 0;
	u32 __user *uptr;
	long looked = 0;

	if (copy_from_user(&kick, arg, sizeof(kick)))
		return -EFAULT;
	if (kick.flags || kick.count > INT_MAX)
		return -EINVAL;
	uptr = twheel_user_ptr(kick.slots);
	while (done < kick.count && !fatal_signal_pending(current)) {
		unsigned int nr = min(kick.count - done, group);
		unsigned int good, i;
		u64 now;

		good = nr - DIV_ROUND_UP(copy_from_user(slots, uptr + done, nr * sizeof(*slots)),
					 sizeof(*slots));
		if (good < nr && nr == 1)
			return done ? looked : -EFAULT;
		if (good < nr)
			group = 1;
		now = twheel_lock(w);
		/* What has come due goes first, as with the other door. */
		twheel_run(&w->timers, now, TWHEEL_KICKS);
		for (i = 0; i < good; i++)
			looked += twheel_kick(&w->timers, slots[i], now);
		twheel_unlock(w, now);
		done += good;
		cond_resched();
	}
	return looked;
}

static noinline_for_stack long
twheel_ioctl_stats(struct twheel_file *w, struct twheel_stats __user *arg)
{
	struct twheel_stats stats;

	spin_lock_bh(&w->lock);
	twheel_stats(&w->timers, &stats);
	spin_unlock_bh(&w->lock);
	return copy_to_user(arg, &stats, sizeof(stats)) ? -EFAULT : 0;
}

static long twheel_ioctl_info(struct twheel_file *w, struct twheel_info __user *arg)
{
	struct twheel_info info = {
		.features = TWHEEL_FEATURE_TABLE,
		.min_tick_ns = READ_ONCE(min_tick_ns),
	};

	spin_lock_bh(&w->lock);
	info.tick_ns = twheel_tick_ns(&w->timers);
	info.horizon_ns = twheel_horizon(&w->timers.wheel.shape);
	info.table_bytes = twheel_slots_bytes(&w->timers.slots);
	info.clock_id = w->clock_id;
	info.max_timers = w->timers.slots.max;
	info.levels = w->timers.wheel.shape.levels;
	info.slot_bits = w->timers.wheel.shape.slot_bits;
	spin_unlock_bh(&w->lock);
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

/* Fills in the defaults and checks the rest. Return: 0, -EINVAL or -EPERM. */
static int twheel_setup_check(struct twheel_setup *setup)
{
	u32 limit = min(READ_ONCE(max_timers_limit), TWHEEL_SLOTS_MAX);
	u64 least = READ_ONCE(min_tick_ns);

	if ((setup->flags & ~TWHEEL_SETUP_REALTIME) ||
	    memchr_inv(setup->reserved, 0, sizeof(setup->reserved)))
		return -EINVAL;

	if (setup->flags & TWHEEL_SETUP_REALTIME) {
		if (setup->clock_id != CLOCK_REALTIME)
			return -EINVAL;
	} else if (!setup->clock_id) {
		setup->clock_id = CLOCK_MONOTONIC;
	} else if (setup->clock_id != CLOCK_MONOTONIC &&
		   setup->clock_id != CLOCK_BOOTTIME && setup->clock_id != CLOCK_TAI) {
		return -EINVAL;
	}

	if (!setup->max_timers)
		setup->max_timers = clamp(READ_ONCE(max_timers), 1U, max(limit, 1U));
	else if (setup->max_timers > limit)
		return -EINVAL;

	if (!setup->slot_bits)
		setup->slot_bits = TWHEEL_DEFAULT_BITS;
	if (setup->slot_bits < TWHEEL_MIN_SLOT_BITS ||
	    setup->slot_bits > TWHEEL_MAX_SLOT_BITS || setup->levels > TWHEEL_MAX_LEVELS)
		return -EINVAL;

	if (!setup->tick_ns)
		setup->tick_ns = max_t(u64, TWHEEL_DEFAULT_TICK_NS, least);
	if (setup->tick_ns < least && !capable(CAP_SYS_RESOURCE))
		return -EPERM;
	return 0;
}

/*
 * Gives the wheel the shape that @setup asks for, which twheel_setup_check()
 * has passed, and says in it what it really is. For a wheel without timers.
 * Return: 0, -ENOMEM, or -EBUSY.
 */
static int twheel_shape(struct twheel_file *w, struct twheel_setup *setup)
{
	struct twheel_shape shape = {
		.shift = fls64(setup->tick_ns) - 1,
		.slot_bits = setup->slot_bits,
	};
	unsigned int most = twheel_max_levels(shape.shift, shape.slot_bits);
	struct twheel_slots slots;
	int err = -ENOMEM;
	void *mem;
	bool used;

	/* What is refused in any case is not refused for want of memory. */
	spin_lock_bh(&w->lock);
	used = w->timers.used;
	spin_unlock_bh(&w->lock);
	if (used)
		return -EBUSY;

	shape.levels = min(setup->levels ?: most, most);
	mem = kvzalloc(twheel_bytes(&shape), TWHEEL_GFP);
	if (!mem)
		return err;
	err = twheel_slots_init(&slots, setup->max_timers);
	if (err)
		goto free_mem;

	mutex_lock(&w->mutex);
	spin_lock_bh(&w->lock);
	err = -EBUSY;
	if (!w->timers.used) {
		swap(w->mem, mem);
		swap(w->timers.slots, slots);
		twheel_slots_adopt(&w->timers.slots);
		w->timers.slots.lock = &w->lock;
		w->timers.slots.mutex = &w->mutex;
		w->clock_id = setup->clock_id;
		w->offset = 0;
		if (w->clock_id == CLOCK_MONOTONIC)
			w->offset = w->offset_monotonic;
		else if (w->clock_id == CLOCK_BOOTTIME)
			w->offset = w->offset_boottime;
		/* No timer has been made, so the hrtimer was never started. */
		hrtimer_setup(&w->timer, twheel_timer, w->clock_id, HRTIMER_MODE_ABS_SOFT);
		twheel_init(&w->timers.wheel, &shape, w->mem, twheel_now(w));
		err = 0;
	}
	spin_unlock_bh(&w->lock);
	mutex_unlock(&w->mutex);

	setup->tick_ns = 1ULL << shape.shift;
	setup->levels = shape.levels;
	twheel_slots_free(&slots);
free_mem:
	kvfree(mem);
	return err;
}

static long twheel_ioctl_setup(struct twheel_file *w, struct twheel_setup __user *arg)
{
	struct twheel_setup setup;
	int err;

	if (copy_from_user(&setup, arg, sizeof(setup)) ||
	    twheel_probe(arg, &setup, sizeof(setup)))
		return -EFAULT;
	err = twheel_setup_check(&setup);
	if (!err)
		err = twheel_shape(w, &setup);
	if (err)
		return err;
	return copy_to_user(arg, &setup, sizeof(setup)) ? -EFAULT : 0;
}

static long twheel_ioctl(struct file *file, unsigned int cmd, unsigned long ptr)
{
	struct twheel_file *w = file->private_data;
	void __user *arg = (void __user *)ptr;

	switch (cmd) {
	case TWHEEL_IOC_SETUP:
		return twheel_ioctl_setup(w, arg);
	case TWHEEL_IOC_INFO:
		return twheel_ioctl_info(w, arg);
	case TWHEEL_IOC_REGISTER:
		return twheel_ioctl_timer(w, TWHEEL_OP_REGISTER, arg);
	case TWHEEL_IOC_REARM:
		return twheel_ioctl_timer(w, TWHEEL_OP_REARM, arg);
	case TWHEEL_IOC_CANCEL:
		return twheel_ioctl_timer(w, TWHEEL_OP_CANCEL, arg);
	case TWHEEL_IOC_GET:
		return twheel_ioctl_timer(w, TWHEEL_OP_GET, arg);
	case TWHEEL_IOC_BATCH:
		return twheel_ioctl_batch(w, arg);
	case TWHEEL_IOC_DRAIN:
		return twheel_ioctl_drain(w, arg);
	case TWHEEL_IOC_LIST:
		return twheel_ioctl_list(w, arg);
	case TWHEEL_IOC_KICK:
		return twheel_ioctl_kick(w, arg);
	case TWHEEL_IOC_STATS:
		return twheel_ioctl_stats(w, arg);
	default:
		return -ENOTTY;
	}
}

/* read and poll */

/*
 * Copies up to @max events, of %TWHEEL_EVENTS at most, to @to and consumes those
 * that were copied whole. All under the lock and without page faults, so that to
 * everybody else an event is either unread or delivered: a CANCEL meanwhile knows
 * which. @unread: out: how many there were before.
 *
 * Return: how many were delivered; -EAGAIN if none is ready, or none of those that
 * were looked at was an event any more; -EFAULT if the user's page has to be brought
 * in first.
 */
static int twheel_deliver(struct twheel_file *w, struct iov_iter *to, unsigned int max,
			  u64 *unread)
{
	struct twheel_event events[TWHEEL_EVENTS] __uninitialized;
	struct twheel_claimed claimed[TWHEEL_EVENTS] __uninitialized;
	size_t room = iov_iter_count(to) / sizeof(*events);
	unsigned int nr, good;
	size_t copied;
	u64 now;

	now = twheel_lock(w);
	*unread = w->timers.stats.unread;
	nr = twheel_claim(&w->timers, claimed, events, min_t(size_t, room, max),
			  TWHEEL_LOOKS_A_READ, now);
	pagefault_disable();
	copied = copy_to_iter(events, nr * sizeof(*events), to);
	pagefault_enable();
	good = copied / sizeof(*events);
	iov_iter_revert(to, copied % sizeof(*events));
	twheel_settle(&w->timers, claimed, nr, good, now);
	twheel_unlock(w, now);
	if (good)
		return good;
	return nr ? -EFAULT : -EAGAIN;
}

/*
 * Brings in the user's page of the next event, by a store where the event will
 * be: what can be faulted in is not always what a store is let through to (a
 * shadow stack; memory with another tag). May sleep. Return: whether there is room.
 */
static bool twheel_make_room(struct iov_iter *to)
{
	static const struct twheel_event nothing;
	size_t copied = copy_to_iter(&nothing, sizeof(nothing), to);

	iov_iter_revert(to, copied);
	return copied == sizeof(nothing);
}

/* One reader is woken for all that has expired: if something is left, another comes. */
static void twheel_hand_on(struct twheel_file *w)
{
	if (!hlist_empty(&w->timers.ready) && wq_has_sleeper(&w->readers))
		wake_up_interruptible(&w->readers);
}

static ssize_t twheel_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct file *file = iocb->ki_filp;
	struct twheel_file *w = file->private_data;
	bool nowait = (file->f_flags & O_NONBLOCK) || (iocb->ki_flags & IOCB_NOWAIT);
	unsigned int max = TWHEEL_EVENTS;
	u64 vain = 0, turns = 0, unread;
	ssize_t done = 0;
	int ret;

	if (iov_iter_count(to) < sizeof(struct twheel_event))
		return -EINVAL;
	for (;;) {
		ret = twheel_deliver(w, to, max, &unread);
		if (ret > 0) {
			done += ret * sizeof(struct twheel_event);
			max = TWHEEL_EVENTS;
			vain = 0;
			if (iov_iter_count(to) < sizeof(struct twheel_event) ||
			    hlist_empty(&w->timers.ready) || fatal_signal_pending(current))
				break;
			cond_resched();
			continue;
		}
		if (ret == -EFAULT) {
			/* Nobody else is to wait for a page of this one's. */
			twheel_hand_on(w);
			if (!twheel_make_room(to))
				break;
			/* No signal is heeded for one fault, but for those without end. */
			if (max > 1) {
				/* With more, the copy may not get that far. */
				max = 1;
				continue;
			}
			if (signal_pending(current)) {
				ret = -ERESTARTSYS;
				break;
			}
			cond_resched();
			continue;
		}
		/*
		 * None of those looked at was an event any more. Another may be, so go on
		 * until each that was there has had its look, whatever signals come. Words
		 * that never rest are looked at for ever by those only who wait.
		 */
		if (!vain++)
			turns = unread / TWHEEL_LOOKS_A_READ + 1;
		if (!hlist_empty(&w->timers.ready) && (vain <= turns || !(done || nowait))) {
			if (vain <= turns ? fatal_signal_pending(current) :
					    signal_pending(current)) {
				ret = -ERESTARTSYS;
				break;
			}
			cond_resched();
			continue;
		}
		if (done || nowait)
			break;
		ret = wait_event_interruptible_exclusive(w->readers,
							 !hlist_empty(&w->timers.ready));
		if (ret)
			break;
	}

	twheel_hand_on(w);
	return done ?: ret;
}

static __poll_t twheel_poll(struct file *file, poll_table *wait)
{
	struct twheel_file *w = file->private_data;
	u64 rounds = 0, now;
	int ret;

	poll_wait(file, &w->pollers, wait);
	/*
	 *   here                              twheel_unlock()
	 *   add to pollers (its lock)         add to ready (our lock)
	 *   is ready empty?                   wake pollers (its lock)
	 *
	 * If the wake-up came before we were added, its lock has made ready
	 * visible to us. We cannot have missed both.
	 */
	do {
		if (hlist_empty(&w->timers.ready))
			return 0;
		now = twheel_lock(w);
		/* All that are there now: whose words never rest may well have an event. */
		if (!rounds)
			rounds = w->timers.stats.unread / TWHEEL_BUDGET + 1;
		ret = twheel_readable(&w->timers, TWHEEL_BUDGET, now);
		twheel_unlock(w, now);
		cond_resched();
	} while (ret == -EAGAIN && --rounds && !fatal_signal_pending(current));
	return ret ? EPOLLIN | EPOLLRDNORM : 0;
}

static int twheel_fasync(int fd, struct file *file, int on)
{
	struct twheel_file *w = file->private_data;

	return fasync_helper(fd, file, on, &w->fasync);
}

/* The mapping */

static vm_fault_t twheel_fault(struct vm_fault *vmf)
{
	struct twheel_file *w = vmf->vma->vm_private_data;
	struct twheel_table *header;
	struct page *page;

	mutex_lock(&w->mutex);
	page = twheel_slots_page(&w->timers.slots, vmf->pgoff);
	if (!IS_ERR_OR_NULL(page)) {
		get_page(page);
		vmf->page = page;
	}
	if (!vmf->pgoff && !IS_ERR_OR_NULL(page)) {
		/* User space may have written to it; others read it meanwhile. */
		header = page_address(page);
		WRITE_ONCE(header->magic, TWHEEL_TABLE_MAGIC);
		WRITE_ONCE(header->slots_offset, PAGE_SIZE);
		WRITE_ONCE(header->slot_size, sizeof(struct twheel_slot));
		WRITE_ONCE(header->slots, w->timers.slots.max);
		WRITE_ONCE(header->tick_ns, twheel_tick_ns(&w->timers));
		WRITE_ONCE(header->clock_id, w->clock_id);
		WRITE_ONCE(header->features, TWHEEL_FEATURE_TABLE);
	}
	mutex_unlock(&w->mutex);
	/* Not VM_FAULT_OOM: nothing would be killed, and it would fault for ever. */
	return IS_ERR_OR_NULL(page) ? VM_FAULT_SIGBUS : 0;
}

static const struct vm_operations_struct twheel_vm_ops = {
	.fault	= twheel_fault,
};

/*
 * The whole table or nothing, shared, from the start. It can be inherited and
 * moved, but neither grow nor be executed. For a process that has all executable
 * that it can read, as old 32-bit ones do, nobody has asked for that. The mapping
 * holds the file, so the pages stay as long as it does.
 */
static int twheel_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct twheel_file *w = file->private_data;
	u64 bytes;

	if ((vma->vm_flags & VM_EXEC) && !(current->personality & READ_IMPLIES_EXEC))
		return -EPERM;
	/* Of a read-only descriptor VM_SHARED is not set. */
	if (!(vma->vm_flags & VM_MAYSHARE) || vma->vm_pgoff)
		return -EINVAL;
	spin_lock_bh(&w->lock);
	bytes = twheel_slots_bytes(&w->timers.slots);
	/* From here on the shape is fixed, and pages stay where they are. */
	if (vma->vm_end - vma->vm_start == bytes) {
		w->timers.used = true;
		w->timers.slots.mapped = true;
	}
	spin_unlock_bh(&w->lock);
	if (vma->vm_end - vma->vm_start != bytes)
		return -EINVAL;
	vm_flags_clear(vma, VM_EXEC | VM_MAYEXEC);
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = w;
	vma->vm_ops = &twheel_vm_ops;
	return 0;
}

/* open, close, and what one sees in /proc/PID/fdinfo */

static void twheel_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct twheel_file *w = file->private_data;
	struct twheel_stats stats;
	clockid_t clock_id;
	u64 tick_ns, next;
	u32 max;

	spin_lock_bh(&w->lock);
	twheel_stats(&w->timers, &stats);
	clock_id = w->clock_id;
	tick_ns = twheel_tick_ns(&w->timers);
	next = twheel_next(&w->timers.wheel);
	max = w->timers.slots.max;
	spin_unlock_bh(&w->lock);

	seq_printf(m, "twheel-clock:\t%d\n", clock_id);
	seq_printf(m, "twheel-tick-ns:\t%llu\n", tick_ns);
	seq_printf(m, "twheel-max:\t%u\n", max);
	seq_printf(m, "twheel-timers:\t%llu\n", stats.allocated);
	seq_printf(m, "twheel-armed:\t%llu\n", stats.armed);
	seq_printf(m, "twheel-unread:\t%llu\n", stats.unread);
	seq_printf(m, "twheel-expired:\t%llu\n", stats.expired);
	if (next == TWHEEL_NEVER)
		seq_puts(m, "twheel-next:\tnever\n");
	else
		seq_printf(m, "twheel-next:\t%llu\n", next);
}

static int twheel_open(struct inode *inode, struct file *file)
{
	struct twheel_setup setup = {};
	struct twheel_file *w;
	int err;

	w = kzalloc(sizeof(*w), TWHEEL_GFP);
	if (!w)
		return -ENOMEM;
	spin_lock_init(&w->lock);
	mutex_init(&w->mutex);
	twheel_ready_init(&w->timers);
	INIT_WORK(&w->work, twheel_work);
	init_waitqueue_head(&w->readers);
	init_waitqueue_head(&w->pollers);
	w->programmed = TWHEEL_NEVER;
#ifdef CONFIG_TIME_NS
	w->offset_monotonic = timespec64_to_ns(&current->nsproxy->time_ns->offsets.monotonic);
	w->offset_boottime = timespec64_to_ns(&current->nsproxy->time_ns->offsets.boottime);
#endif

	err = twheel_setup_check(&setup);
	if (!err)
		err = twheel_shape(w, &setup);
	if (err) {
		kfree(w);
		return err;
	}
	file->private_data = w;
	/* A read that would block says so: io_uring then polls. */
	file->f_mode |= FMODE_NOWAIT;
	return stream_open(inode, file);
}

static int twheel_release(struct inode *inode, struct file *file)
{
	struct twheel_file *w = file->private_data;

	/*
	 * From here on neither of the two decides to start the other, or itself; a
	 * restart that was decided before is undone with the hrtimer.
	 */
	spin_lock_bh(&w->lock);
	w->dying = true;
	spin_unlock_bh(&w->lock);
	hrtimer_cancel(&w->timer);
	cancel_work_sync(&w->work);

	twheel_slots_free(&w->timers.slots);
	kvfree(w->mem);
	kfree(w);
	return 0;
}

static const struct file_operations twheel_fops = {
	.owner		= THIS_MODULE,
	.open		= twheel_open,
	.release	= twheel_release,
	.read_iter	= twheel_read_iter,
	.poll		= twheel_poll,
	.mmap		= twheel_mmap,
	.fasync		= twheel_fasync,
	.unlocked_ioctl	= twheel_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= twheel_show_fdinfo,
};

static struct miscdevice twheel_misc = {
	.minor	= TWHEEL_MINOR,
	.name	= "twheel",
	.fops	= &twheel_fops,
	/* Anybody's: what a wheel costs is bounded, and charged to its users. */
	.mode	= 0666,
};

static int __init twheel_module_init(void)
{
	int err;

	twheel_wq = alloc_workqueue("twheel", WQ_UNBOUND | WQ_SYSFS, 1);
	if (!twheel_wq)
		return -ENOMEM;
	err = misc_register(&twheel_misc);
	if (err == -EBUSY) {
		twheel_misc.minor = MISC_DYNAMIC_MINOR;
		err = misc_register(&twheel_misc);
		if (!err)
			pr_info("minor %d is taken, using %d; the module will not load on open\n",
				TWHEEL_MINOR, twheel_misc.minor);
	}
	if (err)
		destroy_workqueue(twheel_wq);
	return err;
}
module_init(twheel_module_init);

static void __exit twheel_module_exit(void)
{
	misc_deregister(&twheel_misc);
	destroy_workqueue(twheel_wq);
}
module_exit(twheel_module_exit);

MODULE_LICENSE("GPL");
MODULE_AUTHOR("twheel contributors");
MODULE_DESCRIPTION("A timing wheel as a character device, for very many timeouts");
MODULE_VERSION("0.1.0");
MODULE_ALIAS_MISCDEV(TWHEEL_MINOR);
MODULE_ALIAS("devname:twheel");
