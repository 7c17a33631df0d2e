/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of libtwheel share: a wheel of each backend, and time limits.
 */
#ifndef LIB_TEST_H
#define LIB_TEST_H

#include "twheel_test.h"
#include "emulated.h"

#include <libtwheel.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#define SECOND	NS_PER_SEC

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED	true
#else
#define SANITIZED	false
#endif

static inline bool have_device(void)
{
	return !access(TWHEEL_DEVICE, R_OK | W_OK);
}

/* Returns true if the machine is only for tests, so that its clock and settings may be changed. */
static inline bool machine_is_ours(void)
{
	return have_device() && is_root();
}

/*
 * Opens a wheel of one backend, whatever the environment says. Skips the test if that is the
 * kernel's and there is no module.
 */
#define OPEN_OR_SKIP(options, wheel) do { \
	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND")); \
	if ((options)->flags & TWHEEL_OPEN_KERNEL && !have_device()) \
		SKIP(return, "no " TWHEEL_DEVICE); \
	ASSERT_EQ(0, twheel_open((wheel), (options))); \
} while (0)

/* Waits for the first event, and reads up to @max events. Returns how many, or an errno. */
static inline int lib_take(struct twheel *w, struct twheel_event *ev, unsigned int max,
			   int timeout_ms)
{
	uint64_t end = now(CLOCK_MONOTONIC) + timeout_ms * NS_PER_MS;
	uint64_t at;
	int ret;

	for (;;) {
		memset(ev, POISON, max * sizeof(*ev));
		ret = twheel_read(w, ev, max);
		at = now(CLOCK_MONOTONIC);
		if (ret || at >= end)
			return ret;
		/*
		 * A wheel that becomes readable without an event must not stay readable. An
		 * event that does not make the wheel readable is not found here.
		 */
		ret = twheel_wait(w, end - at);
		if (ret <= 0)
			return ret;
	}
}

static inline int lib_collect(struct twheel *w, struct twheel_event *ev, unsigned int n)
{
	unsigned int have = 0;

	while (have < n) {
		int ret = lib_take(w, ev + have, n - have, TIMEOUT_MS);

		if (ret < 0)
			return ret;
		if (!ret)
			break;
		have += ret;
	}
	return have;
}

/* Returns the next event, which must come. */
static inline struct twheel_event lib_event(struct __test_metadata *_metadata, struct twheel *w)
{
	struct twheel_event ev;

	ASSERT_EQ(1, lib_collect(w, &ev, 1));
	return ev;
}

/* Expects the next event to be this one, and never early. */
static inline void lib_expect(struct __test_metadata *_metadata, struct twheel *w, uint64_t id,
			      uint64_t user_data, uint64_t deadline)
{
	struct twheel_event ev = lib_event(_metadata, w);

	EXPECT_EQ(id, ev.id);
	EXPECT_EQ(user_data, ev.user_data);
	EXPECT_EQ(deadline, ev.deadline_ns);
	EXPECT_GE(ev.expired_ns, deadline);
	EXPECT_EQ(1, ev.expirations);
}

/* Expects that no verb finds a timer by @id. */
static inline void expect_gone(struct __test_metadata *_metadata, struct twheel *w, uint64_t id)
{
	EXPECT_EQ(-ENOENT, twheel_set(w, id, 1));
	EXPECT_EQ(-ENOENT, twheel_clear(w, id));
	EXPECT_EQ(-ENOENT, twheel_del(w, id));
}

/* Returns true if no event comes for a while. */
static inline bool quiet(struct twheel *w)
{
	struct twheel_event ev;

	return !lib_take(w, &ev, 1, QUIET_MS);
}

/* Waits until there is an event, and does not read it. */
static inline bool is_unread(struct twheel *w)
{
	return twheel_wait(w, TIMEOUT_MS * NS_PER_MS) == 1;
}

/* Submits one operation. Returns its result. */
static inline int lib_op(struct twheel *w, uint32_t opcode, struct twheel_timer *t)
{
	struct twheel_op op = { .timer = *t, .opcode = opcode, .result = -EBADMSG };
	int ret = twheel_submit(w, &op, 1);

	if (ret != 1)
		return ret < 0 ? ret : -EBADMSG;
	*t = op.timer;
	return op.result;
}

static inline int lib_register(struct twheel *w, struct twheel_timer *t)
{
	return lib_op(w, TWHEEL_OP_REGISTER, t);
}

static inline int lib_rearm(struct twheel *w, struct twheel_timer *t)
{
	return lib_op(w, TWHEEL_OP_REARM, t);
}

static inline int lib_get(struct twheel *w, struct twheel_timer *t)
{
	return lib_op(w, TWHEEL_OP_GET, t);
}

/* Returns the state that CANCEL found, or a negative errno. */
static inline int lib_cancel(struct twheel *w, uint64_t id)
{
	struct twheel_timer t = { .id = id };
	int ret = lib_op(w, TWHEEL_OP_CANCEL, &t);

	return ret ? ret : (int)t.state;
}

/* Returns the state that GET finds, or a negative errno. */
static inline int lib_state(struct twheel *w, uint64_t id)
{
	struct twheel_timer t = { .id = id };
	int ret = lib_get(w, &t);

	return ret ? ret : (int)t.state;
}

/* Registers a timer that is kept and not armed. */
static inline uint64_t reserve_timer(struct __test_metadata *_metadata, struct twheel *w,
				     uint64_t user_data)
{
	struct twheel_timer t = {
		.user_data = user_data,
		.flags = TWHEEL_KEEP | TWHEEL_DISARMED,
	};

	ASSERT_EQ(0, lib_register(w, &t));
	ASSERT_EQ(TWHEEL_IDLE, t.state);
	return t.id;
}

/* Checks that armings and expirations are conserved, at any moment. */
static inline void lib_conserved(struct __test_metadata *_metadata, struct twheel *w)
{
	struct twheel_stats s;

	poison(&s);
	EXPECT_EQ(0, twheel_stats(w, &s));
	EXPECT_TRUE(adds_up(&s))
		tell_stats("not conserved", &s);
}

/* Returns true if the address sanitizer finds a leak. */
static inline bool leaks(void)
{
#ifdef __SANITIZE_ADDRESS__
	return __lsan_do_recoverable_leak_check();
#else
	return false;
#endif
}

/* Has a child of fork() end if it hangs. */
static inline void must_end_soon(void)
{
	alarm(60);
}

/* Closes a fixture's wheel, if it has one. */
static inline void lib_close(struct __test_metadata *_metadata, struct twheel *w)
{
	if (!w)
		return;
	lib_conserved(_metadata, w);
	twheel_close(w);
	EXPECT_FALSE(leaks());
}

FIXTURE(lib) {
	struct twheel_options o;
	struct twheel *w;
};

FIXTURE_VARIANT(lib) {
	__u32 flags;
};

VARIANT(lib, kernel, .flags = TWHEEL_OPEN_KERNEL);
VARIANT(lib, inprocess, .flags = TWHEEL_OPEN_INPROCESS);

FIXTURE_SETUP(lib)
{
	ASSERT_EQ(0, unsetenv("TWHEEL_CHECKED"));
	self->o = (struct twheel_options) { .size = sizeof(self->o), .flags = variant->flags };
	OPEN_OR_SKIP(&self->o, &self->w);
}

FIXTURE_TEARDOWN(lib)
{
	lib_close(_metadata, self->w);
}

#endif /* LIB_TEST_H */
