// SPDX-License-Identifier: GPL-2.0
/* HTTP connections to a daemon, on a Unix socket. See load.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "load.h"

#define READ_LEN	65536
#define EVENTS		64

void conn_open(struct conn *c, int epoll, const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&sun, sizeof(sun)))
		die(path);
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &e))
		die("epoll_ctl");
}

/* A request rarely exceeds the buffer of the socket, so wait until the rest fits. */
static void flush(struct conn *c)
{
	while (c->out_done < c->out_len && !c->gone) {
		ssize_t n = write(c->fd, c->out + c->out_done, c->out_len - c->out_done);

		if (n > 0)
			c->out_done += (size_t)n;
		else if (n < 0 && errno == EAGAIN)
			usleep(50);
		else if (n < 0 && errno != EINTR)
			c->gone = true;
	}
}

void conn_send(struct conn *c, const char *method, const char *path, const char *body, size_t len)
{
	size_t room = len + 512;

	c->out = realloc(c->out, room);
	if (!c->out)
		die("realloc");
	c->out_len = (size_t)snprintf(c->out, room, "%s %s HTTP/1.1\r\nHost: localhost\r\n"
				      "Content-Type: application/json\r\n"
				      "Content-Length: %zu\r\n\r\n", method, path, len);
	memcpy(c->out + c->out_len, body, len);
	c->out_len += len;
	c->out_done = 0;
	c->in_len = 0;
	c->busy = true;
	flush(c);
}

/* Calls got() once the answer is complete. */
static void answer(struct conn *c)
{
	char *end, *length;
	size_t head, body;
	int status;

	c->in[c->in_len] = '\0';
	end = strstr(c->in, "\r\n\r\n");
	if (!end)
		return;
	head = (size_t)(end - c->in) + 4;
	length = strcasestr(c->in, "content-length:");
	if (!length || length > end || sscanf(c->in, "HTTP/1.1 %d", &status) != 1) {
		fprintf(stderr, "load: the daemon sent no HTTP response: %.200s\n", c->in);
		exit(1);
	}
	body = strtoul(length + 15, NULL, 10);
	if (c->in_len < head + body)
		return;
	c->busy = false;
	c->got(c, status, c->in + head, body);
}

static void receive(struct conn *c)
{
	ssize_t n;

	if (c->in_room - c->in_len < READ_LEN + 1) {
		c->in_room = 2 * c->in_room + READ_LEN + 1;
		c->in = realloc(c->in, c->in_room);
		if (!c->in)
			die("realloc");
	}
	n = read(c->fd, c->in + c->in_len, READ_LEN);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		close(c->fd);
		c->gone = true;
		c->busy = false;
		return;
	}
	c->in_len += (size_t)n;
	answer(c);
}

void conns_turn(int epoll, int ms)
{
	struct epoll_event event[EVENTS];
	int n = epoll_wait(epoll, event, EVENTS, ms);

	for (int i = 0; i < n; i++)
		receive(event[i].data.ptr);
}
