/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The alarms of the daemon. No other file uses libtwheel.
 *
 * An alarm is part of the object that it wakes. The loop calls its function from
 * alarms_run(), and the function may arm and disarm any alarm, even its own. After
 * alarm_disarm() the function does not run, even if the deadline had passed already, so
 * the object can be freed.
 *
 * Times are nanoseconds of CLOCK_BOOTTIME.
 */
#ifndef TWHEELD_GROUND_ALARM_H
#define TWHEELD_GROUND_ALARM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/now.h"

struct alarms;
struct alarm;

typedef void alarm_fn(struct alarm *a, uint64_t now);

/**
 * struct alarm - one deadline and its function; zero is a valid start
 * @fn: what to do
 * @id: of libtwheel; valid if @made
 * @deadline: the last one that was set
 * @made: libtwheel has a timer for it
 * @armed: the function is still to run
 */
struct alarm {
	alarm_fn *fn;
	uint64_t id;
	uint64_t deadline;
	bool made;
	bool armed;
};

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

/**
 * alarms_open() - make room for alarms
 * @out: the result
 * @tick_ns: the resolution
 *
 * Return: 0, or a negative errno.
 */
int alarms_open(struct alarms **out, uint64_t tick_ns);

void alarms_close(struct alarms *alarms);

/**
 * alarms_fd() - readable when alarms_run() may have something to do
 */
int alarms_fd(const struct alarms *alarms);

uint64_t alarms_now(const struct alarms *alarms);

/**
 * alarms_sleep_ms() - how long until the next alarm, rounded up
 *
 * Return: ms from 1 on, or -1 if none is armed, as epoll_wait() has it.
 */
int alarms_sleep_ms(const struct alarms *alarms);

/**
 * alarms_backend() - "kernel" or "inprocess"
 */
const char *alarms_backend(const struct alarms *alarms);

/**
 * alarm_prepare() - allocate the timer of an alarm
 * @alarms: all alarms
 * @a: the alarm
 *
 * alarm_arm() cannot fail afterwards.
 *
 * Return: 0, or a negative errno.
 */
int alarm_prepare(struct alarms *alarms, struct alarm *a);

/**
 * alarm_arm() - arm an alarm, or move it
 * @alarms: all alarms
 * @a: the alarm
 * @deadline: when its function runs; one in the past runs in this turn
 *
 * Return: 0; -ENOSPC or -ENOMEM, only if the alarm has no timer yet.
 */
int alarm_arm(struct alarms *alarms, struct alarm *a, uint64_t deadline);

/**
 * alarm_arm_before() - arm an alarm unless it is armed for an earlier time
 */
int alarm_arm_before(struct alarms *alarms, struct alarm *a, uint64_t deadline);

/**
 * alarm_clear() - disarm an alarm, and keep its timer
 */
void alarm_clear(struct alarms *alarms, struct alarm *a);

/**
 * alarm_disarm() - disarm an alarm, and free its timer
 * @alarms: all alarms
 * @a: the alarm; it may never have been armed
 *
 * Return: true if its function was still to run, and now will not.
 */
bool alarm_disarm(struct alarms *alarms, struct alarm *a);

/**
 * alarms_run() - call the functions of the alarms that expired
 * @alarms: all alarms
 *
 * Return: how many alarms expired.
 */
unsigned int alarms_run(struct alarms *alarms);

#endif /* TWHEELD_GROUND_ALARM_H */
