// SPDX-License-Identifier: GPL-2.0
/*
 * Looks up addresses by name, in a thread. See resolve.h.
 *
 * An address needs no thread, so it works even while a name server hangs.
 *
 * Lifetime: the loop and the thread hold a reference each, and the last one frees the struct.
 */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/config.h"
#include "redis/resolve.h"

/* Limits the threads, because a name server may hang for a long time, and each try leaves one. */
#define THREADS_MAX	64

static atomic_uint threads;

/**
 * struct resolve - a question
 * @references: of the loop and of the thread
 * @fd: an eventfd, written to when @list is there
 * @list: the answer
 * @error: of getaddrinfo()
 * @done: @list and @error are the thread's no more
 * @host: what is asked
 * @port: for the answer
 */
struct resolve {
	atomic_int references;
	int fd;
	struct addrinfo *list;
	int error;
	atomic_bool done;
	char host[sizeof(((struct redis_node *)0)->host)];
	char port[8];
};

void resolve_free(struct resolve *r)
{
	if (!r || atomic_fetch_sub(&r->references, 1) > 1)
		return;
	if (r->list)
		freeaddrinfo(r->list);
	close(r->fd);
	free(r);
}

static void answer(struct resolve *r, int flags)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };

	r->error = getaddrinfo(r->host, r->port, &hints, &r->list);
	if (r->error)
		r->list = NULL;
}

static void tell(struct resolve *r)
{
	/* In C, reading the eventfd does not order the memory accesses of the threads. */
	atomic_store(&r->done, true);
	eventfd_write(r->fd, 1);
}

static void *ask(void *arg)
{
	struct resolve *r = arg;

	answer(r, AI_ADDRCONFIG);
	tell(r);
	resolve_free(r);
	atomic_fetch_sub(&threads, 1);
	return NULL;
}

/* The thread blocks all signals, because they are for the loop. */
static int start_thread(struct resolve *r)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int ret;

	if (atomic_fetch_add(&threads, 1) >= THREADS_MAX) {
		atomic_fetch_sub(&threads, 1);
		return -EAGAIN;
	}
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&thread, &attr, ask, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (ret)
		atomic_fetch_sub(&threads, 1);
	return -ret;
}

struct resolve *resolve_start(const char *host, uint16_t port)
{
	struct resolve *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	snprintf(r->host, sizeof(r->host), "%s", host);
	snprintf(r->port, sizeof(r->port), "%u", port);
	r->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (r->fd < 0) {
		free(r);
		return NULL;
	}
	r->references = 1;
	answer(r, AI_NUMERICHOST);
	if (!r->error) {
		tell(r);
		return r;
	}
	r->references = 2;
	if (start_thread(r)) {
		r->references = 1;
		resolve_free(r);
		return NULL;
	}
	return r;
}

int resolve_fd(const struct resolve *r)
{
	return r->fd;
}

const struct addrinfo *resolve_list(const struct resolve *r)
{
	return atomic_load(&r->done) ? r->list : NULL;
}

const char *resolve_why(const struct resolve *r)
{
	return atomic_load(&r->done) ? gai_strerror(r->error) : "no answer yet";
}
