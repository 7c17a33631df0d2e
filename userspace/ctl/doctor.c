// SPDX-License-Identifier: GPL-2.0
/*
 * twheelctl doctor: checks if the kernel's wheel works, and explains what is wrong.
 *
 * Each check prints a line. A check that cannot work because an earlier one failed is skipped. The
 * first check that fails decides the exit status.
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "advice.h"
#include "clock.h"
#include "device.h"
#include "error.h"
#include "json.h"
#include "option.h"
#include "show.h"

/* The oldest Linux that the module supports. */
#define LINUX_MAJOR	6
#define LINUX_MINOR	1
/* Maximum time until the event of a 1 ms timer. A working wheel takes milliseconds. */
#define EXPIRE_TIMEOUT	(10 * NSEC_PER_SEC)

struct doctor {
	struct conf conf;
	int status;
};

/* Prints the result of a check. @advice says what to do, and is NULL if the check has passed. */
static void print_check(const struct doctor *d, const char *name, const char *advice,
			const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void print_check(const struct doctor *d, const char *name, const char *advice,
			const char *fmt, ...)
{
	char found[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(found, sizeof(found), fmt, args);
	va_end(args);
	if (d->conf.json) {
		json_open("check");
		json_text("check", name);
		json_bool("ok", !advice);
		json_text("found", found);
		if (advice)
			json_text("advice", advice);
		json_close();
		return;
	}
	printf("%-4s  %-9s  %s\n", advice ? "FAIL" : "ok", name, found);
	if (advice)
		printf("%15s  do: %s\n", "", advice);
}

/* Remembers the status of the first check that fails. */
static void fail(struct doctor *d, int status)
{
	if (!d->status)
		d->status = status;
}

static void check_kernel(struct doctor *d)
{
	unsigned int major = 0, minor = 0;
	struct utsname uts;
	bool old;

	uname(&uts);
	old = sscanf(uts.release, "%u.%u", &major, &minor) != 2 || major < LINUX_MAJOR ||
	      (major == LINUX_MAJOR && minor < LINUX_MINOR);
	if (old)
		fail(d, STATUS_NO_DEVICE);
	print_check(d, "kernel", old ? "boot Linux 6.1 or newer" : NULL,
		    "Linux %.65s%s%s", uts.release, container() ? ", in " : "",
		    container() ? container() : "");
}

/* True if the first two numbers of the module's version are those of this program. */
static bool same_version(const char *module)
{
	const char *ours = twheel_version();
	size_t len = strrchr(ours, '.') - ours;

	return !strncmp(module, ours, len) && (module[len] == '.' || !module[len]);
}

static void check_module(struct doctor *d)
{
	char advice[ADVICE_LEN];
	char version[64];
	bool loaded = module_is_loaded();
	struct twheel *w;

	/* To open the device node loads the module, and shows that the node exists. */
	if (!loaded && !try_wheel(&w, &d->conf)) {
		twheel_close(w);
		loaded = true;
	}
	if (!loaded) {
		advise_load(advice);
		fail(d, STATUS_NO_DEVICE);
		print_check(d, "module", advice, "not loaded");
		return;
	}
	module_version(version, sizeof(version));
	if (strcmp(version, "unknown") && !same_version(version)) {
		fail(d, STATUS_FAILURE);
		print_check(d, "module", "install the same version of both, then rmmod twheel and modprobe twheel",
			    "version %s, and twheelctl is %s", version, twheel_version());
		return;
	}
	if (access("/sys/module", F_OK))
		print_check(d, "module", NULL, "loaded, version unknown because /sys is not mounted");
	else
		print_check(d, "module", NULL, "loaded, version %s", version);
}

static bool check_device(struct doctor *d)
{
	const char *path = d->conf.device;
	int minor = module_minor();
	char advice[ADVICE_LEN];
	struct stat st;

	if (stat(path, &st)) {
		advise_absent(advice, path);
		fail(d, errno == EACCES ? STATUS_NO_PERMISSION : STATUS_NO_DEVICE);
		print_check(d, "device", advice, "%.100s: %s", path, strerror(errno));
		return false;
	}
	if (!S_ISCHR(st.st_mode) || (minor >= 0 && minor != (int)minor(st.st_rdev))) {
		advise_absent(advice, path);
		fail(d, STATUS_NO_DEVICE);
		print_check(d, "device", advice, "%.100s is not a twheel device", path);
		return false;
	}
	print_check(d, "device", NULL, "%.100s, minor %u, mode %04o", path, minor(st.st_rdev),
		    st.st_mode & 07777);
	return true;
}

/* Explains why no wheel could be made. */
static void explain_open(struct doctor *d, int err)
{
	char advice[ADVICE_LEN];

	switch (err) {
	case EACCES:
	case EPERM:
		if (err == EPERM && d->conf.shape.tick_ns)
			snprintf(advice, sizeof(advice),
				 "a tick this short needs CAP_SYS_RESOURCE: choose a longer --tick");
		else
			advise_permission(advice, d->conf.device);
		break;
	case ENOENT:
	case ENODEV:
	case ENXIO:
	case ENOTTY:
		advise_absent(advice, d->conf.device);
		break;
	case EOPNOTSUPP:
		snprintf(advice, sizeof(advice),
			 "install version %s of the module, unless this processor cannot map the table: see EOPNOTSUPP in twheel(4)",
			 twheel_version());
		break;
	case ENOSPC:
		advise_limit(advice);
		break;
	case ENOMEM:
		snprintf(advice, sizeof(advice), "raise memory.max of the cgroup");
		break;
	default:
		snprintf(advice, sizeof(advice), "see twheel(4) for this error");
	}
	fail(d, err == ENOENT ? STATUS_NO_DEVICE : error_status(err));
	print_check(d, "wheel", advice, "cannot be made: %s",
		    err == ENOTTY ? "not a twheel device" : strerror(err));
}

/* Waits for a timer. */
static void check_timer(struct doctor *d, struct twheel *w)
{
	struct twheel_event event;
	char late[DURATION_LEN];
	uint64_t id;
	int ret;

	ret = twheel_add(w, twheel_after(w, NSEC_PER_MSEC), 0, &id);
	if (!ret)
		ret = twheel_wait(w, EXPIRE_TIMEOUT);
	if (ret > 0)
		ret = twheel_read(w, &event, 1);
	if (ret != 1) {
		fail(d, STATUS_FAILURE);
		print_check(d, "timer", "see dmesg", "a timer of 1 ms has not expired: %s",
			    ret < 0 ? strerror(-ret) : "the check gave up after 10 s");
		return;
	}
	print_check(d, "timer", NULL, "a timer of 1 ms expired, late by %s",
		    duration_text(late, event.expired_ns - event.deadline_ns));
}

static void check_wheel(struct doctor *d)
{
	struct twheel_info info;
	struct twheel *w;
	int ret = try_wheel(&w, &d->conf);

	if (ret) {
		explain_open(d, -ret);
		return;
	}
	twheel_info(w, &info);
	print_check(d, "wheel", NULL, "features%s%s%s, at most %u timers%s",
		    info.features & TWHEEL_FEATURE_TABLE ? " table" : "",
		    info.features & TWHEEL_FEATURE_MARKS ? " marks" : "",
		    info.features & TWHEEL_FEATURE_PARKED ? " parked" : "", info.max_timers,
		    info.features & TWHEEL_FEATURE_PARKED ? "" :
		    "; the module is old, so twheel_set() after twheel_clear() is slower: update it");
	check_timer(d, w);
	twheel_close(w);
}

/* Prints what TWHEEL_BACKEND means for programs that accept either backend. */
static void check_environment(struct doctor *d)
{
	const char *backend = getenv("TWHEEL_BACKEND");

	if (!backend || !*backend)
		return;
	if (!strcmp(backend, "kernel")) {
		print_check(d, "backend", NULL, "TWHEEL_BACKEND is kernel");
		return;
	}
	fail(d, STATUS_FAILURE);
	print_check(d, "backend", "unset TWHEEL_BACKEND",
		    strcmp(backend, "inprocess") ?
		    "TWHEEL_BACKEND is %.100s, so no wheel can be opened" :
		    "TWHEEL_BACKEND is %.100s, so each wheel is inside its process", backend);
}

static int run_doctor(const struct verb *verb, int argc, char **argv)
{
	struct doctor d = { };

	while (next_option(verb, argc, argv, &d.conf) != -1)
		;
	if (optind < argc)
		usage_error(verb, "takes no argument");
	/* --device names a kernel wheel, so TWHEEL_BACKEND has no effect. */
	d.conf.names_device = true;
	check_kernel(&d);
	check_module(&d);
	if (check_device(&d))
		check_wheel(&d);
	check_environment(&d);
	return d.status;
}

const struct verb verb_doctor = {
	.name = "doctor",
	.args = "",
	.summary = "Find out why the kernel's wheel is not used, and what to do.",
	.help = "Checks the kernel, the module and its version, the device, permission, a wheel\n"
		"and a timer. The exit status is 0 if the kernel's wheel works, 3 if there is no\n"
		"module or device, 4 without permission, 6 at a limit, and 1 for anything else.\n"
		"\n"
		"For other problems, such as late timers, see doc/troubleshooting.md in the\n"
		"source of twheel.\n",
	.run = run_doctor,
};
