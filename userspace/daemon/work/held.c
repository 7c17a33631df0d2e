// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks that were taken: when they begin, and how they end.
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

#include "ground/log.h"
#include "ground/random.h"
#include "work/work.h"

/* A host that ends no request for so long is slow: the tasks that wait for it are released. */
#define HOST_WAIT	(250 * NSEC_PER_MSEC)
/* A queue whose tasks were so released takes less for so long. */
#define SLOW		(2 * NSEC_PER_SEC)
/* A task that was taken ahead waits so long for a worker of this daemon. */
#define IDLE_WAIT	(50 * NSEC_PER_MSEC)
/* The delay of such a release, with as much again at random. */
#define HOST_DELAY_MS	100
/* The delay of a task for which there was no socket or no memory. */
#define NOT_SENT_DELAY_MS	1000
#define HOST_KEY_LEN	320

/**
 * struct host - a host that has as many requests as it may
 * @daemon: whose
 * @waiting: tasks that wait for it, in order
 * @ended: when a request to it ended last
 * @timer: releases those that wait too long
 * @hh: in daemon.hosts
 * @key: scheme, name and port
 */
struct host {
	struct daemon *daemon;
	struct held *waiting;
	uint64_t ended;
	struct alarm timer;
	UT_hash_handle hh;
	char key[HOST_KEY_LEN];
};

static struct daemon *daemon_of(const struct held *h)
{
	return h->lane->queue->daemon;
}

/* ---- Lists ---- */

static void host_drop_if_empty(struct host *host)
{
	struct daemon *d = host->daemon;

	if (host->waiting)
		return;
	HASH_DEL(d->hosts, host);
	alarm_disarm(d->alarms, &host->timer);
	free(host);
}

static void unlist(struct held *h)
{
	struct daemon *d = daemon_of(h);

	if (h->state == HELD_READY) {
		DL_DELETE2(d->ready, h, rprev, rnext);
		d->nr_ready--;
	} else if (h->state == HELD_HOST) {
		DL_DELETE2(h->host->waiting, h, rprev, rnext);
		d->busy_hosts--;
		host_drop_if_empty(h->host);
		h->host = NULL;
	} else if (h->state == HELD_IDLE) {
		DL_DELETE2(h->lane->queue->idle, h, rprev, rnext);
	}
	h->state = HELD_WAITS;
}

void held_free(struct held *h)
{
	struct daemon *d = daemon_of(h);

	alarm_disarm(d->alarms, &h->due);
	unlist(h);
	HASH_DEL(h->lane->held, h);
	h->lane->queue->held--;
	d->held--;
	d->held_bytes -= h->data_len;
	free(h->data);
	free(h);
}

struct held *held_find(struct lane *l, uint64_t holder, uint64_t token)
{
	struct lease_key key = { holder, token };
	struct held *h;

	HASH_FIND(hh, l->held, &key, sizeof(key), h);
	return h;
}

/* ---- Ends ---- */

static void report(struct held *h, enum verdict v, uint64_t delay_ms, const char *note)
{
	struct outcome r = {
		.lane = h->lane,
		.holder = h->key.holder,
		.token = h->key.token,
		.verdict = v,
		.delay_ms = delay_ms,
		.persist = true,
	};

	snprintf(r.id, sizeof(r.id), "%s", h->id);
	snprintf(r.note, sizeof(r.note), "%s", note);
	report_send(h->lane, &r);
}

void held_release(struct held *h, uint64_t delay_ms)
{
	report(h, VERDICT_RELEASE, delay_ms, "");
	held_free(h);
}

static void bury(struct held *h, const char *note)
{
	report(h, VERDICT_DEAD, 0, note);
	held_free(h);
}

bool held_withdraw(struct held *h)
{
	if (h->state == HELD_RUNS || h->state == HELD_OFFERED)
		return false;
	alarm_disarm(daemon_of(h)->alarms, &h->due);
	unlist(h);
	return true;
}

void held_release_lane(struct lane *l)
{
	struct held *h, *next;

	HASH_ITER(hh, l->held, h, next) {
		if (held_withdraw(h))
			held_release(h, RELEASE_DUE);
	}
	report_flush(l);
}

/* ---- Requests ---- */

static void start_request(struct held *h);

static void wait_for_host(struct held *h)
{
	struct daemon *d = daemon_of(h);
	char key[HOST_KEY_LEN];
	struct host *host;

	if (!url_host_key(h->body.url, key, sizeof(key))) {
		held_release(h, HOST_DELAY_MS);
		return;
	}
	HASH_FIND_STR(d->hosts, key, host);
	if (!host) {
		host = calloc(1, sizeof(*host));
		if (!host)
			abort();
		host->daemon = d;
		host->ended = alarms_now(d->alarms);
		memcpy(host->key, key, sizeof(key));
		HASH_ADD_STR(d->hosts, key, host);
	}
	h->state = HELD_HOST;
	h->host = host;
	if (!h->since)
		h->since = alarms_now(d->alarms);
	DL_APPEND2(host->waiting, h, rprev, rnext);
	d->busy_hosts++;
}

/* Tasks may wait for a host that works, unless they need the room of others. */
static bool host_works(const struct host *host, uint64_t now)
{
	const struct daemon *d = host->daemon;

	return now - host->ended < HOST_WAIT && d->held < d->config.hold_max / 4 * 3;
}

/* Releases the tasks that waited too long, and notes that their queues are slow. */
static void release_waiting(struct host *host, uint64_t now)
{
	struct daemon *d = host->daemon;

	while (host->waiting) {
		struct held *h = host->waiting;
		bool last = !h->rnext;

		if (h->since + HOST_WAIT > now) {
			alarm_arm(d->alarms, &host->timer, h->since + HOST_WAIT);
			return;
		}
		h->lane->queue->slow_until = now + SLOW;
		/* The last one takes its host with it. */
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
	lane_fed_all(d);
}

static void arm_host(struct held *h)
{
	struct daemon *d = daemon_of(h);

	if (h->state != HELD_HOST || h->host->timer.armed)
		return;
	h->host->timer.fn = too_long;
	alarm_arm(d->alarms, &h->host->timer, h->since + HOST_WAIT);
}

static void wait_for_slot(struct held *h)
{
	struct daemon *d = daemon_of(h);

	h->state = HELD_READY;
	DL_APPEND2(d->ready, h, rprev, rnext);
	d->nr_ready++;
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
		.now_ms = daemon_now_ms(d),
		.user = h,
	};
	int ret;

	if (!lease_is_long_enough(h, now)) {
		/* Another daemon may have it: recover returns it. */
		held_free(h);
		return;
	}
	ret = callback_start(d->callbacks, &req, &h->callback);
	switch (ret) {
	case 0:
		h->state = HELD_RUNS;
		d->running++;
		measure_lateness(h, now);
		break;
	case -EAGAIN:
		wait_for_slot(h);
		break;
	case -EBUSY:
		wait_for_host(h);
		arm_host(h);
		break;
	case -EINVAL:
		bury(h, "the URL or a header is refused");
		break;
	default:
		held_release(h, NOT_SENT_DELAY_MS);
	}
}

/* A slot is free: the next task that waits for one, and one that waits for this host. */
static void feed(struct daemon *d, const char *key)
{
	struct host *host;

	while (d->ready && callbacks_running(d->callbacks) < d->config.callback_concurrency) {
		struct held *h = d->ready;

		unlist(h);
		start_request(h);
	}
	HASH_FIND_STR(d->hosts, key, host);
	if (host) {
		struct held *h = host->waiting;

		host->ended = alarms_now(d->alarms);
		unlist(h);
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
		report(h, VERDICT_OK, 0, "");
		break;
	case CALLBACK_DEAD:
		q->attempts[VERDICT_DEAD]++;
		report(h, VERDICT_DEAD, 0, res->error);
		break;
	case CALLBACK_RETRY:
		q->attempts[VERDICT_RETRY]++;
		backoff = task_backoff_ms(&h->body.retry, h->attempt, random_u64());
		report(h, VERDICT_RETRY, task_delay_ms(backoff, res->has_retry_after ?
						       res->retry_after_ms : 0), res->error);
		break;
	case CALLBACK_NOT_SENT:
		q->attempts[VERDICT_RELEASE]++;
		report(h, VERDICT_RELEASE, NOT_SENT_DELAY_MS, res->error);
		break;
	}
}

static void request_done(void *arg, void *user, const struct callback_result *res)
{
	struct daemon *d = arg;
	struct held *h = user;
	char key[HOST_KEY_LEN];

	if (!url_host_key(h->body.url, key, sizeof(key)))
		key[0] = '\0';
	d->running--;
	h->callback = NULL;
	h->state = HELD_WAITS;
	histogram_add(&d->metrics.callback[metrics_code(res->status)], res->took_us);
	judge(h, res);
	held_free(h);
	feed(d, key);
	lane_fed_all(d);
}

/* ---- Beginnings ---- */

/* Workers that were handed a task come back soon. Others may be at another daemon. */
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

	unlist(h);
	if (!clock_reached(lane_clock(h->lane), h->due_ms, now)) {
		wait_until_due(h, now);
		return;
	}
	begin(h);
	waiter_settle_later(q);
}

void held_offer_idle(struct queue *q)
{
	struct alarms *alarms = q->daemon->alarms;
	struct held *h;

	while ((h = q->idle)) {
		unlist(h);
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
	if (!l->renew.armed)
		alarm_arm(d->alarms, &l->renew, alarms_now(d->alarms) +
			  d->config.lease_ms * NSEC_PER_MSEC / 6);
	return h;
}

static void hold(struct held *h, uint64_t now)
{
	struct queue *q = h->lane->queue;

	/* Its take was on its way when the stop began. */
	if (q->daemon->stopping) {
		held_release(h, RELEASE_DUE);
		return;
	}
	/* Before the task is due, where there is time. */
	if (q->settings.mode == QUEUE_PULL)
		payload_check(&h->body);
	if (clock_reached(lane_clock(h->lane), h->due_ms, now))
		begin(h);
	else
		wait_until_due(h, now);
}

void held_add(struct lane *l, const struct taken *t, uint64_t holder, uint64_t lease_ms,
	      uint64_t now_ms)
{
	struct held *h = make(l, t, holder, lease_ms, now_ms);
	uint64_t now = alarms_now(l->queue->daemon->alarms);

	if (!body_decode(h->data, h->data_len, &h->body))
		bury(h, "the stored body is damaged");
	else if (l->queue->settings.mode == QUEUE_PUSH && !h->body.url)
		bury(h, "the task has no callback, and its queue is for push");
	else
		hold(h, now);
}

/* ---- All of them ---- */

unsigned int held_room(const struct daemon *d, bool is_due)
{
	const struct config *c = &d->config;
	unsigned int room, used;

	if (d->stopping || d->held + d->asked >= c->hold_max || d->held_bytes >= c->hold_bytes)
		return 0;
	room = c->hold_max - d->held - d->asked;
	if (!is_due)
		return room;
	/* Tasks that wait for a busy host take no slots of others. */
	used = callbacks_running(d->callbacks) + d->nr_ready;
	if (used >= c->callback_concurrency)
		return 0;
	return room < c->callback_concurrency - used ? room : c->callback_concurrency - used;
}

/* Calls @fn for each task that is held. @fn may free it. */
static void each_held(struct daemon *d, void (*fn)(struct held *h))
{
	struct queue *q, *qnext;
	struct held *h, *next;

	HASH_ITER(hh, d->queues, q, qnext) {
		for (unsigned int i = 0; i < q->settings.lanes; i++) {
			HASH_ITER(hh, q->lane[i].held, h, next)
				fn(h);
		}
	}
}

static void rearm(struct held *h)
{
	if (h->state == HELD_WAITS)
		wait_until_due(h, alarms_now(daemon_of(h)->alarms));
}

void held_rearm_all(struct daemon *d)
{
	each_held(d, rearm);
}

static void end_request(struct held *h)
{
	if (h->state != HELD_RUNS)
		return;
	callback_abort(daemon_of(h)->callbacks, h->callback);
	daemon_of(h)->running--;
	h->state = HELD_WAITS;
	held_release(h, 0);
}

void held_abort_all(struct daemon *d)
{
	each_held(d, end_request);
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

void held_run(void *arg)
{
	struct daemon *d = arg;

	if (!d->curl_now)
		return;
	d->curl_now = false;
	callbacks_timeout(d->callbacks);
}

int held_start(struct daemon *d)
{
	const struct config *c = &d->config;
	struct callback_loop loop = {
		.arg = d,
		.watch = curl_look,
		.timer = curl_timer,
		.done = request_done,
	};
	struct callback_options opt = {
		.concurrency = c->callback_concurrency,
		.host_concurrency = c->host_concurrency,
		.allow = c->allow,
		.allows = c->allows,
		.secret = c->secret,
		.secrets = c->secrets,
	};

	d->curl.fn = curl_timeout;
	if (alarm_prepare(d->alarms, &d->curl))
		return -ENOMEM;
	d->callbacks = callbacks_new(&loop, &opt);
	return d->callbacks ? 0 : -ENOMEM;
}

void held_stop(struct daemon *d)
{
	callbacks_free(d->callbacks);
	d->callbacks = NULL;
}
