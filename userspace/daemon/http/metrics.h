/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The text of /metrics, for Prometheus. It never contains a secret, a URL or the id of a task,
 * because all labels are names of queues or constants.
 */
#ifndef TWHEELD_HTTP_METRICS_H
#define TWHEELD_HTTP_METRICS_H

#include <stddef.h>

#include "work/queue.h"

/**
 * metrics_text() - all metrics
 * @d: the daemon
 * @counted: the queues were counted; false: Redis cannot be reached
 * @len: out
 *
 * Return: text to free(), or NULL without memory.
 */
char *metrics_text(const struct daemon *d, bool counted, size_t *len);

#endif /* TWHEELD_HTTP_METRICS_H */
