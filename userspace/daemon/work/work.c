// SPDX-License-Identifier: GPL-2.0
/* What all files of this room share. See work.h. */
#include "ground/now.h"
#include "redis/store.h"
#include "work/work.h"

const struct clock *work_clock(const struct daemon *d)
{
	char key[160];
	unsigned int node = store_key_node(d->store, store_key(d->store, key, "members"));

	return node != STORE_NO_NODE && d->clock[node].known ? &d->clock[node] : NULL;
}

uint64_t work_now_ms(const struct daemon *d)
{
	const struct clock *clock = work_clock(d);

	if (clock)
		return clock_redis_ms(clock, alarms_now(d->alarms));
	return now_ns(CLOCK_REALTIME) / NSEC_PER_MSEC;
}

const char *work_not_ready(const struct daemon *d)
{
	if (d->leaving)
		return "twheeld is stopping";
	/* A client must not be sent here while a part of the lanes cannot be reached from here. */
	if (!store_whole(d->store))
		return store_text(d->store);
	return d->refusing ? d->refusal : NULL;
}

void work_publish(struct daemon *d, const char *channel, const char *text)
{
	struct args a = { 0 };
	char key[160];

	args_text(&a, "PUBLISH");
	args_text(&a, store_key(d->store, key, channel));
	args_text(&a, text);
	store_command(d->store, NULL, &a, NULL, NULL);
}
