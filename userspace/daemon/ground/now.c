// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>

#include "ground/now.h"

/* With 32 bits, reading CLOCK_REALTIME would fail from 2038 on. */
_Static_assert(sizeof(time_t) == 8, "compile with -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64");

uint64_t now_ns(clockid_t clock_id)
{
	struct timespec ts;

	if (clock_gettime(clock_id, &ts))
		abort();
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}
