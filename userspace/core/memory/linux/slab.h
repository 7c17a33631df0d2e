/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SHIM_LINUX_SLAB_H
#define _SHIM_LINUX_SLAB_H

#include <linux/gfp.h>

void *kcalloc(size_t nr, size_t size, int gfp);
void kfree(void *mem);

#define kzalloc(size, gfp)		kcalloc(1, size, gfp)
#define kvcalloc(nr, size, gfp)		kcalloc(nr, size, gfp)
#define kvfree(mem)			kfree(mem)

#endif /* _SHIM_LINUX_SLAB_H */
