// SPDX-License-Identifier: GPL-2.0
/* Redis: nodes, scripts, WAIT, Sentinel. See store.h. */
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lua/scripts.h"
#include "log.h"
#include "sentinel.h"
#include "store.h"
#include "store_internal.h"

#define KEYS		8
/* EVALSHA, its hash, the number of keys, the keys. */
#define SCRIPT_FIXED	(3 + KEYS)

static const char *const key_names[KEYS] = {
	"due", "run", "hdr", "body", "dead", "done", "note", "ctl",
};

/* ---- Commands ---- */

struct command *make_command(const char **fixed, unsigned int count, struct args *a,
			     store_fn *fn, void *arg)
{
	struct command *cmd = calloc(1, sizeof(*cmd));
	unsigned int argc = count + a->count;
	const char **argv = malloc(argc * sizeof(*argv));
	size_t *len = malloc(argc * sizeof(*len));
	size_t at = 0;
	long long n = -1;

	/* Out of memory here means a kernel without overcommit: there is no way on. */
	if (!cmd || !argv || !len)
		abort();
	for (unsigned int i = 0; i < count; i++) {
		argv[i] = fixed[i];
		len[i] = strlen(fixed[i]);
	}
	for (unsigned int i = 0; i < a->count; i++) {
		argv[count + i] = a->text + at;
		len[count + i] = a->len[i];
		at += a->len[i];
	}
	if (!a->failed)
		n = redisFormatCommandArgv(&cmd->text, argc, argv, len);
	cmd->len = n > 0 ? n : 0;
	cmd->script = -1;
	cmd->argc = argc;
	cmd->fn = fn;
	cmd->arg = arg;
	free(argv);
	free(len);
	args_free(a);
	return cmd;
}

static void push(struct store *s, struct conn *c, struct command *cmd)
{
	if (c->state == CONN_READY && cmd->len) {
		conn_push(c, cmd, COMMAND_TIMEOUT);
		return;
	}
	cmd->result = STORE_DOWN;
	commands_add(&s->failed, cmd);
	loop_again(s->loop);
}

void store_command(struct store *s, const char *tag, struct args *a, store_fn *fn, void *arg)
{
	struct node *n = &s->node[route_node(&s->route, tag)];

	push(s, &n->scripts, make_command(NULL, 0, a, fn, arg));
}

void store_script(struct store *s, enum store_script script, const char *queue,
		  unsigned int lane, struct args *a, store_fn *fn, void *arg)
{
	const char *fixed[SCRIPT_FIXED] = { "EVALSHA", s->source[script].sha, "8" };
	char key[KEYS][160], tag[80], mark[64];
	struct command *cmd;
	struct node *n;
	struct conn *c;

	snprintf(tag, sizeof(tag), "%.64s/%u", queue, lane);
	for (unsigned int i = 0; i < KEYS; i++) {
		snprintf(key[i], sizeof(key[i]), "%s{%s}:%s", s->config->prefix, tag,
			 key_names[i]);
		fixed[3 + i] = key[i];
	}
	cmd = make_command(fixed, SCRIPT_FIXED, a, fn, arg);
	cmd->script = script;
	/* "*N\r\n$7\r\nEVALSHA\r\n$40\r\n<hash>\r\n": the rest is the same for EVAL. */
	cmd->tail = snprintf(mark, sizeof(mark), "*%u\r\n$7\r\nEVALSHA\r\n$40\r\n", cmd->argc) + 42;
	n = &s->node[route_node(&s->route, tag)];
	c = &n->scripts;
	if (script == SCRIPT_PUT && s->config->wait_replicas) {
		c = &n->puts;
		cmd->confirm = true;
		n->unconfirmed = true;
	}
	push(s, c, cmd);
}

/* Redis does not know the hash: sends the source. */
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

static void measure(struct store *s, const struct command *cmd, const redisReply *reply,
		    uint64_t received)
{
	long long us;

	s->stats.calls[cmd->script]++;
	s->stats.seconds[cmd->script] += (received - cmd->sent) / 1e9;
	if (reply->type != REDIS_REPLY_ARRAY || !reply->elements)
		return;
	reply = reply->element[0];
	us = reply->type == REDIS_REPLY_INTEGER ? reply->integer :
	     reply->type == REDIS_REPLY_STRING ? atoll(reply->str) : 0;
	if (us > 0)
		s->events.time(s->events.arg, us, cmd->sent, received);
}

bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* A server that is not what it was when it was greeted is greeted anew. */
static bool turned_away(const char *error)
{
	return begins(error, "READONLY") || begins(error, "LOADING") ||
	       begins(error, "MASTERDOWN") || begins(error, "NOAUTH");
}

static void handle_reply(struct conn *c, struct command *cmd, redisReply *reply, uint64_t received)
{
	struct store *s = c->store;

	cmd->reply = reply;
	cmd->result = STORE_OK;
	if (reply->type == REDIS_REPLY_ERROR && c->state == CONN_READY) {
		if (cmd->script >= 0 && !cmd->evaluated && begins(reply->str, "NOSCRIPT")) {
			freeReplyObject(reply);
			cmd->reply = NULL;
			evaluate(c, cmd);
			return;
		}
		cmd->result = begins(reply->str, "OOM") ? STORE_FULL : STORE_REFUSED;
		if (turned_away(reply->str)) {
			cmd->result = STORE_DOWN;
			conn_close(c, reply->str);
		} else if (cmd->result == STORE_REFUSED) {
			log_often(LOG_ERR, "Redis refused %s: %s", cmd->script < 0 ?
				  "a command" : store_script_name(cmd->script), reply->str);
		}
	} else if (cmd->script >= 0) {
		measure(s, cmd, reply, received);
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

static void closed(struct conn *c, const char *why)
{
	struct store *s = c->store;
	struct node *n = &s->node[c->node];
	struct command *cmd;
	bool was = !s->why[0];

	if (c == &n->puts) {
		while ((cmd = commands_pop(&n->confirming))) {
			cmd->result = STORE_UNKNOWN;
			commands_add(&c->failed, cmd);
		}
		return;
	}
	if (c->subscribe)
		return;
	if (s->sentinel)
		sentinel_ask(s->sentinel);
	snprintf(s->why, sizeof(s->why), "%s", why);
	s->events.down(s->events.arg, was ? s->why : NULL);
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
	wheel_arm(c->wheel, &c->retry, 1);
}

static void master_is(void *arg, const struct redis_node *master)
{
	struct store *s = arg;
	struct node *n = &s->node[0];

	if (!route_move(&s->route, master))
		return;
	log_line(LOG_NOTICE, "Sentinel: the master is %s:%u", master->host, master->port);
	connect_anew(&n->scripts);
	connect_anew(&n->messages);
	if (s->config->wait_replicas)
		connect_anew(&n->puts);
}

/* ---- The store ---- */

static const struct conn_events conn_events = {
	.opened = store_greet,
	.reply = handle_reply,
	.push = handle_push,
	.closed = closed,
};

static int start_conn(struct store *s, unsigned int node, struct conn *c, bool subscribes)
{
	int ret;

	c->loop = s->loop;
	c->wheel = s->wheel;
	c->events = &conn_events;
	c->store = s;
	c->node = node;
	c->address = &s->route.node[node];
	c->tls = s->tls;
	c->subscribe = subscribes;
	ret = conn_init(c);
	/* From the loop, so that nothing is told before the store is known. */
	return ret ? ret : wheel_arm(s->wheel, &c->retry, 1);
}

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
	for (unsigned int i = 0; i < s->route.nodes; i++) {
		struct node *n = &s->node[i];

		confirm(s, n);
		conn_flush(&n->scripts);
		conn_flush(&n->puts);
		conn_flush(&n->messages);
		run_failed(&n->scripts.failed);
		run_failed(&n->puts.failed);
		run_failed(&n->messages.failed);
	}
}

static void hash(struct source *src)
{
	unsigned char sha[SHA_DIGEST_LENGTH];

	SHA1((const unsigned char *)src->text, src->len, sha);
	for (unsigned int i = 0; i < sizeof(sha); i++)
		sprintf(src->sha + 2 * i, "%02x", sha[i]);
}

struct store *store_new(struct loop *loop, struct wheel *wheel, const struct config *config,
			const struct store_events *events, const char *const *channels,
			const char **why)
{
	struct store *s = calloc(1, sizeof(*s));

	*why = "no memory";
	if (!s)
		return NULL;
	s->loop = loop;
	s->wheel = wheel;
	s->config = config;
	s->events = *events;
	snprintf(s->why, sizeof(s->why), "not connected yet");
	*why = route_init(&s->route, &config->redis);
	if (*why) {
		free(s);
		return NULL;
	}
	if (config->redis.tls) {
		static char text[TLS_WHY_LEN];

		s->tls = tls_new(config, text);
		if (!s->tls) {
			*why = text;
			free(s);
			return NULL;
		}
	}
	for (unsigned int i = 0; channels[i]; i++)
		store_key(s, s->channels[s->nr_channels++], channels[i]);
	for (unsigned int i = 0; i < SCRIPTS; i++) {
		s->source[i] = (struct source){ script_source(i), script_length(i), "" };
		hash(&s->source[i]);
	}
	for (unsigned int i = 0; i < s->route.nodes; i++) {
		struct node *n = &s->node[i];

		if (start_conn(s, i, &n->scripts, false) || start_conn(s, i, &n->messages, true) ||
		    (config->wait_replicas && start_conn(s, i, &n->puts, false))) {
			*why = "no timers";
			store_free(s);
			return NULL;
		}
	}
	if (config->redis.kind == REDIS_SENTINEL) {
		s->sentinel = sentinel_new(loop, wheel, config, s->tls, master_is, s);
		if (!s->sentinel) {
			*why = "no memory";
			store_free(s);
			return NULL;
		}
	}
	return s;
}

void store_close(struct store *s)
{
	for (unsigned int i = 0; i < s->route.nodes; i++) {
		conn_end(&s->node[i].scripts);
		conn_end(&s->node[i].messages);
		conn_end(&s->node[i].puts);
		/* Those whose WAIT failed just now. */
		run_failed(&s->node[i].confirming);
	}
	/* What fails may send another command, which fails as well. */
	for (unsigned int i = 0; i < 4; i++)
		store_flush(s);
}

void store_free(struct store *s)
{
	struct command *cmd;

	if (!s)
		return;
	for (unsigned int i = 0; i < s->route.nodes; i++) {
		struct node *n = &s->node[i];

		s->events.down = NULL;
		conn_free(&n->scripts);
		conn_free(&n->messages);
		if (s->config->wait_replicas)
			conn_free(&n->puts);
		while ((cmd = commands_pop(&n->confirming)))
			command_free(cmd);
	}
	while ((cmd = commands_pop(&s->failed)))
		command_free(cmd);
	sentinel_free(s->sentinel);
	tls_free(s->tls);
	free(s);
}

bool store_up(const struct store *s)
{
	return s->node[0].scripts.state == CONN_READY;
}

const char *store_why(const struct store *s)
{
	return store_up(s) ? NULL : s->why;
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
	/* A master that hangs breaks no connection. */
	if (s->sentinel)
		sentinel_ask(s->sentinel);
	for (unsigned int i = 0; i < s->route.nodes; i++) {
		struct conn *c = &s->node[i].messages;
		struct args a = { 0 };

		if (c->state != CONN_READY || c->queue.head)
			continue;
		args_text(&a, "PING");
		conn_push(c, make_command(NULL, 0, &a, NULL, NULL), COMMAND_TIMEOUT);
	}
}

const char *store_script_name(enum store_script script)
{
	static const char *const names[] = {
		"put", "take", "ack", "renew", "recover", "change", "sweep", "look", "pause",
	};

	return names[script];
}

const struct store_stats *store_stats(const struct store *s)
{
	return &s->stats;
}

bool store_node_up(const struct store *s, unsigned int n, char name[ROUTE_NAME_LEN], bool *up)
{
	if (n >= s->route.nodes)
		return false;
	route_name(&s->route, n, name);
	*up = s->node[n].scripts.state == CONN_READY;
	return true;
}
