/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Callbacks: one HTTP request for each attempt, by libcurl.
 *
 * The caller owns the loop. It gives two functions at creation. watch() says
 * which descriptors to look at, and timer() sets the one timeout. The caller
 * answers by callbacks_ready() and callbacks_timeout(). Only these two call
 * done(). They may never be called from done(); callback_start() and
 * callback_abort() may.
 *
 * Everything runs in the thread of the loop. libcurl resolves names in threads
 * of its own.
 */
#ifndef TWHEELD_CALLBACK_CALLBACK_H
#define TWHEELD_CALLBACK_CALLBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "callback/request.h"
#include "config/address.h"
#include "config/config.h"

#define CALLBACK_ERROR_MAX	256
#define CALLBACK_ADDRESS_LEN	64
#define CALLBACK_RETRY_AFTER_MAX_MS	(24 * 3600 * 1000ULL)

struct callbacks;
struct callback;

enum callback_verdict {
	/* 2xx */
	CALLBACK_OK,
	/* Everything else. */
	CALLBACK_RETRY,
	/* 410, or an address that is not allowed. */
	CALLBACK_DEAD,
	/*
	 * No attempt, because this machine had no socket for it, or all addresses of the host back
	 * off.
	 */
	CALLBACK_NOT_SENT,
};

/**
 * struct callback_result - how a request ended
 * @verdict: what it means for the task
 * @status: HTTP status; 0 if there was no answer
 * @has_retry_after: 429 or 503 with a valid Retry-After
 * @retry_after_ms: at most a day; a retry must not be sooner
 * @took_us: from callback_start() to the end
 * @error: printable ASCII; empty for CALLBACK_OK
 * @backing_off: CALLBACK_NOT_SENT, because may_connect() refused all addresses
 * @short_timeout: there was no answer within a timeout that is too short to blame the server
 * @address: that it went to, or tried last, with the port; empty: there was none
 */
struct callback_result {
	enum callback_verdict verdict;
	int status;
	bool has_retry_after;
	uint64_t retry_after_ms;
	uint64_t took_us;
	char error[CALLBACK_ERROR_MAX + 1];
	bool backing_off;
	bool short_timeout;
	char address[CALLBACK_ADDRESS_LEN];
};

/**
 * struct callback_loop - what the caller's loop does
 * @arg: first argument of all
 * @watch: look at @fd for @events, EPOLLIN and EPOLLOUT or both; 0: no longer.
 *	The descriptor may be closed just afterwards
 * @timer: call callbacks_timeout() in @ms milliseconds; 0: soon, but not from
 *	here; -1: never. It replaces the last one
 * @done: a request ended. @cb is gone afterwards; @user is of its start
 * @may_connect: true if a new connection may go to an address; NULL: it always may
 */
struct callback_loop {
	void *arg;
	void (*watch)(void *arg, int fd, int events);
	void (*timer)(void *arg, long ms);
	void (*done)(void *arg, void *user, const struct callback_result *result);
	bool (*may_connect)(void *arg, void *user, const char *address);
};

/**
 * struct callback_options - limits; zero means the default
 * @concurrency: requests that the caller has at once; so many connections stay open (1000)
 * @connect_timeout_ms: name, connection and TLS (5 s)
 * @low_speed_bytes: an answer that is slower is ended, bytes a second (64) ...
 * @low_speed_s: ... over as many seconds (10)
 * @answer_max: bytes of an answer that are read (64 KiB)
 * @allow: networks that are accepted in any case; copied
 * @allows: how many
 * @secret: keys that sign; copied
 * @secrets: 0 to 2
 * @ca_file: for tests: CA certificates; NULL: those of the system
 * @resolve: for tests: "host:port:address" lines as of CURLOPT_RESOLVE; NULL
 */
struct callback_options {
	unsigned int concurrency;
	uint64_t connect_timeout_ms;
	unsigned int low_speed_bytes;
	unsigned int low_speed_s;
	size_t answer_max;
	const struct network *allow;
	size_t allows;
	const struct secret *secret;
	size_t secrets;
	const char *ca_file;
	const char *const *resolve;
};

/**
 * callbacks_new() - prepare
 * @loop: the caller's loop; copied
 * @opt: limits; copied
 *
 * Return: NULL without memory.
 */
struct callbacks *callbacks_new(const struct callback_loop *loop,
				const struct callback_options *opt);

/**
 * callbacks_change() - give requests that begin from now on other networks and keys
 * @c: the callbacks
 * @opt: its concurrency, networks and keys count
 *
 * Return: 0, or -ENOMEM: nothing is changed.
 */
int callbacks_change(struct callbacks *c, const struct callback_options *opt);

/**
 * callbacks_free() - abort all requests without done(), and free
 * @c: may be NULL
 */
void callbacks_free(struct callbacks *c);

/**
 * callback_start() - begin a request
 * @c: the callbacks
 * @req: the attempt
 * @out: the request, for callback_abort(); may be NULL
 *
 * done() is never called from here.
 *
 * Return: 0; -EINVAL: the URL or a header is refused, so that the task is dead;
 * -ENOMEM.
 */
int callback_start(struct callbacks *c, const struct callback_request *req,
		   struct callback **out);

/**
 * callback_abort() - end a request without done()
 * @c: the callbacks
 * @cb: the request
 */
void callback_abort(struct callbacks *c, struct callback *cb);

/**
 * callbacks_running() - how many requests run
 * @c: the callbacks
 */
unsigned int callbacks_running(const struct callbacks *c);

/**
 * callbacks_ready() - a watched descriptor has events
 * @c: the callbacks
 * @fd: the descriptor; one that is not watched any more is ignored
 * @events: of epoll
 */
void callbacks_ready(struct callbacks *c, int fd, uint32_t events);

/**
 * callbacks_timeout() - the timeout has passed
 * @c: the callbacks
 */
void callbacks_timeout(struct callbacks *c);

#endif /* TWHEELD_CALLBACK_CALLBACK_H */
