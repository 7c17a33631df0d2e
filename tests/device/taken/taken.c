// SPDX-License-Identifier: GPL-2.0
/* Takes the minor number that twheel requests: see loading.minor_is_taken in module_test.c. */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

static const struct file_operations taken_fops = {
	.owner	= THIS_MODULE,
};

static struct miscdevice taken = {
	.minor	= 250,
	.name	= "taken",
	.fops	= &taken_fops,
};
module_misc_device(taken);

MODULE_DESCRIPTION("Takes the minor number of twheel");
MODULE_AUTHOR("twheel contributors");
MODULE_LICENSE("GPL");
