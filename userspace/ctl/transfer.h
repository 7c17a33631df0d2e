/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sends one HTTP request to twheeld and reads the answer. There are two implementations: curl.c
 * uses libcurl, with names and TLS; plain.c is for static programs, which cannot look up names and
 * have no TLS.
 */
#ifndef TWHEELCTL_TRANSFER_H
#define TWHEELCTL_TRANSFER_H

#include <signal.h>
#include <stddef.h>

#define SERVER_FORMS	"HOST:PORT, https://HOST, unix:PATH or the like"

/* Maximum length of an answer in bytes. */
#define ANSWER_MAX	(64 << 20)
/* In seconds. The daemon answers a waiting worker sooner. */
#define ANSWER_TIMEOUT	90

/**
 * struct transfer - a request
 * @server: as the user named it
 * @cacert: file with the trusted CAs, or NULL for those of the system
 * @token: the bearer token, or empty
 * @method: GET, POST ...
 * @path: path and query
 * @body: JSON, or empty
 * @mask: signals that are blocked while transfer() waits, or NULL
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
 * @t: the request; if it names no server, transfer() exits with a usage error
 * @status: out: the HTTP status
 * @text: out: the body of the answer, which the caller frees
 * @len: out: its length
 *
 * Return: 0, or a negative errno. -EINTR: a signal arrived that the mask does not block.
 */
int transfer(const struct transfer *t, int *status, char **text, size_t *len);

/**
 * transfer_why() - what went wrong in the last transfer
 * @err: what transfer() returned
 */
const char *transfer_why(int err);

#endif /* TWHEELCTL_TRANSFER_H */
