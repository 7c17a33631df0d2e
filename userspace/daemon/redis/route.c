// SPDX-License-Identifier: GPL-2.0
/* Which node a key is on. See route.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/units.h"
#include "redis/route.h"

/* CRC16 of XMODEM: x^16 + x^12 + x^5 + 1, from 0. */
#define CRC_POLYNOMIAL	0x1021

void route_init(struct route *r, const struct redis_url *url)
{
	struct route_address *a = &r->node[0];

	memset(r, 0, sizeof(*r));
	r->kind = url->kind;
	r->tls = url->tls;
	if (url->kind == REDIS_CLUSTER) {
		memset(r->owner, ROUTE_NONE, sizeof(r->owner));
		for (size_t i = 0; i < url->nodes; i++)
			route_add(r, &url->node[i]);
		return;
	}
	a->used = true;
	a->slots = ROUTE_SLOTS;
	a->tls = url->tls;
	if (url->kind == REDIS_UNIX) {
		a->local = true;
		memcpy(a->path, url->path, sizeof(a->path));
	} else if (url->kind == REDIS_TCP) {
		a->node = url->node[0];
		a->db = url->db;
	}
	/* With Sentinel, nobody knows the master yet: see route_move(). */
}

static unsigned int crc16(const char *text, size_t len)
{
	unsigned int crc = 0;

	for (size_t i = 0; i < len; i++) {
		crc ^= (unsigned int)(unsigned char)text[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 0x8000 ? crc << 1 ^ CRC_POLYNOMIAL : crc << 1;
		crc &= 0xffff;
	}
	return crc;
}

unsigned int route_slot(const char *key)
{
	const char *open = strchr(key, '{');
	const char *end = open ? strchr(open + 1, '}') : NULL;

	if (end && end > open + 1)
		return crc16(open + 1, end - open - 1) % ROUTE_SLOTS;
	return crc16(key, strlen(key)) % ROUTE_SLOTS;
}

unsigned int route_node(const struct route *r, const char *key)
{
	return r->kind == REDIS_CLUSTER ? r->owner[route_slot(key)] : 0;
}

static bool same(const struct redis_node *a, const struct redis_node *b)
{
	return a->port == b->port && !strcmp(a->host, b->host);
}

unsigned int route_add(struct route *r, const struct redis_node *node)
{
	unsigned int empty = ROUTE_NONE;

	for (unsigned int i = ROUTE_NODES_MAX; i-- > 0;) {
		if (!r->node[i].used)
			empty = i;
		else if (same(&r->node[i].node, node))
			return i;
	}
	if (empty != ROUTE_NONE)
		r->node[empty] = (struct route_address){
			.used = true, .node = *node, .tls = r->tls,
		};
	return empty;
}

void route_drop(struct route *r, unsigned int node)
{
	r->node[node].used = false;
}

void route_own(struct route *r, unsigned int slot, unsigned int node)
{
	unsigned int was = r->owner[slot];

	if (was != ROUTE_NONE)
		r->node[was].slots--;
	if (node != ROUTE_NONE)
		r->node[node].slots++;
	r->owner[slot] = node;
}

void route_map_init(struct route_map *m)
{
	memset(m->owner, ROUTE_NONE, sizeof(m->owner));
}

void route_map_range(struct route_map *m, unsigned int from, unsigned int to, unsigned int node)
{
	for (unsigned int slot = from; slot <= to && slot < ROUTE_SLOTS; slot++)
		m->owner[slot] = node;
}

bool route_apply(struct route *r, const struct route_map *m)
{
	bool other = false;

	for (unsigned int slot = 0; slot < ROUTE_SLOTS; slot++) {
		if (r->owner[slot] == m->owner[slot])
			continue;
		other = true;
		route_own(r, slot, m->owner[slot]);
	}
	return other;
}

/* Reads "SLOT HOST:PORT". The host may be empty, and an IPv6 address has no brackets. */
static bool read_target(const char *text, struct route_error *e)
{
	const char *space = strchr(text, ' '), *colon = strrchr(text, ':');
	char number[8];
	uint64_t slot, port;
	size_t len;

	if (!space || !colon || colon < space || (size_t)(space - text) >= sizeof(number))
		return false;
	len = colon - space - 1;
	snprintf(number, sizeof(number), "%.*s", (int)(space - text), text);
	if (len >= sizeof(e->to.host) || parse_number(number, &slot) || slot >= ROUTE_SLOTS ||
	    parse_number(colon + 1, &port) || !port || port > UINT16_MAX)
		return false;
	e->slot = slot;
	memcpy(e->to.host, space + 1, len);
	e->to.host[len] = '\0';
	e->to.port = port;
	return true;
}

void route_error(const char *error, struct route_error *e)
{
	const struct redis_error *row = redis_error(error);

	memset(e, 0, sizeof(*e));
	e->verdict = row->route;
	e->map = row->map;
	/* If the target cannot be read, the map will tell. */
	if ((row->route == ROUTE_MOVED || row->route == ROUTE_ASK) &&
	    !read_target(error + strlen(row->word), e))
		e->verdict = ROUTE_LATER;
}

bool route_move(struct route *r, const struct redis_node *master)
{
	struct redis_node *node = &r->node[0].node;

	if (same(node, master))
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
