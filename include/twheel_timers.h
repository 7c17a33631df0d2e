/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What can be done with the timers of a wheel: the verbs, the turn, the events.
 *
 * Everything here is handed the time and runs under the lock of the wheel; it
 * never sleeps, and knows no clock, file or user pointer.
 */
#ifndef _TWHEEL_TIMERS_H
#define _TWHEEL_TIMERS_H

#include "twheel_word.h"

void timers_init(struct timers *t, struct store *store);
int timers_check_setup(struct twheel_setup *setup, u32 max_timers, u32 most, u64 tick_ns,
		       struct wheel_shape *shape);
void timers_info(const struct timers *t, struct twheel_info *info);
void timers_map(struct timers *t, struct twheel_table *table, u32 page, u32 clock_id, u64 next);

unsigned int timers_turn(struct timers *t, u64 now, unsigned int budget, enum look look);
u64 timers_next(const struct timers *t);
u64 timers_publish_next(struct timers *t, u64 next, u64 now);

unsigned int timers_apply(struct timers *t, struct twheel_op *ops, unsigned int nr, u64 now);
bool timers_kick(struct timers *t, u32 slot, u64 now);
u64 timers_drain(struct timers *t, u32 *slot, u32 mode, unsigned int budget, u64 now);
int timers_list(const struct timers *t, u32 *cursor, struct twheel_timer *out,
		unsigned int nr, unsigned int budget);
void timers_stats(const struct timers *t, struct twheel_stats *stats);

unsigned int timers_peek(struct timers *t, struct twheel_event *events, unsigned int nr,
			 u64 now);
void timers_consume(struct timers *t, unsigned int nr, u64 now);

#endif /* _TWHEEL_TIMERS_H */
