// SPDX-License-Identifier: GPL-2.0
/*
 * The settings of a queue: from a request, from Redis, and as an answer.
 */
#include <string.h>

#include "ground/units.h"
#include "text/field.h"
#include "text/settings.h"

#define LANE_MAX_MAX	1000000000
#define MODES		2

static const char *const modes[] = {
	[QUEUE_PUSH] = "push",
	[QUEUE_PULL] = "pull",
};

static const char *const names[] = {
	"mode", "lanes", "ahead", "timeout", "retry", "lane_max", "weight", "rate", "concurrency",
	NULL
};

/*
 * The modes as they are stored. A daemon that does not know limits must not serve a queue that has
 * some. It finds a mode that it does not know, and therefore leaves the queue alone.
 */
static const char *const stored_modes[] = {
	[QUEUE_PUSH] = "push",
	[QUEUE_PULL] = "pull",
	[QUEUE_PUSH + MODES] = "push-limited",
	[QUEUE_PULL + MODES] = "pull-limited",
};

void queue_settings_default(struct queue_settings *s)
{
	*s = (struct queue_settings){
		.mode = QUEUE_PUSH,
		.lanes = LANES_DEFAULT,
		.ahead_ms = QUEUE_AHEAD_DEFAULT,
		.timeout_ms = TIMEOUT_DEFAULT_MS,
		.weight = 1,
		.retry = {
			.limit = 10,
			.base_ms = MS_PER_SEC,
			.cap_ms = MS_PER_HOUR,
			.jitter = 200,
		},
	};
}

/* Removes a field that is null. Returns true if it was. */
static bool take_null(json_t *obj, const char *name)
{
	return json_is_null(json_object_get(obj, name)) && !json_object_del(obj, name);
}

/* Null stands for the default where that has no value of its own. */
static void reset_nulls(json_t *obj, struct queue_settings *s)
{
	if (take_null(obj, "ahead"))
		s->ahead_ms = QUEUE_AHEAD_DEFAULT;
	if (take_null(obj, "lane_max"))
		s->lane_max = 0;
	if (take_null(obj, "rate"))
		s->rate = (struct rate){ 0 };
	if (take_null(obj, "concurrency"))
		s->concurrency = 0;
}

static int read_rate(const struct fields *f, struct rate *rate)
{
	static const char *const parts[] = { "limit", "per", "burst", NULL };
	struct fields sub = { .obj = NULL };
	struct rate r = { .per_ms = MS_PER_SEC };

	if (field_object(f, "rate", &sub))
		return -1;
	if (!sub.obj)
		return 0;
	sub.at = "rate.";
	if (fields_only(&sub, parts) || field_number(&sub, "limit", 1, LIMIT_MAX, &r.limit) ||
	    field_duration(&sub, "per", 1, RATE_PER_MAX_MS, &r.per_ms))
		return -1;
	if (!r.limit)
		return field_error(&sub, INVALID, "limit", "is missing");
	r.burst = r.limit;
	if (field_number(&sub, "burst", 1, LIMIT_MAX, &r.burst))
		return -1;
	*rate = r;
	return 0;
}

static int read_settings(const struct fields *f, struct queue_settings *s)
{
	uint64_t ahead = s->ahead_ms, timeout = s->timeout_ms, lanes = s->lanes;
	unsigned int mode = s->mode;
	struct queue_settings n = *s;

	if (field_choice(f, "mode", f->stored ? stored_modes : modes,
			 f->stored ? ARRAY_SIZE(stored_modes) : ARRAY_SIZE(modes), &mode) ||
	    field_number(f, "lanes", 1, LANES_MAX, &lanes) ||
	    field_duration(f, "ahead", 0, 5 * MS_PER_SEC, &ahead) ||
	    field_duration(f, "timeout", 1, TIMEOUT_MAX_MS, &timeout) ||
	    field_retry(f, "retry", &n.retry) ||
	    field_number(f, "lane_max", 1, LANE_MAX_MAX, &n.lane_max) ||
	    field_number(f, "weight", 1, WEIGHT_MAX, &n.weight) || read_rate(f, &n.rate) ||
	    field_number(f, "concurrency", 1, LIMIT_MAX, &n.concurrency))
		return -1;
	n.mode = mode % MODES;
	n.lanes = (unsigned int)lanes;
	n.ahead_ms = (uint32_t)ahead;
	n.timeout_ms = (uint32_t)timeout;
	*s = n;
	return 0;
}

int queue_settings_parse(const char *text, size_t len, struct queue_settings *s,
			 struct api_error *err)
{
	struct fields f = { .at = "", .err = err };
	json_t *root = json_parse(text, len, true, err);
	struct queue_settings n = *s;
	int ret;

	if (!root)
		return -1;
	f.obj = root;
	reset_nulls(root, &n);
	ret = fields_only(&f, names) || read_settings(&f, &n) ? -1 : 0;
	json_decref(root);
	if (!ret)
		*s = n;
	return ret;
}

bool queue_settings_load(const char *text, size_t len, struct queue_settings *s)
{
	struct api_error err;
	struct fields f = { .at = "", .err = &err, .stored = true };
	json_t *root = json_parse(text, len, false, &err);
	bool ok;

	if (!root)
		return false;
	f.obj = root;
	queue_settings_default(s);
	ok = !read_settings(&f, s);
	json_decref(root);
	return ok;
}

static json_t *rate_to_json(const struct rate *r)
{
	return json_pack("{s:I,s:I,s:I}", "limit", (json_int_t)r->limit,
			 "per", (json_int_t)r->per_ms, "burst", (json_int_t)r->burst);
}

static json_t *to_json(const struct queue_settings *s, const char *mode)
{
	json_t *root = json_pack("{s:s, s:I, s:I, s:o}", "mode", mode,
				 "lanes", (json_int_t)s->lanes,
				 "timeout", (json_int_t)s->timeout_ms,
				 "retry", retry_to_json(&s->retry));

	if (root && s->ahead_ms != QUEUE_AHEAD_DEFAULT)
		json_object_set_new(root, "ahead", json_integer(s->ahead_ms));
	if (root && s->lane_max)
		json_object_set_new(root, "lane_max", json_integer((json_int_t)s->lane_max));
	if (root && s->weight != 1)
		json_object_set_new(root, "weight", json_integer((json_int_t)s->weight));
	if (root && s->rate.limit)
		json_object_set_new(root, "rate", rate_to_json(&s->rate));
	if (root && s->concurrency)
		json_object_set_new(root, "concurrency", json_integer((json_int_t)s->concurrency));
	return root;
}

json_t *queue_settings_to_json(const struct queue_settings *s)
{
	return to_json(s, modes[s->mode]);
}

json_t *queue_settings_to_store(const struct queue_settings *s, const char *before)
{
	json_t *root = to_json(s, stored_modes[s->mode + (queue_limited(s) ? MODES : 0)]);
	json_t *old = before ? json_loads(before, 0, NULL) : NULL;

	for (const char *const *name = names; old && *name; name++)
		json_object_del(old, *name);
	if (root && old)
		json_object_update_missing(root, old);
	json_decref(old);
	return root;
}
