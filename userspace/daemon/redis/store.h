/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Redis. Only this room speaks to it.
 *
 * Commands are written at the end of a turn of the loop, all of one turn together.
 * Answers come in the order of the commands. Each command has a deadline, which is put off
 * when the command before it is answered. When one passes, its connection is ended, and all
 * its commands fail.
 *
 * A single Redis is one node. A cluster has several, and only those with slots count.
 * A node has two connections:
 *
 *   scripts   scripts and plain commands
 *   puts      with wait-replicas: what must outlive the master, and one WAIT after those
 *             commands of a turn. WAIT counts only the writes of its own connection, and
 *             blocks it
 *
 * Another connection has SUBSCRIBE only. In a cluster one node is enough for it: each
 * node passes each message on to all others.
 *
 * A command that a node of a cluster refused, because a slot has moved or moves, is sent
 * again for five seconds. No other command is sent twice.
 *
 * The function of a command is called exactly once, from the loop, and never from the
 * function that sent the command.
 */
#ifndef TWHEELD_REDIS_STORE_H
#define TWHEELD_REDIS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "ground/alarm.h"
#include "ground/loop.h"
#include "redis/command.h"
#include "redis/events.h"
#include "redis/route.h"
#include "redis/source.h"

/* Nodes have numbers below this. */
#define STORE_NODES	ROUTE_NODES_MAX
#define STORE_NO_NODE	ROUTE_NONE

struct store;
struct tls;

/**
 * store_new() - prepare, and begin to connect
 * @loop: the loop
 * @alarms: for deadlines
 * @config: where Redis is, and how it is used; must live as long as the store
 * @events: copied
 * @channels: names of the channels, without the prefix; NULL ends them
 * @why: out: with NULL, why not
 */
struct store *store_new(struct loop *loop, struct alarms *alarms, const struct config *config,
			const struct store_events *events, const char *const *channels,
			const char **why);

/**
 * store_trust() - let new connections use other files of TLS
 * @tls: what replaces those that are used; the store frees it
 */
void store_trust(struct store *s, struct tls *tls);

/**
 * store_close() - close all connections; all commands fail, now
 */
void store_close(struct store *s);

/**
 * store_free() - free the store; no function is called
 */
void store_free(struct store *s);

/**
 * store_up() - whether scripts can be sent, to one node at least
 */
bool store_up(const struct store *s);

/**
 * store_whole() - whether scripts can be sent for all lanes
 */
bool store_whole(const struct store *s);

/**
 * store_lane_node() - the node of a lane, or STORE_NO_NODE
 */
unsigned int store_lane_node(const struct store *s, const char *queue, unsigned int lane);

/**
 * store_key_node() - the node of a key with its prefix, or STORE_NO_NODE
 */
unsigned int store_key_node(const struct store *s, const char *key);

/**
 * store_node_ready() - whether scripts can be sent to a node
 */
bool store_node_ready(const struct store *s, unsigned int node);

/**
 * store_why() - why the store is not up, or NULL
 */
const char *store_why(const struct store *s);

/**
 * store_text() - why a node was not up last
 */
const char *store_text(const struct store *s);

/**
 * store_refusal() - why a node refused a command last, in Redis's words
 */
const char *store_refusal(const struct store *s, unsigned int node);

/**
 * store_unfit() - whether Redis was reached and refused: it evicts, or is a replica
 */
bool store_unfit(const struct store *s);

/**
 * store_script() - run a script on a lane
 * @s: the store
 * @script: which
 * @queue: name of the queue
 * @lane: number of the lane
 * @a: its ARGV; freed here
 * @fn: called with the answer, whose first element is Redis's time
 * @arg: for @fn
 */
void store_script(struct store *s, enum store_script script, const char *queue,
		  unsigned int lane, struct args *a, store_fn *fn, void *arg);

/**
 * store_script_on_key() - run a script on one key, which is no lane's
 * @key: the key, with its prefix
 */
void store_script_on_key(struct store *s, enum store_script script, const char *key,
			 struct args *a, store_fn *fn, void *arg);

/**
 * store_command() - run a plain command
 * @s: the store
 * @key: its key, or NULL: any node will do
 * @a: the command and its arguments; freed here
 * @fn: called with the answer, or NULL
 * @arg: for @fn
 */
void store_command(struct store *s, const char *key, struct args *a, store_fn *fn, void *arg);

/**
 * store_command_on() - run a plain command on a node
 */
void store_command_on(struct store *s, unsigned int node, struct args *a, store_fn *fn,
		      void *arg);

/**
 * store_key() - the name of a key or channel, with the prefix
 * @s: the store
 * @buf: the result
 * @name: without the prefix
 */
const char *store_key(const struct store *s, char buf[160], const char *name);

/**
 * store_flush() - send what was appended, and tell what failed: at the end of each turn
 * @store: the store
 */
void store_flush(void *store);

/**
 * store_ping() - notice dead connections: each heartbeat
 */
void store_ping(struct store *s);

const struct store_stats *store_stats(const struct store *s);

/**
 * store_next_node() - for metrics: the nodes with slots; all that are tried if none has
 * @s: the store
 * @n: the number to begin with; out: that of the node
 * @name: out: its address
 * @up: out: whether scripts can be sent to it
 *
 * Return: false if there is no more node.
 */
bool store_next_node(const struct store *s, unsigned int *n, char name[ROUTE_NAME_LEN],
		     bool *up);

#endif /* TWHEELD_REDIS_STORE_H */
