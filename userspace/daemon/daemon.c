// SPDX-License-Identifier: GPL-2.0
/*
 * Start, stop, heartbeat, members, messages: the top of the daemon.
 *
 *   twheeld.c, daemon.c
 *          │
 *         http/              requests, answers, routes, the text of /metrics
 *          │
 *         work/              queues and lanes, tasks that are held, workers, reports
 *        ╱     ╲
 *   callback/   redis/       the requests of attempts; scripts, nodes, Sentinel, clusters
 *        ╲     ╱
 *         text/  config/     JSON and stored bodies; the configuration
 *             ╲ ╱
 *           ground/          alarms, the loop, the log, units, hashes, random numbers
 *
 * A room includes and calls the rooms below it, and never one above it. What goes up goes
 * by a function that was handed down: struct store_events, struct callback_loop, waiter_fn.
 * No files depend on each other in a circle. ci/lint/circles.sh checks both.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "daemon.h"
#include "ground/log.h"
#include "ground/loop.h"
#include "ground/notify.h"
#include "ground/random.h"
#include "http/server.h"
#include "redis/store.h"
#include "reload.h"
#include "work/attempt.h"
#include "work/counts.h"
#include "work/host.h"
#include "work/lane.h"
#include "work/put.h"
#include "work/queues.h"
#include "work/ready.h"
#include "work/recall.h"
#include "work/report.h"
#include "work/schedule.h"
#include "work/waiter.h"

#define BEAT		NSEC_PER_SEC
/* How long a member is known without a heartbeat. */
#define MEMBER_MS	5000
/* Queues are read again after this many heartbeats, in case a message was lost. */
#define RELOAD_BEATS	30
/* After Redis was away, recover waits this long, so that reports and renewals come first. */
#define RECOVER_DELAY		(2 * NSEC_PER_SEC)
#define CHECK_TIMEOUT	(3 * NSEC_PER_SEC)
/* How long the stop waits for the last reports after its timeout. */
#define REPORT_GRACE	NSEC_PER_SEC

static const char *const channels[] = { "wake", "recall", "verdict", "changed", NULL };

static struct watch signals;
static struct daemon *the_daemon;
/* The command line, which SIGHUP parses again. */
static int the_argc;
static char **the_argv;

/* ---- Members ---- */

static bool same_members(const struct daemon *d, const struct member *m, size_t count)
{
	return count == d->members && (!count || !memcmp(m, d->member, count * sizeof(*m)));
}

static void members(void *arg, enum store_result result, const redisReply *reply)
{
	struct daemon *d = arg;
	struct member *m;
	size_t count = 0;

	if (result != STORE_OK || reply->type != REDIS_REPLY_ARRAY)
		return;
	m = calloc(reply->elements + 1, sizeof(*m));
	if (!m)
		return;
	for (size_t i = 0; i < reply->elements; i++) {
		const redisReply *r = reply->element[i];

		if (r->type != REDIS_REPLY_STRING || r->len != MEMBER_LEN - 1 ||
		    !strcmp(r->str, d->name))
			continue;
		memcpy(m[count++].name, r->str, MEMBER_LEN);
	}
	if (same_members(d, m, count)) {
		free(m);
		return;
	}
	free(d->member);
	d->member = m;
	d->members = count;
	queue_rank_all(d);
}

/* Sends a command whose second word is the key. */
static void command(struct daemon *d, store_fn *fn, unsigned int n, const char *const *word)
{
	struct args a = { 0 };

	for (unsigned int i = 0; i < n; i++)
		args_text(&a, word[i]);
	store_command(d->store, word[1], &a, fn, d);
}

static void look_for_members(struct daemon *d)
{
	char key[160], now[24], end[24];
	uint64_t ms = work_now_ms(d);

	store_key(d->store, key, "members");
	snprintf(now, sizeof(now), "(%" PRIu64, ms);
	snprintf(end, sizeof(end), "%" PRIu64, ms + MEMBER_MS);
	if (!d->stopping)
		command(d, NULL, 4, (const char *[]){ "ZADD", key, end, d->name });
	command(d, NULL, 4, (const char *[]){ "ZREMRANGEBYSCORE", key, "-inf", now });
	command(d, members, 4, (const char *[]){ "ZRANGEBYSCORE", key, now, "+inf" });
}

static void leave(struct daemon *d)
{
	char key[160];

	store_key(d->store, key, "members");
	command(d, NULL, 3, (const char *[]){ "ZREM", key, d->name });
	work_publish(d, "changed", "members");
}

static void told_time(struct daemon *d, unsigned int node, uint64_t us, uint64_t sent,
		      uint64_t received);

/**
 * struct asked_time - TIME that a node was asked for
 */
struct asked_time {
	struct daemon *daemon;
	unsigned int node;
	uint64_t sent;
};

/* Tells the other daemons at once, so that they need not wait for their next heartbeat. */
static void join(struct daemon *d)
{
	look_for_members(d);
	work_publish(d, "changed", "members");
}

static void got_time(void *arg, enum store_result result, const redisReply *reply)
{
	struct asked_time *at = arg;
	struct daemon *d = at->daemon;

	if (result == STORE_OK && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
	    reply->element[0]->str && reply->element[1]->str) {
		bool first = !work_clock(d);

		told_time(d, at->node, strtoull(reply->element[0]->str, NULL, 10) * 1000000 +
			  strtoull(reply->element[1]->str, NULL, 10), at->sent,
			  alarms_now(d->alarms));
		if (first && work_clock(d))
			join(d);
	}
	free(at);
}

static void ask_time(struct daemon *d, unsigned int node)
{
	struct asked_time *at = malloc(sizeof(*at));
	struct args a = { 0 };

	if (!at)
		abort();
	at->daemon = d;
	at->node = node;
	/* The command is sent later, at the end of this turn. That only makes the bound wider. */
	at->sent = alarms_now(d->alarms);
	args_text(&a, "TIME");
	store_command_on(d->store, node, &a, got_time, at);
}

static void heartbeat(struct alarm *a, uint64_t now)
{
	struct daemon *d = container_of(a, struct daemon, heartbeat);

	alarm_arm(d->alarms, a, now + BEAT);
	notify("WATCHDOG=1");
	log_tick();
	if (!store_up(d->store)) {
		/* Sentinel may know another master in the meantime. */
		store_ping(d->store);
		return;
	}
	d->beats++;
	queue_free_removed(d);
	for (unsigned int i = 0; i < STORE_NODES; i++) {
		if (store_node_ready(d->store, i))
			ask_time(d, i);
	}
	if (work_clock(d))
		look_for_members(d);
	ready_ask(d);
	store_ping(d->store);
	if (d->beats % RELOAD_BEATS == 0) {
		queue_load_all(d);
		schedule_load_all(d);
	}
}

/* ---- Events of the store ---- */

static void told_time(struct daemon *d, unsigned int node, uint64_t us, uint64_t sent,
		      uint64_t received)
{
	bool known = d->clock[node].known;

	if (!clock_sample(&d->clock[node], us, sent, received) && known)
		return;
	if (known)
		log_often(LOG_WARNING, "Redis's clock was set: arming all held tasks again");
	attempt_rearm_all(d);
	for (struct queue *q = d->queues; q; q = q->hh.next) {
		for (unsigned int i = 0; i < q->settings.lanes; i++)
			lane_arm(&q->lane[i]);
	}
}

static void on_time(void *arg, unsigned int node, uint64_t us, uint64_t sent, uint64_t received)
{
	told_time(arg, node, us, sent, received);
}

static void look_everywhere(struct daemon *d)
{
	for (struct queue *q = d->queues; q; q = q->hh.next) {
		for (unsigned int i = 0; i < q->settings.lanes; i++)
			lane_look(&q->lane[i]);
	}
}

/*
 * A lane is now on another server, or its server was started again. That server may have forgotten
 * recent leases and tokens. It may give out a token twice, so the holder number must change. Tasks
 * that have not begun are given back, because they may have been canceled without our knowledge.
 */
static void on_moved(void *arg)
{
	struct daemon *d = arg;

	d->holder = random_id();
	d->recover_after = alarms_now(d->alarms) + RECOVER_DELAY;
	for (struct queue *q = d->queues; q; q = q->hh.next) {
		for (unsigned int i = 0; i < q->settings.lanes; i++) {
			struct lane *l = &q->lane[i];
			unsigned int node = store_lane_node(d->store, q->name, i);

			if (l->node == node)
				continue;
			l->node = node;
			held_release_lane(l);
			lane_look(l);
		}
	}
}

static void started_anew(struct daemon *d, unsigned int node)
{
	d->holder = random_id();
	clock_forget(&d->clock[node]);
	for (struct queue *q = d->queues; q; q = q->hh.next) {
		for (unsigned int i = 0; i < q->settings.lanes; i++) {
			if (q->lane[i].node == node)
				held_release_lane(&q->lane[i]);
		}
	}
}

static void on_up(void *arg, unsigned int node, bool changed)
{
	struct daemon *d = arg;

	if (!d->connected) {
		d->connected = true;
		notify("READY=1");
		log_line(LOG_NOTICE, "connected to Redis");
	} else {
		log_often(LOG_NOTICE, "connected to Redis again%s", changed ?
			  ", which has restarted or been replaced" : "");
	}
	d->whole |= store_whole(d->store);
	if (d->check_only) {
		if (d->whole)
			loop_stop(d->loop);
		return;
	}
	d->recover_after = alarms_now(d->alarms) + RECOVER_DELAY;
	if (changed)
		started_anew(d, node);
	ask_time(d, node);
	ready_ask(d);
	report_flush_all(d);
	queue_load_all(d);
	schedule_load_all(d);
	schedule_look_all(d);
	look_everywhere(d);
}

static void on_down(void *arg, const char *why)
{
	struct daemon *d = arg;

	if (d->stopping)
		return;
	if (store_unfit(d->store) && !d->whole) {
		log_line(LOG_ERR, "%s", store_text(d->store));
		d->exit_code = 1;
		loop_stop(d->loop);
		return;
	}
	/* A check reports this in the end. */
	if (!d->check_only && (why || !d->complained))
		log_often(LOG_ERR, "cannot use Redis: %s", store_text(d->store));
	d->complained = true;
}

static void on_subscribed(void *arg)
{
	struct daemon *d = arg;

	/* Messages may have been missed in the meantime. */
	if (d->beats)
		look_everywhere(d);
}

/* "queue/lane time" */
static void wake(struct daemon *d, const char *text, size_t len)
{
	char line[128], name[QUEUE_NAME_MAX + 1];
	unsigned int index;
	struct queue *q;
	uint64_t ms;

	if (len >= sizeof(line))
		return;
	memcpy(line, text, len);
	line[len] = '\0';
	if (sscanf(line, "%64[A-Za-z0-9_-]/%u %" SCNu64, name, &index, &ms) != 3)
		return;
	q = queue_find(d, name);
	if (!q)
		queue_load(d, name, NULL, NULL);
	else if (index < q->settings.lanes)
		lane_wake(&q->lane[index], ms);
}

static void pause_queue(struct daemon *d, const char *name)
{
	struct queue *q = queue_find(d, name);

	if (q)
		queue_release(q);
}

/* "members", "queue NAME", "pause NAME" or "schedule QUEUE/NAME" */
static void changed(struct daemon *d, const char *text, size_t len)
{
	char line[128 + SCHEDULE_FIELD_LEN], name[QUEUE_NAME_MAX + 1];

	if (len >= sizeof(line))
		return;
	memcpy(line, text, len);
	line[len] = '\0';
	if (!strcmp(line, "members") && work_clock(d) && !d->stopping)
		look_for_members(d);
	else if (sscanf(line, "queue %64[A-Za-z0-9_-]", name) == 1)
		queue_load(d, name, NULL, NULL);
	else if (sscanf(line, "pause %64[A-Za-z0-9_-]", name) == 1)
		pause_queue(d, name);
	else if (!strncmp(line, "schedule ", 9))
		schedule_look(d, line + 9);
}

static void on_message(void *arg, const char *channel, const char *text, size_t len)
{
	struct daemon *d = arg;

	if (!strcmp(channel, "wake"))
		wake(d, text, len);
	else if (!strcmp(channel, "recall"))
		recall_message(d, text, len);
	else if (!strcmp(channel, "verdict"))
		recall_verdict(d, text, len);
	else if (!strcmp(channel, "changed"))
		changed(d, text, len);
}

/* ---- Stop ---- */

static void release_all(struct daemon *d)
{
	for (struct queue *q = d->queues; q; q = q->hh.next)
		queue_release(q);
}

/* Tells systemd how long the stop may take, because the unit may allow less time. */
static void say_stopping(const struct daemon *d)
{
	uint64_t ms = d->config.stop_delay_ms + d->config.stop_timeout_ms;
	uint64_t us = ms * 1000 + 2 * REPORT_GRACE / NSEC_PER_USEC;

	notify("STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRIu64, us);
}

static void stop(struct daemon *d)
{
	log_line(LOG_NOTICE, "stopping: %u requests are running", d->running);
	d->stopping = true;
	d->stop_by = alarms_now(d->alarms) + d->config.stop_timeout_ms * NSEC_PER_MSEC;
	alarm_arm(d->alarms, &d->stop_timer, d->stop_by);
	api_quiesce(d->api);
	release_all(d);
	if (store_up(d->store))
		leave(d);
}

/*
 * For stop-delay, all requests except those of workers are served, while load balancers notice
 * that the daemon is not ready.
 */
static void begin_stop(struct daemon *d)
{
	if (d->stopping) {
		/* A second signal ends the wait. */
		d->stop_by = 0;
		return;
	}
	if (!d->leaving) {
		say_stopping(d);
		d->leaving = true;
		waiter_end_all(d);
		if (d->config.stop_delay_ms) {
			log_line(LOG_NOTICE, "stopping after stop-delay; /readyz is 503 from now on");
			alarm_arm(d->alarms, &d->stop_timer, alarms_now(d->alarms) +
				  d->config.stop_delay_ms * NSEC_PER_MSEC);
			return;
		}
	}
	stop(d);
}

static void stop_deadline(struct alarm *a, uint64_t now)
{
	struct daemon *d = container_of(a, struct daemon, stop_timer);

	if (!d->stopping) {
		stop(d);
		return;
	}
	if (d->grace) {
		loop_stop(d->loop);
		return;
	}
	d->grace = true;
	attempt_abort_all(d);
	report_flush_all(d);
	alarm_arm(d->alarms, a, now + REPORT_GRACE);
}

/* After the deadline, only an answer of Redis is still worth waiting for. */
static bool may_end(const struct daemon *d)
{
	bool waits = d->running || d->asked || d->reports;

	if (d->grace)
		return !waits || !store_up(d->store);
	return !waits && !api_busy(d->api);
}

static void look_for_end(void *arg)
{
	struct daemon *d = arg;

	if (!d->stopping)
		return;
	if (!d->stop_by && !d->grace)
		stop_deadline(&d->stop_timer, alarms_now(d->alarms));
	if (may_end(d))
		loop_stop(d->loop);
}

static void signaled(struct watch *w, uint32_t events)
{
	struct signalfd_siginfo info;

	(void)events;
	if (read(w->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP)
		daemon_reload(the_daemon, the_argc, the_argv);
	else
		begin_stop(the_daemon);
}

static int watch_signals(struct daemon *d)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals.fn = signaled;
	signals.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (signals.fd < 0)
		return -errno;
	loop_watch(d->loop, &signals, EPOLLIN);
	return 0;
}

/* ---- Start ---- */

static int start_loop(struct daemon *d)
{
	const char *why;
	struct store_events events = {
		.arg = d,
		.time = on_time,
		.up = on_up,
		.down = on_down,
		.moved = on_moved,
		.subscribed = on_subscribed,
		.message = on_message,
	};
	int ret = alarms_open(&d->alarms, d->config.tick_ns);

	if (ret) {
		log_line(LOG_ERR, "cannot open a wheel: %s", strerror(-ret));
		return -1;
	}
	d->loop = loop_new(d->alarms);
	if (!d->loop) {
		log_line(LOG_ERR, "cannot create an epoll descriptor: %s", strerror(errno));
		return -1;
	}
	d->holder = random_id();
	snprintf(d->name, sizeof(d->name), "%016" PRIx64, d->holder);
	d->store = store_new(d->loop, d->alarms, &d->config, &events, channels, &why);
	if (!d->store) {
		log_line(LOG_ERR, "%s", why);
		return -1;
	}
	return 0;
}

static void forget_reports(struct daemon *d)
{
	for (struct queue *q = d->queues; q; q = q->hh.next) {
		for (unsigned int i = 0; i < q->settings.lanes; i++)
			report_free_all(&q->lane[i]);
	}
}

static void end(struct daemon *d)
{
	store_close(d->store);
	/* The reports of workers have to answer their requests. */
	forget_reports(d);
	census_end(d);
	api_free(d->api);
	/* Requests use the bodies of tasks, so these are freed later. */
	attempt_stop(d);
	schedule_free_all(d);
	queue_free_all(d);
	host_free_all(d);
	store_free(d->store);
	loop_free(d->loop);
	alarms_close(d->alarms);
	free(d->member);
}

int daemon_run(struct daemon *d, int argc, char **argv)
{
	char err[256];

	the_daemon = d;
	the_argc = argc;
	the_argv = argv;
	d->heartbeat.fn = heartbeat;
	d->stop_timer.fn = stop_deadline;
	if (start_loop(d) || watch_signals(d) || attempt_start(d) ||
	    alarm_prepare(d->alarms, &d->stop_timer))
		return 1;
	loop_at_end(d->loop, waiter_settle_all, d);
	d->api = api_new(d, err);
	if (!d->api) {
		log_line(LOG_ERR, "%s", err);
		return 1;
	}
	loop_at_end(d->loop, attempt_run, d);
	loop_at_end(d->loop, lane_refill_all, d);
	/* Answers and requests, then the puts of all of them, then what goes to Redis. */
	loop_at_end(d->loop, put_flush_all, d);
	loop_at_end(d->loop, store_flush, d->store);
	loop_at_end(d->loop, look_for_end, d);
	alarm_arm(d->alarms, &d->heartbeat, alarms_now(d->alarms) + BEAT);
	log_line(LOG_NOTICE, "twheeld %s: %s wheel, member %s", DAEMON_VERSION,
		 alarms_backend(d->alarms), d->name);
	loop_run(d->loop);
	end(d);
	return d->exit_code;
}

static void check_ends(struct alarm *a, uint64_t now)
{
	struct daemon *d = container_of(a, struct daemon, stop_timer);

	(void)now;
	log_line(LOG_ERR, "cannot use Redis: %s", store_text(d->store));
	d->exit_code = 1;
	loop_stop(d->loop);
}

int daemon_check(struct daemon *d)
{
	d->check_only = true;
	d->stop_timer.fn = check_ends;
	if (start_loop(d))
		return 1;
	loop_at_end(d->loop, store_flush, d->store);
	alarm_arm(d->alarms, &d->stop_timer, alarms_now(d->alarms) + CHECK_TIMEOUT);
	loop_run(d->loop);
	store_free(d->store);
	loop_free(d->loop);
	alarms_close(d->alarms);
	return d->exit_code;
}
