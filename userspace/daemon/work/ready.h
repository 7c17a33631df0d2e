/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether Redis takes writes: asked with each heartbeat, and told by /readyz.
 */
#ifndef TWHEELD_WORK_READY_H
#define TWHEELD_WORK_READY_H

#include "work/work.h"

/**
 * ready_ask() - ask each node that has slots
 */
void ready_ask(struct daemon *d);

#endif /* TWHEELD_WORK_READY_H */
