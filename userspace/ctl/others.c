// SPDX-License-Identifier: GPL-2.0
/*
 * Finds and opens wheels of other processes, without changing them. find_others() reads
 * /proc/PID/task/TID/fdinfo, find_hidden() finds wheels without a descriptor in debugfs, and
 * open_other() copies a descriptor.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <metrics.h>

#include "advice.h"
#include "clock.h"
#include "device.h"
#include "error.h"
#include "option.h"
#include "others.h"

/* Returns the part of @line after @key and a tab, or NULL if the line has another key. */
static const char *value_of(const char *line, const char *key)
{
	size_t len = strlen(key);

	return !strncmp(line, key, len) && line[len] == '\t' ? line + len + 1 : NULL;
}

/* Reads "BUCKET=COUNT BUCKET=COUNT ...". */
static void parse_lateness(const char *text, struct twheel_stats *stats)
{
	unsigned int bucket;
	__u64 count;
	int len;

	while (sscanf(text, " %u=%llu%n", &bucket, &count, &len) == 2) {
		if (bucket < TWHEEL_LATENESS_BUCKETS)
			stats->lateness[bucket] = count;
		text += len;
	}
}

/* Reads one line of fdinfo. */
static void parse_line(const char *line, struct seen *s)
{
	const struct {
		const char *key;
		__u64 *value;
		unsigned int known;
	} numbers[] = {
		{ "twheel-tick-ns:", &s->tick_ns },
		{ "twheel-now:", &s->now },
		{ "twheel-timers:", &s->stats.allocated },
		{ "twheel-armed:", &s->stats.armed },
		{ "twheel-unread:", &s->stats.unread },
		{ "twheel-expired:", &s->stats.expired },
		{ "twheel-moved:", &s->stats.moved, SAMPLE_MOVED },
		{ "twheel-late-max-ns:", &s->stats.worst_lateness_ns, SAMPLE_WORST },
		{ "twheel-late-sum-ns:", &s->stats.lateness_sum_ns, SAMPLE_SUM },
	};
	const char *text;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		text = value_of(line, numbers[i].key);
		if (!text)
			continue;
		*numbers[i].value = strtoull(text, NULL, 10);
		s->known |= numbers[i].known;
	}
	text = value_of(line, "twheel-id:");
	if (text) {
		s->id = strtoull(text, NULL, 10);
		s->has_id = true;
	}
	text = value_of(line, "twheel-max:");
	if (text)
		s->max_timers = strtoul(text, NULL, 10);
	text = value_of(line, "twheel-next:");
	if (text)
		s->next = isdigit((unsigned char)*text) ? strtoull(text, NULL, 10) : ~0ULL;
	text = value_of(line, "twheel-lateness:");
	if (text) {
		parse_lateness(text, &s->stats);
		s->known |= SAMPLE_LATENESS;
	}
}

/* Writes the directory of a thread in /proc. The first thread has that of its process. */
static const char *proc_of(char buf[48], int pid, int tid)
{
	snprintf(buf, 48, tid == pid ? "/proc/%d" : "/proc/%d/task/%d", pid, tid);
	return buf;
}

/* Reads the fdinfo of a descriptor. Returns true if the descriptor is one of a wheel. */
static bool read_fdinfo(int pid, int tid, int fd, struct seen *s)
{
	/* All buckets of the lateness are on one line. */
	char line[4096];
	char dir[48], path[80];
	bool is = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/fdinfo/%d", proc_of(dir, pid, tid), fd);
	f = fopen(path, "re");
	if (!f)
		return false;
	*s = (struct seen){ .next = ~0ULL };
	while (fgets(line, sizeof(line), f)) {
		const char *clock = value_of(line, "twheel-clock:");

		if (clock) {
			s->clock_id = strtoul(clock, NULL, 10);
			is = true;
		}
		parse_line(line, s);
	}
	fclose(f);
	return is;
}

static void read_comm(int pid, char comm[COMM_LEN])
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (!f || !fgets(comm, COMM_LEN, f))
		strcpy(comm, "?");
	if (f)
		fclose(f);
	comm[strcspn(comm, "\n")] = '\0';
}

/*
 * Adds a descriptor. If the module numbers its wheels, descriptors of one wheel are kept together.
 */
static void enter(struct others *o, const struct seen *found, int pid, int fd)
{
	struct seen *s = NULL;
	struct holder *h;
	size_t i;

	for (i = 0; found->has_id && i < o->count; i++)
		if (o->seen[i].has_id && o->seen[i].id == found->id)
			s = &o->seen[i];
	if (!s) {
		o->seen = grow_array(o->seen, o->count, &o->room, sizeof(*o->seen));
		s = &o->seen[o->count++];
		*s = *found;
	}
	/* Two threads of a process may share their descriptors. */
	for (i = 0; i < s->holders; i++)
		if (s->holder[i].pid == pid && s->holder[i].fd == fd)
			return;
	s->holder = grow_array(s->holder, s->holders, &s->room, sizeof(*s->holder));
	h = &s->holder[s->holders++];
	h->pid = pid;
	h->fd = fd;
	read_comm(pid, h->comm);
}

static int by_number(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/*
 * True if a descriptor refers to a file with a path. A process can have many other descriptors, and
 * what epoll reports in fdinfo can be long. stat() would ask the file system, which may never
 * answer.
 */
static bool has_path(DIR *dir, const char *fd)
{
	char first;

	return readlinkat(dirfd(dir), fd, &first, 1) == 1 && first == '/';
}

/* Looks at the descriptors of a thread, the lowest first. Returns true if that is permitted. */
static bool look_at_thread(struct others *o, int pid, int tid, int only_fd)
{
	struct dirent *entry;
	size_t count = 0, room = 0, i;
	int *fds = NULL;
	char of[48], path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "%s/fd", proc_of(of, pid, tid));
	dir = opendir(path);
	if (!dir)
		return errno != EACCES && errno != EPERM;
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)*entry->d_name) || !has_path(dir, entry->d_name))
			continue;
		fds = grow_array(fds, count, &room, sizeof(*fds));
		fds[count++] = atoi(entry->d_name);
	}
	closedir(dir);
	if (count)
		qsort(fds, count, sizeof(*fds), by_number);
	for (i = 0; i < count; i++) {
		struct seen found;

		if ((only_fd < 0 || fds[i] == only_fd) && read_fdinfo(pid, tid, fds[i], &found))
			enter(o, &found, pid, fds[i]);
	}
	free(fds);
	return true;
}

/*
 * Looks at the descriptors of a process. A thread may have descriptors of its own, and a process
 * may continue after its first thread has ended.
 */
static void look_at(struct others *o, int pid, int only_fd)
{
	struct dirent *entry;
	char path[32];
	DIR *dir;

	if (!look_at_thread(o, pid, pid, only_fd)) {
		o->denied++;
		return;
	}
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		int tid = atoi(entry->d_name);

		if (tid && tid != pid && syscall(SYS_kcmp, pid, tid, KCMP_FILES, 0, 0))
			look_at_thread(o, pid, tid, only_fd);
	}
	if (dir)
		closedir(dir);
}

/* Exits if /proc is not mounted. The directory may exist and be empty. */
static void need_proc(void)
{
	if (access("/proc/self", F_OK))
		die(STATUS_FAILURE, "cannot look for the wheels of processes: /proc is not mounted");
}

/* True if /proc hides the existing process @pid, because it was mounted with hidepid. */
static bool is_hidden(int pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return !access("/proc/self", F_OK) && access(path, F_OK) &&
	       (!kill(pid, 0) || errno == EPERM);
}

/*
 * Exits if @pid is the number of a thread, as htop and "ps -L" show it. A wheel is named by its
 * process, because pidfd_open() refuses a thread.
 */
static void refuse_thread(int pid)
{
	char path[64], line[128];
	int process = pid;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Tgid: %d", &process) == 1)
			break;
	if (f)
		fclose(f);
	if (process != pid)
		die(STATUS_NO_TIMER, "%d is a thread of process %d: use --pid=%d", pid, process,
		    process);
}

/**
 * find_others() - find the wheels that processes have open
 * @o: out: the wheels; free them with free_others()
 * @target: the process and descriptor to look at, or all
 *
 * A wheel without a descriptor is not found: see find_hidden().
 */
void find_others(struct others *o, const struct target *target)
{
	size_t count = 0, room = 0, i;
	struct dirent *entry;
	int *pids = NULL;
	DIR *dir;

	need_proc();
	*o = (struct others){ };
	if (target->pid) {
		refuse_thread(target->pid);
		look_at(o, target->pid, target->fd);
		return;
	}
	dir = opendir("/proc");
	if (!dir)
		die(STATUS_FAILURE, "/proc: %s", strerror(errno));
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)*entry->d_name))
			continue;
		pids = grow_array(pids, count, &room, sizeof(*pids));
		pids[count++] = atoi(entry->d_name);
	}
	closedir(dir);
	if (count)
		qsort(pids, count, sizeof(*pids), by_number);
	for (i = 0; i < count; i++)
		look_at(o, pids[i], -1);
	free(pids);
}

/**
 * find_hidden() - add the wheels without a descriptor, which the module lists for root
 * @o: the wheels that find_others() has found in all processes
 *
 * The descriptor of such a wheel is in a message or in an io_uring, or the wheel is mapped but no
 * longer open.
 */
void find_hidden(struct others *o)
{
	FILE *f = fopen("/sys/kernel/debug/twheel/wheels", "re");
	size_t seen = o->count;
	struct seen s = { .has_id = true, .next = ~0ULL };

	while (f && fscanf(f, "%llu %u %d %llu %llu", &s.id, &s.uid, &s.opener,
			   &s.stats.allocated, &s.bytes) == 5) {
		size_t i;

		for (i = 0; i < seen && o->seen[i].id != s.id; i++)
			;
		if (i < seen)
			continue;
		o->seen = grow_array(o->seen, o->count, &o->room, sizeof(*o->seen));
		o->seen[o->count++] = s;
	}
	if (f)
		fclose(f);
}

void free_others(struct others *o)
{
	size_t i;

	for (i = 0; i < o->count; i++)
		free(o->seen[i].holder);
	free(o->seen);
}

/* Explains why wheels may be missing. */
void hint_missing(const struct others *o)
{
	char advice[ADVICE_LEN];

	if (o->denied)
		hint("only root may look at %u other processes", o->denied);
	/* There is always a first process. */
	if (is_hidden(1))
		hint("/proc hides the processes of other users (hidepid); root sees them");
	if (!module_is_loaded()) {
		advise_load(advice);
		hint("%s", advice);
	}
}

/* Returns how long it takes until a wheel turns, or ~0 if it has nothing to do. */
__u64 seen_next_in(const struct seen *s)
{
	__u64 now = s->now;
	struct timespec ts;

	if (s->next == ~0ULL)
		return ~0ULL;
	/* The wheel may belong to a time namespace whose clock differs. */
	if (!now && clock_gettime(s->clock_id, &ts))
		return ~0ULL;
	if (!now)
		now = ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
	return s->next > now ? s->next - now : 0;
}

/* Reads PID or PID:FD, or exits. */
void parse_target(const struct verb *verb, const char *text, struct target *target)
{
	unsigned long pid, fd = 0;
	char *end;
	bool has_fd;

	errno = 0;
	pid = strtoul(text, &end, 10);
	has_fd = *end == ':' && isdigit((unsigned char)end[1]);
	if (has_fd)
		fd = strtoul(end + 1, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || !pid || pid > INT_MAX ||
	    fd > INT_MAX)
		usage_error(verb, "--pid takes PID or PID:FD, not \"%s\"", text);
	target->pid = pid;
	target->fd = has_fd ? (int)fd : -1;
}

/* Explains why there is no wheel to look at in a process, and exits. */
void refuse_target(const struct others *o, const struct target *target)
{
	bool hidden = is_hidden(target->pid);

	if (!o->denied && kill(target->pid, 0) && errno == ESRCH)
		die(STATUS_NO_TIMER, "process %d: %s", target->pid, strerror(ESRCH));
	if (!o->denied && !hidden && target->fd >= 0)
		die(STATUS_NO_TIMER, "descriptor %d of process %d is not a wheel", target->fd,
		    target->pid);
	if (!o->denied && !hidden)
		die(STATUS_NO_TIMER, "process %d has no wheel open", target->pid);
	complain("you may not look at process %d%s", target->pid,
		 hidden ? ": /proc hides it (hidepid)" : "");
	hint("become root, or the user of the process");
	exit(STATUS_NO_PERMISSION);
}

/* Returns the descriptor that --pid refers to, or exits. */
static int choose_fd(const struct target *target)
{
	struct others o;
	size_t i;
	int fd;

	if (target->fd >= 0)
		return target->fd;
	find_others(&o, target);
	if (!o.count)
		refuse_target(&o, target);
	if (o.count > 1) {
		complain("process %d has %zu wheels", target->pid, o.count);
		for (i = 0; i < o.count; i++)
			hint("use --pid=%d:%d", target->pid, o.seen[i].holder[0].fd);
		exit(STATUS_USAGE);
	}
	fd = o.seen[0].holder[0].fd;
	free_others(&o);
	return fd;
}

static _Noreturn void refuse_copy(const struct target *target, int fd, int err)
{
	int scope = 0;
	FILE *f;

	complain("cannot look at descriptor %d of process %d: %s", fd, target->pid,
		 strerror(err));
	if (err == EBADF)
		exit(STATUS_NO_TIMER);
	if (err != EPERM)
		exit(err == ENOSYS ? STATUS_FAILURE : error_status(err));
	f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	if (f && fscanf(f, "%d", &scope) == 1 && scope > 2)
		hint("nobody may do this, because Yama's /proc/sys/kernel/yama/ptrace_scope is %d",
		     scope);
	else if (f && scope > 0)
		hint("become root, because Yama's /proc/sys/kernel/yama/ptrace_scope is %d",
		     scope);
	else
		hint("become root, or the user of the process");
	if (f)
		fclose(f);
	exit(STATUS_NO_PERMISSION);
}

/**
 * open_other() - look at the wheel of another process, or explain why that fails and exit
 * @w: the wheel
 * @verb: the verb that needs it
 * @conf: must not contain options for a wheel of our own
 * @target: the value of --pid
 */
void open_other(struct wheel *w, const struct verb *verb, const struct conf *conf,
		const struct target *target)
{
	static const struct twheel_options none;
	static const struct others nothing;
	int theirs, ours, ret, err;

	if (conf->names_device || memcmp(&conf->shape, &none, sizeof(none)))
		usage_error(verb, "--pid shows an existing wheel, which options cannot change");
	refuse_thread(target->pid);
	w->pidfd = syscall(SYS_pidfd_open, target->pid, 0);
	err = errno;
	/* This also fails for a thread that refuse_thread() did not see, because /proc hides it. */
	if (w->pidfd < 0 && is_hidden(target->pid))
		refuse_target(&nothing, target);
	if (w->pidfd < 0)
		die(err == ESRCH ? STATUS_NO_TIMER : error_status(err),
		    "process %d: %s", target->pid, strerror(err));
	theirs = choose_fd(target);
	ours = syscall(SYS_pidfd_getfd, w->pidfd, theirs, 0);
	if (ours < 0)
		refuse_copy(target, theirs, errno);
	ret = twheel_observe_fd(&w->twheel, ours);
	if (!ret)
		ret = twheel_info(w->twheel, &w->info);
	if (ret == -ENOTTY)
		die(STATUS_NO_TIMER, "descriptor %d of process %d is not a wheel", theirs,
		    target->pid);
	if (ret)
		die(error_status(-ret), "cannot look at the wheel: %s", strerror(-ret));
}
