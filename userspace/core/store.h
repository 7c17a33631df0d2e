/* SPDX-License-Identifier: GPL-2.0 */
/* A store for programs in user space: arrays that are there from the start, with room in steps. */
#ifndef CORE_STORE_H
#define CORE_STORE_H

#include "twheel_store.h"

/* How many steps more of room there is memory for; ~0: for all. */
extern unsigned long memory_left;

/* An empty store of @max slots, whose table is mapped if @mapped. */
struct store *core_store_make(u32 max, bool mapped);
void core_store_free(struct store *s);
/* Makes room for some more. Return: 0, also if there is room or may not be more; -ENOMEM. */
int core_store_grow(struct store *s);

#endif /* CORE_STORE_H */
