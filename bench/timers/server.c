// SPDX-License-Identifier: GPL-2.0
/*
 * Measures the loop of a server, which calls epoll_wait() and recv() and then moves the timeout of
 * the connection.
 *
 * The handle of a timer is in the object of its connection. Between two rounds, the server does
 * other work, which evicts objects and timers from the caches. The backends take turns, round by
 * round, with the same connections. A row contains the cost of a request with the backend, less
 * its cost without any backend.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define CONNECTIONS	5000U
/* Requests in a round. */
#define REQUESTS	256U
/* Maximum number of events that epoll_wait() returns. */
#define EVENTS		64U
/* Rounds in a repetition. */
#define ROUNDS		101U
/* The number of bytes that the other work reads, which is more than any cache holds. */
#define OTHER_WORK	(256UL << 20)
#define TIMEOUT		(30 * NSEC_PER_SEC)

static const struct bench_backend *const kinds[] = {
	NULL,
	&bench_libtwheel,
	&bench_wheel,
	&bench_lazy,
	&bench_heap,
	&bench_libev,
	&bench_timerfd,
};

#define KINDS	ARRAY_SIZE(kinds)

/**
 * struct connection - a connection of the server
 * @fd: the server's end
 * @peer: the client's end
 * @handle: the handle of its timer in each backend
 * @rest: stands for buffers, names and so on
 */
struct connection {
	int fd;
	int peer;
	uint64_t handle[KINDS];
	char rest[512 - 8 - 8 * KINDS];
};

/**
 * struct server - a server, its clients and its timers
 * @epoll: the epoll set with all connections
 * @connections: its connections
 * @b: their timers in each backend
 * @order: the order in which they send requests
 * @next: index of the next connection in @order
 * @other: the memory that the other work reads
 * @ns: the cost of a request, by backend and round
 */
struct server {
	int epoll;
	struct connection *connections;
	struct bench *b[KINDS];
	uint32_t order[CONNECTIONS];
	unsigned int next;
	char *other;
	double ns[KINDS][ROUNDS];
};

static void open_server(struct server *s)
{
	unsigned int i, kind;
	int pair[2];

	bench_raise_limit(RLIMIT_NOFILE, 4 * CONNECTIONS);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll < 0)
		bench_die("epoll_create1");
	s->connections = bench_alloc(CONNECTIONS, sizeof(*s->connections));
	s->other = bench_alloc(1, OTHER_WORK);
	memset(s->other, 1, OTHER_WORK);
	for (i = 0; i < CONNECTIONS; i++)
		s->order[i] = i;
	for (i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &s->connections[i];
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
			bench_die("socketpair");
		c->fd = pair[0];
		c->peer = pair[1];
		if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, c->fd, &event))
			bench_die("epoll_ctl");
	}
	for (kind = 1; kind < KINDS; kind++) {
		struct bench *b;

		if (!bench_wanted(kinds[kind]))
			continue;
		b = bench_open(kinds[kind], CONNECTIONS, 0, 0);
		if (!b)
			continue;
		s->b[kind] = b;
		/* As in a server whose connections come and go, the timers are in another order. */
		bench_shuffle(s->order, CONNECTIONS);
		for (i = 0; i < CONNECTIONS; i++)
			s->connections[i].handle[kind] = b->handle[s->order[i]];
		bench_begin(b);
		b->kind->arm(b, b->handle, CONNECTIONS, bench_now() + TIMEOUT);
		if (b->kind->settle)
			b->kind->settle(b);
	}
}

static void close_server(struct server *s)
{
	unsigned int i;

	for (i = 0; i < CONNECTIONS; i++) {
		close(s->connections[i].fd);
		close(s->connections[i].peer);
	}
	for (i = 0; i < KINDS; i++)
		if (s->b[i])
			bench_close(s->b[i]);
	close(s->epoll);
	free(s->connections);
	free(s->other);
}

/* Sends the requests of a round, each by another connection. */
static void send_requests(struct server *s)
{
	unsigned int i;

	for (i = 0; i < REQUESTS; i++) {
		if (!s->next)
			bench_shuffle(s->order, CONNECTIONS);
		if (send(s->connections[s->order[s->next]].peer, "x", 1, 0) != 1)
			bench_die("send");
		s->next = (s->next + 1) % (CONNECTIONS / REQUESTS * REQUESTS);
	}
}

static void do_other_work(struct server *s)
{
	volatile char *other = s->other;
	size_t i;

	for (i = 0; i < OTHER_WORK; i += 64)
		other[i]++;
}

static void serve(struct server *s, unsigned int kind)
{
	struct epoll_event events[EVENTS];
	struct bench *b = s->b[kind];
	char request[64];
	int i, nr;

	while ((nr = epoll_wait(s->epoll, events, EVENTS, 0)) > 0) {
		uint64_t when = bench_now() + TIMEOUT;

		if (b)
			bench_begin(b);
		for (i = 0; i < nr; i++) {
			struct connection *c = events[i].data.ptr;

			if (recv(c->fd, request, sizeof(request), 0) <= 0)
				bench_die("recv");
			if (b)
				b->kind->move(b, &c->handle[kind], 1, when);
		}
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Stores the medians of the rounds, because a round is so short that it is easily disturbed. */
static void repeat(struct server *s, double *ns)
{
	unsigned int round, i, kind;
	uint32_t order[KINDS];
	uint64_t cpu;

	for (i = 0; i < KINDS; i++)
		order[i] = i;
	for (round = 0; round < ROUNDS; round++) {
		bench_shuffle(order, KINDS);
		for (i = 0; i < KINDS; i++) {
			kind = order[i];
			if (kind && !s->b[kind])
				continue;
			send_requests(s);
			do_other_work(s);
			cpu = bench_thread_cpu();
			serve(s, kind);
			s->ns[kind][round] = (double)(bench_thread_cpu() - cpu) / REQUESTS;
		}
	}
	for (kind = 0; kind < KINDS; kind++) {
		qsort(s->ns[kind], ROUNDS, sizeof(double), compare);
		ns[kind] = s->ns[kind][ROUNDS / 2];
	}
}

/*
 * Measures the cost of a move in the loop of a server, and of the loop alone as the backend
 * "none".
 */
void bench_server(unsigned int reps)
{
	double (*ns)[KINDS] = bench_alloc(reps, sizeof(*ns));
	double *values = bench_alloc(reps, sizeof(*values));
	static struct server s;
	unsigned int rep, kind;

	open_server(&s);
	for (rep = 0; rep < reps; rep++)
		repeat(&s, ns[rep]);
	for (kind = 0; kind < KINDS; kind++) {
		struct bench_row row = {
			.op = "server",
			.backend = kind ? kinds[kind]->name : "none",
			.n = CONNECTIONS,
			.threads = 1,
			.pattern = "cold",
			.unit = "ns",
			.checked = "yes",
		};

		if (kind && !s.b[kind])
			continue;
		if (kind && s.b[kind]->failed)
			row.checked = "no";
		for (rep = 0; rep < reps; rep++)
			values[rep] = ns[rep][kind] - (kind ? ns[rep][0] : 0);
		bench_row(&row, values, reps);
	}
	close_server(&s);
	free(values);
	free(ns);
}
