// SPDX-License-Identifier: GPL-2.0
/* Redis: commands, scripts, WAIT and Sentinel. See store.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ground/log.h"
#include "redis/cluster.h"
#include "redis/error.h"
#include "redis/greet.h"
#include "redis/node.h"
#include "redis/sentinel.h"
#include "redis/store.h"
#include "redis/tls.h"

#define KEYS		8
/* EVALSHA, the hash, the number of keys, and the keys. */
#define SCRIPT_FIXED	(3 + KEYS)

static const char *const key_names[KEYS] = {
	"due", "run", "hdr", "body", "dead", "done", "note", "ctl",
};

/* ---- Commands ---- */

static void push(struct store *s, struct command *cmd)
{
	if (!node_send(s, cmd) && !(is_cluster(s) && cluster_expects(s, cmd)))
		node_fail(s, cmd, STORE_DOWN);
}

/* True if the result has to survive the loss of the master, because a client is told about it. */
static bool confirms(const struct store *s, const struct args *a)
{
	return a->confirm && s->config->wait_replicas;
}

void store_command(struct store *s, const char *key, struct args *a, store_fn *fn, void *arg)
{
	bool confirm = confirms(s, a);
	struct command *cmd = make_command(NULL, 0, a, fn, arg);

	cmd->confirm = confirm;
	if (key)
		cmd->slot = route_slot(key);
	push(s, cmd);
}

void store_command_on(struct store *s, unsigned int node, struct args *a, store_fn *fn, void *arg)
{
	struct command *cmd = make_command(NULL, 0, a, fn, arg);

	if (node_ready(s, node))
		conn_push(&s->node[node].scripts, cmd, COMMAND_TIMEOUT);
	else
		node_fail(s, cmd, STORE_DOWN);
}

static void lane_key(const struct store *s, char key[160], const char *queue, unsigned int lane,
		     const char *name)
{
	snprintf(key, 160, "%s{%.64s/%u}:%s", s->config->prefix, queue, lane, name);
}

/* @fixed: EVALSHA, the hash, the number of keys, and @keys of them, all of one slot. */
static void push_script(struct store *s, enum store_script script, const char **fixed,
			unsigned int keys, struct args *a, store_fn *fn, void *arg)
{
	bool confirm = confirms(s, a);
	struct command *cmd = make_command(fixed, 3 + keys, a, fn, arg);
	char mark[64];

	cmd->script = script;
	/* "*N\r\n$7\r\nEVALSHA\r\n$40\r\n<hash>\r\n": the rest is the same for EVAL. */
	cmd->tail = snprintf(mark, sizeof(mark), "*%u\r\n$7\r\nEVALSHA\r\n$40\r\n", cmd->argc) + 42;
	cmd->slot = route_slot(fixed[3]);
	cmd->confirm = confirm;
	push(s, cmd);
}

void store_script(struct store *s, enum store_script script, const char *queue,
		  unsigned int lane, struct args *a, store_fn *fn, void *arg)
{
	const char *fixed[SCRIPT_FIXED] = { "EVALSHA", s->source[script].sha, "8" };
	char key[KEYS][160];

	for (unsigned int i = 0; i < KEYS; i++) {
		lane_key(s, key[i], queue, lane, key_names[i]);
		fixed[3 + i] = key[i];
	}
	push_script(s, script, fixed, KEYS, a, fn, arg);
}

void store_script_on_key(struct store *s, enum store_script script, const char *key,
			 struct args *a, store_fn *fn, void *arg)
{
	const char *fixed[] = { "EVALSHA", s->source[script].sha, "1", key };

	push_script(s, script, fixed, 1, a, fn, arg);
}

/* Redis does not know the hash, so send the source. */
static void evaluate(struct conn *c, struct command *cmd)
{
	const struct source *src = &c->store->source[cmd->script];
	size_t tail = cmd->len - cmd->tail;
	char *text = malloc(src->len + tail + 64);
	size_t len;

	if (!text)
		abort();
	len = sprintf(text, "*%u\r\n$4\r\nEVAL\r\n$%zu\r\n", cmd->argc, src->len);
	memcpy(text + len, src->text, src->len);
	len += src->len;
	memcpy(text + len, "\r\n", 2);
	len += 2;
	memcpy(text + len, cmd->text + cmd->tail, tail);
	redisFreeCommand(cmd->text);
	cmd->text = text;
	cmd->len = len + tail;
	cmd->evaluated = true;
	cmd->sent = 0;
	if (cmd->confirm)
		c->store->node[c->node].unconfirmed = true;
	conn_push(c, cmd, COMMAND_TIMEOUT);
}

static void finish(struct command *cmd)
{
	if (cmd->fn)
		cmd->fn(cmd->arg, cmd->result, cmd->result == STORE_OK ? cmd->reply : NULL);
	command_free(cmd);
}

static void measure(struct conn *c, const struct command *cmd, const redisReply *reply,
		    uint64_t received)
{
	struct store *s = c->store;
	long long us;

	s->stats.calls[cmd->script]++;
	s->stats.seconds[cmd->script] += (received - cmd->sent) / 1e9;
	if (reply->type != REDIS_REPLY_ARRAY || !reply->elements)
		return;
	reply = reply->element[0];
	us = reply->type == REDIS_REPLY_INTEGER ? reply->integer :
	     reply->type == REDIS_REPLY_STRING ? atoll(reply->str) : 0;
	if (us > 0)
		s->events.time(s->events.arg, c->node, us, cmd->sent, received);
}

static void handle_reply(struct conn *c, struct command *cmd, redisReply *reply, uint64_t received)
{
	struct store *s = c->store;

	cmd->reply = reply;
	cmd->result = STORE_OK;
	if (reply->type == REDIS_REPLY_ERROR && c->state == CONN_READY) {
		const struct redis_error *e = redis_error(reply->str);

		if (e->evaluate && cmd->script >= 0 && !cmd->evaluated) {
			freeReplyObject(reply);
			cmd->reply = NULL;
			evaluate(c, cmd);
			return;
		}
		if (is_cluster(s) && cluster_refused(c, cmd, reply->str)) {
			freeReplyObject(reply);
			return;
		}
		cmd->result = e->result;
		snprintf(s->node[c->node].refusal, STORE_REFUSAL_LEN, "%s", reply->str);
		if (e->greet)
			conn_close(c, reply->str);
		else if (e->result == STORE_REFUSED)
			log_often(LOG_ERR, "Redis refused %s: %s", cmd->script < 0 ?
				  "a command" : script_name(cmd->script), reply->str);
	} else if (cmd->script >= 0) {
		measure(c, cmd, reply, received);
	}
	if (cmd->confirm && cmd->result == STORE_OK)
		commands_add(&s->node[c->node].confirming, cmd);
	else
		finish(cmd);
}

/* ---- WAIT ---- */

static void confirmed(void *arg, enum store_result result, const redisReply *reply)
{
	struct node *n = arg;
	struct command *cmd;
	bool ok = result == STORE_OK && reply->type == REDIS_REPLY_INTEGER &&
		  reply->integer >= n->puts.store->config->wait_replicas;

	while ((cmd = commands_pop(&n->confirming))) {
		if (!ok)
			cmd->result = STORE_UNKNOWN;
		finish(cmd);
	}
}

static void confirm(struct store *s, struct node *n)
{
	struct args a = { 0 };

	if (!n->unconfirmed || n->puts.state != CONN_READY)
		return;
	n->unconfirmed = false;
	args_text(&a, "WAIT");
	args_u64(&a, s->config->wait_replicas);
	args_u64(&a, s->config->wait_timeout_ms);
	conn_push(&n->puts, make_command(NULL, 0, &a, confirmed, n),
		  COMMAND_TIMEOUT + s->config->wait_timeout_ms * NSEC_PER_MSEC);
}

/* ---- Ends ---- */

static void puts_closed(struct conn *c)
{
	struct node *n = &c->store->node[c->node];
	struct command *cmd;

	while ((cmd = commands_pop(&n->confirming))) {
		cmd->result = STORE_UNKNOWN;
		commands_add(&c->failed, cmd);
	}
}

static void scripts_closed(struct conn *c, const char *why)
{
	struct store *s = c->store;
	struct node *n = &s->node[c->node];
	char name[ROUTE_NAME_LEN];
	bool was = n->told;

	n->told = false;
	if (s->sentinel)
		sentinel_ask(s->sentinel);
	if (is_cluster(s)) {
		cluster_ask(s);
		/* This was only a node that we had asked for the map. */
		if (!was && !s->unfit && store_up(s))
			return;
	}
	/* Sentinel may not have named a master yet. */
	if (s->sentinel)
		snprintf(s->why, sizeof(s->why), "%s", why);
	else
		snprintf(s->why, sizeof(s->why), "%.100s: %s", route_name(&s->route, c->node, name),
			 why);
	s->events.down(s->events.arg, was ? s->why : NULL);
}

static void closed(struct conn *c, const char *why)
{
	struct store *s = c->store;

	if (c == &s->messages) {
		if (store_up(s))
			log_often(LOG_WARNING, "no messages from Redis: %s", why);
		if (is_cluster(s))
			cluster_listen(s);
	} else if (c == &s->node[c->node].puts) {
		puts_closed(c);
	} else {
		scripts_closed(c, why);
	}
}

/* ---- Messages ---- */

static bool is_text(const redisReply *r, const char *text)
{
	return r->type == REDIS_REPLY_STRING && !strcmp(r->str, text);
}

static void handle_push(struct conn *c, redisReply *reply)
{
	struct store *s = c->store;
	redisReply **e = reply->element;

	if (reply->elements == 3 && is_text(e[0], "message") && e[2]->type == REDIS_REPLY_STRING) {
		s->events.message(s->events.arg, e[1]->str + strlen(s->config->prefix),
				  e[2]->str, e[2]->len);
	} else if (reply->elements == 3 && is_text(e[0], "subscribe")) {
		if (e[2]->integer == s->nr_channels) {
			command_free(commands_pop(&c->queue));
			conn_ready(c);
			s->events.subscribed(s->events.arg);
		}
	} else if (reply->elements && is_text(e[0], "pong") && c->queue.head) {
		command_free(commands_pop(&c->queue));
	}
	freeReplyObject(reply);
}

/* ---- Sentinel ---- */

static void connect_anew(struct conn *c)
{
	if (c->state != CONN_CLOSED)
		conn_close(c, "another Redis is the master");
	alarm_arm(c->alarms, &c->retry, 1);
}

static void master_is(void *arg, const struct redis_node *master)
{
	struct store *s = arg;
	struct node *n = &s->node[0];

	if (!route_move(&s->route, master))
		return;
	log_often(LOG_NOTICE, "Sentinel: the master is %s:%u", master->host, master->port);
	connect_anew(&n->scripts);
	connect_anew(&s->messages);
	if (s->config->wait_replicas)
		connect_anew(&n->puts);
}

/* ---- The store ---- */

/* A server was greeted, and it fits. */
static void ready(struct conn *c)
{
	struct store *s = c->store;

	if (c == &s->messages)
		return;
	node_tell_up(s, c->node);
	if (is_cluster(s) && c == &s->node[c->node].scripts)
		cluster_ready(s);
}

static void unfit(struct conn *c, bool replica)
{
	struct store *s = c->store;

	/* Sentinel will name another server. */
	s->unfit = !s->sentinel;
	if (replica && s->sentinel)
		sentinel_doubt(s->sentinel);
}

static const struct conn_events conn_events = {
	.opened = store_greet,
	.ready = ready,
	.unfit = unfit,
	.reply = handle_reply,
	.push = handle_push,
	.closed = closed,
};

static void run_failed(struct command_queue *q)
{
	struct command_queue all = *q;
	struct command *cmd;

	memset(q, 0, sizeof(*q));
	while ((cmd = commands_pop(&all))) {
		if (cmd->result == STORE_OK)
			cmd->result = STORE_UNKNOWN;
		finish(cmd);
	}
}

void store_flush(void *arg)
{
	struct store *s = arg;

	run_failed(&s->failed);
	if (s->sentinel)
		sentinel_flush(s->sentinel);
	if (is_cluster(s))
		cluster_flush(s);
	conn_flush(&s->messages);
	run_failed(&s->messages.failed);
	for (unsigned int i = 0; i < ROUTE_NODES_MAX; i++) {
		struct node *n = &s->node[i];

		if (!n->started)
			continue;
		confirm(s, n);
		conn_flush(&n->scripts);
		conn_flush(&n->puts);
		run_failed(&n->scripts.failed);
		run_failed(&n->puts.failed);
	}
}

/* Returns NULL, or why it cannot start. */
static const char *start(struct store *s)
{
	static char text[TLS_WHY_LEN];
	const struct config *c = s->config;

	route_init(&s->route, &c->redis);
	if (c->redis.tls) {
		s->tls = tls_new(c, text);
		if (!s->tls)
			return text;
	}
	if (is_cluster(s) ? cluster_init(s) : node_start(s, 0))
		return "cannot create a timer for a connection: no memory";
	if (node_start_conn(s, 0, &s->messages, true))
		return "cannot create a timer for a connection: no memory";
	if (c->redis.kind != REDIS_SENTINEL)
		return NULL;
	s->sentinel = sentinel_new(s->loop, s->alarms, c, s->tls, master_is, s);
	return s->sentinel ? NULL : "no memory";
}

struct store *store_new(struct loop *loop, struct alarms *alarms, const struct config *config,
			const struct store_events *events, const char *const *channels,
			const char **why)
{
	struct store *s = calloc(1, sizeof(*s));

	*why = "no memory";
	if (!s)
		return NULL;
	s->loop = loop;
	s->alarms = alarms;
	s->config = config;
	s->conn_events = &conn_events;
	s->events = *events;
	snprintf(s->why, sizeof(s->why), "not connected yet");
	for (unsigned int i = 0; channels[i]; i++)
		store_key(s, s->channels[s->nr_channels++], channels[i]);
	for (unsigned int i = 0; i < SCRIPTS; i++)
		source_init(&s->source[i], i);
	*why = start(s);
	if (!*why)
		return s;
	store_free(s);
	return NULL;
}

void store_trust(struct store *s, struct tls *tls)
{
	tls_replace(s->tls, tls);
}

void store_close(struct store *s)
{
	conn_end(&s->messages);
	for (unsigned int i = 0; i < ROUTE_NODES_MAX; i++) {
		struct node *n = &s->node[i];

		if (!n->started)
			continue;
		conn_end(&n->scripts);
		if (n->puts.alarms)
			conn_end(&n->puts);
		n->told = false;
		/* These are the commands whose WAIT failed just now. */
		run_failed(&n->confirming);
	}
	run_failed(&s->cluster.waiting);
	/*
	 * The function of a command that fails may send another command, which then fails as well.
	 */
	for (unsigned int i = 0; i < 4; i++)
		store_flush(s);
}

void store_free(struct store *s)
{
	struct command *cmd;

	if (!s)
		return;
	for (unsigned int i = 0; i < ROUTE_NODES_MAX; i++)
		node_stop(s, i);
	if (s->messages.alarms)
		conn_free(&s->messages);
	cluster_free(s);
	while ((cmd = commands_pop(&s->failed)))
		command_free(cmd);
	sentinel_free(s->sentinel);
	tls_free(s->tls);
	free(s);
}

bool store_up(const struct store *s)
{
	return nodes_any(s) != ROUTE_NONE;
}

bool store_whole(const struct store *s)
{
	return nodes_whole(s);
}

unsigned int store_lane_node(const struct store *s, const char *queue, unsigned int lane)
{
	char key[160];

	lane_key(s, key, queue, lane, key_names[0]);
	return route_node(&s->route, key);
}

unsigned int store_key_node(const struct store *s, const char *key)
{
	return route_node(&s->route, key);
}

bool store_node_ready(const struct store *s, unsigned int node)
{
	return node_ready(s, node);
}

const char *store_why(const struct store *s)
{
	return store_up(s) ? NULL : s->why;
}

const char *store_text(const struct store *s)
{
	return s->why[0] ? s->why : "no reachable node serves some slots of the cluster";
}

const char *store_refusal(const struct store *s, unsigned int node)
{
	return s->node[node].refusal;
}

bool store_unfit(const struct store *s)
{
	return s->unfit;
}

const char *store_key(const struct store *s, char buf[160], const char *name)
{
	snprintf(buf, 160, "%s%s", s->config->prefix, name);
	return buf;
}

void store_ping(struct store *s)
{
	struct args a = { 0 };

	/* A master that hangs does not break its connections, so ask. */
	if (s->sentinel)
		sentinel_ask(s->sentinel);
	if (is_cluster(s))
		cluster_beat(s);
	if (s->messages.state != CONN_READY || s->messages.queue.head)
		return;
	args_text(&a, "PING");
	conn_push(&s->messages, make_command(NULL, 0, &a, NULL, NULL), COMMAND_TIMEOUT);
}

const struct store_stats *store_stats(const struct store *s)
{
	return &s->stats;
}

bool store_next_node(const struct store *s, unsigned int *n, char name[ROUTE_NAME_LEN], bool *up)
{
	/* No node has slots before the first map. */
	bool mapped = false;

	for (unsigned int i = 0; i < ROUTE_NODES_MAX; i++)
		mapped |= s->route.node[i].slots;
	while (*n < ROUTE_NODES_MAX &&
	       !(s->node[*n].started && (s->route.node[*n].slots || !mapped)))
		++*n;
	if (*n >= ROUTE_NODES_MAX)
		return false;
	route_name(&s->route, *n, name);
	*up = s->node[*n].told;
	return true;
}
