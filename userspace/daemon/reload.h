/* SPDX-License-Identifier: GPL-2.0 */
/* SIGHUP: the configuration is read again. */
#ifndef TWHEELD_RELOAD_H
#define TWHEELD_RELOAD_H

struct daemon;

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
