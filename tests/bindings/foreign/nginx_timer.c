// SPDX-License-Identifier: GPL-2.0
/*
 * The timers of nginx 1.22 on libtwheel, in place of its src/event/ngx_event_timer.c. The member
 * timer of ngx_event_t is
 *
 *	struct { uint64_t id; ngx_queue_t link; } timer;
 *
 * nginx clears an event when its connection is used again, so an event has a timer of the wheel
 * only while it is set: the library keeps ids at hand, so that costs no system call.
 *
 * A deadline counts from the clock and not from ngx_current_msec, the time at which the loop woke
 * up, and a timer is moved however small the difference is. nginx leaves it where it is if that
 * is less than 300 ms.
 */
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include <libtwheel.h>

#define NS_PER_MS	1000000ULL

/* Of this worker. */
static struct twheel *wheel;
/* The events whose timers are set. */
static ngx_queue_t waiting;
/* The loop sees the wheel as a connection, which is none of those that a worker counts at exit. */
static ngx_connection_t connection;
static ngx_event_t readable, writable;

/* ngx_event_expire_timers() follows in the same turn, and reads the wheel. */
static void woken(ngx_event_t *ev)
{
	(void)ev;
}

ngx_int_t ngx_event_timer_init(ngx_log_t *log)
{
	int err;

	ngx_queue_init(&waiting);
	err = twheel_open(&wheel, NULL);
	if (err) {
		ngx_log_error(NGX_LOG_EMERG, log, -err, "twheel_open() failed");
		return NGX_ERROR;
	}
	connection.fd = twheel_fd(wheel);
	connection.read = &readable;
	connection.write = &writable;
	connection.log = log;
	readable.data = &connection;
	readable.handler = woken;
	readable.log = log;
	ngx_log_error(NGX_LOG_NOTICE, log, 0, "timers of the %s wheel", twheel_backend(wheel));
	return NGX_OK;
}

/* How long the loop may sleep. It has no epoll yet when ngx_event_timer_init() is called. */
ngx_msec_t ngx_event_find_timer(void)
{
	if (!readable.active && ngx_add_event(&readable, NGX_READ_EVENT, 0) != NGX_OK)
		return 1;
	return NGX_TIMER_INFINITE;
}

void ngx_event_add_timer(ngx_event_t *ev, ngx_msec_t timer)
{
	uint64_t deadline = twheel_after(wheel, timer * NS_PER_MS);
	int err;

	if (ev->timer_set) {
		twheel_set(wheel, ev->timer.id, deadline);
		return;
	}
	err = twheel_add(wheel, deadline, (uintptr_t)ev, &ev->timer.id);
	if (err) {
		/* No caller looks, so the connection times out now. */
		ngx_log_error(NGX_LOG_ALERT, ev->log, -err, "twheel_add() failed");
		ev->timedout = 1;
		ngx_post_event(ev, &ngx_posted_events);
		return;
	}
	ngx_queue_insert_tail(&waiting, &ev->timer.link);
	ev->timer_set = 1;
}

void ngx_event_del_timer(ngx_event_t *ev)
{
	twheel_del(wheel, ev->timer.id);
	ngx_queue_remove(&ev->timer.link);
	ev->timer_set = 0;
}

/* One event at a time, as a handler may close the connections of others. */
void ngx_event_expire_timers(void)
{
	struct twheel_event event;

	while (twheel_read(wheel, &event, 1) == 1) {
		ngx_event_t *ev = (ngx_event_t *)(uintptr_t)event.user_data;

		ngx_event_del_timer(ev);
		ev->timedout = 1;
		ev->handler(ev);
	}
}

/* Whether a worker that should end has only timers left that it need not wait for. */
ngx_int_t ngx_event_no_timers_left(void)
{
	ngx_queue_t *link;

	for (link = ngx_queue_head(&waiting); link != ngx_queue_sentinel(&waiting);
	     link = ngx_queue_next(link)) {
		ngx_event_t *ev = ngx_queue_data(link, ngx_event_t, timer.link);

		if (!ev->cancelable)
			return NGX_AGAIN;
	}
	return NGX_OK;
}
