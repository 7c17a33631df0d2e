// SPDX-License-Identifier: GPL-2.0
/*
 * The module as a whole: the device node, its users, the limits, and that everything a process
 * leaves behind is cleaned up.
 */
#include "machine.h"
#include "module.h"
#include "ring.h"
#include "twheel_test.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>

/* The module parameters, and their defaults. */
TEST(parameters)
{
	EXPECT_GT(read_number(TWHEEL_PARAMS "max_timers"), 0);
	EXPECT_GT(read_number(TWHEEL_PARAMS "max_timers_limit"), 0);
	EXPECT_GT(read_number(TWHEEL_PARAMS "min_tick_ns"), 0);
	EXPECT_EQ(1048576, read_number(TWHEEL_PARAMS "max_timers"));
	EXPECT_EQ(16777216, read_number(TWHEEL_PARAMS "max_timers_limit"));
	EXPECT_EQ(100000, read_number(TWHEEL_PARAMS "min_tick_ns"));
	EXPECT_EQ(1024, read_number(TWHEEL_PARAMS "max_wheels_per_user"));
	EXPECT_GT(read_number(TWHEEL_PARAMS "max_bytes_per_user"), 0);
}

static bool set_parameter(const char *path, long long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", value);
	return write_text(path, text);
}

/* A value that root sets applies to wheels that are opened from then on. */
TEST(parameters_take_effect)
{
	static const char *const paths[] = {
		TWHEEL_PARAMS "max_timers",
		TWHEEL_PARAMS "max_timers_limit",
		TWHEEL_PARAMS "min_tick_ns",
	};
	struct twheel_setup s = { 0 };
	int old = open_wheel(_metadata, O_NONBLOCK), fd;
	long long values[ARRAY_SIZE(paths)];
	unsigned int i;

	SKIP_UNLESS_ROOT();
	for (i = 0; i < ARRAY_SIZE(paths); i++)
		values[i] = read_number(paths[i]);
	EXPECT_TRUE(set_parameter(paths[0], 77));
	fd = wheel_open(O_NONBLOCK);
	EXPECT_EQ(77, info(_metadata, fd).max_timers);
	EXPECT_EQ(values[0], info(_metadata, old).max_timers);
	EXPECT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &s));
	EXPECT_EQ(77, s.max_timers);

	/* The ceiling takes precedence over the default. */
	EXPECT_TRUE(set_parameter(paths[1], 50));
	s = (struct twheel_setup) { .max_timers = 51 };
	EXPECT_EQ(-EINVAL, call(fd, TWHEEL_IOC_SETUP, &s));
	s = (struct twheel_setup) { .max_timers = 50 };
	EXPECT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &s));
	s = (struct twheel_setup) { 0 };
	EXPECT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &s));
	EXPECT_EQ(50, s.max_timers);

	EXPECT_TRUE(set_parameter(paths[2], 5000000));
	EXPECT_EQ(5000000, info(_metadata, fd).min_tick_ns);
	EXPECT_TRUE(set_parameter(paths[2], 1000));
	EXPECT_EQ(1000, info(_metadata, fd).min_tick_ns);
	drop_capability(_metadata, CAP_SYS_RESOURCE);
	s = (struct twheel_setup) { .tick_ns = 1000 };
	EXPECT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &s));
	s = (struct twheel_setup) { .tick_ns = 999 };
	EXPECT_EQ(-EPERM, call(fd, TWHEEL_IOC_SETUP, &s));
	for (i = 0; i < ARRAY_SIZE(paths); i++)
		EXPECT_TRUE(set_parameter(paths[i], values[i]));
	close(fd);
	close(old);
}

/* Anybody may open the node, and /proc/misc lists its minor number. */
TEST(node)
{
	unsigned int minor_nr = 0;
	char line[64], name[64];
	bool listed = false;
	struct stat st;
	FILE *f;

	ASSERT_EQ(0, stat(TWHEEL_DEVICE, &st));
	EXPECT_TRUE(S_ISCHR(st.st_mode));
	EXPECT_EQ(0666, st.st_mode & 07777);
	EXPECT_EQ(10, major(st.st_rdev));
	f = fopen("/proc/misc", "re");
	ASSERT_TRUE(!!f);
	while (fgets(line, sizeof(line), f)) {
		unsigned int nr;

		if (sscanf(line, "%u %63s", &nr, name) == 2 && !strcmp(name, "twheel")) {
			listed = true;
			minor_nr = nr;
		}
	}
	fclose(f);
	EXPECT_TRUE(listed);
	EXPECT_EQ(minor_nr, minor(st.st_rdev));
}

#define TAKEN		"/taken.ko"
#define MODPROBE	"/proc/sys/kernel/modprobe"
#define STUB		"/tmp/twheel-modprobe"
#define ASKED		"/tmp/twheel-asked"
#define NODE		"/tmp/twheel-node"
/* The minor number that the module asks for. */
#define MINOR		250

static bool write_file(const char *path, mode_t mode, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	if (fd < 0)
		return false;
	close(fd);
	return write_text(path, text);
}

/* Reads the first line of a file, without the newline; an empty string if there is none. */
static void read_line(const char *path, char *line, int size)
{
	FILE *f = fopen(path, "re");

	if (!f || !fgets(line, size, f))
		line[0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	if (f)
		fclose(f);
}

/* Returns the minor number of @name in /proc/misc, or -1. */
static int misc_minor(const char *name)
{
	FILE *f = fopen("/proc/misc", "re");
	char line[64], have[64];
	int nr, found = -1;

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%d %63s", &nr, have) == 2 && !strcmp(have, name))
			found = nr;
	fclose(f);
	return found;
}

/* Unloads and reloads the module, which only the machine of vm/run.sh is meant for. */
FIXTURE(loading) {
	char params[128];
	char modprobe[128];
};

FIXTURE_SETUP(loading)
{
	if (!is_root() || access(MODULE, R_OK) || access(TAKEN, R_OK))
		SKIP(return, "NOT THE MACHINE OF vm/run.sh: loading not tested");
	read_line(MODPROBE, self->modprobe, sizeof(self->modprobe));
	snprintf(self->params, sizeof(self->params),
		 "max_timers=%lld max_timers_limit=%lld min_tick_ns=%lld",
		 read_number(TWHEEL_PARAMS "max_timers"),
		 read_number(TWHEEL_PARAMS "max_timers_limit"),
		 read_number(TWHEEL_PARAMS "min_tick_ns"));
	ASSERT_EQ(0, unload_module("twheel"));
	EXPECT_EQ(-1, access(TWHEEL_DEVICE, F_OK));
}

FIXTURE_TEARDOWN(loading)
{
	write_text(MODPROBE, self->modprobe);
	unlink(NODE);
	unlink(STUB);
	unlink(ASKED);
	unload_module("taken");
	unload_module("twheel");
	EXPECT_EQ(0, load_module(MODULE, self->params));
	EXPECT_EQ(MINOR, misc_minor("twheel"));
}

/*
 * Opening the node while the module is not loaded requests the module by its number, and loads
 * it.
 */
TEST_F(loading, on_open)
{
	struct twheel_event ev;
	char asked[64];
	int fd;

	ASSERT_TRUE(write_file(STUB, 0755,
			       "#!/bin/sh\n"
			       "echo \"$*\" >" ASKED "\n"
			       "exec insmod " MODULE "\n"));
	ASSERT_TRUE(write_text(MODPROBE, STUB));
	ASSERT_EQ(0, mknod(NODE, S_IFCHR | 0600, makedev(10, MINOR)));
	fd = open(NODE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	read_line(ASKED, asked, sizeof(asked));
	EXPECT_STREQ("-q -- char-major-10-250", asked);
	add(_metadata, fd, NS_PER_MS, 0, 0);
	EXPECT_EQ(1, take(fd, &ev, 1, TIMEOUT_MS));
	close(fd);
}

/*
 * If another driver has the minor number, the module takes a free one, and logs a line that
 * says so.
 */
TEST_F(loading, minor_is_taken)
{
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC), fd;
	unsigned int lines = 0, told = 0;
	char record[8192];
	struct stat st;
	ssize_t len;

	ASSERT_GE(log, 0);
	ASSERT_EQ(0, load_module(TAKEN, ""));
	ASSERT_GE(lseek(log, 0, SEEK_END), 0);
	ASSERT_EQ(0, load_module(MODULE, ""));
	EXPECT_GE(misc_minor("twheel"), 0);
	EXPECT_NE(MINOR, misc_minor("twheel"));
	ASSERT_EQ(0, stat(TWHEEL_DEVICE, &st));
	EXPECT_EQ(misc_minor("twheel"), (int)minor(st.st_rdev));
	fd = open_wheel(_metadata, O_NONBLOCK);
	add(_metadata, fd, HOUR, 0, 0);
	close(fd);
	while ((len = read(log, record, sizeof(record) - 1)) > 0) {
		record[len] = '\0';
		lines += !!strstr(record, ";twheel: ");
		told += !!strstr(record, ";twheel: minor 250 is taken;");
	}
	EXPECT_EQ(1, lines);
	EXPECT_EQ(1, told);
	close(log);
}

/* Limits per user, so that no user can take everything from the others (G10) */

#define USER	4321
#define OTHER	4322

/* Room for timers is allocated in blocks of this many. */
#define BLOCK_OF_TIMERS	64

/*
 * The memory of a wheel with one block of timers: the wheel itself, its buckets, and for the
 * block a page of words, a page of marks, the timers and their user_data. Then the memory of
 * the next block, which is in the same pages.
 */
#define WHEEL_BYTES	(32 << 10)
#define BLOCK_BYTES	(4 << 10)

FIXTURE(quota) {
	long long wheels;
	long long bytes;
};

FIXTURE_SETUP(quota)
{
	SKIP_UNLESS_ROOT();
	self->wheels = read_number(TWHEEL_PARAMS "max_wheels_per_user");
	self->bytes = read_number(TWHEEL_PARAMS "max_bytes_per_user");
}

FIXTURE_TEARDOWN(quota)
{
	EXPECT_TRUE(set_parameter(TWHEEL_PARAMS "max_wheels_per_user", self->wheels));
	EXPECT_TRUE(set_parameter(TWHEEL_PARAMS "max_bytes_per_user", self->bytes));
}

/*
 * Runs @fn as user @uid in a process of its own. Returns what @fn returned, which must be
 * below 255.
 */
static int as_user(uid_t uid, int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(setresuid(uid, uid, uid) ? 255 : fn());
	status = status_of(pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* Returns how many wheels can be opened, up to 100. They are closed when the process exits. */
static int open_many(void)
{
	int n = 0;

	while (n < 100 && wheel_open(O_NONBLOCK) >= 0)
		n++;
	return n == 100 || errno == ENOSPC ? n : 254;
}

/*
 * Allocates one block of timers in each of several wheels, until ENOSPC. Returns how many
 * wheels got one.
 */
static int fill_wheels(void)
{
	struct twheel_setup s = { .max_timers = BLOCK_OF_TIMERS };
	int wheels, ret = 0, i;

	for (wheels = 0; wheels < 50; wheels++) {
		int fd = wheel_open(O_NONBLOCK);

		if (fd < 0)
			return errno == ENOSPC ? wheels : 254;
		if (call(fd, TWHEEL_IOC_SETUP, &s))
			return 254;
		for (i = 0; i < BLOCK_OF_TIMERS; i++) {
			struct twheel_timer t = { .deadline_ns = HOUR };

			ret = verb(fd, TWHEEL_IOC_REGISTER, &t);
			if (ret)
				break;
		}
		if (ret)
			return ret == -ENOSPC && !i ? wheels : 254;
	}
	return wheels;
}

TEST_F(quota, wheels)
{
	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_wheels_per_user", 7));
	/* Everything that a user opened is free again when the process has exited. */
	EXPECT_EQ(7, as_user(USER, open_many));
	EXPECT_EQ(7, as_user(USER, open_many));
	EXPECT_EQ(7, as_user(OTHER, open_many));
	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_wheels_per_user", 0));
	EXPECT_EQ(100, as_user(USER, open_many));
}

/* Returns how many wheels a user's process can fill if this many bytes are allowed. */
static int fill_within(struct __test_metadata *_metadata, long long bytes)
{
	int n;

	EXPECT_TRUE(set_parameter(TWHEEL_PARAMS "max_bytes_per_user", bytes));
	n = as_user(USER, fill_wheels);
	/*
	 * All of it is free again when the process has exited, and none of it counts against
	 * another user.
	 */
	EXPECT_EQ(n, as_user(USER, fill_wheels));
	EXPECT_EQ(n, as_user(OTHER, fill_wheels));
	return n;
}

/* G10: The memory of wheels and their timers is counted in bytes. */
TEST_F(quota, bytes)
{
	int n = fill_within(_metadata, 10 * WHEEL_BYTES);

	EXPECT_GE(n, 10);
	EXPECT_LT(n, 15);
	EXPECT_GE(fill_within(_metadata, 20 * WHEEL_BYTES), 2 * n);
	EXPECT_EQ(50, fill_within(_metadata, 0));
}

/* The default is 4 % of low memory, like epoll's max_user_watches. */
TEST_F(quota, follows_the_machine)
{
	long long watches = read_number("/proc/sys/fs/epoll/max_user_watches");

	/* A watch takes 160 bytes on 64-bit machines, and less on 32-bit ones. */
	EXPECT_GT(self->bytes, watches * 80);
	EXPECT_LT(self->bytes, watches * 250);
}

/* Touches the pages of one wheel's table until one is refused. Returns how many succeeded. */
static int touch_table(void)
{
	struct twheel_setup s = { .max_timers = 1 << 20 };
	int fd = wheel_open(O_NONBLOCK), n = 0;
	struct twheel_info i;
	char *p;

	if (fd < 0 || call(fd, TWHEEL_IOC_SETUP, &s) || call(fd, TWHEEL_IOC_INFO, &i))
		return 254;
	p = mmap(NULL, i.table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return 254;
	while (n < 250 && !madvise(p + n * PAGE, PAGE, MADV_POPULATE_WRITE))
		n++;
	return n;
}

/* G10: Pages that are allocated by a page fault count too, though they hold no timers. */
TEST_F(quota, pages_by_fault)
{
	int n;

	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_bytes_per_user", 100 * PAGE));
	n = as_user(USER, touch_table);
	EXPECT_GT(n, 50);
	EXPECT_LT(n, 100);
}

/*
 * G10: CAP_SYS_RESOURCE in the initial namespace exempts from both limits, and no other
 * capability does.
 */
TEST_F(quota, capability)
{
	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_wheels_per_user", 3));
	EXPECT_EQ(100, as_user(0, open_many));
	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_wheels_per_user", 0));
	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_bytes_per_user", 5 * WHEEL_BYTES));
	EXPECT_EQ(50, as_user(0, fill_wheels));
	drop_capability(_metadata, CAP_SYS_RESOURCE);
	EXPECT_GT(10, as_user(0, fill_wheels));
	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_wheels_per_user", 3));
	EXPECT_EQ(3, as_user(0, open_many));
}

/* Opens, fills and closes two wheels again and again while a third one stays open. */
static int fill_and_close(void)
{
	struct twheel_setup s = { .max_timers = 100 };
	struct twheel_timer t = { .deadline_ns = HOUR };
	int kept = wheel_open(O_NONBLOCK), rounds;

	if (kept < 0 || call(kept, TWHEEL_IOC_SETUP, &s) || verb(kept, TWHEEL_IOC_REGISTER, &t))
		return 254;
	for (rounds = 0; rounds < 20; rounds++) {
		int fd[3], i, ret = 0;

		for (i = 0; i < 3; i++) {
			fd[i] = wheel_open(O_NONBLOCK);
			if (fd[i] < 0 || call(fd[i], TWHEEL_IOC_SETUP, &s))
				return 254;
			ret = verb(fd[i], TWHEEL_IOC_REGISTER, &t);
			if (ret != (i < 2 ? 0 : -ENOSPC))
				return rounds;
		}
		for (i = 0; i < 3; i++)
			close(fd[i]);
	}
	return rounds;
}

/* The memory of a wheel is free again when it is closed, even if the user has another wheel. */
TEST_F(quota, bytes_come_back)
{
	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_bytes_per_user", 7 * WHEEL_BYTES / 2));
	EXPECT_EQ(20, as_user(USER, fill_and_close));
}

/*
 * A refusal whose result cannot be written must end the batch with an error. Returns true if
 * it does not.
 */
static bool refusal_is_lost(int fd)
{
	struct twheel_op *op = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	fill_ops(op, 1, TWHEEL_OP_REGISTER, HOUR, 0);
	if (batch(fd, op, 1) != 1 || op->result != -ENOSPC || mprotect(op, PAGE, PROT_READ))
		return true;
	return batch(fd, op, 1) != -EFAULT;
}

/*
 * Fills one block of timers, and tries some of the next until ENOSPC. Returns how many results
 * are wrong.
 */
static int fill_one(void)
{
	int fd = wheel_open(O_NONBLOCK), n = 0, wrong = 0, ret;
	__u64 ids[2 * BLOCK_OF_TIMERS];

	for (;;) {
		struct twheel_timer t = { .deadline_ns = HOUR };

		ret = n < 2 * BLOCK_OF_TIMERS ? verb(fd, TWHEEL_IOC_REGISTER, &t) : 0;
		if (ret || n == 2 * BLOCK_OF_TIMERS)
			break;
		ids[n++] = t.id;
	}
	if (ret != -ENOSPC || n != BLOCK_OF_TIMERS)
		return 254;
	/* Existing timers stay as they are, and canceling one makes room for one. */
	while (n--)
		wrong += state(fd, ids[n]) != TWHEEL_ARMED;
	wrong += cancel(fd, ids[7]) != TWHEEL_ARMED;
	for (n = 0; n < 2; n++) {
		struct twheel_timer t = { .deadline_ns = HOUR };

		wrong += verb(fd, TWHEEL_IOC_REGISTER, &t) != (n ? -ENOSPC : 0);
	}
	return wrong + refusal_is_lost(fd);
}

/* A limit that is reached in the middle of a wheel affects none of its timers. */
TEST_F(quota, within_a_wheel)
{
	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_bytes_per_user",
				  WHEEL_BYTES + BLOCK_BYTES / 2));
	EXPECT_EQ(0, as_user(USER, fill_one));
}

/* Opens a wheel with one timer as user @uid. Returns its descriptor or a negative errno. */
static int wheel_of(uid_t uid)
{
	struct twheel_timer t = { .deadline_ns = HOUR };
	int fd, ret;

	if (seteuid(uid))
		return -errno;
	fd = errno_of(wheel_open(0));
	if (seteuid(0))
		return -errno;
	ret = fd < 0 ? fd : verb(fd, TWHEEL_IOC_REGISTER, &t);
	if (fd >= 0 && ret)
		close(fd);
	return ret ?: fd;
}

/* Each user has a limit and a count of their own, however many users there are. */
TEST_F(quota, many_users)
{
	enum { USERS = 200 };
	int fds[USERS], i;

	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_wheels_per_user", 1));
	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_bytes_per_user", WHEEL_BYTES));
	for (i = 0; i < USERS; i++) {
		fds[i] = wheel_of(USER + i);
		ASSERT_LE(0, fds[i]);
	}
	for (i = 0; i < USERS; i++)
		EXPECT_EQ(-ENOSPC, wheel_of(USER + i));
	/* Only the user who closes a wheel may open another one. */
	for (i = 0; i < USERS; i += 2)
		close(fds[i]);
	for (i = 0; i < USERS; i++) {
		int fd = wheel_of(USER + i);

		EXPECT_EQ(i % 2 == 0, fd >= 0);
		close(i % 2 ? fds[i] : fd);
	}
}

/* A wheel counts against the user who opened it, even while another one holds it. */
TEST_F(quota, opener_pays)
{
	int pair[2], fd;
	pid_t pid;

	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_wheels_per_user", 1));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	if (!pid) {
		bool sent = !setresuid(USER, USER, USER) && send_fd(pair[1], wheel_open(0));

		_exit(!sent);
	}
	fd = receive_fd(pair[0]);
	ASSERT_EQ(0, status_of(pid));
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, as_user(USER, open_many));
	EXPECT_EQ(1, as_user(OTHER, open_many));
	close(fd);
	EXPECT_EQ(1, as_user(USER, open_many));
	close(pair[0]);
	close(pair[1]);
}

/* However many threads open wheels at once, no more than the limit succeed. */
TEST_F(quota, race)
{
	enum { OPENERS = 8, WHEELS_MAX = 50, ROUNDS = 20 };
	int *got = shared_memory(4096), *ready = got + OPENERS;
	unsigned int round, i, sum;
	pid_t pid[OPENERS];

	ASSERT_NE(NULL, got);
	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_wheels_per_user", WHEELS_MAX));
	for (round = 0; round < ROUNDS; round++) {
		__atomic_store_n(ready, 0, __ATOMIC_SEQ_CST);
		for (i = 0; i < OPENERS; i++) {
			pid[i] = fork();
			if (pid[i])
				continue;
			if (setresuid(USER, USER, USER))
				_exit(1);
			got[i] = open_many();
			__atomic_fetch_add(ready, 1, __ATOMIC_SEQ_CST);
			/* No thread closes its wheel while another one opens. */
			for (;;)
				pause();
		}
		while (__atomic_load_n(ready, __ATOMIC_SEQ_CST) < OPENERS)
			sleep_ms(1);
		for (i = 0, sum = 0; i < OPENERS; i++) {
			EXPECT_TRUE(killed(pid[i]));
			sum += got[i];
		}
		EXPECT_EQ(WHEELS_MAX, sum);
	}
	munmap(got, 4096);
}

static int open_in_namespace(void)
{
	return wheel_open(O_NONBLOCK) < 0 || unshare(CLONE_NEWUSER) ? 253 : open_many();
}

/* A user is the same in every user namespace, and gets no more wheels there. */
TEST_F(quota, user_namespace)
{
	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_wheels_per_user", 3));
	EXPECT_EQ(2, as_user(USER, open_in_namespace));
}

/*
 * Runs open_many() as uid @as of a user namespace that user @owner creates with the uid map
 * @map. Returns what open_many() returned.
 */
static int open_in(uid_t owner, const char *map, uid_t as)
{
	int ready[2], mapped[2], fd, ret;
	char byte = 0, path[64];
	pid_t pid;

	if (pipe(ready) || pipe(mapped))
		return 251;
	pid = fork();
	if (!pid) {
		if (setresuid(owner, owner, owner) || prctl(PR_SET_DUMPABLE, 1) ||
		    unshare(CLONE_NEWUSER) || write(ready[1], &byte, 1) != 1 ||
		    read(mapped[0], &byte, 1) != 1)
			_exit(253);
		_exit(setresuid(as, as, as) ? 252 : open_many());
	}
	/* Write the map from outside, as newuidmap does for a user with subordinate ids. */
	ret = read(ready[0], &byte, 1) == 1;
	snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	fd = open(path, O_WRONLY);
	ret = ret && write(fd, map, strlen(map)) == (ssize_t)strlen(map) &&
	      write(mapped[1], &byte, 1) == 1;
	close(fd);
	close(mapped[1]);
	close(mapped[0]);
	close(ready[0]);
	close(ready[1]);
	return ret ? WEXITSTATUS(status_of(pid)) : 250;
}

/* G10: A user with subordinate ids pays for all namespaces made from them. */
TEST_F(quota, owner_of_namespace_pays)
{
	int held;

	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_wheels_per_user", 3));
	EXPECT_EQ(3, open_in(USER, "0 100000 1", 0));
	held = wheel_of(USER);
	ASSERT_LE(0, held);
	EXPECT_EQ(2, open_in(USER, "0 100000 1", 0));
	EXPECT_EQ(2, open_in(USER, "0 100001 2", 1));
	/*
	 * The user with that uid does not pay, and another user who makes a namespace pays for
	 * his own.
	 */
	EXPECT_EQ(3, as_user(100000, open_many));
	EXPECT_EQ(3, open_in(OTHER, "0 100000 1", 0));
	close(held);
}

/* G10: In a container that global root made, the container's root pays for all its users. */
TEST_F(quota, root_of_namespace_pays)
{
	int held;

	ASSERT_TRUE(set_parameter(TWHEEL_PARAMS "max_wheels_per_user", 3));
	held = wheel_of(USER);
	ASSERT_LE(0, held);
	EXPECT_EQ(2, open_in(0, "0 4321 1\n1 4322 1\n", 0));
	EXPECT_EQ(2, open_in(0, "0 4321 1\n1 4322 1\n", 1));
	EXPECT_EQ(3, open_in(0, "0 4323 1\n1 4321 1\n", 1));
	close(held);
}

/* The worker serves users in turn, not wheels */

/* The common deadline of all timers in a process, and what it reports about its wheels. */
struct due_together {
	__u64 instant;
	__u64 worst;
	int ready;
	int failed;
};

/*
 * Arms @each timers on each of @wheels wheels for one instant, and reports when the last one
 * expired.
 */
static void all_due(struct due_together *d, uid_t as, unsigned int wheels, unsigned int each)
{
	static struct twheel_op ops[1024];
	static struct twheel_event ev[1024];
	unsigned int i, k, got;
	int *fds = calloc(wheels, sizeof(*fds));

	d->failed = setresuid(as, as, as) || !pin(0);
	for (i = 0; i < wheels && !d->failed; i++) {
		fds[i] = wheel_open(O_NONBLOCK);
		fill_ops(ops, each, TWHEEL_OP_REGISTER, d->instant, TWHEEL_ABSTIME);
		d->failed = batch(fds[i], ops, each) != (int)each || ops[each - 1].result;
	}
	d->failed |= now(CLOCK_MONOTONIC) > d->instant;
	__atomic_store_n(&d->ready, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < wheels && !d->failed; i++) {
		for (got = 0; got < each && readable(fds[i], TIMEOUT_MS); got += k) {
			k = take(fds[i], ev, ARRAY_SIZE(ev), TIMEOUT_MS);
			if (k && ev[k - 1].expired_ns - d->instant > d->worst)
				d->worst = ev[k - 1].expired_ns - d->instant;
			if (!k)
				break;
		}
		d->failed |= got != each;
	}
	_exit(0);
}

/*
 * G8: 300 wheels of one user and one wheel of another are due together. The single wheel is
 * not the last, because it waits for one budget of the others in each turn, and not for one
 * budget of each.
 */
TEST(users_take_turns)
{
	enum { MANY = 300, EACH = 400 };
	struct due_together *d = shared_memory(4096);
	pid_t pid[2];

	SKIP_UNLESS_ROOT();
	ASSERT_NE(NULL, d);
	d[0].instant = now(CLOCK_MONOTONIC) + MANY * EACH * 50 * NS_PER_US;
	d[1].instant = d[0].instant;
	pid[0] = fork();
	if (!pid[0])
		all_due(&d[0], USER, MANY, EACH);
	pid[1] = fork();
	if (!pid[1])
		all_due(&d[1], OTHER, 1, EACH);
	EXPECT_EQ(0, status_of(pid[0]));
	EXPECT_EQ(0, status_of(pid[1]));
	EXPECT_EQ(0, d[0].failed);
	EXPECT_EQ(0, d[1].failed);
	EXPECT_LT(d[1].worst * 4, d[0].worst);
	TH_LOG("lateness: %u wheels of one user %llu us, the wheel of another user %llu us",
	       MANY, d[0].worst / 1000, d[1].worst / 1000);
	munmap(d, 4096);
}

/* Nobody waits for another user's cgroup */

/* Opens and closes wheels in workers of io_uring, which do not return to user space. */
static void open_by_ring(void)
{
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_OPENAT,
		.flags = IOSQE_ASYNC,
		.fd = AT_FDCWD,
		.addr = ptr_u64(TWHEEL_DEVICE),
		.open_flags = O_RDWR,
	};
	struct io_uring_cqe cqe;
	struct ring r;
	int i;

	if (!open_ring(&r))
		_exit(1);
	/* Memory that was charged in advance is used up before the descriptors are. */
	for (;;) {
		for (i = 0; i < 8; i++)
			if (!submit(&r, &sqe))
				_exit(2);
		for (i = 0; i < 8; i++)
			if (reap(&r, &cqe, TIMEOUT_MS) && (cqe.res < 0 || cqe.res > 300))
				close_range(r.fd + 1, ~0U, 0);
	}
}

#define OTHER_CGROUP	CGROUP "/twheel-others"

/* Uses up the memory that each CPU has charged in advance to another cgroup. */
static void use_the_stock(void)
{
	int p[2];

	for (;;) {
		if (!pipe(p)) {
			close(p[0]);
			close(p[1]);
		}
		sleep_ns(100 * NS_PER_US);
	}
}

/* Returns the longest time that opening the device took within @seconds. */
static __u64 worst_open(unsigned int seconds)
{
	__u64 end = now(CLOCK_MONOTONIC) + seconds * NS_PER_SEC, worst = 0;

	while (now(CLOCK_MONOTONIC) < end) {
		__u64 start = now(CLOCK_MONOTONIC), took;

		close(wheel_open(0));
		took = now(CLOCK_MONOTONIC) - start;
		if (took > worst)
			worst = took;
		sleep_ms(1);
	}
	return worst;
}

/*
 * G8: A process that opens the device in a cgroup over memory.high waits for its memory alone.
 * It must not hold the mutex of the misc devices meanwhile.
 */
TEST(open_waits_for_no_cgroup)
{
	enum { ATTACKERS = 16 };
	__u64 *worst = shared_memory(4096);
	pid_t pid[ATTACKERS], victim;
	struct ring r;
	int i;

	SKIP_UNLESS_ROOT();
	ASSERT_NE(NULL, worst);
	if (!make_group("max"))
		SKIP(return, NO_CGROUP);
	if (!open_ring(&r))
		SKIP(return, "NO IO_URING: not tested what opens by it");
	close_ring(&r);
	mkdir(OTHER_CGROUP, 0755);
	for (i = 0; i < ATTACKERS; i++) {
		pid[i] = fork();
		if (pid[i])
			continue;
		if (!i && write_text(OTHER_CGROUP "/cgroup.procs", "0"))
			use_the_stock();
		if (!enter_group())
			_exit(3);
		memset(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0), 1, 1 << 20);
		if (setresuid(USER + i, USER + i, USER + i))
			_exit(4);
		open_by_ring();
	}
	victim = fork();
	if (!victim) {
		if (!write_text(OTHER_CGROUP "/cgroup.procs", "0"))
			_exit(5);
		worst[0] = worst_open(1);
		_exit(!write_text(PAID_BY "/memory.high", "0") || ((worst[1] = worst_open(3)), 0));
	}
	EXPECT_EQ(0, status_of(victim));
	EXPECT_TRUE(write_text(PAID_BY "/memory.high", "max"));
	for (i = 0; i < ATTACKERS; i++)
		EXPECT_TRUE(killed(pid[i]));
	EXPECT_LT(worst[1], 3 * worst[0] > 200 * NS_PER_MS ? 3 * worst[0] : 200 * NS_PER_MS);
	TH_LOG("%llu us, over memory.high %llu us", worst[0] / 1000, worst[1] / 1000);
	munmap(worst, 4096);
	for (i = 0; i < TIMEOUT_MS && (rmdir(PAID_BY) | rmdir(OTHER_CGROUP)); i++)
		sleep_ms(1);
}

/* Who can see which wheels there are */

/* Returns the id of a wheel, from its fdinfo. */
static unsigned long long number_of(int fd)
{
	unsigned long long id = 0;
	char path[64], line[1024];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/thread-self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "twheel-id: %llu", &id) != 1)
		;
	if (f)
		fclose(f);
	return id;
}

/*
 * The id of a wheel consists of 64 random bits, so it reveals nothing about other wheels.
 */
TEST(numbers_are_random)
{
	enum { N = 64 };
	unsigned long long id[N], ones = 0, zeroes = 0;
	int fd[N], i, k, copy;

	for (i = 0; i < N; i++) {
		fd[i] = open_wheel(_metadata, 0);
		id[i] = number_of(fd[i]);
		/* All descriptors of a wheel have its number. */
		copy = dup(fd[i]);
		EXPECT_EQ(id[i], number_of(copy));
		close(copy);
		ones |= id[i];
		zeroes |= ~id[i];
		for (k = 0; k < i; k++)
			EXPECT_NE(id[k], id[i]);
	}
	/* Each bit is set in some ids, and clear in others. */
	EXPECT_EQ(~0ULL, ones);
	EXPECT_EQ(~0ULL, zeroes);
	for (i = 0; i < N; i++)
		close(fd[i]);
}

#define ALL_WHEELS	"/sys/kernel/debug/twheel/wheels"

struct listed {
	unsigned long long id, bytes;
	unsigned int uid, timers;
	int pid;
};

/* Finds @id in root's list of all wheels, and reads its line. Returns true if it is there. */
static bool listed(unsigned long long id, struct listed *l)
{
	FILE *f = fopen(ALL_WHEELS, "re");
	bool found = false;

	while (f && !found && fscanf(f, "%llu %u %d %u %llu", &l->id, &l->uid, &l->pid,
				     &l->timers, &l->bytes) == 5)
		found = l->id == id;
	if (f)
		fclose(f);
	return found;
}

/* Root finds each wheel in debugfs, even one whose descriptor is only in a message. */
TEST(root_finds_all)
{
	unsigned long long id;
	struct listed l;
	int fd, pair[2];

	SKIP_UNLESS_ROOT();
	if (access("/sys/kernel/debug", X_OK) || access(ALL_WHEELS, F_OK))
		SKIP(return, "NO DEBUGFS HERE: the list of all wheels not tested");
	ASSERT_EQ(0, seteuid(USER));
	fd = open_wheel(_metadata, 0);
	ASSERT_EQ(0, seteuid(0));
	id = number_of(fd);
	ASSERT_TRUE(listed(id, &l));
	EXPECT_EQ(USER, l.uid);
	EXPECT_EQ(getpid(), l.pid);
	EXPECT_EQ(0, l.timers);
	EXPECT_GT(l.bytes, 1000);
	EXPECT_LE(l.bytes, 65536);
	add_many(_metadata, fd, 5, HOUR, 0, 0, NULL);
	ASSERT_TRUE(listed(id, &l));
	EXPECT_EQ(5, l.timers);
	EXPECT_GT(l.bytes, BLOCK_OF_TIMERS * 64);
	/* N9: at most 96 bytes for a timer, also where the slabs of a debug kernel take more. */
	add_many(_metadata, fd, 100000 - 5, HOUR, 0, 0, NULL);
	ASSERT_TRUE(listed(id, &l));
	EXPECT_LE(l.bytes, 65536 + 100000 * 96);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	ASSERT_TRUE(send_fd(pair[0], fd));
	close(fd);
	EXPECT_TRUE(listed(id, &l));
	close(pair[0]);
	close(pair[1]);
	EXPECT_FALSE(listed(id, &l));
	/* Other users do not even see that the directory exists. */
	ASSERT_EQ(0, seteuid(USER));
	EXPECT_EQ(NULL, fopen(ALL_WHEELS, "re"));
	ASSERT_EQ(0, seteuid(0));
}

/*
 * G10: A wheel without timers takes at most 64 KiB, whatever its shape, also after its last timer
 * has ended.
 */
TEST(small_in_every_shape)
{
	struct twheel_setup s;
	struct listed l;
	__u32 bits, one;

	SKIP_UNLESS_ROOT();
	if (access("/sys/kernel/debug", X_OK) || access(ALL_WHEELS, F_OK))
		SKIP(return, "NO DEBUGFS HERE: the bytes of a wheel not tested");
	for (bits = 4; bits <= 12; bits++) {
		for (one = 0; one <= 1; one++) {
			int fd = open_wheel(_metadata, O_NONBLOCK);
			__u64 id;

			s = (struct twheel_setup) { .slot_bits = bits, .levels = one };
			ASSERT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &s));
			id = add(_metadata, fd, HOUR, 0, 0);
			EXPECT_EQ(TWHEEL_ARMED, cancel(fd, id));
			ASSERT_TRUE(listed(number_of(fd), &l));
			EXPECT_EQ(0, l.timers);
			TH_LOG("%u levels of %u buckets: %llu bytes", s.levels, 1U << bits,
			       l.bytes);
			EXPECT_LE(l.bytes, 65536);
			close(fd);
		}
	}
}

/* Wheels that are closed while root reads the list do not hide others, which stay open. */
TEST(root_finds_all_at_once)
{
	enum { WHEELS = 300, CLOSED = 100 };
	unsigned long long id[WHEELS];
	char text[65536], number[24];
	ssize_t len, more;
	int fd[WHEELS], list;
	unsigned int i;

	SKIP_UNLESS_ROOT();
	for (i = 0; i < WHEELS; i++) {
		fd[i] = open_wheel(_metadata, 0);
		id[i] = number_of(fd[i]);
	}
	list = open(ALL_WHEELS, O_RDONLY | O_CLOEXEC);
	if (list < 0)
		SKIP(return, "NO DEBUGFS HERE: the list of all wheels not tested");
	/* The first read ends after some of the wheels that are closed next. */
	len = read(list, text, 1000);
	ASSERT_EQ(1000, len);
	for (i = 0; i < CLOSED; i++)
		close(fd[i]);
	while ((more = read(list, text + len, sizeof(text) - 1 - len)) > 0)
		len += more;
	EXPECT_EQ(0, more);
	text[len] = '\0';
	for (; i < WHEELS; i++) {
		snprintf(number, sizeof(number), "%llu ", id[i]);
		EXPECT_NE(NULL, strstr(text, number));
		close(fd[i]);
	}
	close(list);
}

/* Returns true if twheelctl ps prints a line for wheel @id that contains @text. */
static bool ps_tells(unsigned long long id, const char *text)
{
	FILE *f = popen("twheelctl ps --json 2>/dev/null", "r");
	char line[4096], wheel[64];
	bool tells = false;

	/* An integer beyond 2^53 is printed as a string. */
	snprintf(wheel, sizeof(wheel), "\"wheel\":%s%llu", id >> 53 ? "\"" : "", id);
	while (f && fgets(line, sizeof(line), f))
		tells |= strstr(line, wheel) && strstr(line, text);
	if (f)
		pclose(f);
	return tells;
}

struct own_table {
	int ready;
	bool stop;
	unsigned long long id;
};

/* Opens a wheel in a descriptor table that no other thread shares. */
static void *open_in_own_table(void *arg)
{
	struct own_table *o = arg;
	int fd = unshare(CLONE_FILES) ? -1 : wheel_open(0);

	o->id = number_of(fd);
	__atomic_store_n(&o->ready, 1, __ATOMIC_RELEASE);
	while (!stopped(&o->stop))
		sleep_ms(1);
	close(fd);
	return NULL;
}

/*
 * twheelctl ps finds a wheel that is only in a message, only mapped, or in a thread's own
 * descriptor table.
 */
TEST(ps_finds_all)
{
	struct own_table own = { 0 };
	unsigned long long id;
	pthread_t thread;
	struct table t;
	int fd, pair[2];

	SKIP_UNLESS_ROOT();
	if (access("/bin/twheelctl", X_OK) || access(ALL_WHEELS, R_OK))
		SKIP(return, "NO twheelctl, OR NO DEBUGFS: what ps finds not tested");
	fd = open_wheel(_metadata, 0);
	id = number_of(fd);
	EXPECT_TRUE(ps_tells(id, "\"holders\":[{"));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	ASSERT_TRUE(send_fd(pair[0], fd));
	close(fd);
	EXPECT_TRUE(ps_tells(id, "\"opener_pid\":"));
	close(pair[0]);
	close(pair[1]);
	EXPECT_FALSE(ps_tells(id, ""));

	fd = open_wheel(_metadata, 0);
	id = number_of(fd);
	t = map_table(_metadata, fd);
	close(fd);
	EXPECT_TRUE(ps_tells(id, "\"opener_pid\":"));
	unmap_table(&t);

	ASSERT_EQ(0, pthread_create(&thread, NULL, open_in_own_table, &own));
	while (!__atomic_load_n(&own.ready, __ATOMIC_ACQUIRE))
		sleep_ms(1);
	EXPECT_TRUE(ps_tells(own.id, "\"holders\":[{"));
	stop_and_join(thread, &own.stop);
}

/* The user nobody can do everything with a wheel of its own, with the default settings. */
TEST(usable_as_nobody)
{
	struct twheel_event ev[4];
	struct twheel_stats s;
	__u64 id;
	int fd;

	be_nobody(_metadata);
	fd = open_wheel(_metadata, O_NONBLOCK);
	add(_metadata, fd, 10 * NS_PER_MS, 0, 1);
	id = add(_metadata, fd, HOUR, TWHEEL_KEEP, 2);
	add_many(_metadata, fd, 1000, HOUR, 0, 0, NULL);
	EXPECT_EQ(1, take(fd, ev, 4, TIMEOUT_MS));
	EXPECT_EQ(TWHEEL_ARMED, rearm(fd, id, 0, TWHEEL_KEEP));
	EXPECT_EQ(1, take(fd, ev, 4, TIMEOUT_MS));
	EXPECT_EQ(TWHEEL_IDLE, cancel(fd, id));
	EXPECT_EQ(1000, cancel_all(fd));
	s = stats(_metadata, fd);
	EXPECT_EQ(0, s.allocated);
	close_wheel(_metadata, fd);
}

/* G11: rmmod is refused while a wheel is open. */
TEST(unload_while_open)
{
	long long users = read_number(REFCNT);
	int fd, copy;

	SKIP_UNLESS_ROOT();
	fd = open_wheel(_metadata, O_NONBLOCK);
	EXPECT_EQ(users + 1, read_number(REFCNT));
	EXPECT_EQ(-EWOULDBLOCK, unload_module("twheel"));
	/*
	 * A wheel holds one reference, however many descriptors it has, until the last is
	 * closed.
	 */
	copy = dup(fd);
	ASSERT_GE(copy, 0);
	close(fd);
	EXPECT_EQ(users + 1, read_number(REFCNT));
	EXPECT_EQ(-EWOULDBLOCK, unload_module("twheel"));
	close(copy);
	EXPECT_EQ(users, read_number(REFCNT));
}

/* rmmod is refused even if the only descriptor of a wheel is in a message. */
TEST(unload_while_sent)
{
	long long users = read_number(REFCNT);
	struct twheel_event ev;
	int copy, pair[2];

	SKIP_UNLESS_ROOT();
	copy = open_wheel(_metadata, O_NONBLOCK);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	ASSERT_TRUE(send_fd(pair[0], copy));
	close(copy);
	EXPECT_EQ(-EWOULDBLOCK, unload_module("twheel"));
	copy = receive_fd(pair[1]);
	ASSERT_GE(copy, 0);
	close(pair[0]);
	close(pair[1]);
	/* The wheel still works. */
	add(_metadata, copy, NS_PER_MS, 0, 0);
	EXPECT_EQ(1, take(copy, &ev, 1, TIMEOUT_MS));
	close(copy);
	EXPECT_EQ(users, read_number(REFCNT));
}

/* Returns the memory in the kernel's slabs, in kB, including what CPUs have not yet reported. */
static long long slab_kb(void)
{
	long long kb = -1;
	char line[128];
	FILE *f;

	write_text("/proc/sys/vm/stat_refresh", "1");
	f = fopen("/proc/meminfo", "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Slab: %lld kB", &kb) == 1)
			break;
	fclose(f);
	return kb;
}

#define DEBUG_SLABS	"THIS KERNEL DEBUGS ITS SLABS: their size tells nothing"

/* A fixture for tests that take long if the kernel checks its memory. */
FIXTURE(memory) {
	/* The module's reference count. */
	long long users;
};

FIXTURE_SETUP(memory)
{
	self->users = read_number(REFCNT);
}

/* Every wheel is gone with its last descriptor. */
FIXTURE_TEARDOWN(memory)
{
	EXPECT_EQ(self->users, read_number(REFCNT));
}

/*
 * The memory of canceled timers is used for later ones, and freed with the wheel. For N9, at
 * most 96 bytes for a timer in all, see charged_for_all in table_test: slabs do not include
 * the words.
 */
TEST_F_TIMEOUT(memory, cancelled_timers, 120)
{
	enum { N = 300000 };
	int fd = open_wheel(_metadata, O_NONBLOCK);
	long long before, full, again, after;

	/* Allocates what the program itself needs, and a first chunk. */
	add_many(_metadata, fd, 5000, HOUR, 0, 0, NULL);
	EXPECT_EQ(5000, cancel_all(fd));
	before = slab_kb();
	add_many(_metadata, fd, N, HOUR, 0, 0, NULL);
	full = slab_kb();
	EXPECT_EQ(N, cancel_all(fd));
	EXPECT_EQ(0, stats(_metadata, fd).allocated);
	add_many(_metadata, fd, N, HOUR, 0, 0, NULL);
	again = slab_kb();
	close(fd);
	after = slab_kb();
	TH_LOG("%lld kB for %d timers, %lld more for as many again, %lld back", full - before,
	       N, again - full, again - after);
	if (!slabs_are_plain())
		SKIP(return, DEBUG_SLABS);
	EXPECT_GT(full - before, N * 64LL / 1024 / 2);
	EXPECT_LT(full - before, N * 80LL / 1024 + 1000);
	EXPECT_LT(again - full, 1000);
	EXPECT_GT((again - after) * 10, (full - before) * 8);
}

/*
 * Registers timers until memory is refused, in a cgroup with little memory. Everything that
 * this process itself needs is already in memory by then.
 */
static void register_without_end(struct __test_metadata *_metadata)
{
	struct twheel_setup s = { .max_timers = 1000000 };
	static struct twheel_op ops[256];
	int fd = open_wheel(_metadata, O_NONBLOCK);
	unsigned int i, total = 0, refused = 0;
	struct twheel_stats st;
	__u64 first;

	ASSERT_EQ(0, call(fd, TWHEEL_IOC_SETUP, &s));
	first = add(_metadata, fd, HOUR, TWHEEL_KEEP, 5);
	expect_conserved(_metadata, fd);
	ASSERT_EQ(0, mlockall(MCL_CURRENT));

	while (!refused && total < s.max_timers - ARRAY_SIZE(ops)) {
		fill_ops(ops, ARRAY_SIZE(ops), TWHEEL_OP_REGISTER, HOUR, 0);
		ASSERT_EQ(ARRAY_SIZE(ops), batch(fd, ops, ARRAY_SIZE(ops)));
		for (i = 0; i < ARRAY_SIZE(ops); i++) {
			if (!ops[i].result) {
				total++;
				continue;
			}
			ASSERT_EQ(-ENOMEM, ops[i].result);
			refused++;
		}
	}
	EXPECT_GT(refused, 0);
	EXPECT_GT(total, 10000);
	/* The existing timers are untouched, and all of them still work. */
	st = stats(_metadata, fd);
	EXPECT_EQ(total + 1, st.armed);
	EXPECT_EQ(total + 1, st.registered);
	EXPECT_EQ(TWHEEL_ARMED, rearm(fd, first, 0, TWHEEL_KEEP));
	EXPECT_EQ(TWHEEL_EXPIRED, state(fd, first));
	EXPECT_EQ(total, cancel_all(fd));
	/*
	 * There is room again, in the memory that the wheel has kept. This process must not
	 * need any itself.
	 */
	fill_ops(ops, ARRAY_SIZE(ops), TWHEEL_OP_REGISTER, HOUR, 0);
	ASSERT_EQ(ARRAY_SIZE(ops), batch(fd, ops, ARRAY_SIZE(ops)));
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		ASSERT_EQ(0, ops[i].result);
	expect_conserved(_metadata, fd);
	_exit(_metadata->exit_code);
}

/*
 * G10: A process that has used up its cgroup's memory gets ENOMEM. It is not killed, and other
 * wheels go on.
 */
TEST_F_TIMEOUT(memory, cgroup, 120)
{
	int fd = open_wheel(_metadata, O_NONBLOCK);
	__u64 id;
	pid_t pid;

	SKIP_UNLESS_ROOT();
	id = add(_metadata, fd, HOUR, 0, 5);
	if (!make_group("16M"))
		SKIP(return, NO_CGROUP);
	pid = fork_child(_metadata);
	if (!pid) {
		ASSERT_TRUE(enter_group());
		register_without_end(_metadata);
	}
	EXPECT_EQ(0, status_of(pid));
	EXPECT_EQ(0, rmdir(PAID_BY));

	/* Our wheel was not affected. */
	EXPECT_EQ(TWHEEL_ARMED, state(fd, id));
	add_many(_metadata, fd, 1000, HOUR, 0, 0, NULL);
	close_wheel(_metadata, fd);
}

TEST_HARNESS_MAIN
