/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The settings of a queue. No I/O.
 */
#ifndef TWHEELD_TEXT_SETTINGS_H
#define TWHEELD_TEXT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "text/body.h"
#include "text/json.h"

#define QUEUE_NAME_MAX	64
#define LANES_MAX	256
#define LANES_DEFAULT	4
#define WEIGHT_MAX	100
#define LIMIT_MAX	1000000
#define RATE_PER_MAX_MS	(24 * 3600 * 1000)

enum queue_mode {
	QUEUE_PUSH,
	QUEUE_PULL,
};

/**
 * struct rate - how many tasks may begin
 * @limit: in each period; 0: there is no limit
 * @per_ms: the period
 * @burst: at once, after a pause
 */
struct rate {
	uint64_t limit;
	uint64_t per_ms;
	uint64_t burst;
};

/**
 * struct queue_settings - what PUT /v1/queues/{q} sets
 * @mode: push or pull
 * @lanes: 1 to LANES_MAX
 * @ahead_ms: 0 to 5 s; QUEUE_AHEAD_DEFAULT: the daemon's for its mode
 * @timeout_ms: of an attempt, for tasks that name none
 * @retry: for tasks that name none, field by field
 * @lane_max: tasks in a lane; 0: the daemon's
 * @weight: its share beside other queues, 1 to WEIGHT_MAX
 * @rate: of all daemons together
 * @concurrency: tasks that are leased at once, by all daemons; 0: there is no limit
 */
struct queue_settings {
	enum queue_mode mode;
	unsigned int lanes;
	uint32_t ahead_ms;
	uint32_t timeout_ms;
	struct retry retry;
	uint64_t lane_max;
	uint64_t weight;
	struct rate rate;
	uint64_t concurrency;
};

#define QUEUE_AHEAD_DEFAULT	UINT32_MAX

/**
 * queue_settings_default() - the settings of a queue that names none
 * @s: the result
 */
void queue_settings_default(struct queue_settings *s);

/**
 * queue_settings_parse() - read the body of PUT /v1/queues/{q}
 * @text: the body; an empty one has no fields
 * @len: its length
 * @s: the settings so far; each field of the body replaces its own
 * @err: the error; @s is then as it was
 *
 * Fields: mode, lanes, ahead, timeout, retry, lane_max, weight, rate, concurrency. A null for
 * ahead or lane_max means the daemon's setting again, and a null for one of the last two removes
 * the limit.
 */
int queue_settings_parse(const char *text, size_t len, struct queue_settings *s,
			 struct api_error *err);

/**
 * queue_settings_load() - read what queue_settings_to_store() wrote
 * @text: the value in `tw:queues`
 * @len: its length
 * @s: the result; a field that is absent has its default
 *
 * Unknown fields are skipped, because a newer daemon may have written them. One that a daemon
 * must not ignore comes with a mode that older daemons do not know.
 *
 * Return: true, or false if it is not valid.
 */
bool queue_settings_load(const char *text, size_t len, struct queue_settings *s);

/**
 * queue_settings_to_json() - settings as answered
 */
json_t *queue_settings_to_json(const struct queue_settings *s);

/**
 * queue_settings_to_store() - settings as stored
 * @before: what is stored now, whose unknown fields stay; NULL: nothing
 */
json_t *queue_settings_to_store(const struct queue_settings *s, const char *before);

/**
 * queue_limited() - true if limits hold for all daemons together
 */
static inline bool queue_limited(const struct queue_settings *s)
{
	return s->rate.limit || s->concurrency;
}

#endif /* TWHEELD_TEXT_SETTINGS_H */
