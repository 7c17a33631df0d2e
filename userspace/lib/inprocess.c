// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The wheel in this process: what /dev/twheel does, behind a mutex and a
 * timerfd, by the same twheel.c and twheel_timers.c.
 *
 * The words are memory of the process, which its threads exchange without the
 * mutex. What is different is who turns the wheel: whoever reads it, which the
 * timerfd asks for when there is something to do, and nobody in between. So
 * the timerfd is readable while anything is unread, too.
 *
 * Nothing is hostile here and no softirq has to be kept short, so all that is
 * due is expired at once. Memory is address space until it is touched.
 *
 * The two are GPL-2.0, and so is a library that has this file; one that is
 * built with WITHOUT_FALLBACK=1 has not.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <linux/err.h>
#include <linux/limits.h>

#include "internal.h"
#include "twheel_timers.h"

#define DEFAULT_TICK_NS		1000000ULL
#define DEFAULT_SLOT_BITS	6U
#define DEFAULT_TIMERS		(1U << 20)

/* Events that are claimed at a time. */
#define EVENTS	64U
/* Timers that are found to be no events while that many are looked for. */
#define LOOKS	256U

/* What is beyond this is in large pages, where the machine has them for the asking. */
#define LARGE_PAGE	(2UL << 20)

/**
 * struct inprocess - a wheel
 * @lock: protects all below
 * @timers: the timers, and what has happened to them
 * @mem: the buckets
 * @entries: a timer per slot
 * @words: a word per slot
 * @free: those of @entries that have been used and are not now
 * @fresh: the first that was never used
 * @gen: generation that was given out last
 * @fd: the timerfd
 * @clock: of the wheel
 * @set: when @fd becomes readable, or has; TWHEEL_NEVER if never
 */
struct inprocess {
	pthread_mutex_t lock;
	struct twheel_timers timers;
	void *mem;
	struct twheel_entry *entries;
	struct twheel_slot *words;
	struct hlist_head free;
	u32 fresh;
	u32 gen;
	int fd;
	clockid_t clock;
	u64 set;
};

/* The slots, for twheel_timers.c; see twheel_slots.h */

static struct inprocess *of_slots(const struct twheel_slots *s)
{
	return container_of(s, struct inprocess, timers.slots);
}

struct twheel_entry *twheel_slots_at(const struct twheel_slots *s, u32 slot)
{
	struct inprocess *p = of_slots(s);

	return slot < p->fresh && p->entries[slot].gen ? &p->entries[slot] : NULL;
}

struct twheel_slot *twheel_slots_word(const struct twheel_slots *s,
				      const struct twheel_entry *e)
{
	struct inprocess *p = of_slots(s);

	/* Known without a look at the timer, which may be far. */
	return &p->words[e - p->entries];
}

void twheel_slots_prefetch(const struct twheel_slots *s, const struct twheel_entry *e)
{
	__builtin_prefetch(e, 1);
	__builtin_prefetch(twheel_slots_word(s, e), 1);
}

u64 twheel_slots_live(const struct twheel_slots *s, u32 chunk, struct twheel_entry **entries)
{
	struct inprocess *p = of_slots(s);
	u64 live = 0;
	u32 i;

	*entries = &p->entries[chunk * TWHEEL_CHUNK];
	for (i = 0; i < TWHEEL_CHUNK; i++)
		live |= (u64)!!twheel_slots_at(s, chunk * TWHEEL_CHUNK + i) << i;
	return live;
}

struct twheel_entry *twheel_slots_get(struct twheel_slots *s)
{
	struct inprocess *p = of_slots(s);
	struct twheel_entry *e;

	if (!hlist_empty(&p->free)) {
		e = hlist_entry(p->free.first, struct twheel_entry, node.link);
		__hlist_del(&e->node.link);
	} else if (p->fresh < s->max) {
		e = &p->entries[p->fresh++];
	} else {
		return ERR_PTR(-ENOSPC);
	}
	if (!++p->gen)
		p->gen = 1;
	*e = (struct twheel_entry) {
		.gen = p->gen,
		.slot = e - p->entries,
		.state = TWHEEL_IDLE,
	};
	__atomic_store_n(&p->words[e->slot].wake_ns, TWHEEL_ASLEEP, __ATOMIC_RELAXED);
	s->used++;
	return e;
}

void twheel_slots_put(struct twheel_slots *s, struct twheel_entry *e)
{
	e->gen = 0;
	hlist_add_head(&e->node.link, &of_slots(s)->free);
	s->used--;
}

/* Time */

static u64 read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/*
 * Sees to it that the timerfd is readable when somebody has to come: while
 * anything is unread, and when the wheel has something to do.
 */
static void program(struct inprocess *p)
{
	struct itimerspec its = {};
	u64 next = hlist_empty(&p->timers.ready) ? twheel_next(&p->timers.wheel) : 1;

	/* There is no timerfd of CLOCK_TAI: seconds ahead of CLOCK_REALTIME. */
	if (p->clock == CLOCK_TAI && next > 1 && next < INT64_MAX)
		next -= (read_clock(CLOCK_TAI) - read_clock(CLOCK_REALTIME) +
			 NSEC_PER_SEC / 2) / NSEC_PER_SEC * NSEC_PER_SEC;
	if (next == p->set)
		return;
	p->set = next;
	if (next < INT64_MAX) {
		its.it_value.tv_sec = next / NSEC_PER_SEC;
		its.it_value.tv_nsec = next % NSEC_PER_SEC;
		/* What a time_t of 32 bits cannot hold does not come while that lasts. */
		if ((u64)its.it_value.tv_sec != next / NSEC_PER_SEC)
			its.it_value = (struct timespec) {};
	}
	/* ECANCELED says that the clock was set just now, and has set the timer. */
	timerfd_settime(p->fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &its, NULL);
}

/* The backend */

/* Return: the wheel with its lock held, or NULL in a forked child. */
static struct inprocess *enter(const struct twheel_ctx *wheel, u64 *now)
{
	struct inprocess *p = wheel->inprocess;

	if (!wheel->home->here)
		return NULL;
	pthread_mutex_lock(&p->lock);
	*now = read_clock(p->clock);
	return p;
}

static void leave(struct inprocess *p)
{
	program(p);
	pthread_mutex_unlock(&p->lock);
}

static int inprocess_exec(struct twheel_ctx *wheel, struct twheel_op *ops, unsigned int nr)
{
	u64 now;
	struct inprocess *p = enter(wheel, &now);

	if (!p)
		return -ECHILD;
	/* Here it always gets through: there is nothing to grow. */
	twheel_apply(&p->timers, ops, nr, now);
	leave(p);
	return nr;
}

static int inprocess_kick(struct twheel_ctx *wheel, const uint32_t *slots, unsigned int nr)
{
	unsigned int i;
	int looked = 0;
	u64 now;
	struct inprocess *p = enter(wheel, &now);

	if (!p)
		return -ECHILD;
	for (i = 0; i < nr; i++)
		looked += twheel_kick(&p->timers, slots[i], now);
	leave(p);
	return looked;
}

static int inprocess_read(struct twheel_ctx *wheel, struct twheel_event *events, size_t nr)
{
	struct twheel_claimed claimed[EVENTS];
	unsigned int want, got;
	uint64_t ticks;
	size_t done = 0;
	u64 now;
	struct inprocess *p = enter(wheel, &now);

	if (!p)
		return -ECHILD;
	/* If it has fired, for a deadline or as the clock was set, it has to be set anew. */
	if (hlist_empty(&p->timers.ready) &&
	    (read(p->fd, &ticks, sizeof(ticks)) > 0 || errno != EAGAIN))
		p->set = TWHEEL_NEVER;
	if (twheel_due(&p->timers.wheel, now)) {
		p->timers.stats.wakeups++;
		twheel_run(&p->timers, now, UINT_MAX);
	}
	do {
		want = nr - done < EVENTS ? nr - done : EVENTS;
		got = twheel_claim(&p->timers, claimed, events + done, want, LOOKS, now);
		twheel_settle(&p->timers, claimed, got, got, now);
		done += got;
		/* Of those looked at, none may have been an event any more. */
	} while (done < nr && !hlist_empty(&p->timers.ready));
	leave(p);
	return done;
}

static int inprocess_counters(struct twheel_ctx *wheel, struct twheel_stats *stats)
{
	u64 now;
	struct inprocess *p = enter(wheel, &now);

	if (!p)
		return -ECHILD;
	twheel_stats(&p->timers, stats);
	leave(p);
	return 0;
}

/*
 * Many timers are anywhere in memory, which then is a lot. A few shall not take a
 * large page. It is no failure if there are none.
 */
static void *map_slots(size_t bytes)
{
	char *p = twheel_map(bytes);

	if (p && bytes > LARGE_PAGE)
		madvise(p + LARGE_PAGE, bytes - LARGE_PAGE, MADV_HUGEPAGE);
	return p;
}

static void inprocess_free(struct inprocess *p)
{
	size_t max = p->timers.slots.max;

	if (p->fd >= 0)
		close(p->fd);
	if (p->entries)
		munmap(p->entries, max * sizeof(*p->entries));
	if (p->words)
		munmap(p->words, max * sizeof(*p->words));
	pthread_mutex_destroy(&p->lock);
	free(p->mem);
	free(p);
}

static void inprocess_close(struct twheel_ctx *wheel)
{
	inprocess_free(wheel->inprocess);
}

static const struct twheel_backend inprocess_backend = {
	.name	= "inprocess",
	.exec	= inprocess_exec,
	.kick	= inprocess_kick,
	.read	= inprocess_read,
	.counters = inprocess_counters,
	.close	= inprocess_close,
};

/* Fills in the defaults and checks the rest, as the module does. */
static int check_setup(struct twheel_setup *setup)
{
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
		setup->max_timers = DEFAULT_TIMERS;
	if (!setup->slot_bits)
		setup->slot_bits = DEFAULT_SLOT_BITS;
	if (!setup->tick_ns)
		setup->tick_ns = DEFAULT_TICK_NS;
	if (setup->max_timers > TWHEEL_SLOTS_MAX || setup->slot_bits < TWHEEL_MIN_SLOT_BITS ||
	    setup->slot_bits > TWHEEL_MAX_SLOT_BITS || setup->levels > TWHEEL_MAX_LEVELS)
		return -EINVAL;
	return 0;
}

int twheel_inprocess_open(struct twheel_ctx *wheel, const struct twheel_setup *wanted)
{
	struct twheel_setup setup = *wanted;
	struct twheel_shape shape = {};
	struct inprocess *p;
	unsigned int most;
	int err;

	err = check_setup(&setup);
	if (err)
		return err;
	shape.shift = 63 - __builtin_clzll(setup.tick_ns);
	shape.slot_bits = setup.slot_bits;
	most = twheel_max_levels(shape.shift, shape.slot_bits);
	shape.levels = setup.levels && setup.levels < most ? setup.levels : most;

	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	pthread_mutex_init(&p->lock, NULL);
	twheel_ready_init(&p->timers);
	p->timers.slots.max = setup.max_timers;
	p->clock = setup.clock_id;
	p->set = TWHEEL_NEVER;
	p->mem = calloc(1, twheel_bytes(&shape));
	p->entries = map_slots((size_t)setup.max_timers * sizeof(*p->entries));
	p->words = map_slots((size_t)setup.max_timers * sizeof(*p->words));
	p->fd = timerfd_create(p->clock == CLOCK_TAI ? CLOCK_REALTIME : p->clock,
			       TFD_NONBLOCK | TFD_CLOEXEC);
	if (p->fd < 0)
		err = -errno;
	else if (!p->mem || !p->entries || !p->words)
		err = -ENOMEM;
	if (err) {
		inprocess_free(p);
		return err;
	}
	twheel_init(&p->timers.wheel, &shape, p->mem, read_clock(p->clock));

	wheel->backend = &inprocess_backend;
	wheel->inprocess = p;
	wheel->fd = p->fd;
	wheel->words.slots = p->words;
	wheel->words.nr_slots = setup.max_timers;
	wheel->info = (struct twheel_info) {
		.tick_ns = twheel_tick_ns(&p->timers),
		.min_tick_ns = 1,
		.horizon_ns = twheel_horizon(&shape),
		.clock_id = p->clock,
		.max_timers = setup.max_timers,
		.levels = shape.levels,
		.slot_bits = shape.slot_bits,
	};
	return 0;
}
