/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One line of TAP for each assertion.
 *
 * A test is a program. It calls ok() and similar functions, and returns tap_end() from main().
 * A line that fails is followed by its file and line number and the value that was found.
 */
#ifndef TWHEELD_TAP_H
#define TWHEELD_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static int tap_number, tap_failures;

static __attribute__((format(printf, 4, 5), unused))
bool tap_line(const char *file, int line, bool good, const char *fmt, ...)
{
	va_list args;

	tap_failures += !good;
	printf("%sok %d - ", good ? "" : "not ", ++tap_number);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
	if (!good)
		printf("# %s:%d\n", file, line);
	fflush(stdout);
	return good;
}

#define ok(good, ...)	tap_line(__FILE__, __LINE__, (good), __VA_ARGS__)

/* Compares two texts, either of which may be NULL. */
#define is_text(got, want, ...)						\
	do {								\
		const char *g = (got), *w = (want);			\
		if (!ok(g == w || (g && w && !strcmp(g, w)), __VA_ARGS__)) \
			printf("# got \"%s\", want \"%s\"\n", g ? g : "(null)", \
			       w ? w : "(null)");			\
	} while (0)

#define is_number(got, want, ...)					\
	do {								\
		unsigned long long g = (got), w = (want);		\
		if (!ok(g == w, __VA_ARGS__))				\
			printf("# got %llu, want %llu\n", g, w);	\
	} while (0)

/* Returns JSON that is written with ' for ". Valid until the next call. */
static __attribute__((unused)) const char *quoted(const char *text)
{
	static char buf[4096];
	size_t i;

	for (i = 0; text[i] && i + 1 < sizeof(buf); i++)
		buf[i] = text[i] == '\'' ? '"' : text[i];
	buf[i] = '\0';
	return buf;
}

static __attribute__((unused)) int tap_end(void)
{
	printf("1..%d\n", tap_number);
	return tap_failures != 0;
}

#endif /* TWHEELD_TAP_H */
