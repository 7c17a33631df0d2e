// SPDX-License-Identifier: GPL-2.0
/*
 * Measures what a timer costs in the kernel: with the wheel alone, under the lock of the
 * device, and with the verbs and the table on top, beside hrtimer and timer_list.
 * bench/device/kunit.sh runs it in user-mode Linux.
 *
 * All backends use objects of the same size, allocated in chunks of 256, with the
 * same deadlines and in the same order. A check first verifies that each backend delivers
 * the right timers. Each repetition measures all backends, so that a disturbance of the
 * machine affects all of them. The results are medians, in ns of CPU time per timer.
 *
 *   arm      queue a timer that is not queued
 *   move     move a queued timer to another deadline, earlier or later
 *   cancel   remove a queued timer
 *   expire   bucket: expire all in one tick. spread: expire them at random times within
 *            half an hour, one tick after the other, including the work of moving them down
 *   cascade  move a timer of a bucket of the third level down
 *   look     look at a timer at its old deadline, and find that its word has moved
 *   kick     the same as move, but through the word, which a look then finds
 *   read     read the event
 *
 * Two rows show what the memory alone costs: touch stores to random timers, and chase reads
 * from each timer where the next one is, as in a bucket.
 *
 * With the pattern "random", timers are used in random order. With "sequential", and with
 * patterns that do not mention an order, they are used in the order of their memory.
 */
#include <kunit/test.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/prefetch.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/timer.h>

#include "compat.h"
#include "twheel.h"
#include "twheel_apply.h"
#include "twheel_bench.h"
#include "twheel_pages.h"
#include "twheel_quota.h"
#include "twheel_timers.h"

static bool full;
module_param(full, bool, 0);
MODULE_PARM_DESC(full, "All with 10^7 timers, not the wheel alone");

static unsigned int reps = 5;
module_param(reps, uint, 0);
MODULE_PARM_DESC(reps, "Repetitions, 1 to 25; of what takes longest 3 at most, unless full");

static unsigned int only;
module_param(only, uint, 0);
MODULE_PARM_DESC(only, "With so many timers alone: 1000, 10000 ... 10000000");

#define MAX_REPS	25U
/* Number of objects that are allocated at a time, as in the module. */
#define CHUNK		256U
/* Number of timers in a check. */
#define CHECKED		1024U
/* Number of moves in a repetition, and minimum number of the other operations. */
#define MOVES		1000000U
/* Longer than a repetition takes, so that nothing expires in it. */
#define FAR_NS		(600 * (u64)NSEC_PER_SEC)
/* Delays are random numbers with this many bits, in units of 2^16 ns: up to 37 min. */
#define DELAY_BITS	25
/* In the same units, half of a bucket of the third level, which covers 2^31 ns. */
#define BUCKET_BITS	14

enum measure {
	ARM, ARM_RANDOM, MOVE, CANCEL, CANCEL_RANDOM, EXPIRE, EXPIRE_SPREAD, CASCADE,
	LOOKS, KICK, READ_EVENT, TOUCH, CHASE, MEASURES
};

static const struct {
	const char *op;
	const char *pattern;
} measures[MEASURES] = {
	[ARM] = { "arm", "sequential" },
	[ARM_RANDOM] = { "arm", "random" },
	[MOVE] = { "move", "random" },
	[CANCEL] = { "cancel", "sequential" },
	[CANCEL_RANDOM] = { "cancel", "random" },
	[EXPIRE] = { "expire", "bucket,random" },
	[EXPIRE_SPREAD] = { "expire", "spread" },
	[CASCADE] = { "cascade", "random" },
	[LOOKS] = { "look", "spread" },
	[KICK] = { "kick", "random" },
	[READ_EVENT] = { "read", "random" },
	[TOUCH] = { "touch", "random" },
	[CHASE] = { "chase", "random" },
};

struct cost {
	u64 ns;
	u64 ops;
};

struct object {
	union {
		struct timer entry;
		struct hrtimer hrtimer;
		struct timer_list timer;
	};
};

static_assert(sizeof(struct object) == 64);

/**
 * struct bench - the data of all backends
 * @nr: number of timers
 * @rounds: number of rounds; each uses every timer once
 * @moves: number of moves in a round
 * @chunk: the objects of backends that do not allocate their own
 * @order: the indices of all timers, in random order
 * @delay: the delay of each timer
 * @victim: the timers to move, one after the other
 * @redelay: their new delays
 * @ids: the ids of the timers that the verbs have created
 * @wheel: a wheel
 * @mem: its buckets
 * @lock: the lock of the wheel
 * @timers: the layer above the wheel
 * @pages: the memory of that layer's timers
 * @now: the current time of that layer
 * @base: the time that delays are added to
 * @base_jiffies: the same in jiffies
 */
struct bench {
	u32 nr;
	u32 rounds;
	u32 moves;
	struct object **chunk;
	u32 *order;
	u32 *delay;
	u32 *victim;
	u32 *redelay;
	u64 *ids;
	struct wheel wheel;
	void *mem;
	/* core+lock takes this one, as the device takes its own. */
	spinlock_t lock;
	struct timers timers;
	struct pages pages;
	u64 now;
	u64 base;
	unsigned long base_jiffies;
};

static u32 scattered(void)
{
	static u64 state = 88172645463325252ULL;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 32;
}

static inline struct object *object(const struct bench *b, u32 i)
{
	return &b->chunk[i / CHUNK][i % CHUNK];
}

/* Adds the cost of @ops operations since *@start, and sets *@start to now. */
static void count(struct cost *cost, u64 *start, u64 ops)
{
	u64 before = *start;

	*start = cpu_ns();
	cost->ns += *start - before;
	cost->ops += ops;
}

static inline u64 delay_ns(u32 delay)
{
	return (u64)delay << 16;
}

/* Measures arm, move and cancel of any backend. */
static __always_inline void
measure_life(struct bench *b, struct cost *cost,
	     void (*arm)(struct bench *b, struct object *o, u32 i, u32 delay),
	     void (*move)(struct bench *b, struct object *o, u32 i, u32 delay),
	     void (*cancel)(struct bench *b, struct object *o))
{
	u32 round, i;
	u64 start;

	for (round = 0; round < b->rounds; round++) {
		start = cpu_ns();
		for (i = 0; i < b->nr; i++)
			arm(b, object(b, i), i, b->delay[i]);
		count(&cost[ARM], &start, b->nr);
		for (i = 0; i < b->moves; i++)
			move(b, object(b, b->victim[i]), b->victim[i], b->redelay[i]);
		count(&cost[MOVE], &start, b->moves);
		for (i = 0; i < b->nr; i++)
			cancel(b, object(b, b->order[i]));
		count(&cost[CANCEL_RANDOM], &start, b->nr);
		for (i = 0; i < b->nr; i++)
			arm(b, object(b, b->order[i]), b->order[i], b->delay[i]);
		count(&cost[ARM_RANDOM], &start, b->nr);
		for (i = 0; i < b->nr; i++)
			cancel(b, object(b, i));
		count(&cost[CANCEL], &start, b->nr);
	}
}

/* The memory alone */

static void memory_run(struct kunit *test, struct bench *b, struct cost *cost)
{
	struct object *o;
	u32 round, i;
	u64 start;

	for (i = 0; i < b->nr; i++)
		object(b, b->order[i])->entry.node.link.next =
			&object(b, b->order[(i + 1) % b->nr])->entry.node.link;
	for (round = 0; round < b->rounds; round++) {
		start = cpu_ns();
		for (i = 0; i < b->nr; i++)
			WRITE_ONCE(object(b, b->order[i])->entry.node.tick, i);
		count(&cost[TOUCH], &start, b->nr);
		o = object(b, b->order[0]);
		for (i = 0; i < b->nr; i++)
			o = container_of(READ_ONCE(o->entry.node.link.next), struct object,
					 entry.node.link);
		count(&cost[CHASE], &start, b->nr);
		KUNIT_ASSERT_PTR_EQ(test, o, object(b, b->order[0]));
	}
}

/* The wheel alone */

static const struct wheel_shape bench_shape = { .shift = 19, .slot_bits = 6, .levels = 8 };

static void fetch_object(const void *b, u32 number, bool due)
{
	prefetchw(object(b, number));
}

static void core_reset(struct bench *b)
{
	memset(b->mem, 0, wheel_bytes(&bench_shape));
	wheel_init(&b->wheel, &bench_shape, b->mem, 0, b->chunk ? fetch_object : NULL,
		   b);
}

static void core_begin(struct bench *b)
{
	u32 i;

	for (i = 0; i < b->nr; i++)
		object(b, i)->entry.node.number = i;
	core_reset(b);
}

static inline void core_arm(struct bench *b, struct object *o, u32 i, u32 delay)
{
	wheel_add(&b->wheel, &o->entry.node, i, FAR_NS + delay_ns(delay), 0);
}

static inline void core_cancel(struct bench *b, struct object *o)
{
	wheel_del(&b->wheel, &o->entry.node);
}

static inline void core_move(struct bench *b, struct object *o, u32 i, u32 delay)
{
	wheel_del(&b->wheel, &o->entry.node);
	wheel_add(&b->wheel, &o->entry.node, i, FAR_NS + delay_ns(delay), 0);
}

/* Turns the wheel to @now and returns the number of expirations. */
static u32 core_expire(struct bench *b, u64 now)
{
	unsigned int budget = U32_MAX;
	u32 nr = 0;

	while (wheel_expire(&b->wheel, now, &budget))
		nr++;
	return nr;
}

static void core_run(struct kunit *test, struct bench *b, struct cost *cost)
{
	u32 round, i, came;
	u64 start, now;

	core_begin(b);
	measure_life(b, cost, core_arm, core_move, core_cancel);
	for (round = 0; round < b->rounds; round++) {
		core_reset(b);
		for (i = 0; i < b->nr; i++)
			core_arm(b, object(b, b->order[i]), b->order[i], 0);
		now = wheel_next(&b->wheel);
		/* Move them down to the tick in which all are due. */
		while (now < FAR_NS) {
			core_expire(b, now);
			now = wheel_next(&b->wheel);
		}
		start = cpu_ns();
		came = core_expire(b, now);
		count(&cost[EXPIRE], &start, b->nr);
		KUNIT_ASSERT_EQ(test, came, b->nr);

		core_reset(b);
		for (i = 0; i < b->nr; i++)
			core_arm(b, object(b, i), i, b->delay[i]);
		came = 0;
		start = cpu_ns();
		while ((now = wheel_next(&b->wheel)) != WHEEL_NEVER)
			came += core_expire(b, now);
		count(&cost[EXPIRE_SPREAD], &start, b->nr);
		KUNIT_ASSERT_EQ(test, came, b->nr);

		core_reset(b);
		for (i = 0; i < b->nr; i++) {
			u64 delay = delay_ns(b->delay[b->order[i]] & ((1U << BUCKET_BITS) - 1));

			wheel_add(&b->wheel, &object(b, b->order[i])->entry.node, b->order[i],
				  (3ULL << 31) + delay + 1, 0);
		}
		start = cpu_ns();
		came = core_expire(b, 3ULL << 31);
		count(&cost[CASCADE], &start, b->nr);
		KUNIT_ASSERT_EQ(test, b->wheel.cascaded, b->nr);
		KUNIT_ASSERT_EQ(test, came, 0);
	}
	core_reset(b);
}

static bool core_check(struct bench *b, struct object *objects)
{
	unsigned int budget, came = 0;
	struct wheel_node *node;
	u64 now;
	u32 i;

	core_reset(b);
	for (i = 0; i < CHECKED; i++) {
		core_arm(b, &objects[i], i, b->delay[i]);
		if (i % 4 == 1)
			core_move(b, &objects[i], i, b->redelay[i]);
		else if (i % 4 == 2)
			core_cancel(b, &objects[i]);
		objects[i].entry.deadline = FAR_NS +
					    delay_ns(i % 4 == 1 ? b->redelay[i] : b->delay[i]);
		objects[i].entry.period = i % 4 == 2;
	}
	while ((now = wheel_next(&b->wheel)) != WHEEL_NEVER) {
		budget = U32_MAX;
		while ((node = wheel_expire(&b->wheel, now, &budget))) {
			struct timer *e = container_of(node, struct timer, node);

			if (e->deadline > now || now - e->deadline >= 1 << bench_shape.shift ||
			    e->period++)
				return false;
			came++;
		}
	}
	return came == CHECKED / 4 * 3;
}

/* The wheel, under the lock of the device */

static inline void locked_arm(struct bench *b, struct object *o, u32 i, u32 delay)
{
	spin_lock_bh(&b->lock);
	core_arm(b, o, i, delay);
	spin_unlock_bh(&b->lock);
}

static inline void locked_cancel(struct bench *b, struct object *o)
{
	spin_lock_bh(&b->lock);
	core_cancel(b, o);
	spin_unlock_bh(&b->lock);
}

static inline void locked_move(struct bench *b, struct object *o, u32 i, u32 delay)
{
	spin_lock_bh(&b->lock);
	core_move(b, o, i, delay);
	spin_unlock_bh(&b->lock);
}

static void locked_run(struct kunit *test, struct bench *b, struct cost *cost)
{
	core_begin(b);
	measure_life(b, cost, locked_arm, locked_move, locked_cancel);
}

/* Expiration of the kernel's own timers */

static struct {
	u32 nr;
	u32 wanted;
	u64 first;
	u64 last;
	/* Only in a check: the timers, and how often each has expired. */
	struct object *objects;
	u8 times[CHECKED];
	bool early;
} expired;

static void expired_one(struct object *o, bool early)
{
	if (!expired.nr)
		expired.first = cpu_ns();
	expired.early |= early;
	if (expired.objects)
		expired.times[o - expired.objects]++;
	if (++expired.nr == expired.wanted)
		expired.last = cpu_ns();
}

static __always_inline void
measure_expiry(struct bench *b, struct cost *cost,
	       void (*arm_now)(struct bench *b, struct object *o))
{
	unsigned long flags;
	u32 round, i;

	expired.objects = NULL;
	for (round = 0; round < min(b->rounds, 32U); round++) {
		expired.nr = 0;
		expired.wanted = b->nr;
		local_irq_save(flags);
		b->base = ktime_get_ns() + NSEC_PER_MSEC;
		b->base_jiffies = jiffies + 1;
		for (i = 0; i < b->nr; i++)
			arm_now(b, object(b, b->order[i]));
		local_irq_restore(flags);
		while (READ_ONCE(expired.nr) < b->nr)
			cpu_relax();
		cost[EXPIRE].ns += expired.last - expired.first;
		cost[EXPIRE].ops += b->nr;
	}
}

/* Arms random timers, moves a quarter, cancels a quarter, and checks that the right ones expire. */
static __always_inline bool
check_rival(struct bench *b, struct object *objects,
	    void (*init)(struct bench *b, struct object *o),
	    void (*arm)(struct bench *b, struct object *o, u32 i, u32 delay),
	    void (*move)(struct bench *b, struct object *o, u32 i, u32 delay),
	    void (*cancel)(struct bench *b, struct object *o))
{
	bool good;
	u32 i;

	memset(&expired, 0, sizeof(expired));
	expired.objects = objects;
	/* The last one then expires after 0.4 s. */
	b->base = ktime_get_ns() + 100 * NSEC_PER_MSEC;
	b->base_jiffies = jiffies + HZ / 10;
	for (i = 0; i < CHECKED; i++) {
		init(b, &objects[i]);
		arm(b, &objects[i], i, b->delay[i] >> 13);
		if (i % 4 == 1)
			move(b, &objects[i], i, b->redelay[i] >> 13);
		else if (i % 4 == 2)
			cancel(b, &objects[i]);
	}
	schedule_timeout_uninterruptible(HZ);
	good = !expired.early && expired.nr == CHECKED / 4 * 3;
	for (i = 0; i < CHECKED; i++)
		good &= expired.times[i] == (i % 4 != 2);
	return good;
}

/* hrtimer */

static enum hrtimer_restart hr_expired(struct hrtimer *timer)
{
	expired_one(container_of(timer, struct object, hrtimer),
		    ktime_get() < hrtimer_get_expires(timer));
	return HRTIMER_NORESTART;
}

static inline void hr_init(struct bench *b, struct object *o)
{
	hrtimer_setup(&o->hrtimer, hr_expired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}

static inline void hr_arm(struct bench *b, struct object *o, u32 i, u32 delay)
{
	hrtimer_start(&o->hrtimer, ns_to_ktime(b->base + delay_ns(delay)), HRTIMER_MODE_ABS);
}

static inline void hr_arm_now(struct bench *b, struct object *o)
{
	hr_arm(b, o, 0, 0);
}

static inline void hr_cancel(struct bench *b, struct object *o)
{
	hrtimer_try_to_cancel(&o->hrtimer);
}

static void hr_run(struct kunit *test, struct bench *b, struct cost *cost)
{
	u32 i;

	for (i = 0; i < b->nr; i++)
		hr_init(b, object(b, i));
	b->base = ktime_get_ns() + FAR_NS;
	measure_life(b, cost, hr_arm, hr_arm, hr_cancel);
	measure_expiry(b, cost, hr_arm_now);
}

static bool hr_check(struct bench *b, struct object *objects)
{
	return check_rival(b, objects, hr_init, hr_arm, hr_arm, hr_cancel);
}

/* timer_list */

static void tl_expired(struct timer_list *timer)
{
	expired_one(container_of(timer, struct object, timer),
		    time_before(jiffies, timer->expires));
}

static inline void tl_init(struct bench *b, struct object *o)
{
	timer_setup(&o->timer, tl_expired, 0);
}

/* A jiffy is not 2^23 ns long, but close enough to spread the deadlines. */
static inline unsigned long tl_expires(struct bench *b, u32 delay)
{
	return b->base_jiffies + (delay >> 7);
}

static inline void tl_arm(struct bench *b, struct object *o, u32 i, u32 delay)
{
	o->timer.expires = tl_expires(b, delay);
	add_timer(&o->timer);
}

static inline void tl_arm_now(struct bench *b, struct object *o)
{
	tl_arm(b, o, 0, 0);
}

static inline void tl_move(struct bench *b, struct object *o, u32 i, u32 delay)
{
	mod_timer(&o->timer, tl_expires(b, delay));
}

static inline void tl_cancel(struct bench *b, struct object *o)
{
	timer_delete(&o->timer);
}

static void tl_run(struct kunit *test, struct bench *b, struct cost *cost)
{
	u32 i;

	for (i = 0; i < b->nr; i++)
		tl_init(b, object(b, i));
	b->base_jiffies = jiffies + FAR_NS / NSEC_PER_SEC * HZ;
	measure_life(b, cost, tl_arm, tl_move, tl_cancel);
	measure_expiry(b, cost, tl_arm_now);
}

static bool tl_check(struct bench *b, struct object *objects)
{
	return check_rival(b, objects, tl_init, tl_arm, tl_move, tl_cancel);
}

/* The verbs */

static void verbs_make(struct kunit *test, struct bench *b)
{
	core_reset(b);
	memset(&b->timers, 0, sizeof(b->timers));
	memset(&b->pages, 0, sizeof(b->pages));
	wheel_init(&b->timers.wheel, &bench_shape, b->mem, 0, store_fetch, &b->pages.store);
	b->pages.store.max = b->nr;
	pages_init(&b->pages, &b->lock);
	KUNIT_ASSERT_EQ(test, 0, quota_open(&b->pages.bill, current_cred(), 0));
	timers_begin(&b->timers, &b->pages.store);
	b->now = 1;
}

static void verbs_end(struct bench *b)
{
	pages_free(&b->pages);
	quota_close(&b->pages.bill);
}

static inline int verbs_do(struct bench *b, struct twheel_op *op)
{
	while (!timers_apply(&b->timers, op, 1, b->now))
		if (pages_grow(&b->pages))
			return -ENOMEM;
	return op->result;
}

static inline int verbs_arm(struct bench *b, u32 i, u64 deadline)
{
	struct twheel_op op = {
		.opcode = TWHEEL_OP_REGISTER,
		.timer.user_data = i,
		.timer.deadline_ns = deadline,
		.timer.flags = TWHEEL_ABSTIME,
	};
	int err = verbs_do(b, &op);

	b->ids[i] = op.timer.id;
	return err;
}

static inline int verbs_move(struct bench *b, u32 i, u64 deadline)
{
	struct twheel_op op = {
		.opcode = TWHEEL_OP_REARM,
		.timer.id = b->ids[i],
		.timer.deadline_ns = deadline,
		.timer.flags = TWHEEL_ABSTIME,
	};

	return verbs_do(b, &op);
}

static inline int verbs_cancel(struct bench *b, u32 i)
{
	struct twheel_op op = {
		.opcode = TWHEEL_OP_CANCEL,
		.timer.id = b->ids[i],
	};

	return verbs_do(b, &op);
}

static inline struct twheel_slot *verbs_word(struct bench *b, u32 slot)
{
	return store_word(&b->pages.store, slot);
}

/* Turns the wheel until nothing is armed, and returns the number of expirations. */
static u32 verbs_turn(struct bench *b)
{
	u64 next;

	while ((next = wheel_next(&b->timers.wheel)) != WHEEL_NEVER)
		timers_turn(&b->timers, next, U32_MAX);
	return b->timers.stats.unread;
}

/* Reads the events as the device does, but does not copy them. Returns their number. */
static u32 verbs_read(struct bench *b, u64 now, void (*see)(struct bench *b,
							    const struct twheel_event *event))
{
	struct twheel_event events[16];
	u32 done = 0, got, i;

	while ((got = timers_peek(&b->timers, events, ARRAY_SIZE(events), now))) {
		for (i = 0; see && i < got; i++)
			see(b, &events[i]);
		timers_consume(&b->timers, events, got, now);
		done += got;
	}
	return done;
}

static void verbs_run(struct kunit *test, struct bench *b, struct cost *cost)
{
	u32 round, i;
	int err = 0;
	u64 start;

	for (round = 0; round < b->rounds; round++) {
		verbs_make(test, b);
		start = cpu_ns();
		for (i = 0; i < b->nr; i++)
			err |= verbs_arm(b, i, FAR_NS + delay_ns(b->delay[i]));
		count(&cost[ARM], &start, b->nr);
		for (i = 0; i < b->moves; i++)
			err |= verbs_move(b, b->victim[i], FAR_NS + delay_ns(b->redelay[i]));
		count(&cost[MOVE], &start, b->moves);
		for (i = 0; i < b->nr; i++)
			err |= verbs_cancel(b, b->order[i]);
		count(&cost[CANCEL_RANDOM], &start, b->nr);
		for (i = 0; i < b->nr; i++)
			err |= verbs_arm(b, i, FAR_NS + delay_ns(b->delay[i]));
		start = cpu_ns();
		for (i = 0; i < b->nr; i++)
			err |= verbs_cancel(b, i);
		count(&cost[CANCEL], &start, b->nr);

		/* Expire all in one tick, in an order that is unrelated to that in memory. */
		for (i = 0; i < b->nr; i++)
			err |= verbs_arm(b, i, FAR_NS + delay_ns(b->delay[i]));
		for (i = 0; i < b->nr; i++)
			err |= verbs_move(b, b->order[i], 3ULL << bench_shape.shift);
		b->now = 3ULL << bench_shape.shift;
		start = cpu_ns();
		timers_turn(&b->timers, b->now, U32_MAX);
		count(&cost[EXPIRE], &start, b->nr);
		KUNIT_ASSERT_EQ(test, b->timers.stats.unread, b->nr);
		start = cpu_ns();
		KUNIT_ASSERT_EQ(test, verbs_read(b, b->now, NULL), b->nr);
		count(&cost[READ_EVENT], &start, b->nr);

		/* Expire them one tick after the other, after each was moved through its word. */
		for (i = 0; i < b->nr; i++)
			err |= verbs_arm(b, i, FAR_NS + delay_ns(b->delay[i]));
		b->timers.kicks++;
		start = cpu_ns();
		for (i = 0; i < b->moves; i++) {
			u32 slot = (u32)b->ids[b->victim[i]];

			xchg(&verbs_word(b, slot)->deadline_ns, FAR_NS + delay_ns(b->redelay[i]));
			reconcile(&b->timers, store_at(b->timers.store, slot), verbs_word(b, slot),
				  b->now);
		}
		b->timers.kicks--;
		count(&cost[KICK], &start, b->moves);
		for (i = 0; i < b->nr; i++)
			xchg(&verbs_word(b, (u32)b->ids[i])->deadline_ns, 16 * FAR_NS);
		start = cpu_ns();
		while ((b->now = wheel_next(&b->timers.wheel)) < 8 * FAR_NS)
			timers_turn(&b->timers, b->now, U32_MAX);
		count(&cost[LOOKS], &start, b->nr);
		KUNIT_ASSERT_EQ(test, b->timers.stats.armed, b->nr);
		b->now = 8 * FAR_NS;
		for (i = 0; i < b->nr; i++)
			err |= verbs_move(b, i, 9 * FAR_NS + delay_ns(b->delay[i]));
		start = cpu_ns();
		KUNIT_ASSERT_EQ(test, verbs_turn(b), b->nr);
		count(&cost[EXPIRE_SPREAD], &start, b->nr);
		KUNIT_ASSERT_EQ(test, err, 0);
		verbs_end(b);
	}
}

static struct {
	u8 times[CHECKED];
	bool wrong;
} seen;

static void see_event(struct bench *b, const struct twheel_event *event)
{
	u32 i = event->user_data;
	u64 deadline = FAR_NS + delay_ns(i % 4 == 1 ? b->redelay[i] : b->delay[i]);

	seen.wrong |= event->id != b->ids[i] || event->deadline_ns != deadline ||
		      deadline > b->now || event->expirations != 1;
	seen.times[i]++;
}

static noinline_for_stack bool verbs_check(struct kunit *test, struct bench *b)
{
	bool good;
	u64 next;
	u32 i;

	memset(&seen, 0, sizeof(seen));
	verbs_make(test, b);
	for (i = 0; i < CHECKED; i++) {
		verbs_arm(b, i, FAR_NS + delay_ns(b->delay[i]));
		if (i % 4 == 1)
			verbs_move(b, i, FAR_NS + delay_ns(b->redelay[i]));
		else if (i % 4 == 2)
			verbs_cancel(b, i);
	}
	while ((next = wheel_next(&b->timers.wheel)) != WHEEL_NEVER) {
		b->now = next;
		timers_turn(&b->timers, next, U32_MAX);
		verbs_read(b, next, see_event);
	}
	good = !seen.wrong;
	for (i = 0; i < CHECKED; i++)
		good &= seen.times[i] == (i % 4 != 2);
	verbs_end(b);
	return good;
}

/* All backends */

static const struct {
	const char *name;
	void (*run)(struct kunit *test, struct bench *b, struct cost *cost);
	/* Measure it with 10^7 timers even without full=1. */
	bool always;
} backends[] = {
	{ "memory", memory_run, true },
	{ "core", core_run, true },
	{ "core+lock", locked_run, false },
	{ "timer_list", tl_run, false },
	{ "hrtimer", hr_run, false },
	{ "timers", verbs_run, false },
};

static void *bench_alloc(struct kunit *test, size_t nr, size_t size)
{
	void *mem = kvcalloc(nr, size, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mem);
	return mem;
}

static void bench_make(struct kunit *test, struct bench *b, u32 nr)
{
	u32 i;

	*b = (struct bench) { .nr = nr, .rounds = max(MOVES / nr, 1U) };
	b->moves = MOVES / b->rounds;
	spin_lock_init(&b->lock);
	b->mem = bench_alloc(test, 1, wheel_bytes(&bench_shape));
	b->ids = bench_alloc(test, nr, sizeof(*b->ids));
	b->order = bench_alloc(test, nr, sizeof(*b->order));
	b->delay = bench_alloc(test, nr, sizeof(*b->delay));
	b->victim = bench_alloc(test, MOVES, sizeof(*b->victim));
	b->redelay = bench_alloc(test, MOVES, sizeof(*b->redelay));
	for (i = 0; i < nr; i++) {
		u32 other = (u64)scattered() * (i + 1) >> 32;

		b->order[i] = b->order[other];
		b->order[other] = i;
		b->delay[i] = scattered() >> (32 - DELAY_BITS);
	}
	for (i = 0; i < MOVES; i++) {
		b->victim[i] = (u64)scattered() * nr >> 32;
		b->redelay[i] = scattered() >> (32 - DELAY_BITS);
	}
}

static void bench_free(struct bench *b)
{
	kvfree(b->redelay);
	kvfree(b->victim);
	kvfree(b->delay);
	kvfree(b->order);
	kvfree(b->ids);
	kvfree(b->mem);
}

/* Allocates the objects as the module does. */
static void objects_make(struct kunit *test, struct bench *b)
{
	u32 i, nr = DIV_ROUND_UP(b->nr, CHUNK);

	b->chunk = bench_alloc(test, nr, sizeof(*b->chunk));
	for (i = 0; i < nr; i++) {
		b->chunk[i] = kvcalloc(CHUNK, sizeof(struct object), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, b->chunk[i]);
	}
}

static void objects_free(struct bench *b)
{
	u32 i;

	for (i = 0; i < DIV_ROUND_UP(b->nr, CHUNK); i++)
		kvfree(b->chunk[i]);
	kvfree(b->chunk);
	b->chunk = NULL;
}

static void bench_check(struct kunit *test)
{
	struct object *objects;
	struct bench b;

	bench_make(test, &b, CHECKED);
	objects = bench_alloc(test, CHECKED, sizeof(*objects));
	KUNIT_EXPECT_TRUE(test, core_check(&b, objects));
	memset(objects, 0, CHECKED * sizeof(*objects));
	KUNIT_EXPECT_TRUE(test, hr_check(&b, objects));
	memset(objects, 0, CHECKED * sizeof(*objects));
	KUNIT_EXPECT_TRUE(test, tl_check(&b, objects));
	KUNIT_EXPECT_TRUE(test, verbs_check(test, &b));
	kvfree(objects);
	bench_free(&b);
}

static int compare(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static const u32 numbers[] = { 1000, 10000, 100000, 1000000, 10000000 };

/* In 1/1000 ns; 0 if nothing was measured. */
static u64 values[ARRAY_SIZE(numbers)][ARRAY_SIZE(backends)][MEASURES][MAX_REPS];

/* The longest measurements are repeated less often, except with full=1. */
static unsigned int reps_of(u32 nr)
{
	return nr >= MOVES && !full ? min(reps, 3U) : reps;
}

static void put_rows(u32 nr, u64 (*of_backend)[MEASURES][MAX_REPS])
{
	unsigned int times = reps_of(nr), i, m, r;

	for (m = 0; m < MEASURES; m++) {
		for (i = 0; i < ARRAY_SIZE(backends); i++) {
			u64 *v = of_backend[i][m];
			u64 median;
			/* Each value has up to 20 digits, a point and a space. */
			char all[24 * MAX_REPS];
			int length = 0;

			sort(v, times, sizeof(*v), compare, NULL);
			median = v[times / 2];
			if (!median)
				continue;
			for (r = 0; r < times; r++)
				length += scnprintf(all + length, sizeof(all) - length,
						    "%s%llu.%02llu", r ? " " : "",
						    v[r] / 1000, v[r] % 1000 / 10);
			pr_info("bench-row: uml\t%s\t%s\t%u\t1\t%s\t%llu.%02llu\tns\t%llu\t%u\tyes\t%s\n",
				measures[m].op, backends[i].name, nr, measures[m].pattern,
				median / 1000, median % 1000 / 10,
				(v[times - 1] - v[0]) * 100 / median, times, all);
		}
	}
}

/* Each repetition is a test case of its own, because KUnit limits the time of a case. */
static void bench_measure(struct kunit *test)
{
	u32 run = *(const u32 *)test->param_value;
	u32 number = run % ARRAY_SIZE(numbers), rep = run / ARRAY_SIZE(numbers);
	u32 nr = numbers[number];
	unsigned int i, m;
	struct bench b;

	if (only && nr != only) {
		kunit_skip(test, "only %u", only);
		return;
	}
	if (rep >= reps_of(nr)) {
		kunit_skip(test, "repeated %u times", reps_of(nr));
		return;
	}
	bench_make(test, &b, nr);
	objects_make(test, &b);
	for (i = 0; i < ARRAY_SIZE(backends); i++) {
		struct cost cost[MEASURES] = {};

		if (!backends[i].always && nr > MOVES && !full)
			continue;
		/* The verbs allocate their own memory. */
		if (backends[i].run == verbs_run)
			objects_free(&b);
		backends[i].run(test, &b, cost);
		for (m = 0; m < MEASURES; m++)
			values[number][i][m][rep] = cost[m].ns * 1000 / max(cost[m].ops, 1ULL);
		cond_resched();
	}
	if (b.chunk)
		objects_free(&b);
	bench_free(&b);
	if (rep == reps_of(nr) - 1)
		put_rows(nr, values[number]);
}

/* Goes through all numbers of timers, and then through all of them again. */
static const void *run_gen_params(const void *prev, char *desc)
{
	static u32 run;

	reps = clamp(reps, 1U, MAX_REPS);
	run = prev ? run + 1 : 0;
	if (run == ARRAY_SIZE(numbers) * reps)
		return NULL;
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u timers", numbers[run % ARRAY_SIZE(numbers)]);
	return &run;
}

static struct kunit_case twheel_bench_cases[] = {
	KUNIT_CASE(bench_check),
	KUNIT_CASE_PARAM(bench_measure, run_gen_params),
	{}
};

static struct kunit_suite twheel_bench_suite = {
	.name = "twheel_bench",
	.test_cases = twheel_bench_cases,
};

kunit_test_suite(twheel_bench_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("What the wheel costs, beside hrtimer and timer_list");
