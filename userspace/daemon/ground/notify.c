// SPDX-License-Identifier: GPL-2.0
/* Tells systemd about the state of the daemon. See notify.h. */
#include <stdarg.h>
#include <stdio.h>

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "ground/notify.h"

void notify(const char *fmt, ...)
{
	char text[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
#ifdef HAVE_SYSTEMD
	sd_notify(0, text);
#endif
}
