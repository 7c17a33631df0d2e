/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Redis. Only the files store*.c and sentinel.c speak to it.
 *
 * Commands are written at the end of a turn of the loop, all of one turn together.
 * Answers come in the order of the commands. Each command has a deadline; when one
 * passes, its connection is ended, and all its commands fail.
 *
 * A node has three connections:
 *
 *   scripts   scripts and plain commands
 *   messages  SUBSCRIBE only
 *   puts      with wait-replicas: the script put, and one WAIT after those of a turn.
 *             WAIT counts only the writes of its own connection, and blocks it
 *
 * The function of a command is called exactly once, from the loop, and never from the
 * function that sent the command.
 */
#ifndef TWHEELD_STORE_H
#define TWHEELD_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "config.h"
#include "loop.h"
#include "wheel.h"

struct store;

enum store_script {
	SCRIPT_PUT,
	SCRIPT_TAKE,
	SCRIPT_ACK,
	SCRIPT_RENEW,
	SCRIPT_RECOVER,
	SCRIPT_CHANGE,
	SCRIPT_SWEEP,
	SCRIPT_LOOK,
	SCRIPT_PAUSE,
	SCRIPTS,
};

enum store_result {
	/* There is a reply. */
	STORE_OK,
	/* Redis answered with an error: nothing was done. */
	STORE_REFUSED,
	/* Redis has no memory left: nothing was done. */
	STORE_FULL,
	/* Redis could not be reached: nothing was done. */
	STORE_DOWN,
	/* The connection broke, or fewer replicas answered: perhaps it was done. */
	STORE_UNKNOWN,
};

/**
 * store_fn - a command ended
 * @arg: of the command
 * @result: what became of it
 * @reply: with STORE_OK the answer, valid during the call; else NULL
 */
typedef void store_fn(void *arg, enum store_result result, const redisReply *reply);

/**
 * struct store_events - what the store tells
 * @arg: first argument of all
 * @time: an answer had Redis's time: microseconds, and when the command was sent
 * @up: scripts can be sent. @changed: it is another server or another start of it
 * @down: scripts cannot be sent; why
 * @subscribed: messages come from now on; some may have been missed
 * @message: a message came; not NUL-terminated
 */
struct store_events {
	void *arg;
	void (*time)(void *arg, uint64_t redis_us, uint64_t sent, uint64_t received);
	void (*up)(void *arg, bool changed);
	void (*down)(void *arg, const char *why);
	void (*subscribed)(void *arg);
	void (*message)(void *arg, const char *channel, const char *text, size_t len);
};

/**
 * struct store_stats - what was measured
 * @calls: answers of a script
 * @seconds: sum of their times, from sending to the answer
 */
struct store_stats {
	uint64_t calls[SCRIPTS];
	double seconds[SCRIPTS];
};

/**
 * store_new() - prepare, and begin to connect
 * @loop: the loop
 * @wheel: for deadlines
 * @config: where Redis is, and how it is used; must live as long as the store
 * @events: copied
 * @channels: names of the channels, without the prefix; NULL ends them
 * @why: out: with NULL, why not
 */
struct store *store_new(struct loop *loop, struct wheel *wheel, const struct config *config,
			const struct store_events *events, const char *const *channels,
			const char **why);

/**
 * store_close() - close all connections; all commands fail, now
 */
void store_close(struct store *s);

/**
 * store_free() - free the store; no function is called
 */
void store_free(struct store *s);

/**
 * store_up() - whether scripts can be sent
 */
bool store_up(const struct store *s);

/**
 * store_why() - why the store is not up, or NULL
 */
const char *store_why(const struct store *s);

/**
 * store_unfit() - whether Redis was reached and refused: it evicts, or is a replica
 */
bool store_unfit(const struct store *s);

/**
 * struct args - the arguments of a command, as they grow
 * @text: all of them, one after the other
 * @text_len: bytes of them
 * @text_room: bytes that @text has room for
 * @len: length of each
 * @count: how many
 * @room: how many @len has room for
 * @failed: there was no memory; the command will be refused
 *
 * Zero is an empty list.
 */
struct args {
	char *text;
	size_t text_len;
	size_t text_room;
	size_t *len;
	unsigned int count;
	unsigned int room;
	bool failed;
};

/**
 * args_bytes() - append an argument; it is copied
 */
void args_bytes(struct args *a, const void *data, size_t len);

/**
 * args_text() - append a string; it is copied
 */
void args_text(struct args *a, const char *text);

/**
 * args_u64() - append a number
 */
void args_u64(struct args *a, uint64_t n);

/**
 * args_free() - free what was appended; @a can be used again
 */
void args_free(struct args *a);

/**
 * store_script() - run a script on a lane
 * @s: the store
 * @script: which
 * @queue: name of the queue
 * @lane: number of the lane
 * @a: its ARGV; freed here
 * @fn: called with the answer, whose first element is Redis's time
 * @arg: for @fn
 */
void store_script(struct store *s, enum store_script script, const char *queue,
		  unsigned int lane, struct args *a, store_fn *fn, void *arg);

/**
 * store_command() - run a plain command
 * @s: the store
 * @tag: hash tag of its key, or NULL
 * @a: the command and its arguments; freed here
 * @fn: called with the answer, or NULL
 * @arg: for @fn
 */
void store_command(struct store *s, const char *tag, struct args *a, store_fn *fn, void *arg);

/**
 * store_key() - the name of a key or channel, with the prefix
 * @s: the store
 * @buf: the result
 * @name: without the prefix
 */
const char *store_key(const struct store *s, char buf[160], const char *name);

/**
 * store_flush() - send what was appended, and tell what failed: at the end of each turn
 * @store: the store
 */
void store_flush(void *store);

/**
 * store_ping() - notice dead connections: each heartbeat
 */
void store_ping(struct store *s);

/**
 * store_script_name() - name of a script, for metrics
 */
const char *store_script_name(enum store_script script);

const struct store_stats *store_stats(const struct store *s);

/**
 * store_node_up() - for metrics: one node after the other
 * @s: the store
 * @n: number of the node
 * @name: out: its address
 * @up: out
 *
 * Return: false if there is no such node.
 */
bool store_node_up(const struct store *s, unsigned int n, char name[300], bool *up);

#endif /* TWHEELD_STORE_H */
