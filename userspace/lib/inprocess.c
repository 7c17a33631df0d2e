// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The in-process wheel, which behaves like /dev/twheel. It is built from the same twheel.c,
 * twheel_word.c and twheel_timers.c, with a mutex and a timerfd around them.
 *
 * The words, the marks and next_ns are in the memory of the process. The wheel is turned by the
 * threads that wait for it or read from it. A timerfd, which is set to the time of the next turn,
 * wakes them up, and stays readable while an event is unread.
 *
 * A turn has no budget, because the program can only harm itself, and no softirq is delayed.
 */
#include "internal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/minmax.h>

#include "store.h"
#include "twheel_apply.h"

#define DEFAULT_TICK_NS		1000000ULL
#define DEFAULT_TIMERS		(1U << 20)

/* Maximum number of timers that twheel_next() looks at in one bucket, and in all buckets. */
#define BUCKET_LOOKS		64U
#define NEXT_LOOKS		1024U

/**
 * struct inprocess - an in-process wheel
 * @lock: protects the other members
 * @timers: the timers and the counters
 * @store: the memory of the timers
 * @mem: the memory of the buckets
 * @clock: the clock of the wheel
 * @set: the time that the timerfd is set to, or WHEEL_NEVER
 * @programmed: the time of the next turn, as next_ns publishes it
 */
struct inprocess {
	struct lock lock;
	struct timers timers;
	struct arena_store store;
	void *mem;
	clockid_t clock;
	u64 set;
	u64 programmed;
};

/* Makes room for more timers. Return: 0 or -ENOMEM. */
static int grow(struct twheel *w, struct inprocess *p)
{
	int err = twheel__store_grow(&p->store);

	if (!err)
		set_nr_words(w, p->store.store.room);
	return err;
}

/* Time */

/*
 * Sets the timerfd to the time of the next turn, or to a time in the past while an event is unread,
 * because the timerfd must be readable then. The next call of timerfd_settime() ends that, so
 * nobody has to read from the timerfd.
 */
static void set_timer(struct twheel *w, struct inprocess *p, u64 now)
{
	u64 next = hlist_empty(&p->timers.ready) ? p->programmed : 1;
	struct itimerspec its = {};

	if (next == p->set || (next <= now && p->set <= now))
		return;
	/* Nothing reports that ADJ_TAI has changed the offset of CLOCK_TAI: look once a second. */
	if (p->clock == CLOCK_TAI && next != WHEEL_NEVER && next > now + NSEC_PER_SEC) {
		if (p->set > now && p->set <= now + NSEC_PER_SEC)
			return;
		next = now + NSEC_PER_SEC;
	}
	p->set = next;
	/* 0 would disarm the timerfd. */
	next = next ?: 1;
	/* timerfd has no CLOCK_TAI, which is whole seconds ahead of CLOCK_REALTIME. */
	if (p->clock == CLOCK_TAI && next > 1 && next < INT64_MAX)
		next -= (twheel__clock(CLOCK_TAI) - twheel__clock(CLOCK_REALTIME) +
			 NSEC_PER_SEC / 2) / NSEC_PER_SEC * NSEC_PER_SEC;
	if (next < INT64_MAX) {
		its.it_value.tv_sec = next / NSEC_PER_SEC;
		its.it_value.tv_nsec = next % NSEC_PER_SEC;
		/* A clock of a 32-bit time_t never reaches a deadline beyond its range. */
		if ((u64)its.it_value.tv_sec != next / NSEC_PER_SEC)
			its.it_value = (struct timespec) {};
	}
	/* If this fails with ECANCELED, the clock was just set, but the timer is set as well. */
	timerfd_settime(w->cold->fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &its, NULL);
}

/* Locks the wheel. Return: the wheel. */
static struct inprocess *enter(struct twheel *w, u64 *now)
{
	struct inprocess *p = w->cold->inprocess;

	take_lock(&p->lock);
	*now = twheel__clock(p->clock);
	return p;
}

static void leave(struct twheel *w, struct inprocess *p, u64 now)
{
	u64 next = timers_next(&p->timers);

	/* Only turn_now() moves the next turn to a later time. */
	if (next < p->programmed)
		p->programmed = timers_publish_next(&p->timers, next, now);
	set_timer(w, p, now);
	drop_lock(&p->lock);
}

static void turn_now(struct inprocess *p, u64 now)
{
	timers_turn(&p->timers, now, UINT_MAX);
	p->programmed = timers_publish_next(&p->timers, timers_next(&p->timers), now);
}

/* The backend */

static int inprocess_exec(struct twheel *w, struct twheel_op *ops, unsigned int n)
{
	unsigned int done = 0;
	u64 now;
	struct inprocess *p = enter(w, &now);

	for (;;) {
		done += timers_apply(&p->timers, ops + done, n - done, now);
		if (done == n)
			break;
		if (grow(w, p))
			ops[done++].result = -ENOMEM;
	}
	leave(w, p, now);
	return n;
}

static int inprocess_kick(struct twheel *w)
{
	u64 now;
	struct inprocess *p = enter(w, &now);

	timers_begin_kick(&p->timers);
	p->timers.stats.wakeups++;
	turn_now(p, now);
	p->timers.kicks--;
	leave(w, p, now);
	return 0;
}

/*
 * If a turn is due, turns the wheel for a thread that reads or has waited. If the clock has been
 * set, the timerfd may be readable too early, so it has to be set again.
 */
static void look_at_clock(struct twheel *w, struct inprocess *p, u64 now)
{
	bool settable = p->clock == CLOCK_REALTIME || p->clock == CLOCK_TAI;
	uint64_t ticks;

	if (settable && now < p->set &&
	    (read(w->cold->fd, &ticks, sizeof(ticks)) > 0 || errno != EAGAIN))
		p->set = WHEEL_NEVER;
	if (now < p->programmed && now < wheel_next(&p->timers.wheel))
		return;
	p->timers.stats.wakeups++;
	turn_now(p, now);
}

static int inprocess_read(struct twheel *w, struct twheel_event *events, unsigned int n)
{
	unsigned int nr, got;
	u64 now, until;
	struct inprocess *p = enter(w, &now);

	look_at_clock(w, p, now);
	until = now;
	do {
		nr = timers_peek(&p->timers, events, n, until);
		got = timers_consume(&p->timers, events, nr, now);
		/* If a thread has changed the first timer's word, the second attempt succeeds. */
		until = 0;
	} while (nr && !got);
	leave(w, p, now);
	return got;
}

/* Ignores @readable, because the interrupt that makes the timerfd readable may be late. */
static bool inprocess_ready(struct twheel *w, bool readable)
{
	u64 now;
	struct inprocess *p = enter(w, &now);
	bool ready;

	(void)readable;
	look_at_clock(w, p, now);
	ready = !hlist_empty(&p->timers.ready);
	leave(w, p, now);
	return ready;
}

static int inprocess_list(struct twheel *w, struct twheel_timer *timers, unsigned int n,
			  uint32_t *cursor)
{
	u64 now;
	struct inprocess *p = enter(w, &now);
	int got = timers_list(&p->timers, cursor, timers, min_t(unsigned int, n, INT_MAX),
			      UINT_MAX);

	leave(w, p, now);
	return got < 0 ? 0 : got;
}

/* The first deadline, for twheel_next() */

/* Returns the first deadline that belongs to the tick @tick. */
static u64 since_tick(const struct timers *t, u64 tick)
{
	return ((tick - 1) << t->wheel.shape.shift) + 1;
}

/*
 * Returns the deadline of a queued timer, or the later time to which its slack postpones it. The
 * program may have moved or cleared the timer since it was queued. If it had moved the timer to an
 * earlier time, the timer would have been marked, and the turn would have queued it again.
 */
static u64 effective_deadline(const struct timers *t, const struct timer *e)
{
	u64 word = word_deadline(READ_ONCE(timer_word(t, e)->deadline_ns));

	if (!word)
		return WHEEL_NEVER;
	return word == e->deadline ? max(word, since_tick(t, e->node.tick)) : word;
}

/* Returns the first time of the timers in a bucket, or @since if there are too many to look at. */
static u64 first_of_bucket(const struct timers *t, const struct hlist_head *head, u64 since,
			   unsigned int *looks)
{
	const struct hlist_node *link;
	u64 first = WHEEL_NEVER;
	unsigned int n = 0;

	for (link = head->first; link; link = link->next) {
		if (n++ == BUCKET_LOOKS || !*looks)
			return since;
		--*looks;
		first = min(first,
			    effective_deadline(t, container_of(link, struct timer, node.link)));
	}
	return first;
}

/*
 * Returns the first time of the timers in a level, or @first if none is earlier. The buckets are
 * visited in the order of their ticks.
 */
static u64 first_of_level(const struct timers *t, unsigned int level, u64 first,
			  unsigned int *looks)
{
	const struct wheel *wheel = &t->wheel;
	unsigned int shift = level * wheel->shape.slot_bits;
	unsigned long base = (unsigned long)level << wheel->shape.slot_bits;
	unsigned long end = base + wheel->mask + 1;
	u64 from = (wheel->clk >> shift) + 1;
	unsigned long here = base + (from & wheel->mask);
	unsigned long from_bit[] = { here, base }, to_bit[] = { end, here };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		unsigned long bit = find_next_bit(wheel->occupied, to_bit[i], from_bit[i]);

		for (; bit < to_bit[i]; bit = find_next_bit(wheel->occupied, to_bit[i], bit + 1)) {
			u64 number = from + ((bit - here) & wheel->mask);
			u64 since = since_tick(t, number << shift);

			if (since >= first)
				return first;
			first = min(first, first_of_bucket(t, &wheel->bucket[bit], since, looks));
		}
	}
	return first;
}

/* The turn looks at the marked timers, so that no timer is due before its bucket. */
static uint64_t inprocess_next(struct twheel *w)
{
	u64 now, first = WHEEL_NEVER;
	struct inprocess *p = enter(w, &now);
	unsigned int looks = NEXT_LOOKS, level;

	turn_now(p, now);
	/* Other threads may have changed marks so often that the turn left some. */
	if (!hlist_empty(&p->timers.ready) || p->timers.marked)
		first = 0;
	for (level = 0; first && level <= p->timers.wheel.top; level++)
		first = first_of_level(&p->timers, level, first, &looks);
	leave(w, p, now);
	return first;
}

static int inprocess_stats(struct twheel *w, struct twheel_stats *stats)
{
	u64 now;
	struct inprocess *p = enter(w, &now);

	timers_stats(&p->timers, stats);
	leave(w, p, now);
	return 0;
}

static void inprocess_free(struct inprocess *p)
{
	twheel__store_free(&p->store);
	free(p->mem);
	free(p);
}

static void inprocess_close(struct twheel *w)
{
	struct cold *cold = twheel__cold(w);

	close(cold->fd);
	inprocess_free(cold->inprocess);
}

static const struct twheel_backend inprocess_backend = {
	.name	= "inprocess",
	.exec	= inprocess_exec,
	.kick	= inprocess_kick,
	.read	= inprocess_read,
	.ready	= inprocess_ready,
	.next	= inprocess_next,
	.list	= inprocess_list,
	.stats	= inprocess_stats,
	.close	= inprocess_close,
};

/*
 * Makes a timerfd with a number above those that daemon() replaces. Return: the descriptor, or a
 * negative errno.
 */
static int make_timerfd(clockid_t clock)
{
	int fd = timerfd_create(clock == CLOCK_TAI ? CLOCK_REALTIME : clock,
				TFD_NONBLOCK | TFD_CLOEXEC);
	int higher;

	if (fd < 0)
		return -errno;
	if (fd > 2)
		return fd;
	higher = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	return higher < 0 ? -errno : higher;
}

int twheel__inprocess_open(struct twheel *w, const struct twheel_setup *wanted)
{
	struct twheel_setup setup = *wanted;
	struct wheel_shape shape;
	struct inprocess *p;
	int fd, err;

	err = timers_check_setup(&setup, DEFAULT_TIMERS, STORE_MAX, DEFAULT_TICK_NS, &shape);
	if (!err)
		err = twheel__try_clock(setup.clock_id);
	if (err)
		return err;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	twheel__mutex_init(&p->lock.mutex);
	timers_begin(&p->timers, &p->store.store);
	p->clock = setup.clock_id;
	p->set = WHEEL_NEVER;
	p->programmed = WHEEL_NEVER;
	p->mem = calloc(1, wheel_bytes(&shape));
	if (!p->mem || twheel__store_init(&p->store, setup.max_timers, &w->cold->shadow)) {
		inprocess_free(p);
		return -ENOMEM;
	}
	wheel_init(&p->timers.wheel, &shape, p->mem, twheel__clock(p->clock), store_fetch,
		   &p->store.store);
	timers_map(&p->timers, p->store.store.table, STORE_HEADER, p->clock, WHEEL_NEVER);
	fd = make_timerfd(p->clock);
	if (fd < 0) {
		inprocess_free(p);
		return fd;
	}

	w->cold->backend = &inprocess_backend;
	w->cold->inprocess = p;
	w->cold->fd = fd;
	timers_info(&p->timers, &w->cold->info);
	w->cold->info.features = 0;
	w->cold->info.clock_id = p->clock;
	w->cold->info.min_tick_ns = 1;
	w->words = (struct twheel_slot *)p->store.words.base;
	w->marks = (uint64_t *)p->store.marks.base;
	w->summary = (uint64_t *)store_summary(&p->store.store);
	w->next_ns = (uint64_t *)&p->store.store.table->next_ns;
	w->shift = STORE_LINE_SHIFT;
	w->parks = true;
	return 0;
}
