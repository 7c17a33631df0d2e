// SPDX-License-Identifier: GPL-2.0
/*
 * The ends of wheels: closed at any moment, killed, passed on, watched by epoll and io_uring
 * while they end, out of memory, and while the module is loaded and unloaded.
 *
 *   --count N   wheels that are opened, armed and closed (10,000); other tests use a part of it
 *   --loads N   loads and unloads of the module while it is used (20)
 *   --seconds N time limit for each of these; the rest is cut (0: never)
 *   --seed N    the seed of all random choices (1)
 */
#include "machine.h"
#include "module.h"
#include "ring.h"
#include "stress.h"

#include <sys/epoll.h>
#include <sys/prctl.h>

static unsigned long long count = 10000;
static unsigned long long loads = 20;
static unsigned long long seconds;
static unsigned long long seed = 1;

FIXTURE(lives) {
	long long users;
	__u64 seed;
	__u64 start;
};

FIXTURE_SETUP(lives)
{
	self->users = read_number(REFCNT);
	self->seed = seed ?: 1;
	self->start = now(CLOCK_MONOTONIC);
}

/* Expects that every wheel is gone with its last descriptor and mapping. */
FIXTURE_TEARDOWN(lives)
{
	unsigned int ms;

	/* A work item of the kernel may drop the last reference. */
	for (ms = 0; ms < TIMEOUT_MS && read_number(REFCNT) != self->users; ms++)
		sleep_ms(1);
	EXPECT_EQ(self->users, read_number(REFCNT));
}

/* Returns true if the time is over and at least one round was done. */
static bool over(__u64 start, unsigned long done)
{
	return seconds && done && now(CLOCK_MONOTONIC) - start >= seconds * NS_PER_SEC;
}

/* Logs how many rounds were done, wanted and needed. */
static void tell(struct __test_metadata *_metadata, unsigned long done, unsigned long wanted,
		 unsigned long needed)
{
	TARGET("rounds", done, needed);
	if (done < wanted)
		TH_LOG("cut: %lu rounds were asked for", wanted);
}

/* Arms a new timer without assertions, for children. */
static __u64 arm_new(int fd, __u64 deadline, __u64 period)
{
	struct twheel_timer t = { .deadline_ns = deadline, .period_ns = period };

	if (verb(fd, TWHEEL_IOC_REGISTER, &t))
		_exit(1);
	return t.id;
}

/*
 * Opens a wheel, arms timers that are about to expire, and closes it at a random phase of a
 * tick; some wheels are mapped, some are read.
 */
static void one_life(__u64 *seed, size_t bytes)
{
	int fd = wheel_open(O_NONBLOCK);
	unsigned int i, kind = next_random(seed) % 8;
	struct twheel_event ev;
	void *p = MAP_FAILED;

	if (fd < 0)
		_exit(2);
	if (kind == 1) {
		p = map_at(fd, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
		if (p == MAP_FAILED || ((struct twheel_table *)p)->magic != TWHEEL_TABLE_MAGIC)
			_exit(3);
	}
	for (i = 0; i <= kind; i++)
		arm_new(fd, next_random(seed) % NS_PER_MS, i == 2 ? NS_PER_MS : 0);
	if (kind == 2)
		sleep_ns(next_random(seed) % NS_PER_MS);
	if (kind == 3)
		read_now(fd, &ev, 1);
	close(fd);
	if (p != MAP_FAILED) {
		struct table t = { .head = p };

		/* The wheel and its timers still exist. */
		swap_word((struct twheel_slot *)((char *)p + PAGE), 1);
		if (next_random(seed) & 1)
			scatter_marks(marks_of(&t, 0), summary_of(&t, 0), 1, next_random(seed));
		munmap(p, bytes);
	}
}

/* G11: Two processes open, arm and close wheels at the same time, --count wheels in all. */
TEST_F_TIMEOUT(lives, open_arm_close, UNLIMITED)
{
	int fd = wheel_open(O_NONBLOCK);
	size_t bytes = info(_metadata, fd).table_bytes;
	unsigned long *done = shared_memory(PAGE), i;
	pid_t pid[2];
	unsigned int p;

	ASSERT_TRUE(!!done);
	close(fd);
	for (p = 0; p < 2; p++) {
		pid[p] = fork_child(_metadata);
		if (pid[p])
			continue;
		pin(p);
		self->seed += p;
		for (i = p; i < count && !over(self->start, i / 2); i += 2) {
			one_life(&self->seed, bytes);
			done[p]++;
		}
		_exit(0);
	}
	for (p = 0; p < 2; p++)
		ASSERT_EQ(0, status_of(pid[p]));
	tell(_metadata, done[0] + done[1], count, PART(count));
}

/* Does all kinds of calls forever, and is killed in one of them. */
static void busy(__u64 seed, int inherited)
{
	static struct twheel_op ops[2000];
	static struct twheel_event ev[100];
	struct table t = { 0 };

	for (;;) {
		int fd = seed % 5 ? wheel_open(O_NONBLOCK) : inherited;
		struct twheel_info i;
		unsigned int n;

		fill_ops(ops, ARRAY_SIZE(ops), TWHEEL_OP_REGISTER, NS_PER_MS, 0);
		batch(fd, ops, ARRAY_SIZE(ops));
		if (call(fd, TWHEEL_IOC_INFO, &i))
			_exit(1);
		t.fd = fd;
		t.bytes = i.table_bytes;
		t.head = map_at(fd, t.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
		if (t.head != MAP_FAILED) {
			t.slots = (void *)((char *)t.head + t.head->slots_offset);
			for (n = 0; n < 100; n++)
				arm_marked(&t, n, now(CLOCK_MONOTONIC) +
					   next_random(&seed) % NS_PER_MS);
			scatter_marks(marks_of(&t, 0), summary_of(&t, 0), 2, next_random(&seed));
		}
		if (next_random(&seed) & 1)
			expire_all(fd);
		else
			cancel_all(fd);
		read_now(fd, ev, ARRAY_SIZE(ev));
		if (next_random(&seed) & 1) {
			/* Blocks until it is killed, or an event comes. */
			fcntl(fd, F_SETFL, 0);
			arm_new(fd, NS_PER_MS, 0);
			read_now(fd, ev, 1);
			fcntl(fd, F_SETFL, O_NONBLOCK);
		}
		if (t.head != MAP_FAILED)
			munmap(t.head, t.bytes);
		if (fd != inherited)
			close(fd);
	}
}

/* kill -9 at random moments: nothing remains except what others hold, and that still works. */
TEST_F_TIMEOUT(lives, killed, UNLIMITED)
{
	unsigned long n = count / 20 ? count / 20 : 1, i;
	int fd = open_wheel(_metadata, O_NONBLOCK);
	struct twheel_stats s;

	for (i = 0; i < n && !over(self->start, i); i++) {
		pid_t pid = fork_child(_metadata);

		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			busy(next_random(&self->seed) + i, fd);
		}
		next_random(&self->seed);
		sleep_ns(self->seed % (20 * NS_PER_MS));
		ASSERT_TRUE(killed(pid));
		ASSERT_TRUE(conserved(fd, &s));
		/* Look at what the dead processes have left on the wheel that we hold too. */
		if (i % 10 == 0) {
			struct twheel_event ev[64];

			ASSERT_LE(0, cancel_all(fd));
			/*
			 * A process that died in a blocking read has left the descriptor
			 * blocking.
			 */
			ASSERT_EQ(0, fcntl(fd, F_SETFL, O_NONBLOCK));
			while (read_now(fd, ev, ARRAY_SIZE(ev)) > 0)
				;
		}
	}
	tell(_metadata, i, n, PART(n / 5));
	close_wheel(_metadata, fd);
}

/* A descriptor in a socket that nobody ever receives is closed with the socket. */
TEST_F_TIMEOUT(lives, in_flight, 600)
{
	unsigned long n = count / 100 ? count / 100 : 1, i;

	for (i = 0; i < n && !over(self->start, i); i++) {
		int pair[2], fd = open_wheel(_metadata, O_NONBLOCK);

		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
		add(_metadata, fd, next_random(&self->seed) % NS_PER_MS, 0, 0);
		ASSERT_TRUE(send_fd(pair[0], fd));
		close(fd);
		close(pair[0]);
		close(pair[1]);
	}
	tell(_metadata, i, n, 0);
}

/* Returns true if the page in @pipe contains the header of the table. */
static bool table_in_pipe(int pipe)
{
	struct twheel_table head = { 0 };

	return read(pipe, &head, sizeof(head)) == sizeof(head) &&
	       head.magic == TWHEEL_TABLE_MAGIC;
}

/* Returns true if the slot's timer expires before the time limit. */
static bool soon_idle(struct twheel_slot *slot)
{
	__u64 end = now(CLOCK_MONOTONIC) + TIMEOUT_MS * NS_PER_MS;

	while (word(slot) && now(CLOCK_MONOTONIC) < end)
		sleep_ns(NS_PER_MS / 4);
	return !word(slot);
}

/*
 * G11: A mapping outlives its descriptor: processes write to it, even a child, and its timers
 * expire. A page of it that a pipe holds outlives the mapping.
 */
TEST_F_TIMEOUT(lives, mapping_stays, UNLIMITED)
{
	unsigned long n = count / 10 ? count / 10 : 1, i;

	for (i = 0; i < n && !over(self->start, i); i++) {
		int fd = wheel_open(O_NONBLOCK), ends[2];
		struct table t = map_table(_metadata, fd);
		struct iovec page = { t.head, PAGE };
		__u64 ids[2];
		pid_t pid;

		ids[0] = reserve(_metadata, fd, 0);
		ids[1] = add(_metadata, fd, next_random(&self->seed) % NS_PER_MS, TWHEEL_KEEP, 1);
		ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
		/* The page itself, because the pipe is not asked to take it over. */
		if (i % 4 == 0)
			ASSERT_EQ(PAGE, vmsplice(ends[1], &page, 1, 0));
		close(fd);
		swap_word(slot_of(&t, ids[0]), now(CLOCK_MONOTONIC) + NS_PER_MS / 8);
		/* The turn for the other timer sees the mark, if there is still one. */
		mark(&t, ids[0]);
		if (i % 16 == 0) {
			pid = fork_child(_metadata);
			if (!pid) {
				swap_word(slot_of(&t, ids[1]), 1);
				_exit(t.head->magic != TWHEEL_TABLE_MAGIC);
			}
			ASSERT_EQ(0, status_of(pid));
		}
		ASSERT_EQ(TWHEEL_TABLE_MAGIC, t.head->magic);
		if (i % 8 == 0)
			sleep_ns(NS_PER_MS / 4);
		if (i % 16 == 8)
			ASSERT_TRUE(soon_idle(slot_of(&t, ids[1])));
		unmap_table(&t);
		if (i % 4 == 0)
			ASSERT_TRUE(table_in_pipe(ends[0]));
		close(ends[0]);
		close(ends[1]);
	}
	tell(_metadata, i, n, PART(n));
}

/* Slots that are reused again and again, all within one allocation. */
#define REUSED	64

static struct {
	/* Former ids of the slots, which name no timer any more. */
	__u64 stale[REUSED];
	bool stop;
	unsigned long acted, tries;
	int fd;
} reuse;

/* Uses stale ids forever. All of these calls must fail. */
static void *act_on_stale(void *arg)
{
	struct twheel_op ops[REUSED];
	unsigned int i, round;

	(void)arg;
	for (round = 0; !__atomic_load_n(&reuse.stop, __ATOMIC_ACQUIRE); round++) {
		fill_ops(ops, REUSED, TWHEEL_OP_REARM + round % 3, 0, TWHEEL_KEEP);
		for (i = 0; i < REUSED; i++)
			ops[i].timer.id = __atomic_load_n(&reuse.stale[i], __ATOMIC_RELAXED);
		if (batch(reuse.fd, ops, REUSED) != REUSED)
			reuse.acted++;
		for (i = 0; i < REUSED; i++)
			reuse.acted += ops[i].result != -ENOENT;
		reuse.tries += REUSED;
	}
	return NULL;
}

/* A stale id never affects the timer that has its slot now. */
TEST_F_TIMEOUT(lives, stale_ids, UNLIMITED)
{
	static struct twheel_op ops[2 * REUSED];
	__u64 ids[REUSED];
	unsigned long n = count * 100 / REUSED, i;
	unsigned int k;
	pthread_t thread;

	reuse.fd = open_wheel(_metadata, O_NONBLOCK);
	add_many(_metadata, reuse.fd, REUSED, HOUR, 0, 0, ids);
	/* Generations that have not existed yet. */
	for (k = 0; k < REUSED; k++)
		reuse.stale[k] = (__u32)ids[k] | 1ULL << 63;
	ASSERT_EQ(0, pthread_create(&thread, NULL, act_on_stale, NULL));
	for (i = 0; i < n && !over(self->start, i); i++) {
		fill_ops(ops, REUSED, TWHEEL_OP_CANCEL, 0, 0);
		fill_ops(ops + REUSED, REUSED, TWHEEL_OP_REGISTER, HOUR, 0);
		for (k = 0; k < REUSED; k++)
			ops[k].timer.id = ids[k];
		ASSERT_EQ(2 * REUSED, batch(reuse.fd, ops, 2 * REUSED));
		for (k = 0; k < REUSED; k++) {
			const struct twheel_op *made = &ops[REUSED + k];

			ASSERT_EQ(0, ops[k].result);
			ASSERT_EQ(TWHEEL_ARMED, ops[k].timer.state);
			ASSERT_EQ(0, made->result);
			ASSERT_LT((__u32)made->timer.id, REUSED);
			ids[k] = made->timer.id;
		}
		for (k = 0; k < REUSED; k++)
			__atomic_store_n(&reuse.stale[k], ops[k].timer.id, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&reuse.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, reuse.acted);
	EXPECT_GT(reuse.tries, 0);
	TH_LOG("%lu times a slot was used again", i * REUSED);
	TARGET("tries", reuse.tries, PART(n * REUSED / 3));
	tell(_metadata, i, n, 0);
	close_wheel(_metadata, reuse.fd);
}

/*
 * Waits for the event on @mine, then makes one on @its, @rounds times, or until the time since
 * @start is over if that is not 0. Returns true if all events came, and in @done how many.
 */
static bool ping(int mine, int its, unsigned long rounds, __u64 start, unsigned long *done)
{
	struct twheel_event ev;
	unsigned long i;
	bool came = true;

	/* A read that waits for too long is interrupted. */
	catch_signal(SIGALRM, 0);
	for (i = 0; i < rounds && !(start && over(start, i)); i++) {
		if (i % 256 == 0)
			alarm(2 * TIMEOUT_MS / 1000);
		/* Waits with poll in some rounds, and with read in others. */
		came = (i % 2 == 0 || readable(mine, TIMEOUT_MS)) &&
		       read(mine, &ev, sizeof(ev)) == sizeof(ev);
		if (!came)
			break;
		arm_new(its, i % 3 * 50000, 0);
	}
	alarm(0);
	*done = i;
	return came;
}

/* Ping-pong between two processes: no wake-up is lost. */
TEST_F_TIMEOUT(lives, ping_pong, UNLIMITED)
{
	struct twheel_setup shape = { .tick_ns = 100000 };
	int here = wheel_open(0), there = wheel_open(0);
	unsigned long i;
	pid_t pid;

	ASSERT_EQ(0, call(here, TWHEEL_IOC_SETUP, &shape));
	ASSERT_EQ(0, call(there, TWHEEL_IOC_SETUP, &shape));
	pid = fork_child(_metadata);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(1);
		ping(there, here, ~0UL, 0, &i);
		_exit(1);
	}
	pin(0);
	arm_new(there, 0, 0);
	EXPECT_TRUE(ping(here, there, count, self->start, &i))
		TH_LOG("nobody woke up in round %lu", i);
	tell(_metadata, i, count, PART(count / 10));
	EXPECT_TRUE(killed(pid));
	close(here);
	close(there);
}

static int watch(int epoll, int fd, __u32 events)
{
	struct epoll_event ev = { .events = events };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev);
}

/* Returns true if a wait returns with one event before the time limit. */
static bool awoken(int epoll)
{
	struct epoll_event ev;

	return epoll_wait(epoll, &ev, 1, TIMEOUT_MS) == 1;
}

/* The number of events of a wheel before it ends. */
#define NESTED_EVENTS	8

/*
 * Puts a wheel below four epoll instances, has its events come one after the other, and ends
 * it.
 */
static void nest(struct __test_metadata *_metadata, __u32 way, __u64 *seed)
{
	struct twheel_setup shape = { .tick_ns = 100000 };
	int fd = wheel_open(O_NONBLOCK), ep[4];
	unsigned int i, k;

	ASSERT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &shape));
	for (k = 0; k < ARRAY_SIZE(ep); k++) {
		ep[k] = epoll_create1(EPOLL_CLOEXEC);
		ASSERT_EQ(0, watch(ep[k], k ? ep[k - 1] : fd, way));
	}
	for (i = 0; i < NESTED_EVENTS; i++) {
		struct twheel_event ev;
		int got;

		add(_metadata, fd, next_random(seed) % (NS_PER_MS / 8), 0, i);
		ASSERT_TRUE(awoken(ep[3]))
			TH_LOG("event %u", i);
		got = read_now(fd, &ev, 1);
		ASSERT_EQ(1, got);
		ASSERT_EQ(i, ev.user_data);
	}
	/* Either the wheel ends first, with a timer about to expire, or the epoll instances do. */
	add(_metadata, fd, next_random(seed) % (NS_PER_MS / 8), 0, 0);
	if (*seed & 1 << 20)
		close(fd);
	for (k = 0; k < ARRAY_SIZE(ep); k++)
		close(ep[k]);
	if (!(*seed & 1 << 20))
		close(fd);
}

/*
 * epoll instances nested four deep, with each way to watch: no wake-up is lost, whenever it
 * comes.
 */
TEST_F_TIMEOUT(lives, nested_epoll, UNLIMITED)
{
	unsigned long n = count / 10 ? count / 10 : 1, i;

	for (i = 0; i < n && !over(self->start, i); i++)
		nest(_metadata, i % 2 ? EPOLLIN : EPOLLIN | EPOLLET, &self->seed);
	tell(_metadata, i, n, PART(n));
}

/*
 * EPOLLONESHOT reports once, EPOLLET reports each new batch, EPOLLEXCLUSIVE wakes at least one
 * waiter.
 */
TEST_F_TIMEOUT(lives, ways_of_epoll, UNLIMITED)
{
	unsigned long n = count / 10 ? count / 10 : 1, i;
	struct epoll_event ev;
	struct twheel_event e;

	for (i = 0; i < n && !over(self->start, i); i++) {
		int fd = wheel_open(O_NONBLOCK), one = epoll_create1(EPOLL_CLOEXEC);
		int edge = epoll_create1(EPOLL_CLOEXEC), sole[2], k;

		ASSERT_EQ(0, watch(one, fd, EPOLLIN | EPOLLONESHOT));
		ASSERT_EQ(0, watch(edge, fd, EPOLLIN | EPOLLET));
		for (k = 0; k < 2; k++) {
			sole[k] = epoll_create1(EPOLL_CLOEXEC);
			ASSERT_EQ(0, watch(sole[k], fd, EPOLLIN | EPOLLEXCLUSIVE));
		}
		add(_metadata, fd, i % 3 * 100000, 0, 0);
		ASSERT_TRUE(awoken(edge));
		ASSERT_TRUE(awoken(one));
		ASSERT_GE(epoll_wait(sole[0], &ev, 1, 0) + epoll_wait(sole[1], &ev, 1, 0), 1);
		add(_metadata, fd, 0, 0, 0);
		ASSERT_TRUE(awoken(edge));
		ASSERT_EQ(0, epoll_wait(edge, &ev, 1, 0));
		ASSERT_EQ(0, epoll_wait(one, &ev, 1, 0));
		ASSERT_EQ(1, read_now(fd, &e, 1));
		/* The wheel may end while another thread is about to be woken. */
		add(_metadata, fd, next_random(&self->seed) % NS_PER_MS, 0, 0);
		close(fd);
		ASSERT_EQ(0, epoll_wait(edge, &ev, 1, 0));
		close(one);
		close(edge);
		close(sole[0]);
		close(sole[1]);
	}
	tell(_metadata, i, n, PART(n));
}

/* io_uring polls and reads a wheel. Either the wheel is closed first, or the ring. */
TEST_F_TIMEOUT(lives, io_uring, UNLIMITED)
{
	unsigned long n = count / 10 ? count / 10 : 1, i;

	for (i = 0; i < n && !over(self->start, i); i++) {
		int fd = wheel_open(O_NONBLOCK * (i & 1));
		struct io_uring_sqe poll = {
			.opcode = IORING_OP_POLL_ADD, .fd = fd, .poll_events = POLLIN,
			.user_data = 1,
		};
		struct twheel_event ev[2] = { 0 };
		struct io_uring_sqe read = {
			.opcode = IORING_OP_READ, .fd = fd, .addr = ptr_u64(&ev[0]),
			.len = sizeof(ev), .user_data = 2,
		};
		struct io_uring_cqe cqe;
		struct ring r;

		ASSERT_GE(fd, 0);
		ASSERT_TRUE(open_ring(&r))
			TH_LOG("no io_uring in this kernel: %s", strerror(errno));
		ASSERT_TRUE(submit(&r, &poll));
		add(_metadata, fd, i % 4 * 100000, 0, i);
		switch (i % 5) {
		case 0:
		case 1:
			ASSERT_TRUE(reap(&r, &cqe, TIMEOUT_MS));
			ASSERT_EQ(1, cqe.user_data);
			ASSERT_TRUE(cqe.res & POLLIN);
			ASSERT_TRUE(submit(&r, &read));
			ASSERT_TRUE(reap(&r, &cqe, TIMEOUT_MS));
			ASSERT_EQ(2, cqe.user_data);
			ASSERT_EQ(sizeof(ev[0]), cqe.res);
			ASSERT_EQ(i, ev[0].user_data);
			close(fd);
			break;
		case 2:
			/* The request holds the wheel until it completes. */
			close(fd);
			ASSERT_TRUE(reap(&r, &cqe, TIMEOUT_MS));
			ASSERT_EQ(1, cqe.user_data);
			break;
		case 3:
			/* With a poll request and a read under way. */
			ASSERT_TRUE(submit(&r, &read));
			close(fd);
			break;
		case 4:
			close_ring(&r);
			add(_metadata, fd, 0, 0, 0);
			close(fd);
			continue;
		}
		close_ring(&r);
	}
	tell(_metadata, i, n, PART(n));
}

/* How many refusals the test waits for. */
#define REFUSALS	1000

/* Opens wheels with everything in them, and continues when memory is refused. */
static void open_without_end(void)
{
	unsigned int refused = 0;
	unsigned long i;
	size_t bytes = 0;

	for (i = 0; refused < REFUSALS; i++) {
		struct twheel_info info;
		int fd = wheel_open(O_NONBLOCK);
		char *p;

		if (fd < 0) {
			if (errno != ENOMEM)
				_exit(10);
			refused++;
			continue;
		}
		if (!bytes && !call(fd, TWHEEL_IOC_INFO, &info))
			bytes = info.table_bytes;
		if (i % 3 == 0) {
			struct twheel_timer t = { .deadline_ns = HOUR };
			int ret = verb(fd, TWHEEL_IOC_REGISTER, &t);

			if (ret && ret != -ENOMEM)
				_exit(11);
			refused += !!ret;
		}
		if (i % 3 == 1) {
			p = map_at(fd, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
			if (p == MAP_FAILED) {
				if (errno != ENOMEM)
					_exit(12);
				refused++;
			} else if (madvise(p, 64 * PAGE, MADV_POPULATE_WRITE)) {
				if (errno != ENOMEM && errno != EFAULT)
					_exit(13);
				refused++;
			}
		}
	}
	_exit(0);
}

/*
 * A process that opens wheels endlessly in a cgroup of 12 MiB gets ENOMEM, or is killed, and
 * no other process is.
 */
TEST_F_TIMEOUT(lives, cgroup, 600)
{
	unsigned int i, killed = 0, refused = 0, n = 5;
	int fd = wheel_open(O_NONBLOCK), status;
	struct twheel_stats s;
	__u64 id;

	ASSERT_TRUE(is_root());
	id = add(_metadata, fd, HOUR, 0, 5);
	for (i = 0; i < n; i++) {
		pid_t pid;

		ASSERT_TRUE(make_group("12M"))
			TH_LOG(NO_CGROUP);
		pid = fork_child(_metadata);
		if (!pid) {
			if (!enter_group())
				_exit(9);
			be_nobody(_metadata);
			open_without_end();
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			killed++;
		else
			refused += status == 0;
		ASSERT_EQ(i + 1, killed + refused)
			TH_LOG("status %#x", status);
		/* All of its memory is freed, if not at once. */
		for (status = 0; status < TIMEOUT_MS && rmdir(PAID_BY); status++)
			sleep_ms(1);
		ASSERT_NE(0, access(PAID_BY, F_OK));
		ASSERT_TRUE(conserved(fd, &s));
		ASSERT_EQ(TWHEEL_ARMED, state(fd, id));
	}
	TH_LOG("%u were refused, %u killed", refused, killed);
	close(fd);
}

/* Uses a wheel while the device exists, and retries when it goes. */
static void use_for_ever(unsigned int nr)
{
	__u64 seed = nr + 1;
	unsigned int i;

	pin(nr);
	for (;;) {
		int fd = wheel_open(O_NONBLOCK);

		if (fd < 0) {
			sched_yield();
			continue;
		}
		/* With hrtimers and work items pending when the wheel is closed. */
		for (i = 0; i < 4; i++)
			arm_new(fd, next_random(&seed) % (NS_PER_MS / 4), 0);
		sleep_ns(next_random(&seed) % (NS_PER_MS / 2));
		close(fd);
		if (next_random(&seed) % 4 == 0)
			sleep_ns(NS_PER_MS);
	}
}

/*
 * G11: The module is unloaded and loaded again, while two processes open the device whenever
 * they can.
 */
TEST_F_TIMEOUT(lives, loads_and_unloads, UNLIMITED)
{
	unsigned long done = 0, refused = 0;
	pid_t pid[2];
	int i;

	ASSERT_TRUE(is_root());
	ASSERT_EQ(0, access(MODULE, R_OK))
		TH_LOG("only in the machine of vm/run.sh");
	for (i = 0; i < 2; i++) {
		pid[i] = fork_child(_metadata);
		if (!pid[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			use_for_ever(i);
		}
	}
	while (done < loads && (!refused || !over(self->start, done))) {
		int ret = unload_module("twheel");

		if (ret) {
			ASSERT_EQ(-EWOULDBLOCK, ret);
			refused++;
			sched_yield();
			continue;
		}
		ASSERT_EQ(0, load_module(MODULE, ""));
		done++;
	}
	for (i = 0; i < 2; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
	TH_LOG("%lu unloads refused, as it was open", refused);
	tell(_metadata, done, loads, PART(loads));
	/* Check that it was in use. */
	EXPECT_GT(refused, 0);
}

STRESS_MAIN({ "count", &count }, { "loads", &loads }, { "seconds", &seconds }, { "seed", &seed })
