/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The log: lines on stderr. If stderr goes to the journal, each line begins with its level in the
 * form that systemd reads. No line contains a secret, a token or a payload.
 */
#ifndef TWHEELD_GROUND_LOG_H
#define TWHEELD_GROUND_LOG_H

#include <syslog.h>

/**
 * log_set_level() - drop lines of less weight
 * @level: the last that is written; LOG_INFO is all, and the default
 */
void log_set_level(int level);

/**
 * log_line() - one line
 * @level: LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO
 */
void log_line(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/**
 * log_often() - a line that may come without end
 *
 * Equal lines are printed once a minute, with their number. Of others, at most ten a second of
 * each level are, so that a flood of warnings drops no errors.
 */
void log_often(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/**
 * log_tick() - tell the number of lines that were not printed: each second
 */
void log_tick(void);

/**
 * log_once() - a warning that does not repeat itself: an equal text is dropped
 * @text: a constant
 */
void log_once(const char *text);

#endif /* TWHEELD_GROUND_LOG_H */
