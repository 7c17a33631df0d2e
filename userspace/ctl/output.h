/* SPDX-License-Identifier: GPL-2.0 */
/* Prints records for people and as JSON. */
#ifndef TWHEELCTL_OUTPUT_H
#define TWHEELCTL_OUTPUT_H

#include "timers.h"

#define SECONDS_LEN	32

const char *seconds_text(char buf[SECONDS_LEN], __u64 ns);
const char *state_name(unsigned int state);
bool check_format(const char *format);
void print_event(const struct conf *conf, const struct roster *r,
		 const char *format, const struct twheel_event *e);
void json_timer_fields(const struct roster *r, const struct twheel_timer *t);
void json_stats_fields(const struct twheel_stats *stats);
void print_stats(const struct twheel_stats *stats);
void print_histogram(const struct conf *conf, const struct twheel_stats *stats);
bool percentile(const struct twheel_stats *from, const struct twheel_stats *to,
		unsigned int percent, __u64 *ns);
bool may_use_escapes(void);

#endif /* TWHEELCTL_OUTPUT_H */
