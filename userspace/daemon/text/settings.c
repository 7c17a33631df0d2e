// SPDX-License-Identifier: GPL-2.0
/*
 * The settings of a queue: from a request, from Redis, and as an answer.
 */
#include <string.h>

#include "ground/units.h"
#include "text/field.h"
#include "text/settings.h"

#define LANE_MAX_MAX	1000000000

static const char *const modes[] = {
	[QUEUE_PUSH] = "push",
	[QUEUE_PULL] = "pull",
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

static int read_settings(const struct fields *f, struct queue_settings *s)
{
	uint64_t ahead = s->ahead_ms, timeout = s->timeout_ms, lanes = s->lanes, weight = s->weight;
	unsigned int mode = s->mode;
	struct queue_settings n = *s;

	if (field_choice(f, "mode", modes, ARRAY_SIZE(modes), &mode) ||
	    field_number(f, "lanes", 1, LANES_MAX, &lanes) ||
	    field_duration(f, "ahead", 0, 5 * MS_PER_SEC, &ahead) ||
	    field_duration(f, "timeout", 1, TIMEOUT_MAX_MS, &timeout) ||
	    field_retry(f, "retry", &n.retry) ||
	    field_number(f, "lane_max", 1, LANE_MAX_MAX, &n.lane_max) ||
	    field_number(f, "weight", 1, WEIGHT_MAX, &weight))
		return -1;
	n.mode = mode;
	n.lanes = (unsigned int)lanes;
	n.weight = (unsigned int)weight;
	n.ahead_ms = (uint32_t)ahead;
	n.timeout_ms = (uint32_t)timeout;
	*s = n;
	return 0;
}

int queue_settings_parse(const char *text, size_t len, struct queue_settings *s,
			 struct api_error *err)
{
	static const char *const names[] = {
		"mode", "lanes", "ahead", "timeout", "retry", "lane_max", "weight", NULL
	};
	struct fields f = { .at = "", .err = err };
	json_t *root = json_parse(text, len, true, err);
	int ret;

	if (!root)
		return -1;
	f.obj = root;
	ret = fields_only(&f, names) || read_settings(&f, s) ? -1 : 0;
	json_decref(root);
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

json_t *queue_settings_to_json(const struct queue_settings *s)
{
	json_t *root = json_pack("{s:s, s:I, s:I, s:o}", "mode", modes[s->mode],
				 "lanes", (json_int_t)s->lanes,
				 "timeout", (json_int_t)s->timeout_ms,
				 "retry", retry_to_json(&s->retry));

	if (root && s->ahead_ms != QUEUE_AHEAD_DEFAULT)
		json_object_set_new(root, "ahead", json_integer(s->ahead_ms));
	if (root && s->lane_max)
		json_object_set_new(root, "lane_max", json_integer((json_int_t)s->lane_max));
	if (root && s->weight != 1)
		json_object_set_new(root, "weight", json_integer(s->weight));
	return root;
}
