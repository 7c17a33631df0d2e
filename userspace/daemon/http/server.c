// SPDX-License-Identifier: GPL-2.0
/*
 * The HTTP server: connections, authentication, answers. See api.h.
 *
 * libmicrohttpd runs at the end of a turn, once. A request without an answer is
 * suspended, and resumed by its answer.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <microhttpd.h>

#include "ground/log.h"
#include "http/access.h"
#include "http/request.h"
#include "http/routes.h"
#include "http/server.h"
#include "work/work.h"

#define CLIENTS_MAX	1000
#define IDLE_S		75
/* Maximum size of the bodies of all requests that are being received or served. */
#define BODIES_MAX	(64UL << 20)
/* For a request that needs no token. Some clients send an empty object with every request. */
#define PROBE_BODY_MAX	64

/**
 * struct listener - one address
 * @api: the server
 * @on: of the configuration
 * @fd: that is listened to
 * @http: of libmicrohttpd
 * @watch: of its epoll
 */
struct listener {
	struct api *api;
	const struct listen_on *on;
	int fd;
	struct MHD_Daemon *http;
	struct watch watch;
};

/**
 * struct api - the server
 * @daemon: whom it serves
 * @listener: its addresses
 * @listeners: how many
 * @timer: when libmicrohttpd wants to run
 * @run: it wants to run in this turn
 * @requests: those whose answer was not sent yet
 * @busy: how many
 * @bodies: room that their bodies have, bytes
 */
struct api {
	struct daemon *daemon;
	struct listener listener[CONFIG_LISTEN_MAX];
	size_t listeners;
	struct alarm timer;
	bool run;
	struct request *requests;
	unsigned int busy;
	size_t bodies;
};

static void request_run(struct api *api)
{
	api->run = true;
	loop_again(api->daemon->loop);
}

/* ---- Answers ---- */

static enum MHD_Result send_answer(struct request *r)
{
	/* The page itself contains the hashes of its script and its style. */
	static const char csp[] = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
	struct MHD_Response *resp;
	enum MHD_Result ret;
	char number[16];

	resp = MHD_create_response_from_buffer(r->text_len, r->text, r->constant ?
					       MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE);
	if (!resp)
		return MHD_NO;
	r->text = NULL;
	MHD_add_response_header(resp, "Content-Type", r->type);
	MHD_add_response_header(resp, "Cache-Control", "no-store");
	MHD_add_response_header(resp, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(resp, "Referrer-Policy", "no-referrer");
	if (!strncmp(r->type, "text/html", 9))
		MHD_add_response_header(resp, "Content-Security-Policy", csp);
	if (r->retry_after) {
		snprintf(number, sizeof(number), "%u", r->retry_after);
		MHD_add_response_header(resp, "Retry-After", number);
	}
	if (r->status == 405)
		MHD_add_response_header(resp, "Allow", r->allow);
	if (r->status == 401)
		MHD_add_response_header(resp, "WWW-Authenticate", "Bearer");
	if (r->too_large || r->close || r->daemon->leaving)
		MHD_add_response_header(resp, "Connection", "close");
	ret = MHD_queue_response(r->conn, r->status, resp);
	MHD_destroy_response(resp);
	return ret;
}

/* ---- Who may ask ---- */

static const char *header(struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->conn, MHD_HEADER_KIND, name);
}

/*
 * An attacker may let a name of their own resolve to this machine, and then a browser would take
 * the attacker's page for ours. So where no token is needed, only names that nobody else can own
 * are accepted.
 */
static bool host_is_safe(const char *host)
{
	size_t name = strcspn(host, ":");

	if (host[0] == '[')
		return true;
	if (name == 9 && !strncasecmp(host, "localhost", 9))
		return true;
	return name && strspn(host, "0123456789.") >= name;
}

static bool origin_is_ours(struct request *r)
{
	const char *origin = header(r, "Origin"), *host = header(r, "Host");
	const char *at;

	if (!origin)
		return true;
	at = strstr(origin, "://");
	return at && host && !strcasecmp(at + 3, host);
}

static bool is_probe(const struct request *r)
{
	return r->method == METHOD_GET && (!strcmp(r->path, "/healthz") ||
					   !strcmp(r->path, "/readyz") || !strcmp(r->path, "/"));
}

static enum MHD_Result count_length(void *arg, enum MHD_ValueKind kind, const char *name,
				    const char *value)
{
	unsigned int *count = arg;

	(void)kind;
	(void)value;
	*count += !strcasecmp(name, "Content-Length") || !strcasecmp(name, "Transfer-Encoding");
	return MHD_YES;
}

/* If there are two lengths, a proxy may see other requests than we do. */
static bool has_one_length(struct request *r)
{
	unsigned int count = 0;

	MHD_get_connection_values(r->conn, MHD_HEADER_KIND, count_length, &count);
	return count < 2;
}

/*
 * Judges a request by its head, so that no byte of a stranger's body is stored. Returns true if
 * the request may continue; otherwise it has been answered.
 */
static bool admit(struct request *r)
{
	const char *host = header(r, "Host");

	if (!has_one_length(r)) {
		request_error(r, 400, "invalid", "Content-Length",
			      "it was sent twice, or together with Transfer-Encoding");
		r->close = true;
		return false;
	}
	if (is_probe(r)) {
		r->body_max = PROBE_BODY_MAX;
		return true;
	}
	if (!access_token(r)) {
		request_error(r, 401, "unauthorized", NULL,
			      "this address requires a bearer token");
		return false;
	}
	if (!r->daemon->config.tokens && r->on->sa.ss_family != AF_UNIX && host &&
	    !host_is_safe(host)) {
		request_error(r, 403, "forbidden", "Host",
			      "without a token, Host must be an address or localhost");
		return false;
	}
	return true;
}

/* Judges a request again after its body was received. */
static bool admit_body(struct request *r)
{
	if (r->too_large)
		request_error(r, 413, "too_large", NULL, "the body of this request may have at most %zu bytes",
			      r->body_max);
	else if (r->no_room)
		request_error(r, 503, "busy", NULL, "too many bodies are being received: try again");
	return !r->answered;
}

/* The type may be followed by a parameter, such as the character set. */
static bool is_json(const char *type)
{
	const size_t len = sizeof(REQUEST_JSON) - 1;

	return type && !strncasecmp(type, REQUEST_JSON, len) && strchr("; \t", type[len]);
}

/* Judges the headers of a request that may change something. */
static bool admit_change(struct request *r)
{
	if (r->method == METHOD_GET)
		return true;
	if (!origin_is_ours(r)) {
		request_error(r, 403, "forbidden", "Origin", "another site may not change anything");
		return false;
	}
	if (header(r, "Content-Encoding")) {
		request_error(r, 400, "invalid", "Content-Encoding", "a body must not be encoded");
		return false;
	}
	/*
	 * A browser does not send this method for a page of another site without asking the
	 * server.
	 */
	if (r->method == METHOD_DELETE && !r->len && !header(r, "Content-Type"))
		return true;
	if (!is_json(header(r, "Content-Type"))) {
		request_error(r, 400, "invalid", "Content-Type",
			      "a request that changes something needs Content-Type: %s",
			      REQUEST_JSON);
		return false;
	}
	return true;
}

/* ---- Requests ---- */

static enum method find_method(const char *name)
{
	static const char *const names[] = { "GET", "POST", "PUT", "PATCH", "DELETE" };

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(name, names[i]))
			return i;
	}
	return strcmp(name, "HEAD") ? METHOD_OTHER : METHOD_GET;
}

static struct request *request_new(struct listener *l, struct MHD_Connection *conn,
				   const char *url, const char *method)
{
	struct request *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->daemon = l->api->daemon;
	r->api = l->api;
	r->run = &l->api->run;
	r->on = l->on;
	r->conn = conn;
	r->body_max = REQUEST_MAX;
	r->method = find_method(method);
	/* A proxy may send a complete URL. */
	if (!strncasecmp(url, "http://", strlen("http://")))
		url = strchrnul(url + strlen("http://"), '/');
	r->path = strdup(url);
	if (!r->path) {
		free(r);
		return NULL;
	}
	l->api->busy++;
	DL_APPEND(l->api->requests, r);
	return r;
}

static void drop_body(struct request *r)
{
	r->api->bodies -= r->room;
	free(r->body);
	r->body = NULL;
	r->room = 0;
	r->len = 0;
}

/* Makes room for more of the body. Returns false if there is none. */
static bool make_room(struct request *r, size_t len)
{
	size_t room = 2 * len + 512;
	char *more;

	if (room > REQUEST_MAX + 1)
		room = REQUEST_MAX + 1;
	if (r->api->bodies - r->room + room > BODIES_MAX)
		return false;
	more = realloc(r->body, room);
	if (!more)
		return false;
	r->api->bodies += room - r->room;
	r->body = more;
	r->room = room;
	return true;
}

static void receive(struct request *r, const char *data, size_t len)
{
	r->received += len;
	r->too_large |= r->received > r->body_max;
	if (!r->too_large && !r->no_room && r->len + len + 1 > r->room)
		r->no_room = !make_room(r, r->len + len);
	if (r->too_large || r->no_room) {
		drop_body(r);
		return;
	}
	memcpy(r->body + r->len, data, len);
	r->len += len;
	r->body[r->len] = '\0';
}

/*
 * Decodes names and values. An escaped slash becomes REQUEST_SLASH, so that it cannot be mistaken
 * for a separator. A NUL byte would end the text too early, and so becomes 0x7f, as REQUEST_SLASH
 * itself does; no name and no value may contain 0x7f.
 */
static size_t unescape(void *arg, struct MHD_Connection *conn, char *text)
{
	size_t len;

	(void)arg;
	(void)conn;
	for (char *at = strchr(text, '%'); at; at = strchr(at + 1, '%')) {
		if (!strncmp(at, "%01", 3))
			memcpy(at, "%7f", 3);
		else if (!strncasecmp(at, "%2f", 3))
			memcpy(at, "%01", 3);
	}
	len = MHD_http_unescape(text);
	for (size_t i = 0; i < len; i++) {
		if (!text[i])
			text[i] = '\x7f';
	}
	return len;
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *conn, const char *url,
			      const char *method, const char *version, const char *data,
			      size_t *len, void **state)
{
	struct request *r = *state;

	(void)version;
	if (!r) {
		r = *state = request_new(arg, conn, url, method);
		if (!r)
			return MHD_NO;
		return admit(r) ? MHD_YES : send_answer(r);
	}
	if (*len) {
		receive(r, data, *len);
		*len = 0;
		return r->received <= 5 * REQUEST_MAX ? MHD_YES : MHD_NO;
	}
	if (!r->started) {
		r->started = true;
		r->handling = true;
		if (admit_body(r) && request_find(r) && request_may(r) && admit_change(r))
			request_serve(r);
		r->handling = false;
	}
	if (r->answered)
		return send_answer(r);
	r->suspended = true;
	MHD_suspend_connection(conn);
	return MHD_YES;
}

static void completed(void *arg, struct MHD_Connection *conn, void **state,
		      enum MHD_RequestTerminationCode code)
{
	struct request *r = *state;

	(void)arg;
	(void)conn;
	if (!r)
		return;
	*state = NULL;
	if (!r->answered) {
		r->suspended = false;
		if (r->started && r->gone)
			r->gone(r);
		if (!r->answered)
			request_end(r);
	}
	r->api->busy--;
	DL_DELETE(r->api->requests, r);
	if (r->finished)
		r->finished(r, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
	if (!r->constant)
		free(r->text);
	request_release(r);
	drop_body(r);
	free(r->path);
	free(r);
}

/* If there were too many connections, libmicrohttpd only accepts again in its next turn. */
static void connection(void *arg, struct MHD_Connection *conn, void **state,
		       enum MHD_ConnectionNotificationCode code)
{
	struct listener *l = arg;

	(void)conn;
	(void)state;
	if (code == MHD_CONNECTION_NOTIFY_CLOSED)
		request_run(l->api);
}

/* ---- The server ---- */

static void ready(struct watch *w, uint32_t events)
{
	(void)events;
	container_of(w, struct listener, watch)->api->run = true;
}

static void timeout(struct alarm *a, uint64_t now)
{
	(void)now;
	container_of(a, struct api, timer)->run = true;
}

static void run(void *arg)
{
	struct api *api = arg;
	uint64_t now;

	if (!api->run)
		return;
	api->run = false;
	now = alarms_now(api->daemon->alarms);
	for (size_t i = 0; i < api->listeners; i++) {
		MHD_UNSIGNED_LONG_LONG ms;

		MHD_run(api->listener[i].http);
		if (MHD_get_timeout(api->listener[i].http, &ms) != MHD_YES)
			continue;
		if (!ms)
			request_run(api);
		else
			alarm_arm_before(api->daemon->alarms, &api->timer,
					 now + ms * NSEC_PER_MSEC);
	}
}

static void http_log(void *arg, const char *fmt, va_list args)
{
	char text[256];

	(void)arg;
	vsnprintf(text, sizeof(text), fmt, args);
	log_often(LOG_INFO, "http: %.*s", (int)strcspn(text, "\n"), text);
}

/*
 * True if a socket in the file system is used by a running daemon. It may also be left from an
 * earlier start.
 */
static bool is_served(const struct listen_on *on)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool served = !connect(fd, (const struct sockaddr *)&on->sa, on->len) || errno == EAGAIN;

	close(fd);
	return served;
}

/* Return: 0, or a negative errno. */
static int clear_path(const struct listen_on *on)
{
	const char *path = ((const struct sockaddr_un *)&on->sa)->sun_path;
	struct stat st;

	if (lstat(path, &st) || !S_ISSOCK(st.st_mode))
		return 0;
	if (is_served(on))
		return -EADDRINUSE;
	unlink(path);
	return 0;
}

static int listen_to(const struct listen_on *on)
{
	int fd = socket(on->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int one = 1, err = 0;

	if (fd < 0)
		return -errno;
	if (on->sa.ss_family == AF_UNIX)
		err = clear_path(on);
	else
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!err && (bind(fd, (const struct sockaddr *)&on->sa, on->len) || listen(fd, 1024)))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int start(struct api *api, struct listener *l, const struct listen_on *on, char err[256])
{
	const union MHD_DaemonInfo *info;

	l->api = api;
	l->on = on;
	l->fd = listen_to(on);
	if (l->fd < 0) {
		snprintf(err, 256, "cannot listen on %s: %s", on->text, strerror(-l->fd));
		return -1;
	}
	l->http = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_TURBO | MHD_ALLOW_SUSPEND_RESUME |
				   MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, l,
				   MHD_OPTION_EXTERNAL_LOGGER, http_log, NULL,
				   MHD_OPTION_LISTEN_SOCKET, l->fd,
				   MHD_OPTION_CONNECTION_LIMIT, CLIENTS_MAX,
				   MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
				   MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
				   MHD_OPTION_NOTIFY_COMPLETED, completed, NULL,
				   MHD_OPTION_NOTIFY_CONNECTION, connection, l,
				   MHD_OPTION_END);
	info = l->http ? MHD_get_daemon_info(l->http, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info) {
		snprintf(err, 256, "cannot serve %s", on->text);
		return -1;
	}
	l->watch.fn = ready;
	l->watch.fd = info->epoll_fd;
	loop_watch(api->daemon->loop, &l->watch, EPOLLIN);
	return 0;
}

struct api *api_new(struct daemon *d, char err[256])
{
	struct api *api = calloc(1, sizeof(*api));

	snprintf(err, 256, "no memory");
	if (!api)
		return NULL;
	api->daemon = d;
	api->timer.fn = timeout;
	alarm_prepare(d->alarms, &api->timer);
	for (size_t i = 0; i < d->config.listens; i++) {
		api->listeners++;
		if (start(api, &api->listener[i], &d->config.listen[i], err)) {
			api_free(api);
			return NULL;
		}
	}
	loop_at_end(d->loop, run, api);
	request_run(api);
	return api;
}

void api_quiesce(struct api *api)
{
	for (size_t i = 0; i < api->listeners; i++) {
		struct listener *l = &api->listener[i];
		int fd = MHD_quiesce_daemon(l->http);

		if (fd < 0)
			continue;
		/*
		 * Do this before the close, because afterwards another daemon may have the path.
		 */
		if (l->on->sa.ss_family == AF_UNIX)
			unlink(((const struct sockaddr_un *)&l->on->sa)->sun_path);
		close(fd);
		l->fd = -1;
	}
}

unsigned int api_busy(const struct api *api)
{
	return api->busy;
}

/* libmicrohttpd must not be stopped while a connection is suspended. */
static void answer_all(struct api *api)
{
	struct request *r, *next;

	DL_FOREACH_SAFE(api->requests, r, next) {
		if (r->suspended)
			request_error(r, 503, "fate_unknown", NULL, "this daemon is stopping, so it is "
				      "not known if the request was carried out: repeat it");
	}
	for (size_t i = 0; i < api->listeners; i++) {
		if (api->listener[i].http)
			MHD_run(api->listener[i].http);
	}
}

void api_free(struct api *api)
{
	if (!api)
		return;
	answer_all(api);
	for (size_t i = 0; i < api->listeners; i++) {
		struct listener *l = &api->listener[i];

		if (l->watch.events)
			loop_watch(api->daemon->loop, &l->watch, 0);
		if (l->http)
			MHD_stop_daemon(l->http);
		else if (l->fd >= 0)
			close(l->fd);
	}
	alarm_disarm(api->daemon->alarms, &api->timer);
	free(api);
}
