/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A well-behaved process that runs beside the attackers. It has a 1 ms timer on its own wheel
 * and another on a timerfd, and records how late it noticed each period.
 *
 * How punctual the two are depends on the machine, most of all if it is emulated. But the
 * wheel must be about as punctual as the timerfd, which suffers the same. A late read reports
 * several periods, each of which counts as late: the k-th by k periods less than the first.
 * Each period must be reported once, up to the end.
 */
#ifndef BYSTANDER_H
#define BYSTANDER_H

#include "twheel_test.h"

#include <sys/timerfd.h>

#define PERIOD		NS_PER_MS
/* Lateness is counted up to STEPS, in steps of STEP. */
#define STEP		(200 * NS_PER_US)
#define STEPS		50000U

/* How late each period of a timer was noticed, and when the next one is due. */
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

/* Notes that the next @count periods have been noticed. Returns true if all of them are over. */
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

/* Returns the lateness that @percent % of the periods do not exceed. */
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
 * Watches a fresh nonblocking wheel until @b->stop is set, and then until the last period
 * before that has come. One poll waits for both the wheel and the timerfd, so that only the
 * timers themselves differ. Returns what is wrong, or NULL.
 */
static inline const char *run_bystander(struct bystander *b, int fd)
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
		wrong = "cannot set up the bystander's timers";
	while (!wrong && (wheel->next <= end || timerfd->next <= end)) {
		if (end == NEVER && __atomic_load_n(&b->stop, __ATOMIC_ACQUIRE))
			end = now(CLOCK_MONOTONIC);
		poll(p, ARRAY_SIZE(p), 100);
		if (p[0].revents & POLLIN && read(fd, &ev, sizeof(ev)) == sizeof(ev)) {
			if (ev.deadline_ns != wheel->next)
				wrong = "a period was lost or reported twice";
			else if (ev.expired_ns < ev.deadline_ns || !ev.expirations ||
				 !noticed(wheel, ev.expirations))
				wrong = "a period of the wheel was reported early";
		}
		if (p[1].revents & POLLIN && read(tfd, &count, sizeof(count)) > 0 &&
		    !noticed(timerfd, count))
			wrong = "a period of the timerfd was reported early";
		if (end != NEVER && now(CLOCK_MONOTONIC) > end + TIMEOUT_MS * NS_PER_MS)
			wrong = wheel->next <= end ? "the wheel stands still" :
						     "the timerfd stands still";
	}
	close(tfd);
	return wrong;
}

/*
 * Returns true if the wheel is about as punctual as the timerfd: at most @times as late plus
 * @most for 99 % of the periods, or plus @worst for all of them. They differ by a tick, and
 * because the wheel's timer is reported from a softirq, but the timerfd from an interrupt.
 * They also differ while the host takes away the processor of only one of them.
 */
static inline bool as_punctual(const struct bystander *b, unsigned int times, __u64 most,
			       __u64 worst)
{
	return percentile(&b->wheel, 99) <= times * percentile(&b->timerfd, 99) + most &&
	       b->wheel.worst <= times * b->timerfd.worst + worst;
}

#define LOG_BYSTANDER(b)								\
	TH_LOG("lateness in us (timerfd's): median %llu (%llu), 99 %% %llu (%llu), "	\
	       "worst %llu (%llu), periods %u (%u)",					\
	       percentile(&(b)->wheel, 50) / NS_PER_US,					\
	       percentile(&(b)->timerfd, 50) / NS_PER_US,				\
	       percentile(&(b)->wheel, 99) / NS_PER_US,					\
	       percentile(&(b)->timerfd, 99) / NS_PER_US,				\
	       (b)->wheel.worst / NS_PER_US, (b)->timerfd.worst / NS_PER_US,		\
	       (b)->wheel.periods, (b)->timerfd.periods)

/* A bystander in a thread, on its own wheel. */
struct neighbor {
	pthread_t thread;
	int fd;
	struct bystander b;
	const char *wrong;
};

static void *watch_neighbor(void *arg)
{
	struct neighbor *n = arg;

	n->wrong = run_bystander(&n->b, n->fd);
	return NULL;
}

static inline void start_neighbor(struct __test_metadata *_metadata, struct neighbor *n)
{
	*n = (struct neighbor) { .fd = open_wheel(_metadata, O_NONBLOCK) };
	ASSERT_EQ(0, pthread_create(&n->thread, NULL, watch_neighbor, n));
}

/*
 * Stops the bystander and judges it loosely, because an emulated machine has bad moments and
 * there is no second try. But the wheel must never have been locked out.
 */
static inline void stop_neighbor(struct __test_metadata *_metadata, struct neighbor *n)
{
	__u64 bad = slowness() * NS_PER_SEC;

	stop_and_join(n->thread, &n->b.stop);
	LOG_BYSTANDER(&n->b);
	EXPECT_EQ(NULL, n->wrong)
		TH_LOG("neighbor: %s", n->wrong);
	EXPECT_TRUE(as_punctual(&n->b, 3, bad, bad));
	close_wheel(_metadata, n->fd);
}

#endif /* BYSTANDER_H */
