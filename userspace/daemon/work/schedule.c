// SPDX-License-Identifier: GPL-2.0
/*
 * Schedules: the runs of calendars become tasks. See lua/schedule.lua for the record.
 *
 * Each enabled schedule has one run ahead, which is a task. When its time has come, the next one
 * is fixed in the record, its task is made, and the record says so. Every daemon does this, by
 * its rank in the schedule, and any of them may die at any of these steps: the next one reads
 * the record and goes on with the step that is missing. A step that was done already does
 * nothing.
 */
#include "work/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/log.h"
#include "ground/random.h"
#include "redis/store.h"
#include "work/lane.h"
#include "work/queues.h"
#include "work/recall.h"
#include "work/task.h"

/* The maximum time between two looks, in case a message was lost. */
#define SWEEP_MS	60000
#define SWEEP_FAR_MS	300000
/* How long to wait after a failure. */
#define FAILURE_DELAY_MS	1000
/* How often to look if a run has ended for which the next one waits. */
#define POLL_MS		1000
/* How long before the time of the next run that look takes place. */
#define BEFORE_MS	20

/**
 * struct schedule - a schedule that is known
 * @daemon: whose
 * @field: "QUEUE/NAME"
 * @queue: name of its queue
 * @name: its name, in @field
 * @alarm: for the next look
 * @busy: a command is on its way
 * @again: look again after it
 * @record: as it was last; its definition is not kept
 * @spec: its definition, while @busy
 * @hh: in daemon.schedules, by field
 */
struct schedule {
	struct daemon *daemon;
	char field[SCHEDULE_FIELD_LEN];
	char queue[QUEUE_NAME_MAX + 1];
	const char *name;
	struct alarm alarm;
	bool busy;
	bool again;
	struct record record;
	struct schedule_spec spec;
	UT_hash_handle hh;
};

void schedule_field(char field[SCHEDULE_FIELD_LEN], const char *queue, const char *name)
{
	snprintf(field, SCHEDULE_FIELD_LEN, "%.64s/%.64s", queue, name);
}

static void look(struct schedule *s);
static void act(struct schedule *s, const char *text, size_t len);

static unsigned int rank(const struct schedule *s)
{
	struct daemon *d = s->daemon;
	const char *names[d->members + 1];

	for (size_t i = 0; i < d->members; i++)
		names[i] = d->member[i].name;
	return task_rank(d->name, names, d->members, s->field, 0);
}

/* Ends a chain of commands, and looks again after @ms. */
static void look_after(struct schedule *s, uint64_t ms)
{
	struct daemon *d = s->daemon;
	bool again = s->again;

	schedule_free_spec(&s->spec);
	s->busy = false;
	s->again = false;
	if (again && ms > 0 && store_up(d->store))
		ms = 0;
	alarm_arm(d->alarms, &s->alarm, alarms_now(d->alarms) + ms * NSEC_PER_MSEC);
}

/* Returns the time to wait, up to the next sweep. */
static void wait_for(struct schedule *s, uint64_t ms, uint64_t now)
{
	unsigned int place = rank(s);
	uint64_t sweep = place ? SWEEP_FAR_MS : SWEEP_MS;

	sweep -= random_u64() % (sweep / 8);
	ms = (ms > now ? ms - now : 0) + 1;
	if (ms < sweep)
		ms += task_rank_delay_ms(place);
	look_after(s, ms < sweep ? ms : sweep);
}

static void forget(struct schedule *s)
{
	struct daemon *d = s->daemon;

	schedule_free_spec(&s->spec);
	alarm_disarm(d->alarms, &s->alarm);
	HASH_DEL(d->schedules, s);
	free(s);
}

/* The record is gone. */
static void gone(struct schedule *s)
{
	if (s->again)
		look_after(s, 0);
	else
		forget(s);
}

static bool is_text(const redisReply *reply)
{
	return reply && reply->type == REDIS_REPLY_STRING;
}

/* Continues with the record as it is now, which this daemon or another one has changed. */
static void changed(void *arg, enum store_result result, const redisReply *reply)
{
	struct schedule *s = arg;
	enum record_result what;
	const redisReply *text;

	if (result != STORE_OK || !record_answer(reply, &what, &text))
		look_after(s, FAILURE_DELAY_MS);
	else if (what == RECORD_NEWER)
		look_after(s, SWEEP_FAR_MS);
	else if (!text)
		gone(s);
	else
		act(s, text->str, text->len);
}

static void change(struct schedule *s, struct args *a)
{
	char key[160];

	store_script_on_key(s->daemon->store, SCRIPT_SCHEDULE,
			    store_key(s->daemon->store, key, "schedules"), a, changed, s);
}

/* ---- Clear ---- */

static void recalled(void *arg, enum recall_verdict verdict)
{
	struct schedule *s = arg;
	struct args a = { 0 };

	/* If its attempt has begun, it began before the change. */
	(void)verdict;
	record_cleared_args(&a, s->field, &s->record);
	change(s, &a);
}

static struct lane *lane_of_run(struct schedule *s, struct queue *q, uint64_t run,
				char id[TASK_ID_MAX + 1])
{
	schedule_run_id(id, s->name, run);
	return queue_lane(q, id);
}

static void cleared(void *arg, enum store_result result, const redisReply *reply)
{
	struct schedule *s = arg;
	struct queue *q = queue_find(s->daemon, s->queue);
	char id[TASK_ID_MAX + 1];
	struct clear_answer a;

	if (result != STORE_OK || !q || !clear_answer(reply, &a)) {
		look_after(s, FAILURE_DELAY_MS);
	} else if (a.held) {
		struct lane *l = lane_of_run(s, q, s->record.clear, id);

		recall_ask(l, id, a.holder, a.token, RECALL_CANCEL, a.due_ms, recalled, s);
	} else {
		recalled(s, RECALL_YES);
	}
}

static void clear(struct schedule *s, struct queue *q)
{
	char id[TASK_ID_MAX + 1];
	struct lane *l = lane_of_run(s, q, s->record.clear, id);
	struct args a = { 0 };

	clear_args(&a, &s->record, s->name);
	store_script(s->daemon->store, SCRIPT_CLEAR, q->name, l->index, &a, cleared, s);
}

/* ---- Make ---- */

static void planted(void *arg, enum store_result result, const redisReply *reply)
{
	struct schedule *s = arg;
	struct daemon *d = s->daemon;
	struct queue *q = queue_find(d, s->queue);
	struct args a = { 0 };
	uint64_t known;
	enum planted what;

	if (result != STORE_OK || !plant_answer(reply, &what, &known)) {
		look_after(s, FAILURE_DELAY_MS);
		return;
	}
	switch (what) {
	case PLANT_MADE:
	case PLANT_WAS_MADE:
		if (q) {
			char id[TASK_ID_MAX + 1];
			struct lane *l = lane_of_run(s, q, s->record.next, id);

			lane_wake(l, schedule_due(&s->spec, s->name, s->record.next));
		}
		record_made_args(&a, s->field, &s->record);
		change(s, &a);
		break;
	case PLANT_STALE:
		/* Either the record has changed, or a failover has undone a change. */
		record_renew_args(&a, s->field, &s->record, known);
		change(s, &a);
		break;
	case PLANT_FULL:
		log_often(LOG_WARNING, "schedule %s: its queue is full, and its next run waits",
			  s->field);
		look_after(s, FAILURE_DELAY_MS);
		break;
	case PLANT_NEWER:
		look_after(s, SWEEP_MS);
		break;
	case PLANT_GONE:
		/* Either the queue is gone, or its removal has begun and may not be completed. */
		queue_load(d, s->queue, NULL, NULL);
		look_after(s, FAILURE_DELAY_MS);
	}
}

static void plant(struct schedule *s, struct queue *q)
{
	struct daemon *d = s->daemon;
	char id[TASK_ID_MAX + 1];
	struct lane *l = lane_of_run(s, q, s->record.next, id);
	struct args a = { 0 };

	plant_args(&a, &s->record, s->name,
		   q->settings.lane_max ? q->settings.lane_max : d->config.lane_max,
		   schedule_due(&s->spec, s->name, s->record.next), &s->spec.task);
	store_script(d->store, SCRIPT_PLANT, q->name, l->index, &a, planted, s);
}

/* ---- Go on to the next run ---- */

static void advance(struct schedule *s)
{
	struct args a = { 0 };
	uint64_t caught = s->record.caught, to;

	to = schedule_follow(&s->spec, s->record.next, work_now_ms(s->daemon), &caught);
	if (s->spec.max && s->record.runs >= s->spec.max)
		to = SCHEDULE_NEVER;
	record_advance_args(&a, s->field, &s->record, to, caught);
	change(s, &a);
}

static void looked(void *arg, enum store_result result, const redisReply *reply)
{
	struct schedule *s = arg;
	uint64_t now = work_now_ms(s->daemon), next;
	char id[TASK_ID_MAX + 1];
	struct task_view view;

	if (result != STORE_OK) {
		look_after(s, FAILURE_DELAY_MS);
		return;
	}
	/* A run that only a newer version can read is left to that: it may be in progress. */
	if (look_answer_newer(reply, 0) ||
	    (look_answer_items(reply) && look_answer_item(reply, 0, id, &view) &&
	     (view.state == TASK_SCHEDULED || view.state == TASK_LEASED))) {
		next = schedule_next(&s->spec, s->record.next);
		if (next > now + BEFORE_MS && next - BEFORE_MS < now + POLL_MS)
			wait_for(s, next - BEFORE_MS, now);
		else
			wait_for(s, now + POLL_MS, now);
		return;
	}
	advance(s);
}

static void look_at_run(struct schedule *s, struct queue *q)
{
	char id[TASK_ID_MAX + 1];
	struct lane *l = lane_of_run(s, q, s->record.next, id);
	struct args a = { 0 };

	look_get_args(&a, id);
	store_script(s->daemon->store, SCRIPT_LOOK, q->name, l->index, &a, looked, s);
}

/* ---- Which step comes next ---- */

static bool read_spec(struct schedule *s, const struct queue *q)
{
	struct api_error err;
	char *text;
	int ret;

	schedule_free_spec(&s->spec);
	text = strndup(s->record.definition, s->record.definition_len);
	if (!text)
		abort();
	ret = schedule_parse(text, s->record.definition_len, &q->settings, &s->spec, &err);
	free(text);
	if (ret)
		log_often(LOG_WARNING, "schedule %s: %s: %s", s->field, err.field, err.message);
	return !ret;
}

static void act(struct schedule *s, const char *text, size_t len)
{
	struct daemon *d = s->daemon;
	struct queue *q = queue_find(d, s->queue);
	uint64_t now = work_now_ms(d);
	struct record *r = &s->record;

	if (!record_parse(text, len, r)) {
		d->metrics.newer++;
		log_often(LOG_WARNING, "schedule %s: its record cannot be read: perhaps a newer "
			  "twheeld stored it", s->field);
		look_after(s, SWEEP_FAR_MS);
	} else if (!q) {
		queue_load(d, s->queue, NULL, NULL);
		look_after(s, 5 * FAILURE_DELAY_MS);
	} else if (r->clears) {
		clear(s, q);
	} else if (r->state != RECORD_ENABLED || r->next == SCHEDULE_NEVER) {
		wait_for(s, SCHEDULE_NEVER, now);
	} else if (!read_spec(s, q)) {
		look_after(s, SWEEP_MS);
	} else if (!r->made) {
		plant(s, q);
	} else if (now < r->next) {
		wait_for(s, r->next, now);
	} else if (s->spec.overlap != OVERLAP_ALLOW) {
		look_at_run(s, q);
	} else {
		advance(s);
	}
}

static void got(void *arg, enum store_result result, const redisReply *reply)
{
	struct schedule *s = arg;

	if (result != STORE_OK)
		look_after(s, FAILURE_DELAY_MS);
	else if (!is_text(reply))
		gone(s);
	else
		act(s, reply->str, reply->len);
}

static void look(struct schedule *s)
{
	struct daemon *d = s->daemon;
	struct args a = { 0 };
	char key[160];

	if (s->busy) {
		s->again = true;
		return;
	}
	s->busy = true;
	if (d->stopping || !store_up(d->store) || !work_clock(d)) {
		look_after(s, FAILURE_DELAY_MS);
		return;
	}
	args_text(&a, "HGET");
	args_text(&a, store_key(d->store, key, "schedules"));
	args_text(&a, s->field);
	store_command(d->store, key, &a, got, s);
}

static void rings(struct alarm *a, uint64_t now)
{
	(void)now;
	look(container_of(a, struct schedule, alarm));
}

/* ---- Which schedules there are ---- */

static bool field_valid(const char *field, char queue[QUEUE_NAME_MAX + 1])
{
	size_t len = strcspn(field, "/");

	if (len > QUEUE_NAME_MAX || !field[len])
		return false;
	memcpy(queue, field, len);
	queue[len] = '\0';
	return queue_name_valid(queue) && schedule_name_valid(field + len + 1);
}

void schedule_look(struct daemon *d, const char *field)
{
	char queue[QUEUE_NAME_MAX + 1];
	struct schedule *s;

	HASH_FIND_STR(d->schedules, field, s);
	if (s) {
		look(s);
		return;
	}
	if (HASH_COUNT(d->schedules) >= SCHEDULES_MAX || !field_valid(field, queue))
		return;
	s = calloc(1, sizeof(*s));
	if (!s)
		abort();
	s->daemon = d;
	strcpy(s->field, field);
	strcpy(s->queue, queue);
	s->name = s->field + strlen(queue) + 1;
	s->alarm.fn = rings;
	if (alarm_prepare(d->alarms, &s->alarm)) {
		log_often(LOG_ERR, "schedule %s is not served by this daemon: no memory for its timer",
			  field);
		free(s);
		return;
	}
	HASH_ADD_STR(d->schedules, field, s);
	look(s);
}

static void loaded(void *arg, enum store_result result, const redisReply *reply)
{
	struct daemon *d = arg;
	struct schedule *s;

	if (result != STORE_OK || reply->type != REDIS_REPLY_ARRAY)
		return;
	for (size_t i = 0; i < reply->elements; i++) {
		if (!is_text(reply->element[i]))
			continue;
		HASH_FIND_STR(d->schedules, reply->element[i]->str, s);
		if (!s)
			schedule_look(d, reply->element[i]->str);
	}
}

void schedule_load_all(struct daemon *d)
{
	struct args a = { 0 };
	char key[160];

	args_text(&a, "HKEYS");
	args_text(&a, store_key(d->store, key, "schedules"));
	store_command(d->store, key, &a, loaded, d);
}

void schedule_look_all(struct daemon *d)
{
	struct schedule *s, *next;

	HASH_ITER(hh, d->schedules, s, next)
		look(s);
}

bool schedule_known(const struct daemon *d, const char *queue)
{
	for (const struct schedule *s = d->schedules; s; s = s->hh.next) {
		if (!strcmp(s->queue, queue))
			return true;
	}
	return false;
}

void schedule_free_all(struct daemon *d)
{
	struct schedule *s, *next;

	HASH_ITER(hh, d->schedules, s, next)
		forget(s);
}
