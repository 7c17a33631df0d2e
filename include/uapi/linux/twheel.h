/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR MIT) */
/*
 * /dev/twheel: a timing wheel in the kernel, for very many timeouts.
 *
 * One open of the device is one wheel. Timers are made, moved and ended by ioctl. poll()
 * reports expirations, and read() returns each as a whole &struct twheel_event. 32-bit and
 * 64-bit programs see the same bytes.
 *
 * Times are nanoseconds on the clock of the wheel, as the time namespace of the process
 * that opened it shows that clock.
 *
 * mmap() of all &struct twheel_info.table_bytes, at offset 0 and MAP_SHARED, gives the
 * deadline table: &struct twheel_table, and &struct twheel_slot for each timer. Any range of
 * its pages can be mapped on its own. Once TWHEEL_IOC_REGISTER has returned, all of the table
 * that belongs to the timer is there. The mapping keeps the wheel after close(); a child
 * inherits it. It can neither grow nor be executed.
 *
 * Errors, one meaning each:
 *
 *   EINVAL  unknown flag, non-zero reserved field, impossible value,
 *           read() into less than one event, mmap() of something else
 *   ENOTTY  unknown command
 *   ENOENT  no live timer has this id
 *   EBADF   SETUP, REGISTER, REARM, CANCEL, BATCH or KICK on a descriptor that is not open
 *           for writing; read() on one that is not open for reading
 *   EBUSY   SETUP after the first timer or mapping
 *   EACCES  mmap() or mprotect() beyond the mode of the descriptor; mprotect()
 *           to execute
 *   EOPNOTSUPP  mmap() where an exchange may take the kernel any time
 *   EPERM   a tick below min_tick_ns, without CAP_SYS_RESOURCE; mmap() to execute
 *   ENOSPC  the wheel holds max_timers already; or the user who opened it has
 *           max_wheels_per_user, or his wheels take max_bytes_per_user
 *   ENOMEM  no memory, or none left in the memory cgroup
 *   EFAULT  bad pointer; nothing was done, or what was done is the return value
 *   EAGAIN  read() of a non-blocking descriptor: nothing is unread
 *   EINTR   a signal came: before the first event of a read(), or before a KICK was done
 */
#ifndef _LINUX_TWHEEL_H
#define _LINUX_TWHEEL_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Flag of &struct twheel_setup: CLOCK_REALTIME, which is 0, as the default is. */
#define TWHEEL_SETUP_REALTIME	(1U << 0)

/**
 * struct twheel_setup - the shape of a wheel (TWHEEL_IOC_SETUP)
 * @tick_ns: the resolution that is wanted. The wheel takes the largest power of two
 *	that is not above it. Default: 1 ms (2^19 ns), or min_tick_ns if that is longer.
 * @clock_id: CLOCK_MONOTONIC (default), CLOCK_BOOTTIME or CLOCK_TAI; for
 *	CLOCK_REALTIME leave it 0 and set %TWHEEL_SETUP_REALTIME.
 * @max_timers: how many timers may exist at a time.
 * @levels: 1 to 16; one is a hashed wheel. The wheel has no more than a 64-bit deadline
 *	can use. Default: as many as that, and as fit.
 * @slot_bits: each level has 2^slot_bits buckets, 4 to 12. Default: 6. All levels together
 *	have at most 4,096: levels << slot_bits.
 * @flags: %TWHEEL_SETUP_REALTIME or 0.
 * @reserved: zero.
 *
 * Zero in a field means the default. On return each field is what the wheel has.
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
/* The table has marks, and next_ns. */
#define TWHEEL_FEATURE_MARKS	(1U << 1)
/* A word may be %TWHEEL_PARKED. */
#define TWHEEL_FEATURE_PARKED	(1U << 2)

/**
 * struct twheel_info - what this wheel is (TWHEEL_IOC_INFO)
 * @features: TWHEEL_FEATURE_ bits.
 * @tick_ns: its resolution, a power of two.
 * @min_tick_ns: the smallest tick_ns without CAP_SYS_RESOURCE.
 * @horizon_ns: span of all levels, ~0 if it is all time. A deadline beyond it is exact
 *	as well.
 * @table_bytes: how much to map; 0 where %TWHEEL_FEATURE_TABLE is not set.
 * @clock_id: CLOCK_ of its times.
 * @max_timers: how many timers may exist at a time.
 * @levels: levels of the hierarchy.
 * @slot_bits: each level has 2^slot_bits buckets.
 * @reserved: zero for now.
 *
 * Before SETUP or the first timer: what the defaults would give.
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
/* deadline_ns is absolute; without it, a delay from now. */
#define TWHEEL_ABSTIME		(1U << 0)
/* The timer outlives its expiration, idle, until re-armed or canceled. */
#define TWHEEL_KEEP		(1U << 1)
/* Do not arm. REGISTER (with KEEP) reserves a timer, REARM disarms one. */
#define TWHEEL_DISARMED		(1U << 2)

/* States of a timer. */
#define TWHEEL_IDLE		0U	/* neither armed nor unread */
#define TWHEEL_ARMED		1U	/* will expire */
#define TWHEEL_EXPIRED		2U	/* has expired and was not read yet */

/**
 * struct twheel_timer - one timer, the argument of each verb on one timer
 * @id: low 32 bits: its slot; high 32 bits: a generation that is never 0. Out for
 *	REGISTER. Without %TWHEEL_KEEP or a period it ends when the event has been read.
 * @user_data: comes back in each event. REGISTER takes it, REARM leaves it.
 * @deadline_ns: in: when it expires, or in how long. 0 counts as "now". Past the end of
 *	time it never expires. Out: absolute; 0 if idle.
 * @period_ns: 0, or at least one tick: expires again at deadline + k * period.
 * @slack_ns: how late it may be beyond its tick, to save wake-ups. REARM replaces this,
 *	@period_ns and @flags as well.
 * @flags: %TWHEEL_ABSTIME, %TWHEEL_KEEP, %TWHEEL_DISARMED. CANCEL and GET only check them.
 * @state: out. REGISTER, GET, LIST: what it is now. REARM, CANCEL: what it was before.
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
 * struct twheel_op - one entry of a batch
 * @timer: as for the ioctl of that name.
 * @opcode: TWHEEL_OP_
 * @result: out: 0 or a negative errno.
 */
struct twheel_op {
	struct twheel_timer timer;
	__u32 opcode;
	__s32 result;
};

/* How many entries a batch may have. */
#define TWHEEL_BATCH_MAX	65536U

/**
 * struct twheel_batch - many verbs in one call (TWHEEL_IOC_BATCH)
 * @ops: address of an array of &struct twheel_op.
 * @count: its length, at most %TWHEEL_BATCH_MAX.
 * @flags: zero.
 *
 * Done in order. One that fails stops nothing. The ioctl returns how many have a result,
 * failed ones included, and EFAULT only if none has.
 */
struct twheel_batch {
	__u64 ops;
	__u32 count;
	__u32 flags;
};

/**
 * struct twheel_list - the live timers, a part at a time (TWHEEL_IOC_LIST)
 * @timers: address of an array of &struct twheel_timer.
 * @count: its length.
 * @cursor: in: the slot to start from, 0 at first. Out: where to go on.
 *
 * The ioctl returns how many were copied, 0 at the end. A timer that nobody
 * touches meanwhile is seen exactly once.
 */
struct twheel_list {
	__u64 timers;
	__u32 count;
	__u32 cursor;
};

/**
 * struct twheel_event - what read() returns: a timer has expired
 * @id: of the timer; it ends here, unless it is kept or periodic.
 * @user_data: as registered.
 * @deadline_ns: when it should have expired (the first time, if @expirations is above 1).
 * @expired_ns: when it was taken off the wheel; less @deadline_ns, how late.
 * @expirations: 1, or the number of periods since the last event. Never 0.
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
 * struct twheel_stats - what the wheel has done so far (TWHEEL_IOC_STATS)
 * @armed: timers that are armed now, as of the kernel's last look at each.
 * @unread: expirations that nobody has read yet.
 * @allocated: timers that exist now.
 * @registered: timers made.
 * @rearmed: REARMs done.
 * @cancelled: timers ended by CANCEL.
 * @expired: armings that became readable.
 * @delivered: events read.
 * @armings: times that a timer was armed, by whatever door.
 * @displaced: armings that ended unexpired: re-armed, canceled or dropped.
 * @withdrawn: expirations that were taken back unread: by REARM, CANCEL, or a KICK
 *	after the word was changed.
 * @moved: timers looked at, found to have another deadline, and queued anew.
 * @cascaded: times that a timer moved down a level, or went round the top one.
 * @wakeups: times that the wheel was turned by its own timer, or by its worker.
 * @worst_lateness_ns: the longest from a deadline to being taken off the wheel.
 * @lateness: [i]: how many were late by 2^i ns or more but less than 2^(i+1); [0] has the
 *	zeroes too. A timer armed for the past counts neither here nor as the worst.
 * @lateness_sum_ns: the sum of what @lateness counts.
 * @reserved: zero for now.
 *
 * At any moment: armings = expired + displaced + armed, and
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
 * @slots_offset: bytes from here to the first &struct twheel_slot.
 * @slot_size: bytes from one slot to the next.
 * @slots: how many there are.
 * @tick_ns: as in &struct twheel_info.
 * @clock_id: as in &struct twheel_info.
 * @features: as in &struct twheel_info. The rest is there if it has
 *	%TWHEEL_FEATURE_MARKS.
 * @next_ns: the kernel's word, to be read atomically: when it will turn the wheel
 *	next. 0: at once. ~0: never.
 * @marks_offset: bytes from here to the marks. Slot n has bit n % 64 of the __u64
 *	number n / 64. Set by atomic or.
 * @summary_offset: bytes from here to the summary: likewise a bit for 2^@summary_shift
 *	slots.
 * @summary_shift: see there.
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
 * A word that is disarmed, as 0 is: the kernel treats both alike. The owner of a timer may write
 * it when an exchange has given him a deadline, so no event of the timer is outstanding. Then
 * whoever arms the timer next knows that, too. As a deadline for REGISTER or REARM it means never.
 */
#define TWHEEL_PARKED		(~0ULL - 1)

/**
 * struct twheel_slot - one timer in the mapping
 * @deadline_ns: the truth about the timer: 0 and %TWHEEL_PARKED are disarmed, anything else is
 *	when it expires. Written by atomic exchange only.
 * @wake_ns: the kernel's word, to be read atomically: at deadlines later than this it
 *	looks by itself. ~0: it will not look.
 *
 * Atomic means all 64 bits at once: a plain access of a 32-bit program is two.
 *
 * To arm or move a timer to t:
 *
 *  1. Exchange @deadline_ns for t, an absolute time. Full barrier.
 *  2. Read @wake_ns. If t is later, that is all.
 *  3. Set the mark of the slot if it is not set. Then set the bit of the summary if
 *     it is not set. Full barrier.
 *  4. Read next_ns of the header. If t is later, that is all.
 *  5. TWHEEL_IOC_KICK.
 *
 * To disarm: exchange @deadline_ns for 0. If that gives 0, the timer was idle or has
 * expired; else no event of that arming will come. Then, and if no event of a period before is
 * unread, the word may become %TWHEEL_PARKED.
 *
 * To arm a timer whose expiration is unread withdraws that event at the KICK, also if a turn
 * comes between the mark and the KICK. A read that comes before the KICK delivers the event,
 * and the new arming stands. A periodic timer's word is its next deadline: to exchange it for
 * 0 ends that period and those after it, and an unread event stays.
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
 * Turns the wheel now: looks at what was marked, and takes what is due, until nothing of that
 * is left. An unread event is withdrawn if user space has changed the word of its timer since
 * it expired. The argument is 0. Returns 0.
 */
#define TWHEEL_IOC_KICK		_IO(TWHEEL_IOC_MAGIC, 0x09)
#define TWHEEL_IOC_STATS	_IOR(TWHEEL_IOC_MAGIC, 0x0a, struct twheel_stats)

#endif /* _LINUX_TWHEEL_H */
