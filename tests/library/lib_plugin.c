// SPDX-License-Identifier: GPL-2.0
/* A plugin that uses libtwheel: see lib_builds.c. */
#include <libtwheel.h>

int use_wheel(void);

/* Uses a wheel. Returns 0, or the line number of the failure. */
int use_wheel(void)
{
	struct twheel_event event;
	struct twheel *wheel;
	uint64_t id, other;

	if (twheel_open(&wheel, NULL))
		return __LINE__;
	if (twheel_add(wheel, 1, 7, &id))
		return __LINE__;
	/* This thread keeps slots. */
	if (twheel_add(wheel, ~0ULL, 8, &other) || twheel_del(wheel, other) != 1)
		return __LINE__;
	if (twheel_wait(wheel, -1) != 1 || twheel_read(wheel, &event, 1) != 1)
		return __LINE__;
	if (event.user_data != 7 || twheel_del(wheel, id))
		return __LINE__;
	twheel_close(wheel);
	return 0;
}
