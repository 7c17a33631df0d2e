/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which token a request has, and what the token may do. SIGHUP may replace the tokens while a
 * request is being served, so each of these functions looks the token up again.
 */
#ifndef TWHEELD_HTTP_ACCESS_H
#define TWHEELD_HTTP_ACCESS_H

#include <jansson.h>

#include "config/bearer.h"
#include "http/request.h"

/**
 * access_token() - the token of a request, or one for everything where none is asked for
 *
 * Return: NULL if it has none that is known.
 */
const struct bearer *access_token(const struct request *r);

/**
 * access_admit() - whether a request may do what its route does
 * @wants: what the route wants
 * @all: it shows all queues
 *
 * Return: false if not, and the request is answered.
 */
bool access_admit(struct request *r, enum verb wants, bool all);

/**
 * access_verbs() - the verbs of a request, as JSON
 */
json_t *access_verbs(const struct request *r);

#endif /* TWHEELD_HTTP_ACCESS_H */
