// SPDX-License-Identifier: GPL-2.0
/* Which token a request has, and what that may do. See access.h. */
#include <string.h>
#include <strings.h>

#include <microhttpd.h>
#include <openssl/crypto.h>

#include "ground/log.h"
#include "http/access.h"
#include "work/work.h"

/*
 * What a request may do that comes over a Unix socket, or over this machine's address if there is
 * no token-file.
 */
static const struct bearer everything = {
	.verbs = BEARER_ALL,
	.queues = "*",
};

/* Takes the same time for every token and every text. */
static const struct bearer *find_token(const struct config *config, const char *text)
{
	char given[BEARER_LEN] = "";
	const struct bearer *found = NULL;

	if (strlen(text) >= sizeof(given))
		return NULL;
	memcpy(given, text, strlen(text));
	for (size_t i = 0; i < config->tokens; i++) {
		if (!CRYPTO_memcmp(given, config->token[i].text, sizeof(given)))
			found = &config->token[i];
	}
	return found;
}

const struct bearer *access_token(const struct request *r)
{
	const struct config *config = &r->daemon->config;
	const char *given;

	if (!config->tokens)
		return r->on->local ? &everything : NULL;
	if (r->on->sa.ss_family == AF_UNIX)
		return &everything;
	given = MHD_lookup_connection_value(r->conn, MHD_HEADER_KIND, "Authorization");
	if (!given || strncasecmp(given, "Bearer ", strlen("Bearer ")))
		return NULL;
	return find_token(config, given + strlen("Bearer "));
}

bool access_admit(struct request *r, enum verb wants, bool all)
{
	const struct bearer *t = access_token(r);

	if (!t) {
		request_error(r, 401, "unauthorized", NULL, "this address requires a bearer token");
		return false;
	}
	if (!(t->verbs & wants)) {
		log_often(LOG_NOTICE, "a request was refused: the token %s lacks the verb %s",
			  t->name, verb_name(wants));
		request_error(r, 403, "forbidden", "verb", "the token %s lacks the verb %s",
			      t->name, verb_name(wants));
		return false;
	}
	if (r->queue ? !bearer_sees(t, r->queue) : all && !bearer_sees_all(t)) {
		log_often(LOG_NOTICE, "a request was refused: the token %s is not for %s%s",
			  t->name, r->queue ? "queue " : "all queues", r->queue ? r->queue : "");
		request_error(r, 403, "forbidden", "queue", "the token %s is not for %s", t->name,
			      r->queue ? "this queue" : "all queues");
		return false;
	}
	return true;
}

json_t *access_verbs(const struct request *r)
{
	const struct bearer *t = access_token(r);
	json_t *list = json_array();

	for (unsigned int i = 0; i < BEARER_VERBS && t; i++) {
		if (t->verbs & 1U << i)
			json_array_append_new(list, json_string(verb_name(1U << i)));
	}
	return list;
}
