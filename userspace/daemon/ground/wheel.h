/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The timers of the daemon. wheel.c is the only file that speaks libtwheel.
 *
 * A timer is part of the object that it wakes. Its function runs in the loop, from
 * wheel_run(), and may arm and disarm any timer, also its own. After wheel_disarm() the
 * function does not run, even if the timer had expired already: the object can be freed.
 *
 * Times are nanoseconds of CLOCK_BOOTTIME.
 */
#ifndef TWHEELD_GROUND_WHEEL_H
#define TWHEELD_GROUND_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NSEC_PER_SEC	1000000000ULL
#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_USEC	1000ULL

struct wheel;
struct timer;

typedef void timer_fn(struct timer *t, uint64_t now);

/**
 * struct timer - one timer; zero is a valid start
 * @fn: what to do
 * @id: of libtwheel; valid if @made
 * @deadline: the last that was set
 * @made: the wheel knows the timer
 * @armed: the function is still to run
 */
struct timer {
	timer_fn *fn;
	uint64_t id;
	uint64_t deadline;
	bool made;
	bool armed;
};

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

/**
 * wheel_open() - make the wheel
 * @wheel: out
 * @tick_ns: its resolution
 * @max_timers: how many timers there may be
 *
 * Return: 0, or a negative errno.
 */
int wheel_open(struct wheel **wheel, uint64_t tick_ns, unsigned int max_timers);

void wheel_close(struct wheel *w);

/**
 * wheel_fd() - readable when wheel_run() may have something to do
 */
int wheel_fd(const struct wheel *w);

uint64_t wheel_now(const struct wheel *w);

/**
 * wheel_sleep_ms() - how long no timer expires, rounded up
 *
 * Return: ms from 1 on, or -1 if none is armed, as epoll_wait() has it.
 */
int wheel_sleep_ms(const struct wheel *w);

/**
 * wheel_backend() - "kernel" or "inprocess"
 */
const char *wheel_backend(const struct wheel *w);

/**
 * wheel_prepare() - take the memory that a timer needs
 * @w: the wheel
 * @t: the timer
 *
 * wheel_arm() cannot fail afterwards.
 *
 * Return: 0, or a negative errno.
 */
int wheel_prepare(struct wheel *w, struct timer *t);

/**
 * wheel_arm() - arm a timer, or move it
 * @w: the wheel
 * @t: the timer
 * @deadline: when; one in the past expires at once
 *
 * Return: 0; -ENOSPC or -ENOMEM, only if the wheel does not know the timer yet.
 */
int wheel_arm(struct wheel *w, struct timer *t, uint64_t deadline);

/**
 * wheel_arm_before() - arm a timer unless it is armed for an earlier time
 */
int wheel_arm_before(struct wheel *w, struct timer *t, uint64_t deadline);

/**
 * wheel_clear() - disarm a timer, and keep its place
 */
void wheel_clear(struct wheel *w, struct timer *t);

/**
 * wheel_disarm() - disarm a timer, and give its place back
 * @w: the wheel
 * @t: the timer; one that was never armed is fine
 *
 * Return: true if its function was still to run, and now will not.
 */
bool wheel_disarm(struct wheel *w, struct timer *t);

/**
 * wheel_run() - run what has expired
 * @w: the wheel
 *
 * Return: how many timers expired.
 */
unsigned int wheel_run(struct wheel *w);

#endif /* TWHEELD_GROUND_WHEEL_H */
