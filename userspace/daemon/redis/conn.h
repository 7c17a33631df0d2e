/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One connection to Redis: a socket, a queue of commands, a reader.
 *
 *   queue   head ... sent ... | unsent ... tail
 *           ^ next answer       ^ next write
 */
#ifndef TWHEELD_REDIS_CONN_H
#define TWHEELD_REDIS_CONN_H

#include <hiredis/hiredis.h>

#include "ground/loop.h"
#include "ground/alarm.h"
#include "redis/command.h"
#include "redis/resolve.h"
#include "redis/route.h"
#include "redis/tls.h"

struct conn;

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
 * @ready: conn_ready() was called; or NULL
 * @unfit: the server will not do, as it is a replica or set up wrongly; it is closed next
 * @reply: the answer to a command, which now belongs to the callee, as does the reply
 * @push: an answer without a command
 * @closed: it ended, and all its commands are in @failed of the connection
 */
struct conn_events {
	void (*opened)(struct conn *c);
	void (*ready)(struct conn *c);
	void (*unfit)(struct conn *c, bool replica);
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
 * @late: ends the connection if the first command of @queue has no answer in time
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
 * @timeout: until its deadline, ns; it begins anew with the answer to the command before
 */
void conn_push(struct conn *c, struct command *cmd, uint64_t timeout);

/**
 * conn_flush() - write what was appended
 */
void conn_flush(struct conn *c);

#endif /* TWHEELD_REDIS_CONN_H */
