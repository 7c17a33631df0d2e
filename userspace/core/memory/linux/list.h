/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SHIM_LINUX_MEMORY_LIST_H
#define _SHIM_LINUX_MEMORY_LIST_H

#include_next <linux/list.h>

static inline void list_del_init(struct list_head *entry)
{
	list_del(entry);
	INIT_LIST_HEAD(entry);
}

static inline void list_add(struct list_head *entry, struct list_head *list)
{
	list_add_tail(entry, list->next);
}

static inline void list_move(struct list_head *entry, struct list_head *list)
{
	list_del(entry);
	list_add(entry, list);
}

#define list_first_entry_or_null(list, type, member) \
	(list_empty(list) ? NULL : container_of((list)->next, type, member))

#endif /* _SHIM_LINUX_MEMORY_LIST_H */
