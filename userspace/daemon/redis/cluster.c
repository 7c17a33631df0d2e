// SPDX-License-Identifier: GPL-2.0
/*
 * Redis Cluster: the map of slots, and commands that a node refused. See cluster.h.
 *
 *   MOVED    the slot has another node: the command goes there, and the map is read anew
 *   ASK      the slot moves: the command goes there behind ASKING, once
 *   others   TRYAGAIN, CLUSTERDOWN, LOADING and so on: the command waits a little
 *
 * All these errors mean that nothing was done. The map is read at the start, after MOVED,
 * and while a node with slots is lost or does not answer. Each time another node is asked,
 * because one that was cut off from the others does not know better.
 */
#include <stdlib.h>
#include <string.h>

#include "ground/log.h"
#include "redis/cluster.h"

/* Time between two tries of a command that has to wait. */
#define RETRY_DELAY	(25 * NSEC_PER_MSEC)
/* Minimum time between two requests for the map. */
#define MAP_INTERVAL	(100 * NSEC_PER_MSEC)
/* If an answer takes longer than this, the node may hang. */
#define HANG_TIMEOUT	NSEC_PER_SEC
/* How long a node without slots is kept after it was last named in a map. */
#define IDLE_KEEP	(10 * NSEC_PER_SEC)
/* The map is read after this many heartbeats even if there is no other reason. */
#define MAP_BEATS	30
/* How many times in a row a command is sent to another node without a pause. */
#define HOPS_MAX	3

static uint64_t now_of(const struct store *s)
{
	return alarms_now(s->alarms);
}

/* Returns the number of a node, which may be new. */
static unsigned int find(struct store *s, const struct redis_node *address)
{
	unsigned int i = route_add(&s->route, address);

	if (i == ROUTE_NONE) {
		log_often(LOG_ERR, "the cluster has more than %u nodes: twheeld does not use the others",
			  ROUTE_NODES_MAX);
		return i;
	}
	if (!s->node[i].started && node_start(s, i)) {
		route_drop(&s->route, i);
		return ROUTE_NONE;
	}
	s->node[i].used_at = now_of(s);
	return i;
}

static void add_seeds(struct store *s)
{
	for (size_t i = 0; i < s->config->redis.nodes; i++)
		find(s, &s->config->redis.node[i]);
}

/* ---- Commands that wait ---- */

static void wait(struct store *s, struct command *cmd)
{
	uint64_t now = now_of(s);

	if (!cmd->give_up)
		cmd->give_up = now + COMMAND_TIMEOUT;
	if (now >= cmd->give_up) {
		/* Nothing was done, because every node has refused the command. */
		node_fail(s, cmd, STORE_DOWN);
		return;
	}
	commands_add(&s->cluster.waiting, cmd);
	alarm_arm_before(s->alarms, &s->cluster.again, now + RETRY_DELAY);
}

static void send_again(struct store *s)
{
	struct command_queue all = s->cluster.waiting;
	struct command *cmd;

	memset(&s->cluster.waiting, 0, sizeof(all));
	while ((cmd = commands_pop(&all))) {
		if (!node_send(s, cmd))
			wait(s, cmd);
	}
}

static void again(struct alarm *a, uint64_t now)
{
	struct store *s = container_of(a, struct store, cluster.again);

	(void)now;
	send_again(s);
	/* cluster_flush() will ask for the map. */
	loop_again(s->loop);
}

bool cluster_expects(struct store *s, struct command *cmd)
{
	unsigned int node = cmd->slot == ROUTE_SLOTS ? ROUTE_NONE : s->route.owner[cmd->slot];
	const struct node *n;

	if (node == ROUTE_NONE || !cmd->len)
		return false;
	n = &s->node[node];
	if (cmd->confirm ? !n->puts.fresh : !n->scripts.fresh)
		return false;
	wait(s, cmd);
	return true;
}

bool cluster_refused(struct conn *c, struct command *cmd, const char *error)
{
	struct store *s = c->store;
	struct route_error e;
	unsigned int node;

	route_error(error, &e);
	if (e.verdict == ROUTE_OTHER || cmd->slot == ROUTE_SLOTS)
		return false;
	cmd->reply = NULL;
	cmd->sent = 0;
	if (e.verdict == ROUTE_LATER) {
		if (e.map)
			cluster_ask(s);
		wait(s, cmd);
		return true;
	}
	if (!e.to.host[0])
		memcpy(e.to.host, c->address->node.host, sizeof(e.to.host));
	node = find(s, &e.to);
	if (e.verdict == ROUTE_ASK) {
		cmd->ask = node;
	} else if (node != ROUTE_NONE && s->route.owner[e.slot] != node) {
		route_own(&s->route, e.slot, node);
		s->cluster.moved = true;
		node_tell_up(s, node);
		cluster_ask(s);
	}
	/* If two nodes send a command to each other, neither knows the new owner yet, so wait. */
	if (++cmd->redirects % (HOPS_MAX + 1) == 0 || !node_send(s, cmd))
		wait(s, cmd);
	return true;
}

/* ---- The map ---- */

/* Reads one element of CLUSTER SLOTS: [from, to, [host, port, ...], ...]. */
static bool read_range(struct store *s, struct route_map *m, const redisReply *r,
		       const char *asked)
{
	struct redis_node address = { 0 };
	const redisReply *from, *to, *node, *host;
	const char *name = asked;

	if (r->type != REDIS_REPLY_ARRAY || r->elements < 3)
		return false;
	from = r->element[0];
	to = r->element[1];
	node = r->element[2];
	if (from->type != REDIS_REPLY_INTEGER || to->type != REDIS_REPLY_INTEGER ||
	    node->type != REDIS_REPLY_ARRAY || node->elements < 2 ||
	    node->element[1]->type != REDIS_REPLY_INTEGER)
		return false;
	host = node->element[0];
	/* An empty name means the host that we asked. */
	if (host->type == REDIS_REPLY_STRING && host->len)
		name = host->str;
	if (strlen(name) >= sizeof(address.host))
		return false;
	strcpy(address.host, name);
	address.port = node->element[1]->integer;
	route_map_range(m, from->integer, to->integer, find(s, &address));
	return true;
}

/* True if a connection has waited too long for an answer. */
static bool is_overdue(const struct store *s, const struct conn *c, uint64_t ns)
{
	const struct command *head = c->queue.head;

	return head && head->sent && head->sent + ns < now_of(s);
}

/*
 * Drops a node that has lost all its slots. It does not wait for a node that hangs, because that
 * has been replaced.
 */
static void leave(struct store *s, unsigned int i)
{
	struct node *n = &s->node[i];

	n->told = false;
	if (is_overdue(s, &n->scripts, HANG_TIMEOUT))
		conn_close(&n->scripts, "another node has its slots");
	if (is_overdue(s, &n->puts, HANG_TIMEOUT))
		conn_close(&n->puts, "another node has its slots");
}

static void check_node(struct store *s, unsigned int i)
{
	if (s->route.node[i].slots)
		node_tell_up(s, i);
	else
		leave(s, i);
}

static void apply(struct store *s, const struct route_map *m)
{
	if (!route_apply(&s->route, m))
		return;
	s->cluster.moved = true;
	for (unsigned int i = 0; i < ROUTE_NODES_MAX; i++) {
		if (s->node[i].started)
			check_node(s, i);
	}
	/* A node that has left the cluster gets no messages. */
	if (!s->route.node[s->messages.node].slots && nodes_any(s) != ROUTE_NONE &&
	    s->messages.state != CONN_CLOSED)
		conn_close(&s->messages, "its node has no slots any more");
}

static void got_map(void *arg, enum store_result result, const redisReply *reply)
{
	static struct route_map m;
	struct conn *c = arg;
	struct store *s = c->store;
	bool ok = result == STORE_OK && reply->type == REDIS_REPLY_ARRAY && reply->elements;

	s->cluster.asking = false;
	route_map_init(&m);
	for (size_t i = 0; ok && i < reply->elements; i++)
		ok = read_range(s, &m, reply->element[i], c->address->node.host);
	if (ok)
		apply(s, &m);
	else
		cluster_ask(s);
	if (result == STORE_OK && reply->type == REDIS_REPLY_ERROR)
		log_often(LOG_ERR, "Redis refused CLUSTER SLOTS: %s", reply->str);
	if (s->cluster.waiting.head)
		alarm_arm(s->alarms, &s->cluster.again, 1);
}

void cluster_ask(struct store *s)
{
	s->cluster.stale = true;
	loop_again(s->loop);
}

/* Returns the next node that can be asked, with or without slots. */
static unsigned int next_to_ask(const struct store *s)
{
	for (unsigned int k = 1; k <= ROUTE_NODES_MAX; k++) {
		unsigned int i = (s->cluster.asked + k) % ROUTE_NODES_MAX;

		if (s->node[i].started && s->node[i].scripts.state == CONN_READY)
			return i;
	}
	return ROUTE_NONE;
}

static void ask_map(struct store *s)
{
	struct cluster *cl = &s->cluster;
	struct args a = { 0 };
	unsigned int to;
	struct conn *c;

	if (!cl->stale || cl->asking)
		return;
	if (cl->asked_at && now_of(s) < cl->asked_at + MAP_INTERVAL) {
		alarm_arm_before(s->alarms, &cl->again, cl->asked_at + MAP_INTERVAL);
		return;
	}
	to = next_to_ask(s);
	if (to == ROUTE_NONE)
		return;
	c = &s->node[to].scripts;
	cl->asked = to;
	cl->stale = false;
	cl->asking = true;
	cl->asked_at = now_of(s);
	args_text(&a, "CLUSTER");
	args_text(&a, "SLOTS");
	conn_push(c, make_command(NULL, 0, &a, got_map, c), COMMAND_TIMEOUT);
}

/* ---- Nodes ---- */

void cluster_listen(struct store *s)
{
	struct conn *c = &s->messages;
	unsigned int to = ROUTE_NONE;

	for (unsigned int k = 1; k <= ROUTE_NODES_MAX; k++) {
		unsigned int i = (c->node + k) % ROUTE_NODES_MAX;

		if (s->node[i].told) {
			to = i;
			break;
		}
		if (s->node[i].started && to == ROUTE_NONE)
			to = i;
	}
	if (to == ROUTE_NONE)
		return;
	c->node = to;
	c->address = &s->route.node[to];
}

void cluster_ready(struct store *s)
{
	if (!nodes_whole(s))
		cluster_ask(s);
	if (s->cluster.waiting.head)
		alarm_arm(s->alarms, &s->cluster.again, 1);
}

static bool is_idle(const struct store *s, unsigned int i)
{
	const struct node *n = &s->node[i];

	return n->used_at + IDLE_KEEP < now_of(s) && s->messages.node != i &&
	       !n->scripts.queue.head && !n->scripts.failed.head &&
	       !n->puts.queue.head && !n->puts.failed.head;
}

void cluster_beat(struct store *s)
{
	bool ask = ++s->cluster.beats % MAP_BEATS == 0 || !nodes_whole(s);

	for (unsigned int i = 0; i < ROUTE_NODES_MAX; i++) {
		const struct conn *c = &s->node[i].scripts;

		if (!s->node[i].started)
			continue;
		if (s->route.node[i].slots) {
			ask |= c->state != CONN_READY || is_overdue(s, c, HANG_TIMEOUT / 2);
			continue;
		}
		leave(s, i);
		if (is_idle(s, i)) {
			node_stop(s, i);
			route_drop(&s->route, i);
		}
	}
	if (next_to_ask(s) == ROUTE_NONE)
		add_seeds(s);
	if (ask)
		cluster_ask(s);
}

void cluster_flush(struct store *s)
{
	if (s->cluster.moved) {
		s->cluster.moved = false;
		s->events.moved(s->events.arg);
	}
	ask_map(s);
}

int cluster_init(struct store *s)
{
	s->cluster.again.fn = again;
	if (alarm_prepare(s->alarms, &s->cluster.again))
		return -1;
	add_seeds(s);
	s->cluster.stale = true;
	return s->node[0].started ? 0 : -1;
}

void cluster_free(struct store *s)
{
	struct command *cmd;

	while ((cmd = commands_pop(&s->cluster.waiting)))
		command_free(cmd);
	if (is_cluster(s))
		alarm_disarm(s->alarms, &s->cluster.again);
}
