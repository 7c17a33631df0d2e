// SPDX-License-Identifier: GPL-2.0
/*
 * Random operations on a wheel and on a sorted array, which must agree: see twheel_model.h.
 *
 * The parameter seed repeats a run, and ops is the number of operations on each wheel.
 */
#include <linux/module.h>
#include <linux/random.h>

#include "twheel_kunit.h"

static unsigned long seed;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "Seed of the random operations (0, the default: a new one each time)");

static unsigned long ops = 200000;
module_param(ops, ulong, 0444);
MODULE_PARM_DESC(ops, "Number of operations on each wheel (default 200000)");

/* The number of timers, queued or not. */
#define NR_TIMERS	192

/* After this many operations a wheel is emptied and starts again at another time. */
#define EPOCH_OPS	2000

static struct kunit *model_test;
static u64 fuzz_operations;

#define FUZZ_CHECK(left, relation, right) do {				\
	u64 _left = (left);						\
	u64 _right = (right);						\
									\
	KUNIT_ASSERT_TRUE_MSG(model_test, _left relation _right,	\
			      "seed=%lu ops=%lu, operation %llu: %s, but %llx and %llx", \
			      seed, ops, fuzz_operations, #left " " #relation " " #right, \
			      _left, _right);				\
} while (0)

#include "twheel_model.h"

/* G1, G2, G6: the wheel agrees with the model */
static void twheel_model_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	struct feed feed;
	struct wheel *w;
	struct model *m;

	while (!seed)
		seed = get_random_u32();
	feed = (struct feed) { .random = seed };
	model_test = test;
	fuzz_operations = 0;
	/* Only for its shape and its memory. */
	w = twheel_kunit_make(test, row->shape, 0);
	m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, m);
	m->f = &feed;
	m->timers = NR_TIMERS;
	m->timer = kunit_kzalloc(test, NR_TIMERS * sizeof(*m->timer), GFP_KERNEL);
	m->array = kunit_kzalloc(test, NR_TIMERS * sizeof(*m->array), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, m->timer && m->array);
	while (fuzz_operations < ops)
		model_run(m, &w->shape, w->occupied, EPOCH_OPS);
	kunit_info(test, "seed=%lu ops=%lu: %llu expired", seed, ops, m->expired);
	KUNIT_EXPECT_TRUE(test, m->expired > 0);
}

static struct kunit_case twheel_model_cases[] = {
	KUNIT_CASE_PARAM(twheel_model_test, shape_gen_params),
	{}
};

static struct kunit_suite twheel_model_suite = {
	.name = "twheel_model",
	.test_cases = twheel_model_cases,
};

kunit_test_suite(twheel_model_suite);
