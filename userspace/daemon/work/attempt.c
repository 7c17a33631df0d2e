// SPDX-License-Identifier: GPL-2.0
/*
 * Attempts: when tasks begin, and how they end.
 *
 *   take ──► WAITS ──due──► begin ──► RUNS ──► report
 *                             │ ▲
 *                             │ ├── READY	all slots are in use
 *                             │ ├── HOST	all slots of the host are in use
 *                             │ └── IDLE	no worker waits
 *                             └───► OFFERED	a worker is handed it
 *
 * No attempt begins before Redis's clock has surely reached the due time, and none with
 * a lease that is nearly over.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "callback/callback.h"
#include "ground/log.h"
#include "ground/loop.h"
#include "ground/random.h"
#include "text/pull.h"
#include "work/attempt.h"
#include "work/host.h"
#include "work/renew.h"
#include "work/task.h"
#include "work/waiter.h"

/*
 * A host that has ended no request for this long is slow, and the tasks that wait for it are
 * released.
 */
#define HOST_WAIT	(250 * NSEC_PER_MSEC)
/* How long a task that was taken ahead waits for a worker of this daemon. */
#define IDLE_WAIT	(50 * NSEC_PER_MSEC)
/* The delay of a task that is released for either reason. Up to as much is added at random. */
#define HOST_DELAY_MS	100
/* The delay of a task for which there was no socket or no memory. */
#define NOT_SENT_DELAY_MS	1000

static struct daemon *daemon_of(const struct held *h)
{
	return h->lane->queue->daemon;
}

/* ---- Requests ---- */

/* True if tasks may wait for a host: it ends requests, and others do not need the room. */
static bool host_works(const struct host *host, uint64_t now)
{
	const struct daemon *d = host->daemon;

	return now - host->ended < HOST_WAIT && d->held < d->config.hold_max / 4 * 3;
}

/* Returns a delay with up to a quarter of it added at random. */
static uint64_t jittered_ms(uint64_t ms)
{
	return ms + random_u64() % (ms / 4 + 1);
}

static void release_for_backoff(struct held *h, uint64_t ms, enum held_back why)
{
	daemon_of(h)->metrics.held_back[why]++;
	held_release(h, jittered_ms(ms));
}

/* Releases the tasks that have waited too long. */
static void release_waiting(struct host *host, uint64_t now)
{
	struct daemon *d = host->daemon;

	while (host->waiting.count) {
		struct held *h = container_of(fair_oldest(&host->waiting), struct held, turn);
		bool last = host->waiting.count == 1;

		if (h->since + HOST_WAIT > now) {
			alarm_arm(d->alarms, &host->timer, h->since + HOST_WAIT);
			return;
		}
		/* This may free the host, together with its last task. */
		held_release(h, HOST_DELAY_MS + random_u64() % HOST_DELAY_MS);
		if (last)
			return;
	}
}

static void too_long(struct alarm *a, uint64_t now)
{
	struct host *host = container_of(a, struct host, timer);
	struct daemon *d = host->daemon;

	if (host_works(host, now)) {
		alarm_arm(d->alarms, a, now + HOST_WAIT);
		return;
	}
	release_waiting(host, now);
	d->refill = true;
}

static void wait_for_turn(struct held *h, struct fair *f)
{
	const struct queue *q = h->lane->queue;

	h->turn = (struct turn){ .queue = q, .weight = q->settings.weight, .since = h->since };
	fair_push(f, &h->turn);
}

/* Lets a task wait for its host. Takes over the caller's reference to the host. */
static void wait_for_host(struct held *h, struct host *host)
{
	struct daemon *d = host->daemon;

	h->state = HELD_HOST;
	h->host = host;
	if (!h->since)
		h->since = alarms_now(d->alarms);
	wait_for_turn(h, &host->waiting);
	if (host->timer.armed)
		return;
	host->timer.fn = too_long;
	alarm_arm(d->alarms, &host->timer, h->since + HOST_WAIT);
}

static void wait_for_slot(struct held *h)
{
	h->state = HELD_READY;
	wait_for_turn(h, &daemon_of(h)->ready);
}

static void measure_lateness(struct held *h, uint64_t now)
{
	struct daemon *d = daemon_of(h);
	uint64_t due = clock_near(lane_clock(h->lane), h->due_ms);

	histogram_add(&d->metrics.lateness, now > due ? (now - due) / NSEC_PER_USEC : 0);
}

static bool lease_is_long_enough(const struct held *h, uint64_t now)
{
	const struct clock *clock = lane_clock(h->lane);

	return task_may_begin(h->lease_end_ms, clock_redis_ms(clock, now),
			      clock_bound(clock, now) / NSEC_PER_MSEC + 1);
}

static void start_request(struct held *h)
{
	struct daemon *d = daemon_of(h);
	uint64_t now = alarms_now(d->alarms);
	struct callback_request req = {
		.queue = h->lane->queue->name,
		.id = h->id,
		.version = h->version,
		.first_due_ms = h->first_due_ms,
		.attempt = h->attempt,
		.missed = h->missed,
		.body = &h->body,
		.now_ms = work_now_ms(d),
		.user = h,
	};
	struct host *host;
	uint64_t backoff;
	int ret;

	if (!lease_is_long_enough(h, now)) {
		/* Another daemon may have the task. If not, recover will return it. */
		held_free(h);
		return;
	}
	if (!held_may_start(h->lane->queue)) {
		wait_for_slot(h);
		return;
	}
	host = host_get(d, h->body.url);
	backoff = host ? host_backoff_left_ms(host) : 0;
	if (backoff) {
		release_for_backoff(h, backoff, HELD_BACK_HOST);
		host_put(host);
		return;
	}
	if (host && host->running >= d->config.host_concurrency) {
		wait_for_host(h, host);
		return;
	}
	ret = host ? callback_start(d->callbacks, &req, &h->callback) : -EINVAL;
	if (!ret) {
		h->state = HELD_RUNS;
		h->host = host;
		h->started = now;
		h->probe = host->failures;
		host->probe |= h->probe;
		host->running++;
		h->lane->queue->running++;
		d->running++;
		measure_lateness(h, now);
		return;
	}
	if (host)
		host_put(host);
	if (ret == -EINVAL)
		held_bury(h, "the URL or a header is not valid, so no request was sent");
	else
		held_release(h, NOT_SENT_DELAY_MS);
}

/*
 * A slot has become free, so this starts the next task that waits for a slot, and one that waits
 * for this host.
 */
static void start_waiting(struct daemon *d, struct host *host)
{
	struct turn *t;
	struct held *h;

	while ((t = fair_next(&d->ready, held_may_start))) {
		h = container_of(t, struct held, turn);
		held_unlist(h);
		start_request(h);
	}
	host->ended = alarms_now(d->alarms);
	/* A task whose lease is nearly over does not begin, and then the next one may. */
	while (host->waiting.count && host->running < d->config.host_concurrency) {
		h = container_of(fair_next(&host->waiting, NULL), struct held, turn);
		held_unlist(h);
		start_request(h);
	}
}

static void judge(struct held *h, const struct callback_result *res)
{
	struct queue *q = h->lane->queue;
	uint64_t backoff;

	switch (res->verdict) {
	case CALLBACK_OK:
		q->attempts[VERDICT_OK]++;
		held_report(h, VERDICT_OK, 0, "");
		break;
	case CALLBACK_DEAD:
		q->attempts[VERDICT_DEAD]++;
		held_report_answer(h, VERDICT_DEAD, 0, res->error, res->status);
		break;
	case CALLBACK_RETRY:
		q->attempts[VERDICT_RETRY]++;
		backoff = task_backoff_ms(&h->body.retry, h->attempt, random_u64());
		held_report_answer(h, VERDICT_RETRY, task_delay_ms(backoff, res->has_retry_after ?
							     res->retry_after_ms : 0),
				   res->error, res->status);
		break;
	case CALLBACK_NOT_SENT:
		q->attempts[VERDICT_RELEASE]++;
		held_report(h, VERDICT_RELEASE, res->backing_off ? jittered_ms(h->backoff_ms) :
			    NOT_SENT_DELAY_MS, res->error);
		daemon_of(h)->metrics.held_back[HELD_BACK_ADDRESS] += res->backing_off;
		break;
	}
}

/* ---- Hosts that give no answer ---- */

/* Called before a connection is opened. Rejects an address that backs off. */
static bool may_connect(void *arg, void *user, const char *address)
{
	struct held *h = user;
	struct host *host = host_get_address(arg, address);

	h->backoff_ms = host_backoff_left_ms(host);
	if (h->backoff_ms) {
		host_put(host);
		return false;
	}
	held_drop_address(h);
	h->address = host;
	h->probes_address = host->failures;
	host->probe |= h->probes_address;
	return true;
}

static void release_all(struct host *host)
{
	struct turn *t;

	while ((t = fair_oldest(&host->waiting)))
		release_for_backoff(container_of(t, struct held, turn), host_backoff_left_ms(host),
				    HELD_BACK_HOST);
}

/* Learns from the end of a request. The caller holds a reference to the host. */
static void learn_host(struct held *h, const struct callback_result *res)
{
	struct daemon *d = daemon_of(h);
	struct host *host = h->host, *address;

	if (res->verdict == CALLBACK_NOT_SENT || res->short_timeout ||
	    (res->verdict == CALLBACK_DEAD && !res->status))
		return;
	if (res->status) {
		host_answered(host);
	} else if (host_failed(host, h->started)) {
		log_often(LOG_WARNING, "%s does not answer: it gets one request at a time, "
			  "the next one in %llu ms", host->key,
			  (unsigned long long)host_backoff_left_ms(host));
		release_all(host);
	}
	if (!*res->address)
		return;
	address = host_get_address(d, res->address);
	if (res->status)
		host_answered(address);
	else
		host_failed(address, h->started);
	host_put(address);
}

static void request_done(void *arg, void *user, const struct callback_result *res)
{
	struct daemon *d = arg;
	struct held *h = user;
	struct host *host = h->host;

	host->users++;
	d->running--;
	h->callback = NULL;
	histogram_add(&d->metrics.callback[metrics_code(res->status)], res->took_us);
	learn_host(h, res);
	judge(h, res);
	held_free(h);
	start_waiting(d, host);
	host_put(host);
	d->refill = true;
}

/* ---- Beginnings ---- */

/*
 * Lets a task wait for a worker. Workers that have just been given a task come back soon, but
 * there may be idle ones at another daemon.
 */
static void wait_for_worker(struct held *h)
{
	struct daemon *d = daemon_of(h);
	struct queue *q = h->lane->queue;

	h->since = alarms_now(d->alarms);
	h->state = HELD_IDLE;
	DL_APPEND2(q->idle, h, rprev, rnext);
	alarm_arm(d->alarms, &h->due, h->since + IDLE_WAIT);
}

static void begin(struct held *h)
{
	struct queue *q = h->lane->queue;

	if (q->settings.mode == QUEUE_PUSH) {
		start_request(h);
		return;
	}
	if (!lease_is_long_enough(h, alarms_now(q->daemon->alarms))) {
		held_free(h);
		return;
	}
	if (waiter_offer(q, h))
		measure_lateness(h, alarms_now(q->daemon->alarms));
	else if (queue_ahead_ms(q) && !h->since)
		wait_for_worker(h);
	else
		held_release(h, RELEASE_DUE);
}

static void wait_until_due(struct held *h, uint64_t now)
{
	struct daemon *d = daemon_of(h);
	uint64_t at = clock_soon(lane_clock(h->lane), h->due_ms, now);

	if (alarm_arm(d->alarms, &h->due, at > now ? at : now + 1))
		held_release(h, RELEASE_DUE);
}

static void due(struct alarm *a, uint64_t now)
{
	struct held *h = container_of(a, struct held, due);
	struct queue *q = h->lane->queue;

	held_unlist(h);
	if (!clock_reached(lane_clock(h->lane), h->due_ms, now)) {
		wait_until_due(h, now);
		return;
	}
	begin(h);
	waiter_settle_later(q);
}

void attempt_offer_idle(struct queue *q)
{
	struct alarms *alarms = q->daemon->alarms;
	struct held *h;

	while ((h = q->idle)) {
		held_unlist(h);
		if (!lease_is_long_enough(h, alarms_now(alarms))) {
			held_free(h);
		} else if (waiter_offer(q, h)) {
			alarm_clear(alarms, &h->due);
			measure_lateness(h, alarms_now(alarms));
		} else {
			h->state = HELD_IDLE;
			DL_PREPEND2(q->idle, h, rprev, rnext);
			return;
		}
	}
}

static struct held *make(struct lane *l, const struct taken *t, uint64_t holder,
			 uint64_t lease_ms, uint64_t now_ms)
{
	struct held *h = calloc(1, sizeof(*h) + t->id_len + 1);
	struct daemon *d = l->queue->daemon;

	if (!h)
		abort();
	h->data = malloc(t->body_len + 1);
	if (!h->data)
		abort();
	memcpy(h->data, t->body, t->body_len);
	memcpy(h->id, t->id, t->id_len);
	h->data_len = t->body_len;
	h->lane = l;
	h->due.fn = due;
	h->due_ms = t->due_ms;
	h->first_due_ms = t->first_due_ms;
	h->lease_ms = lease_ms;
	h->lease_end_ms = (t->due_ms > now_ms ? t->due_ms : now_ms) + lease_ms;
	h->key.holder = holder;
	h->key.token = t->token;
	h->version = t->version;
	h->attempt = t->attempt;
	h->missed = t->missed;
	HASH_ADD(hh, l->held, key, sizeof(h->key), h);
	l->queue->held++;
	d->held++;
	d->held_bytes += h->data_len;
	renew_in_time(l, lease_ms);
	return h;
}

static void hold(struct held *h, uint64_t now)
{
	struct queue *q = h->lane->queue;

	/* The take of this task was already on its way when the stop began. */
	if (q->daemon->stopping) {
		held_release(h, RELEASE_DUE);
		return;
	}
	/* Do this before the task is due, while there is time. */
	if (q->settings.mode == QUEUE_PULL)
		payload_check(&h->body);
	if (clock_reached(lane_clock(h->lane), h->due_ms, now))
		begin(h);
	else
		wait_until_due(h, now);
}

void attempt_add(struct lane *l, const struct taken *t, uint64_t holder, uint64_t lease_ms,
		 uint64_t now_ms)
{
	struct held *h = make(l, t, holder, lease_ms, now_ms);
	uint64_t now = alarms_now(l->queue->daemon->alarms);

	if (!body_decode(h->data, h->data_len, &h->body))
		held_bury(h, "the stored body is damaged");
	else if (l->queue->settings.mode == QUEUE_PUSH && !h->body.url)
		held_bury(h, "the task has no callback, and its queue is for push");
	else
		hold(h, now);
}

/* ---- All of them ---- */

static void rearm(struct held *h)
{
	if (h->state == HELD_WAITS)
		wait_until_due(h, alarms_now(daemon_of(h)->alarms));
}

void attempt_rearm_all(struct daemon *d)
{
	held_each(d, rearm);
}

static void end_request(struct held *h)
{
	if (h->state != HELD_RUNS)
		return;
	callback_abort(daemon_of(h)->callbacks, h->callback);
	daemon_of(h)->running--;
	held_release(h, 0);
}

void attempt_abort_all(struct daemon *d)
{
	held_each(d, end_request);
}

/* ---- libcurl in the loop ---- */

/**
 * struct curl_watch - a descriptor of libcurl
 */
struct curl_watch {
	struct daemon *daemon;
	struct watch watch;
	UT_hash_handle hh;
};

static struct curl_watch *curl_watches;

static void curl_ready(struct watch *w, uint32_t events)
{
	struct curl_watch *cw = container_of(w, struct curl_watch, watch);

	callbacks_ready(cw->daemon->callbacks, w->fd, events);
}

static void curl_look(void *arg, int fd, int events)
{
	struct daemon *d = arg;
	struct curl_watch *cw;

	HASH_FIND(hh, curl_watches, &fd, sizeof(fd), cw);
	if (!cw) {
		if (!events)
			return;
		cw = calloc(1, sizeof(*cw));
		if (!cw)
			abort();
		cw->daemon = d;
		cw->watch.fn = curl_ready;
		cw->watch.fd = fd;
		HASH_ADD(hh, curl_watches, watch.fd, sizeof(fd), cw);
	}
	loop_watch(d->loop, &cw->watch, events);
	if (events)
		return;
	HASH_DEL(curl_watches, cw);
	free(cw);
}

static void curl_timeout(struct alarm *a, uint64_t now)
{
	(void)now;
	callbacks_timeout(container_of(a, struct daemon, curl)->callbacks);
}

static void curl_timer(void *arg, long ms)
{
	struct daemon *d = arg;

	d->curl_now = !ms;
	if (ms <= 0)
		alarm_clear(d->alarms, &d->curl);
	else
		alarm_arm(d->alarms, &d->curl, alarms_now(d->alarms) + ms * NSEC_PER_MSEC);
	if (!ms)
		loop_again(d->loop);
}

void attempt_run(void *arg)
{
	struct daemon *d = arg;

	if (!d->curl_now)
		return;
	d->curl_now = false;
	callbacks_timeout(d->callbacks);
}

static struct callback_options options_of(const struct config *c)
{
	return (struct callback_options){
		.concurrency = c->callback_concurrency,
		.allow = c->allow,
		.allows = c->allows,
		.secret = c->secret,
		.secrets = c->secrets,
	};
}

int attempt_start(struct daemon *d)
{
	struct callback_loop loop = {
		.arg = d,
		.watch = curl_look,
		.timer = curl_timer,
		.may_connect = may_connect,
		.done = request_done,
	};
	struct callback_options opt = options_of(&d->config);

	d->curl.fn = curl_timeout;
	if (alarm_prepare(d->alarms, &d->curl))
		return -ENOMEM;
	d->callbacks = callbacks_new(&loop, &opt);
	return d->callbacks ? 0 : -ENOMEM;
}

int attempt_change(struct daemon *d, const struct config *c)
{
	struct callback_options opt = options_of(c);

	return callbacks_change(d->callbacks, &opt);
}

void attempt_stop(struct daemon *d)
{
	callbacks_free(d->callbacks);
	d->callbacks = NULL;
}
