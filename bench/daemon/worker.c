// SPDX-License-Identifier: GPL-2.0
/*
 * A worker, which reserves tasks on each connection, records when it gets them, and reports them.
 *
 * A task begins when the worker has read the whole answer and comes to the task in it, where a
 * handler would be called. This is later than the moment when the daemon begins the attempt.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "load.h"

#define LIMIT		100
#define REPORT_LEN	(LIMIT * 128 + 64)

static struct seen seen;
static char reserve_path[128], ack_path[128];

static const char reserve[] = "{\"limit\":100,\"lease\":\"30s\",\"wait\":\"20s\"}";

/* Copies the text after @key into @out. Returns the end of it, or NULL if there is none. */
static char *field(char *at, const char *key, char *out, size_t room)
{
	char *end;

	at = strstr(at, key);
	if (!at)
		return NULL;
	at += strlen(key);
	end = strchr(at, '"');
	if (!end || (size_t)(end - at) >= room)
		return NULL;
	memcpy(out, at, (size_t)(end - at));
	out[end - at] = '\0';
	return end;
}

static void got_report(struct conn *c, int status, char *body, size_t len);

static void got_tasks(struct conn *c, int status, char *body, size_t len)
{
	char report[REPORT_LEN], id[64], token[64];
	size_t n = (size_t)sprintf(report, "{\"tasks\":[");
	unsigned int count = 0;
	char *at = body;

	body[len] = '\0';
	if (status != 200) {
		fprintf(stderr, "reserve: %d %s\n", status, body);
		exit(1);
	}
	while (count < LIMIT && (at = field(at, "\"id\":\"", id, sizeof(id)))) {
		seen_add(&seen, id);
		at = field(at, "\"token\":\"", token, sizeof(token));
		if (!at)
			break;
		n += (size_t)sprintf(report + n, "%s{\"id\":\"%s\",\"token\":\"%s\"}",
				     count++ ? "," : "", id, token);
	}
	n += (size_t)sprintf(report + n, "]}");
	if (!count) {
		conn_send(c, "POST", reserve_path, reserve, sizeof(reserve) - 1);
		return;
	}
	c->got = got_report;
	conn_send(c, "POST", ack_path, report, n);
}

static void got_report(struct conn *c, int status, char *body, size_t len)
{
	if (status != 200 && status != 410)
		fprintf(stderr, "ack: %d %.*s\n", status, (int)len, body);
	c->got = got_tasks;
	conn_send(c, "POST", reserve_path, reserve, sizeof(reserve) - 1);
}

int worker_main(int argc, char **argv)
{
	unsigned int count = (unsigned int)atoi(argv[3]);
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct conn *conns = allocate(count * sizeof(*conns));

	seen_init(&seen, (unsigned int)atoi(argv[1]));
	snprintf(reserve_path, sizeof(reserve_path), "/v1/queues/%s/reserve", argv[0]);
	snprintf(ack_path, sizeof(ack_path), "/v1/queues/%s/ack", argv[0]);
	for (unsigned int i = 0; i < count; i++) {
		conn_open(&conns[i], epoll, argv[4 + i % (unsigned int)(argc - 4)]);
		conns[i].got = got_tasks;
		conn_send(&conns[i], "POST", reserve_path, reserve, sizeof(reserve) - 1);
	}
	while (!seen_all(&seen))
		conns_turn(epoll, 50);
	seen_write(&seen, argv[2]);
	return seen.tasks == seen.want ? 0 : 1;
}
