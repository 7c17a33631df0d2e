/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hosts that have as many requests as they may, and the tasks that wait for them.
 */
#ifndef TWHEELD_WORK_HOST_H
#define TWHEELD_WORK_HOST_H

#include <stdint.h>

#include "ground/alarm.h"
#include "work/work.h"

struct held;

#define HOST_KEY_LEN	320

/**
 * struct host - a host that has as many requests as it may
 * @daemon: whose
 * @waiting: tasks that wait for it, in order
 * @ended: when a request to it ended last
 * @timer: releases those that wait too long
 * @hh: in daemon.hosts
 * @key: scheme, name and port
 */
struct host {
	struct daemon *daemon;
	struct held *waiting;
	uint64_t ended;
	struct alarm timer;
	UT_hash_handle hh;
	char key[HOST_KEY_LEN];
};

/**
 * host_drop_if_empty() - free a host that no task waits for
 */
void host_drop_if_empty(struct host *host);

#endif /* TWHEELD_WORK_HOST_H */
