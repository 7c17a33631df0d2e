// SPDX-License-Identifier: GPL-2.0
/*
 * How do I wait for a single timer, and check for errors?
 *
 * Open a wheel, add a timer, wait, and read its event. All other functions help you to do this
 * for very many timers at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libtwheel.h>

#define MSEC	1000000ULL

/* The library returns a negative errno. */
static void check(const char *what, int ret)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "oneshot: %s: %s\n", what, strerror(-ret));
	exit(1);
}

int main(void)
{
	struct twheel_event event;
	struct twheel *wheel;
	uint64_t id;
	int got;

	/* The kernel's wheel, or an in-process wheel if there is no /dev/twheel. */
	check("open", twheel_open(&wheel, NULL));

	/* The timer expires in 250 ms, and its event contains the 42. */
	check("add", twheel_add(wheel, twheel_after(wheel, 250 * MSEC), 42, &id));

	/* If a wait ends and there is nothing to read, wait again. */
	do {
		check("wait", twheel_wait(wheel, -1));
		got = twheel_read(wheel, &event, 1);
		check("read", got);
	} while (!got);
	printf("timer %llu expired, %llu us late\n", event.user_data,
	       (event.expired_ns - event.deadline_ns) / 1000);

	/* You own the timer until you delete it, even after it has expired. */
	check("del", twheel_del(wheel, id));
	twheel_close(wheel);
	return 0;
}
