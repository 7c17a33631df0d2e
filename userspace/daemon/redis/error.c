// SPDX-License-Identifier: GPL-2.0
/* What an error of Redis means. See error.h. */
#include <string.h>

#include "redis/error.h"

static const struct redis_error errors[] = {
	{ "MOVED ", STORE_REFUSED, ROUTE_MOVED, .map = true },
	{ "ASK ", STORE_REFUSED, ROUTE_ASK, .map = true },
	{ "TRYAGAIN", STORE_REFUSED, ROUTE_LATER },
	{ "CLUSTERDOWN", STORE_REFUSED, ROUTE_LATER, .map = true },
	{ "MASTERDOWN", STORE_DOWN, ROUTE_LATER, .map = true, .greet = true },
	{ "READONLY", STORE_DOWN, ROUTE_LATER, .map = true, .greet = true },
	{ "LOADING", STORE_DOWN, ROUTE_LATER, .map = true, .greet = true },
	{ "NOAUTH", STORE_DOWN, ROUTE_OTHER, .greet = true },
	{ "OOM", STORE_FULL, ROUTE_OTHER },
	{ "NOSCRIPT", STORE_REFUSED, ROUTE_OTHER, .evaluate = true },
	/* Any other. */
	{ "", STORE_REFUSED, ROUTE_OTHER },
};

const struct redis_error *redis_error(const char *text)
{
	const struct redis_error *e = errors;

	while (strncmp(text, e->word, strlen(e->word)))
		e++;
	return e;
}
