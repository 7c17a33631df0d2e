// SPDX-License-Identifier: GPL-2.0
/*
 * A violation of each of the rules beside this, and of vm/locked.awk: each must find
 * its own here. Nothing compiles it.
 */
#include <linux/uaccess.h>

#include "twheel_slots.h"

static u64 wrong_access(struct twheel_slot *slot)
{
	return slot->wake_ns;
}

static int wrong_fetch(struct twheel_kick __user *from)
{
	struct twheel_kick once, twice;

	if (copy_from_user(&once, from, sizeof(once)))
		return -EFAULT;
	if (copy_from_user(&twice, from, sizeof(twice)))
		return -EFAULT;
	return once.count != twice.count;
}

static int wrong_index(const int *table, unsigned int size, unsigned int index)
{
	if (index >= size)
		return -EINVAL;
	return table[index];
}

static u64 wrong_lock(struct twheel_file *w)
{
	return w->offset;
}
