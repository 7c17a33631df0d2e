/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Standard base64 with its padding. No I/O.
 */
#ifndef TWHEEL_BASE64_H
#define TWHEEL_BASE64_H

#include <stddef.h>
#include <stdint.h>

/**
 * parse_base64() - decode standard base64 with its padding
 * @text: the text
 * @len: its length
 * @out: room for 3 bytes for each 4 of @len; may be NULL to check only
 * @outlen: how many bytes there are
 *
 * Each sequence of bytes has exactly one text.
 *
 * Return: NULL, or a constant text that says what is wrong.
 */
const char *parse_base64(const char *text, size_t len, uint8_t *out, size_t *outlen);

/**
 * format_base64() - encode
 * @out: room for 4 bytes for each 3 of @len or part of 3, and a NUL
 * @data: the bytes
 * @len: how many
 */
void format_base64(char *out, const uint8_t *data, size_t len);

#endif /* TWHEEL_BASE64_H */
