// SPDX-License-Identifier: GPL-2.0
/*
 * A timerfd for each timer, in one epoll set.
 *
 * If a process may not have enough descriptors, threads with their own descriptor tables hold the
 * rest, without an epoll set. They perform the operations on these descriptors for the thread
 * that is measured, which waits for them: first all operations of one thread, in order, and then
 * those of the next. Only the time of the operations counts, not the time of handing them over.
 */
#define _GNU_SOURCE
#include <linux/close_range.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "bench.h"

#define EVENTS	256

/* Descriptors that are left for other purposes. */
#define RESERVE	1024U
/* A handle contains the descriptor and above it the owner, which is 0 for the caller. */
#define OWNER_SHIFT	32
/* Operations for each table in a repetition, so that the time of handing over is negligible. */
#define EACH	200U

/**
 * struct job - operations on timerfds of one descriptor table
 * @op: the operation
 * @bench: the bench
 * @handle: the timers
 * @nr: number of timers
 * @when: the deadline of the first timer
 */
struct job {
	BENCH_PROTO((*op));
	struct bench *bench;
	const uint64_t *handle;
	size_t nr;
	uint64_t when;
};

/**
 * struct holder - a thread with its own descriptor table
 * @thread: the thread
 * @crew: all holders
 * @handle: the handles of its timers
 * @nr: number of timers
 * @failed: it could not create them
 * @go: posted when there is a job, or when it must end
 * @job: the job
 * @leave: it must end
 */
struct holder {
	pthread_t thread;
	struct crew *crew;
	uint64_t *handle;
	uint32_t nr;
	bool failed;
	sem_t go;
	struct job job;
	bool leave;
};

/**
 * struct crew - the threads that hold timerfds beyond this process's limit
 * @holder: the threads
 * @nr: number of threads
 * @done: posted by a thread that has finished its job
 * @spent: CPU time of the operations
 * @sorted: handles of a call, sorted by their owner
 * @room: size of @sorted
 * @count: number of handles by owner, and later the end of their part; 0 is the caller
 */
struct crew {
	struct holder *holder;
	unsigned int nr;
	sem_t done;
	uint64_t spent;
	uint64_t *sorted;
	size_t room;
	size_t *count;
};

struct timerfds {
	int loop;
	int *fd;
	uint32_t nr;
	struct crew crew;
};

/* Each timer takes one of the descriptors that a process may have. */
static uint32_t timerfd_limit(void)
{
	uint64_t most = bench_raise_limit(RLIMIT_NOFILE, bench_timerfd.max_n + RESERVE);

	return most > RESERVE + BENCH_SPARE ? most - RESERVE - BENCH_SPARE : 0;
}

static int make_timerfd(void)
{
	return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
}

/* These timers are due at random times within HOLD_SPAN, in an hour, and never expire. */
#define HOLD_FROM	(3600 * NSEC_PER_SEC)
#define HOLD_SPAN	(5 * NSEC_PER_SEC)

static bool hold_some(struct holder *holder)
{
	uint64_t base = bench_now() + HOLD_FROM;
	uint64_t owner = holder - holder->crew->holder + 1;
	uint32_t i;

	/* Get a private descriptor table without the descriptors of the other threads. */
	if (close_range(3, ~0U, CLOSE_RANGE_UNSHARE))
		return false;
	for (i = 0; i < holder->nr; i++) {
		/* All threads get the same random numbers, so make the deadlines differ. */
		uint64_t when = base + (bench_random() + owner * NSEC_PER_USEC) % HOLD_SPAN;
		struct itimerspec its = { .it_value = BENCH_TIME(when) };
		int fd = make_timerfd();

		if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME, &its, NULL))
			return false;
		holder->handle[i] = owner << OWNER_SHIFT | fd;
	}
	return true;
}

static void do_job(struct crew *crew, const struct job *job)
{
	uint64_t start = bench_thread_cpu();

	job->op(job->bench, job->handle, job->nr, job->when);
	crew->spent += bench_thread_cpu() - start;
}

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem))
		;
}

static void *hold(void *arg)
{
	struct holder *holder = arg;

	holder->failed = !hold_some(holder);
	for (;;) {
		sem_post(&holder->crew->done);
		wait_for(&holder->go);
		if (holder->leave)
			break;
		do_job(holder->crew, &holder->job);
	}
	/*
	 * Close the descriptors now. The kernel would do so some time after the thread was
	 * joined.
	 */
	close_range(3, ~0U, 0);
	return NULL;
}

/* Starts the threads one after the other, so that a failure is noticed at once. */
static bool hire(struct crew *crew, uint64_t *handle, uint32_t nr, uint32_t limit)
{
	sem_init(&crew->done, 0, 0);
	crew->holder = bench_alloc(nr / limit + 1, sizeof(*crew->holder));
	crew->count = bench_alloc(nr / limit + 2, sizeof(*crew->count));
	while (nr) {
		struct holder *holder = &crew->holder[crew->nr++];

		holder->crew = crew;
		holder->handle = handle;
		holder->nr = nr < limit ? nr : limit;
		sem_init(&holder->go, 0, 0);
		handle += holder->nr;
		nr -= holder->nr;
		if (pthread_create(&holder->thread, NULL, hold, holder)) {
			crew->nr--;
			return false;
		}
		wait_for(&crew->done);
		if (holder->failed)
			return false;
	}
	return true;
}

static void dismiss(struct crew *crew)
{
	unsigned int i;

	for (i = 0; i < crew->nr; i++) {
		crew->holder[i].leave = true;
		sem_post(&crew->holder[i].go);
		pthread_join(crew->holder[i].thread, NULL);
	}
	free(crew->sorted);
	free(crew->count);
	free(crew->holder);
}

/*
 * Has the owners of the descriptors apply @op to each handle. The deadlines follow the order in
 * which the operations are performed.
 */
static void share_out(struct bench *b, BENCH_PROTO((*op)), const uint64_t *handle, size_t nr,
		      uint64_t when)
{
	struct crew *crew = &((struct timerfds *)b->state)->crew;
	size_t end = 0, i;
	unsigned int owner;

	if (crew->room < nr) {
		free(crew->sorted);
		crew->sorted = bench_alloc(nr, sizeof(*crew->sorted));
		crew->room = nr;
	}
	memset(crew->count, 0, (crew->nr + 1) * sizeof(*crew->count));
	for (i = 0; i < nr; i++)
		crew->count[handle[i] >> OWNER_SHIFT]++;
	/* @count becomes the index for the next handle of each owner. */
	for (owner = 0; owner <= crew->nr; owner++) {
		end += crew->count[owner];
		crew->count[owner] = end - crew->count[owner];
	}
	for (i = 0; i < nr; i++)
		crew->sorted[crew->count[handle[i] >> OWNER_SHIFT]++] = handle[i];
	/* Now it is the end of each owner's handles. */
	for (owner = 0, i = 0; owner <= crew->nr; i = crew->count[owner++]) {
		struct job job = {
			op, b, crew->sorted + i, crew->count[owner] - i, when + i * BENCH_STEP
		};
		if (!job.nr)
			continue;
		if (!owner) {
			do_job(crew, &job);
			continue;
		}
		crew->holder[owner - 1].job = job;
		sem_post(&crew->holder[owner - 1].go);
		wait_for(&crew->done);
	}
}

/*
 * True if threads hold some of the timers. A bench with two threads only uses the caller's
 * descriptors.
 */
static bool is_shared(const struct bench *b)
{
	const struct timerfds *t = b->state;

	return t->crew.nr && b->threads == 1;
}

static uint64_t timerfd_cpu(struct bench *b)
{
	const struct timerfds *t = b->state;

	return is_shared(b) ? t->crew.spent : bench_thread_cpu();
}

static inline int timerfd_arm_one(void *it, uint64_t handle, uint64_t when)
{
	struct itimerspec its = { .it_value = BENCH_TIME(when) };

	(void)it;
	return timerfd_settime((int)handle, TFD_TIMER_ABSTIME, &its, NULL);
}

static inline int timerfd_cancel_one(void *it, uint64_t handle, uint64_t when)
{
	(void)when;
	return timerfd_arm_one(it, handle, 0);
}

BENCH_LOOPS(own, b->state, timerfd_arm_one, timerfd_arm_one, timerfd_cancel_one)

/* True if the timer is armed for this time, or for never. */
static inline int armed_for_one(void *it, uint64_t handle, uint64_t when)
{
	uint64_t before = bench_now(), left;
	struct itimerspec its;

	(void)it;
	if (timerfd_gettime((int)handle, &its))
		return -1;
	left = its.it_value.tv_sec * NSEC_PER_SEC + its.it_value.tv_nsec;
	return before + left <= when && when <= bench_now() + left ? 0 : -1;
}

static inline int idle_one(void *it, uint64_t handle, uint64_t when)
{
	struct itimerspec its;

	(void)it;
	(void)when;
	return timerfd_gettime((int)handle, &its) || its.it_value.tv_sec || its.it_value.tv_nsec ?
		-1 : 0;
}

static BENCH_PROTO(armed_for)
{
	bench_each(b, b->state, handle, nr, when, armed_for_one);
}

static BENCH_PROTO(idle)
{
	bench_each(b, b->state, handle, nr, when, idle_one);
}

/*
 * Checks that the threads operate on the right timers, because the descriptors of all threads have
 * the same numbers.
 */
static void check_crew(struct bench *b)
{
	uint64_t *handle = bench_alloc(b->n, sizeof(*handle)), when = bench_now() + HOLD_FROM;
	uint32_t *order = bench_alloc(b->n, sizeof(*order)), i;

	for (i = 0; i < b->n; i++)
		order[i] = i;
	bench_shuffle(order, b->n);
	for (i = 0; i < b->n; i++)
		handle[i] = b->handle[order[i]];
	share_out(b, own_move, handle, b->n, when);
	share_out(b, armed_for, handle, b->n, when);
	/* Half of them. */
	share_out(b, own_cancel, handle, b->n / 2, when);
	share_out(b, idle, handle, b->n / 2, when);
	share_out(b, own_arm, handle, b->n / 2, when);
	share_out(b, armed_for, handle, b->n / 2, when);
	free(order);
	free(handle);
}

static uint32_t timerfd_reach(struct bench *b)
{
	return is_shared(b) ? b->n : b->usable;
}

static void timerfd_close(struct bench *b)
{
	struct timerfds *t = b->state;
	uint32_t i;

	dismiss(&t->crew);
	for (i = 0; i < t->nr; i++)
		close(t->fd[i]);
	close(t->loop);
	free(t->fd);
	free(t);
}

static int timerfd_open(struct bench *b)
{
	uint32_t limit = timerfd_limit(), i;
	struct timerfds *t;

	if (!limit)
		return -1;
	if (b->usable > limit)
		b->usable = limit;
	t = bench_alloc(1, sizeof(*t));
	t->fd = bench_alloc(b->usable + BENCH_SPARE, sizeof(*t->fd));
	t->loop = epoll_create1(EPOLL_CLOEXEC);
	b->state = t;
	if (!hire(&t->crew, b->handle + b->usable, b->n - b->usable, limit)) {
		timerfd_close(b);
		return -1;
	}
	for (i = 0; i < b->usable + BENCH_SPARE; i++) {
		uint32_t index = i < b->usable ? i : b->n + i - b->usable;
		struct epoll_event ev = { .events = EPOLLIN, .data.u64 = (uint64_t)index << 32 };
		int fd = make_timerfd();

		ev.data.u64 |= (uint32_t)fd;
		if (fd < 0 || epoll_ctl(t->loop, EPOLL_CTL_ADD, fd, &ev)) {
			if (fd >= 0)
				close(fd);
			timerfd_close(b);
			return -1;
		}
		t->fd[t->nr++] = fd;
		b->handle[index] = fd;
	}
	if (t->crew.nr) {
		bench_note("timerfd: of %u timers, %u are held by %u more threads", b->n,
			   b->n - b->usable, t->crew.nr);
		b->least = EACH * (t->crew.nr + 1);
		check_crew(b);
	}
	return 0;
}

#define SHARED(op)							\
static void timerfd_##op(struct bench *b, const uint64_t *handle,	\
			 size_t nr, uint64_t when)			\
{									\
	if (is_shared(b))						\
		share_out(b, own_##op, handle, nr, when);		\
	else								\
		own_##op(b, handle, nr, when);				\
}

SHARED(arm)
SHARED(move)
SHARED(cancel)
SHARED(pair)
SHARED(turnover)

static void timerfd_deliver(struct bench *b, uint64_t until)
{
	struct timerfds *t = b->state;
	struct epoll_event events[EVENTS];
	uint64_t now, ticks;
	int i, nr;

	while ((now = bench_now()) < until) {
		struct timespec ts = BENCH_TIME(until - now);

		nr = epoll_pwait2(t->loop, events, EVENTS, &ts, NULL);
		for (i = 0; i < nr; i++) {
			int fd = (uint32_t)events[i].data.u64;

			if (read(fd, &ticks, sizeof(ticks)) == sizeof(ticks))
				bench_deliver(b, events[i].data.u64 >> 32);
		}
	}
}

BENCH_BACKEND(timerfd, "timerfd", timerfd, timerfd,
	      .max_n = 1000000, .threads = BENCH_THREADS,
	      .why = "a process may not have more descriptors than fs.nr_open",
	      .limit = timerfd_limit, .open = timerfd_open, .reach = timerfd_reach,
	      .cpu = timerfd_cpu);
