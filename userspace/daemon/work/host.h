/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The hosts of callbacks: how many requests run for each, and the tasks that wait for it
 * because as many run as may. A host is in memory only while a task runs or waits for it.
 */
#ifndef TWHEELD_WORK_HOST_H
#define TWHEELD_WORK_HOST_H

#include <stdint.h>

#include "ground/alarm.h"
#include "work/work.h"

struct held;

#define HOST_KEY_LEN	320

/**
 * struct host - a host that requests run for
 * @daemon: whose
 * @users: references: one of each task in HELD_RUNS or HELD_HOST
 * @running: requests that run for it
 * @waiting: tasks that wait for it, in order
 * @ended: when a request to it ended last
 * @timer: releases those that wait too long
 * @hh: in daemon.hosts
 * @key: scheme, name and port
 */
struct host {
	struct daemon *daemon;
	unsigned int users;
	unsigned int running;
	struct held *waiting;
	uint64_t ended;
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
 * host_put() - drop a reference; the last one frees the host
 */
void host_put(struct host *host);

#endif /* TWHEELD_WORK_HOST_H */
