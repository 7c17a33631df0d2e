/* SPDX-License-Identifier: GPL-2.0 */
/* Tasks that this daemon has taken, until they are reported. */
#ifndef TWHEELD_WORK_HELD_H
#define TWHEELD_WORK_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "ground/alarm.h"
#include "text/body.h"
#include "work/queue.h"

struct callback;

enum held_state {
	/* The task waits for its due time. */
	HELD_WAITS,
	/* The task is due, and waits for a free slot. */
	HELD_READY,
	/* The task is due, and its host is busy. */
	HELD_HOST,
	/* The task is due, and no worker waits. */
	HELD_IDLE,
	/* The request of the task is running. */
	HELD_RUNS,
	/* The task is being given to a worker. */
	HELD_OFFERED,
};

/**
 * struct held - a task that was taken
 * @lane: its lane
 * @state: what it waits for
 * @due: timer until its due time
 * @due_ms: its due time
 * @first_due_ms: due time before retries
 * @lease_end_ms: end of its lease
 * @lease_ms: length of its lease
 * @key: holder number and token of its take
 * @version: of the task
 * @attempt: 1, 2, 3 ...
 * @missed: periods that were missed
 * @last: no further attempt: it was canceled while it ran
 * @body: decoded; points into @data
 * @data: the body as stored
 * @data_len: its length
 * @callback: the request that runs
 * @host: the host that it waits for, or that its request runs for
 * @address: that its request went to
 * @probe: its request probes the host
 * @probes_address: its request probes the address
 * @backoff_ms: how long its address backs off
 * @started: when its request began
 * @since: when it began to wait for the host, or for a worker; 0: it does not
 * @hh: in the lane's table, by holder and token
 * @turn: in daemon.ready, or where it waits for its host
 * @rprev: in queue.idle
 * @rnext: in queue.idle
 * @id: of the task
 */
struct held {
	struct lane *lane;
	enum held_state state;
	struct alarm due;
	uint64_t due_ms;
	uint64_t first_due_ms;
	uint64_t lease_end_ms;
	uint64_t lease_ms;
	struct lease_key {
		uint64_t holder;
		uint64_t token;
	} key;
	uint64_t version;
	unsigned int attempt;
	unsigned int missed;
	bool last;
	struct task_body body;
	uint8_t *data;
	size_t data_len;
	struct callback *callback;
	struct host *host;
	struct host *address;
	bool probe;
	bool probes_address;
	uint64_t backoff_ms;
	uint64_t started;
	uint64_t since;
	UT_hash_handle hh;
	struct turn turn;
	struct held *rprev;
	struct held *rnext;
	char id[];
};

/**
 * held_find() - the task of a take
 */
struct held *held_find(struct lane *l, uint64_t holder, uint64_t token);

/**
 * held_withdraw() - keep a task from beginning
 * @h: the task
 *
 * Return: true if no attempt will begin; it is to be reported or freed.
 */
bool held_withdraw(struct held *h);

/**
 * held_report() - report the end of an attempt
 */
void held_report(struct held *h, enum verdict v, uint64_t delay_ms, const char *note);

/**
 * held_report_answer() - the same, with the status of an answer; 0: there was none
 */
void held_report_answer(struct held *h, enum verdict v, uint64_t delay_ms, const char *note,
			int status);

/**
 * held_release() - give a task back without using up an attempt, and free it
 * @h: a task that no request runs for
 * @delay_ms: when it is due again, from now; RELEASE_DUE: at its due time
 */
void held_release(struct held *h, uint64_t delay_ms);

/**
 * held_bury() - report that a task is dead, and free it
 */
void held_bury(struct held *h, const char *note);

/**
 * held_free() - forget a task
 */
void held_free(struct held *h);

/**
 * held_unlist() - take a task out of the list that it waits in
 */
void held_unlist(struct held *h);

/**
 * held_release_lane() - give back all tasks of a lane that have not begun
 */
void held_release_lane(struct lane *l);

/**
 * held_each() - call @fn for each task that is held; it may free the task
 */
void held_each(struct daemon *d, void (*fn)(struct held *h));

/**
 * held_drop_address() - the request of a task goes to this address no longer
 */
void held_drop_address(struct held *h);

/**
 * held_room() - how many more tasks of a queue can be taken
 * @due: callbacks that are due already
 */
unsigned int held_room(const struct queue *q, bool due);

/**
 * held_may_start() - whether a request may begin for a queue
 */
bool held_may_start(const struct queue *q);

#endif /* TWHEELD_WORK_HELD_H */
