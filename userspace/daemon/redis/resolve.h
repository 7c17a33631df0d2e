/* SPDX-License-Identifier: GPL-2.0 */
/* Looks up the addresses of a host without waiting: getaddrinfo() runs in its own thread. */
#ifndef TWHEELD_REDIS_RESOLVE_H
#define TWHEELD_REDIS_RESOLVE_H

#include <stdint.h>

struct addrinfo;
struct resolve;

/**
 * resolve_start() - begin
 * @host: a name or an address
 * @port: for the addresses
 *
 * Return: NULL without memory, descriptors or threads, of which there are 64 at most. An
 * address needs none.
 */
struct resolve *resolve_start(const char *host, uint16_t port);

/**
 * resolve_fd() - a descriptor that can be read when the answer is there
 */
int resolve_fd(const struct resolve *r);

/**
 * resolve_list() - the answer, as of getaddrinfo(), or NULL; valid until resolve_free()
 */
const struct addrinfo *resolve_list(const struct resolve *r);

/**
 * resolve_why() - why there is no list
 */
const char *resolve_why(const struct resolve *r);

/**
 * resolve_free() - at any time: a thread that still waits ends by itself
 * @r: or NULL
 */
void resolve_free(struct resolve *r);

#endif /* TWHEELD_REDIS_RESOLVE_H */
