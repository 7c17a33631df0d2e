// SPDX-License-Identifier: GPL-2.0
/*
 * EFAULT for bad pointers: either nothing was done, or the call reports what was done.
 */
#include "twheel_test.h"

#ifdef __aarch64__
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#endif

FIXTURE(fault) {
	int fd;
	__u64 id;
};

FIXTURE_SETUP(fault)
{
	self->fd = open_wheel(_metadata, O_NONBLOCK);
	self->id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 42);
}

WHEEL_TEARDOWN(fault)

/* Each command fails with EFAULT, and does nothing. */
TEST_F(fault, argument)
{
	struct twheel_stats before = stats(_metadata, self->fd);
	unsigned int c, i;

	for (c = 0; c < ARRAY_SIZE(commands); c++) {
		/* KICK takes no argument: see values.others in tests/hostile. */
		if (commands[c] == TWHEEL_IOC_KICK)
			continue;
		for (i = 0; i < ARRAY_SIZE(bad_addresses); i++)
			EXPECT_EQ(-EFAULT, call(self->fd, commands[c], bad_address(i)))
				TH_LOG("command %#x at %p", commands[c], bad_address(i));
	}
	expect_same(_metadata, self->fd, &before);
}

/* EFAULT if only the last bytes of the argument are missing. */
TEST_F(fault, argument_across_border)
{
	struct twheel_stats before = stats(_metadata, self->fd);
	char *end = border(_metadata, PROT_NONE);
	unsigned int c;
	size_t missing;

	for (c = 0; c < ARRAY_SIZE(commands); c++) {
		for (missing = 1; missing < _IOC_SIZE(commands[c]); missing++) {
			char *arg = end - _IOC_SIZE(commands[c]) + missing;

			/* Valid as far as it goes, for commands that read the argument. */
			memset(arg, 0, _IOC_SIZE(commands[c]) - missing);
			EXPECT_EQ(-EFAULT, call(self->fd, commands[c], arg))
				TH_LOG("command %#x, %zu missing", commands[c], missing);
		}
	}
	expect_same(_metadata, self->fd, &before);
}

/* An argument that ends where its page ends is complete. */
TEST_F(fault, argument_up_to_border)
{
	char *end = border(_metadata, PROT_NONE);
	struct twheel_timer *t = (struct twheel_timer *)end - 1;

	*t = (struct twheel_timer) { .deadline_ns = HOUR };
	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, t));
	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_CANCEL, t));
	EXPECT_EQ(0, call(self->fd, TWHEEL_IOC_STATS, end - sizeof(struct twheel_stats)));
	EXPECT_EQ(0, call(self->fd, TWHEEL_IOC_INFO, end - sizeof(struct twheel_info)));
}

/* A REGISTER that cannot report the id leaves no timer behind, armed or expired. */
TEST_F(fault, register_read_only)
{
	static const __u64 deadlines[] = { HOUR, 0 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(deadlines); i++) {
		struct twheel_timer t = { .deadline_ns = deadlines[i] };
		struct twheel_stats s;

		EXPECT_EQ(-EFAULT, call(self->fd, TWHEEL_IOC_REGISTER,
					read_only(_metadata, &t, sizeof(t))));
		s = stats(_metadata, self->fd);
		EXPECT_EQ(1, s.allocated);
		EXPECT_EQ(1, s.armed);
		EXPECT_EQ(0, s.unread);
		EXPECT_FALSE(readable(self->fd, QUIET_MS));
	}
}

/* The same if the state could be written, but not the id in front of it. */
TEST_F(fault, register_across_border)
{
	const size_t size = sizeof(struct twheel_timer);
	struct twheel_event ev;
	size_t missing;

	for (missing = 4; missing < size; missing += 4) {
		char *end = border(_metadata, PROT_READ | PROT_WRITE);
		long page = sysconf(_SC_PAGESIZE);
		struct twheel_timer t = { .deadline_ns = missing % 8 ? 0 : HOUR }, after;

		memcpy(end + missing - size, &t, size);
		ASSERT_EQ(0, mprotect(end - page, page, PROT_READ));
		EXPECT_EQ(-EFAULT, call(self->fd, TWHEEL_IOC_REGISTER, end + missing - size))
			TH_LOG("%zu missing", missing);
		memcpy(&after, end + missing - size, size);
		EXPECT_EQ(0, memcmp(&t, &after, offsetof(struct twheel_timer, flags)));
		EXPECT_EQ(1, stats(_metadata, self->fd).allocated);
		EXPECT_EQ(0, take(self->fd, &ev, 1, 0));
	}
	EXPECT_EQ(1, stats(_metadata, self->fd).armed);
}

/*
 * A call does not write to its input before it is done, nor if it is refused, because another
 * thread may read it or write there. It writes only the members that are outputs.
 */
TEST_F(fault, argument_is_left_alone)
{
	struct twheel_timer t = {
		.id = self->id ^ 1ULL << 40,
		.user_data = 7,
		.deadline_ns = 8,
		.period_ns = HOUR,
		.slack_ns = 9,
		.flags = TWHEEL_KEEP,
		.state = 10,
	};
	struct twheel_timer before = t;
	struct twheel_op op;

	EXPECT_EQ(-ENOENT, call(self->fd, TWHEEL_IOC_REARM, &t));
	EXPECT_EQ(0, memcmp(&t, &before, sizeof(t)));
	EXPECT_EQ(-ENOENT, call(self->fd, TWHEEL_IOC_CANCEL, &t));
	EXPECT_EQ(0, memcmp(&t, &before, sizeof(t)));
	EXPECT_EQ(-ENOENT, call(self->fd, TWHEEL_IOC_GET, &t));
	EXPECT_EQ(0, memcmp(&t, &before, sizeof(t)));
	t.period_ns = 1;
	before = t;
	EXPECT_EQ(-EINVAL, call(self->fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_EQ(0, memcmp(&t, &before, sizeof(t)));
	op = (struct twheel_op) { .timer = t, .opcode = TWHEEL_OP_REGISTER, .result = 1 };
	EXPECT_EQ(1, batch(self->fd, &op, 1));
	EXPECT_EQ(-EINVAL, op.result);
	EXPECT_EQ(0, memcmp(&op.timer, &before, sizeof(t)));
	EXPECT_EQ(TWHEEL_OP_REGISTER, op.opcode);
}

/*
 * REARM, CANCEL and GET with an argument that cannot be written: EFAULT for a live timer,
 * armed, idle or expired, and nothing is done. If no live timer has the id, there is nothing
 * to write, so ENOENT.
 */
TEST_F(fault, verbs_read_only)
{
	static const unsigned int verbs[] = {
		TWHEEL_IOC_REARM, TWHEEL_IOC_CANCEL, TWHEEL_IOC_GET,
	};
	struct twheel_timer before, after, t = { .deadline_ns = 0 };
	struct twheel_stats counted;
	struct twheel_event ev[2];
	unsigned int i, v;
	__u64 ids[3];

	ids[0] = self->id;
	ids[1] = reserve(_metadata, self->fd, 43);
	ids[2] = add(_metadata, self->fd, 0, 0, 44);
	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	counted = stats(_metadata, self->fd);
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		static const __u32 states[] = { TWHEEL_ARMED, TWHEEL_IDLE, TWHEEL_EXPIRED };

		ASSERT_EQ(0, get_timer(self->fd, ids[i], &before));
		ASSERT_EQ(states[i], before.state);
		for (v = 0; v < ARRAY_SIZE(verbs); v++) {
			t.id = ids[i];
			EXPECT_EQ(-EFAULT, call(self->fd, verbs[v],
						read_only(_metadata, &t, sizeof(t))));
			t.id ^= 1ULL << 40;
			EXPECT_EQ(-ENOENT, call(self->fd, verbs[v],
						read_only(_metadata, &t, sizeof(t))));
		}
		ASSERT_EQ(0, get_timer(self->fd, ids[i], &after));
		EXPECT_EQ(0, memcmp(&before, &after, sizeof(before)));
	}
	expect_same(_metadata, self->fd, &counted);
	/* The only event is that of the timer that had expired before. */
	ASSERT_EQ(1, take(self->fd, ev, 2, TIMEOUT_MS));
	EXPECT_EQ(44, ev[0].user_data);
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
}

/* The same if only the end or only the start of the argument cannot be written. */
TEST_F(fault, argument_across_read_only_border)
{
	static const unsigned int verbs[] = {
		TWHEEL_IOC_REGISTER, TWHEEL_IOC_REARM, TWHEEL_IOC_CANCEL, TWHEEL_IOC_GET,
	};
	struct twheel_stats before = stats(_metadata, self->fd);
	const size_t size = sizeof(struct twheel_timer), page = sysconf(_SC_PAGESIZE);
	size_t missing;
	unsigned int v;

	for (v = 0; v < 2 * ARRAY_SIZE(verbs); v++) {
		bool begin = v >= ARRAY_SIZE(verbs);
		unsigned int verb = verbs[v % ARRAY_SIZE(verbs)];

		for (missing = 1; missing < size; missing++) {
			struct twheel_timer t = { .id = self->id, .deadline_ns = 1000 };
			char *end = border(_metadata, PROT_READ | PROT_WRITE);

			memcpy(end + missing - size, &t, size);
			ASSERT_EQ(0, mprotect(begin ? end - page : end, page, PROT_READ));
			EXPECT_EQ(-EFAULT, call(self->fd, verb, end + missing - size))
				TH_LOG("verb %u, %zu missing", v, missing);
		}
	}
	expect_same(_metadata, self->fd, &before);
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
}

/* An unread event survives a REARM or CANCEL whose result could not be written. */
TEST_F(fault, unread_survives_read_only)
{
	struct twheel_timer t = { .id = self->id, .deadline_ns = HOUR };
	struct twheel_event ev;

	ASSERT_EQ(TWHEEL_ARMED, rearm(self->fd, self->id, 0, 0));
	EXPECT_EQ(-EFAULT, call(self->fd, TWHEEL_IOC_REARM, read_only(_metadata, &t, sizeof(t))));
	EXPECT_EQ(-EFAULT, call(self->fd, TWHEEL_IOC_CANCEL, read_only(_metadata, &t, sizeof(t))));
	EXPECT_EQ(TWHEEL_EXPIRED, state(self->fd, self->id));
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(self->id, ev.id);
	EXPECT_EQ(42, ev.user_data);
}

/* A SETUP that cannot report the shape has not shaped the wheel. */
TEST(setup_read_only)
{
	struct twheel_setup s = { .tick_ns = 1 << 24, .slot_bits = 8, .max_timers = 7 };
	int fd = open_wheel(_metadata, O_NONBLOCK);
	struct twheel_info before;
	size_t missing;

	before = info(_metadata, fd);
	EXPECT_EQ(-EFAULT, call(fd, TWHEEL_IOC_SETUP, read_only(_metadata, &s, sizeof(s))));
	expect_same_info(_metadata, fd, &before);
	/* Nor does one that cannot write only the end of it. */
	for (missing = 4; missing < sizeof(s); missing += 4) {
		char *end = border(_metadata, PROT_READ | PROT_WRITE);

		memcpy(end + missing - sizeof(s), &s, sizeof(s));
		ASSERT_EQ(0, mprotect(end, sysconf(_SC_PAGESIZE), PROT_READ));
		EXPECT_EQ(-EFAULT, call(fd, TWHEEL_IOC_SETUP, end + missing - sizeof(s)));
		expect_same_info(_metadata, fd, &before);
	}
	EXPECT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &s));
	close(fd);
}

/* Returns @size writable bytes on pages that are shared until they are written to. */
static void *shared_until_written(struct __test_metadata *_metadata, const void *from, size_t size)
{
	int fd = memfd_create("argument", MFD_CLOEXEC);
	void *p;

	ASSERT_EQ((ssize_t)size, write(fd, from, size));
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	ASSERT_TRUE(p != MAP_FAILED);
	close(fd);
	return p;
}

/* A call whose output has to wait for its page is carried out once. */
TEST_F(fault, answer_needs_page)
{
	enum { N = 1000 };
	struct twheel_timer one = { .deadline_ns = HOUR }, *t;
	static struct twheel_op ops[N];
	struct twheel_op *copy;
	unsigned int i, wrong = 0;
	struct twheel_stats s;
	__u64 start = now(CLOCK_MONOTONIC);

	t = shared_until_written(_metadata, &one, sizeof(one));
	EXPECT_EQ(0, call(self->fd, TWHEEL_IOC_REGISTER, t));
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, t->id));
	/* The delay was added to the time only once. */
	EXPECT_LE(start + HOUR, t->deadline_ns);
	EXPECT_GE(now(CLOCK_MONOTONIC) + HOUR, t->deadline_ns);
	one.id = t->id;
	munmap(t, sizeof(one));
	t = shared_until_written(_metadata, &one, sizeof(one));
	EXPECT_EQ(0, call(self->fd, TWHEEL_IOC_REARM, t));
	EXPECT_EQ(TWHEEL_ARMED, t->state);
	EXPECT_GE(now(CLOCK_MONOTONIC) + HOUR, t->deadline_ns);
	fill_ops(ops, N, TWHEEL_OP_REGISTER, HOUR, TWHEEL_KEEP);
	copy = shared_until_written(_metadata, ops, sizeof(ops));
	EXPECT_EQ(N, batch(self->fd, copy, N));
	s = stats(_metadata, self->fd);
	EXPECT_EQ(2 + N, s.registered);
	EXPECT_EQ(2 + N, s.armed);
	for (i = 0; i < N; i++)
		wrong += copy[i].result || state(self->fd, copy[i].timer.id) != TWHEEL_ARMED;
	EXPECT_EQ(0, wrong);
	munmap(t, sizeof(one));
	munmap(copy, sizeof(ops));
}

/* A refusal that waits for the argument's page leaves the argument as it was. */
TEST_F(fault, refusal_needs_page)
{
	const struct twheel_op asked[] = {
		{ .opcode = TWHEEL_OP_REGISTER, .timer = { .deadline_ns = 7, .flags = 1U << 31 } },
		{ .opcode = TWHEEL_OP_REARM, .timer = { .deadline_ns = 8, .id = NEVER } },
	};
	static const int results[] = { -EINVAL, -ENOENT };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(asked); i++) {
		struct twheel_op *op = shared_until_written(_metadata, &asked[i], sizeof(*op));

		EXPECT_EQ(1, batch(self->fd, op, 1));
		EXPECT_EQ(results[i], op->result);
		EXPECT_EQ(0, memcmp(&asked[i].timer, &op->timer, sizeof(op->timer)));
		munmap(op, sizeof(*op));
	}
}

/* A result that is written over the word of its own timer. REARM does not retry forever. */
TEST_F(fault, answer_over_word)
{
	struct table t = map_table(_metadata, self->fd);
	__u64 id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 0);
	struct twheel_slot *slot = slot_of(&t, id);
	struct twheel_timer *arg;
	__u64 start = now(CLOCK_MONOTONIC);

	/* The slots on both sides have no timer. */
	EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, self->id));
	arg = (void *)((char *)slot - offsetof(struct twheel_timer, deadline_ns));
	*arg = (struct twheel_timer){ .id = id, .deadline_ns = HOUR, .flags = TWHEEL_KEEP };
	EXPECT_EQ(0, call(self->fd, TWHEEL_IOC_REARM, arg));
	EXPECT_EQ(TWHEEL_ARMED, arg->state);
	EXPECT_LE(start + HOUR, word(slot));
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, id));
	EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, id));
	unmap_table(&t);
}

/* EFAULT for the array of a batch, and nothing was done. */
TEST_F(fault, batch_array)
{
	struct twheel_op op = {
		.timer.deadline_ns = HOUR,
		.opcode = TWHEEL_OP_REGISTER,
	};
	struct twheel_stats before = stats(_metadata, self->fd), after;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad_addresses); i++)
		EXPECT_EQ(-EFAULT, batch(self->fd, bad_address(i), 1));
	EXPECT_EQ(-EFAULT, batch(self->fd, (void *)(border(_metadata, PROT_NONE) - 48), 1));
	expect_same(_metadata, self->fd, &before);

	EXPECT_EQ(-EFAULT, batch(self->fd, read_only(_metadata, &op, sizeof(op)), 1));
	after = stats(_metadata, self->fd);
	EXPECT_EQ(before.armed, after.armed);
	EXPECT_EQ(before.allocated, after.allocated);
}

/* A batch that runs into a bad page reports how much it did before, and did exactly that. */
TEST_F(fault, batch_across_border)
{
	static const int prots[] = { PROT_NONE, PROT_READ };
	static const unsigned int wholes[] = { 1, 5, 15, 16, 17, 40 };
	/* From the last byte missing to the whole operation missing. */
	static const unsigned int cuts[] = { 1, 4, 8, 28, 55, 56 };
	unsigned int p, w, i, missing;

	for (p = 0; p < ARRAY_SIZE(prots); p++) {
		for (w = 0; w < ARRAY_SIZE(wholes) * ARRAY_SIZE(cuts); w++) {
			unsigned int whole = wholes[w / ARRAY_SIZE(cuts)];
			char *end = border(_metadata, PROT_READ | PROT_WRITE);
			struct twheel_op *ops;
			struct twheel_stats s;

			missing = cuts[w % ARRAY_SIZE(cuts)];
			ops = (void *)(end + missing - (whole + 1) * sizeof(*ops));

			for (i = 0; i < whole + 4; i++)
				ops[i] = (struct twheel_op) {
					.timer.deadline_ns = HOUR,
					.timer.user_data = i,
					.opcode = TWHEEL_OP_REGISTER,
					.result = -1,
				};
			ASSERT_EQ(0, mprotect(end, sysconf(_SC_PAGESIZE), prots[p]));
			EXPECT_EQ(whole, batch(self->fd, ops, whole + 4))
				TH_LOG("protection %d, %u bytes missing", prots[p], missing);
			s = stats(_metadata, self->fd);
			EXPECT_EQ(1 + whole, s.allocated);
			EXPECT_EQ(1 + whole, s.armed);
			for (i = 0; i < whole; i++) {
				EXPECT_EQ(0, ops[i].result);
				EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, ops[i].timer.id));
			}
		}
	}
}

/* A pointer has 64 bits even in a 32-bit program, and its upper half is not cut off. */
TEST_F(fault, pointer_upper_half)
{
	static const unsigned int bits[] = { 32, 33, 47, 48, 55, 62, 63 };
	struct twheel_stats before = stats(_metadata, self->fd);
	struct twheel_timer *timers = calloc(4, sizeof(*timers));
	struct twheel_op *ops = calloc(1, sizeof(*ops));
	unsigned int i;

	ops->opcode = TWHEEL_OP_REGISTER;
	ops->timer.deadline_ns = HOUR;
	for (i = 0; i < ARRAY_SIZE(bits); i++) {
		struct twheel_batch b = { .ops = ptr_u64(ops) ^ 1ULL << bits[i], .count = 1 };
		struct twheel_list l = { .timers = ptr_u64(timers) ^ 1ULL << bits[i], .count = 4 };

		EXPECT_EQ(-EFAULT, call(self->fd, TWHEEL_IOC_BATCH, &b))
			TH_LOG("bit %u", bits[i]);
		EXPECT_EQ(-EFAULT, call(self->fd, TWHEEL_IOC_LIST, &l))
			TH_LOG("bit %u", bits[i]);
		EXPECT_EQ(0, l.cursor);
	}
	expect_same(_metadata, self->fd, &before);
	free(timers);
	free(ops);
}

/* EFAULT for the array of LIST, and the cursor does not move. */
TEST_F(fault, list_array)
{
	__u32 cursor = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		EXPECT_EQ(-EFAULT, list(self->fd, bad_address(i), 1, &cursor));
		EXPECT_EQ(0, cursor);
	}
	EXPECT_EQ(-EFAULT, list(self->fd, (void *)border(_metadata, PROT_READ), 1, &cursor));
	EXPECT_EQ(0, cursor);
}

/*
 * A LIST that runs into a bad page reports the timers that it copied whole, and continues from
 * there.
 */
TEST_F(fault, list_across_border)
{
	static const int prots[] = { PROT_NONE, PROT_READ };
	static const unsigned int wholes[] = { 1, 5, 15, 16, 17, 40 };
	static const unsigned int cuts[] = { 1, 8, 47, 48 };
	unsigned int p, c, i;

	add_many(_metadata, self->fd, 59, HOUR, 0, 1000, NULL);
	for (p = 0; p < ARRAY_SIZE(prots); p++) {
		for (c = 0; c < ARRAY_SIZE(wholes) * ARRAY_SIZE(cuts); c++) {
			unsigned int whole = wholes[c / ARRAY_SIZE(cuts)];
			struct twheel_timer rest[64], *page;
			__u32 cursor = 0;

			page = (void *)(border(_metadata, prots[p]) + cuts[c % ARRAY_SIZE(cuts)] -
					(whole + 1) * sizeof(*page));
			EXPECT_EQ(whole, list(self->fd, page, 60, &cursor));
			EXPECT_EQ(60 - whole, list(self->fd, rest, ARRAY_SIZE(rest), &cursor));
			for (i = 1; i < whole; i++)
				EXPECT_LT(page[i - 1].id & 0xffffffff, page[i].id & 0xffffffff);
			EXPECT_LT(page[whole - 1].id & 0xffffffff, rest[0].id & 0xffffffff);
		}
	}
}

/* A LIST that cannot move the cursor fails. */
TEST_F(fault, list_read_only_argument)
{
	struct twheel_timer page[4];
	struct twheel_list l = { .timers = ptr_u64(page), .count = ARRAY_SIZE(page) };

	EXPECT_EQ(-EFAULT, call(self->fd, TWHEEL_IOC_LIST, read_only(_metadata, &l, sizeof(l))));
	EXPECT_EQ(1, list_all(self->fd));
}

#define UNREAD	100

/* Makes UNREAD unread events, in order, with user_data from 0 up. */
static void make_unread(struct __test_metadata *_metadata, int fd)
{
	unsigned int i;

	for (i = 0; i < UNREAD; i++)
		add(_metadata, fd, 0, 0, i);
	while (stats(_metadata, fd).unread < UNREAD)
		sleep_ms(1);
}

static void expect_unread(struct __test_metadata *_metadata, int fd, unsigned int first)
{
	struct twheel_event ev[UNREAD + 1];
	unsigned int i;

	EXPECT_EQ(UNREAD - first, take(fd, ev, ARRAY_SIZE(ev), 0));
	for (i = first; i < UNREAD; i++) {
		EXPECT_EQ(i, ev[i - first].user_data);
		EXPECT_EQ(1, ev[i - first].expirations);
	}
	EXPECT_FALSE(readable(fd, 0));
}

/* A read() into memory that cannot be written fails with EFAULT, and consumes nothing. */
TEST_F(fault, read_buffer)
{
	const size_t size = UNREAD * sizeof(struct twheel_event);
	unsigned int i;

	make_unread(_metadata, self->fd);
	for (i = 0; i < ARRAY_SIZE(bad_addresses); i++)
		EXPECT_EQ(-EFAULT, errno_of(read(self->fd, bad_address(i), size)));
	EXPECT_EQ(-EFAULT, errno_of(read(self->fd, border(_metadata, PROT_READ), size)));
	EXPECT_EQ(-EFAULT, errno_of(read(self->fd, border(_metadata, PROT_NONE), size)));
	expect_unread(_metadata, self->fd, 0);
}

#ifdef __aarch64__
/*
 * Memory whose tag differs from the pointer's can be faulted in, but not stored to. That is
 * EFAULT too, or the events that were read before it.
 */
TEST_F(fault, read_other_tag)
{
	struct twheel_event ev;
	struct iovec iov[2] = { { &ev, sizeof(ev) }, { NULL, sizeof(ev) } };
	void *page;

	/* The machine of vm/run.sh has memory tags. */
	if (!(getauxval(AT_HWCAP2) & HWCAP2_MTE))
		SKIP(return, "no tags on memory");
	ASSERT_EQ(0, prctl(PR_SET_TAGGED_ADDR_CTRL, PR_TAGGED_ADDR_ENABLE | PR_MTE_TCF_SYNC,
			   0, 0, 0));
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_MTE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	/* The memory has tag 0. */
	iov[1].iov_base = (void *)((uintptr_t)page | 1UL << 56);
	make_unread(_metadata, self->fd);
	EXPECT_EQ(-EFAULT, errno_of(read(self->fd, iov[1].iov_base, sizeof(ev))));
	EXPECT_EQ(sizeof(ev), readv(self->fd, iov, 2));
	EXPECT_EQ(0, ev.user_data);
	expect_unread(_metadata, self->fd, 1);
}
#endif

/* G4: A first event that does not fit before a bad page: EFAULT, and the event is not lost. */
TEST_F(fault, read_first_event_across_border)
{
	static const int prots[] = { PROT_NONE, PROT_READ };
	const size_t event = sizeof(struct twheel_event);
	unsigned int p;
	size_t fit;

	make_unread(_metadata, self->fd);
	for (p = 0; p < ARRAY_SIZE(prots); p++) {
		char *end = border(_metadata, prots[p]);

		for (fit = 1; fit < event; fit++)
			EXPECT_EQ(-EFAULT, errno_of(read(self->fd, end - fit, UNREAD * event)));
	}
	expect_unread(_metadata, self->fd, 0);
}

/* G4: A later fault returns the events that were copied whole; the others stay. */
TEST_F(fault, read_across_border)
{
	static const int prots[] = { PROT_NONE, PROT_READ };
	const size_t event = sizeof(struct twheel_event);
	static const unsigned int wholes[] = { 1, 2, 15, 16, 17, 32, 63, 64, 65, 84 };
	unsigned int p, w, i;
	size_t extra;

	for (p = 0; p < ARRAY_SIZE(prots); p++) {
		for (w = 0; w < ARRAY_SIZE(wholes); w++) {
			for (extra = 0; extra < event; extra += 13) {
				unsigned int whole = wholes[w];
				char *end = border(_metadata, prots[p]);
				char *buf = end - whole * event - extra;
				struct twheel_event ev;

				make_unread(_metadata, self->fd);
				EXPECT_EQ(whole * event, read(self->fd, buf, UNREAD * event));
				for (i = 0; i < whole; i++) {
					memcpy(&ev, buf + i * event, event);
					EXPECT_EQ(i, ev.user_data);
				}
				expect_unread(_metadata, self->fd, whole);
			}
		}
	}
}

/* Events lie side by side in pages that the read itself has to fault in. */
TEST_F(fault, read_into_fresh_pages)
{
	enum { N = 2000, SIZE = N * sizeof(struct twheel_event) };
	struct twheel_event *ev;
	unsigned int i;

	add_many(_metadata, self->fd, N, 0, 0, 0, NULL);
	while (stats(_metadata, self->fd).unread < N)
		sleep_ms(1);
	ev = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(ev != MAP_FAILED);
	EXPECT_EQ(SIZE, read(self->fd, ev, SIZE));
	for (i = 0; i < N; i++) {
		ASSERT_EQ(1, ev[i].expirations);
		ASSERT_LT(ev[i].user_data, N);
		ASSERT_GE(ev[i].expired_ns, ev[i].deadline_ns);
	}
	munmap(ev, SIZE);
}

/* The same if the second vector of readv() is bad. */
TEST_F(fault, readv_second_vector)
{
	const size_t event = sizeof(struct twheel_event);
	char *bad = border(_metadata, PROT_READ);
	struct twheel_event ev[2];
	struct iovec iov[2] = {
		{ .iov_base = ev, .iov_len = 2 * event },
		{ .iov_base = bad, .iov_len = 3 * event },
	};

	make_unread(_metadata, self->fd);
	EXPECT_EQ(2 * event, readv(self->fd, iov, 2));
	EXPECT_EQ(0, ev[0].user_data);
	EXPECT_EQ(1, ev[1].user_data);
	expect_unread(_metadata, self->fd, 2);

	/* Half of the first event does not count as an event. */
	iov[0].iov_len = event / 2;
	make_unread(_metadata, self->fd);
	EXPECT_EQ(-EFAULT, errno_of(readv(self->fd, iov, 2)));
	expect_unread(_metadata, self->fd, 0);
}

/* A one-shot timer whose event could not be copied lives on, and so does its id. */
TEST_F(fault, id_survives_failed_read)
{
	__u64 id = add(_metadata, self->fd, 0, 0, 7);

	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	EXPECT_EQ(-EFAULT, errno_of(read(self->fd, border(_metadata, PROT_READ), 4096)));
	EXPECT_EQ(TWHEEL_EXPIRED, state(self->fd, id));
	EXPECT_EQ(TWHEEL_EXPIRED, cancel(self->fd, id));
	EXPECT_FALSE(readable(self->fd, 0));
}

/* The time of a failed read is not taken as the time at which a periodic timer expired. */
TEST_F(fault, time_survives_failed_read)
{
	struct twheel_timer t = { .deadline_ns = NS_PER_MS, .period_ns = 20 * NS_PER_MS };
	struct twheel_event ev;
	unsigned int i;
	__u64 seen;

	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	seen = now(CLOCK_MONOTONIC);
	for (i = 0; i < 3; i++) {
		sleep_ms(50);
		EXPECT_EQ(-EFAULT, errno_of(read(self->fd, border(_metadata, PROT_READ), 4096)));
	}
	ASSERT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_LE(ev.expired_ns, seen);
	/* Its periods are counted all the same. */
	EXPECT_LE((seen + 150 * NS_PER_MS - ev.deadline_ns) / t.period_ns, ev.expirations);
	EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, t.id));

	/* Nor is it for an event that comes within the same period. */
	t = (struct twheel_timer) { .deadline_ns = NS_PER_MS, .period_ns = HOUR };
	EXPECT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	ASSERT_TRUE(readable(self->fd, TIMEOUT_MS));
	seen = now(CLOCK_MONOTONIC);
	sleep_ms(50);
	EXPECT_EQ(-EFAULT, errno_of(read(self->fd, border(_metadata, PROT_READ), 4096)));
	ASSERT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_LE(ev.expired_ns, seen);
	EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, t.id));
}

TEST_HARNESS_MAIN
