// SPDX-License-Identifier: GPL-2.0
/*
 * Pairs of calls that race: two threads, one call each.
 *
 *   --loops N     how often (100,000), or fewer for pairs that take very long
 *   --seconds N   time limit for each pair, whose other loops are cut; a quarter of it for a
 *                 pair that would not finish in that time (0: never)
 *   --seed N      the seed of all random choices (1)
 *
 * Both calls should take effect at the same moment. The test therefore delays one of them by a
 * random time, and adapts the mean of these times until each call comes first in half of the
 * loops. After each loop, what both calls returned, the events and the state of the timer must
 * fit one of the two orders. A pair also fails if one call was hardly ever first, or if the two
 * hardly ever overlapped, because then it has tested nothing.
 */
#include "stress.h"

#include <sys/epoll.h>

/* Timers in a pair's batch. */
#define MANY	32U
/* The minimum number of loops, however long they take. */
#define MIN_LOOPS	20U
#define MAX_EXTENSION	20U
/* Each call must be first in at least this many loops, and in one of 50. */
#define MIN_FIRST	5U

static unsigned long long loops = 100000;
static unsigned long long seconds;
static unsigned long long seed = 1;

enum outcome { A_FIRST, B_FIRST, BETWEEN, WRONG, OUTCOMES };

struct race {
	/* The pair's wheel and table, and another wheel for pairs that close it. */
	int fd, other;
	struct table t, map;
	int epoll;
	unsigned long loop;
	/* When the loop began, by the wheels' clock. */
	__u64 begun;
	/*
	 * When the timer that b() has armed expires, if not 0, and how long before that b()
	 * runs.
	 */
	__u64 at;
	__u64 lead;

	/* What a() and b() returned, and their outputs. */
	int ra, rb;
	struct twheel_timer ta, tb;
	struct twheel_event ea[8], eb[8];
	struct twheel_op opa[MANY], opb[MANY];
	struct twheel_stats before, after, seen;
	struct twheel_timer listed[8];
	__u64 id[MANY];
	__u64 word, offline;
	void *p;

	/* Why the pair has failed, in @loop; NULL if it has not. */
	const char *wrong;

	/* How the two calls are made to meet; times are in ticks(). */
	__u64 seed;
	__u64 start_a, start_b;
	__u64 end_a, begin_a, end_b, begin_b;
	__s64 bias;
	__u64 length;
	unsigned long outcomes[OUTCOMES], overlaps;
	/* The loop that the other thread may start, and the one that it has ended. */
	unsigned long go, done;
	bool stop;
};

struct pair {
	void (*prepare)(struct race *r);
	void (*a)(struct race *r);
	void (*b)(struct race *r);
	enum outcome (*judge)(struct race *r);
	/* Only one of this many loops is run, because each takes long, but at least MIN_LOOPS. */
	unsigned int share;
	/* a() races with the expiry of a timer that b() has armed, at race.at. */
	bool expires;
	/* Loops may be cut even in make check-full. */
	bool slow;
};

static struct race race;

static enum outcome wrong(struct race *r, const char *what)
{
	if (!r->wrong)
		r->wrong = what;
	return WRONG;
}

/*
 * The time for the two threads. If reading the clock is a system call, which takes longer than
 * some of the races, it is the processor's counter.
 */
static inline __u64 ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#else
	return now(CLOCK_MONOTONIC);
#endif
}

/* The number of ticks in a microsecond. */
static __u64 ticks_per_us;

static void measure_ticks(void)
{
	__u64 ns = now(CLOCK_MONOTONIC), t = ticks();

	sleep_ms(20);
	t = ticks() - t;
	ns = now(CLOCK_MONOTONIC) - ns;
	ticks_per_us = t * NS_PER_US / ns ?: 1;
}

/*
 * Waits actively for the other thread, so that the two stay in step. An emulator that has one
 * processor for both then runs the other one.
 */
static inline void relax(unsigned int turn)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
	/* Let other threads use this processor. */
	if (turn % 1024 == 1023)
		sched_yield();
}

static void await(const unsigned long *gate, unsigned long value)
{
	unsigned int turn = 0;

	while (__atomic_load_n(gate, __ATOMIC_ACQUIRE) != value)
		relax(turn++);
}

static void announce(unsigned long *gate, unsigned long value)
{
	__atomic_store_n(gate, value, __ATOMIC_RELEASE);
}

static __u64 spin_until(__u64 time)
{
	__u64 t;

	while ((t = ticks()) < time)
		relax(0);
	return t;
}

static void *other_thread(void *arg)
{
	const struct pair *pair = arg;
	struct race *r = &race;
	unsigned long round = 0;

	pin(1);
	for (;;) {
		await(&r->go, ++round);
		if (r->stop)
			return NULL;
		r->begin_b = spin_until(r->start_b);
		pair->b(r);
		r->end_b = ticks();
		announce(&r->done, round);
	}
}

/* Sets the two start times: r->bias plus a random part, positive if b() is to be later. */
static void choose_starts(struct race *r)
{
	__u64 spread = r->length + ticks_per_us;
	__s64 delay = r->bias + (__s64)(next_random(&r->seed) % (2 * spread)) - (__s64)spread;
	__u64 start = ticks() + ticks_per_us;

	r->start_a = start + (delay < 0 ? -delay : 0);
	r->start_b = start + (delay > 0 ? delay : 0);
}

/* The same, once it is known when the timer that b() has armed expires. */
static void choose_start(struct race *r)
{
	__s64 left = r->at - now(CLOCK_MONOTONIC), late = r->start_a - r->start_b;

	r->start_a = ticks() + (left > 0 ? left * ticks_per_us / NS_PER_US : 0) + late;
}

/* Moves the bias to the point at which either call is first. */
static void learn(struct race *r, enum outcome first)
{
	__u64 mine = r->end_a - r->begin_a, its = r->at ? mine : r->end_b - r->begin_b;
	__u64 late = r->begin_a - r->start_a + (r->at ? 0 : r->begin_b - r->start_b);
	__s64 limit;

	/*
	 * A loop in which the machine stood still teaches next to nothing. If the calls
	 * themselves take as long as that, some 250 loops do.
	 */
	if (mine + its < 10000 * ticks_per_us || mine + its < r->length)
		r->length += ((__s64)(mine + its) - (__s64)r->length) / 8;
	else
		r->length += r->length / 32;
	if (late > r->length)
		return;
	if (first == A_FIRST)
		r->bias -= r->length / 16 + 10;
	else if (first == B_FIRST)
		r->bias += r->length / 16 + 10;
	limit = 4 * r->length + 100 * ticks_per_us;
	if (r->bias > limit)
		r->bias = limit;
	if (r->bias < -limit)
		r->bias = -limit;
}

/* A wrong count stays wrong, so it need not be checked in each loop. */
#define CONSERVED_EACH	16

static void check_counts(struct race *r)
{
	struct twheel_stats s;

	if (conserved(r->fd, &s))
		return;
	tell_stats("not conserved", &s);
	wrong(r, "STATS does not add up, since this loop or one of the last few");
}

/* Returns true if they raced: each call was first often enough, and they overlapped. */
static bool raced(const struct race *r, const struct pair *pair)
{
	unsigned long some = MIN_FIRST + r->loop / 50;

	return r->outcomes[A_FIRST] >= some && r->outcomes[B_FIRST] >= some &&
	       (pair->expires || r->overlaps >= some);
}

/*
 * Returns true if the time is over, or if after a quarter of it @n loops are too many for the
 * rest. Pairs that have not met yet get MAX_EXTENSION times as much.
 */
static bool is_over(const struct race *r, const struct pair *pair, unsigned long n, __u64 start)
{
	__u64 spent = now(CLOCK_MONOTONIC) - start, budget = seconds * NS_PER_SEC;

	if (!seconds || r->loop < MIN_LOOPS || spent < budget / 4)
		return false;
	if (spent < budget && r->loop * budget >= n * spent)
		return false;
	return raced(r, pair) || spent >= MAX_EXTENSION * budget;
}

static void run_pair(struct __test_metadata *_metadata, const struct pair *pair)
{
	unsigned long n = loops / pair->share > MIN_LOOPS ? loops / pair->share : MIN_LOOPS;
	struct race *r = &race;
	pthread_t thread;
	__u64 start;

	r->seed = seed;
	measure_ticks();
	/* An initial guess: about the length of a call. */
	r->length = 5 * ticks_per_us;
	pin(0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, other_thread, (void *)pair));
	start = now(CLOCK_MONOTONIC);
	for (r->loop = 0; r->loop < n && !r->wrong; r->loop++) {
		enum outcome first;

		if (is_over(r, pair, n, start))
			break;
		r->begun = now(CLOCK_MONOTONIC);
		pair->prepare(r);
		if (r->wrong)
			break;
		choose_starts(r);
		announce(&r->go, r->loop + 1);
		if (pair->expires) {
			await(&r->done, r->loop + 1);
			choose_start(r);
		}
		r->begin_a = spin_until(r->start_a);
		pair->a(r);
		r->end_a = ticks();
		await(&r->done, r->loop + 1);
		if (!pair->expires)
			r->overlaps += r->begin_a < r->end_b && r->begin_b < r->end_a;
		first = pair->judge(r);
		if (r->loop % CONSERVED_EACH == 0)
			check_counts(r);
		r->outcomes[first]++;
		learn(r, first);
	}
	r->stop = true;
	announce(&r->go, r->loop + 1);
	pthread_join(thread, NULL);
	check_counts(r);
	TH_LOG("%lu loops, %llu a second: A first in %lu, B in %lu, between %lu; %lu overlapped",
	       r->loop, r->loop * NS_PER_SEC / (now(CLOCK_MONOTONIC) - start + 1),
	       r->outcomes[A_FIRST], r->outcomes[B_FIRST], r->outcomes[BETWEEN], r->overlaps);
	TARGET("loops", r->loop, pair->slow ? 0 : PART(n));
	if (r->loop < n)
		TH_LOG("cut: %lu loops were asked for", n);
	EXPECT_EQ(NULL, r->wrong)
		TH_LOG("loop %lu: %s; ra %d rb %d states %u %u", r->loop, r->wrong, r->ra,
		       r->rb, r->ta.state, r->tb.state);
	EXPECT_TRUE(raced(r, pair));
}

FIXTURE(pairs) {};

/* Short ticks, if they are allowed, so that expiries do not take long. */
FIXTURE_SETUP(pairs)
{
	struct twheel_setup s = { .tick_ns = is_root() ? 1 << 13 : 0 };

	race.fd = open_wheel(_metadata, O_NONBLOCK);
	ASSERT_EQ(0, call(race.fd, TWHEEL_IOC_SETUP, &s));
	race.epoll = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_GE(race.epoll, 0);
	race.t = map_table(_metadata, race.fd);
}

FIXTURE_TEARDOWN(pairs)
{
	expect_conserved(_metadata, race.fd);
	unmap_table(&race.t);
	close(race.epoll);
	close(race.fd);
}

/* Adds a timer without assertions, which only the test's thread can use. */
static __u64 timer(struct race *r, int fd, __u64 deadline, __u32 flags, __u64 user_data)
{
	struct twheel_timer t = {
		.deadline_ns = deadline, .flags = flags, .user_data = user_data,
	};

	if (verb(fd, TWHEEL_IOC_REGISTER, &t))
		wrong(r, "REGISTER failed");
	return t.id;
}

static void timers(struct race *r, int fd, unsigned int n, __u64 deadline, __u32 flags)
{
	unsigned int i;

	fill_ops(r->opa, n, TWHEEL_OP_REGISTER, deadline, flags);
	if (batch(fd, r->opa, n) != (int)n)
		wrong(r, "a BATCH of REGISTER failed");
	for (i = 0; i < n; i++) {
		if (r->opa[i].result)
			wrong(r, "a REGISTER in a BATCH failed");
		r->id[i] = r->opa[i].timer.id;
	}
}

static bool nothing_unread(struct race *r)
{
	return read_now(r->fd, r->ea, 1) == -EAGAIN;
}

/* Opens a wheel for one loop. */
static void open_other(struct race *r)
{
	r->other = wheel_open(O_NONBLOCK);
	if (r->other < 0)
		wrong(r, "open failed");
}

/* Maps that wheel's table and touches it. */
static void map_other(struct race *r)
{
	r->map.fd = r->other;
	r->map.bytes = r->t.bytes;
	r->map.tick = DEFAULT_TICK;
	r->map.head = map_at(r->other, r->map.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	if (r->map.head == MAP_FAILED) {
		wrong(r, "mmap failed");
		return;
	}
	r->map.slots = (void *)((char *)r->map.head + r->map.head->slots_offset);
}

/* Defines a preparation, or a racing function, that consists of one expression. */
#define ACT(name, ...)							\
	static void name(struct race *r) { __VA_ARGS__; }

ACT(do_cancel, r->ra = cancel_timer(r->fd, r->id[0], &r->ta))
ACT(do_rearm_now, r->rb = rearm_timer(r->fd, r->id[0], 0, TWHEEL_KEEP, &r->tb))
ACT(do_rearm_later, r->ra = rearm_timer(r->fd, r->id[0], 2 * HOUR, TWHEEL_KEEP, &r->ta))
ACT(do_end_all, r->ra = r->loop & 1 ? expire_all(r->fd) : cancel_all(r->fd))
ACT(do_cancel_b, r->rb = cancel_timer(r->fd, r->id[2], &r->tb))
ACT(do_batch_a, r->ra = batch(r->fd, r->opa, MANY))
ACT(do_batch_b, r->rb = batch(r->fd, r->opb, MANY))
ACT(do_exchange, r->word = swap_word(slot_of(&r->t, r->id[0]), r->loop & 1 ? r->at + HOUR : 0))
ACT(do_disarm, r->word = swap_word(slot_of(&r->t, r->id[0]), 0))
ACT(do_read_a, r->ra = read_now(r->fd, r->ea, 2))
ACT(do_read_b, r->rb = read_now(r->fd, r->eb, 2))
ACT(do_stats, r->ra = conserved(r->fd, &r->seen) ? 0 : -EBADMSG)
ACT(do_kick, r->ra = kick(&r->t, r->id[0]))
ACT(do_cancel_it, r->rb = cancel_timer(r->fd, r->id[0], &r->tb))
ACT(do_kick_b, r->rb = kick(&r->t, r->id[0]))
ACT(do_turn_b, r->rb = turn_now(r->fd))
ACT(do_expire_all, r->ra = expire_all(r->fd))
ACT(do_read_all, r->rb = read_now(r->fd, r->eb, 8))
ACT(do_touch, r->word = word(r->map.slots))
ACT(do_turn_other, r->rb = turn_now(r->other))
ACT(close_other, r->rb = close(r->other) ? -errno : 0)

#define PAIR(name, ...)							\
	static const struct pair name##_pair = { __VA_ARGS__ };		\
	TEST_F_TIMEOUT(pairs, name, UNLIMITED)				\
	{								\
		run_pair(_metadata, &name##_pair);			\
	}
#define SLOW_PAIR(name, ...)	PAIR(name, __VA_ARGS__, .slow = true)

/* CANCEL races with a REARM that makes the timer expire: none of its events is read afterwards. */
ACT(cancel_rearm_prepare, r->id[0] = timer(r, r->fd, HOUR, TWHEEL_KEEP, 1))

static enum outcome cancel_rearm_judge(struct race *r)
{
	if (r->ra)
		return wrong(r, "CANCEL failed");
	if (!nothing_unread(r))
		return wrong(r, "an event was read after CANCEL");
	if (r->rb == -ENOENT && r->ta.state == TWHEEL_ARMED)
		return A_FIRST;
	if (!r->rb && r->tb.state == TWHEEL_ARMED && r->ta.state == TWHEEL_EXPIRED)
		return B_FIRST;
	return wrong(r, "no order of the two calls explains the states");
}

/* G5: an event that CANCEL or REARM has withdrawn is never read */
PAIR(cancel_rearm, cancel_rearm_prepare, do_cancel, do_rearm_now, cancel_rearm_judge, 1)

/* REARM for now races with REARM for later: the later one decides, and reports the other. */
static void rearm_rearm_prepare(struct race *r)
{
	if (!r->loop)
		r->id[0] = timer(r, r->fd, HOUR, TWHEEL_KEEP, 1);
	else if (rearm(r->fd, r->id[0], HOUR, TWHEEL_KEEP) < 0)
		wrong(r, "REARM failed");
	conserved(r->fd, &r->before);
}

static enum outcome rearm_rearm_judge(struct race *r)
{
	conserved(r->fd, &r->after);
	if (r->ra || r->rb)
		return wrong(r, "a REARM failed");
	if (r->after.armings != r->before.armings + 2)
		return wrong(r, "STATS did not count two armings");
	if (r->ta.state == TWHEEL_ARMED && r->tb.state == TWHEEL_ARMED) {
		if (read_now(r->fd, r->ea, 8) != 1 || r->ea[0].id != r->id[0])
			return wrong(r, "the event of the timer was not read, or not it alone");
		return A_FIRST;
	}
	if (r->ta.state != TWHEEL_EXPIRED || r->tb.state != TWHEEL_ARMED)
		return wrong(r, "no order of the two calls explains the states");
	if (!nothing_unread(r))
		return wrong(r, "an event was read that REARM has withdrawn");
	return B_FIRST;
}

PAIR(rearm_rearm, rearm_rearm_prepare, do_rearm_later, do_rearm_now, rearm_rearm_judge, 1)

/* An exchange that disarms races with CANCEL: one gets the arming, the other finds none. */
static enum outcome exchange_cancel_judge(struct race *r)
{
	if (r->rb)
		return wrong(r, "CANCEL failed");
	if (!nothing_unread(r))
		return wrong(r, "an event was read of a timer that was never due");
	if (r->word && r->tb.state == TWHEEL_IDLE)
		return A_FIRST;
	if (!r->word && r->tb.state == TWHEEL_ARMED)
		return B_FIRST;
	return wrong(r, "no order of the two calls explains the states");
}

/* G3 */
PAIR(exchange_cancel, cancel_rearm_prepare, do_disarm, do_cancel_it, exchange_cancel_judge, 1)

/* CANCEL races with CANCEL: one ends the timer, the other finds none. */
static enum outcome cancel_cancel_judge(struct race *r)
{
	const struct twheel_timer *ended = r->ra ? &r->tb : &r->ta;

	if ((r->ra || r->rb != -ENOENT) && (r->rb || r->ra != -ENOENT))
		return wrong(r, "not exactly one CANCEL ended the timer");
	if (ended->state != TWHEEL_ARMED)
		return wrong(r, "CANCEL did not report that the timer was armed");
	return r->ra ? B_FIRST : A_FIRST;
}

PAIR(cancel_cancel, cancel_rearm_prepare, do_cancel, do_cancel_it, cancel_cancel_judge, 1)

/*
 * Moving or canceling all timers, in turn, races with CANCEL: each timer is counted by one of
 * them.
 */
ACT(end_all_cancel_prepare, timers(r, r->fd, 4, HOUR, 0))

static enum outcome end_all_cancel_judge(struct race *r)
{
	bool expire = r->loop & 1;
	bool armed = !r->rb && r->tb.state == TWHEEL_ARMED;
	int unread = read_now(r->fd, r->ea, 8);

	if (r->ra + armed != 4)
		return wrong(r, "the two calls did not end four timers in all");
	if (unread != (expire ? 3 : -EAGAIN))
		return wrong(r, "the number of events is wrong");
	if (armed)
		return B_FIRST;
	if (expire ? r->rb || r->tb.state != TWHEEL_EXPIRED : r->rb != -ENOENT)
		return wrong(r, "CANCEL returned a wrong result or state");
	return A_FIRST;
}

PAIR(end_all_cancel, end_all_cancel_prepare, do_end_all, do_cancel_b, end_all_cancel_judge, 1)

/* A BATCH of CANCELs races with a BATCH of REARMs, in groups of 24: each pair adds up. */
static void batch_batch_prepare(struct race *r)
{
	unsigned int i;

	timers(r, r->fd, MANY, HOUR, TWHEEL_KEEP);
	fill_ops(r->opa, MANY, TWHEEL_OP_CANCEL, 0, 0);
	fill_ops(r->opb, MANY, TWHEEL_OP_REARM, 0, TWHEEL_KEEP);
	for (i = 0; i < MANY; i++) {
		r->opa[i].timer.id = r->id[i];
		r->opb[i].timer.id = r->id[i];
	}
}

static enum outcome batch_batch_judge(struct race *r)
{
	unsigned int i, gone = 0;

	if (r->ra != MANY || r->rb != MANY)
		return wrong(r, "a BATCH failed");
	for (i = 0; i < MANY; i++) {
		const struct twheel_op *a = &r->opa[i], *b = &r->opb[i];
		bool first = b->result == -ENOENT;

		if (a->result || (b->result && !first))
			return wrong(r, "an operation of a BATCH has a wrong result");
		if (a->timer.state != (first ? TWHEEL_ARMED : TWHEEL_EXPIRED))
			return wrong(r, "a CANCEL reports a wrong state");
		gone += first;
	}
	if (!nothing_unread(r))
		return wrong(r, "an event was read after CANCEL");
	return gone == MANY ? A_FIRST : gone ? BETWEEN : B_FIRST;
}

PAIR(batch_batch, batch_batch_prepare, do_batch_a, do_batch_b, batch_batch_judge, 1)

/* REGISTER races with the close of its descriptor, with timers about to expire. */
static void close_ioctl_prepare(struct race *r)
{
	open_other(r);
	timer(r, r->other, next_random(&r->seed) % NS_PER_MS, 0, 0);
}

static void do_register_other(struct race *r)
{
	r->ta = (struct twheel_timer) { .deadline_ns = r->loop & 1 ? HOUR : 0 };
	r->ra = verb(r->other, TWHEEL_IOC_REGISTER, &r->ta);
}

static enum outcome close_judge(struct race *r)
{
	if (r->rb)
		return wrong(r, "close failed");
	if (r->ra == -EBADF)
		return B_FIRST;
	return r->ra ? wrong(r, "the call failed, and not with EBADF") : A_FIRST;
}

/* G11: a wheel ends cleanly with its last descriptor */
PAIR(close_ioctl, close_ioctl_prepare, do_register_other, close_other, close_judge, 1)

/* mmap races with close: if there is a mapping, it is complete. */
static void mmap_close_prepare(struct race *r)
{
	open_other(r);
	r->id[0] = timer(r, r->other, HOUR, 0, 0);
}

static void do_mmap(struct race *r)
{
	r->p = map_at(r->other, r->t.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	r->ra = r->p == MAP_FAILED ? -errno : 0;
}

static enum outcome mmap_close_judge(struct race *r)
{
	struct twheel_table *head = r->p;
	struct twheel_slot *slot;

	if (!r->ra) {
		if (head->magic != TWHEEL_TABLE_MAGIC)
			return wrong(r, "the mapping has no valid header");
		slot = (struct twheel_slot *)((char *)r->p + head->slots_offset);
		if (swap_word(slot + (__u32)r->id[0], 0) < HOUR)
			return wrong(r, "the mapping does not show the word");
		munmap(r->p, r->t.bytes);
	}
	return close_judge(r);
}

PAIR(mmap_close, mmap_close_prepare, do_mmap, close_other, mmap_close_judge, 1)

/*
 * fork races with close: the child may have the descriptor or not, but has the mapping in any
 * case.
 */
static void fork_close_prepare(struct race *r)
{
	open_other(r);
	map_other(r);
	if (!r->wrong)
		r->id[0] = timer(r, r->other, HOUR, 0, 0);
}

static void do_fork(struct race *r)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		struct twheel_stats s;
		int ret = call(r->other, TWHEEL_IOC_STATS, &s);

		if (!disarm(&r->map, r->id[0]))
			_exit(3);
		_exit(ret == -EBADF ? 1 : ret ? 2 : s.allocated != 1);
	}
	r->ra = pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static enum outcome fork_close_judge(struct race *r)
{
	if (word(slot_of(&r->map, r->id[0])))
		return wrong(r, "the parent does not see the word that the child has written");
	munmap(r->map.head, r->map.bytes);
	if (r->rb || !WIFEXITED(r->ra))
		return wrong(r, "close or fork failed");
	if (!WEXITSTATUS(r->ra))
		return A_FIRST;
	return WEXITSTATUS(r->ra) == 1 ? B_FIRST :
	       wrong(r, "the child has neither a working descriptor nor a closed one");
}

PAIR(fork_close, fork_close_prepare, do_fork, close_other, fork_close_judge, 50)

/*
 * An exchange, which disarms or moves in turn, races with the expiry. Either it returns the
 * deadline and no event comes, or it returns 0 and exactly one does.
 */
static void expiry_prepare(struct race *r)
{
	if (!r->loop)
		r->id[0] = timer(r, r->fd, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 1);
}

/*
 * The timer is armed and expires on one processor, while the exchange is made on the other:
 * soon, but not before REARM is done, however long that takes here.
 */
static void do_arm_soon(struct race *r)
{
	__u64 least = 4 * r->t.tick, start = now(CLOCK_MONOTONIC);

	if (!r->lead)
		r->lead = 4 * least;
	r->at = start + r->lead;
	if (rearm(r->fd, r->id[0], r->at, TWHEEL_KEEP | TWHEEL_ABSTIME) < 0)
		wrong(r, "REARM failed");
	r->lead += ((__s64)(least + 2 * (now(CLOCK_MONOTONIC) - start)) - (__s64)r->lead) / 8;
	if (r->lead > NS_PER_MS)
		r->lead = NS_PER_MS;
}

static enum outcome expiry_judge(struct race *r)
{
	bool moved = r->loop & 1;

	if (r->word && r->word != r->at)
		return wrong(r, "the exchange returned neither 0 nor the deadline");
	/*
	 * The timer was armed again while its event was unread, or about to be, so the KICK
	 * withdraws that.
	 */
	if (moved && kick(&r->t, r->id[0]))
		return wrong(r, "KICK failed");
	if (read_now(r->fd, r->ea, 8) != (moved || r->word ? -EAGAIN : 1))
		return wrong(r, "the number of events is wrong");
	if (state(r->fd, r->id[0]) != (int)(moved ? TWHEEL_ARMED : TWHEEL_IDLE))
		return wrong(r, "the timer is in a wrong state");
	return r->word ? A_FIRST : B_FIRST;
}

/* G3: each arming ends exactly once */
PAIR(exchange_expiry, expiry_prepare, do_exchange, do_arm_soon, expiry_judge, 1, true)

/*
 * CANCEL races with the expiry: it reports whether there was one, and no event is read
 * afterwards.
 */
ACT(cancel_expiry_prepare, r->id[0] = timer(r, r->fd, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 1))

static enum outcome ended_judge(struct race *r)
{
	if (r->ra)
		return wrong(r, "the call failed");
	if (!nothing_unread(r))
		return wrong(r, "an event was read of an arming that the call had ended");
	if (r->ta.state == TWHEEL_ARMED)
		return A_FIRST;
	return r->ta.state == TWHEEL_EXPIRED ? B_FIRST : wrong(r, "the call reports a wrong state");
}

/* G3, G5: each arming ends once, and a withdrawn event is not read */
PAIR(cancel_expiry, cancel_expiry_prepare, do_cancel, do_arm_soon, ended_judge, 1, true)

/* G3: REARM races with the expiry, which it withdraws and reports. */
PAIR(rearm_expiry, expiry_prepare, do_rearm_later, do_arm_soon, ended_judge, 1, true)

/*
 * An exchange races with the kernel's look at a timer that was moved later. It moves the timer
 * back to before the deadline that the kernel reads, and kicks only if the protocol requires
 * that. Either way the event comes.
 */
static void do_arm_and_move(struct race *r)
{
	do_arm_soon(r);
	swap_word(slot_of(&r->t, r->id[0]), r->at + HOUR);
}

static void do_move_back(struct race *r)
{
	struct twheel_slot *slot = slot_of(&r->t, r->id[0]);
	__u64 t = r->at + 2 * r->t.tick;

	r->word = swap_word(slot, t);
	/* 1 if a KICK was needed. */
	r->ra = t <= wake(slot);
	if (r->ra && kick(&r->t, r->id[0]))
		r->ra = -EIO;
}

static enum outcome look_judge(struct race *r)
{
	if (r->word != r->at + HOUR || r->ra < 0)
		return wrong(r, "the exchange returned another word, or KICK failed");
	if (take(r->fd, r->ea, 8, TIMEOUT_MS) != 1)
		return wrong(r, "the event never came, or not it alone");
	if (r->ea[0].deadline_ns != r->at + 2 * r->t.tick)
		return wrong(r, "the event has a wrong deadline");
	return r->ra ? B_FIRST : A_FIRST;
}

PAIR(exchange_look, expiry_prepare, do_move_back, do_arm_and_move, look_judge, 1, true)

/*
 * An idle timer is armed by a mark while the wheel turns for another timer. Either the turn
 * finds the mark, or the thread that set it finds the next turn too late, and kicks.
 */
static void mark_turn_prepare(struct race *r)
{
	expiry_prepare(r);
	if (!r->loop)
		r->id[1] = timer(r, r->fd, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 2);
}

static void do_arm_by_mark(struct race *r)
{
	__u64 deadline = r->at + 2 * r->t.tick;

	swap_word(slot_of(&r->t, r->id[1]), deadline);
	r->ra = mark_armed(&r->t, r->id[1], deadline);
}

static enum outcome mark_turn_judge(struct race *r)
{
	int have = 0, got;

	for (; have < 2; have += got) {
		got = take(r->fd, &r->ea[have], 2 - have, TIMEOUT_MS);
		if (got <= 0)
			return wrong(r, "an event never came");
	}
	if (r->ra < 0)
		return wrong(r, "KICK failed");
	if (r->ea[0].id != r->id[0] || r->ea[1].id != r->id[1] ||
	    r->ea[1].deadline_ns != r->at + 2 * r->t.tick)
		return wrong(r, "the events are not those of the two timers in order");
	return r->ra ? B_FIRST : A_FIRST;
}

PAIR(mark_turn, mark_turn_prepare, do_arm_by_mark, do_arm_soon, mark_turn_judge, 1, true)

/* Two readers of three events: each event is read once, and in order. */
ACT(read_read_prepare, timers(r, r->fd, 3, 0, 0))

static enum outcome read_read_judge(struct race *r)
{
	if (r->ra + r->rb != 3 || r->ra < 1 || r->rb < 1)
		return wrong(r, "the readers did not get three events, or one got none");
	if (r->ra == 2 && r->ea[0].id == r->id[0] && r->ea[1].id == r->id[1] &&
	    r->eb[0].id == r->id[2])
		return A_FIRST;
	if (r->rb == 2 && r->eb[0].id == r->id[0] && r->eb[1].id == r->id[1] &&
	    r->ea[0].id == r->id[2])
		return B_FIRST;
	return wrong(r, "the events were read out of order");
}

PAIR(read_read, read_read_prepare, do_read_a, do_read_b, read_read_judge, 1)

/* poll and epoll_wait, in turn, race with close. */
static void poll_close_prepare(struct race *r)
{
	struct epoll_event ev = { .events = EPOLLIN };

	open_other(r);
	timer(r, r->other, 0, 0, 0);
	if (r->loop & 1 && epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->other, &ev))
		wrong(r, "epoll_ctl failed");
}

static int poll_other(struct race *r, int timeout_ms)
{
	struct pollfd p = { .fd = r->other, .events = POLLIN };

	if (poll_again(&p, 1, timeout_ms) != 1)
		return -EIO;
	return p.revents == POLLIN ? 0 : p.revents == POLLNVAL ? -EBADF : -EIO;
}

static void do_poll(struct race *r)
{
	struct epoll_event ev;

	if (r->loop & 1)
		r->ra = epoll_wait(r->epoll, &ev, 1, 0) == 1 ? 0 : -EBADF;
	else
		r->ra = poll_other(r, 0);
}

PAIR(poll_close, poll_close_prepare, do_poll, close_other, close_judge, 1)

/*
 * STATS races with each verb in turn: it reports the state before or after the verb, and
 * nothing in between.
 */
static void stats_any_prepare(struct race *r)
{
	r->id[0] = timer(r, r->fd, HOUR, TWHEEL_KEEP, 0);
	r->id[1] = timer(r, r->fd, 0, TWHEEL_KEEP, 0);
	if (r->loop % 6 == 5)
		swap_word(slot_of(&r->t, r->id[0]), 1);
	conserved(r->fd, &r->before);
}

static void do_any(struct race *r)
{
	switch (r->loop % 6) {
	case 0:
		do_rearm_now(r);
		break;
	case 1:
		r->rb = cancel_timer(r->fd, r->id[0], &r->tb);
		break;
	case 2:
		r->tb = (struct twheel_timer) { .deadline_ns = 0 };
		r->rb = verb(r->fd, TWHEEL_IOC_REGISTER, &r->tb);
		break;
	case 3:
		do_read_b(r);
		break;
	case 4:
		r->rb = expire_all(r->fd);
		break;
	case 5:
		r->rb = kick(&r->t, r->id[0]);
		break;
	}
}

static enum outcome stats_any_judge(struct race *r)
{
	if (r->ra || r->rb < 0)
		return wrong(r, "a call failed");
	conserved(r->fd, &r->after);
	cancel(r->fd, r->id[0]);
	cancel(r->fd, r->id[1]);
	while (read_now(r->fd, r->ea, 8) > 0)
		;
	if (same_counts(&r->seen, &r->before))
		return A_FIRST;
	return same_counts(&r->seen, &r->after) ? B_FIRST :
	       wrong(r, "STATS reports neither the state before the call nor that after it");
}

/* G3: The numbers of STATS add up at any moment, not only at quiet ones. */
PAIR(stats_any, stats_any_prepare, do_stats, do_any, stats_any_judge, 1)

/*
 * A processor goes offline while timers that were armed there expire: all of them do, and none
 * early. A is the processor going offline, and counts as first if a timer expired after it.
 */
#define CPU1	"/sys/devices/system/cpu/cpu1/online"

static void cpu_offline_prepare(struct race *r)
{
	unsigned int i;
	__u64 spread;

	if (!r->loop && access(CPU1, W_OK))
		wrong(r, "there is no second processor that can be taken offline");
	/* Within half the time that it took the last time, and then within more. */
	spread = r->loop ? r->word * (1 + r->loop % 4) / 2 : 60 * NS_PER_MS;
	fill_ops(r->opb, MANY, TWHEEL_OP_REGISTER, 0, 0);
	for (i = 0; i < MANY; i++)
		r->opb[i].timer.deadline_ns = next_random(&r->seed) % spread;
}

static void do_offline(struct race *r)
{
	__u64 start = now(CLOCK_MONOTONIC);

	r->ra = write_text(CPU1, "0") ? 0 : -EIO;
	r->offline = now(CLOCK_MONOTONIC);
	r->word = r->offline - start;
	if (!write_text(CPU1, "1"))
		r->ra = -EIO;
}

static void do_arm_here(struct race *r)
{
	pin(1);
	r->rb = batch(r->fd, r->opb, MANY);
}

static enum outcome cpu_offline_judge(struct race *r)
{
	unsigned int have = 0, before = 0;
	int i, got;

	if (r->ra || r->rb != MANY)
		return wrong(r, "the processor cannot go offline or online, or BATCH failed");
	while (have < MANY) {
		got = take(r->fd, r->ea, 8, TIMEOUT_MS);
		if (got <= 0)
			return wrong(r, "a timer never expired");
		for (i = 0; i < got; i++) {
			if (r->ea[i].expired_ns < r->ea[i].deadline_ns)
				return wrong(r, "a timer expired early");
			before += r->ea[i].expired_ns < r->offline;
		}
		have += got;
	}
	if (have != MANY)
		return wrong(r, "there are more events than timers");
	return before == MANY ? B_FIRST : A_FIRST;
}

PAIR(cpu_offline_expiry, cpu_offline_prepare, do_offline, do_arm_here, cpu_offline_judge, 1000)

/* Arming through the table races with the close of the mapped wheel. */
static void do_arm_other(struct race *r)
{
	swap_word(slot_of(&r->map, r->id[0]), 1 + r->loop % 2 * now(CLOCK_MONOTONIC));
	if (r->loop % 4 >= 2)
		mark(&r->map, r->id[0]);
	r->ra = turn_now(r->other);
}

static enum outcome exchange_close_judge(struct race *r)
{
	/* The mapping keeps the wheel open: the word is there, and armed or expired. */
	swap_word(slot_of(&r->map, r->id[0]), r->begun + NS_PER_MS);
	if (r->map.head->magic != TWHEEL_TABLE_MAGIC)
		return wrong(r, "the mapping has no valid header");
	munmap(r->map.head, r->map.bytes);
	return close_judge(r);
}

PAIR(exchange_close, fork_close_prepare, do_arm_other, close_other, exchange_close_judge, 1)

/* KICK of a timer whose word is due races with CANCEL. */
static void kick_cancel_prepare(struct race *r)
{
	cancel_rearm_prepare(r);
	swap_word(slot_of(&r->t, r->id[0]), 1);
}

static enum outcome kick_cancel_judge(struct race *r)
{
	if (r->rb)
		return wrong(r, "CANCEL failed");
	if (!nothing_unread(r))
		return wrong(r, "an event was read after CANCEL");
	if (!r->ra && r->tb.state == TWHEEL_EXPIRED)
		return A_FIRST;
	if (!r->ra && r->tb.state == TWHEEL_ARMED && r->tb.deadline_ns == 1)
		return B_FIRST;
	return wrong(r, "no order of the two calls explains the states");
}

PAIR(kick_cancel, kick_cancel_prepare, do_kick, do_cancel_it, kick_cancel_judge, 1)

/*
 * An exchange races with a KICK of the same slot: whether the KICK sees it or not, one event
 * comes.
 */
static void do_exchange_past(struct race *r)
{
	r->word = swap_word(slot_of(&r->t, r->id[0]), 1);
	r->ra = wake(slot_of(&r->t, r->id[0])) == NEVER ? 0 : -EBADMSG;
}

static enum outcome exchange_kick_judge(struct race *r)
{
	bool seen = !word(slot_of(&r->t, r->id[0]));

	if (r->ra || r->rb || r->word)
		return wrong(r, "KICK failed, or a word is wrong");
	if (state(r->fd, r->id[0]) != (int)(seen ? TWHEEL_EXPIRED : TWHEEL_ARMED))
		return wrong(r, "the timer is in a wrong state");
	/* The protocol requires a KICK, because wake_ns was later. */
	if (kick(&r->t, r->id[0]))
		return wrong(r, "the KICK that the protocol requires failed");
	if (read_now(r->fd, r->ea, 8) != 1 || r->ea[0].deadline_ns != 1)
		return wrong(r, "the event was not read, or not it alone");
	return seen ? A_FIRST : B_FIRST;
}

PAIR(exchange_kick, expiry_prepare, do_exchange_past, do_kick_b, exchange_kick_judge, 1)

/*
 * A word changes again and again while it is looked at, and then stays at a deadline that is
 * due: whatever became of the others, this one expires.
 */
static void do_flips(struct race *r)
{
	struct twheel_slot *slot = slot_of(&r->t, r->id[0]);
	unsigned int i, n = next_random(&r->seed) % 16;

	for (i = 0; i < n; i++)
		swap_word(slot, i % 3 ? r->begun + HOUR * (i % 2) : i % 2);
	r->word = 2 + r->loop % 1000;
	swap_word(slot, r->word);
}

static enum outcome flips_kick_judge(struct race *r)
{
	bool seen = !word(slot_of(&r->t, r->id[0]));
	int got;

	if (r->rb || kick(&r->t, r->id[0]))
		return wrong(r, "a KICK failed");
	got = read_now(r->fd, r->ea, 8);
	if (got != 1 || r->ea[0].deadline_ns != r->word)
		return wrong(r, "the event of the last arming was not read");
	return seen ? A_FIRST : B_FIRST;
}

PAIR(flips_kick, expiry_prepare, do_flips, do_kick_b, flips_kick_judge, 1)

/*
 * A word that is exchanged and marked races with a KICK for another slot: whether the KICK
 * sees the mark or not, it is there for the next one.
 */
static void do_mark_past(struct race *r)
{
	r->word = swap_word(slot_of(&r->t, r->id[0]), 1);
	mark(&r->t, r->id[0]);
}

static enum outcome mark_kick_judge(struct race *r)
{
	bool seen = !word(slot_of(&r->t, r->id[0]));

	if (r->word || r->rb)
		return wrong(r, "KICK failed, or the old word was not 0");
	if (turn_now(r->fd))
		return wrong(r, "the KICK after the race failed");
	if (read_now(r->fd, r->ea, 8) != 1 || r->ea[0].deadline_ns != 1)
		return wrong(r, "the event was not read, or not it alone");
	return seen ? A_FIRST : B_FIRST;
}

PAIR(mark_kick, expiry_prepare, do_mark_past, do_turn_b, mark_kick_judge, 1)

/*
 * The same while all bits, or random ones, are set again and again: that never hides a mark
 * which is set correctly in the end.
 */
static void do_flip_marks(struct race *r)
{
	struct twheel_slot *slot = slot_of(&r->t, r->id[0]);
	unsigned int i, n = next_random(&r->seed) % 8;

	for (i = 0; i < n; i++) {
		swap_word(slot, i % 3 ? r->begun + HOUR * (i % 2) : i % 2);
		scatter_marks(marks_of(&r->t, 0), summary_of(&r->t, 0), 2, next_random(&r->seed));
	}
	r->word = 2 + r->loop % 1000;
	swap_word(slot, r->word);
	mark(&r->t, r->id[0]);
}

static enum outcome flip_marks_judge(struct race *r)
{
	bool seen = !word(slot_of(&r->t, r->id[0]));
	int got;

	if (r->rb || turn_now(r->fd))
		return wrong(r, "a KICK failed");
	/* A word that did not stand still waits for the next tick. */
	got = take(r->fd, r->ea, 8, TIMEOUT_MS);
	/*
	 * A turn that was not a KICK has handled the mark, and left an event of an earlier
	 * flip.
	 */
	if (got == 1 && r->ea[0].deadline_ns != r->word)
		got = take(r->fd, r->ea, 8, TIMEOUT_MS);
	/* Or one read has both events. */
	if (got < 1 || got > 2 || r->ea[got - 1].deadline_ns != r->word ||
	    (got == 2 && r->ea[0].deadline_ns == r->word))
		return wrong(r, "the event of the last arming was not read");
	return seen ? A_FIRST : B_FIRST;
}

PAIR(flip_marks, expiry_prepare, do_flip_marks, do_turn_b, flip_marks_judge, 1)

/*
 * A read of an event whose timer was armed again and marked races with the KICK. The event is
 * either read or withdrawn, and the new arming takes effect either way.
 */
static void unread_prepare(struct race *r)
{
	if (!r->loop)
		r->id[0] = timer(r, r->fd, 0, TWHEEL_KEEP, 1);
	else if (rearm(r->fd, r->id[0], 0, TWHEEL_KEEP) != TWHEEL_ARMED)
		wrong(r, "REARM failed");
	r->word = r->begun + HOUR;
}

static void do_arm_over(struct race *r)
{
	swap_word(slot_of(&r->t, r->id[0]), r->word);
	mark(&r->t, r->id[0]);
}

static void armed_over_prepare(struct race *r)
{
	unread_prepare(r);
	do_arm_over(r);
	conserved(r->fd, &r->before);
}

static enum outcome armed_over_judge(struct race *r)
{
	struct twheel_timer t;
	bool first = r->ra == 1;

	conserved(r->fd, &r->after);
	if (r->rb || r->ra != (first ? 1 : -EAGAIN))
		return wrong(r, "read or KICK failed");
	if (r->after.withdrawn != r->before.withdrawn + !first ||
	    r->after.delivered != r->before.delivered + first)
		return wrong(r, "STATS did not count the event as delivered or withdrawn");
	if (!nothing_unread(r))
		return wrong(r, "another event was read");
	if (get_timer(r->fd, r->id[0], &t) || t.state != TWHEEL_ARMED || t.deadline_ns != r->word)
		return wrong(r, "the new arming did not take effect");
	return first ? A_FIRST : B_FIRST;
}

PAIR(armed_over_read, armed_over_prepare, do_read_a, do_turn_b, armed_over_judge, 1)

/*
 * A read of an event races with an arming of its timer that is marked but not kicked. Nothing
 * has withdrawn the event, so it is read. The clock decides who was first.
 */
static enum outcome unread_judge(struct race *r)
{
	if (r->ra != 1 || r->ea[0].id != r->id[0])
		return wrong(r, "the event was not read");
	if (turn_now(r->fd) || state(r->fd, r->id[0]) != TWHEEL_ARMED ||
	    word(slot_of(&r->t, r->id[0])) != r->word)
		return wrong(r, "the new arming did not take effect");
	if (!nothing_unread(r))
		return wrong(r, "another event was read");
	return r->end_a < r->end_b ? A_FIRST : B_FIRST;
}

PAIR(unread_arm_over, unread_prepare, do_read_a, do_arm_over, unread_judge, 1)

/* Moving all timers to now races with a read: in the end each is read once. */
static void expire_read_prepare(struct race *r)
{
	timers(r, r->fd, 2, 0, 0);
	timers(r, r->fd, 2, HOUR, 0);
}

static enum outcome expire_read_judge(struct race *r)
{
	int rest = read_now(r->fd, r->ea, 8);

	if (r->ra != 2)
		return wrong(r, "not exactly two timers were moved to now");
	if (r->rb == 4 && rest == -EAGAIN)
		return A_FIRST;
	return r->rb == 2 && rest == 2 ? B_FIRST : wrong(r, "four events were not read");
}

PAIR(expire_read, expire_read_prepare, do_expire_all, do_read_all, expire_read_judge, 1)

/* LIST races with REGISTER and CANCEL in turn: timers that nobody touches are listed once. */
static void list_register_prepare(struct race *r)
{
	if (!r->loop)
		timers(r, r->fd, 3, HOUR, TWHEEL_KEEP);
	if (r->loop & 1)
		r->id[3] = timer(r, r->fd, HOUR, 0, 3);
}

static void do_list(struct race *r)
{
	__u32 cursor = 0;

	r->ra = list(r->fd, r->listed, ARRAY_SIZE(r->listed), &cursor);
}

static void do_new_or_cancel(struct race *r)
{
	if (r->loop & 1)
		r->rb = cancel(r->fd, r->id[3]) == TWHEEL_ARMED ? 0 : -EBADMSG;
	else
		r->id[3] = timer(r, r->fd, HOUR, 0, 3);
}

static enum outcome list_register_judge(struct race *r)
{
	unsigned int seen[4] = { 0 };
	int i;

	if (r->rb || r->ra < 3 || r->ra > 4)
		return wrong(r, "LIST or CANCEL failed");
	for (i = 0; i < r->ra; i++)
		seen[r->listed[i].user_data % 4]++;
	if (seen[0] != 1 || seen[1] != 1 || seen[2] != 1)
		return wrong(r, "LIST did not return each timer once");
	if (!(r->loop & 1) && cancel(r->fd, r->id[3]) != TWHEEL_ARMED)
		return wrong(r, "CANCEL failed");
	return seen[3] == (r->loop & 1) ? A_FIRST : B_FIRST;
}

PAIR(list_register, list_register_prepare, do_list, do_new_or_cancel, list_register_judge, 1)

/*
 * SETUP races with the first REGISTER: it either shapes the wheel or fails with EBUSY, and the
 * timer is armed.
 */
ACT(setup_register_prepare, open_other(r))

static void do_setup(struct race *r)
{
	struct twheel_setup s = { .tick_ns = 1 << 22, .slot_bits = 8, .max_timers = 4 };

	r->ra = call(r->other, TWHEEL_IOC_SETUP, &s);
}

static void do_first(struct race *r)
{
	r->tb = (struct twheel_timer) { .deadline_ns = HOUR };
	r->rb = verb(r->other, TWHEEL_IOC_REGISTER, &r->tb);
}

static enum outcome setup_register_judge(struct race *r)
{
	struct twheel_info i;
	bool shaped;

	if (r->rb || (r->ra && r->ra != -EBUSY))
		return wrong(r, "SETUP or REGISTER failed");
	if (call(r->other, TWHEEL_IOC_INFO, &i) || state(r->other, r->tb.id) != TWHEEL_ARMED)
		return wrong(r, "INFO failed, or the timer is not armed");
	shaped = i.tick_ns == 1 << 22 && i.slot_bits == 8 && i.max_timers == 4;
	if (shaped != !r->ra)
		return wrong(r, "INFO contradicts the answer of SETUP");
	if (cancel(r->other, r->tb.id) != TWHEEL_ARMED || close(r->other))
		return wrong(r, "CANCEL or close failed");
	return shaped ? A_FIRST : B_FIRST;
}

PAIR(setup_register, setup_register_prepare, do_setup, do_first, setup_register_judge, 1)

/* The first touch of a page of the table races with the REGISTER that needs it. */
static void fault_register_prepare(struct race *r)
{
	open_other(r);
	map_other(r);
}

static enum outcome fault_register_judge(struct race *r)
{
	__u64 there = word(slot_of(&r->map, r->tb.id));

	if (r->rb || (__u32)r->tb.id)
		return wrong(r, "REGISTER failed, or used another slot");
	if (there != r->tb.deadline_ns || (r->word && r->word != there))
		return wrong(r, "the mapping does not show the page that REGISTER used");
	munmap(r->map.head, r->map.bytes);
	close(r->other);
	return r->word ? B_FIRST : A_FIRST;
}

SLOW_PAIR(fault_register, fault_register_prepare, do_touch, do_first, fault_register_judge, 1)

/* The first touch of the marks, by an arming thread, races with a KICK that would find none. */
static void fault_kick_prepare(struct race *r)
{
	open_other(r);
	map_other(r);
	if (!r->wrong)
		r->id[0] = timer(r, r->other, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 1);
}

static void do_mark_other(struct race *r)
{
	swap_word(slot_of(&r->map, r->id[0]), 1);
	mark(&r->map, r->id[0]);
}

static enum outcome fault_kick_judge(struct race *r)
{
	bool seen = !word(slot_of(&r->map, r->id[0]));

	if (r->rb || turn_now(r->other))
		return wrong(r, "a KICK failed");
	if (read_now(r->other, r->ea, 8) != 1 || r->ea[0].deadline_ns != 1)
		return wrong(r, "the event was not read, or not it alone");
	munmap(r->map.head, r->map.bytes);
	close(r->other);
	return seen ? A_FIRST : B_FIRST;
}

SLOW_PAIR(fault_kick, fault_kick_prepare, do_mark_other, do_turn_other, fault_kick_judge, 1)

/* poll() blocks while the wheel is closed under it, and still wakes up. */
static void poll_blocked_prepare(struct race *r)
{
	open_other(r);
	timer(r, r->other, next_random(&r->seed) % (NS_PER_MS / 4), 0, 0);
}

ACT(do_poll_long, r->ra = poll_other(r, TIMEOUT_MS))

SLOW_PAIR(poll_blocked_close, poll_blocked_prepare, do_poll_long, close_other, close_judge, 1)

/*
 * A slot is reused while verbs use its former id, which names no timer, so that they do
 * nothing. The clock decides who was first.
 */
static void reuse_prepare(struct race *r)
{
	r->id[0] = timer(r, r->fd, HOUR, TWHEEL_KEEP, 0);
	if (cancel(r->fd, r->id[0]) != TWHEEL_ARMED)
		wrong(r, "CANCEL failed");
}

static void do_register_again(struct race *r)
{
	r->ta = (struct twheel_timer) { .deadline_ns = HOUR, .user_data = r->loop };
	r->ra = verb(r->fd, TWHEEL_IOC_REGISTER, &r->ta);
}

static void do_stale(struct race *r)
{
	if (r->loop % 3 == 0)
		do_cancel_it(r);
	else if (r->loop % 3 == 1)
		do_rearm_now(r);
	else
		r->rb = get_timer(r->fd, r->id[0], &r->tb);
}

static enum outcome reuse_judge(struct race *r)
{
	if (r->ra || r->rb != -ENOENT)
		return wrong(r, "REGISTER failed, or the stale id was accepted");
	if ((__u32)r->ta.id != (__u32)r->id[0] || r->ta.id == r->id[0])
		return wrong(r, "the new timer has another slot, or the same id");
	if (cancel_timer(r->fd, r->ta.id, &r->tb) || r->tb.state != TWHEEL_ARMED ||
	    r->tb.user_data != r->loop || !nothing_unread(r))
		return wrong(r, "the new timer is wrong, or has an event");
	return r->end_a < r->end_b ? A_FIRST : B_FIRST;
}

PAIR(reuse_stale, reuse_prepare, do_register_again, do_stale, reuse_judge, 1)

/* A read races with a CANCEL of the same timer: one of the two gets the event. */
ACT(read_cancel_prepare, r->id[0] = timer(r, r->fd, 0, 0, 1))

static enum outcome read_cancel_judge(struct race *r)
{
	if (r->ra == 1 && r->rb == -ENOENT)
		return A_FIRST;
	if (r->ra == -EAGAIN && !r->rb && r->tb.state == TWHEEL_EXPIRED)
		return B_FIRST;
	return wrong(r, "both calls got the event, or neither");
}

/* G5: a withdrawn event is never read */
PAIR(read_cancel, read_cancel_prepare, do_read_a, do_cancel_it, read_cancel_judge, 1)

STRESS_MAIN({ "loops", &loops }, { "seconds", &seconds }, { "seed", &seed })
