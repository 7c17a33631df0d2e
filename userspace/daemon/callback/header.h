/* SPDX-License-Identifier: GPL-2.0 */
/* The headers of a callback. This file does no I/O. */
#ifndef TWHEELD_CALLBACK_HEADER_H
#define TWHEELD_CALLBACK_HEADER_H

#include <curl/curl.h>

#include "callback/request.h"
#include "callback/sign.h"

/*
 * Makes the list of headers. If the task and the daemon set the same header, the daemon wins.
 * Returns 0, -EINVAL if a header is not allowed, or -ENOMEM. The caller must free *@list in each
 * case.
 */
int callback_headers(const struct callback_request *req, const struct signer *signer,
		     struct curl_slist **list);

#endif /* TWHEELD_CALLBACK_HEADER_H */
