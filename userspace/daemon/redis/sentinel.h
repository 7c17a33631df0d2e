/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where the master is, as Sentinel says.
 *
 * Two connections to one of the Sentinels: questions, and +switch-master. If the first one
 * breaks, both go to the next Sentinel.
 */
#ifndef TWHEELD_REDIS_SENTINEL_H
#define TWHEELD_REDIS_SENTINEL_H

#include "config/config.h"
#include "ground/loop.h"
#include "ground/alarm.h"
#include "redis/tls.h"

struct sentinel;

/**
 * master_fn - Sentinel named the master
 * @arg: of sentinel_new()
 * @master: where it is; often the same as before
 */
typedef void master_fn(void *arg, const struct redis_node *master);

/**
 * sentinel_new() - prepare, and ask for the first time
 * @loop: the loop
 * @alarms: its timers
 * @config: the Sentinels, and the name of the master; must live as long
 * @tls: what TLS trusts, or NULL
 * @fn: called with each answer
 * @arg: for @fn
 *
 * Return: NULL without memory or timers.
 */
struct sentinel *sentinel_new(struct loop *loop, struct alarms *alarms, const struct config *config,
			      struct tls *tls, master_fn *fn, void *arg);

/**
 * sentinel_ask() - ask again, unless a question is on its way
 */
void sentinel_ask(struct sentinel *s);

/**
 * sentinel_doubt() - the server that it named is no master: ask another Sentinel
 */
void sentinel_doubt(struct sentinel *s);

/**
 * sentinel_flush() - send the questions: at the end of a turn
 */
void sentinel_flush(struct sentinel *s);

void sentinel_free(struct sentinel *s);

#endif /* TWHEELD_REDIS_SENTINEL_H */
