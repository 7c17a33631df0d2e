/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of /dev/twheel share: the harness, fixtures, and time limits.
 *
 * Expirations come late on a busy or emulated machine, so a test waits up to TIMEOUT_MS for
 * an event that must come. "Never early" is checked exactly. To see that an event does not
 * come, a test waits for QUIET_MS.
 */
#ifndef TWHEEL_TEST_H
#define TWHEEL_TEST_H

#include "wheel.h"

#include <grp.h>
#include <linux/capability.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME	0x00000080
#endif

/* How many times slower than others this machine is, as TWHEEL_TEST_SLOW tells us. */
static inline unsigned int slowness(void)
{
	const char *slow = getenv("TWHEEL_TEST_SLOW");

	return slow ? atoi(slow) : 1;
}

/* Some harnesses limit each test with alarm(). A slow machine gets proportionally more time. */
static inline unsigned int scaled_alarm(unsigned int seconds)
{
	return alarm(seconds * slowness());
}

#define alarm scaled_alarm

#include "kselftest_harness.h"

/*
 * Logs a figure of a run, such as 1000 rounds, and the figure that it must reach; ci/flat.awk
 * judges.
 */
#define TARGET_OF(name, what, reached, needed)					\
	fprintf(TH_LOG_STREAM, "# target %s.%s %llu %llu\n", what, name,	\
		(unsigned long long)(reached), (unsigned long long)(needed))
#define TARGET(what, reached, needed)						\
	TARGET_OF(_metadata->name, what, reached, needed)

/* Adds a variant of @fixture, with these members. */
#define VARIANT(fixture, name, ...) \
	struct _fixture_variant_##fixture; \
	FIXTURE_VARIANT_ADD(fixture, name) { __VA_ARGS__ }

static inline void on_interruption(int sig)
{
	(void)sig;
}

/* Has @sig do nothing but interrupt the process. */
static inline void catch_signal(int sig, int flags)
{
	struct sigaction action = { .sa_handler = on_interruption, .sa_flags = flags };

	sigaction(sig, &action, NULL);
}

/*
 * Sends SIGALRM every @us, or less often on a slow machine, which needs more time between two.
 * 0 stops it.
 */
static inline void signal_every(unsigned int us)
{
	struct itimerval each = {
		.it_value.tv_usec = us * slowness(),
		.it_interval.tv_usec = us * slowness(),
	};

	setitimer(ITIMER_REAL, &each, NULL);
}

/* Sends signals to this process periodically. System calls are restarted after each of them. */
static inline void signal_self_periodically(void)
{
	const char *us = getenv("TWHEEL_TEST_SIGNALS");
	struct sigaction action = { .sa_handler = on_interruption, .sa_flags = SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGVTALRM };
	struct itimerspec its = {
		.it_value.tv_nsec = atoi(us) * NS_PER_US,
		.it_interval.tv_nsec = atoi(us) * NS_PER_US,
	};
	timer_t timer;

	if (sigaction(SIGVTALRM, &action, NULL) ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &its, NULL))
		_exit(KSFT_FAIL);
}

/*
 * With TWHEEL_TEST_SIGNALS=N in the environment, each process of a test receives a signal
 * every N us, wherever it is in the kernel. The results must be the same as without signals,
 * except that poll, epoll and io_uring_enter, which are never restarted, return EINTR.
 */
static inline bool with_signals(void)
{
	return getenv("TWHEEL_TEST_SIGNALS");
}

static __attribute__((constructor)) void interrupt_children(void)
{
	if (with_signals())
		pthread_atfork(NULL, NULL, signal_self_periodically);
}

/* Opens a wheel, which close_wheel() closes. */
static inline int open_wheel(struct __test_metadata *_metadata, int flags)
{
	int fd = wheel_open(flags);

	if (fd < 0 && errno == ENOENT)
		SKIP(_exit(KSFT_SKIP), "NO " TWHEEL_DEVICE " HERE");
	ASSERT_GE(fd, 0);
	return fd;
}

/* Adds a one-shot timer; the test ends here if that fails. */
static inline __u64 add(struct __test_metadata *_metadata, int fd, __u64 deadline,
			__u32 flags, __u64 user_data)
{
	struct twheel_timer t = {
		.user_data = user_data,
		.deadline_ns = deadline,
		.flags = flags,
	};

	ASSERT_EQ(0, verb(fd, TWHEEL_IOC_REGISTER, &t));
	return t.id;
}

static inline __u64 add_periodic(struct __test_metadata *_metadata, int fd, __u64 deadline,
				 __u64 period, __u32 flags)
{
	struct twheel_timer t = {
		.deadline_ns = deadline,
		.period_ns = period,
		.flags = flags,
	};

	ASSERT_EQ(0, verb(fd, TWHEEL_IOC_REGISTER, &t));
	return t.id;
}

/* Adds @n timers that differ in their user_data: first, first + 1 and so on. */
static inline void add_many(struct __test_metadata *_metadata, int fd, unsigned int n,
			    __u64 deadline, __u32 flags, __u64 first, __u64 *ids)
{
	const unsigned int chunk = 4096;
	struct twheel_op *ops = calloc(chunk, sizeof(*ops));
	unsigned int done = 0, i;

	ASSERT_TRUE(!!ops);
	while (done < n) {
		unsigned int count = n - done < chunk ? n - done : chunk;

		for (i = 0; i < count; i++) {
			ops[i] = (struct twheel_op) {
				.timer.deadline_ns = deadline,
				.timer.user_data = first + done + i,
				.timer.flags = flags,
				.opcode = TWHEEL_OP_REGISTER,
				.result = -1,
			};
		}
		ASSERT_EQ(count, batch(fd, ops, count));
		for (i = 0; i < count; i++) {
			ASSERT_EQ(0, ops[i].result);
			if (ids)
				ids[done + i] = ops[i].timer.id;
		}
		done += count;
	}
	free(ops);
}

static inline struct twheel_stats stats(struct __test_metadata *_metadata, int fd)
{
	struct twheel_stats s;

	poison(&s);
	ASSERT_EQ(0, call(fd, TWHEEL_IOC_STATS, &s));
	return s;
}

/* Returns the next event, which must come within @timeout_ms. */
static inline struct twheel_event next_event(struct __test_metadata *_metadata, int fd,
					     int timeout_ms)
{
	struct twheel_event ev;

	ASSERT_EQ(1, take(fd, &ev, 1, timeout_ms));
	return ev;
}

/* Expects exactly one event, that of @id for @deadline. For wheels on CLOCK_MONOTONIC only. */
static inline void expect_event(struct __test_metadata *_metadata, int fd, __u64 id,
				__u64 deadline)
{
	struct twheel_event ev[2];

	ASSERT_EQ(1, take(fd, ev, 2, TIMEOUT_MS));
	EXPECT_EQ(id, ev[0].id);
	EXPECT_EQ(deadline, ev[0].deadline_ns);
	EXPECT_LE(ev[0].expired_ns, now(CLOCK_MONOTONIC));
	EXPECT_EQ(1, ev[0].expirations);
	EXPECT_FALSE(readable(fd, 0));
}

/* Expects GET to report this state and deadline for @id. Returns all that GET reported. */
static inline struct twheel_timer expect_timer(struct __test_metadata *_metadata, int fd,
					       __u64 id, __u32 state, __u64 deadline)
{
	struct twheel_timer t;

	EXPECT_EQ(0, get_timer(fd, id, &t));
	EXPECT_EQ(state, t.state);
	EXPECT_EQ(deadline, t.deadline_ns);
	return t;
}

static inline struct twheel_info info(struct __test_metadata *_metadata, int fd)
{
	struct twheel_info i;

	poison(&i);
	ASSERT_EQ(0, call(fd, TWHEEL_IOC_INFO, &i));
	return i;
}

/* Adds a timer that is kept and has no deadline. */
static inline __u64 reserve(struct __test_metadata *_metadata, int fd, __u64 user_data)
{
	return add(_metadata, fd, 0, TWHEEL_KEEP | TWHEEL_DISARMED, user_data);
}

/* Ends a test of the table where the processor has none, or pages of another size. */
static inline void need_table(struct __test_metadata *_metadata, int fd)
{
	if (!(info(_metadata, fd).features & TWHEEL_FEATURE_TABLE))
		SKIP(_exit(KSFT_SKIP), "NO TABLE: this processor may prolong an exchange");
	if ((__u64)sysconf(_SC_PAGESIZE) != PAGE)
		SKIP(_exit(KSFT_SKIP), "PAGES ARE NOT OF 4 KiB: the table not tested");
}

static inline struct table map_table(struct __test_metadata *_metadata, int fd)
{
	struct twheel_info i = info(_metadata, fd);
	struct table t = { .fd = fd, .tick = i.tick_ns, .bytes = i.table_bytes };

	need_table(_metadata, fd);
	t.head = map_at(fd, t.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	ASSERT_TRUE(t.head != MAP_FAILED);
	t.slots = (void *)((char *)t.head + t.head->slots_offset);
	return t;
}

/*
 * Checks that armings and expirations are conserved, which must hold at any moment. The
 * teardown of every fixture calls this.
 */
static inline void expect_conserved(struct __test_metadata *_metadata, int fd)
{
	struct twheel_stats s = stats(_metadata, fd);

	EXPECT_TRUE(adds_up(&s))
		tell_stats("not conserved", &s);
	EXPECT_EQ(s.allocated, (__u64)list_all(fd));
}

/* Sets the machine's wall clock, which tests must share. */
static inline void set_wall_clock(struct __test_metadata *_metadata, __u64 ns)
{
	struct timespec ts = { ns / NS_PER_SEC, ns % NS_PER_SEC };

	EXPECT_EQ(0, clock_settime(CLOCK_REALTIME, &ts));
}

static inline void close_wheel(struct __test_metadata *_metadata, int fd)
{
	expect_conserved(_metadata, fd);
	close(fd);
}

/* Closes the wheel of @t along with its table. */
static inline void close_table(struct __test_metadata *_metadata, struct table *t)
{
	expect_conserved(_metadata, t->fd);
	unmap_table(t);
	close(t->fd);
}

/* Expects that since @before neither the timers nor the shape of the wheel have changed. */
static inline void expect_same(struct __test_metadata *_metadata, int fd,
			       const struct twheel_stats *before)
{
	struct twheel_stats after = stats(_metadata, fd);

	EXPECT_TRUE(same_counts(before, &after));
}

static inline void expect_same_info(struct __test_metadata *_metadata, int fd,
				    const struct twheel_info *before)
{
	struct twheel_info after = info(_metadata, fd);

	EXPECT_EQ(0, memcmp(before, &after, sizeof(after)));
}

static inline pid_t fork_child(struct __test_metadata *_metadata)
{
	pid_t pid = fork();

	ASSERT_GE(pid, 0);
	return pid;
}

/* Runs @check in a process of its own, and fails if it fails there. */
#define IN_CHILD(check) do { \
	pid_t __pid = fork_child(_metadata); \
	if (!__pid) { \
		_metadata->exit_code = KSFT_PASS; \
		check; \
		_exit(_metadata->exit_code); \
	} \
	EXPECT_EQ(0, status_of(__pid)); \
} while (0)

/* Teardowns for fixtures with a wheel, with a table, or with neither. */
#define WHEEL_TEARDOWN(name)							\
	struct __test_metadata;							\
	FIXTURE_TEARDOWN(name) { close_wheel(_metadata, self->fd); }

#define TABLE_TEARDOWN(name)							\
	struct __test_metadata;							\
	FIXTURE_TEARDOWN(name) { close_table(_metadata, &self->t); }

#define NO_TEARDOWN(name)	struct __test_metadata; FIXTURE_TEARDOWN(name) { }

/* A fixture that consists of a wheel, and one that consists of a wheel and its table. */
#define WHEEL_FIXTURE(name, flags)						\
	struct __test_metadata;							\
	FIXTURE(name) { int fd; };						\
	FIXTURE_SETUP(name) { self->fd = open_wheel(_metadata, flags); }	\
	WHEEL_TEARDOWN(name)

#define TABLE_FIXTURE(name)							\
	struct __test_metadata;							\
	FIXTURE(name) { int fd; struct table t; };				\
	FIXTURE_SETUP(name)							\
	{									\
		self->fd = open_wheel(_metadata, O_NONBLOCK);			\
		self->t = map_table(_metadata, self->fd);			\
	}									\
	TABLE_TEARDOWN(name)

/*
 * Maps two neighboring pages, the second with @prot. Returns the address of the second, so
 * that anything placed just before it straddles the border.
 */
static inline char *border(struct __test_metadata *_metadata, int prot)
{
	long size = sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	ASSERT_TRUE(p != MAP_FAILED);
	/* Not the zero page, where a write of zeros would go unnoticed. */
	memset(p, POISON, 2 * size);
	ASSERT_EQ(0, mprotect(p + size, size, prot));
	return p + size;
}

/* Returns a read-only page that holds the @size bytes at @data. */
static inline void *read_only(struct __test_metadata *_metadata, const void *data, size_t size)
{
	long page = sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_TRUE(p != MAP_FAILED);
	memcpy(p, data, size);
	ASSERT_EQ(0, mprotect(p, page, PROT_READ));
	return p;
}

#define SKIP_UNLESS_ROOT() do { \
	if (!is_root()) \
		SKIP(return, "needs root"); \
} while (0)

/* Drops root in this process, irrevocably. */
static inline void be_nobody(struct __test_metadata *_metadata)
{
	if (!is_root())
		return;
	ASSERT_EQ(0, setgroups(0, NULL));
	ASSERT_EQ(0, setresgid(NOBODY, NOBODY, NOBODY));
	ASSERT_EQ(0, setresuid(NOBODY, NOBODY, NOBODY));
}

static inline void drop_capability(struct __test_metadata *_metadata, unsigned int cap)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	ASSERT_EQ(0, syscall(SYS_capget, &header, data));
	data[cap / 32].effective &= ~(1U << cap % 32);
	data[cap / 32].permitted &= ~(1U << cap % 32);
	ASSERT_EQ(0, syscall(SYS_capset, &header, data));
}

#endif /* TWHEEL_TEST_H */
