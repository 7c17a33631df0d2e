/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queues and their lanes: what they hold, and questions about it.
 */
#ifndef TWHEELD_WORK_QUEUE_H
#define TWHEELD_WORK_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "ground/alarm.h"
#include "redis/clock.h"
#include "redis/script.h"
#include "text/settings.h"
#include "work/work.h"

struct held;
struct lane;
struct outcome;
struct put;
struct waiter;

/**
 * struct lane - a part of a queue
 * @queue: its queue
 * @index: its number
 * @node: of Redis, that has it; or STORE_NO_NODE
 * @rank: of this daemon in it
 * @next_ms: its first task is not due before; NEVER_MS: it has none
 * @woken_ms: the earliest message since the take on its way was sent. The answer may be
 *	older than the message
 * @took_at: when the last take was sent
 * @backoff: how long it backed off after the last take, in ns; 0 if that did not fail
 * @removed_at: when old tasks were removed last
 * @old_ms: no done or dead task is to be removed before; NEVER_MS: there is none
 * @lease_end_ms: no lease ends before; NEVER_MS: there is none
 * @limit: how many tasks the last take asked for; 0: after a pause
 * @tasks: tasks are there
 * @settled: what is done or dead has not changed since old_ms was told
 * @taking: a take is on its way
 * @again: another take is wanted
 * @recovering: a recover is on its way
 * @starved: there was no room for a take
 * @limited: what kept back tasks that are due, in the last take
 * @limited_until: it takes none before
 * @take_lease: lease that the take on its way asked for, ms
 * @take_holder: holder number that it was sent with
 * @take: for the next take
 * @recover: for the next recover
 * @sweep: for the next take without an alarm
 * @flush: for the reports that wait for company
 * @renew: for the leases of attempts that run
 * @reports: reports that wait
 * @nr_reports: how many
 * @puts: puts of this turn
 * @held: tasks that were taken from it
 * @next_put: in the list of lanes with puts
 * @has_puts: it is in that list
 */
struct lane {
	struct queue *queue;
	unsigned int index;
	unsigned int node;
	unsigned int rank;
	uint64_t next_ms;
	uint64_t woken_ms;
	uint64_t took_at;
	uint64_t backoff;
	uint64_t removed_at;
	uint64_t old_ms;
	uint64_t lease_end_ms;
	unsigned int limit;
	bool tasks;
	bool settled;
	bool taking;
	bool again;
	bool recovering;
	bool starved;
	enum limited limited;
	uint64_t limited_until;
	uint64_t take_lease;
	uint64_t take_holder;
	struct alarm take;
	struct alarm recover;
	struct alarm sweep;
	struct alarm flush;
	struct alarm renew;
	struct outcome *reports;
	unsigned int nr_reports;
	struct put *puts;
	struct held *held;
	struct lane *next_put;
	bool has_puts;
};

/**
 * struct counted - what was counted of a queue
 * @counts: the sum of its lanes
 * @left: lanes that have not answered yet
 * @missing: those that could not be counted
 * @result: why not
 * @known: it was counted
 */
struct counted {
	struct counts counts;
	unsigned int left;
	unsigned int missing;
	enum store_result result;
	bool known;
};

/**
 * struct queue - a queue
 * @daemon: whose
 * @name: its name
 * @settings: as stored
 * @stored: the settings as Redis had them last, with fields that only a newer version knows
 * @shown: the settings as JSON, once somebody wanted them; NULL: they have changed
 * @removed: it is not in daemon.queues any more; nothing of it begins
 * @removed_in: period of commands in which something used it last
 * @requests: of clients, that use it
 * @next_removed: in daemon.removed
 * @listed: it was in the last answer of Redis to all queues
 * @lane: its lanes
 * @waiters: workers that wait, in order
 * @asked: of a pull queue: tasks that takes on their way ask for
 * @held: tasks that were taken from its lanes
 * @offered: those of them that a worker is being handed
 * @running: requests that run for its tasks
 * @freed: leases of it have ended in this turn
 * @idle: those that are due, and that no worker waits for
 * @next_settle: in daemon.settles
 * @settles: it is in that list
 * @counted: what the last census has found
 * @counting: what the one that runs has found so far
 * @recount: a user has changed it since
 * @attempts: attempts that ended, by verdict, for metrics
 * @hh: in daemon.queues, by name
 */
struct queue {
	struct daemon *daemon;
	char name[QUEUE_NAME_MAX + 1];
	struct queue_settings settings;
	char *stored;
	char *shown;
	bool removed;
	uint64_t removed_in;
	unsigned int requests;
	struct queue *next_removed;
	bool listed;
	struct lane *lane;
	struct waiter *waiters;
	unsigned int asked;
	unsigned int held;
	unsigned int offered;
	unsigned int running;
	bool freed;
	struct held *idle;
	struct queue *next_settle;
	bool settles;
	struct counted counted;
	struct counted counting;
	bool recount;
	uint64_t attempts[VERDICTS];
	UT_hash_handle hh;
};

/**
 * queue_find() - the queue of a name, or NULL
 */
struct queue *queue_find(struct daemon *d, const char *name);

/**
 * queue_ahead_ms() - how long before its due time a task is taken
 */
uint64_t queue_ahead_ms(const struct queue *q);

/**
 * queue_lane() - the lane of a task
 */
struct lane *queue_lane(struct queue *q, const char *id);

/**
 * lane_up() - whether scripts of the lane can be sent
 */
bool lane_up(const struct lane *l);

/**
 * lane_clock() - the clock of the node that has the lane
 */
const struct clock *lane_clock(const struct lane *l);

/**
 * lane_now_ms() - time of that node
 */
uint64_t lane_now_ms(const struct lane *l);

#endif /* TWHEELD_WORK_QUEUE_H */
