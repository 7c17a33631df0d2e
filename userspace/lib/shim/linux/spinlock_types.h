/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef _SHIM_LINUX_SPINLOCK_TYPES_H
#define _SHIM_LINUX_SPINLOCK_TYPES_H

/* Only in declarations of what is not used here. */
struct spinlock;
#define spinlock_t	struct spinlock

#endif /* _SHIM_LINUX_SPINLOCK_TYPES_H */
