/* SPDX-License-Identifier: GPL-2.0 */
/* SIGHUP: reads the configuration again. */
#ifndef TWHEELD_RELOAD_H
#define TWHEELD_RELOAD_H

struct config;
struct config_args;
struct daemon;

/**
 * reload_warn() - log a line for each file with a secret that every user may read or change
 */
void reload_warn(const struct config *c, const struct config_args *args);

/**
 * daemon_reload() - read the configuration again, and use it
 * @argc: of main()
 * @argv: of main()
 *
 * All of it is used or nothing is: what is wrong, and what takes effect at a start only, is a
 * line of the log.
 */
void daemon_reload(struct daemon *d, int argc, char **argv);

#endif /* TWHEELD_RELOAD_H */
