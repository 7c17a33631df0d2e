// SPDX-License-Identifier: GPL-2.0
/*
 * twheelctl shell: holds a wheel, and runs commands from stdin.
 *
 * The shell prints expirations while it waits: for the next line, in sleep and in wait. It reads
 * no events between two commands of a script, so that the script determines the order.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../shared/duration.h"
#include "clock.h"
#include "device.h"
#include "error.h"
#include "json.h"
#include "option.h"
#include "output.h"
#include "show.h"
#include "timers.h"

#define EVENTS		64
#define LINE_MAX_LEN	4096
#define MAX_WORDS	4
#define PROMPT		"twheel> "

static const struct option options[] = {
	{ "errexit", no_argument, NULL, 'e' },
	{ "format", required_argument, NULL, 'F' },
	{ }
};

struct shell {
	struct conf conf;
	struct wheel wheel;
	struct roster roster;
	const char *format;
	bool errexit;
	bool interactive;
	bool quit;
	/* The command that runs, for error messages. */
	unsigned int line_number;
	const char *command;
	/* Input that has been read and not processed yet. */
	char input[LINE_MAX_LEN];
	size_t input_len;
	bool input_ended;
};

/* Prints why a command failed. Returns its status. */
static int failed(const struct shell *sh, int status, const char *what,
		  const char *why)
{
	complain("line %u: %s%s%s: %s", sh->line_number, sh->command,
		 what ? " " : "", what ? what : "", why);
	if (sh->conf.json) {
		json_open("error");
		json_u64("line", sh->line_number);
		json_text("command", sh->command);
		json_text("error", why);
		json_u64("status", status);
		json_close();
	}
	return status;
}

static int refused(const struct shell *sh, const char *what, int ret)
{
	return failed(sh, error_status(-ret), what, error_text(-ret));
}

/* Finds a timer by its name, or by its id in any base. An id needs no entry in the roster. */
static bool find_timer(const struct shell *sh, const char *word, __u64 *id,
		       struct entry **entry)
{
	char *end;

	if (isdigit((unsigned char)*word)) {
		size_t i;

		*entry = NULL;
		errno = 0;
		*id = strtoull(word, &end, 0);
		for (i = 0; i < sh->roster.count; i++)
			if (sh->roster.entry[i].id == *id)
				*entry = &sh->roster.entry[i];
		return !*end && !errno;
	}
	*entry = roster_find(&sh->roster, word);
	if (*entry)
		*id = (*entry)->id;
	return *entry;
}

/* Prints what happened to a timer, and its new state. */
static void print_timer(const struct shell *sh, const char *done,
			const struct twheel_timer *t, bool was)
{
	char text[DURATION_LEN];
	char seconds[SECONDS_LEN];

	if (sh->conf.json) {
		json_open(done);
		json_timer_fields(&sh->roster, t);
		json_close();
		return;
	}
	printf("%s %s 0x%llx %s%s", done, roster_name(&sh->roster, t->user_data),
	       t->id, was ? "was " : "", state_name(t->state));
	if (t->deadline_ns == ~0ULL)
		printf(" deadline never");
	else if (t->deadline_ns)
		printf(" deadline %s", seconds_text(seconds, t->deadline_ns));
	if (t->period_ns)
		printf(" period %s", duration_text(text, t->period_ns));
	if (t->slack_ns)
		printf(" slack %s", duration_text(text, t->slack_ns));
	if (t->flags & TWHEEL_KEEP)
		printf(" keep");
	putchar('\n');
}

static int cmd_add(struct shell *sh, char **word)
{
	struct twheel_timer t;
	struct spec spec;
	const char *why;
	int ret, status;

	why = parse_spec(word[1], &spec);
	if (!why && spec.count > 1)
		why = "add creates a single timer, without count=";
	if (why)
		return failed(sh, STATUS_USAGE, word[1], why);
	ret = roster_add(&sh->roster, &sh->wheel, &spec, &t);
	if (ret) {
		status = failed(sh, error_status(-ret), word[1],
				add_error_text(&sh->wheel, ret));
		hint_spec(&sh->wheel, &spec, ret);
		return status;
	}
	print_timer(sh, "added", &t, false);
	return STATUS_OK;
}

/* REARM replaces all properties of a timer, so this keeps those that the user did not name. */
static int cmd_rearm(struct shell *sh, char **word)
{
	struct twheel_timer t = { };
	struct entry *entry;
	struct spec spec;
	const char *why;
	int ret, status;
	__u64 before;

	if (!find_timer(sh, word[1], &t.id, &entry))
		return refused(sh, word[1], -ENOENT);
	why = parse_spec(word[2], &spec);
	if (!why && (spec.count > 1 || spec.name[0]))
		why = "count= and label= are only for new timers";
	if (why)
		return failed(sh, STATUS_USAGE, word[2], why);
	ret = wheel_do(&sh->wheel, TWHEEL_OP_GET, &t);
	if (ret)
		return refused(sh, word[1], ret);
	t.deadline_ns = spec.deadline;
	if (spec.says_period)
		t.period_ns = spec.period;
	if (spec.says_slack)
		t.slack_ns = spec.slack;
	t.flags = spec.flags | (t.flags & TWHEEL_KEEP);
	before = twheel_now(sh->wheel.twheel);
	ret = wheel_do(&sh->wheel, TWHEEL_OP_REARM, &t);
	if (ret) {
		status = refused(sh, word[1], ret);
		hint_spec(&sh->wheel, &spec, ret);
		return status;
	}
	if (entry)
		note_arming(entry, before, &spec, &t);
	print_timer(sh, "rearmed", &t, true);
	return STATUS_OK;
}

static int cmd_cancel(struct shell *sh, char **word)
{
	struct twheel_timer t = { };
	struct entry *entry;
	int ret;

	if (!find_timer(sh, word[1], &t.id, &entry))
		return refused(sh, word[1], -ENOENT);
	ret = wheel_do(&sh->wheel, TWHEEL_OP_CANCEL, &t);
	if (ret)
		return refused(sh, word[1], ret);
	if (entry)
		t.user_data = entry - sh->roster.entry + 1;
	print_timer(sh, "cancelled", &t, true);
	return STATUS_OK;
}

static int cmd_get(struct shell *sh, char **word)
{
	struct twheel_timer t = { };
	struct entry *entry;
	int ret;

	if (!find_timer(sh, word[1], &t.id, &entry))
		return refused(sh, word[1], -ENOENT);
	ret = wheel_do(&sh->wheel, TWHEEL_OP_GET, &t);
	if (ret)
		return refused(sh, word[1], ret);
	print_timer(sh, "timer", &t, false);
	return STATUS_OK;
}

static int cmd_list(struct shell *sh, char **word)
{
	struct twheel_timer timers[EVENTS];
	unsigned int cursor = 0;
	__u64 total = 0;
	int count, i;

	(void)word;
	while ((count = twheel_list(sh->wheel.twheel, timers, EVENTS, &cursor)) > 0) {
		for (i = 0; i < count; i++)
			print_timer(sh, "timer", &timers[i], false);
		total += count;
	}
	if (count < 0)
		return refused(sh, NULL, count);
	if (sh->conf.json) {
		json_open("listed");
		json_u64("timers", total);
		json_close();
	} else {
		printf("listed %llu\n", total);
	}
	return STATUS_OK;
}

static int cmd_drain(struct shell *sh, char **word)
{
	unsigned int mode = TWHEEL_DRAIN_EXPIRE;
	int count;

	if (word[1] && !strcmp(word[1], "cancel"))
		mode = TWHEEL_DRAIN_CANCEL;
	else if (word[1] && strcmp(word[1], "expire"))
		return failed(sh, STATUS_USAGE, word[1],
			      "the mode must be expire (default) or cancel");
	count = twheel_drain(sh->wheel.twheel, mode);
	if (count < 0)
		return refused(sh, NULL, count);
	if (sh->conf.json) {
		json_open("drained");
		json_u64("timers", count);
		json_close();
	} else {
		printf("drained %d\n", count);
	}
	return STATUS_OK;
}

static int cmd_stats(struct shell *sh, char **word)
{
	struct twheel_stats stats;
	int ret;

	(void)word;
	ret = twheel_stats(sh->wheel.twheel, &stats);
	if (ret)
		return refused(sh, NULL, ret);
	if (sh->conf.json) {
		json_open("stats");
		json_stats_fields(&stats);
		json_close();
	} else {
		print_stats(&stats);
	}
	return STATUS_OK;
}

/* Prints up to @limit unread expirations. Returns how many, or a negative errno. */
static int print_events(struct shell *sh, __u64 limit)
{
	struct twheel_event events[EVENTS];
	int count, i;

	count = twheel_read(sh->wheel.twheel, events, limit < EVENTS ? limit : EVENTS);
	/* Erase the prompt, because the line of an event may be shorter than it. */
	if (count > 0 && sh->interactive)
		printf("\r%*s\r", (int)strlen(PROMPT), "");
	for (i = 0; i < count; i++)
		print_event(&sh->conf, &sh->roster, sh->format, &events[i]);
	return count;
}

static int cmd_sleep(struct shell *sh, char **word)
{
	__u64 now = monotonic_now();
	const char *why;
	__u64 ns, end;
	int ret;

	why = parse_duration(word[1], strlen(word[1]), &ns);
	if (why)
		return failed(sh, STATUS_USAGE, word[1], why);
	if (__builtin_add_overflow(now, ns, &end))
		end = ~0ULL;
	for (; now < end; now = monotonic_now()) {
		if (!wait_input(&sh->wheel, -1, end - now, NULL, NULL))
			continue;
		ret = print_events(sh, EVENTS);
		if (ret < 0)
			return refused(sh, NULL, ret);
	}
	return STATUS_OK;
}

static int cmd_wait(struct shell *sh, char **word)
{
	unsigned long long left = ~0ULL;
	char *end;
	int ret;

	if (word[1]) {
		errno = 0;
		left = strtoull(word[1], &end, 10);
		if (!isdigit((unsigned char)*word[1]) || *end || errno || !left)
			return failed(sh, STATUS_USAGE, word[1], "not a number of expirations");
	}
	while (left) {
		ret = print_events(sh, left);
		if (ret < 0)
			return refused(sh, NULL, ret);
		left -= ret;
		if (ret)
			continue;
		if (wheel_nothing_left(&sh->wheel)) {
			if (word[1])
				return failed(sh, STATUS_TIMEOUT, NULL,
					      "nothing is left that could expire");
			break;
		}
		wait_input(&sh->wheel, -1, FOREVER, NULL, NULL);
	}
	return STATUS_OK;
}

static int cmd_quit(struct shell *sh, char **word)
{
	(void)word;
	sh->quit = true;
	return STATUS_OK;
}

static int cmd_help(struct shell *sh, char **word);

static const struct command {
	const char *name;
	const char *args;
	const char *what;
	unsigned int min_args;
	unsigned int max_args;
	int (*run)(struct shell *sh, char **word);
} commands[] = {
	{ "add", "TIMER", "create a timer, such as 5s or 1s,periodic,label=NAME", 1, 1, cmd_add },
	{ "rearm", "NAME TIMER", "give a timer another deadline, or disarm it by \"idle\"", 2, 2,
	  cmd_rearm },
	{ "cancel", "NAME", "end a timer", 1, 1, cmd_cancel },
	{ "get", "NAME", "show a timer", 1, 1, cmd_get },
	{ "list", "", "show all timers", 0, 0, cmd_list },
	{ "drain", "[expire|cancel]", "expire all armed timers now (default), or cancel them", 0, 1,
	  cmd_drain },
	{ "stats", "", "show the counters of the wheel", 0, 0, cmd_stats },
	{ "sleep", "DURATION", "print expirations for this long", 1, 1, cmd_sleep },
	{ "wait", "[N]", "print N expirations, or all that can still come", 0, 1, cmd_wait },
	{ "help", "", "list the commands", 0, 0, cmd_help },
	{ "quit", "", "leave the shell, which ends all timers", 0, 0, cmd_quit },
};

static int cmd_help(struct shell *sh, char **word)
{
	char synopsis[64];
	size_t i;

	(void)word;
	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		if (sh->conf.json) {
			json_open("command");
			json_text("name", commands[i].name);
			json_text("args", commands[i].args);
			json_text("what", commands[i].what);
			json_close();
			continue;
		}
		snprintf(synopsis, sizeof(synopsis), "%s %s", commands[i].name,
			 commands[i].args);
		printf("%-22s %s\n", synopsis, commands[i].what);
	}
	return STATUS_OK;
}

/* Runs one line, which may be empty or a comment. Returns its status. */
static int run_line(struct shell *sh, char *line)
{
	char *word[MAX_WORDS + 1] = { };
	unsigned int words = 0;
	char *save, *p;
	size_t i;

	sh->line_number++;
	for (p = strtok_r(line, " \t\r", &save); p; p = strtok_r(NULL, " \t\r", &save)) {
		if (*p == '#')
			break;
		if (words < MAX_WORDS)
			word[words] = p;
		words++;
	}
	if (!words)
		return STATUS_OK;
	sh->command = word[0];
	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		const struct command *c = &commands[i];

		if (strcmp(word[0], c->name))
			continue;
		if (words - 1 < c->min_args)
			return failed(sh, STATUS_USAGE, c->args, "too few words");
		if (words - 1 > c->max_args)
			return failed(sh, STATUS_USAGE, NULL, "too many words");
		return c->run(sh, word);
	}
	return failed(sh, STATUS_USAGE, NULL, "unknown command: try \"help\"");
}

/* Runs all complete lines that were read. Returns the status to exit with. */
static int run_input(struct shell *sh)
{
	char *line = sh->input;
	char *end = sh->input + sh->input_len;
	int status = STATUS_OK;

	while (!sh->quit) {
		char *newline = memchr(line, '\n', end - line);

		if (newline) {
			*newline = '\0';
		} else if (sh->input_ended && line < end) {
			/* There is room for this, because the buffer is never completely full. */
			*end = '\0';
			newline = end - 1;
		} else {
			break;
		}
		status = run_line(sh, line);
		if (status && sh->errexit)
			sh->quit = true;
		line = newline + 1;
	}
	sh->input_len = end - line;
	memmove(sh->input, line, sh->input_len);
	return sh->errexit ? status : STATUS_OK;
}

static void read_input(struct shell *sh)
{
	size_t room = sizeof(sh->input) - 1 - sh->input_len;
	ssize_t ret;

	if (!room)
		die(STATUS_USAGE, "line %u: too long", sh->line_number + 1);
	ret = read(STDIN_FILENO, sh->input + sh->input_len, room);
	if (ret < 0 && errno != EINTR && errno != EAGAIN)
		die(STATUS_FAILURE, "stdin: %s", strerror(errno));
	if (ret > 0)
		sh->input_len += ret;
	else if (!ret)
		sh->input_ended = true;
}

static void prompt(const struct shell *sh)
{
	if (!sh->interactive)
		return;
	fputs(PROMPT, stdout);
	fflush(stdout);
}

static int loop(struct shell *sh)
{
	int status = STATUS_OK;

	prompt(sh);
	while (!sh->quit && !sh->input_ended) {
		bool line_came;

		if (wait_input(&sh->wheel, STDIN_FILENO, FOREVER, &line_came, NULL)) {
			int ret = print_events(sh, EVENTS);

			if (ret < 0)
				die(error_status(-ret), "cannot read the wheel: %s",
				    error_text(-ret));
			/*
			 * If the event was withdrawn in the meantime, the prompt is still there.
			 */
			if (ret && !line_came)
				prompt(sh);
		}
		if (line_came) {
			read_input(sh);
			status = run_input(sh);
			if (!sh->quit && !sh->input_ended)
				prompt(sh);
		}
	}
	/* After Ctrl-D, the cursor is still behind the prompt. */
	if (sh->interactive && !sh->quit)
		putchar('\n');
	return status;
}

static int run_shell(const struct verb *verb, int argc, char **argv)
{
	struct shell sh = { };
	int opt, status;

	while ((opt = next_option(verb, argc, argv, &sh.conf)) != -1) {
		switch (opt) {
		case 'e':
			sh.errexit = true;
			break;
		case 'F':
			if (!check_format(optarg))
				usage_error(verb, "unknown %% in the format \"%s\"", optarg);
			sh.format = optarg;
			break;
		}
	}
	if (sh.format && sh.conf.json)
		usage_error(verb, "--format cannot be used with --json");
	if (optind < argc)
		usage_error(verb, "takes no argument: commands come from stdin");
	sh.interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !sh.conf.json;
	wheel_open(&sh.wheel, &sh.conf);
	if (sh.interactive)
		printf("The timers end with this shell. Try \"help\".\n");
	status = loop(&sh);
	wheel_close(&sh.wheel);
	return status;
}

const struct verb verb_shell = {
	.name = "shell",
	.args = "",
	.summary = "Keep a wheel open, and run commands from stdin: add, rearm, list ...",
	.help = "Reads one command per line, where # begins a comment. The command \"help\" lists\n"
		"all commands. The shell exits at the end of stdin, with status 0 even if\n"
		"commands have failed, unless you use -e.\n"
		"\n"
		"  -e, --errexit         exit at the first command that fails, with its status:\n"
		"                        2 usage, 5 no such timer, 6 limit, 124 no timer left\n"
		"  -F, --format=FORMAT   how to print expirations: see monitor --help\n",
	.longopts = options,
	.run = run_shell,
};
