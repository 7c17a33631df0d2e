/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Values of the configuration that are more than a number.
 *
 * Each function returns NULL, or a constant text that says what is wrong.
 */
#ifndef TWHEELD_CONFIG_VALUE_H
#define TWHEELD_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define CONFIG_NODES_MAX	32
#define CONFIG_SECRET_LEN	64

/* The value of a macro as text. */
#define TEXT_OF(x)	#x
#define TEXT(x)		TEXT_OF(x)

enum redis_kind {
	/* unix:PATH */
	REDIS_UNIX,
	/* redis://HOST:PORT/DB, rediss:// with TLS */
	REDIS_TCP,
	/* sentinel://HOST:PORT,.../NAME */
	REDIS_SENTINEL,
	/* cluster://HOST:PORT,... */
	REDIS_CLUSTER,
};

/**
 * struct redis_node - a host and its port
 * @host: a name or an address, IPv6 without its brackets
 * @port: 1 to 65535
 */
struct redis_node {
	char host[256];
	uint16_t port;
};

/**
 * struct redis_url - where Redis is
 * @kind: which form the URL had
 * @tls: rediss://, or the key redis-tls
 * @db: number of the database; 0 unless @kind is REDIS_TCP
 * @path: of the socket; REDIS_UNIX only, else empty
 * @master: the name that Sentinel knows; REDIS_SENTINEL only, else empty
 * @node: where to connect: the server, the Sentinels, or some of the cluster
 * @nodes: how many; 0 for REDIS_UNIX
 *
 * The port is 6379 unless the URL names one, and 26379 for Sentinel.
 */
struct redis_url {
	enum redis_kind kind;
	bool tls;
	unsigned int db;
	char path[108];
	char master[128];
	struct redis_node node[CONFIG_NODES_MAX];
	size_t nodes;
};

/**
 * struct listen_on - one address of the HTTP server
 * @text: as the user wrote it
 * @sa: what to bind: AF_INET, AF_INET6 or AF_UNIX
 * @len: of @sa
 * @local: a Unix socket or a loopback address, which need no token
 */
struct listen_on {
	char text[128];
	struct sockaddr_storage sa;
	socklen_t len;
	bool local;
};

/**
 * struct secret - a key that signs callbacks
 * @key: the bytes that the base64 behind "whsec_" holds
 * @len: 24 to 64
 */
struct secret {
	uint8_t key[CONFIG_SECRET_LEN];
	size_t len;
};

/**
 * redis_url_parse() - read a value of the key "redis"
 * @text: the URL
 * @url: the result; set on success only
 *
 * Return: NULL, or a constant text that says what is wrong.
 */
const char *redis_url_parse(const char *text, struct redis_url *url);

/* True if two URLs name the same servers and database, with or without TLS. */
bool redis_url_same(const struct redis_url *a, const struct redis_url *b);

/* "127.0.0.1:7733", "[::1]:7733", "localhost:7733", "*:7733", "unix:PATH" */
const char *listen_parse(const char *text, struct listen_on *on);

/* "whsec_" and base64 of 24 to 64 bytes */
const char *secret_parse(const char *text, struct secret *secret);

/* A bearer token: at least 16 printable characters without a space */
const char *token_refused(const char *text);

/* The prefix of keys: at most 31 of A-Za-z0-9_:.- */
const char *prefix_refused(const char *text);

#endif /* TWHEELD_CONFIG_VALUE_H */
