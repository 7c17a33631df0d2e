// SPDX-License-Identifier: GPL-2.0
/* The hosts of callbacks. See host.h. */
#include <stdlib.h>
#include <string.h>

#include "text/body.h"
#include "work/host.h"

struct host *host_get(struct daemon *d, const char *url)
{
	char key[HOST_KEY_LEN];
	struct host *host;

	if (!url || !url_host_key(url, key, sizeof(key)))
		return NULL;
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
	host->users++;
	return host;
}

void host_put(struct host *host)
{
	struct daemon *d = host->daemon;

	if (--host->users)
		return;
	HASH_DEL(d->hosts, host);
	alarm_disarm(d->alarms, &host->timer);
	free(host);
}
