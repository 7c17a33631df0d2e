// SPDX-License-Identifier: GPL-2.0
/* Sends one HTTP request to twheeld with libcurl. See transfer.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/un.h>

#include <curl/curl.h>

#include "error.h"
#include "show.h"
#include "transfer.h"

/*
 * How often libcurl is asked while it has no descriptor to wait for, in ms. That happens, for
 * example, while a name server is being asked.
 */
#define ASK_MS		20
#define WAIT_MS		1000

static char why[CURL_ERROR_SIZE];

struct answer {
	char *text;
	size_t len;
	size_t room;
	bool too_long;
};

const char *transfer_why(int err)
{
	return err == -EPROTO && *why ? why : strerror(-err);
}

static size_t take(char *data, size_t size, size_t len, void *arg)
{
	struct answer *a = arg;

	len *= size;
	a->too_long = a->len + len > ANSWER_MAX;
	if (a->too_long)
		return 0;
	while (a->len + len + 1 > a->room)
		a->text = grow_array(a->text, a->room, &a->room, 1);
	memcpy(a->text + a->len, data, len);
	a->len += len;
	return len;
}

/* Makes a URL. The user may name HOST:PORT, or a URL without a path. */
static char *url_of(const struct transfer *t)
{
	const char *host = t->server, *scheme = "http://";
	size_t len;
	char *url;

	if (!strncmp(host, "unix:", 5)) {
		host = strlen(host + 5) < sizeof(((struct sockaddr_un *)0)->sun_path) ?
		       "localhost" : "";
	} else if (!strncmp(host, "https://", 8)) {
		scheme = "https://";
		host += 8;
	} else if (!strncmp(host, "http://", 7)) {
		host += 7;
	} else if (!strrchr(host, ':') || strchr(host, '/')) {
		host = "";
	}
	len = strcspn(host, "/?#@ ");
	if (!len || (host[len] && strcmp(host + len, "/")))
		die(STATUS_USAGE, "\"%s\" is not " SERVER_FORMS, t->server);
	if (asprintf(&url, "%s%.*s%s", scheme, (int)len, host, t->path) < 0)
		die(STATUS_FAILURE, "no memory");
	return url;
}

static struct curl_slist *headers_of(const struct transfer *t)
{
	static const char *const fixed[] = {
		"Accept: application/json", "Content-Type: application/json", "Expect:",
	};
	struct curl_slist *list = NULL;
	char token[600];

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		list = curl_slist_append(list, fixed[i]);
	snprintf(token, sizeof(token), "Authorization: Bearer %s", t->token);
	return *t->token ? curl_slist_append(list, token) : list;
}

static void prepare(CURL *e, const struct transfer *t, const char *url, struct curl_slist *headers,
		    struct answer *a)
{
	curl_easy_setopt(e, CURLOPT_URL, url);
	if (!strncmp(t->server, "unix:", 5))
		curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, t->server + 5);
	if (t->cacert)
		curl_easy_setopt(e, CURLOPT_CAINFO, t->cacert);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, t->method);
	curl_easy_setopt(e, CURLOPT_POSTFIELDS, t->body);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_PROXY, "");
	curl_easy_setopt(e, CURLOPT_TIMEOUT, (long)ANSWER_TIMEOUT);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, a);
}

/* Waits until libcurl can continue or a signal arrives. */
static int wait_for(CURLM *multi, const sigset_t *mask)
{
	fd_set in, out, err;
	struct timespec time;
	long ms = -1;
	int top = -1;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&err);
	curl_multi_fdset(multi, &in, &out, &err, &top);
	curl_multi_timeout(multi, &ms);
	if (ms < 0 || ms > WAIT_MS)
		ms = WAIT_MS;
	if (top < 0 && ms > ASK_MS)
		ms = ASK_MS;
	time = (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	return pselect(top + 1, &in, &out, &err, &time, mask) < 0 ? -errno : 0;
}

static int run(CURLM *multi, const sigset_t *mask, CURLcode *result)
{
	int running, left, err = 0;
	CURLMsg *msg;

	for (;;) {
		if (curl_multi_perform(multi, &running))
			return -ENOMEM;
		msg = curl_multi_info_read(multi, &left);
		if (msg) {
			*result = msg->data.result;
			return 0;
		}
		err = wait_for(multi, mask);
		if (err)
			return err;
	}
}

/* Prefers the errno of the connection, which says more than the result of libcurl. */
static int error_of(CURL *e, CURLcode result, bool too_long)
{
	long err = 0;

	switch (result) {
	case CURLE_OK:
		return 0;
	case CURLE_COULDNT_CONNECT:
		curl_easy_getinfo(e, CURLINFO_OS_ERRNO, &err);
		if (err)
			return -(int)err;
		break;
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_WRITE_ERROR:
		if (too_long)
			return -EMSGSIZE;
		break;
	default:
		break;
	}
	if (!*why)
		snprintf(why, sizeof(why), "%s", curl_easy_strerror(result));
	return -EPROTO;
}

int transfer(const struct transfer *t, int *status, char **text, size_t *len)
{
	struct answer a = { .text = NULL };
	struct curl_slist *headers;
	CURLcode result = CURLE_OK;
	char *url = url_of(t);
	long code = 0;
	CURLM *multi;
	CURL *e;
	int err;

	if (curl_global_init(CURL_GLOBAL_DEFAULT))
		die(STATUS_FAILURE, "libcurl cannot start");
	multi = curl_multi_init();
	e = curl_easy_init();
	headers = headers_of(t);
	if (!multi || !e || !headers)
		die(STATUS_FAILURE, "no memory");
	*why = '\0';
	prepare(e, t, url, headers, &a);
	curl_multi_add_handle(multi, e);
	err = run(multi, t->mask, &result);
	if (!err)
		err = error_of(e, result, a.too_long);
	curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, &code);
	*status = (int)code;
	curl_multi_remove_handle(multi, e);
	curl_easy_cleanup(e);
	/* A command that we run later must not inherit a descriptor. */
	curl_multi_cleanup(multi);
	curl_slist_free_all(headers);
	free(url);
	if (a.text)
		a.text[a.len] = '\0';
	*text = a.text;
	*len = a.len;
	return err;
}
