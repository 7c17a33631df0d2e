/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an error of Redis means. No I/O.
 */
#ifndef TWHEELD_REDIS_ERROR_H
#define TWHEELD_REDIS_ERROR_H

#include <stdbool.h>

#include "redis/command.h"

enum route_verdict {
	/* Not about routes. */
	ROUTE_OTHER,
	/* Another node has the slot. */
	ROUTE_MOVED,
	/* The slot moves, and another node may have the keys: ASKING. */
	ROUTE_ASK,
	/* Nobody can say now: try again. */
	ROUTE_LATER,
};

/**
 * struct redis_error - the meaning of an error, by its first word
 * @word: the first word of the answer
 * @result: what the caller is told, unless the command is sent again
 * @route: what a cluster does with the command
 * @map: in a cluster, the map of slots may be wrong
 * @greet: the server is not what it was when it was greeted: connect anew
 * @evaluate: the server does not know the script: send its text
 *
 * In all cases, nothing was done.
 */
struct redis_error {
	const char *word;
	enum store_result result;
	enum route_verdict route;
	bool map;
	bool greet;
	bool evaluate;
};

/**
 * redis_error() - look up an answer that is an error
 */
const struct redis_error *redis_error(const char *text);

#endif /* TWHEELD_REDIS_ERROR_H */
