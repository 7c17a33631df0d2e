// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* Waiting, waking and reading. */
#include "internal.h"

#include <limits.h>
#include <poll.h>

/*
 * Arms a timer again whose event came while twheel_replace() changed it, a tick from now: if the
 * reader kept the processor busy, the other thread might never finish. The caller holds
 * cold.reading, and the word is 0, so that no other thread arms it.
 */
static void postpone(struct twheel *w, struct shadow *shadow, uint64_t kernel_id)
{
	struct twheel_op op = {
		.opcode = TWHEEL_OP_REARM,
		.timer.id = kernel_id,
		.timer.flags = TWHEEL_KEEP | TWHEEL_ABSTIME,
		.timer.deadline_ns = twheel_after(w, w->cold->info.tick_ns),
		.timer.slack_ns = w->cold->slack_ns,
	};

	w->cold->backend->exec(w, &op, 1);
	/* Another process has canceled the timer. */
	if (op.result == -ENOENT)
		twheel__lose(w, shadow, kernel_id);
}

/*
 * Removes the events that the program must not see, and gives the others the ids and user_data of
 * this process. The caller holds cold.reading. Return: how many are left.
 */
static unsigned int filter(struct twheel *w, struct twheel_event *events, unsigned int n)
{
	unsigned int i, kept = 0;

	for (i = 0; i < n; i++) {
		struct twheel_event *event = &events[i];
		struct shadow *shadow = find_shadow(w, event->id);

		if (shadow && load64(&shadow->kernel_id) == event->id) {
			/* Before user_data, which twheel_replace() stores first. */
			uint64_t id = __atomic_load_n(&shadow->id, __ATOMIC_ACQUIRE);

			/* Another process with the descriptor may have armed this timer. */
			if (!id || !is_set(&shadow->armed))
				continue;
			if (unlikely(id == REPLACING)) {
				postpone(w, shadow, event->id);
				continue;
			}
			if (!is_set(&shadow->custom))
				__atomic_store_n(&shadow->armed, 0, __ATOMIC_RELAXED);
			tell_event(w, shadow);
			event->id = id;
			event->user_data = load64(&shadow->user_data);
		} else if (event->user_data == WAKE_DATA && event->deadline_ns == WAKE_DEADLINE) {
			continue;
		} else {
			tell_event(w, NULL);
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
	 * An event on its way from the backend to the caller can no longer be withdrawn, and has
	 * not been read yet. A thread that arms or deletes such a timer waits for this lock, so
	 * a reader must not be canceled while it holds the lock.
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
			/* A 32-bit time_t ends after 68 years, so wait without a limit instead. */
			limit = ts.tv_sec == (int64_t)(timeout_ns / NSEC_PER_SEC) ? &ts : NULL;
		}
		ret = ppoll(&pollfd, 1, limit, NULL);
		if (ret < 0)
			return -errno;
		/* A thread that is canceled in ready() would never release the lock. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
		ready = w->cold->backend->ready(w, ret);
		pthread_setcancelstate(cancellable, NULL);
		if (ready)
			return 1;
		if (!ret)
			return 0;
		/* The descriptor was readable because of a turn that made no event. */
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
 * Makes the timer with which twheel_wake() ends a wait, by letting it expire at once. If a shared
 * wheel is full, there is no room for this timer, and twheel_wake() tries again.
 *
 * If a process is killed, its timer stays in the shared wheel, perhaps with an unread event. Its
 * user_data and deadline identify it in every process, so filter() drops the events of all such
 * timers.
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

	/* The timer does not exist yet, or another process has canceled it. */
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
