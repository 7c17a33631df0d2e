/* SPDX-License-Identifier: GPL-2.0 */
/* Recall: cancels, moves and replaces tasks that a daemon holds. */
#ifndef TWHEELD_WORK_RECALL_H
#define TWHEELD_WORK_RECALL_H

#include <stddef.h>
#include <stdint.h>

#include "work/queue.h"

enum recall_verb {
	RECALL_CANCEL,
	RECALL_MOVE,
	RECALL_RUN,
	RECALL_DROP,
};

enum recall_verdict {
	/* No attempt will begin. */
	RECALL_YES,
	/* An attempt is running. */
	RECALL_RUNS,
	/* There was no answer in time. */
	RECALL_SILENT,
	RECALL_VERDICTS,
};

typedef void recall_fn(void *arg, enum recall_verdict verdict);

/**
 * recall_ask() - call a task back from its holder
 * @l: its lane
 * @id: its id
 * @holder: who holds it
 * @token: of its take
 * @verb: why
 * @time_ms: for a move: the new time
 * @fn: called later, once
 * @arg: for @fn
 */
void recall_ask(struct lane *l, const char *id, uint64_t holder, uint64_t token,
		enum recall_verb verb, uint64_t time_ms, recall_fn *fn, void *arg);

/**
 * recall_message() - a message on `tw:recall`
 */
void recall_message(struct daemon *d, const char *text, size_t len);

/**
 * recall_verdict() - a message on `tw:verdict`
 */
void recall_verdict(struct daemon *d, const char *text, size_t len);

#endif /* TWHEELD_WORK_RECALL_H */
