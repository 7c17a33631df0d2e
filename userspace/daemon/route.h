/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which node a key is on, and where that node is. No I/O.
 *
 * A single Redis is node 0 for all keys. For Cluster the map of slots answers; for
 * Sentinel node 0 moves. store.c asks route_node() before each command, and knows
 * nothing of kinds.
 */
#ifndef TWHEELD_ROUTE_H
#define TWHEELD_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define ROUTE_NODES_MAX	1
#define ROUTE_NAME_LEN	300

/**
 * struct route_address - where a node listens
 * @local: a Unix socket
 * @path: of the socket
 * @node: host and port
 * @tls: with TLS
 * @db: SELECT this database; 0: none
 */
struct route_address {
	bool local;
	char path[108];
	struct redis_node node;
	bool tls;
	unsigned int db;
};

/**
 * struct route - what is known of the nodes
 * @kind: of the URL
 * @node: the nodes
 * @nodes: how many
 */
struct route {
	enum redis_kind kind;
	struct route_address node[ROUTE_NODES_MAX];
	unsigned int nodes;
};

/**
 * route_init() - begin with what the URL says
 * @r: the route
 * @url: of the configuration
 *
 * Return: NULL, or a constant text that says why this URL cannot be served.
 */
const char *route_init(struct route *r, const struct redis_url *url);

/**
 * route_node() - the node of a hash tag
 * @r: the route
 * @tag: "queue/lane", or NULL for a key without a tag, and for messages
 *
 * Return: the number of the node.
 */
unsigned int route_node(const struct route *r, const char *tag);

/**
 * route_move() - Sentinel named the master
 * @r: the route
 * @master: where it is
 *
 * Return: true if that is another one than before.
 */
bool route_move(struct route *r, const struct redis_node *master);

/**
 * route_name() - a node's address for logs and metrics
 * @r: the route
 * @node: the number of the node
 * @buf: the result
 *
 * Return: @buf.
 */
const char *route_name(const struct route *r, unsigned int node, char buf[ROUTE_NAME_LEN]);

#endif /* TWHEELD_ROUTE_H */
