// SPDX-License-Identifier: GPL-2.0
/* A schedule: from a request, and its calendar. See schedule.h. */
#include "text/schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/hash.h"
#include "text/field.h"

#define EVERY_MIN_MS	1000
#define RUNS_MAX	1000000000
#define MISSED_LIMIT	100
#define MISSED_LIMIT_MAX	1000
#define JITTER_MAX_MS	(24ULL * 3600 * 1000)
/* With "skip", a run that is later than this is dropped. */
#define MISSED_AFTER_MS	60000

static const char *const missed_names[] = {
	[MISSED_ONCE] = "once", [MISSED_SKIP] = "skip", [MISSED_ALL] = "all",
};

static const char *const overlap_names[] = {
	[OVERLAP_ALLOW] = "allow", [OVERLAP_SKIP] = "skip", [OVERLAP_QUEUE] = "queue",
};

bool schedule_name_valid(const char *name)
{
	return strlen(name) <= SCHEDULE_NAME_MAX && task_id_valid(name) &&
	       !name[strcspn(name, ":@=/+~")];
}

static int read_calendar(const struct fields *f, struct schedule_spec *s)
{
	const char *text = NULL, *rule = NULL, *tz = NULL, *why;

	if (field_string(f, "cron", &text) || field_string(f, "rrule", &rule) ||
	    field_string(f, "tz", &tz) ||
	    field_either(f, "every", "every_ms", EVERY_MIN_MS, TASK_AHEAD_MAX_MS, &s->every_ms))
		return -1;
	if (text && s->every_ms)
		return field_error(f, INVALID, "every", "\"cron\" and \"every\" cannot be used together");
	if (rule && (text || s->every_ms))
		return field_error(f, INVALID, "rrule", "cannot be used with \"cron\" or \"every\"");
	if (!text && !rule && !s->every_ms)
		return field_error(f, INVALID, "cron", "\"cron\", \"rrule\" or \"every\" is missing");
	if (tz && s->every_ms)
		return field_error(f, INVALID, "tz", "can only be used with \"cron\" or \"rrule\"");
	why = text ? cron_parse(text, &s->cron) : NULL;
	if (why)
		return field_error(f, INVALID, "cron", "%s", why);
	why = rule ? rule_parse(rule, &s->rule) : NULL;
	if (why)
		return field_error(f, INVALID, "rrule", "%s", why);
	s->zone = zone_open(tz ? tz : "UTC");
	if (!s->zone)
		return field_error(f, INVALID, "tz", "is not a time zone that this machine knows");
	return 0;
}

static int read_rest(const struct fields *f, struct schedule_spec *s)
{
	unsigned int missed = s->missed, overlap = s->overlap;
	const char *why;

	if (field_time(f, "start", &s->start_ms) || field_time(f, "end", &s->end_ms) ||
	    field_number(f, "max", 1, RUNS_MAX, &s->max) ||
	    field_duration(f, "jitter", 0, JITTER_MAX_MS, &s->jitter_ms) ||
	    field_choice(f, "missed", missed_names, ARRAY_SIZE(missed_names), &missed) ||
	    field_number(f, "missed_limit", 1, MISSED_LIMIT_MAX, &s->missed_max) ||
	    field_choice(f, "overlap", overlap_names, ARRAY_SIZE(overlap_names), &overlap) ||
	    field_bool(f, "enabled", &s->enabled))
		return -1;
	s->missed = missed;
	s->overlap = overlap;
	if (s->end_ms < s->start_ms)
		return field_error(f, INVALID, "end", "is before \"start\"");
	/* The first run is at a whole second, and not before the start. */
	why = s->rule ? rule_start(s->rule, s->zone, (s->start_ms + 999) / 1000) : NULL;
	if (why)
		return field_error(f, INVALID, "rrule", "%s", why);
	return 0;
}

/* Reads the task. The fields in its errors begin with the name of the field that contains it. */
static int read_template(const struct fields *f, const struct queue_settings *q,
			 struct schedule_spec *s)
{
	static const char *const names[] = {
		"callback", "payload", "payload_base64", "retry", "timeout", "late", "keep", NULL
	};
	struct fields task = { .at = "task." };
	struct task_request req;
	struct api_error err;
	char *text;
	int ret;

	if (field_object(f, "task", &task))
		return -1;
	if (task.obj && fields_only(&task, names))
		return -1;
	text = task.obj ? json_dumps(task.obj, JSON_COMPACT |
				     JSON_REAL_PRECISION(real_digits(task.obj))) : strdup("{}");
	if (!text)
		return field_error(f, 500, "internal", "task", "no memory");
	ret = task_request_parse(text, strlen(text), "run", q, &req, &err);
	free(text);
	if (ret) {
		api_error_set(f->err, err.status, err.code, NULL, "%s", err.message);
		snprintf(f->err->field, sizeof(f->err->field), "task%s%.50s",
			 err.field[0] ? "." : "", err.field);
		return -1;
	}
	s->task = req.item[0].spec;
	req.item[0].spec.body = NULL;
	task_request_free(&req);
	if (s->missed == MISSED_SKIP && !s->task.late_after_ms) {
		s->task.late_after_ms = MISSED_AFTER_MS;
		s->task.late_then = LATE_SKIP;
	}
	return 0;
}

int schedule_parse(const char *text, size_t len, const struct queue_settings *q,
		   struct schedule_spec *spec, struct api_error *err)
{
	static const char *const names[] = {
		"cron", "rrule", "every", "every_ms", "tz", "task", "start", "end", "max", "jitter",
		"missed", "missed_limit", "overlap", "enabled", NULL
	};
	struct fields f = { .at = "", .err = err };
	json_t *root = json_parse(text, len, false, err);
	int ret;

	*spec = (struct schedule_spec){
		.end_ms = SCHEDULE_NEVER, .missed_max = MISSED_LIMIT, .enabled = true,
	};
	if (!root)
		return -1;
	f.obj = root;
	ret = fields_only(&f, names) || read_calendar(&f, spec) || read_rest(&f, spec) ||
	      read_template(&f, q, spec) ? -1 : 0;
	json_decref(root);
	if (ret)
		schedule_free_spec(spec);
	return ret;
}

void schedule_free_spec(struct schedule_spec *spec)
{
	rule_free(spec->rule);
	zone_close(spec->zone);
	free(spec->task.body);
	spec->rule = NULL;
	spec->zone = NULL;
	spec->task.body = NULL;
}

json_t *schedule_patch(const char *text, size_t len, struct api_error *err)
{
	struct fields f = { .at = "", .err = err };
	json_t *root = json_parse(text, len, false, err);
	bool enabled;

	f.obj = root;
	if (root && field_bool(&f, "enabled", &enabled)) {
		json_decref(root);
		return NULL;
	}
	return root;
}

char *schedule_text(const char *text, size_t len, const json_t *patch)
{
	struct api_error err;
	json_t *root = json_parse(text, len, false, &err), *v;
	const char *name;
	char *out;

	if (!root)
		return NULL;
	json_object_foreach((json_t *)patch, name, v) {
		if (json_is_null(v))
			json_object_del(root, name);
		else
			json_object_set(root, name, v);
	}
	json_object_del(root, "enabled");
	out = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS |
			 JSON_REAL_PRECISION(real_digits(root)));
	json_decref(root);
	return out;
}

static uint64_t next_multiple(const struct schedule_spec *s, uint64_t after_ms)
{
	if (after_ms < s->start_ms)
		return s->start_ms;
	return s->start_ms + ((after_ms - s->start_ms) / s->every_ms + 1) * s->every_ms;
}

uint64_t schedule_next(const struct schedule_spec *s, uint64_t after_ms)
{
	uint64_t run;

	if (s->every_ms) {
		run = next_multiple(s, after_ms);
	} else {
		int64_t next;

		/* The start itself may be a run. */
		if (s->start_ms && after_ms < s->start_ms)
			after_ms = s->start_ms - 1;
		next = s->rule ? rule_next(s->rule, after_ms / 1000) :
			cron_next(&s->cron, s->zone, after_ms / 1000);
		run = next == CRON_NEVER ? SCHEDULE_NEVER : (uint64_t)next * 1000;
	}
	return run <= s->end_ms ? run : SCHEDULE_NEVER;
}

uint64_t schedule_follow(const struct schedule_spec *s, uint64_t run, uint64_t now_ms,
			 uint64_t *caught)
{
	uint64_t next = schedule_next(s, run);

	if (next > now_ms) {
		*caught = 0;
		return next;
	}
	if ((s->missed == MISSED_ALL || s->overlap == OVERLAP_QUEUE) && *caught < s->missed_max) {
		++*caught;
		return next;
	}
	*caught = 0;
	return schedule_next(s, now_ms);
}

uint64_t schedule_due(const struct schedule_spec *s, const char *name, uint64_t run)
{
	return s->jitter_ms ? run + mix64(fnv64(run, name)) % s->jitter_ms : run;
}

void schedule_run_id(char id[TASK_ID_MAX + 1], const char *name, uint64_t run)
{
	snprintf(id, TASK_ID_MAX + 1, "%.64s:%" PRIu64, name, run);
}
