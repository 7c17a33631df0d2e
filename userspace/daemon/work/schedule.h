/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Schedules: the runs of calendars become tasks.
 */
#ifndef TWHEELD_WORK_SCHEDULE_H
#define TWHEELD_WORK_SCHEDULE_H

#include "redis/record.h"
#include "work/queue.h"

/* "QUEUE/NAME" */
#define SCHEDULE_FIELD_LEN	(QUEUE_NAME_MAX + 1 + SCHEDULE_NAME_MAX + 1)

void schedule_field(char field[SCHEDULE_FIELD_LEN], const char *queue, const char *name);

/**
 * schedule_load_all() - learn which schedules there are
 */
void schedule_load_all(struct daemon *d);

/**
 * schedule_look() - a schedule may have changed: look at it now
 * @field: "QUEUE/NAME"
 */
void schedule_look(struct daemon *d, const char *field);

/**
 * schedule_known() - whether a queue has schedules that are known here
 */
bool schedule_known(const struct daemon *d, const char *queue);

/**
 * schedule_look_all() - look at all that are known
 */
void schedule_look_all(struct daemon *d);

void schedule_free_all(struct daemon *d);

#endif /* TWHEELD_WORK_SCHEDULE_H */
