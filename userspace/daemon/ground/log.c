// SPDX-License-Identifier: GPL-2.0
/* The log. See log.h. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ground/log.h"

#define LINE_LEN	1024
#define A_SECOND	10

/* Whether stderr goes to the journal: see JOURNAL_STREAM in systemd.exec(5). */
static bool is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char ours[64];
	struct stat st;

	if (!stream || fstat(STDERR_FILENO, &st))
		return false;
	snprintf(ours, sizeof(ours), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	return !strcmp(stream, ours);
}

static void print(int level, const char *fmt, va_list args)
{
	char line[LINE_LEN];
	/* The journal reads the level. A person does not. */
	int n = is_journal() ? snprintf(line, sizeof(line), "<%d>", level) : 0;
	int m = vsnprintf(line + n, sizeof(line) - n - 1, fmt, args);

	if (m < 0)
		return;
	n += m < (int)sizeof(line) - n - 1 ? m : (int)sizeof(line) - n - 2;
	/* A text of Redis or a client makes no second line. */
	for (int i = 0; i < n; i++) {
		if ((unsigned char)line[i] < ' ')
			line[i] = ' ';
	}
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) < 0)
		return;
}

void log_line(int level, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print(level, fmt, args);
	va_end(args);
}

void log_often(int level, const char *fmt, ...)
{
	static time_t second;
	static unsigned int printed;
	struct timespec now;
	va_list args;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (now.tv_sec != second) {
		second = now.tv_sec;
		printed = 0;
	}
	if (printed++ >= A_SECOND)
		return;
	va_start(args, fmt);
	print(level, fmt, args);
	va_end(args);
}

void log_once(const char *text)
{
	static const char *last[8];

	for (unsigned int i = 0; i < 8; i++) {
		if (last[i] == text)
			return;
		if (!last[i]) {
			last[i] = text;
			break;
		}
	}
	log_line(LOG_WARNING, "%s", text);
}
