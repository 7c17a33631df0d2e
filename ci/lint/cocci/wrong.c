// SPDX-License-Identifier: GPL-2.0
/*
 * A violation of each of the rules beside this. The line with it names the rule, which must
 * find it. Nothing compiles this.
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
