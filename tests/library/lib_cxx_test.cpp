// SPDX-License-Identifier: GPL-2.0
/*
 * libtwheel from C++: the headers compile, the names match the library's, and an exception
 * passes through it. The functions themselves are tested in C.
 */
#include <libtwheel.h>
#include <libtwheel_keyed.h>

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

namespace {

unsigned int number;
bool failed;

const char *backend;

void check(bool good, const char *what)
{
	std::printf("%sok %u %s: %s\n", good ? "" : "not ", ++number, backend, what);
	failed |= !good;
}

struct left_keys {
	std::multiset<uint64_t> data;
	unsigned int throws_at;
};

struct thrown {
	uint64_t user_data;
};

void leave(const void *, size_t, uint64_t user_data, void *arg)
{
	left_keys *left = static_cast<left_keys *>(arg);

	left->data.insert(user_data);
	if (left->data.size() == left->throws_at)
		throw thrown{ user_data };
}

void verbs(const twheel_options &options)
{
	twheel *wheel = nullptr;
	twheel_op op = {};
	twheel_event event;
	uint64_t id = 0;
	int got = 0;

	check(!twheel_open(&wheel, &options), "open");
	if (!wheel)
		return;
	check(!std::strcmp(twheel_backend(wheel), backend), "backend");
	check(!twheel_add(wheel, twheel_after(wheel, 1000000), 42, &id), "add");
	while (!got && twheel_wait(wheel, -1) == 1)
		got = twheel_read(wheel, &event, 1);
	check(got == 1 && event.user_data == 42 && event.id == id, "read");
	check(!twheel_set(wheel, id, ~0ULL) && twheel_clear(wheel, id) == 1, "set and clear");
	check(!twheel_del(wheel, id), "del");
	op.opcode = TWHEEL_OP_REGISTER;
	op.timer.flags = TWHEEL_KEEP | TWHEEL_DISARMED;
	check(twheel_submit(wheel, &op, 1) == 1 && !op.result, "submit");
	check(!twheel_wake(wheel) && twheel_wait(wheel, -1) == 1, "wake");
	twheel_close(wheel);
}

/*
 * After an exception the rest of the batch is still delivered, and the thread's cancel state
 * is as before.
 */
void exceptions(const twheel_options &options)
{
	const unsigned int batch = 10;
	left_keys left = { {}, 3 };
	twheel_keyed *keyed = nullptr;
	uint64_t caught = batch;
	int state = -1;

	check(!twheel_keyed_open(&keyed, &options), "keyed open");
	if (!keyed)
		return;
	for (uint64_t i = 0; i < batch; i++)
		twheel_keyed_set(keyed, &i, sizeof(i), 1, i, nullptr);
	check(twheel_wait(twheel_keyed_wheel(keyed), -1) == 1, "keyed wait");
	try {
		twheel_keyed_run(keyed, leave, &left);
	} catch (const thrown &what) {
		caught = what.user_data;
	}
	check(caught < batch && left.data.size() == 3,
	      "keyed: an exception leaves the rest of the batch");
	check(!pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state) &&
	      state == PTHREAD_CANCEL_ENABLE,
	      "keyed: an exception leaves the cancel state as it was");
	check(twheel_wait(twheel_keyed_wheel(keyed), 5000000000) == 1,
	      "keyed: the rest of the batch is readable");
	twheel_keyed_run(keyed, leave, &left);
	check(left.data.size() == batch &&
	      std::set<uint64_t>(left.data.begin(), left.data.end()).size() == batch,
	      "keyed: each key expires once");

	left.data.clear();
	for (uint64_t i = 0; i < batch; i++)
		twheel_keyed_set(keyed, &i, sizeof(i), ~0ULL, i, nullptr);
	try {
		twheel_keyed_drain(keyed, leave, &left);
		caught = batch;
	} catch (const thrown &what) {
		caught = what.user_data;
	}
	check(caught < batch && left.data.size() == 3,
	      "keyed: an exception in a drain leaves the rest");
	twheel_keyed_drain(keyed, leave, &left);
	check(left.data.size() == batch && !twheel_keyed_count(keyed),
	      "keyed: each key is drained once");
	twheel_keyed_close(keyed);
}

} // namespace

int main()
{
	const bool device = !access("/dev/twheel", R_OK | W_OK);
	const unsigned int plan = device ? 32 : 16;
	twheel_options options = {};

	unsetenv("TWHEEL_BACKEND");
	std::printf("TAP version 13\n1..%u\n", plan);
	options.size = sizeof(options);
	for (int i = 0; i <= device; i++) {
		options.flags = i ? TWHEEL_OPEN_KERNEL : TWHEEL_OPEN_INPROCESS;
		backend = i ? "kernel" : "inprocess";
		verbs(options);
		exceptions(options);
	}
	return failed || number != plan;
}
