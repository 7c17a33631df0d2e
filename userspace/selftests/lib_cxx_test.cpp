// SPDX-License-Identifier: GPL-2.0
/*
 * libtwheel from C++: the headers compile, and the names are those of the
 * library, with what is inline and, by -DTWHEEL_NO_INLINE, without. What it does is
 * tested in C.
 */
#include <libtwheel.h>
#include <libtwheel_keyed.h>

#include <cstdio>
#include <cstring>

static unsigned int number;
static bool failed;

static void check(bool good, const char *what)
{
	std::printf("%sok %u %s\n", good ? "" : "not ", ++number, what);
	failed |= !good;
}

static void left(const void *key, size_t len, uint64_t user_data, void *arg)
{
	*static_cast<bool *>(arg) = len == 3 && !std::memcmp(key, "key", 3) && user_data == 7;
}

int main()
{
	twheel_options options = {};
	twheel_ctx *wheel = nullptr;
	twheel_keyed *keyed = nullptr;
	twheel_timer timer = {};
	twheel_event event;
	bool was_left = false;
	uint64_t id = 0;
	int got = 0;

	std::puts("TAP version 13\n1..10");
	options.size = sizeof(options);
	options.flags = TWHEEL_OPEN_INPROCESS;
	check(!twheel_open(&wheel, &options), "open");
	if (!wheel)
		return 1;
	check(!std::strcmp(twheel_backend(wheel), "inprocess"), "backend");
	check(!twheel_add(wheel, twheel_now(wheel) + 1000000, 42, &id), "start");
	while (!got && twheel_wait(wheel, -1) == 1)
		got = twheel_read(wheel, &event, 1);
	check(got == 1 && event.user_data == 42, "read");
	check(!twheel_del(wheel, id), "stop");
	timer.flags = TWHEEL_KEEP | TWHEEL_DISARMED;
	check(!lib_register(wheel, &timer), "register");
	check(!twheel_set(wheel, timer.id, ~0ULL) && twheel_clear(wheel, timer.id) == 1, "arm");
	twheel_close(wheel);

	check(!twheel_keyed_open(&keyed, &options), "keyed open");
	if (!keyed)
		return 1;
	check(!twheel_keyed_set(keyed, "key", 3, 1, 7), "keyed set");
	check(twheel_keyed_drain(keyed, left, &was_left) == 1 && was_left, "keyed drain");
	twheel_keyed_close(keyed);
	return failed;
}
