/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libtwheel: timeouts that are moved much more often than they expire.
 *
 * A wheel holds timers. It is one descriptor, to be put into whatever loop the
 * program has; the library starts no thread and owns no loop. To arm, move or
 * disarm a timer is one atomic exchange on a word that the program shares with the
 * wheel: no lock and, as a rule, no system call.
 *
 *	struct twheel *wheel;
 *	struct twheel_event event;
 *	uint64_t id;
 *
 *	twheel_open(&wheel, NULL);
 *	twheel_add(wheel, twheel_after(wheel, 5000000000), 42, &id);
 *	...
 *	twheel_set(wheel, id, twheel_after(wheel, 5000000000));
 *	...
 *	while (twheel_wait(wheel, -1) > 0) {
 *		while (twheel_read(wheel, &event, 1) > 0) {
 *			printf("timeout %llu\n", event.user_data);
 *			twheel_del(wheel, event.id);
 *		}
 *	}
 *
 * Rules
 *
 *  - An int is 0 or more, or a negative errno. Then nothing has changed.
 *  - Times are nanoseconds on the clock of the wheel, see twheel_now(). A deadline is
 *    absolute. One in the past expires at once, and 0 counts as 1.
 *  - A timer is the program's from twheel_add() to twheel_del(), expired or not. When a
 *    call that arms it has returned, it is armed: its thread may sleep or end, and a
 *    thread that sleeps in twheel_wait() wakes for it.
 *  - Any thread may call any function at any time, with three exceptions. Nothing may
 *    be under way when twheel_close() is called. While one thread is in twheel_clear() or
 *    twheel_del(), no other thread may change the same timer. No function may be called
 *    from a signal handler.
 *  - A forked child that uses a wheel of its parent gets -ECHILD. It may close it.
 *  - A thread that is cancelled ends in twheel_wait() or in a handler, and nowhere else.
 *
 * A loop per thread, a wheel per thread: then the thread that reads an event is the one
 * that ends the timer. Where threads share a wheel, an event may be stale: another thread
 * may have set, cleared or deleted the timer since the event was read. Those calls
 * have returned 0 then. The program tells by a mark of its own, or by the id: ids are not
 * given twice, so compare it with the id that the object has now.
 *
 * Two backends
 *
 * A wheel is the kernel's (/dev/twheel), or one in this process, of the same source, behind
 * a timerfd. Both have all functions. Only the kernel's can be shared with other
 * processes, and goes on when this process hangs. A wheel in the process is turned by
 * the threads that wait for it or read it; its descriptor may become readable without an
 * event.
 */
#ifndef LIBTWHEEL_H
#define LIBTWHEEL_H

#include <errno.h>
#include <linux/twheel.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TWHEEL_VERSION_MAJOR	0
#define TWHEEL_VERSION_MINOR	2
#define TWHEEL_VERSION_PATCH	0

/**
 * twheel_version() - the version of the library that runs
 *
 * Return: "MAJOR.MINOR.PATCH".
 */
const char *twheel_version(void);

/* A wheel: one descriptor, no thread of its own. */
struct twheel;

/* ---- Opening and closing ---- */

/* Flags of &struct twheel_options. */
/* The kernel's wheel or none. */
#define TWHEEL_OPEN_KERNEL	(1U << 0)
/* A wheel in this process. */
#define TWHEEL_OPEN_INPROCESS	(1U << 1)
/* On CLOCK_REALTIME, for which @clock_id stays 0. */
#define TWHEEL_OPEN_REALTIME	(1U << 2)
/* Each id is checked before anything is done: finds every use of a stale one. */
#define TWHEEL_OPEN_CHECKED	(1U << 3)

/**
 * struct twheel_options - the wheel that is wanted
 * @size: sizeof(struct twheel_options), so that it can grow
 * @flags: TWHEEL_OPEN_, or 0
 * @tick_ns: its resolution; the largest power of two not above it is taken
 * @slack_ns: how late the timers of twheel_add() may be beyond their tick
 * @clock_id: CLOCK_MONOTONIC, CLOCK_BOOTTIME or CLOCK_TAI
 * @max_timers: how many timers there may be
 * @levels: levels of the hierarchy
 * @slot_bits: each has 2^slot_bits buckets
 *
 * 0 is the default of each. See &struct twheel_setup.
 */
struct twheel_options {
	uint32_t size;
	uint32_t flags;
	uint64_t tick_ns;
	uint64_t slack_ns;
	uint32_t clock_id;
	uint32_t max_timers;
	uint32_t levels;
	uint32_t slot_bits;
};

/**
 * twheel_open() - make a wheel
 * @wheel: out: the wheel, for twheel_close() to end
 * @options: what is wanted, or NULL for the default of everything
 *
 * Without a flag that names a backend it is the kernel's if /dev/twheel is there and may
 * be opened, and else one in the process. The environment variable TWHEEL_BACKEND,
 * "kernel" or "inprocess", overrides the flags. TWHEEL_CHECKED=1 means
 * %TWHEEL_OPEN_CHECKED. Neither counts where secure_getenv() ignores it.
 *
 * Return: 0; -EINVAL: impossible options, or a TWHEEL_BACKEND unknown; -E2BIG: options
 * that only a later version knows; -EPERM: so small a tick needs CAP_SYS_RESOURCE;
 * -EOPNOTSUPP: no such backend in this library or module; -ENOMEM; -EAGAIN: the process
 * has no pthread_key_t left; or why the device or the timerfd cannot be opened.
 */
int twheel_open(struct twheel **wheel, const struct twheel_options *options);

/**
 * twheel_open_fd() - use a wheel that another process has opened
 * @wheel: out: the wheel, for twheel_close() to end
 * @fd: a descriptor of /dev/twheel, inherited or passed over a socket. If this succeeds
 *	it belongs to the wheel
 *
 * All that have the descriptor share the timers of REGISTER: see twheel_submit(). An
 * event goes to one reader. The timers of twheel_add() are this process's own, which
 * therefore should be the only one that reads.
 *
 * Return: 0; -ENOTTY: not a wheel; -EBADF; -EACCES: open for reading only; -EOPNOTSUPP:
 * the module is older; -ENOMEM; -EAGAIN: see twheel_open().
 */
int twheel_open_fd(struct twheel **wheel, int fd);

/**
 * twheel_close() - end the use of a wheel
 * @wheel: the wheel, or NULL
 *
 * The timers of twheel_add() end. Those of REGISTER do if nobody else has the
 * descriptor. In a forked child it frees what the child has, and no timer ends.
 */
void twheel_close(struct twheel *wheel);

/**
 * twheel_fd() - the descriptor to wait for
 * @wheel: the wheel
 *
 * Lent, for poll, epoll and the like: readable when twheel_read() may have something. Do
 * not close or read it. That of a kernel wheel can be passed to another process.
 *
 * Return: the descriptor, never below 3.
 */
int twheel_fd(const struct twheel *wheel);

/**
 * twheel_now() - the time on the clock of a wheel
 * @wheel: the wheel
 *
 * Return: ns. No system call, as far as the C library can do without.
 */
uint64_t twheel_now(const struct twheel *wheel);

/**
 * twheel_after() - the time that is a delay from now
 * @wheel: the wheel
 * @delay_ns: the delay
 *
 * Return: ns; what lies past the end of time is ~0, never.
 */
uint64_t twheel_after(const struct twheel *wheel, uint64_t delay_ns);

/**
 * twheel_next() - no deadline comes before this
 * @wheel: the wheel
 *
 * For loops that are embedded by a number. A lower bound, without a system call: it may
 * be earlier than the first deadline, and an event comes up to a tick later. Of timers
 * with slack it bounds the events.
 *
 * Return: ns; 0: something is due; ~0: no timer is armed.
 */
uint64_t twheel_next(const struct twheel *wheel);

/**
 * twheel_backend() - whose wheel it is
 * @wheel: the wheel
 *
 * Return: "kernel" or "inprocess".
 */
const char *twheel_backend(const struct twheel *wheel);

/**
 * twheel_info() - what the wheel is
 * @wheel: the wheel
 * @info: out: as from the ioctl; table_bytes is 0 for a wheel in the process
 *
 * Return: 0; -ECHILD.
 */
int twheel_info(const struct twheel *wheel, struct twheel_info *info);

/**
 * twheel_stats() - what the wheel has done so far
 * @wheel: the wheel
 * @stats: out: as from the ioctl; what was exchanged counts from when the wheel has
 *	looked at it. Free slots that the library keeps count as allocated
 *
 * Return: 0, or a negative errno.
 */
int twheel_stats(struct twheel *wheel, struct twheel_stats *stats);

/**
 * struct twheel_usage - system calls that timers have cost
 * @kicks: a deadline came before every other thing that the wheel waited for
 * @refills: slots were asked for, 64 at a time
 * @withdrawn: a timer was set, cleared or deleted when it had expired and its event was
 *	unread
 *
 * Each is one system call of a kernel wheel. twheel_add(), twheel_set(), twheel_clear() and
 * twheel_del() made no others of it.
 */
struct twheel_usage {
	uint64_t kicks;
	uint64_t refills;
	uint64_t withdrawn;
};

/**
 * twheel_usage() - what timers have cost so far
 * @wheel: the wheel
 * @usage: out
 *
 * Return: 0; -ECHILD.
 */
int twheel_usage(const struct twheel *wheel, struct twheel_usage *usage);

/* ---- Timers ---- */

/**
 * twheel_add() - make a timer, and arm it
 * @wheel: the wheel
 * @deadline: when it expires
 * @user_data: comes back in its events
 * @id: out: for the other functions
 *
 * Return: 0; -ENOSPC: max_timers reached, with up to 128 free slots that each thread
 * keeps; -ENOMEM; -ECHILD.
 */
int twheel_add(struct twheel *wheel, uint64_t deadline, uint64_t user_data, uint64_t *id);

/**
 * twheel_set() - give a timer another deadline: arm, move, arm again
 * @wheel: the wheel
 * @id: a timer
 * @deadline: when it expires now
 *
 * One exchange if it is armed. If it has expired and its event is unread, the event is
 * withdrawn.
 *
 * Return: 1: this ended an arming of which no event was read nor ever will be; 0: there
 * was none, or its event has been read; -ENOENT: no such timer, as far as that is
 * noticed: an armed timer is moved whatever the high half of @id is, unless the wheel
 * is %TWHEEL_OPEN_CHECKED; -ECHILD.
 */
int twheel_set(struct twheel *wheel, uint64_t id, uint64_t deadline);

/**
 * twheel_clear() - disarm a timer, and keep it
 * @wheel: the wheel
 * @id: a timer
 *
 * Return: as twheel_set().
 */
int twheel_clear(struct twheel *wheel, uint64_t id);

/**
 * twheel_del() - disarm a timer, and give it back
 * @wheel: the wheel
 * @id: a timer. The id is not given out again
 *
 * Return: as twheel_set(); a stale @id is always -ENOENT.
 */
int twheel_del(struct twheel *wheel, uint64_t id);

/* ---- Waiting and reading ---- */

/**
 * twheel_wait() - wait until there may be something to read
 * @wheel: the wheel
 * @timeout_ns: for how long at most; negative: for ever
 *
 * Return: 1: there may be something to read, or twheel_wake() was called: then call
 * twheel_read(); 0: the time is up; -EINTR: there was a signal; -ECHILD.
 */
int twheel_wait(struct twheel *wheel, int64_t timeout_ns);

/**
 * twheel_wake() - end a wait of another thread
 * @wheel: the wheel
 *
 * The descriptor becomes readable, without an event. If no thread waits, the next
 * twheel_wait() returns at once. twheel_read() ends that.
 *
 * Return: 0, or a negative errno.
 */
int twheel_wake(struct twheel *wheel);

/**
 * twheel_read() - take events
 * @wheel: the wheel
 * @events: out: in the order of their ticks. Equal deadlines come in the order in which they
 *	were armed, if they were armed within 64 ticks of the deadline; beyond, the order
 *	of equals is not specified
 * @n: how many there is room for
 *
 * Never waits.
 *
 * Return: how many; 0: there are none now; -EINVAL: no room; -ECHILD.
 */
int twheel_read(struct twheel *wheel, struct twheel_event *events, unsigned int n);

/* ---- All that <linux/twheel.h> has beyond that ---- */

/**
 * twheel_submit() - do operations: periods, slack, timers that are shared
 * @wheel: the wheel
 * @ops: what to do, as for TWHEEL_IOC_BATCH; result is 0 or a negative errno, each its own
 * @n: how many, at most %TWHEEL_BATCH_MAX
 *
 * Ids of twheel_add() and of TWHEEL_OP_REGISTER are taken here and by all functions
 * alike. CANCEL of a timer of twheel_add() is twheel_del(); a REARM keeps it, whatever
 * the flags. twheel_set() needs %TWHEEL_KEEP of a timer of REGISTER.
 *
 * Return: how many have a result, failed ones included; -EINVAL: too many; -ECHILD.
 */
int twheel_submit(struct twheel *wheel, struct twheel_op *ops, unsigned int n);

/**
 * twheel_list() - the live timers, a part at a time
 * @wheel: the wheel
 * @timers: out
 * @n: how many there is room for
 * @cursor: in: 0 at first. Out: where to go on
 *
 * Return: how many; 0: there are no more; a negative errno.
 */
int twheel_list(struct twheel *wheel, struct twheel_timer *timers, unsigned int n,
		uint32_t *cursor);

/**
 * twheel_drain() - every armed timer at once
 * @wheel: the wheel
 * @mode: %TWHEEL_DRAIN_EXPIRE: makes them readable. %TWHEEL_DRAIN_CANCEL: drops their
 *	armings. Timers of REGISTER end by that, those of twheel_add() are kept
 *
 * Return: how many there were; -EINVAL; -ECHILD.
 */
int twheel_drain(struct twheel *wheel, unsigned int mode);

#ifdef __cplusplus
}
#endif

#endif /* LIBTWHEEL_H */
