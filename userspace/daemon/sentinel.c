// SPDX-License-Identifier: GPL-2.0
/* Where the master is, as Sentinel says. See sentinel.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sentinel.h"
#include "store_conn.h"

#define TIMEOUT	NSEC_PER_SEC

/**
 * struct sentinel - the connection
 * @conn: to one of them
 * @url: all of them
 * @at: which one
 * @address: of it
 * @fn: of the caller
 * @arg: for @fn
 */
struct sentinel {
	struct conn conn;
	const struct redis_url *url;
	size_t at;
	struct route_address address;
	master_fn *fn;
	void *arg;
};

static struct sentinel *sentinel_of(struct conn *c)
{
	return container_of(c, struct sentinel, conn);
}

void sentinel_ask(struct sentinel *s)
{
	const char *argv[] = { "SENTINEL", "get-master-addr-by-name", s->url->master };
	struct command *cmd;
	long long len;

	if (s->conn.state < CONN_GREETING || s->conn.queue.head)
		return;
	cmd = calloc(1, sizeof(*cmd));
	if (!cmd)
		abort();
	len = redisFormatCommandArgv(&cmd->text, 3, argv, NULL);
	if (len < 0)
		abort();
	cmd->len = len;
	cmd->script = -1;
	conn_push(&s->conn, cmd, TIMEOUT);
}

static void opened(struct conn *c)
{
	conn_ready(c);
	sentinel_ask(sentinel_of(c));
}

static void handle_reply(struct conn *c, struct command *cmd, redisReply *reply, uint64_t received)
{
	struct sentinel *s = sentinel_of(c);
	struct redis_node master = { 0 };

	(void)received;
	command_free(cmd);
	if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
	    reply->element[0]->type == REDIS_REPLY_STRING &&
	    reply->element[1]->type == REDIS_REPLY_STRING &&
	    reply->element[0]->len < sizeof(master.host)) {
		strcpy(master.host, reply->element[0]->str);
		master.port = atoi(reply->element[1]->str);
	}
	freeReplyObject(reply);
	if (master.port)
		s->fn(s->arg, &master);
	else
		conn_close(c, "Sentinel does not know the master");
}

static void closed(struct conn *c, const char *why)
{
	struct sentinel *s = sentinel_of(c);
	struct command *cmd;

	(void)why;
	while ((cmd = commands_pop(&c->failed)))
		command_free(cmd);
	s->at = (s->at + 1) % s->url->nodes;
	s->address.node = s->url->node[s->at];
}

static const struct conn_events events = {
	.opened = opened,
	.reply = handle_reply,
	.closed = closed,
};

struct sentinel *sentinel_new(struct loop *loop, struct wheel *wheel, const struct config *config,
			      struct tls *tls, master_fn *fn, void *arg)
{
	struct sentinel *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->url = &config->redis;
	s->address.node = s->url->node[0];
	s->address.tls = s->url->tls;
	s->fn = fn;
	s->arg = arg;
	s->conn.loop = loop;
	s->conn.wheel = wheel;
	s->conn.events = &events;
	s->conn.address = &s->address;
	s->conn.tls = tls;
	if (conn_init(&s->conn) || wheel_arm(wheel, &s->conn.retry, 1)) {
		free(s);
		return NULL;
	}
	return s;
}

void sentinel_flush(struct sentinel *s)
{
	conn_flush(&s->conn);
}

void sentinel_free(struct sentinel *s)
{
	if (!s)
		return;
	conn_free(&s->conn);
	free(s);
}
