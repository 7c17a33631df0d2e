// SPDX-License-Identifier: GPL-2.0
/*
 * How does a supervisor notice that a worker hangs, wherever it is stuck?
 *
 * The supervisor has a wheel with a timer for each worker. A worker gets the descriptor of the
 * wheel and the id of its timer, and keeps moving the timer to a later time, which is one
 * exchange of a word that both can see. When the worker stops doing that, for whatever reason,
 * the timer expires and the supervisor reads the event. Nothing has to run in the worker for
 * that, so it works even if the worker was killed, spins or is stopped.
 *
 * Timers that several processes use are made by REGISTER, which twheel_submit() performs. The
 * wheel must be the kernel's, because an in-process wheel cannot be shared.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <libtwheel.h>

#define WORKERS		4
#define MSEC		1000000ULL
#define BEAT_NS		(20 * MSEC)
#define SILENCE_NS	(500 * MSEC)
/* How long the supervisor watches that no other worker is reported. */
#define WATCH_NS	(1000 * MSEC)

struct worker {
	const char *what;
	int signal;
	pid_t pid;
	uint64_t timer;
	uint64_t sent_at;
	bool dead;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "dead_man: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* Sends a descriptor, and the id of a timer with it. */
static void pass(int sock, int fd, uint64_t id)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { };
	struct iovec iov = { &id, sizeof(id) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	if (sendmsg(sock, &msg, 0) != sizeof(id))
		die("sendmsg");
}

static int receive(int sock, uint64_t *id)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { };
	struct iovec iov = { id, sizeof(*id) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int fd;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != sizeof(*id))
		die("recvmsg");
	/* The kernel leaves the descriptor out if this process has no free one. */
	if (!CMSG_FIRSTHDR(&msg) || control.header.cmsg_type != SCM_RIGHTS) {
		fprintf(stderr, "dead_man: no descriptor came\n");
		exit(1);
	}
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

/* The worker, without its real work. */
static void work(int sock)
{
	struct timespec beat = { .tv_nsec = BEAT_NS };
	struct twheel *wheel;
	uint64_t timer;

	check("open_fd", twheel_open_fd(&wheel, receive(sock, &timer)));
	for (;;) {
		check("set", twheel_set(wheel, timer, twheel_after(wheel, SILENCE_NS)));
		nanosleep(&beat, NULL);
	}
}

static void hire(struct twheel *wheel, struct worker *w)
{
	struct twheel_op op = {
		.opcode = TWHEEL_OP_REGISTER,
		.timer.user_data = (uintptr_t)w,
		.timer.deadline_ns = 10 * SILENCE_NS,
		.timer.flags = TWHEEL_KEEP,
	};
	pid_t supervisor = getpid();
	int sock[2];

	check("submit", twheel_submit(wheel, &op, 1));
	check("register", op.result);
	w->timer = op.timer.id;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock))
		die("socketpair");
	w->pid = fork();
	if (w->pid < 0)
		die("fork");
	if (!w->pid) {
		/* The worker must not outlive its supervisor. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != supervisor)
			_exit(1);
		/*
		 * A wheel does not work in a forked child, so the child opens the descriptor it is
		 * sent.
		 */
		twheel_close(wheel);
		close(sock[0]);
		work(sock[1]);
	}
	pass(sock[0], twheel_fd(wheel), w->timer);
	close(sock[0]);
	close(sock[1]);
}

/* Reads until @until. Returns false if a worker was reported that is well. */
static bool supervise(struct twheel *wheel, uint64_t until)
{
	struct twheel_event event;
	uint64_t now;
	int got;

	while ((now = twheel_now(wheel)) < until) {
		check("wait", twheel_wait(wheel, until - now));
		while ((got = twheel_read(wheel, &event, 1)) == 1) {
			struct worker *w = (struct worker *)(uintptr_t)event.user_data;

			if (!w->sent_at || event.deadline_ns > twheel_now(wheel))
				return false;
			w->dead = true;
			printf("%s: silent, known %llu us after its last deadline\n", w->what,
			       (unsigned long long)(event.expired_ns - event.deadline_ns) / 1000);
		}
		check("read", got);
	}
	return true;
}

int main(void)
{
	struct twheel_options options = { .size = sizeof(options), .flags = TWHEEL_OPEN_KERNEL };
	struct worker workers[WORKERS] = {
		{ .what = "well" },
		{ .what = "stopped", .signal = SIGSTOP },
		{ .what = "killed", .signal = SIGKILL },
		{ .what = "well, too" },
	};
	struct twheel *wheel;
	unsigned int i;
	bool right;

	setvbuf(stdout, NULL, _IOLBF, 0);
	check("open /dev/twheel", twheel_open(&wheel, &options));
	for (i = 0; i < WORKERS; i++)
		hire(wheel, &workers[i]);
	right = supervise(wheel, twheel_now(wheel) + WATCH_NS);
	for (i = 0; i < WORKERS; i++) {
		if (!workers[i].signal)
			continue;
		workers[i].sent_at = twheel_now(wheel);
		kill(workers[i].pid, workers[i].signal);
	}
	right = supervise(wheel, twheel_now(wheel) + SILENCE_NS + WATCH_NS) && right;
	for (i = 0; i < WORKERS; i++) {
		right = right && workers[i].dead == !!workers[i].signal;
		kill(workers[i].pid, SIGKILL);
		waitpid(workers[i].pid, NULL, 0);
	}
	twheel_close(wheel);
	puts(right ? "exactly the silent ones were reported" : "this cannot happen");
	return right ? 0 : 1;
}
