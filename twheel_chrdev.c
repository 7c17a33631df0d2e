// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/twheel: one open file is one timing wheel.
 *
 *   ioctl ---> verbs ---> the wheel (twheel.c) ---> ready list ---> read()
 *               |            ^      turned by          |
 *            the slots    hrtimer, worker          poll, SIGIO
 *
 * A timer is in one place: idle, in a bucket of the wheel, or on the ready
 * list. It is its own event, so nothing is allocated when it expires and no
 * queue can overflow. A periodic timer goes back to the wheel when its event
 * is read, and the event counts the periods that passed: a reader who comes
 * late costs nobody anything.
 *
 * Lifetime: everything belongs to the open file and is freed by its release,
 * when no call is under way; the hrtimer and the worker are stopped first.
 * A timer lives from REGISTER to CANCEL, or until the event that ends it is
 * read. Its id is its slot and a generation, looked up anew by each call.
 *
 * Locking:
 *   twheel_file.mutex     SETUP and the growth of the slots; may sleep
 *     twheel_file.lock    everything that changes after open, see the struct
 *       locks of the wait queues, hrtimers and work queues
 * The lock is taken with softirqs off, because the hrtimer expires in one. It
 * is held for no more than TWHEEL_BUDGET timers at a time: long work drops it
 * in between, and expiry of more than a budget goes on in a worker.
 *
 * User memory is never touched under the lock with page faults on.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/nospec.h>
#include <linux/nsproxy.h>
#include <linux/overflow.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/time_namespace.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <linux/twheel.h>

#include "compat.h"
#include "twheel.h"

/* Of the range that Documentation/admin-guide/devices.txt leaves to local use. */
#define TWHEEL_MINOR		250

/* Timers touched before the lock is dropped. */
#define TWHEEL_BUDGET		256U
/* Timers that an arming takes off the wheel because they are due before it. */
#define TWHEEL_ARM_BUDGET	16U
/* Operations of a batch, or timers of a list, done at a time. */
#define TWHEEL_GROUP		16U
/* Events copied by a read at a time. */
#define TWHEEL_EVENTS		16U

/* A chunk of 64 timers is one page of 4 KiB; 64 chunks share a block. */
#define TWHEEL_CHUNK_BITS	6
#define TWHEEL_CHUNK		(1U << TWHEEL_CHUNK_BITS)
#define TWHEEL_BLOCK_BITS	6
#define TWHEEL_BLOCK		(1U << TWHEEL_BLOCK_BITS)
/* As many as twheel_entry.slot can number. */
#define TWHEEL_SLOTS_MAX	(1U << 24)

/* Out of memory, also of the cgroup's, is ENOMEM: nobody is killed for it. */
#define TWHEEL_GFP		(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

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
 * struct twheel_entry - one timer
 * @node: while armed: its place in the wheel
 * @ready: while expired: its place in the ready list
 * @expired_ns: while expired: when it was taken off the wheel
 * @user_data: the user's
 * @deadline: when it is, or was, due; 0 while idle
 * @period: 0, or ns from one expiration to the next
 * @slack: how late it may be
 * @gen: generation, the high half of the id; 0 while the slot is free
 * @slot: the low half of the id
 * @flags: TWHEEL_ABSTIME and so on, of the last arming
 * @state: TWHEEL_IDLE, TWHEEL_ARMED or TWHEEL_EXPIRED
 * @past: was due already when it was armed, so that its lateness is not ours
 * @last: not to be armed again for its next period
 */
struct twheel_entry {
	union {
		struct twheel_node node;
		struct {
			struct list_head ready;
			u64 expired_ns;
		};
	};
	u64 user_data;
	u64 deadline;
	u64 period;
	u64 slack;
	u32 gen;
	u32 slot : 24;
	u32 flags : 3;
	u32 state : 2;
	u32 past : 1;
	u32 last : 1;
};

static_assert(sizeof(struct twheel_entry) <= 64);

/**
 * struct twheel_chunk - where 64 timers are
 * @entries: the timers, or NULL while there are none
 * @free: a bit per slot that is free
 * @link: in twheel_slots.avail, in twheel_slots.holes, or empty if full
 * @first: number of its first slot
 * @gen: generation last given out here. It outlives @entries, so an id does
 *	not come back before 2^32 timers were made in this chunk.
 */
struct twheel_chunk {
	struct twheel_entry *entries;
	u64 free;
	struct list_head link;
	u32 first;
	u32 gen;
};

/**
 * struct twheel_slots - the timers' memory
 * @dir: blocks of TWHEEL_BLOCK chunks
 * @chunks: how many chunks there have been
 * @max: how many timers there may be
 * @avail: chunks that have memory and a free slot, the latest freed first
 * @holes: chunks whose memory was given back
 * @spare: a chunk that is all free and keeps its memory for the next timer
 */
struct twheel_slots {
	struct twheel_chunk **dir;
	u32 chunks;
	u32 max;
	struct list_head avail;
	struct list_head holes;
	struct twheel_chunk *spare;
};

/**
 * struct twheel_file - a wheel
 * @lock: protects all below it, unless it says otherwise
 * @wheel: the armed timers
 * @mem: the buckets of @wheel
 * @slots: all timers; @dir and @chunks change under @mutex and @lock
 * @ready: expired timers, in the order of their ticks. Whether it is empty
 *	may be asked without the lock.
 * @programmed: when @timer will run, TWHEEL_NEVER if it will not
 * @clock_id: clock of all times here; with @offset, as the opener sees it
 * @offset: what the opener's time namespace adds to the clock
 * @used: a timer has been made, so the shape is fixed
 * @dying: release has begun: program nothing
 * @news: something has become ready since the lock was taken
 * @stats: what has happened
 * @mutex: serialises SETUP and growth
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
	struct twheel wheel;
	void *mem;
	struct twheel_slots slots;
	struct list_head ready;
	u64 programmed;
	clockid_t clock_id;
	u64 offset;
	bool used;
	bool dying;
	bool news;
	struct twheel_stats stats;

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

/* Time */

/* The time on the wheel's clock, as the process that opened it sees that. */
static u64 twheel_now(const struct twheel_file *w)
{
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

static u64 twheel_tick_ns(const struct twheel_file *w)
{
	return 1ULL << w->wheel.shape.shift;
}

/* The time that is @delta after @start; past the end of time, never. */
static u64 twheel_after(u64 start, u64 delta)
{
	u64 sum;

	return check_add_overflow(start, delta, &sum) ? TWHEEL_NEVER : sum;
}

/* The lock, and what follows from what was done under it */

static u64 twheel_lock(struct twheel_file *w)
	__acquires(&w->lock)
{
	spin_lock_bh(&w->lock);
	return twheel_now(w);
}

/*
 * Sees to it that the wheel is turned when it must be: by the hrtimer, which
 * is never armed in the past and only moved to an earlier time; or, if that
 * time has come, by the worker.
 */
static void twheel_program(struct twheel_file *w, u64 now)
{
	u64 next = twheel_next(&w->wheel);

	lockdep_assert_held(&w->lock);
	if (next >= w->programmed || w->dying)
		return;
	if (next <= now) {
		queue_work(system_unbound_wq, &w->work);
		return;
	}
	/* The clock will not get there, and the difference must not wrap. */
	if (next >= KTIME_MAX || next - w->offset >= KTIME_MAX)
		return;
	w->programmed = next;
	hrtimer_start(&w->timer, ns_to_ktime(next - w->offset), HRTIMER_MODE_ABS_SOFT);
}

/* Ends what twheel_lock() began at @now. What became ready is there; now wake. */
static void twheel_unlock(struct twheel_file *w, u64 now)
	__releases(&w->lock)
{
	bool news = w->news;

	w->news = false;
	twheel_program(w, now);
	spin_unlock_bh(&w->lock);
	if (!news)
		return;
	wake_up_interruptible(&w->readers);
	wake_up_interruptible_poll(&w->pollers, EPOLLIN | EPOLLRDNORM);
	kill_fasync(&w->fasync, SIGIO, POLL_IN);
}

/* Slots: where timers are, and which are free */

static struct twheel_chunk *twheel_chunk(const struct twheel_slots *s, u32 nr)
{
	return &s->dir[nr >> TWHEEL_BLOCK_BITS][nr & (TWHEEL_BLOCK - 1)];
}

/* The slots of @chunk that exist: the last chunk may have fewer than 64. */
static u64 twheel_chunk_mask(const struct twheel_slots *s,
			     const struct twheel_chunk *chunk)
{
	u32 nr = min(s->max - chunk->first, TWHEEL_CHUNK);

	return U64_MAX >> (TWHEEL_CHUNK - nr);
}

/* The live timers of chunk @nr: a bit for each, and where they are. */
static u64 twheel_live(const struct twheel_slots *s, u32 nr, struct twheel_entry **entries)
{
	const struct twheel_chunk *chunk;

	if (nr >= s->chunks)
		return 0;
	chunk = twheel_chunk(s, array_index_nospec(nr, s->chunks));
	*entries = chunk->entries;
	return *entries ? twheel_chunk_mask(s, chunk) & ~chunk->free : 0;
}

static int twheel_slots_init(struct twheel_slots *s, u32 max)
{
	size_t blocks = DIV_ROUND_UP(max, TWHEEL_CHUNK * TWHEEL_BLOCK);

	*s = (struct twheel_slots) {
		.dir = kvcalloc(blocks, sizeof(*s->dir), TWHEEL_GFP),
		.max = max,
	};
	INIT_LIST_HEAD(&s->avail);
	INIT_LIST_HEAD(&s->holes);
	return s->dir ? 0 : -ENOMEM;
}

static void twheel_slots_free(struct twheel_slots *s)
{
	u32 nr;

	for (nr = 0; nr < s->chunks; nr++) {
		kfree(twheel_chunk(s, nr)->entries);
		cond_resched();
	}
	for (nr = 0; nr < s->chunks; nr += TWHEEL_BLOCK)
		kfree(s->dir[nr >> TWHEEL_BLOCK_BITS]);
	kvfree(s->dir);
}

/* The live timer that @id names, or NULL. */
static struct twheel_entry *twheel_find(struct twheel_file *w, u64 id)
{
	struct twheel_slots *s = &w->slots;
	u32 nr = (u32)id >> TWHEEL_CHUNK_BITS;
	u32 gen = id >> 32;
	struct twheel_chunk *chunk;
	struct twheel_entry *e;

	lockdep_assert_held(&w->lock);
	if (!gen || nr >= s->chunks)
		return NULL;
	nr = array_index_nospec(nr, s->chunks);
	chunk = twheel_chunk(s, nr);
	if (!chunk->entries)
		return NULL;
	e = &chunk->entries[id & (TWHEEL_CHUNK - 1)];
	return e->gen == gen ? e : NULL;
}

static u64 twheel_id(const struct twheel_entry *e)
{
	return (u64)e->gen << 32 | e->slot;
}

/*
 * A free slot, live from now on. Return: the timer, idle and else zero;
 * -ENOSPC if the wheel is full; -EAGAIN if it has to grow first.
 */
static struct twheel_entry *twheel_alloc(struct twheel_file *w)
{
	struct twheel_slots *s = &w->slots;
	struct twheel_chunk *chunk;
	struct twheel_entry *e;
	unsigned int i;

	lockdep_assert_held(&w->lock);
	if (w->stats.allocated == s->max)
		return ERR_PTR(-ENOSPC);
	chunk = list_first_entry_or_null(&s->avail, struct twheel_chunk, link);
	if (!chunk)
		return ERR_PTR(-EAGAIN);
	if (chunk == s->spare)
		s->spare = NULL;
	i = __ffs64(chunk->free);
	chunk->free &= chunk->free - 1;
	if (!chunk->free)
		list_del_init(&chunk->link);
	if (!++chunk->gen)
		chunk->gen = 1;

	e = &chunk->entries[i];
	*e = (struct twheel_entry) {
		.gen = chunk->gen,
		.slot = chunk->first + i,
		.state = TWHEEL_IDLE,
	};
	w->used = true;
	w->stats.allocated++;
	return e;
}

/* Ends an idle timer. Memory is given back when a second chunk is all free. */
static void twheel_free(struct twheel_file *w, struct twheel_entry *e)
{
	struct twheel_slots *s = &w->slots;
	struct twheel_chunk *chunk = twheel_chunk(s, e->slot >> TWHEEL_CHUNK_BITS);

	lockdep_assert_held(&w->lock);
	e->gen = 0;
	chunk->free |= 1ULL << (e->slot & (TWHEEL_CHUNK - 1));
	w->stats.allocated--;
	list_move(&chunk->link, &s->avail);
	if (chunk->free != twheel_chunk_mask(s, chunk))
		return;
	if (!s->spare) {
		s->spare = chunk;
		return;
	}
	kfree(chunk->entries);
	chunk->entries = NULL;
	list_move(&chunk->link, &s->holes);
}

/* Gives the wheel a chunk with free slots. May sleep. Return: 0 or -ENOMEM. */
static int twheel_grow(struct twheel_file *w)
{
	struct twheel_slots *s = &w->slots;
	struct twheel_chunk *block = NULL;
	struct twheel_entry *entries;
	struct twheel_chunk *chunk;
	unsigned int i;
	int err = 0;

	mutex_lock(&w->mutex);
	entries = kcalloc(TWHEEL_CHUNK, sizeof(*entries), TWHEEL_GFP);
	/* Only here and in SETUP, under the mutex, does @chunks change. */
	if (!(s->chunks & (TWHEEL_BLOCK - 1)))
		block = kcalloc(TWHEEL_BLOCK, sizeof(*block), TWHEEL_GFP);

	spin_lock_bh(&w->lock);
	/* Another thread may have grown it, or freed a timer, meanwhile. */
	if (!list_empty(&s->avail) || w->stats.allocated == s->max)
		goto unlock;
	chunk = list_first_entry_or_null(&s->holes, struct twheel_chunk, link);
	if (!entries || (!chunk && !block && !(s->chunks & (TWHEEL_BLOCK - 1)))) {
		err = -ENOMEM;
		goto unlock;
	}
	if (!chunk) {
		if (block) {
			for (i = 0; i < TWHEEL_BLOCK; i++) {
				INIT_LIST_HEAD(&block[i].link);
				block[i].first = (s->chunks + i) << TWHEEL_CHUNK_BITS;
			}
			s->dir[s->chunks >> TWHEEL_BLOCK_BITS] = block;
			block = NULL;
		}
		chunk = twheel_chunk(s, s->chunks++);
	}
	chunk->entries = entries;
	chunk->free = twheel_chunk_mask(s, chunk);
	list_move(&chunk->link, &s->avail);
	entries = NULL;
unlock:
	spin_unlock_bh(&w->lock);
	mutex_unlock(&w->mutex);
	kfree(entries);
	kfree(block);
	return err;
}

/* Expiry */

/* An arming has ended by expiry: @e is an event now. */
static void twheel_ready(struct twheel_file *w, struct twheel_entry *e, u64 now)
{
	e->state = TWHEEL_EXPIRED;
	e->expired_ns = now;
	list_add_tail(&e->ready, &w->ready);
	w->stats.expired++;
	w->stats.unread++;
	w->news = true;
}

static void twheel_note_lateness(struct twheel_file *w, u64 late)
{
	w->stats.lateness[late ? fls64(late) - 1 : 0]++;
	w->stats.worst_lateness_ns = max(w->stats.worst_lateness_ns, late);
}

/* Takes what is due off the wheel, but touches no more than @budget timers. */
static void twheel_run(struct twheel_file *w, u64 now, unsigned int budget)
{
	struct twheel_node *node;

	lockdep_assert_held(&w->lock);
	while ((node = twheel_expire(&w->wheel, now, &budget))) {
		struct twheel_entry *e = container_of(node, struct twheel_entry, node);

		w->stats.armed--;
		if (!e->past)
			twheel_note_lateness(w, now - e->deadline);
		twheel_ready(w, e, now);
	}
}

static enum hrtimer_restart twheel_timer(struct hrtimer *timer)
{
	struct twheel_file *w = container_of(timer, struct twheel_file, timer);
	u64 now = twheel_lock(w);

	w->programmed = TWHEEL_NEVER;
	w->stats.wakeups++;
	twheel_run(w, now, TWHEEL_BUDGET);
	/* This programs the timer anew, so it need not be restarted. */
	twheel_unlock(w, now);
	return HRTIMER_NORESTART;
}

static void twheel_work(struct work_struct *work)
{
	struct twheel_file *w = container_of(work, struct twheel_file, work);
	bool more;

	do {
		u64 now = twheel_lock(w);

		w->stats.wakeups++;
		twheel_run(w, now, TWHEEL_BUDGET);
		more = twheel_due(&w->wheel, now) && !w->dying;
		twheel_unlock(w, now);
		cond_resched();
	} while (more);
}

/* Timers */

/*
 * Arms the idle timer @e for its deadline. One that is due already expires at
 * once, but behind what was due before it: if that is more than a few, it
 * queues for the tick that is now.
 */
static void twheel_arm(struct twheel_file *w, struct twheel_entry *e, u64 now)
{
	u64 deadline = e->deadline;
	u64 slack = e->slack;

	e->past = deadline <= now;
	e->last = false;
	w->stats.armings++;
	if (e->past) {
		twheel_run(w, now, TWHEEL_ARM_BUDGET);
		deadline = now & ~(twheel_tick_ns(w) - 1);
		slack = 0;
	}
	twheel_set_time(&w->wheel, now);
	if (twheel_add(&w->wheel, &e->node, deadline, slack)) {
		e->state = TWHEEL_ARMED;
		w->stats.armed++;
	} else {
		twheel_ready(w, e, now);
	}
}

/* Makes @e idle, wherever it is. */
static void twheel_detach(struct twheel_file *w, struct twheel_entry *e)
{
	switch (e->state) {
	case TWHEEL_ARMED:
		twheel_del(&w->wheel, &e->node);
		w->stats.armed--;
		w->stats.displaced++;
		break;
	case TWHEEL_EXPIRED:
		list_del(&e->ready);
		w->stats.unread--;
		w->stats.withdrawn++;
		break;
	}
	e->state = TWHEEL_IDLE;
	e->deadline = 0;
}

/* Takes deadline, period, slack and flags from @t and arms @e if that says so. */
static void twheel_start(struct twheel_file *w, struct twheel_entry *e,
			 const struct twheel_timer *t, u64 now)
{
	e->period = t->period_ns;
	e->slack = t->slack_ns;
	e->flags = t->flags;
	if (t->flags & TWHEEL_DISARMED)
		return;
	if (t->flags & TWHEEL_ABSTIME)
		e->deadline = t->deadline_ns ?: 1;
	else
		e->deadline = twheel_after(now, t->deadline_ns);
	twheel_arm(w, e, now);
}

static void twheel_report(const struct twheel_entry *e, struct twheel_timer *t)
{
	*t = (struct twheel_timer) {
		.id = twheel_id(e),
		.user_data = e->user_data,
		.deadline_ns = e->deadline,
		.period_ns = e->period,
		.slack_ns = e->slack,
		.flags = e->flags,
		.state = e->state,
	};
}

/*
 * The verbs. Each checks everything before it changes anything, and changes
 * @t only if it succeeds.
 */

static int twheel_check(const struct twheel_file *w, const struct twheel_timer *t)
{
	return t->period_ns && t->period_ns < twheel_tick_ns(w) ? -EINVAL : 0;
}

static int twheel_register(struct twheel_file *w, struct twheel_timer *t, u64 now)
{
	struct twheel_entry *e;
	int err;

	/* A timer that is neither armed nor kept would be of no use. */
	if ((t->flags & TWHEEL_DISARMED) && !(t->flags & TWHEEL_KEEP))
		return -EINVAL;
	err = twheel_check(w, t);
	if (err)
		return err;
	e = twheel_alloc(w);
	if (IS_ERR(e))
		return PTR_ERR(e);
	e->user_data = t->user_data;
	twheel_start(w, e, t, now);
	w->stats.registered++;
	twheel_report(e, t);
	return 0;
}

static int twheel_rearm(struct twheel_file *w, struct twheel_timer *t, u64 now)
{
	struct twheel_entry *e;
	u32 before;
	int err;

	err = twheel_check(w, t);
	if (err)
		return err;
	e = twheel_find(w, t->id);
	if (!e)
		return -ENOENT;
	before = e->state;
	twheel_detach(w, e);
	twheel_start(w, e, t, now);
	w->stats.rearmed++;
	twheel_report(e, t);
	t->state = before;
	return 0;
}

static int twheel_cancel(struct twheel_file *w, struct twheel_timer *t)
{
	struct twheel_entry *e = twheel_find(w, t->id);

	if (!e)
		return -ENOENT;
	twheel_report(e, t);
	twheel_detach(w, e);
	twheel_free(w, e);
	w->stats.cancelled++;
	return 0;
}

static int twheel_get(struct twheel_file *w, struct twheel_timer *t)
{
	struct twheel_entry *e = twheel_find(w, t->id);

	if (!e)
		return -ENOENT;
	twheel_report(e, t);
	return 0;
}

static int twheel_apply(struct twheel_file *w, struct twheel_op *op, u64 now)
{
	struct twheel_timer *t = &op->timer;

	lockdep_assert_held(&w->lock);
	if (t->flags & ~(TWHEEL_ABSTIME | TWHEEL_KEEP | TWHEEL_DISARMED))
		return -EINVAL;
	switch (op->opcode) {
	case TWHEEL_OP_REGISTER:
		return twheel_register(w, t, now);
	case TWHEEL_OP_REARM:
		return twheel_rearm(w, t, now);
	case TWHEEL_OP_CANCEL:
		return twheel_cancel(w, t);
	case TWHEEL_OP_GET:
		return twheel_get(w, t);
	default:
		return -EINVAL;
	}
}

/* Does up to TWHEEL_GROUP operations, each with its own result. May sleep. */
static void twheel_exec(struct twheel_file *w, struct twheel_op *ops, unsigned int nr)
{
	unsigned int i = 0;

	while (i < nr) {
		u64 now = twheel_lock(w);
		int err = 0;

		for (; i < nr; i++) {
			err = twheel_apply(w, &ops[i], now);
			if (err == -EAGAIN)
				break;
			ops[i].result = err;
		}
		twheel_unlock(w, now);
		if (err == -EAGAIN) {
			err = twheel_grow(w);
			if (err)
				ops[i++].result = err;
		}
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
	/* Unmapped under our hands: nobody would know the id. */
	if (opcode == TWHEEL_OP_REGISTER) {
		op.opcode = TWHEEL_OP_CANCEL;
		twheel_exec(w, &op, 1);
	}
	return -EFAULT;
}

static noinline_for_stack long
twheel_ioctl_batch(struct twheel_file *w, const struct twheel_batch __user *arg)
{
	struct twheel_op ops[TWHEEL_GROUP];
	struct twheel_op __user *uptr;
	struct twheel_batch batch;
	unsigned int done = 0;

	if (copy_from_user(&batch, arg, sizeof(batch)))
		return -EFAULT;
	if (batch.flags || batch.count > TWHEEL_BATCH_MAX)
		return -EINVAL;
	uptr = twheel_user_ptr(batch.ops);
	while (done < batch.count) {
		unsigned int nr = min(batch.count - done, TWHEEL_GROUP);
		size_t size = nr * sizeof(*ops);
		unsigned int good;

		/* Whole operations that can be read, and written back. */
		size -= copy_from_user(ops, uptr + done, size);
		size = rounddown(size, sizeof(*ops));
		size -= copy_to_user(uptr + done, ops, size);
		good = size / sizeof(*ops);
		twheel_exec(w, ops, good);
		if (copy_to_user(uptr + done, ops, good * sizeof(*ops)))
			good = 0;
		done += good;
		if (good < nr && !done)
			return -EFAULT;
		if (good < nr || fatal_signal_pending(current))
			break;
		cond_resched();
	}
	return done;
}

/* Drains the timer @e if it is armed. Return: whether it was. */
static bool twheel_drain_one(struct twheel_file *w, struct twheel_entry *e, u32 mode,
			     u64 now)
{
	/* What is unread stays, but comes to its end there. */
	if (e->state == TWHEEL_EXPIRED)
		e->last = true;
	if (e->state != TWHEEL_ARMED)
		return false;
	if (mode == TWHEEL_DRAIN_CANCEL) {
		twheel_detach(w, e);
		twheel_free(w, e);
		w->stats.cancelled++;
		return true;
	}
	twheel_del(&w->wheel, &e->node);
	w->stats.armed--;
	twheel_ready(w, e, now);
	e->last = true;
	return true;
}

static long twheel_ioctl_drain(struct twheel_file *w, struct twheel_drain __user *arg)
{
	struct twheel_drain drain;
	u32 nr = 0;
	bool more;

	if (copy_from_user(&drain, arg, sizeof(drain)) ||
	    twheel_probe(arg, &drain, sizeof(drain)))
		return -EFAULT;
	if (drain.reserved ||
	    (drain.mode != TWHEEL_DRAIN_EXPIRE && drain.mode != TWHEEL_DRAIN_CANCEL))
		return -EINVAL;
	drain.count = 0;
	do {
		u64 now = twheel_lock(w);
		struct twheel_entry *entries;
		u64 live = twheel_live(&w->slots, nr, &entries);

		more = ++nr < w->slots.chunks;
		for (; live; live &= live - 1)
			drain.count += twheel_drain_one(w, &entries[__ffs64(live)],
							drain.mode, now);
		twheel_unlock(w, now);
		cond_resched();
	} while (more);
	if (put_user(drain.count, &arg->count))
		return -EFAULT;
	return drain.count;
}

/*
 * Reports up to @nr live timers from slot @cursor on, and moves it behind the
 * last. Looks at no more than TWHEEL_BUDGET chunks or timers. Return: how many;
 * -ENOENT if there are no more.
 */
static int twheel_list_group(struct twheel_file *w, u32 *cursor,
			     struct twheel_timer *t, unsigned int nr)
{
	unsigned int budget = TWHEEL_BUDGET;
	u32 slot = *cursor;
	int got = 0;
	bool end;

	spin_lock_bh(&w->lock);
	for (;;) {
		struct twheel_entry *entries;
		u64 live = twheel_live(&w->slots, slot >> TWHEEL_CHUNK_BITS, &entries);
		u32 i = slot & (TWHEEL_CHUNK - 1);

		end = slot >> TWHEEL_CHUNK_BITS >= w->slots.chunks;
		if (end || got == nr || !budget--)
			break;
		live &= U64_MAX << i;
		if (live) {
			i = __ffs64(live);
			twheel_report(&entries[i], &t[got++]);
			i++;
		} else {
			i = TWHEEL_CHUNK;
		}
		slot = (slot & ~(TWHEEL_CHUNK - 1)) + i;
	}
	spin_unlock_bh(&w->lock);
	*cursor = slot;
	return end && !got ? -ENOENT : got;
}

static noinline_for_stack long
twheel_ioctl_list(struct twheel_file *w, struct twheel_list __user *arg)
{
	struct twheel_timer timers[TWHEEL_GROUP];
	struct twheel_timer __user *uptr;
	struct twheel_list list;
	unsigned int done = 0;
	size_t left = 0;

	if (copy_from_user(&list, arg, sizeof(list)) ||
	    twheel_probe(arg, &list, sizeof(list)))
		return -EFAULT;
	uptr = twheel_user_ptr(list.timers);
	list.count = min_t(u32, list.count, INT_MAX);
	while (done < list.count && !left && !fatal_signal_pending(current)) {
		unsigned int nr = min(list.count - done, TWHEEL_GROUP);
		int got = twheel_list_group(w, &list.cursor, timers, nr);

		if (got < 0)
			break;
		left = copy_to_user(uptr + done, timers, got * sizeof(*timers));
		if (left) {
			got -= DIV_ROUND_UP(left, sizeof(*timers));
			/* To go on with the first that did not arrive. */
			list.cursor = (u32)timers[got].id;
		}
		done += got;
		cond_resched();
	}
	if (put_user(list.cursor, &arg->cursor) || (left && !done))
		return -EFAULT;
	return done;
}

static noinline_for_stack long
twheel_ioctl_stats(struct twheel_file *w, struct twheel_stats __user *arg)
{
	struct twheel_stats stats;

	spin_lock_bh(&w->lock);
	stats = w->stats;
	stats.cascaded = w->wheel.cascaded;
	spin_unlock_bh(&w->lock);
	return copy_to_user(arg, &stats, sizeof(stats)) ? -EFAULT : 0;
}

static long twheel_ioctl_info(struct twheel_file *w, struct twheel_info __user *arg)
{
	struct twheel_info info = { .min_tick_ns = READ_ONCE(min_tick_ns) };

	spin_lock_bh(&w->lock);
	info.tick_ns = twheel_tick_ns(w);
	info.horizon_ns = twheel_horizon(&w->wheel.shape);
	info.clock_id = w->clock_id;
	info.max_timers = w->slots.max;
	info.levels = w->wheel.shape.levels;
	info.slot_bits = w->wheel.shape.slot_bits;
	spin_unlock_bh(&w->lock);
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

/* Fills in the defaults and checks the rest. Return: 0, -EINVAL or -EPERM. */
static int twheel_setup_check(struct twheel_setup *setup)
{
	u32 limit = min(READ_ONCE(max_timers_limit), TWHEEL_SLOTS_MAX);

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
		setup->tick_ns = max_t(u64, TWHEEL_DEFAULT_TICK_NS, READ_ONCE(min_tick_ns));
	if (setup->tick_ns < READ_ONCE(min_tick_ns) && !capable(CAP_SYS_RESOURCE))
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
	if (!w->used) {
		swap(w->mem, mem);
		swap(w->slots, slots);
		INIT_LIST_HEAD(&w->slots.avail);
		INIT_LIST_HEAD(&w->slots.holes);
		w->clock_id = setup->clock_id;
		w->offset = 0;
		if (w->clock_id == CLOCK_MONOTONIC)
			w->offset = w->offset_monotonic;
		else if (w->clock_id == CLOCK_BOOTTIME)
			w->offset = w->offset_boottime;
		/* No timer has been made, so the hrtimer was never started. */
		hrtimer_setup(&w->timer, twheel_timer, w->clock_id, HRTIMER_MODE_ABS_SOFT);
		twheel_init(&w->wheel, &shape, w->mem, twheel_now(w));
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
	case TWHEEL_IOC_STATS:
		return twheel_ioctl_stats(w, arg);
	default:
		return -ENOTTY;
	}
}

/* read and poll */

/*
 * The event of the expired timer @e as of @now. A periodic timer's counts all
 * periods that have passed, whether or not its tick or slack has.
 */
static struct twheel_event twheel_event(const struct twheel_entry *e, u64 now)
{
	u64 expirations = 1;

	if (e->deadline > e->expired_ns)
		expirations = 0;
	else if (e->period && now > e->deadline)
		expirations += div64_u64(now - e->deadline, e->period);
	return (struct twheel_event) {
		.id = twheel_id(e),
		.user_data = e->user_data,
		.deadline_ns = e->deadline,
		.expired_ns = e->expired_ns,
		.expirations = expirations,
	};
}

/* The event @ev of @e has reached its reader. */
static void twheel_consume(struct twheel_file *w, struct twheel_entry *e,
			   const struct twheel_event *ev, u64 now)
{
	list_del(&e->ready);
	w->stats.unread--;
	w->stats.delivered++;
	e->state = TWHEEL_IDLE;
	e->deadline = 0;
	if (e->period && !e->last) {
		/* At most one period after now, so only the sum can overflow. */
		e->deadline = twheel_after(ev->deadline_ns, ev->expirations * e->period);
		twheel_arm(w, e, now);
	} else if (!(e->flags & TWHEEL_KEEP)) {
		twheel_free(w, e);
	}
}

/*
 * Copies up to TWHEEL_EVENTS events to @to and consumes those that were copied
 * whole. All under the lock and without page faults, so that to everybody else
 * an event is either unread or delivered: a CANCEL meanwhile knows which.
 *
 * Return: how many were delivered; -EAGAIN if none is ready; -EFAULT if the
 * user's page has to be brought in first.
 */
static int twheel_deliver(struct twheel_file *w, struct iov_iter *to)
{
	struct twheel_event events[TWHEEL_EVENTS];
	size_t room = iov_iter_count(to) / sizeof(*events);
	struct twheel_entry *e, *next;
	unsigned int nr = 0, good, i = 0;
	size_t copied;
	u64 now;

	now = twheel_lock(w);
	list_for_each_entry(e, &w->ready, ready) {
		if (nr == TWHEEL_EVENTS || nr == room)
			break;
		events[nr++] = twheel_event(e, now);
	}
	pagefault_disable();
	copied = copy_to_iter(events, nr * sizeof(*events), to);
	pagefault_enable();
	good = copied / sizeof(*events);
	iov_iter_revert(to, copied % sizeof(*events));
	list_for_each_entry_safe(e, next, &w->ready, ready) {
		if (i == good)
			break;
		twheel_consume(w, e, &events[i++], now);
	}
	twheel_unlock(w, now);
	if (good)
		return good;
	return nr ? -EFAULT : -EAGAIN;
}

static ssize_t twheel_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct file *file = iocb->ki_filp;
	struct twheel_file *w = file->private_data;
	bool nowait = (file->f_flags & O_NONBLOCK) || (iocb->ki_flags & IOCB_NOWAIT);
	ssize_t done = 0;
	int ret;

	if (iov_iter_count(to) < sizeof(struct twheel_event))
		return -EINVAL;
	for (;;) {
		ret = twheel_deliver(w, to);
		if (ret > 0) {
			done += ret * sizeof(struct twheel_event);
			if (iov_iter_count(to) < sizeof(struct twheel_event) ||
			    signal_pending(current))
				break;
			cond_resched();
			continue;
		}
		if (ret == -EFAULT) {
			if (fault_in_iov_iter_writeable(to, sizeof(struct twheel_event)) ||
			    fatal_signal_pending(current))
				break;
			continue;
		}
		if (done || nowait)
			break;
		ret = wait_event_interruptible_exclusive(w->readers, !list_empty(&w->ready));
		if (ret)
			break;
	}

	/* One reader was woken for all that had expired: hand on what is left. */
	if (!list_empty(&w->ready) && wq_has_sleeper(&w->readers))
		wake_up_interruptible(&w->readers);
	return done ?: ret;
}

static __poll_t twheel_poll(struct file *file, poll_table *wait)
{
	struct twheel_file *w = file->private_data;

	poll_wait(file, &w->pollers, wait);
	/*
	 *   here                              twheel_unlock()
	 *   add to pollers (its lock)         add to ready (our lock)
	 *   is ready empty?                   wake pollers (its lock)
	 *
	 * If the wake-up came before we were added, its lock has made ready
	 * visible to us. We cannot have missed both.
	 */
	return list_empty(&w->ready) ? 0 : EPOLLIN | EPOLLRDNORM;
}

static int twheel_fasync(int fd, struct file *file, int on)
{
	struct twheel_file *w = file->private_data;

	return fasync_helper(fd, file, on, &w->fasync);
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
	stats = w->stats;
	clock_id = w->clock_id;
	tick_ns = twheel_tick_ns(w);
	next = twheel_next(&w->wheel);
	max = w->slots.max;
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
	INIT_LIST_HEAD(&w->ready);
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

	/* From here on neither of the two starts the other, or itself. */
	spin_lock_bh(&w->lock);
	w->dying = true;
	spin_unlock_bh(&w->lock);
	hrtimer_cancel(&w->timer);
	cancel_work_sync(&w->work);

	twheel_slots_free(&w->slots);
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
	.fasync		= twheel_fasync,
	.unlocked_ioctl	= twheel_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= twheel_show_fdinfo,
};

static struct miscdevice twheel_misc = {
	.minor	= TWHEEL_MINOR,
	.name	= "twheel",
	.fops	= &twheel_fops,
	/* Anybody's: what a wheel costs is bounded, and charged to its opener. */
	.mode	= 0666,
};

static int __init twheel_module_init(void)
{
	int err = misc_register(&twheel_misc);

	if (err == -EBUSY) {
		twheel_misc.minor = MISC_DYNAMIC_MINOR;
		err = misc_register(&twheel_misc);
		if (!err)
			pr_info("minor %d is taken, using %d; the module will not load on open\n",
				TWHEEL_MINOR, twheel_misc.minor);
	}
	return err;
}
module_init(twheel_module_init);

static void __exit twheel_module_exit(void)
{
	misc_deregister(&twheel_misc);
}
module_exit(twheel_module_exit);

MODULE_LICENSE("GPL");
MODULE_AUTHOR("twheel contributors");
MODULE_DESCRIPTION("A timing wheel as a character device, for very many timeouts");
MODULE_VERSION("0.1.0");
MODULE_ALIAS_MISCDEV(TWHEEL_MINOR);
MODULE_ALIAS("devname:twheel");
