// SPDX-License-Identifier: GPL-2.0
/*
 * The endpoint of callbacks: records when it read the first byte of a request, and answers 200.
 *
 * The id is the header Twheel-Task, which rivals send too.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load.h"

#define EVENTS		256
#define REQUEST_MAX	8192

static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/**
 * struct peer - a connection
 * @fd: the socket
 * @len: bytes of the request so far
 * @noted: its task was noted
 * @in: the request
 */
struct peer {
	int fd;
	size_t len;
	bool noted;
	char in[REQUEST_MAX + 1];
};

static struct seen seen;

/* Returns the length of the request at the beginning of the buffer, or 0. */
static size_t complete(struct peer *p)
{
	char *end = strstr(p->in, "\r\n\r\n"), *length;
	size_t need;

	if (!end)
		return 0;
	length = strcasestr(p->in, "\r\ncontent-length:");
	need = (size_t)(end - p->in) + 4;
	if (length && length < end)
		need += strtoul(length + 17, NULL, 10);
	return p->len >= need ? need : 0;
}

static void receive(struct peer *p)
{
	ssize_t n = read(p->fd, p->in + p->len, REQUEST_MAX - p->len);
	size_t used;
	char *id;

	if (n <= 0) {
		close(p->fd);
		free(p);
		return;
	}
	p->len += (size_t)n;
	p->in[p->len] = '\0';
	id = p->noted ? NULL : strcasestr(p->in, "\r\ntwheel-task: ");
	if (id && strlen(id) > 15 + ID_LEN) {
		seen_add(&seen, id + 15);
		p->noted = true;
	}
	used = complete(p);
	if (!used)
		return;
	if (write(p->fd, reply, sizeof(reply) - 1) < 0)
		return;
	p->noted = false;
	p->len -= used;
	memmove(p->in, p->in + used, p->len);
}

static int listen_here(const char *port_file)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(sin);
	FILE *f;

	if (fd < 0 || bind(fd, (struct sockaddr *)&sin, sizeof(sin)) || listen(fd, 1024) ||
	    getsockname(fd, (struct sockaddr *)&sin, &len))
		die("listen");
	f = fopen(port_file, "w");
	if (!f || fprintf(f, "%d\n", ntohs(sin.sin_port)) < 0 || fclose(f))
		die(port_file);
	return fd;
}

static void greet(int listener, int epoll)
{
	struct epoll_event e = { .events = EPOLLIN };
	struct peer *p;
	int one = 1, fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		p = allocate(sizeof(*p));
		p->fd = fd;
		e.data.ptr = p;
		epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
	}
}

int sink_main(int argc, char **argv)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), listener;
	struct epoll_event e = { .events = EPOLLIN }, event[EVENTS];

	(void)argc;
	seen_init(&seen, (unsigned int)atoi(argv[1]));
	listener = listen_here(argv[0]);
	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e);
	while (!seen_all(&seen)) {
		int n = epoll_wait(epoll, event, EVENTS, 50);

		for (int i = 0; i < n; i++) {
			if (event[i].data.ptr)
				receive(event[i].data.ptr);
			else
				greet(listener, epoll);
		}
	}
	seen_write(&seen, argv[2]);
	return seen.tasks == seen.want ? 0 : 1;
}
