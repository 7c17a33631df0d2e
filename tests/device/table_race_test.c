// SPDX-License-Identifier: GPL-2.0
/*
 * Races on the table. Each arming by exchange ends exactly once: as the old value that another
 * exchange returns, as an event that is read, or in the result of an ioctl. Whatever a program
 * writes to the table, and whenever, harms only its own wheel.
 */
#include "bystander.h"
#include "ledger.h"

#include <sched.h>

#define REFCNT	"/sys/module/twheel/refcnt"

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

#define GOT_BACK	1
#define WAS_READ	2
#define WRONG		0x80

struct book {
	__u64 deadline[ARMINGS];
	/* How each arming ended; 0 if it has not ended, or was withdrawn. */
	unsigned char end[ARMINGS];
	unsigned int next;
};

static __u64 book_next(struct book *b, __u64 about)
{
	unsigned int seq = b->next++;
	__u64 deadline = (about & ~(__u64)(ARMINGS - 1)) | seq;

	__atomic_store_n(&b->deadline[seq], deadline, __ATOMIC_SEQ_CST);
	return deadline;
}

/* Records that @deadline has ended by @how. Returns false if that is impossible. */
static bool book_end(struct book *b, __u64 deadline, unsigned char how)
{
	unsigned int seq = deadline & (ARMINGS - 1);

	return __atomic_load_n(&b->deadline[seq], __ATOMIC_SEQ_CST) == deadline &&
	       !__atomic_exchange_n(&b->end[seq], how, __ATOMIC_SEQ_CST);
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
		r->wrong += !book_end(&b->of[ev->user_data], ev->deadline_ns, WAS_READ);
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
		w->l.wrong += !book_end(&w->books[k], old, GOT_BACK);
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

static unsigned int count_ends(const struct book *books, unsigned int nr, unsigned char how)
{
	unsigned int k, seq, n = 0;

	for (k = 0; k < nr; k++)
		for (seq = 1; seq < books[k].next; seq++)
			n += books[k].end[seq] == how;
	return n;
}

enum { WRITERS = 3, SLOTS = 8 };

/*
 * G3: Writers race with a reader and with expiry. Each deadline that was stored is got back,
 * or read, or withdrawn by the arming that followed it, and never two of these.
 */
TEST_F_TIMEOUT(table_race, exactly_once, 120)
{
	struct books b = { .of = calloc(WRITERS * SLOTS, sizeof(*b.of)), .nr = WRITERS * SLOTS };
	struct reader r = { .fd = self->fd, .spin = true, .see = see_in_books, .arg = &b };
	struct ledger l = { 0 };
	struct writer w[WRITERS];
	__u64 ids[WRITERS * SLOTS];
	unsigned int i;

	ASSERT_TRUE(!!b.of);
	for (i = 0; i < ARRAY_SIZE(ids); i++)
		ids[i] = reserve(_metadata, self->fd, i);
	start_reader(_metadata, &r);
	for (i = 0; i < WRITERS; i++) {
		w[i] = (struct writer) {
			.t = self->t,
			.books = b.of + i * SLOTS,
			.ids = ids + i * SLOTS,
			.nr = SLOTS,
			.seed = 71 + i,
		};
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, write_words, &w[i]));
	}
	for (i = 0; i < WRITERS; i++) {
		pthread_join(w[i].thread, NULL);
		call_in(&w[i]);
		add_ledger(&l, &w[i].l);
		EXPECT_EQ(0, w[i].others);
	}
	stop_reader(_metadata, &r);
	l.read = r.got;
	EXPECT_EQ(0, b.others);
	EXPECT_EQ(l.got_back, count_ends(b.of, ARRAY_SIZE(ids), GOT_BACK));
	EXPECT_EQ(l.read, count_ends(b.of, ARRAY_SIZE(ids), WAS_READ));
	expect_ended(_metadata, self->fd, &l);
	/* Check that there was a race. */
	EXPECT_GT(l.got_back, 0);
	EXPECT_GT(l.read, 0);
	free(b.of);
}

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
 * Many timers of one tick are disarmed while the kernel takes that tick off the wheel. Each is
 * got back or has expired, and then expires when it is armed by the rules again.
 */
TEST_F_TIMEOUT(table_race, disarm_at_expiry, 120)
{
	enum { N = 256, ROUNDS = 150 };
	unsigned int i, round, lost = 0, got = 0;
	__u32 slots[N];
	__u64 ids[N];

	add_many(_metadata, self->fd, N, HOUR, TWHEEL_KEEP, 0, ids);
	for (i = 0; i < N; i++)
		slots[i] = ids[i];
	for (round = 0; round < ROUNDS; round++) {
		__u64 tick = (now(CLOCK_MONOTONIC) + 4 * NS_PER_MS) & ~(self->t.tick - 1);
		__u64 end;

		pin(1);
		for (i = 0; i < N; i++)
			swap_word(&self->t.slots[slots[i]], tick);
		kick_slots(&self->t, slots, N);
		pin(0);
		/* When the first timer has expired, the others are about to. */
		while (now(CLOCK_MONOTONIC) < tick || (word(&self->t.slots[slots[0]]) &&
						       word(&self->t.slots[slots[N - 1]])))
			;
		/* In the same order as the kernel, or in the opposite one. */
		for (i = 0; i < N; i++)
			got += !!disarm(&self->t, ids[round % 2 ? i : N - 1 - i]);
		/*
		 * Timers that were not disarmed in time have expired. Arm each again by the
		 * protocol.
		 */
		end = now(CLOCK_MONOTONIC) + 2 * NS_PER_MS;
		for (i = 0; i < N; i++)
			arm(&self->t, ids[i], end);
		kick_slots(&self->t, slots, N);
		end += 10 * NS_PER_SEC;
		/* The second armings expire at once, or when the wheel turns next. */
		for (i = 0; i < N; i++)
			while (word(slot_of(&self->t, ids[i])) && now(CLOCK_MONOTONIC) < end)
				sched_yield();
		for (i = 0; i < N; i++)
			lost += !!word(slot_of(&self->t, ids[i]));
		if (lost)
			break;
	}
	TH_LOG("%u of %u disarmed in time", got, N * ROUNDS);
	EXPECT_EQ(0, lost);
	EXPECT_EQ(N, stats(_metadata, self->fd).unread);
	EXPECT_EQ(0, stats(_metadata, self->fd).armed);
	/* All timers that were not disarmed expired once, and then all of them again. */
	EXPECT_EQ(2 * N * ROUNDS - got, stats(_metadata, self->fd).expired);
}

/*
 * A duel: round after round, one thread KICKs all slots while another one exchanges their
 * words. The look is the same as when the wheel turns by itself.
 */
#define DUEL_SLOTS	64
#define DUEL_ROUNDS	6000

struct duel {
	pthread_t thread;
	const struct table *t;
	__u32 slots[DUEL_SLOTS];
	/* The round that may begin, and the one that the kicker has completed. */
	unsigned int begun;
	unsigned int done;
	/* How long a KICK takes on this machine. */
	__u64 took;
	unsigned int wrong;
};

static void *kick_each_round(void *arg)
{
	struct duel *d = arg;
	unsigned int round;

	pin(1);
	for (round = 1; round <= DUEL_ROUNDS; round++) {
		__u64 start;

		wait_for(&d->begun, round);
		start = now(CLOCK_MONOTONIC);
		d->wrong += kick_slots(d->t, d->slots, DUEL_SLOTS) != 0;
		d->took = now(CLOCK_MONOTONIC) - start;
		__atomic_store_n(&d->done, round, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void start_duel(struct __test_metadata *_metadata, struct duel *d,
		       const struct table *t)
{
	unsigned int i;

	*d = (struct duel) { .t = t };
	for (i = 0; i < DUEL_SLOTS; i++)
		d->slots[i] = reserve(_metadata, t->fd, i);
	pin(0);
	ASSERT_EQ(0, pthread_create(&d->thread, NULL, kick_each_round, d));
}

/* Lets the kicker start, and returns at a random moment while it works. */
static void begin_round(struct duel *d, unsigned int round, __u64 *seed)
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
	struct duel d;

	start_duel(_metadata, &d, &self->t);
	for (round = 1; round <= DUEL_ROUNDS; round++) {
		for (i = 0; i < DUEL_SLOTS; i++)
			swap_word(&t.slots[d.slots[i]], near);
		kick_slots(&self->t, d.slots, DUEL_SLOTS);
		for (i = 0; i < DUEL_SLOTS; i++)
			swap_word(&t.slots[d.slots[i]], near + HOUR);
		begin_round(&d, round, &seed);
		for (i = 0; i < DUEL_SLOTS; i++)
			arm(&t, d.slots[round % 2 ? i : DUEL_SLOTS - 1 - i], near + i);
		wait_for(&d.done, round);
		for (i = 0; i < DUEL_SLOTS; i++)
			late += wake(&t.slots[d.slots[i]]) >= word(&t.slots[d.slots[i]]);
	}
	pthread_join(d.thread, NULL);
	TH_LOG("%lu of %u moves needed a KICK", t.kicks, DUEL_SLOTS * DUEL_ROUNDS);
	EXPECT_EQ(0, late);
	EXPECT_EQ(0, d.wrong);
}

/* The claim of a due timer: all are due, and are disarmed. Each is either got back or expires. */
TEST_F_TIMEOUT(table_race, claim, 120)
{
	unsigned int round, i, got = 0;
	struct table t = self->t;
	struct duel d;
	__u64 seed = 22;

	start_duel(_metadata, &d, &self->t);
	for (round = 1; round <= DUEL_ROUNDS; round++) {
		for (i = 0; i < DUEL_SLOTS; i++)
			swap_word(&t.slots[d.slots[i]], round);
		begin_round(&d, round, &seed);
		for (i = 0; i < DUEL_SLOTS; i++)
			got += !!disarm(&t, d.slots[round % 2 ? i : DUEL_SLOTS - 1 - i]);
		wait_for(&d.done, round);
	}
	pthread_join(d.thread, NULL);
	TH_LOG("%u of %u disarmed in time", got, DUEL_SLOTS * DUEL_ROUNDS);
	EXPECT_EQ(0, d.wrong);
	/* No timer is left on the wheel, because each that a KICK has queued was due. */
	kick_slots(&self->t, d.slots, DUEL_SLOTS);
	EXPECT_EQ(0, stats(_metadata, self->fd).armed);
	EXPECT_EQ(DUEL_SLOTS * DUEL_ROUNDS - got, stats(_metadata, self->fd).expired);
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
		until = deadline + PATIENCE_MS * NS_PER_MS;
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

/* Hostile writers */

/* A thread that writes random words and bytes all over the mapping. */
struct scribbler {
	pthread_t thread;
	struct table t;
	bool stop;
	__u64 seed;
	unsigned long written;
};

static void *scribble(void *arg)
{
	struct scribbler *s = arg;

	while (!stopped(&s->stop)) {
		__u64 r = next_random(&s->seed), value = next_random(&s->seed);
		__u64 *words = (__u64 *)s->t.head;

		switch (r % 8) {
		case 0:
			value = 0;
			break;
		case 1:
			value = NEVER - value % 3;
			break;
		case 2:
		case 3:
			value = now(CLOCK_MONOTONIC) + value % (4 * NS_PER_MS) - NS_PER_MS;
			break;
		case 4:
			value %= 1024;
			break;
		}
		/* Half of the writes go where the timers are. */
		r >>= 8;
		if (r % 2)
			__atomic_store_n(&words[PAGE / 8 + (r >> 8) % 2048], value,
					 __ATOMIC_RELAXED);
		else if (r % 16 == 2)
			((volatile unsigned char *)words)[(r >> 8) % s->t.bytes] = value;
		else
			__atomic_store_n(&words[(r >> 8) % (s->t.bytes / 8)], value,
					 __ATOMIC_RELAXED);
		s->written++;
	}
	return NULL;
}

/* A thread that calls every verb on timers whose words are scribbled over. */
struct user {
	pthread_t thread;
	struct table t;
	bool stop;
	__u64 seed;
	unsigned long calls;
	unsigned int wrong;
};

static void *use_all(void *arg)
{
	struct user *u = arg;
	int fd = u->t.fd;
	__u64 ids[256] = { 0 };

	while (!stopped(&u->stop)) {
		__u64 r = next_random(&u->seed), *id = &ids[(r >> 32) % 256];
		struct twheel_timer t = {
			.id = *id,
			.deadline_ns = (r >> 8) % (4 * NS_PER_MS),
			.period_ns = r & 0x80 ? NS_PER_MS : 0,
			.slack_ns = r & 0x40 ? NS_PER_MS : 0,
			.flags = r & 0x20 ? TWHEEL_KEEP : 0,
		};
		struct twheel_timer page[20];
		struct twheel_event ev[16];
		__u32 cursor;
		int ret = 0;

		u->calls++;
		switch (r % 16) {
		case 0:
		case 1:
		case 2:
			ret = call(fd, TWHEEL_IOC_REGISTER, &t);
			if (!ret)
				*id = t.id;
			break;
		case 3:
		case 4:
			ret = call(fd, TWHEEL_IOC_REARM, &t);
			break;
		case 5:
			t.flags = 0;
			ret = call(fd, TWHEEL_IOC_CANCEL, &t);
			break;
		case 6:
			t.flags = 0;
			ret = call(fd, TWHEEL_IOC_GET, &t);
			break;
		case 7:
			if ((r >> 16) % 256 == 0)
				ret = (r >> 40) % 2 ? cancel_all(fd) : expire_all(fd);
			break;
		case 8:
			cursor = (r >> 40) % 2048;
			ret = list(fd, page, ARRAY_SIZE(page), &cursor);
			break;
		case 9:
		case 10:
		case 11:
			ret = read_events(fd, ev, sizeof(ev));
			if (ret < 0)
				ret = errno == EAGAIN ? 0 : -errno;
			break;
		default:
			ret = turn_now(fd);
			break;
		}
		if (ret < 0 && ret != -ENOENT && ret != -ENOSPC)
			u->wrong++;
	}
	return NULL;
}

/*
 * G9: A hostile writer scribbles over the whole mapping while others work on that wheel and on
 * another. The kernel logs nothing, the other wheel is punctual, and in the end everything is
 * freed.
 */
TEST_F_TIMEOUT(table_race, hostile_writer, 180)
{
	struct twheel_timer page[64];
	__u32 cursor = 0;
	int n_listed;
	struct twheel_setup s = { .max_timers = 50000 };
	int fd = wheel_open(O_NONBLOCK);
	long long users = read_number(REFCNT);
	struct table t;
	struct scribbler w[2];
	struct neighbor n;
	struct user u[2];
	unsigned int i;

	ASSERT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &s));
	t = map_table(_metadata, fd);
	start_neighbor(_metadata, &n);
	for (i = 0; i < 2; i++) {
		w[i] = (struct scribbler) { .t = t, .seed = 1234 + i };
		u[i] = (struct user) { .t = t, .seed = 77 + i };
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, scribble, &w[i]));
		ASSERT_EQ(0, pthread_create(&u[i].thread, NULL, use_all, &u[i]));
	}
	sleep_ms(2 * RACE_MS);
	/* The writers are killed in the middle of it, with timers in all states. */
	for (i = 0; i < 2; i++) {
		stop_and_join(u[i].thread, &u[i].stop);
		EXPECT_EQ(0, u[i].wrong);
		EXPECT_GT(u[i].calls, 0);
	}
	for (i = 0; i < 2; i++)
		stop_and_join(w[i].thread, &w[i].stop);
	stop_neighbor(_metadata, &n);
	TH_LOG("%lu words, %lu calls, %llu timers", w[0].written + w[1].written,
	       u[0].calls + u[1].calls, stats(_metadata, fd).registered);
	expect_conserved(_metadata, fd);
	/* A new mapping shows a correct header again. */
	unmap_table(&t);
	t = map_table(_metadata, fd);
	EXPECT_EQ(TWHEEL_TABLE_MAGIC, t.head->magic);
	EXPECT_EQ(PAGE, t.head->slots_offset);
	EXPECT_EQ(50000, t.head->slots);
	/*
	 * Without the writers the wheel works like any other. LIST shows a timer whose word
	 * was set to 0 as idle, but it stays queued until the kernel looks, so cancel all of
	 * them.
	 */
	while ((n_listed = list(fd, page, ARRAY_SIZE(page), &cursor)) > 0)
		while (n_listed--)
			EXPECT_EQ(0, cancel_timer(fd, page[n_listed].id, &page[n_listed]));
	EXPECT_EQ(0, stats(_metadata, fd).armed);
	unmap_table(&t);
	close(fd);
	EXPECT_EQ(users, read_number(REFCNT) + 1);
}

TEST_HARNESS_MAIN
