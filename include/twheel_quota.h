/* SPDX-License-Identifier: GPL-2.0 */
/* How many wheels and timers a user may have. */
#ifndef _TWHEEL_QUOTA_H
#define _TWHEEL_QUOTA_H

#include <linux/types.h>

struct cred;
struct quota;

struct quota *quota_open(const struct cred *opener);
int quota_charge(struct quota *q, u32 timers);
void quota_uncharge(struct quota *q, u32 timers);
void quota_close(struct quota *q);

#endif /* _TWHEEL_QUOTA_H */
