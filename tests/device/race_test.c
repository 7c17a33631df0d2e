// SPDX-License-Identifier: GPL-2.0
/*
 * Calls that race with a thread which flips bits of their arguments. tests/hostile/pairs.c
 * covers calls that race with each other or with an expiry.
 */
#include "twheel_test.h"

WHEEL_FIXTURE(race, O_NONBLOCK)

/*
 * The arguments of the calls, alone in REGION bytes that are aligned to REGION, and with no
 * writable memory behind them. Thus a flipped bit, even one in an address, leads nowhere else.
 */
#define FLIPPED_BITS	20
#define REGION		(1UL << FLIPPED_BITS)
#define GUARD		(256 * REGION)
#define OPS		64U

struct argument {
	union {
		struct twheel_timer timer;
		struct twheel_setup setup;
		struct twheel_batch batch;
		struct twheel_list list;
	};
	struct twheel_op ops[OPS];
	struct twheel_timer timers[OPS];
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
		/* Mostly flip bits that a call reads first. */
		unsigned int nr = random & 1 ? sizeof(struct twheel_timer) : sizeof(*f->arg);

		__atomic_fetch_xor(&words[(random >> 8) % (nr / sizeof(*words))],
				   1U << (random >> 40) % FLIPPED_BITS, __ATOMIC_RELAXED);
		__atomic_fetch_add(&f->flips, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Makes a call of each kind in turn, with valid arguments that another thread flips. */
static int call_flipped(int fd, struct argument *arg, unsigned int kind, const __u64 *ids)
{
	unsigned int i;

	for (i = 0; i < OPS; i++) {
		arg->ops[i] = (struct twheel_op) {
			.opcode = TWHEEL_OP_REARM,
			.timer.id = ids[i],
			.timer.deadline_ns = NS_PER_MS,
			.timer.flags = TWHEEL_KEEP,
		};
	}
	switch (kind % 5) {
	case 0:
		arg->batch = (struct twheel_batch) { .ops = ptr_u64(arg->ops), .count = OPS };
		return call(fd, TWHEEL_IOC_BATCH, arg);
	case 1:
		arg->list = (struct twheel_list) {
			.timers = ptr_u64(arg->timers),
			.count = OPS,
		};
		return call(fd, TWHEEL_IOC_LIST, arg);
	case 2:
		arg->timer = arg->ops[0].timer;
		return call(fd, TWHEEL_IOC_REARM, arg);
	case 3:
		arg->timer = (struct twheel_timer) { .deadline_ns = NS_PER_MS };
		return call(fd, TWHEEL_IOC_REGISTER, arg);
	default:
		arg->setup = (struct twheel_setup) { .tick_ns = NS_PER_MS };
		return call(fd, TWHEEL_IOC_SETUP, arg);
	}
}

/* Class 10: A call does not fetch an argument again that it has already checked. */
TEST_F_TIMEOUT(race, flipped_arguments, 120)
{
	enum { CALLS = 20000, FLIPS = 10000000 };
	const __u64 end = now(CLOCK_MONOTONIC) + 60 * NS_PER_SEC;
	struct bit_flipper f = { .stop = false };
	struct twheel_event ev[OPS];
	__u64 ids[OPS];
	unsigned int i, wrong = 0, done = 0;
	unsigned long flips = 0;
	char *map;

	map = mmap(NULL, REGION + GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, map);
	f.arg = (struct argument *)(((uintptr_t)map + REGION - 1) & -REGION);
	ASSERT_EQ(0, mprotect(f.arg, REGION, PROT_READ | PROT_WRITE));
	for (i = 0; i < OPS; i++)
		ids[i] = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, i);
	ASSERT_EQ(0, pthread_create(&f.thread, NULL, flip_bits, &f));
	for (i = 0; i < CALLS || (flips < FLIPS && now(CLOCK_MONOTONIC) < end); i++) {
		int ret = call_flipped(self->fd, f.arg, i, ids);

		done += ret >= 0;
		wrong += ret < 0 && ret != -EINVAL && ret != -EFAULT && ret != -ENOENT &&
			 ret != -EBUSY && ret != -EPERM && ret != -ENOSPC;
		/* Flipped periods may bring more events than can be read. */
		wrong += read_events(self->fd, ev, sizeof(ev)) < 0 && errno != EAGAIN;
		flips = __atomic_load_n(&f.flips, __ATOMIC_RELAXED);
	}
	stop_and_join(f.thread, &f.stop);
	TH_LOG("%u of %u calls done", done, i);
	TARGET("flips", flips, FLIPS);
	EXPECT_EQ(0, wrong);
	EXPECT_GT(done, 0);
	EXPECT_LT(done, i);
	EXPECT_GE(cancel_all(self->fd), 0);
	munmap(map, REGION + GUARD);
}

TEST_HARNESS_MAIN
