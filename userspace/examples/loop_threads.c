// SPDX-License-Identifier: GPL-2.0
/*
 * How does a multi-threaded server kick silent connections?
 *
 * Each thread has its own loop and its own wheel, and a connection stays with its loop. So no
 * timer is shared, no lock is needed, and no event is ever stale: a loop reads one event,
 * kicks that connection, and reads the next. See threads.c for loops that share a wheel.
 *
 * The main thread gives each new connection to the next loop. Here it is also the client: half
 * of its connections send a heartbeat every 50 ms, and the others fall silent.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <libtwheel.h>

#define LOOPS		3
#define CLIENTS		60
#define ROUNDS		25
#define EVENTS		64
#define MSEC		1000000ULL
#define HEARTBEAT_MS	50
#define SILENCE_NS	(500 * MSEC)

struct conn {
	uint64_t timer;
	int fd;
};

struct loop {
	pthread_t thread;
	struct twheel *wheel;
	int epoll;
	/* The descriptors of new connections. The pipe is closed when no more will come. */
	int inbox[2];
	unsigned int open;
	unsigned int kicked;
	bool ending;
};

static void check(const char *what, bool good)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	check("clock_gettime", !clock_gettime(CLOCK_MONOTONIC, &ts));
	return ts.tv_sec * 1000 * MSEC + ts.tv_nsec;
}

static void listen_to(struct loop *l, int fd, void *what)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = what };

	check("epoll_ctl", !epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev));
}

static void open_conn(struct loop *l)
{
	struct conn *c;
	int fd;

	if (read(l->inbox[0], &fd, sizeof(fd)) != sizeof(fd)) {
		epoll_ctl(l->epoll, EPOLL_CTL_DEL, l->inbox[0], NULL);
		l->ending = true;
		return;
	}
	c = calloc(1, sizeof(*c));
	check("calloc", c);
	c->fd = fd;
	check("add", !twheel_add(l->wheel, twheel_after(l->wheel, SILENCE_NS), (uintptr_t)c,
				 &c->timer));
	listen_to(l, fd, c);
	l->open++;
}

static void close_conn(struct loop *l, struct conn *c)
{
	twheel_del(l->wheel, c->timer);
	close(c->fd);
	free(c);
	l->open--;
}

/* Returns true if this is a heartbeat. */
static bool hear(struct loop *l, struct conn *c)
{
	char bytes[64];

	if (recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		return true;
	close_conn(l, c);
	return false;
}

static void *run(void *arg)
{
	struct loop *l = arg;
	struct epoll_event ready[EVENTS];
	struct twheel_event event;
	uint64_t alive[EVENTS];
	unsigned int nr;
	int i, n;

	while (!l->ending || l->open) {
		n = epoll_wait(l->epoll, ready, EVENTS, -1);
		for (nr = 0, i = 0; i < n; i++) {
			struct conn *c = ready[i].data.ptr;

			if (ready[i].data.ptr == l)
				open_conn(l);
			else if (ready[i].data.ptr != l->wheel && hear(l, c))
				alive[nr++] = c->timer;
		}
		/* One call moves the timers of all that were heard from in this turn. */
		twheel_set_many(l->wheel, alive, nr, twheel_after(l->wheel, SILENCE_NS));
		while (twheel_read(l->wheel, &event, 1) == 1) {
			close_conn(l, (struct conn *)(uintptr_t)event.user_data);
			l->kicked++;
		}
	}
	return NULL;
}

static void start(struct loop *l)
{
	check("open", !twheel_open(&l->wheel, NULL));
	check("pipe", !pipe(l->inbox));
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	check("epoll", l->epoll >= 0);
	listen_to(l, l->inbox[0], l);
	listen_to(l, twheel_fd(l->wheel), l->wheel);
	check("pthread_create", !pthread_create(&l->thread, NULL, run, l));
}

static void end(struct loop *l)
{
	check("pthread_join", !pthread_join(l->thread, NULL));
	twheel_close(l->wheel);
	close(l->epoll);
	close(l->inbox[0]);
}

/* True if the server has closed the connection. */
static bool is_kicked(int fd)
{
	char byte;

	return !recv(fd, &byte, 1, MSG_DONTWAIT);
}

int main(void)
{
	unsigned int i, round, kicked = 0, silent = 0, lively = 0;
	static struct loop loops[LOOPS];
	uint64_t heard, gap = 0;
	int clients[CLIENTS];

	for (i = 0; i < LOOPS; i++)
		start(&loops[i]);
	for (i = 0; i < CLIENTS; i++) {
		int pair[2];

		check("socketpair", !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
		clients[i] = pair[0];
		check("write", write(loops[i % LOOPS].inbox[1], &pair[1], sizeof(int)) > 0);
	}
	heard = now_ns();
	for (round = 0; round < ROUNDS; round++) {
		uint64_t before = heard;

		heard = now_ns();
		for (i = 0; i < CLIENTS; i += 2)
			send(clients[i], "alive", 5, MSG_NOSIGNAL);
		/*
		 * The longest silence of a client that wanted to talk, but was held up by this
		 * machine.
		 */
		gap = now_ns() - before > gap ? now_ns() - before : gap;
		usleep(HEARTBEAT_MS * 1000);
	}
	for (i = 0; i < CLIENTS; i++)
		*(i % 2 ? &silent : &lively) += is_kicked(clients[i]);
	for (i = 0; i < CLIENTS; i++)
		close(clients[i]);
	for (i = 0; i < LOOPS; i++)
		close(loops[i].inbox[1]);
	for (i = 0; i < LOOPS; i++) {
		end(&loops[i]);
		kicked += loops[i].kicked;
	}
	printf("%u loops kicked %u of %u silent connections, and %u others\n", LOOPS, silent,
	       CLIENTS / 2, lively);
	if (gap + HEARTBEAT_MS * MSEC >= SILENCE_NS)
		return kicked < silent;
	return silent != CLIENTS / 2 || lively || kicked != silent;
}
