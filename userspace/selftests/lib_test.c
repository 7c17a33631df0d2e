// SPDX-License-Identifier: GPL-2.0
/*
 * libtwheel: opening, timers, waiting and reading, over both backends. Each
 * sentence of the header has a test here or in its siblings.
 */
#include "lib_test.h"

#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/time.h>

/* ---- Opening ---- */

TEST(version)
{
	char text[32];

	snprintf(text, sizeof(text), "%d.%d.%d", TWHEEL_VERSION_MAJOR, TWHEEL_VERSION_MINOR,
		 TWHEEL_VERSION_PATCH);
	EXPECT_STREQ(text, twheel_version());
}

/* Without a wish it is the kernel's wheel if there is a device, and else ours. */
TEST(default_backend)
{
	struct twheel_options o = { .size = sizeof(o) };
	struct twheel_ctx *w;

	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	ASSERT_EQ(0, twheel_open(NULL, &w));
	EXPECT_STREQ(have_device() ? "kernel" : "inprocess", twheel_backend(w));
	twheel_close(w);
	ASSERT_EQ(0, twheel_open(&o, &w));
	EXPECT_STREQ(have_device() ? "kernel" : "inprocess", twheel_backend(w));
	twheel_close(w);
	twheel_close(NULL);
}

/* With no device, and with one that is not for us. */
TEST(fallback)
{
	struct twheel_options kernel = { .size = sizeof(kernel), .flags = TWHEEL_OPEN_KERNEL };
	struct twheel_ctx *w;

	SKIP_UNLESS_ROOT();
	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/dev", "tmpfs", 0, "mode=755"))
		SKIP(return, "cannot hide /dev here");
	ASSERT_EQ(0, twheel_open(NULL, &w));
	EXPECT_STREQ("inprocess", twheel_backend(w));
	twheel_close(w);
	EXPECT_EQ(-ENOENT, twheel_open(&kernel, &w));

	ASSERT_EQ(0, mknod(TWHEEL_DEVICE, S_IFCHR | 0600, makedev(1, 3)));
	be_nobody(_metadata);
	ASSERT_EQ(0, twheel_open(NULL, &w));
	EXPECT_STREQ("inprocess", twheel_backend(w));
	twheel_close(w);
	EXPECT_EQ(-EACCES, twheel_open(&kernel, &w));
}

/* A file of that name which is no wheel is an error, not a reason to go on without. */
TEST(not_our_device)
{
	struct twheel_ctx *w;

	SKIP_UNLESS_ROOT();
	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/dev", "tmpfs", 0, "mode=755"))
		SKIP(return, "cannot hide /dev here");
	ASSERT_EQ(0, mknod(TWHEEL_DEVICE, S_IFCHR | 0666, makedev(1, 3)));
	EXPECT_EQ(-ENOTTY, twheel_open(NULL, &w));
}

TEST(environment)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_KERNEL };
	struct twheel_ctx *w;

	ASSERT_EQ(0, setenv("TWHEEL_BACKEND", "inprocess", 1));
	ASSERT_EQ(0, twheel_open(&o, &w));
	EXPECT_STREQ("inprocess", twheel_backend(w));
	twheel_close(w);
	ASSERT_EQ(0, setenv("TWHEEL_BACKEND", "sundial", 1));
	EXPECT_EQ(-EINVAL, twheel_open(&o, &w));
	EXPECT_EQ(-EINVAL, twheel_open(NULL, &w));
	/* Empty is as good as not set. */
	ASSERT_EQ(0, setenv("TWHEEL_BACKEND", "", 1));
	o.flags = TWHEEL_OPEN_INPROCESS;
	ASSERT_EQ(0, twheel_open(&o, &w));
	twheel_close(w);
	ASSERT_EQ(0, setenv("TWHEEL_BACKEND", "kernel", 1));
	if (have_device()) {
		ASSERT_EQ(0, twheel_open(&o, &w));
		EXPECT_STREQ("kernel", twheel_backend(w));
		twheel_close(w);
	} else {
		EXPECT_EQ(-ENOENT, twheel_open(&o, &w));
	}
}

/* A process without a key for its threads' memory learns it at once. */
TEST(no_key_left)
{
	struct twheel_ctx *w = NULL;
	pthread_key_t key;

	while (!pthread_key_create(&key, NULL))
		;
	EXPECT_EQ(-EAGAIN, twheel_open(NULL, &w));
	EXPECT_EQ(-EAGAIN, twheel_from_fd(-1, &w));
	EXPECT_EQ(NULL, w);
}

TEST(from_fd_refuses)
{
	struct twheel_ctx *w;
	int fd = open("/dev/null", O_RDWR);

	ASSERT_GE(fd, 0);
	EXPECT_EQ(-ENOTTY, twheel_from_fd(fd, &w));
	/* It stays ours. */
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(-EBADF, twheel_from_fd(fd, &w));
	if (!have_device())
		return;
	fd = open(TWHEEL_DEVICE, O_RDONLY);
	ASSERT_GE(fd, 0);
	EXPECT_EQ(-EACCES, twheel_from_fd(fd, &w));
	EXPECT_EQ(0, close(fd));
}

static bool scribbled;

static void *scribble(void *arg)
{
	struct twheel_table *head = arg, good = *head;
	unsigned int i;

	for (i = 0; !__atomic_load_n(&scribbled, __ATOMIC_RELAXED); i++) {
		__atomic_store_n(&head->slots, i % 2 ? good.slots : i % 4 ? 1 : 0xffffffff,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&head->slots_offset,
				 i % 3 ? good.slots_offset : i % 5 ? 0xfffffff0 : 4,
				 __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Others may write to the header: it is believed only where it cannot be wrong. */
TEST(scribbled_header)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_KERNEL };
	__u64 end = now(CLOCK_MONOTONIC) + 2 * NS_PER_SEC;
	struct twheel_ctx *w, *other;
	struct twheel_info info;
	unsigned int i, good = 0;
	pthread_t thread;
	uint64_t id;
	void *head;

	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	OPEN_OR_SKIP(&o, &w);
	twheel_info(w, &info);
	head = mmap(NULL, info.table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, twheel_fd(w), 0);
	ASSERT_TRUE(head != MAP_FAILED);
	ASSERT_EQ(TWHEEL_TABLE_MAGIC, ((struct twheel_table *)head)->magic);
	ASSERT_EQ(0, pthread_create(&thread, NULL, scribble, head));
	for (i = 0; i < 500 && now(CLOCK_MONOTONIC) < end; i++) {
		int fd = dup(twheel_fd(w)), ret = twheel_from_fd(fd, &other);

		if (ret) {
			ASSERT_EQ(-EOPNOTSUPP, ret);
			close(fd);
			continue;
		}
		ASSERT_EQ(0, twheel_start(other, twheel_now(other) + HOUR, 0, &id));
		ASSERT_EQ(1, twheel_stop(other, id));
		twheel_close(other);
		good++;
	}
	__atomic_store_n(&scribbled, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	TH_LOG("%u of %u accepted", good, i);
	munmap(head, info.table_bytes);
	twheel_close(w);
}

TEST_F(lib, options)
{
	struct twheel_options o = self->o;
	struct {
		struct twheel_options o;
		char more[8];
	} later = { .o = self->o };
	struct twheel_info i;
	struct twheel_ctx *w;

	EXPECT_STREQ(variant->flags & TWHEEL_OPEN_KERNEL ? "kernel" : "inprocess",
		     twheel_backend(self->w));
	twheel_info(self->w, &i);
	EXPECT_EQ(DEFAULT_TICK, i.tick_ns);
	EXPECT_EQ(CLOCK_MONOTONIC, i.clock_id);
	EXPECT_EQ(1 << 20, i.max_timers);
	EXPECT_EQ(6, i.slot_bits);
	EXPECT_EQ(8, i.levels);
	EXPECT_EQ(variant->flags & TWHEEL_OPEN_KERNEL ? TWHEEL_FEATURE_TABLE : 0, i.features);
	EXPECT_EQ(!i.features, !i.table_bytes);

	o.tick_ns = 200000;
	o.clock_id = CLOCK_BOOTTIME;
	o.max_timers = 100;
	o.levels = 2;
	o.slot_bits = 8;
	ASSERT_EQ(0, twheel_open(&o, &w));
	poison(&i);
	twheel_info(w, &i);
	EXPECT_EQ(131072, i.tick_ns);
	EXPECT_EQ(CLOCK_BOOTTIME, i.clock_id);
	EXPECT_EQ(100, i.max_timers);
	EXPECT_EQ(2, i.levels);
	EXPECT_EQ(8, i.slot_bits);
	EXPECT_EQ(1ULL << (17 + 16), i.horizon_ns);
	twheel_close(w);

	/* Of an earlier and of a later version. */
	o.size = offsetof(struct twheel_options, clock_id);
	ASSERT_EQ(0, twheel_open(&o, &w));
	twheel_info(w, &i);
	EXPECT_EQ(131072, i.tick_ns);
	EXPECT_EQ(CLOCK_MONOTONIC, i.clock_id);
	twheel_close(w);
	later.o.size = sizeof(later);
	ASSERT_EQ(0, twheel_open(&later.o, &w));
	twheel_close(w);
	later.more[7] = 1;
	EXPECT_EQ(-E2BIG, twheel_open(&later.o, &w));

	o = self->o;
	o.size = 0;
	EXPECT_EQ(-EINVAL, twheel_open(&o, &w));
	o = self->o;
	o.flags |= 1 << 3;
	EXPECT_EQ(-EINVAL, twheel_open(&o, &w));
	o.flags = TWHEEL_OPEN_KERNEL | TWHEEL_OPEN_INPROCESS;
	EXPECT_EQ(-EINVAL, twheel_open(&o, &w));
	o = self->o;
	o.slot_bits = 3;
	EXPECT_EQ(-EINVAL, twheel_open(&o, &w));
	o.slot_bits = 17;
	EXPECT_EQ(-EINVAL, twheel_open(&o, &w));
	o = self->o;
	o.levels = 17;
	EXPECT_EQ(-EINVAL, twheel_open(&o, &w));
	o = self->o;
	o.max_timers = (1 << 24) + 1;
	EXPECT_EQ(-EINVAL, twheel_open(&o, &w));
	o = self->o;
	o.clock_id = CLOCK_PROCESS_CPUTIME_ID;
	EXPECT_EQ(-EINVAL, twheel_open(&o, &w));
	o = self->o;
	o.flags |= TWHEEL_OPEN_REALTIME;
	o.clock_id = CLOCK_MONOTONIC;
	EXPECT_EQ(-EINVAL, twheel_open(&o, &w));
}

/* Each clock: the time, never early, and an event in the end. */
TEST_F(lib, clocks)
{
	static const int clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME, CLOCK_TAI };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(clocks); i++) {
		struct twheel_options o = self->o;
		struct twheel_event ev;
		struct twheel_ctx *w;
		uint64_t id, at, before;

		if (clocks[i] == CLOCK_REALTIME)
			o.flags |= TWHEEL_OPEN_REALTIME;
		else
			o.clock_id = clocks[i];
		ASSERT_EQ(0, twheel_open(&o, &w));
		before = now(clocks[i]);
		at = twheel_now(w);
		EXPECT_LE(before, at);
		EXPECT_GE(now(clocks[i]), at);
		at += 30 * NS_PER_MS;
		ASSERT_EQ(0, twheel_start(w, at, i, &id));
		ASSERT_EQ(1, lib_collect(w, &ev, 1));
		EXPECT_GE(now(clocks[i]), at);
		EXPECT_EQ(i, ev.user_data);
		EXPECT_EQ(at, ev.deadline_ns);
		EXPECT_GE(ev.expired_ns, at);
		twheel_close(w);
	}
}

/* When the wall clock is set, deadlines keep their meaning. Not on a machine of yours. */
TEST_F(lib, clock_set)
{
	uint64_t base = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC), start, id, far, at;
	struct twheel_options o = self->o;
	struct twheel_event ev;
	struct twheel_ctx *w;
	struct timespec ts;

	if (!have_device() || !is_root())
		SKIP(return, "only where the clock is nobody's: in the test machine");
	o.flags |= TWHEEL_OPEN_REALTIME;
	ASSERT_EQ(0, twheel_open(&o, &w));
	start = now(CLOCK_REALTIME);
	ASSERT_EQ(0, twheel_start(w, start + 600 * SECOND, 1, &id));
	ASSERT_EQ(0, twheel_start(w, start + 7200 * SECOND, 2, &far));
	EXPECT_TRUE(quiet(w));
	ts = (struct timespec) { (start + 3600 * SECOND) / SECOND, 0 };
	ASSERT_EQ(0, clock_settime(CLOCK_REALTIME, &ts));
	EXPECT_EQ(1, lib_collect(w, &ev, 1));
	EXPECT_EQ(1, ev.user_data);
	EXPECT_TRUE(quiet(w));
	/* Back: it is due when the clock gets there again. */
	ASSERT_EQ(1, twheel_move(w, far, now(CLOCK_REALTIME) + 100 * NS_PER_MS));
	ASSERT_EQ(0, twheel_flush(w));
	start -= 3600 * SECOND;
	ts = (struct timespec) { start / SECOND, 0 };
	ASSERT_EQ(0, clock_settime(CLOCK_REALTIME, &ts));
	sleep_ms(200);
	EXPECT_TRUE(quiet(w));
	at = now(CLOCK_REALTIME) + 1500 * NS_PER_MS;
	ASSERT_EQ(1, twheel_move(w, far, at));
	EXPECT_EQ(1, lib_collect(w, &ev, 1));
	EXPECT_EQ(2, ev.user_data);
	/* A moment that has been may come again: unread, and not noticed yet, */
	at = now(CLOCK_REALTIME) + 1500 * NS_PER_MS;
	ASSERT_EQ(0, twheel_move(w, far, at));
	ASSERT_EQ(1, twheel_wait(w, PATIENCE_MS * NS_PER_MS));
	ts = (struct timespec) { start / SECOND, 0 };
	ASSERT_EQ(0, clock_settime(CLOCK_REALTIME, &ts));
	if (!twheel_read(w, &ev, 1))
		EXPECT_EQ(1, lib_collect(w, &ev, 1));
	EXPECT_EQ(at, ev.deadline_ns);
	EXPECT_GE(ev.expired_ns, at);
	/* or armed again. */
	ts = (struct timespec) { start / SECOND, 0 };
	ASSERT_EQ(0, clock_settime(CLOCK_REALTIME, &ts));
	ASSERT_EQ(0, twheel_move(w, far, at));
	EXPECT_EQ(1, lib_collect(w, &ev, 1));
	EXPECT_EQ(at, ev.deadline_ns);
	EXPECT_GE(ev.expired_ns, at);
	base += now(CLOCK_MONOTONIC);
	ts = (struct timespec) { base / SECOND, base % SECOND };
	ASSERT_EQ(0, clock_settime(CLOCK_REALTIME, &ts));
	twheel_close(w);
}

/* ---- Timers ---- */

TEST_F(lib, timer_verbs)
{
	struct twheel_timer t = {
		.user_data = 7,
		.deadline_ns = HOUR,
		.flags = TWHEEL_KEEP,
		.slack_ns = 5,
	};
	uint64_t before = twheel_now(self->w), id;
	struct twheel_event ev;

	ASSERT_EQ(0, twheel_register(self->w, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_GE(t.deadline_ns, before + HOUR);
	EXPECT_LE(t.deadline_ns, twheel_now(self->w) + HOUR);
	id = t.id;
	EXPECT_NE(0, id >> 32);

	poison(&t);
	t.id = id;
	ASSERT_EQ(0, twheel_get(self->w, &t));
	EXPECT_EQ(id, t.id);
	EXPECT_EQ(7, t.user_data);
	EXPECT_EQ(5, t.slack_ns);
	EXPECT_EQ(TWHEEL_KEEP, t.flags);
	EXPECT_EQ(TWHEEL_ARMED, t.state);

	t = (struct twheel_timer) { .id = id, .deadline_ns = 1, .flags = TWHEEL_KEEP };
	ASSERT_EQ(0, twheel_rearm(self->w, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(id, ev.id);
	EXPECT_EQ(7, ev.user_data);
	EXPECT_EQ(t.deadline_ns, ev.deadline_ns);
	EXPECT_GE(ev.expired_ns, ev.deadline_ns);
	EXPECT_EQ(1, ev.expirations);

	/* Kept, idle; then expired and unread. */
	t = (struct twheel_timer) { .id = id, .deadline_ns = 0, .flags = TWHEEL_KEEP };
	ASSERT_EQ(0, twheel_rearm(self->w, &t));
	EXPECT_EQ(TWHEEL_IDLE, t.state);
	ASSERT_EQ(1, twheel_wait(self->w, PATIENCE_MS * NS_PER_MS));
	EXPECT_EQ(TWHEEL_EXPIRED, twheel_cancel(self->w, id));
	EXPECT_EQ(-ENOENT, twheel_cancel(self->w, id));
	t.id = id;
	EXPECT_EQ(-ENOENT, twheel_get(self->w, &t));
	t.flags = 0;
	EXPECT_EQ(-ENOENT, twheel_rearm(self->w, &t));
	EXPECT_TRUE(quiet(self->w));

	/* An id does not come back, be it the same slot. */
	t = (struct twheel_timer) { .deadline_ns = HOUR };
	ASSERT_EQ(0, twheel_register(self->w, &t));
	EXPECT_NE(id, t.id);
	EXPECT_EQ(-ENOENT, twheel_cancel(self->w, id));
	EXPECT_EQ(TWHEEL_ARMED, twheel_cancel(self->w, t.id));

	t = (struct twheel_timer) { .deadline_ns = 1, .flags = 1 << 3 };
	EXPECT_EQ(-EINVAL, twheel_register(self->w, &t));
	t = (struct twheel_timer) { .deadline_ns = 1, .flags = TWHEEL_DISARMED };
	EXPECT_EQ(-EINVAL, twheel_register(self->w, &t));
	t = (struct twheel_timer) { .deadline_ns = 1, .period_ns = DEFAULT_TICK - 1 };
	EXPECT_EQ(-EINVAL, twheel_register(self->w, &t));
	/* What failed has changed nothing. */
	EXPECT_EQ(1, t.deadline_ns);
	EXPECT_EQ(0, t.id);
}

TEST_F(lib, batch)
{
	struct twheel_op ops[3] = {
		{ .opcode = TWHEEL_OP_REGISTER, .timer.deadline_ns = HOUR, .result = -1 },
		{ .opcode = 77, .result = -1 },
		{ .opcode = TWHEEL_OP_REGISTER, .timer.deadline_ns = HOUR, .result = -1 },
	};
	struct twheel_op get = { .opcode = 0 };

	EXPECT_EQ(3, twheel_batch(self->w, ops, 3));
	EXPECT_EQ(0, ops[0].result);
	EXPECT_EQ(-EINVAL, ops[1].result);
	EXPECT_EQ(0, ops[2].result);
	EXPECT_NE(ops[0].timer.id, ops[2].timer.id);
	ops[0].opcode = TWHEEL_OP_CANCEL;
	ops[2].opcode = TWHEEL_OP_GET;
	EXPECT_EQ(3, twheel_batch(self->w, ops, 3));
	EXPECT_EQ(TWHEEL_ARMED, ops[0].timer.state);
	EXPECT_EQ(TWHEEL_ARMED, ops[2].timer.state);
	EXPECT_EQ(0, twheel_batch(self->w, ops, 0));
	EXPECT_EQ(1, twheel_batch(self->w, &get, 1));
	EXPECT_EQ(-EINVAL, get.result);
	EXPECT_EQ(-EINVAL, twheel_batch(self->w, ops, TWHEEL_BATCH_MAX + 1));
}

/* Fixed rate, a count for who comes late, and REARM to end it. */
TEST_F(lib, period)
{
	uint64_t period = 8 * NS_PER_MS, start = twheel_now(self->w) + period, next = start;
	struct twheel_timer t = {
		.deadline_ns = start,
		.period_ns = period,
		.flags = TWHEEL_ABSTIME | TWHEEL_KEEP,
	};
	struct twheel_event ev;
	unsigned int i;

	ASSERT_EQ(0, twheel_register(self->w, &t));
	for (i = 0; i < 5; i++) {
		if (i == 3)
			sleep_ms(50);
		ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
		EXPECT_GE(twheel_now(self->w), next);
		EXPECT_EQ(next, ev.deadline_ns);
		EXPECT_GE(ev.expired_ns, next);
		EXPECT_GE(ev.expirations, i == 3 ? 5 : 1);
		next += ev.expirations * period;
	}
	/* The word has the next one; disarmed there, it ends. */
	EXPECT_EQ(0, (t.deadline_ns - start) % period);
	twheel_disarm(self->w, t.id);
	while (lib_take(self->w, &ev, 1, QUIET_MS) > 0)
		;
	ASSERT_EQ(0, twheel_get(self->w, &t));
	EXPECT_EQ(TWHEEL_IDLE, t.state);
	EXPECT_EQ(TWHEEL_IDLE, twheel_cancel(self->w, t.id));
}

static int lib_state(struct twheel_ctx *w, uint64_t id)
{
	struct twheel_timer t = { .id = id };
	int ret = twheel_get(w, &t);

	return ret ? ret : (int)t.state;
}

TEST_F(lib, arm_disarm)
{
	uint64_t id = reserve_timer(_metadata, self->w, 9), at, moved;
	struct twheel_event ev;

	EXPECT_EQ(0, twheel_disarm(self->w, id));
	at = twheel_now(self->w) + 400 * NS_PER_MS;
	EXPECT_EQ(0, twheel_arm(self->w, id, at));
	EXPECT_EQ(TWHEEL_ARMED, lib_state(self->w, id));
	ASSERT_EQ(0, twheel_flush(self->w));
	/* Later: not at the old time. */
	moved = at + 60 * NS_PER_MS;
	EXPECT_EQ(1, twheel_arm(self->w, id, moved));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_GE(twheel_now(self->w), moved);
	EXPECT_EQ(moved, ev.deadline_ns);
	EXPECT_EQ(9, ev.user_data);
	EXPECT_EQ(id, ev.id);

	/* Earlier: not only at the old time. */
	EXPECT_EQ(0, twheel_arm(self->w, id, twheel_now(self->w) + HOUR));
	ASSERT_EQ(0, twheel_flush(self->w));
	at = twheel_now(self->w) + 5 * NS_PER_MS;
	EXPECT_EQ(1, twheel_arm(self->w, id, at));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_GE(ev.expired_ns, at);
	EXPECT_EQ(at, ev.deadline_ns);

	/* Disarmed for good. */
	EXPECT_EQ(0, twheel_arm(self->w, id, twheel_now(self->w) + 5 * NS_PER_MS));
	ASSERT_EQ(0, twheel_flush(self->w));
	EXPECT_EQ(1, twheel_disarm(self->w, id));
	EXPECT_EQ(0, twheel_disarm(self->w, id));
	EXPECT_TRUE(quiet(self->w));
	EXPECT_EQ(TWHEEL_IDLE, lib_state(self->w, id));

	/* 0 counts as 1, and what is past is due. */
	EXPECT_EQ(0, twheel_arm(self->w, id, 0));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(1, ev.deadline_ns);
	EXPECT_EQ(TWHEEL_IDLE, twheel_cancel(self->w, id));

	EXPECT_EQ(-ENOENT, twheel_arm(self->w, 0xffffffff, 1));
	EXPECT_EQ(-ENOENT, twheel_disarm(self->w, 0xffffffff));
	EXPECT_EQ(-ENOENT, twheel_arm(self->w, 1 << 20, 1));
}

/* Expired and unread: disarm does not know, arm has it withdrawn when flushed. */
TEST_F(lib, arm_over_unread)
{
	uint64_t id = reserve_timer(_metadata, self->w, 0), at;
	struct twheel_timer t;
	struct twheel_event ev;

	twheel_arm(self->w, id, 1);
	ASSERT_EQ(1, twheel_wait(self->w, PATIENCE_MS * NS_PER_MS));
	EXPECT_EQ(0, twheel_disarm(self->w, id));
	EXPECT_EQ(TWHEEL_EXPIRED, lib_state(self->w, id));
	at = twheel_now(self->w) + 30 * NS_PER_MS;
	EXPECT_EQ(0, twheel_arm(self->w, id, at));
	ASSERT_EQ(0, twheel_flush(self->w));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(at, ev.deadline_ns);
	EXPECT_TRUE(quiet(self->w));

	/* Disarmed before that, it is the old one again; after it, there is none. */
	twheel_arm(self->w, id, 1);
	ASSERT_EQ(1, twheel_wait(self->w, PATIENCE_MS * NS_PER_MS));
	EXPECT_EQ(0, twheel_arm(self->w, id, twheel_now(self->w) + HOUR));
	EXPECT_EQ(1, twheel_disarm(self->w, id));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(1, ev.deadline_ns);
	EXPECT_TRUE(quiet(self->w));
	twheel_arm(self->w, id, 1);
	ASSERT_EQ(1, twheel_wait(self->w, PATIENCE_MS * NS_PER_MS));
	EXPECT_EQ(0, twheel_arm(self->w, id, twheel_now(self->w) + HOUR));
	ASSERT_EQ(0, twheel_flush(self->w));
	EXPECT_EQ(1, twheel_disarm(self->w, id));
	EXPECT_TRUE(quiet(self->w));
	/* Or by an ioctl. */
	twheel_arm(self->w, id, 1);
	ASSERT_EQ(1, twheel_wait(self->w, PATIENCE_MS * NS_PER_MS));
	EXPECT_EQ(0, twheel_arm(self->w, id, twheel_now(self->w) + HOUR));
	EXPECT_EQ(1, twheel_disarm(self->w, id));
	t = (struct twheel_timer) { .id = id, .flags = TWHEEL_KEEP | TWHEEL_DISARMED };
	ASSERT_EQ(0, twheel_rearm(self->w, &t));
	EXPECT_EQ(TWHEEL_EXPIRED, t.state);
	EXPECT_TRUE(quiet(self->w));
}

/* ---- Waiting and reading ---- */

TEST_F(lib, wait)
{
	uint64_t before = now(CLOCK_MONOTONIC), id;
	struct twheel_event ev;

	EXPECT_EQ(0, twheel_wait(self->w, 0));
	EXPECT_EQ(0, twheel_wait(self->w, 20 * NS_PER_MS));
	EXPECT_GE(now(CLOCK_MONOTONIC), before + 20 * NS_PER_MS);
	EXPECT_EQ(0, twheel_read(self->w, &ev, 1));
	EXPECT_EQ(-EINVAL, twheel_read(self->w, &ev, 0));

	/* So does reading. */
	ASSERT_EQ(0, twheel_start(self->w, 1, 0, &id));
	EXPECT_EQ(1, twheel_read(self->w, &ev, 1));
	EXPECT_EQ(0, twheel_stop(self->w, id));

	/* It flushes: else this would wait for ever. */
	ASSERT_EQ(0, twheel_start(self->w, twheel_now(self->w) + 10 * NS_PER_MS, 0, &id));
	EXPECT_EQ(1, twheel_wait(self->w, -1));
	EXPECT_TRUE(readable(twheel_fd(self->w), 0));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_FALSE(readable(twheel_fd(self->w), 0));
	EXPECT_EQ(0, twheel_wait(self->w, 0));
}

static void on_signal(int sig __attribute__((unused)))
{
}

TEST_F(lib, wait_signal)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct itimerval it = { .it_value.tv_usec = 20000, .it_interval.tv_usec = 20000 };
	struct itimerval none = { };

	ASSERT_EQ(0, sigaction(SIGALRM, &sa, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &it, NULL));
	EXPECT_EQ(-EINTR, twheel_wait(self->w, PATIENCE_MS * NS_PER_MS));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &none, NULL));
}

/* Longer than a time_t of 32 bits can tell; and yet there is something to read. */
TEST_F(lib, wait_a_century)
{
	struct twheel_event ev;
	uint64_t id;

	ASSERT_EQ(0, twheel_start(self->w, twheel_now(self->w) + 10 * NS_PER_MS, 0, &id));
	EXPECT_EQ(1, twheel_wait(self->w, 100 * 365 * 24 * HOUR));
	EXPECT_EQ(1, lib_collect(self->w, &ev, 1));
}

struct cancelled {
	struct twheel_ctx *w;
	sem_t requested;
	int got;
	/* Not on the stack of the thread, where an address sanitizer would forget it. */
	struct twheel_event ev;
};

/* Reads when its end has been requested, and ends after that. */
static void *read_and_end(void *arg)
{
	struct cancelled *c = arg;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	sem_wait(&c->requested);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	c->got = twheel_read(c->w, &c->ev, 1);
	pthread_testcancel();
	return NULL;
}

/* A thread that is cancelled does not keep others from reading. */
TEST_F(lib, cancelled)
{
	uint64_t at = twheel_now(self->w) + 20 * NS_PER_MS;
	struct cancelled c = { .w = self->w, .got = -1 };
	struct twheel_event ev[2];
	uint64_t id[2];
	pthread_t thread;
	void *ret;

	/* Not due yet: so a wheel in the process looks at its timerfd when it is read. */
	ASSERT_EQ(0, twheel_start(self->w, at, 1, &id[0]));
	ASSERT_EQ(0, twheel_start(self->w, at, 1, &id[1]));
	ASSERT_EQ(1, twheel_wait(self->w, PATIENCE_MS * NS_PER_MS));
	ASSERT_EQ(0, sem_init(&c.requested, 0, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, read_and_end, &c));
	ASSERT_EQ(0, pthread_cancel(thread));
	ASSERT_EQ(0, sem_post(&c.requested));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(PTHREAD_CANCELED, ret);
	/* None, if what was readable was only a reason to look. */
	ASSERT_GE(c.got, 0);
	EXPECT_EQ(2 - c.got, lib_collect(self->w, ev, 2 - c.got));
	ASSERT_EQ(0, sem_destroy(&c.requested));
}

/* Starts @n timeouts that are due within 50 ms, some time after all are started. */
static void start_ahead(struct __test_metadata *_metadata, struct twheel_ctx *w, unsigned int n,
			uint64_t *id)
{
	uint64_t lead = 50 * NS_PER_MS, start;
	__u64 seed = now(CLOCK_REALTIME);
	unsigned int i;

	TH_LOG("seed %llu", (unsigned long long)seed);
	for (;; lead *= 2) {
		start = twheel_now(w) + lead;
		for (i = 0; i < n; i++)
			ASSERT_EQ(0, twheel_start(w, start + next_random(&seed) % (50 * NS_PER_MS),
						  i, &id[i]));
		ASSERT_EQ(0, twheel_flush(w));
		if (twheel_now(w) < start)
			break;
		for (i = 0; i < n; i++)
			ASSERT_EQ(1, twheel_stop(w, id[i]));
	}
	/* All are due before the first is read. */
	while (twheel_now(w) < start + 60 * NS_PER_MS)
		sleep_ms(10);
}

/* In the order of their ticks, as many as there is room for, the rest stays. */
TEST_F(lib, read_order)
{
	enum { N = 500 };
	struct twheel_event ev[7];
	static uint64_t id[N];
	static bool seen[N];
	unsigned int i, got = 0;
	uint64_t last = 0;
	int n;

	start_ahead(_metadata, self->w, N, id);
	while (got < N) {
		EXPECT_TRUE(readable(twheel_fd(self->w), PATIENCE_MS));
		n = lib_take(self->w, ev, 7, PATIENCE_MS);
		ASSERT_GT(n, 0);
		ASSERT_LE(n, 7);
		for (i = 0; i < (unsigned int)n; i++) {
			uint64_t tick = (ev[i].deadline_ns + DEFAULT_TICK - 1) / DEFAULT_TICK;

			EXPECT_LE(last, tick);
			last = tick;
			ASSERT_LT(ev[i].user_data, N);
			EXPECT_FALSE(seen[ev[i].user_data]);
			seen[ev[i].user_data] = true;
		}
		got += n;
	}
	EXPECT_FALSE(readable(twheel_fd(self->w), QUIET_MS));
}

/* The descriptor does not stay readable when only moved deadlines were passed. */
TEST_F(lib, not_readable_for_nothing)
{
	uint64_t id, at = twheel_now(self->w) + 20 * NS_PER_MS;
	struct twheel_event ev;

	ASSERT_EQ(0, twheel_start(self->w, at, 0, &id));
	ASSERT_EQ(0, twheel_flush(self->w));
	EXPECT_EQ(1, twheel_move(self->w, id, at + HOUR));
	sleep_ms(60);
	EXPECT_EQ(0, twheel_read(self->w, &ev, 1));
	EXPECT_FALSE(readable(twheel_fd(self->w), QUIET_MS));
	EXPECT_EQ(1, twheel_stop(self->w, id));
}

static void *wait_and_read(void *arg)
{
	struct twheel_ctx *w = arg;
	struct twheel_event ev;

	return (void *)(long)lib_collect(w, &ev, 1);
}

/* A thread that waits hears of what another arms and flushes. */
TEST_F(lib, wake_waiter)
{
	pthread_t thread;
	void *got;
	uint64_t id;

	ASSERT_EQ(0, pthread_create(&thread, NULL, wait_and_read, self->w));
	sleep_ms(30);
	ASSERT_EQ(0, twheel_start(self->w, twheel_now(self->w) + 10 * NS_PER_MS, 0, &id));
	ASSERT_EQ(0, twheel_flush(self->w));
	ASSERT_EQ(0, pthread_join(thread, &got));
	EXPECT_EQ(1, (long)got);
	EXPECT_EQ(0, twheel_stop(self->w, id));
}

/*
 * twheel_arm() and twheel_disarm() are in the header and in the library: a
 * pointer to them is to those of the library, which do the same.
 */
TEST_F(lib, by_pointer)
{
	int (*volatile arm)(struct twheel_ctx *wheel, uint64_t id, uint64_t when) = twheel_arm;
	int (*volatile disarm)(struct twheel_ctx *wheel, uint64_t id) = twheel_disarm;
	struct twheel_timer t = {
		.user_data = 3,
		.flags = TWHEEL_KEEP | TWHEEL_DISARMED,
	};
	struct twheel_event ev;

	ASSERT_EQ(0, twheel_register(self->w, &t));
	EXPECT_EQ(-ENOENT, arm(self->w, (uint32_t)t.id, 1));
	EXPECT_EQ(-ENOENT, arm(self->w, t.id | UINT32_MAX, 1));
	EXPECT_EQ(-ENOENT, disarm(self->w, (uint32_t)t.id));
	EXPECT_EQ(-ENOENT, disarm(self->w, t.id | UINT32_MAX));
	EXPECT_EQ(0, disarm(self->w, t.id));
	EXPECT_EQ(0, arm(self->w, t.id, UINT64_MAX));
	EXPECT_EQ(1, twheel_arm(self->w, t.id, UINT64_MAX));
	EXPECT_EQ(1, disarm(self->w, t.id));
	EXPECT_EQ(0, twheel_disarm(self->w, t.id));
	EXPECT_EQ(0, twheel_arm(self->w, t.id, UINT64_MAX));
	/* 0 is long ago. */
	EXPECT_EQ(1, arm(self->w, t.id, 0));
	EXPECT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(3, ev.user_data);
	EXPECT_EQ(0, arm(self->w, t.id, twheel_now(self->w)));
	EXPECT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(3, ev.user_data);
}

/* ---- Fork ---- */

/* An id of 0, which is what a program has that has none yet, is no timer's. */
TEST_F(lib, no_id)
{
	struct twheel_timer t = {
		.user_data = 3,
		.deadline_ns = HOUR,
		.flags = TWHEEL_KEEP,
	};
	struct twheel_event ev;
	unsigned int i;
	uint64_t id;

	/* On a new wheel, and when slot 0 is a timer's. */
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(-ENOENT, twheel_stop(self->w, 0));
		EXPECT_EQ(-ENOENT, twheel_move(self->w, 0, 1));
		EXPECT_EQ(-ENOENT, twheel_arm(self->w, 0, 1));
		EXPECT_EQ(-ENOENT, twheel_disarm(self->w, 0));
		EXPECT_EQ(-ENOENT, twheel_cancel(self->w, 0));
		if (!i) {
			ASSERT_EQ(0, twheel_register(self->w, &t));
			EXPECT_EQ(0, (uint32_t)t.id);
		}
	}
	EXPECT_EQ(0, twheel_get(self->w, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_EQ(0, twheel_start(self->w, twheel_now(self->w), 5, &id));
	EXPECT_NE(0, id);
	EXPECT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(5, ev.user_data);
	EXPECT_EQ(0, twheel_stop(self->w, id));
}

/* In the child: a kernel wheel is shared, timeouts are not; one in the process is gone. */
TEST_F(lib, fork)
{
	uint64_t id = reserve_timer(_metadata, self->w, 77), mine, other;
	struct twheel_event ev;
	int status;
	pid_t child;

	ASSERT_EQ(0, twheel_start(self->w, twheel_now(self->w) + HOUR, 1, &mine));
	child = fork();
	ASSERT_GE(child, 0);
	if (!child) {
		if (variant->flags & TWHEEL_OPEN_INPROCESS) {
			if (twheel_read(self->w, &ev, 1) != -ECHILD ||
			    twheel_start(self->w, 1, 1, &other) != -ECHILD ||
			    twheel_wait(self->w, 0) != -ECHILD ||
			    twheel_flush(self->w) != -ECHILD ||
			    twheel_move(self->w, mine, 1) != -ECHILD ||
			    twheel_stop(self->w, mine) != -ECHILD ||
			    twheel_cancel(self->w, id) != -ECHILD)
				_exit(1);
		} else {
			/* Not the parent's timeout; a slot of its own. */
			if (twheel_stop(self->w, mine) != -ENOENT ||
			    twheel_start(self->w, twheel_now(self->w) + HOUR, 2, &other) ||
			    other == mine || twheel_stop(self->w, other) != 1)
				_exit(2);
			if (twheel_arm(self->w, id, 5) != 0 || twheel_flush(self->w))
				_exit(3);
		}
		twheel_close(self->w);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	if (variant->flags & TWHEEL_OPEN_KERNEL) {
		ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
		EXPECT_EQ(77, ev.user_data);
		EXPECT_EQ(5, ev.deadline_ns);
	}
	EXPECT_EQ(1, twheel_stop(self->w, mine));
	ASSERT_EQ(0, twheel_start(self->w, 6, 8, &mine));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(8, ev.user_data);
}

/*
 * An event that is one no more when it is looked at, as the timer was armed in the past
 * meanwhile, makes way for the new one in the same read. Another thread, which has not
 * flushed, would leave the word so.
 */
TEST_F(lib, armed_anew_unread)
{
	struct twheel_timer t[2] = { };
	struct twheel_event ev[4];
	unsigned int i;

	for (i = 0; i < 2; i++) {
		t[i].flags = TWHEEL_KEEP | TWHEEL_ABSTIME;
		t[i].deadline_ns = 1;
		t[i].user_data = i;
		ASSERT_EQ(0, twheel_register(self->w, &t[i]));
	}
	ASSERT_EQ(1, twheel_wait(self->w, PATIENCE_MS * NS_PER_MS));
	ASSERT_EQ(1, twheel_read(self->w, ev, 1));
	i = !ev[0].user_data;
	__atomic_exchange_n(&__twheel_word(self->w, t[i].id)->deadline_ns, 2, __ATOMIC_SEQ_CST);
	EXPECT_EQ(1, twheel_read(self->w, ev, 4));
	EXPECT_EQ(t[i].id, ev[0].id);
	EXPECT_EQ(2, ev[0].deadline_ns);
}

TEST_HARNESS_MAIN
