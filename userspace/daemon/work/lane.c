// SPDX-License-Identifier: GPL-2.0
/*
 * Lanes: alarms, take, recover, sweeps.
 *
 * Three things cause a take: the alarm, which follows the head of the lane; an answer that is
 * full, after which the next take follows at once; and a sweep, which relies on nothing else. Only
 * the answer to a take can set the alarm to a later time. A message can set it to an earlier time.
 */
#include <stdlib.h>
#include <string.h>

#include "ground/log.h"
#include "ground/random.h"
#include "redis/script.h"
#include "redis/store.h"
#include "work/attempt.h"
#include "work/lane.h"
#include "work/renew.h"
#include "work/report.h"
#include "work/task.h"
#include "work/waiter.h"

/* A lane without room takes again when this many places are free, or at the next sweep. */
#define ROOM_MIN	16
/* Minimum interval between takes of a lane, at most ahead / 8, unless its head is due soon. */
#define TAKE_GAP_MS	50
#define HEAD_SOON	(100 * NSEC_PER_MSEC)
/* How often old tasks are removed, and how often the lane looks for some if none is known. */
#define REMOVE_INTERVAL	(4 * NSEC_PER_SEC)
#define REMOVE_IDLE	(30 * NSEC_PER_SEC)
/* Minimum interval between sweeps of a lane. */
#define SWEEP_MIN_MS	1000
/* How long a lane backs off after a failed take: each further failure doubles it. */
#define BACKOFF_MIN	(50 * NSEC_PER_MSEC)
#define BACKOFF_MAX	NSEC_PER_SEC

static void take(struct lane *l);
static void recover(struct lane *l);

static uint64_t now_of(const struct lane *l)
{
	return alarms_now(l->queue->daemon->alarms);
}

static bool pulls(const struct lane *l)
{
	return l->queue->settings.mode == QUEUE_PULL;
}

/* Returns how long before its due time a task may be taken. */
static uint64_t ahead_ms(const struct lane *l)
{
	uint64_t ahead = queue_ahead_ms(l->queue), lease_ms;

	/* If no worker here will have time for a task, leave it to the other daemons. */
	return pulls(l) && ahead && !waiter_room(l->queue, true, &lease_ms) ? 0 : ahead;
}

/*
 * Returns how long to wait before a take. When tasks are due, a daemon with a waiting worker takes
 * them as soon as the lane's home does.
 */
static uint64_t rank_delay(const struct lane *l, uint64_t ahead)
{
	return (pulls(l) && !ahead ? 0 : task_rank_delay_ms(l->rank)) * NSEC_PER_MSEC;
}

static bool head_is_due(const struct lane *l)
{
	return l->next_ms <= lane_now_ms(l);
}

static bool has_tasks(const struct lane *l)
{
	return l->tasks || l->next_ms != NEVER_MS;
}

/* Returns the time until the next sweep. */
static uint64_t sweep_ms(const struct lane *l)
{
	uint64_t idle = task_idle_sweep_ms(l->queue->daemon->lanes), now = lane_now_ms(l);

	if (has_tasks(l))
		return task_sweep_ms(l->rank);
	if (l->rank)
		return idle;
	/* The last tasks may have left done or dead ones behind. */
	if (!l->settled)
		return REMOVE_INTERVAL / NSEC_PER_MSEC;
	if (l->old_ms == NEVER_MS || l->old_ms > now + idle)
		return idle;
	return l->old_ms > now + SWEEP_MIN_MS ? l->old_ms - now : SWEEP_MIN_MS;
}

static uint64_t sweep_at(const struct lane *l)
{
	uint64_t ns = sweep_ms(l) * NSEC_PER_MSEC;

	/* Spread the sweeps of the lanes. */
	return now_of(l) + ns - random_u64() % (ns / (has_tasks(l) ? 8 : 2));
}

/* Sweeps earlier if the lane has received tasks since its sweep was armed. */
static void sweep_sooner(struct lane *l)
{
	struct daemon *d = l->queue->daemon;

	if (!l->queue->removed && (has_tasks(l) || !l->rank))
		alarm_arm_before(d->alarms, &l->sweep, sweep_at(l));
}

static void set_starved(struct lane *l, bool starved)
{
	struct daemon *d = l->queue->daemon;

	if (l->starved == starved)
		return;
	l->starved = starved;
	d->starved += starved ? 1 : -1;
}

void lane_arm(struct lane *l)
{
	struct daemon *d = l->queue->daemon;
	uint64_t ahead = ahead_ms(l), now = now_of(l), at, gap;

	if (l->taking || l->starved || l->queue->removed || d->stopping || l->next_ms == NEVER_MS ||
	    !lane_clock(l)->known || (pulls(l) && !l->queue->waiters)) {
		alarm_clear(d->alarms, &l->take);
		return;
	}
	/* If this take comes too early, it finds nothing and arms the alarm again. */
	at = clock_soon(lane_clock(l), l->next_ms > ahead ? l->next_ms - ahead : 0, now);
	/* Tasks that arrive one by one can share a take. */
	gap = l->took_at + (ahead / 8 < TAKE_GAP_MS ? ahead / 8 : TAKE_GAP_MS) * NSEC_PER_MSEC;
	if (at < gap && gap + HEAD_SOON < clock_near(lane_clock(l), l->next_ms))
		at = gap;
	if (at < l->limited_until)
		at = l->limited_until;
	alarm_arm(d->alarms, &l->take, at + rank_delay(l, ahead));
}

/* Notes if the lane has tasks. As long as it has, some may end and be kept for a while. */
static void note_tasks(struct lane *l, bool tasks)
{
	bool had = has_tasks(l);

	l->tasks = tasks;
	if (!tasks)
		return;
	l->settled = false;
	if (!had)
		sweep_sooner(l);
}

void lane_wake(struct lane *l, uint64_t ms)
{
	l->queue->daemon->metrics.wakes++;
	if (ms < l->woken_ms)
		l->woken_ms = ms;
	note_tasks(l, true);
	if (ms >= l->next_ms)
		return;
	l->next_ms = ms;
	lane_arm(l);
}

static void arm_recover(struct lane *l)
{
	struct daemon *d = l->queue->daemon;
	uint64_t at, now = now_of(l);

	if (l->recovering || l->queue->removed || l->lease_end_ms == NEVER_MS ||
	    !lane_clock(l)->known)
		return;
	at = clock_sure(lane_clock(l), l->lease_end_ms) +
	     task_rank_delay_ms(l->rank) * NSEC_PER_MSEC;
	/* After Redis was away, reports and renewals come first. */
	if (at < d->recover_after)
		at = d->recover_after + task_rank_delay_ms(l->rank) * NSEC_PER_MSEC;
	alarm_arm(d->alarms, &l->recover, at > now ? at : now + NSEC_PER_MSEC);
}

/* ---- Take ---- */

static unsigned int room(const struct lane *l, uint64_t ahead, uint64_t *lease_ms)
{
	const struct daemon *d = l->queue->daemon;
	unsigned int space, workers;

	if (!pulls(l)) {
		*lease_ms = d->config.lease_ms;
		return held_room(l->queue, head_is_due(l));
	}
	space = held_room(l->queue, false);
	workers = waiter_room(l->queue, ahead, lease_ms);
	return space < workers ? space : workers;
}

static void hold_all(struct lane *l, const redisReply *reply, const struct take_answer *a,
		     uint64_t holder, uint64_t lease_ms)
{
	struct taken t;

	for (unsigned int i = 0; i < a->count; i++) {
		if (take_answer_task(reply, i, &t))
			attempt_add(l, &t, holder, lease_ms, a->now_ms);
		else
			log_often(LOG_ERR, "queue %s: Redis returned a task in an unknown format: "
				  "it is not run", l->queue->name);
	}
}

static void note_newer(struct lane *l, unsigned int newer)
{
	if (!newer)
		return;
	l->queue->daemon->metrics.newer += newer;
	log_often(LOG_WARNING, "queue %s: tasks that a newer twheeld stored are left alone",
		  l->queue->name);
}

/* ---- Limits of the queue ---- */

/* How often a lane looks that waits for leases to end. Up to as much is added at random. */
#define CONCURRENCY_WAIT_MS	100

/* Returns the part of a limit that applies to one lane alone. */
static uint64_t part_of(uint64_t limit, const struct lane *l)
{
	unsigned int lanes = l->queue->settings.lanes;

	return limit / lanes + (l->index < limit % lanes);
}

/*
 * The lanes of a queue share its limits if they are on the same node. In a cluster, each lane has
 * its own part, because a script cannot reach another node.
 */
static const struct take_limits *limits(const struct lane *l, struct take_limits *out)
{
	const struct queue_settings *s = &l->queue->settings;

	if (!queue_limited(s))
		return NULL;
	*out = (struct take_limits){
		.rate = s->rate.limit,
		.per_us = s->rate.per_ms * 1000,
		.burst = s->rate.burst,
		.concurrency = s->concurrency,
		.lanes = s->lanes,
	};
	if (l->queue->daemon->config.redis.kind == REDIS_CLUSTER) {
		out->per_us *= s->lanes;
		out->burst = part_of(s->rate.burst, l);
		out->concurrency = part_of(s->concurrency, l);
		out->lanes = 0;
	}
	return out;
}

static void note_limited(struct lane *l, const struct take_answer *a)
{
	uint64_t *held_back = l->queue->daemon->metrics.held_back;
	uint64_t ms = a->wait_ms;

	l->limited = a->limited;
	l->limited_until = 0;
	if (a->limited == LIMITED_NOT)
		return;
	if (a->limited == LIMITED_CONCURRENCY)
		ms = CONCURRENCY_WAIT_MS + random_u64() % CONCURRENCY_WAIT_MS;
	held_back[a->limited == LIMITED_RATE ? HELD_BACK_RATE : HELD_BACK_CONCURRENCY]++;
	/* Let a random lane be the first. */
	l->limited_until = now_of(l) + ms * NSEC_PER_MSEC + random_u64() % (5 * NSEC_PER_MSEC);
}

/* Leases of the queue have ended, so its lanes look again, in random order. */
static void look_at_freed(struct queue *q)
{
	unsigned int lanes = q->settings.lanes, first = random_u64() % lanes;

	q->freed = false;
	for (unsigned int i = 0; i < lanes; i++) {
		struct lane *l = &q->lane[(first + i) % lanes];

		if (l->limited != LIMITED_CONCURRENCY)
			continue;
		l->limited = LIMITED_NOT;
		l->limited_until = 0;
		lane_arm(l);
	}
}

/* Remembers what a take has reported about the lane. */
static void learn(struct lane *l, const struct take_answer *a)
{
	struct metrics *m = &l->queue->daemon->metrics;

	note_tasks(l, a->next_ms != NEVER_MS || a->lease_end_ms != NEVER_MS || a->newer);
	l->next_ms = a->next_ms < l->woken_ms ? a->next_ms : l->woken_ms;
	if (a->paused)
		l->next_ms = NEVER_MS;
	l->lease_end_ms = a->lease_end_ms;
	m->missed += a->missed;
	m->dead[DEAD_MISSED] += a->dead;
	m->orphans += a->orphans;
	note_newer(l, a->newer);
	note_limited(l, a);
	m->takes[a->count ? TAKE_TASKS : TAKE_EMPTY]++;
	l->backoff = 0;
}

/* Of thousands of lanes, each asks a Redis that refuses takes about once a second. */
static void back_off(struct lane *l)
{
	uint64_t ns = l->backoff ? 2 * l->backoff : BACKOFF_MIN;

	l->backoff = ns < BACKOFF_MAX ? ns : BACKOFF_MAX;
	alarm_arm(l->queue->daemon->alarms, &l->take,
		  now_of(l) + l->backoff - random_u64() % (BACKOFF_MIN / 2));
}

static void taken(void *arg, enum store_result result, const redisReply *reply)
{
	struct lane *l = arg;
	struct queue *q = l->queue;
	struct daemon *d = q->daemon;
	struct take_answer a;
	unsigned int asked = l->limit;
	/* Copy these, because the next take changes them. */
	uint64_t holder = l->take_holder, lease_ms = l->take_lease;

	l->taking = false;
	if (pulls(l))
		q->asked -= asked;
	if (result != STORE_OK || !take_answer(reply, &a)) {
		d->asked -= asked;
		d->metrics.takes[TAKE_FAILED]++;
		l->limit = 0;
		/*
		 * Tasks may have been taken although the answer was lost, so look again. After an
		 * outage, up() does that.
		 */
		if (lane_up(l) && !d->stopping && !q->removed) {
			l->next_ms = 0;
			back_off(l);
		}
		waiter_settle(q);
		return;
	}
	learn(l, &a);
	/* The next take is sent before these tasks are handled, so count them as asked for. */
	d->asked += a.count - asked;
	if (a.count && a.count >= asked && !a.paused)
		l->again = true;
	else
		l->limit = 0;
	if (l->again && !pulls(l)) {
		l->again = false;
		take(l);
	}
	d->asked -= a.count;
	hold_all(l, reply, &a, holder, lease_ms);
	if (pulls(l)) {
		bool more = l->again && waiter_hurries(q);

		l->again = false;
		/* Give back tasks that no worker waits for any more. */
		report_flush(l);
		if (more)
			take(l);
		waiter_settle(q);
		lane_refill(q);
		waiter_settle(q);
	}
	if (a.paused || q->removed)
		held_release_lane(l);
	if (!l->taking) {
		lane_arm(l);
		arm_recover(l);
	}
}

static void take(struct lane *l)
{
	struct daemon *d = l->queue->daemon;
	struct args a = { 0 };
	struct take_limits some;
	uint64_t ahead = ahead_ms(l), lease_ms;
	unsigned int space;

	if (l->taking) {
		l->again = true;
		return;
	}
	l->again = false;
	if (d->stopping || l->queue->removed || !lane_up(l))
		return;
	space = room(l, ahead, &lease_ms);
	if (!space) {
		set_starved(l, true);
		l->limit = 0;
		/* The sweep still has to look for leases that end. */
		lane_arm(l);
		return;
	}
	set_starved(l, false);
	l->limit = task_next_limit(l->limit, d->config.batch < BATCH_MAX ?
				   d->config.batch : BATCH_MAX);
	if (l->limit > space)
		l->limit = space;
	l->taking = true;
	l->took_at = now_of(l);
	l->woken_ms = NEVER_MS;
	l->take_lease = lease_ms;
	l->take_holder = d->holder;
	d->asked += l->limit;
	if (pulls(l))
		l->queue->asked += l->limit;
	alarm_clear(d->alarms, &l->take);
	take_args(&a, l->limit, lease_ms, d->holder, ahead, limits(l, &some));
	store_script(d->store, SCRIPT_TAKE, l->queue->name, l->index, &a, taken, l);
}

void lane_look(struct lane *l)
{
	sweep_sooner(l);
	take(l);
}

void lane_refill(struct queue *q)
{
	for (unsigned int i = 0; i < q->settings.lanes; i++) {
		struct lane *l = &q->lane[i];
		uint64_t lease_ms;

		if (!l->starved || !room(l, ahead_ms(l), &lease_ms))
			continue;
		set_starved(l, false);
		if (pulls(l) || head_is_due(l))
			take(l);
		else
			lane_arm(l);
	}
}

void lane_refill_all(void *arg)
{
	struct daemon *d = arg;
	unsigned int few = d->config.hold_max / 8 < ROOM_MIN ? d->config.hold_max / 8 : ROOM_MIN;
	struct queue *q, *next;

	if (d->freed && !d->stopping) {
		d->freed = false;
		for (q = d->queues; q; q = q->hh.next) {
			if (q->freed)
				look_at_freed(q);
		}
	}
	if (!d->refill)
		return;
	d->refill = false;
	if (d->stopping || !d->starved)
		return;
	HASH_ITER(hh, d->queues, q, next) {
		/* A few free slots are not worth a take, unless no more can become free. */
		if (held_room(q, true) >= few || q->running <= few)
			lane_refill(q);
	}
}

static void alarm_rings(struct alarm *a, uint64_t now)
{
	(void)now;
	take(container_of(a, struct lane, take));
}

/* ---- Recover, sweep ---- */

static void recovered(void *arg, enum store_result result, const redisReply *reply)
{
	struct lane *l = arg;
	struct metrics *m = &l->queue->daemon->metrics;
	struct recover_answer a;

	l->recovering = false;
	if (result != STORE_OK || !recover_answer(reply, &a))
		return;
	m->lost += a.returned + a.dead;
	m->dead[DEAD_LOST] += a.dead;
	if (a.dead)
		log_often(LOG_WARNING,
			  "queue %s: tasks are dead because their leases ended without a report",
			  l->queue->name);
	m->orphans += a.orphans;
	note_newer(l, a.newer);
	note_tasks(l, a.next_ms != NEVER_MS || a.lease_end_ms != NEVER_MS || a.newer);
	l->lease_end_ms = a.lease_end_ms;
	if (a.next_ms < l->next_ms) {
		l->next_ms = a.next_ms;
		lane_arm(l);
	}
	arm_recover(l);
}

static void recover(struct lane *l)
{
	struct daemon *d = l->queue->daemon;
	struct args a = { 0 };

	if (l->recovering || !lane_up(l) || d->stopping)
		return;
	l->recovering = true;
	recover_args(&a, BATCH_MAX, d->config.max_lost);
	store_script(d->store, SCRIPT_RECOVER, l->queue->name, l->index, &a, recovered, l);
}

static void recover_rings(struct alarm *a, uint64_t now)
{
	(void)now;
	recover(container_of(a, struct lane, recover));
}

static void swept(void *arg, enum store_result result, const redisReply *reply);

static void remove_batch(struct lane *l)
{
	struct daemon *d = l->queue->daemon;
	struct args a = { 0 };

	sweep_args(&a, BATCH_MAX, d->config.dead_max, d->config.dead_keep_ms);
	store_script(d->store, SCRIPT_SWEEP, l->queue->name, l->index, &a, swept, l);
}

static void swept(void *arg, enum store_result result, const redisReply *reply)
{
	struct lane *l = arg;
	struct daemon *d = l->queue->daemon;
	struct sweep_answer a;

	if (result != STORE_OK || !sweep_answer(reply, &a))
		return;
	d->metrics.orphans += a.orphans;
	note_newer(l, a.newer);
	l->old_ms = a.next_ms;
	sweep_sooner(l);
	if (a.most + a.orphans >= BATCH_MAX && !d->stopping && !l->queue->removed)
		remove_batch(l);
}

/* Removes old tasks, if this daemon is the home of the lane. */
static void remove_old(struct lane *l, uint64_t now)
{
	if (l->rank || now < l->removed_at + REMOVE_INTERVAL ||
	    (l->settled && lane_now_ms(l) < l->old_ms && now < l->removed_at + REMOVE_IDLE))
		return;
	l->removed_at = now;
	/* Tasks that end from now on are left to the next sweep. */
	l->settled = !has_tasks(l);
	remove_batch(l);
}

static void sweep_rings(struct alarm *a, uint64_t now)
{
	struct lane *l = container_of(a, struct lane, sweep);
	struct daemon *d = l->queue->daemon;

	if (lane_up(l) && !d->stopping) {
		if (l->starved)
			recover(l);
		take(l);
		remove_old(l, now);
	}
	alarm_arm(d->alarms, a, sweep_at(l));
}

/* ---- A lane's life ---- */

static void flush_rings(struct alarm *a, uint64_t now)
{
	(void)now;
	report_flush(container_of(a, struct lane, flush));
}

static void renew_rings(struct alarm *a, uint64_t now)
{
	(void)now;
	renew_leases(container_of(a, struct lane, renew));
}

int lane_init(struct lane *l, struct queue *q, unsigned int index)
{
	struct alarm *const timers[] = { &l->take, &l->recover, &l->sweep, &l->flush, &l->renew };

	l->queue = q;
	l->index = index;
	l->node = store_lane_node(q->daemon->store, q->name, index);
	l->next_ms = NEVER_MS;
	l->lease_end_ms = NEVER_MS;
	l->old_ms = NEVER_MS;
	l->take.fn = alarm_rings;
	l->recover.fn = recover_rings;
	l->sweep.fn = sweep_rings;
	l->flush.fn = flush_rings;
	l->renew.fn = renew_rings;
	for (unsigned int i = 0; i < sizeof(timers) / sizeof(timers[0]); i++) {
		int ret = alarm_prepare(q->daemon->alarms, timers[i]);

		if (ret)
			return ret;
	}
	alarm_arm(q->daemon->alarms, &l->sweep, sweep_at(l));
	return 0;
}

void lane_stop(struct lane *l)
{
	struct alarms *alarms = l->queue->daemon->alarms;

	set_starved(l, false);
	alarm_clear(alarms, &l->take);
	alarm_clear(alarms, &l->recover);
	alarm_clear(alarms, &l->sweep);
}

void lane_free(struct lane *l)
{
	struct alarms *alarms = l->queue->daemon->alarms;

	while (l->held)
		held_free(l->held);
	report_free_all(l);
	alarm_disarm(alarms, &l->take);
	alarm_disarm(alarms, &l->recover);
	alarm_disarm(alarms, &l->sweep);
	alarm_disarm(alarms, &l->flush);
	alarm_disarm(alarms, &l->renew);
}
