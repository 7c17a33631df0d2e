// SPDX-License-Identifier: GPL-2.0
/*
 * How do I get a first expiration?
 *
 * Open a wheel, register a timer, read its event. Everything else of the
 * device is there to do this for very many timers at once.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/twheel.h>

int main(void)
{
	/* A delay of 250 ms; user_data comes back in the event. */
	struct twheel_timer timer = { .deadline_ns = 250000000, .user_data = 42 };
	struct twheel_event event;
	int wheel;

	wheel = open("/dev/twheel", O_RDWR | O_CLOEXEC);
	if (wheel < 0 || ioctl(wheel, TWHEEL_IOC_REGISTER, &timer)) {
		perror("/dev/twheel");
		return 1;
	}

	/* Blocks until there is at least one whole event. */
	if (read(wheel, &event, sizeof(event)) != sizeof(event)) {
		perror("read");
		return 1;
	}
	printf("timer %llu expired, %llu us late\n", event.user_data,
	       (event.expired_ns - event.deadline_ns) / 1000);

	/* The timer ended with its event, the wheel ends with its descriptor. */
	close(wheel);
	return 0;
}
