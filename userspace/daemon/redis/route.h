/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which node a key is on, and where that node is. No I/O.
 *
 * A key has a slot, and a slot has a node. A single Redis is node 0 and has all slots;
 * for Sentinel it moves. In a cluster the nodes come and go, and the map of slots says
 * which has what. store.c asks before each command, and knows nothing of kinds.
 */
#ifndef TWHEELD_REDIS_ROUTE_H
#define TWHEELD_REDIS_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "redis/error.h"
#include "redis/slot.h"

#define ROUTE_NAME_LEN	300

/**
 * struct route_address - where a node listens
 * @used: there is such a node
 * @local: a Unix socket
 * @path: of the socket
 * @node: host and port
 * @tls: with TLS
 * @db: SELECT this database; 0: none
 * @slots: how many it has
 */
struct route_address {
	bool used;
	bool local;
	char path[108];
	struct redis_node node;
	bool tls;
	unsigned int db;
	unsigned int slots;
};

/**
 * struct route - what is known of the nodes
 * @kind: of the URL
 * @tls: each node has TLS
 * @node: the nodes; unused ones may be between them
 * @owner: which node has a slot, or ROUTE_NONE
 */
struct route {
	enum redis_kind kind;
	bool tls;
	struct route_address node[ROUTE_NODES_MAX];
	uint8_t owner[ROUTE_SLOTS];
};

/**
 * struct route_map - a map that is being read
 */
struct route_map {
	uint8_t owner[ROUTE_SLOTS];
};

/**
 * struct route_error - what an error of Redis means for the route of its command
 * @verdict: what to do
 * @map: the map of slots may be wrong
 * @slot: of MOVED and ASK
 * @to: of MOVED and ASK; an empty host is that of the node which answered
 */
struct route_error {
	enum route_verdict verdict;
	bool map;
	unsigned int slot;
	struct redis_node to;
};

/**
 * route_init() - begin with what the URL says
 * @r: the route
 * @url: of the configuration
 */
void route_init(struct route *r, const struct redis_url *url);

/**
 * route_slot() - the slot of a key: CRC16 of its hash tag, or of all of it
 */
unsigned int route_slot(const char *key);

/**
 * route_node() - the node of a key, or ROUTE_NONE
 */
unsigned int route_node(const struct route *r, const char *key);

/**
 * route_add() - the number of a node, which is new or known
 *
 * Return: ROUTE_NONE if there are too many.
 */
unsigned int route_add(struct route *r, const struct redis_node *node);

/**
 * route_drop() - forget a node that has no slots
 */
void route_drop(struct route *r, unsigned int node);

/**
 * route_own() - a node has a slot now
 */
void route_own(struct route *r, unsigned int slot, unsigned int node);

/**
 * route_map_init() - begin a map in which nobody has a slot
 */
void route_map_init(struct route_map *m);

/**
 * route_map_range() - a node has the slots @from to @to of the map
 */
void route_map_range(struct route_map *m, unsigned int from, unsigned int to, unsigned int node);

/**
 * route_apply() - the map counts
 *
 * Return: true if a slot has another node than before.
 */
bool route_apply(struct route *r, const struct route_map *m);

/**
 * route_error() - what an error of Redis means for the route of its command
 */
void route_error(const char *error, struct route_error *e);

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

#endif /* TWHEELD_REDIS_ROUTE_H */
