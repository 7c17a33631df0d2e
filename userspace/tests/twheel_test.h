/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of /dev/twheel share: raw calls, poisoned outputs, patience.
 *
 * Expirations come late on a busy or emulated machine, so a test waits for
 * what must come for as long as PATIENCE_MS; but never early is exact. What
 * must not come is watched for during QUIET_MS.
 */
#ifndef TWHEEL_TEST_H
#define TWHEEL_TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
/* So that 32-bit programs see the same times. */
#define _FILE_OFFSET_BITS	64
#define _TIME_BITS		64

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/twheel.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The machine is as many times slower than others, which it says. */
static inline unsigned int slowness(void)
{
	const char *slow = getenv("TWHEEL_TEST_SLOW");

	return slow ? atoi(slow) : 1;
}

/* The harness gives each test its time by alarm(): on such a machine, more. */
static inline unsigned int patient_alarm(unsigned int seconds)
{
	return alarm(seconds * slowness());
}

#define alarm patient_alarm

#include "kselftest_harness.h"

/* A variant of @fixture, by its members. */
#define VARIANT(fixture, name, ...) \
	struct _fixture_variant_##fixture; \
	FIXTURE_VARIANT_ADD(fixture, name) { __VA_ARGS__ }

#define TWHEEL_DEVICE	"/dev/twheel"
#define TWHEEL_PARAMS	"/sys/module/twheel/parameters/"

#define NS_PER_US	1000ULL
#define NS_PER_MS	1000000ULL
#define NS_PER_SEC	1000000000ULL
#define HOUR		(3600 * NS_PER_SEC)
#define NEVER		(~0ULL)

/* What the defaults give. */
#define DEFAULT_TICK	(1ULL << 19)

#define PATIENCE_MS	20000
#define QUIET_MS	60
/* A delay that is over only after the calls that follow, even here. */
#define SOON		(200 * NS_PER_MS)

#define NOBODY		65534

#define POISON		0xcc
#define poison(p)	memset((p), POISON, sizeof(*(p)))

#define ptr_u64(p)	((__u64)(uintptr_t)(p))

static inline void on_interruption(int sig)
{
	(void)sig;
}

/* In a new process: a signal, and again and again. Calls begin anew after it. */
static inline void be_interrupted(void)
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
 * TWHEEL_TEST_SIGNALS=N in the environment: each process of a test gets a signal
 * each N us, wherever it is in the kernel. All must be as it is without; but poll,
 * epoll and io_uring_enter, which never begin anew, say EINTR.
 */
static inline bool are_interrupted(void)
{
	return getenv("TWHEEL_TEST_SIGNALS");
}

static __attribute__((constructor)) void interrupt_children(void)
{
	if (are_interrupted())
		pthread_atfork(NULL, NULL, be_interrupted);
}

/*
 * Whether this process may have made what is not due yet readable; and how many of its
 * threads may be about to.
 */
static bool may_be_early;
static unsigned int draining;

/* The result of an ioctl as the kernel gives it: negative is an errno. */
static inline int call(int fd, unsigned int cmd, void *arg)
{
	bool drains = cmd == TWHEEL_IOC_DRAIN;
	long ret;

	if (drains)
		__atomic_fetch_add(&draining, 1, __ATOMIC_SEQ_CST);
	/* Through the bare call: the library's wrapper may hide bits of @cmd. */
	ret = syscall(SYS_ioctl, fd, cmd, arg);
	ret = ret < 0 ? -errno : ret;
	if (drains) {
		/* One that was killed, or whose answer could not be written, may have. */
		if (ret == -EFAULT || ret == -EINTR ||
		    (ret >= 0 && ((struct twheel_drain *)arg)->mode == TWHEEL_DRAIN_EXPIRE))
			__atomic_store_n(&may_be_early, true, __ATOMIC_SEQ_CST);
		__atomic_fetch_sub(&draining, 1, __ATOMIC_SEQ_CST);
	}
	return ret;
}

static inline __u64 now(int clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

static inline void sleep_ns(__u64 ns)
{
	struct timespec ts = { .tv_sec = ns / NS_PER_SEC, .tv_nsec = ns % NS_PER_SEC };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

static inline void sleep_ms(unsigned int ms)
{
	sleep_ns(ms * NS_PER_MS);
}

/* A small generator, so that a run can be repeated from its seed. */
static inline __u64 next_random(__u64 *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static inline int wheel_open(int flags)
{
	return open(TWHEEL_DEVICE, O_RDWR | O_CLOEXEC | flags);
}

/* One verb on one timer, its outputs poisoned. */
static inline int verb(int fd, unsigned int cmd, struct twheel_timer *t)
{
	if (cmd == TWHEEL_IOC_REGISTER)
		poison(&t->id);
	poison(&t->state);
	return call(fd, cmd, t);
}

static inline int rearm_timer(int fd, __u64 id, __u64 deadline, __u32 flags,
			      struct twheel_timer *out)
{
	*out = (struct twheel_timer) {
		.id = id,
		.deadline_ns = deadline,
		.flags = flags,
	};
	return verb(fd, TWHEEL_IOC_REARM, out);
}

static inline int cancel_timer(int fd, __u64 id, struct twheel_timer *out)
{
	*out = (struct twheel_timer) { .id = id };
	return verb(fd, TWHEEL_IOC_CANCEL, out);
}

static inline int get_timer(int fd, __u64 id, struct twheel_timer *out)
{
	poison(out);
	out->id = id;
	out->flags = 0;
	return verb(fd, TWHEEL_IOC_GET, out);
}

/* The state that CANCEL found, or a negative errno. */
static inline int cancel(int fd, __u64 id)
{
	struct twheel_timer t;
	int ret = cancel_timer(fd, id, &t);

	return ret ? ret : (int)t.state;
}

/* The state that REARM found, or a negative errno. */
static inline int rearm(int fd, __u64 id, __u64 deadline, __u32 flags)
{
	struct twheel_timer t;
	int ret = rearm_timer(fd, id, deadline, flags, &t);

	return ret ? ret : (int)t.state;
}

static inline int state(int fd, __u64 id)
{
	struct twheel_timer t;
	int ret = get_timer(fd, id, &t);

	return ret ? ret : (int)t.state;
}

static inline int batch(int fd, struct twheel_op *ops, __u32 count)
{
	struct twheel_batch b = { .ops = ptr_u64(ops), .count = count };

	return call(fd, TWHEEL_IOC_BATCH, &b);
}

static inline int drain(int fd, __u32 mode)
{
	struct twheel_drain d = { .mode = mode };
	int ret;

	poison(&d.count);
	ret = call(fd, TWHEEL_IOC_DRAIN, &d);
	/* Both ways of telling the count must agree. */
	return ret >= 0 && d.count != (__u64)ret ? -EBADMSG : ret;
}

static inline int list(int fd, struct twheel_timer *timers, __u32 count, __u32 *cursor)
{
	struct twheel_list l = {
		.timers = ptr_u64(timers),
		.count = count,
		.cursor = *cursor,
	};
	int ret = call(fd, TWHEEL_IOC_LIST, &l);

	*cursor = l.cursor;
	return ret;
}

/* How many timers LIST shows, a page at a time. */
static inline int list_all(int fd)
{
	struct twheel_timer page[64];
	__u32 cursor = 0;
	int ret, total = 0;

	while ((ret = list(fd, page, ARRAY_SIZE(page), &cursor)) > 0)
		total += ret;
	return ret < 0 ? ret : total;
}

/*
 * As poll(), and again after a signal: nobody restarts it (see interrupt_children()). As
 * its time is over poll looks once more: what must come, with all patience, and is found
 * then alone has woken nobody, and does not count.
 */
static inline int poll_again(struct pollfd *p, nfds_t nr, int timeout_ms)
{
	__u64 end = now(CLOCK_MONOTONIC) + timeout_ms * NS_PER_MS, t;
	bool must = timeout_ms == PATIENCE_MS;
	int ret;

	while ((ret = poll(p, nr, timeout_ms)) < 0 && errno == EINTR) {
		t = now(CLOCK_MONOTONIC);
		timeout_ms = t < end ? (end - t) / NS_PER_MS : 0;
	}
	return ret > 0 && must && now(CLOCK_MONOTONIC) >= end ? 0 : ret;
}

static inline bool readable(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll_again(&p, 1, timeout_ms) == 1 && p.revents & POLLIN;
}

/* In this order: who is about to says that it may have before it ends. */
static inline bool early_is_right(void)
{
	return __atomic_load_n(&draining, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(&may_be_early, __ATOMIC_SEQ_CST);
}

/*
 * Nothing comes before its deadline, but what was drained, where anything was, and
 * that says so. In any process of a test, so this ends it.
 */
static inline void check_events(const struct twheel_event *ev, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (ev[i].expired_ns >= ev[i].deadline_ns ? ev[i].expirations :
		    early_is_right() && !ev[i].expirations)
			continue;
		fprintf(stderr, "# event %u of %u: deadline %llu, expired %llu, %llu expirations\n",
			i, n, ev[i].deadline_ns, ev[i].expired_ns, ev[i].expirations);
		abort();
	}
}

/* read(2), of events that are then looked at. */
static inline ssize_t read_events(int fd, struct twheel_event *ev, size_t size)
{
	ssize_t ret = read(fd, ev, size);

	if (ret > 0)
		check_events(ev, ret / sizeof(*ev));
	return ret;
}

/*
 * One read of up to @max events, waiting for the first. Returns how many, 0
 * if none came in time, or a negative errno.
 */
static inline int take(int fd, struct twheel_event *ev, unsigned int max, int timeout_ms)
{
	ssize_t ret;

	memset(ev, POISON, max * sizeof(*ev));
	if (!readable(fd, timeout_ms))
		return 0;
	ret = read_events(fd, ev, max * sizeof(*ev));
	if (ret < 0)
		return -errno;
	return ret % sizeof(*ev) ? -EBADMSG : (int)(ret / sizeof(*ev));
}

/* Reads until there are @n events or nothing comes for too long. */
static inline int collect(int fd, struct twheel_event *ev, unsigned int n)
{
	unsigned int have = 0;

	while (have < n) {
		int ret = take(fd, ev + have, n - have, PATIENCE_MS);

		if (ret < 0)
			return ret;
		if (!ret)
			break;
		have += ret;
	}
	return have;
}

/* A wheel on a clock. Returns its descriptor, or -1. */
static inline int wheel_on(int clock)
{
	struct twheel_setup s = {
		.clock_id = clock,
		.flags = clock == CLOCK_REALTIME ? TWHEEL_SETUP_REALTIME : 0,
	};
	int fd = wheel_open(O_NONBLOCK);

	if (fd >= 0 && call(fd, TWHEEL_IOC_SETUP, &s)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Passes @fd over a socket, with a byte. Returns whether it went. */
static inline bool send_fd(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof(fd))] = {}, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	return sendmsg(socket, &msg, 0) == 1;
}

/* What send_fd() has sent, or -1. */
static inline int receive_fd(int socket)
{
	char control[CMSG_SPACE(sizeof(int))] = {}, byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int fd = -1;

	if (recvmsg(socket, &msg, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/* A fresh one-shot timer; the test ends here if there is none. */
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

/* @n timers that differ in their user_data, first, first + 1 and so on. */
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

static inline struct twheel_info info(struct __test_metadata *_metadata, int fd)
{
	struct twheel_info i;

	poison(&i);
	ASSERT_EQ(0, call(fd, TWHEEL_IOC_INFO, &i));
	return i;
}

/*
 * The conservation of armings and of expirations, which must hold at any
 * moment. Called by the teardown of every fixture.
 */
static inline void expect_conserved(struct __test_metadata *_metadata, int fd)
{
	struct twheel_stats s = stats(_metadata, fd);

	EXPECT_EQ(s.armings, s.expired + s.displaced + s.armed);
	EXPECT_EQ(s.expired, s.delivered + s.withdrawn + s.unread);
	EXPECT_EQ(s.allocated, (__u64)list_all(fd));
}

/* Whether the timers are as before: all counts that only a verb may change. */
static inline bool same_counts(const struct twheel_stats *a, const struct twheel_stats *b)
{
	return !memcmp(a, b, offsetof(struct twheel_stats, moved));
}

/*
 * Two neighbouring pages; the second has @prot. Returns the address of the
 * second: what is placed before it straddles the border.
 */
static inline char *border(struct __test_metadata *_metadata, int prot)
{
	long size = sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	ASSERT_TRUE(p != MAP_FAILED);
	/* Not a zero page, which a write of zeroes would leave as it is. */
	memset(p, POISON, 2 * size);
	ASSERT_EQ(0, mprotect(p + size, size, prot));
	return p + size;
}

/* A page that can be read only, holding the @size bytes at @data. */
static inline void *read_only(struct __test_metadata *_metadata, const void *data, size_t size)
{
	long page = sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_TRUE(p != MAP_FAILED);
	memcpy(p, data, size);
	ASSERT_EQ(0, mprotect(p, page, PROT_READ));
	return p;
}

static inline bool is_root(void)
{
	return geteuid() == 0;
}

#define SKIP_UNLESS_ROOT() do { \
	if (!is_root()) \
		SKIP(return, "needs root"); \
} while (0)

/* For good, in this process. */
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

/* A number from a file of one number, or -1. */
static inline long long read_number(const char *path)
{
	long long value = -1;
	FILE *f = fopen(path, "re");

	if (!f)
		return -1;
	if (fscanf(f, "%lld", &value) != 1)
		value = -1;
	fclose(f);
	return value;
}

static inline bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

#endif /* TWHEEL_TEST_H */
