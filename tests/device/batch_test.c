// SPDX-License-Identifier: GPL-2.0
/*
 * BATCH and LIST, which handle many timers in one call.
 */
#include "twheel_test.h"

#include <sys/time.h>

WHEEL_FIXTURE(many, O_NONBLOCK)

/* An empty batch does nothing, whatever its address. */
TEST_F(many, batch_empty)
{
	struct twheel_batch b = { .ops = 0, .count = 0 };

	EXPECT_EQ(0, batch(self->fd, NULL, 0));
	EXPECT_EQ(0, call(self->fd, TWHEEL_IOC_BATCH, &b));
}

/*
 * Bad entries in a batch get their own results; the other entries are carried out, and all are
 * counted.
 */
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

/* A batch runs in order: each entry sees what the entries before it have done. */
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
	/* The last entry left its event. */
	EXPECT_EQ(1, take(self->fd, ev, N, 0));
}

/* Timers that are already due are readable in the order of the batch. */
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

/* A batch may have 65,536 entries. */
TEST_F(many, batch_of_maximum_size)
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

/* LIST returns 0 on an empty wheel, with room for no entries, and from beyond the end. */
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

/*
 * Timers in each situation: armed, armed and kept, armed and periodic, idle, unread, unread
 * and periodic.
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

/* LIST reports the same as GET for each timer, and leaves the rest of the array as it was. */
TEST_F(many, list_matches_get)
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

/* LIST returns every timer exactly once, whatever the page size. */
TEST_F(many, list_pages)
{
	static const __u32 sizes[] = { 1, 7, 16, 63, 64, 65, 1000 };
	enum { N = 300 };
	struct twheel_timer page[1000];
	__u64 ids[N];
	unsigned int s, i;
	int ret;

	add_many(_metadata, self->fd, N, HOUR, 0, 0, ids);
	/* Leave holes, one of them a whole chunk of memory. */
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
 * Adds and removes its own timers until it is told to stop. It sleeps now and then, because on
 * PREEMPT_RT a thread that releases a lock may take it again before the waiter that it woke,
 * for as long as it keeps doing so.
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

/* LIST returns a timer that nobody touches exactly once, while others come and go. */
TEST_F(many, list_while_others_change)
{
	enum { N = 1000, ROUNDS = 30, CALLS = 1000 };
	struct churn c = { .fd = self->fd };
	struct twheel_timer page[50];
	pthread_t thread;
	unsigned int round, i;
	__u64 ids[N];
	int ret;

	/* Leave gaps in between for the other timers. */
	add_many(_metadata, self->fd, N, HOUR, 0, 0, ids);
	for (i = 0; i < N; i += 2)
		EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, ids[i]));
	ASSERT_EQ(0, pthread_create(&thread, NULL, churn, &c));
	/* Continue until the other threads have done enough. */
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
