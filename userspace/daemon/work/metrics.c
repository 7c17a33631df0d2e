// SPDX-License-Identifier: GPL-2.0
/* Counters of this process. See metrics.h. */
#include "work/metrics.h"

void histogram_add(struct histogram *h, uint64_t us)
{
	unsigned int i = 0;

	while (i < HISTOGRAM_BUCKETS && us > (uint64_t)HISTOGRAM_FIRST_US << i)
		i++;
	h->bucket[i]++;
	h->sum += us / 1e6;
}

enum code_class metrics_code(int status)
{
	return status >= 200 && status < 600 ? CODE_2XX + status / 100 - 2 : CODE_NONE;
}
