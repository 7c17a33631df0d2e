/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SHIM_LINUX_MEMORY_ERR_H
#define _SHIM_LINUX_MEMORY_ERR_H

#include_next <linux/err.h>

static inline bool IS_ERR_OR_NULL(const void *ptr)
{
	return !ptr || IS_ERR(ptr);
}

#endif /* _SHIM_LINUX_MEMORY_ERR_H */
