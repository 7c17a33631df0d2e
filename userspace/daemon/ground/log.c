// SPDX-License-Identifier: GPL-2.0
/* The log. See log.h. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ground/log.h"
#include "ground/now.h"

#define LINE_LEN	1024
/* Maximum number of different lines of one level that log_often() prints in a second. */
#define LINES_PER_SEC	10
/* How long a line that comes again is counted instead of printed. */
#define REPEAT_SECONDS	60
/* How many different lines log_often() remembers for a minute. */
#define KNOWN_LINES	32

/**
 * struct known - a line that was printed
 * @level: its level
 * @since: when its minute began; 0: there is none
 * @more: how often it came since
 * @text: the line
 */
static struct known {
	int level;
	time_t since;
	unsigned int more;
	char text[256];
} known[KNOWN_LINES];

static int last_level = LOG_INFO;
/* Lines that differ from all known ones, and came too often to be printed. */
static unsigned int dropped;

void log_set_level(int level)
{
	last_level = level;
}

/* True if stderr goes to the journal: see JOURNAL_STREAM in systemd.exec(5). */
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
	/* Only the journal needs the level. */
	int n = is_journal() ? snprintf(line, sizeof(line), "<%d>", level) : 0;
	int m = vsnprintf(line + n, sizeof(line) - n - 1, fmt, args);

	if (m < 0)
		return;
	n += m < (int)sizeof(line) - n - 1 ? m : (int)sizeof(line) - n - 2;
	/* Replace control characters, so that a text of Redis or a client stays on one line. */
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

	if (level > last_level)
		return;
	va_start(args, fmt);
	print(level, fmt, args);
	va_end(args);
}

static time_t now(void)
{
	return now_ns(CLOCK_MONOTONIC_COARSE) / NSEC_PER_SEC + 1;
}

/* Logs how often the line was repeated and begins another minute, or forgets the line. */
static void end_minute(struct known *k, time_t s)
{
	if (k->more)
		log_line(k->level, "%s (%u more within a minute)", k->text, k->more);
	k->since = k->more ? s : 0;
	k->more = 0;
}

/* Tells how many lines were dropped, once a minute. */
static void tell_dropped(time_t s)
{
	static time_t told;

	if (!dropped || (told && s < told + REPEAT_SECONDS))
		return;
	told = s;
	log_line(LOG_WARNING, "%u other lines were not logged, because there were too many",
		 dropped);
	dropped = 0;
}

void log_tick(void)
{
	time_t s = now();

	tell_dropped(s);
	for (struct known *k = known; k < known + KNOWN_LINES; k++) {
		if (k->since && s >= k->since + REPEAT_SECONDS)
			end_minute(k, s);
	}
}

static struct known *find(const char *text)
{
	for (struct known *k = known; k < known + KNOWN_LINES; k++) {
		if (k->since && !strcmp(k->text, text))
			return k;
	}
	return NULL;
}

/* True if @a makes room before @b: lines that came once do so first, and of those the oldest. */
static bool goes_before(const struct known *a, const struct known *b)
{
	return !a->more == !b->more ? a->since < b->since : !a->more;
}

/* Return: a free place, or that of a line that is forgotten. */
static struct known *make_room(void)
{
	struct known *first = known;

	for (struct known *k = known; k < known + KNOWN_LINES; k++) {
		if (goes_before(k, first))
			first = k;
	}
	if (first->since)
		end_minute(first, 0);
	return first;
}

/* True if another line of this level may be printed in this second. */
static bool may_print(int level, time_t s)
{
	static unsigned int printed[LOG_DEBUG + 1];
	static time_t second;

	if (s != second) {
		second = s;
		memset(printed, 0, sizeof(printed));
	}
	if (printed[level]++ < LINES_PER_SEC)
		return true;
	dropped++;
	return false;
}

void log_often(int level, const char *fmt, ...)
{
	char text[sizeof(known[0].text)];
	time_t s = now();
	struct known *k;
	va_list args;

	if (level > last_level)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	k = find(text);
	if (k) {
		k->more++;
		return;
	}
	if (!may_print(level, s))
		return;
	k = make_room();
	*k = (struct known){ .level = level, .since = s };
	memcpy(k->text, text, sizeof(text));
	log_line(level, "%s", text);
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
