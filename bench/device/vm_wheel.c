// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/twheel without the library. Three backends arm timers with single ioctls, with batches, or
 * in the table with the KICKs that earlier deadlines need. All of them wait with epoll and then
 * read as many events as there are.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vm_bench.h"

#define EVENTS	256

/**
 * struct wheel - a wheel
 * @fd: the descriptor of the wheel
 * @epoll: the epoll set that contains it
 * @map: its mapped table
 * @bytes: the size of the table
 * @slots: the words of the table
 */
struct wheel {
	int fd;
	int epoll;
	struct twheel_table *map;
	size_t bytes;
	struct twheel_slot *slots;
};

/* Opens a wheel for up to @max_timers timers. A @tick_ns of 0 is the default. */
int vm_wheel(uint32_t max_timers, uint64_t tick_ns)
{
	struct twheel_setup setup = { .max_timers = max_timers, .tick_ns = tick_ns };
	int fd = open("/dev/twheel", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, TWHEEL_IOC_SETUP, &setup))
		bench_die("/dev/twheel");
	return fd;
}

/* Performs all operations of @ops, in batches. */
void vm_do(int fd, struct twheel_op *ops, unsigned int nr)
{
	struct twheel_batch batch;
	unsigned int i, done;

	for (done = 0; done < nr; done += batch.count) {
		batch = (struct twheel_batch) {
			.ops = (uintptr_t)(ops + done),
			.count = nr - done < VM_BATCH ? nr - done : VM_BATCH,
		};
		if (ioctl(fd, TWHEEL_IOC_BATCH, &batch) != (int)batch.count)
			bench_die("TWHEEL_IOC_BATCH");
	}
	for (i = 0; i < nr; i++) {
		errno = -ops[i].result;
		if (errno)
			bench_die("operation of a batch");
	}
}

struct twheel_stats vm_stats(int fd)
{
	struct twheel_stats stats;

	if (ioctl(fd, TWHEEL_IOC_STATS, &stats))
		bench_die("TWHEEL_IOC_STATS");
	return stats;
}

static int wheel_open(struct bench *b)
{
	struct wheel *w = bench_alloc(1, sizeof(*w));
	struct epoll_event want = { .events = EPOLLIN };
	uint32_t i, nr = b->n + BENCH_SPARE;
	struct twheel_op *ops = bench_alloc(nr, sizeof(*ops));
	struct twheel_info info;

	w->fd = vm_wheel(nr, b->tick);
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->fd, &want))
		bench_die("epoll");
	if (ioctl(w->fd, TWHEEL_IOC_INFO, &info))
		bench_die("TWHEEL_IOC_INFO");
	w->bytes = info.table_bytes;
	w->map = mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	if (w->map == MAP_FAILED)
		bench_die("mmap of the table");
	w->slots = (void *)((char *)w->map + w->map->slots_offset);
	for (i = 0; i < nr; i++)
		ops[i] = (struct twheel_op) {
			.opcode = TWHEEL_OP_REGISTER,
			.timer.flags = TWHEEL_KEEP | TWHEEL_DISARMED,
			.timer.user_data = i,
		};
	vm_do(w->fd, ops, nr);
	for (i = 0; i < nr; i++)
		b->handle[i] = ops[i].timer.id;
	free(ops);
	b->state = w;
	return 0;
}

static void wheel_close(struct bench *b)
{
	struct wheel *w = b->state;

	munmap(w->map, w->bytes);
	close(w->epoll);
	close(w->fd);
	free(w);
}

static void wheel_deliver(struct bench *b, uint64_t until)
{
	struct wheel *w = b->state;
	struct twheel_event events[EVENTS];
	struct epoll_event event;
	uint64_t now;
	ssize_t i, got;

	while ((now = bench_now()) < until) {
		struct timespec ts = BENCH_TIME(until - now);

		if (epoll_pwait2(w->epoll, &event, 1, &ts, NULL) <= 0)
			continue;
		got = read(w->fd, events, sizeof(events)) / (ssize_t)sizeof(*events);
		for (i = 0; i < got; i++)
			bench_deliver(b, events[i].user_data);
	}
}

/* Single ioctls */

static int call_set(struct bench *b, uint64_t handle, uint64_t when, uint32_t flags)
{
	struct wheel *w = b->state;
	struct twheel_timer timer = {
		.id = handle,
		.deadline_ns = when,
		.slack_ns = b->slack,
		.flags = TWHEEL_KEEP | TWHEEL_ABSTIME | flags,
	};

	return ioctl(w->fd, TWHEEL_IOC_REARM, &timer);
}

static inline int call_arm(void *it, uint64_t handle, uint64_t when)
{
	return call_set(it, handle, when, 0);
}

static inline int call_cancel(void *it, uint64_t handle, uint64_t when)
{
	(void)when;
	return call_set(it, handle, 0, TWHEEL_DISARMED);
}

BENCH_LOOPS(ioctl, b, call_arm, call_arm, call_cancel)

#define ANY_WHEEL \
	.max_n = 10000000, .threads = 2, .open = wheel_open, .deliver = wheel_deliver, \
	.close = wheel_close

const struct bench_backend vm_twheel = { .name = "twheel", BENCH_OPS(ioctl), ANY_WHEEL };

/* Batches of 256 */

static void batch_set(struct bench *b, const uint64_t *handle, size_t nr, uint64_t when,
		      uint32_t flags)
{
	struct wheel *w = b->state;
	struct twheel_op ops[VM_BATCH];
	size_t i, in = 0;

	for (i = 0; i < nr; i++, when += BENCH_STEP) {
		ops[in++] = (struct twheel_op) {
			.opcode = TWHEEL_OP_REARM,
			.timer.id = handle[i],
			.timer.deadline_ns = when,
			.timer.slack_ns = b->slack,
			.timer.flags = TWHEEL_KEEP | TWHEEL_ABSTIME | flags,
		};
		if (in == VM_BATCH || i == nr - 1) {
			vm_do(w->fd, ops, in);
			in = 0;
		}
	}
}

static BENCH_PROTO(batch_arm)
{
	batch_set(b, handle, nr, when, 0);
}

static BENCH_PROTO(batch_cancel)
{
	batch_set(b, handle, nr, when, TWHEEL_DISARMED);
}

const struct bench_backend vm_batch = {
	.name = "twheel-batch",
	.arm = batch_arm,
	.move = batch_arm,
	.cancel = batch_cancel,
	ANY_WHEEL
};

/* The table. Slots that the kernel must look at are marked, and one KICK follows. */

static BENCH_PROTO(kick_arm)
{
	struct wheel *w = b->state;
	const struct twheel_table *head = w->map;
	uint64_t *marks = (uint64_t *)((char *)w->map + head->marks_offset);
	uint64_t *summary = (uint64_t *)((char *)w->map + head->summary_offset);
	bool marked = false;
	size_t i;

	for (i = 0; i < nr; i++, when += BENCH_STEP) {
		uint32_t number = handle[i], line = number >> head->summary_shift;
		struct twheel_slot *slot = &w->slots[number];

		__atomic_exchange_n(&slot->deadline_ns, when, __ATOMIC_SEQ_CST);
		if (when > __atomic_load_n(&slot->wake_ns, __ATOMIC_SEQ_CST))
			continue;
		__atomic_fetch_or(&marks[number / 64], 1ULL << number % 64, __ATOMIC_SEQ_CST);
		__atomic_fetch_or(&summary[line / 64], 1ULL << line % 64, __ATOMIC_SEQ_CST);
		marked = true;
	}
	if (marked && ioctl(w->fd, TWHEEL_IOC_KICK, 0))
		bench_die("TWHEEL_IOC_KICK");
}

static BENCH_PROTO(kick_cancel)
{
	struct wheel *w = b->state;
	size_t i;

	(void)when;
	for (i = 0; i < nr; i++)
		__atomic_exchange_n(&w->slots[(uint32_t)handle[i]].deadline_ns, 0,
				    __ATOMIC_SEQ_CST);
}

const struct bench_backend vm_kick = {
	.name = "twheel-kick",
	.arm = kick_arm,
	.move = kick_arm,
	.cancel = kick_cancel,
	ANY_WHEEL
};
