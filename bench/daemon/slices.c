// SPDX-License-Identifier: GPL-2.0
/*
 * A simpler design for comparison: minute slices, and a poll each second.
 *
 * A slice is a key with the tasks of one minute, each with the second in which it is due and its
 * body. Once a second, a worker takes the tasks of the current slice that are due by the end of the
 * next second, so that none is late, and runs them at once. So a task is one to two seconds early,
 * minus the offset of the poll within its second.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hiredis/hiredis.h>

#include "load.h"

#define MS_PER_MINUTE	60000
/* The offset of the poll within a second. */
#define PHASE		(200 * NSEC_PER_MSEC)

static redisContext *redis_open(const char *path)
{
	redisContext *r = redisConnectUnix(path);

	if (!r || r->err)
		die(path);
	return r;
}

static redisReply *next_reply(redisContext *r)
{
	redisReply *reply;

	if (redisGetReply(r, (void **)&reply) != REDIS_OK || reply->type == REDIS_REPLY_ERROR) {
		fprintf(stderr, "slices: Redis refused a command\n");
		exit(1);
	}
	return reply;
}

static void append(redisContext *r, unsigned int task, uint64_t due_ms)
{
	uint64_t minute = due_ms / MS_PER_MINUTE;

	redisAppendCommand(r, "ZADD slice:%" PRIu64 " %" PRIu64 " %016x", minute, due_ms / 1000,
			   task);
	redisAppendCommand(r, "HSET body:%" PRIu64 " %016x %s", minute, task, payload(PAYLOAD_LEN));
}

/**
 * struct caller - a connection with one batch in flight
 * @redis: the connection
 * @replies: number of replies that it waits for
 */
struct caller {
	redisContext *redis;
	unsigned int replies;
};

static void wait_for(struct caller *c)
{
	for (; c->replies; c->replies--)
		freeReplyObject(next_reply(c->redis));
}

static void send_all(redisContext *r)
{
	int done = 0;

	while (!done) {
		if (redisBufferWrite(r, &done) != REDIS_OK)
			die("write");
	}
}

int slices_put_main(int argc, char **argv)
{
	unsigned int batch = (unsigned int)atoi(argv[2]), calls = (unsigned int)atoi(argv[3]);
	struct caller *callers = allocate(calls * sizeof(*callers));
	struct schedule s;
	uint64_t begin;

	(void)argc;
	schedule_read(&s, argv[1]);
	for (unsigned int n = 0; n < calls; n++)
		callers[n].redis = redis_open(argv[0]);
	begin = now_ns();
	for (unsigned int i = 0, n = 0; i < s.count; n++) {
		struct caller *c = &callers[n % calls];

		wait_for(c);
		for (unsigned int from = i; i < s.count && i - from < batch; i++, c->replies += 2)
			append(c->redis, i, s.due_ms[i]);
		send_all(c->redis);
	}
	for (unsigned int n = 0; n < calls; n++)
		wait_for(&callers[n]);
	printf("%.6f\n", (double)(now_ns() - begin) / NSEC_PER_SEC);
	return 0;
}

/* Runs the tasks of a slice that are due by the end of a second. */
static void poll_slice(redisContext *r, struct seen *seen, uint64_t minute, uint64_t until)
{
	redisReply *ids, *body;

	redisAppendCommand(r, "ZRANGEBYSCORE slice:%" PRIu64 " -inf %" PRIu64, minute, until);
	ids = next_reply(r);
	for (size_t i = 0; i < ids->elements; i++)
		redisAppendCommand(r, "HGET body:%" PRIu64 " %s", minute, ids->element[i]->str);
	for (size_t i = 0; i < ids->elements; i++) {
		body = next_reply(r);
		if (body->type == REDIS_REPLY_STRING)
			seen_add(seen, ids->element[i]->str);
		freeReplyObject(body);
	}
	for (size_t i = 0; i < ids->elements; i++) {
		redisAppendCommand(r, "ZREM slice:%" PRIu64 " %s", minute, ids->element[i]->str);
		redisAppendCommand(r, "HDEL body:%" PRIu64 " %s", minute, ids->element[i]->str);
	}
	for (size_t i = 0; i < 2 * ids->elements; i++)
		freeReplyObject(next_reply(r));
	freeReplyObject(ids);
}

int slices_work_main(int argc, char **argv)
{
	redisContext *r = redis_open(argv[0]);
	struct seen seen;

	(void)argc;
	seen_init(&seen, (unsigned int)atoi(argv[1]));
	while (!seen_all(&seen)) {
		uint64_t second = now_ns() / NSEC_PER_SEC + 1;
		uint64_t at = second * NSEC_PER_SEC + PHASE;
		struct timespec ts = {
			.tv_sec = (time_t)(at / NSEC_PER_SEC),
			.tv_nsec = (long)(at % NSEC_PER_SEC),
		};

		clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &ts, NULL);
		poll_slice(r, &seen, second / 60, second + 1);
		/* The next second may belong to the next minute. */
		if ((second + 1) / 60 != second / 60)
			poll_slice(r, &seen, (second + 1) / 60, second + 1);
	}
	seen_write(&seen, argv[2]);
	return seen.tasks == seen.want ? 0 : 1;
}
