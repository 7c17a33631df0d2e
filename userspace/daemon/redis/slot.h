/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How many slots and nodes there are.
 */
#ifndef TWHEELD_REDIS_SLOT_H
#define TWHEELD_REDIS_SLOT_H

#define ROUTE_NODES_MAX	64
#define ROUTE_SLOTS	16384
/* No node: nobody has the slot, or there is no room for another node. */
#define ROUTE_NONE	255

#endif /* TWHEELD_REDIS_SLOT_H */
