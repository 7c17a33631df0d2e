// SPDX-License-Identifier: GPL-2.0
/*
 * Whatever races with whatever, each arming ends exactly once: as an event
 * that was read, or as one that CANCEL, REARM or DRAIN has answered for.
 */
#include "ledger.h"

WHEEL_FIXTURE(race, O_NONBLOCK)

#define RACES	10000
#define GROUP	50

/*
 * Arms RACES timers in groups for about now and cancels them at about the time
 * when they expire, while @readers threads read. @keep: so that CANCEL finds
 * those that have been read, too.
 */
static void race_cancel(struct __test_metadata *_metadata, int fd, unsigned int readers,
			__u32 keep)
{
	unsigned int armed = 0, expired = 0, gone = 0, wrong = 0, unaccounted = 0;
	unsigned int group, i;
	unsigned char *events = calloc(RACES, 1);
	unsigned char *cancelled = calloc(RACES, 1);
	__u64 seed = 17, lead = NS_PER_MS;
	struct reader r[2];

	for (i = 0; i < readers; i++) {
		r[i] = (struct reader) {
			.fd = fd, .seen = events, .nr = RACES, .spin = readers == 1,
		};
		start_reader(_metadata, &r[i]);
	}
	for (group = 0; group < RACES; group += GROUP) {
		__u64 start = now(CLOCK_MONOTONIC);
		__u64 deadline = start + lead + next_random(&seed) % (NS_PER_MS / 2);
		__u64 ids[GROUP];

		for (i = 0; i < GROUP; i++)
			ids[i] = add(_metadata, fd, deadline + i * 10000,
				     TWHEEL_ABSTIME | keep, group + i);
		/* A slow machine must not come too late for all of the next group. */
		lead = NS_PER_MS + now(CLOCK_MONOTONIC) - start;
		spin_ns(next_random(&seed) % (3 * NS_PER_MS));
		for (i = 0; i < GROUP; i++) {
			int ret = cancel(fd, ids[i]);

			switch (ret) {
			case TWHEEL_ARMED:
				armed++;
				cancelled[group + i] = 1;
				break;
			case TWHEEL_EXPIRED:
				expired++;
				cancelled[group + i] = 1;
				break;
			case TWHEEL_IDLE:
				gone++;
				wrong += !keep;
				break;
			case -ENOENT:
				gone++;
				wrong += !!keep;
				break;
			default:
				wrong++;
			}
		}
	}
	for (i = 0; i < readers; i++)
		stop_reader(_metadata, &r[i]);
	EXPECT_EQ(0, wrong);
	for (i = 0; i < RACES; i++)
		unaccounted += cancelled[i] + events[i] != 1;
	EXPECT_EQ(0, unaccounted);
	TH_LOG("cancelled %u armed and %u expired, %u too late", armed, expired, gone);
	EXPECT_EQ(0, stats(_metadata, fd).allocated);
	/* It was a race. */
	EXPECT_GT(armed, 0);
	EXPECT_GT(gone, 0);
	free(cancelled);
	free(events);
}

/* G3, G5: CANCEL against expiry and a reader: each arming is accounted for exactly once. */
TEST_F(race, cancel_and_expiry)
{
	race_cancel(_metadata, self->fd, 1, 0);
}

/* The same with kept timers and two readers. */
TEST_F(race, cancel_and_two_readers)
{
	race_cancel(_metadata, self->fd, 2, TWHEEL_KEEP);
}

/* G5: CANCEL is final: after it has returned, no event is read that was not read before. */
TEST_F(race, cancel_is_final)
{
	unsigned int i, late = 0, expired = 0;
	struct twheel_event ev;
	__u64 seed = 23;

	for (i = 0; i < 2000; i++) {
		__u64 id = add(_metadata, self->fd, next_random(&seed) % NS_PER_MS, 0, i);
		int ret;

		spin_ns(next_random(&seed) % NS_PER_MS);
		ret = cancel(self->fd, id);
		expired += ret == TWHEEL_EXPIRED;
		ASSERT_GE(ret, (int)TWHEEL_ARMED);
		late += read_events(self->fd, &ev, EVENT) > 0;
	}
	EXPECT_EQ(0, late);
	EXPECT_GT(expired, 0);
	EXPECT_LT(expired, 2000);
	EXPECT_EQ(0, stats(_metadata, self->fd).allocated);
}

/* G3: REARM against expiry and a reader: it tells how each arming before it has ended. */
TEST_F(race, rearm_and_expiry)
{
	enum { TIMERS = 16, ROUNDS = 400 };
	struct reader r = { .fd = self->fd, .nr = TIMERS };
	struct ledger l = { .armed = TIMERS };
	unsigned char events[TIMERS] = { 0 };
	unsigned int i, round;
	__u64 seed = 31;
	__u64 ids[TIMERS];

	r.seen = events;
	start_reader(_metadata, &r);
	for (i = 0; i < TIMERS; i++)
		ids[i] = add(_metadata, self->fd, NS_PER_MS, TWHEEL_KEEP, i);
	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < TIMERS; i++)
			l.armed += ended_by_verb(&l, rearm(self->fd, ids[i],
							   next_random(&seed) % (2 * NS_PER_MS),
							   TWHEEL_KEEP));
		spin_ns(next_random(&seed) % NS_PER_MS);
	}
	/* The last arming of each. */
	for (i = 0; i < TIMERS; i++)
		ended_by_verb(&l, cancel(self->fd, ids[i]));
	stop_reader(_metadata, &r);
	l.read = r.got;
	expect_found(_metadata, self->fd, &l);
	EXPECT_GT(l.found[TWHEEL_IDLE], 0);
	EXPECT_GT(l.found[TWHEEL_ARMED], 0);
}

struct worker {
	pthread_t thread;
	int fd;
	__u64 seed;
	__u64 *ids;
	unsigned int nr;
	unsigned int rounds;
	struct ledger l;
};

/* Moves timers that other threads move as well. */
static void *rearm_randomly(void *arg)
{
	struct worker *w = arg;
	unsigned int i;

	for (i = 0; i < w->rounds; i++) {
		__u64 id = w->ids[next_random(&w->seed) % w->nr];
		__u64 delay = next_random(&w->seed) % (3 * NS_PER_MS);

		w->l.armed += ended_by_verb(&w->l, rearm(w->fd, id, delay, TWHEEL_KEEP));
	}
	return NULL;
}

/* Two threads REARM the same timers while a third reads. */
TEST_F(race, rearm_and_rearm)
{
	enum { TIMERS = 8, ROUNDS = 4000 };
	struct reader r = { .fd = self->fd, .nr = TIMERS };
	struct ledger l = { .armed = TIMERS };
	unsigned char events[TIMERS] = { 0 };
	struct worker w[2];
	__u64 ids[TIMERS];
	unsigned int i;

	r.seen = events;
	start_reader(_metadata, &r);
	for (i = 0; i < TIMERS; i++)
		ids[i] = add(_metadata, self->fd, NS_PER_MS, TWHEEL_KEEP, i);
	for (i = 0; i < 2; i++) {
		w[i] = (struct worker) {
			.fd = self->fd,
			.seed = 41 + i,
			.ids = ids,
			.nr = TIMERS,
			.rounds = ROUNDS,
		};
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, rearm_randomly, &w[i]));
	}
	for (i = 0; i < 2; i++) {
		pthread_join(w[i].thread, NULL);
		add_ledger(&l, &w[i].l);
	}
	for (i = 0; i < TIMERS; i++)
		ended_by_verb(&l, cancel(self->fd, ids[i]));
	stop_reader(_metadata, &r);
	l.read = r.got;
	expect_found(_metadata, self->fd, &l);
}

/* Two threads CANCEL the same timers: one of them succeeds, the other finds nothing. */
static void *cancel_all(void *arg)
{
	struct worker *w = arg;
	unsigned int i;

	for (i = 0; i < w->nr; i++) {
		int ret = cancel(w->fd, w->ids[i]);

		if (ret != -ENOENT)
			ended_by_verb(&w->l, ret);
	}
	return NULL;
}

TEST_F(race, cancel_and_cancel)
{
	enum { N = 5000 };
	__u64 *ids = calloc(N, sizeof(*ids));
	unsigned int i, found = 0;
	struct worker w[2];

	add_many(_metadata, self->fd, N, HOUR, 0, 0, ids);
	for (i = 0; i < 2; i++) {
		w[i] = (struct worker) { .fd = self->fd, .ids = ids, .nr = N };
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, cancel_all, &w[i]));
	}
	for (i = 0; i < 2; i++) {
		pthread_join(w[i].thread, NULL);
		EXPECT_EQ(0, w[i].l.wrong);
		found += w[i].l.found[TWHEEL_ARMED];
	}
	EXPECT_EQ(N, found);
	free(ids);
}

/* Registers and cancels at once, against others that do so too: no id is given out twice. */
static void *register_and_cancel(void *arg)
{
	struct worker *w = arg;
	unsigned int i;

	for (i = 0; i < w->rounds; i++) {
		struct twheel_timer t = { .deadline_ns = HOUR, .user_data = w->seed + i };
		struct twheel_timer out;

		if (verb(w->fd, TWHEEL_IOC_REGISTER, &t) || cancel_timer(w->fd, t.id, &out) ||
		    out.user_data != w->seed + i || out.state != TWHEEL_ARMED)
			w->l.wrong++;
	}
	return NULL;
}

TEST_F(race, register_and_register)
{
	struct worker w[3];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(w); i++) {
		w[i] = (struct worker) {
			.fd = self->fd,
			.seed = (__u64)i << 32,
			.rounds = 3000,
		};
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, register_and_cancel, &w[i]));
	}
	for (i = 0; i < ARRAY_SIZE(w); i++) {
		pthread_join(w[i].thread, NULL);
		EXPECT_EQ(0, w[i].l.wrong);
	}
	EXPECT_EQ(9000, stats(_metadata, self->fd).registered);
	EXPECT_EQ(0, stats(_metadata, self->fd).allocated);
}

#define DRAINED	300

/* Returns how many DRAIN has counted, in rounds at about the expiry of DRAINED timers. */
static unsigned long race_drain(struct __test_metadata *_metadata, int fd, __u32 mode,
				unsigned int rounds)
{
	unsigned long drained = 0;
	__u64 seed = 53;

	while (rounds--) {
		int ret;

		add_many(_metadata, fd, DRAINED, now(CLOCK_MONOTONIC) + 3 * NS_PER_MS,
			 TWHEEL_ABSTIME, 0, NULL);
		spin_ns(next_random(&seed) % (4 * NS_PER_MS));
		ret = drain(fd, mode);
		ASSERT_GE(ret, 0);
		drained += ret;
	}
	return drained;
}

/* DRAIN_CANCEL against expiry and a reader: what it counts and what is read make the whole. */
TEST_F(race, drain_cancel_and_expiry)
{
	enum { ROUNDS = 25 };
	unsigned char events[DRAINED] = { 0 };
	struct reader r = { .fd = self->fd, .seen = events, .nr = DRAINED, .spin = true };
	unsigned long drained;

	start_reader(_metadata, &r);
	drained = race_drain(_metadata, self->fd, TWHEEL_DRAIN_CANCEL, ROUNDS);
	stop_reader(_metadata, &r);
	TH_LOG("drained %lu, read %lu", drained, r.got);
	EXPECT_EQ(DRAINED * ROUNDS, drained + r.got);
	EXPECT_EQ(0, stats(_metadata, self->fd).allocated);
}

/* DRAIN_EXPIRE against expiry: everything is read, once; expirations 0 only before the deadline. */
TEST_F(race, drain_expire_and_expiry)
{
	enum { ROUNDS = 25 };
	unsigned char events[DRAINED] = { 0 };
	struct reader r = { .fd = self->fd, .seen = events, .nr = DRAINED, .spin = true };
	unsigned int i;

	start_reader(_metadata, &r);
	race_drain(_metadata, self->fd, TWHEEL_DRAIN_EXPIRE, ROUNDS);
	stop_reader(_metadata, &r);
	EXPECT_EQ(DRAINED * ROUNDS, r.got);
	for (i = 0; i < DRAINED; i++)
		EXPECT_EQ(ROUNDS, events[i]);
	EXPECT_EQ(0, stats(_metadata, self->fd).allocated);
}

/* G11: Closing a wheel at any moment of its ticks harms nobody. */
TEST_F(race, close_and_expiry)
{
	__u64 seed = 61;
	unsigned int i;

	for (i = 0; i < 200; i++) {
		int fd = open_wheel(_metadata, O_NONBLOCK);

		add_many(_metadata, fd, 300, now(CLOCK_MONOTONIC) + NS_PER_MS, TWHEEL_ABSTIME, 0,
			 NULL);
		spin_ns(next_random(&seed) % (2 * NS_PER_MS));
		close(fd);
	}
}

struct checker {
	pthread_t thread;
	int fd;
	bool stop;
	unsigned int checks;
	unsigned int wrong;
};

static void *check_conservation(void *arg)
{
	struct checker *c = arg;

	while (!stopped(&c->stop)) {
		struct twheel_stats s;

		if (!conserved(c->fd, &s) || s.armed + s.unread > s.allocated)
			c->wrong++;
		__atomic_fetch_add(&c->checks, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* G3: The sums of STATS are right at any moment, not at quiet ones only. */
TEST_F(race, conservation)
{
	enum { TIMERS = 64, ROUNDS = 5000 };
	struct checker c = { .fd = self->fd };
	struct reader r = { .fd = self->fd };
	struct worker w;
	__u64 ids[TIMERS];
	unsigned int i;

	for (i = 0; i < TIMERS; i++) {
		struct twheel_timer t = {
			.user_data = i,
			.deadline_ns = NS_PER_MS,
			/* Some of them periodic. */
			.period_ns = i % 4 ? 0 : NS_PER_MS,
			.flags = TWHEEL_KEEP,
		};

		ASSERT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
		ids[i] = t.id;
	}
	start_reader(_metadata, &r);
	ASSERT_EQ(0, pthread_create(&c.thread, NULL, check_conservation, &c));
	while (!__atomic_load_n(&c.checks, __ATOMIC_RELAXED))
		sleep_ms(1);
	w = (struct worker) {
		.fd = self->fd,
		.seed = 71,
		.ids = ids + 1,
		.nr = TIMERS - 1,
		.rounds = ROUNDS,
	};
	rearm_randomly(&w);
	EXPECT_EQ(0, w.l.wrong);
	stop_and_join(c.thread, &c.stop);
	/* The one that nobody moved is periodic still, and would go on for ever. */
	EXPECT_GE(cancel(self->fd, ids[0]), (int)TWHEEL_ARMED);
	stop_reader(_metadata, &r);
	EXPECT_EQ(0, c.wrong);
}

/*
 * What calls are handed, alone in REGION bytes at a multiple of that, and with nothing
 * behind it that could be written to: a bit of it that flips, also of an address, leads
 * nowhere else.
 */
#define FLIPPED_BITS	20
#define REGION		(1UL << FLIPPED_BITS)
#define BEHIND		(256 * REGION)
#define HANDED		64U

struct argument {
	union {
		struct twheel_timer timer;
		struct twheel_setup setup;
		struct twheel_batch batch;
		struct twheel_drain drain;
		struct twheel_list list;
		struct twheel_kick kick;
	};
	struct twheel_op ops[HANDED];
	struct twheel_timer timers[HANDED];
	__u32 slots[HANDED];
};

struct bit_flipper {
	pthread_t thread;
	struct argument *arg;
	bool stop;
	unsigned long flips;
};

static void *flip_bits(void *arg)
{
	struct bit_flipper *f = arg;
	__u32 *words = (__u32 *)f->arg;
	__u64 seed = 91;

	while (!stopped(&f->stop)) {
		__u64 random = next_random(&seed);
		/* Mostly of what is read first. */
		unsigned int nr = random & 1 ? sizeof(struct twheel_timer) : sizeof(*f->arg);

		__atomic_fetch_xor(&words[(random >> 8) % (nr / sizeof(*words))],
				   1U << (random >> 40) % FLIPPED_BITS, __ATOMIC_RELAXED);
		__atomic_fetch_add(&f->flips, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* A call of each kind in turn, with what is right until it is flipped. */
static int call_flipped(int fd, struct argument *arg, unsigned int kind, const __u64 *ids)
{
	unsigned int i;

	for (i = 0; i < HANDED; i++) {
		arg->slots[i] = ids[i];
		arg->ops[i] = (struct twheel_op) {
			.opcode = TWHEEL_OP_REARM,
			.timer.id = ids[i],
			.timer.deadline_ns = NS_PER_MS,
			.timer.flags = TWHEEL_KEEP,
		};
	}
	switch (kind % 7) {
	case 0:
		arg->batch = (struct twheel_batch) { .ops = ptr_u64(arg->ops), .count = HANDED };
		return call(fd, TWHEEL_IOC_BATCH, arg);
	case 1:
		arg->kick = (struct twheel_kick) { .slots = ptr_u64(arg->slots), .count = HANDED };
		return call(fd, TWHEEL_IOC_KICK, arg);
	case 2:
		arg->list = (struct twheel_list) {
			.timers = ptr_u64(arg->timers),
			.count = HANDED,
		};
		return call(fd, TWHEEL_IOC_LIST, arg);
	case 3:
		arg->timer = arg->ops[0].timer;
		return call(fd, TWHEEL_IOC_REARM, arg);
	case 4:
		arg->timer = (struct twheel_timer) { .deadline_ns = NS_PER_MS };
		return call(fd, TWHEEL_IOC_REGISTER, arg);
	case 5:
		arg->drain = (struct twheel_drain) { .mode = TWHEEL_DRAIN_EXPIRE };
		return call(fd, TWHEEL_IOC_DRAIN, arg);
	default:
		arg->setup = (struct twheel_setup) { .tick_ns = NS_PER_MS };
		return call(fd, TWHEEL_IOC_SETUP, arg);
	}
}

/* Class 10: what a call has checked it does not fetch again. */
TEST_F_TIMEOUT(race, flipped_arguments, 120)
{
	enum { CALLS = 20000, FLIPS = 10000000 };
	const __u64 end = now(CLOCK_MONOTONIC) + 60 * NS_PER_SEC;
	struct bit_flipper f = { .stop = false };
	struct twheel_event ev[HANDED];
	__u64 ids[HANDED];
	unsigned int i, wrong = 0, done = 0;
	unsigned long flips = 0;
	char *map;

	/* Who has flipped the mode of a drain back does not see which it was. */
	may_be_early = true;
	map = mmap(NULL, REGION + BEHIND, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, map);
	f.arg = (struct argument *)(((uintptr_t)map + REGION - 1) & -REGION);
	ASSERT_EQ(0, mprotect(f.arg, REGION, PROT_READ | PROT_WRITE));
	for (i = 0; i < HANDED; i++)
		ids[i] = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, i);
	ASSERT_EQ(0, pthread_create(&f.thread, NULL, flip_bits, &f));
	for (i = 0; i < CALLS || (flips < FLIPS && now(CLOCK_MONOTONIC) < end); i++) {
		int ret = call_flipped(self->fd, f.arg, i, ids);

		done += ret >= 0;
		wrong += ret < 0 && ret != -EINVAL && ret != -EFAULT && ret != -ENOENT &&
			 ret != -EBUSY && ret != -EPERM && ret != -ENOSPC;
		/* Periods that flips made may bring more than can be read. */
		wrong += read_events(self->fd, ev, sizeof(ev)) < 0 && errno != EAGAIN;
		flips = __atomic_load_n(&f.flips, __ATOMIC_RELAXED);
	}
	stop_and_join(f.thread, &f.stop);
	TH_LOG("%u of %u calls done", done, i);
	TARGET("flips", flips, FLIPS);
	EXPECT_EQ(0, wrong);
	EXPECT_GT(done, 0);
	EXPECT_LT(done, i);
	EXPECT_GE(drain(self->fd, TWHEEL_DRAIN_CANCEL), 0);
	munmap(map, REGION + BEHIND);
}

TEST_HARNESS_MAIN
