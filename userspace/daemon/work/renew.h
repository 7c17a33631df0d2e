/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Leases of attempts that run are renewed.
 */
#ifndef TWHEELD_WORK_RENEW_H
#define TWHEELD_WORK_RENEW_H

#include "work/queue.h"

/**
 * renew_leases() - renew the leases of attempts that run
 */
void renew_leases(struct lane *l);

#endif /* TWHEELD_WORK_RENEW_H */
