/* SPDX-License-Identifier: GPL-2.0 */
/* Error messages of twheelctl, and its exit statuses. */
#ifndef TWHEELCTL_ERROR_H
#define TWHEELCTL_ERROR_H

#include "common.h"

/* Exit statuses. After a command, "after" exits with the status of the command instead. */
enum {
	STATUS_OK = 0,
	STATUS_FAILURE = 1,
	STATUS_USAGE = 2,
	STATUS_NO_DEVICE = 3,
	STATUS_NO_PERMISSION = 4,
	STATUS_NO_TIMER = 5,
	STATUS_LIMIT = 6,
	STATUS_TIMEOUT = 124,
	STATUS_OWN_FAILURE = 125,
	STATUS_CANNOT_EXEC = 126,
	STATUS_NO_COMMAND = 127,
};

void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void hint(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void die(int status, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));
void leave(int status) __attribute__((noreturn));
void reserve_statuses(void);
const char *error_text(int err);
int error_status(int err);
void end_output(void);
void *grow_array(void *array, size_t used, size_t *room, size_t size);

#endif /* TWHEELCTL_ERROR_H */
