/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The daemon: start and stop.
 */
#ifndef TWHEELD_DAEMON_H
#define TWHEELD_DAEMON_H

#include "work/work.h"

/**
 * daemon_run() - serve until a signal
 * @d: with its configuration, else zero
 * @argc: of main(), for SIGHUP
 * @argv: of main(), for SIGHUP
 *
 * Return: status of the exit.
 */
int daemon_run(struct daemon *d, int argc, char **argv);

/**
 * daemon_check() - connect to Redis, and say whether it will do
 *
 * Return: status of the exit.
 */
int daemon_check(struct daemon *d);

#endif /* TWHEELD_DAEMON_H */
