// SPDX-License-Identifier: GPL-2.0
/*
 * Clients of a server, most of which fall silent: whom does it kick, and when?
 *
 *   silent_clients mosquitto|nginx CLIENTS PROGRAM [tell]
 *
 * Writes a configuration into the current directory, starts the program with it, and talks to it
 * over a Unix socket. Each client notes the time before it sends a heartbeat. The server sees
 * the sign later, so a kick is early if it comes before that time plus the server's timeout, no
 * matter how slow either of them is. Prints TAP; with "tell", which is for a server that still has
 * its own timers, only how late its kicks are.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS	1000000ULL
#define MAX_KINDS	6
#define BATCH		256

struct bytes {
	const char *data;
	size_t size;
};

#define BYTES(text)	{ text, sizeof(text) - 1 }

/**
 * struct kind - what a client does
 * @name: what it is called
 * @limit_ms: the server's timeout; 0: it should never kick this client
 * @every_ms: between two heartbeats
 * @signs: how many there are before the client falls silent; 0: it never does
 * @percent: how many clients do this
 * @first: the first sign, which follows the connection
 * @later: the others; without it, they consist in reading what the server has sent
 * @answer: how the server's answer begins
 * @from_connect: the timeout runs from the connection, whatever the client sends
 */
struct kind {
	const char *name;
	unsigned int limit_ms;
	unsigned int every_ms;
	unsigned int signs;
	unsigned int percent;
	struct bytes first;
	struct bytes later;
	struct bytes answer;
	bool from_connect;
};

struct server {
	const char *name;
	const char *conf;
	const char *const args[6];
	struct kind kinds[MAX_KINDS];
};

/* MQTT 3.1.1: a clean session, a keepalive in seconds, and no name. */
#define CONNECT(keepalive)	BYTES("\x10\x0c\0\4MQTT\4\2\0" keepalive "\0")
#define CONNACK			BYTES("\x20\x02\0\0")
#define PINGREQ			BYTES("\xc0\0")

/* A client is silent for too long after one and a half times its keepalive. */
static const struct server mosquitto = {
	.name = "mosquitto",
	.conf =
		"listener 0 server.sock\n"
		"user root\n"
		"allow_anonymous true\n"
		"connection_messages false\n"
		"log_dest file server.log\n",
	.args = { "-c", "server.conf" },
	.kinds = {
		{ "no ping, keepalive 2 s", 3000, 0, 1, 40, CONNECT("\2\0"), {}, CONNACK },
		{ "no ping, keepalive 3 s", 4500, 0, 1, 30, CONNECT("\3\0"), {}, CONNACK },
		{ "3 pings", 6000, 700, 4, 20, CONNECT("\4\0"), PINGREQ, CONNACK },
		{ "a ping each 500 ms", 6000, 500, 0, 7, CONNECT("\4\0"), PINGREQ, CONNACK },
		{ "no keepalive", 0, 0, 1, 3, CONNECT("\0\0"), {}, CONNACK },
	},
};

#define GET(path)	BYTES("GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n")
#define OK		BYTES("HTTP/1.1 200 ")

static const struct server nginx = {
	.name = "nginx",
	.conf =
		"daemon off;\n"
		"user root;\n"
		"worker_processes 2;\n"
		"worker_rlimit_nofile 8192;\n"
		"error_log server.log notice;\n"
		"pid server.pid;\n"
		/* The workers have none of our environment but what is named here. */
		"env TWHEEL_BACKEND;\n"
		"events { worker_connections 4096; }\n"
		"http {\n"
		"	access_log off;\n"
		"	client_header_timeout 2s;\n"
		"	client_body_timeout 3s;\n"
		"	send_timeout 3s;\n"
		"	keepalive_timeout 2500ms;\n"
		"	reset_timedout_connection on;\n"
		"	server {\n"
		"		listen unix:server.sock;\n"
		"		location / { root .; dav_methods PUT; }\n"
		"	}\n"
		"}\n",
	.args = { "-p", "./", "-e", "server.log", "-c", "server.conf" },
	.kinds = {
		{ "no request", 2000, 0, 1, 20, {}, {}, {}, true },
		{ "half a header", 2000, 200, 4, 20, BYTES("GET / HTTP/1.1\r\nX: "),
		  BYTES("x"), {}, true },
		{ "half a body", 3000, 200, 4, 20,
		  BYTES("PUT /put HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\nx"),
		  BYTES("x") },
		{ "reads no more", 3000, 200, 4, 10, GET("/big"), {}, {} },
		{ "keep-alive, 3 requests", 2500, 200, 3, 20, GET("/small"), GET("/small"), OK },
		{ "a request each 500 ms", 2500, 500, 0, 10, GET("/small"), GET("/small"), OK },
	},
};

/**
 * struct client - one of them
 * @kind: what it does
 * @fd: its socket; -1 after the server has hung up
 * @signs: how many it has given
 * @sign_ns: the time before the last
 * @end_ns: when the server hung up; 0 if it has not
 * @answered: the first answer was right
 * @late: half the server's timeout passed without a sign, because this program did not run
 */
struct client {
	const struct kind *kind;
	int fd;
	unsigned int signs;
	uint64_t sign_ns;
	uint64_t end_ns;
	bool answered;
	bool late;
};

static const struct server *server;
static struct client *clients;
static unsigned int nr_clients;
static int loop;
static bool tell;
static unsigned int tests, failures;

static void die(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 * NS_PER_MS + ts.tv_nsec;
}

static void verdict(bool good, const char *fmt, ...)
{
	va_list ap;

	if (tell)
		return;
	va_start(ap, fmt);
	printf("%s %u ", good ? "ok" : "not ok", ++tests);
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
	failures += !good;
}

static bool falls_silent(const struct client *c)
{
	return c->kind->limit_ms && c->kind->signs;
}

static void hung_up(struct client *c)
{
	c->end_ns = now();
	close(c->fd);
	c->fd = -1;
}

/* Reads up to a megabyte. Returns false at the end of the connection. */
static bool drain(struct client *c)
{
	static char buf[1 << 16];
	ssize_t got;
	int i;

	for (i = 0; i < 16; i++) {
		got = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (got < 0 && errno == EAGAIN)
			return true;
		if (got <= 0)
			return false;
		if ((size_t)got >= c->kind->answer.size &&
		    !memcmp(buf, c->kind->answer.data, c->kind->answer.size))
			c->answered = true;
	}
	return true;
}

static void give_sign(struct client *c)
{
	const struct kind *kind = c->kind;
	const struct bytes *bytes = c->signs ? &kind->later : &kind->first;
	uint64_t time = now();
	bool alive = true;

	if (c->signs && !kind->from_connect && kind->limit_ms &&
	    time - c->sign_ns > kind->limit_ms / 2 * NS_PER_MS)
		c->late = true;
	if (bytes->size)
		alive = send(c->fd, bytes->data, bytes->size, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
	else if (c->signs)
		alive = drain(c);
	if (!alive) {
		hung_up(c);
		return;
	}
	c->signs++;
	if (!kind->from_connect)
		c->sign_ns = time;
}

static void connect_client(struct client *c)
{
	const struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "server.sock" };
	/* One that reads as a heartbeat must not read otherwise. */
	bool reads = c->kind->later.size || c->kind->answer.size || c->kind->signs == 1;
	struct epoll_event ev = {
		.events = EPOLLRDHUP | (reads ? EPOLLIN : 0),
		.data.ptr = c,
	};

	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		die("socket");
	c->sign_ns = now();
	if (connect(c->fd, (const struct sockaddr *)&addr, sizeof(addr)))
		die("connect");
	if (epoll_ctl(loop, EPOLL_CTL_ADD, c->fd, &ev))
		die("epoll_ctl");
	c->answered = !c->kind->answer.size;
	give_sign(c);
}

static void write_file(const char *name, const char *text)
{
	FILE *file = fopen(name, "w");

	if (!file || fputs(text, file) < 0 || fclose(file))
		die(name);
}

/* Starts the server, and waits for its socket. */
static pid_t start(const char *program)
{
	const char *argv[8] = { program };
	int i, status;
	pid_t pid;

	write_file("server.conf", server->conf);
	write_file("small", "small\n");
	write_file("big", "");
	if (truncate("big", 256 << 20))
		die("truncate");
	unlink("server.sock");
	unlink("server.log");
	for (i = 0; i < 6 && server->args[i]; i++)
		argv[i + 1] = server->args[i];
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		execvp(program, (char **)argv);
		die(program);
	}
	for (i = 0; i < 3000 && access("server.sock", F_OK); i++) {
		if (waitpid(pid, &status, WNOHANG)) {
			errno = ECHILD;
			die("the server ended");
		}
		usleep(10000);
	}
	/* It is bound. Now it may listen. */
	usleep(100000);
	return pid;
}

/* Ends the server. Returns whether it ended well. */
static bool stop(pid_t pid)
{
	int i, status;

	kill(pid, SIGTERM);
	for (i = 0; i < 3000; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) && !WEXITSTATUS(status);
		usleep(10000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return false;
}

static void hear(void)
{
	struct epoll_event events[BATCH];
	int i, n = epoll_wait(loop, events, BATCH, 5);

	for (i = 0; i < n; i++) {
		struct client *c = events[i].data.ptr;

		if (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR) || !drain(c))
			hung_up(c);
	}
}

static bool sign_is_due(const struct client *c)
{
	const struct kind *kind = c->kind;
	/* sign_ns is the time of the last sign, or of the connection. */
	unsigned int periods = kind->from_connect ? c->signs : 1;

	return (!kind->signs || c->signs < kind->signs) &&
	       now() >= c->sign_ns + periods * kind->every_ms * NS_PER_MS;
}

/* Returns how many of the first @n clients the server has yet to kick. */
static unsigned int turn(unsigned int n)
{
	unsigned int i, left = 0;

	hear();
	for (i = 0; i < n; i++) {
		struct client *c = &clients[i];

		if (c->fd < 0)
			continue;
		left += falls_silent(c);
		if (sign_is_due(c))
			give_sign(c);
	}
	return left;
}

static void make_clients(void)
{
	unsigned int i, percent, kind;

	for (i = 0; i < nr_clients; i++) {
		percent = i % 100;
		for (kind = 0; percent >= server->kinds[kind].percent; kind++)
			percent -= server->kinds[kind].percent;
		clients[i].kind = &server->kinds[kind];
		connect_client(&clients[i]);
		if (i % 64 == 63)
			turn(i + 1);
	}
}

/* Until all are kicked that should be, or half a minute has passed. */
static void run(void)
{
	uint64_t end_ns = now() + 30000 * NS_PER_MS;

	while (turn(nr_clients) && now() < end_ns)
		;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Says how late the kicks of a kind were, or of all kinds. Returns how many were early. */
static unsigned int judge(const struct kind *kind)
{
	int64_t *late = calloc(nr_clients, sizeof(*late));
	unsigned int i, n = 0, early = 0;

	if (!late)
		die("calloc");
	for (i = 0; i < nr_clients; i++) {
		const struct client *c = &clients[i];

		if (!c->end_ns || c->late || !c->kind->limit_ms || (kind && c->kind != kind))
			continue;
		late[n] = c->end_ns - c->sign_ns - c->kind->limit_ms * NS_PER_MS;
		early += late[n++] < 0;
	}
	qsort(late, n, sizeof(*late), compare);
	if (n)
		printf("# %s: %s: %u kicks, %u early, from %.1f ms, median %.1f ms, to %.1f ms\n",
		       server->name, kind ? kind->name : "all", n, early, late[0] / 1e6,
		       late[n / 2] / 1e6, late[n - 1] / 1e6);
	free(late);
	return early;
}

static bool log_has(const char *word)
{
	char line[1024];
	bool found = false;
	FILE *file = fopen("server.log", "r");

	while (file && fgets(line, sizeof(line), file))
		found = found || strstr(line, word);
	if (file)
		fclose(file);
	return found;
}

static void judge_all(void)
{
	unsigned int i, kicked = 0, silent = 0, answered = 0, late = 0, goes_on = 0, wrong = 0;
	const char *backend = getenv("TWHEEL_BACKEND");
	char words[64];

	for (i = 0; i < nr_clients; i++) {
		const struct client *c = &clients[i];

		answered += c->answered;
		late += c->late;
		silent += falls_silent(c);
		kicked += falls_silent(c) && c->end_ns;
		goes_on += !falls_silent(c);
		wrong += !falls_silent(c) && c->end_ns && !c->late;
	}
	for (i = 0; i < MAX_KINDS && server->kinds[i].name; i++)
		judge(&server->kinds[i]);
	snprintf(words, sizeof(words), "timers of the %s wheel", backend ? backend : "?");
	verdict(log_has(words), "%s has %s", server->name, words);
	verdict(answered == nr_clients, "%u of %u clients are served", answered, nr_clients);
	verdict(!judge(NULL), "no kick is early");
	verdict(kicked == silent, "%u of %u silent clients are kicked", kicked, silent);
	verdict(!wrong, "%u of %u clients that go on are kicked", wrong, goes_on);
	if (late)
		printf("# %u clients were too late with a sign, and are not judged\n", late);
}

int main(int argc, char **argv)
{
	struct rlimit files;
	pid_t pid;

	if (argc < 4)
		return 2;
	server = strcmp(argv[1], "nginx") ? &mosquitto : &nginx;
	nr_clients = atoi(argv[2]);
	tell = argc > 4;
	setvbuf(stdout, NULL, _IOLBF, 0);
	clients = calloc(nr_clients, sizeof(*clients));
	loop = epoll_create1(EPOLL_CLOEXEC);
	if (!clients || loop < 0)
		die("epoll_create1");
	if (getrlimit(RLIMIT_NOFILE, &files))
		die("getrlimit");
	files.rlim_cur = files.rlim_max < 8192 ? files.rlim_max : 8192;
	if (setrlimit(RLIMIT_NOFILE, &files))
		die("setrlimit");
	pid = start(argv[3]);
	make_clients();
	run();
	judge_all();
	verdict(stop(pid), "%s ends with status 0", server->name);
	if (!tell)
		printf("1..%u\n", tests);
	return !!failures;
}
