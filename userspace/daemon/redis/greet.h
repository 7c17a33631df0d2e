/* SPDX-License-Identifier: GPL-2.0 */
/* Checks a server before it is used. */
#ifndef TWHEELD_REDIS_GREET_H
#define TWHEELD_REDIS_GREET_H

#include "redis/conn.h"

/**
 * store_greet() - a connection is there: ask who the server is, and make it ready
 */
void store_greet(struct conn *c);

#endif /* TWHEELD_REDIS_GREET_H */
