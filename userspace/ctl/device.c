// SPDX-License-Identifier: GPL-2.0
/* Opens a wheel or explains why that fails, and waits for events. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "advice.h"
#include "clock.h"
#include "device.h"
#include "error.h"

/* Returns the limit for max_timers, or 0 if it cannot be read. */
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

/* Returns the value of TWHEEL_BACKEND if there is no such backend, or NULL. */
static const char *unknown_backend(void)
{
	const char *name = getenv("TWHEEL_BACKEND");

	return name && *name && strcmp(name, "kernel") && strcmp(name, "inprocess") ? name : NULL;
}

/* Explains why the device cannot be opened and what to do, and exits. */
static _Noreturn void refuse_device(const struct conf *conf, int err)
{
	char advice[ADVICE_LEN];

	if (err == ENOTTY)
		complain("%s is not a twheel device", conf->device);
	else if (err == EINVAL && unknown_backend())
		complain("TWHEEL_BACKEND in the environment must be kernel or inprocess, not \"%s\"",
			 unknown_backend());
	else
		complain("cannot open %s: %s", conf->device, strerror(err));
	switch (err) {
	case ENOENT:
	case ENOTDIR:
	case ENODEV:
	case ENXIO:
	case ENOTTY:
		advise_absent(advice, conf->device);
		hint("%s", advice);
		if (!strcmp(conf->device, DEVICE) && !module_is_loaded())
			hint("set TWHEEL_BACKEND=inprocess to use a wheel in this process, or run \"make vm\" for a machine with the module");
		leave(STATUS_NO_DEVICE);
	case EACCES:
	case EPERM:
		advise_permission(advice, conf->device);
		hint("%s", advice);
		leave(STATUS_NO_PERMISSION);
	case ENOSPC:
		advise_limit(advice);
		hint("%s", advice);
		leave(STATUS_LIMIT);
	case EOPNOTSUPP:
		hint("the module is older than this program, or cannot map its table on this processor: see EOPNOTSUPP in twheel(4)");
		leave(STATUS_FAILURE);
	case EINVAL:
		leave(STATUS_USAGE);
	default:
		leave(error_status(err));
	}
}

static _Noreturn void refuse_shape(const struct conf *conf, int err)
{
	unsigned int limit = max_timers_limit();

	complain("cannot create a wheel of this shape: %s", error_text(err));
	if (err == EPERM)
		hint("a tick this short needs CAP_SYS_RESOURCE; twheelctl info shows the minimum without it");
	else if (err == EINVAL && limit && conf->shape.max_timers > limit)
		hint("max_timers_limit of the module allows at most %u timers", limit);
	else if (err == EINVAL)
		hint("a wheel has 1 to 16 levels, 4 to 12 slot bits, and at most 4,096 buckets and 2^24 timers in all");
	leave(error_status(err));
}

static bool has_shape(const struct conf *conf)
{
	static const struct twheel_options defaults;

	return memcmp(&conf->shape, &defaults, sizeof(defaults));
}

/**
 * try_wheel() - make a wheel
 * @w: the wheel
 * @conf: the device and the shape
 *
 * The wheel is the kernel's, unless TWHEEL_BACKEND asks for one in this process.
 *
 * Return: 0 or a negative errno.
 */
int try_wheel(struct twheel **w, const struct conf *conf)
{
	struct twheel_options options = conf->shape;

	options.size = sizeof(options);
	options.flags |= TWHEEL_OPEN_KERNEL;
	options.device = conf->names_device ? conf->device : NULL;
	return twheel_open(w, &options);
}

/**
 * wheel_open() - make a wheel, or say why not and exit
 * @w: the wheel
 * @conf: the device and the shape
 */
void wheel_open(struct wheel *w, const struct conf *conf)
{
	int ret = try_wheel(&w->twheel, conf);

	w->pidfd = -1;
	/*
	 * A wrong device and a wrong shape cause the same errno. If the default shape works, the
	 * shape was wrong.
	 */
	if (ret && has_shape(conf)) {
		struct conf plain = { .device = conf->device, .names_device = conf->names_device };
		struct twheel *other;

		if (!try_wheel(&other, &plain))
			refuse_shape(conf, -ret);
	}
	if (ret)
		refuse_device(conf, -ret);
	ret = twheel_info(w->twheel, &w->info);
	if (ret)
		die(error_status(-ret), "%s: %s", conf->device, error_text(-ret));
}

void wheel_close(struct wheel *w)
{
	twheel_close(w->twheel);
	if (w->pidfd >= 0)
		close(w->pidfd);
}

bool wheel_is_kernel(const struct wheel *w)
{
	return !strcmp(twheel_backend(w->twheel), "kernel");
}

/**
 * wheel_do() - do one operation on one timer
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

/*
 * Waits as wait_input() does, but reads no events. Return: whether the owner of the wheel
 * has ended.
 */
bool wait_owner(const struct wheel *w, __u64 timeout, const sigset_t *signals)
{
	struct pollfd pfd = { .fd = w->pidfd, .events = POLLIN };
	struct timespec ts = {
		.tv_sec = timeout / NSEC_PER_SEC,
		.tv_nsec = timeout % NSEC_PER_SEC,
	};

	end_output();
	return ppoll(&pfd, 1, &ts, signals) > 0;
}

/* True if no timer is armed and no event is unread. */
bool wheel_nothing_left(struct wheel *w)
{
	struct twheel_stats stats;

	wheel_stats(w, &stats);
	return !(stats.armed + stats.unread);
}

/**
 * wait_input() - wait for something to read
 * @w: the wheel
 * @other_fd: a descriptor to wait for as well, or -1
 * @timeout: in ns, or FOREVER
 * @other_ready: whether @other_fd can be read; may be NULL
 * @signals: the signal mask during the wait; NULL leaves the mask as it is
 *
 * A signal ends the wait as well. If nobody reads stdout any more, the program exits.
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
	/* A timeout that does not fit into a 32-bit time_t also means forever. */
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
