/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TLS to Redis, on non-blocking sockets that conn.c owns.
 *
 * A server shows a certificate of a CA that we trust, and its name: redis-tls-name, or
 * else the host that we connect to. Each function returns at once. One that cannot go on
 * says what it waits for.
 */
#ifndef TWHEELD_REDIS_TLS_H
#define TWHEELD_REDIS_TLS_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "config/config.h"

#define TLS_WHY_LEN	512

struct tls;
struct tls_session;

/**
 * tls_new() - read the files of the configuration
 * @config: redis-tls-*
 * @why: out: with NULL, which key is wrong, and why
 */
struct tls *tls_new(const struct config *config, char why[TLS_WHY_LEN]);

void tls_free(struct tls *t);

/**
 * tls_replace() - let new sessions use other files; those that are open go on
 * @t: what is used
 * @by: what replaces it; freed
 */
void tls_replace(struct tls *t, struct tls *by);

/**
 * tls_open() - begin a session
 * @t: what we trust; must live as long
 * @fd: a socket that is connected
 * @host: where it is connected to
 *
 * Return: NULL without memory.
 */
struct tls_session *tls_open(struct tls *t, int fd, const char *host);

/**
 * tls_free_session() - free a session; the socket stays open
 */
void tls_free_session(struct tls_session *s);

/**
 * tls_shake() - go on with the handshake
 * @s: the session
 *
 * Return: 0 when it is done, -EAGAIN if it waits for tls_wants(), -EPROTO with
 *	tls_why().
 */
int tls_shake(struct tls_session *s);

/**
 * tls_read() - as read(): a number of bytes, 0 at the end, or a negative errno
 *
 * A buffer of 16 KiB or more leaves nothing unread that epoll does not know of.
 */
ssize_t tls_read(struct tls_session *s, void *buf, size_t len);

/**
 * tls_write() - as writev(): a number of bytes, or a negative errno
 *
 * After -EAGAIN the same bytes must come again, and others may follow them.
 */
ssize_t tls_write(struct tls_session *s, const struct iovec *iov, int count);

/**
 * tls_wants() - EPOLLIN or EPOLLOUT: what the last -EAGAIN waits for
 */
uint32_t tls_wants(const struct tls_session *s);

/**
 * tls_why() - why the last call failed
 */
const char *tls_why(const struct tls_session *s);

#endif /* TWHEELD_REDIS_TLS_H */
