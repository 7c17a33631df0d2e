/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device without the library, for tests with and without the harness. Each ioctl returns
 * the kernel's own result, and its outputs are poisoned beforehand. The table can be mapped,
 * exchanged, read, marked and kicked. Nothing here asserts.
 */
#ifndef WHEEL_H
#define WHEEL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
/* 32-bit programs must see the same times. */
#define _FILE_OFFSET_BITS	64
#define _TIME_BITS		64

#include <errno.h>
#include <fcntl.h>
#include <linux/twheel.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "emulated.h"
#include "process.h"

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof(*(a)))
#endif

#define TWHEEL_DEVICE	"/dev/twheel"
#define TWHEEL_PARAMS	"/sys/module/twheel/parameters/"

#define NS_PER_US	1000ULL
#define NS_PER_MS	1000000ULL
#define NS_PER_SEC	1000000000ULL
#define MINUTE		(60 * NS_PER_SEC)
#define HOUR		(3600 * NS_PER_SEC)
#define NEVER		(~0ULL)

/* The tick of a wheel with the default settings. */
#define DEFAULT_TICK	(1ULL << 19)

/* How long a test waits for an event that must come, and for one that must not. */
#define TIMEOUT_MS	20000
#define QUIET_MS	60
/* A delay that ends only after the calls that follow it, even on a slow machine. */
#define SOON		(200 * NS_PER_MS)

#define NOBODY		65534

#define POISON		0xcc
#define poison(p)	memset((p), POISON, sizeof(*(p)))

#define ptr_u64(p)	((__u64)(uintptr_t)(p))

/* Returns what the kernel returned: a negative result is an errno. */
static inline int call(int fd, unsigned int cmd, void *arg)
{
	/* Through the bare system call, because the library's wrapper may hide bits of @cmd. */
	long ret = syscall(SYS_ioctl, fd, cmd, arg);

	return ret < 0 ? -errno : ret;
}

static inline __u64 now(int clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

static inline void sleep_ns(__u64 ns)
{
	struct timespec ts = { .tv_sec = ns / NS_PER_SEC, .tv_nsec = ns % NS_PER_SEC };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

static inline void sleep_ms(unsigned int ms)
{
	sleep_ns(ms * NS_PER_MS);
}

/* Spins, so that the next call comes at any moment within a tick or two. */
static inline void spin_ns(__u64 ns)
{
	__u64 end = now(CLOCK_MONOTONIC) + ns;

	while (now(CLOCK_MONOTONIC) < end)
		;
}

/* A small generator of random numbers; its seed repeats a run. */
static inline __u64 next_random(__u64 *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static inline int wheel_open(int flags)
{
	return open(TWHEEL_DEVICE, O_RDWR | O_CLOEXEC | flags);
}

/* Calls one verb on one timer, with poisoned outputs. */
static inline int verb(int fd, unsigned int cmd, struct twheel_timer *t)
{
	if (cmd == TWHEEL_IOC_REGISTER)
		poison(&t->id);
	poison(&t->state);
	return call(fd, cmd, t);
}

static inline int rearm_timer(int fd, __u64 id, __u64 deadline, __u32 flags,
			      struct twheel_timer *out)
{
	*out = (struct twheel_timer) {
		.id = id,
		.deadline_ns = deadline,
		.flags = flags,
	};
	return verb(fd, TWHEEL_IOC_REARM, out);
}

static inline int cancel_timer(int fd, __u64 id, struct twheel_timer *out)
{
	*out = (struct twheel_timer) { .id = id };
	return verb(fd, TWHEEL_IOC_CANCEL, out);
}

static inline int get_timer(int fd, __u64 id, struct twheel_timer *out)
{
	poison(out);
	out->id = id;
	out->flags = 0;
	return verb(fd, TWHEEL_IOC_GET, out);
}

/* Returns the state that CANCEL found, or a negative errno. */
static inline int cancel(int fd, __u64 id)
{
	struct twheel_timer t;
	int ret = cancel_timer(fd, id, &t);

	return ret ? ret : (int)t.state;
}

/* Returns the state that REARM found, or a negative errno. */
static inline int rearm(int fd, __u64 id, __u64 deadline, __u32 flags)
{
	struct twheel_timer t;
	int ret = rearm_timer(fd, id, deadline, flags, &t);

	return ret ? ret : (int)t.state;
}

static inline int state(int fd, __u64 id)
{
	struct twheel_timer t;
	int ret = get_timer(fd, id, &t);

	return ret ? ret : (int)t.state;
}

static inline int batch(int fd, struct twheel_op *ops, __u32 count)
{
	struct twheel_batch b = { .ops = ptr_u64(ops), .count = count };

	return call(fd, TWHEEL_IOC_BATCH, &b);
}

static inline int list(int fd, struct twheel_timer *timers, __u32 count, __u32 *cursor)
{
	struct twheel_list l = {
		.timers = ptr_u64(timers),
		.count = count,
		.cursor = *cursor,
	};
	int ret = call(fd, TWHEEL_IOC_LIST, &l);

	*cursor = l.cursor;
	return ret;
}

/* Returns how many timers LIST reports, one page at a time. */
static inline int list_all(int fd)
{
	struct twheel_timer page[64];
	__u32 cursor = 0;
	int ret, total = 0;

	while ((ret = list(fd, page, ARRAY_SIZE(page), &cursor)) > 0)
		total += ret;
	return ret < 0 ? ret : total;
}

/*
 * Applies @opcode to each timer that LIST reports as armed, 64 at a time: CANCEL, or REARM to
 * now, without a period. Returns how many were armed then, or a negative errno.
 */
static inline int end_all(int fd, __u32 opcode)
{
	struct twheel_timer page[64];
	struct twheel_op ops[64];
	int ret, i, n, total = 0;
	__u32 cursor = 0;

	while ((ret = list(fd, page, ARRAY_SIZE(page), &cursor)) > 0) {
		for (i = n = 0; i < ret; i++)
			if (page[i].state == TWHEEL_ARMED)
				ops[n++] = (struct twheel_op) {
					.opcode = opcode,
					.timer.id = page[i].id,
					.timer.flags = page[i].flags & TWHEEL_KEEP,
				};
		if (batch(fd, ops, n) != n)
			return -EBADMSG;
		for (i = 0; i < n; i++)
			total += !ops[i].result && ops[i].timer.state == TWHEEL_ARMED;
	}
	return ret < 0 ? ret : total;
}

static inline int cancel_all(int fd)
{
	return end_all(fd, TWHEEL_OP_CANCEL);
}

static inline int expire_all(int fd)
{
	return end_all(fd, TWHEEL_OP_REARM);
}

/*
 * Like poll(), but continues after a signal, because the kernel does not restart it (see
 * interrupt_children()). poll() looks once more when its time is over. An event that is found
 * only then has woken nobody, so it does not count.
 */
static inline int poll_again(struct pollfd *p, nfds_t nr, int timeout_ms)
{
	__u64 end = now(CLOCK_MONOTONIC) + timeout_ms * NS_PER_MS, t;
	bool must = timeout_ms == TIMEOUT_MS;
	int ret;

	while ((ret = poll(p, nr, timeout_ms)) < 0 && errno == EINTR) {
		t = now(CLOCK_MONOTONIC);
		timeout_ms = t < end ? (end - t) / NS_PER_MS : 0;
	}
	return ret > 0 && must && now(CLOCK_MONOTONIC) >= end ? 0 : ret;
}

static inline bool readable(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll_again(&p, 1, timeout_ms) == 1 && p.revents & POLLIN;
}

/*
 * Checks that no event comes before its deadline. Any process of a test may call this, so a
 * violation ends the process.
 */
static inline void check_events(const struct twheel_event *ev, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (ev[i].expired_ns >= ev[i].deadline_ns && ev[i].expirations &&
		    !ev[i].flags && !ev[i].reserved)
			continue;
		fprintf(stderr, "# event %u of %u: deadline %llu, expired %llu, %llu expirations, flags %#x, reserved %#x\n",
			i, n, ev[i].deadline_ns, ev[i].expired_ns, ev[i].expirations,
			ev[i].flags, ev[i].reserved);
		abort();
	}
}

/* read(2) of events, which are then checked. */
static inline ssize_t read_events(int fd, struct twheel_event *ev, size_t size)
{
	ssize_t ret = read(fd, ev, size);

	if (ret > 0)
		check_events(ev, ret / sizeof(*ev));
	return ret;
}

/*
 * Waits for events and reads up to @max of them at once. Returns how many, 0 if none came in
 * time, or a negative errno.
 */
static inline int take(int fd, struct twheel_event *ev, unsigned int max, int timeout_ms)
{
	ssize_t ret;

	memset(ev, POISON, max * sizeof(*ev));
	if (!readable(fd, timeout_ms))
		return 0;
	ret = read_events(fd, ev, max * sizeof(*ev));
	if (ret < 0)
		return -errno;
	return ret % sizeof(*ev) ? -EBADMSG : (int)(ret / sizeof(*ev));
}

/* Reads until there are @n events, or none comes for too long. */
static inline int collect(int fd, struct twheel_event *ev, unsigned int n)
{
	unsigned int have = 0;

	while (have < n) {
		int ret = take(fd, ev + have, n - have, TIMEOUT_MS);

		if (ret < 0)
			return ret;
		if (!ret)
			break;
		have += ret;
	}
	return have;
}

/* Opens a wheel on @clock. Returns its descriptor, or -1. */
static inline int wheel_on(int clock)
{
	struct twheel_setup s = {
		.clock_id = clock,
		.flags = clock == CLOCK_REALTIME ? TWHEEL_SETUP_REALTIME : 0,
	};
	int fd = wheel_open(O_NONBLOCK);

	if (fd >= 0 && call(fd, TWHEEL_IOC_SETUP, &s)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Returns how many events one read delivers, or a negative errno. */
static inline int read_now(int fd, struct twheel_event *ev, unsigned int max)
{
	ssize_t ret = read_events(fd, ev, max * sizeof(*ev));

	return ret < 0 ? -errno : (int)(ret / (ssize_t)sizeof(*ev));
}

/* Fills in @n equal operations, numbered by their user_data. */
static inline void fill_ops(struct twheel_op *ops, unsigned int n, __u32 opcode,
			    __u64 deadline, __u32 flags)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		ops[i] = (struct twheel_op) {
			.opcode = opcode,
			.timer.user_data = i,
			.timer.deadline_ns = deadline,
			.timer.flags = flags,
			.result = 1,
		};
}

/* Passes @fd over a socket, with one byte. Returns true if it was sent. */
static inline bool send_fd(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof(fd))] = {}, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	return sendmsg(socket, &msg, 0) == 1;
}

/* Returns the descriptor that send_fd() has sent, or -1. */
static inline int receive_fd(int socket)
{
	char control[CMSG_SPACE(sizeof(int))] = {}, byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int fd = -1;

	if (recvmsg(socket, &msg, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/*
 * Returns true if each arming has ended or is still armed, and each expiration was read,
 * withdrawn or is unread.
 */
static inline bool adds_up(const struct twheel_stats *s)
{
	return s->armings == s->expired + s->displaced + s->armed &&
	       s->expired == s->delivered + s->withdrawn + s->unread;
}

/* Checks this for wheel @fd, at any moment, and leaves the numbers in @s. */
static inline bool conserved(int fd, struct twheel_stats *s)
{
	return !call(fd, TWHEEL_IOC_STATS, s) && adds_up(s);
}

static inline void tell_stats(const char *of, const struct twheel_stats *s)
{
	printf("# %s: armings %llu = expired %llu + displaced %llu + armed %llu;"
	       " expired = delivered %llu + withdrawn %llu + unread %llu; timers %llu\n",
	       of, s->armings, s->expired, s->displaced, s->armed, s->delivered, s->withdrawn,
	       s->unread, s->allocated);
	fflush(stdout);
}

/* Returns true if all counters that only an ioctl can change are the same. */
static inline bool same_counts(const struct twheel_stats *a, const struct twheel_stats *b)
{
	return !memcmp(a, b, offsetof(struct twheel_stats, moved));
}

/* The table */

#define PAGE	4096ULL

/* Like SOON, for tests that do more before it. */
#define AHEAD	(2 * SOON)

struct table {
	int fd;
	struct twheel_table *head;
	struct twheel_slot *slots;
	__u64 tick;
	size_t bytes;
	/* How many KICKs arm() has needed. */
	unsigned long kicks;
};

static inline void *map_at(int fd, size_t bytes, int prot, int flags, off_t offset)
{
	return mmap(NULL, bytes, prot, flags, fd, offset);
}

/* Tries a mapping. Returns 0, with nothing left mapped, or the negative errno of the refusal. */
static inline int try_map(int fd, size_t bytes, int prot, int flags, off_t offset)
{
	void *p = map_at(fd, bytes, prot, flags, offset);

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, bytes);
	return 0;
}

static inline void unmap_table(struct table *t)
{
	munmap(t->head, t->bytes);
}

static inline struct twheel_slot *slot_of(const struct table *t, __u64 id)
{
	return &t->slots[(__u32)id];
}

static inline __u64 swap_word(struct twheel_slot *slot, __u64 deadline)
{
	return __atomic_exchange_n(&slot->deadline_ns, deadline, __ATOMIC_SEQ_CST);
}

static inline __u64 word(const struct twheel_slot *slot)
{
	return __atomic_load_n(&slot->deadline_ns, __ATOMIC_SEQ_CST);
}

static inline __u64 wake(const struct twheel_slot *slot)
{
	return __atomic_load_n(&slot->wake_ns, __ATOMIC_SEQ_CST);
}

/* Returns the start of the tick that contains @deadline. */
static inline __u64 tick_of(const struct table *t, __u64 deadline)
{
	return (deadline - 1) & ~(t->tick - 1);
}

/* Kicks without setting a mark first. */
static inline int turn_now(int fd)
{
	return call(fd, TWHEEL_IOC_KICK, NULL);
}

/*
 * Return the word that holds the mark of @slot, and the word of the summary that covers its
 * line.
 */
static inline __u64 *marks_of(const struct table *t, __u32 slot)
{
	return (__u64 *)((char *)t->head + t->head->marks_offset) + slot / 64;
}

static inline __u64 *summary_of(const struct table *t, __u32 slot)
{
	return (__u64 *)((char *)t->head + t->head->summary_offset) +
	       (slot >> t->head->summary_shift) / 64;
}

static inline __u64 mark_bit(__u32 slot)
{
	return 1ULL << slot % 64;
}

static inline __u64 summary_bit(const struct table *t, __u32 slot)
{
	return 1ULL << (slot >> t->head->summary_shift) % 64;
}

static inline bool is_marked(const struct table *t, __u32 slot)
{
	return __atomic_load_n(marks_of(t, slot), __ATOMIC_SEQ_CST) & mark_bit(slot);
}

static inline bool is_summed(const struct table *t, __u32 slot)
{
	return __atomic_load_n(summary_of(t, slot), __ATOMIC_SEQ_CST) & summary_bit(t, slot);
}

/* Sets the mark of @slot, then its bit of the summary, each followed by a full barrier. */
static inline void mark(const struct table *t, __u32 slot)
{
	if (!is_marked(t, slot))
		__atomic_fetch_or(marks_of(t, slot), mark_bit(slot), __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!is_summed(t, slot))
		__atomic_fetch_or(summary_of(t, slot), summary_bit(t, slot), __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* KICK that has the kernel look at all these slots now. */
static inline int kick_slots(const struct table *t, const __u32 *slots, unsigned int n)
{
	while (n--)
		mark(t, slots[n]);
	return turn_now(t->fd);
}

/* KICK that has the kernel look at one timer now. */
static inline int kick(const struct table *t, __u64 id)
{
	mark(t, id);
	return turn_now(t->fd);
}

/*
 * Arms or moves a timer, and kicks unless the kernel looks by itself in time, even where a
 * mark would do. Returns the previous word.
 */
static inline __u64 arm(struct table *t, __u64 id, __u64 deadline)
{
	struct twheel_slot *slot = slot_of(t, id);
	__u64 old = swap_word(slot, deadline);

	if (deadline <= wake(slot)) {
		kick(t, id);
		__atomic_fetch_add(&t->kicks, 1, __ATOMIC_RELAXED);
	}
	return old;
}

/* Returns when the wheel turns next. */
static inline __u64 next_turn(const struct table *t)
{
	return __atomic_load_n(&t->head->next_ns, __ATOMIC_SEQ_CST);
}

/*
 * Does what the protocol requires after an exchange to @deadline: a KICK only if the wheel
 * would turn too late. Returns 1 if it kicked, else 0, or the error of the KICK.
 */
static inline int mark_armed(struct table *t, __u64 id, __u64 deadline)
{
	int ret;

	if (deadline > wake(slot_of(t, id)))
		return 0;
	mark(t, id);
	if (deadline > next_turn(t))
		return 0;
	ret = turn_now(t->fd);
	__atomic_fetch_add(&t->kicks, 1, __ATOMIC_RELAXED);
	return ret < 0 ? ret : 1;
}

/* Arms or moves a timer by the protocol. */
static inline __u64 arm_marked(struct table *t, __u64 id, __u64 deadline)
{
	__u64 old = swap_word(slot_of(t, id), deadline);

	mark_armed(t, id, deadline);
	return old;
}

static inline __u64 disarm(const struct table *t, __u64 id)
{
	return swap_word(slot_of(t, id), 0);
}

/* Waits until the kernel publishes @value, which it must do. */
static inline bool wake_becomes(const struct twheel_slot *slot, __u64 value)
{
	unsigned int ms;

	for (ms = 0; ms < TIMEOUT_MS; ms++) {
		if (wake(slot) == value)
			return true;
		sleep_ms(1);
	}
	return false;
}

/* All ioctl numbers, which encode sizes and directions. */
static const unsigned int commands[] = {
	TWHEEL_IOC_SETUP, TWHEEL_IOC_INFO, TWHEEL_IOC_REGISTER, TWHEEL_IOC_REARM,
	TWHEEL_IOC_CANCEL, TWHEEL_IOC_GET, TWHEEL_IOC_BATCH, TWHEEL_IOC_LIST,
	 TWHEEL_IOC_KICK, TWHEEL_IOC_STATS,
};

static inline bool is_command(unsigned int cmd)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (commands[i] == cmd)
			return true;
	return false;
}

#endif /* WHEEL_H */
