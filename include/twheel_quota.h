/* SPDX-License-Identifier: GPL-2.0 */
/* The wheels and the memory of a user, and those of the wheels that wait for the worker. */
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
 * struct quota - the wheels and the memory of a user
 * @node: links the user into the hash table
 * @uid: the user
 * @wheels: number of open wheels
 * @bytes: memory of these wheels
 * @lock: protects @due, @due_end and @turning
 * @due: the wheels that the worker turns next, in order
 * @due_end: the pointer to which the next of these is appended
 * @turning: the wheel that the worker turns now
 * @work: turns as many of the wheels in @due as one budget allows
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
 * struct bill - the memory that is charged to a user for a wheel
 * @quota: the user
 * @bytes: how much has been charged for this wheel
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

/* Defined in twheel_turn.c. The KUnit suites define their own. */
void quota_turn(struct work_struct *work);

#endif /* _TWHEEL_QUOTA_H */
