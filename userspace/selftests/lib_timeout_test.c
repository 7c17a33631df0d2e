// SPDX-License-Identifier: GPL-2.0
/*
 * libtwheel: timeouts, and what it costs to start, move and stop them, over
 * both backends.
 */
#include "lib_test.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>

/* ---- Timeouts ---- */

TEST_F(lib, timeout)
{
	uint64_t at = twheel_now(self->w) + 20 * NS_PER_MS, id, other;
	struct twheel_event ev[2];

	ASSERT_EQ(0, twheel_start(self->w, at, 42, &id));
	ASSERT_EQ(0, twheel_start(self->w, at + HOUR, 43, &other));
	EXPECT_NE(id, other);
	ASSERT_EQ(1, lib_collect(self->w, ev, 1));
	EXPECT_EQ(42, ev[0].user_data);
	EXPECT_EQ(id, ev[0].id);
	EXPECT_EQ(at, ev[0].deadline_ns);
	EXPECT_GE(ev[0].expired_ns, at);
	EXPECT_EQ(1, ev[0].expirations);
	/* Its event was read: that is what stop says, and the id ends. */
	EXPECT_EQ(0, twheel_stop(self->w, id));
	EXPECT_EQ(-ENOENT, twheel_stop(self->w, id));
	EXPECT_EQ(-ENOENT, twheel_move(self->w, id, at));
	EXPECT_EQ(1, twheel_stop(self->w, other));
	EXPECT_EQ(-ENOENT, twheel_stop(self->w, other));
	EXPECT_EQ(-ENOENT, twheel_stop(self->w, 0xffffffff));
	EXPECT_EQ(-ENOENT, twheel_move(self->w, 1ULL << 32 | (1 << 19), at));
	EXPECT_TRUE(quiet(self->w));

	/* A timer is no timeout. */
	id = reserve_timer(_metadata, self->w, 0);
	EXPECT_EQ(-ENOENT, twheel_stop(self->w, id));
	EXPECT_EQ(-ENOENT, twheel_move(self->w, id, at));
}

/* Stopped when it had expired and was not read: never read. */
TEST_F(lib, stop_unread)
{
	struct twheel_event ev;
	uint64_t id, again;

	ASSERT_EQ(0, twheel_start(self->w, 0, 1, &id));
	ASSERT_EQ(1, twheel_wait(self->w, PATIENCE_MS * NS_PER_MS));
	EXPECT_EQ(1, twheel_stop(self->w, id));
	/* Nobody is woken for it either. */
	EXPECT_FALSE(readable(twheel_fd(self->w), 0));
	EXPECT_TRUE(quiet(self->w));

	/* Nor is it, if the slot is started again before anybody reads. */
	ASSERT_EQ(0, twheel_start(self->w, 0, 1, &id));
	ASSERT_EQ(1, twheel_wait(self->w, PATIENCE_MS * NS_PER_MS));
	EXPECT_EQ(1, twheel_stop(self->w, id));
	ASSERT_EQ(0, twheel_start(self->w, twheel_now(self->w) + HOUR, 2, &again));
	EXPECT_EQ(id, again);
	EXPECT_TRUE(quiet(self->w));
	EXPECT_EQ(1, twheel_stop(self->w, again));
	ASSERT_EQ(0, twheel_start(self->w, 5, 3, &again));
	EXPECT_EQ(id, again);
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(3, ev.user_data);
	EXPECT_EQ(5, ev.deadline_ns);
	EXPECT_EQ(0, twheel_stop(self->w, again));
}

TEST_F(lib, move)
{
	uint64_t at = twheel_now(self->w) + 40 * NS_PER_MS, id;
	struct twheel_usage before, after;
	struct twheel_event ev;

	ASSERT_EQ(0, twheel_start(self->w, at, 5, &id));
	ASSERT_EQ(0, twheel_flush(self->w));
	EXPECT_EQ(1, twheel_move(self->w, id, at + 40 * NS_PER_MS));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(at + 40 * NS_PER_MS, ev.deadline_ns);
	EXPECT_EQ(5, ev.user_data);
	/* After its event: armed anew, and 0 tells of the event. */
	EXPECT_EQ(0, twheel_move(self->w, id, 3));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(3, ev.deadline_ns);
	EXPECT_EQ(5, ev.user_data);
	/* Expired and unread: withdrawn. */
	EXPECT_EQ(0, twheel_move(self->w, id, 4));
	ASSERT_EQ(1, twheel_wait(self->w, PATIENCE_MS * NS_PER_MS));
	at = twheel_now(self->w) + 30 * NS_PER_MS;
	twheel_usage(self->w, &before);
	EXPECT_EQ(1, twheel_move(self->w, id, at));
	twheel_usage(self->w, &after);
	EXPECT_EQ(before.withdrawn + 1, after.withdrawn);
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(at, ev.deadline_ns);
	EXPECT_TRUE(quiet(self->w));
	/* Earlier, and 0 counts as 1. */
	EXPECT_EQ(0, twheel_move(self->w, id, twheel_now(self->w) + HOUR));
	EXPECT_EQ(1, twheel_move(self->w, id, 0));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(1, ev.deadline_ns);
	EXPECT_EQ(0, twheel_stop(self->w, id));
}

/* As many as there may be, and the slots of those that were stopped serve again. */
TEST_F(lib, full)
{
	struct twheel_options o = self->o;
	struct twheel_ctx *w;
	uint64_t id[201];
	unsigned int round, i;

	o.max_timers = 200;
	ASSERT_EQ(0, twheel_open(&o, &w));
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 200; i++)
			ASSERT_EQ(0, twheel_start(w, twheel_now(w) + HOUR, i, &id[i]));
		EXPECT_EQ(-ENOSPC, twheel_start(w, twheel_now(w) + HOUR, i, &id[200]));
		for (i = 0; i < 200; i++)
			ASSERT_EQ(1, twheel_stop(w, id[i]));
	}
	twheel_close(w);
}

static void *start_one(void *arg)
{
	uint64_t *id = arg;
	struct twheel_ctx *w = (struct twheel_ctx *)(uintptr_t)id[0];
	unsigned int i;

	for (i = 0; i < 100; i++)
		twheel_start(w, twheel_now(w) + 20 * NS_PER_MS, 1000 + i, &id[i]);
	return NULL;
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* Threads do not share cache lines; and a thread that ends flushes. */
TEST_F(lib, threads_apart)
{
	struct twheel_event ev[200];
	uint64_t ids[4][100], all[400];
	pthread_t thread[4];
	unsigned int i, j;

	/* Off the border of a line. */
	reserve_timer(_metadata, self->w, 0);
	for (i = 0; i < 4; i++) {
		ids[i][0] = (uintptr_t)self->w;
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, start_one, ids[i]));
	}
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
	for (i = 0; i < 4; i++) {
		for (j = 0; j < 100; j++)
			all[i * 100 + j] = (ids[i][j] & 0xffffffff) << 2 | i;
	}
	qsort(all, 400, sizeof(*all), compare_ids);
	for (i = 1; i < 400; i++) {
		ASSERT_NE(all[i - 1] >> 2, all[i] >> 2);
		/* The slot is in the upper bits: 4 slots of 16 bytes a line. */
		if (all[i - 1] >> 4 == all[i] >> 4)
			ASSERT_EQ(all[i - 1] & 3, all[i] & 3);
	}
	for (i = 0; i < 400; i += 200)
		ASSERT_EQ(200, lib_collect(self->w, ev, 200));
	EXPECT_TRUE(quiet(self->w));
}

static void *start_and_stop(void *arg)
{
	struct twheel_ctx *w = arg;
	uint64_t id[100];
	unsigned int i;

	for (i = 0; i < 100; i++)
		twheel_start(w, twheel_now(w) + HOUR, 0, &id[i]);
	for (i = 0; i < 100; i++)
		twheel_stop(w, id[i]);
	return NULL;
}

/* The slots of threads that ended are used by others: no leak. */
TEST_F(lib, threads_end)
{
	struct twheel_options o = self->o;
	struct twheel_usage usage;
	struct twheel_stats s;
	struct twheel_ctx *w;
	pthread_t thread;
	unsigned int i;

	o.max_timers = 256;
	ASSERT_EQ(0, twheel_open(&o, &w));
	for (i = 0; i < 50; i++) {
		ASSERT_EQ(0, pthread_create(&thread, NULL, start_and_stop, w));
		ASSERT_EQ(0, pthread_join(thread, NULL));
	}
	twheel_usage(w, &usage);
	EXPECT_LE(usage.refills, 3);
	ASSERT_EQ(0, twheel_counters(w, &s));
	EXPECT_LE(s.allocated, 192);
	twheel_close(w);
}

static void *stop_all(void *arg)
{
	uint64_t *id = arg;
	struct twheel_ctx *w = (struct twheel_ctx *)(uintptr_t)id[1000];
	unsigned int i;

	for (i = 0; i < 1000; i++)
		id[i] = twheel_stop(w, id[i]) == 1;
	return NULL;
}

/* Stopped by another thread than started: the slots find their way back. */
TEST_F(lib, stop_elsewhere)
{
	uint64_t at = twheel_now(self->w) + HOUR;
	struct twheel_usage usage;
	static uint64_t id[1001];
	unsigned int round, i;
	pthread_t thread;

	for (round = 0; round < 10; round++) {
		for (i = 0; i < 1000; i++)
			ASSERT_EQ(0, twheel_start(self->w, at, i, &id[i]));
		id[1000] = (uintptr_t)self->w;
		ASSERT_EQ(0, pthread_create(&thread, NULL, stop_all, id));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		for (i = 0; i < 1000; i++)
			ASSERT_EQ(1, id[i]);
	}
	twheel_usage(self->w, &usage);
	EXPECT_LE(usage.refills, 20);
}

/* ---- An event on its way ---- */

/* What another thread does between the kernel's read and the library's return. */
static struct meanwhile {
	int (*act)(struct meanwhile *m);
	struct twheel_ctx *w;
	uint64_t id;
	uint64_t deadline_ns;
	int ret;
} *meanwhile;

static void *do_meanwhile(void *arg)
{
	struct meanwhile *m = arg;

	m->ret = m->act(m);
	return NULL;
}

static pthread_t meanwhile_thread;

/* How often a signal comes first. */
static unsigned int interruptions;

/* In place of the C library's. */
ssize_t preadv2(int fd, const struct iovec *iov, int count,
		off_t offset __attribute__((unused)), int flags)
{
	ssize_t ret;

	if (interruptions) {
		interruptions--;
		errno = EINTR;
		return -1;
	}
	ret = syscall(SYS_preadv2, fd, iov, count, -1L, -1L, flags);
	if (ret > 0 && meanwhile) {
		pthread_create(&meanwhile_thread, NULL, do_meanwhile, meanwhile);
		meanwhile = NULL;
		sleep_ms(QUIET_MS);
	}
	return ret;
}

static int act_stop(struct meanwhile *m)
{
	return twheel_stop(m->w, m->id);
}

static int act_move(struct meanwhile *m)
{
	return twheel_move(m->w, m->id, m->deadline_ns);
}

FIXTURE(on_its_way) {
	struct meanwhile m;
};

FIXTURE_SETUP(on_its_way)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_KERNEL };

	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	OPEN_OR_SKIP(&o, &self->m.w);
	ASSERT_EQ(0, twheel_start(self->m.w, 1, 5, &self->m.id));
	self->m.ret = -1;
}

FIXTURE_TEARDOWN(on_its_way)
{
	if (!self->m.w)
		return;
	lib_conserved(_metadata, self->m.w);
	twheel_close(self->m.w);
}

/* Stopped then, the event is handed out, and stop waits to say so. */
TEST_F(on_its_way, stop)
{
	struct twheel_event ev;

	self->m.act = act_stop;
	ASSERT_EQ(1, twheel_wait(self->m.w, PATIENCE_MS * NS_PER_MS));
	meanwhile = &self->m;
	EXPECT_EQ(1, twheel_read(self->m.w, &ev, 1));
	ASSERT_EQ(0, pthread_join(meanwhile_thread, NULL));
	EXPECT_EQ(0, self->m.ret);
}

/* A signal while the kernel looks for one among what is none any more is nobody's error. */
TEST_F(on_its_way, signal)
{
	struct twheel_event ev;

	ASSERT_EQ(1, twheel_wait(self->m.w, PATIENCE_MS * NS_PER_MS));
	interruptions = 2;
	EXPECT_EQ(1, twheel_read(self->m.w, &ev, 1));
	EXPECT_EQ(0, interruptions);
	EXPECT_EQ(0, twheel_stop(self->m.w, self->m.id));
}

/* Moved then, it is dropped; the new deadline has its event. */
TEST_F(on_its_way, move)
{
	struct twheel_event ev;

	self->m.act = act_move;
	self->m.deadline_ns = twheel_now(self->m.w) + 300 * NS_PER_MS;
	ASSERT_EQ(1, twheel_wait(self->m.w, PATIENCE_MS * NS_PER_MS));
	meanwhile = &self->m;
	EXPECT_EQ(0, twheel_read(self->m.w, &ev, 1));
	ASSERT_EQ(0, pthread_join(meanwhile_thread, NULL));
	EXPECT_EQ(1, self->m.ret);
	ASSERT_EQ(1, lib_collect(self->m.w, &ev, 1));
	EXPECT_EQ(self->m.deadline_ns, ev.deadline_ns);
	EXPECT_EQ(5, ev.user_data);
	EXPECT_EQ(0, twheel_stop(self->m.w, self->m.id));
}

/* Moved then to a deadline that has come as well: one event, of the new one. */
TEST_F(on_its_way, move_to_past)
{
	struct twheel_event ev;

	self->m.act = act_move;
	self->m.deadline_ns = 2;
	ASSERT_EQ(1, twheel_wait(self->m.w, PATIENCE_MS * NS_PER_MS));
	meanwhile = &self->m;
	EXPECT_EQ(0, twheel_read(self->m.w, &ev, 1));
	ASSERT_EQ(0, pthread_join(meanwhile_thread, NULL));
	EXPECT_EQ(1, self->m.ret);
	ASSERT_EQ(1, lib_collect(self->m.w, &ev, 1));
	EXPECT_EQ(2, ev.deadline_ns);
	EXPECT_TRUE(quiet(self->m.w));
	EXPECT_EQ(0, twheel_stop(self->m.w, self->m.id));
}

/* Moved then to the same deadline: the event counts as that of the move. */
TEST_F(on_its_way, move_to_same)
{
	struct twheel_event ev;

	self->m.act = act_move;
	self->m.deadline_ns = 1;
	ASSERT_EQ(1, twheel_wait(self->m.w, PATIENCE_MS * NS_PER_MS));
	meanwhile = &self->m;
	EXPECT_EQ(1, twheel_read(self->m.w, &ev, 1));
	ASSERT_EQ(0, pthread_join(meanwhile_thread, NULL));
	EXPECT_EQ(1, self->m.ret);
	EXPECT_TRUE(quiet(self->m.w));
	EXPECT_EQ(0, twheel_stop(self->m.w, self->m.id));
}

/* ---- What it costs ---- */

/* Pairs of start and stop tell the wheel nothing, after the first few. */
TEST_F(lib, pairs_are_free)
{
	enum { WINDOW = 32, PAIRS = 100000 };
	uint64_t id[WINDOW] = { 0 };
	struct twheel_usage u;
	unsigned int i;

	for (i = 0; i < PAIRS; i++) {
		uint64_t *one = &id[i % WINDOW];

		if (i >= WINDOW)
			ASSERT_EQ(1, twheel_stop(self->w, *one));
		ASSERT_EQ(0, twheel_start(self->w, twheel_now(self->w) + HOUR + i, i, one));
	}
	twheel_usage(self->w, &u);
	EXPECT_LE(u.kicks, 3);
	EXPECT_LE(u.refills, 1);
	EXPECT_EQ(0, u.withdrawn);
	for (i = 0; i < WINDOW; i++)
		EXPECT_EQ(1, twheel_stop(self->w, id[i]));
}

/* What was armed and disarmed before a flush is not told at all. */
TEST_F(lib, flush_only_what_matters)
{
	uint64_t at = twheel_now(self->w) + HOUR;
	struct twheel_usage u;
	uint64_t id[3];
	unsigned int i;

	for (i = 0; i < 3; i++) {
		id[i] = reserve_timer(_metadata, self->w, i);
		EXPECT_EQ(0, twheel_arm(self->w, id[i], twheel_now(self->w) + HOUR));
	}
	EXPECT_EQ(1, twheel_disarm(self->w, id[1]));
	ASSERT_EQ(0, twheel_flush(self->w));
	ASSERT_EQ(0, twheel_flush(self->w));
	twheel_usage(self->w, &u);
	EXPECT_EQ(1, u.kicks);
	EXPECT_EQ(2, u.kicked);
	/* The same again and again is one. */
	EXPECT_EQ(1, twheel_arm(self->w, id[2], twheel_now(self->w) + HOUR / 2));
	EXPECT_EQ(1, twheel_arm(self->w, id[2], twheel_now(self->w) + HOUR / 3));
	EXPECT_EQ(1, twheel_arm(self->w, id[2], twheel_now(self->w) + HOUR / 4));
	ASSERT_EQ(0, twheel_flush(self->w));
	twheel_usage(self->w, &u);
	EXPECT_EQ(2, u.kicks);
	EXPECT_EQ(3, u.kicked);
	/* Full: it goes by itself. 64 are collected, the next sends them. */
	for (i = 0; i < 64; i++)
		twheel_arm(self->w, reserve_timer(_metadata, self->w, 0), at);
	twheel_usage(self->w, &u);
	EXPECT_EQ(2, u.kicks);
	twheel_arm(self->w, reserve_timer(_metadata, self->w, 0), at);
	twheel_usage(self->w, &u);
	EXPECT_EQ(3, u.kicks);
	EXPECT_EQ(67, u.kicked);
}

/* Told is what is due before the tick at which the wheel looks by itself. */
TEST_F(lib, flush_border)
{
	uint64_t at = twheel_now(self->w) + HOUR, start = (at - 1) & ~(DEFAULT_TICK - 1);
	uint64_t id = reserve_timer(_metadata, self->w, 0);
	struct twheel_usage u;

	EXPECT_EQ(0, twheel_arm(self->w, id, at));
	ASSERT_EQ(0, twheel_flush(self->w));
	EXPECT_EQ(1, twheel_arm(self->w, id, start + 1));
	ASSERT_EQ(0, twheel_flush(self->w));
	twheel_usage(self->w, &u);
	EXPECT_EQ(1, u.kicks);
	EXPECT_EQ(1, twheel_arm(self->w, id, start));
	ASSERT_EQ(0, twheel_flush(self->w));
	twheel_usage(self->w, &u);
	EXPECT_EQ(2, u.kicks);
}

/* Does what it is told, between two calls that a tracer knows. */
#define TIMERS	100000
#define MOVES	1000000
/* One in 256 of these to an earlier time. */
#define EARLIER	250000

struct moves {
	/* What the library has counted, of kicks. */
	uint64_t kicks;
};

/* Timers by twheel_arm(), later and later. */
static void child_arms(struct twheel_ctx *w, struct moves *m __attribute__((unused)))
{
	struct twheel_op *ops = calloc(TWHEEL_BATCH_MAX, sizeof(*ops));
	static uint64_t id[TIMERS];
	__u64 seed = 88172645463325252ULL;
	uint64_t at;
	unsigned int i, n, j;

	if (!ops)
		_exit(3);
	for (i = 0; i < TIMERS; i += n) {
		n = TIMERS - i < TWHEEL_BATCH_MAX ? TIMERS - i : TWHEEL_BATCH_MAX;
		for (j = 0; j < n; j++)
			ops[j] = (struct twheel_op) {
				.opcode = TWHEEL_OP_REGISTER,
				.timer.flags = TWHEEL_KEEP,
				.timer.deadline_ns = HOUR,
			};
		if (twheel_batch(w, ops, n) != (int)n)
			_exit(4);
		for (j = 0; j < n; j++)
			id[i + j] = ops[j].timer.id;
	}
	at = twheel_now(w) + 2 * HOUR;
	syscall(SYS_getppid);
	for (i = 0; i < MOVES; i++) {
		if (twheel_arm(w, id[next_random(&seed) % TIMERS], at + i) != 1)
			_exit(5);
	}
	if (twheel_flush(w))
		_exit(6);
	syscall(SYS_getppid);
}

static void child_starts(struct twheel_ctx *w, uint64_t *id)
{
	/* Once, as on some machines it is a system call, which the tracer sees. */
	uint64_t at = twheel_now(w) + HOUR;
	unsigned int i;

	for (i = 0; i < TIMERS; i++) {
		if (twheel_start(w, at + i, i, &id[i]))
			_exit(4);
	}
	if (twheel_flush(w))
		_exit(6);
}

/* Timeouts by twheel_move(), later and later. */
static void child_moves(struct twheel_ctx *w, struct moves *m __attribute__((unused)))
{
	static uint64_t id[TIMERS];
	__u64 seed = 88172645463325252ULL;
	uint64_t at;
	unsigned int i;

	child_starts(w, id);
	at = twheel_now(w) + 2 * HOUR;
	syscall(SYS_getppid);
	for (i = 0; i < MOVES; i++) {
		if (twheel_move(w, id[next_random(&seed) % TIMERS], at + i) != 1)
			_exit(5);
	}
	if (twheel_flush(w))
		_exit(6);
	syscall(SYS_getppid);
}

/* Timeouts that are now and then moved earlier. */
static void child_moves_earlier(struct twheel_ctx *w, struct moves *m)
{
	static uint64_t id[TIMERS];
	__u64 seed = 88172645463325252ULL;
	struct twheel_usage before, after;
	uint64_t at;
	unsigned int i;

	child_starts(w, id);
	at = twheel_now(w) + 2 * HOUR;
	twheel_usage(w, &before);
	syscall(SYS_getppid);
	for (i = 0; i < EARLIER; i++) {
		__u64 dice = next_random(&seed);

		/* Half an hour and more from now, and never twice at one tick. */
		if (twheel_move(w, id[(dice >> 8) % TIMERS],
				dice % 256 ? at + i : at - HOUR - HOUR / 2 - i * DEFAULT_TICK) != 1)
			_exit(5);
	}
	if (twheel_flush(w))
		_exit(6);
	syscall(SYS_getppid);
	twheel_usage(w, &after);
	m->kicks = after.kicks - before.kicks;
}

/* A child that is traced, and has stopped itself. 0: this is the child. */
static pid_t fork_traced(struct __test_metadata *_metadata)
{
	pid_t child = fork();
	int status;

	if (!child) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(2);
		raise(SIGSTOP);
		return 0;
	}
	ASSERT_GT(child, 0);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFSTOPPED(status)) TH_LOG("no tracing here");
	ASSERT_EQ(0, ptrace(PTRACE_SETOPTIONS, child, NULL,
			    PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
	return child;
}

/* Lets @child run into its next system call. Returns the number, or -1 if it has ended. */
static int run_to_call(struct __test_metadata *_metadata, pid_t child, int *status)
{
	struct { __u8 op, pad[3]; __u32 arch; uint64_t ip, sp, nr, args[6]; } info;

	for (;;) {
		ASSERT_EQ(0, ptrace(PTRACE_SYSCALL, child, NULL, NULL));
		ASSERT_EQ(child, waitpid(child, status, 0));
		if (!WIFSTOPPED(*status))
			return -1;
		if (WSTOPSIG(*status) != (SIGTRAP | 0x80))
			continue;
		ASSERT_GT(ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info), 0);
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
			return info.nr;
	}
}

/* Without a stable clock of the processor, the C library has to ask the kernel. */
static bool reads_clock(int nr)
{
#ifdef SYS_clock_gettime64
	if (nr == SYS_clock_gettime64)
		return true;
#endif
	return nr == SYS_clock_gettime;
}

/*
 * Runs @act in a child. Returns how many system calls it makes between its marks,
 * but for those that read the clock.
 */
static unsigned int count_calls(struct __test_metadata *_metadata, const struct twheel_options *o,
				void (*act)(struct twheel_ctx *w, struct moves *m),
				struct moves *m)
{
	pid_t child = fork_traced(_metadata);
	unsigned int calls = 0, marks = 0;
	int status, nr;

	if (!child) {
		struct twheel_ctx *w;

		if (twheel_open(o, &w))
			_exit(3);
		act(w, m);
		_exit(0);
	}
	while ((nr = run_to_call(_metadata, child, &status)) >= 0) {
		if (nr == SYS_getppid)
			marks++;
		else if (marks == 1 && !reads_clock(nr))
			calls++;
	}
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	EXPECT_EQ(2, marks);
	return calls;
}

/* Re-arming 100,000 timers a million times makes no system call: a tracer counts. */
TEST_F_TIMEOUT(lib, no_system_call, 120)
{
	EXPECT_EQ(0, count_calls(_metadata, &self->o, child_arms, NULL));
	EXPECT_EQ(0, count_calls(_metadata, &self->o, child_moves, NULL));
}

/* And moving earlier makes those that the protocol asks for, and that are told. */
TEST_F_TIMEOUT(lib, counted_system_calls, 120)
{
	struct moves *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int calls;

	ASSERT_TRUE(m != MAP_FAILED);
	calls = count_calls(_metadata, &self->o, child_moves_earlier, m);
	TH_LOG("%u system calls, %llu kicks", calls, (unsigned long long)m->kicks);
	/* 64 moves in a KICK. */
	EXPECT_GE(m->kicks, EARLIER / 256 / 64 / 2);
	EXPECT_LE(m->kicks, EARLIER / 256 / 64 * 2);
	if (variant->flags & TWHEEL_OPEN_KERNEL) {
		EXPECT_EQ(m->kicks, calls);
	} else {
		/* The timerfd is set, where something comes first now. */
		EXPECT_LE(calls, m->kicks);
	}
}

/* ---- Step by step ---- */

/* Steps of a move before which another thread reads, each in a round of its own. */
#define STEPS	140

struct steps {
	struct twheel_ctx *w;
	/* The round in which the other thread may read; that it has done with; in all. */
	unsigned int go;
	unsigned int done;
	unsigned int rounds;
	bool read;
	/* Of those rounds, in which there was an event; and the answer was a lie. */
	unsigned int events;
	unsigned int wrong;
};

static void *read_at_step(void *arg)
{
	struct steps *s = arg;
	struct twheel_event ev;
	unsigned int round;

	for (round = 0; round < STEPS; round++) {
		while (__atomic_load_n(&s->go, __ATOMIC_ACQUIRE) == round)
			sched_yield();
		s->read = twheel_read(s->w, &ev, 1) == 1;
		__atomic_store_n(&s->done, round + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void child_steps(const struct twheel_options *o, struct steps *s)
{
	pthread_t thread;
	uint64_t id;
	int ret;

	if (twheel_open(o, &s->w) || pthread_create(&thread, NULL, read_at_step, s))
		_exit(3);
	while (s->rounds < STEPS) {
		if (twheel_start(s->w, 1, 0, &id) || twheel_flush(s->w))
			_exit(4);
		syscall(SYS_getppid);
		ret = twheel_move(s->w, id, NEVER);
		s->rounds++;
		while (__atomic_load_n(&s->done, __ATOMIC_ACQUIRE) < s->rounds)
			sched_yield();
		s->events += s->read;
		s->wrong += ret != !s->read;
		if (twheel_stop(s->w, id) != 1)
			_exit(5);
	}
	_exit(0);
}

/*
 * An event that is unread, and read by another thread before the first step of a
 * move, or the second, and so on: the answer tells whether it was.
 */
TEST_F_TIMEOUT(lib, move_and_read, 120)
{
	struct steps *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int round, step, ms;
	pid_t child;
	int status;

	ASSERT_TRUE(s != MAP_FAILED);
	child = fork_traced(_metadata);
	if (!child)
		child_steps(&self->o, s);
	for (round = 0; round < STEPS; round++) {
		int nr;

		do {
			nr = run_to_call(_metadata, child, &status);
			ASSERT_GE(nr, 0);
		} while (nr != SYS_getppid);
		for (step = 0; step <= round && s->rounds == round; step++) {
			ASSERT_EQ(0, ptrace(PTRACE_SINGLESTEP, child, NULL, NULL));
			ASSERT_EQ(child, waitpid(child, &status, 0));
			ASSERT_TRUE(WIFSTOPPED(status));
		}
		__atomic_store_n(&s->go, round + 1, __ATOMIC_RELEASE);
		/* If it waits for the lock, that is another order. */
		for (ms = 0; ms < 20 && __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) == round; ms++)
			sleep_ms(1);
	}
	while (run_to_call(_metadata, child, &status) >= 0)
		;
	EXPECT_EQ(0, status);
	TH_LOG("%u of %u read", s->events, s->rounds);
	EXPECT_EQ(0, s->wrong);
	EXPECT_EQ(STEPS, s->rounds);
	EXPECT_NE(0, s->events);
	EXPECT_NE(STEPS, s->events);
}

/* ---- Another process drains ---- */

FIXTURE(drained) {
	struct twheel_ctx *w;
};

FIXTURE_SETUP(drained)
{
	struct twheel_options o = {
		.size = sizeof(o),
		.flags = TWHEEL_OPEN_KERNEL,
		.max_timers = 256,
	};

	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	OPEN_OR_SKIP(&o, &self->w);
}

FIXTURE_TEARDOWN(drained)
{
	if (!self->w)
		return;
	lib_conserved(_metadata, self->w);
	twheel_close(self->w);
}

static void start_many(struct __test_metadata *_metadata, struct twheel_ctx *w, uint64_t delay,
		       uint64_t *id, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		ASSERT_EQ(0, twheel_start(w, twheel_now(w) + delay, i, &id[i]));
}

/* All @n are started, come, and have no slot but their own. */
static void all_come(struct __test_metadata *_metadata, struct twheel_ctx *w, unsigned int n)
{
	bool seen[256] = { false };
	struct twheel_event ev[256];
	uint64_t id[256];
	unsigned int i;

	start_many(_metadata, w, 20 * NS_PER_MS, id, n);
	ASSERT_EQ(n, lib_collect(w, ev, n));
	for (i = 0; i < n; i++) {
		ASSERT_LT(ev[i].user_data, n);
		EXPECT_FALSE(seen[ev[i].user_data]);
		EXPECT_EQ(id[ev[i].user_data], ev[i].id);
		seen[ev[i].user_data] = true;
	}
	for (i = 0; i < n; i++)
		EXPECT_EQ(0, twheel_stop(w, id[i]));
	EXPECT_TRUE(quiet(w));
}

/* What was armed has ended, and its owner is told; the rest is as it was. */
TEST_F(drained, told)
{
	enum { N = 200 };
	uint64_t id[N], read, unread, spare;
	struct twheel_event ev;
	struct twheel_stats s;
	unsigned int i;

	ASSERT_EQ(0, twheel_start(self->w, 1, 0, &read));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	ASSERT_EQ(0, twheel_start(self->w, 1, 0, &unread));
	ASSERT_EQ(1, twheel_wait(self->w, PATIENCE_MS * NS_PER_MS));
	start_many(_metadata, self->w, HOUR, id, N);
	/* A slot that is free when it happens. */
	ASSERT_EQ(0, twheel_start(self->w, twheel_now(self->w) + HOUR, 0, &spare));
	ASSERT_EQ(1, twheel_stop(self->w, spare));
	/* Not flushed: the drain sees the words all the same. */
	EXPECT_EQ(N, drain(twheel_fd(self->w), TWHEEL_DRAIN_CANCEL));
	for (i = 0; i < N; i++) {
		EXPECT_EQ(-ENOENT, i % 2 ? twheel_stop(self->w, id[i]) :
					   twheel_move(self->w, id[i], 1));
		EXPECT_EQ(-ENOENT, twheel_stop(self->w, id[i]));
	}
	EXPECT_EQ(1, twheel_stop(self->w, unread));
	EXPECT_EQ(0, twheel_stop(self->w, read));
	EXPECT_TRUE(quiet(self->w));
	all_come(_metadata, self->w, 256);
	ASSERT_EQ(0, twheel_counters(self->w, &s));
	EXPECT_EQ(256, s.allocated);
	EXPECT_EQ(0, s.armed);
}

/* Made readable now, they are events like others. */
TEST_F(drained, expire)
{
	struct twheel_event ev[10];
	uint64_t id[10];
	unsigned int i;

	start_many(_metadata, self->w, HOUR, id, 10);
	EXPECT_EQ(10, drain(twheel_fd(self->w), TWHEEL_DRAIN_EXPIRE));
	EXPECT_EQ(1, twheel_stop(self->w, id[0]));
	ASSERT_EQ(9, lib_collect(self->w, ev, 9));
	for (i = 0; i < 9; i++)
		EXPECT_EQ(0, ev[i].expirations);
	for (i = 1; i < 10; i++)
		EXPECT_EQ(0, twheel_stop(self->w, id[i]));
	all_come(_metadata, self->w, 10);
}

/* Slots that come back to timeouts are not lent twice, before their owners know. */
TEST_F(drained, slots_of_timeouts)
{
	uint64_t id[256], more;
	unsigned int i, round;

	for (round = 0; round < 3; round++) {
		start_many(_metadata, self->w, HOUR, id, 256);
		EXPECT_EQ(256, drain(twheel_fd(self->w), TWHEEL_DRAIN_CANCEL));
		/* All slots are taken: those 256 are started and not stopped. */
		EXPECT_EQ(-ENOSPC, twheel_start(self->w, twheel_now(self->w) + HOUR, 0, &more));
		for (i = 0; i < 256; i++)
			EXPECT_EQ(-ENOENT, twheel_stop(self->w, id[i]));
		for (i = 0; i < 256; i++)
			EXPECT_EQ(-ENOENT, twheel_stop(self->w, id[i]));
		all_come(_metadata, self->w, 256);
	}
}

/* Slots that go to timers are left alone. */
TEST_F(drained, slots_of_timers)
{
	struct twheel_op ops[128] = { };
	struct twheel_timer t;
	uint64_t id[128];
	unsigned int i;

	start_many(_metadata, self->w, HOUR, id, 128);
	EXPECT_EQ(128, drain(twheel_fd(self->w), TWHEEL_DRAIN_CANCEL));
	for (i = 0; i < 128; i++)
		ops[i] = (struct twheel_op) {
			.opcode = TWHEEL_OP_REGISTER,
			.timer.deadline_ns = HOUR,
			.timer.flags = TWHEEL_KEEP,
		};
	ASSERT_EQ(64, twheel_batch(self->w, ops, 64));
	for (i = 64; i < 128; i++)
		ASSERT_EQ(0, twheel_register(self->w, &ops[i].timer));
	for (i = 0; i < 128; i++) {
		EXPECT_EQ(-ENOENT, twheel_stop(self->w, id[i]));
		EXPECT_EQ(-ENOENT, twheel_move(self->w, id[i], 1));
	}
	for (i = 0; i < 128; i++) {
		t = (struct twheel_timer) { .id = ops[i].timer.id };
		ASSERT_EQ(0, twheel_get(self->w, &t));
		EXPECT_EQ(TWHEEL_ARMED, t.state);
		EXPECT_EQ(ops[i].timer.deadline_ns, t.deadline_ns);
	}
	all_come(_metadata, self->w, 128);
}

/* ---- Random ---- */

/* One thread against a model: timeouts are started, moved, stopped and read at random. */
TEST_F_TIMEOUT(lib, model, 120)
{
	enum { N = 300, ROUNDS = 20000 };
	struct { uint64_t id, deadline; bool started, read; } *m, model[N] = { };
	__u64 seed = now(CLOCK_REALTIME);
	uint64_t at;
	struct twheel_event ev[32];
	unsigned int i, j, reads = 0;
	int n;

	TH_LOG("seed %llu", (unsigned long long)seed);
	for (i = 0; i < ROUNDS; i++) {
		m = &model[next_random(&seed) % N];
		at = twheel_now(self->w) + next_random(&seed) % (5 * NS_PER_MS);
		if (!(next_random(&seed) % 8))
			at += HOUR;
		if (!(next_random(&seed) % 4)) {
			n = twheel_read(self->w, ev, 1 + next_random(&seed) % 32);
			ASSERT_GE(n, 0);
			at = twheel_now(self->w);
			for (j = 0; j < (unsigned int)n; j++) {
				ASSERT_LT(ev[j].user_data, N);
				m = &model[ev[j].user_data];
				ASSERT_TRUE(m->started);
				ASSERT_FALSE(m->read);
				ASSERT_EQ(m->id, ev[j].id);
				ASSERT_EQ(m->deadline, ev[j].deadline_ns);
				ASSERT_LE(m->deadline, ev[j].expired_ns);
				ASSERT_LE(ev[j].expired_ns, at);
				m->read = true;
				reads++;
			}
			continue;
		}
		if (m->started && !(next_random(&seed) % 3)) {
			ASSERT_EQ(!m->read, twheel_stop(self->w, m->id));
			m->started = false;
			continue;
		}
		n = m->started ? twheel_move(self->w, m->id, at) :
				 twheel_start(self->w, at, m - model, &m->id);
		ASSERT_EQ(m->started && !m->read, n);
		m->started = true;
		m->read = false;
		m->deadline = at;
	}
	EXPECT_NE(0, reads);
	/* What was started, is not far off and was not read, comes. */
	for (i = 0; i < N; i++) {
		if (model[i].started && !model[i].read &&
		    model[i].deadline > twheel_now(self->w) + HOUR / 2) {
			EXPECT_EQ(1, twheel_stop(self->w, model[i].id));
			model[i].started = false;
		}
	}
	while ((n = lib_take(self->w, ev, 32, 200)) > 0) {
		for (j = 0; j < (unsigned int)n; j++) {
			m = &model[ev[j].user_data];
			ASSERT_TRUE(m->started && !m->read);
			m->read = true;
		}
	}
	for (i = 0; i < N; i++) {
		if (model[i].started)
			EXPECT_TRUE(model[i].read);
	}
}

TEST_HARNESS_MAIN
