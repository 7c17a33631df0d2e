/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The body of POST /v1/queues/{q}/purge. No I/O.
 */
#ifndef TWHEELD_TEXT_PURGE_H
#define TWHEELD_TEXT_PURGE_H

#include "text/spec.h"

/**
 * struct purge - which tasks are removed
 * @state: scheduled, done or dead
 * @before_ms: those that are due, done or dead before; UINT64_MAX: any
 * @prefix: those whose id begins with it
 */
struct purge {
	enum task_state state;
	uint64_t before_ms;
	char prefix[TASK_ID_MAX + 1];
};

/**
 * purge_parse() - read it
 */
int purge_parse(const char *text, size_t len, struct purge *p, struct api_error *err);

#endif /* TWHEELD_TEXT_PURGE_H */
