// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A hierarchical timing wheel that expires every timer at its own tick.
 *
 * After G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987):
 * scheme 7. The timers of a coarse bucket move down when the wheel reaches it. With one
 * level it is their scheme 6, the hashed wheel, which visits a far timer once per round
 * until it is due.
 *
 * With ticks of 2^19 ns and 64 buckets a level (the defaults of the device):
 *
 *   level  bucket (granularity)   reaches         so a timer moves down
 *     0       0.524 ms              33.6 ms         never
 *     1      33.6   ms               2.15 s         once
 *     2       2.15  s                2 min 17 s     twice
 *     3       2 min 17 s             2 h 27 min     3 times
 *     4       2 h 27 min             6.5 days       4 times
 *     5       6.5 days               1 year 52 d    5 times
 *     6       1 year 52 d           73 years        6 times
 *     7      73 years              the end of time  7 times
 *
 * A timer is late by one tick at most, at every distance, whereas kernel/time/timer.c (since
 * 4.8) leaves a far timer in its coarse bucket, late by up to an eighth of its delay. The price
 * is that a timer that expires is touched once more for each level. Most timeouts never expire.
 *
 * Bucket n of level l is visited at its first tick, which is n << (l * slot_bits). For example:
 *
 *     clk = 130, slot_bits = 6:   0 . . . . . . 2 3 . . . . 63   level 0
 *     a timer at tick 131                         ^
 *     a timer at tick 260: 260 - 130 > 64, so level 1, bucket 260 >> 6 = 4,
 *     visited at tick 256, where it moves to level 0, bucket 260 & 63 = 4.
 *
 * A level holds a timer if the distance is no more than its 2^slot_bits buckets. The
 * present bucket has been visited already, so a timer put there waits for the next round.
 *
 * All timers that are farther away than the levels reach are in the top level, where a visit
 * leaves those that are not near yet. No timer of the top level needs a visit before tick
 * @bound. @bound is exact until the earliest of these timers is deleted or expires, and
 * is found anew in the next round.
 *
 * Timers are put in front of their bucket, where a visit begins. So those of one tick expire
 * latest first if the finest level reached them when they were armed, and earliest first if they
 * moved down once, because that reverses a list. Nobody may rely on either order.
 *
 * The nodes of a bucket are far apart in memory, and a visit knows the address of the next one
 * only when the one before it has arrived from memory. So each node contains a jump pointer,
 * which is the number of the node that the visit reaches eight nodes later: see A. Roth and
 * G. Sohi, "Effective Jump-Pointer Prefetching for Linked Data Structures" (ISCA 1999). It names
 * the node that was put into the bucket eight nodes before. If that node has moved elsewhere in
 * the meantime, only the prefetch is wasted.
 *
 * Time never wraps: it is 64 bits of ns, and a tick is at least 1 ns.
 */
#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/limits.h>
#include <linux/minmax.h>

#include "twheel.h"

/* Shift from ticks to bucket numbers of @level. */
static unsigned int level_shift(const struct wheel *w, unsigned int level)
{
	return level * w->shape.slot_bits;
}

/* Level whose buckets are the coarsest not wider than 2^@order ticks. */
static unsigned int order_level(const struct wheel *w, unsigned int order)
{
	return min(order * w->recip >> 16, w->top);
}

static unsigned int bucket_of(const struct wheel *w, unsigned int level, u64 number)
{
	return (level << w->shape.slot_bits) + ((unsigned int)number & w->mask);
}

static struct hlist_head *visited(const struct wheel *w, unsigned int level)
{
	return &w->bucket[w->buckets + level];
}

/* The first tick that starts at @deadline or later, so that no timer expires early. */
static u64 deadline_tick(const struct wheel *w, u64 deadline)
{
	return deadline ? ((deadline - 1) >> w->shape.shift) + 1 : 0;
}

/**
 * wheel_max_levels() - how many levels span every deadline of 64 bits
 * @shift: a tick is 2^shift ns
 * @slot_bits: a level has 2^slot_bits buckets
 */
unsigned int wheel_max_levels(unsigned int shift, unsigned int slot_bits)
{
	return (64 - shift + slot_bits - 1) / slot_bits;
}

/**
 * wheel_bytes() - return how many bytes of memory wheel_init() needs
 * @shape: the shape of the wheel
 */
size_t wheel_bytes(const struct wheel_shape *shape)
{
	size_t buckets = (size_t)shape->levels << shape->slot_bits;

	return BITS_TO_LONGS(buckets) * sizeof(unsigned long) +
	       (buckets + shape->levels) * sizeof(struct hlist_head) +
	       WHEEL_RINGS * sizeof(struct wheel_ring);
}

/**
 * wheel_horizon() - the span of all levels in ns, %WHEEL_NEVER if it is all time
 * @shape: the shape of the wheel
 */
u64 wheel_horizon(const struct wheel_shape *shape)
{
	unsigned int bits = shape->shift + shape->levels * shape->slot_bits;

	return bits < 64 ? 1ULL << bits : WHEEL_NEVER;
}

/**
 * wheel_init() - make an empty wheel
 * @w: the wheel
 * @shape: its shape, within the limits that &struct wheel_shape names
 * @mem: wheel_bytes() of zeroed memory, aligned for a pointer. The caller frees it. With
 *	NULL, the wheel tells the time, but nothing can be added
 * @now: the time in ns
 * @fetch: prefetches the nodes that a visit reaches next, or NULL
 * @nodes: the first argument of @fetch
 */
void wheel_init(struct wheel *w, const struct wheel_shape *shape, void *mem, u64 now,
		wheel_fetch_fn fetch, const void *nodes)
{
	*w = (struct wheel) {
		.clk = now >> shape->shift,
		.next = WHEEL_NEVER,
		.bound = WHEEL_NEVER,
		.sweep_min = WHEEL_NEVER,
		.mask = (1U << shape->slot_bits) - 1,
		.recip = (1U << 16) / shape->slot_bits + 1,
		.top = shape->levels - 1,
		.buckets = shape->levels << shape->slot_bits,
		.shape = *shape,
		.occupied = mem,
		.fetch = fetch,
		.nodes = nodes,
	};
	w->bucket = (struct hlist_head *)(w->occupied + BITS_TO_LONGS(w->buckets));
	w->ring = (struct wheel_ring *)(w->bucket + w->buckets + shape->levels);
}

/* Prefetches the node @number, unless this visit ends before it. */
static void fetch(const struct wheel *w, u32 number, bool due, unsigned int budget)
{
	if (w->fetch && budget >= WHEEL_AHEAD)
		w->fetch(w->nodes, number, due);
}

static struct wheel_ring *ring_of(const struct wheel *w, const struct hlist_head *head)
{
	return &w->ring[(unsigned int)(head - w->bucket) % WHEEL_RINGS];
}

/* Puts @node in front of a bucket, where a visit begins. */
static __always_inline void push(struct wheel *w, struct hlist_head *head,
				 struct wheel_node *node, u32 number)
{
	struct wheel_ring *ring = ring_of(w, head);
	u32 *oldest = &ring->number[ring->pushed++ % WHEEL_AHEAD];

	hlist_add_head(&node->link, head);
	node->ahead = *oldest;
	*oldest = number;
}

/*
 * Links @node, whose tick is after clk, into a bucket of the level for its distance, or of level
 * @floor if that is higher. If the bucket is not empty, its bit is set already, and @next includes
 * its visit.
 *
 * Inlined, because a CPU can have only few stores in flight. To arm a random one of 1,000,000
 * timers takes 21 ns, and took 38 ns with the stack frames of two more functions (AMD EPYC).
 */
static __always_inline void enqueue(struct wheel *w, struct wheel_node *node, u32 nr,
				    unsigned int floor)
{
	u64 distance = node->tick - w->clk;
	/* Level l reaches 2^((l + 1) * slot_bits) ticks, inclusively. */
	unsigned int level = order_level(w, fls64((distance - 1) | 1) - 1);
	struct hlist_head *head;
	unsigned int shift;
	u64 number;

	level = max(level, floor);
	shift = level_shift(w, level);
	number = node->tick >> shift;
	head = &w->bucket[bucket_of(w, level, number)];
	if (hlist_empty(head)) {
		__set_bit(head - w->bucket, w->occupied);
		w->filled |= 1U << level;
		w->next = min(w->next, number << shift);
	}
	push(w, head, node, nr);
	if (level == w->top) {
		u64 start = number << shift;

		w->next = min(w->next, start);
		w->bound = min(w->bound, start);
		w->sweep_min = min(w->sweep_min, node->tick);
	}
}

/**
 * wheel_add() - queue a node
 * @w: the wheel
 * @node: a node that is not queued
 * @number: its number, which the caller knows. To read it from the node would mean to wait for
 *	the node's memory
 * @deadline: when it is due, in ns
 * @slack: by how many ns it may be late beyond the tick of its deadline
 *
 * Slack postpones the deadline to the start of a bucket in the coarsest level whose buckets are
 * no wider than the slack. There the node shares its wake-up with others, and does not have to
 * move down to the finest level. If that bucket is beyond the reach of its level, the node is
 * queued higher, and moves down to it.
 *
 * O(1). Call wheel_set_time() before, because the distance counts from that time.
 *
 * Return: true if the node was queued; false if the wheel is past @deadline already, in which
 * case nothing was done, and the caller has to expire the node.
 */
bool wheel_add(struct wheel *w, struct wheel_node *node, u32 number, u64 deadline, u64 slack)
{
	u64 tick = deadline_tick(w, deadline);
	u64 slack_ticks = slack >> w->shape.shift;
	unsigned int floor = 0;

	if (tick <= w->clk)
		return false;

	if (slack_ticks > 1) {
		u64 mask;

		floor = order_level(w, fls64(slack_ticks) - 1);
		mask = (1ULL << level_shift(w, floor)) - 1;
		/* At the end of time, no bucket of that level may begin after @tick. */
		if (tick <= U64_MAX - mask)
			tick = (tick + mask) & ~mask;
		else
			floor = 0;
	}
	node->tick = tick;
	enqueue(w, node, number, floor);
	return true;
}

/**
 * wheel_del() - take a queued node out
 * @w: the wheel
 * @node: a node that wheel_add() queued and wheel_expire() has not returned
 *
 * O(1). The wheel may still ask for a turn at the time of the deleted node.
 */
void wheel_del(struct wheel *w, struct wheel_node *node)
{
	struct hlist_head *head = (struct hlist_head *)node->link.pprev;
	bool last = !node->link.next;

	__hlist_del(&node->link);
	/* The pprev of the only node in a bucket points to the bucket, and so tells which it is. */
	if (last && head >= w->bucket && head < w->bucket + w->buckets)
		__clear_bit(head - w->bucket, w->occupied);
}

/* Tick of the first visit after clk, WHEEL_NEVER if all buckets are empty. */
static u64 first_visit(struct wheel *w)
{
	unsigned int size = 1U << w->shape.slot_bits;
	unsigned int level;
	u64 first = WHEEL_NEVER;

	for (level = 0; level < w->shape.levels; level++) {
		unsigned int shift = level_shift(w, level);
		unsigned int base = level * size;
		u64 from = (w->clk >> shift) + 1;
		unsigned int here, bit;

		if (!(w->filled & 1U << level))
			continue;

		/* No visit of this level or of a coarser one can come before @first. */
		if (first <= from << shift)
			break;
		if (level == w->top)
			from = max(from, w->bound >> shift);
		here = bucket_of(w, level, from);
		bit = find_next_bit(w->occupied, base + size, here);
		if (bit >= base + size) {
			bit = find_next_bit(w->occupied, here, base);
			if (bit >= here) {
				w->filled &= ~(1U << level);
				continue;
			}
			bit += size;
		}
		first = min(first, (from + bit - here) << shift);
	}
	return first;
}

/**
 * wheel_set_time() - tell an idle wheel the time
 * @w: the wheel
 * @now: the time in ns
 *
 * Moves the wheel on to @now, unless something is due. If the clock has been set back, so
 * is the wheel. All nodes stay where they are: a visit may then come a round too early,
 * and leaves or re-queues what is not due, but never too late.
 */
void wheel_set_time(struct wheel *w, u64 now)
{
	u64 tick = now >> w->shape.shift;

	if (tick < w->clk) {
		w->clk = tick;
		/* A wheel that has no buckets yet has no timers. */
		if (w->occupied)
			w->next = first_visit(w);
	} else if (tick < w->next && !w->visiting) {
		w->clk = tick;
	}
}

/**
 * wheel_next() - return when wheel_expire() must be called
 * @w: the wheel
 *
 * Return: the first moment in ns at which anything has to be done, perhaps in the past;
 * %WHEEL_NEVER if there is none. Only wheel_add() and a clock set back make it earlier.
 */
u64 wheel_next(const struct wheel *w)
{
	u64 tick = w->visiting ? w->clk : w->next;

	return tick > U64_MAX >> w->shape.shift ? WHEEL_NEVER : tick << w->shape.shift;
}

/*
 * Starts the visit of all buckets that begin at tick @next. Not inlined, for the reason that
 * move_down() is not.
 */
static noinline void start_visits(struct wheel *w, unsigned int budget)
{
	unsigned int top = w->top;
	unsigned int level;

	w->clk = w->next;
	for (level = 0; level <= top; level++) {
		unsigned int shift = level_shift(w, level);
		u64 number = w->clk >> shift;
		unsigned int idx = bucket_of(w, level, number);
		unsigned int i;
		bool full;

		if (number << shift != w->clk)
			break;
		/*
		 * At least a round has passed since @bound, so every timer of the top
		 * level was queued or re-queued since, and @sweep_min is the earliest. If
		 * that one has left already, the next round begins here.
		 */
		if (level == top && w->clk > w->bound &&
		    (number - (w->bound >> shift)) >> w->shape.slot_bits) {
			w->bound = max(w->sweep_min >> shift << shift, w->clk);
			w->sweep_min = WHEEL_NEVER;
		}
		/*
		 * A variable, because ci/coverage.sh cannot count a branch on a bit
		 * macro.
		 */
		full = test_bit(idx, w->occupied);
		if (!full)
			continue;
		__clear_bit(idx, w->occupied);
		hlist_move_list(&w->bucket[idx], visited(w, level));
		for (i = 0; i < WHEEL_AHEAD; i++)
			fetch(w, ring_of(w, &w->bucket[idx])->number[i], !level, budget);
		w->visiting |= 1U << level;
	}
	w->next = first_visit(w);
}

/*
 * Moves the nodes of @head down, as many as @budget allows, until it reaches one that is due. All
 * of them leave from the front of the list, so its head is set only once, at the end.
 *
 * Not inlined, or else each wheel_expire() would save the registers that this one needs.
 */
static noinline void move_down(struct wheel *w, struct hlist_head *head, unsigned int *budget)
{
	struct hlist_node *first = head->first;
	unsigned int left = *budget;

	while (first && left) {
		struct wheel_node *node = hlist_entry(first, struct wheel_node, link);

		if (node->tick <= w->clk)
			break;
		first = first->next;
		left--;
		fetch(w, node->ahead, false, left);
		/* A timer postponed by slack goes no lower than the level of that slack. */
		enqueue(w, node, node->number, node->tick & w->mask ? 0 :
			order_level(w, __ffs64(node->tick)));
	}
	head->first = first;
	if (first)
		first->pprev = &head->first;
	w->cascaded += *budget - left;
	*budget = left;
}

/**
 * wheel_expire() - take the next node that is due off the wheel
 * @w: the wheel
 * @now: the time in ns
 * @budget: in: how many nodes may be touched; out: how many of these are left
 *
 * Nodes come in the order of their ticks. When the budget is used up, the next call continues
 * the visit, and nodes may be added and deleted in the meantime. Empty buckets cost nothing.
 *
 * Return: a node whose deadline is not after @now, and that is not queued any more; or NULL if
 * there is none or the budget is used up, which wheel_next() tells apart.
 */
struct wheel_node *wheel_expire(struct wheel *w, u64 now, unsigned int *budget)
{
	wheel_set_time(w, now);
	for (;;) {
		while (w->visiting) {
			unsigned int level = __fls(w->visiting);
			struct hlist_head *head = visited(w, level);
			struct hlist_node *first = head->first;
			struct wheel_node *node;

			if (!first) {
				w->visiting &= ~(1U << level);
				continue;
			}
			if (!*budget)
				return NULL;
			node = hlist_entry(first, struct wheel_node, link);
			if (node->tick > w->clk) {
				move_down(w, head, budget);
				continue;
			}
			--*budget;
			fetch(w, node->ahead, true, *budget);
			__hlist_del(&node->link);
			return node;
		}
		if (w->next > now >> w->shape.shift)
			break;
		start_visits(w, *budget);
	}
	wheel_set_time(w, now);
	return NULL;
}
