// SPDX-License-Identifier: GPL-2.0
/*
 * The node that a key belongs to. The expected slots are those that CLUSTER KEYSLOT of Redis
 * 7.0 returns.
 */
#include "redis/route.h"
#include "tap.h"

static const struct {
	const char *key;
	unsigned int slot;
} slots[] = {
	{ "", 0 },
	{ "123456789", 0x31c3 },
	{ "foo", 12182 },
	{ "hello", 866 },
	{ "tw:queues", 14410 },
	{ "{user1000}.following", 3443 },
	{ "{user1000}.followers", 3443 },
	{ "user1000", 3443 },
	{ "foo{}{bar}", 8363 },
	{ "foo{{bar}}zap", 4015 },
	{ "foo{bar}{zap}", 5061 },
	{ "foo{bar", 15278 },
	{ "tw:{mail/3}:due", 13969 },
	{ "tw:{mail/3}:ctl", 13969 },
};

static void check_slots(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(slots); i++)
		is_number(route_slot(slots[i].key), slots[i].slot, "the slot of \"%s\"",
			  slots[i].key);
}

static const struct redis_node a = { "10.0.0.1", 7000 }, b = { "10.0.0.2", 7000 };
static const struct redis_node c = { "fd00::3", 7001 };

static const struct {
	const char *text;
	enum route_verdict verdict;
	unsigned int slot;
	const char *host;
	uint16_t port;
} errors[] = {
	{ "MOVED 3999 127.0.0.1:6381", ROUTE_MOVED, 3999, "127.0.0.1", 6381 },
	{ "MOVED 0 redis.example:1", ROUTE_MOVED, 0, "redis.example", 1 },
	{ "MOVED 16383 fd00::3:7001", ROUTE_MOVED, 16383, "fd00::3", 7001 },
	{ "MOVED 5 :6381", ROUTE_MOVED, 5, "", 6381 },
	{ "ASK 3999 127.0.0.1:6381", ROUTE_ASK, 3999, "127.0.0.1", 6381 },
	{ "MOVED 16384 127.0.0.1:6381", ROUTE_LATER, 0, "", 0 },
	{ "MOVED 1 127.0.0.1:0", ROUTE_LATER, 0, "", 0 },
	{ "MOVED 1 127.0.0.1", ROUTE_LATER, 0, "", 0 },
	{ "MOVED x 127.0.0.1:1", ROUTE_LATER, 0, "", 0 },
	{ "MOVED 99999999999 h:1", ROUTE_LATER, 0, "", 0 },
	{ "ASK ", ROUTE_LATER, 0, "", 0 },
	{ "TRYAGAIN Multiple keys request during rehashing of slot", ROUTE_LATER, 0, "", 0 },
	{ "CLUSTERDOWN The cluster is down", ROUTE_LATER, 0, "", 0 },
	{ "LOADING Redis is loading the dataset in memory", ROUTE_LATER, 0, "", 0 },
	{ "READONLY You can't write against a read only replica.", ROUTE_LATER, 0, "", 0 },
	{ "MASTERDOWN Link with MASTER is down", ROUTE_LATER, 0, "", 0 },
	{ "ERR unknown command", ROUTE_OTHER, 0, "", 0 },
	{ "OOM command not allowed", ROUTE_OTHER, 0, "", 0 },
	{ "MOVEDTO 1 h:1", ROUTE_OTHER, 0, "", 0 },
	{ "", ROUTE_OTHER, 0, "", 0 },
};

static void check_errors(void)
{
	struct route_error e;

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		route_error(errors[i].text, &e);
		ok(e.verdict == errors[i].verdict, "\"%s\" has its verdict", errors[i].text);
		if (e.verdict == ROUTE_MOVED || e.verdict == ROUTE_ASK)
			ok(e.slot == errors[i].slot && e.to.port == errors[i].port &&
			   !strcmp(e.to.host, errors[i].host),
			   "\"%s\" has its target", errors[i].text);
	}
}

static void check_map(void)
{
	static struct route r;
	static struct route_map m;
	static const struct redis_url url = {
		.kind = REDIS_CLUSTER, .tls = true, .node = { { "h", 1 } }, .nodes = 1,
	};
	char name[ROUTE_NAME_LEN];
	unsigned int na, nb, nc;

	route_init(&r, &url);
	is_number(route_node(&r, "foo"), ROUTE_NONE, "at first nobody has a slot");
	na = route_add(&r, &a);
	nb = route_add(&r, &b);
	nc = route_add(&r, &c);
	ok(na == 1 && nb == 2 && nc == 3, "nodes get numbers behind those of the URL");
	is_number(route_add(&r, &b), nb, "a node keeps its number");
	ok(r.node[nb].tls, "each node has TLS, as the URL says");
	is_text(route_name(&r, nc, name), "fd00::3:7001", "a node has a name");
	route_map_init(&m);
	route_map_range(&m, 0, 8191, na);
	route_map_range(&m, 8192, 20000, nb);
	ok(route_apply(&r, &m), "the first map is news");
	ok(!route_apply(&r, &m), "the same map is none");
	is_number(route_node(&r, "hello"), na, "slot 866 is the first one's");
	is_number(route_node(&r, "foo"), nb, "slot 12182 is the second one's");
	ok(r.node[na].slots == 8192 && r.node[nb].slots == 8192, "slots are counted");
	route_own(&r, 12182, nc);
	is_number(route_node(&r, "foo"), nc, "MOVED moves one slot");
	ok(r.node[nb].slots == 8191 && r.node[nc].slots == 1, "MOVED updates the counts of slots");
	ok(route_apply(&r, &m), "a map that says otherwise is news");
	is_number(r.node[nc].slots, 0, "a new map takes the slot from the third node");
	route_drop(&r, nc);
	is_number(route_add(&r, &(struct redis_node){ "new", 1 }), nc, "a number is used again");
	for (unsigned int i = 0; i < ROUTE_NODES_MAX; i++)
		route_add(&r, &(struct redis_node){ "x", 1000 + i });
	is_number(route_add(&r, &(struct redis_node){ "y", 1 }), ROUTE_NONE,
		  "the number of nodes is limited");
	is_number(route_add(&r, &a), na, "known nodes are found although there is no room");
}

static void check_single(void)
{
	static struct route r;
	struct redis_url url = { .kind = REDIS_SENTINEL, .nodes = 1 };
	char name[ROUTE_NAME_LEN];

	route_init(&r, &url);
	is_text(route_name(&r, 0, name), "unknown", "Sentinel did not say yet");
	ok(route_move(&r, &a) && !route_move(&r, &a) && route_move(&r, &b), "the master moves");
	is_number(route_node(&r, "foo"), 0, "the master has all keys");
	is_number(r.node[0].slots, ROUTE_SLOTS, "the master has all slots");
	url = (struct redis_url){ .kind = REDIS_TCP, .db = 3, .node = { a }, .nodes = 1 };
	route_init(&r, &url);
	ok(r.node[0].db == 3 && !r.node[0].tls, "a database is selected");
	is_text(route_name(&r, 0, name), "10.0.0.1:7000", "a server has a name");
}

int main(void)
{
	check_slots();
	check_errors();
	check_map();
	check_single();
	return tap_end();
}
