/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What happens when. One thread, one loop, one epoll.
 *
 *   daemon.c    start, stop, heartbeat, members, messages
 *   queue.c     queues and their lanes, as `tw:queues` has them
 *   lane.c      alarms, take, recover, sweeps
 *   held.c      tasks that were taken: when they begin, and how they end
 *   report.c    ack and renew, in batches
 *   waiter.c    workers that wait for tasks
 *   put.c       put, in batches
 *   recall.c    cancel, move and replace of tasks that another daemon holds
 *   counts.c    what queues hold
 *   script.c    arguments and answers of the scripts
 *
 * Ownership: a task that was taken is a struct held until its report was answered, or
 * until a worker has it. A report is a struct outcome until Redis has answered.
 *
 * Times with _ms are Redis's, Unix milliseconds. All others are the wheel's, ns.
 */
#ifndef TWHEELD_WORK_WORK_H
#define TWHEELD_WORK_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include <uthash.h>
#include <utlist.h>

#include "callback/callback.h"
#include "config/config.h"
#include "ground/alarm.h"
#include "ground/loop.h"
#include "http/api.h"
#include "redis/clock.h"
#include "redis/store.h"
#include "text/json.h"
#include "text/pull.h"
#include "text/settings.h"
#include "text/spec.h"
#include "work/metrics.h"
#include "work/task.h"

#define DAEMON_VERSION	"0.3.0"
#define NEVER_MS	UINT64_MAX
#define MEMBER_LEN	17
#define QUEUES_MAX	1000
#define BATCH_MAX	128
#define BATCH_BYTES	(1U << 20)

struct daemon;
struct held;
struct lane;
struct put;
struct queue;
struct outcome;
struct waiter;

/* ---- Queues and lanes ---- */

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
 * @removed_at: when old tasks were removed last
 * @lease_end_ms: no lease ends before; NEVER_MS: there is none
 * @limit: how many tasks the last take asked for; 0: after a pause
 * @tasks: tasks are there
 * @taking: a take is on its way
 * @again: another take is wanted
 * @recovering: a recover is on its way
 * @starved: there was no room for a take
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
	uint64_t removed_at;
	uint64_t lease_end_ms;
	unsigned int limit;
	bool tasks;
	bool taking;
	bool again;
	bool recovering;
	bool starved;
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
 * struct queue - a queue
 * @daemon: whose
 * @name: its name
 * @settings: as stored
 * @listed: it was in the last answer of Redis to all queues
 * @lane: its lanes
 * @waiters: workers that wait, in order
 * @asked: of a pull queue: tasks that takes on their way ask for
 * @held: tasks that were taken from its lanes
 * @offered: those of them that a worker is being handed
 * @slow_until: it takes less until then, because its tasks waited too long for a host
 * @idle: those that are due, and that no worker waits for
 * @next_settle: in daemon.settles
 * @settles: it is in that list
 * @attempts: attempts that ended, by verdict, for metrics
 * @hh: in daemon.queues, by name
 */
struct queue {
	struct daemon *daemon;
	char name[QUEUE_NAME_MAX + 1];
	struct queue_settings settings;
	bool listed;
	struct lane *lane;
	struct waiter *waiters;
	unsigned int asked;
	unsigned int held;
	unsigned int offered;
	uint64_t slow_until;
	struct held *idle;
	struct queue *next_settle;
	bool settles;
	uint64_t attempts[VERDICTS];
	UT_hash_handle hh;
};

struct queue *queue_find(struct daemon *d, const char *name);

/**
 * queue_apply() - make a queue, or change it
 * @d: the daemon
 * @name: its name
 * @settings: the number of lanes is that of the first time
 *
 * Return: NULL without memory, or if there are QUEUES_MAX.
 */
struct queue *queue_apply(struct daemon *d, const char *name,
			  const struct queue_settings *settings);

/**
 * queue_load() - read one queue from Redis
 * @fn: called with the queue, or NULL and the result of the command
 */
typedef void queue_fn(void *arg, struct queue *q, enum store_result result);
void queue_load(struct daemon *d, const char *name, queue_fn *fn, void *arg);

/**
 * queue_load_all() - read all queues from Redis
 */
void queue_load_all(struct daemon *d);

/**
 * queue_ahead_ms() - how long before its due time a task is taken
 */
uint64_t queue_ahead_ms(const struct queue *q);

/**
 * queue_lane() - the lane of a task
 */
struct lane *queue_lane(struct queue *q, const char *id);

/**
 * queue_release() - give back all tasks of a queue that have not begun
 */
void queue_release(struct queue *q);

void queue_free_all(struct daemon *d);

/**
 * queue_rank_all() - find the ranks anew, after members came or went
 */
void queue_rank_all(struct daemon *d);

/**
 * lane_init() - prepare a lane
 *
 * Return: 0, or a negative errno.
 */
int lane_init(struct lane *l, struct queue *q, unsigned int index);
void lane_free(struct lane *l);

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

/**
 * lane_wake() - the lane may have a task that is due at @ms
 */
void lane_wake(struct lane *l, uint64_t ms);

/**
 * lane_look() - take now: after a start, a new rank, or a lost connection
 */
void lane_look(struct lane *l);

/**
 * lane_arm() - set the alarm for what is known
 */
void lane_arm(struct lane *l);

/**
 * lane_fed() - there may be room again for lanes of a queue that found none
 */
void lane_fed(struct queue *q);

/**
 * lane_fed_all() - there may be room again for lanes that found none
 */
void lane_fed_all(struct daemon *d);

/* ---- Tasks that were taken ---- */

enum held_state {
	/* It waits for its due time. */
	HELD_WAITS,
	/* It is due, and waits for a free slot. */
	HELD_READY,
	/* It is due, and its host is busy. */
	HELD_HOST,
	/* It is due, and no worker waits. */
	HELD_IDLE,
	/* The request runs. */
	HELD_RUNS,
	/* A worker is being handed it. */
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
 * @host: key of the host that it waits for
 * @since: when it began to wait for the host, or for a worker; 0: it does not
 * @hh: in the lane's table, by holder and token
 * @rprev: in daemon.ready, the host's list or queue.idle
 * @rnext: in daemon.ready, the host's list or queue.idle
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
	uint64_t since;
	UT_hash_handle hh;
	struct held *rprev;
	struct held *rnext;
	char id[];
};

/**
 * struct taken - a task in an answer to take
 */
struct taken {
	const char *id;
	size_t id_len;
	uint64_t token;
	unsigned int attempt;
	unsigned int missed;
	uint64_t due_ms;
	uint64_t first_due_ms;
	uint64_t version;
	const char *body;
	size_t body_len;
};

/**
 * held_add() - hold a task that was taken
 * @l: its lane
 * @t: the task; copied
 * @holder: holder number that the take was sent with
 * @lease_ms: length of the lease that the take asked for
 * @now_ms: time of the take, on Redis's clock. The answer may be read much later
 */
void held_add(struct lane *l, const struct taken *t, uint64_t holder, uint64_t lease_ms,
	      uint64_t now_ms);

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
 * held_release() - give a task back without an attempt, and free it
 * @h: a task that no request runs for
 * @delay_ms: when it is due again, from now; RELEASE_DUE: at its due time
 */
#define RELEASE_DUE	UINT64_MAX
void held_release(struct held *h, uint64_t delay_ms);

/**
 * held_free() - forget a task
 */
void held_free(struct held *h);

/**
 * held_release_lane() - give back all tasks of a lane that have not begun
 */
void held_release_lane(struct lane *l);

/**
 * held_rearm_all() - a clock was set
 */
void held_rearm_all(struct daemon *d);

/**
 * held_room() - how many more tasks can be taken
 * @due: tasks that are due already
 */
unsigned int held_room(const struct daemon *d, bool due);

/**
 * held_offer_idle() - a worker waits: offer it what is due
 */
void held_offer_idle(struct queue *q);

/**
 * held_abort_all() - end all requests, and release their tasks: at the end of the stop
 */
void held_abort_all(struct daemon *d);

int held_start(struct daemon *d);

/**
 * held_run() - let libcurl send what was begun in this turn, without a tick's delay
 */
void held_run(void *daemon);
void held_stop(struct daemon *d);

/* ---- Reports ---- */

enum report_answer {
	REPORT_APPLIED,
	REPORT_STALE,
	REPORT_DEAD,
	/* Not sent. */
	REPORT_DOWN,
	/* Perhaps sent. */
	REPORT_UNKNOWN,
};

/**
 * struct outcome - the end of an attempt, on its way to Redis
 * @lane: of its task
 * @holder: of its take
 * @token: of its take
 * @verdict: ok, retry, dead, release
 * @delay_ms: until the next attempt, or RELEASE_DUE
 * @at_ms: for release: absolute due time instead of a delay; 0: none
 * @done: called with the answer and the report, which is freed afterwards; or NULL
 * @arg: for @done
 * @persist: send it again until there is an answer
 * @confirm: a client is told of it, so it must outlive the master
 * @repeated: it was sent before
 * @next: in a list
 * @prev: in a list
 * @note: the last error; empty: none
 * @id: of the task
 */
struct outcome {
	struct lane *lane;
	uint64_t holder;
	uint64_t token;
	enum verdict verdict;
	uint64_t delay_ms;
	uint64_t at_ms;
	void (*done)(void *arg, enum report_answer answer);
	void *arg;
	bool persist;
	bool confirm;
	bool repeated;
	struct outcome *next;
	struct outcome *prev;
	char note[TASK_NOTE_MAX + 1];
	char id[TASK_ID_MAX + 1];
};

/**
 * report_send() - report the end of an attempt
 * @l: the lane
 * @r: copied
 */
void report_send(struct lane *l, const struct outcome *r);

/**
 * report_flush() - send what waits for company
 */
void report_flush(struct lane *l);

/**
 * report_flush_all() - send all of them: Redis is back, or the daemon stops
 */
void report_flush_all(struct daemon *d);

/**
 * report_free_all() - forget reports that cannot be sent any more
 */
void report_free_all(struct lane *l);

/**
 * report_renew() - renew the leases of attempts that run
 */
void report_renew(struct lane *l);

/* ---- Workers that wait ---- */

/**
 * waiter_add() - a worker waits
 * @q: a pull queue
 * @r: the request, which is answered here
 * @want: what it asks for
 */
void waiter_add(struct queue *q, struct request *r, const struct reserve *want);

/**
 * waiter_room() - how many tasks the workers of a queue wait for
 * @q: the queue
 * @early: for tasks that are not due yet: those that are held already count as well
 * @lease_ms: out: the lease that the first of them wants
 */
unsigned int waiter_room(const struct queue *q, bool early, uint64_t *lease_ms);

/**
 * waiter_hurries() - whether a worker that does not want to wait has no task yet
 */
bool waiter_hurries(const struct queue *q);

/**
 * waiter_offer() - hand a task that is due to a worker
 *
 * Return: false if nobody waits.
 */
bool waiter_offer(struct queue *q, struct held *h);

/**
 * waiter_settle() - answer workers that have tasks: after the tasks of a take
 */
void waiter_settle(struct queue *q);

/**
 * waiter_settle_later() - do so at the end of the turn, after all that is due in it
 */
void waiter_settle_later(struct queue *q);
void waiter_settle_all(void *daemon);

/**
 * waiter_end_all() - answer all workers: at the beginning of the stop
 */
void waiter_end_all(struct daemon *d);

/* ---- Put ---- */

/**
 * struct put_result - what became of a put
 * @error: NULL, or the code of an error, whose status is @status
 * @status: HTTP status
 * @result: "created", "replaced", "kept"
 * @was: state of the task that was replaced, if its attempt has begun; or NULL
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

/* ---- Recall ---- */

enum recall_verb {
	RECALL_CANCEL,
	RECALL_MOVE,
	RECALL_RUN,
	RECALL_DROP,
};

enum recall_verdict {
	/* No attempt will begin. */
	RECALL_YES,
	/* An attempt runs. */
	RECALL_RUNS,
	/* Nobody answered in time. */
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

/* ---- The daemon ---- */

/**
 * struct member - a daemon that lives
 */
struct member {
	char name[MEMBER_LEN];
};

/**
 * struct daemon - all of it
 * @config: what the user wants
 * @alarms: the timers
 * @loop: the loop
 * @store: Redis
 * @clock: the clock of each node of Redis
 * @callbacks: requests of attempts
 * @api: the HTTP server
 * @metrics: counters
 * @holder: random for each start, and for each other Redis
 * @name: of this daemon among the members: @holder of the start, in hex
 * @member: the others
 * @members: how many
 * @queues: by name
 * @heartbeat: each second
 * @curl: timeout of libcurl
 * @curl_now: it wants to run in this turn
 * @held: tasks that were taken
 * @asked: tasks that takes on their way ask for
 * @starved: lanes that found no room
 * @held_bytes: their bodies
 * @running: requests that run, and tasks offered to workers
 * @ready: tasks that wait for a free slot
 * @nr_ready: how many
 * @hosts: busy hosts, by key
 * @busy_hosts: tasks that wait for one
 * @puts: lanes that have puts in this turn
 * @settles: queues whose workers may have tasks from this turn
 * @recalls: recalls without a verdict, by number
 * @recall_number: of the last one
 * @reports: reports without an answer
 * @beats: heartbeats so far
 * @calm_until: no recover before: reports and renewals come first
 * @stop_timer: the end of the stop, in any case
 * @stop_by: when that is
 * @connected: Redis was reached once
 * @whole: all its nodes were
 * @complained: that Redis is away was logged
 * @check_only: of --check
 * @stopping: SIGTERM came
 * @last_words: the stop took too long: only reports are waited for
 * @exit_code: of the process
 */
struct daemon {
	struct config config;
	struct alarms *alarms;
	struct loop *loop;
	struct store *store;
	struct clock clock[STORE_NODES];
	struct callbacks *callbacks;
	struct api *api;
	struct metrics metrics;
	uint64_t holder;
	char name[MEMBER_LEN];
	struct member *member;
	size_t members;
	struct queue *queues;
	struct alarm heartbeat;
	struct alarm curl;
	bool curl_now;
	unsigned int held;
	unsigned int asked;
	unsigned int starved;
	uint64_t held_bytes;
	unsigned int running;
	struct held *ready;
	unsigned int nr_ready;
	struct host *hosts;
	unsigned int busy_hosts;
	struct lane *puts;
	struct queue *settles;
	struct recall *recalls;
	uint64_t recall_number;
	unsigned int reports;
	uint64_t beats;
	uint64_t calm_until;
	struct alarm stop_timer;
	uint64_t stop_by;
	bool connected;
	bool whole;
	bool complained;
	bool check_only;
	bool stopping;
	bool last_words;
	int exit_code;
};

/**
 * daemon_run() - serve until a signal
 * @d: with its configuration, else zero
 *
 * Return: status of the exit.
 */
int daemon_run(struct daemon *d);

/**
 * daemon_check() - connect to Redis, and say whether it will do
 *
 * Return: status of the exit.
 */
int daemon_check(struct daemon *d);

/**
 * daemon_not_ready() - why requests cannot be served, or NULL
 */
const char *daemon_not_ready(const struct daemon *d);

/**
 * daemon_clock() - the clock of the node that has the members, or NULL if it is not known
 *
 * All daemons must judge members by one clock.
 */
const struct clock *daemon_clock(const struct daemon *d);

/**
 * daemon_now_ms() - Redis's time, or this machine's while that is not known
 */
uint64_t daemon_now_ms(const struct daemon *d);

/**
 * daemon_publish() - send a message
 * @channel: without the prefix
 */
void daemon_publish(struct daemon *d, const char *channel, const char *text);

#endif /* TWHEELD_WORK_WORK_H */
