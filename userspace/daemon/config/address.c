// SPDX-License-Identifier: GPL-2.0
/*
 * Which addresses a callback may not reach: two tables of networks, and four forms that contain an
 * IPv4 address.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "config/address.h"
#include "ground/units.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

struct kind {
	uint8_t addr[16];
	unsigned int bits;
	const char *name;
};

static const struct kind kinds4[] = {
	{ { 0 }, 8, "unspecified" },
	{ { 127 }, 8, "loopback" },
	{ { 10 }, 8, "private" },
	{ { 172, 16 }, 12, "private" },
	{ { 192, 168 }, 16, "private" },
	{ { 100, 64 }, 10, "shared" },
	{ { 169, 254 }, 16, "link-local" },
	{ { 224 }, 4, "multicast" },
	{ { 192, 0, 0 }, 24, "reserved" },
	{ { 192, 0, 2 }, 24, "reserved" },
	{ { 192, 88, 99 }, 24, "reserved" },
	{ { 198, 18 }, 15, "reserved" },
	{ { 198, 51, 100 }, 24, "reserved" },
	{ { 203, 0, 113 }, 24, "reserved" },
	{ { 240 }, 4, "reserved" },
};

/* These come before the forms, because "::" and "::1" also lie in the compatible form. */
static const struct kind kinds6[] = {
	{ { 0 }, 128, "unspecified" },
	{ { [15] = 1 }, 128, "loopback" },
	{ { 0xfc }, 7, "private" },
	{ { 0xfe, 0x80 }, 10, "link-local" },
	{ { 0xfe, 0xc0 }, 10, "site-local" },
	{ { 0xff }, 8, "multicast" },
	{ { 0x01 }, 64, "discard" },
	{ { 0x20, 0x01 }, 32, "Teredo" },
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32, "reserved" },
	{ { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 }, 48, "local NAT64" },
};

/* IPv6 networks whose addresses contain an IPv4 address, and the byte at which it begins. */
static const struct form {
	uint8_t addr[16];
	unsigned int bits;
	unsigned int at;
} forms[] = {
	{ { [10] = 0xff, [11] = 0xff }, 96, 12 },
	{ { 0 }, 96, 12 },
	{ { 0x20, 0x02 }, 16, 2 },
	{ { 0x00, 0x64, 0xff, 0x9b }, 96, 12 },
};

static bool same_prefix(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	unsigned int whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole))
		return false;
	return !rest || !((a[whole] ^ b[whole]) >> (8 - rest));
}

static const char *find_kind(const struct kind *kinds, size_t count, const uint8_t *addr)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (same_prefix(kinds[i].addr, addr, kinds[i].bits))
			return kinds[i].name;
	return NULL;
}

/* Returns the IPv4 address that an IPv6 address contains, or NULL. */
static const uint8_t *held_address(const uint8_t *addr)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(forms); i++)
		if (same_prefix(forms[i].addr, addr, forms[i].bits))
			return addr + forms[i].at;
	return NULL;
}

static const uint8_t *address_bytes(const struct sockaddr *sa)
{
	switch (sa->sa_family) {
	case AF_INET:
		return (const uint8_t *)&((const struct sockaddr_in *)sa)->sin_addr;
	case AF_INET6:
		return (const uint8_t *)&((const struct sockaddr_in6 *)sa)->sin6_addr;
	default:
		return NULL;
	}
}

static bool is_allowed(int family, const uint8_t *addr, const struct network *allow,
		       size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (allow[i].family == family &&
		    same_prefix(allow[i].addr, addr, allow[i].bits))
			return true;
	return false;
}

const char *network_parse(const char *text, struct network *net)
{
	static const char bad[] = "not a network (try 10.0.0.0/8 or fd00::/8)";
	struct network n = { .family = AF_INET };
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	char addr[INET6_ADDRSTRLEN];
	unsigned int most, i;
	uint64_t bits;

	if (len >= sizeof(addr))
		return bad;
	memcpy(addr, text, len);
	addr[len] = '\0';
	if (strchr(addr, ':'))
		n.family = AF_INET6;
	if (inet_pton(n.family, addr, n.addr) != 1)
		return bad;
	most = n.family == AF_INET ? 32 : 128;
	bits = most;
	if (slash && parse_number(slash + 1, &bits))
		return bad;
	if (bits > most)
		return "the prefix is longer than an address";
	n.bits = (unsigned int)bits;
	for (i = n.bits; i < most; i++)
		if (n.addr[i / 8] & 0x80 >> i % 8)
			return "the address has bits beyond the prefix";
	*net = n;
	return NULL;
}

bool network_has(const struct network *net, const struct sockaddr *sa)
{
	const uint8_t *addr = address_bytes(sa);

	return addr && is_allowed(sa->sa_family, addr, net, 1);
}

const char *address_refused(const struct sockaddr *sa, const struct network *allow,
			    size_t count)
{
	const uint8_t *addr = address_bytes(sa);
	const char *kind;

	if (!addr)
		return "unknown";
	if (is_allowed(sa->sa_family, addr, allow, count))
		return NULL;
	if (sa->sa_family == AF_INET6) {
		kind = find_kind(kinds6, ARRAY_SIZE(kinds6), addr);
		if (kind)
			return kind;
		addr = held_address(addr);
		if (!addr)
			return NULL;
		if (is_allowed(AF_INET, addr, allow, count))
			return NULL;
	}
	return find_kind(kinds4, ARRAY_SIZE(kinds4), addr);
}

bool address_is_loopback(const struct sockaddr *sa)
{
	static const uint8_t loopback6[16] = { [15] = 1 };
	const uint8_t *addr = address_bytes(sa);

	if (!addr)
		return false;
	if (sa->sa_family == AF_INET)
		return addr[0] == 127;
	return !memcmp(addr, loopback6, sizeof(loopback6));
}
