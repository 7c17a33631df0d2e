// SPDX-License-Identifier: GPL-2.0
/*
 * The log: equal lines appear once a minute, with a count, and others at most ten times a
 * second. The daemon ends if the clock cannot be read.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ground/log.h"
#include "ground/now.h"
#include "tap.h"

static time_t now_s = 1000;
static bool no_clock;

/* Replaces the library's clock_gettime(). */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	if (no_clock) {
		errno = EOVERFLOW;
		return -1;
	}
	*ts = (struct timespec){ .tv_sec = now_s };
	return 0;
}

static char said[1 << 16];
static int ends[2];

/* Returns the lines that were logged since the last call. */
static const char *log_text(void)
{
	ssize_t n;

	fflush(stderr);
	n = write(ends[1], "", 1) == 1 ? read(ends[0], said, sizeof(said)) : 0;
	said[n > 0 ? n - 1 : 0] = '\0';
	return said;
}

static unsigned int lines(const char *text)
{
	unsigned int count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

static int status_without_clock(void)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		no_clock = true;
		now_ns(CLOCK_REALTIME);
		_exit(0);
	}
	return waitpid(child, &status, 0) == child ? status : 0;
}

int main(void)
{
	int out = dup(STDERR_FILENO);
	int status = status_without_clock();

	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
	   "an error of clock_gettime() ends the daemon");
	if (pipe(ends) || dup2(ends[1], STDERR_FILENO) < 0)
		return 1;
	for (unsigned int s = 0; s < 59; s++, now_s++) {
		for (unsigned int i = 0; i < 20; i++)
			log_often(LOG_ERR, "Redis refused %s", "put");
		log_tick();
	}
	is_text(log_text(), "Redis refused put\n", "equal lines of a minute are one");
	now_s = 1060;
	log_tick();
	is_text(log_text(), "Redis refused put (1179 more within a minute)\n",
		"after a minute their number is logged");
	log_often(LOG_ERR, "Redis refused %s", "put");
	is_text(log_text(), "", "equal lines are dropped in the next minute too");
	for (unsigned int i = 0; i < 2; i++) {
		now_s += 60;
		log_tick();
	}
	is_text(log_text(), "Redis refused put (1 more within a minute)\n",
		"a minute without the line ends the repetition");
	log_often(LOG_ERR, "Redis refused %s", "put");
	is_text(log_text(), "Redis refused put\n", "after such a minute the line is logged again");
	now_s++;
	for (unsigned int i = 0; i < 100; i++)
		log_often(LOG_ERR, "task %u", i);
	ok(lines(log_text()) == 10, "ten lines a second, if they differ");
	now_s++;
	log_often(LOG_ERR, "task %u", 7);
	log_often(LOG_ERR, "task %u", 11);
	is_text(log_text(), "task 11\n", "a line that was not printed does not count as repeated");
	log_line(LOG_ERR, "once");
	log_line(LOG_ERR, "once");
	is_text(log_text(), "once\nonce\n", "other lines are all printed");
	for (unsigned int i = 0; i < 200; i++, now_s++)
		log_often(LOG_ERR, "many %u", i);
	is_number(lines(log_text()), 200, "more lines than are remembered");
	log_tick();
	is_text(log_text(), "90 other lines were not logged, because there were too many\n"
		"task 7 (1 more within a minute)\n",
		"the number of lines that were dropped is logged, and a line that came twice is not forgotten");
	now_s += 60;
	log_tick();
	is_text(log_text(), "", "and only once");
	for (unsigned int i = 0; i < 100; i++)
		log_often(LOG_WARNING, "task %u", i);
	log_often(LOG_ERR, "no Redis");
	log_often(LOG_ERR, "no Redis");
	ok(strstr(log_text(), "\nno Redis\n"), "many warnings drop no error");
	for (unsigned int i = 0; i < 100; i++) {
		now_s += i % 10 == 9;
		log_often(LOG_WARNING, "other task %u", i);
	}
	log_text();
	log_often(LOG_ERR, "no Redis");
	is_text(log_text(), "", "many other lines do not let a line that repeats be logged again");
	log_set_level(LOG_WARNING);
	log_line(LOG_NOTICE, "a notice");
	log_often(LOG_INFO, "an information");
	log_line(LOG_WARNING, "a warning");
	is_text(log_text(), "a warning\n", "lines of less weight than log-level are dropped");
	dup2(out, STDERR_FILENO);
	return tap_end();
}
