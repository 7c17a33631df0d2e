// SPDX-License-Identifier: GPL-2.0
/* The scripts: their names, texts and hashes. See source.h. */
#include <stdio.h>

#include <openssl/sha.h>

#include "redis/lua/scripts.h"
#include "redis/source.h"

void source_init(struct source *src, enum store_script script)
{
	unsigned char sha[SHA_DIGEST_LENGTH];

	src->text = script_source(script);
	src->len = script_length(script);
	SHA1((const unsigned char *)src->text, src->len, sha);
	for (unsigned int i = 0; i < sizeof(sha); i++)
		sprintf(src->sha + 2 * i, "%02x", sha[i]);
}

const char *script_name(enum store_script script)
{
	static const char *const names[] = {
		"put", "take", "ack", "renew", "recover", "change", "sweep", "look", "pause",
		"remove", "plant", "clear", "schedule", "settings",
	};

	return names[script];
}
