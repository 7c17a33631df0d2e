// SPDX-License-Identifier: GPL-2.0
/* One connection to Redis. See conn.h. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "redis/conn.h"

#define READ_LEN	65536
/*
 * Maximum number of reads per turn, so that a long answer does not keep the loop from its timers.
 */
#define READS		16
#define IOVS		64
#define BACKOFF_MIN	(50 * NSEC_PER_MSEC)
#define BACKOFF_MAX	NSEC_PER_SEC
#define CONNECT_TIMEOUT	(2 * NSEC_PER_SEC)

static void look(struct conn *c)
{
	bool out = c->state == CONN_CONNECTING || c->unsent;

	if (c->state == CONN_SHAKING)
		out = tls_wants(c->session) == EPOLLOUT;
	loop_watch(c->loop, &c->watch, EPOLLIN | (out ? EPOLLOUT : 0));
}

/* The alarm may be too early, because answers move deadlines, but is never too late. */
static void watch_head(struct conn *c)
{
	const struct command *head = c->queue.head;

	if (head && (!c->late.armed || head->deadline < c->late.deadline))
		alarm_arm(c->alarms, &c->late, head->deadline);
}

void conn_push(struct conn *c, struct command *cmd, uint64_t timeout)
{
	cmd->timeout = timeout;
	cmd->deadline = alarms_now(c->alarms) + timeout;
	commands_add(&c->queue, cmd);
	if (!c->unsent)
		c->unsent = cmd;
	watch_head(c);
	loop_again(c->loop);
}

/* Returns a number of bytes, 0 at the end, or a negative errno. */
static ssize_t receive(struct conn *c, void *buf, size_t len)
{
	ssize_t n;

	if (c->session)
		return tls_read(c->session, buf, len);
	n = read(c->watch.fd, buf, len);
	return n < 0 ? -errno : n;
}

static ssize_t transmit(struct conn *c, const struct iovec *iov, int count)
{
	ssize_t n;

	if (c->session)
		return tls_write(c->session, iov, count);
	n = writev(c->watch.fd, iov, count);
	return n < 0 ? -errno : n;
}

/* Returns why receive() or transmit() failed. */
static const char *io_error(const struct conn *c, ssize_t err)
{
	return err == -EPROTO && c->session ? tls_why(c->session) : strerror((int)-err);
}

/* Moves the position of the next write by @n bytes. */
static void wrote(struct conn *c, size_t n)
{
	while (n) {
		size_t left = c->unsent->len - c->offset;

		if (n < left) {
			c->offset += n;
			return;
		}
		n -= left;
		c->offset = 0;
		c->unsent = c->unsent->next;
	}
}

void conn_flush(struct conn *c)
{
	while (c->unsent && c->state >= CONN_GREETING) {
		uint64_t now = alarms_now(c->alarms);
		struct iovec iov[IOVS];
		struct command *cmd;
		int count = 0;
		ssize_t n;

		for (cmd = c->unsent; cmd && count < IOVS; cmd = cmd->next) {
			size_t offset = count ? 0 : c->offset;

			iov[count].iov_base = cmd->text + offset;
			iov[count++].iov_len = cmd->len - offset;
			if (!offset)
				cmd->sent = now;
		}
		n = transmit(c, iov, count);
		if (n == -EINTR)
			continue;
		if (n == -EAGAIN)
			break;
		if (n < 0) {
			conn_close(c, io_error(c, n));
			return;
		}
		wrote(c, n);
	}
	/* Commands of which nothing was written were certainly not sent. */
	for (struct command *cmd = c->unsent; cmd; cmd = cmd->next) {
		if (cmd != c->unsent || !c->offset)
			cmd->sent = 0;
	}
	if (c->state >= CONN_CONNECTING)
		look(c);
}

static void take_reply(struct conn *c, redisReply *reply, uint64_t received)
{
	struct command *cmd, *next;

	if (c->subscribe && reply->type == REDIS_REPLY_ARRAY) {
		c->events->push(c, reply);
		return;
	}
	cmd = commands_pop(&c->queue);
	if (!cmd) {
		freeReplyObject(reply);
		return;
	}
	/*
	 * Only a Redis that answers nothing hangs. A slow one may take long for a thousand
	 * commands, so each of them has its whole time from the answer to the one before it.
	 */
	next = c->queue.head;
	if (next && next->deadline < received + next->timeout)
		next->deadline = received + next->timeout;
	watch_head(c);
	c->events->reply(c, cmd, reply, received);
}

static void read_replies(struct conn *c)
{
	static char buf[READ_LEN];

	for (unsigned int i = 0; i < READS; i++) {
		ssize_t n = receive(c, buf, sizeof(buf));
		uint64_t received = alarms_now(c->alarms);
		void *reply;

		if (n == -EINTR)
			continue;
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			conn_close(c, n ? io_error(c, n) : "Redis closed the connection");
			return;
		}
		if (redisReaderFeed(c->reader, buf, n) != REDIS_OK) {
			conn_close(c, c->reader->errstr);
			return;
		}
		do {
			reply = NULL;
			if (redisReaderGetReply(c->reader, &reply) != REDIS_OK) {
				conn_close(c, "the answer of the server is not RESP: is this Redis?");
				return;
			}
			if (reply)
				take_reply(c, reply, received);
			/* The handler of the answer may have ended the connection. */
			if (c->state < CONN_GREETING)
				return;
		} while (reply);
		/* With TLS, a read ends with a record, and there may be another one. */
		if (!c->session && (size_t)n < sizeof(buf))
			return;
	}
}

static void opened(struct conn *c)
{
	alarm_clear(c->alarms, &c->late);
	c->state = CONN_GREETING;
	c->events->opened(c);
}

static void continue_handshake(struct conn *c)
{
	int ret = tls_shake(c->session);

	if (!ret)
		opened(c);
	else if (ret == -EAGAIN)
		look(c);
	else
		conn_close(c, io_error(c, ret));
}

static void connected(struct conn *c, uint32_t events)
{
	socklen_t len = sizeof(int);
	int err = 0;

	getsockopt(c->watch.fd, SOL_SOCKET, SO_ERROR, &err, &len);
	if (err) {
		conn_close(c, strerror(err));
		return;
	}
	if (!(events & EPOLLOUT))
		return;
	if (!c->address->tls) {
		opened(c);
		return;
	}
	c->session = tls_open(c->tls, c->watch.fd, c->address->node.host);
	if (!c->session)
		abort();
	c->state = CONN_SHAKING;
	continue_handshake(c);
}

static void ready(struct watch *w, uint32_t events)
{
	struct conn *c = container_of(w, struct conn, watch);

	if (c->state == CONN_CONNECTING) {
		connected(c, events);
		return;
	}
	if (c->state == CONN_SHAKING) {
		continue_handshake(c);
		return;
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		read_replies(c);
	if (c->state >= CONN_GREETING && events & EPOLLOUT)
		conn_flush(c);
}

static int connect_local(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) && errno != EINPROGRESS) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

static int connect_one_of(const struct addrinfo *list)
{
	int fd = -EHOSTUNREACH;

	for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
		int one = 1;

		fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd < 0)
			continue;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
		if (connect(fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS) {
			int err = -errno;

			close(fd);
			fd = err;
		}
	}
	return fd;
}

static void later(struct conn *c)
{
	uint64_t now = alarms_now(c->alarms);

	alarm_arm(c->alarms, &c->retry, now + c->backoff);
	c->backoff = c->backoff * 2 < BACKOFF_MAX ? c->backoff * 2 : BACKOFF_MAX;
}

static void cannot_open(struct conn *c, const char *why)
{
	c->state = CONN_CLOSED;
	c->fresh = false;
	c->events->closed(c, why);
	later(c);
}

/* @fd: a socket that connects, or a negative errno */
static void use_socket(struct conn *c, int fd)
{
	if (fd < 0) {
		cannot_open(c, strerror(-fd));
		return;
	}
	c->reader = redisReaderCreate();
	if (!c->reader)
		abort();
	c->watch.fn = ready;
	c->watch.fd = fd;
	c->state = CONN_CONNECTING;
	alarm_arm(c->alarms, &c->late, alarms_now(c->alarms) + CONNECT_TIMEOUT);
	look(c);
}

static void stop_resolving(struct conn *c)
{
	loop_watch(c->loop, &c->watch, 0);
	resolve_free(c->resolve);
	c->resolve = NULL;
}

static void resolved(struct watch *w, uint32_t events)
{
	struct conn *c = container_of(w, struct conn, watch);
	const struct addrinfo *list = resolve_list(c->resolve);
	const char *why = resolve_why(c->resolve);
	int fd = list ? connect_one_of(list) : -1;

	(void)events;
	alarm_clear(c->alarms, &c->late);
	stop_resolving(c);
	if (list)
		use_socket(c, fd);
	else
		cannot_open(c, why);
}

static void look_up(struct conn *c)
{
	c->resolve = resolve_start(c->address->node.host, c->address->node.port);
	if (!c->resolve) {
		cannot_open(c, "cannot start a thread to resolve the name");
		return;
	}
	c->watch.fn = resolved;
	c->watch.fd = resolve_fd(c->resolve);
	c->state = CONN_RESOLVING;
	alarm_arm(c->alarms, &c->late, alarms_now(c->alarms) + CONNECT_TIMEOUT);
	loop_watch(c->loop, &c->watch, EPOLLIN);
}

static void conn_open(struct conn *c)
{
	if (!c->address->local && !c->address->node.port) {
		c->events->closed(c, "Sentinel did not name a master yet");
		later(c);
		return;
	}
	if (c->address->local)
		use_socket(c, connect_local(c->address->path));
	else
		look_up(c);
}

static void end(struct conn *c)
{
	struct command *cmd;

	alarm_clear(c->alarms, &c->late);
	if (c->state == CONN_RESOLVING) {
		stop_resolving(c);
	} else if (c->state != CONN_CLOSED) {
		loop_watch(c->loop, &c->watch, 0);
		tls_free_session(c->session);
		c->session = NULL;
		close(c->watch.fd);
		redisReaderFree(c->reader);
		c->reader = NULL;
	}
	c->state = CONN_CLOSED;
	c->unsent = NULL;
	c->offset = 0;
	while ((cmd = commands_pop(&c->queue))) {
		cmd->result = cmd->sent ? STORE_UNKNOWN : STORE_DOWN;
		commands_add(&c->failed, cmd);
	}
}

void conn_close(struct conn *c, const char *why)
{
	char text[160];

	/* The text may belong to the reader, which end() frees. */
	snprintf(text, sizeof(text), "%s", why);
	c->fresh = false;
	end(c);
	loop_again(c->loop);
	c->events->closed(c, text);
	later(c);
}

void conn_ready(struct conn *c)
{
	c->state = CONN_READY;
	c->fresh = false;
	c->backoff = BACKOFF_MIN;
	if (c->events->ready)
		c->events->ready(c);
}

static void too_late(struct alarm *a, uint64_t now)
{
	struct conn *c = container_of(a, struct conn, late);

	if (c->state == CONN_RESOLVING)
		conn_close(c, "the name server does not answer");
	else if (c->state == CONN_CONNECTING)
		conn_close(c, "connecting takes too long");
	else if (c->state == CONN_SHAKING)
		conn_close(c, "the handshake of TLS takes too long");
	else if (c->queue.head && c->queue.head->deadline <= now)
		conn_close(c, "Redis does not answer");
	else
		watch_head(c);
}

static void again(struct alarm *a, uint64_t now)
{
	(void)now;
	conn_open(container_of(a, struct conn, retry));
}

int conn_init(struct conn *c)
{
	int ret;

	c->state = CONN_CLOSED;
	c->fresh = true;
	c->backoff = BACKOFF_MIN;
	c->late.fn = too_late;
	c->retry.fn = again;
	ret = alarm_prepare(c->alarms, &c->late);
	return ret ? ret : alarm_prepare(c->alarms, &c->retry);
}

void conn_end(struct conn *c)
{
	end(c);
	alarm_clear(c->alarms, &c->retry);
}

void conn_free(struct conn *c)
{
	struct command *cmd;

	end(c);
	while ((cmd = commands_pop(&c->failed)))
		command_free(cmd);
	alarm_disarm(c->alarms, &c->late);
	alarm_disarm(c->alarms, &c->retry);
}
