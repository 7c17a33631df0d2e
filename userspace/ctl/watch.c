// SPDX-License-Identifier: GPL-2.0
/*
 * twheelctl watch: runs a command, and kills it when it falls silent.
 *
 * The command speaks the protocol of sd_notify(3), and each heartbeat moves one timer of the
 * wheel. When that timer expires, the command gets SIGABRT, and after the grace period SIGKILL.
 *
 *   START --READY=1, WATCHDOG=1--> RUNNING --STOPPING=1--> STOPPING
 *     |                               |                       |
 *     +------- the timer expires -----+-----------------------+
 *                          |
 *                       ABORTED --the grace period ends--> KILLED
 *
 * The command has its own process group, so that signals also reach its children. It dies with this
 * process. If this process is the first of a container, it reaps all others.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "device.h"
#include "error.h"
#include "option.h"
#include "show.h"

/*
 * Longer messages are not accepted by systemd either, and a socket queues no more messages than
 * this.
 */
#define MESSAGE_LEN	4096
#define MESSAGES_AT_ONCE	1024
/* SCM_MAX_FD of the kernel: the maximum number of descriptors in a message. */
#define MAX_FDS		253

/* Limits the warnings about messages of strangers, so that these cannot fill the log. */
#define MAX_COMPLAINTS	8

#define NEVER		(~0ULL)
#define DEFAULT_GRACE	(5 * NSEC_PER_SEC)

enum phase { START, RUNNING, STOPPING, ABORTED, KILLED };

/* The user_data of the two timers. */
enum { WARNING = 1, DEADLINE = 2 };

/*
 * A command that is watched. @deadline is when the timer @deadline_id expires. @wait_status is
 * valid if @ended is set. @stuck means that the command has outlived SIGKILL by the grace period.
 * @outer is the address where the supervisor of this process expects messages, and @outer_len is 0
 * if there is no supervisor.
 */
struct watch {
	__u64 timeout;
	__u64 pretimeout;
	__u64 start;
	__u64 grace;
	struct wheel wheel;
	uint64_t warning_id;
	uint64_t deadline_id;
	__u64 deadline;
	__u64 last_sign;
	enum phase phase;
	const char *name;
	pid_t child;
	int notify_fd;
	int signal_fd;
	sigset_t signals;
	sigset_t old_signals;
	bool has_terminal;
	bool silent;
	bool ended;
	bool stuck;
	int wait_status;
	struct sockaddr_un outer;
	socklen_t outer_len;
	unsigned int complaints;
};

static int checked(int ret, const char *what)
{
	if (ret < 0)
		die(STATUS_FAILURE, "cannot %s: %s", what, strerror(errno));
	return ret;
}

static __u64 now(const struct watch *s)
{
	return twheel_now(s->wheel.twheel);
}

/* ---- Timers ---- */

static void set_timer(struct watch *s, __u64 id, __u64 deadline)
{
	int ret = twheel_set(s->wheel.twheel, id, deadline);

	if (ret < 0)
		die(STATUS_FAILURE, "cannot set a timer: %s", strerror(-ret));
}

/* Allows a silence of @delay from now; 0 means forever. */
static void arm(struct watch *s, __u64 delay)
{
	bool warns = s->phase < ABORTED && s->pretimeout && delay > s->pretimeout;

	s->deadline = delay ? twheel_after(s->wheel.twheel, delay) : NEVER;
	set_timer(s, s->deadline_id, s->deadline);
	if (s->pretimeout)
		set_timer(s, s->warning_id, warns ? s->deadline - s->pretimeout : NEVER);
}

static void add_timer(struct watch *s, __u64 what, uint64_t *id)
{
	int ret = twheel_add(s->wheel.twheel, NEVER, what, id);

	if (ret)
		die(error_status(-ret), "cannot add a timer: %s", error_text(-ret));
}

/* Opens the kernel's wheel, or an in-process wheel if there is none. */
static void open_wheel(struct watch *s, const struct conf *conf)
{
	struct twheel_options options = conf->shape;
	int ret;

	if (conf->names_device) {
		wheel_open(&s->wheel, conf);
	} else {
		options.size = sizeof(options);
		ret = twheel_open(&s->wheel.twheel, &options);
		if (ret)
			die(error_status(-ret), "cannot make a wheel: %s", strerror(-ret));
	}
	add_timer(s, DEADLINE, &s->deadline_id);
	if (s->pretimeout)
		add_timer(s, WARNING, &s->warning_id);
}

/* ---- The command ---- */

/* If the command has left its process group, sends the signal to the command alone. */
static void send_signal(const struct watch *s, int signal)
{
	kill(getpgid(s->child) == s->child ? -s->child : s->child, signal);
}

/*
 * True if the command is in another network namespace, for example because of "unshare -n" or "ip
 * netns exec".
 */
static bool has_own_network(pid_t child)
{
	char path[64], ours[64] = "", theirs[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)child);
	return readlink("/proc/self/ns/net", ours, sizeof(ours) - 1) > 0 &&
	       readlink(path, theirs, sizeof(theirs) - 1) > 0 && strcmp(ours, theirs);
}

/* Sends SIGCONT as well, because a stopped process does not handle SIGABRT. */
static void abort_command(struct watch *s, bool asked)
{
	char since[DURATION_LEN];

	duration_text(since, now(s) - s->last_sign);
	complain("watch: %s (pid %d) sent %s%s: sending SIGABRT", s->name, (int)s->child,
		 asked ? "WATCHDOG=trigger" : "no message for ", asked ? "" : since);
	if (has_own_network(s->child))
		hint("it is in another network namespace, whose messages do not reach NOTIFY_SOCKET");
	s->silent = true;
	s->phase = ABORTED;
	send_signal(s, SIGABRT);
	send_signal(s, SIGCONT);
	arm(s, s->grace);
}

static void kill_command(struct watch *s)
{
	char grace[DURATION_LEN];

	complain("watch: %s (pid %d) is still running %s after SIGABRT: sending SIGKILL", s->name,
		 (int)s->child, duration_text(grace, s->grace));
	s->phase = KILLED;
	send_signal(s, SIGKILL);
	arm(s, s->grace);
}

static void expire(struct watch *s, __u64 what)
{
	char since[DURATION_LEN], rest[DURATION_LEN];

	if (what == WARNING) {
		complain("watch: %s (pid %d) has sent no message for %s: SIGABRT follows in %s",
			 s->name, (int)s->child, duration_text(since, now(s) - s->last_sign),
			 duration_text(rest, s->pretimeout));
		return;
	}
	switch (s->phase) {
	case START:
	case RUNNING:
	case STOPPING:
		abort_command(s, false);
		break;
	case ABORTED:
		kill_command(s);
		break;
	case KILLED:
		complain("watch: %s (pid %d) is still there after SIGKILL: giving up", s->name,
			 (int)s->child);
		s->stuck = true;
		break;
	}
}

/* Kills the rest of a group that was silent, so that it cannot disturb the next start. */
static void reap(struct watch *s)
{
	siginfo_t info;

	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid)
			return;
		if (info.si_pid == s->child && s->silent)
			kill(-s->child, SIGKILL);
		if (waitpid(info.si_pid, &s->wait_status, 0) == s->child) {
			s->ended = true;
			return;
		}
	}
}

static void read_signals(struct watch *s)
{
	struct signalfd_siginfo info;

	while (!s->ended && read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			reap(s);
		else if (info.ssi_signo != SIGPIPE)
			kill(s->child, info.ssi_signo);
	}
}

/* ---- Messages ---- */

static bool microseconds(const char *text, __u64 *ns)
{
	char *end;
	__u64 us;

	errno = 0;
	us = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || us > NEVER / NSEC_PER_USEC)
		return false;
	*ns = us * NSEC_PER_USEC;
	return true;
}

/* True if @line sets this variable to a number of microseconds. */
static bool is_duration(const char *line, const char *name, __u64 *ns)
{
	size_t len = strlen(name);

	return !strncmp(line, name, len) && microseconds(line + len, ns);
}

static void sign_of_life(struct watch *s, enum phase phase)
{
	if (s->phase < phase)
		s->phase = phase;
	s->last_sign = now(s);
	arm(s, s->timeout);
}

/* Handles one assignment of a message. The others only concern systemd. */
static void take_line(struct watch *s, const char *line)
{
	__u64 ns;

	if (s->phase >= ABORTED)
		return;
	if (!strcmp(line, "READY=1") || !strcmp(line, "WATCHDOG=1")) {
		sign_of_life(s, RUNNING);
	} else if (!strcmp(line, "STOPPING=1")) {
		sign_of_life(s, STOPPING);
	} else if (!strcmp(line, "WATCHDOG=trigger")) {
		abort_command(s, true);
	} else if (is_duration(line, "WATCHDOG_USEC=", &ns)) {
		s->timeout = ns;
		if (s->phase == RUNNING)
			arm(s, ns);
	} else if (is_duration(line, "EXTEND_TIMEOUT_USEC=", &ns)) {
		/*
		 * This never shortens the time, and has no effect while the command is running,
		 * because it must then send WATCHDOG=1 instead.
		 */
		if (s->phase != RUNNING && ns && twheel_after(s->wheel.twheel, ns) > s->deadline)
			arm(s, ns);
	}
}

/* True if @uid may send signals to the command, which may have changed its user. */
static bool may_kill(uid_t uid, pid_t child)
{
	unsigned int real, effective, saved;
	char path[64], line[256];
	bool may = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)child);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Uid: %u %u %u", &real, &effective, &saved) == 3)
			may = uid == real || uid == saved;
	if (f)
		fclose(f);
	return may;
}

/*
 * The address of the socket is not secret. So a message counts only if it comes from the command
 * itself, from root, or from a user who could kill the command anyway.
 */
static bool is_trusted(struct watch *s, const struct ucred *sender)
{
	if (sender->pid == s->child || !sender->uid || sender->uid == geteuid() ||
	    may_kill(sender->uid, s->child))
		return true;
	if (s->complaints++ < MAX_COMPLAINTS)
		complain("watch: %s (pid %d): ignored a message from pid %d, uid %u%s",
			 s->name, (int)s->child, (int)sender->pid, (unsigned int)sender->uid,
			 s->complaints == MAX_COMPLAINTS ?
			 "; further ones are not reported" : "");
	return false;
}

/* Closes the descriptors of a message, which is what the sender of BARRIER=1 waits for. */
static bool take_control(struct watch *s, struct msghdr *msg)
{
	bool trusted = false;
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		const unsigned char *data = CMSG_DATA(c);
		struct ucred sender;
		size_t i;
		int fd;

		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_CREDENTIALS) {
			memcpy(&sender, data, sizeof(sender));
			trusted = is_trusted(s, &sender);
			continue;
		}
		for (i = CMSG_LEN(0); i + sizeof(fd) <= c->cmsg_len; i += sizeof(fd)) {
			memcpy(&fd, data + i - CMSG_LEN(0), sizeof(fd));
			close(fd);
		}
	}
	return trusted;
}

/* True if a line also concerns the supervisor of this process. Descriptors never do. */
static bool concerns_outer(const char *line)
{
	static const char *const names[] = {
		"READY=1", "RELOADING=1", "STOPPING=1", "WATCHDOG=1", "MONOTONIC_USEC=", "STATUS=",
		"ERRNO=", "BUSERROR=", "EXIT_STATUS=", "EXTEND_TIMEOUT_USEC=",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strncmp(line, names[i], strlen(names[i])))
			return true;
	return false;
}

/* Never waits, because the supervisor may hang, and this process must not. */
static void tell_outer(const struct watch *s, const char *text)
{
	sendto(s->notify_fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL,
	       (const struct sockaddr *)&s->outer, s->outer_len);
}

/* Handles one message. Returns true if there was one. */
static bool read_message(struct watch *s)
{
	union {
		char buf[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(MAX_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	char text[MESSAGE_LEN + 1], outer[MESSAGE_LEN + 2] = "";
	struct iovec iov = { .iov_base = text, .iov_len = MESSAGE_LEN };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t len = recvmsg(s->notify_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	char *line, *rest = text, *end = outer;

	if (len < 0)
		return false;
	if (!take_control(s, &msg) || msg.msg_flags & MSG_TRUNC || memchr(text, '\0', len))
		return true;
	text[len] = '\0';
	while ((line = strsep(&rest, "\n"))) {
		take_line(s, line);
		if (concerns_outer(line))
			end += sprintf(end, "%s\n", line);
	}
	if (s->outer_len && end > outer && s->phase < ABORTED)
		tell_outer(s, outer);
	return true;
}

static void read_messages(struct watch *s)
{
	unsigned int i;

	for (i = 0; i < MESSAGES_AT_ONCE && read_message(s); i++)
		;
}

/* ---- Start and end ---- */

/* The kernel chooses an abstract name for the socket, so this needs no path and leaves no file. */
static void open_socket(struct watch *s, char address[sizeof(((struct sockaddr_un *)0)->sun_path)])
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(addr);
	int yes = 1;

	s->notify_fd = checked(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
			       "create a socket");
	checked(bind(s->notify_fd, (struct sockaddr *)&addr, sizeof(sa_family_t)),
		"bind the socket");
	checked(setsockopt(s->notify_fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)),
		"receive credentials on the socket");
	checked(getsockname(s->notify_fd, (struct sockaddr *)&addr, &len), "get the name of the socket");
	len -= offsetof(struct sockaddr_un, sun_path);
	addr.sun_path[0] = '@';
	memcpy(address, addr.sun_path, len);
	address[len] = '\0';
}

/* Finds out where systemd, or another watch, expects messages of this process. */
static void find_outer(struct watch *s)
{
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;

	if (!len || len >= sizeof(s->outer.sun_path) || (*path != '/' && *path != '@'))
		return;
	s->outer.sun_family = AF_UNIX;
	memcpy(s->outer.sun_path, path, len);
	/* The name of an abstract socket begins with a zero byte. */
	if (*path == '@')
		s->outer.sun_path[0] = '\0';
	s->outer_len = offsetof(struct sockaddr_un, sun_path) + len;
}

/* Blocks SIGCHLD and all signals that can be passed on; read_signals() reads them. */
static void take_signals(struct watch *s)
{
	static const int ours[] = {
		SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, SIGTSTP,
	};
	size_t i;

	/* The parent may have left SIGCHLD ignored, and then the kernel would reap the command. */
	signal(SIGCHLD, SIG_DFL);
	sigfillset(&s->signals);
	for (i = 0; i < ARRAY_SIZE(ours); i++)
		sigdelset(&s->signals, ours[i]);
	sigprocmask(SIG_BLOCK, &s->signals, &s->old_signals);
	/* These two stay blocked, because tcsetpgrp() of a background process raises SIGTTOU. */
	sigdelset(&s->signals, SIGTTIN);
	sigdelset(&s->signals, SIGTTOU);
	s->signal_fd = checked(signalfd(-1, &s->signals, SFD_CLOEXEC | SFD_NONBLOCK),
			       "create a signalfd");
}

static void set_number(const char *name, __u64 value)
{
	char text[DURATION_LEN];

	snprintf(text, sizeof(text), "%llu", value);
	setenv(name, text, 1);
}

static _Noreturn void run_command(const struct watch *s, pid_t parent, const char *address,
				  char **argv)
{
	setpgid(0, 0);
	if (s->has_terminal)
		tcsetpgrp(STDIN_FILENO, getpid());
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(STATUS_OWN_FAILURE);
	setenv("NOTIFY_SOCKET", address, 1);
	set_number("WATCHDOG_USEC", s->timeout / NSEC_PER_USEC);
	set_number("WATCHDOG_PID", getpid());
	sigprocmask(SIG_SETMASK, &s->old_signals, NULL);
	execvp(*argv, argv);
	complain("cannot run %s: %s", *argv, strerror(errno));
	_exit(errno == ENOENT ? STATUS_NO_COMMAND : STATUS_CANNOT_EXEC);
}

static void start_command(struct watch *s, char **argv)
{
	char address[sizeof(((struct sockaddr_un *)0)->sun_path)];
	pid_t parent = getpid();

	open_socket(s, address);
	find_outer(s);
	take_signals(s);
	s->name = *argv;
	s->has_terminal = tcgetpgrp(STDIN_FILENO) == getpgrp();
	s->child = checked(fork(), "fork");
	if (!s->child)
		run_command(s, parent, address, argv);
	/* The parent and the child both do this, because either may run first. */
	setpgid(s->child, s->child);
	s->last_sign = now(s);
	arm(s, s->start);
}

/*
 * Reads messages before events, so that a heartbeat that arrived in time withdraws the event,
 * even if this process is late.
 */
static void turn(struct watch *s)
{
	struct pollfd fds[] = {
		{ .fd = s->signal_fd, .events = POLLIN },
		{ .fd = s->notify_fd, .events = POLLIN },
		{ .fd = twheel_fd(s->wheel.twheel), .events = POLLIN },
	};
	struct twheel_event event;

	if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
		checked(-1, "poll");
	read_signals(s);
	read_messages(s);
	while (!s->ended && !s->stuck && twheel_read(s->wheel.twheel, &event, 1) > 0)
		expire(s, event.user_data);
}

static int exit_status(const struct watch *s)
{
	if (s->silent)
		return STATUS_TIMEOUT;
	if (WIFSIGNALED(s->wait_status))
		return 128 + WTERMSIG(s->wait_status);
	return WEXITSTATUS(s->wait_status);
}

enum { OPT_TIMEOUT = OPT_OF_VERB, OPT_PRETIMEOUT, OPT_START, OPT_GRACE };

static const struct option watch_options[] = {
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "pretimeout", required_argument, NULL, OPT_PRETIMEOUT },
	{ "start", required_argument, NULL, OPT_START },
	{ "grace", required_argument, NULL, OPT_GRACE },
	{ }
};

static __u64 length_option(const struct verb *verb, const char *option)
{
	__u64 ns = duration_option(verb, option, optarg);

	if (!ns)
		usage_error(verb, "%s must be above 0", option);
	return ns;
}

static void read_options(struct watch *s, const struct verb *verb, int argc, char **argv,
			 struct conf *conf)
{
	int opt;

	while ((opt = next_option(verb, argc, argv, conf)) != -1) {
		switch (opt) {
		case OPT_TIMEOUT:
			s->timeout = length_option(verb, "--timeout");
			break;
		case OPT_PRETIMEOUT:
			s->pretimeout = length_option(verb, "--pretimeout");
			break;
		case OPT_START:
			s->start = length_option(verb, "--start");
			break;
		case OPT_GRACE:
			s->grace = length_option(verb, "--grace");
			break;
		}
	}
	if (!s->timeout)
		usage_error(verb, "--timeout=DURATION is missing");
	if (s->timeout < NSEC_PER_MSEC)
		usage_error(verb, "--timeout must be at least 1ms");
	if (s->pretimeout >= s->timeout)
		usage_error(verb, "--pretimeout must be below --timeout");
	if (optind == argc)
		usage_error(verb, "there is no command");
	if (!s->start)
		s->start = s->timeout;
}

static int run_watch(const struct verb *verb, int argc, char **argv)
{
	struct watch s = { .grace = DEFAULT_GRACE };
	struct conf conf = { };

	read_options(&s, verb, argc, argv, &conf);
	open_wheel(&s, &conf);
	start_command(&s, argv + optind);
	while (!s.ended && !s.stuck)
		turn(&s);
	if (s.has_terminal)
		tcsetpgrp(STDIN_FILENO, getpgrp());
	wheel_close(&s.wheel);
	return exit_status(&s);
}

const struct verb verb_watch = {
	.name = "watch",
	.args = "--timeout=DURATION [--] COMMAND...",
	.summary = "Run a command, and kill it when it falls silent.",
	.help = "      --timeout=DURATION     maximum time without a message, before SIGABRT\n"
		"      --pretimeout=DURATION  print a warning this long before SIGABRT\n"
		"      --start=DURATION       maximum time until the first message (default: as\n"
		"                             for --timeout)\n"
		"      --grace=DURATION       time between SIGABRT and SIGKILL (default: 5s)\n"
		"\n"
		"The command shows that it is alive by sending WATCHDOG=1 to $NOTIFY_SOCKET, as\n"
		"sd_notify(3) does. The exit status is that of the command, or 128+N if signal N\n"
		"ended it, 124 if it was silent, 125 if twheelctl failed, and 126 or 127 if the\n"
		"command cannot be run.\n",
	.command_follows = true,
	.longopts = watch_options,
	.runs_command = true,
	.run = run_watch,
};
