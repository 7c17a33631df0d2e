/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finds out with each heartbeat if Redis accepts writes, which /readyz reports.
 */
#ifndef TWHEELD_WORK_READY_H
#define TWHEELD_WORK_READY_H

#include "work/work.h"

/**
 * ready_ask() - ask each node that has slots
 */
void ready_ask(struct daemon *d);

#endif /* TWHEELD_WORK_READY_H */
