// SPDX-License-Identifier: GPL-2.0
/*
 * Deadlines survive a restart, as README.md promises. This test acts as systemd's file
 * descriptor store for the example program restart, which lies beside it, and kills that
 * program again and again.
 */
#include "lib_test.h"

#include <libgen.h>
#include <limits.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define TIMERS	1000
#define FIRST_FD	3

struct store {
	int socket;
	int wheel;
	int output;
	char address[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

static int store_open(struct store *s)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(addr);
	struct timeval timeout = { .tv_sec = 60 };

	s->wheel = -1;
	s->output = memfd_create("output", MFD_CLOEXEC);
	s->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s->output < 0 || s->socket < 0 ||
	    setsockopt(s->socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) ||
	    bind(s->socket, (struct sockaddr *)&addr, sizeof(sa_family_t)) ||
	    getsockname(s->socket, (struct sockaddr *)&addr, &len))
		return -errno;
	len -= offsetof(struct sockaddr_un, sun_path);
	memcpy(s->address, addr.sun_path, len);
	s->address[0] = '@';
	s->address[len] = '\0';
	return 0;
}

/* Receives one message, and keeps the descriptor in it, if any. */
static int store_take(struct store *s, char text[256])
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { text, 255 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	ssize_t len = recvmsg(s->socket, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c;

	if (len < 0)
		return -errno;
	text[len] = '\0';
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS && !strcmp(text, "FDSTORE=1\nFDNAME=wheel"))
		memcpy(&s->wheel, CMSG_DATA(c), sizeof(s->wheel));
	return 0;
}

/* Starts the program with the stored descriptor. */
static pid_t store_start(struct store *s)
{
	char path[PATH_MAX] = "", number[16];
	pid_t pid = fork();

	if (pid)
		return pid;
	if (readlink("/proc/self/exe", path, sizeof(path) - 16) < 0)
		_exit(99);
	strcat(dirname(path), "/restart");
	setenv("NOTIFY_SOCKET", s->address, 1);
	dup2(s->output, STDOUT_FILENO);
	fcntl(s->output, F_SETFL, O_APPEND);
	if (s->wheel >= 0) {
		/* Move it above all descriptors that are closed, then to its place. */
		int high = fcntl(s->wheel, F_DUPFD_CLOEXEC, 100);

		dup2(high, FIRST_FD + 1);
		dup2(STDERR_FILENO, FIRST_FD);
		snprintf(number, sizeof(number), "%d", getpid());
		setenv("LISTEN_PID", number, 1);
		setenv("LISTEN_FDS", "2", 1);
		setenv("LISTEN_FDNAMES", "other:wheel", 1);
	}
	execl(path, "restart", "1000", NULL);
	_exit(98);
}

static int store_wait_ready(struct store *s)
{
	char text[256];
	int ret;

	do {
		ret = store_take(s, text);
	} while (!ret && strcmp(text, "READY=1"));
	return ret;
}

/* Counts how often each timer was handled. Returns the number of lines. */
static int read_output(const struct store *s, unsigned int seen[TIMERS])
{
	unsigned int number;
	char path[64];
	int lines = 0;
	FILE *f;

	memset(seen, 0, TIMERS * sizeof(*seen));
	/* Opened again, because the writing program shares and moves the file position. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", s->output);
	f = fopen(path, "r");
	if (!f)
		return -errno;
	for (; fscanf(f, "%u\n", &number) == 1 && number - 1 < TIMERS; lines++)
		seen[number - 1]++;
	fclose(f);
	return lines;
}

/* Waits until this many timers were handled, for a minute at most. */
static int wait_lines(const struct store *s, int lines)
{
	unsigned int seen[TIMERS];
	int i;

	for (i = 0; i < 6000 && read_output(s, seen) < lines; i++)
		usleep(10000);
	return read_output(s, seen);
}

/*
 * G4: No timer is lost. The program is killed when it has armed all timers, is away while many
 * come due, and is killed again while it handles them. At most the timer that was being
 * handled is handled twice.
 */
TEST(deadlines_survive_a_restart)
{
	unsigned int seen[TIMERS], i, twice = 0;
	struct store s;
	int status, before;
	pid_t pid;

	if (!have_device())
		SKIP(return, "no " TWHEEL_DEVICE);
	ASSERT_EQ(0, store_open(&s));
	pid = store_start(&s);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, store_wait_ready(&s));
	ASSERT_LE(0, s.wheel);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFSIGNALED(status));
	before = read_output(&s, seen);
	usleep(300000);
	/* Nobody reads meanwhile. */
	ASSERT_EQ(before, read_output(&s, seen));
	ASSERT_GT(TIMERS, before);

	pid = store_start(&s);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, store_wait_ready(&s));
	before = wait_lines(&s, before + 200);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));

	pid = store_start(&s);
	ASSERT_LT(0, pid);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	read_output(&s, seen);
	for (i = 0; i < TIMERS; i++) {
		ASSERT_LT(0, seen[i]) {
			TH_LOG("%u is lost", i);
		}
		twice += seen[i] - 1;
	}
	/* One for each SIGKILL. */
	ASSERT_GE(2, twice);
	close(s.wheel);
	close(s.output);
	close(s.socket);
}

TEST_HARNESS_MAIN
