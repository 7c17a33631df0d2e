/* SPDX-License-Identifier: GPL-2.0 */
/* Scripts for shells. */
#ifndef TWHEELCTL_COMPLETION_H
#define TWHEELCTL_COMPLETION_H

#include "verb.h"

extern const struct verb * const verbs[];
extern const size_t verb_count;

bool print_completion(const char *shell);

#endif /* TWHEELCTL_COMPLETION_H */
