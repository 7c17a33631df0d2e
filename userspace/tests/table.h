/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The deadline table by hand: map it, exchange, read, compare.
 */
#ifndef TABLE_H
#define TABLE_H

#include "twheel_test.h"
#include "emulated.h"

#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE	4096ULL

/* As SOON, when more is to be done before. */
#define AHEAD	(2 * SOON)

struct table {
	int fd;
	struct twheel_table *head;
	struct twheel_slot *slots;
	__u64 tick;
	size_t bytes;
	/* How many KICKs arm() has needed. */
	unsigned long kicks;
};

static inline void *map_at(int fd, size_t bytes, int prot, int flags, off_t offset)
{
	return mmap(NULL, bytes, prot, flags, fd, offset);
}

/* 0, and nothing stays mapped; or the errno of the refusal, negative. */
static inline int try_map(int fd, size_t bytes, int prot, int flags, off_t offset)
{
	void *p = map_at(fd, bytes, prot, flags, offset);

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, bytes);
	return 0;
}

static inline struct table map_table(struct __test_metadata *_metadata, int fd)
{
	struct twheel_info i = info(_metadata, fd);
	struct table t = { .fd = fd, .tick = i.tick_ns, .bytes = i.table_bytes };

	ASSERT_TRUE(i.features & TWHEEL_FEATURE_TABLE);
	t.head = map_at(fd, t.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	ASSERT_TRUE(t.head != MAP_FAILED);
	t.slots = (void *)((char *)t.head + t.head->slots_offset);
	return t;
}

static inline void unmap_table(struct table *t)
{
	munmap(t->head, t->bytes);
}

static inline struct twheel_slot *slot_of(const struct table *t, __u64 id)
{
	return &t->slots[(__u32)id];
}

static inline __u64 swap_word(struct twheel_slot *slot, __u64 deadline)
{
	return __atomic_exchange_n(&slot->deadline_ns, deadline, __ATOMIC_SEQ_CST);
}

static inline __u64 word(const struct twheel_slot *slot)
{
	return __atomic_load_n(&slot->deadline_ns, __ATOMIC_SEQ_CST);
}

static inline __u64 wake(const struct twheel_slot *slot)
{
	return __atomic_load_n(&slot->wake_ns, __ATOMIC_SEQ_CST);
}

/* Start of the tick that @deadline is in, which ends with it at the latest. */
static inline __u64 tick_of(const struct table *t, __u64 deadline)
{
	return (deadline - 1) & ~(t->tick - 1);
}

static inline int kick_slots(int fd, const __u32 *slots, __u32 count)
{
	struct twheel_kick k = { .slots = ptr_u64(slots), .count = count };

	return call(fd, TWHEEL_IOC_KICK, &k);
}

static inline int kick(int fd, __u64 id)
{
	__u32 slot = id;

	return kick_slots(fd, &slot, 1);
}

/*
 * What the protocol asks of who arms or moves, without marks: a KICK that lists the slot
 * where the kernel would look too late. Returns what was there before.
 */
static inline __u64 arm(struct table *t, __u64 id, __u64 deadline)
{
	struct twheel_slot *slot = slot_of(t, id);
	__u64 old = swap_word(slot, deadline);

	if (deadline <= wake(slot)) {
		kick(t->fd, id);
		__atomic_fetch_add(&t->kicks, 1, __ATOMIC_RELAXED);
	}
	return old;
}

/* The word of 64 marks with that of @slot, and the word of the summary with its line. */
static inline __u64 *marks_of(const struct table *t, __u32 slot)
{
	return (__u64 *)((char *)t->head + t->head->marks_offset) + slot / 64;
}

static inline __u64 *summary_of(const struct table *t, __u32 slot)
{
	return (__u64 *)((char *)t->head + t->head->summary_offset) +
	       (slot >> t->head->summary_shift) / 64;
}

static inline __u64 mark_bit(__u32 slot)
{
	return 1ULL << slot % 64;
}

static inline __u64 summary_bit(const struct table *t, __u32 slot)
{
	return 1ULL << (slot >> t->head->summary_shift) % 64;
}

static inline bool is_marked(const struct table *t, __u32 slot)
{
	return __atomic_load_n(marks_of(t, slot), __ATOMIC_SEQ_CST) & mark_bit(slot);
}

static inline bool is_summed(const struct table *t, __u32 slot)
{
	return __atomic_load_n(summary_of(t, slot), __ATOMIC_SEQ_CST) & summary_bit(t, slot);
}

/* Sets the mark of @slot, then its bit of the summary; a full barrier behind each. */
static inline void mark(const struct table *t, __u32 slot)
{
	if (!is_marked(t, slot))
		__atomic_fetch_or(marks_of(t, slot), mark_bit(slot), __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!is_summed(t, slot))
		__atomic_fetch_or(summary_of(t, slot), summary_bit(t, slot), __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* When the wheel turns next. */
static inline __u64 next_turn(const struct table *t)
{
	return __atomic_load_n(&t->head->next_ns, __ATOMIC_SEQ_CST);
}

/* As arm(), by the marks: a system call only where the wheel would turn too late. */
static inline __u64 arm_marked(struct table *t, __u64 id, __u64 deadline)
{
	struct twheel_slot *slot = slot_of(t, id);
	__u64 old = swap_word(slot, deadline);

	if (deadline > wake(slot))
		return old;
	mark(t, id);
	if (deadline <= next_turn(t)) {
		kick_slots(t->fd, NULL, 0);
		__atomic_fetch_add(&t->kicks, 1, __ATOMIC_RELAXED);
	}
	return old;
}

static inline __u64 disarm(const struct table *t, __u64 id)
{
	return swap_word(slot_of(t, id), 0);
}

/* Waits until the kernel has published @value, which it must. */
static inline bool wake_becomes(const struct twheel_slot *slot, __u64 value)
{
	unsigned int ms;

	for (ms = 0; ms < PATIENCE_MS; ms++) {
		if (wake(slot) == value)
			return true;
		sleep_ms(1);
	}
	return false;
}

/* A kept timer without a deadline. */
static inline __u64 reserve(struct __test_metadata *_metadata, int fd, __u64 user_data)
{
	return add(_metadata, fd, 0, TWHEEL_KEEP | TWHEEL_DISARMED, user_data);
}

#endif /* TABLE_H */
