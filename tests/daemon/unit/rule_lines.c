// SPDX-License-Identifier: GPL-2.0
/*
 * Reads lines with a zone, a start, a moment and a rule. For each it prints the next three
 * runs after the moment, or the error, for rule_test.py.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/rule.h"

int main(void)
{
	char line[1024], name[64], text[768];
	int64_t start, time;

	while (fgets(line, sizeof(line), stdin)) {
		struct zone *zone;
		struct rule *rule = NULL;
		const char *why;

		if (sscanf(line, "%63s %" SCNd64 " %" SCNd64 " %767s", name, &start, &time,
			   text) != 4)
			return 1;
		zone = zone_open(name);
		if (!zone)
			return 1;
		why = rule_parse(text, &rule);
		if (!why)
			why = rule_start(rule, zone, start);
		for (int i = 0; !why && i < 3; i++) {
			time = rule_next(rule, time);
			if (time == RULE_NEVER) {
				printf("never ");
				break;
			}
			printf("%" PRId64 " ", time);
		}
		puts(why ? why : "");
		rule_free(rule);
		zone_close(zone);
	}
	return 0;
}
