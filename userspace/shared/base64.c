// SPDX-License-Identifier: GPL-2.0
/* Standard base64 with its padding. See base64.h. */
#include <string.h>

#include "base64.h"

static const char base64_chars[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

const char *parse_base64(const char *text, size_t len, uint8_t *out, size_t *outlen)
{
	static const char bad[] = "not base64";
	size_t padding = 0, n = 0, i;
	uint32_t bits = 0;

	if (len % 4)
		return "base64 needs its padding";
	while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
		padding++;
	for (i = 0; i < len; i++) {
		int v = i < len - padding ? base64_value(text[i]) : 0;

		if (v < 0)
			return bad;
		bits = bits << 6 | (uint32_t)v;
		if (i % 4 != 3)
			continue;
		/* What the padding covers must be 0: one text for each value. */
		if (i == len - 1 && (bits & ((1u << 8 * padding) - 1)))
			return bad;
		if (out) {
			uint8_t three[3] = { bits >> 16, bits >> 8, bits };
			size_t take = 3 - (i == len - 1 ? padding : 0);

			memcpy(out + n, three, take);
		}
		n += 3 - (i == len - 1 ? padding : 0);
		bits = 0;
	}
	*outlen = n;
	return NULL;
}

void format_base64(char *out, const uint8_t *data, size_t len)
{
	size_t i;

	for (i = 0; i < len; i += 3) {
		uint32_t bits = (uint32_t)data[i] << 16;

		if (i + 1 < len)
			bits |= (uint32_t)data[i + 1] << 8;
		if (i + 2 < len)
			bits |= data[i + 2];
		*out++ = base64_chars[bits >> 18];
		*out++ = base64_chars[bits >> 12 & 63];
		*out++ = i + 1 < len ? base64_chars[bits >> 6 & 63] : '=';
		*out++ = i + 2 < len ? base64_chars[bits & 63] : '=';
	}
	*out = '\0';
}
