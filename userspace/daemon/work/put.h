/* SPDX-License-Identifier: GPL-2.0 */
/* Stores tasks, in batches. */
#ifndef TWHEELD_WORK_PUT_H
#define TWHEELD_WORK_PUT_H

#include <stdint.h>

#include "text/spec.h"
#include "work/queue.h"

/**
 * struct put_result - what became of a put
 * @error: NULL, or the code of an error, whose status is @status
 * @status: HTTP status
 * @result: "created", "replaced", "updated", "kept"
 * @was: state of the task that was replaced or updated, if its attempt has begun; or NULL
 * @due_ms: due time
 * @version: of the task
 * @state: its state
 */
struct put_result {
	const char *error;
	int status;
	const char *result;
	const char *was;
	uint64_t due_ms;
	uint64_t version;
	enum task_state state;
};

/**
 * put_task() - store a task
 * @q: its queue
 * @spec: the task; its body is moved out of it
 * @fn: called later with the result
 * @arg: for @fn
 */
typedef void put_fn(void *arg, const struct put_result *result);
void put_task(struct queue *q, struct task_spec *spec, put_fn *fn, void *arg);

/**
 * put_flush_all() - send the puts of this turn
 */
void put_flush_all(void *daemon);

#endif /* TWHEELD_WORK_PUT_H */
