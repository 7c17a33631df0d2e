// SPDX-License-Identifier: GPL-2.0
/*
 * How a program learns of an event: poll, select, epoll and io_uring. Also /proc/PID/fdinfo.
 */
#include "ring.h"
#include "twheel_test.h"

#include <sys/epoll.h>
#include <sys/select.h>

#define EVENT	sizeof(struct twheel_event)

FIXTURE(polling) {
	int fd;
	int ep;
};

FIXTURE_SETUP(polling)
{
	self->fd = open_wheel(_metadata, O_NONBLOCK);
	self->ep = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_GE(self->ep, 0);
}

FIXTURE_TEARDOWN(polling)
{
	expect_conserved(_metadata, self->fd);
	close(self->ep);
	close(self->fd);
}

static short polled(int fd, int timeout_ms)
{
	struct pollfd p = {
		.fd = fd,
		.events = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLPRI,
	};

	switch (poll_again(&p, 1, timeout_ms)) {
	case 0:
		return 0;
	case 1:
		return p.revents;
	default:
		return -1;
	}
}

/* poll() reports POLLIN and POLLRDNORM while an event is unread, and never anything else. */
TEST_F(polling, poll)
{
	struct twheel_event ev;
	__u64 id;

	EXPECT_EQ(0, polled(self->fd, 0));
	add(_metadata, self->fd, HOUR, 0, 0);
	EXPECT_EQ(0, polled(self->fd, QUIET_MS));
	add(_metadata, self->fd, 0, 0, 0);
	id = add(_metadata, self->fd, 0, 0, 0);
	EXPECT_EQ(POLLIN | POLLRDNORM, polled(self->fd, 0));
	EXPECT_EQ(POLLIN | POLLRDNORM, polled(self->fd, 0));
	EXPECT_EQ(1, take(self->fd, &ev, 1, 0));
	EXPECT_EQ(POLLIN | POLLRDNORM, polled(self->fd, 0));
	/* A withdrawn event no longer counts as unread. */
	EXPECT_EQ(TWHEEL_EXPIRED, cancel(self->fd, id));
	EXPECT_EQ(0, polled(self->fd, 0));
}

/* poll() sleeps until the first expiration. */
TEST_F(polling, poll_waits)
{
	__u64 deadline = now(CLOCK_MONOTONIC) + 50 * NS_PER_MS;

	add(_metadata, self->fd, deadline, TWHEEL_ABSTIME, 0);
	EXPECT_EQ(POLLIN | POLLRDNORM, polled(self->fd, TIMEOUT_MS));
	EXPECT_GE(now(CLOCK_MONOTONIC), deadline);
}

/* select() reports the descriptor as readable, but not as writable or exceptional. */
TEST_F(polling, select)
{
	struct timeval timeout = { .tv_sec = TIMEOUT_MS / 1000 };
	fd_set in, out, except;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&except);
	FD_SET(self->fd, &in);
	FD_SET(self->fd, &out);
	FD_SET(self->fd, &except);
	add(_metadata, self->fd, 20 * NS_PER_MS, 0, 0);
	EXPECT_EQ(1, select(self->fd + 1, &in, &out, &except, &timeout));
	/*
	 * select() was woken up, and did not find the event in its last look: there is time
	 * left.
	 */
	EXPECT_NE(0, timeout.tv_sec + timeout.tv_usec);
	EXPECT_TRUE(FD_ISSET(self->fd, &in));
	EXPECT_FALSE(FD_ISSET(self->fd, &out));
	EXPECT_FALSE(FD_ISSET(self->fd, &except));
}

static void watch(struct __test_metadata *_metadata, int ep, int fd, __u32 events)
{
	struct epoll_event e = { .events = events, .data.u64 = 17 };

	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
}

/* Returns the reported events, or 0 if there are none in time. */
static int epolled(int ep, int timeout_ms)
{
	struct epoll_event e = { 0 };
	int ret = epoll_wait(ep, &e, 1, timeout_ms);

	return ret < 0 ? -errno : ret ? (int)e.events : 0;
}

/* Level-triggered epoll reports an event again and again until it is read. */
TEST_F(polling, epoll_level)
{
	struct twheel_event ev[2];

	watch(_metadata, self->ep, self->fd, EPOLLIN | EPOLLRDNORM | EPOLLOUT);
	EXPECT_EQ(0, epolled(self->ep, QUIET_MS));
	add(_metadata, self->fd, 10 * NS_PER_MS, 0, 0);
	EXPECT_EQ(EPOLLIN | EPOLLRDNORM, epolled(self->ep, TIMEOUT_MS));
	EXPECT_EQ(EPOLLIN | EPOLLRDNORM, epolled(self->ep, 0));
	EXPECT_EQ(1, take(self->fd, ev, 2, 0));
	EXPECT_EQ(0, epolled(self->ep, QUIET_MS));
}

/*
 * Edge-triggered epoll reports each new batch of events as a new edge, whether it is read or
 * not.
 */
TEST_F(polling, epoll_edge)
{
	unsigned int i;

	watch(_metadata, self->ep, self->fd, EPOLLIN | EPOLLET);
	for (i = 0; i < 5; i++) {
		add(_metadata, self->fd, i & 1 ? 0 : 10 * NS_PER_MS, 0, 0);
		EXPECT_EQ(EPOLLIN, epolled(self->ep, TIMEOUT_MS));
		EXPECT_EQ(0, epolled(self->ep, QUIET_MS));
	}
	EXPECT_EQ(5, stats(_metadata, self->fd).unread);
	/* An event that was there before the descriptor was added is an edge too. */
	EXPECT_EQ(0, epoll_ctl(self->ep, EPOLL_CTL_DEL, self->fd, NULL));
	watch(_metadata, self->ep, self->fd, EPOLLIN | EPOLLET);
	EXPECT_EQ(EPOLLIN, epolled(self->ep, 0));
	EXPECT_EQ(0, epolled(self->ep, 0));
	/* A REARM into the past creates another batch. */
	add(_metadata, self->fd, HOUR, 0, 0);
	EXPECT_EQ(1, expire_all(self->fd));
	EXPECT_EQ(EPOLLIN, epolled(self->ep, TIMEOUT_MS));
}

/* An edge-triggered loop that reads until EAGAIN misses no event. */
TEST_F(polling, epoll_edge_loop)
{
	enum { N = 1000 };
	struct twheel_event ev[7];
	unsigned int got = 0;
	__u64 seed = 8;
	ssize_t ret;
	int i;

	watch(_metadata, self->ep, self->fd, EPOLLIN | EPOLLET);
	for (i = 0; i < N; i++)
		add(_metadata, self->fd, next_random(&seed) % (100 * NS_PER_MS), 0, 0);
	while (got < N && epolled(self->ep, TIMEOUT_MS)) {
		while ((ret = read_events(self->fd, ev, sizeof(ev))) > 0)
			got += ret / EVENT;
		ASSERT_EQ(EAGAIN, errno);
	}
	EXPECT_EQ(N, got);
}

/* EPOLLONESHOT reports once, until the descriptor is armed again. */
TEST_F(polling, epoll_oneshot)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLONESHOT };

	watch(_metadata, self->ep, self->fd, EPOLLIN | EPOLLONESHOT);
	add(_metadata, self->fd, 0, 0, 0);
	EXPECT_EQ(EPOLLIN, epolled(self->ep, TIMEOUT_MS));
	add(_metadata, self->fd, 0, 0, 0);
	EXPECT_EQ(0, epolled(self->ep, QUIET_MS));
	EXPECT_EQ(0, epoll_ctl(self->ep, EPOLL_CTL_MOD, self->fd, &e));
	EXPECT_EQ(EPOLLIN, epolled(self->ep, 0));
	EXPECT_EQ(0, epolled(self->ep, QUIET_MS));
}

struct waiter {
	pthread_t thread;
	int ep;
	int fd;
	unsigned int got;
	bool *stop;
};

static void *epoll_and_read(void *arg)
{
	struct waiter *w = arg;

	while (!__atomic_load_n(w->stop, __ATOMIC_ACQUIRE)) {
		struct twheel_event ev[4];
		ssize_t ret;

		if (!epolled(w->ep, 50))
			continue;
		while ((ret = read_events(w->fd, ev, sizeof(ev))) > 0)
			w->got += ret / EVENT;
	}
	return NULL;
}

/* EPOLLEXCLUSIVE wakes at least one waiter for each expiration, and no event is lost. */
TEST_F(polling, epoll_exclusive)
{
	enum { N = 100, WAITERS = 4 };
	struct waiter w[WAITERS];
	unsigned int i, got = 0;
	bool stop = false;

	for (i = 0; i < WAITERS; i++) {
		w[i] = (struct waiter) {
			.ep = epoll_create1(EPOLL_CLOEXEC),
			.fd = self->fd,
			.stop = &stop,
		};
		watch(_metadata, w[i].ep, self->fd, EPOLLIN | EPOLLEXCLUSIVE);
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, epoll_and_read, &w[i]));
	}
	for (i = 0; i < N; i++) {
		add(_metadata, self->fd, i & 1 ? 0 : NS_PER_MS, 0, i);
		sleep_ms(1);
	}
	for (i = 0; i < TIMEOUT_MS && stats(_metadata, self->fd).delivered < N; i++)
		sleep_ms(1);
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (i = 0; i < WAITERS; i++) {
		pthread_join(w[i].thread, NULL);
		got += w[i].got;
		close(w[i].ep);
	}
	EXPECT_EQ(N, got);
}

static void *epoll_once(void *arg)
{
	struct waiter *w = arg;

	w->got = !!epolled(w->ep, 300);
	return NULL;
}

/* EPOLLEXCLUSIVE wakes one of the waiters, not all. */
TEST_F(polling, epoll_exclusive_wakes_one)
{
	enum { WAITERS = 4 };
	unsigned int i, round, least = WAITERS;

	/* On a busy machine some threads may start to wait too late, but not every time. */
	for (round = 0; round < 10 && least > 1; round++) {
		struct waiter w[WAITERS];
		unsigned int woken = 0;
		struct twheel_event ev;

		for (i = 0; i < WAITERS; i++) {
			w[i] = (struct waiter) { .ep = epoll_create1(EPOLL_CLOEXEC) };
			watch(_metadata, w[i].ep, self->fd, EPOLLIN | EPOLLEXCLUSIVE);
			ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, epoll_once, &w[i]));
		}
		add(_metadata, self->fd, 100 * NS_PER_MS, 0, 0);
		for (i = 0; i < WAITERS; i++) {
			pthread_join(w[i].thread, NULL);
			woken += w[i].got;
			close(w[i].ep);
		}
		ASSERT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
		/* woken is 0 if all threads had stopped waiting before the event. */
		if (woken && woken < least)
			least = woken;
	}
	EXPECT_EQ(1, least);
}

/* Without EPOLLEXCLUSIVE, every epoll instance is woken. */
TEST_F(polling, epoll_instances)
{
	int other = epoll_create1(EPOLL_CLOEXEC);

	ASSERT_GE(other, 0);
	watch(_metadata, self->ep, self->fd, EPOLLIN | EPOLLET);
	watch(_metadata, other, self->fd, EPOLLIN | EPOLLET);
	add(_metadata, self->fd, 5 * NS_PER_MS, 0, 0);
	EXPECT_EQ(EPOLLIN, epolled(self->ep, TIMEOUT_MS));
	EXPECT_EQ(EPOLLIN, epolled(other, TIMEOUT_MS));
	close(other);
}

/* An epoll instance within another one reports events too. */
TEST_F(polling, epoll_nested)
{
	int outer = epoll_create1(EPOLL_CLOEXEC);

	ASSERT_GE(outer, 0);
	watch(_metadata, self->ep, self->fd, EPOLLIN);
	watch(_metadata, outer, self->ep, EPOLLIN);
	add(_metadata, self->fd, 10 * NS_PER_MS, 0, 0);
	EXPECT_EQ(EPOLLIN, epolled(outer, TIMEOUT_MS));
	EXPECT_EQ(EPOLLIN, epolled(self->ep, 0));
	close(outer);
}

/*
 * There is no SIGIO, as with timerfd, so that a program with many timers cannot have the
 * softirq send signals.
 */
TEST_F(polling, no_sigio)
{
	struct timespec quiet = { .tv_nsec = QUIET_MS * NS_PER_MS };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	ASSERT_EQ(0, sigprocmask(SIG_BLOCK, &set, NULL));
	ASSERT_EQ(0, fcntl(self->fd, F_SETOWN, getpid()));
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, O_NONBLOCK | O_ASYNC));
	add(_metadata, self->fd, 0, 0, 0);
	EXPECT_TRUE(readable(self->fd, 0));
	EXPECT_EQ(-1, sigtimedwait(&set, NULL, &quiet));
}

/* Some kernels lack io_uring, or forbid it to this process. */
#define OPEN_OR_SKIP(r) do { \
	if (!open_ring(r)) { \
		ASSERT_TRUE(errno == ENOSYS || errno == EPERM); \
		SKIP(return, "THIS KERNEL HAS NO IO_URING: not tested with it"); \
	} \
} while (0)

/* A poll request of io_uring completes at the expiration. */
TEST_F(polling, io_uring_poll)
{
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_POLL_ADD,
		.fd = self->fd,
		.poll_events = POLLIN,
	};
	struct io_uring_cqe cqe;
	struct ring r;

	OPEN_OR_SKIP(&r);
	ASSERT_TRUE(submit(&r, &sqe));
	EXPECT_FALSE(reap(&r, &cqe, 0));
	add(_metadata, self->fd, 30 * NS_PER_MS, 0, 0);
	ASSERT_TRUE(reap(&r, &cqe, TIMEOUT_MS));
	EXPECT_EQ(POLLIN, cqe.res & POLLIN);
	EXPECT_TRUE(readable(self->fd, 0));
	close_ring(&r);
}

/* A read request of io_uring waits for the first event, and returns all that are there. */
TEST_F(polling, io_uring_read)
{
	struct twheel_event ev[4];
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_READ,
		.fd = self->fd,
		.addr = ptr_u64(ev),
		.len = sizeof(ev),
		.off = -1ULL,
	};
	struct io_uring_cqe cqe;
	unsigned int i;
	struct ring r;

	/* With O_NONBLOCK it would complete with EAGAIN. */
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, 0));
	OPEN_OR_SKIP(&r);
	for (i = 0; i < 5; i++) {
		poison(&ev);
		ASSERT_TRUE(submit(&r, &sqe));
		EXPECT_FALSE(reap(&r, &cqe, 0));
		add(_metadata, self->fd, i & 1 ? 0 : 20 * NS_PER_MS, 0, 90 + i);
		ASSERT_TRUE(reap(&r, &cqe, TIMEOUT_MS));
		EXPECT_EQ(EVENT, cqe.res);
		EXPECT_EQ(90 + i, ev[0].user_data);
	}
	/* Two events that are already there. */
	add(_metadata, self->fd, 0, 0, 1);
	add(_metadata, self->fd, 0, 0, 2);
	ASSERT_TRUE(submit(&r, &sqe));
	ASSERT_TRUE(reap(&r, &cqe, TIMEOUT_MS));
	EXPECT_EQ(2 * EVENT, cqe.res);
	EXPECT_EQ(2, ev[1].user_data);
	close_ring(&r);
}

/* Returns the value of @key in the fdinfo of @fd, or "?". */
static void fdinfo_value(int fd, const char *key, char value[1024])
{
	char path[64], line[1024];
	size_t len = strlen(key);
	FILE *f;

	memcpy(value, "?", 2);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, len) || strncmp(line + len, ":\t", 2))
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(value, 1024, "%s", line + len + 2);
	}
	fclose(f);
}

static unsigned long long fdinfo_number(int fd, const char *key)
{
	char value[1024];

	fdinfo_value(fd, key, value);
	return strtoull(value, NULL, 10);
}

/* fdinfo has lines of "twheel-key: value", with the same numbers as INFO and STATS. */
TEST_F(polling, fdinfo)
{
	struct twheel_setup shape = {
		.tick_ns = 1 << 20,
		.clock_id = CLOCK_BOOTTIME,
		.max_timers = 300,
	};
	int fd = open_wheel(_metadata, O_NONBLOCK);
	char path[64], line[1024], value[1024];
	struct twheel_event ev[2];
	struct twheel_stats s;
	struct twheel_info i;
	unsigned int ours = 0;
	__u64 next;
	FILE *f;

	ASSERT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &shape));
	fdinfo_value(fd, "twheel-next", value);
	EXPECT_STREQ("never", value);
	fdinfo_value(fd, "twheel-lateness", value);
	EXPECT_STREQ("", value);
	/*
	 * All counts differ: 9 of 10 timers are left, 3 of them armed and 4 unread, and 6 have
	 * expired.
	 */
	EXPECT_EQ(TWHEEL_ARMED, cancel(fd, add(_metadata, fd, HOUR, 0, 0)));
	add_many(_metadata, fd, 2, 0, TWHEEL_KEEP, 0, NULL);
	ASSERT_EQ(2, take(fd, ev, 2, TIMEOUT_MS));
	add_many(_metadata, fd, 4, 0, 0, 0, NULL);
	add_many(_metadata, fd, 3, HOUR, 0, 0, NULL);
	s = stats(_metadata, fd);
	i = info(_metadata, fd);
	EXPECT_EQ(CLOCK_BOOTTIME, fdinfo_number(fd, "twheel-clock"));
	EXPECT_EQ(i.tick_ns, fdinfo_number(fd, "twheel-tick-ns"));
	EXPECT_EQ(i.max_timers, fdinfo_number(fd, "twheel-max"));
	EXPECT_EQ(9, s.allocated);
	EXPECT_EQ(9, fdinfo_number(fd, "twheel-timers"));
	EXPECT_EQ(3, fdinfo_number(fd, "twheel-armed"));
	EXPECT_EQ(4, fdinfo_number(fd, "twheel-unread"));
	EXPECT_EQ(6, fdinfo_number(fd, "twheel-expired"));
	/*
	 * The wheel turns next at the start of the three timers' bucket, which comes within
	 * the hour.
	 */
	next = fdinfo_number(fd, "twheel-next");
	EXPECT_LT(now(CLOCK_BOOTTIME), next);
	EXPECT_GE(now(CLOCK_BOOTTIME) + HOUR, next);
	/* twheel-now is for readers in another time namespace. */
	next = now(CLOCK_BOOTTIME);
	EXPECT_LE(next, fdinfo_number(fd, "twheel-now"));
	next = fdinfo_number(fd, "twheel-now");
	EXPECT_GE(now(CLOCK_BOOTTIME), next);

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	ASSERT_TRUE(!!f);
	while (fgets(line, sizeof(line), f)) {
		char key[64], word[64];

		if (strncmp(line, "twheel-", 7))
			continue;
		ours++;
		/* One key and at most one value, with a tab in between. No timer was late. */
		if (strcmp(line, "twheel-lateness:\t\n"))
			EXPECT_EQ(2, sscanf(line, "twheel-%63[^:]:\t%63s\n", key, word));
	}
	fclose(f);
	EXPECT_EQ(14, ours);
	close(fd);
}

/* fdinfo reports the same lateness and number of moves as STATS. */
TEST_F(polling, fdinfo_lateness)
{
	char value[1024], expected[1024] = "";
	struct twheel_event ev[50];
	struct twheel_stats s;
	struct table t = map_table(_metadata, self->fd);
	__u64 id = add(_metadata, self->fd, 20 * NS_PER_MS, TWHEEL_KEEP, 0);
	unsigned int i, n = 0;

	/* The timer expires at the new deadline; the kernel looks at the old one, and moves it. */
	EXPECT_NE(0, arm(&t, id, now(CLOCK_MONOTONIC) + 100 * NS_PER_MS));
	add_many(_metadata, self->fd, 49, 50 * NS_PER_MS, 0, 0, NULL);
	ASSERT_EQ(50, collect(self->fd, ev, 50));
	s = stats(_metadata, self->fd);
	EXPECT_LE(1, s.moved);
	EXPECT_EQ(s.moved, fdinfo_number(self->fd, "twheel-moved"));
	EXPECT_EQ(s.worst_lateness_ns, fdinfo_number(self->fd, "twheel-late-max-ns"));
	EXPECT_EQ(s.lateness_sum_ns, fdinfo_number(self->fd, "twheel-late-sum-ns"));
	EXPECT_LT(0, s.lateness_sum_ns);
	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++)
		if (s.lateness[i])
			n += sprintf(expected + n, "%s%u=%llu", n ? " " : "", i,
				     (unsigned long long)s.lateness[i]);
	fdinfo_value(self->fd, "twheel-lateness", value);
	EXPECT_STREQ(expected, value);
	unmap_table(&t);
}

TEST_HARNESS_MAIN
