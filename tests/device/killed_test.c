// SPDX-License-Identifier: GPL-2.0
/*
 * A program that is killed in a call on very many timers ends soon, and not only when all of
 * these are done. Timers that the call has not reached are as they were.
 */
#include "twheel_test.h"

#include <sched.h>
#include <signal.h>

/* As many as the largest batch holds. */
#define MANY	TWHEEL_BATCH_MAX

/* The maximum that a call does between two checks for a fatal signal. */
#define BUDGET	128

/* On a busy machine a call may end before its program is killed. */
#define TRIES	200

struct many {
	int fd;
	struct table table;
	/* MANY operations, entries or events, which the parent and the child share. */
	void *area;
	size_t bytes;
	__u32 *slots;
	__u64 *ids;
	/* The counters before the call. */
	struct twheel_stats before;
};

FIXTURE(killed) {
	struct many many;
};

FIXTURE_VARIANT(killed) {
	/* Prepares MANY timers. */
	void (*prepare)(struct __test_metadata *_metadata, struct many *m);
	void (*act)(const struct many *m);
	/* Returns how many of them were done. */
	__u64 (*done)(struct __test_metadata *_metadata, const struct many *m);
};

static void set_up(struct __test_metadata *_metadata, struct many *m)
{
	m->fd = open_wheel(_metadata, O_NONBLOCK);
	m->table = map_table(_metadata, m->fd);
	m->bytes = MANY * sizeof(struct twheel_op);
	m->area = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	ASSERT_TRUE(m->area != MAP_FAILED);
	m->slots = calloc(MANY, sizeof(*m->slots));
	m->ids = calloc(MANY, sizeof(*m->ids));
	ASSERT_TRUE(m->slots && m->ids);
}

static void tear_down(struct __test_metadata *_metadata, struct many *m)
{
	expect_conserved(_metadata, m->fd);
	free(m->ids);
	free(m->slots);
	munmap(m->area, m->bytes);
	unmap_table(&m->table);
	close(m->fd);
}

FIXTURE_SETUP(killed)
{
	set_up(_metadata, &self->many);
}

FIXTURE_TEARDOWN(killed)
{
	tear_down(_metadata, &self->many);
}

FIXTURE(in_kick) {
	struct many many;
};

FIXTURE_SETUP(in_kick)
{
	set_up(_metadata, &self->many);
}

FIXTURE_TEARDOWN(in_kick)
{
	tear_down(_metadata, &self->many);
}

static void prepare_ops(struct __test_metadata *_metadata, struct many *m)
{
	struct twheel_op *ops = m->area;
	unsigned int i;

	(void)_metadata;
	for (i = 0; i < MANY; i++)
		ops[i] = (struct twheel_op) {
			.timer.deadline_ns = HOUR,
			.opcode = TWHEEL_OP_REGISTER,
		};
}

static void prepare_timers(struct __test_metadata *_metadata, struct many *m)
{
	memset(m->area, 0, m->bytes);
	add_many(_metadata, m->fd, MANY, HOUR, 0, 0, NULL);
}

/* Gives each timer a deadline that needs a KICK. */
static void prepare_words(struct __test_metadata *_metadata, struct many *m)
{
	__u64 nearer = now(CLOCK_MONOTONIC) + HOUR / 2;
	unsigned int i;

	add_many(_metadata, m->fd, MANY, HOUR, 0, 0, m->ids);
	for (i = 0; i < MANY; i++) {
		m->slots[i] = m->ids[i];
		swap_word(slot_of(&m->table, m->ids[i]), nearer);
	}
}

static void prepare_events(struct __test_metadata *_metadata, struct many *m)
{
	add_many(_metadata, m->fd, MANY, 0, 0, 0, NULL);
	while (stats(_metadata, m->fd).unread < MANY)
		sleep_ms(1);
}

static void act_batch(const struct many *m)
{
	batch(m->fd, m->area, MANY);
}

static void act_list(const struct many *m)
{
	__u32 cursor = 0;

	list(m->fd, m->area, MANY, &cursor);
}

static void act_kick(const struct many *m)
{
	kick_slots(&m->table, m->slots, MANY);
}

static void act_read(const struct many *m)
{
	/* Nobody lives to see what it returns. */
	if (read(m->fd, m->area, MANY * sizeof(struct twheel_event)) < 0)
		_exit(1);
}

static __u64 done_registered(struct __test_metadata *_metadata, const struct many *m)
{
	return stats(_metadata, m->fd).registered - m->before.registered;
}

static __u64 done_listed(struct __test_metadata *_metadata, const struct many *m)
{
	const struct twheel_timer *timers = m->area;
	unsigned int n = 0;

	(void)_metadata;
	while (n < MANY && __atomic_load_n(&timers[n].id, __ATOMIC_ACQUIRE))
		n++;
	return n;
}

static __u64 done_moved(struct __test_metadata *_metadata, const struct many *m)
{
	return stats(_metadata, m->fd).moved - m->before.moved;
}

static __u64 done_delivered(struct __test_metadata *_metadata, const struct many *m)
{
	return stats(_metadata, m->fd).delivered - m->before.delivered;
}

VARIANT(killed, in_batch, prepare_ops, act_batch, done_registered);
VARIANT(killed, in_list, prepare_timers, act_list, done_listed);
VARIANT(killed, in_kick, prepare_words, act_kick, done_moved);
VARIANT(killed, in_read, prepare_events, act_read, done_delivered);

/*
 * The signal ends the call midway, with some timers done and some not. After kill(), the call
 * does at most one budget of them, plus one that another processor has begun.
 */
TEST_F_TIMEOUT(killed, midway, 300)
{
	struct many *m = &self->many;
	__u64 done = MANY, after = 0;
	unsigned int i;
	bool again = true;

	for (i = 0; again && i < TRIES; i++) {
		__u64 seen;
		pid_t pid;

		variant->prepare(_metadata, m);
		m->before = stats(_metadata, m->fd);
		pid = fork_child(_metadata);
		if (!pid) {
			variant->act(m);
			pause();
			_exit(0);
		}
		while (!variant->done(_metadata, m))
			sched_yield();
		kill(pid, SIGKILL);
		seen = variant->done(_metadata, m);
		EXPECT_TRUE(killed(pid));
		done = variant->done(_metadata, m);
		ASSERT_LE(done, MANY);
		after = done - seen;
		/* The worker continues what a KICK leaves, so it may do all of it. */
		if (variant->done == done_moved)
			done = seen;
		else
			EXPECT_LE(after, 2 * BUDGET);
		again = done == MANY;
		/* What was done was done whole, and the rest has not changed. */
		expect_conserved(_metadata, m->fd);
		cancel_all(m->fd);
		collect(m->fd, m->area, stats(_metadata, m->fd).unread);
		ASSERT_EQ(0, stats(_metadata, m->fd).allocated);
	}
	EXPECT_LT(done, MANY);
	printf("# %llu of %u were done, %llu of them after the signal\n", done, MANY, after);
}

static void ignore(int signal)
{
	(void)signal;
}

/*
 * A KICK of very many marks returns early for a signal that has a handler, and the worker does
 * the rest.
 */
TEST_F_TIMEOUT(in_kick, signal_with_handler, 300)
{
	const struct sigaction handler = { .sa_handler = ignore };
	struct many *m = &self->many;
	int status = 0;
	unsigned int i;

	for (i = 0; !status && i < TRIES; i++) {
		pid_t pid;

		prepare_words(_metadata, m);
		m->before = stats(_metadata, m->fd);
		pid = fork_child(_metadata);
		if (!pid) {
			sigaction(SIGUSR1, &handler, NULL);
			_exit(kick_slots(&m->table, m->slots, MANY) && errno == EINTR);
		}
		while (!done_moved(_metadata, m))
			sched_yield();
		kill(pid, SIGUSR1);
		status = status_of(pid);
		while (done_moved(_metadata, m) < MANY)
			sleep_ms(1);
		cancel_all(m->fd);
	}
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(1, WEXITSTATUS(status));
}

TEST_HARNESS_MAIN
