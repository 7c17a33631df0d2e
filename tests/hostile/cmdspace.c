// SPDX-License-Identifier: GPL-2.0
/*
 * The whole space of requests: every command number, with bad and good pointers, and in each
 * field of each argument the 64 values at which something could change. The test predicts the
 * errno from the header alone.
 */
#include "stress.h"

#include <limits.h>

/* Commands that the kernel answers for every file. */
static const unsigned int anybodys[] = {
	0x0002,	/* FIGETBSZ */
	0x5421,	/* FIONBIO */
	0x5450,	/* FIONCLEX */
	0x5451,	/* FIOCLEX */
	0x5452,	/* FIOASYNC */
	0x5460,	/* FIOQSIZE */
};

static bool is_anybodys(unsigned int cmd)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(anybodys); i++)
		if (cmd == anybodys[i])
			return true;
	return false;
}

enum { BAD_POINTERS = ARRAY_SIZE(bad_addresses), POINTERS = BAD_POINTERS + 2 };

/* Addresses that cannot be read, one that cannot be written, and a good one. */
static void *pointer(unsigned int i, void *read_only, void *good)
{
	return i < BAD_POINTERS ? bad_address(i) : i == BAD_POINTERS ? read_only : good;
}

FIXTURE(cmdspace) {
	int fd;
	__u64 id;
	struct twheel_stats before;
};

FIXTURE_SETUP(cmdspace)
{
	self->fd = open_wheel(_metadata, O_NONBLOCK);
	self->id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 5);
	self->before = stats(_metadata, self->fd);
}

WHEEL_TEARDOWN(cmdspace)

/* ENOTTY for each of the 2^16 numbers that is not one of our commands, whatever the pointer. */
TEST_F_TIMEOUT(cmdspace, every_number, UNLIMITED)
{
	/* With the direction and size of one of our commands, and with none. */
	static const unsigned int shapes[] = {
		0,
		TWHEEL_IOC_SETUP & ~0xffffU,
		TWHEEL_IOC_REGISTER & ~0xffffU,
		TWHEEL_IOC_BATCH & ~0xffffU,
		TWHEEL_IOC_STATS & ~0xffffU,
	};
	static char good[1024], zeroes[1024];
	void *fixed = read_only(_metadata, zeroes, sizeof(zeroes));
	unsigned long calls = 0, wrong = 0;
	unsigned int s, low, i;

	for (s = 0; s < ARRAY_SIZE(shapes); s++) {
		for (low = 0; low < 1U << 16; low++) {
			unsigned int cmd = shapes[s] | low;

			if (is_anybodys(cmd) || is_command(cmd))
				continue;
			for (i = 0; i < POINTERS; i++) {
				int ret = call(self->fd, cmd, pointer(i, fixed, good));

				calls++;
				if (ret == -ENOTTY)
					continue;
				if (!wrong++)
					TH_LOG("command %#x: %d", cmd, ret);
			}
		}
	}
	EXPECT_EQ(0, wrong);
	/* None of these calls has written to its argument. */
	EXPECT_EQ(0, memcmp(good, zeroes, sizeof(good)));
	expect_same(_metadata, self->fd, &self->before);
	TH_LOG("%lu calls", calls);
}

/*
 * ENOTTY for our magic with any direction and size but a command's own: all sizes for the
 * first 16 numbers, and those below 1,024 for the others.
 */
TEST_F_TIMEOUT(cmdspace, every_shape, UNLIMITED)
{
	unsigned long calls = 0, wrong = 0, ours = 0;
	unsigned int nr, high;

	for (nr = 0; nr < 256; nr++) {
		for (high = 0; high < 1U << 16; high++) {
			unsigned int cmd = high << 16 | TWHEEL_IOC_MAGIC << 8 | nr;
			int ret;

			if (nr >= 16 && _IOC_SIZE(cmd) >= 1024)
				continue;
			ret = call(self->fd, cmd, NULL);
			calls++;
			ours += is_command(cmd);
			/* KICK accepts NULL. */
			if (ret == (cmd == TWHEEL_IOC_KICK ? 0 :
				    is_command(cmd) ? -EFAULT : -ENOTTY))
				continue;
			if (!wrong++)
				TH_LOG("command %#x: %d", cmd, ret);
		}
	}
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(ARRAY_SIZE(commands), ours);
	expect_same(_metadata, self->fd, &self->before);
	TH_LOG("%lu calls", calls);
}

/* Values at which a sum, a sign, a size or a tick changes. */
static const __u64 values[] = {
	0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 64, 255, 256, 4095, 4096,
	65535, 65536, 65537, 99999, 100000, 100001, 131071, 131072,
	DEFAULT_TICK - 1, DEFAULT_TICK, DEFAULT_TICK + 1, 999999, 1000000, 1000001,
	1 << 20, (1 << 24) - 1, 1 << 24, (1 << 24) + 1,
	NS_PER_SEC - 1, NS_PER_SEC, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001,
	0xfffffffe, 0xffffffff, 0x100000000, 0x100000001, HOUR, 1ULL << 40, 1ULL << 52,
	1ULL << 57, (1ULL << 62) - 1, 1ULL << 62,
	0x7ffffffffffffffe, 0x7fffffffffffffff, 0x8000000000000000, 0x8000000000000001,
	0xaaaaaaaaaaaaaaaa, 0xdeadbeefdeadbeef, 0xffffffff00000000, 0xffffffff00000001,
	-4096ULL, NEVER - DEFAULT_TICK, NEVER - DEFAULT_TICK + 1, NEVER - 2, NEVER - 1, NEVER,
};

#define VALUES	ARRAY_SIZE(values)

FIXTURE(values) {
	int fd;
	__u64 id;
};

FIXTURE_SETUP(values)
{
	/* The comment at the head of this file names this number. */
	ASSERT_EQ(64, VALUES);
	self->fd = open_wheel(_metadata, O_NONBLOCK);
	self->id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 5);
}

WHEEL_TEARDOWN(values)

/*
 * Checks the result of one verb and its outputs, all of which follow from the header. @live:
 * the id of an armed timer; if that is ended, the id of a new one.
 */
static void check_verb(struct __test_metadata *_metadata, int fd, __u64 *live, unsigned int cmd,
		       const struct twheel_timer *in)
{
	bool arms = cmd == TWHEEL_IOC_REGISTER || cmd == TWHEEL_IOC_REARM;
	bool disarmed = in->flags & TWHEEL_DISARMED;
	struct twheel_timer t = *in, got;
	struct twheel_event ev;
	__u64 before, after;
	int wanted = 0, ret;

	if (in->flags & ~(TWHEEL_ABSTIME | TWHEEL_KEEP | TWHEEL_DISARMED))
		wanted = -EINVAL;
	else if (arms && in->period_ns && in->period_ns < DEFAULT_TICK)
		wanted = -EINVAL;
	else if (cmd == TWHEEL_IOC_REGISTER && disarmed && !(in->flags & TWHEEL_KEEP))
		wanted = -EINVAL;
	else if (cmd != TWHEEL_IOC_REGISTER && in->id != *live)
		wanted = -ENOENT;

	before = now(CLOCK_MONOTONIC);
	ret = call(fd, cmd, &t);
	after = now(CLOCK_MONOTONIC);
	ASSERT_EQ(wanted, ret)
		TH_LOG("command %#x: id %#llx deadline %#llx period %#llx slack %#llx flags %#x",
		       cmd, in->id, in->deadline_ns, in->period_ns, in->slack_ns, in->flags);
	if (ret) {
		ASSERT_EQ(0, memcmp(&t, in, sizeof(t)));
		return;
	}
	if (cmd == TWHEEL_IOC_CANCEL)
		*live = add(_metadata, fd, HOUR, TWHEEL_KEEP, 5);
	if (!arms)
		return;

	ASSERT_EQ(0, get_timer(fd, t.id, &got));
	ASSERT_EQ(in->slack_ns, got.slack_ns);
	ASSERT_EQ(in->period_ns, got.period_ns);
	ASSERT_EQ(in->flags, got.flags);
	if (cmd == TWHEEL_IOC_REGISTER)
		ASSERT_EQ(in->user_data, got.user_data);
	if (disarmed) {
		ASSERT_EQ(TWHEEL_IDLE, got.state);
		ASSERT_EQ(0, got.deadline_ns);
	} else if (in->flags & TWHEEL_ABSTIME) {
		ASSERT_EQ(in->deadline_ns == TWHEEL_PARKED ? NEVER :
			  in->deadline_ns ? in->deadline_ns : 1, t.deadline_ns);
	} else if (in->deadline_ns > NEVER - before) {
		ASSERT_EQ(NEVER, t.deadline_ns);
	} else {
		ASSERT_GE(t.deadline_ns, before + in->deadline_ns);
		ASSERT_LE(t.deadline_ns, after + in->deadline_ns);
	}
	if (!disarmed && t.deadline_ns <= before) {
		/* Including the periods since then, and no number of them overflows. */
		ASSERT_EQ(TWHEEL_EXPIRED, got.state);
		ASSERT_EQ(1, read_now(fd, &ev, 1));
		ASSERT_EQ(t.id, ev.id);
		ASSERT_EQ(t.deadline_ns, ev.deadline_ns);
		ASSERT_GE(ev.expirations, 1);
		if (in->period_ns)
			ASSERT_LE(ev.expirations,
				  1 + (now(CLOCK_MONOTONIC) - ev.deadline_ns) / in->period_ns);
	}
	if (cmd == TWHEEL_IOC_REGISTER) {
		ret = cancel(fd, t.id);
		/* A timer whose event was read may have ended with that. */
		ASSERT_TRUE(ret >= 0 || (ret == -ENOENT && t.deadline_ns <= after));
	} else {
		/* Restore the timer. */
		ASSERT_LE(0, rearm(fd, *live, HOUR, TWHEEL_KEEP));
	}
	/* Read whatever else it may have left. */
	while (read_now(fd, &ev, 1) > 0)
		;
}

/* REGISTER, REARM, CANCEL and GET with each value in each field, one at a time. */
TEST_F_TIMEOUT(values, one_field, 600)
{
	static const unsigned int verbs[] = {
		TWHEEL_IOC_REGISTER, TWHEEL_IOC_REARM, TWHEEL_IOC_CANCEL, TWHEEL_IOC_GET,
	};
	unsigned int v, i, field;

	for (v = 0; v < ARRAY_SIZE(verbs); v++) {
		for (i = 0; i < VALUES; i++) {
			for (field = 0; field < 7; field++) {
				struct twheel_timer t = {
					.id = self->id,
					.deadline_ns = HOUR,
					.flags = TWHEEL_KEEP,
				};
				__u64 *longs = &t.id;
				__u32 *words = &t.flags;

				if (field < 5)
					longs[field] = values[i];
				else
					words[field - 5] = values[i];
				check_verb(_metadata, self->fd, &self->id, verbs[v], &t);
			}
		}
	}
	EXPECT_EQ(TWHEEL_ARMED, state(self->fd, self->id));
}

/*
 * Arms with every pair of values in deadline, period and slack, with relative and absolute
 * times.
 */
TEST_F_TIMEOUT(values, pairs_of_times, 600)
{
	static const unsigned int verbs[] = { TWHEEL_IOC_REGISTER, TWHEEL_IOC_REARM };
	static const __u32 flags[] = { TWHEEL_KEEP, TWHEEL_KEEP | TWHEEL_ABSTIME };
	unsigned int a, b, f, v;

	for (a = 0; a < VALUES; a++) {
		for (b = 0; b < VALUES; b++) {
			for (f = 0; f < ARRAY_SIZE(flags); f++) {
				struct twheel_timer t = {
					.id = self->id,
					.deadline_ns = values[a],
					.flags = flags[f],
				};

				v = (a + b + f) % 2;
				t.period_ns = values[b];
				check_verb(_metadata, self->fd, &self->id, verbs[v], &t);
				t.period_ns = 0;
				t.slack_ns = values[b];
				check_verb(_metadata, self->fd, &self->id, verbs[!v], &t);
			}
		}
	}
}

static __u64 power_below(__u64 x)
{
	return 1ULL << (63 - __builtin_clzll(x));
}

/* Returns the expected result of SETUP, from the header and the documented limits alone. */
static int setup_answer(const struct twheel_setup *s, bool root)
{
	unsigned int i;

	if (s->flags & ~TWHEEL_SETUP_REALTIME)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(s->reserved); i++)
		if (s->reserved[i])
			return -EINVAL;
	if (s->flags ? s->clock_id : s->clock_id && s->clock_id != CLOCK_MONOTONIC &&
	    s->clock_id != CLOCK_BOOTTIME && s->clock_id != CLOCK_TAI)
		return -EINVAL;
	if (s->max_timers > 1 << 24 || s->levels > 16)
		return -EINVAL;
	if (s->slot_bits && (s->slot_bits < 4 || s->slot_bits > 12))
		return -EINVAL;
	if (s->levels << (s->slot_bits ?: 6) > 4096)
		return -EINVAL;
	if (s->tick_ns && s->tick_ns < 100000 && !root)
		return -EPERM;
	return 0;
}

/* SETUP with each value in each field, as root and as nobody. */
TEST_F_TIMEOUT(values, shapes, 600)
{
	unsigned int i, field, done = 0;
	int pass;

	ASSERT_TRUE(is_root());
	for (pass = 0; pass < 2; pass++) {
		if (pass)
			be_nobody(_metadata);
		for (i = 0; i < VALUES; i++) {
			for (field = 0; field < 9; field++) {
				struct twheel_setup s = { 0 }, t;
				__u32 *words = &s.clock_id;
				int fd = open_wheel(_metadata, O_NONBLOCK), wanted, ret;

				if (field)
					words[field - 1] = values[i];
				else
					s.tick_ns = values[i];
				t = s;
				wanted = setup_answer(&s, !pass);
				ret = call(fd, TWHEEL_IOC_SETUP, &t);
				ASSERT_EQ(wanted, ret)
					TH_LOG("field %u, %#llx", field, values[i]);
				if (ret) {
					ASSERT_EQ(0, memcmp(&s, &t, sizeof(s)));
				} else {
					done++;
					ASSERT_EQ(s.tick_ns ? power_below(s.tick_ns) : DEFAULT_TICK,
						  t.tick_ns);
					ASSERT_EQ(s.max_timers ? s.max_timers : 1 << 20,
						  t.max_timers);
					ASSERT_EQ(s.slot_bits ? s.slot_bits : 6, t.slot_bits);
					ASSERT_GE(t.levels, 1);
					if (s.levels)
						ASSERT_LE(t.levels, s.levels);
				}
				/* A wheel of any accepted shape works. */
				add(_metadata, fd, HOUR, TWHEEL_KEEP, 0);
				if (s.max_timers != 1)
					add(_metadata, fd, NEVER, TWHEEL_ABSTIME, 0);
				close(fd);
			}
		}
	}
	EXPECT_GT(done, 100);
}

/* LIST, KICK and BATCH with each value in each field that is not an address. */
TEST_F_TIMEOUT(values, list_kick_batch, 600)
{
	static struct twheel_op ops[TWHEEL_BATCH_MAX];
	static struct twheel_timer timers[4];
	unsigned int i;

	for (i = 0; i < VALUES; i++) {
		__u64 v = values[i];
		__u32 half = v;
		struct twheel_list l = {
			.timers = ptr_u64(timers), .count = 1, .cursor = half,
		};
		struct twheel_batch b = { .ops = ptr_u64(ops), .count = half };

		ASSERT_EQ(half <= (__u32)self->id, call(self->fd, TWHEEL_IOC_LIST, &l));
		l = (struct twheel_list) { .timers = ptr_u64(timers), .count = half };
		ASSERT_EQ(!!half, call(self->fd, TWHEEL_IOC_LIST, &l));

		ASSERT_EQ((unsigned long)v ? -EINVAL : 0,
			  call(self->fd, TWHEEL_IOC_KICK, (void *)(unsigned long)v));

		ASSERT_EQ(half > TWHEEL_BATCH_MAX ? -EINVAL : (int)half,
			  call(self->fd, TWHEEL_IOC_BATCH, &b));
		if (half && half <= TWHEEL_BATCH_MAX)
			ASSERT_EQ(-EINVAL, ops[half - 1].result);
		b = (struct twheel_batch) { .ops = ptr_u64(ops), .flags = half };
		ASSERT_EQ(half ? -EINVAL : 0, call(self->fd, TWHEEL_IOC_BATCH, &b));
		ops[0] = (struct twheel_op) { .opcode = half, .timer.id = self->id };
		ASSERT_EQ(1, batch(self->fd, ops, 1));
		if (half == TWHEEL_OP_REGISTER) {
			ASSERT_EQ(0, ops[0].result);
			cancel(self->fd, ops[0].timer.id);
		} else if (half == TWHEEL_OP_CANCEL) {
			ASSERT_EQ(0, ops[0].result);
			self->id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 5);
		} else {
			ASSERT_EQ(half == TWHEEL_OP_REARM || half == TWHEEL_OP_GET ? 0 : -EINVAL,
				  ops[0].result);
		}
		if (half == TWHEEL_OP_REARM) {
			cancel(self->fd, self->id);
			self->id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 5);
		}
		memset(ops, 0, sizeof(ops));
		while (read_now(self->fd, (struct twheel_event *)ops, 16) > 0)
			;
		memset(ops, 0, sizeof(ops));

		/* As an address: below and above the addresses that can be mapped. */
		b = (struct twheel_batch) { .ops = v, .count = 1 };
		if (v < 4096 || v >= 1ULL << 62)
			ASSERT_EQ(-EFAULT, call(self->fd, TWHEEL_IOC_BATCH, &b))
				TH_LOG("address %#llx", v);
		l = (struct twheel_list) { .timers = v, .count = 1 };
		if (v < 4096 || v >= 1ULL << 62)
			ASSERT_EQ(-EFAULT, call(self->fd, TWHEEL_IOC_LIST, &l));
	}
}

TEST_HARNESS_MAIN
