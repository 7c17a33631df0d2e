/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The scripts: their names, texts and hashes. No I/O.
 */
#ifndef TWHEELD_REDIS_SOURCE_H
#define TWHEELD_REDIS_SOURCE_H

#include <stddef.h>

enum store_script {
	SCRIPT_PUT,
	SCRIPT_TAKE,
	SCRIPT_ACK,
	SCRIPT_RENEW,
	SCRIPT_RECOVER,
	SCRIPT_CHANGE,
	SCRIPT_SWEEP,
	SCRIPT_LOOK,
	SCRIPT_PAUSE,
	SCRIPT_REMOVE,
	SCRIPT_PLANT,
	SCRIPT_CLEAR,
	SCRIPT_SCHEDULE,
	SCRIPT_SETTINGS,
	SCRIPTS,
};

/**
 * struct source - a script
 * @text: its Lua
 * @len: length of it
 * @sha: its hash, in hex
 */
struct source {
	const char *text;
	size_t len;
	char sha[41];
};

/**
 * source_init() - find the text of a script, and hash it
 */
void source_init(struct source *src, enum store_script script);

/**
 * script_name() - the name of a script, for logs and metrics
 */
const char *script_name(enum store_script script);

#endif /* TWHEELD_REDIS_SOURCE_H */
