/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only loop of the daemon: epoll, the alarms, and work at the end of each turn.
 *
 * A turn waits, runs the functions of descriptors that are ready, runs the alarms that have
 * expired, and then the functions of loop_at_end(), so that all requests of one turn share a
 * batch.
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
 * loop_watch() - watch a descriptor, or change the events
 * @loop: the loop
 * @w: a watch with fn and fd
 * @events: EPOLLIN and EPOLLOUT; 0: no longer
 *
 * With 0, the watch gets no more events, not even one that was already read. End a watch before
 * you close its descriptor.
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
