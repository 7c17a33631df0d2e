// SPDX-License-Identifier: GPL-2.0
/*
 * read(): whole events, blocking and nonblocking, signals, several readers.
 */
#include "twheel_test.h"

#include <linux/userfaultfd.h>
#include <sched.h>

#define EVENT	sizeof(struct twheel_event)

WHEEL_FIXTURE(reading, 0)

static void unread(struct __test_metadata *_metadata, int fd, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		add(_metadata, fd, 0, 0, i);
	ASSERT_TRUE(readable(fd, TIMEOUT_MS));
	ASSERT_EQ(n, stats(_metadata, fd).unread);
}

/* EINVAL for a buffer that is too small for one event, whether there is an event or not. */
TEST_F(reading, short_buffer)
{
	char buf[EVENT];
	unsigned int round;
	size_t size;

	for (round = 0; round < 2; round++) {
		for (size = 0; size < EVENT; size++)
			EXPECT_EQ(-EINVAL, errno_of(read(self->fd, buf, size)));
		if (!round)
			unread(_metadata, self->fd, 1);
	}
	EXPECT_EQ(EVENT, read(self->fd, buf, EVENT));
}

/* A read returns all events if they fit. */
TEST_F(reading, fewer_than_fit)
{
	struct twheel_event ev[10];

	unread(_metadata, self->fd, 3);
	poison(&ev);
	EXPECT_EQ(3 * EVENT, read_events(self->fd, ev, sizeof(ev)));
	EXPECT_EQ(2, ev[2].user_data);
	/* Nothing was written beyond them. */
	EXPECT_EQ(0xcccccccccccccccc, ev[3].id);
	EXPECT_EQ(0xcccccccccccccccc, ev[9].expirations);
}

/* A read returns as many whole events as fit: two into a buffer of two and a half. */
TEST_F(reading, more_than_fit)
{
	struct twheel_event ev[5];

	unread(_metadata, self->fd, 5);
	poison(&ev);
	EXPECT_EQ(2 * EVENT, read_events(self->fd, ev, 2 * EVENT + EVENT / 2));
	EXPECT_EQ(0, ev[0].user_data);
	EXPECT_EQ(1, ev[1].user_data);
	EXPECT_EQ(0xcccccccccccccccc, ev[2].id);
	EXPECT_EQ(3 * EVENT, read_events(self->fd, ev, sizeof(ev)));
	EXPECT_EQ(2, ev[0].user_data);
	EXPECT_EQ(4, ev[2].user_data);
}

/* A thousand events are read in one call. */
TEST_F(reading, many)
{
	enum { N = 1000 };
	struct twheel_event *ev = calloc(N + 1, EVENT);
	unsigned int i;

	add_many(_metadata, self->fd, N, 0, 0, 0, NULL);
	while (stats(_metadata, self->fd).unread < N)
		sleep_ms(1);
	EXPECT_EQ(N * EVENT, read_events(self->fd, ev, (N + 1) * EVENT));
	for (i = 0; i < N; i++)
		EXPECT_EQ(1, ev[i].expirations);
	free(ev);
}

/*
 * With buffers of every size, each read returns as many events as fit, and the next one
 * continues from there.
 */
TEST_F(reading, any_size)
{
	enum { N = 150 };
	struct twheel_event ev[N];
	__u64 seed = 13;
	unsigned int i;

	for (i = 0; i < 20; i++) {
		size_t size = EVENT + next_random(&seed) % (50 * EVENT);
		unsigned int next = 0, k;

		for (k = 0; k < N; k++)
			add(_metadata, self->fd, 0, 0, k);
		while (stats(_metadata, self->fd).unread < N)
			sleep_ms(1);
		while (next < N) {
			size_t fit = size / EVENT < N - next ? size / EVENT : N - next;
			ssize_t got = read_events(self->fd, ev, size) / EVENT;

			/* A signal may end the read after its first event. */
			if (with_signals() && got > 0 && got < (ssize_t)fit)
				fit = got;
			ASSERT_EQ(fit, got);
			for (k = 0; k < fit; k++)
				ASSERT_EQ(next++, ev[k].user_data);
		}
	}
}

/* readv() may split an event across several vectors. */
TEST_F(reading, vectors)
{
	struct twheel_event ev[3];
	char *p = (char *)ev;
	struct iovec iov[] = {
		{ p, 1 }, { p + 1, EVENT - 2 }, { p + EVENT - 1, 0 }, { p + EVENT - 1, 2 },
		{ p + EVENT + 1, 2 * EVENT - 1 },
	};

	unread(_metadata, self->fd, 3);
	EXPECT_EQ(3 * EVENT, readv(self->fd, iov, ARRAY_SIZE(iov)));
	EXPECT_EQ(0, ev[0].user_data);
	EXPECT_EQ(1, ev[1].user_data);
	EXPECT_EQ(2, ev[2].user_data);
	EXPECT_EQ(1, ev[2].expirations);
}

/* ESPIPE, because a wheel has no position. */
TEST_F(reading, no_position)
{
	struct twheel_event ev;
	struct iovec iov = { &ev, EVENT };

	unread(_metadata, self->fd, 1);
	EXPECT_EQ(-ESPIPE, errno_of(pread(self->fd, &ev, EVENT, 0)));
	EXPECT_EQ(-ESPIPE, errno_of(preadv(self->fd, &iov, 1, 0)));
	EXPECT_EQ(-ESPIPE, errno_of(lseek(self->fd, 0, SEEK_CUR)));
	EXPECT_EQ(EVENT, read_events(self->fd, &ev, EVENT));
}

/* write() fails with EINVAL, or with EBADF if the descriptor was not opened for writing. */
TEST_F(reading, write)
{
	struct twheel_event ev = { 0 };
	int fd = open(TWHEEL_DEVICE, O_RDONLY | O_CLOEXEC);

	ASSERT_GE(fd, 0);
	EXPECT_EQ(-EINVAL, errno_of(write(self->fd, &ev, EVENT)));
	EXPECT_EQ(-EBADF, errno_of(write(fd, &ev, EVENT)));
	close(fd);
}

/* EAGAIN if no event is unread, with O_NONBLOCK set by open(). */
TEST_F(reading, nonblock_by_open)
{
	int fd = open_wheel(_metadata, O_NONBLOCK);
	struct twheel_event ev;

	EXPECT_EQ(-EAGAIN, errno_of(read_events(fd, &ev, EVENT)));
	add(_metadata, fd, HOUR, 0, 0);
	EXPECT_EQ(-EAGAIN, errno_of(read_events(fd, &ev, EVENT)));
	add(_metadata, fd, 0, 0, 0);
	EXPECT_EQ(EVENT, read_events(fd, &ev, EVENT));
	EXPECT_EQ(-EAGAIN, errno_of(read_events(fd, &ev, EVENT)));
	close(fd);
}

/* EAGAIN with O_NONBLOCK set by fcntl(), and a blocking read after it was cleared. */
TEST_F(reading, nonblock_by_fcntl)
{
	struct twheel_event ev;

	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, O_NONBLOCK));
	EXPECT_EQ(-EAGAIN, errno_of(read_events(self->fd, &ev, EVENT)));
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, 0));
	add(_metadata, self->fd, 30 * NS_PER_MS, 0, 0);
	EXPECT_EQ(EVENT, read_events(self->fd, &ev, EVENT));
}

/* RWF_NOWAIT keeps a single read from blocking. */
TEST_F(reading, nowait)
{
	struct twheel_event ev;
	struct iovec iov = { &ev, EVENT };

	EXPECT_EQ(-EAGAIN, errno_of(preadv2(self->fd, &iov, 1, -1, RWF_NOWAIT)));
	add(_metadata, self->fd, 0, 0, 0);
	EXPECT_EQ(EVENT, preadv2(self->fd, &iov, 1, -1, RWF_NOWAIT));
}

/* read() blocks until there is an event. */
TEST_F(reading, blocks)
{
	struct twheel_event ev[4];
	__u64 deadline = now(CLOCK_MONOTONIC) + 50 * NS_PER_MS;

	add(_metadata, self->fd, deadline, TWHEEL_ABSTIME, 3);
	poison(&ev);
	EXPECT_EQ(EVENT, read_events(self->fd, ev, sizeof(ev)));
	EXPECT_GE(now(CLOCK_MONOTONIC), deadline);
	EXPECT_EQ(3, ev[0].user_data);
}

struct reader {
	pthread_t thread;
	int fd;
	/* The result of the first read(). */
	ssize_t ret;
	int err;
	struct twheel_event ev;
	/* The buffer, if it is not @ev. */
	struct twheel_event *to;
	/* Stops at an event with this user_data. */
	__u64 stop;
	unsigned int got;
	unsigned char *seen;
	pid_t tid;
};

static void *read_once(void *arg)
{
	struct reader *r = arg;

	__atomic_store_n(&r->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	r->ret = read_events(r->fd, r->to ?: &r->ev, EVENT);
	r->err = errno;
	return NULL;
}

/* Waits until the thread sleeps in read(), as far as that is visible from outside. */
static void wait_until_blocked(struct reader *r)
{
	char path[64], buf[512];
	unsigned int i;
	pid_t tid;

	while (!(tid = __atomic_load_n(&r->tid, __ATOMIC_ACQUIRE)))
		sleep_ms(1);
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	for (i = 0; i < 2000; i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t len = read(fd, buf, sizeof(buf) - 1);

		close(fd);
		buf[len > 0 ? len : 0] = '\0';
		if (strstr(buf, ") S "))
			return;
		sleep_ms(1);
	}
}

static void start_reader_to(struct __test_metadata *_metadata, struct reader *r, int fd, void *to)
{
	*r = (struct reader) { .fd = fd, .to = to };
	ASSERT_EQ(0, pthread_create(&r->thread, NULL, read_once, r));
	wait_until_blocked(r);
}

static void start_reader(struct __test_metadata *_metadata, struct reader *r, int fd)
{
	start_reader_to(_metadata, r, fd, NULL);
}

/* Returns true if the reader ends before the time limit. */
static bool joined(struct reader *r)
{
	unsigned int ms;

	for (ms = 0; ms < TIMEOUT_MS; ms++) {
		if (!pthread_tryjoin_np(r->thread, NULL))
			return true;
		sleep_ms(1);
	}
	return false;
}

/*
 * A timer that is armed for now, by REGISTER or REARM, alone or in a batch, wakes a blocked
 * reader.
 */
TEST_F(reading, woken)
{
	enum { ADD, BATCH, REARM, WAYS };
	struct reader r;
	unsigned int way;
	__u64 id = 0;

	for (way = ADD; way < WAYS; way++) {
		if (way != ADD)
			id = add(_metadata, self->fd, HOUR, 0, way);
		start_reader(_metadata, &r, self->fd);
		switch (way) {
		case ADD:
			add(_metadata, self->fd, 0, 0, way);
			break;
		case BATCH:
			EXPECT_EQ(1, expire_all(self->fd));
			break;
		case REARM:
			EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, id, 0, 0));
			break;
		}
		pthread_join(r.thread, NULL);
		EXPECT_EQ(EVENT, r.ret);
		EXPECT_EQ(way, r.ev.user_data);
	}
}

/*
 * Joins the thread of @r, which was sent SIGUSR1. If other signals are sent too, SIGUSR1 may
 * have come while one of those was handled, so that the read was restarted after it.
 */
static void join_signalled(struct reader *r)
{
	while (with_signals() && pthread_tryjoin_np(r->thread, NULL)) {
		sleep_ms(50);
		pthread_kill(r->thread, SIGUSR1);
	}
	if (!with_signals())
		pthread_join(r->thread, NULL);
}

/* EINTR for a signal before the first event. */
TEST_F(reading, interrupted)
{
	__u64 id = add(_metadata, self->fd, HOUR, 0, 0);
	struct twheel_event ev;
	struct reader r;

	catch_signal(SIGUSR1, 0);
	start_reader(_metadata, &r, self->fd);
	pthread_kill(r.thread, SIGUSR1);
	join_signalled(&r);
	EXPECT_EQ(-1, r.ret);
	EXPECT_EQ(EINTR, r.err);
	/* No event was lost. */
	EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, id, 0, 0));
	EXPECT_EQ(EVENT, read_events(self->fd, &ev, EVENT));
}

/* With SA_RESTART, the read continues after a signal. */
TEST_F(reading, restarted)
{
	struct reader r;
	unsigned int i;

	catch_signal(SIGUSR1, SA_RESTART);
	add(_metadata, self->fd, 200 * NS_PER_MS, 0, 21);
	start_reader(_metadata, &r, self->fd);
	for (i = 0; i < 5; i++) {
		pthread_kill(r.thread, SIGUSR1);
		sleep_ms(5);
	}
	pthread_join(r.thread, NULL);
	EXPECT_EQ(EVENT, r.ret);
	EXPECT_EQ(21, r.ev.user_data);
}

/*
 * A read returns events that are already there even if a signal is pending. EINTR is only for
 * a read that had to wait.
 */
TEST_F(reading, pending_signal_and_events)
{
	struct twheel_event ev[4];
	sigset_t set;

	/* Blocked, so that the signal stays pending and plays no part in the setup. */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	unread(_metadata, self->fd, 3);
	EXPECT_EQ(3 * EVENT, read_events(self->fd, ev, sizeof(ev)));
}

/* Nor does a signal that comes while the user's page is faulted in. */
TEST_F(reading, signals_and_faults)
{
	enum { MANY = 1000, SWEEP = 200 };
	unsigned int i;
	void *page;

	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	catch_signal(SIGALRM, 0);
	unread(_metadata, self->fd, MANY);
	for (i = 0; i < MANY; i++) {
		struct itimerval once = { .it_value.tv_usec = 1 + i % SWEEP * slowness() };

		ASSERT_EQ(0, madvise(page, 4096, MADV_DONTNEED));
		ASSERT_EQ(0, setitimer(ITIMER_REAL, &once, NULL));
		EXPECT_EQ(EVENT, read(self->fd, page, EVENT));
		signal_every(0);
	}
	EXPECT_EQ(0, munmap(page, 4096));
}

/* kill -9 ends a blocked read. */
TEST_F(reading, killed)
{
	int status;
	pid_t pid;

	pid = fork_child(_metadata);
	if (!pid) {
		struct twheel_event ev;

		if (read_events(self->fd, &ev, EVENT) < 0)
			_exit(1);
		_exit(0);
	}
	sleep_ms(50);
	EXPECT_EQ(0, kill(pid, SIGKILL));
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
}

/* A blocked read keeps the file alive after its descriptor was closed. */
TEST_F(reading, close_while_blocked)
{
	int fd = open_wheel(_metadata, 0);
	struct reader r;

	add(_metadata, fd, 200 * NS_PER_MS, 0, 31);
	start_reader(_metadata, &r, fd);
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(-1, fcntl(fd, F_GETFD));
	pthread_join(r.thread, NULL);
	/* If a signal restarts the read, there is no descriptor left to read from. */
	if (with_signals() && r.ret < 0) {
		EXPECT_EQ(EBADF, r.err);
		return;
	}
	EXPECT_EQ(EVENT, r.ret);
	EXPECT_EQ(31, r.ev.user_data);
}

static void *read_until_stop(void *arg)
{
	struct reader *r = arg;

	for (;;) {
		struct twheel_event ev[3];
		ssize_t ret = read_events(r->fd, ev, sizeof(ev));
		unsigned int i;

		if (ret <= 0 || ret % EVENT) {
			r->err = ret < 0 ? errno : EBADMSG;
			return NULL;
		}
		for (i = 0; i < ret / EVENT; i++) {
			if (ev[i].user_data >= r->stop) {
				r->ret = 1;
				continue;
			}
			__atomic_fetch_add(&r->seen[ev[i].user_data], 1, __ATOMIC_RELAXED);
			r->got++;
		}
		if (r->ret)
			return NULL;
	}
}

/*
 * With several blocked readers, each event reaches exactly one of them, and no event is left
 * over.
 */
TEST_F(reading, several_readers)
{
	enum { N = 4000, READERS = 4 };
	unsigned char *seen = calloc(N, 1);
	struct reader r[READERS];
	unsigned int i, got = 0, stopped = 0;
	__u64 seed = 3;

	for (i = 0; i < READERS; i++) {
		r[i] = (struct reader) { .fd = self->fd, .stop = N, .seen = seen };
		ASSERT_EQ(0, pthread_create(&r[i].thread, NULL, read_until_stop, &r[i]));
	}
	for (i = 0; i < N; i++)
		add(_metadata, self->fd, next_random(&seed) % (4 * NS_PER_MS), 0, i);
	/* When all events have been read, one more for each reader ends the readers. */
	for (i = 0; i < TIMEOUT_MS && stats(_metadata, self->fd).delivered < N; i++)
		sleep_ms(1);
	EXPECT_EQ(N, stats(_metadata, self->fd).delivered);
	while (stopped < READERS) {
		add(_metadata, self->fd, 0, 0, N + 1);
		sleep_ms(2);
		for (i = 0; i < READERS; i++)
			if (r[i].stop && !pthread_tryjoin_np(r[i].thread, NULL)) {
				r[i].stop = 0;
				stopped++;
			}
	}
	for (i = 0; i < READERS; i++) {
		EXPECT_EQ(0, r[i].err);
		got += r[i].got;
	}
	EXPECT_EQ(N, got);
	for (i = 0; i < N; i++)
		EXPECT_EQ(1, seen[i]);
	free(seen);
}

/* Events that expire together wake all waiting readers, not only the first. */
TEST_F(reading, all_readers_are_woken)
{
	enum { READERS = 4 };
	struct reader r[READERS];
	unsigned int i;
	__u64 sum = 0;

	for (i = 0; i < READERS; i++)
		start_reader(_metadata, &r[i], self->fd);
	add_many(_metadata, self->fd, READERS, now(CLOCK_MONOTONIC) + 50 * NS_PER_MS,
		 TWHEEL_ABSTIME, 1, NULL);
	for (i = 0; i < READERS; i++) {
		pthread_join(r[i].thread, NULL);
		EXPECT_EQ(EVENT, r[i].ret);
		sum += r[i].ev.user_data;
	}
	EXPECT_EQ(1 + 2 + 3 + 4, sum);
}

/*
 * A reader that is interrupted passes the wake-up on, so that no event stays unread while
 * another reader waits.
 */
TEST_F(reading, interrupted_reader_hands_on)
{
	unsigned int round;

	catch_signal(SIGUSR1, 0);
	for (round = 0; round < 50; round++) {
		struct reader a, b;

		start_reader(_metadata, &a, self->fd);
		start_reader(_metadata, &b, self->fd);
		/* Send the wake-up and the first reader's signal at about the same time. */
		add(_metadata, self->fd, 0, 0, round);
		pthread_kill(a.thread, SIGUSR1);
		if (round & 1)
			add(_metadata, self->fd, 0, 0, round);
		join_signalled(&a);
		if (a.ret > 0 && !(round & 1))
			add(_metadata, self->fd, 0, 0, round);
		pthread_join(b.thread, NULL);
		EXPECT_EQ(EVENT, b.ret);
		if (a.ret < 0 && round & 1)
			a.ret = read_events(self->fd, &a.ev, EVENT);
		EXPECT_FALSE(readable(self->fd, 0));
	}
}

/* Returns a page of memory that is missing until userfaultfd @uffd provides it. */
static void *page_of(struct __test_metadata *_metadata, int uffd)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range.len = 4096, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	void *page;

	ASSERT_GE(uffd, 0)
		TH_LOG("no userfaultfd: %s", strerror(errno));
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	range.range.start = (uintptr_t)page;
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_API, &api));
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_REGISTER, &range));
	return page;
}

/*
 * A reader whose memory takes long to be faulted in passes the wake-up on, and gets the next
 * event.
 */
TEST_F(reading, faulting_reader_hands_on)
{
	int uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct twheel_event *page = page_of(_metadata, uffd);
	struct uffdio_zeropage zero = { .range = { (uintptr_t)page, 4096 } };
	struct reader a, b;
	bool handed_on;
	sigset_t signals;

	/* The first reader to wait is woken first, unless a signal restarts its read. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGVTALRM);
	ASSERT_EQ(0, pthread_sigmask(SIG_BLOCK, &signals, NULL));
	start_reader_to(_metadata, &a, self->fd, page);
	start_reader(_metadata, &b, self->fd);
	ASSERT_EQ(0, pthread_sigmask(SIG_UNBLOCK, &signals, NULL));
	add(_metadata, self->fd, 0, 0, 5);
	/* The first reader is waiting for its missing page. */
	ASSERT_TRUE(readable(uffd, TIMEOUT_MS));
	handed_on = joined(&b);
	EXPECT_TRUE(handed_on);
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_ZEROPAGE, &zero));
	add(_metadata, self->fd, 0, 0, 6);
	ASSERT_TRUE(joined(&a));
	EXPECT_EQ(EVENT, a.ret);
	if (!handed_on)
		ASSERT_TRUE(joined(&b));
	EXPECT_EQ(EVENT, b.ret);
	EXPECT_EQ(5, b.ev.user_data);
	EXPECT_EQ(6, page->user_data);
	EXPECT_EQ(0, munmap(page, 4096));
	close(uffd);
}

/* dup() gives a second descriptor for the same wheel. */
TEST_F(reading, dup)
{
	int fd = dup(self->fd);
	struct twheel_event ev;
	__u64 id;

	ASSERT_GE(fd, 0);
	id = add(_metadata, self->fd, 0, TWHEEL_KEEP, 5);
	EXPECT_EQ(EVENT, read_events(fd, &ev, EVENT));
	EXPECT_EQ(5, ev.user_data);
	EXPECT_FALSE(readable(self->fd, 0));
	EXPECT_EQ(TWHEEL_IDLE, state(fd, id));
	close(fd);
	EXPECT_EQ(TWHEEL_IDLE, cancel(self->fd, id));
}

/* Opening the descriptor again through /proc creates a new wheel. */
TEST_F(reading, reopened)
{
	char path[64];
	__u64 id;
	int fd;

	id = add(_metadata, self->fd, HOUR, 0, 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", self->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	EXPECT_EQ(-ENOENT, state(fd, id));
	EXPECT_EQ(0, stats(_metadata, fd).registered);
	close(fd);
}

/* After fork() the child shares the wheel. */
TEST_F(reading, fork_shares)
{
	__u64 id = add(_metadata, self->fd, HOUR, 0, 6);
	struct twheel_event ev;
	pid_t pid;

	pid = fork_child(_metadata);
	if (!pid)
		_exit(rearm(self->fd, id, 0, 0) == TWHEEL_ARMED ? 0 : 1);
	EXPECT_EQ(EVENT, read_events(self->fd, &ev, EVENT));
	EXPECT_EQ(6, ev.user_data);
	EXPECT_EQ(0, status_of(pid));
}

/* A wheel lives until its last holder is gone: a child goes on after the parent has closed it. */
TEST_F(reading, child_outlives_parent)
{
	int fd = open_wheel(_metadata, 0);
	pid_t pid;

	add(_metadata, fd, 200 * NS_PER_MS, 0, 7);
	pid = fork_child(_metadata);
	if (!pid) {
		struct twheel_event ev;

		_exit(read_events(fd, &ev, EVENT) == EVENT && ev.user_data == 7 ? 0 : 1);
	}
	close(fd);
	EXPECT_EQ(0, status_of(pid));
}

/* SCM_RIGHTS: a wheel in a message stays alive, and works after its sender has closed it. */
TEST_F(reading, passed_by_message)
{
	int fd = open_wheel(_metadata, 0), pair[2];
	struct twheel_event ev;
	__u64 id;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	id = add(_metadata, fd, 50 * NS_PER_MS, TWHEEL_KEEP, 8);
	ASSERT_TRUE(send_fd(pair[0], fd));
	close(fd);
	close(pair[0]);
	/* The timer expires while no process has the wheel open. */
	sleep_ms(100);
	fd = receive_fd(pair[1]);
	ASSERT_GE(fd, 0);
	EXPECT_EQ(EVENT, read_events(fd, &ev, EVENT));
	EXPECT_EQ(8, ev.user_data);
	EXPECT_EQ(TWHEEL_IDLE, state(fd, id));
	add(_metadata, fd, 0, 0, 9);
	EXPECT_EQ(EVENT, read_events(fd, &ev, EVENT));
	EXPECT_EQ(9, ev.user_data);
	close_wheel(_metadata, fd);
	close(pair[1]);
}

/*
 * SCM_RIGHTS to the user nobody, and to nobody in its own user namespace if the kernel
 * supports these: whoever holds the descriptor can use the wheel.
 */
TEST_F(reading, passed_to_nobody)
{
	int pair[2], apart;
	pid_t pid;

	for (apart = 0; apart < 2; apart++) {
		if (apart && access("/proc/self/ns/user", F_OK)) {
			TH_LOG("this kernel has no user namespaces");
			break;
		}
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
		pid = fork_child(_metadata);
		if (!pid) {
			struct twheel_timer t = { .user_data = 15 };
			int fd;

			be_nobody(_metadata);
			if (apart && unshare(CLONE_NEWUSER))
				_exit(2);
			fd = receive_fd(pair[1]);
			_exit(call(fd, TWHEEL_IOC_REGISTER, &t) ? 1 : 0);
		}
		ASSERT_TRUE(send_fd(pair[0], self->fd));
		EXPECT_EQ(0, status_of(pid));
		close(pair[0]);
		close(pair[1]);
	}
	EXPECT_TRUE(readable(self->fd, TIMEOUT_MS));
	EXPECT_EQ(apart, stats(_metadata, self->fd).registered);
}

TEST_HARNESS_MAIN
