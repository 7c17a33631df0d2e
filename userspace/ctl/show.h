/* SPDX-License-Identifier: GPL-2.0 */
/* Writes durations for people. */
#ifndef TWHEELCTL_SHOW_H
#define TWHEELCTL_SHOW_H

#include "common.h"

#define DURATION_LEN	32

const char *duration_text(char buf[DURATION_LEN], __u64 ns);
const char *short_duration(char buf[DURATION_LEN], __u64 ns);
const char *lateness_text(char buf[DURATION_LEN], __u64 ns);

#endif /* TWHEELCTL_SHOW_H */
