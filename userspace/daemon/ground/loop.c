// SPDX-License-Identifier: GPL-2.0
/* The only loop of the daemon. See loop.h. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "ground/loop.h"
#include "ground/alarm.h"

#define EVENTS		256
#define ENDS_MAX	8

/**
 * struct loop - the loop
 * @epoll: its descriptor
 * @alarms: its timers
 * @timers: the watch of the wheel's descriptor
 * @event: what was read last
 * @at: the one whose function runs
 * @count: how many there are
 * @end: functions for the end of a turn
 * @ends: how many
 * @turns: how many there were
 * @again: do not sleep
 * @stop: end after this turn
 */
struct loop {
	int epoll;
	struct alarms *alarms;
	struct watch timers;
	struct epoll_event event[EVENTS];
	int at;
	int count;
	struct {
		end_fn *fn;
		void *arg;
	} end[ENDS_MAX];
	unsigned int ends;
	uint64_t turns;
	bool again;
	bool stop;
};

/* Does nothing, because the alarms run in every turn. The descriptor only has to end the sleep. */
static void timers_ready(struct watch *w, uint32_t events)
{
	(void)w;
	(void)events;
}

struct loop *loop_new(struct alarms *alarms)
{
	struct loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return NULL;
	loop->alarms = alarms;
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll < 0) {
		free(loop);
		return NULL;
	}
	loop->timers.fn = timers_ready;
	loop->timers.fd = alarms_fd(alarms);
	loop_watch(loop, &loop->timers, EPOLLIN);
	return loop;
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	close(loop->epoll);
	free(loop);
}

void loop_watch(struct loop *loop, struct watch *w, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = w };

	if (events == w->events)
		return;
	epoll_ctl(loop->epoll, !events ? EPOLL_CTL_DEL : w->events ? EPOLL_CTL_MOD :
		  EPOLL_CTL_ADD, w->fd, &e);
	w->events = events;
	if (events)
		return;
	for (int i = loop->at; i < loop->count; i++) {
		if (loop->event[i].data.ptr == w)
			loop->event[i].data.ptr = NULL;
	}
}

void loop_at_end(struct loop *loop, end_fn *fn, void *arg)
{
	if (loop->ends == ENDS_MAX)
		abort();
	loop->end[loop->ends].fn = fn;
	loop->end[loop->ends++].arg = arg;
}

void loop_again(struct loop *loop)
{
	loop->again = true;
}

static void turn(struct loop *loop)
{
	/*
	 * libfaketime moves the timerfd of an in-process wheel, which may then not wake the loop,
	 * so a timeout is needed as well.
	 */
	int timeout = loop->again ? 0 : alarms_sleep_ms(loop->alarms);

	loop->again = false;
	loop->at = 0;
	loop->count = epoll_wait(loop->epoll, loop->event, EVENTS, timeout);
	for (; loop->at < loop->count; loop->at++) {
		struct watch *w = loop->event[loop->at].data.ptr;

		if (w)
			w->fn(w, loop->event[loop->at].events);
	}
	loop->count = 0;
	alarms_run(loop->alarms);
	for (unsigned int i = 0; i < loop->ends; i++)
		loop->end[i].fn(loop->end[i].arg);
	loop->turns++;
}

void loop_run(struct loop *loop)
{
	while (!loop->stop)
		turn(loop);
}

void loop_stop(struct loop *loop)
{
	loop->stop = true;
}

uint64_t loop_turns(const struct loop *loop)
{
	return loop->turns;
}
