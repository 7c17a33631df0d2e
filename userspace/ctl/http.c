// SPDX-License-Identifier: GPL-2.0
/*
 * Requests to twheeld.
 *
 * Addresses are numeric, because a static program cannot look up names. The answer ends
 * after its Content-Length, or when the daemon closes the connection.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../shared/duration.h"
#include "clock.h"
#include "error.h"
#include "http.h"
#include "option.h"
#include "show.h"

#define ANSWER_MAX	(64 << 20)
/* In seconds. The daemon answers a waiting worker earlier. */
#define ANSWER_TIMEOUT	90

struct address {
	struct sockaddr_storage sa;
	socklen_t len;
};

static const char *server_name(const struct conf *conf)
{
	const char *server = conf->server ? conf->server : getenv("TWHEELD");

	if (!server || !*server)
		return SERVER;
	return strncmp(server, "http://", 7) ? server : server + 7;
}

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

/* Reads the first line of the token file, without its end. */
static const char *read_token(const struct conf *conf)
{
	static char token[512];
	FILE *f;

	if (!conf->token_file || *token)
		return token;
	f = fopen(conf->token_file, "re");
	if (!f || !fgets(token, sizeof(token), f))
		die(STATUS_USAGE, "cannot read a token from %s", conf->token_file);
	fclose(f);
	token[strcspn(token, " \t\r\n")] = '\0';
	return token;
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

static int send_request(int fd, const struct conf *conf, const char *method,
			const char *path, const char *body)
{
	const char *token = read_token(conf), *host = server_name(conf);
	char *head;
	int len, err;

	if (!strncmp(host, "unix:", 5))
		host = "localhost";
	len = asprintf(&head, "%s %s HTTP/1.1\r\nHost: %.*s\r\nConnection: close\r\n"
		       "Accept: application/json\r\nContent-Type: application/json\r\n"
		       "Content-Length: %zu\r\n%s%s%s\r\n", method, path,
		       (int)strcspn(host, "/"), host, strlen(body),
		       *token ? "Authorization: Bearer " : "", token, *token ? "\r\n" : "");
	if (len < 0)
		return -ENOMEM;
	err = send_all(fd, head, (size_t)len);
	free(head);
	return err ? err : send_all(fd, body, strlen(body));
}

/* Reads until the connection ends. The caller frees the text. */
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

/* Splits an answer into status and JSON. */
static int parse_answer(const char *text, size_t len, int *status, json_t **answer)
{
	const char *body = strstr(text, "\r\n\r\n");
	const char *length = strcasestr(text, "\r\nContent-Length:");
	size_t body_len;

	if (strncmp(text, "HTTP/1.", 7) || len < 12 || !body)
		return -EPROTO;
	*status = atoi(text + 9);
	body += 4;
	body_len = len - (size_t)(body - text);
	if (!length || length > body || strtoul(length + 17, NULL, 10) != body_len)
		return -EPROTO;
	*answer = body_len ? json_loadb(body, body_len, JSON_DECODE_ANY, NULL) : NULL;
	/* Another server says what it likes. */
	return *status / 100 == 2 && !json_is_object(*answer) ? -EPROTO : 0;
}

static int exchange(int fd, const struct conf *conf, const char *method, const char *path,
		    const char *body, int *status, json_t **answer, const sigset_t *mask)
{
	char *text = NULL;
	size_t len;
	int err;

	err = send_request(fd, conf, method, path, body);
	if (!err)
		err = read_answer(fd, &text, &len, mask);
	if (!err)
		err = parse_answer(text, len, status, answer);
	free(text);
	return err;
}

int http_try(const struct conf *conf, const char *method, const char *path, json_t *body,
	     int *status, json_t **answer, const sigset_t *mask)
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	struct address a;
	int fd, err;

	json_decref(body);
	*answer = NULL;
	if (!parse_server(server_name(conf), &a))
		die(STATUS_USAGE, "\"%s\" is not ADDRESS:PORT, [IPV6]:PORT or unix:PATH",
		    server_name(conf));
	fd = socket(a.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	err = fd < 0 || connect(fd, (struct sockaddr *)&a.sa, a.len) ? -errno : 0;
	if (!err)
		err = exchange(fd, conf, method, path, text ? text : "", status, answer, mask);
	if (fd >= 0)
		close(fd);
	free(text);
	return err;
}

/* The exit status for an HTTP status. */
static int exit_status(int status)
{
	switch (status) {
	case 400:
	case 413:
		return STATUS_USAGE;
	case 401:
	case 403:
		return STATUS_NO_PERMISSION;
	case 404:
		return STATUS_NO_TIMER;
	case 429:
		return STATUS_LIMIT;
	default:
		return STATUS_FAILURE;
	}
}

void http_die(int status, const json_t *answer)
{
	const json_t *error = json_object_get(answer, "error");
	const char *message = json_string_value(json_object_get(error, "message"));
	const char *field = json_string_value(json_object_get(error, "field"));

	complain("%s%s%s", field ? field : "", field ? ": " : "",
		 message ? message : "twheeld refused the request");
	if (status == 404 && field && !strcmp(field, "queue"))
		hint("twheelctl queue make QUEUE makes one");
	leave(exit_status(status));
}

json_t *http_call(const struct conf *conf, const char *method, const char *path,
		  json_t *body)
{
	json_t *answer;
	int status, err;

	err = http_try(conf, method, path, body, &status, &answer, NULL);
	if (err)
		die(STATUS_NO_DEVICE, "twheeld at %s: %s", server_name(conf), strerror(-err));
	if (status < 200 || status > 299)
		http_die(status, answer);
	return answer;
}

void check_name(const struct verb *verb, const char *what, const char *text)
{
	const char *p;

	for (p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("_:-", *p))
			break;
	if (*p || p == text)
		usage_error(verb, "a %s has A-Z, a-z, 0-9, \"_\" and \"-\" only, not \"%s\"",
			    what, text);
}

void check_options(const struct verb *verb, const char *command, unsigned int given,
		   unsigned int options)
{
	const struct option *o;

	for (o = verb->longopts; o->name; o++)
		if (given & ~options & OPTION(o->val))
			usage_error(verb, "--%s is not for %s", o->name, command);
}

char *value_text(const json_t *value)
{
	const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
	char *text = json_dumps(value, flags | JSON_REAL_PRECISION(15));
	json_t *read = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;

	if (!json_equal(value, read)) {
		free(text);
		text = json_dumps(value, flags | JSON_REAL_PRECISION(17));
	}
	json_decref(read);
	return text;
}

void print_json(json_t *answer)
{
	char *text = answer ? value_text(answer) : NULL;

	puts(text ? text : "{}");
	free(text);
	json_decref(answer);
}

void set_field(const struct verb *verb, json_t *object, const char *name, json_t *value)
{
	if (json_object_set_new(object, name, value))
		usage_error(verb, "%s: not UTF-8", name);
}

void set_duration(const struct verb *verb, json_t *object, const char *name, const char *text)
{
	const char *why;
	__u64 ns;

	why = parse_duration(text, strlen(text), &ns);
	if (why)
		usage_error(verb, "--%s: \"%s\": %s", name, text, why);
	set_field(verb, object, name, json_string(text));
}

const char *when_text(char buf[DURATION_LEN + 8], json_int_t ms)
{
	char duration[DURATION_LEN];
	struct timespec now;
	__s64 left;

	clock_gettime(CLOCK_REALTIME, &now);
	left = ms - ((__s64)now.tv_sec * 1000 + now.tv_nsec / 1000000);
	duration_text(duration, (__u64)(left < 0 ? -left : left) * NSEC_PER_MSEC);
	snprintf(buf, DURATION_LEN + 8, left < 0 ? "%s ago" : "in %s", duration);
	return buf;
}
