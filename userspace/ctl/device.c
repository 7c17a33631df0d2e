// SPDX-License-Identifier: GPL-2.0
/*
 * Opens the wheel, or says why that cannot be; and waits for it.
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

static void hint_unloaded(void)
{
	struct utsname uts;

	uname(&uts);
	if (module_is_installed(uts.release))
		hint("the module is not loaded: modprobe twheel");
	else if (source_is_installed())
		hint("the module is not built for Linux %s: install its headers, then dkms autoinstall and modprobe twheel",
		     uts.release);
	else
		hint("the module is not installed: in the source of twheel, make load; or make dkms-install, then modprobe twheel");
	hint("without the module: TWHEEL_BACKEND=inprocess, for a wheel in this process; or make vm, for a machine that has it");
}

static void hint_absent(const char *path)
{
	if (strcmp(path, DEVICE))
		hint("without --device it is " DEVICE);
	else if (!access("/sys/module/twheel", F_OK))
		hint("the module is loaded, but %s is not its device; see the minor in /proc/misc",
		     path);
	else
		hint_unloaded();
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

static _Noreturn void refuse_other_device(const struct conf *conf)
{
	complain("%s is not a twheel device", conf->device);
	hint_absent(conf->device);
	leave(STATUS_NO_DEVICE);
}

/* Says that the device cannot be opened and what may be done about it; exits. */
static _Noreturn void refuse_device(const struct conf *conf, int err)
{
	if (err == ENOTTY)
		refuse_other_device(conf);
	complain("cannot open %s: %s", conf->device, strerror(err));
	switch (err) {
	case ENOENT:
	case ENOTDIR:
	case ENODEV:
	case ENXIO:
		hint_absent(conf->device);
		leave(STATUS_NO_DEVICE);
	case EACCES:
	case EPERM:
		hint_permission(conf->device);
		leave(STATUS_NO_PERMISSION);
	case EINVAL:
		hint("TWHEEL_BACKEND in the environment is kernel or inprocess");
		leave(STATUS_USAGE);
	default:
		leave(error_status(err));
	}
}

static _Noreturn void refuse_shape(const struct conf *conf, int err)
{
	unsigned int limit = max_timers_limit();

	complain("cannot shape the wheel: %s", error_text(err));
	if (err == EPERM)
		hint("so short a tick needs CAP_SYS_RESOURCE; twheelctl info shows the shortest without");
	else if (err == EINVAL && limit && conf->shape.max_timers > limit)
		hint("max_timers_limit, a parameter of the module, is %u", limit);
	else if (err == EINVAL)
		hint("levels are 1 to 16, slot bits 4 to 16; no wheel has more than 2^24 timers");
	leave(error_status(err));
}

static bool has_shape(const struct conf *conf)
{
	static const struct twheel_options defaults;

	return memcmp(&conf->shape, &defaults, sizeof(defaults));
}

/*
 * The kernel's wheel, or the one in the process where TWHEEL_BACKEND asks for it.
 * The library has one errno for both, the device and the shape: where the default
 * shape can be had, the shape was at fault.
 */
static void open_default(struct wheel *w, const struct conf *conf)
{
	struct twheel_options options = conf->shape;
	int ret;

	options.size = sizeof(options);
	options.flags |= TWHEEL_OPEN_KERNEL;
	ret = twheel_open(&w->twheel, &options);
	if (!ret)
		return;
	if (has_shape(conf)) {
		struct twheel_options plain = {
			.size = sizeof(plain),
			.flags = TWHEEL_OPEN_KERNEL,
		};
		struct twheel *other;

		if (!twheel_open(&other, &plain))
			refuse_shape(conf, -ret);
	}
	refuse_device(conf, -ret);
}

/*
 * A node elsewhere. The library takes its descriptor as it is, so the shape is
 * asked for here: the only ioctl of this program.
 */
static void open_node(struct wheel *w, const struct conf *conf)
{
	struct twheel_setup setup = {
		.tick_ns = conf->shape.tick_ns,
		.clock_id = conf->shape.clock_id,
		.max_timers = conf->shape.max_timers,
		.levels = conf->shape.levels,
		.slot_bits = conf->shape.slot_bits,
		.flags = conf->shape.flags & TWHEEL_OPEN_REALTIME ? TWHEEL_SETUP_REALTIME : 0,
	};
	int fd = open(conf->device, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	int ret;

	/* The wheel is not to stand in for an input or output that was closed. */
	if (fd >= 0 && fd <= STDERR_FILENO) {
		int low = fd;

		fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		close(low);
	}
	if (fd < 0)
		refuse_device(conf, errno);
	if (has_shape(conf) && ioctl(fd, TWHEEL_IOC_SETUP, &setup)) {
		if (errno == ENOTTY)
			refuse_other_device(conf);
		refuse_shape(conf, errno);
	}
	ret = twheel_open_fd(&w->twheel, fd);
	if (ret == -ENOTTY || ret == -EINVAL)
		refuse_other_device(conf);
	if (ret)
		die(error_status(-ret), "%s: %s", conf->device, error_text(-ret));
}

/**
 * wheel_open() - make a wheel, or say why not and exit
 * @w: the wheel
 * @conf: where it is and what shape it shall have
 */
void wheel_open(struct wheel *w, const struct conf *conf)
{
	int ret;

	if (conf->names_device)
		open_node(w, conf);
	else
		open_default(w, conf);
	ret = twheel_info(w->twheel, &w->info);
	if (ret)
		die(error_status(-ret), "%s: %s", conf->device, error_text(-ret));
}

void wheel_close(struct wheel *w)
{
	twheel_close(w->twheel);
}

bool wheel_is_kernel(const struct wheel *w)
{
	return !strcmp(twheel_backend(w->twheel), "kernel");
}

__u64 monotonic_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/**
 * wheel_do() - one verb on one timer
 * @w: the wheel
 * @opcode: TWHEEL_OP_
 * @t: the timer, in and out
 *
 * Return: 0, or a negative errno.
 */
int wheel_do(struct wheel *w, unsigned int opcode, struct twheel_timer *t)
{
	struct twheel_op op = { .timer = *t, .opcode = opcode };
	int ret = twheel_submit(w->twheel, &op, 1);

	if (ret < 0)
		return ret;
	*t = op.timer;
	return op.result;
}

/* Reads the counters, or exits. */
void wheel_stats(struct wheel *w, struct twheel_stats *stats)
{
	int ret = twheel_stats(w->twheel, stats);

	if (ret)
		die(error_status(-ret), "cannot read the counters: %s", error_text(-ret));
}

/* True if nothing will expire any more unless something is armed. */
bool wheel_nothing_left(struct wheel *w)
{
	struct twheel_stats stats;

	wheel_stats(w, &stats);
	return !(stats.armed + stats.unread);
}

/**
 * wait_input() - wait for something to read
 * @w: the wheel
 * @other_fd: another, or -1
 * @timeout: in ns, or FOREVER
 * @other_ready: whether @other_fd can be read; may be NULL
 * @signals: what to block meanwhile, in place of what is blocked; may be NULL
 *
 * A signal ends the wait as well. Whose output goes nowhere any more waits for nothing.
 *
 * Return: whether there may be an event.
 */
bool wait_input(const struct wheel *w, int other_fd, __u64 timeout,
		bool *other_ready, const sigset_t *signals)
{
	struct pollfd pfd[2] = {
		{ .fd = twheel_fd(w->twheel), .events = POLLIN },
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
