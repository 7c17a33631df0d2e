/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libtwheel: timers that are moved much more often than they expire.
 *
 * A wheel holds timers, and adds a single descriptor to the loop that your program already
 * has. The library neither starts a thread nor brings a loop of its own. To move an armed timer to
 * a later time, or to disarm it, normally takes one atomic operation and no lock. A move to an
 * earlier time takes up to three atomic operations, and a system call only if the new deadline
 * comes before everything else that the wheel is waiting for.
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
 *   twheel_clear()	disarms it, but you keep the id
 *   twheel_del()	disarms it and gives the id back
 *   twheel_replace()	does that, and makes another timer in its place
 *
 * If your loop adds, moves or deletes many timers in one iteration, twheel_add_many(),
 * twheel_set_many() and twheel_del_many() cost less.
 *
 * You own a timer from add to del, whether it expires or not, and each of these functions
 * takes effect before it returns.
 *
 * Two backends
 *
 * The wheel is either the kernel's (/dev/twheel) or a wheel inside this process that a
 * timerfd drives. Although both implement all functions, only the kernel wheel can be shared
 * between processes, and only it keeps running when this process hangs. The in-process wheel
 * accepts any tick, but it turns only while your program is in a call such as twheel_wait() or
 * twheel_read(). Therefore a timer that is due may still be reported as armed, and twheel_fd()
 * may be readable without an event.
 *
 * Threads
 *
 *  - Any thread may call any function at any time, except that no call may be in progress
 *    when you call twheel_close().
 *  - Two threads may call twheel_set() for the same timer at the same time, but while one
 *    thread is in twheel_clear(), twheel_del() or twheel_replace(), no other thread may set,
 *    clear, delete or replace that timer, or give it another user_data.
 *  - If several threads read from one wheel, a thread may get the event of a timer that
 *    belongs to another. The event is stale if the owner has moved the timer in the meantime.
 *    To avoid this, give each loop its own thread and its own wheel. To detect it, lock the
 *    object that owns the timer, and compare the deadline that you have stored there with that
 *    of the event.
 *  - Of all functions here, only twheel_wait() is a cancellation point for pthread_cancel().
 *  - Do not call any function from a signal handler, and do not fork in one.
 *
 * Fork
 *
 * In a forked child, functions on a wheel of the parent return -ECHILD or do nothing. The
 * exceptions are twheel_fd(), twheel_backend(), twheel_backend_reason(), twheel_now(),
 * twheel_after() and twheel_close(). To use the kernel wheel in the child, pass its
 * descriptor to twheel_open_fd().
 *
 * Times are nanoseconds on the clock of the wheel, which twheel_now() reads. A deadline is
 * absolute, and twheel_after() makes one from a delay. If it is in the past, which includes 0,
 * the timer expires at once. The deadline ~0 means never, and so does %TWHEEL_PARKED, which is
 * ~0 - 1.
 *
 * Events come in the order of the ticks at which they expired, but the order of events with
 * the same tick is not defined.
 *
 * Functions that return int return 0 or more on success and a negative errno on failure, in
 * which case they have changed nothing.
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
/* Some functions here have the same name as a struct, such as twheel_info(). */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#endif

#define TWHEEL_VERSION_MAJOR	0
#define TWHEEL_VERSION_MINOR	3
#define TWHEEL_VERSION_PATCH	0

/* An open wheel. */
struct twheel;

/* ---- Opening and closing ---- */

/* Flags of &struct twheel_options. */
/* Use a kernel wheel, or fail if there is none. */
#define TWHEEL_OPEN_KERNEL	(1U << 0)
/* Use a wheel inside this process, even if there is a kernel wheel. */
#define TWHEEL_OPEN_INPROCESS	(1U << 1)
/* Run the wheel on CLOCK_REALTIME. With this flag, @clock_id has to be 0. */
#define TWHEEL_OPEN_REALTIME	(1U << 2)
/* Check each id before anything is changed, so that a stale one always fails with -ENOENT. */
#define TWHEEL_OPEN_CHECKED	(1U << 3)

/**
 * struct twheel_options - the wheel that you want
 * @size: sizeof(struct twheel_options), so that the struct can grow; 0 stands for the struct
 *	of version 0.2
 * @flags: the TWHEEL_OPEN_ flags that you want, or 0
 * @tick_ns: the resolution; the tick becomes the largest power of two that is not above it
 * @slack_ns: how late the timers of twheel_add() may be in addition to their tick
 * @clock_id: CLOCK_MONOTONIC, CLOCK_BOOTTIME or CLOCK_TAI. If ADJ_TAI sets CLOCK_TAI
 *	forward, an in-process wheel notices within a second
 * @max_timers: maximum number of timers. Deleted timers count while a thread keeps them for
 *	reuse, up to 128 for each thread
 * @levels: number of levels; a wheel with a single level is a hashed wheel
 * @slot_bits: each level has 2^slot_bits buckets
 * @device: the device of the kernel wheel, in place of /dev/twheel. If it is not NULL, no
 *	other backend is used, whatever the environment says
 *
 * If a field is zero, the library uses the default of &struct twheel_setup, for which
 * see twheel(4).
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
 * twheel_open() - create a wheel
 * @wheel: out: the wheel, for twheel_close()
 * @options: what you want, or NULL for the defaults
 *
 * Unless a flag selects a backend, this creates a kernel wheel if it can. It creates a wheel
 * inside the process if /dev/twheel does not exist, or the process may not open it, or user
 * space cannot share the deadline table safely on this processor. The environment variable
 * TWHEEL_BACKEND ("kernel" or "inprocess") overrides the flags, and TWHEEL_CHECKED=1 sets
 * %TWHEEL_OPEN_CHECKED. In a setuid program, the library ignores both variables.
 *
 * Return: 0; -EINVAL: the options are impossible, or TWHEEL_BACKEND is unknown; -E2BIG: the
 * options contain a field of a later version; -EPERM: a tick this small requires
 * CAP_SYS_RESOURCE; -EOPNOTSUPP: this library, module or processor does not have the backend;
 * -ENOMEM; -ESHUTDOWN: the process is exiting, and the library has already been shut down;
 * -ENOENT: with %TWHEEL_OPEN_KERNEL, the module is not loaded; -EACCES: with
 * %TWHEEL_OPEN_KERNEL, the process may not open the device.
 */
int twheel_open(struct twheel **wheel, const struct twheel_options *options);

/**
 * twheel_open_fd() - attach to a kernel wheel that another process has opened
 * @wheel: out: the wheel, for twheel_close()
 * @fd: a descriptor of /dev/twheel that was inherited or passed over a socket. On success
 *	it belongs to the wheel
 *
 * All processes that hold the descriptor share the timers that were made with REGISTER: each of
 * them can move a timer that another has registered, and each event goes to one reader. Timers
 * of twheel_add(), however, are not shared: only the process that adds them knows their ids and
 * user_data. If another process reads one of their events, the event is lost, so let only the
 * process that adds them read from the wheel.
 *
 * If one of the processes was killed, the timers that its library had made are still on the
 * wheel. In twheel_list() they have the user_data 0, and you can remove them with twheel_del().
 *
 * Return: 0; -ENOTTY: @fd is not a wheel; -EBADF; -EACCES: it is open for reading only;
 * -EOPNOTSUPP: the module does not support marks, or user space cannot share the deadline
 * table safely on this processor; -ENOMEM.
 */
int twheel_open_fd(struct twheel **wheel, int fd);

/**
 * twheel_observe_fd() - look at a kernel wheel of another process
 * @wheel: out: the wheel, for twheel_close()
 * @fd: as for twheel_open_fd(), but it may be open for reading only
 *
 * Use this to look at a wheel without changing it. You can call twheel_info(), twheel_stats(),
 * twheel_list(), twheel_next() and twheel_metrics(). All functions that would change the wheel
 * fail, and so does twheel_read(). The error is -ENOENT from twheel_set(), twheel_clear(),
 * twheel_set_many() and twheel_del_many(), and -EACCES from the others. twheel_list() reports the
 * ids and user_data that the kernel knows, which differ from those of twheel_add(), and includes
 * idle timers that the library of the other process keeps for reuse.
 *
 * Return: 0; -ENOTTY: @fd is not a wheel; -EBADF; -ENOMEM.
 */
int twheel_observe_fd(struct twheel **wheel, int fd);

/**
 * twheel_close() - stop using a wheel
 * @wheel: the wheel, or NULL
 *
 * This ends the timers of twheel_add(), and those of REGISTER unless somebody else holds the
 * descriptor. In a forked child, however, it ends no timer, and only frees the child's copies of
 * the memory and the descriptor.
 */
void twheel_close(struct twheel *wheel);

/**
 * twheel_fd() - the descriptor to wait for
 * @wheel: the wheel
 *
 * Pass it to poll, epoll or your event loop, and call twheel_read() when it becomes readable. That
 * call may also find nothing. Do not read or close the descriptor yourself.
 *
 * Return: the descriptor, which is never below 3.
 */
int twheel_fd(const struct twheel *wheel);

/**
 * twheel_backend() - tell which backend a wheel uses
 * @wheel: the wheel
 *
 * Return: "kernel" or "inprocess".
 */
const char *twheel_backend(const struct twheel *wheel);

/**
 * twheel_backend_reason() - tell why a wheel is not the kernel's
 * @wheel: the wheel
 *
 * A program that works with either backend can log this, and "twheelctl doctor" then tells you
 * what to do about it.
 *
 * Return: a text without a newline, or "" if the wheel is the kernel's.
 */
const char *twheel_backend_reason(const struct twheel *wheel);

/**
 * twheel_now() - read the clock of a wheel
 * @wheel: the wheel
 *
 * If the wheel was opened in another time namespace and reached this process through
 * twheel_open_fd() or twheel_observe_fd(), this is the time in that namespace, to within a
 * few microseconds. Without /proc the library cannot find out, and uses the clock of the
 * caller's namespace.
 *
 * Return: the time in ns.
 */
uint64_t twheel_now(const struct twheel *wheel);

/**
 * twheel_after() - make a deadline from a delay
 * @wheel: the wheel
 * @delay_ns: the delay from now
 *
 * Return: the deadline, or ~0 (never) if it lies beyond the end of time.
 */
uint64_t twheel_after(const struct twheel *wheel, uint64_t delay_ns);

/**
 * twheel_next() - tell how long a loop may sleep
 * @wheel: the wheel
 *
 * Use this if your loop accepts only a timeout value and no descriptor: call twheel_read()
 * until it returns 0, then twheel_next(), and sleep until the time that it returned. That time
 * may be too early, but it is never too late.
 *
 * An in-process wheel knows its first deadline exactly, unless more than 64 timers share the
 * earliest bucket of a level. Then the answer is early by at most the width of that bucket,
 * and buckets are wider the farther away they are (see twheel(7)). For a kernel wheel, the
 * function makes one system call, to find out if an event is unread. If none is, the answer is the
 * time of the kernel's next turn. That may be early, because the turn may only move timers to finer
 * buckets.
 *
 * If another process has just armed a timer, the answer may still ignore it, so if other
 * processes arm timers of the wheel, wait for twheel_fd() instead. On a wheel of
 * twheel_observe_fd(), the answer also ignores unread events.
 *
 * Return: a time in ns that is no later than the earliest deadline plus the slack of its timer.
 * The event itself comes up to a tick later, so a loop that finds nothing at that time should
 * sleep for one tick. The answer is 0 if you should read now, and ~0 if no timer is armed.
 */
uint64_t twheel_next(const struct twheel *wheel);

/**
 * twheel_info() - report the shape of a wheel
 * @wheel: the wheel
 * @info: out: as the ioctl returns it; @info->table_bytes of an in-process wheel is 0
 *
 * Return: 0, or -ECHILD.
 */
int twheel_info(const struct twheel *wheel, struct twheel_info *info);

/**
 * twheel_stats() - report the counters of a wheel
 * @wheel: the wheel
 * @stats: out: as the ioctl returns them. Timers that the library keeps for the next
 *	twheel_add() count as allocated
 *
 * Return: 0, or a negative errno.
 */
int twheel_stats(struct twheel *wheel, struct twheel_stats *stats);

/**
 * twheel_metrics() - write the statistics of a wheel for Prometheus
 * @wheel: the wheel
 * @labels: additional labels such as loop="3",role="peer", or NULL. Without them, several
 *	wheels with the same backend would become one time series
 * @file: where to write
 *
 * This writes the text format of Prometheus, version 0.0.4. The names of the metrics are in
 * twheelctl-ps(1). Prometheus allows the # lines of a metric only once per page. So if you publish
 * several wheels on one page, write each to a buffer and strip the # lines from all but the first.
 *
 * Return: 0; -EIO: @file has an error; -ECHILD.
 */
int twheel_metrics(struct twheel *wheel, const char *labels, FILE *file);

/**
 * struct twheel_usage - how many system calls arming has cost this process
 * @size: sizeof(struct twheel_usage), which you set; 0 stands for the struct of version 0.3
 * @reserved: 0 for now
 * @kicks: times that the wheel was kicked, because a new deadline came before its next turn
 * @refills: times that twheel_add() asked the wheel for timers, 64 at a time
 * @withdrawn: times that set, clear or del met a timer that had expired, and asked the wheel
 *	to withdraw the event
 *
 * On a kernel wheel, each of these is one system call. For a timer of twheel_add(), the functions
 * add, set, clear and del make no other system calls, unless the process needs memory. If REARM
 * has given the timer a period or a slack, however, there can be one more.
 */
struct twheel_usage {
	uint32_t size;
	uint32_t reserved;
	uint64_t kicks;
	uint64_t refills;
	uint64_t withdrawn;
};

/**
 * twheel_usage() - report how many system calls arming has cost so far
 * @wheel: the wheel
 * @usage: in: its size; out: the rest. Fields that this library does not know are set to 0
 *
 * Return: 0; -EINVAL: @usage->size is too small; -E2BIG: it is above 4096, so it
 * cannot be a valid size; -ECHILD.
 */
int twheel_usage(const struct twheel *wheel, struct twheel_usage *usage);

/**
 * twheel_version() - report the version of the library at run time
 *
 * Return: "MAJOR.MINOR.PATCH".
 */
const char *twheel_version(void);

/* ---- Timers ---- */

/**
 * twheel_add() - make a timer and arm it
 * @wheel: the wheel
 * @deadline: when it expires; ~0 means never, unless twheel_set() moves the timer
 * @user_data: is returned in its events
 * @id: out: the id, for the functions below; must not be NULL
 *
 * An id is not reused until its slot has been used 2^32 more times, so the library can tell a
 * stale id from that of the slot's current timer. See twheel_set() for the calls that do not
 * check this by default.
 *
 * Return: 0; -ENOSPC: max_timers is reached; -ENOMEM; -ECHILD.
 */
int twheel_add(struct twheel *wheel, uint64_t deadline, uint64_t user_data, uint64_t *id);

/**
 * twheel_set() - arm a timer, move it, or arm it again
 * @wheel: the wheel
 * @id: a timer of twheel_add(), or of REGISTER with %TWHEEL_KEEP
 * @deadline: when it expires
 *
 * If the timer is armed, or was disarmed by twheel_clear(), this takes no lock, and a move to a
 * later time is normally one atomic operation. If the wheel would not look at the new deadline in
 * time, the function also marks the timer, and it kicks the wheel if even the next turn would come
 * too late. After an expiration, it takes a lock, because the event may be on its way to a reader,
 * and a thread in twheel_read() may hold that lock for the length of one read.
 *
 * Without %TWHEEL_OPEN_CHECKED, the id is checked only after an expiration. If the id is stale, and
 * the slot now belongs to a timer that is armed or was cleared, the function moves that timer.
 *
 * A periodic timer keeps its period, which begins again at @deadline. If it is armed, an
 * unread event of earlier periods may be withdrawn or may still be read.
 *
 * Return: 1: the timer was armed or its event was unread, and no event for the old deadline will
 * be read; 0: it was idle, or its event has been read; -ENOENT: the id is stale; -ECHILD.
 */
int twheel_set(struct twheel *wheel, uint64_t id, uint64_t deadline);

/**
 * twheel_clear() - disarm a timer and keep it
 * @wheel: the wheel
 * @id: as for twheel_set()
 *
 * Use this for a timeout that you will need again: for example, a server clears the timeout of
 * a connection while it works on a request. If the timer is armed, this is one atomic operation,
 * and the next twheel_set() takes no lock either.
 *
 * A periodic timer that is armed may also have an unread event of earlier periods, which only a
 * system call can withdraw. The function makes this call for each timer that may be periodic, that
 * is, for timers of REGISTER, and for those to which REARM gave a period or a slack. A wheel of
 * twheel_open() is an exception: the function makes no such call there until this process makes a
 * timer periodic. If only another process makes timers of such a wheel periodic, the event of
 * earlier periods may still be read.
 *
 * On a module of version 0.2, the twheel_set() that follows a twheel_clear() takes a lock.
 *
 * Return: as for twheel_set(). If this returns 0, a thread may still have an event of the
 * timer in an array that it is processing.
 */
int twheel_clear(struct twheel *wheel, uint64_t id);

/**
 * twheel_del() - disarm a timer and give it back
 * @wheel: the wheel
 * @id: any timer, whose id is stale from now on
 *
 * If this returns 1, you can free the object that user_data refers to. If it returns 0, a
 * thread may still have an event of the timer in an array that it is processing. In that case,
 * leave it to that thread to free the object.
 *
 * Return: as for twheel_set().
 */
int twheel_del(struct twheel *wheel, uint64_t id);

/**
 * twheel_replace() - delete a timer and add another one
 * @wheel: the wheel
 * @id: a timer of twheel_add(), whose id is stale from now on
 * @deadline: the deadline of the new timer
 * @user_data: is returned in the events of the new timer
 * @new_id: out: the id of the new timer
 *
 * This does what twheel_del() and twheel_add() would do, but if the old timer is armed, it takes
 * a single atomic operation. Use it if a request ends and the same thread begins another.
 *
 * If the old or the new timer expires while this function runs, and another thread reads from the
 * wheel at that moment, that timer may expire later. That is at most a tick, plus its slack,
 * after this function has returned, and the event reports the later deadline.
 *
 * After an error, the old timer is unchanged, and so is @new_id.
 *
 * Return: 1: the old timer was armed or its event was unread, and no event of it will be read; 0:
 * it was idle, or its event has been read; -ENOENT: @id is stale; -EOPNOTSUPP: the old timer was
 * not made by twheel_add(); -ENOMEM: this is the thread's first timer, and there is no memory to
 * keep timers for it; -ECHILD.
 */
int twheel_replace(struct twheel *wheel, uint64_t id, uint64_t deadline, uint64_t user_data,
		   uint64_t *new_id);

/**
 * twheel_set_user_data() - give a timer another user_data
 * @wheel: the wheel
 * @id: a timer of twheel_add()
 * @user_data: is returned in its events from now on
 *
 * Use this for an object that moves in memory and whose address is the user_data. Every
 * twheel_read() that begins later returns the new value, even if the timer has already
 * expired. Only events that were read before, or that another thread is reading at the same
 * time, contain the old value. So a loop that reads many events at a time must not move an
 * object while its event is in the array.
 *
 * Return: 0; -ENOENT: the id is stale; -EOPNOTSUPP: the timer was not made by twheel_add();
 * -ECHILD.
 */
int twheel_set_user_data(struct twheel *wheel, uint64_t id, uint64_t user_data);

/* ---- Many timers in one call ---- */

/**
 * twheel_set_many() - move many timers to one deadline
 * @wheel: the wheel
 * @ids: the timers, as for twheel_set()
 * @n: how many, at most %INT_MAX
 * @deadline: when they expire
 *
 * Call this once at the end of each iteration of your loop, to move the timers of all connections
 * that were ready. It has the effect of a twheel_set() for each timer, but it fetches the next
 * timers from memory while it works, and kicks the wheel at most once. If the timers are in no
 * cache, a move therefore costs a third of what it costs one by one.
 *
 * Return: the number of timers for which twheel_set() would have returned 1; -ENOENT: an id is
 * stale, and no timer was moved; -EINVAL: too many; -ECHILD.
 */
int twheel_set_many(struct twheel *wheel, const uint64_t *ids, unsigned int n,
		    uint64_t deadline);

/**
 * twheel_add_many() - make many timers with one deadline
 * @wheel: the wheel
 * @deadline: when they expire
 * @user_data: one value for each timer
 * @ids: out: one id for each timer
 * @n: how many, at most %INT_MAX
 *
 * If the wheel or the memory is full before all timers are made, the function keeps those that
 * it has made so far, and returns their number.
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
 * Return: the number of timers for which twheel_del() would have returned 1; -ENOENT: an id is
 * stale, and no timer was deleted; -EINVAL: too many; -ECHILD.
 */
int twheel_del_many(struct twheel *wheel, const uint64_t *ids, unsigned int n);

/**
 * twheel_prefetch() - fetch a timer from memory
 * @wheel: the wheel
 * @id: the timer
 *
 * Call this when you know that you will move the timer soon, for example before you read the
 * request of its connection, so that twheel_set() need not wait for memory. This is only a
 * hint: it changes nothing, and any @id is allowed.
 */
void twheel_prefetch(const struct twheel *wheel, uint64_t id);

/* ---- Waiting and reading ---- */

/**
 * twheel_wait() - wait until there is something to read
 * @wheel: the wheel
 * @timeout_ns: maximum time to wait, or negative to wait forever
 *
 * Return: 1: there is something to read, or twheel_wake() was called; 0: the time is up;
 * -EINTR: a signal arrived; -ECHILD.
 */
int twheel_wait(struct twheel *wheel, int64_t timeout_ns);

/**
 * twheel_wake() - end a wait
 * @wheel: the wheel
 *
 * This ends a twheel_wait() of another thread, or the next one if no thread is waiting. It
 * also makes the descriptor readable until the next twheel_read(), so that a loop that waits
 * for twheel_fd() wakes up. If another process reads the same wheel, it may consume the
 * wake-up.
 *
 * Return: 0; -ENOSPC or -ENOMEM: the library could not create the timer that it needs for this,
 * because the wheel or the memory is full; -ECHILD.
 */
int twheel_wake(struct twheel *wheel);

/**
 * twheel_read() - read events
 * @wheel: the wheel
 * @events: out: the events, in the order of their ticks
 * @n: how many fit
 *
 * This never waits, so call it when twheel_wait() has returned 1 or twheel_fd() is readable.
 *
 * Return: how many were read; 0: there is none now; -EINVAL: @n is 0; -ECHILD.
 */
int twheel_read(struct twheel *wheel, struct twheel_event *events, unsigned int n);

/* ---- Operations of the device ---- */

/**
 * twheel_submit() - perform operations in order
 * @wheel: the wheel
 * @ops: the operations, each with an opcode TWHEEL_OP_ and a timer; each gets its own result
 * @n: how many, at most %TWHEEL_BATCH_MAX
 *
 * GET, REARM and CANCEL also accept ids of twheel_add(). For these, CANCEL is the same as
 * twheel_del(), and REARM never lets the timer end, even without %TWHEEL_KEEP.
 *
 * Return: how many operations have a result, including those that failed; -EINVAL: too many;
 * -ECHILD.
 */
int twheel_submit(struct twheel *wheel, struct twheel_op *ops, unsigned int n);

/**
 * twheel_list() - list the timers
 * @wheel: the wheel
 * @timers: out: the timers
 * @n: how many fit, at least 1
 * @cursor: in: 0 for the first call; out: where the next call continues
 *
 * A timer that nobody touches in the meantime is listed exactly once.
 *
 * Return: how many were listed, 0 at the end; -ECHILD.
 */
int twheel_list(struct twheel *wheel, struct twheel_timer *timers, unsigned int n,
		uint32_t *cursor);

/* Modes of twheel_drain(). */
#define TWHEEL_DRAIN_EXPIRE	1U	/* make each armed timer readable now */
#define TWHEEL_DRAIN_CANCEL	2U	/* end each arming, with no event */

/**
 * twheel_drain() - end every arming
 * @wheel: the wheel
 * @mode: %TWHEEL_DRAIN_EXPIRE makes each armed timer readable now, as if its deadline had been
 *	the time of the drain. %TWHEEL_DRAIN_CANCEL ends each arming, so that no event follows;
 *	timers of twheel_add() and those with %TWHEEL_KEEP stay, and other timers of REGISTER
 *	are gone
 *
 * Timers that were already due expire first; they can be read, and the count does not include
 * them. A periodic timer whose event is unread keeps that event, and is not armed again. An
 * arming that another thread or process makes at the same time may be left out.
 *
 * Return: how many armings were ended; -EINVAL: there is no such mode; -EACCES: the wheel is
 * only observed; -ECHILD.
 */
int twheel_drain(struct twheel *wheel, unsigned int mode);

#ifdef __cplusplus
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}
#endif

#endif /* LIBTWHEEL_H */
