// SPDX-License-Identifier: GPL-2.0
/*
 * Misbehaves on demand, so that the tests of the rig see each kind of
 * misbehaviour found out: insmod planted.ko bug=...
 *
 *   hold   keeps a wheel open for as long as it is loaded
 *   warn   is a bug that the kernel notices
 *   oops   is one that it does not survive
 *   hang   stops every CPU, with interrupts off
 *   minor  has the minor number that twheel asks for
 *   hung   waits for minutes for what does not come
 *   spin   keeps its processor for a minute, with interrupts on, and has work wait for it
 *   busy   has a timer that is due again whenever its interrupt ends
 *
 * These only a kernel that looks for them notices:
 *
 *   uaf      reads memory that was freed
 *   slab     reads past the end of what kmalloc() gave
 *   vmalloc  reads past the end of what vmalloc() gave
 *   stale    writes to a page that it gave back, as a program may that still maps it
 *   active   frees a timer that is armed
 *   work     frees work that is queued
 *   leak     loses what it allocated
 *   order    takes two locks in one order, and in the other
 *   irq      shares a lock with an interrupt that may come while it is held
 *   hardirq  takes a lock that sleeps on PREEMPT_RT in an interrupt
 *   atomic   sleeps with a lock held
 *   context  takes a lock that sleeps on PREEMPT_RT with one held that spins
 *   shift    shifts by more than there is
 *   bounds   reads past the end of an array
 *   list     takes off a list what has been taken off
 *   copy     gives a program more than the object that it was to have
 *   fortify  writes more than a member has room for
 *   refcount takes a reference to what nobody holds any more
 *   rcu      looks at what RCU may have freed
 *   twice    has RCU free what it is about to free
 *   put      gives a page back that it has given back
 *   preempt  asks which processor it is on, and may be on another then
 *   race     counts without a lock, in two threads
 *   turns    counts in two threads that take turns, by a word that orders nothing
 *   tick     counts in a thread, and in an interrupt of its processor
 *   foreign  reads plainly what somebody unknown to the kernel's eyes writes
 *   padding  gives a program bytes that nothing was written to
 *   field    gives it a member that nothing was written to
 */
#include <linux/bug.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/processor.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include "compat.h"

static char *bug = "";
module_param(bug, charp, 0444);
MODULE_PARM_DESC(bug, "what to do: see the source");

static unsigned long page;
module_param(page, ulong, 0444);
MODULE_PARM_DESC(page, "where it has written in the program that loaded it");

static struct file *held;

static const struct file_operations minor_fops = {
	.owner	= THIS_MODULE,
};

static struct miscdevice minor = {
	.minor	= 250,
	.name	= "planted",
	.fops	= &minor_fops,
};

static int planted_hold(void)
{
	held = filp_open("/dev/twheel", O_RDWR, 0);
	return PTR_ERR_OR_ZERO(held);
}

static int planted_warn(void)
{
	WARN(1, "planted\n");
	return 0;
}

static int planted_oops(void)
{
	WRITE_ONCE(*(int *)NULL, 0);
	return 0;
}

static void hang(void *unused)
{
	for (;;)
		cpu_relax();
}

static int planted_hang(void)
{
	on_each_cpu(hang, NULL, 0);
	return 0;
}

static int planted_minor(void)
{
	return misc_register(&minor);
}

static int planted_hung(void)
{
	schedule_timeout_uninterruptible(300 * HZ);
	return 0;
}

static void planted_nothing(struct work_struct *work)
{
}

static DECLARE_WORK(waits, planted_nothing);

static int planted_spin(void)
{
	unsigned long end = jiffies + 60 * HZ;

	preempt_disable();
	schedule_work_on(smp_processor_id(), &waits);
	/* Whether or not anybody else has something to wait for. */
	start_poll_synchronize_rcu();
	while (time_before(jiffies, end))
		cpu_relax();
	preempt_enable();
	return 0;
}

static int planted_uaf(void)
{
	int *p = kzalloc(64, GFP_KERNEL);

	if (!p)
		return -ENOMEM;
	kfree(p);
	return READ_ONCE(*p) == 1 ? -EIO : 0;
}

/* Whatever is behind @size bytes at @p. */
static noinline int look_beyond(const char *p, size_t size)
{
	if (!p)
		return -ENOMEM;
	/* The compiler must not know it. */
	OPTIMIZER_HIDE_VAR(size);
	return READ_ONCE(p[size]) == 1 ? -EIO : 0;
}

static int planted_slab(void)
{
	char *p = kzalloc(100, GFP_KERNEL);
	int err = look_beyond(p, 100);

	kfree(p);
	return err;
}

static int planted_vmalloc(void)
{
	char *p = vzalloc(100);
	int err = look_beyond(p, 100);

	vfree(p);
	return err;
}

/* As a program's: KASAN sees none of those. */
static noinline __no_sanitize_address void store_unseen(u8 *p)
{
	WRITE_ONCE(*p, 0);
}

static int planted_stale(void)
{
	unsigned long page = __get_free_page(GFP_KERNEL);

	if (!page)
		return -ENOMEM;
	free_page(page);
	store_unseen((u8 *)page);
	/* What was freed last is given out first. */
	free_page(__get_free_page(GFP_KERNEL));
	return 0;
}

static enum hrtimer_restart planted_timer(struct hrtimer *timer)
{
	return HRTIMER_NORESTART;
}

static void planted_sleeps(struct work_struct *work)
{
	msleep(100);
}

static int planted_work(void)
{
	static DECLARE_WORK(first, planted_sleeps);
	struct workqueue_struct *queue = alloc_ordered_workqueue("planted", 0);
	struct work_struct *second = kmalloc(sizeof(*second), GFP_KERNEL);

	if (!queue || !second)
		return -ENOMEM;
	INIT_WORK(second, planted_nothing);
	queue_work(queue, &first);
	queue_work(queue, second);
	kfree(second);
	destroy_workqueue(queue);
	return 0;
}

static int planted_active(void)
{
	struct hrtimer *timer = kzalloc(sizeof(*timer), GFP_KERNEL);

	if (!timer)
		return -ENOMEM;
	hrtimer_setup(timer, planted_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	hrtimer_start(timer, ms_to_ktime(3600 * 1000), HRTIMER_MODE_REL);
	kfree(timer);
	return 0;
}

static int planted_leak(void)
{
	void *p = kmalloc(333, GFP_KERNEL);

	/* So that the compiler believes that it is used. */
	OPTIMIZER_HIDE_VAR(p);
	return p ? 0 : -ENOMEM;
}

static DEFINE_SPINLOCK(lock_a);
static DEFINE_SPINLOCK(lock_b);

static int planted_order(void)
{
	spin_lock(&lock_a);
	spin_lock(&lock_b);
	spin_unlock(&lock_b);
	spin_unlock(&lock_a);

	spin_lock(&lock_b);
	spin_lock(&lock_a);
	spin_unlock(&lock_a);
	spin_unlock(&lock_b);
	return 0;
}

static DEFINE_RAW_SPINLOCK(raw);

static enum hrtimer_restart planted_spins(struct hrtimer *timer)
{
	raw_spin_lock(&raw);
	raw_spin_unlock(&raw);
	return HRTIMER_NORESTART;
}

static enum hrtimer_restart planted_locks(struct hrtimer *timer)
{
	spin_lock(&lock_a);
	spin_unlock(&lock_a);
	return HRTIMER_NORESTART;
}

/* Runs @function in an interrupt, also on PREEMPT_RT. */
static void interrupt(enum hrtimer_restart (*function)(struct hrtimer *))
{
	static struct hrtimer timer;

	hrtimer_setup(&timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	hrtimer_start(&timer, ms_to_ktime(1), HRTIMER_MODE_REL_HARD);
	msleep(100);
	hrtimer_cancel(&timer);
}

static int planted_irq(void)
{
	/* Held alone by us, so that it is not the timer that waits. */
	raw_spin_lock(&raw);
	raw_spin_unlock(&raw);
	interrupt(planted_spins);
	return 0;
}

static int planted_hardirq(void)
{
	interrupt(planted_locks);
	return 0;
}

static ktime_t busy_until;

static enum hrtimer_restart planted_again(struct hrtimer *timer)
{
	hrtimer_forward_now(timer, ns_to_ktime(NSEC_PER_USEC));
	udelay(5);
	return ktime_before(ktime_get(), busy_until) ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

static int planted_busy(void)
{
	busy_until = ktime_add_ms(ktime_get(), 50);
	interrupt(planted_again);
	return 0;
}

static int planted_atomic(void)
{
	spin_lock(&lock_a);
	might_sleep();
	spin_unlock(&lock_a);
	return 0;
}

static int planted_context(void)
{
	raw_spin_lock(&raw);
	spin_lock(&lock_a);
	spin_unlock(&lock_a);
	raw_spin_unlock(&raw);
	return 0;
}

static int planted_shift(void)
{
	unsigned int by = 7;

	/* The compiler must not know it. */
	OPTIMIZER_HIDE_VAR(by);
	by *= 10;
	return 1ULL << by == 3 ? -EIO : 0;
}

static int planted_bounds(void)
{
	static int array[4];
	unsigned int at = 6;

	/* The compiler must not know it. */
	OPTIMIZER_HIDE_VAR(at);
	return READ_ONCE(array[at]) == 1 ? -EIO : 0;
}

static int planted_list(void)
{
	LIST_HEAD(list);
	struct list_head entry;

	list_add(&entry, &list);
	list_del(&entry);
	list_del(&entry);
	return 0;
}

/* A page of the program that loads us. */
static void __user *user_page(void)
{
	page = vm_mmap(NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
		       MAP_ANONYMOUS | MAP_PRIVATE, 0);
	return IS_ERR_VALUE(page) ? NULL : (void __user *)page;
}

static int planted_copy(void)
{
	size_t size = 1024;
	void __user *to = user_page();
	void *p = kzalloc(64, GFP_KERNEL);
	int err = 0;

	/* The compiler must not know how much is too much. */
	OPTIMIZER_HIDE_VAR(size);
	OPTIMIZER_HIDE_VAR(p);
	if (!p || !to || copy_to_user(to, p, size))
		err = -EFAULT;
	kfree(p);
	return err;
}

static int planted_fortify(void)
{
	static const char from[16] = "of two members";
	struct {
		char one[8];
		char two[8];
	} to = {};
	size_t size = 12;

	/* The compiler must not know how much is too much. */
	OPTIMIZER_HIDE_VAR(size);
	memcpy(to.one, from, size);
	return READ_ONCE(to.two[0]) == 1 ? -EIO : 0;
}

static int planted_refcount(void)
{
	refcount_t nobody = REFCOUNT_INIT(0);

	refcount_inc(&nobody);
	return 0;
}

static int __rcu *shared;

static int planted_rcu(void)
{
	return rcu_dereference(shared) ? -EIO : 0;
}

static struct rcu_head head;

static void planted_later(struct rcu_head *unused)
{
}

static int planted_twice(void)
{
	/* So that the first is not over before the second. */
	rcu_read_lock();
	call_rcu(&head, planted_later);
	call_rcu(&head, planted_later);
	rcu_read_unlock();
	rcu_barrier();
	return 0;
}

static int planted_put(void)
{
	struct page *p = alloc_page(GFP_KERNEL);

	if (!p)
		return -ENOMEM;
	put_page(p);
	put_page(p);
	return 0;
}

static int planted_preempt(void)
{
	return smp_processor_id() < nr_cpu_ids ? 0 : -EIO;
}

static unsigned long counter;

static int planted_counts(void *unused)
{
	while (!kthread_should_stop()) {
		counter++;
		cond_resched();
	}
	return 0;
}

static enum hrtimer_restart planted_counts_too(struct hrtimer *timer)
{
	counter++;
	hrtimer_forward_now(timer, ns_to_ktime(100 * NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

static noinline int planted_tick(void)
{
	unsigned long end = jiffies + 3 * HZ;
	static struct hrtimer timer;

	hrtimer_setup(&timer, planted_counts_too, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
	hrtimer_start(&timer, ms_to_ktime(1), HRTIMER_MODE_REL_PINNED_HARD);
	while (time_before(jiffies, end)) {
		counter++;
		/* In memory, each time. */
		barrier();
	}
	hrtimer_cancel(&timer);
	destroy_hrtimer_on_stack(&timer);
	return 0;
}

static unsigned int turn;

static noinline void take_turns(unsigned int mine)
{
	while (!kthread_should_stop()) {
		/* By which the other's count is seen, were it there. */
		if (smp_load_acquire(&turn) == mine) {
			counter++;
			/* As if it were smp_store_release(). */
			WRITE_ONCE(turn, !mine);
		}
		cond_resched();
	}
}

static int planted_first(void *unused)
{
	take_turns(0);
	return 0;
}

static int planted_second(void *unused)
{
	take_turns(1);
	return 0;
}

/* Out of the sight of KCSAN, as user space is. */
static int planted_writes(void *unused)
{
	while (!kthread_should_stop()) {
#ifdef CONFIG_X86_64
		asm volatile("incq %0" : "+m" (counter));
#endif
		cond_resched();
	}
	return 0;
}

static noinline int planted_reads(void *unused)
{
	u64 sum = 0;

	while (!kthread_should_stop()) {
		sum += counter;
		barrier();
		cond_resched();
	}
	return !sum;
}

static int two_threads(int (*one)(void *), int (*other)(void *))
{
	struct task_struct *a, *b;

	a = kthread_run(one, NULL, "planted-a");
	if (IS_ERR(a))
		return PTR_ERR(a);
	b = kthread_run(other, NULL, "planted-b");
	if (!IS_ERR(b)) {
		msleep(3000);
		kthread_stop(b);
	}
	kthread_stop(a);
	return PTR_ERR_OR_ZERO(b);
}

static int planted_race(void)
{
	return two_threads(planted_counts, planted_counts);
}

static int planted_turns(void)
{
	return two_threads(planted_first, planted_second);
}

static int planted_foreign(void)
{
	return two_threads(planted_writes, planted_reads);
}

static int planted_padding(void)
{
	struct {
		u32 one;
		u64 two;
	} s;
	void __user *to = user_page();

	/* So that there is something to find. */
	s.one = 1;
	s.two = 2;
	return !to || copy_to_user(to, &s, sizeof(s)) ? -EFAULT : 0;
}

static int planted_field(void)
{
	struct {
		u32 one;
		u32 unset;
		u64 two;
	} s;
	void __user *to = user_page();

	s.one = 1;
	s.two = 2;
	return !to || copy_to_user(to, &s, sizeof(s)) ? -EFAULT : 0;
}

static const struct {
	const char *name;
	int (*plant)(void);
} bugs[] = {
	{ "hold", planted_hold },
	{ "warn", planted_warn },
	{ "oops", planted_oops },
	{ "hang", planted_hang },
	{ "minor", planted_minor },
	{ "hung", planted_hung },
	{ "spin", planted_spin },
	{ "busy", planted_busy },
	{ "uaf", planted_uaf },
	{ "slab", planted_slab },
	{ "vmalloc", planted_vmalloc },
	{ "stale", planted_stale },
	{ "active", planted_active },
	{ "work", planted_work },
	{ "leak", planted_leak },
	{ "order", planted_order },
	{ "irq", planted_irq },
	{ "hardirq", planted_hardirq },
	{ "atomic", planted_atomic },
	{ "context", planted_context },
	{ "shift", planted_shift },
	{ "bounds", planted_bounds },
	{ "list", planted_list },
	{ "copy", planted_copy },
	{ "fortify", planted_fortify },
	{ "refcount", planted_refcount },
	{ "rcu", planted_rcu },
	{ "twice", planted_twice },
	{ "put", planted_put },
	{ "preempt", planted_preempt },
	{ "race", planted_race },
	{ "turns", planted_turns },
	{ "tick", planted_tick },
	{ "foreign", planted_foreign },
	{ "padding", planted_padding },
	{ "field", planted_field },
};

static int __init planted_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bugs); i++)
		if (!strcmp(bug, bugs[i].name))
			return bugs[i].plant();
	return -EINVAL;
}
module_init(planted_init);

static void __exit planted_exit(void)
{
	flush_work(&waits);
	if (held)
		filp_close(held, NULL);
	if (!strcmp(bug, "minor"))
		misc_deregister(&minor);
}
module_exit(planted_exit);

MODULE_DESCRIPTION("Bugs for the tests of the twheel test rig");
MODULE_AUTHOR("twheel contributors");
MODULE_LICENSE("GPL");
