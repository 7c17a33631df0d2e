// SPDX-License-Identifier: GPL-2.0
/*
 * Values of the configuration that are more than a number: Redis, addresses of the server,
 * secrets, tokens. This file does no I/O.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "config/address.h"
#include "config/value.h"
#include "../../shared/base64.h"
#include "ground/units.h"

#define REDIS_PORT	6379
#define SENTINEL_PORT	26379
#define DB_MAX		65535
#define TOKEN_MIN	16
#define SECRET_MIN	24

static bool has_prefix(const char **text, const char *prefix)
{
	size_t len = strlen(prefix);

	if (strncmp(*text, prefix, len))
		return false;
	*text += len;
	return true;
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

/*
 * Splits "HOST:PORT" or "[v6]:PORT". If there is no port, @port stays as it is. @has_port tells if
 * there is one.
 */
static const char *split_host(const char *text, size_t len, char *host, size_t room,
			      uint16_t *port, bool *has_port)
{
	const char *end = text + len, *host_end, *p;
	char digits[8];
	uint64_t value;

	if (len && *text == '[') {
		host_end = memchr(text, ']', len);
		if (!host_end)
			return "\"[\" without \"]\"";
		text++;
		p = host_end + 1;
	} else {
		host_end = memchr(text, ':', len);
		host_end = host_end ? host_end : end;
		p = host_end;
	}
	if (host_end == text)
		return "the host is missing";
	if ((size_t)(host_end - text) >= room)
		return "the host is too long";
	memcpy(host, text, (size_t)(host_end - text));
	host[host_end - text] = '\0';
	*has_port = p < end;
	if (p == end)
		return NULL;
	if (*p++ != ':' || (size_t)(end - p) >= sizeof(digits))
		return "not HOST:PORT";
	memcpy(digits, p, (size_t)(end - p));
	digits[end - p] = '\0';
	if (parse_number(digits, &value) || !value || value > UINT16_MAX)
		return "a port must be from 1 to 65535";
	*port = (uint16_t)value;
	return NULL;
}

/* Reads one node, which is a name or an address. */
static const char *parse_node(const char *text, size_t len, uint16_t port,
			      struct redis_node *node)
{
	struct in6_addr ignored;
	const char *why, *p;
	bool has_port;

	if (memchr(text, '@', len))
		return "use redis-user and redis-password-file for user and password";
	node->port = port;
	why = split_host(text, len, node->host, sizeof(node->host), &node->port,
			 &has_port);
	if (why)
		return why;
	if (*text == '[')
		return inet_pton(AF_INET6, node->host, &ignored) == 1 ? NULL :
		       "not an IPv6 address";
	for (p = node->host; *p; p++)
		if (!is_name_char(*p))
			return "not a host name";
	return NULL;
}

/* Reads "HOST:PORT,HOST:PORT" up to @end. */
static const char *parse_nodes(const char *text, const char *end, uint16_t port,
			       struct redis_url *url)
{
	for (;;) {
		const char *comma = memchr(text, ',', (size_t)(end - text));
		const char *stop = comma ? comma : end;
		const char *why;

		if (url->nodes == CONFIG_NODES_MAX)
			return "more than " TEXT(CONFIG_NODES_MAX) " hosts";
		why = parse_node(text, (size_t)(stop - text), port,
				 &url->node[url->nodes]);
		if (why)
			return why;
		url->nodes++;
		if (!comma)
			return NULL;
		text = comma + 1;
	}
}

static const char *parse_tcp(const char *text, struct redis_url *url)
{
	const char *end = text + strcspn(text, "/");
	const char *why;
	uint64_t db = 0;

	url->kind = REDIS_TCP;
	why = parse_nodes(text, end, REDIS_PORT, url);
	if (why)
		return why;
	if (url->nodes > 1)
		return "only sentinel:// and cluster:// can name several hosts";
	if (*end && end[1] && (parse_number(end + 1, &db) || db > DB_MAX))
		return "a database must be from 0 to 65535";
	url->db = (unsigned int)db;
	return NULL;
}

static const char *parse_sentinel(const char *text, struct redis_url *url)
{
	const char *end = text + strcspn(text, "/");
	const char *why, *p;

	url->kind = REDIS_SENTINEL;
	if (!*end || !end[1])
		return "the name of the master is missing";
	for (p = end + 1; *p; p++)
		if (!is_name_char(*p))
			return "the name of the master contains an invalid character";
	if ((size_t)(p - end - 1) >= sizeof(url->master))
		return "the name of the master is too long";
	memcpy(url->master, end + 1, (size_t)(p - end));
	why = parse_nodes(text, end, SENTINEL_PORT, url);
	return why;
}

static const char *parse_cluster(const char *text, struct redis_url *url)
{
	const char *end = text + strcspn(text, "/");

	url->kind = REDIS_CLUSTER;
	if (*end && end[1])
		return "a cluster has only one database";
	return parse_nodes(text, end, REDIS_PORT, url);
}

static const char *parse_unix(const char *text, struct redis_url *url)
{
	url->kind = REDIS_UNIX;
	if (*text != '/')
		return "unix: needs an absolute path";
	if (strlen(text) >= sizeof(url->path))
		return "the path is too long for a socket";
	memcpy(url->path, text, strlen(text) + 1);
	return NULL;
}

const char *redis_url_parse(const char *text, struct redis_url *url)
{
	struct redis_url u = { .nodes = 0 };
	const char *why;

	if (has_prefix(&text, "unix:")) {
		why = parse_unix(text, &u);
	} else if (has_prefix(&text, "redis://")) {
		why = parse_tcp(text, &u);
	} else if (has_prefix(&text, "rediss://")) {
		u.tls = true;
		why = parse_tcp(text, &u);
	} else if (has_prefix(&text, "sentinel://")) {
		why = parse_sentinel(text, &u);
	} else if (has_prefix(&text, "cluster://")) {
		why = parse_cluster(text, &u);
	} else {
		why = "not unix:PATH, redis://, rediss://, sentinel:// or cluster://";
	}
	if (!why)
		*url = u;
	return why;
}

bool redis_url_same(const struct redis_url *a, const struct redis_url *b)
{
	if (a->kind != b->kind || a->db != b->db || a->nodes != b->nodes ||
	    strcmp(a->path, b->path) || strcmp(a->master, b->master))
		return false;
	for (size_t i = 0; i < a->nodes; i++)
		if (a->node[i].port != b->node[i].port ||
		    strcmp(a->node[i].host, b->node[i].host))
			return false;
	return true;
}

static const char *listen_unix(const char *path, struct listen_on *on)
{
	struct sockaddr_un *sun = (struct sockaddr_un *)&on->sa;

	if (*path != '/')
		return "unix: needs an absolute path";
	if (strlen(path) >= sizeof(sun->sun_path))
		return "the path is too long for a socket";
	sun->sun_family = AF_UNIX;
	memcpy(sun->sun_path, path, strlen(path) + 1);
	on->len = sizeof(*sun);
	on->local = true;
	return NULL;
}

/* Sets an IPv4 address, or its names. Returns false if it is neither. */
static bool set_ipv4(const char *host, uint16_t port, struct listen_on *on)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)&on->sa;

	if (!strcmp(host, "localhost"))
		host = "127.0.0.1";
	else if (!strcmp(host, "*"))
		host = "0.0.0.0";
	if (inet_pton(AF_INET, host, &sin->sin_addr) != 1)
		return false;
	sin->sin_family = AF_INET;
	sin->sin_port = htons(port);
	on->len = sizeof(*sin);
	return true;
}

static bool set_ipv6(const char *host, uint16_t port, struct listen_on *on)
{
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&on->sa;

	if (inet_pton(AF_INET6, host, &sin6->sin6_addr) != 1)
		return false;
	sin6->sin6_family = AF_INET6;
	sin6->sin6_port = htons(port);
	on->len = sizeof(*sin6);
	return true;
}

const char *listen_parse(const char *text, struct listen_on *on)
{
	static const char bad[] = "not ADDRESS:PORT, [IPV6]:PORT or unix:PATH";
	struct listen_on l = { .len = 0 };
	char host[64];
	uint16_t port;
	bool has_port;
	const char *why;

	if (strlen(text) >= sizeof(l.text))
		return "longer than an address may be";
	memcpy(l.text, text, strlen(text) + 1);
	if (has_prefix(&text, "unix:")) {
		why = listen_unix(text, &l);
		if (!why)
			*on = l;
		return why;
	}
	why = split_host(text, strlen(text), host, sizeof(host), &port, &has_port);
	if (why)
		return why;
	if (!has_port)
		return "the port is missing";
	if (*text == '[' ? !set_ipv6(host, port, &l) : !set_ipv4(host, port, &l))
		return bad;
	l.local = address_is_loopback((struct sockaddr *)&l.sa);
	*on = l;
	return NULL;
}

const char *secret_parse(const char *text, struct secret *secret)
{
	uint8_t key[CONFIG_SECRET_LEN + 8];
	size_t len, text_len;
	const char *why;

	if (!has_prefix(&text, "whsec_"))
		return "a secret must begin with whsec_";
	text_len = strlen(text);
	if (text_len > sizeof(key) / 3 * 4)
		return "a secret must have at most 64 bytes";
	why = parse_base64(text, text_len, key, &len);
	if (why)
		return why;
	if (len < SECRET_MIN || len > CONFIG_SECRET_LEN)
		return "a secret must have 24 to 64 bytes";
	memcpy(secret->key, key, len);
	secret->len = len;
	return NULL;
}

const char *token_refused(const char *text)
{
	const char *p;

	for (p = text; *p; p++)
		if (*p <= ' ' || *p >= 0x7f)
			return "a token may contain only printable characters, and no spaces";
	return p - text < TOKEN_MIN ? "a token must have at least 16 characters" : NULL;
}

const char *prefix_refused(const char *text)
{
	const char *p;

	if (!*text)
		return "must not be empty";
	for (p = text; *p; p++)
		if (!is_name_char(*p) && *p != ':')
			return "a prefix may contain only A-Z, a-z, 0-9 and _:.-";
	return NULL;
}
