// SPDX-License-Identifier: GPL-2.0
/*
 * Races on the table. Each arming by exchange ends exactly once: as the old value that another
 * exchange returns, as an event that is read, or in the result of an ioctl. Whatever a program
 * writes to the table, and whenever, harms only its own wheel.
 */
#include "bystander.h"
#include "ledger.h"

#include <sched.h>

/* How long the races run that have no end of their own. */
#define RACE_MS	3000

FIXTURE(table_race) {
	int fd;
	struct table t;
};

FIXTURE_SETUP(table_race)
{
	/* The smallest tick that an unprivileged user may have, for as many looks as possible. */
	struct twheel_setup s = { .tick_ns = 100 * NS_PER_US };

	self->fd = open_wheel(_metadata, O_NONBLOCK);
	ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &s));
	self->t = map_table(_metadata, self->fd);
}

TABLE_TEARDOWN(table_race)

/*
 * The books. Each arming by exchange has a deadline of its own, whose low bits are the
 * arming's number within its slot. So an old value or an event tells by its deadline which
 * arming it was.
 */
#define SEQ_BITS	12
#define ARMINGS		(1U << SEQ_BITS)

struct book {
	__u64 deadline[ARMINGS];
	/* False if the arming has not ended, or was withdrawn. */
	bool ended[ARMINGS];
	unsigned int next;
};

static __u64 book_next(struct book *b, __u64 about)
{
	unsigned int seq = b->next++;
	__u64 deadline = (about & ~(__u64)(ARMINGS - 1)) | seq;

	__atomic_store_n(&b->deadline[seq], deadline, __ATOMIC_SEQ_CST);
	return deadline;
}

/* Records that @deadline has ended. Returns false if that is impossible. */
static bool book_end(struct book *b, __u64 deadline)
{
	unsigned int seq = deadline & (ARMINGS - 1);

	return __atomic_load_n(&b->deadline[seq], __ATOMIC_SEQ_CST) == deadline &&
	       !__atomic_exchange_n(&b->ended[seq], true, __ATOMIC_SEQ_CST);
}

/* The books of a reader's slots, indexed by user_data. */
struct books {
	struct book *of;
	unsigned int nr;
	/* Events of timers that have no book, or of armings that are in no book. */
	unsigned int others;
};

static void see_in_books(struct reader *r, const struct twheel_event *ev)
{
	struct books *b = r->arg;

	r->wrong += ev->expirations != 1;
	/* A deadline without a number was set by an ioctl. */
	if (ev->user_data >= b->nr || !(ev->deadline_ns % ARMINGS))
		b->others++;
	else
		r->wrong += !book_end(&b->of[ev->user_data], ev->deadline_ns);
}

/* A thread that arms and disarms its own slots at about the time when they expire. */
struct writer {
	pthread_t thread;
	struct table t;
	struct book *books;
	__u64 *ids;
	unsigned int nr;
	__u64 seed;
	struct ledger l;
	/* Old values that are in no book, because an ioctl has set them. */
	unsigned int others;
};

static void account_old(struct writer *w, unsigned int k, __u64 old)
{
	if (!old)
		return;
	w->l.got_back++;
	if (old % ARMINGS)
		w->l.wrong += !book_end(&w->books[k], old);
	else
		w->others++;
}

static void *write_words(void *arg)
{
	struct writer *w = arg;
	unsigned int left = w->nr * (ARMINGS - 2), k;

	for (k = 0; k < w->nr; k++)
		w->books[k].next = 1;
	while (left) {
		__u64 r = next_random(&w->seed), delay = (r >> 8) % (400 * NS_PER_US);

		/* So that each slot is left alone for about the same time. */
		spin_ns((r >> 16) % (600 * NS_PER_US / w->nr));

		k = (r >> 32) % w->nr;
		if (r % 4 == 0) {
			account_old(w, k, disarm(&w->t, w->ids[k]));
		} else if (w->books[k].next < ARMINGS) {
			__u64 deadline = now(CLOCK_MONOTONIC) + delay;

			/*
			 * Occasionally use a distant deadline, from which every other move is
			 * a move to an earlier one.
			 */
			if (r % 16 == 1)
				deadline += HOUR;
			w->l.armed++;
			account_old(w, k, arm(&w->t, w->ids[k],
					      book_next(&w->books[k], deadline)));
		}
		left--;
	}
	return NULL;
}

/* Disarms a writer's timers, so that no arming is left. */
static void call_in(struct writer *w)
{
	unsigned int k;

	for (k = 0; k < w->nr; k++)
		account_old(w, k, disarm(&w->t, w->ids[k]));
	for (k = 0; k < w->nr; k++)
		kick(&w->t, w->ids[k]);
}

enum { SLOTS = 8 };

/* Moves timers by ioctl while a writer moves them by exchange. */
struct rearmer {
	pthread_t thread;
	int fd;
	bool stop;
	__u64 *ids;
	unsigned int nr;
	__u64 seed;
	struct ledger l;
};

static void *rearm_words(void *arg)
{
	struct rearmer *r = arg;

	while (!stopped(&r->stop)) {
		__u64 random = next_random(&r->seed), id = r->ids[(random >> 32) % r->nr];
		__u64 deadline = now(CLOCK_MONOTONIC) + (random >> 8) % (400 * NS_PER_US);
		__u32 flags = TWHEEL_KEEP | (random % 4 ? TWHEEL_ABSTIME : TWHEEL_DISARMED);
		int ret = rearm(r->fd, id, deadline & ~(__u64)(ARMINGS - 1), flags);

		spin_ns((random >> 16) % (600 * NS_PER_US / r->nr));
		r->l.armed += !(flags & TWHEEL_DISARMED);
		ended_by_verb(&r->l, ret);
	}
	return NULL;
}

/*
 * G3: The table and the ioctls at once on the same timers. Each deadline, whoever stored it,
 * is got back by an exchange, found armed by an ioctl, read, or withdrawn. A REARM that finds
 * an event unread reports that; it may also have ended a second arming that followed it.
 */
TEST_F_TIMEOUT(table_race, table_and_ioctls, 120)
{
	struct books b = { .of = calloc(SLOTS, sizeof(*b.of)), .nr = SLOTS };
	struct reader r = { .fd = self->fd, .spin = true, .see = see_in_books, .arg = &b };
	struct rearmer a = { .fd = self->fd, .nr = SLOTS, .seed = 99 };
	struct twheel_stats s;
	struct ledger l = { 0 };
	struct writer w;
	__u64 ids[SLOTS];
	unsigned int i;

	ASSERT_TRUE(!!b.of);
	for (i = 0; i < SLOTS; i++)
		ids[i] = reserve(_metadata, self->fd, i);
	a.ids = ids;
	start_reader(_metadata, &r);
	w = (struct writer) {
		.t = self->t,
		.books = b.of,
		.ids = ids,
		.nr = SLOTS,
		.seed = 3,
	};
	ASSERT_EQ(0, pthread_create(&a.thread, NULL, rearm_words, &a));
	ASSERT_EQ(0, pthread_create(&w.thread, NULL, write_words, &w));
	pthread_join(w.thread, NULL);
	stop_and_join(a.thread, &a.stop);
	call_in(&w);
	stop_reader(_metadata, &r);
	add_ledger(&l, &w.l);
	add_ledger(&l, &a.l);
	l.read = r.got;
	EXPECT_EQ(0, l.wrong);
	s = stats(_metadata, self->fd);
	TH_LOG("%lu armed: %lu got back, %lu found armed, %lu read, %llu withdrawn", l.armed,
	       l.got_back, l.found[TWHEEL_ARMED], l.read, s.withdrawn);
	EXPECT_LE(ended(&l, s.withdrawn), l.armed);
	EXPECT_LE(l.armed, ended(&l, s.withdrawn) + l.found[TWHEEL_EXPIRED]);
	EXPECT_EQ(0, s.armed);
	EXPECT_EQ(0, s.unread);
	EXPECT_GT(l.got_back, 0);
	EXPECT_GT(w.others, 0);
	EXPECT_GT(b.others, 0);
	EXPECT_GT(l.found[TWHEEL_ARMED], 0);
	free(b.of);
}

/* Waits until another thread has advanced @counter to @value. */
static void wait_for(const unsigned int *counter, unsigned int value)
{
	unsigned int spins = 0;

	while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < value)
		if (++spins % 1024 == 0)
			sched_yield();
}

/* A thread that flips words between past deadlines and 0, as fast as it can. */
struct flipper {
	pthread_t thread;
	struct table t;
	bool stop;
	__u32 first;
	unsigned int nr;
	/* True if 0 is one of the values. */
	bool disarms;
	unsigned long flips;
};

static void *flip(void *arg)
{
	struct flipper *f = arg;
	unsigned int i;

	while (!stopped(&f->stop)) {
		__u64 base = now(CLOCK_MONOTONIC) - NS_PER_MS;

		for (i = 0; i < 4096; i++) {
			f->flips++;
			swap_word(&f->t.slots[f->first + i % f->nr],
				  f->disarms && f->flips & 1 ? 0 : base + f->flips % 1024);
		}
	}
	return NULL;
}

/*
 * A race: round after round, one thread KICKs all slots while another one exchanges their
 * words. The look is the same as when the wheel turns by itself.
 */
#define RACE_SLOTS	64
#define RACE_ROUNDS	6000

struct race {
	pthread_t thread;
	const struct table *t;
	__u32 slots[RACE_SLOTS];
	/* The round that may begin, and the one that the kicker has completed. */
	unsigned int begun;
	unsigned int done;
	/* How long a KICK takes on this machine. */
	__u64 took;
	unsigned int wrong;
};

static void *kick_each_round(void *arg)
{
	struct race *d = arg;
	unsigned int round;

	pin(1);
	for (round = 1; round <= RACE_ROUNDS; round++) {
		__u64 start;

		wait_for(&d->begun, round);
		start = now(CLOCK_MONOTONIC);
		d->wrong += kick_slots(d->t, d->slots, RACE_SLOTS) != 0;
		d->took = now(CLOCK_MONOTONIC) - start;
		__atomic_store_n(&d->done, round, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void start_race(struct __test_metadata *_metadata, struct race *d,
		       const struct table *t)
{
	unsigned int i;

	*d = (struct race) { .t = t };
	for (i = 0; i < RACE_SLOTS; i++)
		d->slots[i] = reserve(_metadata, t->fd, i);
	pin(0);
	ASSERT_EQ(0, pthread_create(&d->thread, NULL, kick_each_round, d));
}

/* Lets the kicker start, and returns at a random moment while it works. */
static void begin_round(struct race *d, unsigned int round, __u64 *seed)
{
	__u64 delay = next_random(seed) % (d->took + 1);

	__atomic_store_n(&d->begun, round, __ATOMIC_RELEASE);
	/* Unless the last KICK was held up. */
	spin_ns(delay < NS_PER_MS ? delay : 0);
}

/*
 * The second read of a word: all timers have been moved far away, which the kernel is about to
 * see, and are moved back by the protocol, without a KICK if wake_ns allows that. Afterwards
 * the kernel plans to look at each of them in time.
 */
TEST_F_TIMEOUT(table_race, second_read, 120)
{
	__u64 near = now(CLOCK_MONOTONIC) + HOUR, seed = 21;
	unsigned int round, i, late = 0;
	struct table t = self->t;
	struct race d;

	start_race(_metadata, &d, &self->t);
	for (round = 1; round <= RACE_ROUNDS; round++) {
		for (i = 0; i < RACE_SLOTS; i++)
			swap_word(&t.slots[d.slots[i]], near);
		kick_slots(&self->t, d.slots, RACE_SLOTS);
		for (i = 0; i < RACE_SLOTS; i++)
			swap_word(&t.slots[d.slots[i]], near + HOUR);
		begin_round(&d, round, &seed);
		for (i = 0; i < RACE_SLOTS; i++)
			arm(&t, d.slots[round % 2 ? i : RACE_SLOTS - 1 - i], near + i);
		wait_for(&d.done, round);
		for (i = 0; i < RACE_SLOTS; i++)
			late += wake(&t.slots[d.slots[i]]) >= word(&t.slots[d.slots[i]]);
	}
	pthread_join(d.thread, NULL);
	TH_LOG("%lu of %u moves needed a KICK", t.kicks, RACE_SLOTS * RACE_ROUNDS);
	EXPECT_EQ(0, late);
	EXPECT_EQ(0, d.wrong);
}

/*
 * A periodic timer without KEEP, which is disarmed and armed by exchange while its events are
 * read, never ends, because nobody ends it.
 */
TEST_F_TIMEOUT(table_race, periodic_lives, 120)
{
	struct reader r = { .fd = self->fd, .spin = true };
	struct twheel_slot *slot;
	unsigned int i, dead = 0;
	__u64 id, seed = 4;

	id = add_periodic(_metadata, self->fd, 0, NS_PER_MS, 0);
	slot = slot_of(&self->t, id);
	start_reader(_metadata, &r);
	for (i = 0; i < 20000 && !dead; i++) {
		spin_ns(next_random(&seed) % 20000);
		if (swap_word(slot, 0))
			dead += state(self->fd, id) == -ENOENT;
		/* A deadline of now, so that the event is read at once. */
		swap_word(slot, now(CLOCK_MONOTONIC));
		dead += kick(&self->t, id) || state(self->fd, id) < 0;
	}
	stop_reader(_metadata, &r);
	TH_LOG("%lu events", r.got);
	EXPECT_EQ(0, dead) TH_LOG("round %u", i);
	EXPECT_GT(r.got, 0);
	EXPECT_GE(cancel(self->fd, id), 0);
}

/* Neighbors */

/*
 * 64 timers of which all but one have words that change all the time: the one honest timer
 * expires exactly, and so do the timers of another wheel.
 */
TEST_F_TIMEOUT(table_race, flippers_and_neighbors, 120)
{
	__u64 end = now(CLOCK_MONOTONIC) + RACE_MS * NS_PER_MS, honest, before;
	struct flipper f[2];
	struct neighbor n;
	unsigned int i, got = 0, wrong = 0;
	struct table t;
	__u64 ids[64];

	for (i = 0; i < 64; i++)
		ids[i] = reserve(_metadata, self->fd, i);
	honest = ids[31];
	start_neighbor(_metadata, &n);
	for (i = 0; i < 2; i++) {
		f[i] = (struct flipper) {
			.t = self->t,
			.first = i ? (__u32)ids[32] : (__u32)ids[0],
			.nr = i ? 32 : 31,
			.disarms = i,
		};
		ASSERT_EQ(0, pthread_create(&f[i].thread, NULL, flip, &f[i]));
	}
	t = self->t;
	while (now(CLOCK_MONOTONIC) < end) {
		__u64 deadline = now(CLOCK_MONOTONIC) + 5 * NS_PER_MS, until;
		__u32 slots[64];
		int ret, mine = 0;

		/* A KICK puts them on the wheel. */
		for (i = 0; i < 64; i++)
			slots[i] = ids[i];
		EXPECT_EQ(0, kick_slots(&self->t, slots, 64));
		EXPECT_EQ(0, arm(&t, honest, deadline));
		until = deadline + TIMEOUT_MS * NS_PER_MS;
		while (!mine && now(CLOCK_MONOTONIC) < until) {
			struct twheel_event ev[64];
			int k;

			ret = read_events(self->fd, ev, sizeof(ev));
			for (k = 0; k < ret / (int)EVENT; k++) {
				wrong += ev[k].expired_ns < ev[k].deadline_ns;
				if (ev[k].id != honest)
					continue;
				mine++;
				wrong += ev[k].deadline_ns != deadline;
			}
		}
		wrong += mine != 1;
		got += mine;
	}
	for (i = 0; i < 2; i++)
		stop_and_join(f[i].thread, &f[i].stop);
	EXPECT_EQ(0, wrong);
	TH_LOG("%lu and %lu flips, %u honest events", f[0].flips, f[1].flips, got);
	EXPECT_GT(got, 0);
	stop_neighbor(_metadata, &n);
	/* Once the words stay still, nothing is left on the wheel. */
	for (i = 0; i < 64; i++)
		disarm(&self->t, ids[i]);
	for (i = 0; i < 64; i++)
		EXPECT_EQ(0, kick(&self->t, ids[i]));
	EXPECT_EQ(0, stats(_metadata, self->fd).armed);
	before = stats(_metadata, self->fd).wakeups;
	sleep_ms(100);
	EXPECT_EQ(before, stats(_metadata, self->fd).wakeups);
}

/*
 * The words of thousands of unread timers are flipped faster than the kernel can look, while a
 * thread reads. Other threads are not locked out, and the reader, blocking or not, can be
 * killed.
 */
static void read_flipped(struct __test_metadata *_metadata, struct table *t, bool block)
{
	enum { N = 4000 };
	struct flipper f = { .t = *t, .nr = N };
	int fd = t->fd;
	struct neighbor n;
	__u64 ids[N], start;
	__u32 slots[N];
	unsigned int i;
	pid_t pid;

	if (block)
		ASSERT_EQ(0, fcntl(fd, F_SETFL, O_RDWR));
	add_many(_metadata, fd, N, 0, TWHEEL_KEEP, 0, ids);
	f.first = ids[0];
	for (i = 0; i < N; i++) {
		slots[i] = ids[i];
		ASSERT_EQ(f.first + i, slots[i]);
	}
	ASSERT_EQ(0, pthread_create(&f.thread, NULL, flip, &f));
	start_neighbor(_metadata, &n);
	pid = fork_child(_metadata);
	if (!pid) {
		struct twheel_event ev[16];

		for (;;)
			if (read_events(fd, ev, sizeof(ev)) < 0 && errno != EAGAIN)
				_exit(1);
	}
	/* Each timer that was read becomes unread again. */
	start = now(CLOCK_MONOTONIC);
	while (now(CLOCK_MONOTONIC) < start + RACE_MS * NS_PER_MS)
		EXPECT_EQ(0, kick_slots(t, slots, N));
	start = now(CLOCK_MONOTONIC);
	EXPECT_TRUE(killed(pid));
	EXPECT_LT(now(CLOCK_MONOTONIC) - start, 5 * NS_PER_SEC);
	stop_neighbor(_metadata, &n);
	stop_and_join(f.thread, &f.stop);
	TH_LOG("%lu flips, %llu withdrawn, %llu delivered", f.flips,
	       stats(_metadata, fd).withdrawn, stats(_metadata, fd).delivered);
	EXPECT_EQ(N, stats(_metadata, fd).allocated);
}

TEST_F_TIMEOUT(table_race, read_flipped, 120)
{
	read_flipped(_metadata, &self->t, false);
}

TEST_F_TIMEOUT(table_race, blocking_read_flipped, 120)
{
	read_flipped(_metadata, &self->t, true);
}

TEST_HARNESS_MAIN
