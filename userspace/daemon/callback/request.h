/* SPDX-License-Identifier: GPL-2.0 */
/* What a callback is made of. */
#ifndef TWHEELD_CALLBACK_REQUEST_H
#define TWHEELD_CALLBACK_REQUEST_H

#include <stdint.h>

#include "text/body.h"

/**
 * struct callback_request - one attempt
 * @queue: name of its queue
 * @id: id of its task
 * @version: of the task
 * @first_due_ms: due time before retries
 * @attempt: 1, 2, 3 ...
 * @missed: periods that were missed; 0: no header
 * @body: decoded body; must have a URL
 * @timeout_ms: total time; 0: that of the body
 * @now_ms: Unix time for webhook-timestamp
 * @user: for done()
 *
 * The block that @body points into must live until done() or callback_abort().
 * All else is copied.
 */
struct callback_request {
	const char *queue;
	const char *id;
	uint64_t version;
	uint64_t first_due_ms;
	unsigned int attempt;
	unsigned int missed;
	const struct task_body *body;
	uint64_t timeout_ms;
	uint64_t now_ms;
	void *user;
};

#endif /* TWHEELD_CALLBACK_REQUEST_H */
