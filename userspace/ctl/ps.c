// SPDX-License-Identifier: GPL-2.0
/*
 * twheelctl ps and top: print the wheels that processes have open, one on each line. ps prints
 * them once, or writes them as metrics. top prints them again and again, with their rates.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <metrics.h>

#include "advice.h"
#include "clock.h"
#include "error.h"
#include "json.h"
#include "option.h"
#include "others.h"
#include "output.h"
#include "show.h"

enum {
	OPT_OPENMETRICS = OPT_OF_VERB,
};

static const struct option ps_options[] = {
	{ "pid", required_argument, NULL, 'p' },
	{ "openmetrics", no_argument, NULL, OPT_OPENMETRICS },
	{ "output", required_argument, NULL, 'o' },
	{ }
};

static const struct option top_options[] = {
	{ "pid", required_argument, NULL, 'p' },
	{ "interval", required_argument, NULL, 'i' },
	{ "num-screens", required_argument, NULL, 'n' },
	{ }
};

/* Writes the first holder of a wheel in the form that --pid takes, and how many more there are. */
static const char *holder_text(char buf[48], const struct seen *s)
{
	const struct holder *h = &s->holder[0];

	if (s->holders > 1)
		snprintf(buf, 48, "%d:%d+%zu", h->pid, h->fd, s->holders - 1);
	else
		snprintf(buf, 48, "%d:%d", h->pid, h->fd);
	return buf;
}

/* Writes the name of a process for a terminal, because the name may contain any bytes. */
static const char *comm_text(char buf[COMM_LEN], const char *comm)
{
	size_t i;

	for (i = 0; comm[i] && i < COMM_LEN - 1; i++)
		buf[i] = comm[i] >= ' ' && comm[i] <= '~' ? comm[i] : '?';
	buf[i] = '\0';
	return buf;
}

/* Writes the last digits of the number of a wheel, as many as fit into a line. */
static const char *id_text(char buf[24], const struct seen *s)
{
	if (s->has_id)
		snprintf(buf, 24, "%07llu", s->id % 10000000);
	else
		strcpy(buf, "-");
	return buf;
}

static void print_header(const char *columns)
{
	printf("%7s %-11s %-14s %8s %7s %s\n", "WHEEL", "PID:FD", "COMMAND", "ARMED", "UNREAD",
	       columns);
}

/* Prints the columns that ps and top share. */
static void print_identity(const struct seen *s)
{
	char id[24], holder[48], comm[COMM_LEN];

	printf("%7s %-11s %-14.14s %8llu %7llu", id_text(id, s), holder_text(holder, s),
	       comm_text(comm, s->holder[0].comm), s->stats.armed, s->stats.unread);
}

static void json_seen_fields(const struct seen *s)
{
	__u64 next = seen_next_in(s);
	size_t i;

	if (s->has_id)
		json_u64("wheel", s->id);
	json_begin("holders", '[');
	for (i = 0; i < s->holders; i++) {
		json_begin(NULL, '{');
		json_u64("pid", s->holder[i].pid);
		json_u64("fd", s->holder[i].fd);
		json_text("command", s->holder[i].comm);
		json_end('}');
	}
	json_end(']');
	json_text("clock", clock_name(s->clock_id));
	json_u64("tick_ns", s->tick_ns);
	json_u64("max_timers", s->max_timers);
	json_u64("timers", s->stats.allocated);
	json_u64("armed", s->stats.armed);
	json_u64("unread", s->stats.unread);
	json_u64("expired", s->stats.expired);
	if (s->known & SAMPLE_MOVED)
		json_u64("moved", s->stats.moved);
	if (s->known & SAMPLE_WORST)
		json_u64("worst_lateness_ns", s->stats.worst_lateness_ns);
	if (next == ~0ULL)
		json_none("next_in_ns");
	else
		json_u64("next_in_ns", next);
}

/* Prints a wheel that only the module knows of. */
static void print_hidden(const struct conf *conf, const struct seen *s)
{
	char id[24], opener[16];

	if (conf->json) {
		json_open("ps");
		json_u64("wheel", s->id);
		json_begin("holders", '[');
		json_end(']');
		json_u64("opener_pid", s->opener);
		json_u64("opener_uid", s->uid);
		json_u64("timers", s->stats.allocated);
		json_u64("bytes", s->bytes);
		json_close();
		return;
	}
	snprintf(opener, sizeof(opener), "%d:-", s->opener);
	printf("%7s %-11s (no descriptor) %llu timers, %llu kB, of uid %u\n", id_text(id, s),
	       opener, s->stats.allocated, s->bytes / 1024, s->uid);
}

static void print_ps(const struct conf *conf, const struct others *o)
{
	char late[DURATION_LEN], next[DURATION_LEN];
	size_t i;

	if (!conf->json)
		print_header("   EXPIRED    WORST     NEXT");
	for (i = 0; i < o->count; i++) {
		const struct seen *s = &o->seen[i];
		__u64 in = seen_next_in(s);

		if (!s->holders) {
			print_hidden(conf, s);
			continue;
		}
		if (conf->json) {
			json_open("ps");
			json_seen_fields(s);
			json_close();
			continue;
		}
		print_identity(s);
		printf(" %10llu %8s %8s\n", s->stats.expired,
		       s->stats.worst_lateness_ns ?
		       short_duration(late, s->stats.worst_lateness_ns) : "-",
		       in == ~0ULL ? "never" : short_duration(next, in));
	}
	if (!conf->json)
		hint_missing(o);
}

/* ---- Metrics ---- */

/* Prints a label, with a question mark for each byte that is not printable. */
static void put_label(FILE *f, const char *name, const char *value)
{
	fprintf(f, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fprintf(f, "\\%c", *value);
		else
			fputc(*value >= ' ' && *value <= '~' ? *value : '?', f);
	}
	fputc('"', f);
}

/*
 * Prints the labels of a wheel. Its number, or else its descriptor, distinguishes it from other
 * wheels of a process.
 */
static char *labels_of(const struct seen *s)
{
	const struct holder *h = &s->holder[0];
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (f) {
		fprintf(f, "pid=\"%d\",", h->pid);
		put_label(f, "comm", h->comm);
		if (s->has_id)
			fprintf(f, ",id=\"%llu\"", s->id);
		else
			fprintf(f, ",fd=\"%d\"", h->fd);
	}
	if (!f || fclose(f))
		die(STATUS_LIMIT, "no memory for the metrics");
	return text;
}

static void put_module(FILE *f)
{
	struct utsname uts;
	char version[64];

	if (!module_is_loaded())
		return;
	uname(&uts);
	fprintf(f, "# HELP twheel_module_info The module that is loaded.\n"
		"# TYPE twheel_module_info gauge\ntwheel_module_info{");
	put_label(f, "version", module_version(version, sizeof(version)));
	fputc(',', f);
	put_label(f, "kernel", uts.release);
	fputs("} 1\n", f);
}

static void put_metrics(FILE *f, const struct others *o)
{
	struct twheel__sample *samples = calloc(o->count + 1, sizeof(*samples));
	size_t i;

	if (!samples)
		die(STATUS_LIMIT, "no memory for the metrics");
	for (i = 0; i < o->count; i++) {
		samples[i].backend = "kernel";
		samples[i].labels = labels_of(&o->seen[i]);
		samples[i].stats = o->seen[i].stats;
		samples[i].known = o->seen[i].known;
		samples[i].max_timers = o->seen[i].max_timers;
		samples[i].next_in_ns = seen_next_in(&o->seen[i]);
	}
	put_module(f);
	twheel__write_metrics(f, samples, o->count);
	for (i = 0; i < o->count; i++)
		free((char *)samples[i].labels);
	free(samples);
}

static _Noreturn void die_of_write(const char *path, int err)
{
	die(STATUS_FAILURE, "cannot write %s: %s", path, strerror(err ? err : EIO));
}

/* Writes the metrics to something that exists and is not a regular file, such as a FIFO. */
static void put_metrics_through(const char *path, const struct others *o)
{
	int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;

	if (!f)
		die_of_write(path, errno);
	put_metrics(f, o);
	errno = 0;
	if (ferror(f) | fclose(f))
		die_of_write(path, errno);
}

/*
 * Writes the metrics into a regular file that is always complete, because rename() replaces it.
 * Until then, the collector of node_exporter ignores the new file, whose name ends in a number.
 * The collector runs as its own user, so everybody can read a file that is created here, whatever
 * the umask is. If a file is replaced, the new one gets its owner and mode from @old, which is
 * NULL otherwise.
 */
static void replace_metrics(const char *path, const struct stat *old, const struct others *o)
{
	char *part = NULL;
	FILE *f = NULL;
	int fd;

	if (asprintf(&part, "%s.%d", path, getpid()) < 0)
		die(STATUS_LIMIT, "no memory for the metrics");
	/* An earlier process with our number may have been killed at this point. */
	unlink(part);
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		f = fdopen(fd, "w");
	if (!f)
		die_of_write(path, errno);
	put_metrics(f, o);
	errno = 0;
	/* This fails unless we are root, because nobody else can give a file away. */
	if (old && fchown(fd, old->st_uid, old->st_gid))
		errno = 0;
	if (fchmod(fd, old ? old->st_mode & 0777 : 0644) | ferror(f) | fclose(f) ||
	    rename(part, path)) {
		int err = errno;

		unlink(part);
		die_of_write(path, err);
	}
	free(part);
}

static void put_metrics_into(const char *path, const struct others *o)
{
	struct stat old;
	char *real;

	if (stat(path, &old)) {
		/* Do not replace a symbolic link whose target does not exist. */
		if (!lstat(path, &old))
			die_of_write(path, ENOENT);
		replace_metrics(path, NULL, o);
	} else if (S_ISREG(old.st_mode)) {
		/* Replace the target of a symbolic link, not the link. */
		real = realpath(path, NULL);
		if (!real)
			die_of_write(path, errno);
		replace_metrics(real, &old, o);
		free(real);
	} else {
		put_metrics_through(path, o);
	}
}

static int run_ps(const struct verb *verb, int argc, char **argv)
{
	struct target target = { };
	const char *path = NULL;
	struct conf conf = { };
	bool metrics = false;
	struct others o;
	int opt;

	while ((opt = next_option(verb, argc, argv, &conf)) != -1) {
		switch (opt) {
		case 'p':
			parse_target(verb, optarg, &target);
			break;
		case OPT_OPENMETRICS:
			metrics = true;
			break;
		case 'o':
			path = optarg;
			break;
		}
	}
	if (optind < argc)
		usage_error(verb, "takes no argument");
	if (path && !metrics)
		usage_error(verb, "--output needs --openmetrics");
	if (metrics && conf.json)
		usage_error(verb, "--openmetrics cannot be used with --json");
	find_others(&o, &target);
	if (target.pid && !o.count)
		refuse_target(&o, &target);
	if (!target.pid && !metrics)
		find_hidden(&o);
	if (metrics && path)
		put_metrics_into(path, &o);
	else if (metrics)
		put_metrics(stdout, &o);
	else
		print_ps(&conf, &o);
	free_others(&o);
	return STATUS_OK;
}

/* ---- top ---- */

/* Returns the earlier reading of a wheel, or NULL if the wheel is new. */
static const struct seen *find_before(const struct others *before, const struct seen *s)
{
	size_t i;

	for (i = 0; i < before->count; i++) {
		const struct seen *b = &before->seen[i];

		if (s->has_id ? b->has_id && b->id == s->id :
		    b->holder[0].pid == s->holder[0].pid && b->holder[0].fd == s->holder[0].fd)
			/* If the counters have shrunk, the number now belongs to another wheel. */
			return b->stats.expired <= s->stats.expired ? b : NULL;
	}
	return NULL;
}

/* Writes a rate per second, with one decimal if it is below 10. */
static const char *rate_text(char buf[24], __u64 count, __u64 ns)
{
	double rate = count * 1e9 / ns;

	snprintf(buf, 24, "%.*f", rate && rate < 10 ? 1 : 0, rate);
	return buf;
}

/* Prints a wheel on the screen. */
struct row {
	const struct seen *seen;
	const struct seen *before;
	__u64 expired;
};

/* Puts the wheel with the most expirations first. */
static int by_rate(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->expired != y->expired)
		return x->expired < y->expired ? 1 : -1;
	return (x->seen > y->seen) - (x->seen < y->seen);
}

static void print_row(const struct conf *conf, const struct row *row, __u64 elapsed)
{
	static const struct twheel_stats none;
	const struct seen *s = row->seen;
	const struct twheel_stats *from = row->before ? &row->before->stats : &none;
	char expired[24], moved[24], late[DURATION_LEN];
	__u64 p99;
	bool any = s->known & SAMPLE_LATENESS && percentile(from, &s->stats, 99, &p99);

	if (conf->json) {
		json_open("top");
		json_seen_fields(s);
		json_u64("elapsed_ns", elapsed);
		json_u64("elapsed_expired", row->expired);
		if (s->known & SAMPLE_MOVED)
			json_u64("elapsed_moved", s->stats.moved - from->moved);
		if (any)
			json_u64("p99_ns", p99);
		json_close();
		return;
	}
	print_identity(s);
	printf(" %9s %8s %9s\n", rate_text(expired, row->expired, elapsed),
	       s->known & SAMPLE_MOVED ?
	       rate_text(moved, s->stats.moved - from->moved, elapsed) : "-",
	       any ? short_duration(late, p99) : "-");
}

static void print_screen(const struct conf *conf, const struct others *before,
			 const struct others *now, __u64 elapsed)
{
	struct row *rows = calloc(now->count + 1, sizeof(*rows));
	size_t i;

	if (!rows)
		die(STATUS_LIMIT, "no memory for the screen");
	for (i = 0; i < now->count; i++) {
		rows[i].seen = &now->seen[i];
		rows[i].before = find_before(before, rows[i].seen);
		rows[i].expired = rows[i].seen->stats.expired -
				  (rows[i].before ? rows[i].before->stats.expired : 0);
	}
	qsort(rows, now->count, sizeof(*rows), by_rate);
	if (!conf->json)
		print_header("EXPIRED/S  MOVED/S P99 UP TO");
	for (i = 0; i < now->count; i++)
		print_row(conf, &rows[i], elapsed);
	free(rows);
}

static int run_top(const struct verb *verb, int argc, char **argv)
{
	__u64 interval = NSEC_PER_SEC, screens = ~0ULL, screen;
	struct target target = { };
	struct others before, now;
	struct conf conf = { };
	__u64 start, end;
	bool escapes;
	int opt;

	while ((opt = next_option(verb, argc, argv, &conf)) != -1) {
		switch (opt) {
		case 'p':
			parse_target(verb, optarg, &target);
			break;
		case 'i':
			interval = duration_option(verb, "--interval", optarg);
			if (!interval || interval > NSEC_PER_DAY)
				usage_error(verb, "--interval must be above 0 and no longer than a day");
			break;
		case 'n':
			screens = number_option(verb, "-n", optarg, ~0ULL);
			break;
		}
	}
	if (optind < argc)
		usage_error(verb, "takes no argument");
	escapes = !conf.json && may_use_escapes();
	start = monotonic_now();
	find_others(&before, &target);
	for (screen = 1; screen <= screens; screen++) {
		struct timespec ts = {
			.tv_sec = interval / NSEC_PER_SEC,
			.tv_nsec = interval % NSEC_PER_SEC,
		};

		nanosleep(&ts, NULL);
		end = monotonic_now();
		find_others(&now, &target);
		if (escapes)
			printf("\033[H\033[J");
		else if (screen > 1 && !conf.json)
			putchar('\n');
		print_screen(&conf, &before, &now, end - start);
		end_output();
		if (!conf.json && (escapes || screen == 1))
			hint_missing(&now);
		free_others(&before);
		before = now;
		start = end;
	}
	free_others(&before);
	return STATUS_OK;
}

const struct verb verb_ps = {
	.name = "ps",
	.args = "[--pid=PID[:FD]]",
	.summary = "Show the wheels that processes have open.",
	.help = "Prints one line for each wheel, with one of its descriptors. +N means that the\n"
		"wheel has N more. WORST is the worst lateness, and NEXT the time until the wheel\n"
		"turns. Root sees the wheels of all users.\n"
		"\n"
		"  -p, --pid=PID[:FD]    only wheels of this process, or of its descriptor FD\n"
		"      --openmetrics     print metrics for Prometheus instead\n"
		"  -o, --output=FILE     write the metrics to FILE, which is replaced at the end\n",
	.longopts = ps_options,
	.observes = true,
	.run = run_ps,
};

const struct verb verb_top = {
	.name = "top",
	.args = "[--pid=PID[:FD]]",
	.summary = "Show the wheels of processes again and again, with rates.",
	.help = "The wheel with the most expirations comes first. The rates and the 99th\n"
		"percentile of the lateness refer to the last interval. If the output is not a\n"
		"terminal, the tables follow one another.\n"
		"\n"
		"  -p, --pid=PID[:FD]    only wheels of this process, or of its descriptor FD\n"
		"  -i, --interval=DURATION\n"
		"                        time between two tables (default: 1s)\n"
		"  -n, --num-screens=N   exit after N tables\n",
	.longopts = top_options,
	.observes = true,
	.run = run_top,
};
