/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recurrence rules of RFC 5545, by libical. No I/O.
 */
#ifndef TWHEELD_TEXT_RULE_H
#define TWHEELD_TEXT_RULE_H

#include <stdint.h>

#include "ground/zone.h"

/* rule_next() of a rule that has no day any more. */
#define RULE_NEVER	INT64_MAX

struct rule;

/**
 * rule_parse() - read a rule
 * @text: "FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9". The frequency is a day or longer
 * @rule: out, for rule_free()
 *
 * Return: NULL, or what is wrong with it: static text.
 */
const char *rule_parse(const char *text, struct rule **rule);

/**
 * rule_start() - give a rule its DTSTART
 * @rule: the rule
 * @zone: whose local time it means; it must outlive the rule
 * @start: no run comes before, a Unix time in seconds. INTERVAL counts from here, and the time of
 *	day is that of the start unless the rule has one. 0: the start of 1970, local time
 *
 * Return: NULL, or what is wrong with it: static text.
 */
const char *rule_start(struct rule *rule, const struct zone *zone, int64_t start);

/**
 * rule_next() - the first run after a moment, as cron_next()
 * @rule: a rule that has been started
 * @after: the moment, as a Unix time in seconds
 *
 * Return: when, as a Unix time in seconds, or RULE_NEVER.
 */
int64_t rule_next(const struct rule *rule, int64_t after);

void rule_free(struct rule *rule);

#endif
