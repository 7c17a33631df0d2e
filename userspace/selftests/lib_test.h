/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of libtwheel share: a wheel of each backend, and patience.
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

static inline bool have_device(void)
{
	return !access(TWHEEL_DEVICE, R_OK | W_OK);
}

/* One kind of wheel; not this one where there is no module. */
#define OPEN_OR_SKIP(options, wheel) do { \
	if ((options)->flags & TWHEEL_OPEN_KERNEL && !have_device()) \
		SKIP(return, "no " TWHEEL_DEVICE); \
	ASSERT_EQ(0, twheel_open((options), (wheel))); \
} while (0)

/* Waits for the first event, and reads up to @max. Returns how many, or an errno. */
static inline int lib_take(struct twheel_ctx *w, struct twheel_event *ev, unsigned int max,
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
		 * What becomes readable without an event must not be so for ever.
		 * And what is there without being readable is not found.
		 */
		ret = twheel_wait(w, end - at);
		if (ret <= 0)
			return ret;
	}
}

static inline int lib_collect(struct twheel_ctx *w, struct twheel_event *ev, unsigned int n)
{
	unsigned int have = 0;

	while (have < n) {
		int ret = lib_take(w, ev + have, n - have, PATIENCE_MS);

		if (ret < 0)
			return ret;
		if (!ret)
			break;
		have += ret;
	}
	return have;
}

/* Nothing comes for a while. */
static inline bool quiet(struct twheel_ctx *w)
{
	struct twheel_event ev;

	return !lib_take(w, &ev, 1, QUIET_MS);
}

/* The conservation of armings and of expirations, at any moment. */
static inline void lib_conserved(struct __test_metadata *_metadata, struct twheel_ctx *w)
{
	struct twheel_stats s;

	poison(&s);
	EXPECT_EQ(0, twheel_counters(w, &s));
	EXPECT_EQ(s.armings, s.expired + s.displaced + s.armed);
	EXPECT_EQ(s.expired, s.delivered + s.withdrawn + s.unread);
}

/* Under the address sanitizer: nothing is left of what was closed. */
static inline void no_leaks(struct __test_metadata *_metadata)
{
#ifdef __SANITIZE_ADDRESS__
	EXPECT_EQ(0, __lsan_do_recoverable_leak_check());
#else
	(void)_metadata;
#endif
}

/* A kept timer, not armed yet. */
static inline uint64_t reserve_timer(struct __test_metadata *_metadata, struct twheel_ctx *w,
				     uint64_t user_data)
{
	struct twheel_timer t = {
		.user_data = user_data,
		.flags = TWHEEL_KEEP | TWHEEL_DISARMED,
	};

	ASSERT_EQ(0, twheel_register(w, &t));
	ASSERT_EQ(TWHEEL_IDLE, t.state);
	return t.id;
}

FIXTURE(lib) {
	struct twheel_options o;
	struct twheel_ctx *w;
};

FIXTURE_VARIANT(lib) {
	__u32 flags;
};

FIXTURE_VARIANT_ADD(lib, kernel)
{
	.flags = TWHEEL_OPEN_KERNEL,
};

FIXTURE_VARIANT_ADD(lib, inprocess)
{
	.flags = TWHEEL_OPEN_INPROCESS,
};

FIXTURE_SETUP(lib)
{
	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	self->o = (struct twheel_options) { .size = sizeof(self->o), .flags = variant->flags };
	OPEN_OR_SKIP(&self->o, &self->w);
}

FIXTURE_TEARDOWN(lib)
{
	if (!self->w)
		return;
	lib_conserved(_metadata, self->w);
	twheel_close(self->w);
	no_leaks(_metadata);
}

#endif /* LIB_TEST_H */
