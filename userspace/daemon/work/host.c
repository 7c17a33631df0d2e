// SPDX-License-Identifier: GPL-2.0
/* The hosts of callbacks. See host.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/body.h"
#include "work/host.h"

/* The first and the longest back-off. */
#define BACKOFF_MS	1000ULL
#define BACKOFF_MAX_MS	60000ULL
/* How long a host that nobody wants to reach is kept after its back-off. */
#define UNUSED_KEEP	(60 * NSEC_PER_SEC)

static uint64_t backoff_ms(const struct host *host)
{
	uint64_t ms = BACKOFF_MS;

	for (unsigned int i = 1; i < host->failures && ms < BACKOFF_MAX_MS; i++)
		ms *= 2;
	return ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
}

static void free_host(struct host *host)
{
	struct daemon *d = host->daemon;

	d->failing -= !!host->failures;
	HASH_DEL(d->hosts, host);
	alarm_disarm(d->alarms, &host->timer);
	free(host);
}

static void forget(struct alarm *a, uint64_t now)
{
	(void)now;
	free_host(container_of(a, struct host, timer));
}

static struct host *get(struct daemon *d, const char *key)
{
	struct host *host;

	HASH_FIND_STR(d->hosts, key, host);
	if (!host) {
		host = calloc(1, sizeof(*host));
		if (!host)
			abort();
		host->daemon = d;
		host->ended = alarms_now(d->alarms);
		memcpy(host->key, key, strlen(key) + 1);
		HASH_ADD_STR(d->hosts, key, host);
	}
	if (!host->users++)
		alarm_clear(d->alarms, &host->timer);
	return host;
}

struct host *host_get(struct daemon *d, const char *url)
{
	char key[HOST_KEY_LEN];

	return url && url_host_key(url, key, sizeof(key)) ? get(d, key) : NULL;
}

struct host *host_get_address(struct daemon *d, const char *address)
{
	char key[HOST_KEY_LEN];

	snprintf(key, sizeof(key), "address %.200s", address);
	return get(d, key);
}

void host_put(struct host *host)
{
	struct daemon *d = host->daemon;

	if (--host->users)
		return;
	host->timer.fn = forget;
	if (!host->failures || d->failing > HOSTS_KEPT ||
	    alarm_arm(d->alarms, &host->timer, host->until + UNUSED_KEEP))
		free_host(host);
}

void host_free_all(struct daemon *d)
{
	struct host *host, *next;

	HASH_ITER(hh, d->hosts, host, next)
		free_host(host);
}

uint64_t host_backoff_left_ms(const struct host *host)
{
	uint64_t now = alarms_now(host->daemon->alarms);

	if (now < host->until)
		return (host->until - now) / NSEC_PER_MSEC + 1;
	return host->probe ? backoff_ms(host) : 0;
}

void host_answered(struct host *host)
{
	host->daemon->failing -= !!host->failures;
	host->failures = 0;
	host->until = 0;
	host->judged = alarms_now(host->daemon->alarms);
}

bool host_failed(struct host *host, uint64_t started)
{
	if (started < host->judged)
		return false;
	host->daemon->failing += !host->failures;
	host->failures++;
	host->judged = alarms_now(host->daemon->alarms);
	host->until = host->judged + backoff_ms(host) * NSEC_PER_MSEC;
	return true;
}
