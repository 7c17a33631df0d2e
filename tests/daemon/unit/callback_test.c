// SPDX-License-Identifier: GPL-2.0
/*
 * Callbacks against tests/lib/sink.py: verdicts, headers, signatures, limits.
 *
 * The loop is the smallest that callback.h allows: an epoll instance and one timeout.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "callback/callback.h"
#include "config/value.h"
#include "tap.h"

#define SECRET1	"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
#define SECRET2	"whsec_OTg3NjU0MzIxMDk4NzY1NDMyMTA5ODc2NTQzMjE="

static int epfd;
static uint64_t timeout_at;
static struct callbacks *callbacks;
static struct callback_result last;
static void *last_user;
static unsigned int done_count, ok_count;

static FILE *sink;
static int sink_stdin;
static unsigned int port;

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- the loop ---- */

static void watch(void *arg, int fd, int events)
{
	struct epoll_event e = { .events = (uint32_t)events, .data.fd = fd };

	(void)arg;
	if (!events)
		epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL);
	else if (epoll_ctl(epfd, EPOLL_CTL_MOD, fd, &e))
		epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &e);
}

static void timer(void *arg, long ms)
{
	(void)arg;
	timeout_at = ms < 0 ? 0 : now_ms() + (uint64_t)ms;
}

static void done(void *arg, void *user, const struct callback_result *result)
{
	(void)arg;
	last = *result;
	last_user = user;
	done_count++;
	ok_count += result->verdict == CALLBACK_OK;
}

static bool backs_off;
static char asked[CALLBACK_ADDRESS_LEN];

static bool may_connect(void *arg, void *user, const char *address)
{
	(void)arg;
	(void)user;
	snprintf(asked, sizeof(asked), "%s", address);
	return !backs_off;
}

static const struct callback_loop loop = { NULL, watch, timer, done, may_connect };

static void run_once(void)
{
	struct epoll_event events[16];
	uint64_t now = now_ms();
	int wait = 100, n, i;

	if (timeout_at)
		wait = timeout_at > now ? (int)(timeout_at - now) : 0;
	n = epoll_wait(epfd, events, ARRAY_SIZE(events), wait < 100 ? wait : 100);
	for (i = 0; i < n; i++)
		callbacks_ready(callbacks, events[i].data.fd, events[i].events);
	if (timeout_at && timeout_at <= now_ms()) {
		timeout_at = 0;
		callbacks_timeout(callbacks);
	}
}

/* Runs until @count requests have ended, for 20 s at most. */
static bool run(unsigned int count)
{
	uint64_t end = now_ms() + 20000;

	while (done_count < count && now_ms() < end)
		run_once();
	return done_count == count;
}

/* ---- requests ---- */

static struct task_body body;
static char url[2048];

static struct callback_request request(const char *path)
{
	body = (struct task_body){
		.method = BODY_POST,
		.timeout_ms = 5000,
		.url = url,
		.header = "",
		.payload = (const uint8_t *)"{\"a\":1}",
		.payload_len = 7,
	};
	if (*path == '/')
		snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", port, path);
	else
		snprintf(url, sizeof(url), "%s", path);
	return (struct callback_request){
		.queue = "mail",
		.id = "t:1",
		.version = 7,
		.first_due_ms = 1795766400000,
		.attempt = 2,
		.body = &body,
		.now_ms = 1795766400999,
		.user = url,
	};
}

static void start(const struct callback_options *opt)
{
	callbacks_free(callbacks);
	timeout_at = 0;
	done_count = 0;
	callbacks = callbacks_new(&loop, opt);
}

/* Sends one request and waits until it ends. */
static bool send_one(const struct callback_request *req)
{
	int err;

	done_count = 0;
	memset(&last, 0x55, sizeof(last));
	err = callback_start(callbacks, req, NULL);
	return !err && !done_count && run(1) && last_user == req->user;
}

static bool get(const char *path)
{
	struct callback_request req = request(path);

	return send_one(&req);
}

/* Returns the line that the sink printed for the last request. */
static const char *sink_line(void)
{
	static char line[65536 * 2];

	return fgets(line, sizeof(line), sink) ? line : "";
}

/* ---- the sink ---- */

static pid_t start_sink(const char *path)
{
	int in[2], out[2];
	pid_t pid;

	if (pipe(in) || pipe(out))
		return -1;
	pid = fork();
	if (!pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[0]);
		close(in[1]);
		close(out[0]);
		close(out[1]);
		execlp("python3", "python3", path, SECRET1, SECRET2, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	/* Make room for the lines of requests that are not read at once. */
	fcntl(out[0], F_SETPIPE_SZ, 1 << 20);
	sink_stdin = in[1];
	sink = fdopen(out[0], "r");
	port = (unsigned int)strtoul(sink_line(), NULL, 10);
	return pid;
}

/* ---- tests ---- */

static struct network loopback;
static struct secret secrets[2];

static struct callback_options options(void)
{
	return (struct callback_options){
		.allow = &loopback,
		.allows = 1,
		.secret = secrets,
		.secrets = 2,
		.connect_timeout_ms = 2000,
	};
}

static const struct {
	const char *path;
	enum callback_verdict verdict;
	int status;
	/* 1: there must be no Retry-After. 0: it is not checked. */
	uint64_t retry_after;
	const char *error;
} rows[] = {
	{ "/status/200", CALLBACK_OK, 200, 1, "" },
	{ "/status/201", CALLBACK_OK, 201, 1, "" },
	{ "/status/204", CALLBACK_OK, 204, 1, "" },
	{ "/status/299", CALLBACK_OK, 299, 1, "" },
	{ "/status/300", CALLBACK_RETRY, 300, 1, "HTTP 300: the answer " },
	{ "/status/400", CALLBACK_RETRY, 400, 1, "HTTP 400: the answer " },
	{ "/status/404", CALLBACK_RETRY, 404, 1, "HTTP 404: the answer " },
	{ "/status/410", CALLBACK_DEAD, 410, 1, "HTTP 410: the answer " },
	{ "/status/500", CALLBACK_RETRY, 500, 1, "HTTP 500: the answer " },
	{ "/status/503", CALLBACK_RETRY, 503, 1, "HTTP 503: the answer " },
	{ "/redirect", CALLBACK_RETRY, 302, 1, "HTTP 302" },
	{ "/retry/429/7", CALLBACK_RETRY, 429, 7000, "HTTP 429" },
	{ "/retry/503/7", CALLBACK_RETRY, 503, 7000, "HTTP 503" },
	{ "/retry/500/7", CALLBACK_RETRY, 500, 1, "HTTP 500" },
	{ "/retry/503/86400", CALLBACK_RETRY, 503, 86400000, "HTTP 503" },
	{ "/retry/503/86401", CALLBACK_RETRY, 503, 86400000, "HTTP 503" },
	{ "/retry/503/99999999999999999999", CALLBACK_RETRY, 503, 0, "HTTP 503" },
	{ "/retry/503/-5", CALLBACK_RETRY, 503, 1, "HTTP 503" },
	{ "/retry/503/soon", CALLBACK_RETRY, 503, 1, "HTTP 503" },
	{ "/date/503/-60", CALLBACK_RETRY, 503, 1, "HTTP 503" },
	{ "/date/503/9000000", CALLBACK_RETRY, 503, 86400000, "HTTP 503" },
	{ "/large/60000", CALLBACK_OK, 200, 1, "" },
	{ "/large/70000", CALLBACK_OK, 200, 1, "" },
	{ "/endless", CALLBACK_OK, 200, 1, "" },
	{ "/headers", CALLBACK_RETRY, 0, 1, "the headers of the answer are too long" },
	{ "/close", CALLBACK_RETRY, 0, 1, "Empty reply from server" },
	{ "/garbage", CALLBACK_RETRY, 0, 1, "Received HTTP/0.9 when not allowed" },
};

static void check_verdicts(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		bool good = get(rows[i].path) && last.verdict == rows[i].verdict &&
			    last.status == rows[i].status &&
			    !strcmp(last.error, rows[i].error);

		if (rows[i].retry_after == 1)
			good = good && !last.has_retry_after;
		else if (rows[i].retry_after)
			good = good && last.has_retry_after &&
			       last.retry_after_ms == rows[i].retry_after;
		if (!ok(good, "%s has its verdict", rows[i].path))
			printf("# %d %d %d %llu \"%s\"\n", last.verdict, last.status,
			       last.has_retry_after,
			       (unsigned long long)last.retry_after_ms, last.error);
		sink_line();
	}
	get("/date/503/60");
	ok(last.has_retry_after && last.retry_after_ms >= 55000 &&
	   last.retry_after_ms <= 60000, "Retry-After may be a date");
	sink_line();
	get("/binary");
	ok(last.status == 500 && strlen(last.error) <= CALLBACK_ERROR_MAX &&
	   strspn(last.error + 10, " ?") >= 32, "bytes of an answer become printable");
	sink_line();
}

static void check_headers(void)
{
	static const char task_headers[] =
		"X-A: 1\0X-Empty: \0Content-Type: text/plain\0Twheel-Attempt: 99\0"
		"Idempotency-Key: mine\0webhook-id: mine\0User-Agent: me";
	static const char bad_header[] = "Host: elsewhere";
	struct callback_request req = request("/status/200");
	const char *line;

	send_one(&req);
	line = sink_line();
	ok(strstr(line, "\"method\": \"POST\""), "the method is POST");
	ok(strstr(line, "\"body\": \"{\\\"a\\\":1}\""), "the payload is the body");
	ok(strstr(line, "\"content-type\": \"application/json\""), "Content-Type is JSON");
	ok(strstr(line, "\"idempotency-key\": \"mail/t:1/7/1795766400000\""),
	   "Idempotency-Key has queue, id, version and first due time");
	ok(strstr(line, "\"twheel-task\": \"t:1\"") && strstr(line, "\"twheel-queue\": \"mail\""),
	   "task and queue are named");
	ok(strstr(line, "\"twheel-attempt\": \"2\""), "the attempt is counted");
	ok(strstr(line, "\"twheel-scheduled-at\": \"1795766400000\""), "the due time is named");
	ok(!strstr(line, "twheel-missed"), "nothing is missed");
	ok(strstr(line, "\"webhook-timestamp\": \"1795766400\""), "the time stamp is seconds");
	ok(strstr(line, "\"webhook-id\": \"tw_"), "the webhook has an id");
	ok(strstr(line, "\"signed\": true"), "both secrets have signed");
	ok(!strstr(line, "\"expect\""), "there is no Expect");

	body.header = task_headers;
	body.headers = 7;
	body.headers_len = sizeof(task_headers);
	body.method = BODY_PUT;
	req.missed = 3;
	send_one(&req);
	line = sink_line();
	ok(strstr(line, "\"method\": \"PUT\""), "the method is the task's");
	ok(strstr(line, "\"x-a\": \"1\"") && strstr(line, "\"x-empty\": \"\""),
	   "headers of the task are sent, also an empty one");
	ok(strstr(line, "text/plain") && !strstr(line, "application/json"),
	   "Content-Type is the task's");
	ok(strstr(line, "\"twheel-attempt\": \"2\"") && !strstr(line, "mine"),
	   "our headers win");
	ok(strstr(line, "\"user-agent\": \"me\""), "User-Agent is the task's");
	ok(strstr(line, "\"twheel-missed\": \"3\""), "missed periods are counted");

	body.header = bad_header;
	body.headers = 1;
	body.headers_len = sizeof(bad_header);
	ok(callback_start(callbacks, &req, NULL) == -EINVAL, "Host is refused");
}

static void check_methods(void)
{
	static const enum body_method methods[] = {
		BODY_GET, BODY_POST, BODY_PUT, BODY_PATCH, BODY_DELETE,
	};
	char want[32];
	size_t i;

	for (i = 0; i < 2 * ARRAY_SIZE(methods); i++) {
		struct callback_request req = request("/status/200");
		const char *line;

		body.method = methods[i / 2];
		if (i % 2)
			body.payload_len = 0;
		snprintf(want, sizeof(want), "\"method\": \"%s\"", body_method_name(body.method));
		send_one(&req);
		line = sink_line();
		ok(last.verdict == CALLBACK_OK && strstr(line, want) &&
		   !strstr(line, "\"body\": \"\"") == !(i % 2) && strstr(line, "\"signed\": true"),
		   "%s %s a body is sent", body_method_name(body.method),
		   i % 2 ? "without" : "with");
	}
}

static void check_refused(void)
{
	static const char *const bad[] = {
		"ftp://127.0.0.1/", "file:///etc/passwd", "http://u:p@127.0.0.1/", "http://",
	};
	struct callback_options opt = options();
	struct callback_request req;
	char text[128];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		req = request(bad[i]);
		ok(callback_start(callbacks, &req, NULL) == -EINVAL, "URL %zu is refused", i);
	}

	opt.allows = 0;
	start(&opt);
	get("/status/200");
	ok(last.verdict == CALLBACK_DEAD && !last.status &&
	   !strcmp(last.error, "refused: 127.0.0.1 is a loopback address, which callback-allow does not "
		   "include"),
	   "127.0.0.1 is refused by default");
	snprintf(text, sizeof(text), "http://localhost:%u/status/200", port);
	get(text);
	ok(last.verdict == CALLBACK_DEAD && strstr(last.error, "loopback"),
	   "localhost is refused by its address");
	snprintf(text, sizeof(text), "http://2130706433:%u/status/200", port);
	get(text);
	ok(last.verdict == CALLBACK_DEAD, "127.0.0.1 as one number is refused");
	snprintf(text, sizeof(text), "http://0x7f.1:%u/status/200", port);
	get(text);
	ok(last.verdict == CALLBACK_DEAD, "0x7f.1 is refused");
	snprintf(text, sizeof(text), "http://[::ffff:127.0.0.1]:%u/status/200", port);
	get(text);
	ok(last.verdict == CALLBACK_DEAD, "::ffff:127.0.0.1 is refused");
	get("http://169.254.169.254/latest/meta-data");
	ok(last.verdict == CALLBACK_DEAD && strstr(last.error, "link-local"),
	   "the metadata service is refused");
}

/* A name that resolves to other addresses than it should. */
static void check_rebinding(void)
{
	char evil[64], both[64], text[64];
	const char *const resolve[] = { evil, both, NULL };
	struct callback_options opt = options();

	snprintf(evil, sizeof(evil), "evil.example:%u:127.0.0.1", port);
	snprintf(both, sizeof(both), "both.example:%u:10.0.0.1,127.0.0.1", port);
	opt.resolve = resolve;
	opt.allows = 0;
	start(&opt);
	snprintf(text, sizeof(text), "http://evil.example:%u/status/200", port);
	get(text);
	ok(last.verdict == CALLBACK_DEAD && strstr(last.error, "127.0.0.1 is a loopback"),
	   "a name that resolves to loopback is refused");
	opt.allows = 1;
	start(&opt);
	get(text);
	ok(last.verdict == CALLBACK_OK, "unless the list allows its address");
	sink_line();
	snprintf(text, sizeof(text), "http://both.example:%u/status/200", port);
	get(text);
	ok(last.verdict == CALLBACK_OK, "of two addresses the one that is allowed is used");
	sink_line();
}

/*
 * The callback code asks its caller before each connection, and reports the address of each
 * answer.
 */
static void check_backing_off(void)
{
	struct callback_options opt = options();
	char address[CALLBACK_ADDRESS_LEN];

	/* Start without any earlier connection. */
	start(&opt);
	snprintf(address, sizeof(address), "127.0.0.1 %u", port);
	backs_off = true;
	get("/status/200");
	ok(last.verdict == CALLBACK_NOT_SENT && last.backing_off && !last.status && !*last.address,
	   "no request goes to an address that backs off");
	is_text(asked, address, "the caller is asked about the address");
	backs_off = false;
	get("/status/200");
	ok(last.verdict == CALLBACK_OK && !last.backing_off,
	   "a request goes there once the rest is over");
	is_text(last.address, address, "the answer comes with its address");
	sink_line();
	*asked = '\0';
	get("/status/500");
	is_text(asked, "", "a connection that is open needs no question");
	is_text(last.address, address, "an answer on an open connection comes with its address");
	sink_line();
}

static void check_times(void)
{
	struct callback_options opt = options();
	struct callback_request req;
	uint64_t begin;

	opt.low_speed_bytes = 1000;
	opt.low_speed_s = 1;
	start(&opt);
	begin = now_ms();
	get("/drip");
	ok(last.verdict == CALLBACK_RETRY && now_ms() - begin < 4500 && strstr(last.error, "slow"),
	   "an answer that drips is ended");
	sink_line();
	get("/slow/2000");
	ok(last.verdict == CALLBACK_OK, "an endpoint may think longer than an answer may drip");
	sink_line();

	req = request("/silent");
	req.timeout_ms = 300;
	begin = now_ms();
	send_one(&req);
	ok(last.verdict == CALLBACK_RETRY && now_ms() - begin >= 300 &&
	   strstr(last.error, "timed out"),
	   "an endpoint without an answer is ended");
	ok(last.took_us >= 300000 && last.took_us < 20000000, "the time is measured");
	sink_line();
	req = request("/drip");
	body.timeout_ms = 300;
	send_one(&req);
	ok(last.verdict == CALLBACK_RETRY && !last.has_retry_after,
	   "the total time is limited by the body");
	sink_line();
	get("http://127.0.0.1:1/");
	ok(last.verdict == CALLBACK_RETRY && !last.status && *last.error,
	   "a connection that is refused is a retry");
	get("http://name.invalid/");
	ok(last.verdict == CALLBACK_RETRY && strstr(last.error, "resolve"),
	   "a name that does not resolve is a retry");
}

static void check_proxy(void)
{
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
	get("/status/200");
	ok(last.verdict == CALLBACK_OK, "a proxy of the environment is ignored");
	unsetenv("http_proxy");
	unsetenv("ALL_PROXY");
	sink_line();
	get("/status/200");
	ok(!strstr(sink_line(), "\"nth\": 1,"), "a connection is used again");
}

static void check_broken(void)
{
	uint64_t end;

	get("/status/200");
	sink_line();
	get("/close");
	ok(strstr(sink_line(), "/close") && last.verdict == CALLBACK_RETRY &&
	   !strcmp(last.error, "the connection ended without an answer"),
	   "a connection that was used before ends without an answer: %s", last.error);
	get("/status/200");
	ok(strstr(sink_line(), "/status/200"),
	   "a request whose connection ended is not sent again");
	for (end = now_ms() + 4200; now_ms() < end;)
		run_once();
	get("/status/200");
	ok(strstr(sink_line(), "\"nth\": 1,"),
	   "a connection that was idle for 4 s is not used again");
}

static void check_abort(void)
{
	struct callback_options opt = options();
	struct callback_request req;
	struct callback *cb[4];
	unsigned int i;

	start(&opt);
	req = request("/silent");
	for (i = 0; i < 4; i++)
		ok(!callback_start(callbacks, &req, &cb[i]), "request %u begins", i + 1);
	is_number(callbacks_running(callbacks), 4, "four requests run");
	for (i = 0; i < 20; i++)
		run_once();
	for (i = 0; i < 4; i++)
		callback_abort(callbacks, cb[i]);
	is_number(callbacks_running(callbacks), 0, "no request runs after an abort");
	is_number(done_count, 0, "an abort calls no done()");
	for (i = 0; i < 4; i++)
		sink_line();
	get("/status/200");
	ok(last.verdict == CALLBACK_OK, "after an abort the next request succeeds");
	sink_line();

	req = request("/silent");
	callback_start(callbacks, &req, NULL);
	callbacks_free(callbacks);
	callbacks = NULL;
	ok(true, "requests that run can be freed");
}

static void check_many(void)
{
	struct callback_options opt = options();
	struct callback_request req;
	unsigned int started, i;
	uint64_t begin;

	ok_count = 0;
	start(&opt);
	req = request("/slow/50");
	begin = now_ms();
	for (started = 0; started < 300; started++) {
		while (callbacks_running(callbacks) == 64)
			run_once();
		callback_start(callbacks, &req, NULL);
	}
	ok(run(300) && ok_count == 300, "300 requests end well");
	ok(now_ms() - begin < 10000, "side by side");
	for (i = 0; i < 300; i++)
		sink_line();
}

/* The certificate is self-signed, for localhost. */
static void check_tls(const char *cert)
{
	struct callback_options opt = options();
	char name[64], address[64];

	snprintf(name, sizeof(name), "https://localhost:%u/status/200", port);
	snprintf(address, sizeof(address), "https://127.0.0.1:%u/status/200", port);
	start(&opt);
	get(name);
	ok(last.verdict == CALLBACK_RETRY && !last.status && strstr(last.error, "certificate"),
	   "a certificate of nobody who is trusted is refused: %s", last.error);
	opt.ca_file = cert;
	start(&opt);
	get(address);
	ok(last.verdict == CALLBACK_RETRY && !last.status && strstr(last.error, "certificate"),
	   "a certificate for another name is refused: %s", last.error);
	get(name);
	ok(last.verdict == CALLBACK_OK, "a valid certificate is accepted");
	sink_line();
}

static void stop_sink(pid_t pid)
{
	callbacks_free(callbacks);
	callbacks = NULL;
	close(sink_stdin);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	fclose(sink);
}

int main(int argc, char **argv)
{
	struct callback_options opt;
	pid_t pid;

	signal(SIGPIPE, SIG_IGN);
	epfd = epoll_create1(0);
	if (argc < 3)
		return 2;
	pid = start_sink(argv[1]);
	if (!ok(port, "the sink runs"))
		return tap_end();
	network_parse("127.0.0.0/8", &loopback);
	secret_parse(SECRET1, &secrets[0]);
	secret_parse(SECRET2, &secrets[1]);
	opt = options();
	start(&opt);
	check_verdicts();
	check_headers();
	check_methods();
	check_refused();
	check_rebinding();
	check_backing_off();
	check_times();
	check_proxy();
	check_broken();
	check_abort();
	check_many();
	stop_sink(pid);
	setenv("SINK_TLS", argv[2], 1);
	pid = start_sink(argv[1]);
	ok(port, "the sink with TLS runs");
	check_tls(argv[2]);
	stop_sink(pid);
	close(epfd);
	return tap_end();
}
