// SPDX-License-Identifier: GPL-2.0
/*
 * How may a callback stop, move and free other timers of the same batch?
 *
 * twheel_read() returns many events at once. While a callback runs, the later events of the
 * array have already been read, so the wheel cannot withdraw them. You can tell from what
 * twheel_set(), twheel_clear() and twheel_del() return:
 *
 *   1: the timer was armed, and its event will never come. There is nothing to do.
 *   0: the timer was idle, or its event has been read. If the event is still in the array,
 *      the dispatcher must skip it.
 *
 * Therefore each timer points to its event in the array until that event is handled, and a
 * function that stops the timer clears this event. After that, the object can be freed at once,
 * because the dispatcher does not find its address in the array any more.
 *
 * The file has two parts: the dispatcher, which you can copy, and a demonstration with eight
 * timers in which all of this happens.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libtwheel.h>

#define MSEC	1000000ULL
#define BATCH	64

static void check(const char *what, int ret)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "dispatcher: %s: %s\n", what, strerror(-ret));
	exit(1);
}

/* ---- The dispatcher ---- */

struct timer {
	struct twheel *wheel;
	uint64_t id;
	/* Its event in the array that is being processed, or NULL. */
	struct twheel_event *event;
	/* The time that was left when it was paused; 0 if it is not paused. */
	uint64_t left;
	void (*fn)(struct timer *timer);
};

/* Performs an operation that only twheel_submit() offers. */
static void submit(struct timer *t, struct twheel_op *op)
{
	check("submit", twheel_submit(t->wheel, op, 1));
	check("operation", op->result);
}

/*
 * Makes a timer that is not armed yet. With @slack_ns, it may expire that much later than its
 * deadline, which saves wake-ups. If all timers have the same slack, twheel_add() and the options
 * of twheel_open() are simpler.
 */
static void timer_init(struct timer *t, struct twheel *wheel, uint64_t slack_ns,
		       void (*fn)(struct timer *timer))
{
	struct twheel_op op = {
		.opcode = TWHEEL_OP_REGISTER,
		.timer.user_data = (uintptr_t)t,
		.timer.slack_ns = slack_ns,
		.timer.flags = TWHEEL_KEEP | TWHEEL_DISARMED,
	};

	*t = (struct timer){ .wheel = wheel, .fn = fn };
	submit(t, &op);
	t->id = op.timer.id;
}

/* set, clear and del all end like this: if the event was read, it must not be delivered. */
static bool ended(struct timer *t, int answer)
{
	bool was_pending = answer == 1 || t->event;

	check("set, clear or del", answer);
	if (!answer && t->event)
		t->event->user_data = 0;
	t->event = NULL;
	return was_pending;
}

/* Arms or moves a timer. Returns true if this prevents a call of its function. */
static bool timer_set(struct timer *t, uint64_t deadline)
{
	t->left = 0;
	return ended(t, twheel_set(t->wheel, t->id, deadline));
}

/* Disarms the timer. Its function is not called after this, unless the timer is set again. */
static bool timer_stop(struct timer *t)
{
	t->left = 0;
	return ended(t, twheel_clear(t->wheel, t->id));
}

/* Disarms the timer and gives it back. The caller can free the object. */
static bool timer_end(struct timer *t)
{
	return ended(t, twheel_del(t->wheel, t->id));
}

/*
 * Asks the wheel, so it costs a system call. A program that asks often should keep the deadline.
 */
static bool timer_is_armed(struct timer *t, uint64_t *deadline)
{
	struct twheel_op op = { .opcode = TWHEEL_OP_GET, .timer.id = t->id };

	submit(t, &op);
	*deadline = op.timer.deadline_ns;
	return op.timer.state == TWHEEL_ARMED;
}

/*
 * Keeps the id and the object. Returns false if the timer has expired, so that it cannot be
 * paused.
 */
static bool timer_pause(struct timer *t)
{
	uint64_t deadline, now = twheel_now(t->wheel);

	if (!timer_is_armed(t, &deadline) || twheel_clear(t->wheel, t->id) != 1)
		return false;
	t->left = deadline > now ? deadline - now : 1;
	return true;
}

static void timer_resume(struct timer *t)
{
	if (t->left)
		timer_set(t, twheel_after(t->wheel, t->left));
}

/* Reads one batch and calls the functions. Returns how many functions it called. */
static unsigned int dispatch(struct twheel *wheel)
{
	struct twheel_event events[BATCH];
	int count = twheel_read(wheel, events, BATCH);
	unsigned int called = 0;
	int i;

	check("read", count);
	/* No function has run since the read, so all these timers still exist. */
	for (i = 0; i < count; i++)
		((struct timer *)(uintptr_t)events[i].user_data)->event = &events[i];
	for (i = 0; i < count; i++) {
		struct timer *t = (struct timer *)(uintptr_t)events[i].user_data;

		if (!t)
			continue;
		t->event = NULL;
		called++;
		/* The function may free the timer, so do not use it after this. */
		t->fn(t);
	}
	return called;
}

/* ---- The play ---- */

static struct timer *first, *freed, *freed_early, *moved, *stopped, *itself, *paused, *slack;
static bool right = true;

static void expect(bool is, const char *what)
{
	printf("%s: %s\n", what, is ? "yes" : "no");
	right = right && is;
}

static struct timer *new_timer(struct twheel *wheel, uint64_t slack_ns,
			       void (*fn)(struct timer *timer))
{
	struct timer *t = malloc(sizeof(*t));

	if (!t)
		exit(1);
	timer_init(t, wheel, slack_ns, fn);
	return t;
}

static void end_timer(struct timer **t)
{
	timer_end(*t);
	free(*t);
	*t = NULL;
}

static void never(struct timer *t)
{
	(void)t;
	expect(false, "a timer that was stopped is silent");
}

/* In the batch, "freed", "moved", "stopped" and "itself" come after this timer. */
static void on_first(struct timer *t)
{
	(void)t;
	expect(freed->event, "first: the event of another is in this batch");
	end_timer(&freed);
	expect(!freed_early->event, "first: that of one that is still armed is not");
	expect(timer_end(freed_early), "first: it is ended all the same");
	free(freed_early);
	expect(timer_set(moved, twheel_after(moved->wheel, 20 * MSEC)), "first: one is put off");
	expect(timer_stop(stopped), "first: one is stopped");
	expect(!timer_stop(stopped), "first: it cannot be stopped twice");
}

static void on_moved(struct timer *t)
{
	expect(!t->event, "moved: comes once, and later");
}

static void on_itself(struct timer *t)
{
	expect(t == itself, "itself: frees itself");
	end_timer(&itself);
}

static void on_paused(struct timer *t)
{
	uint64_t deadline;

	expect(!timer_is_armed(t, &deadline), "paused: comes when it was resumed");
}

static void on_slack(struct timer *t)
{
	expect(t == slack, "slack: comes, no earlier than its deadline");
}

static void sleep_ms(unsigned int ms)
{
	struct timespec ts = { .tv_nsec = ms * MSEC };

	while (nanosleep(&ts, &ts))
		;
}

int main(void)
{
	uint64_t now, deadline, later;
	unsigned int calls = 0;
	struct twheel *wheel;

	check("open", twheel_open(&wheel, NULL));
	first = new_timer(wheel, 0, on_first);
	freed = new_timer(wheel, 0, never);
	freed_early = new_timer(wheel, 0, never);
	moved = new_timer(wheel, 0, on_moved);
	stopped = new_timer(wheel, 0, never);
	itself = new_timer(wheel, 0, on_itself);
	paused = new_timer(wheel, 0, on_paused);
	slack = new_timer(wheel, 50 * MSEC, on_slack);

	now = twheel_now(wheel);
	timer_set(first, now + 10 * MSEC);
	timer_set(freed, now + 12 * MSEC);
	timer_set(moved, now + 14 * MSEC);
	timer_set(stopped, now + 16 * MSEC);
	timer_set(itself, now + 18 * MSEC);
	timer_set(slack, now + 20 * MSEC);
	timer_set(freed_early, now + 3600000 * MSEC);
	timer_set(paused, now + 500 * MSEC);
	expect(timer_is_armed(paused, &deadline) && deadline == now + 500 * MSEC,
	       "paused: is armed, and for when it was set");
	expect(timer_pause(paused), "paused: can be paused");
	expect(!timer_is_armed(paused, &deadline), "paused: is not armed then");
	expect(!timer_pause(paused), "paused: cannot be paused twice");

	/* Wait until the last of them has expired, so that all come in one batch. */
	while (timer_is_armed(itself, &deadline)) {
		sleep_ms(1);
		check("wait", twheel_wait(wheel, 0));
	}
	calls += dispatch(wheel);
	timer_resume(paused);
	expect(timer_is_armed(paused, &later) && later > now + 500 * MSEC,
	       "paused: is resumed, and later by the pause");
	while (calls < 5) {
		check("wait", twheel_wait(wheel, -1));
		calls += dispatch(wheel);
	}
	end_timer(&first);
	end_timer(&moved);
	end_timer(&stopped);
	end_timer(&paused);
	end_timer(&slack);
	twheel_close(wheel);
	printf("%u calls, and none for a timer that was stopped or freed\n", calls);
	return right ? 0 : 1;
}
