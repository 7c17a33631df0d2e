// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* Waiting, waking and reading. */
#include "internal.h"

#include <limits.h>
#include <poll.h>

/*
 * Keeps those of the @n events that the caller is to get, with this process's ids and
 * user_data. The caller holds cold.reading. Return: their number.
 */
static unsigned int filter(struct twheel *w, struct twheel_event *events, unsigned int n)
{
	unsigned int i, kept = 0;

	for (i = 0; i < n; i++) {
		struct twheel_event *event = &events[i];
		struct shadow *shadow = find_shadow(w, event->id);

		if (shadow && load64(&shadow->kernel_id) == event->id) {
			uint64_t id = load64(&shadow->id);

			/* Another process with the descriptor may have armed this timer. */
			if (!id || !is_set(&shadow->armed))
				continue;
			if (!is_set(&shadow->custom))
				__atomic_store_n(&shadow->armed, 0, __ATOMIC_RELAXED);
			if (w->special & SPECIAL_TSAN)
				__tsan_acquire(shadow);
			event->id = id;
			event->user_data = load64(&shadow->user_data);
		} else if (event->user_data == WAKE_DATA && event->deadline_ns == WAKE_DEADLINE) {
			continue;
		}
		events[kept++] = *event;
	}
	return kept;
}

TWHEEL_PUBLIC int twheel_read(struct twheel *w, struct twheel_event *events, unsigned int n)
{
	int ret, cancellable;
	unsigned int kept = 0;

	if (is_child(w))
		return -ECHILD;
	if (!n)
		return -EINVAL;
	if (n > INT_MAX / sizeof(*events))
		n = INT_MAX / sizeof(*events);

	/*
	 * An event on its way from the backend to the caller is neither withdrawn nor read
	 * yet. Threads that need to know wait for this lock, so a reader must not be
	 * canceled here.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
	take_lock(&w->cold->reading);
	do {
		ret = w->cold->backend->read(w, events, n);
		if (ret > 0)
			kept = filter(w, events, ret);
	} while (ret > 0 && !kept);
	drop_lock(&w->cold->reading);
	pthread_setcancelstate(cancellable, NULL);
	return ret < 0 ? ret : (int)kept;
}

TWHEEL_PUBLIC int twheel_wait(struct twheel *w, int64_t timeout_ns)
{
	struct pollfd pollfd = { .events = POLLIN };
	struct timespec ts, *limit = NULL;
	int ret, cancellable;
	uint64_t until = 0;
	bool ready;

	if (is_child(w))
		return -ECHILD;
	pollfd.fd = w->cold->fd;
	if (timeout_ns > 0)
		until = twheel__clock(CLOCK_MONOTONIC) + timeout_ns;
	for (;;) {
		if (timeout_ns >= 0) {
			ts.tv_sec = timeout_ns / NSEC_PER_SEC;
			ts.tv_nsec = timeout_ns % NSEC_PER_SEC;
			/* A 32-bit time_t ends after 68 years: wait for ever instead. */
			limit = ts.tv_sec == (int64_t)(timeout_ns / NSEC_PER_SEC) ? &ts : NULL;
		}
		ret = ppoll(&pollfd, 1, limit, NULL);
		if (ret < 0)
			return -errno;
		/* ready() holds the lock: a thread that is canceled there would keep it. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
		ready = w->cold->backend->ready(w, ret);
		pthread_setcancelstate(cancellable, NULL);
		if (ready)
			return 1;
		if (!ret)
			return 0;
		/* The turn made no event. */
		if (timeout_ns >= 0) {
			uint64_t now = twheel__clock(CLOCK_MONOTONIC);

			timeout_ns = until > now ? until - now : 0;
		}
	}
}

TWHEEL_PUBLIC uint64_t twheel_next(const struct twheel *w)
{
	return is_child(w) ? UINT64_MAX : w->cold->backend->next((struct twheel *)w);
}

/*
 * Makes the timer of twheel_wake(), which expires at once. A full wheel, such as one that
 * others share, has no room for it: twheel_wake() then tries again.
 *
 * A process that is killed leaves this timer in a shared wheel, perhaps with an unread event.
 * Each process knows such a timer by its user_data and deadline, so filter() drops the
 * events of all.
 */
void twheel__make_wake_timer(struct twheel *w)
{
	struct twheel_op op = {
		.opcode = TWHEEL_OP_REGISTER,
		.timer.flags = TWHEEL_KEEP | TWHEEL_DISARMED,
		.timer.user_data = WAKE_DATA,
	};

	if (w->cold->backend->exec(w, &op, 1) == 1 && !op.result)
		w->cold->wake_id = op.timer.id;
}

/* Arms the timer of twheel_wake(). The caller holds cold.reading. */
static int wake(struct twheel *w)
{
	struct twheel_op op = {
		.opcode = TWHEEL_OP_REARM,
		.timer.flags = TWHEEL_KEEP | TWHEEL_ABSTIME,
		.timer.deadline_ns = WAKE_DEADLINE,
		.timer.user_data = WAKE_DATA,
		.timer.id = w->cold->wake_id,
	};
	int ret = w->cold->backend->exec(w, &op, 1);

	/* The timer does not exist yet, or another process has cancelled it. */
	if (ret == 1 && op.result == -ENOENT) {
		op.opcode = TWHEEL_OP_REGISTER;
		ret = w->cold->backend->exec(w, &op, 1);
		__atomic_store_n(&w->cold->wake_id, ret == 1 && !op.result ? op.timer.id : 0,
				 __ATOMIC_RELAXED);
	}
	return ret < 0 ? ret : op.result;
}

TWHEEL_PUBLIC int twheel_wake(struct twheel *w)
{
	int ret;

	if (is_child(w))
		return -ECHILD;
	take_lock(&w->cold->reading);
	ret = wake(w);
	drop_lock(&w->cold->reading);
	return ret;
}
