/* SPDX-License-Identifier: GPL-2.0 */
/* Tells systemd about the state of the daemon. */
#ifndef TWHEELD_GROUND_NOTIFY_H
#define TWHEELD_GROUND_NOTIFY_H

/**
 * notify() - tell the manager of the service, if there is one: see sd_notify(3)
 */
void notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif /* TWHEELD_GROUND_NOTIFY_H */
