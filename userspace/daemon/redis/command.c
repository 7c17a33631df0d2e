// SPDX-License-Identifier: GPL-2.0
/* A command for Redis. See command.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/command.h"
#include "redis/slot.h"

void args_bytes(struct args *a, const void *data, size_t len)
{
	if (a->count == a->room) {
		unsigned int room = a->room ? 2 * a->room : 16;
		size_t *more = realloc(a->len, room * sizeof(*more));

		if (!more) {
			a->failed = true;
			return;
		}
		a->len = more;
		a->room = room;
	}
	if (a->text_len + len > a->text_room) {
		size_t room = 2 * (a->text_len + len) + 256;
		char *more = realloc(a->text, room);

		if (!more) {
			a->failed = true;
			return;
		}
		a->text = more;
		a->text_room = room;
	}
	if (len)
		memcpy(a->text + a->text_len, data, len);
	a->text_len += len;
	a->len[a->count++] = len;
}

void args_text(struct args *a, const char *text)
{
	args_bytes(a, text, strlen(text));
}

void args_u64(struct args *a, uint64_t n)
{
	char text[24];

	args_bytes(a, text, snprintf(text, sizeof(text), "%llu", (unsigned long long)n));
}

void args_free(struct args *a)
{
	free(a->text);
	free(a->len);
	memset(a, 0, sizeof(*a));
}

/* ---- Periods ---- */

static uint64_t period;
/* Commands that have not ended, of the present period and of the one before. */
static size_t commands[2];

uint64_t commands_period(void)
{
	return period;
}

void commands_next_period(void)
{
	if (!commands[(period + 1) % 2])
		period++;
}

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

	/*
	 * If memory is exhausted here, the kernel does not overcommit, and there is no way to
	 * continue.
	 */
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
	cmd->slot = ROUTE_SLOTS;
	cmd->ask = ROUTE_NONE;
	cmd->argc = argc;
	cmd->fn = fn;
	cmd->arg = arg;
	cmd->period = period;
	commands[period % 2]++;
	free(argv);
	free(len);
	args_free(a);
	return cmd;
}

void commands_add(struct command_queue *q, struct command *cmd)
{
	cmd->next = NULL;
	if (q->tail)
		q->tail->next = cmd;
	else
		q->head = cmd;
	q->tail = cmd;
}

struct command *commands_pop(struct command_queue *q)
{
	struct command *cmd = q->head;

	if (!cmd)
		return NULL;
	q->head = cmd->next;
	if (!q->head)
		q->tail = NULL;
	cmd->next = NULL;
	return cmd;
}

void command_free(struct command *cmd)
{
	commands[cmd->period % 2]--;
	if (cmd->reply)
		freeReplyObject(cmd->reply);
	redisFreeCommand(cmd->text);
	free(cmd);
}
