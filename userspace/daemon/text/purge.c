// SPDX-License-Identifier: GPL-2.0
/* The body of POST /v1/queues/{q}/purge. See purge.h. */
#include <stdio.h>
#include <string.h>

#include "text/field.h"
#include "text/purge.h"

static int read_purge(const struct fields *f, struct purge *p)
{
	static const char *const names[] = { "state", "before", "prefix", NULL };
	const char *state = NULL, *prefix = NULL;

	if (fields_only(f, names) || field_string(f, "state", &state) ||
	    field_time(f, "before", &p->before_ms) || field_string(f, "prefix", &prefix))
		return -1;
	if (!state || !task_state_find(state, &p->state) || p->state == TASK_LEASED)
		return field_error(f, INVALID, "state", "must be scheduled, done or dead");
	/* The beginning of an id may be "." or "..", although no id may. */
	if (prefix && *prefix && strcmp(prefix, ".") && strcmp(prefix, "..") &&
	    !task_id_valid(prefix))
		return field_error(f, INVALID, "prefix", "must be the beginning of an id");
	snprintf(p->prefix, sizeof(p->prefix), "%s", prefix ? prefix : "");
	return 0;
}

int purge_parse(const char *text, size_t len, struct purge *p, struct api_error *err)
{
	struct fields f = { .at = "", .err = err };
	json_t *root = json_parse(text, len, false, err);
	int ret;

	if (!root)
		return -1;
	*p = (struct purge){ .before_ms = UINT64_MAX };
	f.obj = root;
	ret = read_purge(&f, p);
	json_decref(root);
	return ret;
}
