/* SPDX-License-Identifier: GPL-2.0 */
/* Records as JSON. */
#ifndef TWHEELCTL_JSON_H
#define TWHEELCTL_JSON_H

#include "common.h"

#define JSON_SCHEMA	2

void json_open(const char *type);
void json_begin(const char *key, char bracket);
void json_end(char bracket);
void json_u64(const char *key, __u64 value);
void json_none(const char *key);
void json_text(const char *key, const char *value);
void json_bool(const char *key, bool value);
void json_id(__u64 id);
void json_close(void);

#endif /* TWHEELCTL_JSON_H */
