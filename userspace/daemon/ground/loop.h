/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The one loop of the daemon: an epoll, the alarms, and work at the end of each turn.
 *
 * A turn waits, runs the functions of descriptors, runs the timers that expired, and
 * then the functions of loop_at_end(). Requests of one turn share a batch in this way.
 */
#ifndef TWHEELD_GROUND_LOOP_H
#define TWHEELD_GROUND_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct loop;
struct watch;
struct alarms;

typedef void watch_fn(struct watch *w, uint32_t events);

/**
 * struct watch - a descriptor that the loop looks at
 * @fn: called with the events of epoll
 * @fd: the descriptor
 * @events: what is watched for; 0: not watched
 */
struct watch {
	watch_fn *fn;
	int fd;
	uint32_t events;
};

typedef void end_fn(void *arg);

/**
 * loop_new() - make the loop
 * @alarms: its timers
 *
 * Return: NULL without memory or descriptors.
 */
struct loop *loop_new(struct alarms *alarms);

void loop_free(struct loop *loop);

/**
 * loop_watch() - watch, or change what for
 * @loop: the loop
 * @w: a watch with fn and fd
 * @events: EPOLLIN and EPOLLOUT; 0: no longer
 *
 * A watch with 0 has no event left, also none that was read already. End a watch
 * before its descriptor is closed.
 */
void loop_watch(struct loop *loop, struct watch *w, uint32_t events);

/**
 * loop_at_end() - run a function at the end of each turn
 * @loop: the loop
 * @fn: the function; in the order of the calls
 * @arg: its argument
 */
void loop_at_end(struct loop *loop, end_fn *fn, void *arg);

/**
 * loop_again() - do not sleep before the next turn
 * @loop: the loop
 */
void loop_again(struct loop *loop);

/**
 * loop_run() - turn until loop_stop()
 * @loop: the loop
 */
void loop_run(struct loop *loop);

void loop_stop(struct loop *loop);

/**
 * loop_turns() - how many turns there were
 * @loop: the loop
 */
uint64_t loop_turns(const struct loop *loop);

#endif /* TWHEELD_GROUND_LOOP_H */
