// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* Opening a wheel, and the kernel's backend. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS	64
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "internal.h"

/* Of Linux 5.14. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE	23
#endif

#define DEVICE	"/dev/twheel"

#define OPEN_FLAGS	(TWHEEL_OPEN_KERNEL | TWHEEL_OPEN_INPROCESS | TWHEEL_OPEN_REALTIME)
#define OPEN_BACKEND	(TWHEEL_OPEN_KERNEL | TWHEEL_OPEN_INPROCESS)

#define STRING(x)	#x
#define DOTTED(a, b, c)	STRING(a) "." STRING(b) "." STRING(c)

TWHEEL_PUBLIC const char *twheel_version(void)
{
	return DOTTED(TWHEEL_VERSION_MAJOR, TWHEEL_VERSION_MINOR, TWHEEL_VERSION_PATCH);
}

void *twheel_map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (madvise(p, bytes, MADV_WIPEONFORK)) {
		munmap(p, bytes);
		return NULL;
	}
	return p;
}

/* The kernel's backend */

static int kernel_exec(struct twheel_ctx *wheel, struct twheel_op *ops, unsigned int nr)
{
	static const unsigned long cmd[] = {
		[TWHEEL_OP_REGISTER] = TWHEEL_IOC_REGISTER,
		[TWHEEL_OP_REARM] = TWHEEL_IOC_REARM,
		[TWHEEL_OP_CANCEL] = TWHEEL_IOC_CANCEL,
		[TWHEEL_OP_GET] = TWHEEL_IOC_GET,
	};
	struct twheel_batch batch = { .ops = (uintptr_t)ops, .count = nr };
	int ret;

	if (nr == 1 && ops->opcode < sizeof(cmd) / sizeof(*cmd) && cmd[ops->opcode]) {
		ops->result = ioctl(wheel->fd, cmd[ops->opcode], &ops->timer) ? -errno : 0;
		return 1;
	}
	ret = ioctl(wheel->fd, TWHEEL_IOC_BATCH, &batch);
	return ret < 0 ? -errno : ret;
}

static int kernel_kick(struct twheel_ctx *wheel, const uint32_t *slots, unsigned int nr)
{
	struct twheel_kick kick = { .slots = (uintptr_t)slots, .count = nr };
	int ret = ioctl(wheel->fd, TWHEEL_IOC_KICK, &kick);

	return ret < 0 ? -errno : ret;
}

static int kernel_read(struct twheel_ctx *wheel, struct twheel_event *events, size_t nr)
{
	struct iovec iov = { .iov_base = events, .iov_len = nr * sizeof(*events) };
	/* The descriptor may be a blocking one that somebody passed. */
	ssize_t ret;

	/* It does not wait, but what it has skipped may have taken until a signal. */
	do {
		ret = preadv2(wheel->fd, &iov, 1, -1, RWF_NOWAIT);
	} while (ret < 0 && errno == EINTR);
	if (ret < 0)
		return errno == EAGAIN ? 0 : -errno;
	return ret / sizeof(*events);
}

static int kernel_counters(struct twheel_ctx *wheel, struct twheel_stats *stats)
{
	return ioctl(wheel->fd, TWHEEL_IOC_STATS, stats) ? -errno : 0;
}

static void kernel_close(struct twheel_ctx *wheel)
{
	munmap(wheel->table, wheel->table_bytes);
	close(wheel->fd);
}

static const struct twheel_backend kernel_backend = {
	.name	= "kernel",
	.exec	= kernel_exec,
	.kick	= kernel_kick,
	.read	= kernel_read,
	.counters = kernel_counters,
	.close	= kernel_close,
};

/* Takes the wheel behind @fd, which stays the caller's if this fails. */
static int kernel_attach(struct twheel_ctx *wheel, int fd)
{
	struct twheel_table head;
	void *p;

	if (ioctl(fd, TWHEEL_IOC_INFO, &wheel->info))
		return -errno;
	if (!(wheel->info.features & TWHEEL_FEATURE_TABLE))
		return -EOPNOTSUPP;
	wheel->table_bytes = wheel->info.table_bytes;
	p = mmap(NULL, wheel->table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	/* Its first page, while a lack of memory can be told from a crash. */
	if (madvise(p, sizeof(head), MADV_POPULATE_WRITE) && errno == EFAULT) {
		munmap(p, wheel->table_bytes);
		return -ENOMEM;
	}
	/* Others can write there: it is read once, and then checked. */
	memcpy(&head, p, sizeof(head));
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (head.magic != TWHEEL_TABLE_MAGIC || head.slot_size != sizeof(struct twheel_slot) ||
	    head.slots_offset % sizeof(struct twheel_slot) ||
	    head.slots != wheel->info.max_timers ||
	    head.slots_offset + (uint64_t)head.slots * head.slot_size > wheel->table_bytes) {
		munmap(p, wheel->table_bytes);
		return -EOPNOTSUPP;
	}
	wheel->backend = &kernel_backend;
	wheel->fd = fd;
	wheel->table = p;
	wheel->words.slots = (struct twheel_slot *)((char *)p + head.slots_offset);
	wheel->words.nr_slots = head.slots;
	return 0;
}

/* A new wheel of the wanted shape. Takes @fd in any case. */
static int kernel_open(struct twheel_ctx *wheel, int fd, const struct twheel_setup *setup)
{
	struct twheel_setup shape = *setup;
	int err = ioctl(fd, TWHEEL_IOC_SETUP, &shape) ? -errno : kernel_attach(wheel, fd);

	if (err)
		close(fd);
	return err;
}

/* There is no device, or not for us. Any other error is one. */
static bool is_absent(int err)
{
	return err == -ENOENT || err == -ENODEV || err == -ENXIO || err == -EACCES ||
	       err == -EPERM;
}

static int open_backend(struct twheel_ctx *wheel, int backend, const struct twheel_setup *setup)
{
	int fd, err;

	if (backend == TWHEEL_OPEN_INPROCESS)
		return twheel_inprocess_open(wheel, setup);
	fd = open(DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		return kernel_open(wheel, fd, setup);
	err = -errno;
	if (!backend && TWHEEL_FALLBACK && is_absent(err))
		return twheel_inprocess_open(wheel, setup);
	return err;
}

/* What both ways of opening share */

static struct twheel_ctx *new_wheel(void)
{
	static uint64_t last_serial;
	struct twheel_ctx *wheel = calloc(1, sizeof(*wheel));

	if (!wheel)
		return NULL;
	wheel->home = twheel_map(sizeof(*wheel->home));
	if (!wheel->home) {
		free(wheel);
		return NULL;
	}
	wheel->home->here = true;
	/* Zeroes are a mutex, which is what a forked child finds. */
	pthread_mutex_init(&wheel->home->reading, NULL);
	pthread_mutex_init(&wheel->home->lock, NULL);
	wheel->serial = __atomic_add_fetch(&last_serial, 1, __ATOMIC_RELAXED);
	return wheel;
}

/* No thread has a cache of it. */
static void free_wheel(struct twheel_ctx *wheel)
{
	free(wheel->home->ids);
	free(wheel->home->pool);
	munmap(wheel->home, sizeof(*wheel->home));
	free(wheel);
}

/* The backend is there, or @err says why not. */
static int finish_open(struct twheel_ctx *wheel, int err, struct twheel_ctx **out)
{
	if (err) {
		free_wheel(wheel);
		return err;
	}
	*out = wheel;
	return 0;
}

static int map_shadow(struct twheel_ctx *wheel)
{
	wheel->shadow = twheel_map((size_t)wheel->words.nr_slots * sizeof(*wheel->shadow));
	return wheel->shadow ? 0 : -ENOMEM;
}

/* Return: flags of one backend, 0 for either, or -EINVAL. */
static int choose_backend(uint32_t flags)
{
	const char *name = secure_getenv("TWHEEL_BACKEND");

	if ((flags & OPEN_BACKEND) == OPEN_BACKEND)
		return -EINVAL;
	if (!name || !*name)
		return flags & OPEN_BACKEND;
	if (!strcmp(name, "kernel"))
		return TWHEEL_OPEN_KERNEL;
	if (!strcmp(name, "inprocess"))
		return TWHEEL_OPEN_INPROCESS;
	return -EINVAL;
}

/* Of any version: those that we do not know must not be used. */
static int copy_options(struct twheel_options *to, const struct twheel_options *from)
{
	const char *bytes = (const char *)from;
	size_t i;

	if (from->size < offsetof(struct twheel_options, tick_ns))
		return -EINVAL;
	for (i = sizeof(*to); i < from->size; i++) {
		if (bytes[i])
			return -E2BIG;
	}
	memcpy(to, from, from->size < sizeof(*to) ? from->size : sizeof(*to));
	return to->flags & ~OPEN_FLAGS ? -EINVAL : 0;
}

TWHEEL_PUBLIC int twheel_open(const struct twheel_options *options, struct twheel_ctx **out)
{
	struct twheel_options o = {};
	struct twheel_setup setup;
	struct twheel_ctx *wheel;
	int backend, err;

	if (options) {
		err = copy_options(&o, options);
		if (err)
			return err;
	}
	backend = choose_backend(o.flags);
	if (backend < 0)
		return backend;
	err = twheel_init_caches();
	if (err)
		return err;
	setup = (struct twheel_setup) {
		.tick_ns = o.tick_ns,
		.clock_id = o.clock_id,
		.max_timers = o.max_timers,
		.levels = o.levels,
		.slot_bits = o.slot_bits,
		.flags = o.flags & TWHEEL_OPEN_REALTIME ? TWHEEL_SETUP_REALTIME : 0,
	};
	wheel = new_wheel();
	if (!wheel)
		return -ENOMEM;
	err = open_backend(wheel, backend, &setup);
	if (!err) {
		err = map_shadow(wheel);
		if (err)
			wheel->backend->close(wheel);
	}
	return finish_open(wheel, err, out);
}

TWHEEL_PUBLIC int twheel_from_fd(int fd, struct twheel_ctx **out)
{
	int err = twheel_init_caches();
	struct twheel_ctx *wheel;

	if (err)
		return err;
	wheel = new_wheel();
	if (!wheel)
		return -ENOMEM;
	err = kernel_attach(wheel, fd);
	if (!err) {
		err = map_shadow(wheel);
		if (err)
			munmap(wheel->table, wheel->table_bytes);
	}
	return finish_open(wheel, err, out);
}

TWHEEL_PUBLIC void twheel_close(struct twheel_ctx *wheel)
{
	if (!wheel)
		return;
	twheel_end_timeouts(wheel);
	twheel_forget_caches(wheel);
	wheel->backend->close(wheel);
	munmap(wheel->shadow, (size_t)wheel->words.nr_slots * sizeof(*wheel->shadow));
	free_wheel(wheel);
}

TWHEEL_PUBLIC int twheel_fd(const struct twheel_ctx *wheel)
{
	return wheel->fd;
}

TWHEEL_PUBLIC const char *twheel_backend(const struct twheel_ctx *wheel)
{
	return wheel->backend->name;
}

TWHEEL_PUBLIC uint64_t twheel_now(const struct twheel_ctx *wheel)
{
	struct timespec ts;

	clock_gettime(wheel->info.clock_id, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

TWHEEL_PUBLIC void twheel_info(const struct twheel_ctx *wheel, struct twheel_info *info)
{
	*info = wheel->info;
}

TWHEEL_PUBLIC int twheel_counters(struct twheel_ctx *wheel, struct twheel_stats *stats)
{
	return wheel->backend->counters(wheel, stats);
}

TWHEEL_PUBLIC void twheel_usage(const struct twheel_ctx *wheel, struct twheel_usage *usage)
{
	usage->kicks = twheel_load(&wheel->usage.kicks);
	usage->kicked = twheel_load(&wheel->usage.kicked);
	usage->refills = twheel_load(&wheel->usage.refills);
	usage->withdrawn = twheel_load(&wheel->usage.withdrawn);
}
