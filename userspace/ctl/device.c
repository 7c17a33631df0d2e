// SPDX-License-Identifier: GPL-2.0
/*
 * The wheel: thin functions around open, ioctl, read and poll.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common.h"

/* Does the module's file belong to the modules of the running kernel? */
static bool module_is_installed(const char *release)
{
	bool found = false;
	char path[256];
	char line[4096];
	FILE *f;

	snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", release);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');
		char *name;

		if (!colon)
			continue;
		*colon = '\0';
		name = strrchr(line, '/');
		name = name ? name + 1 : line;
		found = !strncmp(name, "twheel.ko", strlen("twheel.ko"));
	}
	fclose(f);
	return found;
}

/* Is its source where DKMS takes it from? */
static bool source_is_installed(void)
{
	glob_t found;
	bool is = !glob("/usr/src/twheel-*/dkms.conf", 0, NULL, &found);

	globfree(&found);
	return is;
}

static void hint_absent(const char *path)
{
	struct utsname uts;

	uname(&uts);
	if (strcmp(path, DEVICE))
		hint("without --device it is " DEVICE);
	else if (!access("/sys/module/twheel", F_OK))
		hint("the module is loaded, but %s is not its device; see the minor in /proc/misc",
		     path);
	else if (module_is_installed(uts.release))
		hint("the module is not loaded: modprobe twheel");
	else if (source_is_installed())
		hint("the module is not built for Linux %s: install its headers, then dkms autoinstall",
		     uts.release);
	else
		hint("the module is not loaded: in the source of twheel, make load; or make vm, for a machine that has it");
}

static void hint_permission(const char *path)
{
	const char *group = NULL;
	struct group *entry;
	struct stat st;
	FILE *f;

	if (stat(path, &st)) {
		hint("its directory may not be searched");
		return;
	}
	if (!access(path, R_OK | W_OK)) {
		hint("not by its mode, which allows it: a container needs --device=%s", path);
		return;
	}
	/* Not getgrgid(), which a static program cannot have. */
	f = fopen("/etc/group", "re");
	while (f && !group && (entry = fgetgrent(f)))
		if (entry->gr_gid == st.st_gid)
			group = entry->gr_name;
	if ((st.st_mode & 0060) == 0060 && st.st_gid && group)
		hint("join the group that may use it: usermod -aG %s USER, and log in again",
		     group);
	else
		hint("its mode is %04o: become root, or have a udev rule give it to a group",
		     st.st_mode & 07777);
	if (f)
		fclose(f);
}

static int wheel_ioctl(const struct wheel *w, unsigned long cmd, void *arg)
{
	int ret = ioctl(w->fd, cmd, arg);

	return ret < 0 ? -errno : ret;
}

/* The most timers that a wheel may ask for; 0 if the module does not tell. */
static unsigned int max_timers_limit(void)
{
	FILE *f = fopen("/sys/module/twheel/parameters/max_timers_limit", "re");
	unsigned int limit = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%u", &limit) != 1)
		limit = 0;
	fclose(f);
	return limit;
}

static void set_shape(struct wheel *w, const struct conf *conf)
{
	static const struct twheel_setup defaults;
	struct twheel_setup setup = conf->setup;
	unsigned int limit = max_timers_limit();
	int ret;

	if (!memcmp(&setup, &defaults, sizeof(setup)))
		return;
	ret = wheel_ioctl(w, TWHEEL_IOC_SETUP, &setup);
	if (!ret)
		return;
	complain("cannot shape the wheel: %s", error_text(-ret));
	if (ret == -EPERM)
		hint("so short a tick needs CAP_SYS_RESOURCE; twheelctl info shows the shortest without");
	else if (ret == -EINVAL && limit && setup.max_timers > limit)
		hint("max_timers_limit, a parameter of the module, is %u", limit);
	else if (ret == -EINVAL)
		hint("levels are 1 to 16, slot bits 4 to 16");
	exit(error_status(-ret));
}

/**
 * wheel_open() - make a wheel, or say why not and exit
 * @w: the wheel
 * @conf: where it is and what shape it shall have
 */
void wheel_open(struct wheel *w, const struct conf *conf)
{
	int ret;

	w->fd = open(conf->device, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	/* The wheel is not to stand in for an input or output that was closed. */
	if (w->fd >= 0 && w->fd <= STDERR_FILENO) {
		int low = w->fd;

		w->fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		close(low);
	}
	if (w->fd < 0) {
		int err = errno;

		complain("cannot open %s: %s", conf->device, strerror(err));
		switch (err) {
		case ENOENT:
		case ENOTDIR:
		case ENODEV:
		case ENXIO:
			hint_absent(conf->device);
			exit(STATUS_NO_DEVICE);
		case EACCES:
		case EPERM:
			hint_permission(conf->device);
			exit(STATUS_NO_PERMISSION);
		default:
			exit(error_status(err));
		}
	}
	ret = wheel_ioctl(w, TWHEEL_IOC_INFO, &w->info);
	if (ret == -ENOTTY || ret == -EINVAL) {
		complain("%s is not a twheel device", conf->device);
		hint_absent(conf->device);
		exit(STATUS_NO_DEVICE);
	}
	if (!ret) {
		set_shape(w, conf);
		ret = wheel_ioctl(w, TWHEEL_IOC_INFO, &w->info);
	}
	if (ret)
		die(error_status(-ret), "%s: %s", conf->device, error_text(-ret));
}

void wheel_close(struct wheel *w)
{
	close(w->fd);
}

static __u64 clock_now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/* The time on the wheel's clock. */
__u64 wheel_now(const struct wheel *w)
{
	return clock_now(w->info.clock_id);
}

__u64 monotonic_now(void)
{
	return clock_now(CLOCK_MONOTONIC);
}

int wheel_register(struct wheel *w, struct twheel_timer *t)
{
	return wheel_ioctl(w, TWHEEL_IOC_REGISTER, t);
}

int wheel_rearm(struct wheel *w, struct twheel_timer *t)
{
	return wheel_ioctl(w, TWHEEL_IOC_REARM, t);
}

int wheel_cancel(struct wheel *w, struct twheel_timer *t)
{
	return wheel_ioctl(w, TWHEEL_IOC_CANCEL, t);
}

int wheel_get(struct wheel *w, struct twheel_timer *t)
{
	return wheel_ioctl(w, TWHEEL_IOC_GET, t);
}

int wheel_drain(struct wheel *w, unsigned int mode, __u64 *count)
{
	struct twheel_drain drain = { .mode = mode };
	int ret = wheel_ioctl(w, TWHEEL_IOC_DRAIN, &drain);

	*count = drain.count;
	return ret < 0 ? ret : 0;
}

/* Returns how many were copied to @t, 0 at the end. */
int wheel_list(struct wheel *w, struct twheel_timer *t, unsigned int count,
	       unsigned int *cursor)
{
	struct twheel_list list = {
		.timers = (unsigned long)t,
		.count = count,
		.cursor = *cursor,
	};
	int ret = wheel_ioctl(w, TWHEEL_IOC_LIST, &list);

	*cursor = list.cursor;
	return ret;
}

int wheel_stats(struct wheel *w, struct twheel_stats *stats)
{
	return wheel_ioctl(w, TWHEEL_IOC_STATS, stats);
}

/* Returns how many events there were, 0 if none is unread. */
int wheel_read(struct wheel *w, struct twheel_event *events, unsigned int count)
{
	ssize_t ret;

	do {
		ret = read(w->fd, events, count * sizeof(*events));
	} while (ret < 0 && errno == EINTR);
	if (ret < 0)
		return errno == EAGAIN ? 0 : -errno;
	return ret / sizeof(*events);
}

/* True if nothing will expire any more unless something is armed. */
bool wheel_nothing_left(struct wheel *w)
{
	struct twheel_stats stats;

	int ret = wheel_stats(w, &stats);

	if (ret)
		die(error_status(-ret), "cannot read the counters: %s", error_text(-ret));
	return !(stats.armed + stats.unread);
}

/**
 * wait_input() - wait for something to read
 * @fd: the wheel's
 * @other_fd: another, or -1
 * @timeout: in ns, or FOREVER
 * @other_ready: whether @other_fd can be read; may be NULL
 * @signals: what to block meanwhile, in place of what is blocked; may be NULL
 *
 * A signal ends the wait as well. Whose output goes nowhere any more waits for nothing.
 *
 * Return: whether @fd can be read.
 */
bool wait_input(int fd, int other_fd, __u64 timeout, bool *other_ready,
		const sigset_t *signals)
{
	struct pollfd pfd[2] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = other_fd, .events = POLLIN },
	};
	struct timespec ts = {
		.tv_sec = timeout / NSEC_PER_SEC,
		.tv_nsec = timeout % NSEC_PER_SEC,
	};
	/* What a time_t of 32 bits cannot hold is for ever, too. */
	bool fits = (__u64)ts.tv_sec == timeout / NSEC_PER_SEC;
	int ret;

	end_output();
	ret = ppoll(pfd, 2, timeout == FOREVER || !fits ? NULL : &ts, signals);
	if (ret < 0 && errno != EINTR)
		die(STATUS_FAILURE, "poll: %s", strerror(errno));
	if (other_ready)
		*other_ready = ret > 0 && pfd[1].revents;
	return ret > 0 && pfd[0].revents;
}
