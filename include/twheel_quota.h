/* SPDX-License-Identifier: GPL-2.0 */
/* A user: how many wheels and how much memory are theirs, and which wheels wait for the worker. */
#ifndef _TWHEEL_QUOTA_H
#define _TWHEEL_QUOTA_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>

struct cred;
struct twheel_file;

/**
 * struct quota - what a user has
 * @node: in users
 * @uid: the user
 * @wheels: how many wheels are open
 * @bytes: how much memory they take
 * @lock: protects what follows
 * @due: the wheels that the worker turns next, in order
 * @due_end: where the next of these is linked
 * @turning: the wheel that it turns now
 * @work: turns as many of them as one budget allows
 */
struct quota {
	struct hlist_node node;
	kuid_t uid;
	unsigned int wheels;
	u64 bytes;
	/* Taken under the lock of a wheel. */
	spinlock_t lock;
	struct hlist_head due;
	struct hlist_node **due_end;
	const struct twheel_file *turning;
	struct work_struct work;
};

/**
 * struct bill - what a wheel costs its user
 * @quota: of the user
 * @bytes: what has been charged for this wheel
 */
struct bill {
	struct quota *quota;
	u64 bytes;
};

int quota_open(struct bill *bill, const struct cred *opener, size_t bytes);
int quota_charge(struct bill *bill, size_t bytes);
void quota_uncharge(struct bill *bill, size_t bytes);
void quota_close(struct bill *bill);
void quota_init(void);

/* twheel_turn.c; the suites bring their own. */
void quota_turn(struct work_struct *work);

#endif /* _TWHEEL_QUOTA_H */
