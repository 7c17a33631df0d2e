/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Redis Cluster: the map of slots, and commands that a node refused.
 */
#ifndef TWHEELD_REDIS_CLUSTER_H
#define TWHEELD_REDIS_CLUSTER_H

#include "redis/node.h"

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

#endif /* TWHEELD_REDIS_CLUSTER_H */
