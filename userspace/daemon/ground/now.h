/* SPDX-License-Identifier: GPL-2.0 */
/* The clocks of this machine. */
#ifndef TWHEELD_GROUND_NOW_H
#define TWHEELD_GROUND_NOW_H

#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC	1000000000ULL
#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_USEC	1000ULL

/**
 * now_ns() - read a clock
 * @clock_id: CLOCK_REALTIME, CLOCK_MONOTONIC, ...
 *
 * If the clock cannot be read, the daemon ends, because it can do nothing without the time.
 *
 * Return: the time in nanoseconds.
 */
uint64_t now_ns(clockid_t clock_id);

#endif /* TWHEELD_GROUND_NOW_H */
