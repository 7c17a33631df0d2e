/* SPDX-License-Identifier: GPL-2.0 */
/* An open file, and what turns its wheel. */
#ifndef _TWHEEL_TURN_H
#define _TWHEEL_TURN_H

#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/wait.h>

#include "twheel_pages.h"
#include "twheel_timers.h"

/* Timers touched before the lock is dropped. */
#define TURN_BUDGET		128U
/* Events that a read copies at a time. */
#define TURN_EVENTS		48U
/* Tries to copy one event or answer out before its page counts as bad. */
#define COPY_TRIES		16

/**
 * struct twheel_file - a wheel
 * @lock: protects what follows. Taken with softirqs off: the hrtimer expires in one
 * @timers: the timers
 * @mem: the buckets of their wheel; NULL until the first timer comes
 * @programmed: when the wheel is turned next: see twheel_turn.c
 * @clock_id: clock of all times here; with @offset, as the opener sees it
 * @offset: what the opener's time namespace adds to the clock
 * @dying: release has begun: program nothing
 * @events: on their way to a reader. On the stack, the kernel would clear them first
 * @pages: the store of @timers
 * @timer: turns the wheel; takes the lock
 * @due: among the wheels of its user that the worker turns next; under quota.lock
 * @readers: blocked in read(), each waiting exclusively
 * @pollers: in poll() and epoll
 * @offset_monotonic: offset of CLOCK_MONOTONIC, fixed at open
 * @offset_boottime: offset of CLOCK_BOOTTIME, fixed at open
 * @wheels: in the list of all open wheels
 * @uid: who opened it
 * @pid: the process that did, as the initial namespace sees it
 */
struct twheel_file {
	/* Taken with softirqs off; by any context. */
	spinlock_t lock;
	struct timers timers;
	void *mem;
	u64 programmed;
	clockid_t clock_id;
	u64 offset;
	bool dying;
	struct twheel_event events[TURN_EVENTS];
	struct pages pages;

	/* Outside of the lock. */
	struct hrtimer timer;
	struct hlist_node due;
	wait_queue_head_t readers;
	wait_queue_head_t pollers;
	u64 offset_monotonic;
	u64 offset_boottime;
	struct list_head wheels;
	kuid_t uid;
	pid_t pid;
};

u64 file_now(const struct twheel_file *w);
u64 lock_wheel(struct twheel_file *w) __acquires(&w->lock);
void unlock_wheel(struct twheel_file *w, u64 now) __releases(&w->lock);
void file_set_clock(struct twheel_file *w, clockid_t clock_id);
void file_stop_turns(struct twheel_file *w);

/* twheel_ioctl.c */
int file_set_up(struct twheel_file *w, struct twheel_setup *setup,
		struct twheel_setup __user *arg);
long twheel_ioctl(struct file *file, unsigned int cmd, unsigned long ptr);

int turn_init(void);
void turn_exit(void);

#endif /* _TWHEEL_TURN_H */
