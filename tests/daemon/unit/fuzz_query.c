// SPDX-License-Identifier: GPL-2.0
/*
 * Queries and tokens: accepted ones must be within their limits.
 */
#include "fuzz.h"
#include "text/json.h"
#include "text/pull.h"
#include "text/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), again[TOKEN_LEN];
	uint64_t holder, token, h, t;
	struct api_error err;
	char cursor[LIST_CURSOR_LEN], id[TASK_ID_MAX + 1];
	struct list_query q;
	unsigned int lane;

	memcpy(text, data, size);
	text[size] = '\0';
	if (list_query_parse(text, &q, &err))
		must(err.status == 400 && *err.message);
	else
		must(q.limit && q.limit <= LIST_LIMIT_MAX && q.state < TASK_STATES &&
		     memchr(q.cursor, 0, sizeof(q.cursor)));
	if (token_parse(text, &holder, &token)) {
		token_text(again, holder, token);
		must(token_parse(again, &h, &t) && h == holder && t == token);
	}
	if (list_cursor_parse(text, &lane, &h, id)) {
		list_cursor_text(cursor, lane, h, id);
		must(list_cursor_parse(cursor, &lane, &t, id) && h == t &&
		     strlen(id) <= TASK_ID_MAX);
	}
	must(task_id_valid(text) || !queue_name_valid(text));
	free(text);
	return 0;
}
