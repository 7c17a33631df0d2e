/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One connection to Redis: a socket, a queue of commands, a reader. Only store.c uses it.
 *
 *   queue   head ... sent ... | unsent ... tail
 *           ^ next answer       ^ next write
 */
#ifndef TWHEELD_REDIS_CONN_H
#define TWHEELD_REDIS_CONN_H

#include <hiredis/hiredis.h>

#include "ground/loop.h"
#include "ground/alarm.h"
#include "redis/resolve.h"
#include "redis/route.h"
#include "redis/store.h"
#include "redis/tls.h"

struct conn;

/**
 * struct command - one that waits for its answer
 * @next: the next in its queue
 * @text: what is sent, as RESP; of redisFormatCommandArgv()
 * @len: its length
 * @tail: of EVALSHA: where the part behind the hash begins
 * @argc: of EVALSHA: number of its arguments
 * @script: of EVALSHA, else -1
 * @evaluated: the source was sent, after NOSCRIPT
 * @confirm: the answer waits for the WAIT behind it
 * @slot: of its key, or ROUTE_SLOTS for a command that any node takes
 * @ask: the node that an ASK named, or ROUTE_NONE
 * @redirects: how often a node of the cluster refused it
 * @give_up: when it is not sent again; 0: it was not refused yet
 * @sent: when its first byte was written; 0: not yet
 * @deadline: when the connection is ended for it
 * @fn: of the caller, or NULL
 * @arg: for @fn
 * @result: what becomes of it
 * @reply: kept until the WAIT is answered
 */
struct command {
	struct command *next;
	char *text;
	size_t len;
	size_t tail;
	unsigned int argc;
	int script;
	bool evaluated;
	bool confirm;
	unsigned int slot;
	unsigned int ask;
	unsigned int redirects;
	uint64_t give_up;
	uint64_t sent;
	uint64_t deadline;
	store_fn *fn;
	void *arg;
	enum store_result result;
	redisReply *reply;
};

/**
 * struct command_queue - commands in order
 */
struct command_queue {
	struct command *head;
	struct command *tail;
};

void commands_add(struct command_queue *q, struct command *cmd);
struct command *commands_pop(struct command_queue *q);

enum conn_state {
	CONN_CLOSED,
	/* The name of the server is looked up. */
	CONN_RESOLVING,
	CONN_CONNECTING,
	/* The handshake of TLS. */
	CONN_SHAKING,
	/* Connected; store.c asks what the server is. */
	CONN_GREETING,
	CONN_READY,
};

/**
 * struct conn_events - what a connection tells
 * @opened: connected
 * @reply: the answer to a command, which now belongs to the callee, as does the reply
 * @push: an answer without a command
 * @closed: it ended, and all its commands are in @failed of the connection
 */
struct conn_events {
	void (*opened)(struct conn *c);
	void (*reply)(struct conn *c, struct command *cmd, redisReply *reply, uint64_t received);
	void (*push)(struct conn *c, redisReply *reply);
	void (*closed)(struct conn *c, const char *why);
};

/**
 * struct conn - a connection
 * @loop: its loop
 * @alarms: its timers
 * @events: whom it tells
 * @store: for store.c
 * @node: number of its node, for store.c
 * @address: where to connect
 * @tls: what TLS trusts, if @address wants it
 * @session: of TLS, or NULL
 * @state: how far it is
 * @fresh: it was neither ready nor closed yet
 * @subscribe: answers are messages
 * @watch: of the socket, or of @resolve
 * @resolve: the addresses of the server, while they are looked up, or NULL
 * @late: ends the connection when a command is too old
 * @retry: connects again
 * @backoff: until the next retry, ns
 * @reader: of hiredis
 * @queue: commands without an answer
 * @unsent: the first that is not written in full
 * @offset: how much of it is written
 * @failed: commands that have failed; store.c empties it
 */
struct conn {
	struct loop *loop;
	struct alarms *alarms;
	const struct conn_events *events;
	struct store *store;
	unsigned int node;
	const struct route_address *address;
	struct tls *tls;
	struct tls_session *session;
	enum conn_state state;
	bool fresh;
	bool subscribe;
	struct watch watch;
	struct resolve *resolve;
	struct alarm late;
	struct alarm retry;
	uint64_t backoff;
	redisReader *reader;
	struct command_queue queue;
	struct command *unsent;
	size_t offset;
	struct command_queue failed;
};

/**
 * conn_init() - prepare; the caller has set loop to address, and subscribe
 *
 * The timer @retry connects. If that fails, it is armed again, until conn_free().
 *
 * Return: 0, or a negative errno.
 */
int conn_init(struct conn *c);

/**
 * conn_close() - end the connection, and connect again later
 * @c: the connection
 * @why: for closed()
 */
void conn_close(struct conn *c, const char *why);

/**
 * conn_end() - end the connection for ever; its commands are in @failed
 */
void conn_end(struct conn *c);

/**
 * conn_ready() - the server is one that we want
 */
void conn_ready(struct conn *c);

void conn_free(struct conn *c);

/**
 * conn_push() - append a command
 * @c: the connection
 * @cmd: the command; belongs to the connection
 * @timeout: until its deadline, ns
 */
void conn_push(struct conn *c, struct command *cmd, uint64_t timeout);

/**
 * conn_flush() - write what was appended
 */
void conn_flush(struct conn *c);

void command_free(struct command *cmd);

#endif /* TWHEELD_REDIS_CONN_H */
