// SPDX-License-Identifier: GPL-2.0
/*
 * An io_uring timeout for each timer. Operations are submitted 64 at a time.
 *
 * To move or remove a timeout, the kernel searches the list of all timeouts.
 */
#include <liburing.h>
#include <stdlib.h>

#include "bench.h"

#define BATCH	64U
#define ENTRIES	(4 * BATCH)

/* The user_data of moves and removals, whose success is not reported. */
#define QUIET	UINT64_MAX

struct uring {
	struct io_uring ring;
	struct __kernel_timespec ts[BATCH];
	unsigned int queued;
};

static int uring_open(struct bench *b)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_CQSIZE,
		.cq_entries = 1 << 16,
	};
	struct uring *u = bench_alloc(1, sizeof(*u));
	uint32_t i;

	if (io_uring_queue_init_params(ENTRIES, &u->ring, &params)) {
		free(u);
		return -1;
	}
	for (i = 0; i < b->n + BENCH_SPARE; i++)
		b->handle[i] = i;
	b->state = u;
	return 0;
}

static void uring_close(struct bench *b)
{
	struct uring *u = b->state;

	io_uring_queue_exit(&u->ring);
	free(u);
}

/* Takes all completions, and delivers those that are expirations. */
static void reap(struct bench *b)
{
	struct io_uring_cqe *cqes[BATCH];
	struct uring *u = b->state;
	unsigned int i, nr;

	while ((nr = io_uring_peek_batch_cqe(&u->ring, cqes, BATCH))) {
		for (i = 0; i < nr; i++) {
			if (cqes[i]->user_data == QUIET)
				b->failed += cqes[i]->res < 0;
			else if (cqes[i]->res == -ETIME)
				bench_deliver(b, cqes[i]->user_data);
		}
		io_uring_cq_advance(&u->ring, nr);
	}
}

/* Submits the queued operations. The caller holds the lock, if there is one. */
static void flush(struct bench *b)
{
	struct uring *u = b->state;

	if (u->queued && io_uring_submit(&u->ring) != (int)u->queued)
		bench_die("io_uring_submit");
	u->queued = 0;
	reap(b);
}

static struct io_uring_sqe *next_sqe(struct bench *b, struct __kernel_timespec **ts,
				     uint64_t when)
{
	struct uring *u = b->state;

	if (u->queued == BATCH)
		flush(b);
	*ts = &u->ts[u->queued++];
	(*ts)->tv_sec = when / NSEC_PER_SEC;
	(*ts)->tv_nsec = when % NSEC_PER_SEC;
	return io_uring_get_sqe(&u->ring);
}

static inline int uring_arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct __kernel_timespec *ts;
	struct io_uring_sqe *sqe = next_sqe(it, &ts, when);

	io_uring_prep_timeout(sqe, ts, 0, IORING_TIMEOUT_ABS);
	sqe->user_data = handle;
	return 0;
}

static inline int uring_move_one(void *it, uint64_t handle, uint64_t when)
{
	struct __kernel_timespec *ts;
	struct io_uring_sqe *sqe = next_sqe(it, &ts, when);

	io_uring_prep_timeout_update(sqe, ts, handle, IORING_TIMEOUT_ABS);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	sqe->user_data = QUIET;
	return 0;
}

static inline int uring_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	struct __kernel_timespec *ts;
	struct io_uring_sqe *sqe = next_sqe(it, &ts, when);

	io_uring_prep_timeout_remove(sqe, handle, 0);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	sqe->user_data = QUIET;
	return 0;
}

BENCH_LOOPS(uring_loop, b, uring_arm_one, uring_move_one, uring_cancel_one)

/* Submits the rest of the last batch. */
static void flush_rest(struct bench *b)
{
	bench_lock(b);
	flush(b);
	bench_unlock(b);
}

#define FLUSHED(op)							\
static void uring_##op(struct bench *b, const uint64_t *handle,		\
			 size_t nr, uint64_t when)			\
{									\
	uring_loop_##op(b, handle, nr, when);				\
	flush_rest(b);							\
}

FLUSHED(arm)
FLUSHED(move)
FLUSHED(cancel)
FLUSHED(pair)
FLUSHED(turnover)

static void uring_deliver(struct bench *b, uint64_t until)
{
	struct uring *u = b->state;
	struct io_uring_cqe *cqe;
	uint64_t now;

	while ((now = bench_now()) < until) {
		struct __kernel_timespec ts = BENCH_TIME(until - now);

		io_uring_wait_cqe_timeout(&u->ring, &cqe, &ts);
		reap(b);
	}
}

BENCH_BACKEND(io_uring, "io_uring", uring, uring,
	      .max_n = 100000, .threads = 1, .why = "each operation searches the list of all",
	      .open = uring_open);

/* Only one thread at a time may use a ring. */
BENCH_BACKEND(io_uring_mutex, "io_uring+mutex", uring, uring,
	      .max_n = 100000, .threads = 2, .locked = true, .together = true,
	      .why = "each operation searches the list of all", .open = uring_open);
