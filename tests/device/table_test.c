// SPDX-License-Identifier: GPL-2.0
/*
 * The mapping of the deadline table: what can be mapped, how the header describes it, and who
 * shares it for how long.
 */
#include "machine.h"
#include "twheel_test.h"

#include <sys/personality.h>
#include <sys/prctl.h>

#define RW	(PROT_READ | PROT_WRITE)

FIXTURE(table) {
	int fd;
};

FIXTURE_SETUP(table)
{
	self->fd = open_wheel(_metadata, O_NONBLOCK);
	need_table(_metadata, self->fd);
}

FIXTURE_TEARDOWN(table)
{
	/* Some tests have already closed the wheel. */
	if (self->fd < 0)
		return;
	close_wheel(_metadata, self->fd);
}

/* Returns the size of the whole pages that hold @bytes. */
static __u64 pages_of(__u64 bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

/*
 * Returns the size of the table for @slots: the header, 16 bytes per slot, and one bit per
 * slot in whole lines of 1024.
 */
static __u64 table_bytes(__u64 slots)
{
	return PAGE + pages_of(slots * 16) + pages_of((slots + 1023) / 1024 * 128);
}

/* INFO reports that there is a table with marks, and its size. */
TEST_F(table, info)
{
	static const __u32 sizes[] = { 1, 255, 256, 257, 5000, 32768, 32769, 1 << 20, 1 << 24 };
	unsigned int i;

	EXPECT_EQ(TWHEEL_FEATURE_TABLE | TWHEEL_FEATURE_MARKS | TWHEEL_FEATURE_PARKED,
		  info(_metadata, self->fd).features);
	EXPECT_EQ(table_bytes(info(_metadata, self->fd).max_timers),
		  info(_metadata, self->fd).table_bytes);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct twheel_setup s = { .max_timers = sizes[i] };

		ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &s));
		EXPECT_EQ(table_bytes(sizes[i]), info(_metadata, self->fd).table_bytes);
	}
}

/* The first page describes the table, like INFO does; each slot has its place behind it. */
TEST_F(table, header)
{
	static const struct twheel_setup rows[] = {
		{ .max_timers = 1 },
		{ .tick_ns = 1 << 20, .clock_id = CLOCK_BOOTTIME, .max_timers = 257 },
		{ .tick_ns = 1 << 30, .clock_id = CLOCK_TAI, .max_timers = 70000 },
		{ .flags = TWHEEL_SETUP_REALTIME },
	};
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct twheel_setup s = rows[i];
		int fd = wheel_open(O_NONBLOCK);
		struct twheel_info in;
		struct table t;

		ASSERT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &s));
		in = info(_metadata, fd);
		t = map_table(_metadata, fd);
		EXPECT_EQ(TWHEEL_TABLE_MAGIC, t.head->magic);
		EXPECT_GE(t.head->slots_offset, sizeof(*t.head));
		EXPECT_EQ(0, t.head->slots_offset % sizeof(struct twheel_slot));
		EXPECT_EQ(sizeof(struct twheel_slot), t.head->slot_size);
		EXPECT_EQ(in.max_timers, t.head->slots);
		EXPECT_EQ(in.tick_ns, t.head->tick_ns);
		EXPECT_EQ(in.clock_id, t.head->clock_id);
		EXPECT_EQ(in.features, t.head->features);
		EXPECT_LE(t.head->slots_offset + (__u64)t.head->slots * t.head->slot_size,
			  t.head->marks_offset);
		EXPECT_LE(t.head->marks_offset + t.head->slots / 8, t.bytes);
		EXPECT_EQ(0, t.head->marks_offset % sizeof(__u64));
		EXPECT_EQ(0, t.head->summary_offset % sizeof(__u64));
		EXPECT_GE(t.head->summary_offset, sizeof(*t.head));
		EXPECT_LE(t.head->summary_offset +
			  ((__u64)t.head->slots >> t.head->summary_shift) / 8,
			  t.head->slots_offset);
		EXPECT_EQ(NEVER, t.head->next_ns);
		for (k = 0; k < ARRAY_SIZE(t.head->reserved); k++)
			EXPECT_EQ(0, t.head->reserved[k]);
		unmap_table(&t);
		close(fd);
	}
}

/* Without SETUP, the first mapping selects the defaults. */
TEST_F(table, defaults)
{
	struct table t = map_table(_metadata, self->fd);

	EXPECT_EQ(DEFAULT_TICK, t.head->tick_ns);
	EXPECT_EQ(CLOCK_MONOTONIC, t.head->clock_id);
	EXPECT_EQ(1 << 20, t.head->slots);
	unmap_table(&t);
}

/* Wrong mappings are refused with the documented errno, and leave the shape open. */
TEST_F(table, refusals)
{
	size_t bytes = info(_metadata, self->fd).table_bytes;
	const struct {
		const char *what;
		size_t bytes;
		int prot;
		int flags;
		off_t offset;
		int err;
	} rows[] = {
		{ "one page in", bytes, RW, MAP_SHARED, PAGE, -EINVAL },
		{ "far beyond", bytes, RW, MAP_SHARED, (off_t)1 << 40, -EINVAL },
		{ "a page more", bytes + PAGE, RW, MAP_SHARED, 0, -EINVAL },
		{ "nothing", 0, RW, MAP_SHARED, 0, -EINVAL },
		{ "a private copy", bytes, RW, MAP_PRIVATE, 0, -EINVAL },
		{ "private", bytes, PROT_READ, MAP_PRIVATE, 0, -EINVAL },
		{ "code", bytes, PROT_READ | PROT_EXEC, MAP_SHARED, 0, -EPERM },
		{ "writable code", bytes, RW | PROT_EXEC, MAP_SHARED, 0, -EPERM },
		{ "code only", bytes, PROT_EXEC, MAP_SHARED, 0, -EPERM },
		{ "a copy of code", bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, 0, -EPERM },
	};
	struct twheel_setup s = { 0 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		EXPECT_EQ(rows[i].err, try_map(self->fd, rows[i].bytes, rows[i].prot,
					       rows[i].flags, rows[i].offset))
			TH_LOG("%s", rows[i].what);
	}
	EXPECT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &s));
	EXPECT_EQ(0, try_map(self->fd, bytes, PROT_NONE, MAP_SHARED, 0));
	EXPECT_EQ(0, try_map(self->fd, bytes, PROT_READ, MAP_SHARED, 0));
	EXPECT_EQ(0, try_map(self->fd, bytes, RW, MAP_SHARED, 0));
}

/*
 * All combinations of lengths and offsets, in pages: only those within the table are accepted.
 * From page 2^52 on, an offset exceeds the maximum size of a file.
 */
TEST_F(table, lengths_and_offsets)
{
	struct twheel_setup s = { .max_timers = 1000 };
	__u64 lengths[] = { 0, 1, 0, 0, 0, 1 << 20, 1ULL << 31, (1ULL << 52) - 1 };
	__u64 offsets[] = { 0, 1, 0, 0, 0, 1ULL << 31, 1ULL << 51, (1ULL << 52) - 1 };
	unsigned int i, j, good = 0;
	__u64 pages;

	ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &s));
	pages = info(_metadata, self->fd).table_bytes / PAGE;
	for (i = 2; i < 5; i++) {
		lengths[i] = pages + i - 3;
		offsets[i] = lengths[i];
	}
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		for (j = 0; j < ARRAY_SIZE(offsets); j++) {
			size_t length = lengths[i] * PAGE;
			int ret;

			/* Otherwise the program itself cannot express this length. */
			if (length / PAGE != lengths[i])
				continue;
			/* Bypass the library, which has limits of its own. */
#ifdef __x86_64__
			ret = syscall(SYS_mmap, NULL, length, RW, MAP_SHARED, self->fd,
				      offsets[j] * PAGE) == -1 ? -errno : 0;
#else
			ret = try_map(self->fd, length, RW, MAP_SHARED, offsets[j] * PAGE);
#endif
			if (lengths[i] && offsets[j] <= pages && lengths[i] <= pages - offsets[j]) {
				EXPECT_EQ(0, ret);
				good++;
				continue;
			}
			/*
			 * The kernel refuses a mapping that is too long, or ends too late,
			 * before it asks the module.
			 */
			EXPECT_TRUE(ret == -EINVAL || ret == -ENOMEM || ret == -EOVERFLOW)
				TH_LOG("%llu pages at %llu: %d", lengths[i], offsets[j], ret);
			if (lengths[i] && lengths[i] <= 1 << 20 && offsets[j] < 1ULL << 51)
				EXPECT_EQ(-EINVAL, ret);
		}
	}
	/*
	 * The whole table, all but its first or its last page, and its first, second and last
	 * page.
	 */
	EXPECT_GE(good, 6);
}

/* The parts of the table can be mapped separately, in any order and at any address. */
TEST_F(table, page_by_page)
{
	struct twheel_setup s = { .max_timers = 1000 };
	struct twheel_table *head;
	struct twheel_slot *slots;
	unsigned long *marks;
	struct twheel_event ev;
	__u64 id;

	ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &s));
	/* The header is page 0, the slots are pages 1 to 4, and the marks page 5. */
	marks = map_at(self->fd, PAGE, RW, MAP_SHARED, 5 * PAGE);
	slots = map_at(self->fd, PAGE, RW, MAP_SHARED, 2 * PAGE);
	head = map_at(self->fd, PAGE, RW, MAP_SHARED, 0);
	ASSERT_TRUE(marks != MAP_FAILED && slots != MAP_FAILED && head != MAP_FAILED);
	EXPECT_EQ(5 * PAGE, head->marks_offset);
	EXPECT_EQ(PAGE, head->slots_offset);
	do
		id = reserve(_metadata, self->fd, 7);
	while ((__u32)id < 256);
	EXPECT_EQ(0, swap_word(&slots[0], 1));
	__atomic_fetch_or(&marks[256 / (8 * sizeof(*marks))], 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_or((char *)head + head->summary_offset, 1, __ATOMIC_SEQ_CST);
	EXPECT_LE(0, turn_now(self->fd));
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(id, ev.id);
	munmap(marks, PAGE);
	munmap(slots, PAGE);
	munmap(head, PAGE);
}

/* Runs @what in a process of its own. Returns the signal that ended it, or 0. */
#define KILLED_BY(what) ({ \
	int __status = 0; \
	pid_t __pid = fork(); \
	if (!__pid) { \
		what; \
		_exit(0); \
	} \
	waitpid(__pid, &__status, 0); \
	WIFSIGNALED(__status) ? WTERMSIG(__status) : 0; \
})

/* The access mode of the descriptor limits that of the mapping. */
TEST_F(table, descriptor_mode)
{
	size_t bytes = info(_metadata, self->fd).table_bytes;
	int fd = open(TWHEEL_DEVICE, O_RDONLY | O_CLOEXEC);
	struct twheel_table *head;

	ASSERT_GE(fd, 0);
	EXPECT_EQ(-EACCES, try_map(fd, bytes, RW, MAP_SHARED, 0));
	EXPECT_EQ(-EACCES, try_map(fd, bytes, PROT_WRITE, MAP_SHARED, 0));
	head = map_at(fd, bytes, PROT_READ, MAP_SHARED, 0);
	ASSERT_TRUE(head != MAP_FAILED);
	EXPECT_EQ(TWHEEL_TABLE_MAGIC, head->magic);
	/* The mapping is readable, but cannot be made writable. */
	EXPECT_EQ(-EACCES, errno_of(mprotect(head, bytes, RW)));
	EXPECT_EQ(SIGSEGV, KILLED_BY(__atomic_store_n(&head->magic, 0, __ATOMIC_SEQ_CST)));
	EXPECT_EQ(TWHEEL_TABLE_MAGIC, head->magic);
	munmap(head, bytes);
	close(fd);

	fd = open(TWHEEL_DEVICE, O_WRONLY | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	EXPECT_EQ(-EACCES, try_map(fd, bytes, PROT_WRITE, MAP_SHARED, 0));
	close(fd);
}

/* G9: A mapping can be moved, shrunk and protected, but can neither grow nor become executable. */
TEST_F(table, remap)
{
	struct table t = map_table(_metadata, self->fd);
	__u64 id = add(_metadata, self->fd, HOUR, 0, 0), deadline = word(slot_of(&t, id));
	struct twheel_slot *slot;
	char *to, *p;

	EXPECT_EQ(-EFAULT, errno_of((long)mremap(t.head, t.bytes, t.bytes + PAGE, 0)));
	EXPECT_EQ(-EFAULT, errno_of((long)mremap(t.head, t.bytes, 2 * t.bytes, MREMAP_MAYMOVE)));
	EXPECT_EQ(-EFAULT, errno_of((long)mremap(t.head, PAGE, 2 * PAGE, MREMAP_MAYMOVE)));
	/* A part of it cannot be mapped a second time with mremap(). */
	EXPECT_EQ(-EFAULT, errno_of((long)mremap(t.head, 0, t.bytes, MREMAP_MAYMOVE)));
	EXPECT_EQ(-EACCES, errno_of(mprotect(t.head, t.bytes, PROT_READ | PROT_EXEC)));
	EXPECT_EQ(-EACCES, errno_of(mprotect(t.slots, PAGE, RW | PROT_EXEC)));

	EXPECT_EQ(0, mprotect(t.head, t.bytes, PROT_READ));
	EXPECT_EQ(SIGSEGV, KILLED_BY(swap_word(slot_of(&t, id), 0)));
	EXPECT_EQ(0, mprotect(t.head, t.bytes, RW));

	to = mmap(NULL, t.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(to != MAP_FAILED);
	p = mremap(t.head, t.bytes, t.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	ASSERT_EQ(to, p);
	slot = (struct twheel_slot *)(to + PAGE) + (__u32)id;
	EXPECT_EQ(deadline, swap_word(slot, deadline + 1));
	EXPECT_EQ(to, mremap(to, t.bytes, 2 * PAGE, 0));
	EXPECT_EQ(deadline + 1, swap_word(slot, 0));
	EXPECT_EQ(TWHEEL_IDLE, cancel(self->fd, id));
	/* It cannot grow back to its former size either. */
	EXPECT_EQ(-EFAULT, errno_of((long)mremap(to, 2 * PAGE, t.bytes, MREMAP_MAYMOVE)));
	munmap(to, t.bytes);
}

/* EBUSY for SETUP after a mapping, even after that is gone. */
TEST_F(table, setup_after_mapping)
{
	struct twheel_setup s = { .max_timers = 10 };
	struct table t = map_table(_metadata, self->fd);

	EXPECT_EQ(-EBUSY, call(self->fd, TWHEEL_IOC_SETUP, &s));
	unmap_table(&t);
	s = (struct twheel_setup) { 0 };
	EXPECT_EQ(-EBUSY, call(self->fd, TWHEEL_IOC_SETUP, &s));
}

/* Each wheel has its own table. */
TEST_F(table, two_wheels)
{
	int other = wheel_open(O_NONBLOCK);
	struct table a = map_table(_metadata, self->fd);
	struct table b = map_table(_metadata, other);
	__u64 ida = add(_metadata, self->fd, HOUR, 0, 0);
	__u64 idb = add(_metadata, other, 2 * HOUR, 0, 0);

	/* Both timers have the same slot. */
	ASSERT_EQ((__u32)ida, (__u32)idb);
	EXPECT_LT(word(slot_of(&a, ida)), word(slot_of(&b, idb)));
	EXPECT_NE(0, disarm(&a, ida));
	EXPECT_EQ(TWHEEL_IDLE, state(self->fd, ida));
	EXPECT_EQ(TWHEEL_ARMED, state(other, idb));
	unmap_table(&a);
	unmap_table(&b);
	close(other);
}

/* All mappings of a wheel show the same words, and so do the ioctls. */
TEST_F(table, two_mappings)
{
	struct table a = map_table(_metadata, self->fd);
	struct table b = map_table(_metadata, self->fd);
	__u64 id = add(_metadata, self->fd, HOUR, 0, 0), deadline;
	struct twheel_timer t;

	EXPECT_NE(a.slots, b.slots);
	EXPECT_EQ(0, get_timer(self->fd, id, &t));
	EXPECT_EQ(t.deadline_ns, word(slot_of(&a, id)));
	EXPECT_EQ(t.deadline_ns, word(slot_of(&b, id)));
	EXPECT_EQ(wake(slot_of(&a, id)), wake(slot_of(&b, id)));
	deadline = t.deadline_ns + 12345;
	EXPECT_EQ(t.deadline_ns, swap_word(slot_of(&a, id), deadline));
	EXPECT_EQ(deadline, swap_word(slot_of(&b, id), deadline + 1));
	EXPECT_EQ(deadline + 1, word(slot_of(&a, id)));
	EXPECT_EQ(0, get_timer(self->fd, id, &t));
	EXPECT_EQ(deadline + 1, t.deadline_ns);
	unmap_table(&a);
	unmap_table(&b);
}

/* Every page can be touched. REGISTER sets the word of a slot, whatever it contained. */
TEST_F(table, every_page)
{
	/* The last page of slots is partial. */
	struct twheel_setup s = { .max_timers = 9999 };
	unsigned int i, wrong = 0;
	struct table t;

	ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &s));
	t = map_table(_metadata, self->fd);
	for (i = 0; i < (t.head->marks_offset - PAGE) / sizeof(*t.slots); i++) {
		wrong += word(&t.slots[i]) != 0;
		swap_word(&t.slots[i], i + 1);
		t.slots[i].wake_ns = 3 * i;
	}
	EXPECT_EQ(0, wrong);
	/* A word that is written where there is no timer is not a deadline. */
	EXPECT_FALSE(readable(self->fd, QUIET_MS));
	add_many(_metadata, self->fd, s.max_timers - 1, HOUR, TWHEEL_KEEP, 0, NULL);
	for (i = 0; i < s.max_timers; i++)
		if (word(&t.slots[i]) <= now(CLOCK_MONOTONIC) ||
		    wake(&t.slots[i]) != tick_of(&t, word(&t.slots[i])))
			wrong++;
	/* There is one free slot, and DISARMED sets its word too. */
	EXPECT_EQ(1, wrong);
	reserve(_metadata, self->fd, 0);
	for (i = 0; i < s.max_timers; i++)
		if (!word(&t.slots[i]) && wake(&t.slots[i]) == NEVER)
			wrong--;
	EXPECT_EQ(0, wrong);
	EXPECT_FALSE(readable(self->fd, 0));
	EXPECT_EQ(s.max_timers - 1, cancel_all(self->fd));
	unmap_table(&t);
}

/* Returns a field of /proc/self/status in kB, or -1. */
static long long status_kb(const char *field)
{
	FILE *f = fopen("/proc/self/status", "re");
	long long kb = -1;
	char line[128];

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, field, strlen(field)))
			sscanf(line + strlen(field), ": %lld kB", &kb);
	fclose(f);
	return kb;
}

/*
 * Pages are allocated on demand. A process that locks all its present and future memory, or asks
 * for all pages at once, also gets only those that it touches.
 */
TEST_F(table, locked_in_memory)
{
	static const int populate[] = { 0, MAP_POPULATE };
	struct twheel_setup s = { .max_timers = 1 << 22 };
	long long locked, resident;
	unsigned int i;
	__u64 id;

	if (!is_root())
		SKIP(return, "needs root, or a limit of locked memory above the table");
	ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &s));
	ASSERT_EQ(0, mlockall(MCL_CURRENT | MCL_FUTURE));
	id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 0);
	for (i = 0; i < ARRAY_SIZE(populate); i++) {
		size_t bytes = info(_metadata, self->fd).table_bytes;
		struct twheel_table *head;
		struct twheel_slot *slot;

		status_kb("VmRSS");
		locked = status_kb("VmLck");
		resident = status_kb("VmRSS");
		head = map_at(self->fd, bytes, RW, MAP_SHARED | populate[i], 0);
		ASSERT_TRUE(head != MAP_FAILED);
		slot = (struct twheel_slot *)((char *)head + head->slots_offset) + (__u32)id;
		EXPECT_NE(0, swap_word(slot, HOUR));
		EXPECT_LT(status_kb("VmLck") - locked, 1024);
		EXPECT_LT(status_kb("VmRSS") - resident, 1024);
		TH_LOG("%zu kB mapped, %lld locked, %lld resident", bytes / 1024,
		       status_kb("VmLck") - locked, status_kb("VmRSS") - resident);
		munmap(head, bytes);
	}
	munlockall();
}

/* MADV_DONTNEED drops the process' pages, but not the words of the table. */
TEST_F(table, dontneed)
{
	struct table t = map_table(_metadata, self->fd);
	__u64 id = add(_metadata, self->fd, HOUR, 0, 0), deadline;

	deadline = word(slot_of(&t, id));
	EXPECT_EQ(deadline, swap_word(slot_of(&t, id), deadline + 9));
	EXPECT_EQ(0, madvise(t.head, t.bytes, MADV_DONTNEED));
	EXPECT_EQ(deadline + 9, word(slot_of(&t, id)));
	EXPECT_EQ(TWHEEL_TABLE_MAGIC, t.head->magic);
	unmap_table(&t);
}

/*
 * A child inherits the mapping, unless MADV_DONTFORK forbids that, and no advice makes holes
 * in it.
 */
TEST_F(table, advice)
{
	struct table t = map_table(_metadata, self->fd);
	__u64 id = add(_metadata, self->fd, HOUR, 0, 0), deadline = word(slot_of(&t, id));

	EXPECT_EQ(0, madvise(t.head, t.bytes, MADV_DONTFORK));
	EXPECT_EQ(SIGSEGV, KILLED_BY(swap_word(slot_of(&t, id), 0)));
	/* Linux 7.2 and later refuse this for a mapping that may not grow. */
	if (madvise(t.head, t.bytes, MADV_DOFORK)) {
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(SIGSEGV, KILLED_BY(swap_word(slot_of(&t, id), 0)));
		swap_word(slot_of(&t, id), deadline + 5);
	} else {
		EXPECT_EQ(0, KILLED_BY(swap_word(slot_of(&t, id), deadline + 5)));
	}
	EXPECT_EQ(deadline + 5, word(slot_of(&t, id)));
	EXPECT_EQ(-ENODEV, errno_of(madvise(t.head, t.bytes, MADV_REMOVE)));
	EXPECT_EQ(deadline + 5, word(slot_of(&t, id)));
	unmap_table(&t);
}

/* Reads the flags of a mapping from smaps, with a space before and after each. */
static void flags_of(struct __test_metadata *_metadata, const struct table *t, char *flags,
		     size_t size)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[256], mark[32] = "";
	bool here = false;

	ASSERT_TRUE(!!f);
	snprintf(mark, sizeof(mark), "%lx-", (unsigned long)(uintptr_t)t->head);
	*flags = '\0';
	while (!*flags && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, mark, strlen(mark)))
			here = true;
		if (here && !strncmp(line, "VmFlags:", 8))
			snprintf(flags, size, "%s", line);
	}
	fclose(f);
	TH_LOG("%s", flags);
}

/* The mapping is not part of a core dump, where it would be useless. */
TEST_F(table, not_dumped)
{
	struct table t = map_table(_metadata, self->fd);
	char flags[256];

	flags_of(_metadata, &t, flags, sizeof(flags));
	EXPECT_TRUE(!!strstr(flags, " dd "));
	EXPECT_TRUE(!!strstr(flags, " de "));
	EXPECT_FALSE(!!strstr(flags, " me "));
	unmap_table(&t);
}

/* A process that can execute everything it can read can map the table too, but not execute it. */
TEST_F(table, read_implies_exec)
{
	int before = personality(~0U);
	char flags[256];
	struct table t;

	ASSERT_EQ(before, personality(before | READ_IMPLIES_EXEC));
	t = map_table(_metadata, self->fd);
	EXPECT_EQ(0, mprotect(t.head, t.bytes, PROT_READ));
	flags_of(_metadata, &t, flags, sizeof(flags));
	EXPECT_TRUE(!!strstr(flags, " rd "));
	EXPECT_FALSE(!!strstr(flags, " ex "));
	EXPECT_FALSE(!!strstr(flags, " me "));
	unmap_table(&t);
}

/* A mapping outlives the descriptor that made it: the wheel goes on with any other one. */
TEST_F(table, close_one_descriptor)
{
	struct table t = map_table(_metadata, self->fd);
	int copy = dup(self->fd);
	struct twheel_event ev;
	__u64 id, deadline;

	ASSERT_GE(copy, 0);
	close(self->fd);
	self->fd = copy;
	t.fd = copy;
	id = reserve(_metadata, copy, 4);
	deadline = now(CLOCK_MONOTONIC) + 20 * NS_PER_MS;
	EXPECT_EQ(0, arm(&t, id, deadline));
	EXPECT_EQ(1, take(copy, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(deadline, ev.deadline_ns);
	EXPECT_EQ(4, ev.user_data);
	unmap_table(&t);
}

/* With no descriptor left, the mapping keeps the wheel alive and turning. */
TEST_F(table, mapping_alone)
{
	long long users = read_number(REFCNT);
	struct table t = map_table(_metadata, self->fd);
	__u64 near, far, deadline, end;

	if (users < 0)
		SKIP(return, "built in: nobody counts what is open");
	near = add(_metadata, self->fd, AHEAD, TWHEEL_KEEP, 0);
	far = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 0);
	close(self->fd);
	self->fd = -1;
	EXPECT_EQ(users, read_number(REFCNT));
	if (is_root())
		EXPECT_EQ(-EWOULDBLOCK, unload_module("twheel"));
	/* A part of the mapping is enough. */
	EXPECT_EQ(0, munmap(t.head, PAGE));
	EXPECT_EQ(users, read_number(REFCNT));
	/* A timer that is moved later still expires, and not too early. */
	deadline = word(slot_of(&t, near)) + 60 * NS_PER_MS;
	EXPECT_NE(0, swap_word(slot_of(&t, near), deadline));
	end = now(CLOCK_MONOTONIC) + TIMEOUT_MS * NS_PER_MS;
	while (word(slot_of(&t, near)) && now(CLOCK_MONOTONIC) < end)
		sleep_ms(1);
	EXPECT_EQ(0, word(slot_of(&t, near)));
	EXPECT_GE(now(CLOCK_MONOTONIC), deadline);
	EXPECT_NE(0, word(slot_of(&t, far)));
	EXPECT_EQ(0, munmap(t.slots, t.bytes - PAGE));
	EXPECT_EQ(users - 1, read_number(REFCNT));
}

/*
 * G11: Descriptors and mappings are released in any order: the remaining ones work, and the
 * last one ends the wheel.
 */
TEST_F(table, any_order)
{
	enum { PARTS = 4 };
	long long users = read_number(REFCNT);
	unsigned int order;

	if (users < 0)
		SKIP(return, "built in: nobody counts what is open");
	for (order = 0; order < 24; order++) {
		unsigned int n = order, left = (1 << PARTS) - 1, k;
		int fds[2] = { wheel_open(O_NONBLOCK) };
		struct table t[2];
		__u64 id;

		fds[1] = dup(fds[0]);
		for (k = 0; k < 2; k++)
			t[k] = map_table(_metadata, fds[k]);
		id = add(_metadata, fds[0], HOUR, TWHEEL_KEEP, 0);
		for (k = PARTS; k > 0; k--) {
			/* The digits of @order in factorial base select a permutation. */
			unsigned int skip = n % k, part = 0;

			n /= k;
			while (!(left & 1 << part) || skip--)
				part++;
			if (part < 2) {
				EXPECT_EQ(TWHEEL_ARMED, rearm(fds[part], id, HOUR, TWHEEL_KEEP));
				close(fds[part]);
			} else {
				EXPECT_NE(0, swap_word(slot_of(&t[part - 2], id), HOUR));
				unmap_table(&t[part - 2]);
			}
			left &= ~(1 << part);
			EXPECT_EQ(left ? users + 1 : users, read_number(REFCNT))
				TH_LOG("order %u, %#x left", order, left);
		}
	}
}

/* Holes: a part that is unmapped faults, and the rest still works. */
TEST_F(table, partial_unmapping)
{
	struct table t = map_table(_metadata, self->fd);
	__u64 ids[1024], deadline = now(CLOCK_MONOTONIC) + HOUR;
	struct twheel_event ev;

	/* Four pages of slots. */
	add_many(_metadata, self->fd, 1024, deadline, TWHEEL_ABSTIME | TWHEEL_KEEP, 0, ids);
	EXPECT_EQ(0, munmap((char *)t.slots + PAGE, PAGE));
	EXPECT_EQ(0, munmap(t.head, PAGE));
	EXPECT_EQ(SIGSEGV, KILLED_BY(word(&t.slots[256])));
	EXPECT_EQ(SIGSEGV, KILLED_BY(t.head->magic = 0));
	EXPECT_EQ(deadline, word(&t.slots[255]));
	EXPECT_EQ(deadline, swap_word(&t.slots[512], 1));
	/* The kernel finds the marks through the header. */
	EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, ids[512], 1, TWHEEL_ABSTIME | TWHEEL_KEEP));
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(512, (__u32)ev.id);
	/* Timers in the hole are unaffected. */
	EXPECT_EQ(1023, cancel_all(self->fd));
	munmap(t.slots, PAGE);
	munmap(&t.slots[512], t.bytes - 3 * PAGE);
}

/* fork() inherits the mapping, which still works after the parent has released everything. */
TEST_F(table, fork)
{
	struct table t = map_table(_metadata, self->fd);
	__u64 id = reserve(_metadata, self->fd, 1), deadline;
	struct twheel_event ev;
	int go[2];
	pid_t pid;

	deadline = now(CLOCK_MONOTONIC) + 30 * NS_PER_MS;
	pid = fork_child(_metadata);
	if (!pid) {
		/* This is the parent's word, and not a copy. */
		_exit(arm(&t, id, deadline) != 0);
	}
	EXPECT_EQ(0, status_of(pid));
	EXPECT_EQ(deadline, next_event(_metadata, self->fd, TIMEOUT_MS).deadline_ns);
	EXPECT_EQ(0, word(slot_of(&t, id)));

	ASSERT_EQ(0, pipe2(go, O_CLOEXEC));
	pid = fork_child(_metadata);
	if (!pid) {
		char byte;

		close(go[1]);
		if (read(go[0], &byte, 1))
			_exit(1);
		deadline = now(CLOCK_MONOTONIC) + 20 * NS_PER_MS;
		if (arm(&t, id, deadline) || take(self->fd, &ev, 1, TIMEOUT_MS) != 1)
			_exit(2);
		_exit(ev.deadline_ns != deadline);
	}
	unmap_table(&t);
	close(self->fd);
	self->fd = -1;
	/* Now the child continues alone. */
	close(go[1]);
	EXPECT_EQ(0, status_of(pid));
	close(go[0]);
}

/* exec ends the mapping, and the wheel with it. */
TEST_F(table, exec)
{
	long long users = read_number(REFCNT);
	struct table t = map_table(_metadata, self->fd);
	int status;
	pid_t pid;

	if (users < 0)
		SKIP(return, "built in: nobody counts what is open");
	add(_metadata, self->fd, 10 * NS_PER_MS, 0, 0);
	pid = fork_child(_metadata);
	if (!pid) {
		/* The program's output does not matter. */
		close(STDOUT_FILENO);
		close(STDERR_FILENO);
		execl("/proc/self/exe", "table_test", "-h", NULL);
		_exit(127);
	}
	unmap_table(&t);
	close(self->fd);
	self->fd = -1;
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(users - 1, read_number(REFCNT));
}

/*
 * A descriptor is sent to a process that had no part in the wheel. It maps the table itself
 * and moves a timer, and both processes see each other's words.
 */
TEST_F(table, passed_descriptor)
{
	struct twheel_event ev;
	__u64 id, deadline;
	struct table t;
	int pair[2];
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	pid = fork_child(_metadata);
	if (!pid) {
		close(self->fd);
		close(pair[0]);
		_metadata->exit_code = KSFT_PASS;
		self->fd = receive_fd(pair[1]);
		t = map_table(_metadata, self->fd);
		ASSERT_EQ(sizeof(id), read(pair[1], &id, sizeof(id)));
		deadline = now(CLOCK_MONOTONIC) + 30 * NS_PER_MS;
		EXPECT_NE(0, arm(&t, id, deadline));
		ASSERT_EQ(sizeof(deadline), write(pair[1], &deadline, sizeof(deadline)));
		/* Wait until the parent has closed everything. */
		EXPECT_EQ(0, read(pair[1], &id, sizeof(id)));
		id = reserve(_metadata, self->fd, 3);
		EXPECT_EQ(0, arm(&t, id, 1));
		EXPECT_EQ(id, next_event(_metadata, self->fd, TIMEOUT_MS).id);
		_exit(_metadata->exit_code);
	}
	close(pair[1]);
	ASSERT_TRUE(send_fd(pair[0], self->fd));
	t = map_table(_metadata, self->fd);
	id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 2);
	ASSERT_EQ(sizeof(id), write(pair[0], &id, sizeof(id)));
	ASSERT_EQ(sizeof(deadline), read(pair[0], &deadline, sizeof(deadline)));
	EXPECT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	EXPECT_EQ(id, ev.id);
	EXPECT_EQ(deadline, ev.deadline_ns);
	unmap_table(&t);
	close(self->fd);
	self->fd = -1;
	close(pair[0]);
	EXPECT_EQ(0, status_of(pid));
}

/* A page of words that lies in a pipe outlives the wheel, and is not given to anybody else. */
TEST_F(table, page_in_pipe)
{
	struct table t = map_table(_metadata, self->fd);
	struct twheel_slot got[256];
	struct iovec iov = { .iov_base = t.slots, .iov_len = PAGE };
	unsigned int i, wrong = 0;
	int pipes[2];

	ASSERT_EQ(0, pipe2(pipes, O_CLOEXEC));
	for (i = 0; i < 256; i++)
		swap_word(&t.slots[i], ~(__u64)i);
	ASSERT_EQ(PAGE, vmsplice(pipes[1], &iov, 1, 0));
	unmap_table(&t);
	close(self->fd);
	self->fd = open_wheel(_metadata, O_NONBLOCK);
	/* Freed pages are allocated again. */
	t = map_table(_metadata, self->fd);
	memset(t.slots, POISON, t.bytes - PAGE);
	ASSERT_EQ(PAGE, read(pipes[0], got, PAGE));
	for (i = 0; i < 256; i++)
		wrong += got[i].deadline_ns != ~(__u64)i;
	EXPECT_EQ(0, wrong);
	unmap_table(&t);
	close(pipes[0]);
	close(pipes[1]);
}

/* Returns what the tests' cgroup is charged with, or -1 if there is none. */
static long long in_cgroup(void)
{
	return read_number(PAID_BY "/memory.current");
}

/* The memory that each CPU charges in advance, and that a process itself needs. */
#define SLACK	(2 << 20)

/*
 * Has a process in that cgroup measure what it is charged for the wheel @fd, and for what it
 * does.
 */
static void charge(struct __test_metadata *_metadata, int fd,
		   void (*look)(struct __test_metadata *_metadata, int fd))
{
	struct twheel_setup s = { .max_timers = 1 << 21 };
	pid_t pid;

	ASSERT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &s));
	pid = fork_child(_metadata);
	if (!pid) {
		_metadata->exit_code = KSFT_PASS;
		ASSERT_TRUE(enter_group());
		look(_metadata, fd);
		_exit(_metadata->exit_code);
	}
	EXPECT_EQ(0, status_of(pid));
	rmdir(PAID_BY);
}

static void touch_pages(struct __test_metadata *_metadata, int fd)
{
	long long before = in_cgroup(), mapped, touched;
	struct table t = map_table(_metadata, fd);

	mapped = in_cgroup();
	EXPECT_EQ(table_bytes(1 << 21), t.bytes);
	EXPECT_LT(mapped - before, SLACK);
	memset(t.slots, 0, t.bytes - PAGE);
	touched = in_cgroup();
	EXPECT_GT(touched - mapped, (32 << 20) - SLACK);
	/* A second mapping costs only its page tables. */
	t = map_table(_metadata, fd);
	memset(t.slots, 0, t.bytes - PAGE);
	EXPECT_LT(in_cgroup() - touched, SLACK);
	TH_LOG("%lld kB, mapped %lld, touched %lld", before / 1024, mapped / 1024,
	       touched / 1024);
}

/* Pages are allocated on demand, and charged to the cgroup of the process that touches them. */
TEST_F(table, charged)
{
	SKIP_UNLESS_ROOT();
	if (!make_group("max"))
		SKIP(return, NO_CGROUP);
	charge(_metadata, self->fd, touch_pages);
}

static void make_all(struct __test_metadata *_metadata, int fd)
{
	enum { WHEELS = 800, TIMERS = 200000 };
	/*
	 * The memory of each wheel itself. The first timer adds buckets, rings and a block of
	 * timers. Each timer has an entry, user_data and a word.
	 */
	enum { OF_WHEEL = 3600, OF_FIRST = 13000 + 64 * (64 + 8) + 2 * PAGE };
	enum { OF_TIMER = 64 + 8 + sizeof(struct twheel_slot) };
	/* N9: the maximum for a timer in all. */
	enum { AT_MOST = 96 };
	long long before = in_cgroup(), opened, made;
	int wheels[WHEELS], i;

	for (i = 0; i < WHEELS; i++) {
		wheels[i] = wheel_open(0);
		ASSERT_GE(wheels[i], 0);
	}
	opened = in_cgroup();
	EXPECT_GT(opened - before, WHEELS * OF_WHEEL - SLACK / 2);
	before = opened;
	for (i = 0; i < WHEELS; i++)
		add(_metadata, wheels[i], HOUR, 0, 0);
	opened = in_cgroup();
	EXPECT_GT(opened - before, WHEELS * OF_FIRST - SLACK / 2);
	add_many(_metadata, fd, TIMERS, HOUR, 0, 0, NULL);
	made = in_cgroup();
	EXPECT_GT(made - opened, TIMERS * OF_TIMER - SLACK);
	if (slabs_are_plain())
		EXPECT_LT(made - opened, TIMERS * AT_MOST + SLACK);
	TH_LOG("%lld kB, opened %lld, made %lld", before / 1024, opened / 1024, made / 1024);
}

/*
 * The wheel itself is charged to the cgroup of its opener, and each timer to that of its
 * creator.
 */
TEST_F(table, charged_for_all)
{
	SKIP_UNLESS_ROOT();
	if (!make_group("max"))
		SKIP(return, NO_CGROUP);
	charge(_metadata, self->fd, make_all);
}

/* G10: SIGBUS for a page for which the cgroup has no memory left, and the wheel goes on. */
TEST_F(table, no_memory)
{
	struct twheel_setup s = { .max_timers = 1 << 21 };
	__u64 id;
	int status;
	pid_t pid;

	SKIP_UNLESS_ROOT();
	if (!make_group("16M"))
		SKIP(return, NO_CGROUP);
	ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &s));
	id = add(_metadata, self->fd, HOUR, TWHEEL_KEEP, 0);
	pid = fork_child(_metadata);
	if (!pid) {
		struct table t = map_table(_metadata, self->fd);
		size_t at;

		/* Ends this process if it faults on the same page forever. */
		alarm(TIMEOUT_MS / 1000);
		/*
		 * A core dump would be charged to the cgroup, which has no memory left, so the
		 * process would be killed.
		 */
		if (prctl(PR_SET_DUMPABLE, 0))
			_exit(2);
		if (!enter_group())
			_exit(2);
		/*
		 * First allocate page tables, because a process without memory for these is
		 * killed.
		 */
		for (at = 0; at < t.bytes; at += 2 << 20)
			*((volatile char *)t.head + at) = 1;
		memset(t.head, 1, t.bytes);
		_exit(1);
	}
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(SIGBUS, WTERMSIG(status));
	EXPECT_EQ(0, rmdir(PAID_BY));
	EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, id, HOUR, TWHEEL_KEEP));
	add_many(_metadata, self->fd, 10000, HOUR, 0, 0, NULL);
	EXPECT_EQ(10001, cancel_all(self->fd));
}

/* Fills this process' cgroup with another wheel's pages, up to its last page. */
static bool fill_group(void)
{
	struct twheel_setup s = { .max_timers = 1 << 20 };
	struct twheel_info i;
	int fd = wheel_open(0);
	char *p;
	size_t at;

	if (fd < 0 || call(fd, TWHEEL_IOC_SETUP, &s) || call(fd, TWHEEL_IOC_INFO, &i))
		return false;
	p = map_at(fd, i.table_bytes, RW, MAP_SHARED, 0);
	if (p == MAP_FAILED)
		return false;
	for (at = 0; at < i.table_bytes; at += PAGE)
		if (madvise(p + at, PAGE, MADV_POPULATE_WRITE))
			return errno == EFAULT || errno == ENOMEM;
	return false;
}

/*
 * G10: After a successful REGISTER, the header, the slot's word and its mark can be touched
 * without a fault that fails, even if the cgroup has no memory left.
 */
TEST_F(table, touched_in_full_cgroup)
{
	struct twheel_timer timer = { .flags = TWHEEL_KEEP | TWHEEL_DISARMED };
	struct twheel_setup s = { .max_timers = 4096 };
	int status;
	pid_t pid;

	SKIP_UNLESS_ROOT();
	if (!make_group("8M"))
		SKIP(return, NO_CGROUP);
	ASSERT_EQ(0, call(self->fd, TWHEEL_IOC_SETUP, &s));
	pid = fork_child(_metadata);
	if (!pid) {
		struct table t;
		__u32 slot;

		alarm(TIMEOUT_MS / 1000);
		if (prctl(PR_SET_DUMPABLE, 0) || !enter_group())
			_exit(2);
		t = map_table(_metadata, self->fd);
		/* Page tables belong to the process itself. */
		if (madvise(t.head, PAGE, MADV_POPULATE_WRITE) ||
		    verb(self->fd, TWHEEL_IOC_REGISTER, &timer) || !fill_group())
			_exit(3);
		slot = timer.id;
		swap_word(&t.slots[slot], NEVER - 2);
		__atomic_fetch_or((char *)t.head + t.head->marks_offset + slot / 8,
				  1 << slot % 8, __ATOMIC_SEQ_CST);
		__atomic_fetch_or((char *)t.head + t.head->summary_offset, 1, __ATOMIC_SEQ_CST);
		_exit(0);
	}
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	EXPECT_EQ(0, rmdir(PAID_BY));
}

/* G10: A wheel without timers takes at most 64 KiB, whatever its shape. */
static void shape_all(struct __test_metadata *_metadata, int fd)
{
	enum { WHEELS = 64 };
	long long before = in_cgroup();
	unsigned int i;

	for (i = 0; i < WHEELS; i++) {
		struct twheel_setup s = { .slot_bits = 12 - i % 9 };

		ASSERT_EQ(0, call(wheel_open(0), TWHEEL_IOC_SETUP, &s));
	}
	EXPECT_LT(in_cgroup() - before, WHEELS * 65536);
	EXPECT_EQ(0, turn_now(fd));
}

TEST_F(table, charged_for_shape)
{
	SKIP_UNLESS_ROOT();
	if (!make_group("max"))
		SKIP(return, NO_CGROUP);
	charge(_metadata, self->fd, shape_all);
}

/* A wheel is mapped, partly touched and unmapped 2,000 times: nothing is left. */
TEST_F(table, map_and_unmap)
{
	long long users = read_number(REFCNT);
	unsigned int i;

	if (users < 0)
		SKIP(return, "built in: nobody counts what is open");
	for (i = 0; i < 500; i++) {
		int fd = wheel_open(O_NONBLOCK);
		struct table t = map_table(_metadata, fd);

		if (i % 2)
			close(fd);
		if (i % 3)
			swap_word(&t.slots[i * 64], i);
		unmap_table(&t);
		if (i % 2 == 0)
			close(fd);
	}
	EXPECT_EQ(users, read_number(REFCNT));
}

TEST_HARNESS_MAIN
