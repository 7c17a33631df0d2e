// SPDX-License-Identifier: GPL-2.0
/*
 * How does a server kick connections that have fallen silent?
 *
 * The server has one epoll loop, one wheel, and one timer per connection. A timer is added
 * when its connection is accepted, moved whenever something arrives, and deleted when the peer
 * leaves. If it expires, its connection was silent all that time, so the server closes it.
 * There is no list to search, no heap to maintain, and no tick while nothing happens.
 *
 * What this server does all day is to move timers. Each move is one exchange of a word in
 * memory, without a system call, and one call moves all timers of a turn, so that the
 * processor can fetch these words together.
 *
 * The file has four parts: the server, which is the example; the demo (--demo), whose clients
 * are in idle_clients.c; a tracer that counts the system calls, for readers who doubt the
 * numbers (--count); and the command line.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <libtwheel.h>

#include "idle_server.h"

#define EVENTS		256
#define BUCKETS		64
#define BAR_WIDTH	40

void die(const char *what)
{
	fprintf(stderr, "idle_server: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The library returns a negative errno. */
static void check(const char *what, int ret)
{
	if (ret >= 0)
		return;
	errno = -ret;
	die(what);
}

/* The clock that a wheel uses by default: see twheel_now(). */
__u64 now_ns(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_MONOTONIC, &ts))
		die("clock_gettime");
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/* Writes milliseconds with a decimal, for printing with %s. */
const char *msec_text(char buf[24], __u64 ns)
{
	snprintf(buf, 24, "%llu.%03llu", ns / NSEC_PER_MSEC, ns % NSEC_PER_MSEC / 1000);
	return buf;
}

/* ---- The server ---- */

/* A connection. Its descriptor is its index in the array of connections. */
struct conn {
	/* Id of its timer, 0 if there is no such connection. */
	uint64_t timer;
};

struct server {
	struct twheel *wheel;
	int loop;
	int listener;
	/* Readable when the server has to end; -1 if it never has to. */
	int stop;
	__u64 timeout;
	__u64 started;
	bool verbose;

	struct conn *conn;
	unsigned int room;
	unsigned int max_open;

	unsigned int open;
	unsigned int accepted;
	unsigned int kicked;
	/* Timers of the connections that were heard from in this turn of the loop. */
	uint64_t heard[EVENTS];
	unsigned int nr_heard;
	/* Number of times that something arrived, each of which moved a timer. */
	__u64 moves;
	/* Number of reads of the wheel, and of events that they returned. */
	__u64 reads;
	__u64 events;
	/* How long after the deadline each kick was: [i] counts those of 2^i to 2^(i+1) ns. */
	unsigned int late[BUCKETS];
	__u64 worst_late;

	/* Timers for the progress line of each second, and for listening again. */
	uint64_t progress;
	uint64_t listening;
};

/* The user_data of these timers. No connection has such a descriptor. */
#define PROGRESS	(~0ULL)
#define LISTENING	(~1ULL)

static void watch(const struct server *s, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(s->loop, EPOLL_CTL_ADD, fd, &ev))
		die("epoll_ctl");
}

/*
 * Deletes the timer, even if it has expired. Either the wheel withdraws the event, or it has been
 * read already. No event is read after this, so the next connection can have the same descriptor.
 */
static void forget(struct server *s, int fd)
{
	check("twheel_del", twheel_del(s->wheel, s->conn[fd].timer));
	s->conn[fd].timer = 0;
	s->open--;
	/* This also removes it from the epoll set. */
	close(fd);
}

static void listen_to(const struct server *s, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.fd = s->listener };

	if (epoll_ctl(s->loop, EPOLL_CTL_MOD, s->listener, &ev))
		die("epoll_ctl");
}

/*
 * Stops listening for a while, because a connection that waits to be accepted would wake us all
 * the time.
 */
static void stop_listening(struct server *s)
{
	__u64 until = now_ns() + NSEC_PER_SEC / 10;
	int ret;

	if (s->listening)
		ret = twheel_set(s->wheel, s->listening, until);
	else
		ret = twheel_add(s->wheel, until, LISTENING, &s->listening);
	if (ret >= 0)
		listen_to(s, 0);
}

static void accept_all(struct server *s)
{
	for (;;) {
		int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		int ret;

		if (fd < 0) {
			switch (errno) {
			case EAGAIN:
				return;
			/* Try again when there may be room. */
			case ENFILE:
			case EMFILE:
			case ENOBUFS:
			case ENOMEM:
				stop_listening(s);
				return;
			case EBADF:
			case EINVAL:
			case ENOTSOCK:
				die("accept");
			}
			/* Other errors concern only one connection, which failed. */
			continue;
		}
		/*
		 * Close it, because a connection that is left in the backlog would wake us
		 * forever.
		 */
		if (s->open == s->max_open || (unsigned int)fd >= s->room) {
			close(fd);
			continue;
		}
		ret = twheel_add(s->wheel, now_ns() + s->timeout, fd, &s->conn[fd].timer);
		if (ret == -ENOSPC || ret == -ENOMEM) {
			close(fd);
			continue;
		}
		check("twheel_add", ret);
		s->open++;
		s->accepted++;
		watch(s, fd);
	}
}

/*
 * Something arrived on these connections, so their timers begin again. They begin now and not when
 * the loop woke up, because data may have arrived since then.
 */
static void move_heard(struct server *s)
{
	/* If one of them has just expired and its event is unread, the event is withdrawn. */
	check("twheel_set_many", twheel_set_many(s->wheel, s->heard, s->nr_heard,
						 now_ns() + s->timeout));
	s->moves += s->nr_heard;
	s->nr_heard = 0;
}

/* Returns true if something has arrived, or the connection has ended. */
static bool read_connection(struct server *s, int fd)
{
	char data[4096];
	ssize_t len = recv(fd, data, sizeof(data), 0);

	/* The set is level-triggered, so the descriptor stays ready if there is more data. */
	if (len > 0)
		s->heard[s->nr_heard++] = s->conn[fd].timer;
	else if (!len || (errno != EAGAIN && errno != EINTR))
		forget(s, fd);
	else
		return false;
	return true;
}

static void kick(struct server *s, const struct twheel_event *event)
{
	__u64 late = now_ns() - event->deadline_ns;
	int fd = event->user_data;

	/* More connections may have been ready than epoll_wait() returned. */
	if (read_connection(s, fd)) {
		move_heard(s);
		return;
	}
	s->late[late ? 63 - __builtin_clzll(late) : 0]++;
	if (s->worst_late < late)
		s->worst_late = late;
	s->kicked++;
	if (s->verbose) {
		char ms[24];

		printf("kicked connection %d, %s ms late, %u open\n", fd,
		       msec_text(ms, late), s->open - 1);
	}
	forget(s, fd);
}

static void print_progress(const struct server *s)
{
	__u64 seconds = (now_ns() - s->started) / NSEC_PER_SEC;

	printf("%3llu s  open %5u  heartbeats %7llu  kicked %5u\n", seconds, s->open,
	       s->moves, s->kicked);
}

static void read_wheel(struct server *s)
{
	struct twheel_event events[EVENTS];
	int i, count = twheel_read(s->wheel, events, EVENTS);

	check("twheel_read", count);
	s->reads++;
	s->events += count;
	for (i = 0; i < count; i++) {
		if (events[i].user_data == PROGRESS) {
			print_progress(s);
			/* The timer has expired, so this arms it again. */
			check("twheel_set", twheel_set(s->wheel, s->progress,
						       now_ns() + NSEC_PER_SEC));
		} else if (events[i].user_data == LISTENING) {
			listen_to(s, EPOLLIN);
		} else {
			kick(s, &events[i]);
		}
	}
}

/* Serves until s->stop can be read. */
static void serve(struct server *s)
{
	for (;;) {
		struct epoll_event ready[EVENTS];
		bool wheel_ready = false, listener_ready = false;
		int i, count;

		count = epoll_wait(s->loop, ready, EVENTS, -1);
		if (count < 0 && errno != EINTR)
			die("epoll_wait");

		/*
		 * Read from all connections before any is closed for silence. Accept new
		 * connections last, because they may get the descriptors of closed ones, and must
		 * not be taken for ready.
		 */
		for (i = 0; i < count; i++) {
			int fd = ready[i].data.fd;

			if (fd == s->stop)
				return;
			if (fd == twheel_fd(s->wheel))
				wheel_ready = true;
			else if (fd == s->listener)
				listener_ready = true;
			else
				read_connection(s, fd);
		}
		move_heard(s);
		if (wheel_ready)
			read_wheel(s);
		if (listener_ready)
			accept_all(s);
	}
}

static int listen_on(unsigned int *port)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons(*port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(addr);
	int one = 1;
	int fd;

	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&addr, sizeof(addr)) ||
	    listen(fd, SOMAXCONN) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len))
		die("listen");
	*port = ntohs(addr.sin_port);
	return fd;
}

/* Opens everything that serve() needs. */
static void start_server(struct server *s, unsigned int *port)
{
	struct rlimit limit;

	/* Each connection takes a descriptor, so raise the limit as far as possible. */
	if (getrlimit(RLIMIT_NOFILE, &limit))
		die("getrlimit");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		die("setrlimit");
	s->room = s->max_open + 64;
	if (s->room > limit.rlim_cur) {
		fprintf(stderr, "idle_server: %u connections need more descriptors than the limit, %llu\n",
			s->max_open, (unsigned long long)limit.rlim_cur);
		exit(1);
	}
	s->conn = calloc(s->room, sizeof(*s->conn));
	if (!s->conn)
		die("memory");

	/* The kernel's wheel, or an in-process wheel if there is no /dev/twheel. */
	check("twheel_open", twheel_open(&s->wheel, NULL));
	s->loop = epoll_create1(EPOLL_CLOEXEC);
	if (s->loop < 0)
		die("epoll_create1");
	s->listener = listen_on(port);
	watch(s, twheel_fd(s->wheel));
	watch(s, s->listener);
	if (s->stop >= 0)
		watch(s, s->stop);

	s->started = now_ns();
	if (!s->verbose)
		check("twheel_add", twheel_add(s->wheel, s->started + NSEC_PER_SEC, PROGRESS,
					       &s->progress));
}

static void print_histogram(const struct server *s)
{
	unsigned int first = BUCKETS, last = 0, most = 1, i, bar;
	char from[24];

	for (i = 0; i < BUCKETS; i++) {
		if (!s->late[i])
			continue;
		if (first == BUCKETS)
			first = i;
		last = i;
		if (most < s->late[i])
			most = s->late[i];
	}
	printf("\nlateness of the kicks; each row counts those from its time up to the time of the next row\n");
	for (i = first; i <= last; i++) {
		printf("  from %9s ms %6u ", msec_text(from, i ? 1ULL << i : 0), s->late[i]);
		for (bar = (s->late[i] * BAR_WIDTH + most - 1) / most; bar; bar--)
			putchar('#');
		putchar('\n');
	}
	printf("  worst %8s ms\n\n", msec_text(from, s->worst_late));
}

/* ---- The demo ---- */

/* Prints what the timers cost, as the library has counted it. */
static void print_cost(const struct server *s, const struct twheel_stats *stats)
{
	bool kernel = !strcmp(twheel_backend(s->wheel), "kernel");
	struct twheel_usage usage = { .size = sizeof(usage) };
	uint64_t calls;

	check("twheel_usage", twheel_usage(s->wheel, &usage));
	calls = usage.kicks + usage.refills + usage.withdrawn;
	printf("server: %llu heartbeats, each of which moved a timer\n", s->moves);
	printf("server: %llu %s to arm and move its timers: %llu for earlier deadlines, %llu for 64 timers each, %llu to withdraw events\n",
	       (unsigned long long)calls, kernel ? "system calls" : "calls of the wheel",
	       (unsigned long long)usage.kicks, (unsigned long long)usage.refills,
	       (unsigned long long)usage.withdrawn);
	printf("server: the wheel woke %llu times because a timer was due or had been moved\n",
	       stats->wakeups);
	printf("server: the wheel put %llu timers off to a later deadline; the other heartbeats cost it nothing\n",
	       stats->moved);
	printf("server: %llu reads returned %llu events: one for each kick, and one for each second of progress\n",
	       s->reads, s->events);
}

static int run_demo(struct server *s, bool emulated)
{
	unsigned int clients = s->max_open, held_up = 0;
	struct twheel_stats stats;
	unsigned int port = 0;
	int end[2], status;
	bool right, told;
	pid_t pid;

	/*
	 * The clients hold one end of a pipe. Once they are done or dead, the other end can be
	 * read.
	 */
	if (pipe2(end, O_CLOEXEC))
		die("pipe");
	s->stop = end[0];
	start_server(s, &port);
	printf("%u connections, a heartbeat every %llu ms, kicked after %llu ms of silence\n",
	       clients, s->timeout / BEATS / NSEC_PER_MSEC, s->timeout / NSEC_PER_MSEC);
	printf("backend: %s\n", twheel_backend(s->wheel));
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		/* The wheel belongs to the server, so a child cannot use it. */
		twheel_close(s->wheel);
		close(s->loop);
		close(s->listener);
		exit(run_clients(clients, s->timeout, port, end[1]));
	}
	close(end[1]);
	serve(s);
	told = read(end[0], &held_up, sizeof(held_up)) == sizeof(held_up);

	check("twheel_stats", twheel_stats(s->wheel, &stats));
	print_histogram(s);
	if (emulated)
		printf("(the processor is emulated: lateness here says nothing about a real machine)\n");
	fflush(stdout);
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	printf("server: %u accepted, %u kicked\n", s->accepted, s->kicked);
	print_cost(s, &stats);
	right = told && WIFEXITED(status) && !WEXITSTATUS(status) &&
		s->accepted == clients && stats.delivered == s->events &&
		s->kicked == silent_of(clients) + held_up;
	if (!right)
		printf("FAIL: the server did not kick exactly the silent ones in time\n");
	else if (held_up)
		printf("PASS: the silent ones were kicked, and %u that could not send in time; none of them early\n",
		       held_up);
	else
		printf("PASS: exactly the silent ones were kicked, none of them early\n");
	return right ? 0 : 1;
}

/* ---- The count ---- */

#define VERBS		16

struct calls {
	/* Number of calls of each ioctl of /dev/twheel, by the number of the ioctl. */
	unsigned int verb[VERBS];
	/* Number of reads of the descriptor, which the first ioctl reveals. */
	uint64_t wheel;
	unsigned int reads;
	/* Number of calls of timerfd_settime(), which an in-process wheel uses instead. */
	unsigned int alarms;
};

static void note_call(struct calls *calls, uint64_t nr, const uint64_t *args)
{
	if (nr == SYS_ioctl && _IOC_TYPE(args[1]) == TWHEEL_IOC_MAGIC) {
		calls->verb[_IOC_NR(args[1]) % VERBS]++;
		calls->wheel = args[0];
	} else if (nr == SYS_read || nr == SYS_readv || nr == SYS_preadv2) {
		calls->reads += calls->wheel && args[0] == calls->wheel;
	} else if (nr == SYS_timerfd_settime) {
		calls->alarms++;
	}
#ifdef SYS_timerfd_settime64
	if (nr == SYS_timerfd_settime64)
		calls->alarms++;
#endif
}

static void print_calls(const struct calls *calls)
{
	static const char *const name[VERBS] = {
		"SETUP", "INFO", "REGISTER", "REARM", "CANCEL", "GET", "BATCH", "?",
		"LIST", "KICK", "STATS", "?", "?", "?", "?", "?",
	};
	unsigned int i;

	printf("counted:");
	for (i = 0; i < VERBS; i++)
		if (calls->verb[i])
			printf(" %u %s,", calls->verb[i], name[i]);
	printf(" %u reads, %u timerfd_settime\n", calls->reads, calls->alarms);
}

/*
 * Forks. The function returns in the child, whose calls are counted. The parent counts them with
 * ptrace and exits with the status of the child.
 */
static void count_calls(void)
{
	struct calls calls = { };
	pid_t pid = fork();
	int status;

	if (pid < 0)
		die("fork");
	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			die("ptrace");
		raise(SIGSTOP);
		return;
	}
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if (WIFSTOPPED(status) && ptrace(PTRACE_SETOPTIONS, pid, NULL,
					 PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL))
		die("ptrace");
	while (WIFSTOPPED(status)) {
		struct __ptrace_syscall_info info;
		/* Pass on the signals of the server, except for the one that stopped it for us. */
		long signal = WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);

		if (signal == (SIGTRAP | 0x80)) {
			signal = 0;
			if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) < 0)
				die("ptrace");
			if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
				note_call(&calls, info.entry.nr, info.entry.args);
		}
		if (ptrace(PTRACE_SYSCALL, pid, NULL, signal) || waitpid(pid, &status, 0) != pid)
			die("ptrace");
	}
	print_calls(&calls);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* ---- The command line ---- */

static const char help[] =
	"Usage: idle_server [--demo [--emulated] [--count]] [--port=N] [--timeout=N(s|ms)]\n"
	"                   [--connections=N]\n"
	"A TCP server on loopback that kicks the connections that fell silent.\n"
	"\n"
	"  --demo           also be its clients, some of which fall silent; then say\n"
	"                   whether exactly those were kicked\n"
	"  --emulated       say below the lateness that the processor is emulated\n"
	"  --count          trace the demo, which makes it slow, and say which system\n"
	"                   calls it made for its wheel\n"
	"  --port=N         where to listen; default 7700, the demo takes a free one\n"
	"  --timeout=Ns     how long a connection may be silent, in s or ms; default 30s,\n"
	"                   demo 3s\n"
	"  --connections=N  how many to hold; default 1000\n"
	"\n"
	"Without /dev/twheel its wheel is in the process; TWHEEL_BACKEND=kernel or\n"
	"inprocess in the environment chooses.\n";

static void usage(const char *why, const char *what)
{
	fprintf(stderr, "idle_server: %s: %s\n%s", why, what, help);
	exit(2);
}

static unsigned long parse_number(const char *what, const char *text, unsigned long max)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || !value || value > max)
		usage("not a possible number", what);
	return value;
}

static __u64 timeout_ns(char *text)
{
	size_t digits = strspn(text, "0123456789");
	__u64 unit = NSEC_PER_SEC;

	if (!strcmp(text + digits, "ms"))
		unit = NSEC_PER_MSEC;
	else if (strcmp(text + digits, "s"))
		usage("a timeout needs a unit, s or ms", text);
	text[digits] = '\0';
	return parse_number("--timeout", text, 1000000) * unit;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "demo", no_argument, NULL, 'd' },
		{ "emulated", no_argument, NULL, 'e' },
		{ "count", no_argument, NULL, 'n' },
		{ "port", required_argument, NULL, 'p' },
		{ "timeout", required_argument, NULL, 't' },
		{ "connections", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	struct server s = { .stop = -1, .max_open = 1000 };
	unsigned int port = 7700;
	bool demo = false, emulated = false, count = false;
	int opt;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'd':
			demo = true;
			break;
		case 'e':
			emulated = true;
			break;
		case 'n':
			count = true;
			break;
		case 'p':
			port = parse_number("--port", optarg, 65535);
			break;
		case 't':
			s.timeout = timeout_ns(optarg);
			break;
		case 'c':
			s.max_open = parse_number("--connections", optarg, 1000000);
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			fputs(help, stderr);
			return 2;
		}
	}
	if (optind < argc)
		usage("unknown argument", argv[optind]);
	if (!demo && (emulated || count))
		usage("only with --demo", emulated ? "--emulated" : "--count");
	if (!s.timeout)
		s.timeout = (demo ? 3 : 30) * NSEC_PER_SEC;
	if (count)
		count_calls();
	if (demo)
		return run_demo(&s, emulated);

	s.verbose = true;
	start_server(&s, &port);
	printf("listening on 127.0.0.1:%u, backend: %s\n", port, twheel_backend(s.wheel));
	serve(&s);
	return 0;
}
