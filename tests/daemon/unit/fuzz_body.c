// SPDX-License-Identifier: GPL-2.0
/*
 * Stored bodies: each byte of a decoded body can be read, and encoding it yields the same
 * block. The same bytes are also parsed as a URL.
 */
#include "fuzz.h"
#include "text/body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *url = malloc(size + 1), key[300];
	struct task_body b;
	uint8_t *again;

	if (body_decode(data, size, &b) && (!b.url || *b.url)) {
		must(body_size(&b) == size);
		again = malloc(size);
		body_encode(&b, again);
		must(!memcmp(again, data, size));
		free(again);
	}
	memcpy(url, data, size);
	url[size] = '\0';
	if (!url_refused(url))
		must(url_host_key(url, key, sizeof(key)));
	header_refused((const char *)data, size / 2, (const char *)data + size / 2,
		       size - size / 2);
	free(url);
	return 0;
}
