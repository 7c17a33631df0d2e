// SPDX-License-Identifier: GPL-2.0
/*
 * twheelctl worker: runs a command for each task of a pull queue.
 *
 * A worker processes one task at a time, and renews its lease after each third while the command
 * runs. If a report gets no answer, it is repeated while the lease lasts, because otherwise a
 * twheeld that restarts would run the task again. SIGTERM and SIGINT end the worker after its
 * current task. If it is waiting for a task, they end it at once, and the task stays in twheeld.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "http.h"
#include "transfer.h"
#include "option.h"
#include "../shared/base64.h"

/* The exit statuses of a command that have a meaning, as in sysexits.h. */
enum {
	EXIT_OK = 0,
	EXIT_DEAD = 65,
};

/* How long the worker waits after an error before it asks twheeld again. */
#define PAUSE_SECONDS	1
/* How often a report without an answer is repeated. */
#define REPEAT_MS	200

enum {
	OPT_LEASE = OPT_OF_VERB,
	OPT_WAIT,
};

static const struct option options[] = {
	{ "lease", required_argument, NULL, OPT_LEASE },
	{ "wait", required_argument, NULL, OPT_WAIT },
	{ "num-tasks", required_argument, NULL, 'n' },
	{ }
};

struct worker {
	struct conf conf;
	const char *queue;
	char **command;
	__u64 lease;
	__u64 wait;
	__u64 limit;
	sigset_t waiting;
};

static volatile sig_atomic_t stopping;

static void stop(int signal)
{
	(void)signal;
	stopping = 1;
}

/* Writes a duration in whole ms for the daemon. */
static json_t *ms_value(__u64 ns)
{
	return json_sprintf("%llums", ns / NSEC_PER_MSEC);
}

/* Signals are blocked, except while http_try() or pause_worker() waits. */
static void prepare_signals(struct worker *w)
{
	struct sigaction action = { .sa_handler = stop };
	sigset_t blocked;

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, &w->waiting);
	sigaddset(&w->waiting, SIGCHLD);
}

static bool stop_pending(void)
{
	sigset_t pending;

	sigpending(&pending);
	return stopping || sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT);
}

static void pause_worker(const struct worker *w)
{
	struct timespec time = { .tv_sec = PAUSE_SECONDS };

	pselect(0, NULL, NULL, NULL, &time, &w->waiting);
}

static void complain_of_status(int status, const json_t *answer)
{
	const json_t *error = json_object_get(answer, "error");
	const char *message = json_string_value(json_object_get(error, "message"));

	complain("twheeld answered with status %d (%s): trying again in %d s", status,
		 message ? message : "without a message", PAUSE_SECONDS);
}

static int post(const struct worker *w, const char *verb, json_t *body, json_t **answer)
{
	char path[160];
	int status, err;

	snprintf(path, sizeof(path), "/v1/queues/%s/%s", w->queue, verb);
	err = http_try(&w->conf, "POST", path, body, &status, answer,
		       strcmp(verb, "reserve") ? NULL : &w->waiting);
	/* The lease has ended, so another worker has the task. Continue with the next task. */
	if (!err && status == 410)
		err = -ESTALE;
	/* A wrong request will stay wrong, but other errors may pass. */
	if (!err && status >= 400 && status < 500 && status != 429)
		http_die(status, *answer);
	if (!err && (status < 200 || status > 299)) {
		if (!strcmp(verb, "reserve"))
			complain_of_status(status, *answer);
		err = -EAGAIN;
	}
	if (err) {
		json_decref(*answer);
		*answer = NULL;
	}
	return err;
}

/* Sends a report of one task. Returns 0, -ESTALE, or why it got no such answer. */
static int report(const struct worker *w, const char *verb, const json_t *task,
		  const char *error, bool dead)
{
	json_t *item, *answer, *result;
	bool stale;
	int err;

	item = json_pack("{s:O, s:O}", "id", json_object_get(task, "id"), "token",
			 json_object_get(task, "token"));
	if (!strcmp(verb, "extend"))
		json_object_set_new(item, "lease", ms_value(w->lease));
	if (error)
		json_object_set_new(item, "error", json_string(error));
	if (dead)
		json_object_set_new(item, "dead", json_true());
	err = post(w, verb, json_pack("{s:[o]}", "tasks", item), &answer);
	if (err)
		return err;
	item = json_array_get(json_object_get(answer, "tasks"), 0);
	result = json_object_get(item, "result");
	stale = !result || !strcmp(json_string_value(result), "stale");
	json_decref(answer);
	return stale ? -ESTALE : 0;
}

/*
 * Reports the end of a task, and repeats the report until there is an answer or @ends, when the
 * lease ends. Returns true if twheeld has accepted it: if an answer was lost, a report that is
 * stale now was accepted before.
 */
static bool report_end(const struct worker *w, const char *verb, const json_t *task,
		       const char *error, bool dead, __u64 ends)
{
	const struct timespec pause = { .tv_nsec = REPEAT_MS * (NSEC_PER_SEC / 1000) };
	bool lost = false;

	for (;;) {
		int err = report(w, verb, task, error, dead);

		if (!err || err == -ESTALE)
			return !err || lost;
		/* These two errors mean that no connection was made, so nothing was sent. */
		lost |= err != -ECONNREFUSED && err != -ENOENT;
		if (monotonic_now() >= ends)
			return false;
		nanosleep(&pause, NULL);
	}
}

/* Makes a descriptor from which the command can read the payload. */
static int payload_fd(const json_t *task)
{
	const json_t *payload = json_object_get(task, "payload");
	const char *base64 = json_string_value(json_object_get(task, "payload_base64"));
	int fd = memfd_create("payload", MFD_CLOEXEC);
	const char *wrong = NULL;
	char *text = NULL;
	size_t len = 0;

	if (payload)
		text = value_text(payload);
	if (text) {
		len = strlen(text);
	} else if (base64) {
		text = malloc(strlen(base64) + 1);
		if (text)
			wrong = parse_base64(base64, strlen(base64), (uint8_t *)text, &len);
	}
	if (wrong)
		die(STATUS_FAILURE, "the payload of the task: %s", wrong);
	if (fd < 0 || (len && write(fd, text, len) != (ssize_t)len))
		die(STATUS_FAILURE, "cannot keep the payload: %s", strerror(errno));
	free(text);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static pid_t start_command(const struct worker *w, const json_t *task)
{
	const char *key = json_string_value(json_object_get(task, "key"));
	int fd = payload_fd(task);
	char attempt[24];
	sigset_t none;
	pid_t pid;

	pid = fork();
	if (pid < 0)
		die(STATUS_FAILURE, "cannot fork: %s", strerror(errno));
	if (!pid) {
		dup2(fd, STDIN_FILENO);
		snprintf(attempt, sizeof(attempt), "%lld",
			 (long long)json_integer_value(json_object_get(task, "attempt")));
		setenv("TWHEEL_QUEUE", w->queue, 1);
		setenv("TWHEEL_TASK", json_string_value(json_object_get(task, "id")), 1);
		setenv("TWHEEL_ATTEMPT", attempt, 1);
		/* A twheeld older than 0.3 sends no key. */
		if (key)
			setenv("TWHEEL_KEY", key, 1);
		signal(SIGTERM, SIG_DFL);
		signal(SIGINT, SIG_DFL);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		execvp(*w->command, w->command);
		complain("cannot run %s: %s", *w->command, strerror(errno));
		_exit(errno == ENOENT ? STATUS_NO_COMMAND : STATUS_CANNOT_EXEC);
	}
	close(fd);
	return pid;
}

/*
 * Waits for the command, and renews the lease in the meantime. @ends is the end of the lease, which
 * this updates. Returns the status of the command.
 */
static int wait_command(const struct worker *w, const json_t *task, pid_t pid, __u64 *ends)
{
	__u64 third = w->lease / 3, wait = third;
	sigset_t child;
	int status;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (!waitpid(pid, &status, WNOHANG)) {
		struct timespec time = {
			.tv_sec = (time_t)(wait / NSEC_PER_SEC),
			.tv_nsec = (long)(wait % NSEC_PER_SEC),
		};
		__u64 asked;

		if (sigtimedwait(&child, NULL, &time) >= 0 || errno != EAGAIN)
			continue;
		asked = monotonic_now();
		wait = third;
		if (!report(w, "extend", task, NULL, false))
			*ends = asked + w->lease;
		else if (wait > NSEC_PER_SEC)
			wait = NSEC_PER_SEC;
	}
	return status;
}

static void work(const struct worker *w, const json_t *task)
{
	const char *id = json_string_value(json_object_get(task, "id"));
	/* This is a little after the lease really ends, so the last report may be too late. */
	__u64 ends = monotonic_now() + w->lease;
	int status = wait_command(w, task, start_command(w, task), &ends);
	bool exited = WIFEXITED(status);
	/* If the command cannot be run, the task has not failed. */
	bool misses = exited && (WEXITSTATUS(status) == STATUS_CANNOT_EXEC ||
				 WEXITSTATUS(status) == STATUS_NO_COMMAND);
	const char *verb = misses ? "release" : "nack";
	char error[64];
	bool taken;

	snprintf(error, sizeof(error), exited ? "exit status %d" : "signal %d",
		 exited ? WEXITSTATUS(status) : WTERMSIG(status));
	if (exited && WEXITSTATUS(status) == EXIT_OK)
		verb = "ack";
	taken = report_end(w, verb, task, *verb == 'n' ? error : NULL,
			   exited && WEXITSTATUS(status) == EXIT_DEAD, ends);
	if (w->conf.json)
		print_json(json_pack("{s:s, s:s, s:s, s:b}", "id", id, "report", verb, "end",
				     error, "taken", taken));
	else if (!taken)
		complain("task %s: the report came too late or was lost", id);
	/* Exit, because the command would be missing for the next task as well. */
	if (misses)
		exit(WEXITSTATUS(status));
}

/* Returns the next task, or NULL if there is none yet. */
static json_t *reserve(const struct worker *w)
{
	json_t *answer, *task;
	int err;

	err = post(w, "reserve", json_pack("{s:i, s:o, s:o}", "limit", 1, "lease",
					   ms_value(w->lease), "wait", ms_value(w->wait)), &answer);
	if (err && err != -EINTR) {
		/* post() has printed the status that it got. */
		if (err != -EAGAIN)
			complain("twheeld: %s: trying again in %d s", transfer_why(err),
				 PAUSE_SECONDS);
		pause_worker(w);
	}
	if (err)
		return NULL;
	task = json_incref(json_array_get(json_object_get(answer, "tasks"), 0));
	json_decref(answer);
	return task;
}

static void read_options(const struct verb *verb, int argc, char **argv, struct worker *w)
{
	int opt;

	while ((opt = next_option(verb, argc, argv, &w->conf)) != -1) {
		switch (opt) {
		case OPT_LEASE:
			w->lease = duration_option(verb, "--lease", optarg);
			break;
		case OPT_WAIT:
			w->wait = duration_option(verb, "--wait", optarg);
			break;
		case 'n':
			w->limit = number_option(verb, "-n", optarg, ~0ULL);
			break;
		}
	}
	if (w->lease < NSEC_PER_SEC)
		usage_error(verb, "--lease must be at least 1s");
	if (optind == argc)
		usage_error(verb, "the queue is missing");
	w->queue = argv[optind++];
	check_name(verb, "queue", w->queue);
	if (optind < argc && !strcmp(argv[optind], "--"))
		optind++;
	else if (optind < argc && *argv[optind] == '-')
		usage_error(verb, "%s: options come before the QUEUE, a command after --",
			    argv[optind]);
	if (optind == argc)
		usage_error(verb, "the command is missing");
	w->command = argv + optind;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct worker w = { .lease = 30 * NSEC_PER_SEC, .wait = 20 * NSEC_PER_SEC };
	__u64 done = 0;

	read_options(verb, argc, argv, &w);
	prepare_signals(&w);
	while (!stop_pending() && (!w.limit || done < w.limit)) {
		json_t *task = reserve(&w);

		if (!task)
			continue;
		work(&w, task);
		json_decref(task);
		done++;
	}
	return STATUS_OK;
}

const struct verb verb_worker = {
	.name = "worker",
	.args = "QUEUE [--] COMMAND [ARGUMENT]...",
	.summary = "Run a command for each task of a pull queue of twheeld.",
	.help =
		"The command gets the payload on stdin, and TWHEEL_QUEUE, TWHEEL_TASK,\n"
		"TWHEEL_ATTEMPT and TWHEEL_KEY in its environment. The key is equal for all\n"
		"attempts of a run. If the exit status is 0, the task is done; if it is 65, the\n"
		"task is dead; if it is 126 or 127, the task is given back. After any other\n"
		"status, the task is tried again.\n"
		"\n"
		"      --lease=DURATION  how long a task belongs to the worker, which renews the\n"
		"                        lease while the command runs (default: 30s)\n"
		"      --wait=DURATION   how long a request waits for tasks (default: 20s)\n"
		"  -n, --num-tasks=N     exit after N tasks\n",
	.command_follows = true,
	.longopts = options,
	.remote = true,
	.run = run,
};
