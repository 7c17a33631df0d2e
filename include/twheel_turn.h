/* SPDX-License-Identifier: GPL-2.0 */
/* An open file of the device, and the functions that turn its wheel. */
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

/* Maximum number of timers that are touched before the lock is dropped. */
#define TURN_BUDGET		128U
/* Maximum number of events that a read copies under one hold of the lock. */
#define TURN_EVENTS		48U
/* How often to try to copy an event or an answer before the user's page counts as bad. */
#define COPY_TRIES		16

/**
 * struct twheel_file - a wheel
 * @lock: protects the members from @timers to @pages. Taken with softirqs disabled, because the
 *	hrtimer expires in a softirq
 * @timers: the timers
 * @mem: the buckets of the wheel, or NULL before the first timer
 * @programmed: when the wheel is turned next: see twheel_turn.c
 * @clock_id: the clock of all times here, to which @offset is added
 * @offset: offset of the clock in the time namespace of the opener
 * @dying: release has begun, so no turn must be programmed any more
 * @events: events on their way to a reader. An array on the stack would be cleared first
 * @pages: the store of @timers
 * @timer: turns the wheel, under the lock
 * @due: links the wheel into the list of those that the worker turns next, under quota.lock
 * @readers: the readers that are blocked, each waiting exclusively
 * @pollers: the waiters of poll() and epoll
 * @offset_monotonic: offset of CLOCK_MONOTONIC, fixed at open
 * @offset_boottime: offset of CLOCK_BOOTTIME, fixed at open
 * @wheels: links the wheel into the list of all open wheels
 * @uid: the user who opened the wheel
 * @pid: the process that opened the wheel, as the initial namespace sees it
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

	/* The lock does not protect the members from here on. */
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
