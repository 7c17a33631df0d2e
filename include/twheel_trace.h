/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints, system "twheel". twheel(4) says what can be asked of them.
 *
 * All fields are integers. The wheel is identified by its number in fdinfo, because a pointer would
 * be hashed.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM twheel

#if !defined(_TWHEEL_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TWHEEL_TRACE_H

#include <linux/tracepoint.h>

#include "twheel_timers.h"

/* The events of a timer. */
DECLARE_EVENT_CLASS(twheel_timer,
	TP_PROTO(const struct timers *t, const struct timer *e, u64 deadline, u64 now),
	TP_ARGS(t, e, deadline, now),
	TP_STRUCT__entry(
		__field(u64, id)
		__field(u64, user_data)
		__field(u64, deadline_ns)
		__field(u64, now_ns)
		__field(u64, wheel)
	),
	TP_fast_assign(
		__entry->id = timer_id(e);
		__entry->user_data = *store_user_data(t->store, e->slot);
		__entry->deadline_ns = deadline;
		__entry->now_ns = now;
		__entry->wheel = t->id;
	),
	TP_printk("wheel=%llu id=%#llx user_data=%llu deadline_ns=%llu now_ns=%llu",
		  __entry->wheel, __entry->id, __entry->user_data, __entry->deadline_ns,
		  __entry->now_ns)
);

#define DEFINE_TIMER_EVENT(name)							\
	DEFINE_EVENT(twheel_timer, name,						\
		TP_PROTO(const struct timers *t, const struct timer *e, u64 deadline,	\
			 u64 now),							\
		TP_ARGS(t, e, deadline, now))

/* An arming begins, in any way. twheel_stats.armings counts the same. */
DEFINE_TIMER_EVENT(twheel_arm);

/* A look found another deadline and queued the timer again. twheel_stats.moved counts the same. */
DEFINE_TIMER_EVENT(twheel_move);

/* The timer has expired, and has an event. Its lateness is now_ns minus deadline_ns. */
DEFINE_TIMER_EVENT(twheel_expire);

/* The event was read. */
DEFINE_TIMER_EVENT(twheel_deliver);

/* CANCEL ends the timer. deadline_ns is 0 if it was idle. */
DEFINE_TIMER_EVENT(twheel_cancel);

/* A wheel was turned once. */
DECLARE_EVENT_CLASS(twheel_turns,
	TP_PROTO(const struct timers *t, u64 now, unsigned int touched, u64 expired),
	TP_ARGS(t, now, touched, expired),
	TP_STRUCT__entry(
		__field(u64, now_ns)
		__field(u64, next_ns)
		__field(u64, wheel)
		__field(u32, touched)
		__field(u32, expired)
	),
	TP_fast_assign(
		__entry->now_ns = now;
		__entry->next_ns = timers_next(t);
		__entry->wheel = t->id;
		__entry->touched = touched;
		__entry->expired = expired;
	),
	TP_printk("wheel=%llu now_ns=%llu touched=%u expired=%u next_ns=%llu", __entry->wheel,
		  __entry->now_ns, __entry->touched, __entry->expired, __entry->next_ns)
);

/* The hrtimer or the worker turned the wheel. twheel_stats.wakeups counts the same. */
DEFINE_EVENT(twheel_turns, twheel_turn,
	TP_PROTO(const struct timers *t, u64 now, unsigned int touched, u64 expired),
	TP_ARGS(t, now, touched, expired)
);

/* A KICK turned the wheel. */
DEFINE_EVENT(twheel_turns, twheel_kick,
	TP_PROTO(const struct timers *t, u64 now, unsigned int touched, u64 expired),
	TP_ARGS(t, now, touched, expired)
);

#endif /* _TWHEEL_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE twheel_trace
#include <trace/define_trace.h>
