// SPDX-License-Identifier: GPL-2.0
/*
 * How PID 1 of the test machine judges the kernel's log, the search for leaked memory, and the
 * state of lockdep.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "init.h"

#define KMEMLEAK	"/sys/kernel/debug/kmemleak"
/* kmemleak ignores objects that are younger than 5 s. */
#define KMEMLEAK_AGE	6

/* Returns the lines of a file, followed by NULL. There are none if the file does not exist. */
static char **read_lines(const char *path)
{
	FILE *file = fopen(path, "re");
	char **lines = calloc(1, sizeof(*lines));
	char *line = NULL;
	size_t size = 0, n = 0;
	ssize_t len;

	while (file && (len = getline(&line, &size, file)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		if (!*line)
			continue;
		lines = realloc(lines, (n + 2) * sizeof(*lines));
		lines[n++] = strdup(line);
		lines[n] = NULL;
	}
	free(line);
	if (file)
		fclose(file);
	return lines;
}

static const char *any_in(char *const *texts, const char *line)
{
	for (; *texts; texts++)
		if (strstr(line, *texts))
			return *texts;
	return NULL;
}

/*
 * Returns a descriptor of the kernel's log from here on. run.sh finds our line in the console's
 * log.
 */
int open_log(void)
{
	static const char begin[] = "<6>twheel-vm: begin";
	int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, begin, strlen(begin)) < 0)
		fail("cannot write to the kernel log: %s", strerror(errno));
	close(fd);

	fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		fail("cannot read the kernel log: %s", strerror(errno));
	lseek(fd, 0, SEEK_END);
	return fd;
}

/*
 * True if @text belongs to the stack trace of an out-of-memory report that one of @programs has
 * provoked. The name of the program is in the first lines of the report (in user-mode Linux in the
 * eighth), and the indented lines below it are the callers.
 */
static bool of_oom(char *const *programs, const char *text)
{
	static unsigned int lines;
	static bool in_stack;

	if (strstr(text, " invoked oom-killer: "))
		for (lines = 0; *programs && !lines; programs++)
			if (!strncmp(text, *programs, strlen(*programs)) &&
			    text[strlen(*programs)] == ' ')
				lines = 8;
	if (in_stack && *text == ' ')
		return true;
	in_stack = lines && lines-- && !strcasecmp(text, "Call Trace:");
	if (in_stack)
		lines = 0;
	return in_stack;
}

/* True for a line of a stack trace, which is indented, with a function of our module. */
static bool is_ours(const char *text)
{
	return *text == ' ' && strstr(text, " [" MODULE "]");
}

/* True if the address belongs to a function or static variable of the kernel itself. */
static bool of_kernel(unsigned long long address)
{
	static unsigned long long start = ULLONG_MAX, end;
	unsigned long long value;
	char name[128];
	FILE *symbols = end ? NULL : fopen("/proc/kallsyms", "r");

	while (symbols && fscanf(symbols, "%llx %*c %127s%*[^\n]", &value, name) == 2) {
		if (!strcmp(name, "_stext"))
			start = value;
		else if (!strcmp(name, "_end"))
			end = value;
	}
	if (symbols)
		fclose(symbols);
	return address >= start && address < end;
}

/*
 * Handles a line of a KCSAN report, and returns true if the line needs no further check. The
 * kernel has races of its own, so a report only fails the machine if our module is in one of its
 * stacks. Two cases do not count. In the stack of an interrupt, the module was only interrupted.
 * If the race is about a variable of the kernel, the kernel is to blame, even if the module
 * called it, unless the module itself accesses the variable.
 */
static bool of_race(const char *text)
{
	static const char begin[] = "BUG: KCSAN: ", end[] = "=====", at[] = " to 0x";
	static bool interrupted, theirs, direct;
	static char *race;
	const char *address = *text == ' ' ? NULL : strstr(text, at);
	bool ours;

	/* Lines of stack traces are indented. */
	interrupted = *text == ' ' && (interrupted || !strncmp(text, " asm_", strlen(" asm_")));
	if (!race) {
		if (strncmp(text, begin, strlen(begin)))
			return false;
		race = strdup(text);
		theirs = false;
		return true;
	}
	if (address) {
		theirs = of_kernel(strtoull(address + strlen(at), NULL, 16));
		direct = true;
		return false;
	}
	/* An empty line ends the stack trace. */
	if (!*text)
		theirs = false;
	ours = is_ours(text) && !interrupted && (!theirs || direct);
	/* The first function of a stack trace is the one that accesses the variable. */
	if (*text == ' ')
		direct = false;
	if (ours)
		fail("kernel log: %s", race);
	else if (!strncmp(text, end, strlen(end)))
		say("of the kernel's own: %s", race);
	else
		return false;
	free(race);
	race = NULL;
	return true;
}

/* Returns how often the kernel has left due timers to a later interrupt. */
static long long hangs(void)
{
	char **lines = read_lines("/proc/timer_list");
	long long sum = 0, n;
	bool counted = false;

	for (; *lines; lines++) {
		if (sscanf(*lines, " .nr_hangs : %lld", &n) != 1)
			continue;
		counted = true;
		sum += n;
	}
	return counted ? sum : LLONG_MAX;
}

/*
 * Returns true if the line reports an interrupt that took long and this may be chance. The kernel
 * reports it once, after timers have become due three times in a row while others were handled. A
 * tick, a timerfd and a sleeping program can coincide like that, but a timer that rearms itself in
 * the past causes it hundreds of times.
 */
static bool of_chance(const char *text)
{
	long long times;
	unsigned long ns;

	if (sscanf(text, "hrtimer: interrupt took %lu ns", &ns) != 1)
		return false;
	times = hangs();
	say("%lld times: %s", times, text);
	return times <= number_option("twheel.hangs", 3);
}

/*
 * Checks the kernel's log since open_log(). Our module logs nothing while it works, so any line
 * of it fails the machine, except for those about its signature, which the loader prints in its
 * name.
 */
void scan_log(int kmsg)
{
	char *const *forbidden = read_lines("/vm/forbidden");
	char *const *allowed = read_lines("/vm/log-ok");
	char *const *starved = read_lines("/vm/oom-ok");
	char record[8192];

	if (!*forbidden)
		fail("cannot read /vm/forbidden");

	for (;;) {
		ssize_t len = read(kmsg, record, sizeof(record) - 1);
		char *text;

		if (len < 0 && errno == EAGAIN) {
			/* End an unfinished KCSAN report, and count it against our module. */
			of_race("");
			of_race(" [" MODULE "]");
			return;
		}
		if (len < 0) {
			fail("cannot read the kernel log: %s", strerror(errno));
			return;
		}
		record[len] = '\0';
		text = strchr(record, ';');
		if (!text)
			continue;
		text++;
		text[strcspn(text, "\n")] = '\0';

		if (of_oom(starved, text) || of_race(text) || of_chance(text))
			continue;
		if (any_in(forbidden, text))
			fail("kernel log: %s", text);
		else if (!strncmp(text, MODULE ": ", strlen(MODULE ": ")) &&
			 !strstr(text, "taints kernel") &&
			 !strstr(text, "tainting kernel") &&
			 !any_in(allowed, text))
			fail("kernel log: %s", text);
	}
}

/*
 * Reports leaked memory, to which no pointer exists. This also runs before the module is unloaded,
 * because only then does the report contain the names of its functions.
 */
void scan_for_leaks(void)
{
	int scans = 2, fd;
	char **lines;

	if (!number_option("twheel.leaks", 1))
		return;
	fd = open(KMEMLEAK, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	sleep(KMEMLEAK_AGE);
	/* The second scan drops objects that have changed since the first. */
	while (scans--) {
		if (write(fd, "scan", strlen("scan")) < 0) {
			fail("cannot scan for leaks: %s", strerror(errno));
			break;
		}
	}
	for (lines = read_lines(KMEMLEAK); *lines; lines++) {
		if (!strncmp(*lines, "unreferenced object", strlen("unreferenced object")))
			fail("memory: %s", *lines);
		else
			say("%s", *lines);
	}
	if (write(fd, "clear", strlen("clear")) < 0)
		fail("cannot clear the leaks: %s", strerror(errno));
	close(fd);
}

/* lockdep turns itself off after its first report, even if that is about other code. */
void check_lockdep(void)
{
	char **lines = read_lines("/proc/lockdep_stats");
	int on;

	for (; *lines; lines++)
		if (sscanf(*lines, " debug_locks: %d", &on) == 1 && !on)
			fail("lockdep has turned itself off");
}
