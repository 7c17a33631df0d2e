/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who stands by while others do their worst: has a timer of 1 ms on a wheel of its
 * own, and one on a timerfd, and tells how late each period was noticed.
 *
 * How punctual these two are is the machine's matter, most of all where it is
 * emulated. But the wheel's must be so about as well as the timerfd's, which
 * suffers the same. A read that is late is so for each period that it tells of: the
 * k-th by k periods less. And each period until the end comes, once.
 */
#ifndef BYSTANDER_H
#define BYSTANDER_H

#include "twheel_test.h"

#include <sys/timerfd.h>

#define PERIOD		NS_PER_MS
/* Lateness is counted up to here, in steps of STEP. */
#define STEP		(200 * NS_PER_US)
#define STEPS		50000U

/* How late the periods of a timer have been; and when the next one is. */
struct lateness {
	unsigned int periods;
	__u64 next;
	__u64 worst;
	unsigned int late[STEPS];
};

struct bystander {
	bool stop;
	struct lateness wheel, timerfd;
};

/* The next @count periods have been noticed. Returns whether all of them are over. */
static inline bool noticed(struct lateness *l, __u64 count)
{
	__u64 t = now(CLOCK_MONOTONIC);

	for (; count; count--, l->next += PERIOD) {
		__u64 late = t - l->next, step = late / STEP;

		if (t < l->next)
			return false;
		l->periods++;
		l->late[step < STEPS ? step : STEPS - 1]++;
		if (late > l->worst)
			l->worst = late;
	}
	return true;
}

/* What @percent of 100 periods are not later than. */
static inline __u64 percentile(const struct lateness *l, unsigned int percent)
{
	unsigned int i, sum = 0;

	for (i = 0; i < STEPS; i++) {
		sum += l->late[i];
		if (sum >= (__u64)l->periods * percent / 100)
			break;
	}
	return (i + 1) * STEP;
}

/*
 * On a wheel that is fresh and does not block, until @b->stop; but not before the
 * last period until then has come. Both wait in one poll, so that what they differ
 * in is what they are. Returns what is wrong, or NULL.
 */
static inline const char *stand_by(struct bystander *b, int fd)
{
	struct itimerspec its = { .it_interval = { .tv_nsec = PERIOD } };
	struct twheel_timer t = { .period_ns = PERIOD, .flags = TWHEEL_ABSTIME };
	struct lateness *wheel = &b->wheel, *timerfd = &b->timerfd;
	int tfd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	struct pollfd p[] = { { fd, POLLIN }, { tfd, POLLIN } };
	__u64 count, end = NEVER;
	struct twheel_event ev;
	const char *wrong = NULL;

	t.deadline_ns = now(CLOCK_MONOTONIC) + 10 * NS_PER_MS;
	wheel->next = t.deadline_ns;
	timerfd->next = t.deadline_ns;
	its.it_value.tv_sec = t.deadline_ns / NS_PER_SEC;
	its.it_value.tv_nsec = t.deadline_ns % NS_PER_SEC;
	if (tfd < 0 || verb(fd, TWHEEL_IOC_REGISTER, &t) ||
	    timerfd_settime(tfd, TFD_TIMER_ABSTIME, &its, NULL))
		wrong = "its timers";
	while (!wrong && (wheel->next <= end || timerfd->next <= end)) {
		if (end == NEVER && __atomic_load_n(&b->stop, __ATOMIC_ACQUIRE))
			end = now(CLOCK_MONOTONIC);
		poll(p, ARRAY_SIZE(p), 100);
		if (p[0].revents & POLLIN && read(fd, &ev, sizeof(ev)) == sizeof(ev)) {
			if (ev.deadline_ns != wheel->next)
				wrong = "a period is lost, or came twice";
			else if (ev.expired_ns < ev.deadline_ns || !ev.expirations ||
				 !noticed(wheel, ev.expirations))
				wrong = "early";
		}
		if (p[1].revents & POLLIN && read(tfd, &count, sizeof(count)) > 0 &&
		    !noticed(timerfd, count))
			wrong = "the timerfd is early";
		if (end != NEVER && now(CLOCK_MONOTONIC) > end + PATIENCE_MS * NS_PER_MS)
			wrong = wheel->next <= end ? "its wheel stands still" :
						     "its timerfd stands still";
	}
	close(tfd);
	return wrong;
}

/*
 * True if the wheel is about as punctual as the timerfd: late by no more than @times
 * as much and @most, for 99 of 100 periods, or @worst, for all. They differ by a tick,
 * and where one is told of in a softirq, the other in an interrupt; and where the host
 * takes a processor away, while the two are on different ones.
 */
static inline bool as_punctual(const struct bystander *b, unsigned int times, __u64 most,
			       __u64 worst)
{
	return percentile(&b->wheel, 99) <= times * percentile(&b->timerfd, 99) + most &&
	       b->wheel.worst <= times * b->timerfd.worst + worst;
}

#define LOG_BYSTANDER(b)								\
	TH_LOG("half late by up to %llu us (timerfd %llu), 99 of 100 %llu (%llu), "	\
	       "worst %llu (%llu), of %u periods (%u)",					\
	       percentile(&(b)->wheel, 50) / NS_PER_US,					\
	       percentile(&(b)->timerfd, 50) / NS_PER_US,				\
	       percentile(&(b)->wheel, 99) / NS_PER_US,					\
	       percentile(&(b)->timerfd, 99) / NS_PER_US,				\
	       (b)->wheel.worst / NS_PER_US, (b)->timerfd.worst / NS_PER_US,		\
	       (b)->wheel.periods, (b)->timerfd.periods)

/* One that stands by in a thread, on a wheel of its own. */
struct neighbor {
	pthread_t thread;
	int fd;
	struct bystander b;
	const char *wrong;
};

static void *watch_neighbor(void *arg)
{
	struct neighbor *n = arg;

	n->wrong = stand_by(&n->b, n->fd);
	return NULL;
}

static inline void start_neighbor(struct __test_metadata *_metadata, struct neighbor *n)
{
	*n = (struct neighbor) { .fd = open_wheel(_metadata, O_NONBLOCK) };
	ASSERT_EQ(0, pthread_create(&n->thread, NULL, watch_neighbor, n));
}

/*
 * Loosely, as an emulated machine has bad moments, and nobody tries again; but it was
 * never locked out.
 */
static inline void stop_neighbor(struct __test_metadata *_metadata, struct neighbor *n)
{
	__u64 bad = slowness() * NS_PER_SEC;

	stop_and_join(n->thread, &n->b.stop);
	LOG_BYSTANDER(&n->b);
	EXPECT_EQ(NULL, n->wrong)
		TH_LOG("the neighbor: %s", n->wrong);
	EXPECT_TRUE(as_punctual(&n->b, 3, bad, bad));
	close_wheel(_metadata, n->fd);
}

#endif /* BYSTANDER_H */
