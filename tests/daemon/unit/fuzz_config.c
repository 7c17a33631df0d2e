// SPDX-License-Identifier: GPL-2.0
/*
 * The configuration: a text is either accepted within its limits, or yields an error.
 */
#include "config/config.h"
#include "config/value.h"
#include "fuzz.h"
#include "ground/units.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct config c;
	char err[CONFIG_ERROR_LEN] = "";
	char *text = malloc(size + 1);
	struct redis_url url;
	struct secret secret;
	uint64_t value;

	config_defaults(&c);
	if (config_text(&c, "f", (const char *)data, size, err)) {
		must(*err && strlen(err) < sizeof(err));
	} else {
		must(c.lease_ms >= 6000 && c.ahead_ms <= 5000 && c.batch && c.batch <= 128);
		must(c.listens <= CONFIG_LISTEN_MAX && c.allows <= CONFIG_ALLOW_MAX);
		must(c.redis.nodes <= CONFIG_NODES_MAX);
	}
	memcpy(text, data, size);
	text[size] = '\0';
	if (!redis_url_parse(text, &url))
		must(url.kind == REDIS_UNIX ? *url.path : url.nodes && url.node[0].port);
	if (!secret_parse(text, &secret))
		must(secret.len >= 24 && secret.len <= CONFIG_SECRET_LEN);
	parse_ms(text, &value);
	parse_size(text, &value);
	parse_time(text, &value);
	free(text);
	return 0;
}
