/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A hierarchical timing wheel: the mechanism alone.
 *
 * It links nodes into buckets, and says when something has to happen next. The caller passes the
 * time and the memory, because the wheel itself uses no clock, lock, allocator, file or user
 * memory. So the same source serves the module, the KUnit suites and programs in user space.
 */
#ifndef _TWHEEL_H
#define _TWHEEL_H

#include <linux/limits.h>
#include <linux/list.h>
#include <linux/types.h>

#define WHEEL_MIN_SLOT_BITS	4
#define WHEEL_MAX_SLOT_BITS	16
#define WHEEL_MAX_LEVELS	16U

/* The end of time: a moment that never comes. Every "now" lies before it. */
#define WHEEL_NEVER		U64_MAX

/**
 * struct wheel_shape - the three numbers that make a wheel
 * @shift: a tick is 2^shift ns; 0 to 63
 * @slot_bits: a level has 2^slot_bits buckets; %WHEEL_MIN_SLOT_BITS to
 *	%WHEEL_MAX_SLOT_BITS
 * @levels: 1 to wheel_max_levels()
 */
struct wheel_shape {
	unsigned int shift;
	unsigned int slot_bits;
	unsigned int levels;
};

/*
 * Prefetches the node @number, which is or was queued, and if it is @due, also the memory that the
 * caller accesses when the node expires. @nodes is the argument of wheel_init().
 */
typedef void (*wheel_fetch_fn)(const void *nodes, u32 number, bool due);

/* How many nodes ahead of itself a visit prefetches. */
#define WHEEL_AHEAD		8U

/**
 * struct wheel_node - a node of the wheel, which the caller embeds in a timer
 * @link: links the node into a bucket. While the node is not queued, the caller can use it
 * @tick: when the node is due, while it is queued
 * @number: number of the node, which the caller passes to wheel_add()
 * @ahead: number of the node that a visit reaches %WHEEL_AHEAD nodes later, if none of them has
 *	been deleted
 */
struct wheel_node {
	struct hlist_node link;
	u64 tick;
	u32 number;
	u32 ahead;
};

/* Number of rings. Bucket n uses ring n % WHEEL_RINGS. */
#define WHEEL_RINGS		256

/**
 * struct wheel_ring - the nodes that were last put in front of a bucket
 * @number: the numbers of these nodes, some of which may have been deleted
 * @pushed: how many nodes have been put there in all. The next one replaces the oldest
 */
struct wheel_ring {
	u32 number[WHEEL_AHEAD];
	u32 pushed;
};

/**
 * struct wheel - a wheel
 * @clk: the wheel's time in ticks: all nodes that are due at this tick have left the buckets
 * @next: no bucket needs a visit before this tick. After deletions, it may be too early
 * @bound: no timer of the top level needs a visit before this tick
 * @sweep_min: the earliest tick that was queued in the top level since @bound was set
 * @cascaded: how often a visit has moved a node on
 * @occupied: a bit for each bucket that is not empty
 * @bucket: the buckets, level after level, followed by a list for each level, which contains the
 *	nodes of the bucket that is being visited
 * @ring: the %WHEEL_RINGS rings
 * @visiting: a bit for each level whose list of visited nodes may not be empty
 * @filled: a bit for each level whose buckets may not all be empty
 * @shape: the argument of wheel_init()
 * @mask: 2^slot_bits - 1
 * @recip: 2^16 / slot_bits, rounded up
 * @top: the highest level
 * @buckets: number of buckets
 * @fetch: the argument of wheel_init()
 * @nodes: the argument of wheel_init()
 *
 * Others read only @cascaded and @shape, and libtwheel's twheel_next() the buckets. The caller
 * serializes all calls on one wheel.
 */
struct wheel {
	u64 clk;
	u64 next;
	u64 bound;
	u64 sweep_min;
	u64 cascaded;
	unsigned long *occupied;
	struct hlist_head *bucket;
	struct wheel_ring *ring;
	u32 visiting;
	u32 filled;
	u32 mask;
	u32 recip;
	u32 top;
	u32 buckets;
	struct wheel_shape shape;
	wheel_fetch_fn fetch;
	const void *nodes;
};

unsigned int wheel_max_levels(unsigned int shift, unsigned int slot_bits);
size_t wheel_bytes(const struct wheel_shape *shape);
u64 wheel_horizon(const struct wheel_shape *shape);
void wheel_init(struct wheel *w, const struct wheel_shape *shape, void *mem, u64 now,
		wheel_fetch_fn fetch, const void *nodes);
void wheel_set_time(struct wheel *w, u64 now);
bool wheel_add(struct wheel *w, struct wheel_node *node, u32 number, u64 deadline, u64 slack);
void wheel_del(struct wheel *w, struct wheel_node *node);
u64 wheel_next(const struct wheel *w);
struct wheel_node *wheel_expire(struct wheel *w, u64 now, unsigned int *budget);

#endif /* _TWHEEL_H */
