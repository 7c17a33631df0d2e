// SPDX-License-Identifier: GPL-2.0
/*
 * What a server must be, before it is used. See greet.h.
 *
 * A connection for scripts greets the server before it is used:
 *
 *   AUTH, SELECT, CLIENT SETNAME	as configured
 *   INFO server		does it know the flags of scripts
 *   INFO			is it a master, does it evict, which start is it
 *   SCRIPT LOAD		all scripts, so that the first EVALSHA finds them
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/log.h"
#include "redis/greet.h"
#include "redis/node.h"

/* The first version with flags for scripts. Without these, a full Redis could not be drained. */
#define MAJOR_MIN	7

static void greet(struct conn *c, struct args *a, store_fn *fn)
{
	conn_push(c, make_command(NULL, 0, a, fn, c), COMMAND_TIMEOUT);
}

static void must_succeed(void *arg, enum store_result result, const redisReply *reply)
{
	struct conn *c = arg;

	if (result == STORE_OK && reply->type == REDIS_REPLY_ERROR)
		conn_close(c, reply->str);
}

/* Finds the value of "name:value" in an answer to INFO. */
static const char *info(const char *text, const char *name, char *value, size_t len)
{
	const char *at = strstr(text, name);
	size_t n;

	value[0] = '\0';
	if (!at)
		return value;
	at += strlen(name);
	n = strcspn(at, "\r\n");
	snprintf(value, len, "%.*s", (int)n, at);
	return value;
}

static void refuse(struct conn *c, const char *why, bool replica)
{
	c->events->unfit(c, replica);
	conn_close(c, why);
}

static void judge_version(void *arg, enum store_result result, const redisReply *reply)
{
	struct conn *c = arg;
	char value[24], why[100];

	/* If there is no answer, INFO of all sections reports the reason. */
	if (result != STORE_OK || reply->type != REDIS_REPLY_STRING)
		return;
	info(reply->str, "\nredis_version:", value, sizeof(value));
	if (strtoul(value, NULL, 10) >= MAJOR_MIN)
		return;
	snprintf(why, sizeof(why), "Redis has the version %s, but twheeld needs %d.0", value,
		 MAJOR_MIN);
	refuse(c, why, false);
}

static void judge(void *arg, enum store_result result, const redisReply *reply)
{
	struct conn *c = arg;
	struct node *n = &c->store->node[c->node];
	char value[RUN_ID_LEN], why[128];

	if (result != STORE_OK)
		return;
	if (reply->type != REDIS_REPLY_STRING) {
		conn_close(c, reply->type == REDIS_REPLY_ERROR ? reply->str :
			   "Redis did not answer INFO with text");
		return;
	}
	if (!strcmp(info(reply->str, "\nloading:", value, sizeof(value)), "1")) {
		conn_close(c, "Redis is loading its data");
		return;
	}
	info(reply->str, "\nredis_mode:", value, sizeof(value));
	if (is_cluster(c->store) != !strcmp(value, "cluster")) {
		refuse(c, is_cluster(c->store) ? "Redis is not a node of a cluster" :
		       "Redis is a node of a cluster: use cluster:// in the URL", false);
		return;
	}
	info(reply->str, "\nrole:", value, sizeof(value));
	/*
	 * In a cluster, a replica is fine: it knows the map, and commands only go to nodes with
	 * slots.
	 */
	if (strcmp(value, "master") && !is_cluster(c->store)) {
		refuse(c, "Redis is a read-only replica", true);
		return;
	}
	info(reply->str, "\nmaxmemory_policy:", value, sizeof(value));
	if (!strncmp(value, "allkeys-", strlen("allkeys-"))) {
		snprintf(why, sizeof(why), "Redis may evict tasks: maxmemory-policy is %s, not noeviction",
			 value);
		refuse(c, why, false);
		return;
	}
	info(reply->str, "\naof_enabled:", value, sizeof(value));
	if (!strcmp(value, "0")) {
		if (c->store->config->strict) {
			refuse(c, "Redis has no append-only file, and strict is set", false);
			return;
		}
		log_once("Redis has no append-only file: a restart of Redis may lose tasks");
	}
	info(reply->str, "\nconnected_slaves:", value, sizeof(value));
	if (strtoul(value, NULL, 10) < c->store->config->wait_replicas)
		log_once("Redis has fewer replicas than wait-replicas, so each change is answered with "
			 "503 fate_unknown");
	info(reply->str, "\nrun_id:", value, sizeof(value));
	n->changed |= n->run_id[0] && strcmp(n->run_id, value);
	memcpy(n->run_id, value, sizeof(n->run_id));
	conn_ready(c);
}

static void puts_ready(void *arg, enum store_result result, const redisReply *reply)
{
	struct conn *c = arg;

	if (result != STORE_OK || reply->type == REDIS_REPLY_ERROR)
		return;
	conn_ready(c);
}

static void load_scripts(struct conn *c)
{
	for (unsigned int i = 0; i < SCRIPTS; i++) {
		struct args a = { 0 };

		args_text(&a, "SCRIPT");
		args_text(&a, "LOAD");
		args_bytes(&a, c->store->source[i].text, c->store->source[i].len);
		greet(c, &a, must_succeed);
	}
}

static void subscribe(struct conn *c)
{
	struct args a = { 0 };

	args_text(&a, "SUBSCRIBE");
	for (unsigned int i = 0; i < c->store->nr_channels; i++)
		args_text(&a, c->store->channels[i]);
	/*
	 * There is an answer for each channel. The reader takes them for messages, except for an
	 * error.
	 */
	greet(c, &a, must_succeed);
}

void store_greet(struct conn *c)
{
	const struct config *config = c->store->config;
	struct args a = { 0 };

	if (config->redis_password[0]) {
		args_text(&a, "AUTH");
		if (config->redis_user[0])
			args_text(&a, config->redis_user);
		args_text(&a, config->redis_password);
		greet(c, &a, must_succeed);
	}
	if (c->address->db) {
		args_text(&a, "SELECT");
		args_u64(&a, c->address->db);
		greet(c, &a, must_succeed);
	}
	if (c->subscribe) {
		subscribe(c);
		return;
	}
	args_text(&a, "CLIENT");
	args_text(&a, "SETNAME");
	args_text(&a, "twheeld");
	greet(c, &a, NULL);
	if (c == &c->store->node[c->node].puts) {
		args_text(&a, "PING");
		greet(c, &a, puts_ready);
		return;
	}
	args_text(&a, "INFO");
	args_text(&a, "server");
	greet(c, &a, judge_version);
	load_scripts(c);
	args_text(&a, "INFO");
	greet(c, &a, judge);
}
