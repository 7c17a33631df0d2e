// SPDX-License-Identifier: GPL-2.0
/*
 * How many requests run for each server.
 *
 * A server has an entry only while requests run for it. So tasks for ever new
 * names cost no memory.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "callback/host.h"
#include "ground/hash.h"
#include "text/body.h"

#define HOST_KEY_LEN	288

struct host {
	struct host *next;
	unsigned int running;
	char key[];
};

static unsigned int bucket_of(const char *key)
{
	return fnv32(key) % HOST_BUCKETS;
}

static struct host *find_host(const struct hosts *hosts, const char *key)
{
	struct host *h = hosts->bucket[bucket_of(key)];

	while (h && strcmp(h->key, key))
		h = h->next;
	return h;
}

bool host_busy(const struct hosts *hosts, const char *url)
{
	char key[HOST_KEY_LEN];
	struct host *h;

	if (!url_host_key(url, key, sizeof(key)))
		return false;
	h = find_host(hosts, key);
	return h && h->running >= hosts->limit;
}

int host_take(struct hosts *hosts, const char *url, struct host **out)
{
	char key[HOST_KEY_LEN];
	struct host *h, **bucket;

	if (!url_host_key(url, key, sizeof(key)))
		return -EINVAL;
	h = find_host(hosts, key);
	if (h && h->running >= hosts->limit)
		return -EBUSY;
	if (!h) {
		h = malloc(sizeof(*h) + strlen(key) + 1);
		if (!h)
			return -ENOMEM;
		bucket = &hosts->bucket[bucket_of(key)];
		h->next = *bucket;
		h->running = 0;
		memcpy(h->key, key, strlen(key) + 1);
		*bucket = h;
	}
	h->running++;
	*out = h;
	return 0;
}

void host_drop(struct hosts *hosts, struct host *h)
{
	struct host **link = &hosts->bucket[bucket_of(h->key)];

	if (--h->running)
		return;
	while (*link != h)
		link = &(*link)->next;
	*link = h->next;
	free(h);
}
