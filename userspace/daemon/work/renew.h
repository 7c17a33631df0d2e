/* SPDX-License-Identifier: GPL-2.0 */
/* Renews the leases of running attempts. */
#ifndef TWHEELD_WORK_RENEW_H
#define TWHEELD_WORK_RENEW_H

#include "work/queue.h"

/**
 * renew_leases() - renew the leases of attempts that run
 */
void renew_leases(struct lane *l);

/**
 * renew_in_time() - look at the leases of a lane before a lease of this length may need it
 *
 * SIGHUP may have changed the length, so those of tasks that are held differ.
 */
void renew_in_time(struct lane *l, uint64_t lease_ms);

#endif /* TWHEELD_WORK_RENEW_H */
