/* SPDX-License-Identifier: GPL-2.0 */
/* Clocks, by their names. */
#ifndef TWHEELCTL_CLOCK_H
#define TWHEELCTL_CLOCK_H

#include "common.h"

#define NSEC_PER_USEC	1000ULL
#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_SEC	1000000000ULL
#define NSEC_PER_DAY	(86400 * NSEC_PER_SEC)

const char *clock_name(unsigned int clock);
__u64 monotonic_now(void);
__u64 realtime_now(void);

#endif /* TWHEELCTL_CLOCK_H */
