/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR MIT) */
/*
 * /dev/twheel: a timing wheel in the kernel, for very many timeouts.
 *
 * Each open of the device creates a wheel. You create, move and end its timers by ioctl, poll()
 * reports that some have expired, and read() returns each expiration as a whole
 * &struct twheel_event. 32-bit and 64-bit programs see the same layout.
 *
 * Times are nanoseconds on the clock of the wheel. Time namespaces can shift the monotonic clock
 * and boot time, so the wheel uses the namespace of the process that opened it.
 *
 * To map the deadline table, call mmap() with MAP_SHARED, offset 0 and the length that
 * &struct twheel_info.table_bytes contains. The table consists of a &struct twheel_table, and a
 * &struct twheel_slot for each timer. You can also map any range of its pages on its own. Once
 * TWHEEL_IOC_REGISTER has returned, you can access everything in the table that belongs to the
 * timer, and no page fault there will fail. Pages that no timer needs may raise SIGBUS if there
 * is no memory for them. The mapping keeps the wheel alive after close(), and a child inherits
 * it, but it can neither grow nor be made executable.
 *
 * These are the errors and what each of them means:
 *
 *   EINVAL  a flag is unknown, a reserved field is not zero, or a value is out of range;
 *           the buffer of read() is smaller than an event; the mapping that mmap() asks for
 *           is private or exceeds the table
 *   ENOTTY  the command is unknown
 *   ENOENT  no live timer has this id
 *   EBADF   SETUP, REGISTER, REARM, CANCEL, BATCH or KICK on a descriptor that is not open
 *           for writing; read() on one that is not open for reading
 *   EBUSY   SETUP after the first timer or mapping
 *   EACCES  mmap() or mprotect() needs a mode that the descriptor does not have, or
 *           mprotect() asks for an executable mapping
 *   EOPNOTSUPP  mmap() on a processor where an atomic exchange is a loop, which another CPU could
 *           keep busy forever
 *   EPERM   SETUP asks for a tick below min_tick_ns, without CAP_SYS_RESOURCE; or mmap() asks for
 *           an executable mapping
 *   ENOSPC  the wheel already holds max_timers timers; or the user who opened it has reached
 *           max_wheels_per_user or max_bytes_per_user
 *   ENOMEM  there is no memory, or the memory cgroup has reached its limit
 *   EFAULT  a pointer is bad, and nothing was done; a call that has already done a part of its
 *           work does not fail, but returns how much it has done
 *   EAGAIN  read() of a non-blocking descriptor while nothing is unread
 *   EINTR   a signal arrived before the first event of a read(), or before a KICK was done
 */
#ifndef _LINUX_TWHEEL_H
#define _LINUX_TWHEEL_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * Flag of &struct twheel_setup: use CLOCK_REALTIME. There is a flag for this because the number of
 * that clock is 0, and a @clock_id of 0 selects the default.
 */
#define TWHEEL_SETUP_REALTIME	(1U << 0)

/**
 * struct twheel_setup - the shape of a wheel (TWHEEL_IOC_SETUP)
 * @tick_ns: the resolution that you want. The tick becomes the largest power of two that is
 *	not above it. The default is 1 ms or min_tick_ns, whichever is longer; 1 ms makes a tick of
 *	2^19 ns.
 * @clock_id: CLOCK_MONOTONIC (default), CLOCK_BOOTTIME or CLOCK_TAI. For CLOCK_REALTIME
 *	leave it 0 and set %TWHEEL_SETUP_REALTIME.
 * @max_timers: maximum number of timers that exist at a time.
 * @levels: number of levels, 1 to 16; a wheel with one level is a hashed wheel. By default, the
 *	wheel gets enough levels to reach every 64-bit deadline, unless these would exceed 4,096
 *	buckets. If you ask for more than enough, it gets only as many as it can use.
 * @slot_bits: 4 to 12 (default: 6). Each level has 2^slot_bits buckets, and all levels together
 *	may have at most 4,096.
 * @flags: %TWHEEL_SETUP_REALTIME or 0.
 * @reserved: zero.
 *
 * If a field is zero, the kernel uses the default. On return, the fields describe the wheel as it
 * is now.
 */
struct twheel_setup {
	__u64 tick_ns;
	__u32 clock_id;
	__u32 max_timers;
	__u32 levels;
	__u32 slot_bits;
	__u32 flags;
	__u32 reserved[3];
};

/* Feature bits of &struct twheel_info and &struct twheel_table. */
/* The wheel can be mapped. */
#define TWHEEL_FEATURE_TABLE	(1U << 0)
/* The table contains marks and next_ns. */
#define TWHEEL_FEATURE_MARKS	(1U << 1)
/* A word may be %TWHEEL_PARKED. */
#define TWHEEL_FEATURE_PARKED	(1U << 2)

/**
 * struct twheel_info - the shape and abilities of a wheel (TWHEEL_IOC_INFO)
 * @features: %TWHEEL_FEATURE_TABLE and so on.
 * @tick_ns: the resolution, a power of two.
 * @min_tick_ns: the smallest tick_ns without CAP_SYS_RESOURCE.
 * @horizon_ns: how far ahead all levels together reach, or ~0 if they reach every deadline. A
 *	deadline beyond the horizon is just as exact.
 * @table_bytes: the size of the table for mmap(), or 0 if %TWHEEL_FEATURE_TABLE is not set.
 * @clock_id: the clock of the wheel.
 * @max_timers: maximum number of timers that exist at a time.
 * @levels: number of levels.
 * @slot_bits: each level has 2^slot_bits buckets.
 * @reserved: zero for now.
 *
 * Before SETUP or the first timer, this describes the wheel that the defaults would make.
 */
struct twheel_info {
	__u64 features;
	__u64 tick_ns;
	__u64 min_tick_ns;
	__u64 horizon_ns;
	__u64 table_bytes;
	__u32 clock_id;
	__u32 max_timers;
	__u32 levels;
	__u32 slot_bits;
	__u64 reserved[5];
};

/* Flags of &struct twheel_timer. */
/* deadline_ns is absolute; without this flag it is a delay from now. */
#define TWHEEL_ABSTIME		(1U << 0)
/* The timer stays after its expiration, idle, until it is re-armed or canceled. */
#define TWHEEL_KEEP		(1U << 1)
/* Do not arm: REGISTER (with KEEP) only creates a timer, and REARM disarms one. */
#define TWHEEL_DISARMED		(1U << 2)

/* States of a timer. */
#define TWHEEL_IDLE		0U	/* neither armed nor unread */
#define TWHEEL_ARMED		1U	/* will expire */
#define TWHEEL_EXPIRED		2U	/* has expired, and its event is unread */

/**
 * struct twheel_timer - a timer, as the ioctls on a single timer take and return it
 * @id: the slot in the low 32 bits, and in the high 32 bits a generation that is never 0. REGISTER
 *	returns it. Without %TWHEEL_KEEP or a period, the timer ends when its event is read.
 * @user_data: is returned in each event. REGISTER sets it, and REARM does not change it.
 * @deadline_ns: in: when the timer expires, or the delay until then, where 0 means now. The timer
 *	never expires if this is ~0 or %TWHEEL_PARKED, or if now plus the delay exceeds 64 bits.
 *	Out: always absolute, and 0 if the timer is idle.
 * @period_ns: 0, or at least one tick: the timer expires again at deadline + k * period.
 * @slack_ns: how late the timer may be in addition to its tick, to save wake-ups. REARM
 *	replaces it, and @period_ns and @flags as well.
 * @flags: %TWHEEL_ABSTIME, %TWHEEL_KEEP, %TWHEEL_DISARMED. CANCEL and GET refuse unknown flags, and
 *	ignore the known ones.
 * @state: out: for REGISTER, GET and LIST, the state now; for REARM and CANCEL, the state
 *	before the call.
 */
struct twheel_timer {
	__u64 id;
	__u64 user_data;
	__u64 deadline_ns;
	__u64 period_ns;
	__u64 slack_ns;
	__u32 flags;
	__u32 state;
};

/* Opcodes of &struct twheel_op. */
#define TWHEEL_OP_REGISTER	1U
#define TWHEEL_OP_REARM		2U
#define TWHEEL_OP_CANCEL	3U
#define TWHEEL_OP_GET		4U

/**
 * struct twheel_op - an operation of a batch
 * @timer: as for the ioctl of that name.
 * @opcode: %TWHEEL_OP_REGISTER and so on.
 * @result: out: 0 or a negative errno.
 */
struct twheel_op {
	struct twheel_timer timer;
	__u32 opcode;
	__s32 result;
};

/* Maximum number of operations in a batch. */
#define TWHEEL_BATCH_MAX	65536U

/**
 * struct twheel_batch - many operations in one call (TWHEEL_IOC_BATCH)
 * @ops: address of an array of &struct twheel_op.
 * @count: length of the array, at most %TWHEEL_BATCH_MAX.
 * @flags: zero.
 *
 * The operations are performed in order, and one that fails does not stop the batch. The ioctl
 * returns the number of operations that have a result, including those that failed. This is less
 * than @count if the address of an operation is bad, or if a fatal signal arrives. If not even the
 * first operation can be copied, the ioctl fails with EFAULT.
 */
struct twheel_batch {
	__u64 ops;
	__u32 count;
	__u32 flags;
};

/**
 * struct twheel_list - a part of the live timers (TWHEEL_IOC_LIST)
 * @timers: address of an array of &struct twheel_timer.
 * @count: length of the array.
 * @cursor: in: the slot to start from, 0 for the first call; out: where to continue.
 *
 * The ioctl returns how many timers it copied, and 0 at the end. A timer that nobody touches in
 * the meantime is listed exactly once.
 */
struct twheel_list {
	__u64 timers;
	__u32 count;
	__u32 cursor;
};

/**
 * struct twheel_event - an expiration, as read() returns it
 * @id: the timer, which ends here unless it is kept or periodic.
 * @user_data: as registered.
 * @deadline_ns: when the timer should have expired (for the first time, if @expirations is
 *	above 1).
 * @expired_ns: when the kernel took the timer off the wheel. The lateness is this minus
 *	@deadline_ns.
 * @expirations: 1, or for a periodic timer the number of periods since the last event, which is
 *	never 0.
 * @flags: zero for now.
 * @reserved: zero for now.
 */
struct twheel_event {
	__u64 id;
	__u64 user_data;
	__u64 deadline_ns;
	__u64 expired_ns;
	__u64 expirations;
	__u32 flags;
	__u32 reserved;
};

#define TWHEEL_LATENESS_BUCKETS	64

/**
 * struct twheel_stats - the counters of a wheel (TWHEEL_IOC_STATS)
 * @armed: timers that are armed now, as far as the kernel knows from its last look at them.
 * @unread: expirations that nobody has read yet.
 * @allocated: timers that exist now.
 * @registered: timers that were created.
 * @rearmed: REARM operations that were performed.
 * @cancelled: timers that CANCEL ended.
 * @expired: armings that ended with an expiration.
 * @delivered: events that were read.
 * @armings: times that a timer was armed, in any way.
 * @displaced: armings that ended without expiring, because the timer was re-armed, disarmed or
 *	canceled.
 * @withdrawn: expirations that were withdrawn before anybody read them, by REARM, by CANCEL, or
 *	by a KICK after the word was changed.
 * @moved: times that the kernel looked at a timer, found that it had been moved, and queued it
 *	again.
 * @cascaded: times that a timer moved to a lower level, or began another round in the top level.
 * @wakeups: times that the wheel was turned by its hrtimer, or by the kernel worker that takes over
 *	if many timers are due.
 * @worst_lateness_ns: the longest time from a deadline until the timer was off the wheel.
 * @lateness: [i] counts the expirations that were late by at least 2^i ns but less than
 *	2^(i+1) ns; [0] also counts those that were on time. If a timer was armed for a time in
 *	the past, its expiration counts neither here nor in @worst_lateness_ns.
 * @lateness_sum_ns: the total lateness of the expirations that @lateness counts.
 * @reserved: zero for now.
 *
 * At any moment, armings = expired + displaced + armed, and
 * expired = delivered + withdrawn + unread.
 */
struct twheel_stats {
	__u64 armed;
	__u64 unread;
	__u64 allocated;
	__u64 registered;
	__u64 rearmed;
	__u64 cancelled;
	__u64 expired;
	__u64 delivered;
	__u64 armings;
	__u64 displaced;
	__u64 withdrawn;
	__u64 moved;
	__u64 cascaded;
	__u64 wakeups;
	__u64 worst_lateness_ns;
	__u64 lateness[TWHEEL_LATENESS_BUCKETS];
	__u64 lateness_sum_ns;
	__u64 reserved[8];
};

#define TWHEEL_TABLE_MAGIC	0x6c656877U	/* "whel" */

/**
 * struct twheel_table - the beginning of the mapping
 * @magic: %TWHEEL_TABLE_MAGIC
 * @slots_offset: offset in bytes of the first &struct twheel_slot.
 * @slot_size: distance in bytes from one slot to the next.
 * @slots: number of slots.
 * @tick_ns: as in &struct twheel_info.
 * @clock_id: as in &struct twheel_info.
 * @features: as in &struct twheel_info. The following fields exist if it contains
 *	%TWHEEL_FEATURE_MARKS.
 * @next_ns: when the kernel turns the wheel next; 0 means at once, and ~0 never. Only the
 *	kernel writes it, so read it atomically.
 * @marks_offset: offset in bytes of the marks. Slot n has bit n % 64 of the __u64 number
 *	n / 64, which you set by atomic or.
 * @summary_offset: offset in bytes of the summary, which in the same way contains a bit for
 *	each 2^@summary_shift slots.
 * @summary_shift: see @summary_offset.
 * @reserved: zero for now.
 */
struct twheel_table {
	__u32 magic;
	__u32 slots_offset;
	__u32 slot_size;
	__u32 slots;
	__u64 tick_ns;
	__u32 clock_id;
	__u32 features;
	__u64 next_ns;
	__u32 marks_offset;
	__u32 summary_offset;
	__u32 summary_shift;
	__u32 reserved[3];
};

/*
 * A word that means disarmed, like 0, and also that the timer has no unread event. If you arm a
 * timer, and your exchange returns %TWHEEL_PARKED, you need not ask the kernel if there is an
 * unread event. If it returns 0, there may be one. Only user space stores %TWHEEL_PARKED, and the
 * kernel treats it in the same way as 0.
 *
 * If your exchange for 0 has returned a deadline, you may replace the 0 by %TWHEEL_PARKED, because
 * an armed timer normally has no unread event. There are two exceptions, in which the 0 has to
 * stay. One is a timer that was armed in the table while its event was unread. The other is a
 * periodic timer, because an event of an earlier period may be unread. For all other timers, you
 * may also replace the deadline by %TWHEEL_PARKED directly, without storing 0 first. In both cases,
 * use compare-and-exchange, because another thread may arm the timer, or the kernel may expire it,
 * at the same time. If the table lacks %TWHEEL_FEATURE_PARKED, the kernel takes this word for a
 * deadline.
 *
 * If you pass this value to REGISTER or REARM as a deadline, the timer never expires.
 */
#define TWHEEL_PARKED		(~0ULL - 1)

/**
 * struct twheel_slot - a timer in the mapping
 * @deadline_ns: the word, which the kernel obeys: 0 and %TWHEEL_PARKED mean disarmed, and anything
 *	else is the deadline. You write it only by atomic exchange or compare-and-exchange.
 * @wake_ns: if @deadline_ns is later than this, the kernel will look at it in time, so you need not
 *	set the mark; ~0 means that the kernel will not look. Only the kernel writes this, so read
 *	it atomically.
 *
 * All accesses have to be atomic and 64 bits wide, because a compiler for 32 bits turns a plain
 * access into two.
 *
 * To set the deadline of a timer to the absolute time t, whether the timer is armed or not:
 *
 *  1. Exchange @deadline_ns for t, and execute a full barrier.
 *  2. Read @wake_ns, and if t is later, you are done.
 *  3. Set the mark of the slot if it is not set, then set the bit of the summary if it is not
 *     set, and execute a full barrier.
 *  4. Read next_ns of the header, and if t is later, you are done.
 *  5. Call TWHEEL_IOC_KICK.
 *
 * To disarm a timer, exchange @deadline_ns for 0. If that returns 0, the timer was idle or has
 * expired, and GET tells you whether its event is unread. If it returns a deadline, no event will
 * come for that deadline. See %TWHEEL_PARKED for what you can store then.
 *
 * You can arm a timer again while its event is unread. The new deadline is valid at once, but the
 * event stays until the next KICK. A read that comes before that KICK still returns the event, even
 * if the wheel has turned in the meantime.
 *
 * The word of a periodic timer is its next deadline. If you exchange it for 0, that period and all
 * later ones end, but an unread event stays.
 */
struct twheel_slot {
	__u64 deadline_ns;
	__u64 wake_ns;
};

/* 0xC5 is free in the kernel's table of ioctl numbers. */
#define TWHEEL_IOC_MAGIC	0xC5

#define TWHEEL_IOC_SETUP	_IOWR(TWHEEL_IOC_MAGIC, 0x00, struct twheel_setup)
#define TWHEEL_IOC_INFO		_IOR(TWHEEL_IOC_MAGIC, 0x01, struct twheel_info)
#define TWHEEL_IOC_REGISTER	_IOWR(TWHEEL_IOC_MAGIC, 0x02, struct twheel_timer)
#define TWHEEL_IOC_REARM	_IOWR(TWHEEL_IOC_MAGIC, 0x03, struct twheel_timer)
#define TWHEEL_IOC_CANCEL	_IOWR(TWHEEL_IOC_MAGIC, 0x04, struct twheel_timer)
#define TWHEEL_IOC_GET		_IOWR(TWHEEL_IOC_MAGIC, 0x05, struct twheel_timer)
#define TWHEEL_IOC_BATCH	_IOW(TWHEEL_IOC_MAGIC, 0x06, struct twheel_batch)
#define TWHEEL_IOC_LIST		_IOWR(TWHEEL_IOC_MAGIC, 0x08, struct twheel_list)
/*
 * Turns the wheel now. When the ioctl returns 0, the kernel has looked at every slot that was
 * marked when it began, and has expired every timer that was due then. If a marked timer has an
 * unread event, and user space has changed its word since it expired, the event is withdrawn. The
 * argument must be 0.
 */
#define TWHEEL_IOC_KICK		_IO(TWHEEL_IOC_MAGIC, 0x09)
#define TWHEEL_IOC_STATS	_IOR(TWHEEL_IOC_MAGIC, 0x0a, struct twheel_stats)

#endif /* _LINUX_TWHEEL_H */
