// SPDX-License-Identifier: GPL-2.0
/*
 * Puts the tasks of a schedule: on some connections, each with one call at a time.
 *
 * A RATE above 0 is in tasks per second, and the times of the schedule are then relative to the
 * call. PAYLOAD is the length of the payload. Prints how many seconds it took, and with a RATE the
 * due times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "load.h"

#define TASK_LEN	(PAYLOAD_LEN + 400)
#define NAP_US		200
#define NAP_MAX		(NAP_US * NSEC_PER_USEC)

static struct schedule schedule;
static struct conn *conns;
static const char *url;
static char path[128];
static char *text;
static unsigned int batch, next_task, answers, failed, payload_len = PAYLOAD_LEN;
static uint64_t begin, rate;

static size_t task_json(char *buf, unsigned int task)
{
	size_t n = (size_t)sprintf(buf, "{\"id\":\"%016x\",\"at\":%llu,\"payload\":%s", task,
				   (unsigned long long)schedule.due_ms[task], payload(payload_len));

	if (url)
		n += (size_t)sprintf(buf + n, ",\"callback\":{\"url\":\"%s\"}", url);
	buf[n++] = '}';
	return n;
}

static void put(struct conn *c)
{
	size_t n = 0;

	c->number = 0;
	if (batch > 1)
		n = (size_t)sprintf(text, "{\"tasks\":[");
	do {
		if (rate)
			schedule.due_ms[next_task] += now_ns() / NSEC_PER_MSEC;
		if (c->number)
			text[n++] = ',';
		n += task_json(text + n, next_task++);
		c->number++;
	} while (c->number < batch && next_task < schedule.count);
	if (batch > 1)
		n += (size_t)sprintf(text + n, "]}");
	conn_send(c, "POST", path, text, n);
}

/* Makes the next call on a connection, if it is time. */
static void go_on(struct conn *c)
{
	if (c->busy || next_task == schedule.count)
		return;
	if (rate && now_ns() < begin + next_task * NSEC_PER_SEC / rate)
		return;
	put(c);
}

/* Sleeps until the next call is due, but only briefly, because answers arrive meanwhile. */
static void nap(void)
{
	uint64_t at = begin + next_task * NSEC_PER_SEC / rate, now = now_ns();

	if (at > now)
		usleep(at - now < NAP_MAX ? (unsigned int)((at - now) / NSEC_PER_USEC) : NAP_US);
}

static void got(struct conn *c, int status, char *body, size_t len)
{
	if (status / 100 != 2 || memmem(body, len, "\"error\"", 7)) {
		if (!failed++)
			fprintf(stderr, "put: %d %.200s\n", status, body);
	}
	answers += c->number;
	go_on(c);
}

int put_main(int argc, char **argv)
{
	unsigned int count = (unsigned int)atoi(argv[3]);
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	schedule_read(&schedule, argv[2]);
	batch = (unsigned int)atoi(argv[4]);
	rate = strtoull(argv[5], NULL, 10);
	url = argc > 6 ? argv[6] : NULL;
	if (argc > 7)
		payload_len = (unsigned int)atoi(argv[7]);
	snprintf(path, sizeof(path), "/v1/queues/%s/tasks", argv[1]);
	text = allocate((size_t)batch * TASK_LEN + 64);
	conns = allocate(count * sizeof(*conns));
	for (unsigned int i = 0; i < count; i++) {
		conn_open(&conns[i], epoll, argv[0]);
		conns[i].got = got;
	}
	begin = now_ns();
	while (answers < schedule.count && !ended) {
		for (unsigned int i = 0; i < count; i++) {
			go_on(&conns[i]);
			if (conns[i].gone)
				die("the daemon closed a connection");
		}
		if (rate)
			nap();
		conns_turn(epoll, rate ? 0 : 100);
	}
	printf("%.6f\n", (double)(now_ns() - begin) / NSEC_PER_SEC);
	for (unsigned int i = 0; rate && i < schedule.count; i++)
		printf("%llu\n", (unsigned long long)schedule.due_ms[i]);
	return failed ? 1 : 0;
}
