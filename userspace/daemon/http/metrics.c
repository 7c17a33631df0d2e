// SPDX-License-Identifier: GPL-2.0
/* The text of /metrics. See metrics.h. */
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "callback/callback.h"
#include "ground/now.h"
#include "http/metrics.h"
#include "redis/store.h"
#include "work/recall.h"

/*
 * If there are more queues than this, the rest is summed as "other", together with a queue that
 * has this name.
 */
#define QUEUES_SHOWN	100
#define OTHER		"other"

static const char *verdict_name(enum verdict v)
{
	static const char *const names[] = { "ok", "retry", "dead", "release" };

	return names[v];
}

static void head(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP twheeld_%s %s\n# TYPE twheeld_%s %s\n", name, help, name, type);
}

static void one(FILE *f, const char *name, const char *type, const char *help, double value)
{
	head(f, name, type, help);
	fprintf(f, "twheeld_%s %.17g\n", name, value);
}

static void labeled(FILE *f, const char *name, const char *help, const char *label,
		    const char *const *names, const uint64_t *values, unsigned int count)
{
	head(f, name, "counter", help);
	for (unsigned int i = 0; i < count; i++)
		fprintf(f, "twheeld_%s{%s=\"%s\"} %llu\n", name, label, names[i],
			(unsigned long long)values[i]);
}

static void histogram(FILE *f, const char *name, const char *labels, const struct histogram *h)
{
	const char *comma = labels[0] ? "," : "";
	unsigned long long sum = 0;

	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		sum += h->bucket[i];
		fprintf(f, "twheeld_%s_bucket{%s%sle=\"%g\"} %llu\n", name, labels, comma,
			((uint64_t)HISTOGRAM_FIRST_US << i) / 1e6, sum);
	}
	sum += h->bucket[HISTOGRAM_BUCKETS];
	fprintf(f, "twheeld_%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma, sum);
	fprintf(f, "twheeld_%s_sum%s%s%s %.9g\n", name, labels[0] ? "{" : "", labels,
		labels[0] ? "}" : "", h->sum);
	fprintf(f, "twheeld_%s_count%s%s%s %llu\n", name, labels[0] ? "{" : "", labels,
		labels[0] ? "}" : "", sum);
}

static void counters(FILE *f, const struct metrics *m)
{
	static const char *const puts_[] = {
		"created", "replaced", "updated", "kept", "exists", "full", "failed",
	};
	static const char *const takes[] = { "tasks", "empty", "failed" };
	static const char *const recalls[] = { "yes", "running", "silent" };
	static const char *const dead[] = { "verdict", "attempts", "lost", "missed" };
	static const char *const held_back[] = { "host", "address", "rate", "concurrency" };
	static const char *const codes[] = {
		"code=\"none\"", "code=\"2xx\"", "code=\"3xx\"", "code=\"4xx\"", "code=\"5xx\"",
	};

	head(f, "lateness_seconds", "histogram", "From the due time to the start of an attempt.");
	histogram(f, "lateness_seconds", "", &m->lateness);
	head(f, "callback_seconds", "histogram", "Duration of requests.");
	for (unsigned int i = 0; i < CODE_CLASSES; i++)
		histogram(f, "callback_seconds", codes[i], &m->callback[i]);
	labeled(f, "puts_total", "Tasks that clients sent.", "result", puts_, m->puts,
		PUT_OUTCOMES);
	labeled(f, "takes_total", "Scripts that took tasks.", "result", takes, m->takes,
		TAKE_OUTCOMES);
	labeled(f, "recalls_total", "Tasks whose holder was asked to give them back.", "verdict",
		recalls, m->recalls, RECALL_VERDICTS);
	labeled(f, "dead_total", "Tasks that died here.", "reason", dead, m->dead, DEAD_REASONS);
	labeled(f, "held_back_total", "Times that a limit, or a host that backs off, held tasks back.",
		"reason", held_back, m->held_back, HELD_BACKS);
	one(f, "lost_total", "counter", "Leases that ended without a report.", m->lost);
	one(f, "stale_total", "counter", "Reports whose lease was over.", m->stale);
	one(f, "orphans_total", "counter", "Task ids in a set without a stored task.", m->orphans);
	one(f, "newer_total", "counter",
	    "Times that a task, schedule or queue of a newer version was left alone.",
	    m->newer);
	one(f, "missed_total", "counter", "Tasks that were skipped because they were late.",
	    m->missed);
	one(f, "wakes_total", "counter", "Messages about an earlier task.", m->wakes);
}

/* True if queue number @n of @count has its own time series. */
static bool is_shown(const struct queue *q, size_t n, size_t count)
{
	return count <= QUEUES_SHOWN || (n < QUEUES_SHOWN && strcmp(q->name, OTHER));
}

static void attempt(FILE *f, const char *queue, enum verdict v, uint64_t count)
{
	fprintf(f, "twheeld_attempts_total{queue=\"%s\",verdict=\"%s\"} %llu\n", queue,
		verdict_name(v), (unsigned long long)count);
}

static void attempts(FILE *f, const struct daemon *d)
{
	size_t n = 0, count = HASH_COUNT(d->queues);
	uint64_t other[VERDICTS] = { 0 };

	head(f, "attempts_total", "counter", "Attempts that ended here.");
	for (const struct queue *q = d->queues; q; q = q->hh.next, n++) {
		for (unsigned int v = 0; v < VERDICTS; v++) {
			if (is_shown(q, n, count))
				attempt(f, q->name, v, q->attempts[v]);
			else
				other[v] += q->attempts[v];
		}
	}
	for (unsigned int v = 0; count > QUEUES_SHOWN && v < VERDICTS; v++)
		attempt(f, OTHER, v, other[v]);
}

static void add_counts(struct counts *sum, const struct counts *c)
{
	for (unsigned int i = 0; i < TASK_STATES; i++)
		sum->state[i] += c->state[i];
	for (unsigned int i = 0; i < FORECASTS; i++)
		sum->within[i] += c->within[i];
	if (c->oldest_due_ms < sum->oldest_due_ms)
		sum->oldest_due_ms = c->oldest_due_ms;
}

typedef void each_fn(FILE *f, const struct daemon *d, const char *name, const struct counts *c);

/* Calls @fn for each queue, except for queues with a lane that cannot be reached. */
static void each_queue(FILE *f, const struct daemon *d, each_fn *fn)
{
	struct counts other = { .oldest_due_ms = NEVER_MS };
	size_t n = 0, count = HASH_COUNT(d->queues);

	for (const struct queue *q = d->queues; q; q = q->hh.next, n++) {
		if (!q->counted.known || q->counted.missing)
			continue;
		if (is_shown(q, n, count))
			fn(f, d, q->name, &q->counted.counts);
		else
			add_counts(&other, &q->counted.counts);
	}
	if (count > QUEUES_SHOWN)
		fn(f, d, OTHER, &other);
}

static void tasks(FILE *f, const struct daemon *d, const char *name, const struct counts *c)
{
	(void)d;
	for (unsigned int i = 0; i < TASK_STATES; i++)
		fprintf(f, "twheeld_tasks{queue=\"%s\",state=\"%s\"} %llu\n", name,
			task_state_name(i), (unsigned long long)c->state[i]);
}

static void oldest(FILE *f, const struct daemon *d, const char *name, const struct counts *c)
{
	int64_t age = 0;

	if (c->oldest_due_ms != NEVER_MS)
		age = (int64_t)(work_now_ms(d) - c->oldest_due_ms);
	fprintf(f, "twheeld_oldest_due_seconds{queue=\"%s\"} %g\n", name,
		age > 0 ? age / 1e3 : 0);
}

static void forecast(FILE *f, const struct daemon *d, const char *name, const struct counts *c)
{
	static const char *const within[] = { "60s", "60m", "24h" };

	(void)d;
	for (unsigned int i = 0; i < FORECASTS; i++)
		fprintf(f, "twheeld_due_forecast{queue=\"%s\",within=\"%s\"} %llu\n", name,
			within[i], (unsigned long long)c->within[i]);
}

static void queues(FILE *f, const struct daemon *d)
{
	head(f, "tasks", "gauge", "Tasks in Redis.");
	each_queue(f, d, tasks);
	head(f, "oldest_due_seconds", "gauge", "How long the first scheduled task is overdue.");
	each_queue(f, d, oldest);
	head(f, "due_forecast", "gauge", "Tasks that fall due.");
	each_queue(f, d, forecast);
}

static void redis(FILE *f, const struct daemon *d)
{
	const struct store_stats *st = store_stats(d->store);
	char name[300];
	bool up;

	head(f, "redis_up", "gauge", "1 if the node can be used, or else 0.");
	for (unsigned int i = 0; store_next_node(d->store, &i, name, &up); i++)
		fprintf(f, "twheeld_redis_up{node=\"%s\"} %d\n", name, up);
	head(f, "redis_seconds", "summary", "From sending a script to its answer.");
	for (unsigned int i = 0; i < SCRIPTS; i++)
		fprintf(f, "twheeld_redis_seconds_sum{script=\"%s\"} %.9g\n"
			"twheeld_redis_seconds_count{script=\"%s\"} %llu\n", script_name(i),
			st->seconds[i], script_name(i), (unsigned long long)st->calls[i]);
}

static unsigned int home_lanes(const struct daemon *d)
{
	unsigned int count = 0;

	for (const struct queue *q = d->queues; q; q = q->hh.next) {
		for (unsigned int i = 0; i < q->settings.lanes; i++)
			count += !q->lane[i].rank;
	}
	return count;
}

/* If there are several nodes, the worst one counts. */
static void clocks(FILE *f, const struct daemon *d)
{
	uint64_t now = alarms_now(d->alarms);
	uint64_t wall = now_ns(CLOCK_REALTIME);
	double skew = 0, bound = 0, one_skew;

	for (unsigned int i = 0; i < STORE_NODES; i++) {
		const struct clock *c = &d->clock[i];

		if (!c->known || !store_node_ready(d->store, i))
			continue;
		one_skew = (int64_t)(now + c->offset - wall) / 1e9;
		if (fabs(one_skew) > fabs(skew))
			skew = one_skew;
		bound = fmax(bound, clock_bound(c, now) / 1e9);
	}
	if (bound > 0)
		one(f, "clock_bound_seconds", "gauge", "Maximum error of the estimate of Redis's clock.",
		    bound);
	one(f, "clock_skew_seconds", "gauge", "Redis's clock minus that of this machine.", skew);
}

static void gauges(FILE *f, const struct daemon *d)
{
	one(f, "ready", "gauge", "1 if /readyz answers 200, or else 0.", !work_not_ready(d));
	one(f, "callbacks_running", "gauge", "Requests that are running.",
	    callbacks_running(d->callbacks));
	one(f, "hosts_backing_off", "gauge",
	    "Hosts and addresses that did not answer their last request.", d->failing);
	one(f, "held", "gauge", "Tasks that this daemon has taken.", d->held);
	clocks(f, d);
	one(f, "members", "gauge", "Daemons that are alive, including this one.", d->members + 1);
	one(f, "lanes_home", "gauge", "Lanes whose home is this daemon.", home_lanes(d));
	head(f, "build_info", "gauge", "Version and wheel of this daemon.");
	fprintf(f, "twheeld_build_info{version=\"%s\",wheel=\"%s\"} 1\n", DAEMON_VERSION,
		alarms_backend(d->alarms));
}

char *metrics_text(const struct daemon *d, bool counted, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	if (!f)
		return NULL;
	counters(f, &d->metrics);
	attempts(f, d);
	gauges(f, d);
	redis(f, d);
	if (counted)
		queues(f, d);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}
