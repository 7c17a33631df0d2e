/* SPDX-License-Identifier: GPL-2.0 */
/* The wheel that a verb uses. */
#ifndef TWHEELCTL_DEVICE_H
#define TWHEELCTL_DEVICE_H

#include <signal.h>

#include "verb.h"

/* @pidfd: of the process whose wheel it is; -1 if it is ours. */
struct wheel {
	struct twheel *twheel;
	struct twheel_info info;
	int pidfd;
};

int try_wheel(struct twheel **w, const struct conf *conf);

void wheel_open(struct wheel *w, const struct conf *conf);
void wheel_close(struct wheel *w);
bool wheel_is_kernel(const struct wheel *w);
int wheel_do(struct wheel *w, unsigned int opcode, struct twheel_timer *t);
void wheel_stats(struct wheel *w, struct twheel_stats *stats);
bool wheel_nothing_left(struct wheel *w);
bool wait_owner(const struct wheel *w, __u64 timeout, const sigset_t *signals);

/* How long wait_input() waits if it may wait for ever. */
#define FOREVER	(~0ULL)

bool wait_input(const struct wheel *w, int other_fd, __u64 timeout,
		bool *other_ready, const sigset_t *signals);

#endif /* TWHEELCTL_DEVICE_H */
