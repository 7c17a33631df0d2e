/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which addresses a callback may not reach.
 *
 * An endpoint's name can resolve to any address, so the check looks at the
 * address of the socket and not at the name. This file does no I/O.
 *
 *   IPv4   unspecified 0/8, loopback 127/8, private 10/8 172.16/12 192.168/16,
 *          shared 100.64/10, link-local 169.254/16, multicast 224/4, and what
 *          IANA reserves: 192.0.0/24, 192.0.2/24, 192.88.99/24, 198.18/15,
 *          198.51.100/24, 203.0.113/24, 240/4
 *   IPv6   unspecified, loopback, unique local fc00::/7, link-local fe80::/10,
 *          site-local fec0::/10, multicast ff00::/8, discard 100::/64, Teredo
 *          2001::/32, documentation 2001:db8::/32, local NAT64 64:ff9b:1::/48
 *   forms  mapped ::ffff:0:0/96, compatible ::/96, 6to4 2002::/16 and NAT64
 *          64:ff9b::/96 are judged by the IPv4 address that they hold
 */
#ifndef TWHEELD_CONFIG_ADDRESS_H
#define TWHEELD_CONFIG_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/**
 * struct network - an address and the length of its prefix
 * @family: AF_INET or AF_INET6
 * @bits: 0 to 32, or 0 to 128
 * @addr: in network order; IPv4 uses the first four bytes
 */
struct network {
	int family;
	unsigned int bits;
	uint8_t addr[16];
};

/**
 * network_parse() - read "10.1.0.0/16", "fd00::/8" or a single address
 * @text: the network, NUL-terminated
 * @net: the result; set on success only
 *
 * A network with a bit set behind its prefix is refused: it is often a slip.
 *
 * Return: NULL, or a constant text that says what is wrong.
 */
const char *network_parse(const char *text, struct network *net);

/**
 * network_has() - whether an address lies in a network
 * @net: the network
 * @sa: AF_INET or AF_INET6; another family lies in none
 */
bool network_has(const struct network *net, const struct sockaddr *sa);

/**
 * address_refused() - whether a callback may not connect to an address
 * @sa: the address
 * @allow: networks whose addresses are accepted in any case
 * @count: how many
 *
 * A form that holds an IPv4 address is accepted if @allow names either.
 *
 * Return: NULL if it may, or the name of the kind: "loopback", "private" ...
 */
const char *address_refused(const struct sockaddr *sa, const struct network *allow,
			    size_t count);

/**
 * address_is_loopback() - whether only this machine can reach an address
 * @sa: the address
 */
bool address_is_loopback(const struct sockaddr *sa);

#endif /* TWHEELD_CONFIG_ADDRESS_H */
