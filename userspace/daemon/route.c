// SPDX-License-Identifier: GPL-2.0
/* Which node a key is on. See route.h. */
#include <stdio.h>
#include <string.h>

#include "route.h"

const char *route_init(struct route *r, const struct redis_url *url)
{
	struct route_address *a = &r->node[0];

	memset(r, 0, sizeof(*r));
	r->kind = url->kind;
	a->tls = url->tls;
	switch (url->kind) {
	case REDIS_UNIX:
		a->local = true;
		memcpy(a->path, url->path, sizeof(a->path));
		break;
	case REDIS_TCP:
		a->node = url->node[0];
		a->db = url->db;
		break;
	case REDIS_SENTINEL:
		/* Nobody knows the master yet: see route_move(). */
		break;
	case REDIS_CLUSTER:
		return "cluster:// is not supported by this build";
	}
	r->nodes = 1;
	return NULL;
}

unsigned int route_node(const struct route *r, const char *tag)
{
	(void)r;
	(void)tag;
	return 0;
}

bool route_move(struct route *r, const struct redis_node *master)
{
	struct redis_node *node = &r->node[0].node;

	if (node->port == master->port && !strcmp(node->host, master->host))
		return false;
	*node = *master;
	return true;
}

const char *route_name(const struct route *r, unsigned int node, char buf[ROUTE_NAME_LEN])
{
	const struct route_address *a = &r->node[node];

	if (a->local)
		snprintf(buf, ROUTE_NAME_LEN, "unix:%s", a->path);
	else if (!a->node.port)
		snprintf(buf, ROUTE_NAME_LEN, "unknown");
	else
		snprintf(buf, ROUTE_NAME_LEN, "%s:%u", a->node.host, a->node.port);
	return buf;
}
