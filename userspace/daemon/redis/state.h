/* SPDX-License-Identifier: GPL-2.0 */
/* What store.c, cluster.c and greet.c share. */
#ifndef TWHEELD_REDIS_STATE_H
#define TWHEELD_REDIS_STATE_H

#include "redis/conn.h"
#include "redis/route.h"
#include "redis/sentinel.h"
#include "redis/store.h"

#define COMMAND_TIMEOUT	(5 * NSEC_PER_SEC)
#define RUN_ID_LEN	64

/**
 * struct node - one Redis
 * @started: its connections are prepared
 * @used: its number has been another's before, or its own
 * @told: the caller knows that it is up
 * @changed: it was started anew since it was up
 * @used_at: when it had slots or was named last, for a node of a cluster
 * @scripts: connection for scripts and plain commands
 * @puts: connection for commands with WAIT; used if there is wait-replicas
 * @run_id: which start of which server the last connection reached
 * @unconfirmed: one was pushed since the last WAIT
 * @confirming: those whose answers wait for a WAIT
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
	bool unconfirmed;
	struct command_queue confirming;
};

/**
 * struct source - a script
 * @text: its Lua
 * @len: length of it
 * @sha: its hash, in hex
 */
struct source {
	const char *text;
	size_t len;
	char sha[41];
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

/**
 * make_command() - a command of @count arguments and those of @a
 * @fixed: the first arguments
 * @count: how many
 * @a: the others; freed here
 * @fn: called with the answer, or NULL
 * @arg: for @fn
 */
struct command *make_command(const char **fixed, unsigned int count, struct args *a,
			     store_fn *fn, void *arg);

/**
 * begins() - whether a text begins with another
 */
bool begins(const char *text, const char *with);

/**
 * store_greet() - a connection is there: ask who the server is, and make it ready
 */
void store_greet(struct conn *c);

static inline bool is_cluster(const struct store *s)
{
	return s->route.kind == REDIS_CLUSTER;
}

/**
 * store_send() - append a command to the connection of its node
 *
 * Return: false if its node is not known or not reached.
 */
bool store_send(struct store *s, struct command *cmd);

/**
 * store_fail() - a command fails at the end of this turn
 */
void store_fail(struct store *s, struct command *cmd, enum store_result result);

/**
 * store_start_node() - prepare the connections of a node
 *
 * Return: 0, or a negative errno.
 */
int store_start_node(struct store *s, unsigned int node);

/**
 * store_stop_node() - end a node without commands
 */
void store_stop_node(struct store *s, unsigned int node);

/**
 * store_tell_up() - tell the caller if a node is up now
 */
void store_tell_up(struct store *s, unsigned int node);

/**
 * cluster_init() - connect to the nodes that the URL names
 *
 * Return: 0, or a negative errno.
 */
int cluster_init(struct store *s);

void cluster_free(struct store *s);

/**
 * cluster_ask() - the map may be wrong: ask a node for it
 */
void cluster_ask(struct store *s);

/**
 * cluster_expects() - whether the node of a command is being connected for the first time
 *
 * Return: true if the command waits for that, and belongs to the callee.
 */
bool cluster_expects(struct store *s, struct command *cmd);

/**
 * cluster_refused() - a node refused a command
 * @c: the connection
 * @cmd: the command
 * @error: the answer
 *
 * Return: true if the command is sent again, and belongs to the callee.
 */
bool cluster_refused(struct conn *c, struct command *cmd, const char *error);

/**
 * cluster_listen() - take another node for messages, before the connection is opened
 */
void cluster_listen(struct store *s);

/**
 * cluster_ready() - a node has been greeted
 */
void cluster_ready(struct store *s);

/**
 * cluster_beat() - each heartbeat
 */
void cluster_beat(struct store *s);

/**
 * cluster_flush() - tell that slots moved, and ask for the map: at the end of a turn
 */
void cluster_flush(struct store *s);

#endif /* TWHEELD_REDIS_STATE_H */
