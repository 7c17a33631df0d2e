/* SPDX-License-Identifier: GPL-2.0 */
/*
 * twheelctl: what its verbs share.
 *
 *   twheelctl.c   the table of verbs, options, errors
 *   device.c      opens the wheel, or says why not; waits for it
 *   advice.c      says what to do if there is none
 *   others.c      wheels of other processes
 *   duration.c    "1h30m" to nanoseconds and back
 *   timers.c      reads --add, and names the timers made from it
 *   output.c      records for people and as JSON
 *   completion.c  scripts for shells
 *   http.c        requests to twheeld, for the verbs that ask it
 *
 * The wheel is libtwheel's. Functions that use it return 0 or a count, or a
 * negative errno. Times are nanoseconds.
 */
#ifndef TWHEELCTL_COMMON_H
#define TWHEELCTL_COMMON_H

#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <libtwheel.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define NSEC_PER_USEC	1000ULL
#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_SEC	1000000000ULL
#define NSEC_PER_DAY	(86400 * NSEC_PER_SEC)

/* Exit statuses. A command run by "after" gives its own instead. */
enum {
	STATUS_OK = 0,
	STATUS_FAILURE = 1,
	STATUS_USAGE = 2,
	STATUS_NO_DEVICE = 3,
	STATUS_NO_PERMISSION = 4,
	STATUS_NO_TIMER = 5,
	STATUS_LIMIT = 6,
	STATUS_NOTHING_CAME = 124,
	STATUS_OWN_FAILURE = 125,
	STATUS_CANNOT_EXEC = 126,
	STATUS_NO_COMMAND = 127,
};

#define DEVICE		"/dev/twheel"

/*
 * The values of the options that verbs share. @device is DEVICE unless the user named one.
 * @server and @token_file are of the verbs that ask twheeld.
 */
struct conf {
	const char *device;
	bool names_device;
	struct twheel_options shape;
	const char *server;
	const char *token_file;
	bool json;
};

/**
 * struct verb - one thing that twheelctl does
 * @name: the first word
 * @args: its synopsis after the name
 * @summary: one line
 * @help: what --help adds, options one to a line
 * @shortopts: its own options for getopt
 * @longopts: its own long options, ended by a zero entry, or NULL
 * @remote: asks twheeld, so that it has no wheel
 * @observes: looks at wheels of others, so that it makes none
 * @runs_command: ends with the status of a command. Its own failures are STATUS_OWN_FAILURE
 * @run: does it; returns the exit status
 */
struct verb {
	const char *name;
	const char *args;
	const char *summary;
	const char *help;
	const char *shortopts;
	const struct option *longopts;
	bool remote;
	bool observes;
	bool runs_command;
	int (*run)(const struct verb *verb, int argc, char **argv);
};

extern const struct verb verb_info;
extern const struct verb verb_doctor;
extern const struct verb verb_after;
extern const struct verb verb_monitor;
extern const struct verb verb_shell;
extern const struct verb verb_stat;
extern const struct verb verb_watch;
extern const struct verb verb_wheel;
extern const struct verb verb_ps;
extern const struct verb verb_top;
extern const struct verb verb_hist;
extern const struct verb verb_list;
extern const struct verb verb_task;
extern const struct verb verb_queue;
extern const struct verb verb_worker;

/* twheelctl.c */
#define MAX_OPTIONS	32

extern const struct verb * const verbs[];
extern const size_t verb_count;

void front_options(struct option options[MAX_OPTIONS]);
void verb_options(const struct verb *verb, struct option options[MAX_OPTIONS]);
int next_option(const struct verb *verb, int argc, char **argv,
		struct conf *conf);
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void leave(int status) __attribute__((noreturn));
void die(int status, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));
void usage_error(const struct verb *verb, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));
void hint(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *error_text(int err);
int error_status(int err);
void end_output(void);
__u64 number_option(const struct verb *verb, const char *option,
		    const char *text, __u64 max);
__u64 duration_option(const struct verb *verb, const char *option,
		      const char *text);
void *grow_array(void *array, size_t used, size_t *room, size_t size);

/* advice.c */
#define ADVICE_LEN	256

bool module_is_loaded(void);
const char *module_version(char *buf, size_t size);
const char *container(void);
void advise_load(char buf[ADVICE_LEN]);
void advise_absent(char buf[ADVICE_LEN], const char *path);
void advise_permission(char buf[ADVICE_LEN], const char *path);
void advise_limit(char buf[ADVICE_LEN]);

/* device.c */
/* @pidfd: of the process whose wheel it is; -1 if it is ours. */
struct wheel {
	struct twheel *twheel;
	struct twheel_info info;
	int pidfd;
};

int try_wheel(struct twheel **w, const struct conf *conf);

void wheel_open(struct wheel *w, const struct conf *conf);
void wheel_close(struct wheel *w);
bool wheel_is_kernel(const struct wheel *w);
int wheel_do(struct wheel *w, unsigned int opcode, struct twheel_timer *t);
void wheel_stats(struct wheel *w, struct twheel_stats *stats);
bool wheel_nothing_left(struct wheel *w);
bool wait_owner(const struct wheel *w, __u64 timeout, const sigset_t *signals);

/* How long wait_input() waits if it may wait for ever. */
#define FOREVER	(~0ULL)

bool wait_input(const struct wheel *w, int other_fd, __u64 timeout,
		bool *other_ready, const sigset_t *signals);
__u64 monotonic_now(void);

/* duration.c */
#define DURATION_LEN	32

extern const char negative_duration[];

const char *parse_duration(const char *text, __u64 *ns);
const char *parse_duration_part(const char *text, size_t len, __u64 *ns);
const char *duration_text(char buf[DURATION_LEN], __u64 ns);
const char *short_duration(char buf[DURATION_LEN], __u64 ns);
const char *lateness_text(char buf[DURATION_LEN], __s64 ns);

/* timers.c */
#define NAME_LEN	24

/*
 * A timer as --add and the shell describe it. A member that was not given is zero. If a zero
 * was given, @says_period or @says_slack tells that. @unique: no other timer has the name, so
 * roster_add() does not search for it.
 */
struct spec {
	__u64 deadline;
	__u64 period;
	__u64 slack;
	unsigned int flags;
	unsigned int count;
	bool says_period;
	bool says_slack;
	bool unique;
	char name[NAME_LEN];
};

/* A timer that was made: its user_data is its place in the roster, plus 1. */
struct entry {
	__u64 id;
	__u64 armed_at;
	__u64 first_deadline;
	char name[NAME_LEN];
};

struct roster {
	struct entry *entry;
	size_t count;
	size_t room;
	unsigned int serial;
};

/* The --add options of a command line. */
struct load {
	struct spec *spec;
	size_t count;
	size_t room;
};

const char *parse_spec(const char *text, struct spec *spec);
void hint_spec(const struct wheel *w, const struct spec *spec, int err);
const char *add_error_text(const struct wheel *w, int err);
struct entry *roster_find(const struct roster *r, const char *name);
const char *roster_name(const struct roster *r, __u64 user_data);
int roster_add(struct roster *r, struct wheel *w, const struct spec *spec,
	       struct twheel_timer *t);
bool was_due(const struct roster *r, const struct twheel_event *event);
void note_arming(struct entry *e, __u64 before, const struct spec *spec,
		 const struct twheel_timer *t);
void load_add(struct load *l, const struct verb *verb, const char *text);
unsigned int load_arm(const struct load *l, struct wheel *w, struct roster *r);

/* completion.c */
bool print_completion(const char *shell);

/* output.c */
#define JSON_SCHEMA	2
#define SECONDS_LEN	32

void json_open(const char *type);
void json_begin(const char *key, char bracket);
void json_end(char bracket);
void json_u64(const char *key, __u64 value);
void json_s64(const char *key, __s64 value);
void json_none(const char *key);
void json_text(const char *key, const char *value);
void json_bool(const char *key, bool value);
void json_id(__u64 id);
void json_close(void);

const char *seconds_text(char buf[SECONDS_LEN], __u64 ns);
const char *state_name(unsigned int state);
const char *clock_name(unsigned int clock);
bool check_format(const char *format);
void print_event(const struct conf *conf, const struct roster *r,
		 const char *format, const struct twheel_event *e);
void json_timer_fields(const struct roster *r, const struct twheel_timer *t);
void json_stats_fields(const struct twheel_stats *stats);
void print_stats(const struct twheel_stats *stats);
void print_histogram(const struct conf *conf, const struct twheel_stats *stats);
bool percentile(const struct twheel_stats *from, const struct twheel_stats *to,
		unsigned int percent, __u64 *ns);
bool may_use_escapes(void);

/* others.c */
#define COMM_LEN	64

/**
 * struct holder - a descriptor of a wheel
 * @pid: of the process
 * @fd: its number there
 * @comm: the name of the process
 */
struct holder {
	int pid;
	int fd;
	char comm[COMM_LEN];
};

/**
 * struct seen - a wheel, as fdinfo has it
 * @has_id: the module tells wheels apart
 * @id: by this number
 * @holder: its descriptors, the first found first
 * @holders: how many
 * @room: how many there is room for
 * @clock_id: of its times
 * @tick_ns: its resolution
 * @max_timers: how many there may be
 * @next: when it turns next; ~0: never
 * @known: SAMPLE_ of <metrics.h>. An older module tells less
 * @stats: the statistics that the module tells
 */
struct seen {
	bool has_id;
	__u64 id;
	struct holder *holder;
	size_t holders;
	size_t room;
	unsigned int clock_id;
	__u64 tick_ns;
	unsigned int max_timers;
	__u64 next;
	unsigned int known;
	struct twheel_stats stats;
};

/**
 * struct others - the wheels of a machine, or of a process
 * @seen: the wheels
 * @count: how many
 * @room: how many there is room for
 * @denied: processes that may not be looked at
 */
struct others {
	struct seen *seen;
	size_t count;
	size_t room;
	unsigned int denied;
};

/* The value of --pid. @pid is 0 without the option, and @fd is -1 without FD. */
struct target {
	int pid;
	int fd;
};

void parse_target(const struct verb *verb, const char *text, struct target *target);
void find_others(struct others *others, const struct target *target);
void free_others(struct others *others);
void hint_missing(const struct others *others);
void refuse_target(const struct others *others, const struct target *target)
	__attribute__((noreturn));
__u64 seen_next_in(const struct seen *s);
void open_other(struct wheel *w, const struct verb *verb, const struct conf *conf,
		const struct target *target);

#endif /* TWHEELCTL_COMMON_H */
