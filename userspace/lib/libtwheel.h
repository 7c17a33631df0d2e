/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libtwheel: timeouts that are moved much more often than they expire.
 *
 * A wheel holds the timeouts. It is one descriptor, to be put into whatever
 * loop the program has; the library starts no thread and owns no loop. To arm,
 * move or disarm a timeout is one atomic exchange on a word that the program
 * shares with the wheel: no lock and, but for those that twheel_flush() sends
 * together, no system call.
 *
 *	struct twheel_ctx *wheel;
 *	struct twheel_event event;
 *	uint64_t id;
 *
 *	twheel_open(NULL, &wheel);
 *	twheel_start(wheel, twheel_now(wheel) + 5000000000, 42, &id);
 *	...
 *	twheel_move(wheel, id, twheel_now(wheel) + 5000000000);
 *	...
 *	while (twheel_wait(wheel, -1) > 0) {
 *		while (twheel_read(wheel, &event, 1) > 0) {
 *			printf("timeout %llu\n", event.user_data);
 *			twheel_stop(wheel, event.id);
 *		}
 *	}
 *
 * Two kinds
 *
 *   timeouts	twheel_start(), twheel_move(), twheel_stop(). Short-lived or
 *		long, one-shot, made and ended without a system call: their slots
 *		are kept for the next. After a stop that returned 1, the event
 *		will not be read. Each is stopped once, also when its event has been
 *		read: until then its slot is not free. After that its id may be what
 *		the next start returns: who uses it again moves or stops another
 *		timeout. This is what most programs want.
 *
 *   timers	twheel_register() and so on: all that <linux/twheel.h> offers
 *		(periods, slack, flags), a system call each. twheel_arm() and
 *		twheel_disarm() move those that were registered with
 *		%TWHEEL_KEEP, from any process that has the descriptor.
 *
 * Before you sleep
 *
 * An arming that the wheel has to be told of (an idle timeout, or one moved to
 * an earlier time) is collected by the thread that made it. twheel_wait() and
 * twheel_read() send what their thread has collected. A thread that sleeps
 * elsewhere, in a loop of its own say, calls twheel_flush() before; so does one
 * that works for long, as until then the wheel may not know of these.
 *
 * Two backends
 *
 * The wheel is the kernel's (/dev/twheel) or, where that cannot be opened, one
 * in this process, of the same source, behind a timerfd. twheel_open() chooses,
 * and twheel_backend() tells. Both have all functions. What only the kernel can
 * do: be shared with other processes, go on when this one hangs, and take the
 * ioctls of <linux/twheel.h>. A wheel in the process takes any tick. It is turned
 * by those who read it, so a timer that is due may count as armed until the next
 * read; twheel_fd() may become readable without an event, and in a forked child it
 * is gone: -ECHILD, but for twheel_arm() and twheel_disarm(), which do nothing there.
 *
 * Rules for all functions
 *
 *  - What can fail returns a negative errno, and has then changed nothing. Only
 *    the memory of a kernel wheel's table comes page by page, as it is first
 *    written to: a process whose control group has none left gets a SIGBUS.
 *  - Times are nanoseconds on the clock of the wheel, see twheel_now(). A
 *    deadline is absolute; one in the past expires at once, and 0 counts as 1.
 *  - Any thread may call any function at any time, but for two rules: nothing
 *    may be under way when twheel_close() is called, and one timeout is
 *    started, moved and stopped by one thread at a time.
 *  - None may be called from a signal handler, nor may that fork().
 *  - A thread that is cancelled ends in twheel_wait(), and not where others would
 *    wait for it. Let it not be in twheel_open() or twheel_close() then.
 */
#ifndef LIBTWHEEL_H
#define LIBTWHEEL_H

#include <errno.h>
#include <linux/twheel.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TWHEEL_VERSION_MAJOR	0
#define TWHEEL_VERSION_MINOR	1
#define TWHEEL_VERSION_PATCH	0

/**
 * twheel_version() - the version of the library that runs
 *
 * Return: "MAJOR.MINOR.PATCH".
 */
const char *twheel_version(void);

/* A wheel. */
struct twheel_ctx;

/* ---- Opening and closing ---- */

/* Flags of &struct twheel_options. */
/* The kernel's wheel or none. */
#define TWHEEL_OPEN_KERNEL	(1U << 0)
/* A wheel in this process. */
#define TWHEEL_OPEN_INPROCESS	(1U << 1)
/* On CLOCK_REALTIME, for which @clock_id stays 0. */
#define TWHEEL_OPEN_REALTIME	(1U << 2)

/**
 * struct twheel_options - the wheel that is wanted
 * @size: sizeof(struct twheel_options), so that it can grow
 * @flags: TWHEEL_OPEN_, or 0
 * @tick_ns: its resolution; the largest power of two not above it is taken
 * @clock_id: CLOCK_MONOTONIC, CLOCK_BOOTTIME or CLOCK_TAI; that the last has
 *	another offset, a wheel in the process hears when it is next called
 * @max_timers: how many timers and slots for timeouts there may be; each thread
 *	that starts timeouts keeps up to 256 slots for itself, see twheel_start()
 * @levels: levels of the hierarchy
 * @slot_bits: each has 2^slot_bits buckets
 *
 * 0 is the default of each. See &struct twheel_setup.
 */
struct twheel_options {
	uint32_t size;
	uint32_t flags;
	uint64_t tick_ns;
	uint32_t clock_id;
	uint32_t max_timers;
	uint32_t levels;
	uint32_t slot_bits;
};

/**
 * twheel_open() - make a wheel
 * @options: what is wanted, or NULL for the default of everything
 * @wheel: out: the wheel, for twheel_close() to end
 *
 * Without a flag that names a backend it is the kernel's if /dev/twheel is
 * there and may be opened, and else one in the process. The environment
 * variable TWHEEL_BACKEND, "kernel" or "inprocess", overrides the flags, but where
 * it is empty, or the program has more rights than who calls it (secure_getenv()).
 *
 * Return: 0; -EINVAL: impossible options, or a TWHEEL_BACKEND unknown; -E2BIG:
 * options that only a later version knows; -EPERM: so small a tick needs
 * CAP_SYS_RESOURCE; -EOPNOTSUPP: no such backend in this library or module;
 * -ENOMEM; -EAGAIN: the process has no pthread_key_t left; or why the device or
 * the timerfd cannot be opened.
 */
int twheel_open(const struct twheel_options *options, struct twheel_ctx **wheel);

/**
 * twheel_from_fd() - use a wheel that another process has opened
 * @fd: a descriptor of /dev/twheel, inherited or passed over a socket. It
 *	belongs to the wheel from now on, if this succeeds.
 * @wheel: out: the wheel, for twheel_close() to end
 *
 * Timers are shared by all who have the descriptor: an id that one has
 * registered can be armed by the other, and an event goes to one reader.
 * Timeouts are not: those of twheel_start() are to be read by the process that
 * started them, which therefore should be the only reader. If another drains the
 * wheel by %TWHEEL_DRAIN_CANCEL, those that were armed have ended: no event comes,
 * and twheel_move() and twheel_stop() say -ENOENT. That is noticed as long as their
 * slots have not gone to timers of yet another process, whose words would be
 * taken for theirs: so drain only where nobody registers.
 *
 * Return: 0; -ENOTTY: not a wheel; -EBADF; -EACCES: open for reading only;
 * -EOPNOTSUPP: the module has no table; -ENOMEM; -EAGAIN: see twheel_open().
 */
int twheel_from_fd(int fd, struct twheel_ctx **wheel);

/**
 * twheel_close() - end the use of a wheel
 * @wheel: the wheel, or NULL
 *
 * Its timeouts end. Its timers do if nobody else has the descriptor.
 */
void twheel_close(struct twheel_ctx *wheel);

/**
 * twheel_fd() - the descriptor to wait for
 * @wheel: the wheel
 *
 * Lent, for poll, epoll and the like: readable when twheel_read() may have
 * something. Do not close it, nor read it, but for a kernel wheel that has timers
 * only. That of a kernel wheel can be passed to another process, for
 * twheel_from_fd().
 *
 * Return: the descriptor.
 */
int twheel_fd(const struct twheel_ctx *wheel);

/**
 * twheel_backend() - whose wheel it is
 * @wheel: the wheel
 *
 * Return: "kernel" or "inprocess".
 */
const char *twheel_backend(const struct twheel_ctx *wheel);

/**
 * twheel_now() - the time on the clock of a wheel
 * @wheel: the wheel
 *
 * As the clock is in the time namespace of the caller: of use to those in that of
 * who opened the wheel.
 *
 * Return: ns. No system call, as far as the C library can do without.
 */
uint64_t twheel_now(const struct twheel_ctx *wheel);

/**
 * twheel_info() - what the wheel is
 * @wheel: the wheel
 * @info: out: as from the ioctl; a wheel in the process has no
 *	%TWHEEL_FEATURE_TABLE, as there is nothing to map
 */
void twheel_info(const struct twheel_ctx *wheel, struct twheel_info *info);

/**
 * twheel_counters() - what the wheel has done so far
 * @wheel: the wheel
 * @stats: out: as from the ioctl; what was done through the table counts from
 *	when the wheel has looked at it
 *
 * Return: 0, or a negative errno.
 */
int twheel_counters(struct twheel_ctx *wheel, struct twheel_stats *stats);

/**
 * struct twheel_usage - what the table has cost this process
 * @kicks: times that twheel_flush() had something to send
 * @kicked: slots that it sent
 * @refills: times that slots for timeouts were asked for, or given back unused
 * @withdrawn: timeouts that were stopped or moved when they had expired and
 *	were not read yet, or when another process had drained them
 *
 * Each is one system call of a kernel wheel, but for @kicked. To start, move
 * and stop timeouts, and to arm and disarm timers, made no others of it. What a
 * process takes for its memory is not counted: each thread maps a page or two for
 * each wheel that it uses. A forked child goes on from its parent's counts.
 */
struct twheel_usage {
	uint64_t kicks;
	uint64_t kicked;
	uint64_t refills;
	uint64_t withdrawn;
};

/**
 * twheel_usage() - what the table has cost so far
 * @wheel: the wheel
 * @usage: out
 */
void twheel_usage(const struct twheel_ctx *wheel, struct twheel_usage *usage);

/* ---- Timeouts ---- */

/**
 * twheel_start() - start a timeout
 * @wheel: the wheel
 * @deadline_ns: when it expires
 * @user_data: comes back in its event
 * @id: out: for twheel_move() and twheel_stop()
 *
 * Each started timeout is stopped once, whether its event has been read or
 * not: until then the id is its own.
 *
 * It takes the slot that this thread has freed last. No system call, if the wheel
 * will look at that one before @deadline_ns anyway; if the wheel looks in this very
 * moment, that is found out by the next twheel_flush(). Slots come by the 64, of
 * which a thread keeps up to 256 free ones for itself; up to four cache lines of
 * them are shared with no other thread.
 *
 * Return: 0; -ENOSPC: max_timers reached, with the free slots that other threads
 * keep; -ENOMEM.
 */
int twheel_start(struct twheel_ctx *wheel, uint64_t deadline_ns, uint64_t user_data,
		 uint64_t *id);

/**
 * twheel_move() - give a timeout another deadline
 * @wheel: the wheel
 * @id: a timeout that was started and not stopped
 * @deadline_ns: when it expires now
 *
 * The new deadline is armed even if the event of the old one has been read.
 *
 * Return: 1: of the old deadline no event was read, and none will be; 0: its
 * event has been read, by this thread or another; -ENOENT: no such timeout, or
 * another process has drained it, see twheel_from_fd().
 */
int twheel_move(struct twheel_ctx *wheel, uint64_t id, uint64_t deadline_ns);

/**
 * twheel_stop() - end a timeout
 * @wheel: the wheel
 * @id: a timeout that was started and not stopped
 *
 * The id is free then, and the next twheel_start() may give it out. If this
 * returns 0, the event may still be in an array that the thread goes through: pass
 * it over by a mark of the program's own, not by its id.
 *
 * Return: 1: its event was not read and never will be; 0: its event has been
 * read, by this thread or another; -ENOENT: no such timeout, or another process
 * has drained it.
 */
int twheel_stop(struct twheel_ctx *wheel, uint64_t id);

/* ---- Timers ---- */

/**
 * twheel_register() - make a timer, and arm it
 * @wheel: the wheel
 * @timer: in: user_data, deadline_ns (a delay without %TWHEEL_ABSTIME),
 *	period_ns, slack_ns, flags. Out: id, the absolute deadline, and the rest
 *
 * Return: 0; -EINVAL, -ENOSPC, -ENOMEM as <linux/twheel.h> says.
 */
int twheel_register(struct twheel_ctx *wheel, struct twheel_timer *timer);

/**
 * twheel_rearm() - give a timer another deadline, period, slack and flags
 * @wheel: the wheel
 * @timer: in: id and those. Out: state is what it was before
 *
 * An expiration that was not read yet is withdrawn.
 *
 * Return: 0; -ENOENT: no such timer; -EINVAL.
 */
int twheel_rearm(struct twheel_ctx *wheel, struct twheel_timer *timer);

/**
 * twheel_cancel() - end a timer
 * @wheel: the wheel
 * @id: the timer
 *
 * The kernel has no event of it afterwards. A thread that is in twheel_read()
 * meanwhile may have taken it just before.
 *
 * Return: what it was, %TWHEEL_IDLE, %TWHEEL_ARMED or %TWHEEL_EXPIRED (the event
 * is withdrawn); -ENOENT: no such timer.
 */
int twheel_cancel(struct twheel_ctx *wheel, uint64_t id);

/**
 * twheel_get() - read a timer
 * @wheel: the wheel
 * @timer: in: id. Out: all of it
 *
 * Return: 0; -ENOENT: no such timer.
 */
int twheel_get(struct twheel_ctx *wheel, struct twheel_timer *timer);

/**
 * twheel_batch() - many of these four in one call
 * @wheel: the wheel
 * @ops: what to do; result is 0 or a negative errno, each its own
 * @count: how many, at most %TWHEEL_BATCH_MAX
 *
 * Return: how many have a result, failed ones included; -EINVAL: too many.
 */
int twheel_batch(struct twheel_ctx *wheel, struct twheel_op *ops, unsigned int count);

/**
 * twheel_arm() - arm or move a timer by its word in the table
 * @wheel: the wheel
 * @id: a timer registered with %TWHEEL_KEEP, here or by another process. What
 *	is no timer any more is not noticed: its slot is armed, whoever has it.
 * @deadline_ns: when it expires
 *
 * One exchange, and nothing more if it is moved to a later time.
 *
 * Return: 1 if it was armed; 0 if it was idle, or has expired: an event that
 * was not read yet is withdrawn when the arming is flushed; -ENOENT: there can
 * be no such timer.
 */
int twheel_arm(struct twheel_ctx *wheel, uint64_t id, uint64_t deadline_ns);

/**
 * twheel_disarm() - disarm a timer by its word in the table
 * @wheel: the wheel
 * @id: as for twheel_arm()
 *
 * That arming ends here, and no other: if it was made over an expiration that
 * was not read, and was not flushed, that one may be read still. twheel_rearm()
 * with %TWHEEL_DISARMED withdraws it in any case.
 *
 * Return: 1: it was armed, and no event of that arming will be read; 0: it was
 * idle, or has expired, and twheel_rearm() or twheel_cancel() know which;
 * -ENOENT: there can be no such timer.
 */
int twheel_disarm(struct twheel_ctx *wheel, uint64_t id);

/* ---- Waiting and reading ---- */

/**
 * twheel_flush() - tell the wheel what this thread has collected
 * @wheel: the wheel
 *
 * One system call for all of it, none if there is nothing to tell. Call it
 * before you sleep anywhere but in twheel_wait(). A thread that ends flushes, and
 * twheel_close() does so for all.
 *
 * Return: 0, or a negative errno.
 */
int twheel_flush(struct twheel_ctx *wheel);

/**
 * twheel_read() - take events
 * @wheel: the wheel
 * @events: out: in the order of their ticks
 * @count: how many there is room for
 *
 * Flushes first. Never waits: see twheel_wait(), or wait for twheel_fd().
 * Timers and timeouts are told apart by user_data or id.
 *
 * Return: how many; 0: there are none now; -EINVAL: no room; -ECHILD.
 */
int twheel_read(struct twheel_ctx *wheel, struct twheel_event *events, size_t count);

/**
 * twheel_wait() - wait until there may be something to read
 * @wheel: the wheel
 * @timeout_ns: for how long at most; negative: for ever
 *
 * Flushes first.
 *
 * Return: 1: twheel_read() may have something; 0: the time has passed; -EINTR:
 * there was a signal.
 */
int twheel_wait(struct twheel_ctx *wheel, int64_t timeout_ns);

/* ---- Inline ---- */

/*
 * twheel_arm() and twheel_disarm() are functions of the library, and here once
 * more, as they are short: where the table is larger than a processor's caches, it
 * waits for fewer words at a time if it has a call to make for each. Compilers that
 * know how put them in the place of a call; with TWHEEL_NO_INLINE defined they do
 * not. What has two underscores here, and struct twheel_words, are the library's own;
 * the struct and __twheel_announce() are part of its ABI.
 */

/**
 * struct twheel_words - what a wheel begins with
 * @slots: the words
 * @nr_slots: how many
 */
struct twheel_words {
	struct twheel_slot *slots;
	uint32_t nr_slots;
};

#if defined(__GNUC__)

/* The parts, of which the library has no functions. */
#define __TWHEEL_PART	extern __inline__ __attribute__((__gnu_inline__, __always_inline__))

__TWHEEL_PART uint64_t __twheel_wake(const struct twheel_slot *slot)
{
	return __atomic_load_n(&slot->wake_ns, __ATOMIC_RELAXED);
}

/* What makes an exchange just before a full barrier. */
__TWHEEL_PART void __twheel_after_exchange(void)
{
#if defined(__x86_64__) || defined(__i386__)
	/* The instruction is one. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/*
 * Exchanges the word of a slot: publishes what was written before, and is a
 * full barrier before the read of wake_ns that follows. It is A of the model
 * of the module, and pairs with B in twheel_look().
 */
__TWHEEL_PART uint64_t __twheel_exchange(struct twheel_slot *slot, uint64_t deadline_ns)
{
	uint64_t old = __atomic_exchange_n(&slot->deadline_ns, deadline_ns, __ATOMIC_SEQ_CST);

	__twheel_after_exchange();
	return old;
}

/* The end of twheel_arm(), if the wheel has to be told. */
int __twheel_announce(struct twheel_ctx *wheel, uint64_t id, uint64_t old);

/* The generation is never 0. Of others one cannot tell. */
__TWHEEL_PART int __twheel_can_be(const struct twheel_ctx *wheel, uint64_t id)
{
	return (uint32_t)id < ((const struct twheel_words *)wheel)->nr_slots && id >> 32;
}

__TWHEEL_PART struct twheel_slot *__twheel_word(const struct twheel_ctx *wheel, uint64_t id)
{
	return ((const struct twheel_words *)wheel)->slots + (uint32_t)id;
}

/* The library defines this, and so gets the functions that are called. */
#ifdef TWHEEL_INLINE
#define __TWHEEL_HERE	1
#else
#define TWHEEL_INLINE	extern __inline__ __attribute__((__gnu_inline__))
#define __TWHEEL_HERE	(__GCC_ATOMIC_LLONG_LOCK_FREE == 2)
#endif

#if __TWHEEL_HERE && !defined(TWHEEL_NO_INLINE)

/*
 * How many words are fetched at a time is how many of these a processor can have
 * begun: where the table is larger than its caches, each instruction has its price.
 */
TWHEEL_INLINE int twheel_arm(struct twheel_ctx *wheel, uint64_t id, uint64_t deadline_ns)
{
	struct twheel_slot *slot;
	uint64_t old;

	if (__builtin_expect(!__twheel_can_be(wheel, id), 0))
		return -ENOENT;
	/* Long ago; in the word it would be to disarm. */
	if (__builtin_expect(!deadline_ns, 0))
		return twheel_arm(wheel, id, 1);
	slot = __twheel_word(wheel, id);
	old = __twheel_exchange(slot, deadline_ns);
	if (__builtin_expect(deadline_ns <= __twheel_wake(slot), 0))
		return __twheel_announce(wheel, id, old);
	return !!old;
}

TWHEEL_INLINE int twheel_disarm(struct twheel_ctx *wheel, uint64_t id)
{
	if (__builtin_expect(!__twheel_can_be(wheel, id), 0))
		return -ENOENT;
	return !!__twheel_exchange(__twheel_word(wheel, id), 0);
}

#endif /* !TWHEEL_NO_INLINE */
#endif /* __GNUC__ */

#ifdef __cplusplus
}
#endif

#endif /* LIBTWHEEL_H */
