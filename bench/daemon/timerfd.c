// SPDX-License-Identifier: GPL-2.0
/*
 * A bare loop with one timerfd, set to the next due time, which is the best that a program can
 * do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "load.h"

static struct schedule schedule;

static int by_due(const void *a, const void *b)
{
	uint64_t x = schedule.due_ms[*(const unsigned int *)a];
	uint64_t y = schedule.due_ms[*(const unsigned int *)b];

	return x < y ? -1 : x > y;
}

static void sleep_until(int fd, uint64_t ms)
{
	struct itimerspec its = {
		.it_value.tv_sec = (time_t)(ms / 1000),
		.it_value.tv_nsec = (long)(ms % 1000 * NSEC_PER_MSEC),
	};
	uint64_t expirations;

	if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &its, NULL))
		die("timerfd_settime");
	if (read(fd, &expirations, sizeof(expirations)) < 0 && !ended)
		die("read");
}

int timerfd_main(int argc, char **argv)
{
	int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC);
	unsigned int *order;
	struct seen seen;
	char id[20];

	(void)argc;
	if (fd < 0)
		die("timerfd_create");
	schedule_read(&schedule, argv[0]);
	seen_init(&seen, schedule.count);
	order = allocate(schedule.count * sizeof(*order));
	for (unsigned int i = 0; i < schedule.count; i++)
		order[i] = i;
	qsort(order, schedule.count, sizeof(*order), by_due);
	for (unsigned int i = 0; i < schedule.count && !ended;) {
		uint64_t due = schedule.due_ms[order[i]];

		sleep_until(fd, due);
		for (; i < schedule.count && schedule.due_ms[order[i]] == due; i++) {
			sprintf(id, "%x", order[i]);
			seen_add(&seen, id);
		}
	}
	seen_write(&seen, argv[1]);
	return 0;
}
