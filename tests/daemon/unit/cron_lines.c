// SPDX-License-Identifier: GPL-2.0
/*
 * Reads lines with a Unix time and a calendar, and for each prints the next three runs in UTC
 * or the error, for calendar_test.py.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/cron.h"

int main(void)
{
	struct zone *utc = zone_open("UTC");
	char line[256], *text;

	while (fgets(line, sizeof(line), stdin)) {
		int64_t time = strtoll(line, &text, 10);
		struct cron cron;
		const char *why;
		int i;

		text[strcspn(text, "\n")] = '\0';
		why = cron_parse(text + 1, &cron);
		for (i = 0; !why && i < 3; i++) {
			time = cron_next(&cron, utc, time);
			printf("%" PRId64 "%c", time, i < 2 ? ' ' : '\n');
		}
		if (why)
			puts(why);
	}
	zone_close(utc);
	return 0;
}
