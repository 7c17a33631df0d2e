// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctls, which copy the request in and the answer out.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/moduleparam.h>
#include <linux/nospec.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>

#include <linux/twheel.h>

#include "twheel_exchange.h"
#include "twheel_trace.h"
#include "twheel_turn.h"

/*
 * How many operations of a batch, or timers of a list, are processed at a time. If a copy of them
 * faults, they are copied one by one, because on arm64 a large copy can stop up to 16 bytes before
 * the end of the user's memory.
 */
#define GROUP			TIMERS_AHEAD

static_assert(sizeof(struct twheel_setup) == 40);
static_assert(sizeof(struct twheel_info) == 96);
static_assert(sizeof(struct twheel_timer) == 48);
static_assert(sizeof(struct twheel_op) == 56);
static_assert(sizeof(struct twheel_batch) == 16);
static_assert(sizeof(struct twheel_list) == 16);
static_assert(sizeof(struct twheel_event) == 48);
static_assert(sizeof(struct twheel_stats) == 704);
static_assert(sizeof(struct twheel_table) == 64);
static_assert(sizeof(struct twheel_slot) == 16);

static unsigned int max_timers = 1U << 20;
module_param(max_timers, uint, 0644);
MODULE_PARM_DESC(max_timers, "Default for the maximum number of timers in a wheel (default 1048576)");

static unsigned int max_timers_limit = STORE_MAX;
module_param(max_timers_limit, uint, 0644);
MODULE_PARM_DESC(max_timers_limit, "Maximum number of timers that a SETUP may ask for (default, and highest value: 16777216)");

static unsigned int min_tick_ns = 100 * NSEC_PER_USEC;
module_param(min_tick_ns, uint, 0644);
MODULE_PARM_DESC(min_tick_ns, "Minimum tick in ns without CAP_SYS_RESOURCE (default 100000)");

/*
 * Copies the first @size bytes of @op, which are either the whole struct or its timer, without
 * faulting a page in. Because the compiler knows both sizes, this takes 40 instructions less than
 * copy_to_user_inatomic().
 */
static bool copy_answer(void __user *to, const struct twheel_op *op, size_t size)
{
	const void *from = op;

	if (!user_write_access_begin(to, size))
		return false;
	/* No else: on riscv, this macro ends in a semicolon of its own. */
	if (size == sizeof(*op))
		unsafe_copy_to_user(to, from, sizeof(*op), fault);
	if (size != sizeof(*op))
		unsafe_copy_to_user(to, from, sizeof(op->timer), fault);
	user_write_access_end();
	return true;

fault:
	user_write_access_end();
	return false;
}

/*
 * Performs @op, and copies the first @size bytes of its answer to @to. The answer is copied first,
 * under the lock and without page faults, so that an operation whose answer cannot be delivered
 * changes nothing.
 *
 * Return: 0; -ENOMEM: the store needs more room first; -EFAULT: a page has to be faulted in first;
 * -EAGAIN: user space has exchanged the word in the meantime.
 */
static int do_op(struct twheel_file *w, struct twheel_op *op, void __user *to, size_t size,
		 u64 now)
{
	struct timers_answer answer;

	if (!timers_answer(&w->timers, op, &answer, now))
		return -ENOMEM;
	op->result = answer.op.result;
	/* An ioctl on a single timer that fails does not write to its argument. */
	if (op->result && size < sizeof(*op))
		return 0;
	if (!copy_answer(to, &answer.op, size))
		return -EFAULT;
	return timers_commit(&w->timers, &answer, now) ? 0 : -EAGAIN;
}

/* Allocates the buckets, for the first timer. Return: 0, -ENOMEM or -ENOSPC. */
static int make_buckets(struct twheel_file *w)
{
	struct wheel_shape shape;
	bool ours = false;
	size_t bytes;
	void *mem;
	int err;

	spin_lock_bh(&w->lock);
	shape = w->timers.wheel.shape;
	spin_unlock_bh(&w->lock);
	bytes = wheel_bytes(&shape);
	err = quota_charge(&w->pages.bill, bytes);
	if (err)
		return err;
	mem = kvzalloc(bytes, STORE_GFP);
	if (!mem)
		err = -ENOMEM;

	spin_lock_bh(&w->lock);
	/* Another call may have made them meanwhile, or changed the shape. */
	shape = w->timers.wheel.shape;
	if (mem && !w->mem && wheel_bytes(&shape) == bytes) {
		ours = true;
		w->mem = mem;
		wheel_init(&w->timers.wheel, &shape, mem, file_now(w), store_fetch,
			   &w->pages.store);
	}
	spin_unlock_bh(&w->lock);
	if (!ours) {
		kvfree(mem);
		quota_uncharge(&w->pages.bill, bytes);
	}
	return err;
}

/* Makes room for a timer. Return: 0, even if others were faster; or -ENOMEM or -ENOSPC. */
static int make_room(struct twheel_file *w)
{
	return READ_ONCE(w->mem) ? pages_grow(&w->pages) : make_buckets(w);
}

/*
 * Performs operations, each of which gets its own result and answer: see do_op(). May sleep.
 * Return: how many were performed. If that is not all of them, the answer of the next one could not
 * be copied, or a fatal signal arrived.
 */
static unsigned int do_ops(struct twheel_file *w, struct twheel_op *ops, unsigned int nr,
			   void __user *to, size_t size)
{
	struct twheel_op *op = ops, *end = ops + nr;
	unsigned int faults = 0;

	while (!fatal_signal_pending(current)) {
		struct twheel_op *begin = op;
		u64 now = lock_wheel(w);
		int err = 0;

		if (nr > 1)
			timers_prefetch(&w->timers, op, end - op);
		pagefault_disable();
		while (op != end) {
			err = do_op(w, op, to, size, now);
			if (err)
				break;
			op++;
			to += size;
		}
		pagefault_enable();
		unlock_wheel(w, now);
		if (!err)
			break;
		if (op != begin)
			faults = 0;
		if (err == -ENOMEM)
			err = make_room(w);
		if (err == -ENOMEM || err == -ENOSPC) {
			op->result = err;
			if (size == sizeof(*op) && copy_to_user(to, op, sizeof(*op)))
				break;
			op++;
			to += size;
		} else if (err == -EFAULT) {
			if (fault_in_safe_writeable(to, size) || ++faults == COPY_TRIES)
				break;
		}
		cond_resched();
	}
	return op - ops;
}

static long ioctl_timer(struct twheel_file *w, u32 opcode, struct twheel_timer __user *arg)
{
	struct twheel_op op = { .opcode = opcode };

	if (copy_from_user(&op.timer, arg, sizeof(op.timer)) ||
	    !do_ops(w, &op, 1, arg, sizeof(op.timer)))
		return -EFAULT;
	return op.result;
}

static noinline_for_stack long ioctl_batch(struct twheel_file *w,
					   const struct twheel_batch __user *arg)
{
	struct twheel_op ops[GROUP];
	unsigned int group = GROUP;
	struct twheel_op __user *uptr;
	struct twheel_batch batch;
	long done = 0;

	if (copy_from_user(&batch, arg, sizeof(batch)))
		return -EFAULT;
	if (batch.flags || batch.count > TWHEEL_BATCH_MAX)
		return -EINVAL;
	uptr = u64_to_user_ptr(batch.ops);
	while (done < batch.count && !fatal_signal_pending(current)) {
		unsigned int nr = min_t(u32, batch.count - done, group), answered;

		if (copy_from_user(ops, uptr + done, nr * sizeof(*ops))) {
			if (nr == 1)
				return done ?: -EFAULT;
			group = 1;
			continue;
		}
		answered = do_ops(w, ops, nr, uptr + done, sizeof(*ops));
		if (answered < nr)
			return done + answered ?: -EFAULT;
		done += nr;
		cond_resched();
	}
	return done;
}

static noinline_for_stack long ioctl_list(struct twheel_file *w, struct twheel_list __user *arg)
{
	struct twheel_timer timers[GROUP];
	struct twheel_timer __user *uptr;
	struct twheel_list list;
	long done = 0;

	if (copy_from_user(&list, arg, sizeof(list)))
		return -EFAULT;
	uptr = u64_to_user_ptr(list.timers);
	list.count = min_t(u32, list.count, INT_MAX);
	while (done < list.count && !fatal_signal_pending(current)) {
		unsigned int nr = min_t(u32, list.count - done, GROUP);
		unsigned int good;
		int got;

		spin_lock_bh(&w->lock);
		got = timers_list(&w->timers, &list.cursor, timers, nr, TURN_BUDGET);
		spin_unlock_bh(&w->lock);
		if (got < 0)
			break;
		/* One at a time: see GROUP. */
		for (good = 0; good < got; good++)
			if (copy_to_user(uptr + done + good, &timers[good], sizeof(*timers)))
				break;
		done += good;
		if (good < got) {
			/* The next call goes on with the first that did not arrive. */
			list.cursor = (u32)timers[array_index_nospec(good, GROUP)].id;
			if (!done)
				return -EFAULT;
			break;
		}
		cond_resched();
	}
	return put_user(list.cursor, &arg->cursor) ? -EFAULT : done;
}

/*
 * Turns the wheel until all marks and timers that were due when the call began have been
 * processed.
 */
static long ioctl_kick(struct twheel_file *w)
{
	u64 start = lock_wheel(w), now = start;
	long err = 0;

	timers_begin_kick(&w->timers);
	for (;;) {
		u64 expired = w->timers.stats.expired;
		unsigned int left = timers_turn(&w->timers, now, TURN_BUDGET);

		trace_twheel_kick(&w->timers, now, TURN_BUDGET - left,
				  w->timers.stats.expired - expired);
		/* The clock may have been set back meanwhile. */
		if (timers_next(&w->timers) > min(start, now))
			break;
		/* The worker does the rest if a signal comes. */
		if (signal_pending(current)) {
			err = -ERESTARTSYS;
			break;
		}
		/* This call processes the remaining marks, so do not wake the worker for them. */
		w->timers.marked = false;
		unlock_wheel(w, now);
		cond_resched();
		now = lock_wheel(w);
	}
	w->timers.kicks--;
	unlock_wheel(w, now);
	return err;
}

static noinline_for_stack long ioctl_stats(struct twheel_file *w,
					   struct twheel_stats __user *arg)
{
	struct twheel_stats stats;

	spin_lock_bh(&w->lock);
	timers_stats(&w->timers, &stats);
	spin_unlock_bh(&w->lock);
	return copy_to_user(arg, &stats, sizeof(stats)) ? -EFAULT : 0;
}

static long ioctl_info(struct twheel_file *w, struct twheel_info __user *arg)
{
	struct twheel_info info;

	spin_lock_bh(&w->lock);
	timers_info(&w->timers, &info);
	if (exchanges_are_bounded())
		info.table_bytes = store_bytes(w->pages.store.max, PAGE_SIZE);
	else
		info.features = 0;
	info.clock_id = w->clock_id;
	spin_unlock_bh(&w->lock);
	info.min_tick_ns = READ_ONCE(min_tick_ns);
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

/* True if the shape of a wheel is fixed, because it has had a timer, or the table was mapped. */
static bool is_used(const struct twheel_file *w)
{
	lockdep_assert_held(&w->lock);
	return w->pages.store.fresh || w->pages.store.table;
}

/**
 * file_set_up() - shape a wheel before its first timer
 * @w: the wheel
 * @setup: in: the shape that is asked for; out: the shape that the wheel gets
 * @arg: user memory to which the result is copied before anything is changed, or NULL
 *
 * The buckets are allocated with the first timer, so nothing is allocated here.
 *
 * Return: 0 or a negative errno.
 */
int file_set_up(struct twheel_file *w, struct twheel_setup *setup,
		struct twheel_setup __user *arg)
{
	u32 most = max(min(READ_ONCE(max_timers_limit), STORE_MAX), 1U);
	u64 least = READ_ONCE(min_tick_ns);
	u64 wanted_ns = setup->tick_ns;
	struct wheel_shape shape, old;
	void *mem = NULL;
	bool used;
	int err;

	err = timers_check_setup(setup, clamp(READ_ONCE(max_timers), 1U, most), most,
				 max_t(u64, NSEC_PER_MSEC, least), &shape);
	if (err)
		return err;
	if (wanted_ns && wanted_ns < least && !capable(CAP_SYS_RESOURCE))
		return -EPERM;
	/* Refuse a wheel in use before anything is written to @arg. */
	spin_lock_bh(&w->lock);
	used = is_used(w);
	spin_unlock_bh(&w->lock);
	if (used)
		return -EBUSY;
	if (arg && copy_to_user(arg, setup, sizeof(*setup)))
		return -EFAULT;

	spin_lock_bh(&w->lock);
	used = is_used(w);
	if (!used) {
		/* Buckets are there if a REGISTER allocated them and then failed. */
		swap(w->mem, mem);
		old = w->timers.wheel.shape;
		w->pages.store.max = setup->max_timers;
		file_set_clock(w, setup->clock_id);
		wheel_init(&w->timers.wheel, &shape, NULL, file_now(w), store_fetch,
			   &w->pages.store);
	}
	spin_unlock_bh(&w->lock);
	if (mem) {
		kvfree(mem);
		quota_uncharge(&w->pages.bill, wheel_bytes(&old));
	}
	return used ? -EBUSY : 0;
}

static bool changes_wheel(unsigned int cmd)
{
	return cmd == TWHEEL_IOC_SETUP || cmd == TWHEEL_IOC_REGISTER || cmd == TWHEEL_IOC_REARM ||
	       cmd == TWHEEL_IOC_CANCEL || cmd == TWHEEL_IOC_BATCH || cmd == TWHEEL_IOC_KICK;
}

/* See &struct file_operations. */
long twheel_ioctl(struct file *file, unsigned int cmd, unsigned long ptr)
{
	struct twheel_file *w = file->private_data;
	void __user *arg = (void __user *)ptr;
	struct twheel_setup setup;

	if (changes_wheel(cmd) && !(file->f_mode & FMODE_WRITE))
		return -EBADF;
	switch (cmd) {
	case TWHEEL_IOC_SETUP:
		return copy_from_user(&setup, arg, sizeof(setup)) ? -EFAULT :
		       file_set_up(w, &setup, arg);
	case TWHEEL_IOC_INFO:
		return ioctl_info(w, arg);
	case TWHEEL_IOC_REGISTER:
		return ioctl_timer(w, TWHEEL_OP_REGISTER, arg);
	case TWHEEL_IOC_REARM:
		return ioctl_timer(w, TWHEEL_OP_REARM, arg);
	case TWHEEL_IOC_CANCEL:
		return ioctl_timer(w, TWHEEL_OP_CANCEL, arg);
	case TWHEEL_IOC_GET:
		return ioctl_timer(w, TWHEEL_OP_GET, arg);
	case TWHEEL_IOC_BATCH:
		return ioctl_batch(w, arg);
	case TWHEEL_IOC_LIST:
		return ioctl_list(w, arg);
	case TWHEEL_IOC_KICK:
		return ptr ? -EINVAL : ioctl_kick(w);
	case TWHEEL_IOC_STATS:
		return ioctl_stats(w, arg);
	default:
		return -ENOTTY;
	}
}
