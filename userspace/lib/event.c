// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* Waiting and reading. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <limits.h>
#include <poll.h>

#include "internal.h"

/* As twheel_read(); of timeouts alone, if @timeouts. */
int twheel_take_events(struct twheel_ctx *wheel, struct twheel_event *events, size_t count,
		       bool timeouts)
{
	int ret, cancellable;
	size_t kept = 0;

	if (!count)
		return -EINVAL;
	if (count > INT_MAX / sizeof(*events))
		count = INT_MAX / sizeof(*events);
	ret = twheel_flush(wheel);
	if (ret)
		return ret;

	/*
	 * A timeout whose event is on its way from the backend to the caller is
	 * neither stopped nor read yet. Who needs to know waits for this lock, so a
	 * thread must not be cancelled in a read.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
	pthread_mutex_lock(&wheel->home->reading);
	do {
		ret = wheel->backend->read(wheel, events, count);
		if (ret > 0)
			kept = twheel_filter(wheel, events, ret, timeouts);
	} while (ret > 0 && !kept);
	pthread_mutex_unlock(&wheel->home->reading);
	pthread_setcancelstate(cancellable, NULL);
	return ret < 0 ? ret : (int)kept;
}

TWHEEL_PUBLIC int twheel_read(struct twheel_ctx *wheel, struct twheel_event *events,
			      size_t count)
{
	return twheel_take_events(wheel, events, count, false);
}

TWHEEL_PUBLIC int twheel_wait(struct twheel_ctx *wheel, int64_t timeout_ns)
{
	struct pollfd pollfd = { .fd = wheel->fd, .events = POLLIN };
	struct timespec ts, *limit = NULL;
	int ret = twheel_flush(wheel);

	if (ret)
		return ret;
	if (timeout_ns >= 0) {
		ts.tv_sec = timeout_ns / NSEC_PER_SEC;
		ts.tv_nsec = timeout_ns % NSEC_PER_SEC;
		/* For ever is the nearest where a time_t has 32 bits: 68 years. */
		if (ts.tv_sec == (int64_t)(timeout_ns / NSEC_PER_SEC))
			limit = &ts;
	}
	ret = ppoll(&pollfd, 1, limit, NULL);
	return ret < 0 ? -errno : ret;
}
