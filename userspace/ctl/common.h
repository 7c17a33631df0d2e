/* SPDX-License-Identifier: GPL-2.0 */
/* twheelctl: what all its files use. */
#ifndef TWHEELCTL_COMMON_H
#define TWHEELCTL_COMMON_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/types.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#endif /* TWHEELCTL_COMMON_H */
