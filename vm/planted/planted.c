// SPDX-License-Identifier: GPL-2.0
/*
 * Misbehaves on demand, so that the tests of the rig see each kind of
 * misbehaviour found out: insmod planted.ko bug=...
 *
 *   hold   keeps a wheel open for as long as it is loaded
 *   warn   is a bug that the kernel notices
 *   oops   is one that it does not survive
 *   hang   stops every CPU, with interrupts off
 */
#include <linux/bug.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/processor.h>
#include <linux/smp.h>
#include <linux/string.h>

static char *bug = "";
module_param(bug, charp, 0444);
MODULE_PARM_DESC(bug, "what to do: hold, warn, oops or hang");

static struct file *held;

static void hang(void *unused)
{
	for (;;)
		cpu_relax();
}

static int __init planted_init(void)
{
	if (!strcmp(bug, "hold")) {
		held = filp_open("/dev/twheel", O_RDWR, 0);
		return PTR_ERR_OR_ZERO(held);
	}
	if (!strcmp(bug, "warn")) {
		WARN(1, "planted\n");
		return 0;
	}
	if (!strcmp(bug, "oops"))
		WRITE_ONCE(*(int *)NULL, 0);
	if (!strcmp(bug, "hang"))
		on_each_cpu(hang, NULL, 0);
	return -EINVAL;
}
module_init(planted_init);

static void __exit planted_exit(void)
{
	if (held)
		filp_close(held, NULL);
}
module_exit(planted_exit);

MODULE_DESCRIPTION("Bugs for the tests of the twheel test rig");
MODULE_AUTHOR("twheel contributors");
MODULE_LICENSE("GPL");
