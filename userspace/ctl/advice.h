/* SPDX-License-Identifier: GPL-2.0 */
/* Advice for users who cannot open a wheel. */
#ifndef TWHEELCTL_ADVICE_H
#define TWHEELCTL_ADVICE_H

#include "common.h"

#define ADVICE_LEN	256

int module_minor(void);
bool module_is_loaded(void);
const char *module_version(char *buf, size_t size);
const char *container(void);
void advise_load(char buf[ADVICE_LEN]);
void advise_absent(char buf[ADVICE_LEN], const char *path);
void advise_permission(char buf[ADVICE_LEN], const char *path);
void advise_limit(char buf[ADVICE_LEN]);

#endif /* TWHEELCTL_ADVICE_H */
