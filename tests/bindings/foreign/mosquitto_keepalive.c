// SPDX-License-Identifier: GPL-2.0
/*
 * The keepalive of mosquitto 2.0 on libtwheel, in place of its src/keepalive.c: a timer for each
 * client, and the wheel's descriptor in the broker's epoll. struct mosquitto gets one more member,
 * uint64_t keepalive_timer.
 */
#include "config.h"

#include <string.h>
#include <sys/epoll.h>

#include "mosquitto_broker_internal.h"

#include <libtwheel.h>

static struct twheel *wheel;

/* The broker turns itself into a daemon before its first client connects, so it opens it here. */
static int open_wheel(void)
{
	/* The loop does nothing for what is neither a client nor a listener. */
	static int ident = id_invalid;
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &ident };
	int err = twheel_open(&wheel, NULL);

	if (err) {
		log__printf(NULL, MOSQ_LOG_ERR, "Error: twheel_open(): %s", strerror(-err));
		return MOSQ_ERR_NOMEM;
	}
	if (epoll_ctl(db.epollfd, EPOLL_CTL_ADD, twheel_fd(wheel), &ev))
		return MOSQ_ERR_ERRNO;
	log__printf(NULL, MOSQ_LOG_NOTICE, "timers of the %s wheel", twheel_backend(wheel));
	return MOSQ_ERR_SUCCESS;
}

static uint64_t deadline(const struct mosquitto *context)
{
	return twheel_after(wheel, context->keepalive * 1500000000ULL);
}

int keepalive__add(struct mosquitto *context)
{
	int rc = wheel ? MOSQ_ERR_SUCCESS : open_wheel();

	if (rc || !context->keepalive || context->bridge)
		return rc;
	keepalive__remove(context);
	if (twheel_add(wheel, deadline(context), (uintptr_t)context, &context->keepalive_timer))
		return MOSQ_ERR_NOMEM;
	return MOSQ_ERR_SUCCESS;
}

/* The main loop calls this in each turn. One event at a time, as none is stale then. */
void keepalive__check(void)
{
	struct twheel_event event;

	while (wheel && twheel_read(wheel, &event, 1) == 1)
		do_disconnect((struct mosquitto *)(uintptr_t)event.user_data, MOSQ_ERR_KEEPALIVE);
}

int keepalive__remove(struct mosquitto *context)
{
	if (context->keepalive_timer)
		twheel_del(wheel, context->keepalive_timer);
	context->keepalive_timer = 0;
	return MOSQ_ERR_SUCCESS;
}

void keepalive__remove_all(void)
{
	twheel_close(wheel);
	wheel = NULL;
}

/* A heartbeat. */
int keepalive__update(struct mosquitto *context)
{
	context->last_msg_in = db.now_s;
	if (context->keepalive_timer)
		twheel_set(wheel, context->keepalive_timer, deadline(context));
	return MOSQ_ERR_SUCCESS;
}
