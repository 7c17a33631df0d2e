/* SPDX-License-Identifier: GPL-2.0 */
/* Parses the JSON that nearly all clients send, quickly. */
#ifndef TWHEELD_TEXT_PLAIN_H
#define TWHEELD_TEXT_PLAIN_H

#include <stddef.h>

#include <jansson.h>

/*
 * The same value as the library has for @text, a list or an object, or NULL if only the
 * library can tell.
 */
json_t *json_plain(const char *text, size_t len);

#endif /* TWHEELD_TEXT_PLAIN_H */
