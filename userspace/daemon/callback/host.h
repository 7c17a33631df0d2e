/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How many requests run for each server. No I/O. For callback.c alone.
 */
#ifndef TWHEELD_CALLBACK_HOST_H
#define TWHEELD_CALLBACK_HOST_H

#include <stdbool.h>

#define HOST_BUCKETS	1024

struct host;

/**
 * struct hosts - servers that have requests; all zero at the beginning
 * @limit: requests to one server at once
 * @bucket: by hash of url_host_key()
 */
struct hosts {
	unsigned int limit;
	struct host *bucket[HOST_BUCKETS];
};

/* Whether host_take() would return -EBUSY. */
bool host_busy(const struct hosts *hosts, const char *url);

/* Counts one more request. Returns 0, -EINVAL, -EBUSY or -ENOMEM. */
int host_take(struct hosts *hosts, const char *url, struct host **out);

/* Counts one less. @h may be gone afterwards. */
void host_drop(struct hosts *hosts, struct host *h);

#endif /* TWHEELD_CALLBACK_HOST_H */
