// SPDX-License-Identifier: GPL-2.0
/*
 * Violations of each of the rules beside this, and of one of the kernel's. Each line with
 * one names the rule, which must find it. Nothing compiles this.
 */
#include <linux/uaccess.h>

#include "twheel_store.h"

static u64 wrong_access(struct twheel_slot *slot)
{
	return slot->wake_ns; /* table_access */
}

static void wrong_store(struct twheel_slot *slot)
{
	*slot = (struct twheel_slot) { .wake_ns = WHEEL_NEVER }; /* table_access */
}

static int wrong_fetch(struct twheel_kick __user *from)
{
	struct twheel_kick once, twice;

	if (copy_from_user(&once, from, sizeof(once)))
		return -EFAULT;
	if (copy_from_user(&twice, from, sizeof(twice))) /* double_fetch */
		return -EFAULT;
	return once.count != twice.count;
}

static u64 wrong_word(const struct store *s)
{
	return store_word(s, 1)->deadline_ns; /* table_access */
}

static u64 wrong_place(struct twheel_slot *slots)
{
	return slots[1].deadline_ns; /* table_access */
}

static void wrong_header(struct twheel_table *header)
{
	*header = (struct twheel_table) { .magic = TWHEEL_TABLE_MAGIC }; /* table_access */
	header->magic = TWHEEL_TABLE_MAGIC; /* table_access */
}

static u32 wrong_read(struct twheel_table *header)
{
	return READ_ONCE(header->slots); /* table_access */
}

static void wrong_clear(struct twheel_table *header)
{
	memset(header, 0, 32); /* table_access */
}

static void wrong_write(struct twheel_table *header, const struct twheel_table *from)
{
	memcpy(header, from, 32); /* table_access */
}

static void wrong_save(void *to, struct twheel_table *header)
{
	memcpy(to, header, 32); /* table_access */
}

static void wrong_forget(struct twheel_slot *slot)
{
	memset(slot, 0, 16); /* table_access */
}

static void wrong_keep(void *to, const struct store *s, struct timer *e)
{
	memcpy(to, store_word(s, e->slot), 16); /* table_access */
}

static u32 wrong_copy(struct twheel_table header)
{
	return header.slots; /* table_access */
}

static int wrong_get(u32 __user *from)
{
	u32 once, twice;

	if (get_user(once, from))
		return -EFAULT;
	if (get_user(twice, from)) /* double_fetch */
		return -EFAULT;
	return once != twice;
}

static int wrong_gets(u32 __user *from)
{
	u32 once, twice;

	if (__get_user(once, from))
		return -EFAULT;
	if (__get_user(twice, from)) /* double_fetch */
		return -EFAULT;
	return once != twice;
}

static int wrong_member(struct twheel_kick __user *from)
{
	struct twheel_kick once __uninitialized;
	u32 count;

	if (copy_from_user(&once, from, sizeof(once)))
		return -EFAULT;
	if (get_user(count, &from->count)) /* double_fetch */
		return -EFAULT;
	return once.count != count;
}

static int wrong_part(struct twheel_kick __user *from)
{
	struct twheel_kick once;
	u64 slots;

	if (copy_from_user(&once, from, sizeof(once)))
		return -EFAULT;
	if (copy_from_user(&slots, &from->slots, sizeof(slots))) /* double_fetch */
		return -EFAULT;
	return once.slots != slots;
}

static u64 wrong_free(struct twheel_kick *kick)
{
	kfree(kick);
	return kick->slots; /* kfree */
}

static int wrong_index(const int *table, unsigned int size, unsigned int index)
{
	if (index >= size)
		return -EINVAL;
	return table[index]; /* nospec */
}

static u64 wrong_timer(const struct store *s, u32 nr)
{
	if (nr >= s->fresh)
		return 0;
	return store_timer(s, nr)->user_data; /* nospec */
}

static u64 wrong_marks(const struct store *s, u32 slot)
{
	if (slot >= s->max)
		return 0;
	return READ_ONCE(*store_marks(s, slot)); /* nospec */
}

static int wrong_below(const int *table, unsigned int size, unsigned int index)
{
	if (index < size)
		return table[index]; /* nospec */
	return -EINVAL;
}

static struct block *wrong_page(struct pages *p, pgoff_t pgoff)
{
	if (pgoff >= p->store.max)
		return NULL;
	if (pgoff) {
		u32 slot = (pgoff - 1) * WORDS; /* nospec */

		return find_block(&p->store, slot);
	}
	return NULL;
}

static int wrong_half(const int *table, unsigned int size, unsigned int index)
{
	unsigned int half;

	if (index >= size)
		return -EINVAL;
	half = index / 2; /* nospec */
	return table[half];
}
