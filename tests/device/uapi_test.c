// SPDX-License-Identifier: GPL-2.0
/*
 * The binary interface: sizes, numbers, and which calls are refused with which error.
 */
#include "twheel_test.h"

#include <sys/mman.h>

/* Rows of places[]: the size of a type, and the offset of a field in it. */
#define FIELD(type, field, offset) \
	{ #type "." #field, offsetof(struct twheel_##type, field), offset }
#define SIZE(type, size)	{ #type, sizeof(struct twheel_##type), size }

static const struct {
	char what[32];
	size_t is;
	size_t shall_be;
} places[] = {
	SIZE(setup, 40), FIELD(setup, tick_ns, 0), FIELD(setup, clock_id, 8),
	FIELD(setup, max_timers, 12), FIELD(setup, levels, 16), FIELD(setup, slot_bits, 20),
	FIELD(setup, flags, 24), FIELD(setup, reserved, 28),
	SIZE(info, 96), FIELD(info, features, 0), FIELD(info, tick_ns, 8),
	FIELD(info, min_tick_ns, 16), FIELD(info, horizon_ns, 24), FIELD(info, table_bytes, 32),
	FIELD(info, clock_id, 40), FIELD(info, max_timers, 44), FIELD(info, levels, 48),
	FIELD(info, slot_bits, 52), FIELD(info, reserved, 56),
	SIZE(timer, 48), FIELD(timer, id, 0), FIELD(timer, user_data, 8),
	FIELD(timer, deadline_ns, 16), FIELD(timer, period_ns, 24), FIELD(timer, slack_ns, 32),
	FIELD(timer, flags, 40), FIELD(timer, state, 44),
	SIZE(op, 56), FIELD(op, timer, 0), FIELD(op, opcode, 48), FIELD(op, result, 52),
	SIZE(batch, 16), FIELD(batch, ops, 0), FIELD(batch, count, 8), FIELD(batch, flags, 12),
	SIZE(list, 16), FIELD(list, timers, 0), FIELD(list, count, 8), FIELD(list, cursor, 12),
	SIZE(event, 48), FIELD(event, id, 0), FIELD(event, user_data, 8),
	FIELD(event, deadline_ns, 16), FIELD(event, expired_ns, 24), FIELD(event, expirations, 32),
	FIELD(event, flags, 40), FIELD(event, reserved, 44),
	SIZE(stats, 704), FIELD(stats, armed, 0), FIELD(stats, unread, 8),
	FIELD(stats, allocated, 16), FIELD(stats, registered, 24), FIELD(stats, rearmed, 32),
	FIELD(stats, cancelled, 40), FIELD(stats, expired, 48), FIELD(stats, delivered, 56),
	FIELD(stats, armings, 64), FIELD(stats, displaced, 72), FIELD(stats, withdrawn, 80),
	FIELD(stats, moved, 88), FIELD(stats, cascaded, 96), FIELD(stats, wakeups, 104),
	FIELD(stats, worst_lateness_ns, 112), FIELD(stats, lateness, 120),
	FIELD(stats, lateness_sum_ns, 632), FIELD(stats, reserved, 640),
	SIZE(table, 64), FIELD(table, magic, 0), FIELD(table, slots_offset, 4),
	FIELD(table, slot_size, 8), FIELD(table, slots, 12), FIELD(table, tick_ns, 16),
	FIELD(table, clock_id, 24), FIELD(table, features, 28), FIELD(table, next_ns, 32),
	FIELD(table, marks_offset, 40), FIELD(table, summary_offset, 44),
	FIELD(table, summary_shift, 48), FIELD(table, reserved, 52),
	SIZE(slot, 16), FIELD(slot, deadline_ns, 0), FIELD(slot, wake_ns, 8),
};

/* Sizes and offsets are those that existing programs were compiled with. */
TEST(layout)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(places); i++)
		EXPECT_EQ(places[i].shall_be, places[i].is)
			TH_LOG("%s", places[i].what);
}

/* The command numbers are those that existing programs were compiled with. */
TEST(command_numbers)
{
	static const unsigned int numbers[] = {
		0xc028c500, 0x8060c501, 0xc030c502, 0xc030c503, 0xc030c504, 0xc030c505,
		0x4010c506, 0xc010c508, 0x0000c509, 0x82c0c50a,
	};

	EXPECT_EQ(sizeof(numbers), sizeof(commands));
	EXPECT_EQ(0, memcmp(numbers, commands, sizeof(numbers)));
}

/* The values of flags, states and opcodes are those that existing programs were compiled with. */
TEST(constants)
{
	EXPECT_EQ(1U, TWHEEL_SETUP_REALTIME);
	EXPECT_EQ(1U, TWHEEL_FEATURE_TABLE);
	EXPECT_EQ(2U, TWHEEL_FEATURE_MARKS);
	EXPECT_EQ(4U, TWHEEL_FEATURE_PARKED);
	EXPECT_EQ(~0ULL - 1, TWHEEL_PARKED);
	EXPECT_EQ(1U, TWHEEL_ABSTIME);
	EXPECT_EQ(2U, TWHEEL_KEEP);
	EXPECT_EQ(4U, TWHEEL_DISARMED);
	EXPECT_EQ(0U, TWHEEL_IDLE);
	EXPECT_EQ(1U, TWHEEL_ARMED);
	EXPECT_EQ(2U, TWHEEL_EXPIRED);
	EXPECT_EQ(1U, TWHEEL_OP_REGISTER);
	EXPECT_EQ(2U, TWHEEL_OP_REARM);
	EXPECT_EQ(3U, TWHEEL_OP_CANCEL);
	EXPECT_EQ(4U, TWHEEL_OP_GET);
	EXPECT_EQ(65536U, TWHEEL_BATCH_MAX);
}

FIXTURE(refused) {
	int fd;
	__u64 id;
	struct twheel_stats before;
};

FIXTURE_SETUP(refused)
{
	self->fd = open_wheel(_metadata, O_NONBLOCK);
	self->id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 42);
	self->before = stats(_metadata, self->fd);
}

/* Expects that the refused calls have changed nothing. */
FIXTURE_TEARDOWN(refused)
{
	struct twheel_stats after = stats(_metadata, self->fd);
	struct twheel_timer t;

	EXPECT_TRUE(same_counts(&self->before, &after));
	EXPECT_EQ(0, get_timer(self->fd, self->id, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	EXPECT_EQ(42, t.user_data);
	EXPECT_EQ(TWHEEL_KEEP, t.flags & TWHEEL_KEEP);
	EXPECT_EQ(0, t.period_ns);
	EXPECT_FALSE(readable(self->fd, 0));
	close_wheel(_metadata, self->fd);
}

/* mmap() works exactly if INFO says so. */
TEST_F(refused, table_as_announced)
{
	struct twheel_info i = info(_metadata, self->fd);
	bool table = i.features & TWHEEL_FEATURE_TABLE;
	size_t bytes = table ? i.table_bytes : (size_t)sysconf(_SC_PAGESIZE);
	void *p;

	EXPECT_EQ(table, i.table_bytes != 0);
	EXPECT_EQ(0, turn_now(self->fd));
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
	if (table) {
		EXPECT_TRUE(p != MAP_FAILED);
	} else {
		EXPECT_TRUE(p == MAP_FAILED);
		EXPECT_EQ(EOPNOTSUPP, errno);
	}
}

/* EINVAL for unknown bits of twheel_timer.flags, with each verb. */
TEST_F(refused, unknown_timer_flags)
{
	static const unsigned int verbs[] = {
		TWHEEL_IOC_REGISTER, TWHEEL_IOC_REARM, TWHEEL_IOC_CANCEL, TWHEEL_IOC_GET,
	};
	unsigned int v, bit;

	for (v = 0; v < ARRAY_SIZE(verbs); v++) {
		for (bit = 3; bit < 32; bit++) {
			struct twheel_timer t = {
				.id = self->id,
				.deadline_ns = HOUR,
				.flags = TWHEEL_KEEP | 1U << bit,
			};

			EXPECT_EQ(-EINVAL, call(self->fd, verbs[v], &t))
				TH_LOG("verb %u, bit %u", v, bit);
			/* Not even an output was written. */
			EXPECT_EQ(self->id, t.id);
			EXPECT_EQ(HOUR, t.deadline_ns);
		}
	}
}

/* EINVAL for the same flags in a batch. */
TEST_F(refused, unknown_timer_flags_in_batch)
{
	struct twheel_op ops[4 * 29];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		ops[i] = (struct twheel_op) {
			.timer.id = self->id,
			.timer.deadline_ns = HOUR,
			.timer.flags = TWHEEL_KEEP | 1U << (3 + i % 29),
			.opcode = TWHEEL_OP_REGISTER + i / 29,
		};
	}
	EXPECT_EQ(ARRAY_SIZE(ops), batch(self->fd, ops, ARRAY_SIZE(ops)));
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		EXPECT_EQ(-EINVAL, ops[i].result);
}

/* EINVAL for a timer that is neither armed nor kept, which could never do anything. */
TEST_F(refused, register_disarmed_without_keep)
{
	struct twheel_timer t = { .deadline_ns = HOUR, .flags = TWHEEL_DISARMED };

	EXPECT_EQ(-EINVAL, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
	t.flags |= TWHEEL_ABSTIME;
	EXPECT_EQ(-EINVAL, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
}

/* EINVAL for a period below one tick, with REGISTER and with REARM. */
TEST_F(refused, period_below_tick)
{
	static const __u64 periods[] = { 1, 1000, DEFAULT_TICK - 1 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		struct twheel_timer t = {
			.deadline_ns = HOUR,
			.period_ns = periods[i],
			.flags = TWHEEL_KEEP,
		};

		EXPECT_EQ(-EINVAL, verb(self->fd, TWHEEL_IOC_REGISTER, &t));
		t.id = self->id;
		EXPECT_EQ(-EINVAL, verb(self->fd, TWHEEL_IOC_REARM, &t));
	}
}

/* ENOENT if no live timer has this id, with each verb and in a batch. */
TEST_F(refused, unknown_ids)
{
	__u64 generation = self->id >> 32 << 32;
	__u64 slot = self->id & 0xffffffff;
	const __u64 ids[] = {
		0,
		slot,
		NEVER,
		generation | (slot + 1),
		generation | 0xffffffff,
		generation | 0x7fffffff,
		generation | 1048576,
		self->id + (1ULL << 32),
		self->id - (1ULL << 32),
		self->id ^ (1ULL << 63),
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		struct twheel_op ops[3];
		unsigned int k;

		EXPECT_EQ(-ENOENT, rearm(self->fd, ids[i], HOUR, 0));
		EXPECT_EQ(-ENOENT, cancel(self->fd, ids[i]));
		EXPECT_EQ(-ENOENT, state(self->fd, ids[i]));
		for (k = 0; k < ARRAY_SIZE(ops); k++)
			ops[k] = (struct twheel_op) {
				.timer.id = ids[i],
				.timer.deadline_ns = HOUR,
				.opcode = TWHEEL_OP_REARM + k,
			};
		EXPECT_EQ(3, batch(self->fd, ops, 3));
		for (k = 0; k < ARRAY_SIZE(ops); k++)
			EXPECT_EQ(-ENOENT, ops[k].result);
	}
}

/*
 * EBADF for a call that changes a wheel, on a descriptor that is not open for writing, and
 * nothing is changed. Calls that only report need no particular mode.
 */
TEST(modes)
{
	static const int modes[] = { O_RDONLY, O_WRONLY };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		int fd = open(TWHEEL_DEVICE, modes[i] | O_CLOEXEC | O_NONBLOCK);
		int wanted = modes[i] == O_RDONLY ? -EBADF : 0;
		struct twheel_timer t = { .deadline_ns = HOUR, .flags = TWHEEL_KEEP };
		struct twheel_op op = { .opcode = TWHEEL_OP_GET };
		struct twheel_setup setup = { .tick_ns = NS_PER_SEC };
		struct twheel_info info;
		struct twheel_stats s;
		__u32 cursor = 0;

		ASSERT_GE(fd, 0);
		EXPECT_EQ(wanted, call(fd, TWHEEL_IOC_SETUP, &setup));
		EXPECT_EQ(wanted, call(fd, TWHEEL_IOC_REGISTER, &t));
		EXPECT_EQ(wanted, call(fd, TWHEEL_IOC_REARM, &t));
		EXPECT_EQ(wanted, turn_now(fd));
		EXPECT_EQ(wanted ? wanted : 1, batch(fd, &op, 1));
		EXPECT_EQ(wanted ? -ENOENT : 0, get_timer(fd, t.id, &t));
		EXPECT_EQ(!wanted, list(fd, &t, 1, &cursor));
		t.flags = 0;
		EXPECT_EQ(wanted, call(fd, TWHEEL_IOC_CANCEL, &t));
		EXPECT_EQ(0, call(fd, TWHEEL_IOC_INFO, &info));
		EXPECT_EQ(0, call(fd, TWHEEL_IOC_STATS, &s));
		EXPECT_EQ(wanted ? 0 : 1, s.registered);
		EXPECT_EQ(wanted ? DEFAULT_TICK : 1ULL << 29, info.tick_ns);
		EXPECT_EQ(-ENOTTY, call(fd, 0xc010c507, &t));
		close(fd);
	}
}

/* A member that is only an output is not checked. */
TEST(outputs_are_not_inputs)
{
	int fd = open_wheel(_metadata, O_NONBLOCK);
	struct twheel_timer t;
	struct twheel_op op;

	poison(&t);
	t.deadline_ns = HOUR;
	t.period_ns = 0;
	t.slack_ns = 0;
	t.flags = TWHEEL_KEEP;
	EXPECT_EQ(0, call(fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	t.state = 0xcccccccc;
	EXPECT_EQ(0, call(fd, TWHEEL_IOC_REARM, &t));
	t.state = 0xcccccccc;
	EXPECT_EQ(0, call(fd, TWHEEL_IOC_GET, &t));
	op = (struct twheel_op) { .timer = t, .opcode = TWHEEL_OP_GET };
	poison(&op.timer.state);
	poison(&op.result);
	EXPECT_EQ(1, batch(fd, &op, 1));
	EXPECT_EQ(0, op.result);
	EXPECT_EQ(TWHEEL_ARMED, op.timer.state);
	t.state = 0xcccccccc;
	EXPECT_EQ(0, call(fd, TWHEEL_IOC_CANCEL, &t));
	EXPECT_EQ(TWHEEL_ARMED, t.state);
	close(fd);
}

/* Reserved fields of INFO and STATS are zero, and every byte of the result is written. */
TEST(outputs_are_whole)
{
	static const char zero[sizeof(struct twheel_stats)];
	int fd = open_wheel(_metadata, O_NONBLOCK);
	struct twheel_stats s;
	struct twheel_info i;

	i = info(_metadata, fd);
	EXPECT_EQ(0, memcmp(i.reserved, zero, sizeof(i.reserved)));
	EXPECT_EQ(0, i.features & ~(TWHEEL_FEATURE_TABLE | TWHEEL_FEATURE_MARKS |
				   TWHEEL_FEATURE_PARKED));
	/* Nothing has happened, so all counters are zero. */
	s = stats(_metadata, fd);
	EXPECT_EQ(0, memcmp(&s, zero, sizeof(s)));
	close(fd);
}

/*
 * In a module built as "canary" (vm/module.sh), uninitialized memory is filled with 0xfe. No
 * four such bytes, aligned like a field, may leave the kernel. Random numbers would contain
 * them once in several billion.
 */
static bool has_canary(const void *p, size_t size)
{
	const __u32 *words = p;
	size_t i;

	for (i = 0; i < size / sizeof(*words); i++)
		if (words[i] == 0xfefefefe)
			return true;
	return false;
}

#define EXPECT_CLEAN(what)	EXPECT_FALSE(has_canary(&(what), sizeof(what)))

TEST(no_stray_bytes)
{
	struct twheel_op ops[40] = { 0 };
	struct twheel_timer t, timers[64];
	struct twheel_list l = { .timers = ptr_u64(timers), .count = ARRAY_SIZE(timers) };
	struct twheel_batch b = { .ops = ptr_u64(ops), .count = ARRAY_SIZE(ops) };
	struct twheel_setup setup = { 0 };
	struct twheel_event ev[ARRAY_SIZE(ops)];
	int fd = open_wheel(_metadata, O_NONBLOCK);
	struct twheel_stats s;
	struct twheel_info i;
	unsigned int k;
	char *map;

	ASSERT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &setup));
	EXPECT_CLEAN(setup);
	ASSERT_EQ(0, call(fd, TWHEEL_IOC_INFO, &i));
	EXPECT_CLEAN(i);
	for (k = 0; k < ARRAY_SIZE(ops); k++) {
		ops[k].opcode = TWHEEL_OP_REGISTER;
		ops[k].timer.flags = TWHEEL_KEEP;
		ops[k].timer.deadline_ns = k % 3 ? HOUR : 0;
		ops[k].timer.period_ns = k % 5 ? 0 : HOUR;
	}
	ASSERT_EQ(ARRAY_SIZE(ops), call(fd, TWHEEL_IOC_BATCH, &b));
	EXPECT_CLEAN(b);
	EXPECT_CLEAN(ops);
	ASSERT_EQ(ARRAY_SIZE(ops), call(fd, TWHEEL_IOC_LIST, &l));
	EXPECT_CLEAN(l);
	EXPECT_FALSE(has_canary(timers, ARRAY_SIZE(ops) * sizeof(*timers)));
	t = ops[0].timer;
	ASSERT_EQ(0, call(fd, TWHEEL_IOC_GET, &t));
	EXPECT_CLEAN(t);
	ASSERT_EQ(0, call(fd, TWHEEL_IOC_REARM, &t));
	EXPECT_CLEAN(t);
	ASSERT_EQ(0, call(fd, TWHEEL_IOC_CANCEL, &t));
	EXPECT_CLEAN(t);
	t = (struct twheel_timer) { .deadline_ns = HOUR };
	ASSERT_EQ(0, call(fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_CLEAN(t);
	ASSERT_LT(0, expire_all(fd));
	ASSERT_EQ(sizeof(ev), read(fd, ev, sizeof(ev)));
	EXPECT_CLEAN(ev);
	ASSERT_EQ(0, call(fd, TWHEEL_IOC_STATS, &s));
	EXPECT_CLEAN(s);
	map = mmap(NULL, i.table_bytes, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_TRUE(map != MAP_FAILED);
	/* The header's page, and that of the slots in use. */
	EXPECT_FALSE(has_canary(map, 2 * sysconf(_SC_PAGESIZE)));
	munmap(map, i.table_bytes);
	close(fd);
}

TEST_HARNESS_MAIN
