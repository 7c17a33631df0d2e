// SPDX-License-Identifier: GPL-2.0
/* Where the master is, as Sentinel says. See sentinel.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/log.h"
#include "redis/conn.h"
#include "redis/sentinel.h"

#define TIMEOUT	NSEC_PER_SEC

/**
 * struct sentinel - the connections
 * @ask: to one of them, for questions
 * @listen: to the same one, for +switch-master
 * @config: of the caller
 * @url: all of them
 * @at: number of the one in use
 * @address: its address
 * @failures: number of connections that have failed since the last good one
 * @fn: of the caller
 * @arg: for @fn
 */
struct sentinel {
	struct conn ask;
	struct conn listen;
	const struct config *config;
	const struct redis_url *url;
	size_t at;
	struct route_address address;
	size_t failures;
	master_fn *fn;
	void *arg;
};

static struct sentinel *sentinel_of(struct conn *c)
{
	return c->subscribe ? container_of(c, struct sentinel, listen) :
	       container_of(c, struct sentinel, ask);
}

static void say(struct conn *c, unsigned int count, const char **words)
{
	struct args none = { 0 };

	conn_push(c, make_command(words, count, &none, NULL, NULL), TIMEOUT);
}

static void ask(struct sentinel *s)
{
	const char *words[] = { "SENTINEL", "get-master-addr-by-name", s->url->master };

	say(&s->ask, 3, words);
}

/*
 * Sends AUTH only if a password is configured, because a Sentinel without one would answer with an
 * error.
 */
static void authenticate(struct conn *c, const struct config *config)
{
	const char *words[] = { "AUTH", config->sentinel_user, config->sentinel_password };
	const char *old[] = { "AUTH", config->sentinel_password };

	if (config->sentinel_user[0])
		say(c, 3, words);
	else if (config->sentinel_password[0])
		say(c, 2, old);
}

void sentinel_ask(struct sentinel *s)
{
	if (s->ask.state == CONN_READY && !s->ask.queue.head)
		ask(s);
}

void sentinel_doubt(struct sentinel *s)
{
	if (s->ask.state == CONN_READY)
		conn_close(&s->ask, "the server that it named is not a master: asking another Sentinel");
}

static void opened(struct conn *c)
{
	struct sentinel *s = sentinel_of(c);

	authenticate(c, s->config);
	if (c->subscribe) {
		say(c, 2, (const char *[]){ "SUBSCRIBE", "+switch-master" });
		return;
	}
	ask(s);
}

/* Handles the answer to the question, or to AUTH, whose answer has no elements. */
static void handle_reply(struct conn *c, struct command *cmd, redisReply *reply, uint64_t received)
{
	struct sentinel *s = sentinel_of(c);
	struct redis_node master = { 0 };
	bool is_auth = reply->type == REDIS_REPLY_STATUS;

	(void)received;
	command_free(cmd);
	if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
	    reply->element[0]->type == REDIS_REPLY_STRING &&
	    reply->element[1]->type == REDIS_REPLY_STRING &&
	    reply->element[0]->len < sizeof(master.host)) {
		strcpy(master.host, reply->element[0]->str);
		master.port = atoi(reply->element[1]->str);
	}
	if (master.port) {
		conn_ready(c);
		s->failures = 0;
		s->fn(s->arg, &master);
	} else if (!is_auth) {
		conn_close(c, reply->type == REDIS_REPLY_ERROR ? reply->str :
			   "it does not know the master: check its name in the URL");
	}
	freeReplyObject(reply);
}

/* "NAME OLD-HOST OLD-PORT HOST PORT" */
static void switched(struct sentinel *s, const char *text)
{
	char name[128], host[256];
	struct redis_node master = { 0 };
	unsigned int port;

	if (sscanf(text, "%127s %*s %*s %255s %u", name, host, &port) != 3 ||
	    strcmp(name, s->url->master) || !port || port > UINT16_MAX)
		return;
	strcpy(master.host, host);
	master.port = port;
	s->fn(s->arg, &master);
}

static void handle_push(struct conn *c, redisReply *reply)
{
	redisReply **e = reply->element;

	if (reply->elements == 3 && e[0]->type == REDIS_REPLY_STRING) {
		if (!strcmp(e[0]->str, "message") && e[2]->type == REDIS_REPLY_STRING) {
			switched(sentinel_of(c), e[2]->str);
		} else if (!strcmp(e[0]->str, "subscribe")) {
			command_free(commands_pop(&c->queue));
			conn_ready(c);
			/* The master may have changed before we listened. */
			sentinel_ask(sentinel_of(c));
		}
	}
	freeReplyObject(reply);
}

static void forget_commands(struct conn *c)
{
	struct command *cmd;

	while ((cmd = commands_pop(&c->failed)))
		command_free(cmd);
}

static void closed(struct conn *c, const char *why)
{
	struct sentinel *s = sentinel_of(c);

	forget_commands(c);
	/* Log this for each Sentinel once, until one answers. */
	if (s->failures++ < 2 * s->url->nodes)
		log_often(LOG_WARNING, "Sentinel %s:%u: %s", s->address.node.host,
			  s->address.node.port, why);
	if (c == &s->listen)
		return;
	s->at = (s->at + 1) % s->url->nodes;
	s->address.node = s->url->node[s->at];
	if (s->listen.state != CONN_CLOSED)
		conn_close(&s->listen, "asking the next Sentinel");
}

static const struct conn_events events = {
	.opened = opened,
	.reply = handle_reply,
	.push = handle_push,
	.closed = closed,
};

static int start(struct sentinel *s, struct conn *c, struct loop *loop, struct alarms *alarms,
		 struct tls *tls)
{
	int ret;

	c->loop = loop;
	c->alarms = alarms;
	c->events = &events;
	c->address = &s->address;
	c->tls = tls;
	ret = conn_init(c);
	return ret ? ret : alarm_arm(alarms, &c->retry, 1);
}

struct sentinel *sentinel_new(struct loop *loop, struct alarms *alarms, const struct config *config,
			      struct tls *tls, master_fn *fn, void *arg)
{
	struct sentinel *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->config = config;
	s->url = &config->redis;
	s->address.node = s->url->node[0];
	s->address.tls = s->url->tls;
	s->fn = fn;
	s->arg = arg;
	s->listen.subscribe = true;
	if (start(s, &s->ask, loop, alarms, tls) || start(s, &s->listen, loop, alarms, tls)) {
		sentinel_free(s);
		return NULL;
	}
	return s;
}

void sentinel_flush(struct sentinel *s)
{
	conn_flush(&s->ask);
	conn_flush(&s->listen);
}

void sentinel_free(struct sentinel *s)
{
	if (!s)
		return;
	conn_free(&s->ask);
	if (s->listen.alarms)
		conn_free(&s->listen);
	free(s);
}
