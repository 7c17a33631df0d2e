/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* Reads a wheel in an event loop of sd-event. As in sd-event, errors are negative errnos. */
#ifndef TWHEEL_SD_EVENT_H
#define TWHEEL_SD_EVENT_H

#include <sys/epoll.h>
#include <systemd/sd-event.h>
#include <twheel/reader.h>

struct twheel_sd {
	struct twheel_reader reader;
	sd_event_source *source;
};

static inline int twheel_sd_readable(sd_event_source *source, int fd, uint32_t what, void *arg)
{
	struct twheel_sd *a = (struct twheel_sd *)arg;
	int ret;

	(void)source;
	(void)fd;
	(void)what;
	ret = twheel_reader_read(&a->reader);
	return ret < 0 ? ret : 0;
}

/* Returns 0, or a negative errno. */
static inline int twheel_sd_attach(struct twheel_sd *a, sd_event *loop, struct twheel *wheel,
				   twheel_event_cb *on_event, void *arg)
{
	int ret;

	twheel_reader_init(&a->reader, wheel, on_event, arg);
	ret = sd_event_add_io(loop, &a->source, twheel_fd(wheel), EPOLLIN, twheel_sd_readable, a);
	if (ret < 0)
		return ret;
	a->reader.attached = 1;
	return 0;
}

/* Calls the callback for the pending events, without running the loop. */
static inline int twheel_sd_read(struct twheel_sd *a)
{
	return twheel_reader_read(&a->reader);
}

static inline void twheel_sd_detach(struct twheel_sd *a)
{
	a->reader.attached = 0;
	sd_event_source_set_enabled(a->source, SD_EVENT_OFF);
	sd_event_source_unref(a->source);
}

#endif /* TWHEEL_SD_EVENT_H */
