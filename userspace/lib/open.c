// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* Opens and closes wheels. */
#include "internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef CLOCK_TAI
#define CLOCK_TAI	11
#endif

#define DEVICE	"/dev/twheel"

#define OPEN_BACKEND	(TWHEEL_OPEN_KERNEL | TWHEEL_OPEN_INPROCESS)
#define OPEN_FLAGS	(OPEN_BACKEND | TWHEEL_OPEN_REALTIME | TWHEEL_OPEN_CHECKED)

/* Size of the struct in version 0.2, whose programs do not set it. */
#define OPTIONS_FIRST	(offsetof(struct twheel_options, device) + sizeof(char *))

#define STRING(x)	#x
#define DOTTED(a, b, c)	STRING(a) "." STRING(b) "." STRING(c)

TWHEEL_PUBLIC const char *twheel_version(void)
{
	return DOTTED(TWHEEL_VERSION_MAJOR, TWHEEL_VERSION_MINOR, TWHEEL_VERSION_PATCH);
}

/*
 * Completes a wheel whose backend has been opened, or frees it if @err says that it was not. If
 * this fails, the descriptor @lent stays open.
 */
static int finish_open(struct twheel *w, int err, int lent, struct twheel **out)
{
	if (!err) {
		err = twheel__try_clock(w->cold->info.clock_id);
		if (!err)
			err = twheel__arena_init(&w->cold->shadow,
						 (w->cold->info.max_timers + 1UL) *
						 sizeof(struct shadow));
		w->shadow = (struct shadow *)w->cold->shadow.base;
		if (!err)
			err = twheel__enroll(w);
		if (!err)
			twheel__make_wake_timer(w);
		if (err) {
			if (w->cold->fd == lent)
				w->cold->fd = -1;
			w->cold->backend->close(w);
		}
	}
	if (err) {
		twheel__free(w);
		return err;
	}
	*out = w;
	return 0;
}

/* True if @err means that there is no device, or that this process cannot use it. */
static bool is_absent(int err)
{
	return err == -ENOENT || err == -ENODEV || err == -ENXIO || err == -EACCES ||
	       err == -EPERM || err == -EOPNOTSUPP;
}

/* Moves @fd away from the numbers of standard input, output and error. */
static int move_up(int fd)
{
	int higher;

	if (fd < 0 || fd > 2)
		return fd;
	higher = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (higher >= 0)
		close(fd);
	return higher;
}

/* Returns a text that says why the device could not be opened. */
static const char *absence(int err)
{
	switch (err) {
	case -ENOENT:
		return DEVICE " is not there: no module, or a container without the device";
	case -EACCES:
		return DEVICE " is not permitted by its mode";
	case -EPERM:
		return DEVICE " is not permitted by the device cgroup of this container";
	case -EOPNOTSUPP:
		return DEVICE " cannot be mapped on this processor, or its module is too old";
	default:
		return DEVICE " has no driver: the module is not loaded";
	}
}

static int open_backend(struct twheel *w, int backend, const char *device,
			const struct twheel_setup *setup)
{
	int fd, err;

	if (backend == TWHEEL_OPEN_INPROCESS)
		return twheel__inprocess_open(w, setup);
	fd = move_up(open(device ? device : DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC));
	if (fd >= 0) {
		w->cold->fd = fd;
		err = twheel__kernel_open(w, setup);
		if (!err)
			return 0;
		close(fd);
		w->cold->fd = -1;
		/* Do not hide other errors, such as a refused tick, behind the fallback. */
		if (err != -EOPNOTSUPP)
			return err;
	} else {
		err = -errno;
	}
	if (!backend && FALLBACK && is_absent(err)) {
		w->cold->reason = absence(err);
		return twheel__inprocess_open(w, setup);
	}
	return err;
}

/*
 * Return: the flag of the backend that the caller or the environment asks for, 0 for either, or
 * -EINVAL. @reason: out: why it is not the kernel's, or "".
 */
static int choose_backend(const struct twheel_options *o, const char **reason)
{
	const char *name = secure_getenv("TWHEEL_BACKEND");

	*reason = "";
	if ((o->flags & OPEN_BACKEND) == OPEN_BACKEND)
		return -EINVAL;
	if (o->device && (o->flags & TWHEEL_OPEN_INPROCESS))
		return -EINVAL;
	if (o->device)
		return TWHEEL_OPEN_KERNEL;
	if (!name || !*name) {
		if (o->flags & TWHEEL_OPEN_INPROCESS)
			*reason = "the program asks for TWHEEL_OPEN_INPROCESS";
		return o->flags & OPEN_BACKEND;
	}
	if (!strcmp(name, "kernel"))
		return TWHEEL_OPEN_KERNEL;
	if (strcmp(name, "inprocess"))
		return -EINVAL;
	*reason = "TWHEEL_BACKEND=inprocess is in the environment";
	return TWHEEL_OPEN_INPROCESS;
}

/* Copies options of any version. Members that this version does not know must be zero. */
static int copy_options(struct twheel_options *to, const struct twheel_options *from)
{
	const char *bytes = (const char *)from;
	size_t size = from->size ? from->size : OPTIONS_FIRST;
	size_t i;

	if (size < offsetof(struct twheel_options, tick_ns))
		return -EINVAL;
	if (size > STRUCT_MAX)
		return -E2BIG;
	for (i = sizeof(*to); i < size; i++) {
		if (bytes[i])
			return -E2BIG;
	}
	memcpy(to, from, size < sizeof(*to) ? size : sizeof(*to));
	return to->flags & ~OPEN_FLAGS ? -EINVAL : 0;
}

static void set_checked(struct twheel *w, uint32_t flags)
{
	const char *checked = secure_getenv("TWHEEL_CHECKED");

	if ((flags & TWHEEL_OPEN_CHECKED) || (checked && !strcmp(checked, "1")))
		w->special |= SPECIAL_CHECKED;
}

static int make_wheel(struct twheel **wheel, const struct twheel_options *options)
{
	struct twheel_options o = {};
	struct twheel_setup setup;
	const char *reason;
	struct twheel *w;
	int backend, err;

	if (options) {
		err = copy_options(&o, options);
		if (err)
			return err;
	}
	backend = choose_backend(&o, &reason);
	if (backend < 0)
		return backend;
	err = twheel__process_init();
	if (err)
		return err;
	setup = (struct twheel_setup) {
		.tick_ns = o.tick_ns,
		.clock_id = o.clock_id,
		/* One more, for twheel_wake(). */
		.max_timers = o.max_timers + (o.max_timers && o.max_timers != UINT32_MAX),
		.levels = o.levels,
		.slot_bits = o.slot_bits,
		.flags = o.flags & TWHEEL_OPEN_REALTIME ? TWHEEL_SETUP_REALTIME : 0,
	};
	w = twheel__new();
	if (!w)
		return -ENOMEM;
	w->cold->slack_ns = o.slack_ns;
	w->cold->reason = reason;
	set_checked(w, o.flags);
	err = open_backend(w, backend, o.device, &setup);
	/* The program may have asked for the maximum, which leaves no room for one more. */
	if (err == -EINVAL && setup.max_timers) {
		setup.max_timers--;
		err = open_backend(w, backend, o.device, &setup);
	}
	if (!err && o.max_timers)
		w->cold->info.max_timers = o.max_timers;
	return finish_open(w, err, -1, wheel);
}

/* Makes a wheel for a descriptor that the program passes, which @take hands to the backend. */
static int attach(struct twheel **wheel, int fd, int (*take)(struct twheel *w, int fd))
{
	int err = twheel__process_init();
	struct twheel *w;
	int own = fd;

	if (err)
		return err;
	w = twheel__new();
	if (!w)
		return -ENOMEM;
	set_checked(w, 0);
	if (fd >= 0 && fd <= 2) {
		own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (own < 0)
			err = -errno;
	}
	if (!err)
		err = take(w, own);
	err = finish_open(w, err, own, wheel);
	if (!err)
		twheel__find_namespace(w);
	if (own != fd && own >= 0)
		close(err ? own : fd);
	return err;
}

/* These functions disable cancellation, so that a canceled thread leaves nothing half done. */

TWHEEL_PUBLIC int twheel_open(struct twheel **wheel, const struct twheel_options *options)
{
	int err, cancellable;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
	err = make_wheel(wheel, options);
	pthread_setcancelstate(cancellable, NULL);
	return err;
}

TWHEEL_PUBLIC int twheel_open_fd(struct twheel **wheel, int fd)
{
	int err, cancellable;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
	err = attach(wheel, fd, twheel__kernel_attach);
	/* The other process may have made periodic timers. */
	if (!err)
		(*wheel)->check_kind = 1;
	pthread_setcancelstate(cancellable, NULL);
	return err;
}

TWHEEL_PUBLIC int twheel_observe_fd(struct twheel **wheel, int fd)
{
	int err, cancellable;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
	err = attach(wheel, fd, twheel__kernel_observe);
	pthread_setcancelstate(cancellable, NULL);
	return err;
}

TWHEEL_PUBLIC void twheel_close(struct twheel *w)
{
	int cancellable;

	if (!w)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
	if (!is_child(w))
		twheel__end_timers(w);
	twheel__dismiss(w);
	twheel__cold(w)->backend->close(w);
	twheel__free(w);
	pthread_setcancelstate(cancellable, NULL);
}
