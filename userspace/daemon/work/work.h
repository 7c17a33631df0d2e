/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What all files of this room share.
 *
 * Ownership: a task that was taken is a struct held until its report was answered, or
 * until a worker has it. A report is a struct outcome until Redis has answered.
 *
 * Times with _ms are Redis's, Unix milliseconds. All others are the alarms', ns.
 */
#ifndef TWHEELD_WORK_WORK_H
#define TWHEELD_WORK_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uthash.h>
#include <utlist.h>

#include "config/config.h"
#include "ground/alarm.h"
#include "redis/clock.h"
#include "redis/slot.h"
#include "work/fair.h"
#include "work/metrics.h"

#define DAEMON_VERSION	"0.3.0"
#define MEMBER_LEN	17
#define QUEUES_MAX	1000
#define BATCH_MAX	128
#define BATCH_BYTES	(1U << 20)

struct api;
struct callbacks;
struct census;
struct next_runs;
struct held;
struct host;
struct lane;
struct loop;
struct queue;
struct recall;
struct schedule;
struct store;

/**
 * struct member - a running daemon
 */
struct member {
	char name[MEMBER_LEN];
};

/**
 * struct daemon - the state of this daemon
 * @config: the configuration
 * @alarms: the timers
 * @loop: the loop
 * @store: Redis
 * @clock: the clock of each node of Redis
 * @callbacks: requests of attempts
 * @api: the HTTP server
 * @metrics: counters
 * @holder: a random number, which changes with each start and when Redis changes
 * @name: of this daemon among the members: @holder of the start, in hex
 * @member: the other daemons
 * @members: number of the other daemons
 * @queues: by name
 * @lanes: number of lanes of all queues
 * @newer: number of queues that only a newer version can read, when all were read last
 * @removed: removed queues, until all that they began has ended
 * @census: of all queues, once somebody has asked
 * @schedules: by field
 * @next_runs: requests for the next runs of schedules, one after another
 * @heartbeat: expires each second
 * @curl: timeout of libcurl
 * @curl_now: libcurl wants to run in this turn
 * @held: number of tasks that were taken
 * @asked: number of tasks that takes on their way ask for
 * @starved: number of lanes that found no room
 * @held_bytes: size of the bodies of the tasks that were taken
 * @running: number of running requests, and of tasks offered to workers
 * @ready: tasks that wait for a free slot
 * @hosts: hosts of requests, and those that back off, by key
 * @failing: number of hosts that back off
 * @puts: lanes that have puts in this turn
 * @settles: queues whose workers may have tasks from this turn
 * @recalls: recalls without a verdict, by number
 * @recall_number: number of the last recall
 * @reports: number of reports without an answer
 * @beats: heartbeats so far
 * @refill: room became free in this turn
 * @freed: leases of queues with a limit have ended in this turn
 * @recover_after: earliest time of the next recover, because reports and renewals come first
 * @stop_timer: ends the stop at the latest
 * @stop_by: when @stop_timer expires
 * @connected: Redis was reached once
 * @whole: all nodes of Redis were reached once
 * @complained: it was logged that Redis is away
 * @refusing: nodes of Redis that refuse writes, a bit for each
 * @refusal: why one of them does
 * @check_only: --check was given
 * @leaving: SIGTERM has arrived, and load balancers have time to notice
 * @stopping: stop-delay has passed since then
 * @grace: the stop takes too long, so it only waits for reports
 * @exit_code: exit status of the process
 */
struct daemon {
	struct config config;
	struct alarms *alarms;
	struct loop *loop;
	struct store *store;
	struct clock clock[ROUTE_NODES_MAX];
	struct callbacks *callbacks;
	struct api *api;
	struct metrics metrics;
	uint64_t holder;
	char name[MEMBER_LEN];
	struct member *member;
	size_t members;
	struct queue *queues;
	unsigned int lanes;
	unsigned int newer;
	struct queue *removed;
	struct census *census;
	struct schedule *schedules;
	struct next_runs *next_runs;
	struct alarm heartbeat;
	struct alarm curl;
	bool curl_now;
	unsigned int held;
	unsigned int asked;
	unsigned int starved;
	uint64_t held_bytes;
	unsigned int running;
	struct fair ready;
	struct host *hosts;
	unsigned int failing;
	struct lane *puts;
	struct queue *settles;
	struct recall *recalls;
	uint64_t recall_number;
	unsigned int reports;
	uint64_t beats;
	bool refill;
	bool freed;
	uint64_t recover_after;
	struct alarm stop_timer;
	uint64_t stop_by;
	bool connected;
	bool whole;
	bool complained;
	uint64_t refusing;
	char refusal[256];
	bool check_only;
	bool leaving;
	bool stopping;
	bool grace;
	int exit_code;
};

/**
 * work_not_ready() - why requests cannot be served, or NULL
 */
const char *work_not_ready(const struct daemon *d);

/**
 * work_clock() - the clock of the node that has the members, or NULL if it is not known
 *
 * All daemons must judge members by one clock.
 */
const struct clock *work_clock(const struct daemon *d);

/**
 * work_now_ms() - Redis's time, or this machine's while that is not known
 */
uint64_t work_now_ms(const struct daemon *d);

/**
 * work_publish() - send a message
 * @channel: without the prefix
 */
void work_publish(struct daemon *d, const char *channel, const char *text);

#endif /* TWHEELD_WORK_WORK_H */
