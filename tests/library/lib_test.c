// SPDX-License-Identifier: GPL-2.0
/*
 * libtwheel: opening, waiting and reading, with both backends. Each sentence of the header has
 * a test here or in the other lib tests.
 */
#include "lib_test.h"
#include "filter.h"

#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/eventfd.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/timerfd.h>

#ifdef SYS_mmap2
#define MMAP	SYS_mmap2
#else
#define MMAP	SYS_mmap
#endif

/* ---- Opening ---- */

TEST(version)
{
	char text[32];

	snprintf(text, sizeof(text), "%d.%d.%d", TWHEEL_VERSION_MAJOR, TWHEEL_VERSION_MINOR,
		 TWHEEL_VERSION_PATCH);
	EXPECT_STREQ(text, twheel_version());
}

/*
 * By default twheel_open() opens a kernel wheel if there is a device, and otherwise an
 * in-process wheel.
 */
TEST(default_backend)
{
	struct twheel_options o = { .size = sizeof(o) };
	struct twheel *w;

	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	ASSERT_EQ(0, twheel_open(&w, NULL));
	EXPECT_STREQ(have_device() ? "kernel" : "inprocess", twheel_backend(w));
	twheel_close(w);
	ASSERT_EQ(0, twheel_open(&w, &o));
	EXPECT_STREQ(have_device() ? "kernel" : "inprocess", twheel_backend(w));
	twheel_close(w);
	twheel_close(NULL);
}

static bool hide_devices(void)
{
	return !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("none", "/dev", "tmpfs", 0, "mode=755");
}

/* The fallback, with no device and with a device that this user may not open. */
TEST(fallback)
{
	struct twheel_options kernel = { .size = sizeof(kernel), .flags = TWHEEL_OPEN_KERNEL };
	struct twheel *w;

	SKIP_UNLESS_ROOT();
	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	if (!hide_devices())
		SKIP(return, "cannot hide /dev here");
	ASSERT_EQ(0, twheel_open(&w, NULL));
	EXPECT_STREQ("inprocess", twheel_backend(w));
	EXPECT_TRUE(strstr(twheel_backend_reason(w), "is not there"));
	twheel_close(w);
	EXPECT_EQ(-ENOENT, twheel_open(&w, &kernel));

	ASSERT_EQ(0, mknod(TWHEEL_DEVICE, S_IFCHR | 0600, makedev(1, 3)));
	be_nobody(_metadata);
	ASSERT_EQ(0, twheel_open(&w, NULL));
	EXPECT_STREQ("inprocess", twheel_backend(w));
	EXPECT_TRUE(strstr(twheel_backend_reason(w), "by its mode"));
	twheel_close(w);
	EXPECT_EQ(-EACCES, twheel_open(&w, &kernel));
}

/*
 * If the kernel refuses to map the table, twheel_open() falls back to an in-process wheel, but
 * others can still observe kernel wheels. A filter refuses the mapping where the processor's
 * exchanges are bounded.
 */
TEST(no_table)
{
	struct twheel_options kernel = { .size = sizeof(kernel), .flags = TWHEEL_OPEN_KERNEL };
	struct twheel_timer t = { .deadline_ns = HOUR }, found;
	struct twheel_info info;
	uint32_t cursor = 0;
	struct twheel *w;
	uint64_t id;
	int fd;

	if (!have_device())
		SKIP(return, "no " TWHEEL_DEVICE);
	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	fd = open(TWHEEL_DEVICE, O_RDWR | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, ioctl(fd, TWHEEL_IOC_INFO, &info));
	EXPECT_EQ(!(info.features & TWHEEL_FEATURE_TABLE), !info.table_bytes);
	if (info.table_bytes && !refuse_call_with(MMAP, 3, MAP_SHARED, EOPNOTSUPP))
		SKIP(return, "no filter can be installed");

	EXPECT_EQ(-EOPNOTSUPP, twheel_open(&w, &kernel));
	EXPECT_EQ(-EOPNOTSUPP, twheel_open_fd(&w, fd));
	ASSERT_EQ(0, twheel_open(&w, NULL));
	EXPECT_STREQ("inprocess", twheel_backend(w));
	EXPECT_TRUE(strstr(twheel_backend_reason(w), "cannot be mapped"));
	ASSERT_EQ(0, twheel_add(w, 1, 7, &id));
	lib_expect(_metadata, w, id, 7, 1);
	EXPECT_EQ(0, twheel_del(w, id));
	twheel_close(w);

	ASSERT_EQ(0, ioctl(fd, TWHEEL_IOC_REGISTER, &t));
	ASSERT_EQ(0, twheel_observe_fd(&w, fd));
	ASSERT_EQ(1, twheel_list(w, &found, 1, &cursor));
	EXPECT_EQ(t.id, found.id);
	twheel_close(w);
}

/* A file with the device's name that is no wheel is an error, and no reason to fall back. */
TEST(not_our_device)
{
	struct twheel *w;

	SKIP_UNLESS_ROOT();
	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	if (!hide_devices())
		SKIP(return, "cannot hide /dev here");
	ASSERT_EQ(0, mknod(TWHEEL_DEVICE, S_IFCHR | 0666, makedev(1, 3)));
	EXPECT_EQ(-ENOTTY, twheel_open(&w, NULL));
}

/*
 * The same error for each kind of file, whatever that answers to an unknown ioctl: epoll
 * returns EINVAL since Linux 6.9, a TUN device EBADFD, and /dev/loop-control ENOSYS. Not every
 * machine has these two devices.
 */
TEST(not_a_wheel)
{
	int fds[] = { epoll_create1(EPOLL_CLOEXEC), eventfd(0, EFD_CLOEXEC),
		      open("/dev/null", O_RDWR | O_CLOEXEC), open("/", O_RDONLY | O_CLOEXEC),
		      open("/dev/net/tun", O_RDWR | O_CLOEXEC),
		      open("/dev/loop-control", O_RDWR | O_CLOEXEC) };
	struct twheel *w;
	size_t i;

	for (i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		if (i >= 4 && fds[i] < 0)
			continue;
		ASSERT_LE(0, fds[i]);
		EXPECT_EQ(-ENOTTY, twheel_open_fd(&w, fds[i]));
		EXPECT_EQ(-ENOTTY, twheel_observe_fd(&w, fds[i]));
		close(fds[i]);
	}
	EXPECT_EQ(-EBADF, twheel_open_fd(&w, fds[0]));
}

/* TWHEEL_BACKEND selects the backend. */
TEST(environment)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_KERNEL };
	struct twheel *w;

	ASSERT_EQ(0, setenv("TWHEEL_BACKEND", "inprocess", 1));
	ASSERT_EQ(0, twheel_open(&w, &o));
	EXPECT_STREQ("inprocess", twheel_backend(w));
	EXPECT_TRUE(strstr(twheel_backend_reason(w), "TWHEEL_BACKEND"));
	twheel_close(w);
	ASSERT_EQ(0, setenv("TWHEEL_BACKEND", "sundial", 1));
	EXPECT_EQ(-EINVAL, twheel_open(&w, &o));
	EXPECT_EQ(-EINVAL, twheel_open(&w, NULL));
	/* An empty variable counts as unset. */
	ASSERT_EQ(0, setenv("TWHEEL_BACKEND", "", 1));
	o.flags = TWHEEL_OPEN_INPROCESS;
	ASSERT_EQ(0, twheel_open(&w, &o));
	EXPECT_TRUE(strstr(twheel_backend_reason(w), "TWHEEL_OPEN_INPROCESS"));
	twheel_close(w);
	ASSERT_EQ(0, setenv("TWHEEL_BACKEND", "kernel", 1));
	if (have_device()) {
		ASSERT_EQ(0, twheel_open(&w, &o));
		EXPECT_STREQ("kernel", twheel_backend(w));
		EXPECT_STREQ("", twheel_backend_reason(w));
		twheel_close(w);
	} else {
		EXPECT_EQ(-ENOENT, twheel_open(&w, &o));
	}
}

/* With a named device, twheel_open() opens a kernel wheel or fails. */
TEST(named_device)
{
	struct twheel_options o = { .size = sizeof(o), .device = "/nonexistent", .levels = 3 };
	struct twheel_info info;
	struct twheel *w;

	ASSERT_EQ(0, setenv("TWHEEL_BACKEND", "inprocess", 1));
	EXPECT_EQ(-ENOENT, twheel_open(&w, &o));
	o.device = "/dev/null";
	EXPECT_EQ(-ENOTTY, twheel_open(&w, &o));
	o.flags = TWHEEL_OPEN_INPROCESS;
	EXPECT_EQ(-EINVAL, twheel_open(&w, &o));
	o.flags = 0;
	o.device = TWHEEL_DEVICE;
	if (!have_device())
		return;
	ASSERT_EQ(0, twheel_open(&w, &o));
	EXPECT_STREQ("kernel", twheel_backend(w));
	EXPECT_STREQ("", twheel_backend_reason(w));
	ASSERT_EQ(0, twheel_info(w, &info));
	EXPECT_EQ(3, info.levels);
	twheel_close(w);
}

/* A process that has no key left for its threads' memory gets an error at once. */
TEST(no_key_left)
{
	struct twheel *w = NULL;
	pthread_key_t key;

	while (!pthread_key_create(&key, NULL))
		;
	EXPECT_EQ(-EAGAIN, twheel_open(&w, NULL));
	EXPECT_EQ(-EAGAIN, twheel_open_fd(&w, -1));
	EXPECT_EQ(NULL, w);
}

TEST(from_fd_refuses)
{
	struct twheel *w;
	int fd = open("/dev/null", O_RDWR);

	ASSERT_GE(fd, 0);
	EXPECT_EQ(-ENOTTY, twheel_open_fd(&w, fd));
	/* A refused descriptor still belongs to the caller. */
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(-EBADF, twheel_open_fd(&w, fd));
	if (!have_device())
		return;
	fd = open(TWHEEL_DEVICE, O_RDONLY);
	ASSERT_GE(fd, 0);
	EXPECT_EQ(-EACCES, twheel_open_fd(&w, fd));
	EXPECT_EQ(0, close(fd));
}

/* Observing a wheel changes nothing: neither its shape nor its counters. */
TEST(observed)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_KERNEL };
	struct twheel_setup setup = { .levels = 2 };
	struct twheel_timer t = {}, timers[4];
	struct twheel_stats before, after;
	struct twheel *w, *observer;
	struct twheel_event ev;
	unsigned int n = 0;
	uint64_t id, other;
	uint32_t cursor = 0;
	int fd, ret;

	fd = open("/dev/null", O_RDWR);
	ASSERT_GE(fd, 0);
	EXPECT_EQ(-ENOTTY, twheel_observe_fd(&observer, fd));
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(-EBADF, twheel_observe_fd(&observer, fd));
	OPEN_OR_SKIP(&o, &w);
	t.deadline_ns = HOUR;
	t.user_data = 42;
	ASSERT_EQ(0, lib_register(w, &t));
	ASSERT_EQ(0, twheel_add(w, twheel_after(w, HOUR), 7, &id));
	ASSERT_EQ(0, twheel_add(w, 1, 7, &other));
	ASSERT_TRUE(is_unread(w));
	ASSERT_EQ(0, twheel_stats(w, &before));

	ASSERT_EQ(0, twheel_observe_fd(&observer, dup(twheel_fd(w))));
	EXPECT_STREQ("kernel", twheel_backend(observer));
	EXPECT_STREQ("", twheel_backend_reason(observer));
	EXPECT_EQ(-EACCES, twheel_add(observer, 1, 0, &other));
	EXPECT_EQ(-ENOENT, twheel_set(observer, t.id, 1));
	EXPECT_EQ(-ENOENT, twheel_clear(observer, t.id));
	EXPECT_EQ(-EACCES, twheel_del(observer, t.id));
	EXPECT_EQ(-EACCES, lib_cancel(observer, t.id));
	EXPECT_EQ(-EACCES, twheel_wake(observer));
	EXPECT_EQ(-EACCES, twheel_read(observer, &ev, 1));
	EXPECT_EQ(-EACCES, twheel_drain(observer, TWHEEL_DRAIN_CANCEL));
	EXPECT_EQ(1, twheel_wait(observer, 0));
	while ((ret = twheel_list(observer, timers, ARRAY_SIZE(timers), &cursor)) > 0) {
		while (ret--)
			n += timers[ret].id == t.id && timers[ret].user_data == 42;
	}
	EXPECT_EQ(0, ret);
	EXPECT_EQ(1, n);
	poison(&after);
	EXPECT_EQ(0, twheel_stats(observer, &after));
	/* The owner does not count its own timer for wake-ups, but an observer does. */
	EXPECT_EQ(before.allocated + 1, after.allocated);
	EXPECT_EQ(before.armings, after.armings);
	twheel_close(observer);
	EXPECT_EQ(0, twheel_stats(w, &after));
	EXPECT_EQ(0, memcmp(&before, &after, sizeof(after)));
	EXPECT_EQ(1, twheel_del(w, id));
	twheel_close(w);

	fd = open(TWHEEL_DEVICE, O_RDWR);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, twheel_observe_fd(&observer, dup(fd)));
	EXPECT_EQ(0, ioctl(fd, TWHEEL_IOC_SETUP, &setup));
	twheel_close(observer);
	close(fd);
	fd = open(TWHEEL_DEVICE, O_RDONLY);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, twheel_observe_fd(&observer, fd));
	twheel_close(observer);
}

/* Expects twheel_next() of an observer to return a bound, or to report that there is no timer. */
static void expect_next(struct __test_metadata *_metadata, int fd, uint64_t first)
{
	struct twheel *observer, *w;

	ASSERT_EQ(0, twheel_observe_fd(&observer, dup(fd)));
	EXPECT_GE(first, twheel_next(observer));
	EXPECT_LE(first - first / 4, twheel_next(observer));
	twheel_close(observer);
	ASSERT_EQ(0, twheel_open_fd(&w, dup(fd)));
	EXPECT_GE(first, twheel_next(w));
	EXPECT_LE(first - first / 4, twheel_next(w));
	twheel_close(w);
}

/*
 * twheel_next() also covers timers that another process has armed, by ioctl or through the
 * table.
 */
TEST(next_of_others)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_KERNEL };
	struct twheel_setup setup = { .tick_ns = NS_PER_MS / 4 };
	struct twheel_timer t = { .flags = TWHEEL_ABSTIME };
	struct twheel *w, *observer;
	uint64_t first, id;
	int fd;

	OPEN_OR_SKIP(&o, &w);
	ASSERT_EQ(0, twheel_observe_fd(&observer, dup(twheel_fd(w))));
	EXPECT_EQ(NEVER, twheel_next(observer));
	/* In ten years: three quarters of that is later than now. */
	first = twheel_after(w, 87660 * HOUR);
	ASSERT_EQ(0, twheel_add(w, first, 0, &id));
	EXPECT_GE(first, twheel_next(observer));
	expect_next(_metadata, twheel_fd(w), first);
	/* This timer is only marked, and nothing else in the wheel shows it. */
	t.deadline_ns = first - 1000 * HOUR;
	ASSERT_EQ(0, lib_register(w, &t));
	ASSERT_EQ(1, twheel_set(w, id, first - HOUR));
	EXPECT_EQ(TWHEEL_ARMED, lib_cancel(w, t.id));
	expect_next(_metadata, twheel_fd(w), first - HOUR);
	EXPECT_GE(first - HOUR, twheel_next(observer));
	twheel_close(observer);
	twheel_close(w);

	/* Before its first timer a wheel can still be given another shape. */
	fd = open(TWHEEL_DEVICE, O_RDWR);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, twheel_observe_fd(&observer, dup(fd)));
	EXPECT_EQ(NEVER, twheel_next(observer));
	ASSERT_EQ(0, ioctl(fd, TWHEEL_IOC_SETUP, &setup));
	t.deadline_ns = first;
	ASSERT_EQ(0, ioctl(fd, TWHEEL_IOC_REGISTER, &t));
	EXPECT_GE(first, twheel_next(observer));
	EXPECT_LE(first - first / 4, twheel_next(observer));
	twheel_close(observer);
	close(fd);
	/* The table of a write-only descriptor cannot be mapped, so the result is "now". */
	fd = open(TWHEEL_DEVICE, O_WRONLY);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, ioctl(fd, TWHEEL_IOC_REGISTER, &t));
	ASSERT_EQ(0, twheel_observe_fd(&observer, fd));
	EXPECT_EQ(0, twheel_next(observer));
	twheel_close(observer);
}

static bool scribbled;

static void *scribble(void *arg)
{
	struct twheel_table *head = arg, good = *head;
	unsigned int i;

	for (i = 0; !__atomic_load_n(&scribbled, __ATOMIC_RELAXED); i++) {
		__atomic_store_n(&head->slots, i % 2 ? good.slots : i % 4 ? 1 : 0xffffffff,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&head->slots_offset,
				 i % 3 ? good.slots_offset : i % 5 ? 0xfffffff0 : 4,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&head->marks_offset,
				 i % 7 ? good.marks_offset : i % 2 ? 0xfffffff8 : 4,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&head->summary_offset,
				 i % 5 ? good.summary_offset : i % 2 ? 0xfffffff8 : 4,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&head->summary_shift,
				 i % 11 ? good.summary_shift : i % 2 ? 0 : 64,
				 __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Other processes may write to the header, so the library uses a value only if it is plausible. */
TEST(scribbled_header)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_KERNEL };
	__u64 end = now(CLOCK_MONOTONIC) + 2 * NS_PER_SEC;
	struct twheel *w, *other;
	struct twheel_info info;
	unsigned int i, good = 0;
	pthread_t thread;
	uint64_t id;
	void *head;

	OPEN_OR_SKIP(&o, &w);
	ASSERT_EQ(0, twheel_info(w, &info));
	head = mmap(NULL, info.table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, twheel_fd(w), 0);
	ASSERT_TRUE(head != MAP_FAILED);
	ASSERT_EQ(TWHEEL_TABLE_MAGIC, ((struct twheel_table *)head)->magic);
	ASSERT_EQ(0, pthread_create(&thread, NULL, scribble, head));
	for (i = 0; i < 500 && now(CLOCK_MONOTONIC) < end; i++) {
		int fd = dup(twheel_fd(w)), ret = twheel_open_fd(&other, fd);

		if (ret) {
			ASSERT_EQ(-EOPNOTSUPP, ret);
			close(fd);
			continue;
		}
		ASSERT_EQ(0, twheel_add(other, twheel_now(other) + HOUR, 0, &id));
		ASSERT_EQ(1, twheel_del(other, id));
		twheel_close(other);
		good++;
	}
	__atomic_store_n(&scribbled, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	TH_LOG("%u of %u accepted", good, i);
	munmap(head, info.table_bytes);
	twheel_close(w);
}

TEST_F(lib, options)
{
	struct twheel_options o = self->o;
	struct {
		struct twheel_options o;
		char more[8];
	} later = { .o = self->o };
	/* The first has a wrong size, and the third asks for both backends at once. */
	static const struct twheel_options bad[] = {
		{ .flags = 1 << 4 },
		{ .flags = TWHEEL_OPEN_KERNEL | TWHEEL_OPEN_INPROCESS },
		{ .slot_bits = 3 },
		{ .slot_bits = 13 },
		{ .slot_bits = 9, .levels = 9 },
		{ .levels = 17 },
		{ .max_timers = (1 << 24) + 1 },
		{ .max_timers = UINT32_MAX },
		{ .clock_id = CLOCK_PROCESS_CPUTIME_ID },
		{ .clock_id = CLOCK_MONOTONIC, .flags = TWHEEL_OPEN_REALTIME },
	};
	struct twheel_info i;
	struct twheel *w;
	unsigned int k;
	char *end;

	EXPECT_STREQ(variant->flags & TWHEEL_OPEN_KERNEL ? "kernel" : "inprocess",
		     twheel_backend(self->w));
	ASSERT_EQ(0, twheel_info(self->w, &i));
	EXPECT_EQ(DEFAULT_TICK, i.tick_ns);
	EXPECT_EQ(CLOCK_MONOTONIC, i.clock_id);
	EXPECT_EQ(1 << 20, i.max_timers);
	EXPECT_EQ(6, i.slot_bits);
	EXPECT_EQ(8, i.levels);
	/* Only a kernel wheel has a table that can be mapped. */
	EXPECT_EQ(variant->flags & TWHEEL_OPEN_KERNEL, i.table_bytes ? TWHEEL_OPEN_KERNEL : 0);

	o.tick_ns = 200000;
	o.clock_id = CLOCK_BOOTTIME;
	o.max_timers = 100;
	o.levels = 2;
	o.slot_bits = 8;
	ASSERT_EQ(0, twheel_open(&w, &o));
	poison(&i);
	ASSERT_EQ(0, twheel_info(w, &i));
	EXPECT_EQ(131072, i.tick_ns);
	EXPECT_EQ(CLOCK_BOOTTIME, i.clock_id);
	EXPECT_EQ(100, i.max_timers);
	EXPECT_EQ(2, i.levels);
	EXPECT_EQ(8, i.slot_bits);
	EXPECT_EQ(1ULL << (17 + 16), i.horizon_ns);
	twheel_close(w);

	/* Zero in any field selects the default. */
	o.size = 0;
	o.tick_ns = 0;
	ASSERT_EQ(0, twheel_open(&w, &o));
	ASSERT_EQ(0, twheel_info(w, &i));
	EXPECT_EQ(DEFAULT_TICK, i.tick_ns);
	EXPECT_EQ(100, i.max_timers);
	EXPECT_EQ(8, i.slot_bits);
	twheel_close(w);
	o.tick_ns = 200000;

	/* Structures of an earlier and of a later version. */
	o.size = 1;
	EXPECT_EQ(-EINVAL, twheel_open(&w, &o));
	o.size = offsetof(struct twheel_options, clock_id);
	ASSERT_EQ(0, twheel_open(&w, &o));
	ASSERT_EQ(0, twheel_info(w, &i));
	EXPECT_EQ(131072, i.tick_ns);
	EXPECT_EQ(CLOCK_MONOTONIC, i.clock_id);
	twheel_close(w);
	later.o.size = sizeof(later);
	ASSERT_EQ(0, twheel_open(&w, &later.o));
	twheel_close(w);
	later.more[7] = 1;
	EXPECT_EQ(-E2BIG, twheel_open(&w, &later.o));
	/* A size of no version: the library must not look at that many bytes. */
	end = border(_metadata, PROT_NONE);
	memset(end - 256, 0, 256);
	o = self->o;
	o.size = UINT32_MAX;
	memcpy(end - 256, &o, sizeof(o));
	EXPECT_EQ(-E2BIG, twheel_open(&w, (void *)(end - 256)));

	for (k = 0; k < ARRAY_SIZE(bad); k++) {
		o = bad[k];
		o.size = sizeof(o);
		o.flags |= self->o.flags;
		EXPECT_EQ(-EINVAL, twheel_open(&w, &o))
			TH_LOG("row %u", k);
	}
}

/* Returns the value of the only metric line that starts with @line, or -1. */
static double metric(const char *page, const char *line)
{
	const char *at = strstr(page, line);

	if (!at || (at > page && at[-1] != '\n') || strstr(at + 1, line))
		return -1;
	return strtod(at + strlen(line), NULL);
}

static unsigned int occurrences(const char *page, const char *words)
{
	unsigned int n = 0;

	while ((page = strstr(page, words))) {
		page++;
		n++;
	}
	return n;
}

/* Returns what twheel_metrics() writes, for free(). */
static char *page_of(struct __test_metadata *_metadata, struct twheel *w, const char *labels)
{
	char *page = NULL;
	size_t size;
	FILE *f = open_memstream(&page, &size);

	ASSERT_TRUE(f);
	EXPECT_EQ(0, twheel_metrics(w, labels, f));
	ASSERT_EQ(0, fclose(f));
	return page;
}

/* A page of metrics has each name once, and agrees with the statistics. */
TEST_F(lib, metrics)
{
	bool kernel = variant->flags & TWHEEL_OPEN_KERNEL;
	char *page, line[128];
	struct twheel_stats s;
	struct twheel *observer;
	uint64_t id, late = 0;
	unsigned int i;
	FILE *f;

#define METRIC(name, labels) ({ \
	snprintf(line, sizeof(line), "%s{backend=\"%s\"%s} ", name, \
		 kernel ? "kernel" : "inprocess", labels); \
	metric(page, line); })
	page = page_of(_metadata, self->w, NULL);
	EXPECT_EQ(0, METRIC("twheel_timers", ",state=\"armed\""));
	EXPECT_EQ(0, METRIC("twheel_armings_total", ""));
	EXPECT_EQ(1 << 20, METRIC("twheel_timers_max", ""));
	EXPECT_LT(1e300, METRIC("twheel_next_seconds", ""));
	free(page);

	ASSERT_EQ(0, twheel_add(self->w, twheel_now(self->w) + 100 * NS_PER_MS, 1, &id));
	lib_event(_metadata, self->w);
	ASSERT_EQ(0, twheel_set(self->w, id, twheel_after(self->w, HOUR)));
	ASSERT_EQ(0, twheel_stats(self->w, &s));
	/* The metric is 0 if this process had no turn before the deadline. */
	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++)
		late += s.lateness[i];
	TH_LOG("%llu were late", (unsigned long long)late);

	page = page_of(_metadata, self->w, "loop=\"a\"");
	EXPECT_EQ(1, METRIC("twheel_timers", ",loop=\"a\",state=\"armed\""));
	EXPECT_EQ(0, METRIC("twheel_timers", ",loop=\"a\",state=\"unread\""));
	EXPECT_EQ(s.allocated - 1, METRIC("twheel_timers", ",loop=\"a\",state=\"idle\""));
	EXPECT_EQ(1, METRIC("twheel_expired_total", ",loop=\"a\""));
	EXPECT_EQ(2, METRIC("twheel_armings_total", ",loop=\"a\""));
	EXPECT_LT(3000, METRIC("twheel_next_seconds", ",loop=\"a\""));
	EXPECT_EQ(late, METRIC("twheel_lateness_seconds_count", ",loop=\"a\""));
	EXPECT_EQ(late, METRIC("twheel_lateness_seconds_bucket", ",loop=\"a\",le=\"+Inf\""));
	EXPECT_EQ(0, METRIC("twheel_lateness_seconds_bucket", ",loop=\"a\",le=\"0.000001024\""));
	EXPECT_EQ(late,
		  METRIC("twheel_lateness_seconds_bucket", ",loop=\"a\",le=\"17.179869184\""));
	EXPECT_EQ(s.lateness_sum_ns / 1e9, METRIC("twheel_lateness_seconds_sum", ",loop=\"a\""));
	EXPECT_EQ(s.worst_lateness_ns / 1e9,
		  METRIC("twheel_lateness_max_seconds", ",loop=\"a\""));
	EXPECT_EQ(10, occurrences(page, "# HELP twheel_"));
	EXPECT_EQ(1, occurrences(page, "# TYPE twheel_timers gauge\n"));
	EXPECT_EQ(1, occurrences(page, "# TYPE twheel_lateness_seconds histogram\n"));
	free(page);
	if (kernel) {
		ASSERT_EQ(0, twheel_observe_fd(&observer, dup(twheel_fd(self->w))));
		page = page_of(_metadata, observer, NULL);
		EXPECT_LT(3000, METRIC("twheel_next_seconds", ""));
		EXPECT_GE(3600, METRIC("twheel_next_seconds", ""));
		EXPECT_EQ(1, METRIC("twheel_timers", ",state=\"armed\""));
		free(page);
		twheel_close(observer);
	}
#undef METRIC

	f = fopen("/dev/full", "w");
	ASSERT_TRUE(f);
	setvbuf(f, NULL, _IONBF, 0);
	EXPECT_EQ(-EIO, twheel_metrics(self->w, NULL, f));
	fclose(f);
}

/* With each clock, the time is that clock's, no timer is early, and each expires. */
TEST_F(lib, clocks)
{
	static const int clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME, CLOCK_TAI };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(clocks); i++) {
		struct twheel_options o = self->o;
		struct twheel_event ev;
		struct twheel *w;
		uint64_t id, at, before;

		if (clocks[i] == CLOCK_REALTIME)
			o.flags |= TWHEEL_OPEN_REALTIME;
		else
			o.clock_id = clocks[i];
		ASSERT_EQ(0, twheel_open(&w, &o));
		before = now(clocks[i]);
		at = twheel_now(w);
		EXPECT_LE(before, at);
		EXPECT_GE(now(clocks[i]), at);
		at += 30 * NS_PER_MS;
		ASSERT_EQ(0, twheel_add(w, at, i, &id));
		ASSERT_EQ(1, lib_collect(w, &ev, 1));
		EXPECT_GE(now(clocks[i]), at);
		EXPECT_EQ(i, ev.user_data);
		EXPECT_EQ(at, ev.deadline_ns);
		EXPECT_GE(ev.expired_ns, at);
		twheel_close(w);
	}
}

/* Sets the wall clock to a date that does not fit a 32-bit time_t. */
static void set_date(struct __test_metadata *_metadata, uint64_t seconds)
{
	long long ts[2] = { seconds, 0 };

#ifdef SYS_clock_settime64
	EXPECT_EQ(0, syscall(SYS_clock_settime64, CLOCK_REALTIME, ts));
#else
	EXPECT_EQ(0, syscall(SYS_clock_settime, CLOCK_REALTIME, ts));
#endif
}

/* Deadlines keep their meaning when the wall clock is set. Only on a machine for tests. */
TEST_F(lib, clock_set)
{
	uint64_t base = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC), start, id, far, at;
	struct twheel_options o = self->o;
	struct twheel_event ev;
	struct twheel *w;

	if (!have_device() || !is_root())
		SKIP(return, "only where the clock is nobody's: in the test machine");
	o.flags |= TWHEEL_OPEN_REALTIME;
	ASSERT_EQ(0, twheel_open(&w, &o));
	start = now(CLOCK_REALTIME);
	ASSERT_EQ(0, twheel_add(w, start + 600 * SECOND, 1, &id));
	ASSERT_EQ(0, twheel_add(w, start + 7200 * SECOND, 2, &far));
	EXPECT_TRUE(quiet(w));
	set_wall_clock(_metadata, start + 3600 * SECOND);
	EXPECT_EQ(1, lib_event(_metadata, w).user_data);
	EXPECT_TRUE(quiet(w));
	/* Set back: the timer is due when the clock gets there again. */
	ASSERT_EQ(1, twheel_set(w, far, now(CLOCK_REALTIME) + 100 * NS_PER_MS));
	start -= 3600 * SECOND;
	set_wall_clock(_metadata, start);
	sleep_ms(200);
	EXPECT_TRUE(quiet(w));
	at = now(CLOCK_REALTIME) + 1500 * NS_PER_MS;
	ASSERT_EQ(1, twheel_set(w, far, at));
	EXPECT_EQ(2, lib_event(_metadata, w).user_data);
	/*
	 * A moment that has passed may come again, while its event is unread and the library
	 * has not noticed yet, or when the timer is armed again.
	 */
	at = now(CLOCK_REALTIME) + 1500 * NS_PER_MS;
	ASSERT_EQ(0, twheel_set(w, far, at));
	ASSERT_EQ(1, twheel_wait(w, TIMEOUT_MS * NS_PER_MS));
	set_wall_clock(_metadata, start);
	if (!twheel_read(w, &ev, 1))
		EXPECT_EQ(1, lib_collect(w, &ev, 1));
	EXPECT_EQ(at, ev.deadline_ns);
	EXPECT_GE(ev.expired_ns, at);
	set_wall_clock(_metadata, start);
	ASSERT_EQ(0, twheel_set(w, far, at));
	EXPECT_EQ(1, lib_collect(w, &ev, 1));
	EXPECT_EQ(at, ev.deadline_ns);
	EXPECT_GE(ev.expired_ns, at);
	set_wall_clock(_metadata, base + now(CLOCK_MONOTONIC));
	twheel_close(w);
}

/* A 32-bit program, whose time_t may end in 2038, runs with a wall clock in 2040. */
TEST_F(lib, clock_of_2040)
{
	uint64_t base = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC), at, id, date = 2208988800;
	struct twheel_options o = self->o;
	struct twheel_event ev;
	struct twheel *w;
	unsigned int i;

	if (!have_device() || !is_root())
		SKIP(return, "only where the clock is nobody's: in the test machine");
	set_date(_metadata, date);
	for (i = 0; i < 2; i++) {
		o.flags = self->o.flags | (i ? 0 : TWHEEL_OPEN_REALTIME);
		o.clock_id = i ? CLOCK_TAI : 0;
		ASSERT_EQ(0, twheel_open(&w, &o));
		at = twheel_now(w);
		EXPECT_LE(date * SECOND, at);
		EXPECT_GE((date + 3600) * SECOND, at);
		at += 30 * NS_PER_MS;
		ASSERT_EQ(0, twheel_add(w, at, 1, &id));
		EXPECT_EQ(1, lib_collect(w, &ev, 1));
		EXPECT_EQ(at, ev.deadline_ns);
		EXPECT_GE(ev.expired_ns, at);
		twheel_close(w);
	}
	set_date(_metadata, (base + now(CLOCK_MONOTONIC)) / SECOND);
}

/* CLOCK_TAI jumps when its offset from CLOCK_REALTIME is set, as chrony does after a boot. */
TEST_F(lib, tai_set)
{
	struct twheel_options o = self->o;
	struct timex zero = { .modes = ADJ_TAI }, far = { .modes = ADJ_TAI, .constant = 37 };
	struct pollfd pollfd = { .events = POLLIN };
	struct twheel_event ev;
	struct twheel *w;
	uint64_t id, at;

	if (!have_device() || !is_root())
		SKIP(return, "only where the clock is nobody's: in the test machine");
	ASSERT_LE(0, adjtimex(&zero));
	o.clock_id = CLOCK_TAI;
	ASSERT_EQ(0, twheel_open(&w, &o));
	at = twheel_now(w) + 36 * SECOND;
	ASSERT_EQ(0, twheel_add(w, at, 1, &id));
	EXPECT_TRUE(quiet(w));
	ASSERT_LE(0, adjtimex(&far));
	/* An in-process wheel checks once a second. */
	pollfd.fd = twheel_fd(w);
	EXPECT_EQ(1, poll(&pollfd, 1, 5000));
	EXPECT_EQ(1, lib_collect(w, &ev, 1));
	EXPECT_EQ(at, ev.deadline_ns);
	/* Set back: the timer is due when the clock gets there. */
	at = twheel_now(w) + 200 * NS_PER_MS;
	ASSERT_EQ(0, twheel_set(w, id, at));
	far.constant = 34;
	ASSERT_LE(0, adjtimex(&far));
	EXPECT_EQ(1, lib_collect(w, &ev, 1));
	EXPECT_EQ(at, ev.deadline_ns);
	EXPECT_GE(ev.expired_ns, at);
	ASSERT_LE(0, adjtimex(&zero));
	twheel_close(w);
}

/* ---- Waiting and reading ---- */

TEST_F(lib, wait)
{
	uint64_t before = now(CLOCK_MONOTONIC), id;
	struct twheel_event ev;

	EXPECT_EQ(0, twheel_wait(self->w, 0));
	EXPECT_EQ(0, twheel_wait(self->w, 20 * NS_PER_MS));
	EXPECT_GE(now(CLOCK_MONOTONIC), before + 20 * NS_PER_MS);
	EXPECT_EQ(0, twheel_read(self->w, &ev, 1));
	EXPECT_EQ(-EINVAL, twheel_read(self->w, &ev, 0));

	/* A deadline in the past needs no wait. */
	ASSERT_EQ(0, twheel_add(self->w, 1, 0, &id));
	EXPECT_EQ(1, twheel_read(self->w, &ev, 1));
	EXPECT_EQ(0, twheel_del(self->w, id));

	ASSERT_EQ(0, twheel_add(self->w, twheel_now(self->w) + 10 * NS_PER_MS, 0, &id));
	EXPECT_EQ(1, twheel_wait(self->w, -1));
	EXPECT_TRUE(readable(twheel_fd(self->w), 0));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_FALSE(readable(twheel_fd(self->w), 0));
	EXPECT_EQ(0, twheel_wait(self->w, 0));
}

/*
 * A due timer can be read even if the timerfd's interrupt has not come yet. That is common on
 * an emulated machine; in this test the interrupt never comes.
 */
TEST(wait_before_interrupt)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_INPROCESS };
	const struct itimerspec never = { };
	struct twheel_event ev;
	struct twheel *w;
	uint64_t id;

	OPEN_OR_SKIP(&o, &w);
	ASSERT_EQ(0, twheel_add(w, 1, 7, &id));
	ASSERT_EQ(0, timerfd_settime(twheel_fd(w), 0, &never, NULL));
	EXPECT_EQ(1, twheel_wait(w, 0));
	ASSERT_EQ(1, twheel_read(w, &ev, 1));
	EXPECT_EQ(0, twheel_wait(w, 0));

	ASSERT_EQ(0, twheel_wake(w));
	ASSERT_EQ(0, timerfd_settime(twheel_fd(w), 0, &never, NULL));
	EXPECT_EQ(1, twheel_wait(w, 0));
	EXPECT_EQ(0, twheel_read(w, &ev, 1));

	/* The same some time after the arming. */
	ASSERT_EQ(0, twheel_set(w, id, twheel_after(w, 10 * NS_PER_MS)));
	ASSERT_EQ(0, timerfd_settime(twheel_fd(w), 0, &never, NULL));
	EXPECT_EQ(1, twheel_wait(w, 30 * NS_PER_MS));
	EXPECT_EQ(1, twheel_read(w, &ev, 1));
	twheel_close(w);
}

TEST_F(lib, wait_signal)
{
	catch_signal(SIGALRM, 0);
	signal_every(20000);
	EXPECT_EQ(-EINTR, twheel_wait(self->w, TIMEOUT_MS * NS_PER_MS));
	signal_every(0);
}

/* A wait may be longer than a 32-bit time_t can express, and still ends with an event. */
TEST_F(lib, wait_a_century)
{
	struct twheel_event ev;
	uint64_t id;

	ASSERT_EQ(0, twheel_add(self->w, twheel_now(self->w) + 10 * NS_PER_MS, 0, &id));
	EXPECT_EQ(1, twheel_wait(self->w, 100 * 365 * 24 * HOUR));
	EXPECT_EQ(1, lib_collect(self->w, &ev, 1));
}

struct cancelled {
	struct twheel *w;
	sem_t requested;
	int got;
	/* Not on the thread's stack, which an address sanitizer would no longer track. */
	struct twheel_event ev;
};

/* Reads after its cancellation was requested, and ends after that. */
static void *read_and_end(void *arg)
{
	struct cancelled *c = arg;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	sem_wait(&c->requested);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	c->got = twheel_read(c->w, &c->ev, 1);
	pthread_testcancel();
	return NULL;
}

/*
 * The 32-bit C library has ppoll() in the same object file as its variant for 64-bit times, so
 * it cannot be replaced.
 */
#if __SIZEOF_POINTER__ == 8
static __thread bool end_after_poll;

/* Replaces the C library's ppoll(), which calls none of our functions when it is done. */
int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *mask)
{
	struct timespec ts = limit ? *limit : (struct timespec) {};
	int ret = syscall(SYS_ppoll, fds, n, limit ? &ts : NULL, mask, _NSIG / 8);

	if (end_after_poll && ret > 0)
		pthread_cancel(pthread_self());
	return ret;
}

static void *wait_and_end(void *arg)
{
	struct twheel *w = arg;

	end_after_poll = true;
	twheel_wait(w, -1);
	pthread_testcancel();
	return NULL;
}

/* A thread that is canceled at the end of a wait leaves no lock behind. */
TEST_F(lib, canceled_after_a_wait)
{
	struct twheel_event ev;
	pthread_t thread;
	uint64_t id;
	void *ret;

	/* The timer becomes due only when the wheel is looked at. */
	ASSERT_EQ(0, twheel_add(self->w, twheel_now(self->w) + 5 * NS_PER_MS, 1, &id));
	ASSERT_EQ(0, pthread_create(&thread, NULL, wait_and_end, self->w));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(PTHREAD_CANCELED, ret);
	EXPECT_EQ(1, lib_collect(self->w, &ev, 1));
}
#endif

struct opened {
	const struct twheel_options *o;
	struct twheel *w;
	bool closed;
};

static void *open_and_end(void *arg)
{
	struct opened *o = arg;

	pthread_cancel(pthread_self());
	if (twheel_open(&o->w, o->o))
		o->w = NULL;
	pthread_testcancel();
	return NULL;
}

static void *close_and_end(void *arg)
{
	struct opened *o = arg;

	pthread_cancel(pthread_self());
	twheel_close(o->w);
	o->closed = true;
	pthread_testcancel();
	return NULL;
}

/* A thread is canceled before or after it opens or closes a wheel, not within. */
TEST_F(lib, canceled_while_it_opens)
{
	struct opened o = { .o = &self->o };
	pthread_t thread;
	void *ret;

	ASSERT_EQ(0, pthread_create(&thread, NULL, open_and_end, &o));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(PTHREAD_CANCELED, ret);
	ASSERT_NE(NULL, o.w);
	ASSERT_EQ(0, pthread_create(&thread, NULL, close_and_end, &o));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(PTHREAD_CANCELED, ret);
	EXPECT_TRUE(o.closed);
}

/* A thread that is canceled while it reads does not keep others from reading. */
TEST_F(lib, cancelled)
{
	uint64_t at = twheel_now(self->w) + 20 * NS_PER_MS;
	struct cancelled c = { .w = self->w, .got = -1 };
	struct twheel_event ev[2];
	uint64_t id[2];
	pthread_t thread;
	void *ret;

	/* Not due yet, so that an in-process wheel has to check its timerfd when it is read. */
	ASSERT_EQ(0, twheel_add(self->w, at, 1, &id[0]));
	ASSERT_EQ(0, twheel_add(self->w, at, 1, &id[1]));
	ASSERT_EQ(1, twheel_wait(self->w, TIMEOUT_MS * NS_PER_MS));
	ASSERT_EQ(0, sem_init(&c.requested, 0, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, read_and_end, &c));
	ASSERT_EQ(0, pthread_cancel(thread));
	ASSERT_EQ(0, sem_post(&c.requested));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(PTHREAD_CANCELED, ret);
	/* No event, if the wheel was readable only so that it is checked. */
	ASSERT_GE(c.got, 0);
	EXPECT_EQ(2 - c.got, lib_collect(self->w, ev, 2 - c.got));
	ASSERT_EQ(0, sem_destroy(&c.requested));
}

/* Adds @n timers that are due within 50 ms, some time after all of them were added. */
static void start_ahead(struct __test_metadata *_metadata, struct twheel *w, unsigned int n,
			uint64_t *id)
{
	uint64_t lead = 50 * NS_PER_MS, start;
	__u64 seed = now(CLOCK_REALTIME);
	unsigned int i;

	TH_LOG("seed %llu", (unsigned long long)seed);
	for (;; lead *= 2) {
		start = twheel_now(w) + lead;
		for (i = 0; i < n; i++)
			ASSERT_EQ(0, twheel_add(w, start + next_random(&seed) % (50 * NS_PER_MS),
						i, &id[i]));
		if (twheel_now(w) < start)
			break;
		for (i = 0; i < n; i++)
			ASSERT_EQ(1, twheel_del(w, id[i]));
	}
	/* All are due before the first is read. */
	while (twheel_now(w) < start + 60 * NS_PER_MS)
		sleep_ms(10);
}

/* Events are read in the order of their ticks, as many as fit; the others stay. */
TEST_F(lib, read_order)
{
	enum { N = 500 };
	struct twheel_event ev[7];
	static uint64_t id[N];
	static bool seen[N];
	unsigned int i, got = 0;
	uint64_t last = 0;
	int n;

	start_ahead(_metadata, self->w, N, id);
	while (got < N) {
		EXPECT_TRUE(readable(twheel_fd(self->w), TIMEOUT_MS));
		n = lib_take(self->w, ev, 7, TIMEOUT_MS);
		ASSERT_GT(n, 0);
		ASSERT_LE(n, 7);
		for (i = 0; i < (unsigned int)n; i++) {
			uint64_t tick = (ev[i].deadline_ns + DEFAULT_TICK - 1) / DEFAULT_TICK;

			EXPECT_LE(last, tick);
			last = tick;
			ASSERT_LT(ev[i].user_data, N);
			EXPECT_FALSE(seen[ev[i].user_data]);
			seen[ev[i].user_data] = true;
		}
		got += n;
	}
	EXPECT_FALSE(readable(twheel_fd(self->w), QUIET_MS));
}

/* The descriptor does not stay readable if only deadlines that were moved have passed. */
TEST_F(lib, not_readable_for_nothing)
{
	uint64_t id, at = twheel_now(self->w) + 20 * NS_PER_MS;
	struct twheel_event ev;

	ASSERT_EQ(0, twheel_add(self->w, at, 0, &id));
	EXPECT_EQ(1, twheel_set(self->w, id, at + HOUR));
	sleep_ms(60);
	EXPECT_EQ(0, twheel_read(self->w, &ev, 1));
	EXPECT_FALSE(readable(twheel_fd(self->w), QUIET_MS));
	EXPECT_EQ(1, twheel_del(self->w, id));
}

/* ---- No call is needed after arming ---- */

struct waiter {
	struct twheel *w;
	/* Waits with epoll, not with twheel_wait(). */
	bool loop;
	int ret;
	uint64_t woken;
	struct twheel_event ev;
};

static void *wait_and_read(void *arg)
{
	struct waiter *r = arg;
	struct epoll_event epoll = { .events = EPOLLIN };
	int fd = -1;

	if (r->loop) {
		fd = epoll_create1(EPOLL_CLOEXEC);
		epoll_ctl(fd, EPOLL_CTL_ADD, twheel_fd(r->w), &epoll);
	}
	do {
		if (r->loop)
			r->ret = epoll_wait(fd, &epoll, 1, TIMEOUT_MS);
		else
			r->ret = twheel_wait(r->w, -1);
		if (r->ret != 1)
			break;
		r->ret = twheel_read(r->w, &r->ev, 1);
	} while (!r->ret);
	__atomic_store_n(&r->woken, now(CLOCK_MONOTONIC), __ATOMIC_RELAXED);
	if (r->loop)
		close(fd);
	return NULL;
}

static void *add_and_end(void *arg)
{
	struct waiter *r = arg;
	uint64_t id;

	return (void *)(long)twheel_add(r->w, twheel_after(r->w, 100 * NS_PER_MS), 3, &id);
}

/*
 * A thread that waits without a limit wakes up for timers that another thread arms, which
 * makes no further call. The timers are new, moved earlier, armed again, or left by a thread
 * that has ended.
 */
TEST_F_TIMEOUT(lib, nothing_to_flush, 120)
{
	unsigned int way, loop;
	pthread_t thread, other;
	uint64_t id, armed;
	void *ret;

	for (way = 0; way < 4; way++) {
		for (loop = 0; loop < 2; loop++) {
			struct waiter r = { .w = self->w, .loop = loop };

			TH_LOG("way %u, %s", way, loop ? "epoll" : "twheel_wait()");
			if (way == 1)
				ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), 3,
							&id));
			if (way == 2) {
				ASSERT_EQ(0, twheel_add(self->w, 1, 3, &id));
				ASSERT_EQ(1, lib_collect(self->w, &r.ev, 1));
			}
			ASSERT_EQ(0, pthread_create(&thread, NULL, wait_and_read, &r));
			sleep_ms(50);
			armed = now(CLOCK_MONOTONIC);
			switch (way) {
			case 0:
				ASSERT_EQ(0, twheel_add(self->w,
							twheel_after(self->w, 100 * NS_PER_MS), 3,
							&id));
				break;
			case 1:
			case 2:
				ASSERT_EQ(way == 1,
					  twheel_set(self->w, id,
						     twheel_after(self->w, 100 * NS_PER_MS)));
				break;
			case 3:
				ASSERT_EQ(0, pthread_create(&other, NULL, add_and_end, &r));
				ASSERT_EQ(0, pthread_join(other, &ret));
				ASSERT_EQ(0, (long)ret);
			}
			sleep_ms(2000);
			EXPECT_NE(0, __atomic_load_n(&r.woken, __ATOMIC_RELAXED));
			ASSERT_EQ(0, pthread_join(thread, NULL));
			EXPECT_EQ(1, r.ret);
			EXPECT_EQ(3, r.ev.user_data);
			EXPECT_LT(r.woken, armed + 1500 * NS_PER_MS);
			EXPECT_GE(r.woken, armed + 100 * NS_PER_MS);
			EXPECT_EQ(0, twheel_del(self->w, r.ev.id));
		}
	}
}

/* ---- A wake-up for the waiter ---- */

static void *wait_for_ever(void *arg)
{
	struct waiter *r = arg;

	r->ret = twheel_wait(r->w, -1);
	return NULL;
}

TEST_F(lib, wake)
{
	struct waiter r = { .w = self->w, .ret = -1 };
	struct twheel_event ev;
	pthread_t thread;
	unsigned int i;
	uint64_t id;

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, pthread_create(&thread, NULL, wait_for_ever, &r));
		/* Before the thread waits, or while it does. */
		sleep_ms(i * 30);
		EXPECT_EQ(0, twheel_wake(self->w));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		EXPECT_EQ(1, r.ret);
		/* There is no event, and a read makes the wheel unreadable again. */
		EXPECT_EQ(0, twheel_read(self->w, &ev, 1));
		EXPECT_EQ(0, twheel_wait(self->w, 20 * NS_PER_MS));
		EXPECT_FALSE(readable(twheel_fd(self->w), 0));
	}
	/* twheel_wake() also wakes loops, and many calls count as one. */
	for (i = 0; i < 1000; i++)
		ASSERT_EQ(0, twheel_wake(self->w));
	EXPECT_TRUE(readable(twheel_fd(self->w), TIMEOUT_MS));
	EXPECT_EQ(0, twheel_read(self->w, &ev, 1));
	EXPECT_FALSE(readable(twheel_fd(self->w), QUIET_MS));

	/* A wake-up hides no event, and takes no event's place. */
	ASSERT_EQ(0, twheel_add(self->w, 1, 7, &id));
	EXPECT_EQ(0, twheel_wake(self->w));
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(7, lib_event(_metadata, self->w).user_data);
	EXPECT_EQ(0, twheel_del(self->w, id));
	twheel_read(self->w, &ev, 1);
	EXPECT_TRUE(quiet(self->w));
	/* Nor does it hide an event with the same user_data. */
	ASSERT_EQ(0, twheel_add(self->w, 1, 0x9c5e1fd63a08b7e2, &id));
	EXPECT_EQ(0x9c5e1fd63a08b7e2, lib_event(_metadata, self->w).user_data);
	EXPECT_EQ(0, twheel_wake(self->w));
	ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, 20 * NS_PER_MS), 8, &id));
	EXPECT_EQ(8, lib_event(_metadata, self->w).user_data);
}

/* A drain does not drop a wake-up that waits behind many due timers. */
TEST_F(lib, wake_before_drain)
{
	enum { DUE = 4096, ROUNDS = 40 };
	static struct twheel_op ops[DUE];
	static struct twheel_event ev[DUE];
	struct twheel_stats s;
	unsigned int i;
	uint64_t at, all;
	int got;

	for (i = 0; i < ROUNDS; i++) {
		at = twheel_after(self->w, 40 * NS_PER_MS);
		fill_ops(ops, DUE, TWHEEL_OP_REGISTER, at, TWHEEL_ABSTIME);
		ASSERT_EQ(DUE, twheel_submit(self->w, ops, DUE));
		while (twheel_now(self->w) < at + NS_PER_MS + i * 20000)
			;
		EXPECT_EQ(0, twheel_wake(self->w));
		EXPECT_LE(0, twheel_drain(self->w, TWHEEL_DRAIN_CANCEL));
		/* One of the unread events is that of the wake-up, which is never delivered. */
		ASSERT_EQ(0, twheel_stats(self->w, &s));
		for (all = 0; (got = twheel_read(self->w, ev, DUE)) > 0; all += got)
			;
		EXPECT_EQ(s.unread, all + 1);
	}
}

/* A drain also covers a timer whose deadline has passed, but whose tick has not. */
TEST_F(lib, drain_before_the_tick)
{
	struct twheel_options o = {
		.size = sizeof(o),
		.flags = variant->flags,
		.tick_ns = HOUR,
	};
	struct twheel_event ev;
	struct twheel *w;
	uint64_t id, at;

	ASSERT_EQ(0, twheel_open(&w, &o));
	at = twheel_after(w, 100 * NS_PER_MS);
	ASSERT_EQ(0, twheel_add(w, at, 42, &id));
	while (twheel_now(w) <= at)
		;
	ASSERT_EQ(0, twheel_read(w, &ev, 1));
	EXPECT_EQ(0, twheel_drain(w, TWHEEL_DRAIN_EXPIRE));
	poison(&ev);
	ASSERT_EQ(1, twheel_read(w, &ev, 1));
	EXPECT_EQ(42, ev.user_data);
	EXPECT_LE(at, ev.deadline_ns);
	EXPECT_LE(ev.deadline_ns, ev.expired_ns);
	EXPECT_EQ(0, twheel_del(w, id));
	lib_close(_metadata, w);
}

/*
 * twheel_usage() fills as many members as the program knows, and sets those that the library
 * does not know to 0.
 */
TEST_F(lib, usage_size)
{
	struct {
		struct twheel_usage known;
		uint64_t more;
	} u;
	const uint32_t least = sizeof(u.known);
	uint64_t id;

	ASSERT_EQ(0, twheel_add(self->w, twheel_now(self->w) + HOUR, 0, &id));
	memset(&u, 0xcc, sizeof(u));
	u.known.size = least;
	EXPECT_EQ(0, twheel_usage(self->w, &u.known));
	EXPECT_EQ(least, u.known.size);
	EXPECT_EQ(0, u.known.reserved);
	EXPECT_EQ(1, u.known.refills);
	EXPECT_EQ(0xccccccccccccccccULL, u.more);
	u.known.size = sizeof(u);
	EXPECT_EQ(0, twheel_usage(self->w, &u.known));
	EXPECT_EQ(0, u.more);
	memset(&u, 0xcc, sizeof(u));
	u.known.size = 0;
	EXPECT_EQ(0, twheel_usage(self->w, &u.known));
	EXPECT_EQ(1, u.known.refills);
	EXPECT_EQ(0xccccccccccccccccULL, u.more);
	memset(&u, 0xcc, sizeof(u));
	EXPECT_EQ(-E2BIG, twheel_usage(self->w, &u.known));
	u.known.size = least - 1;
	EXPECT_EQ(-EINVAL, twheel_usage(self->w, &u.known));
	EXPECT_EQ(0xccccccccccccccccULL, u.known.kicks);
}

/* The timer for wake-ups is hidden: it is not listed or drained, and needs no room. */
TEST_F(lib, wake_is_hidden)
{
	struct twheel_options o = self->o;
	struct twheel_timer t[4];
	struct twheel_event ev;
	uint32_t cursor = 0;
	struct twheel *w;
	unsigned int i;
	uint64_t id;

	EXPECT_EQ(0, twheel_wake(self->w));
	EXPECT_EQ(0, twheel_list(self->w, t, 4, &cursor));
	EXPECT_EQ(0, twheel_drain(self->w, TWHEEL_DRAIN_EXPIRE));
	EXPECT_EQ(0, twheel_drain(self->w, TWHEEL_DRAIN_CANCEL));
	EXPECT_EQ(0, twheel_read(self->w, &ev, 1));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, twheel_wake(self->w));
		EXPECT_EQ(1, twheel_wait(self->w, TIMEOUT_MS * NS_PER_MS));
		EXPECT_EQ(0, twheel_read(self->w, &ev, 1));
	}
	/* In a full wheel. */
	o.max_timers = 64;
	ASSERT_EQ(0, twheel_open(&w, &o));
	while (!twheel_add(w, twheel_after(w, HOUR), 0, &id))
		;
	EXPECT_EQ(0, twheel_wake(w));
	EXPECT_EQ(1, twheel_wait(w, TIMEOUT_MS * NS_PER_MS));
	EXPECT_EQ(0, twheel_read(w, &ev, 1));
	EXPECT_EQ(0, twheel_wait(w, 0));
	twheel_close(w);
}

/* ---- twheel_next() ---- */

/*
 * No deadline comes before twheel_next(), whatever was just done. For an in-process wheel it
 * is exact.
 */
TEST_F(lib, next)
{
	enum { N = 40, ROUNDS = 20000 };
	uint64_t id[N], deadline[N], first;
	__u64 seed = now(CLOCK_REALTIME);
	unsigned int i, j;

	TH_LOG("seed %llu", (unsigned long long)seed);
	EXPECT_EQ(NEVER, twheel_next(self->w));
	for (i = 0; i < N; i++) {
		deadline[i] = twheel_after(self->w, HOUR + next_random(&seed) % HOUR);
		ASSERT_EQ(0, twheel_add(self->w, deadline[i], i, &id[i]));
	}
	for (i = 0; i < ROUNDS; i++) {
		j = next_random(&seed) % N;
		if (next_random(&seed) % 4) {
			/* In an hour, in three, or in a century. */
			uint64_t delay = next_random(&seed) % 2 ? HOUR :
					 next_random(&seed) % 2 ? 3 * HOUR : 876600 * HOUR;

			deadline[j] = twheel_after(self->w, delay + next_random(&seed) % HOUR);
			ASSERT_LE(0, twheel_set(self->w, id[j], deadline[j]));
		} else {
			deadline[j] = NEVER;
			ASSERT_LE(0, twheel_clear(self->w, id[j]));
		}
		for (first = NEVER, j = 0; j < N; j++)
			first = deadline[j] < first ? deadline[j] : first;
		ASSERT_LE(twheel_next(self->w), first);
		if (variant->flags & TWHEEL_OPEN_INPROCESS)
			ASSERT_EQ(first, twheel_next(self->w));
	}
}

/* The same for near and distant deadlines, some of which pass, in wheels of any shape. */
TEST_F(lib, next_of_all_distances)
{
	static const unsigned int levels[] = { 0, 1, 2, 3, 0, 16 }, bits[] = { 0, 4, 4, 8, 8, 4 };
	enum { N = 24, ROUNDS = 3000 };
	__u64 seed = now(CLOCK_REALTIME);
	uint64_t id[N], deadline[N];
	struct twheel_event ev[N];
	unsigned int i, j, shape;
	struct twheel *w;

	TH_LOG("seed %llu", (unsigned long long)seed);
	for (shape = 0; shape < ARRAY_SIZE(levels); shape++) {
		self->o.levels = levels[shape];
		self->o.slot_bits = bits[shape];
		ASSERT_EQ(0, twheel_open(&w, &self->o));
		for (i = 0; i < N; i++) {
			deadline[i] = NEVER;
			ASSERT_EQ(0, twheel_add(w, NEVER, i, &id[i]));
		}
		for (i = 0; i < ROUNDS; i++) {
			uint64_t delay = next_random(&seed) >> 3 >> next_random(&seed) % 44;
			uint64_t first = NEVER, before, next;
			int count = twheel_read(w, ev, N);

			while (count-- > 0)
				deadline[ev[count].user_data] = NEVER;
			j = next_random(&seed) % N;
			deadline[j] = twheel_after(w, delay);
			ASSERT_LE(0, twheel_set(w, id[j], deadline[j]));
			for (j = 0; j < N; j++)
				first = deadline[j] < first ? deadline[j] : first;
			before = twheel_now(w);
			next = twheel_next(w);
			ASSERT_LE(next, first);
			/*
			 * If a timer has expired meanwhile, its event is unread and
			 * twheel_next() returns 0.
			 */
			if (next && self->o.flags & TWHEEL_OPEN_INPROCESS)
				ASSERT_EQ(first, next);
			if (!next)
				ASSERT_LE(first, twheel_now(w));
			if (before < first && !(i % 64) && first - before < 2 * NS_PER_MS)
				twheel_wait(w, first - before);
		}
		twheel_close(w);
	}
}

/* While an event is unread, twheel_next() returns "now". */
TEST_F(lib, next_of_unread)
{
	uint64_t far = twheel_after(self->w, HOUR), id[3];
	struct twheel_event ev;

	ASSERT_EQ(0, twheel_add(self->w, far, 0, &id[0]));
	ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, 5 * NS_PER_MS), 1, &id[1]));
	ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, 5 * NS_PER_MS), 2, &id[2]));
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(0, twheel_next(self->w));
	sleep_ms(20);
	ASSERT_EQ(1, twheel_read(self->w, &ev, 1));
	EXPECT_EQ(0, twheel_next(self->w));
	ASSERT_EQ(1, twheel_read(self->w, &ev, 1));
	EXPECT_LT(twheel_now(self->w), twheel_next(self->w));
	EXPECT_GE(far, twheel_next(self->w));
	/* twheel_wake() makes it "now" too, so that a loop wakes up. */
	ASSERT_EQ(0, twheel_wake(self->w));
	EXPECT_EQ(0, twheel_next(self->w));
	EXPECT_EQ(0, twheel_read(self->w, &ev, 1));
	EXPECT_LT(twheel_now(self->w), twheel_next(self->w));
}

/*
 * If a bucket holds more timers than twheel_next() looks at, it is early by at most the width
 * of the bucket, which is 138 s.
 */
TEST_F(lib, next_of_many)
{
	uint64_t first = twheel_after(self->w, HOUR), id;
	unsigned int i;

	for (i = 0; i < 1000; i++)
		ASSERT_EQ(0, twheel_add(self->w, first + i, i, &id));
	EXPECT_GE(first, twheel_next(self->w));
	EXPECT_LE(first - 138 * SECOND, twheel_next(self->w));
}

/* Timers that are moved later again and again: their old deadlines do not count. */
TEST_F(lib, next_of_moved)
{
	uint64_t far = 0, id[32];
	unsigned int i;

	for (i = 0; i < 32; i++)
		ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, i * 50 * NS_PER_MS + SECOND),
					i, &id[i]));
	for (i = 32; i--; ) {
		far = twheel_after(self->w, HOUR);
		ASSERT_EQ(1, twheel_set(self->w, id[i], far));
	}
	EXPECT_GE(far, twheel_next(self->w));
	if (variant->flags & TWHEEL_OPEN_INPROCESS)
		EXPECT_LE(far - SECOND, twheel_next(self->w));
}

/* A slack postpones twheel_next(), as it postpones the event. */
TEST_F(lib, next_of_slack)
{
	struct twheel_options o = self->o;
	unsigned int i, put_off = 0;
	uint64_t deadline, next, id;
	struct twheel *w;

	o.slack_ns = SECOND;
	ASSERT_EQ(0, twheel_open(&w, &o));
	/*
	 * One timer at a time, because a timer that is due right at its tick would hide the
	 * others.
	 */
	for (i = 0; i < 200; i++) {
		deadline = twheel_after(w, (1600 - 7 * i) * NS_PER_MS);
		ASSERT_EQ(0, twheel_add(w, deadline, i, &id));
		next = twheel_next(w);
		EXPECT_LE(next, deadline + o.slack_ns);
		put_off += next > deadline;
		EXPECT_EQ(1, twheel_del(w, id));
	}
	EXPECT_NE(0, put_off);
	twheel_close(w);
}

/* twheel_next() returns "never" once the wheel has seen that there is no timer. */
TEST_F(lib, next_is_never)
{
	struct twheel_event ev;
	unsigned int i;
	uint64_t id;

	ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, 20 * NS_PER_MS), 0, &id));
	EXPECT_NE(NEVER, twheel_next(self->w));
	ASSERT_EQ(1, lib_collect(self->w, &ev, 1));
	EXPECT_EQ(NEVER, twheel_next(self->w));
	/* First the deadline that was cleared has to pass. */
	ASSERT_EQ(0, twheel_set(self->w, id, twheel_after(self->w, 20 * NS_PER_MS)));
	EXPECT_EQ(1, twheel_clear(self->w, id));
	for (i = 0; i < TIMEOUT_MS / 10 && twheel_next(self->w) != NEVER; i++) {
		sleep_ms(10);
		EXPECT_EQ(0, twheel_read(self->w, &ev, 1));
	}
	EXPECT_EQ(NEVER, twheel_next(self->w));
}

/* A loop that sleeps until twheel_next() wakes up in time for the event. */
TEST_F(lib, next_is_in_time)
{
	uint64_t at = twheel_after(self->w, 400 * NS_PER_MS), id, next, time;
	unsigned int i, idle = 0;
	struct twheel_event ev;

	ASSERT_EQ(0, twheel_add(self->w, at, 0, &id));
	for (i = 0; ; i++) {
		if (twheel_read(self->w, &ev, 1))
			break;
		next = twheel_next(self->w);
		time = twheel_now(self->w);
		ASSERT_LE(next, at);
		idle += next <= time;
		/* The event may come up to one tick later. */
		sleep_ns(next > time ? next - time : DEFAULT_TICK);
	}
	TH_LOG("%u turns of the loop, %u of them a tick", i, idle);
	EXPECT_EQ(at, ev.deadline_ns);
	EXPECT_LE(i, 100);
}

/* ---- Descriptors of the process ---- */

/* A process that was started without standard descriptors, and opens them later. */
TEST_F(lib, low_descriptors)
{
	pid_t child = fork_child(_metadata);
	unsigned int i;

	if (!child) {
		struct twheel_event ev;
		struct twheel *w, *more;
		uint64_t id;
		int fd;

		must_end_soon();
		for (fd = 0; fd < 3; fd++)
			close(fd);
		if (twheel_open(&w, &self->o) || twheel_open(&more, &self->o))
			_exit(1);
		if (twheel_fd(w) < 3 || twheel_fd(more) < 3)
			_exit(2);
		/* Open them, as daemon() does. */
		for (fd = 0; fd < 3; fd++) {
			if (fcntl(fd, F_GETFD) != -1)
				_exit(3);
			if (open("/dev/null", O_RDWR) != fd)
				_exit(4);
		}
		if (twheel_add(w, twheel_after(w, NS_PER_MS), 9, &id) ||
		    lib_collect(w, &ev, 1) != 1 || ev.user_data != 9)
			_exit(5);
		twheel_close(more);
		if (variant->flags & TWHEEL_OPEN_KERNEL) {
			/* A wheel that was passed as standard input. */
			if (dup2(twheel_fd(w), 0) || twheel_open_fd(&more, 0) ||
			    twheel_fd(more) < 3 || twheel_add(more, 1, 8, &id))
				_exit(6);
			close(0);
			if (lib_collect(more, &ev, 1) != 1 || ev.user_data != 8)
				_exit(7);
			twheel_close(more);
		}
		twheel_close(w);
		_exit(0);
	}
	i = status_of(child);
	EXPECT_EQ(0, i);
}

/* ---- A filter that allows read(2) but not preadv2(2) ---- */

/* Uses a wheel in a process that may not call preadv2(). Returns what is wrong, or 0. */
static int without_preadv2(const struct twheel_options *o, int err, bool blocking)
{
	struct twheel_event ev;
	struct twheel *w, *own;
	uint64_t id;
	int fd;

	must_end_soon();
	if (!refuse_call(SYS_preadv2, err))
		return KSFT_SKIP;
	if (twheel_open(&own, o))
		return 1;
	w = own;
	if (blocking) {
		fd = dup(twheel_fd(own));
		if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) ||
		    twheel_open_fd(&w, fd))
			return 2;
	}
	if (twheel_read(w, &ev, 1))
		return 3;
	if (twheel_add(w, twheel_after(w, 10 * NS_PER_MS), 5, &id) ||
	    twheel_wait(w, -1) != 1 || lib_collect(w, &ev, 1) != 1 || ev.user_data != 5)
		return 4;
	/* An event that is unread and then withdrawn: the read does not wait for another one. */
	if (twheel_set(w, id, 1) || !is_unread(w) || twheel_clear(w, id) != 1 ||
	    twheel_read(w, &ev, 1))
		return 5;
	if (blocking)
		twheel_close(w);
	twheel_close(own);
	return 0;
}

TEST_F(lib, read_is_enough)
{
	static const int errors[] = { EPERM, ENOSYS };
	unsigned int i, blocking;
	int status;

	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		for (blocking = 0; blocking < 2; blocking++) {
			pid_t child;

			if (blocking && variant->flags & TWHEEL_OPEN_INPROCESS)
				continue;
			child = fork_child(_metadata);
			if (!child)
				_exit(without_preadv2(&self->o, errors[i], blocking));
			status = status_of(child);
			if (WIFEXITED(status) && WEXITSTATUS(status) == KSFT_SKIP)
				SKIP(return, "no filters here");
			TH_LOG("%s, %s", strerror(errors[i]), blocking ? "blocking" : "as opened");
			EXPECT_EQ(0, status);
		}
	}
}

/*
 * O_NONBLOCK belongs to the open file, so another process that shares it may clear the flag.
 * Reading does not block even then. Nobody else has the descriptor of an in-process wheel.
 */
TEST(nonblock_is_shared)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_KERNEL };
	struct twheel_event ev;
	struct twheel *w;
	uint64_t id;
	int fd;

	OPEN_OR_SKIP(&o, &w);
	fd = dup(twheel_fd(w));
	ASSERT_EQ(0, fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK));
	EXPECT_EQ(0, twheel_read(w, &ev, 1));
	ASSERT_EQ(0, twheel_add(w, 1, 0, &id));
	ASSERT_TRUE(is_unread(w));
	EXPECT_EQ(1, twheel_clear(w, id));
	EXPECT_EQ(0, twheel_read(w, &ev, 1));
	close(fd);
	twheel_close(w);
}

/* ---- Memory ---- */

struct memory {
	unsigned long long resident;
	/* The memory that counts if memory is not overcommitted. */
	unsigned long long committed;
	unsigned long long locked;
};

/* Reads the process' memory in kB, as the kernel reports it. */
static bool measure(struct memory *m)
{
	unsigned long long size = 0, value;
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[256];

	*m = (struct memory) { };
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Size: %llu kB", &value) == 1)
			size = value;
		else if (sscanf(line, "Rss: %llu kB", &value) == 1)
			m->resident += value;
		else if (sscanf(line, "Locked: %llu kB", &value) == 1)
			m->locked += value;
		else if (!strncmp(line, "VmFlags:", 8) && strstr(line, " ac"))
			m->committed += size;
	}
	fclose(f);
	return true;
}

/* Opens @n wheels with one timer each. Returns an error, or 0. */
static int open_many(const struct twheel_options *options, struct twheel **w, unsigned int n)
{
	struct twheel_options o = *options;
	unsigned int i;
	uint64_t id;
	int ret;

	/* A 32-bit program soon runs out of addresses. */
	if (sizeof(long) == 4)
		o.max_timers = 4096;
	for (i = 0; i < n; i++) {
		ret = twheel_open(&w[i], &o);
		if (ret) {
			while (i--)
				twheel_close(w[i]);
			return ret;
		}
		if (twheel_add(w[i], twheel_after(w[i], HOUR), 0, &id))
			return -EBADMSG;
	}
	return 0;
}

static void close_many(struct twheel **w, unsigned int n)
{
	while (n--)
		twheel_close(w[n]);
}

#define THP	"/sys/kernel/mm/transparent_hugepage/enabled"

/* Three wheels need little memory, even if the kernel uses large pages without being asked. */
TEST_F(lib, small_memory)
{
	struct memory before, after;
	struct twheel *w[3];

	if (SANITIZED)
		SKIP(return, "the sanitizer has memory of its own");
	if (machine_is_ours() && !write_text(THP, "always"))
		TH_LOG("no large pages here");
	ASSERT_TRUE(measure(&before));
	ASSERT_EQ(0, open_many(&self->o, w, 3));
	ASSERT_TRUE(measure(&after));
	TH_LOG("%llu kB more", after.resident - before.resident);
	EXPECT_LT(after.resident, before.resident + 1024);
	close_many(w, 3);
	if (machine_is_ours())
		write_text(THP, "madvise");
}

#define OVERCOMMIT	"/proc/sys/vm/overcommit_memory"

/* An open wheel does not commit more memory than it uses. */
TEST_F(lib, not_overcommitted)
{
	enum { N = 40 };
	struct memory before, after;
	struct twheel *w[N];
	int ret;

	if (SANITIZED)
		SKIP(return, "the sanitizer has memory of its own");
	ASSERT_TRUE(measure(&before));
	ASSERT_EQ(0, open_many(&self->o, w, N));
	ASSERT_TRUE(measure(&after));
	TH_LOG("%llu kB more", after.committed - before.committed);
	EXPECT_LT(after.committed, before.committed + N * 512);
	close_many(w, N);
	if (!machine_is_ours() || !write_text(OVERCOMMIT, "2"))
		return;
	ret = open_many(&self->o, w, N);
	write_text(OVERCOMMIT, "0");
	ASSERT_EQ(0, ret);
	close_many(w, N);
}

/* Sanitizers replace mmap() themselves. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static bool no_memory, no_access;
static void *refused;
static size_t refused_bytes;

static int refuse(void *addr, size_t bytes)
{
	refused = addr;
	refused_bytes = bytes;
	errno = ENOMEM;
	return -1;
}

/*
 * Replaces the C library's mmap(). If memory is not overcommitted, a kernel before 6.12
 * refuses the mapping like this.
 */
void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (no_memory && prot & PROT_WRITE) {
		if (flags & MAP_FIXED)
			munmap(addr, bytes);
		refuse(addr, bytes);
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, addr, bytes, prot, flags, fd, offset);
}

int mprotect(void *addr, size_t bytes, int prot)
{
	if ((no_memory || no_access) && prot & PROT_WRITE)
		return refuse(addr, bytes);
	return syscall(SYS_mprotect, addr, bytes, prot);
}

/* Addresses stay reserved after a refusal, so that nobody else maps anything there. */
TEST_F(lib, refused)
{
	enum { N = 100000 };
	unsigned char *pages;
	unsigned int i, n;
	uint64_t id;

	no_memory = true;
	for (n = 0; n < N && !refused; n++)
		if (twheel_add(self->w, twheel_after(self->w, HOUR), n, &id))
			break;
	no_memory = false;
	ASSERT_NE(NULL, refused);
	pages = malloc(refused_bytes / 4096 + 1);
	ASSERT_NE(NULL, pages);
	EXPECT_EQ(0, mincore(refused, refused_bytes, pages));
	free(pages);
	for (i = 0; i < N; i++)
		ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), i, &id));
}

/*
 * No timer ever has the id 0, even if slot 0 is free because there was no memory for the
 * wake-up timer that usually occupies it.
 */
TEST(no_id_in_slot_0)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_INPROCESS };
	struct twheel_op op = { .opcode = TWHEEL_OP_REARM, .timer.deadline_ns = 1 };
	struct twheel *w;
	uint64_t id[2];

	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	no_access = true;
	ASSERT_EQ(0, twheel_open(&w, &o));
	no_access = false;
	ASSERT_EQ(0, twheel_add(w, twheel_after(w, HOUR), 1, &id[0]));
	ASSERT_EQ(0, (uint32_t)id[0]);
	ASSERT_EQ(1, twheel_del(w, id[0]));
	EXPECT_EQ(1, twheel_submit(w, &op, 1));
	EXPECT_EQ(-ENOENT, op.result);
	EXPECT_EQ(-ENOENT, twheel_del(w, 0));
	/* No slot was assigned twice. */
	ASSERT_EQ(0, twheel_add(w, twheel_after(w, HOUR), 1, &id[0]));
	ASSERT_EQ(0, twheel_add(w, twheel_after(w, HOUR), 1, &id[1]));
	EXPECT_NE((uint32_t)id[0], (uint32_t)id[1]);
	twheel_close(w);
}
#endif

/* Uses wheels in a process that locks its present and future memory. */
static int with_locked_memory(const struct twheel_options *options, bool limited)
{
	struct twheel_options o = *options;
	struct memory before, after;
	struct rlimit limit;
	struct twheel_event ev;
	struct twheel *w[3];
	uint64_t id;

	must_end_soon();
	if (limited) {
		if (getrlimit(RLIMIT_MEMLOCK, &limit))
			return KSFT_SKIP;
		/* Less than the table of a wheel with the default number of timers. */
		if (limit.rlim_max > 8 << 20)
			limit.rlim_max = 8 << 20;
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_MEMLOCK, &limit))
			return KSFT_SKIP;
		/* There is no limit for root. */
		if (is_root() && (setresgid(NOBODY, NOBODY, NOBODY) ||
				  setresuid(NOBODY, NOBODY, NOBODY)))
			return KSFT_SKIP;
		prctl(PR_SET_DUMPABLE, 1);
	}
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return KSFT_SKIP;
	if (!measure(&before))
		return 1;
	if (open_many(&o, w, 3))
		return 2;
	if (!measure(&after))
		return 3;
	if (after.locked > before.locked + 4096)
		return 4;
	/* The used memory is locked: at least 64 kB for each wheel. */
	if (after.locked < before.locked + 3 * 64)
		return 7;
	if (after.resident > before.resident + 4096)
		return 5;
	if (twheel_add(w[0], twheel_after(w[0], NS_PER_MS), 5, &id) ||
	    lib_collect(w[0], &ev, 1) != 1 || ev.id != id)
		return 6;
	close_many(w, 3);
	return 0;
}

TEST_F(lib, locked)
{
	unsigned int limited;

	if (SANITIZED)
		SKIP(return, "the sanitizer locks nothing");
	for (limited = 0; limited < 2; limited++) {
		pid_t child = fork_child(_metadata);
		int status;

		if (!child) {
			/* Reserved addresses count against the limit. */
			twheel_close(self->w);
			_exit(with_locked_memory(&self->o, limited));
		}
		status = status_of(child);
		if (WIFEXITED(status) && WEXITSTATUS(status) == KSFT_SKIP)
			SKIP(return, "may not lock memory");
		TH_LOG("%s", limited ? "within a limit" : "without a limit");
		EXPECT_EQ(0, status);
	}
}

/* ---- Any number of wheels ---- */

/*
 * Returns the CPU time of an add and a del in each of @n wheels in turn, the best of several
 * runs.
 */
static uint64_t cost_of_pair(struct twheel **w, unsigned int n)
{
	uint64_t best = NEVER, start, cost, id;
	unsigned int round, i, j, pairs = 0;

	for (round = 0; round < 5; round++) {
		start = now(CLOCK_THREAD_CPUTIME_ID);
		for (pairs = j = 0; j < 8000 / n; j++) {
			for (i = 0; i < n; i++, pairs++) {
				if (twheel_add(w[i], HOUR * 1000000, i, &id) ||
				    twheel_del(w[i], id) != 1)
					return 0;
			}
		}
		cost = now(CLOCK_THREAD_CPUTIME_ID) - start;
		best = cost < best ? cost : best;
	}
	return best / pairs;
}

/*
 * With 1,000 wheels, an add and a del cost what they cost with 8 wheels, apart from cache
 * misses. The bound is wide: if the library searched the wheels, the ratio would be 500.
 */
TEST_F_TIMEOUT(lib, many_wheels, 120)
{
	enum { FEW = 8, MANY = 1000 };
	struct rlimit limit = { .rlim_cur = MANY + 100, .rlim_max = MANY + 100 };
	static struct twheel *w[MANY];
	struct rlimit had;
	uint64_t few, many;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &had));
	if (had.rlim_max > limit.rlim_max)
		limit.rlim_max = had.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		SKIP(return, "not that many descriptors");
	ASSERT_EQ(0, open_many(&self->o, w, MANY));
	few = cost_of_pair(w, FEW);
	many = cost_of_pair(w, MANY);
	TH_LOG("%llu ns beside %d, %llu ns beside %d", (unsigned long long)few, FEW,
	       (unsigned long long)many, MANY);
	ASSERT_NE(0, few);
	ASSERT_NE(0, many);
	EXPECT_LT(many, 20 * few);
	close_many(w, MANY);
}

TEST_HARNESS_MAIN
