// SPDX-License-Identifier: GPL-2.0
/* The arguments of a command, as they grow. See store.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/store.h"

void args_bytes(struct args *a, const void *data, size_t len)
{
	if (a->count == a->room) {
		unsigned int room = a->room ? 2 * a->room : 16;
		size_t *more = realloc(a->len, room * sizeof(*more));

		if (!more) {
			a->failed = true;
			return;
		}
		a->len = more;
		a->room = room;
	}
	if (a->text_len + len > a->text_room) {
		size_t room = 2 * (a->text_len + len) + 256;
		char *more = realloc(a->text, room);

		if (!more) {
			a->failed = true;
			return;
		}
		a->text = more;
		a->text_room = room;
	}
	if (len)
		memcpy(a->text + a->text_len, data, len);
	a->text_len += len;
	a->len[a->count++] = len;
}

void args_text(struct args *a, const char *text)
{
	args_bytes(a, text, strlen(text));
}

void args_u64(struct args *a, uint64_t n)
{
	char text[24];

	args_bytes(a, text, snprintf(text, sizeof(text), "%llu", (unsigned long long)n));
}

void args_free(struct args *a)
{
	free(a->text);
	free(a->len);
	memset(a, 0, sizeof(*a));
}
