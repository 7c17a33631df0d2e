// SPDX-License-Identifier: GPL-2.0
/*
 * Sends one HTTP request to twheeld from a static program. See transfer.h.
 *
 * Addresses are numeric, because a static program cannot look up names. The answer ends after its
 * Content-Length, or when the daemon closes the connection.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "error.h"
#include "show.h"
#include "transfer.h"

struct address {
	struct sockaddr_storage sa;
	socklen_t len;
};

static bool parse_port(const char *text, in_port_t *port)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (!isdigit((unsigned char)*text) || (*end && strcmp(end, "/")) || !n || n > 65535)
		return false;
	*port = htons((in_port_t)n);
	return true;
}

static bool parse_server(const char *text, struct address *a)
{
	struct sockaddr_un *sun = (struct sockaddr_un *)&a->sa;
	struct sockaddr_in *sin = (struct sockaddr_in *)&a->sa;
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&a->sa;
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	size_t len;

	memset(a, 0, sizeof(*a));
	if (!strncmp(text, "unix:", 5)) {
		if (strlen(text + 5) >= sizeof(sun->sun_path))
			return false;
		sun->sun_family = AF_UNIX;
		strcpy(sun->sun_path, text + 5);
		a->len = sizeof(*sun);
		return true;
	}
	len = colon ? (size_t)(colon - text) : 0;
	if (!len || len >= sizeof(host))
		return false;
	memcpy(host, text, len);
	host[len] = '\0';
	if (*host == '[' && host[len - 1] == ']') {
		host[len - 1] = '\0';
		sin6->sin6_family = AF_INET6;
		a->len = sizeof(*sin6);
		return inet_pton(AF_INET6, host + 1, &sin6->sin6_addr) == 1 &&
		       parse_port(colon + 1, &sin6->sin6_port);
	}
	sin->sin_family = AF_INET;
	a->len = sizeof(*sin);
	return inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1",
			 &sin->sin_addr) == 1 && parse_port(colon + 1, &sin->sin_port);
}

static int send_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Leaves out the scheme, which can only be "http://". */
static const char *host_of(const struct transfer *t)
{
	return strncmp(t->server, "http://", 7) ? t->server : t->server + 7;
}

static int send_request(int fd, const struct transfer *t)
{
	const char *token = t->token, *body = t->body, *host = host_of(t);
	char *head;
	int len, err;

	if (!strncmp(host, "unix:", 5))
		host = "localhost";
	len = asprintf(&head, "%s %s HTTP/1.1\r\nHost: %.*s\r\nConnection: close\r\n"
		       "Accept: application/json\r\nContent-Type: application/json\r\n"
		       "Content-Length: %zu\r\n%s%s%s\r\n", t->method, t->path,
		       (int)strcspn(host, "/"), host, strlen(body),
		       *token ? "Authorization: Bearer " : "", token, *token ? "\r\n" : "");
	if (len < 0)
		return -ENOMEM;
	err = send_all(fd, head, (size_t)len);
	free(head);
	return err ? err : send_all(fd, body, strlen(body));
}

/* Reads until the connection is closed. The caller frees the text. */
static int read_answer(int fd, char **text, size_t *len, const sigset_t *mask)
{
	const struct timespec timeout = { .tv_sec = ANSWER_TIMEOUT };
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	size_t room = 0;

	*text = NULL;
	*len = 0;
	for (;;) {
		ssize_t n;

		if (*len + 1 >= room) {
			if (room >= ANSWER_MAX)
				return -EMSGSIZE;
			*text = grow_array(*text, room, &room, 1);
			continue;
		}
		n = ppoll(&pfd, 1, &timeout, mask);
		if (n <= 0)
			return n ? -errno : -ETIMEDOUT;
		n = recv(fd, *text + *len, room - *len - 1, 0);
		if (n < 0)
			return -errno;
		if (!n)
			break;
		*len += (size_t)n;
	}
	(*text)[*len] = '\0';
	return 0;
}

/* Splits an answer into status and body, and moves the body to the front. */
static int split_answer(char *text, size_t *len, int *status)
{
	const char *body = text ? strstr(text, "\r\n\r\n") : NULL;
	const char *length = text ? strcasestr(text, "\r\nContent-Length:") : NULL;
	size_t head;

	if (!body || strncmp(text, "HTTP/1.", 7) || *len < 12)
		return -EPROTO;
	*status = atoi(text + 9);
	body += 4;
	head = (size_t)(body - text);
	if (!length || length > body || strtoul(length + 17, NULL, 10) != *len - head)
		return -EPROTO;
	*len -= head;
	memmove(text, body, *len + 1);
	return 0;
}

static void refuse(const char *server)
{
	if (!strncmp(server, "https://", 8) || isalpha((unsigned char)*server))
		die(STATUS_USAGE, "\"%s\": this twheelctl is static, so it supports neither names nor "
		    "TLS: use ADDRESS:PORT, [IPV6]:PORT or unix:PATH", server);
	die(STATUS_USAGE, "\"%s\" is not ADDRESS:PORT, [IPV6]:PORT or unix:PATH", server);
}

const char *transfer_why(int err)
{
	return strerror(-err);
}

int transfer(const struct transfer *t, int *status, char **text, size_t *len)
{
	struct address a;
	int fd, err;

	*text = NULL;
	*len = 0;
	if (t->cacert)
		die(STATUS_USAGE, "--cacert: this twheelctl is static, so it does not support TLS");
	if (!parse_server(host_of(t), &a))
		refuse(t->server);
	fd = socket(a.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	err = fd < 0 || connect(fd, (struct sockaddr *)&a.sa, a.len) ? -errno : 0;
	if (!err)
		err = send_request(fd, t);
	if (!err)
		err = read_answer(fd, text, len, t->mask);
	if (!err)
		err = split_answer(*text, len, status);
	if (fd >= 0)
		close(fd);
	return err;
}
