/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A command for Redis: its arguments while they are being added, and the function that waits for
 * its answer. This file does no I/O.
 */
#ifndef TWHEELD_REDIS_COMMAND_H
#define TWHEELD_REDIS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

enum store_result {
	/* There is a reply. */
	STORE_OK,
	/* Redis answered with an error, so nothing was done. */
	STORE_REFUSED,
	/* Redis has no memory left, so nothing was done. */
	STORE_FULL,
	/* Redis could not be reached, so nothing was done. */
	STORE_DOWN,
	/* The connection broke, or too few replicas answered, so it may have been done. */
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
 * struct args - the arguments of a command, as they grow
 * @text: all of them, one after the other
 * @text_len: bytes of them
 * @text_room: bytes that @text has room for
 * @len: length of each
 * @count: how many
 * @room: how many @len has room for
 * @failed: there was no memory; the command will be refused
 * @confirm: with wait-replicas: the answer waits until the replicas have what was written
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
	bool confirm;
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
 * @timeout: how long Redis may take for it, after its answer to the command before, ns
 * @deadline: when the connection is ended for it
 * @period: in which it was made
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
	uint64_t timeout;
	uint64_t deadline;
	uint64_t period;
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

/**
 * command_free() - free a command and the reply that it keeps
 */
void command_free(struct command *cmd);

/**
 * make_command() - a command of @count arguments and those of @a
 * @fixed: the first arguments
 * @count: how many
 * @a: the others; freed here
 * @fn: called with the answer, or NULL
 * @arg: for @fn
 */
struct command *make_command(const char **fixed, unsigned int count, struct args *a,
			     store_fn *fn, void *arg);

/**
 * commands_period() - the number of the present period
 *
 * What no command of a later period refers to can be freed two periods later.
 */
uint64_t commands_period(void);

/**
 * commands_next_period() - begin a new period, unless commands of the one before have not ended
 */
void commands_next_period(void);

#endif /* TWHEELD_REDIS_COMMAND_H */
