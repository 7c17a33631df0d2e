// SPDX-License-Identifier: GPL-2.0
/*
 * Misbehaves on demand, so that the tests of the rig see each kind of
 * misbehaviour found out: insmod planted.ko bug=...
 *
 *   hold   keeps a wheel open for as long as it is loaded
 *   warn   is a bug that the kernel notices
 *   oops   is one that it does not survive
 *   hang   stops every CPU, with interrupts off
 *   minor  has the minor number that twheel asks for
 */
#include <linux/bug.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/processor.h>
#include <linux/smp.h>
#include <linux/string.h>

static char *bug = "";
module_param(bug, charp, 0444);
MODULE_PARM_DESC(bug, "what to do: hold, warn, oops, hang or minor");

static struct file *held;

static const struct file_operations minor_fops = {
	.owner	= THIS_MODULE,
};

static struct miscdevice minor = {
	.minor	= 250,
	.name	= "planted",
	.fops	= &minor_fops,
};

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
	if (!strcmp(bug, "minor"))
		return misc_register(&minor);
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
	if (!strcmp(bug, "minor"))
		misc_deregister(&minor);
}
module_exit(planted_exit);

MODULE_DESCRIPTION("Bugs for the tests of the twheel test rig");
MODULE_AUTHOR("twheel contributors");
MODULE_LICENSE("GPL");
