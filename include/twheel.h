/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A hierarchical timing wheel: the mechanism alone.
 *
 * It links nodes into buckets and says when something has to happen next. It
 * is handed the time and the memory; it knows no clock, lock, allocation,
 * file or user memory, and prints nothing. So the same source serves the
 * module, the KUnit suites and programs in user space.
 */
#ifndef _TWHEEL_H
#define _TWHEEL_H

#include <linux/list.h>
#include <linux/types.h>

#define TWHEEL_MIN_SLOT_BITS	4
#define TWHEEL_MAX_SLOT_BITS	16
#define TWHEEL_MAX_LEVELS	16

/* The end of time: a moment that never comes. Every "now" lies before it. */
#define TWHEEL_NEVER		U64_MAX

/**
 * struct twheel_shape - the three numbers that make a wheel
 * @shift: a tick is 2^shift ns; 0 to 63
 * @slot_bits: a level has 2^slot_bits buckets; %TWHEEL_MIN_SLOT_BITS to
 *	%TWHEEL_MAX_SLOT_BITS
 * @levels: 1 to twheel_max_levels()
 */
struct twheel_shape {
	unsigned int shift;
	unsigned int slot_bits;
	unsigned int levels;
};

/**
 * struct twheel_node - what is queued; embed it in the timer
 * @link: in a bucket, or in a list of the caller's while it is not queued
 * @tick: when it is due; the wheel's while it is queued
 */
struct twheel_node {
	struct hlist_node link;
	u64 tick;
};

/**
 * struct twheel - a wheel
 * @clk: all that is due at this tick or before has left the buckets
 * @next: no bucket needs a visit before this tick; may be earlier than needed
 *	after a deletion, never later
 * @bound: no timer of the top level needs a visit before this tick
 * @sweep_min: the earliest tick queued in the top level since @bound was set
 * @cascaded: how often a node was moved on by a visit
 * @occupied: a bit per bucket: it is not empty
 * @bucket: the buckets, level after level, then one list per level of nodes
 *	whose bucket is being visited
 * @visiting: a bit per level: the list of visited nodes may not be empty
 * @shape: as given to twheel_init()
 * @recip: 2^16 / slot_bits, rounded up
 *
 * Private to twheel.c, but for reading @cascaded and @shape. The caller
 * serialises all calls on one wheel.
 */
struct twheel {
	u64 clk;
	u64 next;
	u64 bound;
	u64 sweep_min;
	u64 cascaded;
	unsigned long *occupied;
	struct hlist_head *bucket;
	u32 visiting;
	u32 recip;
	struct twheel_shape shape;
};

unsigned int twheel_max_levels(unsigned int shift, unsigned int slot_bits);
size_t twheel_bytes(const struct twheel_shape *shape);
u64 twheel_horizon(const struct twheel_shape *shape);
void twheel_init(struct twheel *w, const struct twheel_shape *shape, void *mem,
		 u64 now);
void twheel_set_time(struct twheel *w, u64 now);
bool twheel_add(struct twheel *w, struct twheel_node *node, u64 deadline,
		u64 slack);
void twheel_del(struct twheel *w, struct twheel_node *node);
struct twheel_node *twheel_expire(struct twheel *w, u64 now,
				  unsigned int *budget);
u64 twheel_next(const struct twheel *w);

/**
 * twheel_due() - is there anything to do?
 * @w: the wheel
 * @now: the time in ns
 *
 * Return: whether twheel_expire() at @now has work. That may be work without
 * a result: nodes to move down, or a bucket that has been emptied meanwhile.
 */
static inline bool twheel_due(const struct twheel *w, u64 now)
{
	return twheel_next(w) <= now;
}

#endif /* _TWHEEL_H */
