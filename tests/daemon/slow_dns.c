// SPDX-License-Identifier: GPL-2.0
/*
 * For LD_PRELOAD: simulates a name server that does not answer. getaddrinfo() of a name that
 * ends with ".slow" fails after SLOW_DNS seconds.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **res)
{
	typeof(getaddrinfo) *real = dlsym(RTLD_NEXT, "getaddrinfo");
	size_t len = node ? strlen(node) : 0;

	if (len < 5 || strcmp(node + len - 5, ".slow") || hints->ai_flags & AI_NUMERICHOST)
		return real(node, service, hints, res);
	sleep(atoi(getenv("SLOW_DNS")));
	return EAI_AGAIN;
}
