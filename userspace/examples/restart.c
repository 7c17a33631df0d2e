// SPDX-License-Identifier: GPL-2.0
/*
 * How do deadlines survive a restart?
 *
 * The wheel is the kernel's, and systemd keeps its descriptor if the unit has
 * FileDescriptorStoreMax=1 and Restart=always. The next process asks for the descriptor by its
 * name. Events of deadlines that passed in the meantime are then unread.
 *
 * This program sets 1,000 deadlines, 1 ms apart, numbers them from 1, and prints the numbers as it
 * handles them.
 * A timer is kept until its deadline has been handled. So if a timer is idle, an earlier
 * process died between twheel_read() and twheel_del().
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <libtwheel.h>

#define FIRST_FD	3
#define BATCH		64
#define MSEC		1000000ULL

static void check(const char *what, int err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "restart: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* ---- The descriptor store, as sd_notify(3) and sd_listen_fds(3) have it ---- */

/* Sends @text to the process that started us, with @fd unless that is -1. */
static void notify(const char *text, int fd)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { .align.cmsg_level = SOL_SOCKET, .align.cmsg_type = SCM_RIGHTS };
	struct iovec iov = { (void *)text, strlen(text) };
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;
	struct msghdr msg = {
		.msg_name = &addr, .msg_iov = &iov, .msg_iovlen = 1,
		.msg_namelen = offsetof(struct sockaddr_un, sun_path) + len,
	};
	int sock;

	if (!len || len > sizeof(addr.sun_path))
		return;
	memcpy(addr.sun_path, path, len);
	if (*path == '@')
		addr.sun_path[0] = '\0';
	if (fd >= 0) {
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0 || sendmsg(sock, &msg, MSG_NOSIGNAL) < 0)
		check("notify", -errno);
	close(sock);
}

/* Returns the descriptor of this name that systemd kept for us, or -1. */
static int kept_fd(const char *name)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	const char *names = getenv("LISTEN_FDNAMES");
	int i;

	if (!pid || !count || !names || atoi(pid) != getpid())
		return -1;
	for (i = 0; i < atoi(count); i++) {
		size_t len = strcspn(names, ":");

		if (len == strlen(name) && !strncmp(names, name, len)) {
			fcntl(FIRST_FD + i, F_SETFD, FD_CLOEXEC);
			return FIRST_FD + i;
		}
		names += len + !!names[len];
	}
	return -1;
}

/* ---- The program ---- */

/*
 * Uses REGISTER, because the timers of twheel_add() belong to one process. The numbers begin with
 * 1, because the timers that the library makes for itself have a user_data of 0.
 */
static void make_timers(struct twheel *wheel, unsigned int count)
{
	struct twheel_op op;
	unsigned int i;

	for (i = 1; i <= count; i++) {
		op = (struct twheel_op){
			.opcode = TWHEEL_OP_REGISTER,
			.timer.user_data = i,
			.timer.deadline_ns = i * MSEC,
			.timer.flags = TWHEEL_KEEP,
		};
		check("register", twheel_submit(wheel, &op, 1));
		check("register", op.result);
	}
}

/* A number of 0 means a timer that the library of an earlier process made, so just delete it. */
static void handle(struct twheel *wheel, uint64_t id, uint64_t number)
{
	if (number) {
		printf("%llu\n", (unsigned long long)number);
		check("print", fflush(stdout) ? -errno : 0);
	}
	check("del", twheel_del(wheel, id));
}

/* Finishes what an earlier process left undone. Returns how many timers are still to expire. */
static unsigned int take_over(struct twheel *wheel)
{
	struct twheel_timer timers[BATCH];
	unsigned int left = 0;
	uint32_t cursor = 0;
	int count, i;

	while ((count = twheel_list(wheel, timers, BATCH, &cursor)) > 0) {
		for (i = 0; i < count; i++) {
			if (timers[i].state == TWHEEL_IDLE)
				handle(wheel, timers[i].id, timers[i].user_data);
			else
				left++;
		}
	}
	check("list", count);
	return left;
}

int main(int argc, char **argv)
{
	struct twheel_options options = { .size = sizeof(options), .flags = TWHEEL_OPEN_KERNEL };
	unsigned int left = argc > 1 ? atoi(argv[1]) : 1000;
	struct twheel_event events[BATCH];
	int fd = kept_fd("wheel"), count, i;
	struct twheel *wheel;

	if (fd >= 0) {
		check("open", twheel_open_fd(&wheel, fd));
		left = take_over(wheel);
	} else {
		check("open /dev/twheel", twheel_open(&wheel, &options));
		notify("FDSTORE=1\nFDNAME=wheel", twheel_fd(wheel));
		make_timers(wheel, left);
	}
	notify("READY=1", -1);
	while (left) {
		check("wait", twheel_wait(wheel, -1));
		count = twheel_read(wheel, events, BATCH);
		check("read", count);
		for (i = 0; i < count; i++)
			handle(wheel, events[i].id, events[i].user_data);
		left -= count;
	}
	notify("FDSTOREREMOVE=1\nFDNAME=wheel", -1);
	twheel_close(wheel);
	return 0;
}
