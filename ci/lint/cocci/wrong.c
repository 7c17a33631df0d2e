// SPDX-License-Identifier: GPL-2.0
/*
 * Violations of the rules in this directory. Each rule must find the line whose comment names it.
 * This file is never compiled.
 */
#include <linux/uaccess.h>

#include "twheel_store.h"

static u64 wrong_access(struct twheel_slot *slots)
{
	return slots[1].deadline_ns; /* table_access */
}

static int wrong_fetch(struct twheel_list __user *from)
{
	struct twheel_list once, twice;

	if (copy_from_user(&once, from, sizeof(once)))
		return -EFAULT;
	if (copy_from_user(&twice, from, sizeof(twice))) /* double_fetch */
		return -EFAULT;
	return once.count != twice.count;
}

static int wrong_index(const int *table, unsigned int size, unsigned int index)
{
	if (index >= size)
		return -EINVAL;
	return table[index]; /* nospec */
}
