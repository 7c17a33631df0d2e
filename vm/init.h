/* SPDX-License-Identifier: GPL-2.0 */
/* The interface between init.c and judge.c. */
#ifndef VM_INIT_H
#define VM_INIT_H

#define MODULE	"twheel"

/* init.c: say() prints a line, fail() also makes the verdict FAIL. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
long long number_option(const char *name, long long otherwise);

/* judge.c */
int open_log(void);
void scan_log(int kmsg);
void scan_for_leaks(void);
void check_lockdep(void);

#endif /* VM_INIT_H */
