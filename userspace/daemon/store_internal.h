/* SPDX-License-Identifier: GPL-2.0 */
/* What store.c and store_greet.c share. */
#ifndef TWHEELD_STORE_INTERNAL_H
#define TWHEELD_STORE_INTERNAL_H

#include "route.h"
#include "sentinel.h"
#include "store.h"
#include "store_conn.h"

#define COMMAND_TIMEOUT	(5 * NSEC_PER_SEC)
#define RUN_ID_LEN	64

/**
 * struct node - one Redis
 * @scripts: connection for scripts and plain commands
 * @messages: connection for messages
 * @puts: connection for puts with WAIT; used if @wait
 * @run_id: which start of which server the last connection reached
 * @unconfirmed: a put was pushed since the last WAIT
 * @confirming: puts whose answers wait for a WAIT
 */
struct node {
	struct conn scripts;
	struct conn messages;
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
 * struct store - the nodes
 * @config: of the caller
 * @events: of the caller
 * @tls: what TLS trusts, or NULL
 * @route: which node
 * @node: the nodes
 * @sentinel: who knows the master, or NULL
 * @channels: names, with the prefix; NULL ends them
 * @source: the scripts
 * @stats: what was measured
 * @why: why it is not up; empty if it is
 * @unfit: Redis was reached and refused
 * @failed: commands that were refused before they reached a connection
 */
struct store {
	struct loop *loop;
	struct wheel *wheel;
	const struct config *config;
	struct store_events events;
	struct tls *tls;
	struct route route;
	struct node node[ROUTE_NODES_MAX];
	struct sentinel *sentinel;
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

#endif /* TWHEELD_STORE_INTERNAL_H */
