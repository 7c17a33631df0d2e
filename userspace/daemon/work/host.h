/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The hosts of callbacks: how many requests run for each, and the tasks that wait because a host
 * already has as many requests as allowed.
 *
 * A host that gives no answer backs off: for a second, then for twice as long each time, up to a
 * minute. After that, one request probes it, and the others wait for its result. Both names and
 * addresses back off, so that a thousand names of one dead server count as one. An answer with any
 * status is an answer, because 503 may concern only a single URL.
 *
 * A host exists while a task runs or waits for it, and while it backs off.
 */
#ifndef TWHEELD_WORK_HOST_H
#define TWHEELD_WORK_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "ground/alarm.h"
#include "work/fair.h"
#include "work/work.h"

#define HOST_KEY_LEN	320
/* Maximum number of hosts without a task that are remembered because they back off. */
#define HOSTS_KEPT	4096

/**
 * struct host - a host that requests run for
 * @daemon: whose
 * @users: references: one of each task in HELD_RUNS or HELD_HOST
 * @running: requests that run for it
 * @waiting: tasks that wait for it
 * @ended: when a request to it ended last
 * @failures: requests in a row without an answer that made it back off
 * @until: it backs off until then
 * @judged: when it answered or began to back off last. A request that began before says nothing
 * @probe: a request probes it
 * @timer: releases those that wait too long, or forgets the host
 * @hh: in daemon.hosts
 * @key: scheme, name and port; or "address", an address and a port
 */
struct host {
	struct daemon *daemon;
	unsigned int users;
	unsigned int running;
	struct fair waiting;
	uint64_t ended;
	unsigned int failures;
	uint64_t until;
	uint64_t judged;
	bool probe;
	struct alarm timer;
	UT_hash_handle hh;
	char key[HOST_KEY_LEN];
};

/**
 * host_get() - take a reference to the host of a URL
 *
 * Return: the host, or NULL if the URL has none.
 */
struct host *host_get(struct daemon *d, const char *url);

/**
 * host_get_address() - take a reference to an address
 */
struct host *host_get_address(struct daemon *d, const char *address);

/**
 * host_put() - drop a reference; the last one frees the host, unless it backs off
 */
void host_put(struct host *host);

/**
 * host_free_all() - forget those that back off, when no task has a host any more
 */
void host_free_all(struct daemon *d);

/**
 * host_backoff_left_ms() - how long no request may go to a host
 *
 * Return: 0 if one may go. If the host has failed, it is the probe.
 */
uint64_t host_backoff_left_ms(const struct host *host);

/**
 * host_answered() - note that it gave an answer, so it does not back off
 */
void host_answered(struct host *host);

/**
 * host_failed() - note that it gave no answer
 * @started: when the request began
 *
 * Return: whether it begins to back off, or does so again.
 */
bool host_failed(struct host *host, uint64_t started);

#endif /* TWHEELD_WORK_HOST_H */
