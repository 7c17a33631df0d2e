/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The nodes of the store, and how a command reaches one. Only files of this room include it.
 *
 *   store.c     commands, scripts, WAIT, messages
 *   cluster.c   the map of slots, commands that a node refused
 *   greet.c     what a server must be
 *   node.c      the connections of a node
 */
#ifndef TWHEELD_REDIS_NODE_H
#define TWHEELD_REDIS_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "ground/alarm.h"
#include "ground/loop.h"
#include "redis/command.h"
#include "redis/conn.h"
#include "redis/events.h"
#include "redis/route.h"
#include "redis/source.h"

#define COMMAND_TIMEOUT	(5 * NSEC_PER_SEC)
#define RUN_ID_LEN	64
#define STORE_REFUSAL_LEN	128

struct sentinel;

/**
 * struct node - one Redis
 * @started: its connections are prepared
 * @used: the number belonged to a node before, perhaps to this one
 * @told: the caller knows that it is up
 * @changed: it was started again since it was up
 * @used_at: when it had slots or was named last, for a node of a cluster
 * @scripts: connection for scripts and plain commands
 * @puts: connection for commands with WAIT; used if there is wait-replicas
 * @run_id: which start of which server the last connection reached
 * @refusal: why it refused a command last
 * @unconfirmed: one was pushed since the last WAIT
 * @confirming: commands whose answers wait for a WAIT
 */
struct node {
	bool started;
	bool used;
	bool told;
	bool changed;
	uint64_t used_at;
	struct conn scripts;
	struct conn puts;
	char run_id[RUN_ID_LEN];
	char refusal[STORE_REFUSAL_LEN];
	bool unconfirmed;
	struct command_queue confirming;
};

/**
 * struct cluster - what is on its way to be known of a cluster
 * @waiting: commands that were refused, and are sent again
 * @again: when that is, and when the map is asked for again
 * @stale: the map may be wrong
 * @asking: the map was asked for
 * @moved: slots moved, and the caller does not know yet
 * @asked: the node that was asked last
 * @asked_at: when
 * @beats: heartbeats so far
 */
struct cluster {
	struct command_queue waiting;
	struct alarm again;
	bool stale;
	bool asking;
	bool moved;
	unsigned int asked;
	uint64_t asked_at;
	uint64_t beats;
};

/**
 * struct store - the nodes
 * @config: of the caller
 * @conn_events: what the connections of nodes tell
 * @events: of the caller
 * @tls: what TLS trusts, or NULL
 * @route: which node
 * @node: the nodes
 * @messages: the connection for messages, to one of the nodes
 * @sentinel: who knows the master, or NULL
 * @cluster: of a cluster, else unused
 * @channels: names, with the prefix; NULL ends them
 * @source: the scripts
 * @stats: what was measured
 * @why: why it is not up; empty if it is
 * @unfit: Redis was reached and refused
 * @failed: commands that were refused before they reached a connection
 */
struct store {
	struct loop *loop;
	struct alarms *alarms;
	const struct config *config;
	const struct conn_events *conn_events;
	struct store_events events;
	struct tls *tls;
	struct route route;
	struct node node[ROUTE_NODES_MAX];
	struct conn messages;
	struct sentinel *sentinel;
	struct cluster cluster;
	char channels[8][160];
	unsigned int nr_channels;
	struct source source[SCRIPTS];
	struct store_stats stats;
	char why[256];
	bool unfit;
	struct command_queue failed;
};

static inline bool is_cluster(const struct store *s)
{
	return s->route.kind == REDIS_CLUSTER;
}

/**
 * node_send() - append a command to the connection of its node
 *
 * Return: false if its node is not known or not reached.
 */
bool node_send(struct store *s, struct command *cmd);

/**
 * node_fail() - a command fails at the end of this turn
 */
void node_fail(struct store *s, struct command *cmd, enum store_result result);

/**
 * node_start() - prepare the connections of a node
 *
 * Return: 0, or a negative errno.
 */
int node_start(struct store *s, unsigned int node);

/**
 * node_stop() - end a node without commands
 */
void node_stop(struct store *s, unsigned int node);

/**
 * node_tell_up() - tell the caller if a node is up now
 */
void node_tell_up(struct store *s, unsigned int node);

/**
 * node_start_conn() - prepare a connection to a node
 * @subscribes: its answers are messages
 *
 * Return: 0, or a negative errno.
 */
int node_start_conn(struct store *s, unsigned int node, struct conn *c, bool subscribes);

/**
 * node_ready() - whether scripts can be sent to a node
 */
bool node_ready(const struct store *s, unsigned int node);

/**
 * nodes_any() - a node that takes scripts, or ROUTE_NONE
 */
unsigned int nodes_any(const struct store *s);

/**
 * nodes_whole() - whether scripts can be sent for all slots
 */
bool nodes_whole(const struct store *s);

#endif /* TWHEELD_REDIS_NODE_H */
