/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the store tells its caller.
 */
#ifndef TWHEELD_REDIS_EVENTS_H
#define TWHEELD_REDIS_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/source.h"

/**
 * struct store_events - what the store tells
 * @arg: first argument of all
 * @time: an answer had a node's time: microseconds, and when the command was sent
 * @up: scripts can be sent to a node. @changed: it is another server or another start of it
 * @down: scripts cannot be sent to a node any more; why. NULL: that was known
 * @moved: lanes may have other nodes than before
 * @subscribed: messages come from now on; some may have been missed
 * @message: a message came; not NUL-terminated
 */
struct store_events {
	void *arg;
	void (*time)(void *arg, unsigned int node, uint64_t redis_us, uint64_t sent,
		     uint64_t received);
	void (*up)(void *arg, unsigned int node, bool changed);
	void (*down)(void *arg, const char *why);
	void (*moved)(void *arg);
	void (*subscribed)(void *arg);
	void (*message)(void *arg, const char *channel, const char *text, size_t len);
};

/**
 * struct store_stats - what was measured
 * @calls: answers of a script
 * @seconds: sum of their times, from sending to the answer
 */
struct store_stats {
	uint64_t calls[SCRIPTS];
	double seconds[SCRIPTS];
};

#endif /* TWHEELD_REDIS_EVENTS_H */
