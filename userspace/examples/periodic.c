// SPDX-License-Identifier: GPL-2.0
/*
 * How do I get called at a fixed rate, and what if I am too slow?
 *
 * The deadlines are first + k * period and do not drift, however late each of
 * them is read. A reader that was away gets one event, which says how many
 * periods it stands for.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/twheel.h>

#define MSEC	1000000ULL
#define PERIOD	(100 * MSEC)
#define ROUNDS	5

int main(void)
{
	struct twheel_timer timer = {
		.deadline_ns = PERIOD,
		.period_ns = PERIOD,
	};
	unsigned long long start;
	int wheel, i;

	wheel = open("/dev/twheel", O_RDWR | O_CLOEXEC);
	if (wheel < 0 || ioctl(wheel, TWHEEL_IOC_REGISTER, &timer)) {
		perror("/dev/twheel");
		return 1;
	}

	/* The deadline came back absolute. */
	start = timer.deadline_ns - PERIOD;
	for (i = 0; i < ROUNDS; i++) {
		struct twheel_event event;

		if (read(wheel, &event, sizeof(event)) != sizeof(event)) {
			perror("read");
			return 1;
		}
		/* deadline_ns is that of the first of these periods. */
		printf("due at %llu ms: %llu period(s)\n",
		       (event.deadline_ns - start) / MSEC, event.expirations);

		/* Work that takes longer than a period. */
		if (i == 2)
			usleep(350000);
	}

	/* Says what the timer was; after it, none of its events will be read. */
	if (ioctl(wheel, TWHEEL_IOC_CANCEL, &timer)) {
		perror("cancel");
		return 1;
	}
	printf("cancelled, it was %s\n",
	       timer.state == TWHEEL_ARMED ? "armed" : "expired and not read");
	close(wheel);
	return 0;
}
