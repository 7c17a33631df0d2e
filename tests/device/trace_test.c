// SPDX-License-Identifier: GPL-2.0
/*
 * Tracepoints: each step in a timer's life writes one line, with the same numbers as the
 * ioctls and the events from read(). Needs root and tracefs.
 */
#include "twheel_test.h"

#define TRACING	"/sys/kernel/tracing/"
#define EVENTS	TRACING "events/twheel/"

FIXTURE(trace) {
	int fd;
	struct table t;
	unsigned long long wheel;
};

/* Returns the id of the wheel, from its fdinfo. */
static unsigned long long number_of(int fd)
{
	unsigned long long id = 0;
	char path[64], line[1024];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "twheel-id: %llu", &id) != 1)
		;
	if (f)
		fclose(f);
	return id;
}

FIXTURE_SETUP(trace)
{
	if (access(EVENTS "enable", W_OK))
		SKIP(return, "no tracepoints");
	self->fd = open_wheel(_metadata, O_NONBLOCK);
	self->t = map_table(_metadata, self->fd);
	self->wheel = number_of(self->fd);
	ASSERT_TRUE(write_text(TRACING "tracing_on", "1"));
	ASSERT_EQ(0, truncate(TRACING "trace", 0));
	ASSERT_TRUE(write_text(EVENTS "enable", "1"));
}

FIXTURE_TEARDOWN(trace)
{
	EXPECT_TRUE(write_text(EVENTS "enable", "0"));
	close_table(_metadata, &self->t);
}

/* A line about a timer, without its timestamp and task. */
struct line {
	char event[32];
	unsigned long long id, data, deadline, now;
};

/* Collects the lines about timers of @wheel, in order. Returns how many. */
static unsigned int timer_lines(unsigned long long wheel, struct line *lines, unsigned int max)
{
	char text[512], *at;
	unsigned int n = 0;
	FILE *f = fopen(TRACING "trace", "re");

	while (f && n < max && fgets(text, sizeof(text), f)) {
		struct line *l = &lines[n];
		unsigned long long of;

		at = strstr(text, " twheel_");
		if (at && sscanf(at, " twheel_%31[a-z]: wheel=%llu id=%llx user_data=%llu "
				 "deadline_ns=%llu now_ns=%llu", l->event, &of, &l->id, &l->data,
				 &l->deadline, &l->now) == 6 && of == wheel)
			n++;
	}
	if (f)
		fclose(f);
	return n;
}

/* Returns how many lines of @event there are for @wheel. */
static unsigned int count_lines(const char *event, unsigned long long wheel)
{
	char text[512], wanted[64];
	unsigned int n = 0;
	FILE *f = fopen(TRACING "trace", "re");

	snprintf(wanted, sizeof(wanted), " %s: wheel=%llu ", event, wheel);
	while (f && fgets(text, sizeof(text), f))
		n += !!strstr(text, wanted);
	if (f)
		fclose(f);
	return n;
}

/* Returns the sum of @field in the lines of @event for @wheel. */
static unsigned long long sum_of(const char *event, unsigned long long wheel, const char *field)
{
	char text[512], wanted[64], key[64], *at;
	unsigned long long sum = 0;
	FILE *f = fopen(TRACING "trace", "re");

	snprintf(wanted, sizeof(wanted), " %s: wheel=%llu ", event, wheel);
	snprintf(key, sizeof(key), " %s=", field);
	while (f && fgets(text, sizeof(text), f)) {
		at = strstr(text, wanted);
		at = at ? strstr(at, key) : NULL;
		sum += at ? strtoull(at + strlen(key), NULL, 10) : 0;
	}
	if (f)
		fclose(f);
	return sum;
}

/*
 * A timer is armed, moved through the table, expires and is read: one line for each, in this
 * order.
 */
TEST_F(trace, life)
{
	struct twheel_timer timer = {
		.user_data = 42,
		.deadline_ns = 20 * NS_PER_MS,
		.flags = TWHEEL_KEEP,
	};
	static const char * const events[] = { "arm", "move", "expire", "deliver", "cancel" };
	struct twheel_event ev;
	struct line lines[16];
	unsigned int i, n;
	__u64 later;

	ASSERT_EQ(0, verb(self->fd, TWHEEL_IOC_REGISTER, &timer));
	/* Later than the kernel's next look, which finds the new deadline. */
	later = timer.deadline_ns + 200 * NS_PER_MS;
	ASSERT_EQ(timer.deadline_ns, swap_word(slot_of(&self->t, timer.id), later));
	ASSERT_EQ(1, take(self->fd, &ev, 1, TIMEOUT_MS));
	ASSERT_EQ(TWHEEL_IDLE, cancel(self->fd, timer.id));

	n = timer_lines(self->wheel, lines, ARRAY_SIZE(lines));
	ASSERT_EQ(ARRAY_SIZE(events), n);
	for (i = 0; i < n; i++) {
		EXPECT_STREQ(events[i], lines[i].event);
		EXPECT_EQ(timer.id, lines[i].id);
		EXPECT_EQ(42, lines[i].data);
		EXPECT_TRUE(!i || lines[i].now >= lines[i - 1].now);
	}
	EXPECT_EQ(timer.deadline_ns, lines[0].deadline);
	EXPECT_EQ(timer.deadline_ns - 20 * NS_PER_MS, lines[0].now);
	EXPECT_EQ(later, lines[1].deadline);
	/* The lateness in the trace is that of the event. */
	EXPECT_EQ(ev.deadline_ns, lines[2].deadline);
	EXPECT_EQ(ev.expired_ns, lines[2].now);
	EXPECT_EQ(later, lines[3].deadline);
	EXPECT_LE(ev.expired_ns, lines[3].now);
	EXPECT_EQ(0, lines[4].deadline);
	/* The wheel turned once for each of the two deadlines, and not because of a KICK. */
	EXPECT_LE(2, count_lines("twheel_turn", self->wheel));
	EXPECT_LE(2, sum_of("twheel_turn", self->wheel, "touched"));
	EXPECT_EQ(1, sum_of("twheel_turn", self->wheel, "expired"));
	EXPECT_EQ(0, count_lines("twheel_kick", self->wheel));
}

/* The trace has as many lines as the statistics count, for armings by ioctl and by the table. */
TEST_F(trace, counts)
{
	enum { N = 20 };
	__u64 id = reserve(_metadata, self->fd, 1), start = now(CLOCK_MONOTONIC);
	struct twheel_event ev[N];
	struct twheel_stats s;
	unsigned int i;

	/*
	 * One timer is armed through the table with a KICK, two are canceled, and the others
	 * expire.
	 */
	EXPECT_EQ(0, arm(&self->t, id, start + 30 * NS_PER_MS));
	add_many(_metadata, self->fd, N - 2, 30 * NS_PER_MS, 0, 10, NULL);
	add(_metadata, self->fd, 0, 0, 0);
	ASSERT_EQ(N, collect(self->fd, ev, N));
	add_many(_metadata, self->fd, 2, HOUR, 0, 10, NULL);
	EXPECT_EQ(2, cancel_all(self->fd));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(0, kick(&self->t, id));
	s = stats(_metadata, self->fd);
	EXPECT_EQ(s.armings, count_lines("twheel_arm", self->wheel));
	EXPECT_EQ(s.moved, count_lines("twheel_move", self->wheel));
	EXPECT_EQ(s.expired, count_lines("twheel_expire", self->wheel));
	EXPECT_EQ(s.delivered, count_lines("twheel_deliver", self->wheel));
	EXPECT_EQ(s.cancelled, count_lines("twheel_cancel", self->wheel));
	EXPECT_EQ(s.wakeups, count_lines("twheel_turn", self->wheel));
	/* One KICK for the arming, and three more. */
	EXPECT_EQ(4, count_lines("twheel_kick", self->wheel));
	EXPECT_LE(4, sum_of("twheel_kick", self->wheel, "touched"));
	EXPECT_EQ(0, sum_of("twheel_kick", self->wheel, "expired"));
	EXPECT_EQ(N, s.expired);
	EXPECT_EQ(2, s.cancelled);
}

/* An arming that ends before the kernel has looked has its line, and ends once. */
TEST_F(trace, unseen)
{
	static const char * const events[] = {
		"cancel", "arm", "cancel", "arm", "arm", "cancel", "arm", "cancel",
	};
	__u64 later = now(CLOCK_MONOTONIC) + HOUR;
	struct line lines[16];
	struct twheel_stats s;
	unsigned int i, n;
	__u64 id;

	/* The timer is idle, so there is nothing to report. */
	EXPECT_EQ(TWHEEL_IDLE, cancel(self->fd, reserve(_metadata, self->fd, 1)));
	id = reserve(_metadata, self->fd, 2);
	swap_word(slot_of(&self->t, id), later);
	EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, id));
	id = reserve(_metadata, self->fd, 3);
	swap_word(slot_of(&self->t, id), later);
	EXPECT_EQ(TWHEEL_ARMED, rearm(self->fd, id, HOUR, TWHEEL_KEEP));
	EXPECT_EQ(TWHEEL_ARMED, cancel(self->fd, id));
	id = reserve(_metadata, self->fd, 4);
	swap_word(slot_of(&self->t, id), later);
	EXPECT_EQ(1, cancel_all(self->fd));

	n = timer_lines(self->wheel, lines, ARRAY_SIZE(lines));
	ASSERT_EQ(ARRAY_SIZE(events), n);
	for (i = 0; i < n; i++)
		EXPECT_STREQ(events[i], lines[i].event);
	for (i = 1; i < n; i++)
		EXPECT_TRUE(i == 4 || i == 5 || lines[i].deadline == later);
	s = stats(_metadata, self->fd);
	EXPECT_EQ(4, s.armings);
	EXPECT_EQ(4, s.displaced);
	EXPECT_EQ(s.armings, count_lines("twheel_arm", self->wheel));
}

/* Nothing is written while the tracepoints are off. */
TEST_F(trace, off)
{
	EXPECT_TRUE(write_text(EVENTS "enable", "0"));
	add(_metadata, self->fd, 0, 0, 0);
	EXPECT_EQ(0, count_lines("twheel_arm", self->wheel));
}

TEST_HARNESS_MAIN
