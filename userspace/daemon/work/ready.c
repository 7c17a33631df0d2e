// SPDX-License-Identifier: GPL-2.0
/*
 * Finds out if Redis accepts writes. See ready.h.
 *
 * Before it runs a script, Redis rejects it for what it is allowed to do: MISCONF, NOREPLICAS, OOM
 * and the like. So a put without a task shows if one with a task would be done, and its WAIT shows
 * if enough replicas would confirm it. It writes nothing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ground/log.h"
#include "redis/script.h"
#include "redis/store.h"
#include "work/ready.h"

/* No client can make a queue with this name. Its lanes are spread over the nodes. */
#define QUEUE	"."
#define LANES	256

/**
 * struct asked - a node that was asked
 */
struct asked {
	struct daemon *daemon;
	unsigned int node;
};

static uint64_t bit(unsigned int node)
{
	return 1ULL << node;
}

static void refuses(struct daemon *d, unsigned int node, const char *why)
{
	bool known = d->refusing;

	d->refusing |= bit(node);
	snprintf(d->refusal, sizeof(d->refusal), "Redis refuses writes: %s", why);
	if (!known)
		log_often(LOG_ERR, "%s", d->refusal);
}

static void answered(void *arg, enum store_result result, const redisReply *reply)
{
	struct asked *asked = arg;
	struct daemon *d = asked->daemon;
	unsigned int node = asked->node;

	(void)reply;
	free(asked);
	/* If the connection is broken, that is reported anyway. */
	if (!store_node_ready(d->store, node))
		return;
	if (result == STORE_REFUSED || result == STORE_FULL)
		refuses(d, node, store_refusal(d->store, node));
	else if (result == STORE_UNKNOWN && d->config.wait_replicas)
		refuses(d, node, "fewer replicas than wait-replicas confirm them");
	else if (result == STORE_OK && d->refusing & bit(node))
		d->refusing &= ~bit(node);
	else
		return;
	if (!d->refusing)
		log_often(LOG_NOTICE, "Redis takes writes again");
}

static void ask(struct daemon *d, unsigned int lane, unsigned int node)
{
	struct asked *asked = malloc(sizeof(*asked));
	struct args a = { .confirm = true };

	if (!asked)
		abort();
	asked->daemon = d;
	asked->node = node;
	put_args_begin(&a, 1);
	store_script(d->store, SCRIPT_PUT, QUEUE, lane, &a, answered, asked);
}

void ready_ask(struct daemon *d)
{
	uint64_t nodes = 0;

	for (unsigned int i = 0; i < LANES; i++) {
		unsigned int node = store_lane_node(d->store, QUEUE, i);

		if (!store_node_ready(d->store, node) || nodes & bit(node))
			continue;
		nodes |= bit(node);
		ask(d, i, node);
	}
	/* No lane is on the other nodes, so nobody writes there. */
	d->refusing &= nodes;
}
