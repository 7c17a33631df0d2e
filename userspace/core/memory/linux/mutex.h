/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SHIM_LINUX_MUTEX_H
#define _SHIM_LINUX_MUTEX_H

/* One thread, which needs none. */
#include <linux/lockdep.h>

#endif /* _SHIM_LINUX_MUTEX_H */
