/* SPDX-License-Identifier: GPL-2.0 */
/* "1h30m" to nanoseconds and back. */
#ifndef TWHEELCTL_DURATION_H
#define TWHEELCTL_DURATION_H

#include "common.h"

#define DURATION_LEN	32

extern const char negative_duration[];

const char *parse_duration(const char *text, __u64 *ns);
const char *parse_duration_part(const char *text, size_t len, __u64 *ns);
const char *duration_text(char buf[DURATION_LEN], __u64 ns);
const char *short_duration(char buf[DURATION_LEN], __u64 ns);
const char *lateness_text(char buf[DURATION_LEN], __s64 ns);

#endif /* TWHEELCTL_DURATION_H */
