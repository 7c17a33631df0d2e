/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which function serves a path.
 */
#ifndef TWHEELD_HTTP_ROUTES_H
#define TWHEELD_HTTP_ROUTES_H

#include <stdbool.h>

#include "http/request.h"

/**
 * request_find() - find the route of a request
 *
 * Return: false if there is none or a name in it is not valid, and the request is answered.
 */
bool request_find(struct request *r);

/**
 * request_may() - whether the token of a request may do this
 *
 * Return: false if not, and the request is answered.
 */
bool request_may(struct request *r);

/**
 * request_serve() - serve a request, whose route was found
 */
void request_serve(struct request *r);

/**
 * request_release() - the request has ended, and uses its queue no longer
 */
void request_release(struct request *r);

#endif /* TWHEELD_HTTP_ROUTES_H */
