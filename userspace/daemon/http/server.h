/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The HTTP server, in the loop of the daemon.
 */
#ifndef TWHEELD_HTTP_SERVER_H
#define TWHEELD_HTTP_SERVER_H

struct api;
struct daemon;

/**
 * api_new() - listen
 * @d: the daemon
 * @err: the error
 *
 * Return: NULL if an address cannot be listened to.
 */
struct api *api_new(struct daemon *d, char err[256]);

/**
 * api_quiesce() - accept no more connections
 */
void api_quiesce(struct api *api);

/**
 * api_busy() - requests whose answer was not sent yet
 */
unsigned int api_busy(const struct api *api);

void api_free(struct api *api);

#endif /* TWHEELD_HTTP_SERVER_H */
