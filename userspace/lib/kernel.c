// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* The kernel's backend: /dev/twheel. */
#include "internal.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT	0x00000008
#endif

/* How often twheel__find_namespace() reads fdinfo, to use the fastest of these reads. */
#define SAMPLES		3

static int kernel_exec(struct twheel *w, struct twheel_op *ops, unsigned int n)
{
	static const unsigned long cmd[] = {
		[TWHEEL_OP_REGISTER] = TWHEEL_IOC_REGISTER,
		[TWHEEL_OP_REARM] = TWHEEL_IOC_REARM,
		[TWHEEL_OP_CANCEL] = TWHEEL_IOC_CANCEL,
		[TWHEEL_OP_GET] = TWHEEL_IOC_GET,
	};
	struct twheel_batch batch = { .ops = (uintptr_t)ops, .count = n };
	int ret;

	if (n == 1 && ops->opcode < sizeof(cmd) / sizeof(*cmd) && cmd[ops->opcode]) {
		ops->result = ioctl(w->cold->fd, cmd[ops->opcode], &ops->timer) ? -errno : 0;
		return 1;
	}
	ret = ioctl(w->cold->fd, TWHEEL_IOC_BATCH, &batch);
	return ret < 0 ? -errno : ret;
}

static int kernel_kick(struct twheel *w)
{
	return ioctl(w->cold->fd, TWHEEL_IOC_KICK, 0) < 0 ? -errno : 0;
}

static ssize_t read_nowait(int fd, const struct iovec *iov)
{
#ifdef __GLIBC__
	return preadv2(fd, iov, 1, -1, RWF_NOWAIT);
#else
	return syscall(SYS_preadv2, fd, iov, 1, -1L, -1L, RWF_NOWAIT);
#endif
}

/*
 * All holders of the descriptor share O_NONBLOCK, so read_events() must not rely on it, and uses
 * RWF_NOWAIT. If an old kernel or a seccomp filter refuses that, it polls before it reads.
 */
static ssize_t read_events(struct cold *cold, struct twheel_event *events, size_t bytes)
{
	struct iovec iov = { .iov_base = events, .iov_len = bytes };
	struct pollfd pollfd = { .fd = cold->fd, .events = POLLIN };
	ssize_t ret;

	if (!cold->no_preadv2) {
		ret = read_nowait(cold->fd, &iov);
		if (ret >= 0 || (errno != ENOSYS && errno != EPERM && errno != EOPNOTSUPP))
			return ret;
		cold->no_preadv2 = true;
	}
	if ((fcntl(cold->fd, F_GETFL) & O_NONBLOCK) || poll(&pollfd, 1, 0) == 1)
		return read(cold->fd, events, bytes);
	errno = EAGAIN;
	return -1;
}

static int kernel_read(struct twheel *w, struct twheel_event *events, unsigned int n)
{
	ssize_t ret;

	do {
		ret = read_events(w->cold, events, n * sizeof(*events));
	} while (ret < 0 && errno == EINTR);
	if (ret < 0)
		return errno == EAGAIN ? 0 : -errno;
	return ret / sizeof(*events);
}

static bool kernel_ready(struct twheel *w, bool readable)
{
	(void)w;
	return readable;
}

/*
 * Turns the time of the next turn into a lower bound for the first deadline. A timer expires at
 * the first tick that is not before its deadline, so a deadline is less than a tick before the
 * turn. This includes marked slots that the wheel has not looked at yet, because a thread that
 * marks a slot for a deadline before the next turn also kicks.
 */
static uint64_t before_turn(uint64_t turn, uint64_t tick_ns)
{
	return turn == UINT64_MAX || turn < tick_ns ? turn : turn - tick_ns + 1;
}

/*
 * The load comes before poll(), so that no event is missed: either poll() reports it, or it comes
 * from the turn whose time was loaded.
 */
static uint64_t kernel_next(struct twheel *w)
{
	uint64_t turn = __atomic_load_n(w->next_ns, __ATOMIC_ACQUIRE);
	struct pollfd pollfd = { .fd = w->cold->fd, .events = POLLIN };

	return poll(&pollfd, 1, 0) == 1 ? 0 : before_turn(turn, w->cold->info.tick_ns);
}

static int kernel_list(struct twheel *w, struct twheel_timer *timers, unsigned int n,
		       uint32_t *cursor)
{
	struct twheel_list list = { .timers = (uintptr_t)timers, .count = n, .cursor = *cursor };
	int ret = ioctl(w->cold->fd, TWHEEL_IOC_LIST, &list);

	if (ret < 0)
		return -errno;
	*cursor = list.cursor;
	return ret;
}

static int kernel_stats(struct twheel *w, struct twheel_stats *stats)
{
	return ioctl(w->cold->fd, TWHEEL_IOC_STATS, stats) ? -errno : 0;
}

static void kernel_close(struct twheel *w)
{
	struct cold *cold = twheel__cold(w);

	munmap(cold->table, cold->table_bytes);
	if (cold->fd >= 0)
		close(cold->fd);
}

static const struct twheel_backend kernel_backend = {
	.name	= "kernel",
	.exec	= kernel_exec,
	.kick	= kernel_kick,
	.read	= kernel_read,
	.ready	= kernel_ready,
	.next	= kernel_next,
	.list	= kernel_list,
	.stats	= kernel_stats,
	.close	= kernel_close,
};

/*
 * The backend of a wheel that is only observed, so its words are not mapped. To map the table would
 * fix the shape of the wheel, so map_header() waits until the first timer has fixed it.
 */
static int refuse_exec(struct twheel *w, struct twheel_op *ops, unsigned int n)
{
	(void)w;
	(void)ops;
	(void)n;
	return -EACCES;
}

static int refuse_kick(struct twheel *w)
{
	(void)w;
	return -EACCES;
}

static int refuse_read(struct twheel *w, struct twheel_event *events, unsigned int n)
{
	(void)w;
	(void)events;
	(void)n;
	return -EACCES;
}

/*
 * Maps the table of a wheel. After mlockall(MCL_FUTURE), the kernel checks the size of a new
 * mapping against the limit of locked memory, although it locks none of the table: see twheel(4).
 * If the whole table exceeds that limit, it is mapped in pieces.
 *
 * Return: the table; NULL with a negative errno in @err.
 */
static char *map_table(int fd, size_t bytes, int prot, int *err)
{
	char *p = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);
	struct arena arena;
	size_t at, piece;

	if (p != MAP_FAILED)
		return p;
	*err = errno == EAGAIN ? twheel__arena_init(&arena, bytes) : -errno;
	if (*err)
		return NULL;
	for (at = 0; at < bytes; at += piece) {
		piece = bytes - at < PIECE ? bytes - at : PIECE;
		if (mmap(arena.base + at, piece, prot, MAP_SHARED | MAP_FIXED, fd, at) ==
		    MAP_FAILED) {
			*err = -ENOMEM;
			munmap(arena.base, arena.reserved);
			return NULL;
		}
	}
	return arena.base;
}

/*
 * Maps the table of an observed wheel, to read its header. The caller holds cold.reading.
 * Return: the header, or NULL with 0 in @err if the wheel had no timer yet, or with an error there.
 */
static const struct twheel_table *map_header(struct cold *cold, int *err)
{
	struct twheel_stats stats;
	struct twheel_info info;
	void *p;

	*err = 0;
	if (cold->table)
		return cold->table;
	if (ioctl(cold->fd, TWHEEL_IOC_STATS, &stats)) {
		*err = -errno;
		return NULL;
	}
	if (!stats.registered)
		return NULL;
	/* Ask again, because the owner may have changed the shape after twheel_observe_fd(). */
	if (ioctl(cold->fd, TWHEEL_IOC_INFO, &info)) {
		*err = -errno;
		return NULL;
	}
	p = map_table(cold->fd, info.table_bytes, PROT_READ, err);
	if (!p)
		return NULL;
	cold->table = p;
	cold->table_bytes = info.table_bytes;
	return p;
}

/* Returns 0, which means now, if the library cannot find out when the wheel turns. */
static uint64_t observed_next(struct twheel *w)
{
	const struct twheel_table *head;
	uint64_t turn, tick_ns = 1;
	int err;

	take_lock(&w->cold->reading);
	head = map_header(w->cold, &err);
	turn = err ? 0 : UINT64_MAX;
	if (head) {
		tick_ns = load64((const uint64_t *)&head->tick_ns);
		turn = __atomic_load_n((const uint64_t *)&head->next_ns, __ATOMIC_ACQUIRE);
	}
	drop_lock(&w->cold->reading);
	return before_turn(turn, tick_ns);
}

static void observed_close(struct twheel *w)
{
	struct cold *cold = twheel__cold(w);

	if (cold->table)
		munmap(cold->table, cold->table_bytes);
	if (cold->fd >= 0)
		close(cold->fd);
}

static const struct twheel_backend observed_backend = {
	.name	= "kernel",
	.exec	= refuse_exec,
	.kick	= refuse_kick,
	.read	= refuse_read,
	.ready	= kernel_ready,
	.next	= observed_next,
	.list	= kernel_list,
	.stats	= kernel_stats,
	.close	= observed_close,
};

/* Checks a copy of the header, because other processes can write to the header itself. */
static bool is_sane(const struct twheel_table *head, const struct twheel_info *info)
{
	uint64_t bits = ((uint64_t)head->slots + 63) / 64 * 8;

	return head->magic == TWHEEL_TABLE_MAGIC &&
	       head->slot_size == sizeof(struct twheel_slot) &&
	       head->slots == info->max_timers && head->slots_offset % 16 == 0 &&
	       head->marks_offset % 8 == 0 && head->summary_offset % 8 == 0 &&
	       head->summary_shift < 32 &&
	       head->slots_offset + (uint64_t)head->slots * 16 <= info->table_bytes &&
	       head->marks_offset + bits <= info->table_bytes &&
	       head->summary_offset + (bits >> head->summary_shift) + 8 <= info->table_bytes;
}

/*
 * For an unknown ioctl, some files have an errno of their own: EINVAL of epoll, EBADFD of a TUN
 * device, ENOSYS of /dev/loop-control. A wheel returns none of these, but a security module may
 * refuse the call.
 */
static int read_info(int fd, struct twheel_info *info)
{
	if (!ioctl(fd, TWHEEL_IOC_INFO, info))
		return 0;
	switch (errno) {
	case EBADF:
	case EACCES:
	case EPERM:
		return -errno;
	default:
		return -ENOTTY;
	}
}

/* Attaches @w to the wheel behind @fd. If this fails, the caller still owns @fd. */
int twheel__kernel_attach(struct twheel *w, int fd)
{
	struct cold *cold = w->cold;
	struct twheel_table head;
	int err;
	char *p;

	err = read_info(fd, &cold->info);
	if (err)
		return err;
	if (!(cold->info.features & TWHEEL_FEATURE_MARKS))
		return -EOPNOTSUPP;
	p = map_table(fd, cold->info.table_bytes, PROT_READ | PROT_WRITE, &err);
	if (!p)
		return err;
	memcpy(&head, p, sizeof(head));
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (!is_sane(&head, &cold->info)) {
		munmap(p, cold->info.table_bytes);
		return -EOPNOTSUPP;
	}
	cold->backend = &kernel_backend;
	cold->fd = fd;
	cold->table = p;
	cold->table_bytes = cold->info.table_bytes;
	w->words = (struct twheel_slot *)(p + head.slots_offset);
	set_nr_words(w, head.slots);
	w->marks = (uint64_t *)(p + head.marks_offset);
	w->summary = (uint64_t *)(p + head.summary_offset);
	w->shift = head.summary_shift;
	w->parks = cold->info.features & TWHEEL_FEATURE_PARKED;
	w->check_kind = !w->parks;
	w->next_ns = (uint64_t *)(p + offsetof(struct twheel_table, next_ns));
	return 0;
}

/* Lets @w observe the wheel behind @fd. If this fails, the caller still owns @fd. */
int twheel__kernel_observe(struct twheel *w, int fd)
{
	struct cold *cold = w->cold;
	int err;

	err = read_info(fd, &cold->info);
	if (err)
		return err;
	cold->backend = &observed_backend;
	cold->fd = fd;
	return 0;
}

/* Reads the time on the wheel's clock from fdinfo. Return: false if it cannot be read. */
static bool read_wheel_now(int fd, uint64_t *now)
{
	static const char key[] = "\ntwheel-now:\t";
	char path[64], text[4096], *at;
	ssize_t len;
	int info;

	snprintf(path, sizeof(path), "/proc/thread-self/fdinfo/%d", fd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	if (info < 0)
		return false;
	len = read(info, text, sizeof(text) - 1);
	close(info);
	if (len <= 0)
		return false;
	text[len] = '\0';
	at = strstr(text, key);
	if (at)
		*now = strtoull(at + sizeof(key) - 1, NULL, 10);
	return at;
}

/*
 * Finds out how far the wheel's clock is ahead of the clock of this process, which may be in
 * another time namespace than the process that opened the wheel. The result is the largest possible
 * value, so that a timer of twheel_after() is never early. It is too large by the time that a read
 * of fdinfo takes, which is some microseconds. Without /proc, the library has to assume that both
 * processes are in the same namespace.
 */
void twheel__find_namespace(struct twheel *w)
{
	struct cold *cold = w->cold;
	uint64_t width = UINT64_MAX;
	unsigned int i;

	for (i = 0; i < SAMPLES; i++) {
		uint64_t before = twheel__clock(cold->info.clock_id), after, now;

		if (!read_wheel_now(cold->fd, &now))
			return;
		after = twheel__clock(cold->info.clock_id);
		/* No difference can be seen, so it is the same namespace. */
		if (now >= before && now <= after) {
			cold->ahead_ns = 0;
			return;
		}
		if (after - before < width) {
			width = after - before;
			cold->ahead_ns = now - before;
		}
	}
}

/* Shapes the new wheel behind the descriptor of @w, and attaches @w to it. */
int twheel__kernel_open(struct twheel *w, const struct twheel_setup *setup)
{
	struct twheel_setup shape = *setup;

	if (ioctl(w->cold->fd, TWHEEL_IOC_SETUP, &shape))
		return -errno;
	return twheel__kernel_attach(w, w->cold->fd);
}
