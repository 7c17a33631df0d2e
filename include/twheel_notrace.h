/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Replaces the tracepoints of twheel_trace.h by nothing, for user space, and for the suites. */
#ifndef _TWHEEL_TRACE_H
#define _TWHEEL_TRACE_H

#define trace_twheel_arm(...)		do { } while (0)
#define trace_twheel_move(...)		do { } while (0)
#define trace_twheel_expire(...)	do { } while (0)
#define trace_twheel_deliver(...)	do { } while (0)
#define trace_twheel_cancel(...)	do { } while (0)

#endif /* _TWHEEL_TRACE_H */
