// SPDX-License-Identifier: GPL-2.0
/*
 * Addresses: each row is an address and the reason for which it is refused, with an allow list
 * and without.
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "config/address.h"
#include "tap.h"

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage ss = { .ss_family = AF_INET };
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&ss;
	struct sockaddr_in *sin = (struct sockaddr_in *)&ss;

	if (inet_pton(AF_INET, text, &sin->sin_addr) == 1)
		return ss;
	ss.ss_family = AF_INET6;
	if (inet_pton(AF_INET6, text, &sin6->sin6_addr) != 1)
		ss.ss_family = AF_UNSPEC;
	return ss;
}

static const struct {
	const char *addr;
	const char *kind;
} rows[] = {
	{ "0.0.0.0", "unspecified" },
	{ "0.255.255.255", "unspecified" },
	{ "1.0.0.0", NULL },
	{ "8.8.8.8", NULL },
	{ "9.255.255.255", NULL },
	{ "10.0.0.0", "private" },
	{ "10.255.255.255", "private" },
	{ "11.0.0.0", NULL },
	{ "100.63.255.255", NULL },
	{ "100.64.0.0", "shared" },
	{ "100.127.255.255", "shared" },
	{ "100.128.0.0", NULL },
	{ "126.255.255.255", NULL },
	{ "127.0.0.1", "loopback" },
	{ "127.255.255.255", "loopback" },
	{ "128.0.0.0", NULL },
	{ "169.253.255.255", NULL },
	{ "169.254.169.254", "link-local" },
	{ "169.255.0.0", NULL },
	{ "172.15.255.255", NULL },
	{ "172.16.0.0", "private" },
	{ "172.31.255.255", "private" },
	{ "172.32.0.0", NULL }, { "192.0.0.1", "reserved" }, { "192.0.1.1", NULL },
	{ "192.0.2.1", "reserved" }, { "192.88.99.1", "reserved" },
	{ "192.167.255.255", NULL }, { "192.168.0.0", "private" },
	{ "192.168.255.255", "private" },
	{ "192.169.0.0", NULL },
	{ "198.17.255.255", NULL },
	{ "198.18.0.0", "reserved" },
	{ "198.19.255.255", "reserved" },
	{ "198.51.100.7", "reserved" },
	{ "203.0.113.7", "reserved" },
	{ "223.255.255.255", NULL },
	{ "224.0.0.1", "multicast" },
	{ "239.255.255.255", "multicast" },
	{ "240.0.0.1", "reserved" },
	{ "255.255.255.255", "reserved" },
	{ "::", "unspecified" },
	{ "::1", "loopback" },
	{ "2606:4700::1111", NULL },
	{ "2001:4860:4860::8888", NULL },
	{ "fbff::1", NULL },
	{ "fc00::1", "private" },
	{ "fd00:ec2::254", "private" },
	{ "fe00::1", NULL }, { "fe80::1", "link-local" }, { "febf::1", "link-local" },
	{ "fec0::1", "site-local" }, { "ff02::1", "multicast" }, { "100::1", "discard" },
	{ "100:0:0:1::1", NULL }, { "2001::1", "Teredo" }, { "2001:db8::1", "reserved" },
	{ "::ffff:127.0.0.1", "loopback" },
	{ "::ffff:10.0.0.1", "private" },
	{ "::ffff:169.254.169.254", "link-local" },
	{ "::ffff:8.8.8.8", NULL },
	{ "::127.0.0.1", "loopback" },
	{ "::8.8.8.8", NULL },
	{ "2002:7f00:1::", "loopback" },
	{ "2002:a00:1::1", "private" },
	{ "2002:808:808::1", NULL },
	{ "64:ff9b::127.0.0.1", "loopback" },
	{ "64:ff9b::192.168.1.1", "private" },
	{ "64:ff9b::8.8.8.8", NULL },
	{ "64:ff9b:1::8.8.8.8", "local NAT64" },
};

/* With 10.1.0.0/16, 127.0.0.1 and fd00:1::/32 in the allow list. */
static const struct {
	const char *addr;
	const char *kind;
} allowed[] = {
	{ "10.1.0.0", NULL }, { "10.1.255.255", NULL }, { "10.2.0.0", "private" },
	{ "127.0.0.1", NULL }, { "127.0.0.2", "loopback" }, { "::1", "loopback" },
	{ "fd00:1::1", NULL }, { "fd00:2::1", "private" }, { "::ffff:10.1.2.3", NULL },
	{ "::ffff:10.2.2.3", "private" },
	{ "64:ff9b::10.1.2.3", NULL },
	{ "8.8.8.8", NULL },
};

static const struct {
	const char *text;
	bool good;
} networks[] = {
	{ "10.0.0.0/8", true }, { "0.0.0.0/0", true }, { "127.0.0.1", true },
	{ "127.0.0.1/32", true }, { "fd00::/8", true }, { "::/0", true }, { "::1", true },
	{ "10.0.0.1/8", false }, { "10.0.0.0/33", false }, { "fd00::/129", false },
	{ "fd00::1/8", false }, { "10.0.0/8", false }, { "10.0.0.0/", false },
	{ "10.0.0.0/x", false }, { "10.0.0.0/-1", false }, { "10.0.0.0/8/8", false },
	{ "localhost", false }, { "", false }, { "/8", false },
	{ "1111:2222:3333:4444:5555:6666:7777:8888:9999:0000:1111:2222/8", false },
};

int main(void)
{
	struct sockaddr_storage unix_sa = { .ss_family = AF_UNIX };
	struct network allow[3], net;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sockaddr_storage ss = address(rows[i].addr);

		is_text(address_refused((struct sockaddr *)&ss, NULL, 0), rows[i].kind,
			"%s is %s", rows[i].addr, rows[i].kind ? rows[i].kind : "accepted");
	}
	ok(address_refused((struct sockaddr *)&unix_sa, NULL, 0), "a Unix socket is refused");

	ok(!network_parse("10.1.0.0/16", &allow[0]) && !network_parse("127.0.0.1", &allow[1]) &&
	   !network_parse("fd00:1::/32", &allow[2]), "an allow list is read");
	for (i = 0; i < ARRAY_SIZE(allowed); i++) {
		struct sockaddr_storage ss = address(allowed[i].addr);

		is_text(address_refused((struct sockaddr *)&ss, allow, 3), allowed[i].kind,
			"%s is %s with an allow list", allowed[i].addr,
			allowed[i].kind ? allowed[i].kind : "accepted");
	}
	for (i = 0; i < ARRAY_SIZE(networks); i++)
		ok(!network_parse(networks[i].text, &net) == networks[i].good,
		   "network \"%s\" is %s", networks[i].text,
		   networks[i].good ? "read" : "refused");
	network_parse("0.0.0.0/0", &net);
	for (i = 0; i < 2; i++) {
		struct sockaddr_storage ss = address(i ? "::1" : "127.0.0.1");

		ok(network_has(&net, (struct sockaddr *)&ss) == !i,
		   "0.0.0.0/0 has %s IPv6 address", i ? "no" : "an IPv4 but no");
		ok(address_is_loopback((struct sockaddr *)&ss), "%s is loopback",
		   i ? "::1" : "127.0.0.1");
	}
	return tap_end();
}
