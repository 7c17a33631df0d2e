/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A run of a task, and its key. No I/O.
 */
#ifndef TWHEELD_TEXT_RUN_H
#define TWHEELD_TEXT_RUN_H

#include <stdint.h>

/* With its NUL: a name, an id, and two numbers. */
#define RUN_KEY_LEN	240

/**
 * struct run - one run of a task
 * @queue: its queue
 * @id: of the task
 * @version: of the task
 * @first_due_ms: due time before retries
 * @attempt: 1, 2, 3 ...
 */
struct run {
	const char *queue;
	const char *id;
	uint64_t version;
	uint64_t first_due_ms;
	unsigned int attempt;
};

/**
 * run_key() - the key of a run, equal for all its attempts
 *
 * Return: @buf.
 */
const char *run_key(char buf[RUN_KEY_LEN], const struct run *run);

#endif /* TWHEELD_TEXT_RUN_H */
