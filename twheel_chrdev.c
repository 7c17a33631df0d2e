// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/twheel: one open file is one timing wheel.
 *
 *   twheel_chrdev.c   open, read, poll, mmap, fdinfo: copies, errnos
 *   twheel_ioctl.c    the ioctls: copies, errnos
 *        |  lock_wheel(), unlock_wheel()
 *   twheel_turn.c     turning a wheel: its clock, lock, hrtimer, worker
 *        |  timers_*(), which are passed the time
 *   twheel_timers.c   the turn, the operations, reading events
 *   twheel_marks.c    the slots that user space has marked for a look
 *        |
 *   twheel_word.c     one timer and its word: reconcile()
 *        |                     |
 *   twheel.c  the wheel   twheel_slots.c  which slots have a timer
 *                         twheel_store.c  timers, words and marks by slot
 *
 * A line means "may call". The first two are the only files that access user memory.
 *
 * Lifetime: everything belongs to the open file and is freed by its release, when no call
 * and no mapping is left. A timer lives from REGISTER to CANCEL, or until the event that
 * ends it is read. Each call looks its id up anew.
 *
 * Memory: nothing waits for memory while it holds a lock, because in a cgroup over
 * memory.high that takes seconds, and others want the lock. misc_open() holds the mutex of
 * all misc devices while it calls device_open(). So device_open() allocates only 4 KiB, without
 * waiting (see NOWAIT_GFP), and everything else is allocated with the first timer. A character
 * device of its own would have no such mutex, but also no number that is the same everywhere.
 *
 * Locking:
 *   pages.mutex           replacing the array of blocks
 *     twheel_file.lock    everything that changes after open, see the struct
 *       locks of the wait queues, hrtimers and work queues
 *         quota.lock        the wheels of a user that the worker turns next
 *   users_lock            the number of wheels and bytes of each user
 *   wheels_mutex          the list of all wheels
 * No lock is taken under one of the last three. The lock of a wheel is held for no more than
 * TURN_BUDGET timers at a time. User memory is never accessed under pages.mutex, and under the
 * lock of a wheel only with page faults disabled.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cred.h>
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/personality.h>
#include <linux/poll.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/time_namespace.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include <linux/twheel.h>

#include "compat.h"
#include "twheel_exchange.h"
#include "twheel_turn.h"

#define CREATE_TRACE_POINTS
#include "twheel_trace.h"

/* Documentation/admin-guide/devices.txt leaves this to local use. */
#define TWHEEL_MINOR		250

/* The open wheels, for debugfs. */
static LIST_HEAD(wheels);
/* Protects the list. */
static DEFINE_MUTEX(wheels_mutex);

/* read and poll */

/*
 * Copies up to @max events, which is at most %TURN_EVENTS, and consumes those that were copied
 * completely. Both happen under one hold of the lock and without page faults, so that an event is
 * either unread for a CANCEL, or has arrived.
 *
 * Return: how many events were consumed; -EAGAIN if none is ready; -EFAULT if a page has to be
 * faulted in first.
 */
static int deliver(struct twheel_file *w, struct iov_iter *to, unsigned int max)
{
	struct twheel_event *events = w->events;
	size_t room = iov_iter_count(to) / sizeof(*events);
	u64 now = lock_wheel(w), until = now;
	unsigned int nr, arrived, good;
	size_t copied;

	do {
		nr = timers_peek(&w->timers, events, min_t(size_t, room, max), until);
		pagefault_disable();
		copied = copy_to_iter(events, nr * sizeof(*events), to);
		pagefault_enable();
		arrived = copied / sizeof(*events);
		good = timers_consume(&w->timers, events, arrived, now);
		iov_iter_revert(to, copied - good * sizeof(*events));
		/* If user space has changed the first timer's word, the second attempt succeeds. */
		until = 0;
	} while (arrived && !good);
	unlock_wheel(w, now);
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
		/* After a fault, copy single events, as a copy of many might never complete. */
		ret = deliver(w, to, faults ? 1 : TURN_EVENTS);
		if (ret > 0) {
			done += ret * sizeof(struct twheel_event);
			faults = 0;
			/* Do not take the lock once more only to find nothing. */
			if (hlist_empty(&w->timers.ready) || fatal_signal_pending(current))
				break;
		} else if (ret == -EFAULT) {
			/* Let another reader proceed while this one faults its page in. */
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
	 *   here                              unlock_wheel()
	 *   add to pollers (its lock)         add to ready (our lock)
	 *   is ready empty?                   wake pollers (its lock)
	 *
	 * If the wake-up came before we were added, its lock has made ready visible.
	 */
	return hlist_empty(&w->timers.ready) ? 0 : EPOLLIN | EPOLLRDNORM;
}

/* The mapping */

/*
 * Maps any pages of the table, shared. The mapping can neither grow nor be executed. With
 * READ_IMPLIES_EXEC a process asks for PROT_EXEC without meaning it, so the call succeeds, but the
 * mapping is not executable. VM_LOCKONFAULT without VM_LOCKED keeps mlockall() from touching all
 * pages.
 */
static int twheel_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct twheel_file *w = file->private_data;
	struct twheel_table *table;
	int err = -EINVAL;
	u64 pages;

	if (!exchanges_are_bounded())
		return -EOPNOTSUPP;
	if ((vma->vm_flags & VM_EXEC) && !(current->personality & READ_IMPLIES_EXEC))
		return -EPERM;
	/* VM_SHARED is not set if the descriptor is read-only. */
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	table = pages_header(&w->pages);
	if (IS_ERR(table))
		return PTR_ERR(table);
	spin_lock_bh(&w->lock);
	pages = store_bytes(w->pages.store.max, PAGE_SIZE) >> PAGE_SHIFT;
	if (vma->vm_pgoff < pages && vma_pages(vma) <= pages - vma->vm_pgoff) {
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

/* open, close, /proc/PID/fdinfo and debugfs */

static void twheel_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct twheel_file *w = file->private_data;
	struct twheel_stats stats;
	const char *gap = "";
	clockid_t clock_id;
	u64 tick_ns, next, now;
	unsigned int i;
	u32 max;

	spin_lock_bh(&w->lock);
	timers_stats(&w->timers, &stats);
	clock_id = w->clock_id;
	now = file_now(w);
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
	seq_printf(m, "twheel-now:\t%llu\n", now);
	seq_printf(m, "twheel-id:\t%llu\n", w->timers.id);
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

/*
 * Root reads in /sys/kernel/debug/twheel/wheels a line for each wheel: its number, the uid and
 * pid of the process that opened it, how many timers it has, and how many bytes it takes. The
 * list includes wheels whose descriptor is in a message, or that are only mapped. It is made at
 * once, because a wheel that is closed between two reads must not hide another.
 */
static int wheels_show(struct seq_file *m, void *v)
{
	const struct twheel_file *w;

	mutex_lock(&wheels_mutex);
	list_for_each_entry(w, &wheels, wheels) {
		seq_printf(m, "%llu %u %d %u %llu\n", w->timers.id,
			   from_kuid_munged(seq_user_ns(m), w->uid), w->pid,
			   READ_ONCE(w->pages.store.used), READ_ONCE(w->pages.bill.bytes));
		/* The caller repeats this with a larger buffer. */
		if (seq_has_overflowed(m))
			break;
	}
	mutex_unlock(&wheels_mutex);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(wheels);

static struct dentry *debugfs;

static int device_open(struct inode *inode, struct file *file)
{
	struct timespec64 monotonic = {}, boottime = {};
	struct twheel_setup setup = {};
	struct twheel_file *w;
	int err;

	w = kzalloc(sizeof(*w), NOWAIT_GFP);
	if (!w)
		return -ENOMEM;
	spin_lock_init(&w->lock);
	init_waitqueue_head(&w->readers);
	init_waitqueue_head(&w->pollers);
	pages_init(&w->pages, &w->lock);
	timers_begin(&w->timers, &w->pages.store);
	timens_add_monotonic(&monotonic);
	timens_add_boottime(&boottime);
	w->offset_monotonic = timespec64_to_ns(&monotonic);
	w->offset_boottime = timespec64_to_ns(&boottime);

	err = file_set_up(w, &setup, NULL);
	if (!err)
		err = quota_open(&w->pages.bill, file->f_cred, sizeof(*w));
	if (err) {
		kfree(w);
		return err;
	}
	w->timers.id = get_random_u64();
	w->uid = file->f_cred->euid;
	w->pid = task_tgid_nr(current);
	mutex_lock(&wheels_mutex);
	list_add_tail(&w->wheels, &wheels);
	mutex_unlock(&wheels_mutex);
	file->private_data = w;
	/* Lets io_uring try to read without blocking, and poll if that fails. */
	file->f_mode |= FMODE_NOWAIT;
	return stream_open(inode, file);
}

static int device_release(struct inode *inode, struct file *file)
{
	struct twheel_file *w = file->private_data;

	mutex_lock(&wheels_mutex);
	list_del(&w->wheels);
	mutex_unlock(&wheels_mutex);
	file_stop_turns(w);
	pages_free(&w->pages);
	kvfree(w->mem);
	quota_close(&w->pages.bill);
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
	.unlocked_ioctl	= twheel_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= twheel_show_fdinfo,
};

static struct miscdevice twheel_misc = {
	.minor	= TWHEEL_MINOR,
	.name	= "twheel",
	.fops	= &twheel_fops,
	/* Everybody may open it, because the cost of a wheel is limited and charged to its user. */
	.mode	= 0666,
};

static int __init twheel_module_init(void)
{
	int err;

	quota_init();
	err = turn_init();
	if (err)
		return err;
	err = misc_register(&twheel_misc);
	if (err == -EBUSY) {
		pr_info("minor %d is taken; the module will not load on open\n", TWHEEL_MINOR);
		twheel_misc.minor = MISC_DYNAMIC_MINOR;
		err = misc_register(&twheel_misc);
	}
	if (err) {
		turn_exit();
		return err;
	}
	debugfs = debugfs_create_dir("twheel", NULL);
	debugfs_create_file("wheels", 0400, debugfs, NULL, &wheels_fops);
	return 0;
}
module_init(twheel_module_init);

static void __exit twheel_module_exit(void)
{
	debugfs_remove(debugfs);
	misc_deregister(&twheel_misc);
	turn_exit();
}
module_exit(twheel_module_exit);

/* Some files of the module are under the GPL only. */
MODULE_LICENSE("GPL");
MODULE_AUTHOR("twheel contributors");
MODULE_DESCRIPTION("A timing wheel as a character device, for very many timeouts");
MODULE_VERSION("0.3.0");
MODULE_ALIAS_MISCDEV(TWHEEL_MINOR);
MODULE_ALIAS("devname:twheel");
