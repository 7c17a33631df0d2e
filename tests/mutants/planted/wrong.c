// SPDX-License-Identifier: GPL-2.0
/*
 * What sparse must find, and the compiler with W=1. Nothing but ci/lint/lint.sh compiles it.
 */
#include <linux/init.h>
#include <linux/module.h>

/* Of the compiler's, one that it does not give without. */
static const int unused = 1;

static noinline int wrong_space(int __user *from)
{
	return *from;
}

static int __init wrong_init(void)
{
	return wrong_space(NULL);
}
module_init(wrong_init);

MODULE_DESCRIPTION("What the checks on the source of twheel must find");
MODULE_AUTHOR("twheel contributors");
MODULE_LICENSE("GPL");
