// SPDX-License-Identifier: GPL-2.0
/*
 * The clients of the demo of idle_server.c, and the verdict.
 *
 * Each client sends a heartbeat every BEATS-th part of the timeout, and some of them fall
 * silent at a certain moment. The verdict only depends on what happened on this side: what
 * each client sent, and when it was kicked by its own clock.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "idle_server.h"

#define EVENTS			256
/* Two in five clients fall silent, at random moments within SILENCE_TIMEOUTS timeouts. */
#define SILENT_PERCENT	40
#define SILENCE_TIMEOUTS	2
/* How long no other client may be kicked after the last silent one was. */
#define WATCH_TIMEOUTS	1
/* How long the server may take to kick the last one. */
#define KICK_TIMEOUT_NS	(30 * NSEC_PER_SEC)

struct client {
	int fd;
	/* When the client falls silent; ~0 if it never does. */
	__u64 silent_at;
	/* Read just before the client last sent something. */
	__u64 last_sent;
	/* When the client noticed that it was kicked, or 0. */
	__u64 kicked_at;
};

struct crowd {
	struct client *client;
	unsigned int count;
	unsigned int silent;
	__u64 timeout;
	int loop;
	unsigned int kicked_silent;
	/*
	 * Clients kicked less than a timeout after they had sent something: the server is wrong.
	 */
	unsigned int early;
	/*
	 * Clients that this machine held up for a timeout and that were then kicked: the server is
	 * right.
	 */
	unsigned int held_up;
	__u64 shortest;
};

unsigned int silent_of(unsigned int clients)
{
	return (clients * SILENT_PERCENT + 99) / 100;
}

static bool is_silent(const struct client *c, __u64 now)
{
	return now >= c->silent_at;
}

static void send_beat(struct client *c)
{
	c->last_sent = now_ns();
	/* If the client was kicked in the meantime, see_kicks() will find out. */
	if (send(c->fd, "*", 1, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		die("send");
}

static void connect_all(struct crowd *crowd, unsigned int port)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	unsigned int i;

	crowd->loop = epoll_create1(EPOLL_CLOEXEC);
	if (crowd->loop < 0)
		die("epoll_create1");
	for (i = 0; i < crowd->count; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.u32 = i };
		struct client *c = &crowd->client[i];

		c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (c->fd < 0)
			die("socket");
		/* The server may start the timeout at any moment from here on. */
		c->last_sent = now_ns();
		if (connect(c->fd, (struct sockaddr *)&addr, sizeof(addr)))
			die("connect");
		if (epoll_ctl(crowd->loop, EPOLL_CTL_ADD, c->fd, &ev))
			die("epoll_ctl");
	}
}

/* Chooses exactly as many clients as have to fall silent, and when each does. */
static void choose_silent(struct crowd *crowd, __u64 start)
{
	__u64 span = SILENCE_TIMEOUTS * crowd->timeout;
	unsigned int i, left = crowd->silent;

	for (i = 0; i < crowd->count; i++) {
		struct client *c = &crowd->client[i];

		c->silent_at = ~0ULL;
		if (random() % (crowd->count - i) < left) {
			c->silent_at = start + span * (random() % 1000) / 1000;
			left--;
		}
	}
}

static void note_kick(struct crowd *crowd, struct client *c)
{
	__u64 silence;

	c->kicked_at = now_ns();
	silence = c->kicked_at - c->last_sent;
	if (silence < crowd->shortest)
		crowd->shortest = silence;
	if (silence < crowd->timeout)
		crowd->early++;
	if (c->silent_at != ~0ULL)
		crowd->kicked_silent++;
	else if (silence >= crowd->timeout)
		crowd->held_up++;
	close(c->fd);
}

/* Waits until @end, and notes which clients are kicked in the meantime. */
static void see_kicks(struct crowd *crowd, __u64 end)
{
	struct epoll_event ready[EVENTS];
	__u64 now = now_ns();
	int i, count;

	do {
		__u64 ms = now < end ? (end - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC : 0;

		count = epoll_wait(crowd->loop, ready, EVENTS, ms);
		if (count < 0 && errno != EINTR)
			die("epoll_wait");
		for (i = 0; i < count; i++)
			note_kick(crowd, &crowd->client[ready[i].data.u32]);
		now = now_ns();
	} while (now < end);
}

/*
 * The clients send their heartbeats in turn, at equal distances. So heartbeat n belongs to client
 * n modulo their number, and is due n times @gap after the start.
 */
static void talk(struct crowd *crowd)
{
	__u64 gap = crowd->timeout / BEATS / crowd->count;
	__u64 start = now_ns();
	__u64 deadline = start + SILENCE_TIMEOUTS * crowd->timeout + KICK_TIMEOUT_NS;
	__u64 watch_until = 0;
	__u64 beat;

	choose_silent(crowd, start);
	for (beat = 0; ; beat++) {
		struct client *c = &crowd->client[beat % crowd->count];
		__u64 due = start + beat * gap;
		__u64 now = now_ns();

		if (due > now || !(beat % EVENTS)) {
			see_kicks(crowd, due);
			now = now_ns();
		}
		if (!c->kicked_at && !is_silent(c, now))
			send_beat(c);

		if (!watch_until && crowd->kicked_silent == crowd->silent)
			watch_until = now + WATCH_TIMEOUTS * crowd->timeout;
		if (now > (watch_until ? watch_until : deadline))
			return;
	}
}

static int verdict(const struct crowd *crowd)
{
	char shortest[24];

	printf("clients: %u fell silent, %u of them were kicked; %u kicked early\n",
	       crowd->silent, crowd->kicked_silent, crowd->early);
	if (crowd->held_up)
		printf("clients: %u could not send for a whole timeout, as this machine was busy, and were kicked for it\n",
		       crowd->held_up);
	if (crowd->shortest != ~0ULL)
		printf("clients: each that was kicked had been silent for at least %s ms\n",
		       msec_text(shortest, crowd->shortest));
	return crowd->kicked_silent == crowd->silent && !crowd->early ? 0 : 1;
}

/*
 * Runs the clients, and returns the verdict as an exit status. It ends the server by writing to
 * @end how many clients were held up and kicked for that.
 */
int run_clients(unsigned int count, __u64 timeout, unsigned int port, int end)
{
	struct crowd crowd = {
		.count = count,
		.silent = silent_of(count),
		.timeout = timeout,
		.shortest = ~0ULL,
	};

	srandom(now_ns());
	crowd.client = calloc(count, sizeof(*crowd.client));
	if (!crowd.client)
		die("memory");
	connect_all(&crowd, port);
	talk(&crowd);
	see_kicks(&crowd, now_ns());
	if (write(end, &crowd.held_up, sizeof(crowd.held_up)) != sizeof(crowd.held_up))
		die("write");
	return verdict(&crowd);
}
