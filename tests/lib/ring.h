/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of io_uring that the tests of poll and read need, without liburing.
 */
#ifndef RING_H
#define RING_H

#include "wheel.h"

#include <linux/io_uring.h>

struct ring {
	int fd;
	struct io_uring_params p;
	char *sq, *cq;
	size_t sq_size, cq_size;
	struct io_uring_sqe *sqes;
};

static inline bool open_ring(struct ring *r)
{
	memset(r, 0, sizeof(*r));
	r->fd = syscall(SYS_io_uring_setup, 8, &r->p);
	if (r->fd < 0)
		return false;
	r->sq_size = r->p.sq_off.array + r->p.sq_entries * sizeof(__u32);
	r->cq_size = r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct io_uring_cqe);
	r->sq = map_at(r->fd, r->sq_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		       IORING_OFF_SQ_RING);
	r->cq = map_at(r->fd, r->cq_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		       IORING_OFF_CQ_RING);
	r->sqes = map_at(r->fd, r->p.sq_entries * sizeof(*r->sqes), PROT_READ | PROT_WRITE,
			 MAP_SHARED, IORING_OFF_SQES);
	return r->sq != MAP_FAILED && r->cq != MAP_FAILED && (void *)r->sqes != MAP_FAILED;
}

static inline void close_ring(struct ring *r)
{
	munmap(r->sqes, r->p.sq_entries * sizeof(*r->sqes));
	munmap(r->cq, r->cq_size);
	munmap(r->sq, r->sq_size);
	close(r->fd);
}

static inline bool submit(struct ring *r, const struct io_uring_sqe *sqe)
{
	__u32 *tail = (__u32 *)(r->sq + r->p.sq_off.tail);
	__u32 at = *tail & *(__u32 *)(r->sq + r->p.sq_off.ring_mask);

	r->sqes[at] = *sqe;
	((__u32 *)(r->sq + r->p.sq_off.array))[at] = at;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	return syscall(SYS_io_uring_enter, r->fd, 1, 0, 0, NULL, 0) == 1;
}

/* Waits up to @timeout_ms for the next completion. */
static inline bool reap(struct ring *r, struct io_uring_cqe *cqe, int timeout_ms)
{
	__u32 *head = (__u32 *)(r->cq + r->p.cq_off.head);
	__u32 *tail = (__u32 *)(r->cq + r->p.cq_off.tail);
	struct pollfd p = { .fd = r->fd, .events = POLLIN };

	if (*head == __atomic_load_n(tail, __ATOMIC_ACQUIRE) &&
	    poll_again(&p, 1, timeout_ms) != 1)
		return false;
	if (*head == __atomic_load_n(tail, __ATOMIC_ACQUIRE))
		return false;
	*cqe = ((struct io_uring_cqe *)(r->cq + r->p.cq_off.cqes))
		[*head & *(__u32 *)(r->cq + r->p.cq_off.ring_mask)];
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return true;
}

#endif /* RING_H */
