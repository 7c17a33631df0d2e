# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""The functions of libtwheel, through cffi in ABI mode, which needs no compiler.

CDEF repeats libtwheel.h and <libtwheel/twheel.h>. tests/test_cdef.py compares it with them.
"""
import math
import os
from typing import Any, NoReturn, Optional

from cffi import FFI

CDEF = """
#define TWHEEL_OPEN_KERNEL	1
#define TWHEEL_OPEN_INPROCESS	2
#define TWHEEL_OPEN_REALTIME	4
#define TWHEEL_OPEN_CHECKED	8
#define TWHEEL_IDLE		0
#define TWHEEL_ARMED		1
#define TWHEEL_EXPIRED		2
#define TWHEEL_DRAIN_EXPIRE	1
#define TWHEEL_DRAIN_CANCEL	2

struct twheel;

struct twheel_options {
	uint32_t size;
	uint32_t flags;
	uint64_t tick_ns;
	uint64_t slack_ns;
	uint32_t clock_id;
	uint32_t max_timers;
	uint32_t levels;
	uint32_t slot_bits;
	const char *device;
};

struct twheel_info {
	uint64_t features;
	uint64_t tick_ns;
	uint64_t min_tick_ns;
	uint64_t horizon_ns;
	uint64_t table_bytes;
	uint32_t clock_id;
	uint32_t max_timers;
	uint32_t levels;
	uint32_t slot_bits;
	uint64_t reserved[5];
};

struct twheel_timer {
	uint64_t id;
	uint64_t user_data;
	uint64_t deadline_ns;
	uint64_t period_ns;
	uint64_t slack_ns;
	uint32_t flags;
	uint32_t state;
};

struct twheel_op {
	struct twheel_timer timer;
	uint32_t opcode;
	int32_t result;
};

struct twheel_event {
	uint64_t id;
	uint64_t user_data;
	uint64_t deadline_ns;
	uint64_t expired_ns;
	uint64_t expirations;
	uint32_t flags;
	uint32_t reserved;
};

struct twheel_stats {
	uint64_t armed;
	uint64_t unread;
	uint64_t allocated;
	uint64_t registered;
	uint64_t rearmed;
	uint64_t cancelled;
	uint64_t expired;
	uint64_t delivered;
	uint64_t armings;
	uint64_t displaced;
	uint64_t withdrawn;
	uint64_t moved;
	uint64_t cascaded;
	uint64_t wakeups;
	uint64_t worst_lateness_ns;
	uint64_t lateness[64];
	uint64_t lateness_sum_ns;
	uint64_t reserved[8];
};

struct twheel_usage {
	uint32_t size;
	uint32_t reserved;
	uint64_t kicks;
	uint64_t refills;
	uint64_t withdrawn;
};

int twheel_open(struct twheel **wheel, const struct twheel_options *options);
int twheel_open_fd(struct twheel **wheel, int fd);
int twheel_observe_fd(struct twheel **wheel, int fd);
void twheel_close(struct twheel *wheel);
int twheel_fd(const struct twheel *wheel);
const char *twheel_backend(const struct twheel *wheel);
const char *twheel_backend_reason(const struct twheel *wheel);
uint64_t twheel_now(const struct twheel *wheel);
uint64_t twheel_after(const struct twheel *wheel, uint64_t delay_ns);
uint64_t twheel_next(const struct twheel *wheel);
int twheel_info(const struct twheel *wheel, struct twheel_info *info);
int twheel_stats(struct twheel *wheel, struct twheel_stats *stats);
int twheel_metrics(struct twheel *wheel, const char *labels, FILE *file);
int twheel_usage(const struct twheel *wheel, struct twheel_usage *usage);
const char *twheel_version(void);
int twheel_add(struct twheel *wheel, uint64_t deadline, uint64_t user_data, uint64_t *id);
int twheel_set(struct twheel *wheel, uint64_t id, uint64_t deadline);
int twheel_clear(struct twheel *wheel, uint64_t id);
int twheel_del(struct twheel *wheel, uint64_t id);
int twheel_replace(struct twheel *wheel, uint64_t id, uint64_t deadline, uint64_t user_data,
                   uint64_t *new_id);
int twheel_set_user_data(struct twheel *wheel, uint64_t id, uint64_t user_data);
int twheel_set_many(struct twheel *wheel, const uint64_t *ids, unsigned int n, uint64_t deadline);
int twheel_add_many(struct twheel *wheel, uint64_t deadline, const uint64_t *user_data,
                    uint64_t *ids, unsigned int n);
int twheel_del_many(struct twheel *wheel, const uint64_t *ids, unsigned int n);
void twheel_prefetch(const struct twheel *wheel, uint64_t id);
int twheel_wait(struct twheel *wheel, int64_t timeout_ns);
int twheel_wake(struct twheel *wheel);
int twheel_read(struct twheel *wheel, struct twheel_event *events, unsigned int n);
int twheel_submit(struct twheel *wheel, struct twheel_op *ops, unsigned int n);
int twheel_list(struct twheel *wheel, struct twheel_timer *timers, unsigned int n,
		uint32_t *cursor);
int twheel_drain(struct twheel *wheel, unsigned int mode);
"""

ffi = FFI()
ffi.cdef(CDEF)
# NODELETE, because a wheel may be closed after the interpreter has dropped this module.
lib: Any = ffi.dlopen("libtwheel.so.0", ffi.RTLD_NOW | ffi.RTLD_NODELETE)

NEVER = 2**64 - 1


def fail(err: int, path: Optional[str] = None) -> NoReturn:
    """Raises the OSError for a negative errno, which for -ECHILD is a ChildProcessError."""
    raise OSError(-err, os.strerror(-err), path)


def to_ns(seconds: float) -> int:
    """Rounds up, so that a deadline is never early. Infinity is NEVER."""
    if seconds <= 0:
        return 0
    # A value that is not a number raises ValueError.
    return NEVER if seconds > 1e10 else min(NEVER, math.ceil(seconds * 1e9))


def own(pointer: Any) -> Any:
    """Makes sure that the wheel is closed once there is no reference to it.

    Each call holds a reference, so a wheel is never closed while another thread is in a call.
    """
    return ffi.gc(pointer, lib.twheel_close)
