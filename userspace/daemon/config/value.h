/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Values of the configuration that are more than a number: config.c's alone.
 *
 * Each function returns NULL, or a constant text that says what is wrong.
 */
#ifndef TWHEELD_CONFIG_VALUE_H
#define TWHEELD_CONFIG_VALUE_H

#include "config/config.h"

/* "127.0.0.1:7733", "[::1]:7733", "localhost:7733", "*:7733", "unix:PATH" */
const char *listen_parse(const char *text, struct listen_on *on);

/* "whsec_" and base64 of 24 to 64 bytes */
const char *secret_parse(const char *text, struct secret *secret);

/* A bearer token: at least 16 printable characters without a space */
const char *token_refused(const char *text);

/* The prefix of keys: at most 31 of A-Za-z0-9_:.- */
const char *prefix_refused(const char *text);

#endif /* TWHEELD_CONFIG_VALUE_H */
