// SPDX-License-Identifier: GPL-2.0
/*
 * BATCH, DRAIN and LIST: many timers in one call.
 */
#include "twheel_test.h"

#include <sys/time.h>

WHEEL_FIXTURE(many, O_NONBLOCK)

/* A batch of nothing does nothing, whatever its address. */
TEST_F(many, batch_empty)
{
	struct twheel_batch b = { .ops = 0, .count = 0 };

	EXPECT_EQ(0, batch(self->fd, NULL, 0));
	EXPECT_EQ(0, call(self->fd, TWHEEL_IOC_BATCH, &b));
}

/* Bad entries in between have their results; the others are done; all are counted. */
TEST_F(many, batch_with_bad_entries)
{
	__u64 id = add(_metadata, self->fd, HOUR, 0, 1);
	struct {
		struct twheel_op op;
		int result;
	} rows[] = {
		{ { { .deadline_ns = HOUR, .user_data = 10 }, TWHEEL_OP_REGISTER }, 0 },
		{ { { .deadline_ns = HOUR }, 0 }, -EINVAL },
		{ { { .deadline_ns = HOUR }, 5 }, -EINVAL },
		{ { { .deadline_ns = HOUR }, 0xffffffff }, -EINVAL },
		{ { { .id = 12345 }, TWHEEL_OP_CANCEL }, -ENOENT },
		{ { { .deadline_ns = HOUR, .flags = 8 }, TWHEEL_OP_REGISTER }, -EINVAL },
		{ { { .id = id, .deadline_ns = 2 * HOUR }, TWHEEL_OP_REARM }, 0 },
		{ { { .flags = TWHEEL_DISARMED }, TWHEEL_OP_REGISTER }, -EINVAL },
		{ { { .period_ns = 1 }, TWHEEL_OP_REGISTER }, -EINVAL },
		{ { { .id = id, .period_ns = 1 }, TWHEEL_OP_REARM }, -EINVAL },
		{ { { .id = id }, TWHEEL_OP_GET }, 0 },
		{ { { .id = id + 1 }, TWHEEL_OP_GET }, -ENOENT },
		{ { { .deadline_ns = HOUR, .user_data = 11 }, TWHEEL_OP_REGISTER }, 0 },
		{ { { .id = id }, TWHEEL_OP_CANCEL }, 0 },
		{ { { .id = id }, TWHEEL_OP_CANCEL }, -ENOENT },
		{ { { .id = id }, TWHEEL_OP_REARM }, -ENOENT },
		{ { { .id = id }, TWHEEL_OP_GET }, -ENOENT },
		{ { { .deadline_ns = HOUR, .user_data = 12 }, TWHEEL_OP_REGISTER }, 0 },
	};
	struct twheel_op ops[ARRAY_SIZE(rows)];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		ops[i] = rows[i].op;
		poison(&ops[i].result);
		poison(&ops[i].timer.state);
	}
	EXPECT_EQ(ARRAY_SIZE(rows), batch(self->fd, ops, ARRAY_SIZE(rows)));
	for (i = 0; i < ARRAY_SIZE(rows); i++)
		EXPECT_EQ(rows[i].result, ops[i].result)
			TH_LOG("entry %u", i);
	EXPECT_EQ(TWHEEL_ARMED, ops[6].timer.state);
	EXPECT_EQ(TWHEEL_ARMED, ops[10].timer.state);
	EXPECT_EQ(1, ops[10].timer.user_data);
	EXPECT_EQ(ops[6].timer.deadline_ns, ops[10].timer.deadline_ns);
	EXPECT_EQ(TWHEEL_ARMED, ops[13].timer.state);
	EXPECT_EQ(3, stats(_metadata, self->fd).armed);
	for (i = 0; i < ARRAY_SIZE(rows); i++)
		if (ops[i].opcode == TWHEEL_OP_REGISTER && !ops[i].result)
			EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, ops[i].timer.id));
}

/* In order: each entry sees what those before it have done. */
TEST_F(many, batch_in_order)
{
	enum { N = 100 };
	__u64 id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 0);
	struct twheel_op ops[2 * N];
	struct twheel_event ev[N + 1];
	unsigned int i;

	for (i = 0; i < N; i++) {
		ops[2 * i] = (struct twheel_op) {
			.opcode = TWHEEL_OP_REARM,
			.timer.id = id,
			.timer.deadline_ns = i & 1 ? 1 : 1000000000000000000 + i,
			.timer.flags = TWHEEL_ABSTIME | TWHEEL_KEEP,
		};
		ops[2 * i + 1] = (struct twheel_op) {
			.opcode = TWHEEL_OP_GET,
			.timer.id = id,
		};
	}
	EXPECT_EQ(2 * N, batch(self->fd, ops, 2 * N));
	for (i = 0; i < N; i++) {
		__u32 now_state = i & 1 ? TWHEEL_EXPIRED : TWHEEL_ARMED;

		EXPECT_EQ(0, ops[2 * i].result);
		EXPECT_EQ(i && now_state == TWHEEL_ARMED ? TWHEEL_EXPIRED : TWHEEL_ARMED,
			  ops[2 * i].timer.state);
		EXPECT_EQ(now_state, ops[2 * i + 1].timer.state);
		EXPECT_EQ(i & 1 ? 1 : 1000000000000000000 + i,
			  ops[2 * i + 1].timer.deadline_ns);
	}
	/* The last one left its event. */
	EXPECT_EQ(1, take(self->fd, ev, N, 0));
}

/* Timers that are due are readable in the order of the batch. */
TEST_F(many, batch_of_past_deadlines)
{
	enum { N = 8 };
	struct twheel_op ops[N];
	struct twheel_event ev[N];
	unsigned int i;

	for (i = 0; i < N; i++)
		ops[i] = (struct twheel_op) {
			.opcode = TWHEEL_OP_REGISTER,
			.timer.deadline_ns = 1,
			.timer.user_data = i,
			.timer.flags = TWHEEL_ABSTIME,
		};
	EXPECT_EQ(N, batch(self->fd, ops, N));
	EXPECT_EQ(N, collect(self->fd, ev, N));
	for (i = 0; i < N; i++)
		EXPECT_EQ(i, ev[i].user_data);
}

/* 65,536 entries are allowed. */
TEST_F(many, batch_of_the_most)
{
	struct twheel_op *ops = calloc(TWHEEL_BATCH_MAX, sizeof(*ops));
	__u32 i;

	ASSERT_TRUE(!!ops);
	for (i = 0; i < TWHEEL_BATCH_MAX; i++) {
		ops[i].opcode = TWHEEL_OP_REGISTER;
		ops[i].timer.deadline_ns = HOUR;
		ops[i].timer.user_data = i;
		ops[i].result = 1;
	}
	EXPECT_EQ(TWHEEL_BATCH_MAX, batch(self->fd, ops, TWHEEL_BATCH_MAX));
	EXPECT_EQ(TWHEEL_BATCH_MAX, stats(_metadata, self->fd).armed);
	for (i = 0; i < TWHEEL_BATCH_MAX; i++) {
		ASSERT_EQ(0, ops[i].result);
		ops[i].opcode = TWHEEL_OP_CANCEL;
		ops[i].timer.user_data = 0;
	}
	EXPECT_EQ(TWHEEL_BATCH_MAX, batch(self->fd, ops, TWHEEL_BATCH_MAX));
	for (i = 0; i < TWHEEL_BATCH_MAX; i++) {
		ASSERT_EQ(0, ops[i].result);
		ASSERT_EQ(i, ops[i].timer.user_data);
		ASSERT_EQ(TWHEEL_ARMED, ops[i].timer.state);
	}
	EXPECT_EQ(0, stats(_metadata, self->fd).allocated);
	free(ops);
}

/*
 * Six timers, one for each situation in which DRAIN may find one: armed,
 * armed and kept, armed and periodic, idle, unread, unread and periodic.
 */
enum { ONCE, KEPT, PERIODIC, IDLE, UNREAD, UNREAD_PERIODIC, SITUATIONS };

static void situations(struct __test_metadata *_metadata, int fd, __u64 *ids)
{
	ids[ONCE] = add(_metadata, fd, HOUR, 0, ONCE);
	ids[KEPT] = add(_metadata, fd, HOUR, TWHEEL_KEEP, KEPT);
	ids[PERIODIC] = add_periodic(_metadata, fd, HOUR, HOUR, 0);
	ids[IDLE] = add(_metadata, fd, 0, TWHEEL_KEEP | TWHEEL_DISARMED, IDLE);
	ids[UNREAD] = add(_metadata, fd, 0, 0, UNREAD);
	ids[UNREAD_PERIODIC] = add_periodic(_metadata, fd, 1, HOUR, TWHEEL_ABSTIME);
	ASSERT_EQ(TWHEEL_EXPIRED, state(fd, ids[UNREAD_PERIODIC]));
}

/* The event of @id among the @n of @ev, or NULL. */
static const struct twheel_event *event_of(const struct twheel_event *ev, int n, __u64 id)
{
	int i;

	for (i = 0; i < n; i++)
		if (ev[i].id == id)
			return &ev[i];
	return NULL;
}

/*
 * DRAIN_EXPIRE makes each armed timer readable, once, with expirations 0; the
 * others stay as they are, and no periodic one is armed again.
 */
TEST_F(many, drain_expire)
{
	struct twheel_event ev[SITUATIONS + 2];
	__u64 ids[SITUATIONS];
	struct twheel_stats s;
	unsigned int i;

	situations(_metadata, self->fd, ids);
	EXPECT_EQ(3, drain(self->fd, TWHEEL_DRAIN_EXPIRE));
	s = stats(_metadata, self->fd);
	EXPECT_EQ(0, s.armed);
	EXPECT_EQ(5, s.unread);
	EXPECT_EQ(5, s.expired);
	EXPECT_EQ(0, s.displaced);

	EXPECT_EQ(5, take(self->fd, ev, ARRAY_SIZE(ev), 0));
	for (i = 0; i < SITUATIONS; i++) {
		const struct twheel_event *e = event_of(ev, 5, ids[i]);

		EXPECT_EQ(i == IDLE, !e);
		if (!e)
			continue;
		if (i < IDLE) {
			EXPECT_EQ(0, e->expirations);
			/* Before its deadline, and it tells which that was. */
			EXPECT_LT(e->expired_ns, e->deadline_ns);
		} else {
			EXPECT_GE(e->expirations, 1);
		}
	}
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	EXPECT_EQ(0, stats(_metadata, self->fd).armed);
	EXPECT_EQ(0, drain(self->fd, TWHEEL_DRAIN_EXPIRE));
	EXPECT_EQ(-ENOENT, state(self->fd, ids[ONCE]));
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, ids[KEPT]));
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, ids[IDLE]));
	EXPECT_EQ(-ENOENT, state(self->fd, ids[UNREAD]));
	/* A drained period is over: with its last event its id ends, as any other. */
	EXPECT_EQ(-ENOENT, state(self->fd, ids[PERIODIC]));
	EXPECT_EQ(-ENOENT, state(self->fd, ids[UNREAD_PERIODIC]));
	EXPECT_EQ(TWHEEL_IDLE, rearm(self->fd, ids[KEPT], 0, 0));
	EXPECT_EQ(1, take(self->fd, ev, ARRAY_SIZE(ev), 0));
	EXPECT_EQ(1, ev[0].expirations);
}

/* DRAIN_CANCEL ends each armed timer; the others stay, and no event comes. */
TEST_F(many, drain_cancel)
{
	struct twheel_event ev[SITUATIONS];
	__u64 ids[SITUATIONS];
	struct twheel_stats s;

	situations(_metadata, self->fd, ids);
	EXPECT_EQ(3, drain(self->fd, TWHEEL_DRAIN_CANCEL));
	s = stats(_metadata, self->fd);
	EXPECT_EQ(0, s.armed);
	EXPECT_EQ(2, s.unread);
	EXPECT_EQ(3, s.displaced);
	EXPECT_EQ(3, s.cancelled);
	EXPECT_EQ(3, s.allocated);
	EXPECT_EQ(0, drain(self->fd, TWHEEL_DRAIN_CANCEL));
	EXPECT_EQ(-ENOENT, state(self->fd, ids[ONCE]));
	EXPECT_EQ(-ENOENT, state(self->fd, ids[KEPT]));
	EXPECT_EQ(-ENOENT, state(self->fd, ids[PERIODIC]));
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, ids[IDLE]));
	EXPECT_EQ(2, take(self->fd, ev, ARRAY_SIZE(ev), 0));
	EXPECT_TRUE(!!event_of(ev, 2, ids[UNREAD]));
	EXPECT_TRUE(!!event_of(ev, 2, ids[UNREAD_PERIODIC]));
	/* It was unread, and is not armed again. */
	EXPECT_EQ(0, stats(_metadata, self->fd).armed);
}

/* After DRAIN a wheel goes on as before. */
TEST_F(many, drain_and_go_on)
{
	struct twheel_event ev[4];

	EXPECT_EQ(0, drain(self->fd, TWHEEL_DRAIN_EXPIRE));
	EXPECT_EQ(0, drain(self->fd, TWHEEL_DRAIN_CANCEL));
	add(_metadata, self->fd, SOON, 0, 1);
	EXPECT_EQ(1, drain(self->fd, TWHEEL_DRAIN_CANCEL));
	add(_metadata, self->fd, SOON, 0, 2);
	EXPECT_EQ(1, drain(self->fd, TWHEEL_DRAIN_EXPIRE));
	add(_metadata, self->fd, 10 * NS_PER_MS, 0, 3);
	EXPECT_EQ(2, collect(self->fd, ev, 2));
	EXPECT_EQ(2, ev[0].user_data);
	EXPECT_EQ(0, ev[0].expirations);
	EXPECT_EQ(3, ev[1].user_data);
	EXPECT_EQ(1, ev[1].expirations);
	EXPECT_FALSE(readable(self->fd, 250));
}

/* A drained periodic timer that is armed again is periodic again. */
TEST_F(many, drained_periodic_rearmed)
{
	__u64 id = add_periodic(_metadata, self->fd, HOUR, 5 * NS_PER_MS, TWHEEL_KEEP);
	struct twheel_timer t = {
		.id = id,
		.deadline_ns = NS_PER_MS,
		.period_ns = 5 * NS_PER_MS,
		.flags = TWHEEL_KEEP,
	};
	struct twheel_event ev;
	unsigned int i;

	EXPECT_EQ(1, drain(self->fd, TWHEEL_DRAIN_EXPIRE));
	EXPECT_EQ(0, next_event(_metadata, self->fd, 0).expirations);
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, id));
	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REARM, &t));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(1, take(self->fd, &ev, 1, PATIENCE_MS));
}

/* DRAIN finds all of very many, in every level and chunk of memory. */
TEST_F(many, drain_many)
{
	enum { N = 20000 };
	struct twheel_event *ev = calloc(N, sizeof(*ev));
	unsigned char *seen = calloc(N, 1);
	unsigned int i;

	for (i = 0; i < 10; i++)
		add_many(_metadata, self->fd, N / 10, 30 * NS_PER_SEC << 2 * i, 0,
			 i * N / 10, NULL);
	EXPECT_EQ(N, drain(self->fd, TWHEEL_DRAIN_EXPIRE));
	EXPECT_EQ(N, collect(self->fd, ev, N));
	for (i = 0; i < N; i++) {
		ASSERT_LT(ev[i].user_data, N);
		ASSERT_EQ(0, seen[ev[i].user_data]++);
	}
	EXPECT_EQ(0, stats(_metadata, self->fd).allocated);
	add_many(_metadata, self->fd, N, HOUR, 0, 0, NULL);
	EXPECT_EQ(N, drain(self->fd, TWHEEL_DRAIN_CANCEL));
	EXPECT_EQ(0, stats(_metadata, self->fd).allocated);
	free(seen);
	free(ev);
}

/*
 * A wheel that is late for seconds, because it looks at 20,000 timers in each of its short
 * rounds. Under a hail of signals DRAIN_EXPIRE does not begin anew and ends: it takes what
 * is due as far as its bound goes, and drains the rest.
 */
TEST_F(many, drain_under_signals)
{
	enum { FAR = 20000, NEAR = 500 };
	const __u64 far_away = HOUR, step = 2 * NS_PER_MS;
	struct twheel_setup s = { .tick_ns = 1 << 17, .levels = 1, .slot_bits = 4 };
	static struct twheel_event ev[FAR + NEAR];
	unsigned int i, early = 0;
	int drained;

	ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &s));
	catch_signal(SIGALRM, 0);
	add_many(_metadata, self->fd, FAR, far_away, 0, 0, NULL);
	for (i = 0; i < NEAR; i++)
		add(_metadata, self->fd, i * step, 0, FAR);
	sleep_ms(NEAR * step / NS_PER_MS);
	hail(100);
	drained = drain(self->fd, TWHEEL_DRAIN_EXPIRE);
	hail(0);
	/* What became due meanwhile may have been drained, or not. */
	EXPECT_GE(drained, FAR);
	EXPECT_LE(drained, FAR + NEAR);
	EXPECT_EQ(0, stats(_metadata, self->fd).armed);
	EXPECT_EQ(FAR + NEAR, stats(_metadata, self->fd).unread);
	ASSERT_EQ(FAR + NEAR, collect(self->fd, ev, FAR + NEAR));
	for (i = 0; i < FAR + NEAR; i++)
		early += !ev[i].expirations;
	EXPECT_EQ(FAR, early);
	EXPECT_EQ(0, drain(self->fd, TWHEEL_DRAIN_CANCEL));
}

/* LIST of an empty wheel, of none, and from behind the end: 0. */
TEST_F(many, list_nothing)
{
	struct twheel_timer t[2];
	__u32 cursor = 0;

	EXPECT_EQ(0, list(self->fd, t, 2, &cursor));
	add(_metadata, self->fd, HOUR, 0, 0);
	cursor = 0;
	EXPECT_EQ(0, list(self->fd, t, 0, &cursor));
	EXPECT_EQ(0, cursor);
	cursor = 1000000;
	EXPECT_EQ(0, list(self->fd, t, 2, &cursor));
	cursor = 0xffffffff;
	EXPECT_EQ(0, list(self->fd, t, 2, &cursor));
	cursor = 0;
	EXPECT_EQ(1, list(self->fd, t, 2, &cursor));
	EXPECT_EQ(0, list(self->fd, t, 2, &cursor));
}

/* LIST tells of each timer what GET tells, and what it does not fill stays. */
TEST_F(many, list_tells_all)
{
	struct twheel_timer t[SITUATIONS + 1], got;
	__u64 ids[SITUATIONS];
	__u32 cursor = 0;
	unsigned int i;

	situations(_metadata, self->fd, ids);
	poison(&t);
	EXPECT_EQ(SITUATIONS, list(self->fd, t, SITUATIONS + 1, &cursor));
	for (i = 0; i < SITUATIONS; i++) {
		EXPECT_EQ(0, get_timer(self->fd, t[i].id, &got));
		EXPECT_EQ(0, memcmp(&got, &t[i], sizeof(got)));
	}
	EXPECT_EQ(0xcccccccccccccccc, t[SITUATIONS].id);
	EXPECT_EQ(0, list(self->fd, t, SITUATIONS + 1, &cursor));
}

/* Paging: every timer exactly once, whatever the size of a page. */
TEST_F(many, list_pages)
{
	static const __u32 sizes[] = { 1, 7, 16, 63, 64, 65, 1000 };
	enum { N = 300 };
	struct twheel_timer page[1000];
	__u64 ids[N];
	unsigned int s, i;
	int ret;

	add_many(_metadata, self->fd, N, HOUR, 0, 0, ids);
	/* With holes, a whole chunk of memory among them. */
	for (i = 0; i < N; i++)
		if (i % 5 == 0 || (i > 60 && i < 200))
			EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, ids[i]));
	for (s = 0; s < ARRAY_SIZE(sizes); s++) {
		unsigned char seen[N] = { 0 };
		__u32 cursor = 0;

		while ((ret = list(self->fd, page, sizes[s], &cursor)) > 0) {
			EXPECT_LE(ret, sizes[s]);
			for (i = 0; i < (unsigned int)ret; i++) {
				ASSERT_LT(page[i].user_data, N);
				seen[page[i].user_data]++;
			}
		}
		EXPECT_EQ(0, ret);
		for (i = 0; i < N; i++)
			EXPECT_EQ(!(i % 5 == 0 || (i > 60 && i < 200)), seen[i]);
	}
}

struct churn {
	int fd;
	bool stop;
	unsigned int calls;
	unsigned int errors;
};

#define CHURNED	(1ULL << 40)

/*
 * Adds and removes timers of its own until it is told to stop. Now and then it
 * sleeps: on PREEMPT_RT who releases a lock may take it again before the one that it
 * has woken for it, for as long as it goes on.
 */
static void *churn(void *arg)
{
	struct churn *c = arg;
	__u64 ids[200] = { 0 }, seed = 12;

	while (!stopped(&c->stop)) {
		unsigned int i = next_random(&seed) % ARRAY_SIZE(ids);

		if (!(__atomic_add_fetch(&c->calls, 1, __ATOMIC_RELAXED) % 16))
			sleep_ms(1);
		if (ids[i]) {
			c->errors += cancel(c->fd, ids[i]) != TWHEEL_ARMED;
			ids[i] = 0;
		} else {
			struct twheel_timer t = { .deadline_ns = HOUR, .user_data = CHURNED };

			c->errors += verb(c->fd, TWHEEL_IOC_REGISTER, &t) != 0;
			ids[i] = t.id;
		}
	}
	return NULL;
}

/* A timer that nobody touches is seen exactly once, while others come and go. */
TEST_F(many, list_while_others_change)
{
	enum { N = 1000, ROUNDS = 30, CALLS = 1000 };
	struct churn c = { .fd = self->fd };
	struct twheel_timer page[50];
	pthread_t thread;
	unsigned int round, i;
	__u64 ids[N];
	int ret;

	/* Room in between for the others. */
	add_many(_metadata, self->fd, N, HOUR, 0, 0, ids);
	for (i = 0; i < N; i += 2)
		EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, ids[i]));
	ASSERT_EQ(0, pthread_create(&thread, NULL, churn, &c));
	/* And for as long as the others have not done much. */
	for (round = 0; round < ROUNDS ||
	     __atomic_load_n(&c.calls, __ATOMIC_RELAXED) < CALLS; round++) {
		unsigned char seen[N] = { 0 };
		__u32 cursor = 0;

		while ((ret = list(self->fd, page, ARRAY_SIZE(page), &cursor)) > 0)
			for (i = 0; i < (unsigned int)ret; i++)
				if (page[i].user_data < N)
					seen[page[i].user_data]++;
				else
					EXPECT_EQ(CHURNED, page[i].user_data);
		EXPECT_EQ(0, ret);
		for (i = 0; i < N; i++)
			EXPECT_EQ(i & 1, seen[i]);
	}
	stop_and_join(thread, &c.stop);
	EXPECT_EQ(0, c.errors);
}

TEST_HARNESS_MAIN
