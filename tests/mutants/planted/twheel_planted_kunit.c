// SPDX-License-Identifier: GPL-2.0
/*
 * Suite "twheel_planted": what tests/core/kunit.sh must find, in a case each.
 */
#include <kunit/test.h>
#include <linux/bug.h>
#include <linux/panic.h>
#include <linux/slab.h>

/* Reads memory that was freed: KASAN. */
static void planted_uaf(struct kunit *test)
{
	int *p = kzalloc(64, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	kfree(p);
	READ_ONCE(*p);
}

/* The kernel warns; no case knows. */
static void planted_warn(struct kunit *test)
{
	WARN(1, "planted\n");
}

static void planted_expect(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 1, 2);
}

/* The kernel dies. */
static void planted_oops(struct kunit *test)
{
	panic("planted\n");
}

static void planted_skip(struct kunit *test)
{
	kunit_skip(test, "planted");
}

static void planted_nothing(struct kunit *test)
{
}

static struct kunit_case planted_cases[] = {
	KUNIT_CASE(planted_uaf),
	KUNIT_CASE(planted_warn),
	KUNIT_CASE(planted_expect),
	KUNIT_CASE(planted_oops),
	KUNIT_CASE(planted_skip),
	KUNIT_CASE(planted_nothing),
	{}
};

static struct kunit_suite planted_suite = {
	.name = "twheel_planted",
	.test_cases = planted_cases,
};

kunit_test_suite(planted_suite);
