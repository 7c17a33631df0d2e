/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef _SHIM_LINUX_LIB_LIST_H
#define _SHIM_LINUX_LIB_LIST_H

#include_next <linux/list.h>

#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool list_empty(const struct list_head *list)
{
	return list->next == list;
}

static inline void list_add_tail(struct list_head *entry, struct list_head *list)
{
	entry->next = list;
	entry->prev = list->prev;
	list->prev->next = entry;
	list->prev = entry;
}

static inline void list_del(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
}

#endif /* _SHIM_LINUX_LIB_LIST_H */
