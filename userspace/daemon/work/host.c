// SPDX-License-Identifier: GPL-2.0
/* Hosts that tasks wait for. See host.h. */
#include <stdlib.h>

#include "work/host.h"

void host_drop_if_empty(struct host *host)
{
	struct daemon *d = host->daemon;

	if (host->waiting)
		return;
	HASH_DEL(d->hosts, host);
	alarm_disarm(d->alarms, &host->timer);
	free(host);
}
