// SPDX-License-Identifier: GPL-2.0
/* The nodes of the store. See node.h. */
#include <string.h>

#include "redis/node.h"

void node_fail(struct store *s, struct command *cmd, enum store_result result)
{
	cmd->result = result;
	commands_add(&s->failed, cmd);
	loop_again(s->loop);
}

unsigned int nodes_any(const struct store *s)
{
	for (unsigned int i = 0; i < ROUTE_NODES_MAX; i++) {
		if (s->node[i].told)
			return i;
	}
	return ROUTE_NONE;
}

bool nodes_whole(const struct store *s)
{
	unsigned int slots = 0;

	for (unsigned int i = 0; i < ROUTE_NODES_MAX; i++) {
		if (s->node[i].told)
			slots += s->route.node[i].slots;
	}
	return slots == ROUTE_SLOTS;
}

bool node_ready(const struct store *s, unsigned int node)
{
	return node < ROUTE_NODES_MAX && s->node[node].told;
}

bool node_send(struct store *s, struct command *cmd)
{
	unsigned int node = cmd->ask != ROUTE_NONE ? cmd->ask : cmd->slot == ROUTE_SLOTS ?
			    nodes_any(s) : s->route.owner[cmd->slot];
	struct args a = { 0 };
	struct node *n;
	struct conn *c;

	if (node == ROUTE_NONE || !cmd->len)
		return false;
	n = &s->node[node];
	c = cmd->confirm ? &n->puts : &n->scripts;
	if (c->state != CONN_READY)
		return false;
	if (cmd->ask != ROUTE_NONE) {
		/* ASKING only applies to the next command of the connection. */
		args_text(&a, "ASKING");
		conn_push(c, make_command(NULL, 0, &a, NULL, NULL), COMMAND_TIMEOUT);
		cmd->ask = ROUTE_NONE;
	}
	if (cmd->confirm)
		n->unconfirmed = true;
	conn_push(c, cmd, COMMAND_TIMEOUT);
	return true;
}

void node_tell_up(struct store *s, unsigned int node)
{
	struct node *n = &s->node[node];
	bool changed = n->changed;

	if (n->told || n->scripts.state != CONN_READY || !s->route.node[node].slots)
		return;
	/* Until this connection is ready, puts would be refused. */
	if (s->config->wait_replicas && n->puts.state != CONN_READY)
		return;
	n->told = true;
	n->changed = false;
	s->unfit = false;
	s->why[0] = '\0';
	s->events.up(s->events.arg, node, changed);
}

int node_start_conn(struct store *s, unsigned int node, struct conn *c, bool subscribes)
{
	int ret;

	c->loop = s->loop;
	c->alarms = s->alarms;
	c->events = s->conn_events;
	c->store = s;
	c->node = node;
	c->address = &s->route.node[node];
	c->tls = s->tls;
	c->subscribe = subscribes;
	ret = conn_init(c);
	/*
	 * Connect from the loop, so that no event is reported before the caller knows the store.
	 */
	return ret ? ret : alarm_arm(s->alarms, &c->retry, 1);
}

void node_stop(struct store *s, unsigned int node)
{
	struct node *n = &s->node[node];
	struct command *cmd;

	if (!n->started)
		return;
	conn_free(&n->scripts);
	if (n->puts.alarms)
		conn_free(&n->puts);
	while ((cmd = commands_pop(&n->confirming)))
		command_free(cmd);
	n->started = false;
}

int node_start(struct store *s, unsigned int node)
{
	struct node *n = &s->node[node];
	bool used = n->used;
	int ret;

	memset(n, 0, sizeof(*n));
	n->started = true;
	n->used = true;
	/*
	 * An earlier server had this number, and what is known of it does not apply to this one.
	 */
	n->changed = used;
	ret = node_start_conn(s, node, &n->scripts, false);
	if (!ret && s->config->wait_replicas)
		ret = node_start_conn(s, node, &n->puts, false);
	if (ret)
		node_stop(s, node);
	return ret;
}
