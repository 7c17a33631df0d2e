// SPDX-License-Identifier: GPL-2.0
/* Error messages of twheelctl, and its exit statuses. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* Prints an error to stderr, with the name of the program before it. */
void complain(const char *fmt, ...)
{
	va_list args;

	fflush(stdout);
	fputs("twheelctl: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

/* Prints a second line to stderr, which says what to do. */
void hint(const char *fmt, ...)
{
	va_list args;

	fputs("hint: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

/* True if failures of twheelctl itself exit with STATUS_OWN_FAILURE. */
static bool statuses_reserved;

/* Reserves all statuses except STATUS_OWN_FAILURE for the command that a verb runs. */
void reserve_statuses(void)
{
	statuses_reserved = true;
}

/* Exits with @status, or with STATUS_OWN_FAILURE after reserve_statuses(). */
void leave(int status)
{
	exit(statuses_reserved ? STATUS_OWN_FAILURE : status);
}

/* Prints an error and exits. */
void die(int status, const char *fmt, ...)
{
	va_list args;

	fflush(stdout);
	fputs("twheelctl: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	leave(status);
}

/* Returns the text for an errno of the device. */
const char *error_text(int err)
{
	switch (err) {
	case ENOENT:
		return "no such timer";
	case EEXIST:
		return "the label is taken";
	case ENOSPC:
		return "the wheel is full";
	default:
		return strerror(err);
	}
}

/* Returns the exit status for an errno of the device. */
int error_status(int err)
{
	switch (err) {
	case EINVAL:
		return STATUS_USAGE;
	case ENODEV:
	case ENXIO:
		return STATUS_NO_DEVICE;
	case EPERM:
	case EACCES:
		return STATUS_NO_PERMISSION;
	case ENOENT:
		return STATUS_NO_TIMER;
	case ENOSPC:
	case ENOMEM:
		return STATUS_LIMIT;
	default:
		return STATUS_FAILURE;
	}
}

/* Makes room for one more element, or exits. Returns the array. */
void *grow_array(void *array, size_t used, size_t *room, size_t size)
{
	if (used < *room)
		return array;
	*room = *room ? *room * 2 : 16;
	array = realloc(array, *room * size);
	if (!array)
		die(STATUS_LIMIT, "no memory for %zu timers", *room);
	return array;
}

/**
 * end_output() - flush stdout, or say why that fails and exit
 */
void end_output(void)
{
	errno = 0;
	if (fflush(stdout) || ferror(stdout))
		die(STATUS_FAILURE, "cannot write: %s",
		    errno ? strerror(errno) : "some of the output is lost");
}
