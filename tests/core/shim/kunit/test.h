/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of KUnit that the suites in kunit/ use, for user space. Each name has the same
 * meaning as in the kernel.
 */
#ifndef _SHIM_KUNIT_TEST_H
#define _SHIM_KUNIT_TEST_H

#include <assert.h>
#include <setjmp.h>
#include <stdio.h>

#include <linux/types.h>

#define KUNIT_PARAM_DESC_SIZE	128
#define GFP_KERNEL		0
#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

struct shim_memory;

enum kunit_status {
	KUNIT_SUCCESS,
	KUNIT_FAILURE,
};

struct kunit {
	const void *param_value;
	const char *name;
	enum kunit_status status;
	jmp_buf aborted;
	struct shim_memory *memory;
};

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
	const void *(*generate_params)(const void *prev, char *desc);
};

struct kunit_suite {
	const char *name;
	struct kunit_case *test_cases;
	struct kunit_suite *next;
};

void shim_add_suite(struct kunit_suite *suite);
void *kunit_kzalloc(struct kunit *test, size_t size, int gfp);

void kunit_info(struct kunit *test, const char *fmt, ...);

/* The position of a check, its message, and its failure. */
struct shim_check {
	const char *file;
	int line;
	const char *text;
	unsigned long long left;
	unsigned long long right;
	bool fatal;
};

void shim_fail(struct kunit *test, const struct shim_check *check, const char *fmt, ...);

#define KUNIT_CASE(_fn) \
	{ .run_case = _fn, .name = #_fn }
#define KUNIT_CASE_PARAM(_fn, _gen) \
	{ .run_case = _fn, .name = #_fn, .generate_params = _gen }

#define KUNIT_ARRAY_PARAM(_name, _array, _describe)			\
	static const void *_name##_gen_params(const void *prev, char *desc) \
	{								\
		typeof(&(_array)[0]) param = prev;			\
									\
		param = param ? param + 1 : (_array);			\
		if (param == (_array) + ARRAY_SIZE(_array))		\
			return NULL;					\
		_describe(param, desc);					\
		return param;						\
	}

#define kunit_test_suite(_suite)					\
	static void __attribute__((constructor)) shim_##_suite(void)	\
	{								\
		shim_add_suite(&(_suite));				\
	}								\
	struct kunit_suite

#define __shim_compare(_test, _fatal, _left, _op, _right, ...) do {	\
	typeof(_left) _l = (_left);					\
	typeof(_right) _r = (_right);				\
									\
	if (!(_l _op _r))						\
		shim_fail(_test, &(struct shim_check) {			\
			.file = __FILE__,				\
			.line = __LINE__,				\
			.text = #_left " " #_op " " #_right,		\
			.left = (uintptr_t)_l,				\
			.right = (uintptr_t)_r,				\
			.fatal = _fatal,				\
		}, __VA_ARGS__);					\
} while (0)

static_assert(sizeof(uintptr_t) == sizeof(u64), "values are shown as 64 bits");

#define KUNIT_EXPECT_EQ_MSG(test, l, r, ...) \
	__shim_compare(test, false, l, ==, r, __VA_ARGS__)
#define KUNIT_EXPECT_LE_MSG(test, l, r, ...) \
	__shim_compare(test, false, l, <=, r, __VA_ARGS__)
#define KUNIT_EXPECT_NE_MSG(test, l, r, ...) \
	__shim_compare(test, false, l, !=, r, __VA_ARGS__)
#define KUNIT_EXPECT_LT_MSG(test, l, r, ...) \
	__shim_compare(test, false, l, <, r, __VA_ARGS__)
#define KUNIT_EXPECT_GE_MSG(test, l, r, ...) \
	__shim_compare(test, false, l, >=, r, __VA_ARGS__)
#define KUNIT_EXPECT_GT_MSG(test, l, r, ...) \
	__shim_compare(test, false, l, >, r, __VA_ARGS__)
#define KUNIT_EXPECT_PTR_EQ_MSG(test, l, r, ...) \
	__shim_compare(test, false, l, ==, r, __VA_ARGS__)
#define KUNIT_EXPECT_TRUE_MSG(test, c, ...) \
	__shim_compare(test, false, !!(c), ==, true, __VA_ARGS__)
#define KUNIT_EXPECT_FALSE_MSG(test, c, ...) \
	__shim_compare(test, false, !!(c), ==, false, __VA_ARGS__)
#define KUNIT_ASSERT_EQ_MSG(test, l, r, ...) \
	__shim_compare(test, true, l, ==, r, __VA_ARGS__)
#define KUNIT_ASSERT_LE_MSG(test, l, r, ...) \
	__shim_compare(test, true, l, <=, r, __VA_ARGS__)
#define KUNIT_ASSERT_LT_MSG(test, l, r, ...) \
	__shim_compare(test, true, l, <, r, __VA_ARGS__)
#define KUNIT_ASSERT_PTR_EQ_MSG(test, l, r, ...) \
	__shim_compare(test, true, l, ==, r, __VA_ARGS__)
#define KUNIT_ASSERT_PTR_NE_MSG(test, l, r, ...) \
	__shim_compare(test, true, l, !=, r, __VA_ARGS__)
#define KUNIT_ASSERT_TRUE_MSG(test, c, ...) \
	__shim_compare(test, true, !!(c), ==, true, __VA_ARGS__)

#define KUNIT_EXPECT_EQ(test, l, r)	KUNIT_EXPECT_EQ_MSG(test, l, r, "%s", "")
#define KUNIT_EXPECT_NE(test, l, r)	KUNIT_EXPECT_NE_MSG(test, l, r, "%s", "")
#define KUNIT_EXPECT_LT(test, l, r)	KUNIT_EXPECT_LT_MSG(test, l, r, "%s", "")
#define KUNIT_EXPECT_LE(test, l, r)	KUNIT_EXPECT_LE_MSG(test, l, r, "%s", "")
#define KUNIT_EXPECT_GE(test, l, r)	KUNIT_EXPECT_GE_MSG(test, l, r, "%s", "")
#define KUNIT_EXPECT_GT(test, l, r)	KUNIT_EXPECT_GT_MSG(test, l, r, "%s", "")
#define KUNIT_EXPECT_PTR_EQ(test, l, r)	KUNIT_EXPECT_PTR_EQ_MSG(test, l, r, "%s", "")
#define KUNIT_EXPECT_TRUE(test, c)	KUNIT_EXPECT_TRUE_MSG(test, c, "%s", "")
#define KUNIT_EXPECT_FALSE(test, c)	KUNIT_EXPECT_FALSE_MSG(test, c, "%s", "")
#define KUNIT_ASSERT_EQ(test, l, r)	KUNIT_ASSERT_EQ_MSG(test, l, r, "%s", "")
#define KUNIT_ASSERT_LE(test, l, r)	KUNIT_ASSERT_LE_MSG(test, l, r, "%s", "")
#define KUNIT_ASSERT_TRUE(test, c)	KUNIT_ASSERT_TRUE_MSG(test, c, "%s", "")
#define KUNIT_ASSERT_FALSE(test, c)	KUNIT_ASSERT_TRUE_MSG(test, !(c), "%s", "")
#define KUNIT_ASSERT_NOT_NULL(test, p)	KUNIT_ASSERT_PTR_NE_MSG(test, p, NULL, "%s", "")

#endif /* _SHIM_KUNIT_TEST_H */
