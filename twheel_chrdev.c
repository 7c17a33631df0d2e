// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/twheel: one open file is one timing wheel.
 *
 *   twheel_chrdev.c   open, ioctl, read, poll, mmap, fdinfo: copies, errnos
 *        |  file_begin(), file_finish()
 *   twheel_turn.c     what turns a wheel: clock, lock, hrtimer, worker
 *        |  timers_*(), handed the time
 *   twheel_timers.c   the turn, the verbs, the events
 *        |
 *   twheel_word.c     one timer and its word: reconcile()
 *        |                     |
 *   twheel.c  the wheel   twheel_store.c  timers, words and marks by slot
 *
 * An arrow means "may call". This file is the only one that knows user memory.
 *
 * Lifetime: everything belongs to the open file and is freed by its release, when no call
 * and no mapping is left. A timer lives from REGISTER to CANCEL, or until the event that
 * ends it is read. Each call looks its id up anew.
 *
 * Locking:
 *   mmap_lock             of a process that faults on the mapping
 *     pages.mutex         the growth of the store; may sleep
 *       twheel_file.lock  everything that changes after open, see the struct
 *         locks of the wait queues, hrtimers and work queues
 * The lock is held for no more than TURN_BUDGET timers at a time. User memory is never
 * touched under the mutex, nor under the lock with page faults on.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/nospec.h>
#include <linux/pagemap.h>
#include <linux/personality.h>
#include <linux/poll.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/time_namespace.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/xarray.h>

#include <linux/twheel.h>

#include "compat.h"
#include "twheel_turn.h"

/* Documentation/admin-guide/devices.txt leaves this to local use. */
#define TWHEEL_MINOR		250

/*
 * Operations of a batch, or timers of a list, done at a time. Where memory ends in the
 * midst of them, one at a time: on arm64 a copy of many stops up to 16 bytes too early.
 */
#define GROUP			24U
/* Events copied by a read at a time: on the stack, within 2048 bytes under KASAN. */
#define EVENTS			28U
/* Slots of a KICK that are copied at a time. */
#define KICKS			64U
/* Tries to copy one event or answer out before its page counts as bad. */
#define COPY_TRIES		16

static_assert(sizeof(struct twheel_setup) == 40);
static_assert(sizeof(struct twheel_info) == 96);
static_assert(sizeof(struct twheel_timer) == 48);
static_assert(sizeof(struct twheel_op) == 56);
static_assert(sizeof(struct twheel_batch) == 16);
static_assert(sizeof(struct twheel_drain) == 16);
static_assert(sizeof(struct twheel_kick) == 16);
static_assert(sizeof(struct twheel_list) == 16);
static_assert(sizeof(struct twheel_event) == 40);
static_assert(sizeof(struct twheel_stats) == 704);
static_assert(sizeof(struct twheel_table) == 64);
static_assert(sizeof(struct twheel_slot) == 16);

static unsigned int max_timers = 1U << 20;
module_param(max_timers, uint, 0644);
MODULE_PARM_DESC(max_timers, "Timers that a wheel may hold unless its SETUP says otherwise (default 1048576)");

static unsigned int max_timers_limit = STORE_MAX;
module_param(max_timers_limit, uint, 0644);
MODULE_PARM_DESC(max_timers_limit, "The most timers that a SETUP may ask for (default and at most 16777216)");

static unsigned int min_tick_ns = 100 * NSEC_PER_USEC;
module_param(min_tick_ns, uint, 0644);
MODULE_PARM_DESC(min_tick_ns, "The smallest tick in ns without CAP_SYS_RESOURCE (default 100000)");

/*
 * The open wheels by their numbers. These are drawn by lot, because a series would tell
 * each container how many wheels the others open. An IDA loses memory where it finds none.
 */
static DEFINE_XARRAY_FLAGS(wheels, XA_FLAGS_ALLOC | XA_FLAGS_ACCOUNT);
#define WHEEL_ID_BITS		20

/* ioctl */

/*
 * Does @op, and copies the first @size bytes of its answer to @to. That comes first, under
 * the lock and without page faults: what cannot be answered changes nothing.
 *
 * Return: 0; -ENOMEM: it needs more room; -EFAULT: a page has to be brought in; -EAGAIN:
 * the word was exchanged meanwhile.
 */
static int do_op(struct twheel_file *w, struct twheel_op *op, void __user *to, size_t size,
		 u64 now)
{
	struct timers_plan plan;

	if (!timers_plan(&w->timers, op, &plan, now))
		return -ENOMEM;
	op->result = plan.answer.result;
	/* What a verb on one timer was asked is left alone if it is refused. */
	if (op->result && size < sizeof(*op))
		return 0;
	if (copy_to_user_nofault(to, &plan.answer, size))
		return -EFAULT;
	return timers_commit(&w->timers, &plan, now) ? 0 : -EAGAIN;
}

/*
 * Does operations, each with a result and an answer of its own: see do_op(). May sleep.
 * Return: how many; less if there is no memory for the answer of the next.
 */
static unsigned int do_ops(struct twheel_file *w, struct twheel_op *ops, unsigned int nr,
			   void __user *to, size_t size)
{
	unsigned int done = 0, faults = 0;

	while (!fatal_signal_pending(current)) {
		unsigned int before = done;
		u64 now = file_begin(w);
		int err = 0;

		while (done < nr && !err) {
			err = do_op(w, &ops[done], to + done * size, size, now);
			done += !err;
		}
		file_finish(w, now);
		if (!err)
			break;
		if (done > before)
			faults = 0;
		if (err == -ENOMEM && pages_grow(&w->pages)) {
			ops[done].result = err;
			if (size == sizeof(*ops) && copy_to_user(to + done * size, &ops[done], size))
				break;
			done++;
		} else if (err == -EFAULT) {
			if (fault_in_safe_writeable(to + done * size, size) ||
			    ++faults == COPY_TRIES)
				break;
		}
		cond_resched();
	}
	return done;
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

/* Turns the wheel until all is done that was marked or due when the call began. */
static void turn_all(struct twheel_file *w, enum look look)
{
	u64 start = 0, now;
	u32 turns = 0;
	bool done;

	do {
		now = file_begin(w);
		if (!start) {
			start = now;
			/* A timer is touched once on each level, and when it expires. */
			turns = w->pages.store.fresh / (TURN_BUDGET / 2) *
				(w->timers.wheel.shape.levels + 1) + WHEEL_MAX_LEVELS + 2;
			w->timers.line = 0;
		}
		timers_turn(&w->timers, now, TURN_BUDGET, look);
		/* The clock may have been set back meanwhile. */
		done = timers_next(&w->timers) > min(start, now);
		file_finish(w, now);
		cond_resched();
	} while (!done && --turns && !fatal_signal_pending(current));
}

static long ioctl_drain(struct twheel_file *w, struct twheel_drain __user *arg)
{
	struct twheel_drain drain;
	u32 slot = 0;

	if (copy_from_user(&drain, arg, sizeof(drain)))
		return -EFAULT;
	if (drain.reserved ||
	    (drain.mode != TWHEEL_DRAIN_EXPIRE && drain.mode != TWHEEL_DRAIN_CANCEL))
		return -EINVAL;
	drain.count = 0;
	if (drain.mode == TWHEEL_DRAIN_EXPIRE)
		turn_all(w, LOOK);
	do {
		u64 now = file_begin(w);

		drain.count += timers_drain(&w->timers, &slot, drain.mode, TURN_BUDGET, now);
		file_finish(w, now);
		cond_resched();
	} while (slot != U32_MAX && !fatal_signal_pending(current));
	/* What was done is the answer, whether or not it can be stored as well. */
	(void)put_user(drain.count, &arg->count);
	return drain.count;
}

static noinline_for_stack long ioctl_list(struct twheel_file *w, struct twheel_list __user *arg)
{
	struct twheel_timer timers[GROUP];
	struct twheel_timer __user *uptr;
	struct twheel_list list;
	unsigned int done = 0;

	if (copy_from_user(&list, arg, sizeof(list)))
		return -EFAULT;
	uptr = u64_to_user_ptr(list.timers);
	list.count = min_t(u32, list.count, INT_MAX);
	while (done < list.count && !fatal_signal_pending(current)) {
		unsigned int nr = min(list.count - done, GROUP);
		unsigned int good;
		int got;

		spin_lock_bh(&w->lock);
		got = timers_list(&w->timers, &list.cursor, timers, nr, TURN_BUDGET);
		spin_unlock_bh(&w->lock);
		if (got < 0)
			break;
		good = got - DIV_ROUND_UP(copy_to_user(uptr + done, timers,
						       got * sizeof(*timers)),
					  sizeof(*timers));
		done += good;
		if (good < got) {
			/* To go on with the first that did not arrive. */
			list.cursor = (u32)timers[array_index_nospec(good, GROUP)].id;
			if (!done)
				return -EFAULT;
			break;
		}
		cond_resched();
	}
	return put_user(list.cursor, &arg->cursor) ? -EFAULT : done;
}

static noinline_for_stack long ioctl_kick(struct twheel_file *w,
					  const struct twheel_kick __user *arg)
{
	u32 slots[KICKS];
	struct twheel_kick kick;
	unsigned int group = KICKS;
	unsigned int done = 0;
	u32 __user *uptr;
	long looked = 0;

	if (copy_from_user(&kick, arg, sizeof(kick)))
		return -EFAULT;
	if (kick.flags || kick.count > INT_MAX)
		return -EINVAL;
	uptr = u64_to_user_ptr(kick.slots);
	if (!kick.count)
		turn_all(w, LOOK_AND_WITHDRAW);
	while (done < kick.count && !fatal_signal_pending(current)) {
		unsigned int nr = min(kick.count - done, group);
		unsigned int i;
		u64 now;

		if (copy_from_user(slots, uptr + done, nr * sizeof(*slots))) {
			if (nr == 1)
				return done ? looked : -EFAULT;
			group = 1;
			continue;
		}
		/* A bad pointer changes nothing. */
		if (!done)
			turn_all(w, LOOK_AND_WITHDRAW);
		now = file_begin(w);
		for (i = 0; i < nr; i++)
			looked += timers_kick(&w->timers, slots[i], now);
		file_finish(w, now);
		done += nr;
		cond_resched();
	}
	return looked;
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
	info.table_bytes = store_bytes(w->pages.store.max, PAGE_SIZE);
	info.clock_id = w->clock_id;
	spin_unlock_bh(&w->lock);
	info.min_tick_ns = READ_ONCE(min_tick_ns);
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

/*
 * Gives the wheel the shape that @setup asks for, after it has written there and at @arg,
 * if there is one, what it really is.
 */
static int set_up(struct twheel_file *w, struct twheel_setup *setup,
		  struct twheel_setup __user *arg)
{
	u32 most = max(min(READ_ONCE(max_timers_limit), STORE_MAX), 1U);
	u64 least = READ_ONCE(min_tick_ns);
	u64 wanted_ns = setup->tick_ns;
	struct wheel_shape shape;
	void *mem;
	bool used;
	int err;

	err = timers_check_setup(setup, clamp(READ_ONCE(max_timers), 1U, most), most,
				 max_t(u64, NSEC_PER_MSEC, least), &shape);
	if (err)
		return err;
	if (wanted_ns && wanted_ns < least && !capable(CAP_SYS_RESOURCE))
		return -EPERM;
	/* A wheel in use refuses whatever else fails, and writes nothing. */
	spin_lock_bh(&w->lock);
	used = w->timers.used;
	spin_unlock_bh(&w->lock);
	if (used)
		return -EBUSY;
	mem = kvzalloc(wheel_bytes(&shape), STORE_GFP);
	if (!mem)
		return -ENOMEM;
	if (arg && copy_to_user(arg, setup, sizeof(*setup))) {
		kvfree(mem);
		return -EFAULT;
	}

	spin_lock_bh(&w->lock);
	used = w->timers.used;
	if (!used) {
		swap(w->mem, mem);
		w->pages.store.max = setup->max_timers;
		file_set_clock(w, setup->clock_id);
		wheel_init(&w->timers.wheel, &shape, w->mem, file_now(w));
	}
	spin_unlock_bh(&w->lock);
	kvfree(mem);
	return used ? -EBUSY : 0;
}

static long twheel_ioctl(struct file *file, unsigned int cmd, unsigned long ptr)
{
	struct twheel_file *w = file->private_data;
	void __user *arg = (void __user *)ptr;
	struct twheel_setup setup;

	switch (cmd) {
	case TWHEEL_IOC_SETUP:
		return copy_from_user(&setup, arg, sizeof(setup)) ? -EFAULT :
		       set_up(w, &setup, arg);
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
	case TWHEEL_IOC_DRAIN:
		return ioctl_drain(w, arg);
	case TWHEEL_IOC_LIST:
		return ioctl_list(w, arg);
	case TWHEEL_IOC_KICK:
		return ioctl_kick(w, arg);
	case TWHEEL_IOC_STATS:
		return ioctl_stats(w, arg);
	default:
		return -ENOTTY;
	}
}

/* read and poll */

/*
 * Copies up to @max events, of %EVENTS at most, and consumes those that were copied whole.
 * All under the lock and without page faults: a CANCEL meanwhile knows which are unread.
 *
 * Return: how many; -EAGAIN if none is ready; -EFAULT if a page has to be brought in first.
 */
static int deliver(struct twheel_file *w, struct iov_iter *to, unsigned int max)
{
	struct twheel_event events[EVENTS];
	size_t room = iov_iter_count(to) / sizeof(*events);
	u64 now = file_begin(w);
	unsigned int nr, good;
	size_t copied;

	nr = timers_peek(&w->timers, events, min_t(size_t, room, max), now);
	pagefault_disable();
	copied = copy_to_iter(events, nr * sizeof(*events), to);
	pagefault_enable();
	good = copied / sizeof(*events);
	iov_iter_revert(to, copied % sizeof(*events));
	timers_consume(&w->timers, good, now);
	timers_unpeek(&w->timers, events + good, nr - good);
	file_finish(w, now);
	return good ?: nr ? -EFAULT : -EAGAIN;
}

/* Readers wait exclusively, so a reader that leaves events behind must wake the next. */
static void wake_next_reader(struct twheel_file *w)
{
	if (!hlist_empty(&w->timers.ready) && wq_has_sleeper(&w->readers))
		wake_up_interruptible(&w->readers);
}

static ssize_t twheel_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct file *file = iocb->ki_filp;
	struct twheel_file *w = file->private_data;
	bool nowait = (file->f_flags & O_NONBLOCK) || (iocb->ki_flags & IOCB_NOWAIT);
	unsigned int faults = 0;
	ssize_t done = 0;
	int ret;

	if (iov_iter_count(to) < sizeof(struct twheel_event))
		return -EINVAL;
	do {
		/* After a fault one alone: of many, the copy may not get to its end. */
		ret = deliver(w, to, faults ? 1 : EVENTS);
		if (ret > 0) {
			done += ret * sizeof(struct twheel_event);
			faults = 0;
			if (fatal_signal_pending(current))
				break;
		} else if (ret == -EFAULT) {
			/* Nobody else is to wait for this reader's page. */
			wake_next_reader(w);
			if (fault_in_iov_iter_writeable(to, sizeof(struct twheel_event)) ||
			    ++faults == COPY_TRIES)
				break;
		} else {
			if (done || nowait)
				break;
			ret = wait_event_interruptible_exclusive(w->readers,
								 !hlist_empty(&w->timers.ready));
			if (ret)
				break;
		}
		cond_resched();
	} while (iov_iter_count(to) >= sizeof(struct twheel_event));

	wake_next_reader(w);
	return done ?: ret;
}

static __poll_t twheel_poll(struct file *file, poll_table *wait)
{
	struct twheel_file *w = file->private_data;

	poll_wait(file, &w->pollers, wait);
	/*
	 *   here                              file_finish()
	 *   add to pollers (its lock)         add to ready (our lock)
	 *   is ready empty?                   wake pollers (its lock)
	 *
	 * If the wake-up came before we were added, its lock has made ready visible.
	 */
	return hlist_empty(&w->timers.ready) ? 0 : EPOLLIN | EPOLLRDNORM;
}

static int twheel_fasync(int fd, struct file *file, int on)
{
	struct twheel_file *w = file->private_data;

	return fasync_helper(fd, file, on, &w->fasync);
}

/* The mapping */

/*
 * The whole table or nothing, shared, from the start. It can neither grow nor be executed;
 * in a process whose readable memory is all executable (READ_IMPLIES_EXEC) nobody has asked
 * for that. VM_LOCKONFAULT without VM_LOCKED keeps mlockall() from touching all pages.
 */
static int twheel_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct twheel_file *w = file->private_data;
	struct twheel_table *table;
	int err = -EINVAL;

	if ((vma->vm_flags & VM_EXEC) && !(current->personality & READ_IMPLIES_EXEC))
		return -EPERM;
	/* VM_SHARED is not set if the descriptor is read-only. */
	if (!(vma->vm_flags & VM_MAYSHARE) || vma->vm_pgoff)
		return -EINVAL;
	table = pages_header(&w->pages);
	if (!table)
		return -ENOMEM;
	spin_lock_bh(&w->lock);
	if (vma->vm_end - vma->vm_start == store_bytes(w->pages.store.max, PAGE_SIZE)) {
		timers_map(&w->timers, table, PAGE_SIZE, w->clock_id, w->programmed);
		err = 0;
	}
	spin_unlock_bh(&w->lock);
	if (err)
		return err;
	vm_flags_clear(vma, VM_EXEC | VM_MAYEXEC | VM_LOCKED);
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP | VM_LOCKONFAULT);
	vma->vm_private_data = &w->pages;
	vma->vm_ops = &pages_vm_ops;
	return 0;
}

/* open, close, and what one sees in /proc/PID/fdinfo */

static void twheel_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct twheel_file *w = file->private_data;
	struct twheel_stats stats;
	const char *gap = "";
	clockid_t clock_id;
	u64 tick_ns, next;
	unsigned int i;
	u32 max;

	spin_lock_bh(&w->lock);
	timers_stats(&w->timers, &stats);
	clock_id = w->clock_id;
	tick_ns = timers_tick_ns(&w->timers);
	next = wheel_next(&w->timers.wheel);
	max = w->pages.store.max;
	spin_unlock_bh(&w->lock);

	seq_printf(m, "twheel-clock:\t%d\n", clock_id);
	seq_printf(m, "twheel-tick-ns:\t%llu\n", tick_ns);
	seq_printf(m, "twheel-max:\t%u\n", max);
	seq_printf(m, "twheel-timers:\t%llu\n", stats.allocated);
	seq_printf(m, "twheel-armed:\t%llu\n", stats.armed);
	seq_printf(m, "twheel-unread:\t%llu\n", stats.unread);
	seq_printf(m, "twheel-expired:\t%llu\n", stats.expired);
	if (next == WHEEL_NEVER)
		seq_puts(m, "twheel-next:\tnever\n");
	else
		seq_printf(m, "twheel-next:\t%llu\n", next);
	seq_printf(m, "twheel-id:\t%u\n", w->id);
	seq_printf(m, "twheel-moved:\t%llu\n", stats.moved);
	seq_printf(m, "twheel-late-max-ns:\t%llu\n", stats.worst_lateness_ns);
	seq_printf(m, "twheel-late-sum-ns:\t%llu\n", stats.lateness_sum_ns);
	seq_puts(m, "twheel-lateness:\t");
	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++) {
		if (!stats.lateness[i])
			continue;
		seq_printf(m, "%s%u=%llu", gap, i, stats.lateness[i]);
		gap = " ";
	}
	seq_putc(m, '\n');
}

static int device_open(struct inode *inode, struct file *file)
{
	struct timespec64 monotonic = {}, boottime = {};
	struct twheel_setup setup = {};
	struct twheel_file *w;
	int err;

	w = kzalloc(sizeof(*w), STORE_GFP);
	if (!w)
		return -ENOMEM;
	err = xa_alloc(&wheels, &w->id, w,
		       XA_LIMIT(get_random_u32() >> (32 - WHEEL_ID_BITS), INT_MAX), STORE_GFP);
	if (err) {
		kfree(w);
		return err;
	}
	file_init_turns(w);
	pages_init(&w->pages, &w->lock);
	timers_begin(&w->timers, &w->pages.store);
	timens_add_monotonic(&monotonic);
	timens_add_boottime(&boottime);
	w->offset_monotonic = timespec64_to_ns(&monotonic);
	w->offset_boottime = timespec64_to_ns(&boottime);

	err = set_up(w, &setup, NULL);
	if (err) {
		xa_erase(&wheels, w->id);
		kfree(w);
		return err;
	}
	file->private_data = w;
	/* A read that would block says so: io_uring then polls. */
	file->f_mode |= FMODE_NOWAIT;
	return stream_open(inode, file);
}

static int device_release(struct inode *inode, struct file *file)
{
	struct twheel_file *w = file->private_data;

	file_stop_turns(w);
	pages_free(&w->pages);
	kvfree(w->mem);
	xa_erase(&wheels, w->id);
	kfree(w);
	return 0;
}

static const struct file_operations twheel_fops = {
	.owner		= THIS_MODULE,
	.open		= device_open,
	.release	= device_release,
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

	err = turn_init();
	if (err)
		return err;
	err = misc_register(&twheel_misc);
	if (err == -EBUSY) {
		pr_info("minor %d is taken; the module will not load on open\n", TWHEEL_MINOR);
		twheel_misc.minor = MISC_DYNAMIC_MINOR;
		err = misc_register(&twheel_misc);
	}
	if (err)
		turn_exit();
	return err;
}
module_init(twheel_module_init);

static void __exit twheel_module_exit(void)
{
	misc_deregister(&twheel_misc);
	turn_exit();
}
module_exit(twheel_module_exit);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_AUTHOR("twheel contributors");
MODULE_DESCRIPTION("A timing wheel as a character device, for very many timeouts");
MODULE_VERSION("0.2.0");
MODULE_ALIAS_MISCDEV(TWHEEL_MINOR);
MODULE_ALIAS("devname:twheel");
