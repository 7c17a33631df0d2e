// SPDX-License-Identifier: GPL-2.0
/*
 * How do I get called at a fixed rate?
 *
 * The deadlines are first + k * period, and do not drift, no matter how late each event is
 * read. If a reader was busy for several periods, it gets a single event, which says how many
 * periods it stands for. twheel_add() makes no periodic timers, but twheel_submit() does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libtwheel.h>

#define MSEC	1000000ULL
#define PERIOD	(100 * MSEC)
#define ROUNDS	5

static void check(const char *what, int ret)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "periodic: %s: %s\n", what, strerror(-ret));
	exit(1);
}

/* Performs one operation. The call and the operation each have a result. */
static void submit(const char *what, struct twheel *wheel, struct twheel_op *op)
{
	check(what, twheel_submit(wheel, op, 1));
	check(what, op->result);
}

static struct twheel_event wait_for_event(struct twheel *wheel)
{
	struct twheel_event event;
	int got;

	do {
		check("wait", twheel_wait(wheel, -1));
		got = twheel_read(wheel, &event, 1);
		check("read", got);
	} while (!got);
	return event;
}

int main(void)
{
	struct twheel_op op = {
		.opcode = TWHEEL_OP_REGISTER,
		.timer.deadline_ns = PERIOD,
		.timer.period_ns = PERIOD,
	};
	unsigned long long start;
	struct twheel *wheel;
	int i;

	check("open", twheel_open(&wheel, NULL));
	submit("register", wheel, &op);

	/* The deadline was passed as a delay, and comes back as an absolute time. */
	start = op.timer.deadline_ns - PERIOD;
	for (i = 0; i < ROUNDS; i++) {
		struct twheel_event event = wait_for_event(wheel);

		/* deadline_ns is the deadline of the first of these periods. */
		printf("due at %llu ms: %llu period(s)\n",
		       (event.deadline_ns - start) / MSEC, event.expirations);

		/* Stands for work that takes longer than a period. */
		if (i == 2)
			usleep(350000);
	}

	/* CANCEL returns the state of the timer. None of its events can be read afterwards. */
	op.opcode = TWHEEL_OP_CANCEL;
	submit("cancel", wheel, &op);
	printf("cancelled, it was %s\n",
	       op.timer.state == TWHEEL_ARMED ? "armed" : "expired and not read");
	twheel_close(wheel);
	return 0;
}
