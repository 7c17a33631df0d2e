/* SPDX-License-Identifier: GPL-2.0 */
/* How many wheels and how much memory a user may have. */
#ifndef _TWHEEL_QUOTA_H
#define _TWHEEL_QUOTA_H

#include <linux/types.h>

struct cred;
struct quota;

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

#endif /* _TWHEEL_QUOTA_H */
