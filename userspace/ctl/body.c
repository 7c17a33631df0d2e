// SPDX-License-Identifier: GPL-2.0
/* Shared by the verbs task and schedule. See body.h. */
#include "body.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "http.h"
#include "option.h"

#define PAYLOAD_MAX	(128 << 10)

static json_t *payload_value(const struct verb *verb, const char *text)
{
	static char buf[PAYLOAD_MAX];
	size_t len = strlen(text);
	json_error_t why;
	json_t *v;

	if (!strcmp(text, "-")) {
		len = fread(buf, 1, sizeof(buf), stdin);
		text = buf;
	}
	if (len == sizeof(buf))
		usage_error(verb, "the payload must be shorter than %d bytes", PAYLOAD_MAX);
	v = json_loadb(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &why);
	if (!v)
		usage_error(verb, "the payload is not JSON: %s", why.text);
	return v;
}

static void add_header(const struct verb *verb, json_t *headers, const char *text)
{
	const char *colon = strchr(text, ':');
	char name[128];

	if (!colon || (size_t)(colon - text) >= sizeof(name))
		usage_error(verb, "a header has the form \"NAME: VALUE\", not \"%s\"", text);
	snprintf(name, sizeof(name), "%.*s", (int)(colon - text), text);
	colon++;
	if (json_object_get(headers, name))
		usage_error(verb, "the header %s is given twice", name);
	if (json_object_set_new(headers, name, json_string(colon + strspn(colon, " "))))
		usage_error(verb, "headers: not UTF-8");
}

/* Returns the object in a field, and makes it if it is missing. */
static json_t *part(json_t *object, const char *name)
{
	json_t *found = json_object_get(object, name);

	if (!found) {
		found = json_object();
		json_object_set_new(object, name, found);
	}
	return found;
}

bool body_option(const struct verb *verb, json_t *task, int opt)
{
	switch (opt) {
	case OPT_URL:
		set_field(verb, part(task, "callback"), "url", json_string(optarg));
		return true;
	case OPT_METHOD:
		set_field(verb, part(task, "callback"), "method", json_string(optarg));
		return true;
	case OPT_HEADER:
		add_header(verb, part(part(task, "callback"), "headers"), optarg);
		return true;
	case OPT_PAYLOAD:
		set_field(verb, task, "payload", payload_value(verb, optarg));
		return true;
	case OPT_TIMEOUT:
		set_duration(verb, task, "timeout", optarg);
		return true;
	case OPT_KEEP:
		set_duration(verb, task, "keep", optarg);
		return true;
	}
	return false;
}

void append_id(char *path, size_t size, const char *id)
{
	size_t len = strlen(path);

	for (; *id && len + 4 < size; id++) {
		if (isalnum((unsigned char)*id) || strchr("_:-", *id))
			path[len++] = *id;
		else
			len += sprintf(path + len, "%%%02X", (unsigned char)*id);
	}
	path[len] = '\0';
}
