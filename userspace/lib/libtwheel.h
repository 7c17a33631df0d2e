/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libtwheel: timers that are moved much more often than they expire.
 *
 * A wheel holds the timers. It is one descriptor for the loop that the program has.
 * The library starts no thread and owns no loop. A timer that is armed is moved or
 * disarmed by one atomic instruction, without a lock or a system call.
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
 *			printf("timer %llu\n", event.user_data);
 *			twheel_del(wheel, event.id);
 *		}
 *	}
 *
 * The life of a timer
 *
 *   twheel_add()	makes a timer and arms it
 *   twheel_set()	gives it another deadline, whether it is armed or has expired
 *   twheel_clear()	disarms it; the program keeps the id
 *   twheel_del()	disarms it and gives it back
 *
 * A loop that does this to many timers in one turn has twheel_add_many(),
 * twheel_set_many() and twheel_del_many().
 *
 * A timer belongs to the program from add to del, whether it expires or not. When one
 * of these functions has returned, the wheel knows.
 *
 * Two backends
 *
 * The wheel is the kernel's (/dev/twheel), or it is one in this process, behind a
 * timerfd. Both have all functions. Only the kernel's can be shared with other
 * processes, and goes on when this process hangs. The in-process wheel accepts any
 * tick. Only a wait, a read or a kick turns it, so an unread timer that is due may
 * be reported as armed, and twheel_fd() may be readable without an event.
 *
 * Threads
 *
 *  - Any thread may call any function at any time. No call may be under way when
 *    twheel_close() is called.
 *  - Two threads may call twheel_set() for one timer at the same time. While
 *    twheel_clear() or twheel_del() runs, no other thread may set, clear or delete
 *    the same timer.
 *  - If threads share a wheel, a thread may read the event of a timer that belongs to
 *    another. That event is stale if the owner has moved the timer meanwhile. To avoid
 *    this, give each loop a thread and a wheel of its own. To detect it, lock the
 *    object of the timer and compare its deadline with that of the event.
 *  - A thread that is canceled ends in twheel_wait(), and in no other function.
 *  - Call no function from a signal handler, and do not fork in one.
 *
 * Fork
 *
 * In a child, all functions on a wheel of the parent return -ECHILD, or do nothing. Only
 * twheel_fd(), twheel_backend(), twheel_backend_reason(), twheel_now(), twheel_after() and
 * twheel_close() work. To use the kernel's wheel in the child, call twheel_open_fd() with
 * its descriptor.
 *
 * Times are nanoseconds on the clock of the wheel, see twheel_now(). A deadline is
 * absolute. A deadline in the past expires at once, 0 counts as 1, and ~0 never comes, and
 * nor does ~0 - 1, which is %TWHEEL_PARKED.
 *
 * Timers of one deadline expire in the order in which they were armed if the deadline is
 * so near that the finest level holds it (33 ms by default). Farther away, this is not
 * promised.
 *
 * Functions that return int return 0 or more, or a negative errno. After an error
 * nothing has changed.
 */
#ifndef LIBTWHEEL_H
#define LIBTWHEEL_H

#include <errno.h>
#include <libtwheel/twheel.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#if defined(__GNUC__) && !defined(__clang__)
/* A function here may have the name of a struct, as stat() has. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#endif

#define TWHEEL_VERSION_MAJOR	0
#define TWHEEL_VERSION_MINOR	3
#define TWHEEL_VERSION_PATCH	0

/* A wheel. */
struct twheel;

/* ---- Opening and closing ---- */

/* Flags of &struct twheel_options. */
/* The kernel's wheel or none. */
#define TWHEEL_OPEN_KERNEL	(1U << 0)
/* A wheel in this process. */
#define TWHEEL_OPEN_INPROCESS	(1U << 1)
/* On CLOCK_REALTIME; leave @clock_id 0. */
#define TWHEEL_OPEN_REALTIME	(1U << 2)
/* Check each id before anything is changed: a stale one is -ENOENT everywhere. */
#define TWHEEL_OPEN_CHECKED	(1U << 3)

/**
 * struct twheel_options - the wheel that is wanted
 * @size: sizeof(struct twheel_options), so that it can grow. Zero: as in version 0.2
 * @flags: TWHEEL_OPEN_, or 0
 * @tick_ns: the resolution. The wheel takes the largest power of two not above it
 * @slack_ns: how late the timers of twheel_add() may be beyond their tick
 * @clock_id: CLOCK_MONOTONIC, CLOCK_BOOTTIME or CLOCK_TAI. If ADJ_TAI sets the last forward, a
 *	wheel in the process notices within a second
 * @max_timers: how many timers there may be. Deleted ones are kept for the next add and
 *	count: each thread keeps up to 128 of them
 * @levels: levels of the hierarchy
 * @slot_bits: each level has 2^slot_bits buckets
 * @device: the device of the kernel's wheel, in place of /dev/twheel. If it is not NULL, no
 *	other backend is taken, whatever the environment says
 *
 * Zero in a field means the default. See &struct twheel_setup.
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
	const char *device;
};

/**
 * twheel_open() - make a wheel
 * @wheel: out: the wheel, for twheel_close()
 * @options: what is wanted, or NULL for the defaults
 *
 * If no flag names a backend, the wheel is the kernel's. If /dev/twheel is not there, or
 * the process may not open it, the wheel is one in this process. The environment variable
 * TWHEEL_BACKEND ("kernel" or "inprocess") overrides the flags. TWHEEL_CHECKED=1 sets
 * %TWHEEL_OPEN_CHECKED. A setuid program ignores both variables.
 *
 * Return: 0; -EINVAL: impossible options, or an unknown TWHEEL_BACKEND; -E2BIG: options
 * of a later version; -EPERM: so small a tick needs CAP_SYS_RESOURCE; -EOPNOTSUPP: this
 * library or module has no such backend; -ENOMEM; -ESHUTDOWN: the process exits, and the
 * library has left it; -ENOENT: with %TWHEEL_OPEN_KERNEL, the module is not loaded;
 * -EACCES: with %TWHEEL_OPEN_KERNEL, the device is not permitted.
 */
int twheel_open(struct twheel **wheel, const struct twheel_options *options);

/**
 * twheel_open_fd() - use a kernel wheel that another process has opened
 * @wheel: out: the wheel, for twheel_close()
 * @fd: a descriptor of /dev/twheel, inherited or passed over a socket. If this
 *	succeeds, it belongs to the wheel
 *
 * All processes that have the descriptor share the timers of REGISTER: an id that one
 * has registered can be set by the other, and an event goes to one reader. Timers of
 * twheel_add() are not shared. The process that adds them must be the only reader.
 *
 * If a process was killed, twheel_list() of the others also shows timers that its library
 * made. They have a user_data of 0, and twheel_del() takes them.
 *
 * Return: 0; -ENOTTY: not a wheel; -EBADF; -EACCES: open for reading only; -EOPNOTSUPP:
 * the module has no marks; -ENOMEM.
 */
int twheel_open_fd(struct twheel **wheel, int fd);

/**
 * twheel_observe_fd() - look at a kernel wheel of another process
 * @wheel: out: the wheel, for twheel_close()
 * @fd: as for twheel_open_fd(), also one that is open for reading only
 *
 * The wheel and its timers stay as they are. twheel_info(), twheel_stats(), twheel_list(),
 * twheel_next() and twheel_metrics() work. All functions that would change the wheel, and
 * twheel_read(), return -EACCES or -ENOENT. The ids and the user_data of twheel_list() are
 * the kernel's: they differ from those of twheel_add(). The library of the other process
 * keeps idle timers, which are listed, too.
 *
 * Return: 0; -ENOTTY: not a wheel; -EBADF; -ENOMEM.
 */
int twheel_observe_fd(struct twheel **wheel, int fd);

/**
 * twheel_close() - end the use of a wheel
 * @wheel: the wheel, or NULL
 *
 * The timers of twheel_add() end. Those of REGISTER end if nobody else has the
 * descriptor. In a child of fork() this frees the child's part only.
 */
void twheel_close(struct twheel *wheel);

/**
 * twheel_fd() - the descriptor to wait for
 * @wheel: the wheel
 *
 * For poll, epoll and the like. It is readable when twheel_read() may have something.
 * Do not close or read it.
 *
 * Return: the descriptor. It is never below 3.
 */
int twheel_fd(const struct twheel *wheel);

/**
 * twheel_backend() - whose wheel it is
 * @wheel: the wheel
 *
 * Return: "kernel" or "inprocess".
 */
const char *twheel_backend(const struct twheel *wheel);

/**
 * twheel_backend_reason() - why the wheel is not the kernel's
 * @wheel: the wheel
 *
 * For the log of a program that takes either backend. twheelctl doctor says what to do.
 *
 * Return: a text without an end of line; "" if the wheel is the kernel's.
 */
const char *twheel_backend_reason(const struct twheel *wheel);

/**
 * twheel_now() - the time on the clock of a wheel
 * @wheel: the wheel
 *
 * If the wheel was opened in another time namespace, and came here by twheel_open_fd() or
 * twheel_observe_fd(), this is the time there, to within some microseconds. Without /proc the
 * library cannot find out, and it counts on the clock of the caller's namespace.
 *
 * Return: ns.
 */
uint64_t twheel_now(const struct twheel *wheel);

/**
 * twheel_after() - a deadline from a delay
 * @wheel: the wheel
 * @delay_ns: how long from now
 *
 * Return: the deadline; ~0 (never) if that is past the end of time.
 */
uint64_t twheel_after(const struct twheel *wheel, uint64_t delay_ns);

/**
 * twheel_next() - no event comes before this
 * @wheel: the wheel
 *
 * For loops that take a number instead of a descriptor: how long may the loop sleep? Call
 * twheel_read() until it returns 0, then this, then sleep until the answer. The answer may be too
 * early, but it is never too late.
 *
 * A wheel in the process knows its first deadline exactly, as long as at most 64 timers share the
 * earliest bucket of a level; if there are more, the answer is early by at most the width of that
 * bucket. Buckets are wider the farther away they are, see twheel(7). So are the steps in which
 * the kernel's wheel approaches its first deadline. It takes one system call to find out whether
 * one of its events is unread.
 *
 * An arming that another process has just begun may be missed. If other processes arm timers of
 * the wheel, wait for twheel_fd() instead. For an observed wheel, unread events do not count.
 *
 * Return: ns, at most the first deadline, or that plus the slack of its timer. The event
 * comes up to a tick later: a loop that finds nothing then should sleep for a tick. 0: an
 * event is unread, or comes at once. ~0: no timer is armed.
 */
uint64_t twheel_next(const struct twheel *wheel);

/**
 * twheel_info() - what the wheel is
 * @wheel: the wheel
 * @info: out: as from the ioctl. An in-process wheel has a table_bytes of 0
 *
 * Return: 0, or -ECHILD.
 */
int twheel_info(const struct twheel *wheel, struct twheel_info *info);

/**
 * twheel_stats() - what the wheel has done so far
 * @wheel: the wheel
 * @stats: out: as from the ioctl. The timers that the library keeps for the next
 *	twheel_add() count as allocated
 *
 * Return: 0, or a negative errno.
 */
int twheel_stats(struct twheel *wheel, struct twheel_stats *stats);

/**
 * twheel_metrics() - write the statistics of a wheel for Prometheus
 * @wheel: the wheel
 * @labels: more labels, like loop="3",role="peer", or NULL. Without them, several wheels of
 *	one backend would be one time series
 * @file: where to write
 *
 * The text is a page in the format of version 0.0.4. twheelctl-ps(1) lists the names. The
 * format has the lines that begin with # once for each name. If a page has several wheels,
 * write each into memory, and leave these lines out of all but the first.
 *
 * Return: 0; -EIO: @file has an error; -ECHILD.
 */
int twheel_metrics(struct twheel *wheel, const char *labels, FILE *file);

/**
 * struct twheel_usage - what arming has cost this process in system calls
 * @size: sizeof(struct twheel_usage). The program sets it; 0 stands for the struct of
 *	version 0.3
 * @reserved: 0 for now
 * @kicks: armings that came before the next turn of the wheel
 * @refills: times that twheel_add() asked for timers, 64 at a time
 * @withdrawn: times that set, clear or del met a timer that had expired, and asked
 *	the wheel to withdraw the event
 *
 * Each is one system call of a kernel wheel. For a timer of twheel_add(), the functions add,
 * set, clear and del make no others, except for memory of the process. If REARM gave the
 * timer a period or a slack, there can be one more.
 */
struct twheel_usage {
	uint32_t size;
	uint32_t reserved;
	uint64_t kicks;
	uint64_t refills;
	uint64_t withdrawn;
};

/**
 * twheel_usage() - what arming has cost so far
 * @wheel: the wheel
 * @usage: in: its size; out: the rest. If the program knows fields that this library does
 *	not, they are 0
 *
 * Return: 0; -EINVAL: @usage->size is too small; -E2BIG: it is impossible; -ECHILD.
 */
int twheel_usage(const struct twheel *wheel, struct twheel_usage *usage);

/**
 * twheel_version() - the version of the library that runs
 *
 * Return: "MAJOR.MINOR.PATCH".
 */
const char *twheel_version(void);

/* ---- Timers ---- */

/**
 * twheel_add() - make a timer and arm it
 * @wheel: the wheel
 * @deadline: when it expires; ~0: not until twheel_set() moves it
 * @user_data: comes back in its events
 * @id: out: for the functions below; not NULL
 *
 * An id is not given out twice in 2^32 adds of its slot, so a stale id differs from the id
 * of its successor.
 *
 * Return: 0; -ENOSPC: max_timers reached; -ENOMEM; -ECHILD.
 */
int twheel_add(struct twheel *wheel, uint64_t deadline, uint64_t user_data, uint64_t *id);

/**
 * twheel_set() - arm, move, or arm again
 * @wheel: the wheel
 * @id: a timer of twheel_add(), or of REGISTER with %TWHEEL_KEEP
 * @deadline: when it expires
 *
 * If the timer is armed, or if twheel_clear() has disarmed it, this is one atomic exchange.
 * After an expiration, a lock is taken, because the event may be on its way to a reader. A
 * thread in twheel_read() may hold the lock for the length of one read. The id is
 * checked only then, unless the wheel is checked: see %TWHEEL_OPEN_CHECKED.
 *
 * A periodic timer keeps its period, which begins anew at @deadline. If the timer is armed,
 * an unread event of the periods before may be withdrawn, or may still be read.
 *
 * Return: 1: an arming was ended, whose event was not read and never will be; 0: there was
 * none, or its event has been read; -ENOENT: the id is stale; -ECHILD.
 */
int twheel_set(struct twheel *wheel, uint64_t id, uint64_t deadline);

/**
 * twheel_clear() - disarm a timer and keep it
 * @wheel: the wheel
 * @id: as for twheel_set()
 *
 * If the timer is armed, this is one atomic exchange, and so is the twheel_set() that comes
 * next. For example, a server clears the timeout of a connection while it works on a request.
 *
 * If the wheel has periodic timers, or came from twheel_open_fd(), this is a system call for
 * timers of REGISTER, and for those that have a period or a slack of their own. Then it also
 * withdraws an unread event of the periods before. If another process has made a timer
 * periodic in a wheel of twheel_open(), such an event may still be read. With a module of
 * version 0.2, the twheel_set() that comes next takes a lock.
 *
 * Return: as twheel_set(). If this returns 0, an event of the timer may still be in an
 * array that a thread goes through.
 */
int twheel_clear(struct twheel *wheel, uint64_t id);

/**
 * twheel_del() - disarm a timer and give it back
 * @wheel: the wheel
 * @id: any timer. Its id is stale from then on
 *
 * If this returns 1, the object that user_data names can be freed. If it returns 0, an
 * event may still be in an array that a thread goes through: the reader must then free
 * the object.
 *
 * Return: as twheel_set().
 */
int twheel_del(struct twheel *wheel, uint64_t id);

/**
 * twheel_set_user_data() - give a timer another user_data
 * @wheel: the wheel
 * @id: a timer of twheel_add()
 * @user_data: comes back in its events from now on
 *
 * For an object that moves in memory, and whose address is the user_data. Each call of
 * twheel_read() that begins later returns the new value, even if the timer has expired already.
 * The old value is in those events only that were read before, or are being read by another
 * thread meanwhile: a loop that reads many events at a time must not move an object while its
 * event is in the array.
 *
 * Return: 0; -ENOENT: the id is stale; -EOPNOTSUPP: the timer is one of REGISTER; -ECHILD.
 */
int twheel_set_user_data(struct twheel *wheel, uint64_t id, uint64_t user_data);

/* ---- Many timers at once, as a loop has them in one turn ---- */

/**
 * twheel_set_many() - move many timers to one deadline
 * @wheel: the wheel
 * @ids: the timers, as for twheel_set()
 * @n: how many, at most %INT_MAX
 * @deadline: when they expire
 *
 * A loop that moves the timers of all connections that were ready in one turn calls this once,
 * at the end of the turn. It does what twheel_set() does for each timer, but it fetches the
 * next timers from memory while it works, and it kicks the wheel at most once. So a move of a
 * timer that is in no cache costs a third.
 *
 * Return: how many of the calls to twheel_set() would have returned 1; -ENOENT: an id is
 * stale, and no timer was moved; -EINVAL: too many; -ECHILD.
 */
int twheel_set_many(struct twheel *wheel, const uint64_t *ids, unsigned int n,
		    uint64_t deadline);

/**
 * twheel_add_many() - make many timers of one deadline
 * @wheel: the wheel
 * @deadline: when they expire
 * @user_data: of each timer
 * @ids: out: of each timer
 * @n: how many, at most %INT_MAX
 *
 * If the wheel or the memory is full before all timers are made, the first ones are, and
 * their number is returned.
 *
 * Return: how many were made; if none was, an error of twheel_add(), or -EINVAL: too many.
 */
int twheel_add_many(struct twheel *wheel, uint64_t deadline, const uint64_t *user_data,
		    uint64_t *ids, unsigned int n);

/**
 * twheel_del_many() - delete many timers
 * @wheel: the wheel
 * @ids: the timers, each of them once
 * @n: how many, at most %INT_MAX
 *
 * Return: how many of the calls to twheel_del() would have returned 1; -ENOENT: an id is
 * stale, and no timer was deleted; -EINVAL: too many; -ECHILD.
 */
int twheel_del_many(struct twheel *wheel, const uint64_t *ids, unsigned int n);

/**
 * twheel_prefetch() - fetch a timer from memory
 * @wheel: the wheel
 * @id: the timer
 *
 * Call this when you know that you will move the timer soon, for example before you read the
 * request of its connection. Then twheel_set() does not wait for memory. This is a hint: it
 * changes nothing, and any @id is allowed.
 */
void twheel_prefetch(const struct twheel *wheel, uint64_t id);

/* ---- Waiting and reading ---- */

/**
 * twheel_wait() - wait until there is something to read
 * @wheel: the wheel
 * @timeout_ns: how long at most; negative: for ever
 *
 * Return: 1: there is something to read, or twheel_wake() was called; 0: the time is up;
 * -EINTR: a signal came; -ECHILD.
 */
int twheel_wait(struct twheel *wheel, int64_t timeout_ns);

/**
 * twheel_wake() - end a wait
 * @wheel: the wheel
 *
 * Ends a twheel_wait() of another thread. If no thread waits, the next wait returns at
 * once. The descriptor becomes readable until the next twheel_read(), so a loop that waits
 * for twheel_fd() wakes, too. If another process reads the wheel as well, it may take the
 * wake-up away.
 *
 * Return: 0; -ENOSPC or -ENOMEM: only at the first call; -ECHILD.
 */
int twheel_wake(struct twheel *wheel);

/**
 * twheel_read() - take events
 * @wheel: the wheel
 * @events: out: in the order of their ticks
 * @n: how many there is room for
 *
 * Never waits.
 *
 * Return: how many; 0: there is none now; -EINVAL: no room; -ECHILD.
 */
int twheel_read(struct twheel *wheel, struct twheel_event *events, unsigned int n);

/* ---- What <libtwheel/twheel.h> has beyond that ---- */

/**
 * twheel_submit() - do operations, in order
 * @wheel: the wheel
 * @ops: what to do: TWHEEL_OP_, with periods, slack and flags. Each has its own result
 * @n: how many, at most %TWHEEL_BATCH_MAX
 *
 * GET, REARM and CANCEL take ids of twheel_add(), too. For those, CANCEL is
 * twheel_del(), and a timer stays the program's whatever the flags say.
 *
 * Return: how many have a result, failed ones included; -EINVAL: too many; -ECHILD.
 */
int twheel_submit(struct twheel *wheel, struct twheel_op *ops, unsigned int n);

/**
 * twheel_list() - report the timers
 * @wheel: the wheel
 * @timers: out
 * @n: how many there is room for, not 0
 * @cursor: in: 0 at first. Out: where to go on
 *
 * A timer that nobody touches meanwhile is seen exactly once.
 *
 * Return: how many, 0 at the end; -ECHILD.
 */
int twheel_list(struct twheel *wheel, struct twheel_timer *timers, unsigned int n,
		uint32_t *cursor);

/* Modes of twheel_drain(). */
#define TWHEEL_DRAIN_EXPIRE	1U	/* make each armed timer readable now */
#define TWHEEL_DRAIN_CANCEL	2U	/* end each arming without an event */

/**
 * twheel_drain() - end every arming
 * @wheel: the wheel
 * @mode: %TWHEEL_DRAIN_EXPIRE: each timer that is armed can be read now, as if its deadline had
 *	been the time of the drain. %TWHEEL_DRAIN_CANCEL: each arming ends without an event.
 *	Timers of twheel_add() stay, and so do those with %TWHEEL_KEEP; the other timers of
 *	REGISTER are gone
 *
 * What is due already expires first; it can be read, and does not count. A periodic timer
 * whose event is unread keeps that event, and is not armed again. An arming that another
 * thread or process makes meanwhile may be spared.
 *
 * Return: how many; -EINVAL: no such mode; -EACCES: the wheel is only observed; -ECHILD.
 */
int twheel_drain(struct twheel *wheel, unsigned int mode);

#ifdef __cplusplus
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}
#endif

#endif /* LIBTWHEEL_H */
