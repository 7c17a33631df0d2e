// SPDX-License-Identifier: GPL-2.0
/* The programs that make bench-tasks runs beside the daemon. See load.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "load.h"

/* How long a program waits to see tasks run twice. */
#define TWICE_WAIT	(300 * NSEC_PER_MSEC)

volatile int ended;

void die(const char *what)
{
	perror(what);
	exit(1);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

void *allocate(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		die("calloc");
	return p;
}

void schedule_read(struct schedule *s, const char *path)
{
	FILE *f = fopen(path, "r");
	unsigned int room = 0;
	unsigned long long ms;

	if (!f)
		die(path);
	s->count = 0;
	s->due_ms = NULL;
	while (fscanf(f, "%llu", &ms) == 1) {
		if (s->count == room) {
			room = room ? 2 * room : 16384;
			s->due_ms = realloc(s->due_ms, room * sizeof(*s->due_ms));
			if (!s->due_ms)
				die("realloc");
		}
		s->due_ms[s->count++] = ms;
	}
	fclose(f);
}

const char *payload(unsigned int len)
{
	static char text[PAYLOAD_LEN + 1];

	if (text[0])
		return text;
	for (unsigned int i = 0; i < len; i++)
		text[i] = (char)('a' + i * 7 % 26);
	text[0] = '"';
	text[len - 1] = '"';
	return text;
}

/* ---- The record of runs ---- */

void seen_init(struct seen *s, unsigned int want)
{
	memset(s, 0, sizeof(*s));
	s->want = want;
	s->room = 2 * want + 1024;
	s->ran = allocate(want * sizeof(*s->ran));
	s->run = allocate(s->room * sizeof(*s->run));
}

void seen_add(struct seen *s, const char *id)
{
	uint64_t now = now_ns();
	unsigned long task = strtoul(id, NULL, 16);

	if (task >= s->want || s->count == s->room)
		return;
	s->run[s->count].task = (unsigned int)task;
	s->run[s->count++].at_ns = now;
	if (s->ran[task])
		return;
	s->ran[task] = true;
	if (++s->tasks == s->want)
		s->end_ns = now + TWICE_WAIT;
}

bool seen_all(const struct seen *s)
{
	return ended || (s->end_ns && now_ns() > s->end_ns);
}

void seen_write(const struct seen *s, const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		die(path);
	for (unsigned int i = 0; i < s->count; i++)
		fprintf(f, "%u %llu\n", s->run[i].task, (unsigned long long)s->run[i].at_ns);
	fclose(f);
}

/* ---- Programs ---- */

static const struct program {
	const char *name;
	int (*main)(int argc, char **argv);
	int args;
	const char *usage;
} programs[] = {
	{ "put", put_main, 6, "SOCKET QUEUE SCHEDULE CONNECTIONS BATCH RATE [URL [PAYLOAD]]" },
	{ "worker", worker_main, 5, "QUEUE TASKS OUT CONNECTIONS SOCKET..." },
	{ "sink", sink_main, 3, "PORTFILE TASKS OUT" },
	{ "timerfd", timerfd_main, 2, "SCHEDULE OUT" },
	{ "slices-put", slices_put_main, 4, "REDIS SCHEDULE BATCH CONNECTIONS" },
	{ "slices-work", slices_work_main, 3, "REDIS TASKS OUT" },
};

static void on_term(int sig)
{
	(void)sig;
	ended = 1;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_term };
	size_t n = sizeof(programs) / sizeof(programs[0]);

	sigaction(SIGTERM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	/* No side may have slack on its timers. */
	prctl(PR_SET_TIMERSLACK, 1);
	for (size_t i = 0; argc > 1 && i < n; i++) {
		if (!strcmp(argv[1], programs[i].name) && argc - 2 >= programs[i].args)
			return programs[i].main(argc - 2, argv + 2);
	}
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "%s %s %s\n", argv[0], programs[i].name, programs[i].usage);
	return 2;
}
