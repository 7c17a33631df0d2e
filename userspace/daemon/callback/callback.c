// SPDX-License-Identifier: GPL-2.0
/*
 * Callbacks: one HTTP request for each attempt, by libcurl.
 *
 * A struct callback keeps its easy handle when a request ends, and waits in a
 * pool for the next. Options that never change are set once, in new_callback().
 *
 * Lifetime: a request is on the list "running" from callback_start() until
 * finish() or callback_abort(). libcurl calls back into this file only between
 * these two. done() runs when libcurl is not on the stack.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <curl/curl.h>

#include "callback/callback.h"
#include "callback/header.h"
#include "callback/sign.h"
#include "ground/now.h"

#define POOL_MAX		256
#define EXCERPT_MAX		160
#define TIMEOUT_DEFAULT_MS	10000
#define TIMEOUT_MAX_MS		(15 * 60 * 1000)
/* A server that does not answer within a shorter timeout may be well. */
#define TIMEOUT_FAIR_MS		1000
/* After this a connection is closed, so that a host can move. */
#define CONNECTION_LIFE_S	600
/* Many servers close an idle connection after 5 s. libcurl only counts whole seconds. */
#define CONNECTION_IDLE_S	3
#define USER_AGENT		"twheeld"

/**
 * struct callback - one request, or one in the pool
 * @c: its callbacks
 * @next: in the list that it is on
 * @prev: the link that points to it; running only
 * @easy: its handle
 * @headers: of the request
 * @user: for done()
 * @started_us: on CLOCK_MONOTONIC
 * @timeout_ms: of the request
 * @status: of the last status line; 0: none yet
 * @headers_done: the headers of the final answer have ended
 * @stopped: we ended the transfer, for its answer was large enough
 * @accepted: addresses that were not refused
 * @refused: kind of an address that was refused, or NULL
 * @refused_addr: this address
 * @backing_off: the caller refused a connection to an address, because that backs off
 * @address: the last one that was accepted, and the port
 * @no_socket: there was none for an address that was accepted
 * @sent: libcurl has begun to send the request
 * @broken: libcurl wanted to send it again, because its connection broke
 * @got: bytes of the answer
 * @excerpt: its beginning, printable
 * @excerpt_len: length of that
 * @why: libcurl's text of an error
 */
struct callback {
	struct callbacks *c;
	struct callback *next;
	struct callback **prev;
	CURL *easy;
	struct curl_slist *headers;
	void *user;
	uint64_t started_us;
	uint64_t timeout_ms;
	int status;
	bool headers_done;
	bool stopped;
	unsigned int accepted;
	const char *refused;
	char refused_addr[INET6_ADDRSTRLEN];
	bool backing_off;
	char address[CALLBACK_ADDRESS_LEN];
	bool no_socket;
	bool sent;
	bool broken;
	size_t got;
	char excerpt[EXCERPT_MAX + 1];
	size_t excerpt_len;
	char why[CURL_ERROR_SIZE];
};

struct callbacks {
	struct callback_loop loop;
	struct callback_options opt;
	struct network *allow;
	struct signer *signer;
	CURLM *multi;
	struct curl_slist *resolve;
	struct callback *running;
	struct callback *pool;
	unsigned int count;
	unsigned int pooled;
};

static uint64_t now_us(void)
{
	return now_ns(CLOCK_MONOTONIC) / NSEC_PER_USEC;
}

/* ---- what libcurl calls ---- */

/* Return: the port. */
static unsigned int address_text(const struct sockaddr *sa, char text[INET6_ADDRSTRLEN])
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)sa;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;
	bool six = sa->sa_family == AF_INET6;

	if (!inet_ntop(sa->sa_family, six ? (const void *)&in6->sin6_addr :
		       (const void *)&in->sin_addr, text, INET6_ADDRSTRLEN))
		*text = '\0';
	return ntohs(six ? in6->sin6_port : in->sin_port);
}

static bool may_connect(struct callback *cb, const struct sockaddr *sa)
{
	const struct callback_loop *loop = &cb->c->loop;
	char text[INET6_ADDRSTRLEN], address[CALLBACK_ADDRESS_LEN];
	unsigned int port = address_text(sa, text);

	snprintf(address, sizeof(address), "%s %u", text, port);
	if (loop->may_connect && !loop->may_connect(loop->arg, cb->user, address))
		return false;
	memcpy(cb->address, address, sizeof(address));
	return true;
}

/* The name has been resolved. Checks the address, then opens the socket for it. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose,
				 struct curl_sockaddr *addr)
{
	struct callback *cb = arg;
	const char *kind;
	int fd;

	(void)purpose;
	if (cb->sent) {
		cb->broken = true;
		return CURL_SOCKET_BAD;
	}
	kind = address_refused(&addr->addr, cb->c->allow, cb->c->opt.allows);
	if (kind) {
		address_text(&addr->addr, cb->refused_addr);
		cb->refused = kind;
		return CURL_SOCKET_BAD;
	}
	if (!may_connect(cb, &addr->addr)) {
		cb->backing_off = true;
		return CURL_SOCKET_BAD;
	}
	cb->accepted++;
	fd = socket(addr->family, addr->socktype | SOCK_CLOEXEC, addr->protocol);
	cb->no_socket = fd < 0;
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/*
 * If a connection that was used before ends without an answer, libcurl sends the request again, up
 * to five times. That must be a new attempt, because the endpoint may have done the work.
 */
static int begin_sending(void *arg, char *to, char *from, int to_port, int from_port)
{
	struct callback *cb = arg;

	(void)to;
	(void)from;
	(void)to_port;
	(void)from_port;
	cb->broken = cb->sent;
	cb->sent = true;
	return cb->broken ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* Handles one line of the headers, including its end. */
static size_t take_header(char *line, size_t size, size_t count, void *arg)
{
	struct callback *cb = arg;
	size_t len = size * count;

	if (len >= 12 && !strncmp(line, "HTTP/", 5)) {
		const char *space = memchr(line, ' ', len);

		cb->status = 0;
		cb->headers_done = false;
		if (space && line + len - space > 3)
			cb->status = (int)strtol(space + 1, NULL, 10);
		/*
		 * An endpoint may take its time before it answers, but may not send the answer
		 * slowly.
		 */
		curl_easy_setopt(cb->easy, CURLOPT_LOW_SPEED_LIMIT,
				 (long)cb->c->opt.low_speed_bytes);
		curl_easy_setopt(cb->easy, CURLOPT_LOW_SPEED_TIME,
				 (long)cb->c->opt.low_speed_s);
	}
	if (len <= 2 && (*line == '\r' || *line == '\n'))
		cb->headers_done = cb->status >= 200;
	cb->got += len;
	return cb->got <= cb->c->opt.answer_max ? len : 0;
}

static size_t take_answer(char *data, size_t size, size_t count, void *arg)
{
	struct callback *cb = arg;
	size_t len = size * count, i;

	for (i = 0; i < len && cb->excerpt_len < EXCERPT_MAX; i++) {
		char c = data[i];

		cb->excerpt[cb->excerpt_len++] = c >= ' ' && c < 0x7f ? c :
						 c == '\n' || c == '\t' ? ' ' : '?';
	}
	cb->got += len;
	if (cb->got <= cb->c->opt.answer_max)
		return len;
	cb->stopped = true;
	return 0;
}

static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
	struct callbacks *c = arg;
	int events = 0;

	(void)easy;
	(void)unused;
	if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
		events |= EPOLLIN;
	if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
		events |= EPOLLOUT;
	c->loop.watch(c->loop.arg, fd, events);
	return 0;
}

static int set_timer(CURLM *multi, long ms, void *arg)
{
	struct callbacks *c = arg;

	(void)multi;
	c->loop.timer(c->loop.arg, ms);
	return 0;
}

/* ---- requests ---- */

static void free_callback(struct callback *cb)
{
	curl_easy_cleanup(cb->easy);
	free(cb);
}

static struct callback *new_callback(struct callbacks *c)
{
	struct callback *cb = calloc(1, sizeof(*cb));
	CURL *e;

	if (!cb)
		return NULL;
	e = curl_easy_init();
	if (!e) {
		free(cb);
		return NULL;
	}
	cb->c = c;
	cb->easy = e;
	curl_easy_setopt(e, CURLOPT_PRIVATE, cb);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, cb->why);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_NOPROGRESS, 1L);
	curl_easy_setopt(e, CURLOPT_USERAGENT, USER_AGENT);
	/*
	 * Allow only these two schemes, no redirects, no proxy, and nothing from the environment.
	 */
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(e, CURLOPT_PROXY, "");
	curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	curl_easy_setopt(e, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
#if LIBCURL_VERSION_NUM >= 0x075700
	/* The end of a request does not wait for the thread that resolves its name. */
	curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
#endif
	/*
	 * Use a connection for one request at a time, so that a slow request does not hold up
	 * another.
	 */
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_MAXLIFETIME_CONN, (long)CONNECTION_LIFE_S);
	curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, (long)CONNECTION_IDLE_S);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)c->opt.connect_timeout_ms);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, cb);
	curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, begin_sending);
	curl_easy_setopt(e, CURLOPT_PREREQDATA, cb);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, cb);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_answer);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, cb);
	if (c->resolve)
		curl_easy_setopt(e, CURLOPT_RESOLVE, c->resolve);
	if (c->opt.ca_file)
		curl_easy_setopt(e, CURLOPT_CAINFO, c->opt.ca_file);
	return cb;
}

/* Returns a handle from the pool, or a new one. */
static struct callback *get_callback(struct callbacks *c)
{
	struct callback *cb = c->pool;

	if (!cb)
		return new_callback(c);
	c->pool = cb->next;
	c->pooled--;
	return cb;
}

/* Lets go of the memory of the request, and returns the handle to the pool. */
static void put_callback(struct callback *cb)
{
	struct callbacks *c = cb->c;

	/* The memory of POSTFIELDS belongs to the caller. */
	curl_easy_setopt(cb->easy, CURLOPT_POSTFIELDS, NULL);
	curl_easy_setopt(cb->easy, CURLOPT_HTTPHEADER, NULL);
	curl_slist_free_all(cb->headers);
	cb->headers = NULL;
	if (c->pooled == POOL_MAX) {
		free_callback(cb);
		return;
	}
	cb->next = c->pool;
	c->pool = cb;
	c->pooled++;
}

static void set_request(struct callback *cb, const struct callback_request *req)
{
	const struct task_body *b = req->body;
	uint64_t timeout = req->timeout_ms ? req->timeout_ms : b->timeout_ms;
	bool has_body = b->payload_len || b->method == BODY_POST ||
			b->method == BODY_PUT || b->method == BODY_PATCH;
	CURL *e = cb->easy;

	if (!timeout)
		timeout = TIMEOUT_DEFAULT_MS;
	if (timeout > TIMEOUT_MAX_MS)
		timeout = TIMEOUT_MAX_MS;
	cb->timeout_ms = timeout;
	curl_easy_setopt(e, CURLOPT_URL, b->url);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, cb->headers);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)timeout);
	curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 0L);
	curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, 0L);
	if (has_body) {
		curl_easy_setopt(e, CURLOPT_POST, 1L);
		curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE, (long)b->payload_len);
		curl_easy_setopt(e, CURLOPT_POSTFIELDS,
				 b->payload_len ? (const char *)b->payload : "");
	} else {
		curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);
	}
	curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, body_method_name(b->method));
}

static void reset(struct callback *cb, void *user)
{
	cb->user = user;
	cb->started_us = now_us();
	cb->status = 0;
	cb->headers_done = false;
	cb->stopped = false;
	cb->accepted = 0;
	cb->refused = NULL;
	cb->backing_off = false;
	*cb->address = '\0';
	cb->no_socket = false;
	cb->sent = false;
	cb->broken = false;
	cb->got = 0;
	cb->excerpt_len = 0;
	*cb->why = '\0';
}

static void link_running(struct callbacks *c, struct callback *cb)
{
	cb->next = c->running;
	cb->prev = &c->running;
	if (cb->next)
		cb->next->prev = &cb->next;
	c->running = cb;
	c->count++;
}

static void unlink_running(struct callback *cb)
{
	*cb->prev = cb->next;
	if (cb->next)
		cb->next->prev = cb->prev;
	cb->c->count--;
}

int callback_start(struct callbacks *c, const struct callback_request *req,
		   struct callback **out)
{
	struct callback *cb;
	int err;

	if (!req->body->url || url_refused(req->body->url))
		return -EINVAL;
	cb = get_callback(c);
	if (!cb)
		return -ENOMEM;
	reset(cb, req->user);
	err = callback_headers(req, c->signer, &cb->headers);
	if (!err) {
		set_request(cb, req);
		if (curl_multi_add_handle(c->multi, cb->easy))
			err = -ENOMEM;
	}
	if (err) {
		put_callback(cb);
		return err;
	}
	link_running(c, cb);
	if (out)
		*out = cb;
	return 0;
}

void callback_abort(struct callbacks *c, struct callback *cb)
{
	curl_multi_remove_handle(c->multi, cb->easy);
	unlink_running(cb);
	put_callback(cb);
}

unsigned int callbacks_running(const struct callbacks *c)
{
	return c->count;
}

/* ---- the end of a request ---- */

static void judge_status(struct callback *cb, struct callback_result *r)
{
	curl_off_t wait = 0;

	r->status = cb->status;
	if (cb->status >= 200 && cb->status < 300) {
		r->verdict = CALLBACK_OK;
		return;
	}
	r->verdict = cb->status == 410 ? CALLBACK_DEAD : CALLBACK_RETRY;
	if (cb->status == 429 || cb->status == 503)
		curl_easy_getinfo(cb->easy, CURLINFO_RETRY_AFTER, &wait);
	if (wait > 0) {
		r->has_retry_after = true;
		r->retry_after_ms = CALLBACK_RETRY_AFTER_MAX_MS;
		if ((uint64_t)wait < CALLBACK_RETRY_AFTER_MAX_MS / 1000)
			r->retry_after_ms = (uint64_t)wait * 1000;
	}
	cb->excerpt[cb->excerpt_len] = '\0';
	snprintf(r->error, sizeof(r->error), "HTTP %d%s%s", cb->status,
		 cb->excerpt_len ? ": " : "", cb->excerpt);
}

/* If the connection was used before, no socket was opened for this request. */
static void note_address(struct callback *cb, struct callback_result *r)
{
	const char *ip = NULL;
	long port = 0;

	memcpy(r->address, cb->address, sizeof(r->address));
	if (*r->address || curl_easy_getinfo(cb->easy, CURLINFO_PRIMARY_IP, &ip) || !ip || !*ip ||
	    curl_easy_getinfo(cb->easy, CURLINFO_PRIMARY_PORT, &port))
		return;
	snprintf(r->address, sizeof(r->address), "%.45s %ld", ip, port);
}

static void judge(struct callback *cb, CURLcode code, struct callback_result *r)
{
	char *p;

	*r = (struct callback_result){
		.verdict = CALLBACK_RETRY,
		.took_us = now_us() - cb->started_us,
	};
	note_address(cb, r);
	/* If we cut the answer off, its status is still valid. */
	if (code == CURLE_OK || (cb->stopped && cb->headers_done)) {
		judge_status(cb, r);
		return;
	}
	if (cb->backing_off && !cb->accepted) {
		r->verdict = CALLBACK_NOT_SENT;
		r->backing_off = true;
		return;
	}
	if (cb->refused && !cb->accepted) {
		r->verdict = CALLBACK_DEAD;
		snprintf(r->error, sizeof(r->error), "refused: %s is a %s address, which "
			 "callback-allow does not include", cb->refused_addr, cb->refused);
		return;
	}
	if (code == CURLE_COULDNT_CONNECT && cb->no_socket)
		r->verdict = CALLBACK_NOT_SENT;
	r->short_timeout = code == CURLE_OPERATION_TIMEDOUT && cb->timeout_ms < TIMEOUT_FAIR_MS;
	if (cb->broken)
		snprintf(r->error, sizeof(r->error), "the connection ended without an answer");
	else if (code == CURLE_WRITE_ERROR && !cb->headers_done)
		snprintf(r->error, sizeof(r->error), "the headers of the answer are too long");
	else
		snprintf(r->error, sizeof(r->error), "%.200s",
			 *cb->why ? cb->why : curl_easy_strerror(code));
	for (p = r->error; *p; p++)
		if (*p < ' ' || *p >= 0x7f)
			*p = '?';
}

static void finish(struct callbacks *c)
{
	CURLMsg *msg;
	int left;

	while ((msg = curl_multi_info_read(c->multi, &left))) {
		struct callback_result result;
		struct callback *cb;
		CURLcode code;
		void *user;

		if (msg->msg != CURLMSG_DONE)
			continue;
		code = msg->data.result;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&cb);
		judge(cb, code, &result);
		user = cb->user;
		callback_abort(c, cb);
		c->loop.done(c->loop.arg, user, &result);
	}
}

void callbacks_ready(struct callbacks *c, int fd, uint32_t events)
{
	int what = 0, running;

	if (events & EPOLLIN)
		what |= CURL_CSELECT_IN;
	if (events & EPOLLOUT)
		what |= CURL_CSELECT_OUT;
	if (events & (EPOLLERR | EPOLLHUP))
		what |= CURL_CSELECT_ERR;
	curl_multi_socket_action(c->multi, fd, what, &running);
	finish(c);
}

void callbacks_timeout(struct callbacks *c)
{
	int running;

	curl_multi_socket_action(c->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	finish(c);
}

/* ---- creation ---- */

static void set_defaults(struct callback_options *opt)
{
	if (!opt->concurrency)
		opt->concurrency = 1000;
	if (!opt->connect_timeout_ms)
		opt->connect_timeout_ms = 5000;
	if (!opt->low_speed_bytes)
		opt->low_speed_bytes = 64;
	if (!opt->low_speed_s)
		opt->low_speed_s = 10;
	if (!opt->answer_max)
		opt->answer_max = 65536;
}

int callbacks_change(struct callbacks *c, const struct callback_options *opt)
{
	struct network *allow = calloc(opt->allows + 1, sizeof(*allow));
	struct signer *signer = signer_new(opt->secret, opt->secrets);

	if (!allow || !signer) {
		signer_free(signer);
		free(allow);
		return -ENOMEM;
	}
	if (opt->allows)
		memcpy(allow, opt->allow, opt->allows * sizeof(*allow));
	free(c->allow);
	c->allow = allow;
	c->opt.allows = opt->allows;
	signer_free(c->signer);
	c->signer = signer;
	c->opt.concurrency = opt->concurrency;
	set_defaults(&c->opt);
	curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)c->opt.concurrency);
	return 0;
}

/* Copies what the pointers in the options refer to. */
static bool copy_options(struct callbacks *c, const struct callback_options *opt)
{
	const char *const *line;

	for (line = opt->resolve; line && *line; line++) {
		struct curl_slist *longer = curl_slist_append(c->resolve, *line);

		if (!longer)
			return false;
		c->resolve = longer;
	}
	return !callbacks_change(c, opt);
}

struct callbacks *callbacks_new(const struct callback_loop *loop,
				const struct callback_options *opt)
{
	struct callbacks *c;

	if (curl_global_init(CURL_GLOBAL_DEFAULT))
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c) {
		curl_global_cleanup();
		return NULL;
	}
	c->loop = *loop;
	c->opt = *opt;
	set_defaults(&c->opt);
	c->multi = curl_multi_init();
	if (!c->multi || !copy_options(c, opt)) {
		callbacks_free(c);
		return NULL;
	}
	curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
	curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
	curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
	curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	return c;
}

void callbacks_free(struct callbacks *c)
{
	struct callback *cb;

	if (!c)
		return;
	while (c->running)
		callback_abort(c, c->running);
	while ((cb = c->pool)) {
		c->pool = cb->next;
		free_callback(cb);
	}
	curl_multi_cleanup(c->multi);
	curl_slist_free_all(c->resolve);
	signer_free(c->signer);
	free(c->allow);
	free(c);
	curl_global_cleanup();
}
