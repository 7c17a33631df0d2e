// SPDX-License-Identifier: GPL-2.0
/*
 * Measures what it costs to create and end a timer, as a server does for each connection or
 * request, and to move one, in CPU time of the thread, while other timers are armed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "libtwheel.h"
#include "vm_bench.h"

/* Timers that are armed meanwhile. */
#define STANDING	1000U
/* Pairs in a repetition. */
#define PAIRS		(40 * VM_BATCH)
#define MAX_REPS	25U

/**
 * struct maker - a way to create and end timers
 * @name: its name in the rows
 * @open: called first
 * @make: creates and arms @nr timers, beginning with @first, for @when and later
 * @end: ends them
 * @at_once: number of timers that are created before they are ended
 * @armed: returns how many are armed, for a check; NULL if @end checks each timer
 * @close: called when all timers have been ended
 */
struct maker {
	const char *name;
	void (*open)(void);
	void (*make)(unsigned int first, unsigned int nr, uint64_t when);
	void (*end)(unsigned int first, unsigned int nr);
	unsigned int at_once;
	uint64_t (*armed)(void);
	void (*close)(void);
};

static int fd;
static struct twheel_op made[STANDING + VM_BATCH];

/* /dev/twheel */

static void open_wheel(void)
{
	fd = vm_wheel(0, 0);
}

static void close_wheel(void)
{
	close(fd);
}

static uint64_t armed_wheel(void)
{
	return vm_stats(fd).armed;
}

static void ioctl_make(unsigned int first, unsigned int nr, uint64_t when)
{
	unsigned int i;

	for (i = first; i < first + nr; i++) {
		made[i].timer = (struct twheel_timer) {
			.deadline_ns = when + i,
			.flags = TWHEEL_ABSTIME,
			.user_data = i,
		};
		if (ioctl(fd, TWHEEL_IOC_REGISTER, &made[i].timer))
			bench_die("TWHEEL_IOC_REGISTER");
	}
}

static void ioctl_end(unsigned int first, unsigned int nr)
{
	unsigned int i;

	for (i = first; i < first + nr; i++) {
		struct twheel_timer timer = { .id = made[i].timer.id };

		if (ioctl(fd, TWHEEL_IOC_CANCEL, &timer) || timer.state != TWHEEL_ARMED)
			bench_die("TWHEEL_IOC_CANCEL");
	}
}

static void batch_make(unsigned int first, unsigned int nr, uint64_t when)
{
	unsigned int i;

	for (i = first; i < first + nr; i++)
		made[i] = (struct twheel_op) {
			.opcode = TWHEEL_OP_REGISTER,
			.timer.deadline_ns = when + i,
			.timer.flags = TWHEEL_ABSTIME,
			.timer.user_data = i,
		};
	vm_do(fd, made + first, nr);
}

static void batch_end(unsigned int first, unsigned int nr)
{
	unsigned int i;

	for (i = first; i < first + nr; i++)
		made[i] = (struct twheel_op) {
			.opcode = TWHEEL_OP_CANCEL,
			.timer.id = made[i].timer.id,
		};
	vm_do(fd, made + first, nr);
}

/* libtwheel with /dev/twheel */

static struct twheel *lib;
static uint64_t ids[STANDING + VM_BATCH];

static void open_lib(void)
{
	struct twheel_options options = {
		.size = sizeof(options),
		.flags = TWHEEL_OPEN_KERNEL,
	};

	if (twheel_open(&lib, &options))
		bench_die("twheel_open");
}

static void close_lib(void)
{
	twheel_close(lib);
}

static void lib_make(unsigned int first, unsigned int nr, uint64_t when)
{
	unsigned int i;

	for (i = first; i < first + nr; i++)
		if (twheel_add(lib, when + i, i, &ids[i]))
			bench_die("twheel_add");
}

static void lib_end(unsigned int first, unsigned int nr)
{
	unsigned int i;

	for (i = first; i < first + nr; i++)
		if (twheel_del(lib, ids[i]) != 1)
			bench_die("twheel_del");
}

/* A timerfd for each timer, in an epoll set */

static int fds[STANDING + VM_BATCH];

static void open_epoll(void)
{
	fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0)
		bench_die("epoll_create1");
}

static void timerfd_make(unsigned int first, unsigned int nr, uint64_t when)
{
	unsigned int i;

	for (i = first; i < first + nr; i++) {
		struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };
		struct itimerspec its = { .it_value = BENCH_TIME(when + i) };

		fds[i] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
		if (fds[i] < 0 || timerfd_settime(fds[i], TFD_TIMER_ABSTIME, &its, NULL) ||
		    epoll_ctl(fd, EPOLL_CTL_ADD, fds[i], &event))
			bench_die("timerfd");
	}
}

static void timerfd_end(unsigned int first, unsigned int nr)
{
	unsigned int i;

	for (i = first; i < first + nr; i++)
		close(fds[i]);
}

/* Counts the armed timers, including the one that has been ended and must not be armed. */
static uint64_t count_armed(int (*get)(unsigned int i, struct itimerspec *its))
{
	struct itimerspec its;
	uint64_t armed = 0;
	unsigned int i;

	for (i = 0; i <= STANDING; i++)
		armed += !get(i, &its) && (its.it_value.tv_sec || its.it_value.tv_nsec);
	return armed;
}

static int get_timerfd(unsigned int i, struct itimerspec *its)
{
	return timerfd_gettime(fds[i], its);
}

static uint64_t armed_timerfds(void)
{
	return count_armed(get_timerfd);
}

/* A POSIX timer for each timer */

static timer_t posix[STANDING + VM_BATCH];

static void open_nothing(void)
{
}

static void posix_make(unsigned int first, unsigned int nr, uint64_t when)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	unsigned int i;

	for (i = first; i < first + nr; i++) {
		struct itimerspec its = { .it_value = BENCH_TIME(when + i) };

		if (timer_create(CLOCK_MONOTONIC, &event, &posix[i]) ||
		    timer_settime(posix[i], TIMER_ABSTIME, &its, NULL))
			bench_die("timer_create");
	}
}

static void posix_end(unsigned int first, unsigned int nr)
{
	unsigned int i;

	for (i = first; i < first + nr; i++)
		timer_delete(posix[i]);
}

static int get_posix(unsigned int i, struct itimerspec *its)
{
	return timer_gettime(posix[i], its);
}

static uint64_t armed_posix(void)
{
	return count_armed(get_posix);
}

static const struct maker makers[] = {
	{ "twheel", open_wheel, ioctl_make, ioctl_end, 1, armed_wheel, close_wheel },
	{ "twheel-batch", open_wheel, batch_make, batch_end, VM_BATCH, armed_wheel, close_wheel },
	{ "libtwheel", open_lib, lib_make, lib_end, 1, NULL, close_lib },
	{ "timerfd", open_epoll, timerfd_make, timerfd_end, 1, armed_timerfds, close_wheel },
	{ "posix", open_nothing, posix_make, posix_end, 1, armed_posix, open_nothing },
};

static double pairs(const struct maker *m)
{
	uint64_t when = bench_now() + VM_FAR, start;
	unsigned int i;

	m->open();
	m->make(0, STANDING, when);
	/* The first one has costs that the others do not have. */
	m->make(STANDING, m->at_once, when);
	m->end(STANDING, m->at_once);
	start = bench_thread_cpu();
	for (i = 0; i < PAIRS; i += m->at_once) {
		m->make(STANDING, m->at_once, when + i);
		m->end(STANDING, m->at_once);
	}
	start = bench_thread_cpu() - start;
	if (m->armed && m->armed() != STANDING)
		bench_die("timers that should have ended are still armed");
	m->end(0, STANDING);
	m->close();
	return (double)start / PAIRS;
}

/* In these backends a timer is part of the connection, so arming creates it. */
static const struct bench_backend *const inline_makers[] = {
	&bench_libev, &bench_heap, &bench_io_uring,
};

static double inline_pairs(const struct bench_backend *kind)
{
	struct bench *b = bench_must_open(kind, STANDING, 0, 0);
	uint64_t when = bench_now() + VM_FAR, start;
	unsigned int i;

	bench_begin(b);
	kind->arm(b, b->handle, STANDING, when);
	/* All timeouts are equal, so the new timer is the last one. */
	when += STANDING * BENCH_STEP;
	kind->pair(b, b->handle + STANDING, BENCH_SPARE, when);
	start = bench_cpu(b);
	bench_begin(b);
	for (i = 0; i < PAIRS; i += BENCH_SPARE)
		kind->pair(b, b->handle + STANDING, BENCH_SPARE, when + i);
	start = bench_cpu(b) - start;
	if (b->failed)
		bench_die("timers that should have ended are still armed");
	bench_close(b);
	return (double)start / PAIRS;
}

static const struct {
	const struct bench_backend *kind;
	uint32_t n;
} movers[] = {
	{ &vm_twheel, 10000 },
	{ &vm_batch, 10000 },
	{ &vm_kick, 10000 },
	{ &bench_timerfd, 10000 },
	{ &bench_posix, 10000 },
	{ &bench_libev, 10000 },
	{ &bench_heap, 10000 },
	/* io_uring searches a list of all timeouts for each operation. */
	{ &bench_io_uring, 1000 },
};

/* Moves each of @n timers, in random order. */
static double moves(const struct bench_backend *kind, uint32_t n)
{
	struct bench *b = bench_must_open(kind, n, 0, 0);
	uint64_t *handles, start, when = bench_now() + VM_FAR;
	uint32_t *order, i;

	order = bench_alloc(n, sizeof(*order));
	handles = bench_alloc(n, sizeof(*handles));
	for (i = 0; i < n; i++)
		order[i] = i;
	bench_shuffle(order, n);
	for (i = 0; i < n; i++)
		handles[i] = b->handle[order[i]];
	bench_begin(b);
	kind->arm(b, handles, n, when + 3600 * NSEC_PER_SEC);
	bench_shuffle(order, n);
	for (i = 0; i < n; i++)
		handles[i] = b->handle[order[i]];
	/* Move them to an earlier time, because the table then needs KICKs. */
	start = bench_cpu(b);
	bench_begin(b);
	kind->move(b, handles, n, when);
	start = bench_cpu(b) - start;
	bench_close(b);
	free(handles);
	free(order);
	return (double)start / n;
}

void vm_create(unsigned int reps)
{
	double values[8][MAX_REPS];
	unsigned int rep, i;

	for (rep = 0; rep < reps; rep++)
		for (i = 0; i < ARRAY_SIZE(makers); i++)
			if (vm_wanted(makers[i].name))
				values[i][rep] = pairs(&makers[i]);
	for (i = 0; i < ARRAY_SIZE(makers); i++)
		vm_rows("create", makers[i].name, STANDING, "pair", "ns", values[i], reps);
	for (rep = 0; rep < reps; rep++)
		for (i = 0; i < ARRAY_SIZE(inline_makers); i++)
			if (vm_wanted(inline_makers[i]->name))
				values[i][rep] = inline_pairs(inline_makers[i]);
	for (i = 0; i < ARRAY_SIZE(inline_makers); i++)
		vm_rows("create", inline_makers[i]->name, STANDING, "pair", "ns", values[i], reps);
	for (rep = 0; rep < reps; rep++)
		for (i = 0; i < ARRAY_SIZE(movers); i++)
			if (vm_wanted(movers[i].kind->name))
				values[i][rep] = moves(movers[i].kind, movers[i].n);
	for (i = 0; i < ARRAY_SIZE(movers); i++)
		vm_rows("move", movers[i].kind->name, movers[i].n, "random,earlier", "ns",
			values[i], reps);
}
