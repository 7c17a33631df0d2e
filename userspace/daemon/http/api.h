/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions of routes.
 *
 *   server.c    connections, authentication
 *   routes.c    which function serves a path
 *   access.c    which token a request has, and what that may do
 *   tasks.c     routes of tasks
 *   queues.c    routes of queues, and /metrics
 *   pause.c     pause and resume
 *   remove.c    purge, and the end of a queue
 *   workers.c   reserve and reports
 *   schedules.c routes of schedules
 *   request.c   answers
 */
#ifndef TWHEELD_HTTP_API_H
#define TWHEELD_HTTP_API_H

#include "http/request.h"

/* Functions of routes; those with a queue are called by request_with_queue(). */
void route_task_make(struct request *r, struct queue *q);
void route_task_get(struct request *r, struct queue *q);
void route_task_move(struct request *r, struct queue *q);
void route_task_cancel(struct request *r, struct queue *q);
void route_task_run(struct request *r, struct queue *q);
void route_task_replay(struct request *r, struct queue *q);
void route_task_list(struct request *r, struct queue *q);
void route_reserve(struct request *r, struct queue *q);
void route_ack(struct request *r, struct queue *q);
void route_nack(struct request *r, struct queue *q);
void route_extend(struct request *r, struct queue *q);
void route_release(struct request *r, struct queue *q);
void route_queue_list(struct request *r);
void route_queue_get(struct request *r, struct queue *q);
void route_queue_put(struct request *r);
void route_queue_pause(struct request *r, struct queue *q);
void route_queue_resume(struct request *r, struct queue *q);
void route_queue_purge(struct request *r, struct queue *q);
void route_queue_remove(struct request *r, struct queue *q);
void route_queue_replay(struct request *r, struct queue *q);
void route_schedule_put(struct request *r, struct queue *q);
void route_schedule_get(struct request *r, struct queue *q);
void route_schedule_change(struct request *r, struct queue *q);
void route_schedule_delete(struct request *r, struct queue *q);
void route_schedule_list(struct request *r, struct queue *q);
void route_schedule_next(struct request *r, struct queue *q);
void route_schedule_enable(struct request *r, struct queue *q);
void route_schedule_disable(struct request *r, struct queue *q);
void route_schedule_run(struct request *r, struct queue *q);
void route_metrics(struct request *r);

#endif /* TWHEELD_HTTP_API_H */
