// SPDX-License-Identifier: GPL-2.0
/* A run of a task, and its key. See run.h. */
#include <inttypes.h>
#include <stdio.h>

#include "text/run.h"

const char *run_key(char buf[RUN_KEY_LEN], const struct run *run)
{
	snprintf(buf, RUN_KEY_LEN, "%s/%s/%" PRIu64 "/%" PRIu64, run->queue, run->id, run->version,
		 run->first_due_ms);
	return buf;
}
