// SPDX-License-Identifier: GPL-2.0
/*
 * That bench_check() finds out who does not do the work: a heap that has one fault at
 * a time. Prints TAP.
 */
#include <string.h>

#include "bench.h"

/* So that nobody waits for what will not come. */
static bool delivered;
static void (*account)(struct bench *b, uint32_t index);

static int fake_open(struct bench *b)
{
	delivered = false;
	return bench_heap.open(b);
}

static void deliver_by(struct bench *b, uint64_t until,
		       void (*sink)(struct bench *b, uint32_t index))
{
	if (delivered)
		return;
	account = b->sink;
	b->sink = sink;
	bench_heap.deliver(b, until);
	b->sink = account;
	delivered = true;
}

static void all_but_one(struct bench *b, uint32_t index)
{
	if (index != 999)
		account(b, index);
}

static void one_again(struct bench *b, uint32_t index)
{
	account(b, index);
	if (!index)
		account(b, index);
}

static void one_too_many(struct bench *b, uint32_t index)
{
	account(b, index);
	if (!index)
		account(b, b->n + BENCH_SPARE);
}

static void lose(struct bench *b, uint64_t until)
{
	deliver_by(b, until, all_but_one);
}

static void repeat(struct bench *b, uint64_t until)
{
	deliver_by(b, until, one_again);
}

static void invent(struct bench *b, uint64_t until)
{
	deliver_by(b, until, one_too_many);
}

static BENCH_PROTO(arm_early)
{
	bench_heap.arm(b, handle, nr, when - 5 * NSEC_PER_MSEC);
}

static BENCH_PROTO(refuse_one)
{
	bench_heap.move(b, handle, nr, when);
	b->failed += *handle == b->handle[1];
}

static BENCH_PROTO(forget)
{
	(void)b;
	(void)handle;
	(void)nr;
	(void)when;
}

static BENCH_PROTO(arm_alone)
{
	bench_heap.move(b, handle, nr, when);
}

static int cannot_open(struct bench *b)
{
	(void)b;
	return -1;
}

int main(void)
{
	struct {
		const char *fault;
		const char *verdict;
		struct bench_backend kind;
	} cases[] = {
		{ "no fault", "yes", bench_heap },
		{ "loses one", "no", bench_heap },
		{ "delivers one twice", "no", bench_heap },
		{ "delivers what there is not", "no", bench_heap },
		{ "does not disarm", "no", bench_heap },
		{ "does not move", "no", bench_heap },
		{ "is a bit early", "early", bench_heap },
		{ "refuses one operation", "no", bench_heap },
		{ "leaves a pair armed", "no", bench_heap },
		{ "turns nothing over", "no", bench_heap },
		{ "cannot be opened", "no", bench_heap },
	};
	unsigned int i, failed = 0;

	cases[1].kind.deliver = lose;
	cases[2].kind.deliver = repeat;
	cases[3].kind.deliver = invent;
	cases[4].kind.cancel = forget;
	cases[5].kind.move = forget;
	cases[6].kind.arm = arm_early;
	cases[7].kind.move = refuse_one;
	cases[8].kind.pair = arm_alone;
	cases[9].kind.turnover = forget;
	cases[10].kind.open = cannot_open;
	printf("1..%zu\n", ARRAY_SIZE(cases));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *verdict;

		cases[i].kind.name = cases[i].fault;
		if (cases[i].kind.open == bench_heap.open)
			cases[i].kind.open = fake_open;
		verdict = bench_check(&cases[i].kind);
		if (strcmp(verdict, cases[i].verdict)) {
			printf("not ok %u - check: %s\n# it is said to be: %s\n", i + 1,
			       cases[i].fault, verdict);
			failed++;
		} else {
			printf("ok %u - check: %s\n", i + 1, cases[i].fault);
		}
	}
	return failed > 0;
}
