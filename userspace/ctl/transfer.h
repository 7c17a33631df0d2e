/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One HTTP request to twheeld and its answer. There are two of this: curl.c is libcurl, with
 * names and TLS; plain.c is for a static program, which can look up no names and has no TLS.
 */
#ifndef TWHEELCTL_TRANSFER_H
#define TWHEELCTL_TRANSFER_H

#include <signal.h>
#include <stddef.h>

#define SERVER_FORMS	"HOST:PORT, https://HOST, unix:PATH or the like"

/* An answer has at most as many bytes. */
#define ANSWER_MAX	(64 << 20)
/* In seconds. The daemon answers a waiting worker earlier. */
#define ANSWER_TIMEOUT	90

/**
 * struct transfer - a request
 * @server: as the user named it
 * @cacert: file with the CAs of TLS, or NULL for the system's
 * @token: the bearer token, or empty
 * @method: GET, POST ...
 * @path: with its query
 * @body: JSON, or empty
 * @mask: signals that are blocked while it waits, or NULL
 */
struct transfer {
	const char *server;
	const char *cacert;
	const char *token;
	const char *method;
	const char *path;
	const char *body;
	const sigset_t *mask;
};

/**
 * transfer() - send a request and read its answer
 * @t: the request; it dies with a usage error if this names no server
 * @status: of the answer
 * @text: out: the body of the answer, which the caller frees
 * @len: out: its length
 *
 * Return: 0, or a negative errno. -EINTR: a signal came that the mask lets through.
 */
int transfer(const struct transfer *t, int *status, char **text, size_t *len);

/**
 * transfer_why() - what went wrong in the last transfer
 * @err: what that returned
 */
const char *transfer_why(int err);

#endif /* TWHEELCTL_TRANSFER_H */
